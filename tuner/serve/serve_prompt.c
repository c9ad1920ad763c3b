/* What a request wants to be answered: texts, tokens or a chat. */
#include <string.h>

#include "serve_int.h"

/* How messages may be marked, and as what templates know it. */
static const struct {
    const char *theirs, *ours;
} roles[] = {
    {"system", "system"},
    {"developer", "system"},
    {"user", "user"},
    {"assistant", "assistant"},
};

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
    prompt->tokens = is_tokens(item) ? item : NULL;
    return prompt->text || prompt->tokens;
}

spt_status spt_serve_read_prompt(serve_job *job, const cJSON *item,
                                 spt_error *err)
{
    const cJSON *each;
    bool several = cJSON_IsArray(item) && !is_tokens(item);
    size_t count = several ? (size_t)cJSON_GetArraySize(item) : 1;
    bool good = count > 0;
    job->prompts = spt_calloc(count + 1, sizeof *job->prompts);
    if (!job->prompts)
        return spt_fail(err, SPT_E_MEMORY, "prompt: out of memory");
    if (several)
        cJSON_ArrayForEach(each, item) good =
            good && set_prompt(&job->prompts[job->n_prompts++], each);
    else
        good = set_prompt(&job->prompts[job->n_prompts++], item);
    return good ? SPT_OK
                : spt_fail(err, SPT_E_USAGE,
                           "prompt: expected a text, a list of token ids, or "
                           "a list of such");
}

/* The text of parts, a line break between them, kept in the job. */
static spt_status join(serve_job *job, const cJSON *parts, size_t index,
                       const char **text, spt_error *err)
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
            return spt_fail(err, SPT_E_USAGE,
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
        return spt_fail(err, SPT_E_MEMORY, "messages: out of memory");
    }
    *text = item->valuestring;
    return SPT_OK;
}

static spt_status read_message(serve_job *job, const cJSON *item, size_t index,
                               spt_chat_message *message, spt_error *err)
{
    const char *role =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "role"));
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
    const cJSON *calls = cJSON_GetObjectItemCaseSensitive(item, "tool_calls");
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i].theirs) == 0)
            message->role = roles[i].ours;
    if (!message->role)
        return spt_fail(err, SPT_E_USAGE,
                        "messages[%zu].role: '%.40s' is not supported, "
                        "expected system, developer, user or assistant",
                        index, role ? role : "?");
    if (calls && calls->child)
        return spt_fail(err, SPT_E_USAGE,
                        "messages[%zu].tool_calls: is not supported", index);
    if (cJSON_IsArray(content))
        return join(job, content, index, &message->content, err);
    message->content = cJSON_GetStringValue(content);
    if (!message->content)
        return spt_fail(err, SPT_E_USAGE,
                        "messages[%zu].content: expected a text, or a list of "
                        "parts of type text",
                        index);
    return SPT_OK;
}

spt_status spt_serve_read_messages(serve_job *job, const cJSON *item,
                                   spt_error *err)
{
    const cJSON *each;
    if (!cJSON_IsArray(item) || !item->child)
        return spt_fail(err, SPT_E_USAGE,
                        "messages: expected a list of messages");
    job->messages =
        spt_calloc((size_t)cJSON_GetArraySize(item), sizeof *job->messages);
    if (!job->messages)
        return spt_fail(err, SPT_E_MEMORY, "messages: out of memory");
    cJSON_ArrayForEach(each, item)
    {
        size_t i = job->n_messages++;
        SPT_TRY(read_message(job, each, i, &job->messages[i], err));
    }
    return SPT_OK;
}

/* The chat as a text that is the caller's (spt_free). */
static spt_status chat_text(const serve_job *job, char **text, size_t *size,
                            spt_error *err)
{
    spt_engine *engine = job->serve->options.engine;
    SPT_TRY(spt_engine_chat(engine, job->messages, job->n_messages, NULL, 0,
                            size, err));
    *text = spt_calloc(*size + 1, 1);
    if (!*text)
        return spt_fail(err, SPT_E_MEMORY, "messages: out of memory");
    return spt_engine_chat(engine, job->messages, job->n_messages, *text, *size,
                           size, err);
}

/* In two turns: how many, then which. */
static spt_status encode(const serve_job *job, const char *text, size_t size,
                         int32_t **tokens, size_t *count, spt_error *err)
{
    const spt_engine *engine = job->serve->options.engine;
    SPT_TRY(spt_engine_encode(engine, text, size, !job->chat, job->chat, NULL,
                              0, count, err));
    *tokens = spt_calloc(*count + 1, sizeof **tokens);
    if (!*tokens)
        return spt_fail(err, SPT_E_MEMORY, "the prompt: out of memory");
    return spt_engine_encode(engine, text, size, !job->chat, job->chat, *tokens,
                             *count, count, err);
}

static spt_status copy_ids(const cJSON *ids, int32_t **tokens, size_t *count,
                           spt_error *err)
{
    const cJSON *each;
    *tokens = spt_calloc((size_t)cJSON_GetArraySize(ids), sizeof **tokens);
    if (!*tokens)
        return spt_fail(err, SPT_E_MEMORY, "the prompt: out of memory");
    *count = 0;
    cJSON_ArrayForEach(each, ids)(*tokens)[(*count)++] = each->valueint;
    return SPT_OK;
}

spt_status spt_serve_tokens(const serve_choice *choice, int32_t **tokens,
                            size_t *count, spt_error *err)
{
    const serve_job *job = choice->job;
    spt_status status;
    *tokens = NULL;
    if (job->chat) {
        char *text = NULL;
        size_t size = 0;
        status = chat_text(job, &text, &size, err);
        if (status == SPT_OK)
            status = encode(job, text, size, tokens, count, err);
        spt_free(text);
    } else {
        const serve_prompt *p = &job->prompts[choice->index / job->copies];
        status = p->text
                     ? encode(job, p->text, strlen(p->text), tokens, count, err)
                     : copy_ids(p->tokens, tokens, count, err);
    }
    int context = job->serve->info.context;
    if (status == SPT_OK && (*count == 0 || *count >= (size_t)context))
        status = spt_fail(err, SPT_E_USAGE,
                          "the prompt has %zu tokens, expected 1 to %d", *count,
                          context - 1);
    if (status != SPT_OK) {
        spt_free(*tokens);
        *tokens = NULL;
    }
    return status;
}
