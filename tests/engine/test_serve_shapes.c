/*
 * Answers of the server in the shapes of OpenAI's API, on a tiny model: whole
 * and streamed, several, with log probabilities; errors.
 */
#include "serve_client.h"

static char *plain_text; /* of the greedy completion below */

static void test_completion(void)
{
    char *body = with(",\"logprobs\":2");
    reply r = ask("POST", "/v1/completions", body);
    cJSON *root = parse(&r);
    const cJSON *choice = first_choice(root);
    const cJSON *usage = cJSON_GetObjectItem(root, "usage");
    CHECK_INT(r.code, 200, "a completion");
    CHECK_TEXT(text_at(root, "object"), "text_completion", "has its kind");
    CHECK_TEXT(text_at(choice, "finish_reason"), "length", "its end");
    CHECK(number_at(usage, "completion_tokens") == 6 &&
              number_at(usage, "prompt_tokens") > 3,
          "its counts");
    const cJSON *logprobs = cJSON_GetObjectItem(choice, "logprobs");
    CHECK(cJSON_GetArraySize(cJSON_GetObjectItem(logprobs, "tokens")) == 6 &&
              cJSON_GetNumberValue(cJSON_GetArrayItem(
                  cJSON_GetObjectItem(logprobs, "token_logprobs"), 0)) < 0,
          "and its log probabilities");
    plain_text = spt_strdup(text_at(choice, "text"));
    cJSON_Delete(root);
    spt_buf_free(&r.body);
    spt_free(body);
}

static void test_stream(void)
{
    char *body =
        with(",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    reply r = ask("POST", "/v1/completions", body);
    spt_buf text = {0};
    bool done = false;
    CHECK_INT(r.code, 200, "a streamed completion");
    CHECK(read_stream(&r, &text, &done) > 1 && done, "comes in parts");
    CHECK_TEXT(text.data ? text.data : "", plain_text,
               "that give the text of the whole one");
    CHECK(r.body.data && strstr(r.body.data, "\"total_tokens\""),
          "and its counts");
    spt_buf_free(&text);
    spt_buf_free(&r.body);
    spt_free(body);
}

static void test_chat(void)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
        "\"max_tokens\":4,\"temperature\":0,\"seed\":1,\"model\":\"tiny\","
        "\"logprobs\":true,\"top_logprobs\":1,\"draft_length\":-1";
    char whole[400], streamed[400];
    snprintf(whole, sizeof whole, "%s}", body);
    snprintf(streamed, sizeof streamed, "%s,\"stream\":true}", body);
    reply r = ask("POST", "/v1/chat/completions", whole);
    reply s = ask("POST", "/v1/chat/completions", streamed);
    cJSON *root = parse(&r);
    const cJSON *message = cJSON_GetObjectItem(first_choice(root), "message");
    spt_buf text = {0};
    bool done = false;
    CHECK_INT(r.code, 200, "a chat completion");
    CHECK_TEXT(text_at(message, "role"), "assistant", "is the assistant's");
    read_stream(&s, &text, &done);
    CHECK(done && strstr(s.body.data, "\"role\":\"assistant\""),
          "a streamed one too");
    CHECK_TEXT(text.data ? text.data : "", text_at(message, "content"),
               "and has the same text");
    CHECK(strstr(r.body.data, "\"top_logprobs\":[{"), "with alternatives");
    cJSON_Delete(root);
    spt_buf_free(&text);
    spt_buf_free(&r.body);
    spt_buf_free(&s.body);
}

/* 80 bytes with an "x" before them end within a character. */
#define AE10 "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
#define LONG AE10 AE10 AE10 AE10 AE10

#define HI "{\"role\":\"user\",\"content\":\"hi\"}"

/* Requests that differ in what must not matter get the same text. */
static void test_same(void)
{
    static const char *const chats[] = {
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"}," HI "],",
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"s\"}," HI "],",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":"
        "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}],",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"}," HI "],"
        "\"tools\":[],\"tool_choice\":\"none\",\"no_such_field\":{\"a\":1},"
        "\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"],",
    };
    char *first = NULL;
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        spt_buf body = {0};
        spt_buf_printf(&body,
                       "%s\"max_completion_tokens\":5,\"temperature\":0,"
                       "\"ignore_eos\":true}",
                       chats[i]);
        reply r = ask("POST", "/v1/chat/completions", body.data);
        cJSON *root = parse(&r);
        const cJSON *message =
            cJSON_GetObjectItem(first_choice(root), "message");
        const char *text = text_at(message, "content");
        if (!first)
            first = spt_strdup(text);
        CHECK_TEXT(text, first, "the same chat gets the same answer");
        CHECK(cJSON_IsNull(cJSON_GetObjectItem(message, "refusal")),
              "no refusal");
        cJSON_Delete(root);
        spt_buf_free(&r.body);
        spt_buf_free(&body);
    }
    spt_free(first);
}

