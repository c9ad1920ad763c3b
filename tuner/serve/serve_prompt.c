/* What a request wants to be answered: texts, tokens or a chat. */
#include <string.h>

#include "chat.h"
#include "serve_int.h"
#include "session_int.h"

/* How messages may be marked, and as what templates know it. */
static const struct {
    const char *theirs, *ours;
} roles[] = {
    {"system", "system"},
    {"developer", "system"},
    {"user", "user"},
    {"assistant", "assistant"},
};

#define PROMPT_EXPECTED \
    "prompt: expected a text, a list of token ids, or a list of such"

static bool is_tokens(const cJSON *list)
{
    const cJSON *each;
    if (!cJSON_IsArray(list) || !list->child)
        return false;
    cJSON_ArrayForEach(each, list) if (!cJSON_IsNumber(each) ||
                                       each->valuedouble !=
                                           each->valueint) return false;
    return true;
}

static bool set_prompt(serve_prompt *prompt, const cJSON *item)
{
    prompt->text = cJSON_GetStringValue(item);
    prompt->list = is_tokens(item) ? item : NULL;
    return prompt->text || prompt->list;
}

spt_status spt_serve_read_prompt(serve_job *job, const cJSON *item,
                                 serve_fault *fault)
{
    const cJSON *each;
    bool several = cJSON_IsArray(item) && !is_tokens(item);
    size_t count = several ? (size_t)cJSON_GetArraySize(item) : 1;
    bool good = true;
    if (!count)
        return spt_serve_wrong(fault, SERVE_EMPTY_LIST, PROMPT_EXPECTED);
    job->prompts = spt_calloc(count, sizeof *job->prompts);
    if (!job->prompts)
        return spt_serve_wrong(fault, SERVE_BUSY, "prompt: out of memory");
    if (several)
        cJSON_ArrayForEach(each, item) good =
            good && set_prompt(&job->prompts[job->n_prompts++], each);
    else
        good = set_prompt(&job->prompts[job->n_prompts++], item);
    return good ? SPT_OK : spt_serve_wrong(fault, SERVE_TYPE, PROMPT_EXPECTED);
}

/* The text of parts, a line break between them, kept in the job. */
static spt_status join(serve_job *job, const cJSON *parts, size_t index,
                       const char **text, serve_fault *fault)
{
    spt_buf joined = {0};
    const cJSON *part;
    cJSON_ArrayForEach(part, parts)
    {
        const char *type = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(part, "type"));
        const char *piece = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(part, "text"));
        if (!type || strcmp(type, "text") != 0 || !piece) {
            spt_buf_free(&joined);
            return spt_serve_wrong(
                fault, SERVE_VALUE,
                "messages[%zu].content: a part of type '%.40s', "
                "expected text",
                index, type ? type : "?");
        }
        spt_buf_puts(&joined, part == parts->child ? "" : "\n");
        spt_buf_puts(&joined, piece);
    }
    cJSON *item = cJSON_CreateString(joined.data ? joined.data : "");
    bool failed = joined.failed || !item;
    spt_buf_free(&joined);
    if (!job->texts)
        job->texts = cJSON_CreateArray();
    if (failed || !cJSON_AddItemToArray(job->texts, item)) {
        cJSON_Delete(item);
        return spt_serve_wrong(fault, SERVE_BUSY, "messages: out of memory");
    }
    *text = item->valuestring;
    return SPT_OK;
}

static spt_status read_message(serve_job *job, const cJSON *item, size_t index,
                               spt_message *message, serve_fault *fault)
{
    const char *role =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "role"));
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
    const cJSON *calls = cJSON_GetObjectItemCaseSensitive(item, "tool_calls");
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i].theirs) == 0)
            message->role = roles[i].ours;
    if (!message->role)
        return spt_serve_wrong(fault, role ? SERVE_VALUE : SERVE_MISSING,
                               "messages[%zu].role: '%.40s' is not supported, "
                               "expected system, developer, user or assistant",
                               index, role ? role : "?");
    if (calls && calls->child)
        return spt_serve_wrong(fault, SERVE_UNSUPPORTED,
                               "messages[%zu].tool_calls: is not supported",
                               index);
    if (cJSON_IsArray(content))
        return join(job, content, index, &message->content, fault);
    message->content = cJSON_GetStringValue(content);
    if (!message->content)
        return spt_serve_wrong(
            fault, content ? SERVE_TYPE : SERVE_MISSING,
            "messages[%zu].content: expected a text, or a list of "
            "parts of type text",
            index);
    return SPT_OK;
}

spt_status spt_serve_read_messages(serve_job *job, const cJSON *item,
                                   serve_fault *fault)
{
    const cJSON *each;
    if (!cJSON_IsArray(item) || !item->child)
        return spt_serve_wrong(
            fault, cJSON_IsArray(item) ? SERVE_EMPTY_LIST : SERVE_TYPE,
            "messages: expected a list of messages");
    job->messages =
        spt_calloc((size_t)cJSON_GetArraySize(item), sizeof *job->messages);
    job->prompts = spt_calloc(1, sizeof *job->prompts);
    job->n_prompts = job->prompts != NULL;
    if (!job->messages || !job->prompts)
        return spt_serve_wrong(fault, SERVE_BUSY, "messages: out of memory");
    cJSON_ArrayForEach(each, item)
    {
        size_t i = job->n_messages++;
        SPT_TRY(read_message(job, each, i, &job->messages[i], fault));
    }
    return SPT_OK;
}