static const cJSON *choice_at(const cJSON *root, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(root, "choices"), index);
}

/* Two answers to each of two prompts, the second one as tokens. */
static void test_several(void)
{
    char *body = with(",\"n\":2,\"echo\":true");
    char *list = spt_strdup(body);
    spt_buf both = {0};
    spt_buf_printf(&both, "{\"prompt\":[\"abc abc\",[97,98]],%s",
                   strstr(list, "\"max_tokens\""));
    reply r = ask("POST", "/v1/completions", both.data);
    cJSON *root = parse(&r);
    spt_buf echoed = {0};
    spt_buf_printf(&echoed, "abc abc%s", plain_text);
    for (int i = 0; i < 4; i++)
        CHECK_INT((int)number_at(choice_at(root, i), "index"), i,
                  "answers in their order");
    CHECK_TEXT(text_at(choice_at(root, 0), "text"), echoed.data,
               "with their prompt");
    CHECK_TEXT(text_at(choice_at(root, 1), "text"), echoed.data,
               "greedy copies are equal");
    CHECK(strncmp(text_at(choice_at(root, 3), "text"), "ab", 2) == 0,
          "a prompt of tokens, too");
    const cJSON *usage = cJSON_GetObjectItem(root, "usage");
    CHECK(number_at(usage, "prompt_tokens") == 7 + 2 - 2 &&
              number_at(usage, "completion_tokens") == 24,
          "a prompt is counted once");
    cJSON_Delete(root);
    spt_buf_free(&r.body);
    spt_buf_free(&both);
    spt_buf_free(&echoed);
    spt_free(list);
    spt_free(body);
}

/* With a temperature the copies differ, and are those of their seeds. */
static void test_copies(void)
{
    char body[400];
    char *texts[3] = {0};
    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body,
                 "{\"prompt\":\"abc\",\"max_tokens\":12,\"seed\":%d,"
                 "\"ignore_eos\":true,\"n\":%d}",
                 7 + i, 2 - i);
        reply r = ask("POST", "/v1/completions", body);
        cJSON *root = parse(&r);
        texts[2 * i] = spt_strdup(text_at(choice_at(root, 0), "text"));
        if (i == 0)
            texts[1] = spt_strdup(text_at(choice_at(root, 1), "text"));
        cJSON_Delete(root);
        spt_buf_free(&r.body);
    }
    CHECK(strcmp(texts[0], texts[1]) != 0, "copies differ");
    CHECK_TEXT(texts[1], texts[2], "the second is that of the next seed");
    for (int i = 0; i < 3; i++)
        spt_free(texts[i]);
}

static long counter(const char *name)
{
    char start[80];
    reply r = ask("GET", "/metrics", "");
    snprintf(start, sizeof start, "\n%s{model_name=\"tiny\"} ", name);
    const char *at = r.body.data ? strstr(r.body.data, start) : NULL;
    long value = at ? strtol(at + strlen(start), NULL, 10) : -1;
    spt_buf_free(&r.body);
    return value;
}

static long tokens_fed(void)
{
    return counter("vllm:prompt_tokens_total") -
           counter("vllm:prompt_tokens_cached_total");
}

/* A prompt of 150 tokens and 3 answers: it is read once. */
static void test_prompt_once(void)
{
    spt_buf body = {0};
    long fed = tokens_fed();
    spt_buf_puts(&body, "{\"max_tokens\":4,\"n\":3,\"ignore_eos\":true,"
                        "\"prompt\":\"");
    for (int i = 0; i < 15; i++)
        spt_buf_puts(&body, "0123456789");
    spt_buf_puts(&body, "\"}");
    reply r = ask("POST", "/v1/completions", body.data);
    fed = tokens_fed() - fed;
    CHECK_INT(r.code, 200, "three answers to a long prompt");
    CHECK(fed >= 150 && fed < 150 + 2 * 32, "which was read once (%ld tokens)",
          fed);
    spt_buf_free(&r.body);
    spt_buf_free(&body);
}

/* Chunks of a chat's two answers; a number each time, counts at the end. */
static void test_stream_several(void)
{
    reply r = ask("POST", "/v1/chat/completions",
                  "{\"messages\":[" HI "],\"max_tokens\":3,\"n\":2,"
                  "\"ignore_eos\":true,\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":true}}");
    const char *body = r.body.data ? r.body.data : "";
    CHECK_INT(r.code, 200, "a stream of two answers");
    CHECK_HAS(body,
              "\"choices\":[{\"index\":0,\"finish_reason\":null,"
              "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
              "begins the first");
    CHECK_HAS(body,
              "\"choices\":[{\"index\":1,\"finish_reason\":null,"
              "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
              "and the second");
    CHECK_HAS(body, "\"usage\":null", "has no counts at first");
    CHECK_HAS(body, "\"choices\":[],\"usage\":{\"prompt_tokens\":",
              "but in its last chunk");
    CHECK_HAS(body, "\"completion_tokens\":6", "those of both");
    spt_buf_free(&r.body);
}

/* The second token of "abc" with log probabilities, in either shape. */
static void test_logprobs(void)
{
    char *body = with(",\"logprobs\":1,\"logit_bias\":{\"195\":100}");
    reply r = ask("POST", "/v1/completions", body);
    cJSON *root = parse(&r);
    const cJSON *lists = cJSON_GetObjectItem(first_choice(root), "logprobs");
    const cJSON *offsets = cJSON_GetObjectItem(lists, "text_offset");
    const cJSON *tops = cJSON_GetObjectItem(lists, "top_logprobs");
    CHECK(cJSON_GetArraySize(offsets) == 6 &&
              cJSON_GetArrayItem(offsets, 0)->valueint == 0 &&
              cJSON_GetArrayItem(offsets, 5)->valueint == 5,
          "where each token begins");
    CHECK(cJSON_GetObjectItem(cJSON_GetArrayItem(tops, 0), "\xef\xbf\xbd"),
          "the token is among its alternatives");
    cJSON_Delete(root);
    spt_buf_free(&r.body);
    spt_free(body);
    r = ask("POST", "/v1/chat/completions",
            "{\"messages\":[" HI "],\"max_tokens\":1,\"logprobs\":true,"
            "\"top_logprobs\":1,\"temperature\":0,"
            "\"logit_bias\":{\"195\":100}}");
    CHECK_HAS(r.body.data ? r.body.data : "",
              "\"logprobs\":{\"content\":[{\"token\":\"\xef\xbf\xbd\",",
              "a part of a character");
    CHECK_HAS(r.body.data ? r.body.data : "", "\"bytes\":[195],",
              "has its bytes");
    spt_buf_free(&r.body);
}