static const char *field_of(const serve_job *job)
{
    return job->chat ? "messages" : "prompt";
}

/* A text to tokens, as many as there is room for. */
static spt_status encode(const serve_job *job, spt_text text,
                         const serve_client *client, serve_prompt *prompt,
                         serve_fault *fault)
{
    const spt_engine *engine = job->serve->options.engine;
    const spt_encode_options options = {
        .specials = job->chat,
        .begin = !job->chat,
        .most = (size_t)job->serve->info.context - 1,
        .stop = client->gone,
        .user = client->user,
    };
    spt_ids ids = {0};
    spt_error err;
    spt_status status = spt_tokenizer_encode(engine->tokenizer, text.data,
                                             text.size, options, &ids, &err);
    prompt->tokens = ids.data;
    prompt->count = ids.size;
    if (status == SPT_E_USAGE)
        return spt_serve_wrong(fault, SERVE_CONTEXT,
                               "%s: has %s, expected 1 to %zu", field_of(job),
                               err.text, options.most);
    if (status == SPT_E_FORMAT)
        return spt_serve_wrong(fault, SERVE_VALUE, "%s: %s", field_of(job),
                               err.text);
    return status == SPT_OK ? SPT_OK : spt_serve_failed(fault, &err);
}

static spt_status encode_chat(serve_job *job, const serve_client *client,
                              serve_fault *fault)
{
    const spt_engine *engine = job->serve->options.engine;
    spt_buf text = {0};
    spt_error err;
    spt_status status = spt_chat_text(engine->tokenizer, job->messages,
                                      job->n_messages, true, &text, &err);
    if (status == SPT_E_FORMAT || status == SPT_E_USAGE)
        status = spt_serve_wrong(fault, SERVE_VALUE, "messages: %s", err.text);
    else if (status != SPT_OK)
        status = spt_serve_failed(fault, &err);
    else if (text.failed)
        status = spt_serve_wrong(fault, SERVE_BUSY, "messages: out of memory");
    else
        status = encode(job, (spt_text){text.data ? text.data : "", text.size},
                        client, &job->prompts[0], fault);
    spt_buf_free(&text);
    return status;
}

static spt_status copy_ids(const serve_job *job, serve_prompt *prompt,
                           serve_fault *fault)
{
    const cJSON *each;
    int vocab = job->serve->info.vocab, context = job->serve->info.context;
    int count = cJSON_GetArraySize(prompt->list);
    if (count >= context)
        return spt_serve_wrong(fault, SERVE_CONTEXT,
                               "prompt: has %d tokens, expected 1 to %d", count,
                               context - 1);
    prompt->tokens = spt_calloc((size_t)count, sizeof *prompt->tokens);
    if (!prompt->tokens)
        return spt_serve_wrong(fault, SERVE_BUSY, "prompt: out of memory");
    cJSON_ArrayForEach(each, prompt->list)
    {
        if (each->valueint < 0 || each->valueint >= vocab)
            return spt_serve_wrong(fault, SERVE_VALUE,
                                   "prompt: token %zu is %d, expected 0 to %d",
                                   prompt->count, each->valueint, vocab - 1);
        prompt->tokens[prompt->count++] = each->valueint;
    }
    return SPT_OK;
}

static spt_status encode_prompt(serve_job *job, const serve_client *client,
                                serve_prompt *p, serve_fault *fault)
{
    if (job->chat)
        SPT_TRY(encode_chat(job, client, fault));
    else if (p->text)
        SPT_TRY(encode(job, (spt_text){p->text, strlen(p->text)}, client, p,
                       fault));
    else
        SPT_TRY(copy_ids(job, p, fault));
    if (p->count == 0)
        return spt_serve_wrong(fault, SERVE_VALUE,
                               "%s: has 0 tokens, expected 1 to %d",
                               field_of(job), job->serve->info.context - 1);
    return SPT_OK;
}

spt_status spt_serve_encode(serve_job *job, const serve_client *client,
                            serve_fault *fault)
{
    for (size_t i = 0; i < job->n_prompts; i++)
        SPT_TRY(encode_prompt(job, client, &job->prompts[i], fault));
    for (size_t i = 0; i < job->n_prompts; i++)
        job->prompts[i] = (serve_prompt){.tokens = job->prompts[i].tokens,
                                         .count = job->prompts[i].count};
    cJSON_DeleteItemFromObjectCaseSensitive(job->body, "prompt");
    cJSON_DeleteItemFromObjectCaseSensitive(job->body, "messages");
    cJSON_Delete(job->texts);
    spt_free(job->messages);
    job->texts = NULL;
    job->messages = NULL;
    job->n_messages = 0;
    return SPT_OK;
}

serve_prompt *spt_serve_prompt_of(const serve_choice *choice)
{
    return &choice->job->prompts[choice->index / choice->job->copies];
}