static const struct {
    const char *method, *path, *body, *says;
    int code;
} refusals[] = {
    {"GET", "/nowhere", "", "there is nothing", 404},
    {"GET", "/v1/completions", "", "GET, expected POST", 405},
    {"POST", "/v1/completions", "{", "request:1:1: JSON ends early", 400},
    {"POST", "/v1/completions", "[]", "expected a JSON object", 400},
    {"POST", "/v1/completions", "{}", "prompt: is missing", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"\"}", "has 0 tokens", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":129}",
     "n: expected a number from 1 to 128", 400},
    {"POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"n\":65}",
     "n: 130 answers in all, expected at most 128", 400},
    {"POST", "/v1/completions",
     "{\"prompt\":\"a\",\"best_of\":2,\"stream\":true}",
     "best_of: expected n (1)", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"best_of\":1,\"n\":2}",
     "best_of: expected at least n (2)", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"stream_options\":{}}",
     "stream_options: expected stream to be true", 400},
    {"POST", "/v1/chat/completions", "{\"messages\":[" HI "],\"max_tokens\":0}",
     "max_tokens: expected a number from 1 to 16777216", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\"}",
     "suffix: is not supported", 400},
    {"POST", "/v1/completions", "{\"prompt\":[]}",
     "prompt: expected a text, a list of token ids", 400},
    {"POST", "/v1/completions", "{\"prompt\":[1,1.5]}",
     "prompt: expected a text, a list of token ids", 400},
    {"POST", "/v1/completions", "{\"prompt\":[1,100000]}",
     "token 1 is 100000, expected 0 to", 400},
    {"POST", "/v1/completions", "{\"prompt\":[\"a\",\"\"]}",
     "prompt: has 0 tokens", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"temperature\":-1}",
     "temperature: expected a number from 0 to 100", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"stop\":\"\"}",
     "stop: expected up to 16 texts", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1.5}",
     "max_tokens: expected a whole number", 400},
    {"POST", "/v1/completions",
     "{\"prompt\":\"a\",\"logit_bias\":{\"99999\":1}}",
     "logit_bias: expected token ids", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"other\"}",
     "'other' is not served, expected tiny", 404},
    {"POST", "/v1/chat/completions", "{\"messages\":[]}",
     "messages: expected a list", 400},
    {"POST", "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\"}]}",
     "messages[0].content: expected a text", 400},
    {"POST", "/v1/chat/completions",
     "{\"messages\":[" HI ",{\"role\":\"tool\",\"content\":\"x\"}]}",
     "messages[1].role: 'tool' is not supported", 400},
    {"POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
     "\"image_url\"}]}]}",
     "messages[0].content: a part of type 'image_url', expected text", 400},
    {"POST", "/v1/chat/completions",
     "{\"messages\":[" HI "],\"tools\":[{\"type\":\"function\"}]}",
     "tools: is not supported", 400},
    {"POST", "/v1/chat/completions",
     "{\"messages\":[" HI "],\"tool_choice\":\"required\"}",
     "tool_choice: expected none", 400},
    {"POST", "/v1/chat/completions",
     "{\"messages\":[" HI "],\"response_format\":{\"type\":"
     "\"json_object\"}}",
     "response_format: the type 'json_object' is not supported, expected "
     "text",
     400},
    {"GET", "/v1/models/other", "", "'other' is not served, expected tiny",
     404},
    {"POST", "/v1/completions",
     "{\"prompt\":\"a\",\"stream\":true,\"prompt\":7}",
     "prompt: is there twice", 400},
    {"POST", "/v1/completions",
     "{\"prompt\":\"a\",\"logit_bias\":{\"1\":1,\"2\":1,\"3\":1,\"4\":1},"
     "\"logit_bias\":{\"1\":1},\"max_tokens\":1}",
     "logit_bias: is there twice", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\\u0000b\"}",
     "has the character U+0000", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"x" LONG "\"}",
     "?' is not served", 404},
    {"POST", "/v1/completions",
     "{\"prompt\":\"a\",\"stream_options\":5,\"max_tokens\":1}",
     "stream_options: expected an object", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":-1}",
     "max_tokens: expected a number from 0 to 16777216", 400},
};

/* The field that is wrong, and OpenAI's word for it. */
static const struct {
    const char *fields, *param, *code;
    bool chat;
} codes[] = {
    {"\"prompt\":\"a\",\"n\":129", "\"n\"", "\"integer_above_max_value\"", 0},
    {"\"prompt\":\"a\",\"n\":0", "\"n\"", "\"integer_below_min_value\"", 0},
    {"\"prompt\":\"a\",\"n\":\"1\"", "\"n\"", "\"invalid_type\"", 0},
    {"\"prompt\":\"a\",\"top_p\":2", "\"top_p\"", "\"decimal_above_max_value\"",
     0},
    {"\"prompt\":\"a\",\"top_p\":-2", "\"top_p\"",
     "\"decimal_below_min_value\"", 0},
    {"\"prompt\":[]", "\"prompt\"", "\"empty_array\"", 0},
    {"\"prompt\":3", "\"prompt\"", "\"invalid_type\"", 0},
    {"\"n\":1", "\"prompt\"", "\"missing_required_parameter\"", 0},
    {"\"prompt\":\"a\",\"suffix\":\"b\"", "\"suffix\"",
     "\"unsupported_parameter\"", 0},
    {"\"prompt\":\"a\",\"model\":\"b\"", "\"model\"", "\"model_not_found\"", 0},
    {"\"prompt\":\"\xff\"", "\"prompt\"", "\"invalid_value\"", 0},
    {"\"messages\":[" HI "],\"response_format\":{\"type\":\"json_schema\"}",
     "\"response_format\"", "\"unsupported_value\"", 1},
    {"\"messages\":[" HI ",{\"role\":\"x\",\"content\":\"\"}]",
     "\"messages[1].role\"", "\"invalid_value\"", 1},
    {"\"messages\":[{\"role\":\"user\"}]", "\"messages[0].content\"",
     "\"missing_required_parameter\"", 1},
    {"\"prompt\":\"a", "null", "null", 0},
};

static void test_codes(void)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char body[200], expected[200];
        snprintf(body, sizeof body, "{%s}", codes[i].fields);
        snprintf(expected, sizeof expected,
                 "\"type\":\"invalid_request_error\",\"param\":%s,\"code\":%s}",
                 codes[i].param, codes[i].code);
        reply r = ask(
            "POST", codes[i].chat ? "/v1/chat/completions" : "/v1/completions",
            body);
        CHECK_HAS(r.body.data ? r.body.data : "", expected,
                  "an error names the field and its kind");
        spt_buf_free(&r.body);
    }
}

static void test_errors(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        reply r = ask(refusals[i].method, refusals[i].path, refusals[i].body);
        CHECK_INT(r.code, refusals[i].code, "a wrong request is refused");
        CHECK_HAS(r.body.data ? r.body.data : "", refusals[i].says,
                  "and the answer says why");
        spt_buf_free(&r.body);
    }
}

/* Any value in any field gives an answer or a refusal, both in JSON. */
static void test_any_value(void)
{
    static const char *const names[] = {
        "prompt",         "messages",
        "max_tokens",     "temperature",
        "top_p",          "top_k",
        "seed",           "logit_bias",
        "stop",           "stop_token_ids",
        "ignore_eos",     "stream",
        "stream_options", "logprobs",
        "echo",           "n",
        "best_of",        "response_format",
        "tool_choice",    "modalities",
        "tools",          "model",
        "suffix",         "x",
        "draft_length",   "presence_penalty",
    };
    static const char *const values[] = {
        "null",
        "true",
        "0",
        "-1",
        "1e300",
        "\"\"",
        "\"x\"",
        "[]",
        "{}",
        "[[]]",
        "[[1],[2]]",
        "[1,-1]",
        "[null]",
        "[{\"type\":\"text\"}]",
        "{\"type\":{}}",
        "[{\"role\":\"user\",\"content\":[{}]}]",
        "{\"1\":null}",
    };
    int odd = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char body[200];
            bool chat = v % 2, own = i < 2;
            snprintf(body, sizeof body, "{%s\"%s\":%s%s}",
                     own    ? ""
                     : chat ? "\"messages\":[" HI "],"
                            : "\"prompt\":\"a\",",
                     names[i], values[v], i == 2 ? "" : ",\"max_tokens\":1");
            reply r =
                ask("POST", chat ? "/v1/chat/completions" : "/v1/completions",
                    body);
            const char *text = r.body.data ? r.body.data : "";
            bool stream = strncmp(text, "data: ", 6) == 0;
            cJSON *root =
                cJSON_ParseWithOpts(text + (stream ? 6 : 0), NULL, !stream);
            bool good = root && (r.code == 200 || r.code == 400 ||
                                 (r.code == 404 && strstr(text, "served")));
            if (!good)
                printf("# %d to %s: %s\n", r.code, body, text);
            odd += !good;
            cJSON_Delete(root);
            spt_buf_free(&r.body);
        }
    CHECK_INT(odd, 0, "any value in any field is answered or refused");
}

static void test_rest(void)
{
    reply health = ask("GET", "/health", "");
    reply models = ask("GET", "/v1/models", "");
    reply metrics = ask("GET", "/metrics", "");
    CHECK(health.code == 200 && models.code == 200 && metrics.code == 200,
          "health, models and metrics");
    CHECK_HAS(models.body.data, "\"id\":\"tiny\"", "name the model");
    CHECK_HAS(metrics.body.data,
              "vllm:request_success_total{model_name=\"tiny\","
              "finished_reason=\"length\"} ",
              "count requests");
    CHECK_HAS(metrics.body.data, "vllm:generation_tokens_total{", "and tokens");
    spt_buf_free(&health.body);
    spt_buf_free(&models.body);
    spt_buf_free(&metrics.body);
    reply one = ask("GET", "/v1/models/tiny", "");
    CHECK_HAS(one.body.data ? one.body.data : "",
              "{\"id\":\"tiny\",\"object\":\"model\"", "one model");
    spt_buf_free(&one.body);
}

int main(void)
{
    tiny_server server;
    if (tiny_serve((spt_serve_options){.sessions = 3, .queue = 16}, &server)) {
        test_completion();
        test_stream();
        test_chat();
        test_same();
        test_several();
        test_copies();
        test_prompt_once();
        test_stream_several();
        test_logprobs();
        test_errors();
        test_codes();
        test_any_value();
        test_rest();
    }
    tiny_stop(&server);
    spt_free(plain_text);
    return check_done();
}
