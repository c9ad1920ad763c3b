/*
 * Log-probabilities, best_of and empty answers of the server, on a tiny model:
 * prompts that are scored, the best of several, max_tokens 0.
 */
#include "serve_client.h"

#define GREEDY "\"temperature\":0,\"ignore_eos\":true"

static const cJSON *choice_at(const cJSON *root, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(root, "choices"), index);
}

static const cJSON *list_of(const cJSON *choice, const char *name)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(choice, "logprobs"), name);
}

static cJSON *complete(const char *body)
{
    reply r = ask("POST", "/v1/completions", body);
    cJSON *root = parse(&r);
    spt_buf_free(&r.body);
    return root;
}

/* What an answer says of its tokens stands behind what is said of the prompt;
   both are what they are when the whole is the prompt. */
static void test_echo(void)
{
    cJSON *plain = complete("{\"prompt\":\"abc abc\",\"max_tokens\":6,"
                            "\"logprobs\":2," GREEDY "}");
    cJSON *echo = complete("{\"prompt\":\"abc abc\",\"max_tokens\":6,\"n\":2,"
                           "\"logprobs\":2,\"echo\":true," GREEDY "}");
    const cJSON *all = list_of(choice_at(echo, 0), "token_logprobs");
    const cJSON *own = list_of(choice_at(plain, 0), "token_logprobs");
    const cJSON *offsets = list_of(choice_at(echo, 0), "text_offset");
    int n = cJSON_GetArraySize(all), prompt = n - cJSON_GetArraySize(own);
    bool same = prompt > 1;
    for (int i = prompt; i < n; i++)
        same &= cJSON_GetNumberValue(cJSON_GetArrayItem(all, i)) ==
                cJSON_GetNumberValue(cJSON_GetArrayItem(own, i - prompt));
    CHECK(same, "an answer's tokens stand behind the prompt's");
    CHECK(cJSON_IsNull(cJSON_GetArrayItem(all, 0)) &&
              cJSON_IsNull(cJSON_GetArrayItem(
                  list_of(choice_at(echo, 0), "top_logprobs"), 0)) &&
              cJSON_GetNumberValue(cJSON_GetArrayItem(all, 1)) < 0,
          "of which the first has no log-probability");
    CHECK(cJSON_GetArrayItem(offsets, 0)->valueint == 0 &&
              cJSON_GetArrayItem(offsets, prompt)->valueint == 7,
          "offsets count the prompt");
    CHECK(cJSON_Compare(list_of(choice_at(echo, 0), "token_logprobs"),
                        list_of(choice_at(echo, 1), "token_logprobs"), true),
          "a copy says the same");
    cJSON *again = complete("{\"prompt\":\"abc abc\",\"max_tokens\":0,"
                            "\"logprobs\":2,\"echo\":true," GREEDY "}");
    const cJSON *alone = list_of(choice_at(again, 0), "token_logprobs");
    same = cJSON_GetArraySize(alone) == prompt;
    for (int i = 1; i < prompt && same; i++)
        same = cJSON_GetNumberValue(cJSON_GetArrayItem(alone, i)) ==
               cJSON_GetNumberValue(cJSON_GetArrayItem(all, i));
    CHECK(same, "max_tokens 0 scores a prompt alone");
    CHECK_TEXT(text_at(choice_at(again, 0), "text"), "abc abc", "and gives it");
    CHECK_TEXT(text_at(choice_at(again, 0), "finish_reason"), "length",
               "as an answer that is full");
    CHECK(number_at(cJSON_GetObjectItem(again, "usage"), "completion_tokens") ==
              0,
          "of no tokens");
    cJSON_Delete(plain);
    cJSON_Delete(echo);
    cJSON_Delete(again);
}

/* The lists of all chunks of a stream, put together, and their texts. */
static void join(const char *at, cJSON *values, spt_buf *text)
{
    const cJSON *each;
    for (; (at = strstr(at, "data: {")) != NULL; at += 6) {
        cJSON *root = cJSON_ParseWithOpts(at + 6, NULL, false);
        spt_buf_puts(text, text_at(choice_at(root, 0), "text"));
        cJSON_ArrayForEach(each, list_of(choice_at(root, 0), "token_logprobs"))
            cJSON_AddItemToArray(values, cJSON_Duplicate(each, true));
        cJSON_Delete(root);
    }
}

static void test_stream(const char *prompt)
{
    char body[300], streamed[340];
    snprintf(body, sizeof body,
             "{\"prompt\":\"%s\",\"max_tokens\":5,\"logprobs\":1,"
             "\"echo\":true," GREEDY,
             prompt);
    snprintf(streamed, sizeof streamed, "%s,\"stream\":true}", body);
    strcat(body, "}");
    cJSON *whole = complete(body), *values = cJSON_CreateArray();
    reply r = ask("POST", "/v1/completions", streamed);
    spt_buf text = {0};
    spt_buf_puts(&text, "");
    join(r.body.data ? r.body.data : "", values, &text);
    CHECK(cJSON_Compare(values, list_of(choice_at(whole, 0), "token_logprobs"),
                        true),
          "a stream says of tokens what the whole says");
    CHECK_TEXT(text.data, text_at(choice_at(whole, 0), "text"),
               "and its text is the same");
    cJSON_Delete(whole);
    cJSON_Delete(values);
    spt_buf_free(&text);
    spt_buf_free(&r.body);
}

static double mean_of(const cJSON *choice)
{
    const cJSON *each, *list = list_of(choice, "token_logprobs");
    double sum = 0;
    cJSON_ArrayForEach(each, list) sum += each->valuedouble;
    return sum / cJSON_GetArraySize(list);
}

static void test_best(void)
{
    cJSON *all = complete("{\"prompt\":[\"abc\",\"b\"],\"max_tokens\":5,"
                          "\"seed\":3,\"n\":5,\"logprobs\":0}");
    cJSON *best = complete("{\"prompt\":[\"abc\",\"b\"],\"max_tokens\":5,"
                           "\"seed\":3,\"n\":2,\"best_of\":5,\"logprobs\":0}");
    bool good = cJSON_GetArraySize(cJSON_GetObjectItem(best, "choices")) == 4;
    for (int p = 0; p < 2 && good; p++) {
        int better[2] = {0};
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 5; i++)
                better[k] += mean_of(choice_at(all, 5 * p + i)) >
                             mean_of(choice_at(best, 2 * p + k));
        good = better[0] == 0 && better[1] == 1;
    }
    CHECK(good, "the best two of five, in their order, to each prompt");
    for (int i = 0; i < 4; i++)
        CHECK_INT((int)number_at(choice_at(best, i), "index"), i,
                  "are numbered anew");
    CHECK(number_at(cJSON_GetObjectItem(best, "usage"), "completion_tokens") ==
              number_at(cJSON_GetObjectItem(all, "usage"), "completion_tokens"),
          "what was written for it is counted");
    cJSON *plain =
        complete("{\"prompt\":\"b\",\"best_of\":3,\"max_tokens\":2}");
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(choice_at(plain, 0), "logprobs")),
          "log-probabilities that were not asked for are not shown");
    cJSON_Delete(plain);
    cJSON_Delete(all);
    cJSON_Delete(best);
}

/* A prompt that is known is not fed again, and it says so. */
static void test_cached(void)
{
    cJSON *root = NULL;
    for (int i = 0; i < 2; i++) {
        cJSON_Delete(root);
        root = complete("{\"prompt\":\"a prompt of more than sixteen tokens "
                        "that comes twice\",\"max_tokens\":1}");
    }
    const cJSON *details = cJSON_GetObjectItem(
        cJSON_GetObjectItem(root, "usage"), "prompt_tokens_details");
    CHECK(number_at(details, "cached_tokens") >= 16,
          "tokens that were known are counted");
    cJSON_Delete(root);
}

static void test_most_tokens(void)
{
    reply r =
        ask("POST", "/v1/chat/completions",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
            "\"max_completion_tokens\":3,\"max_tokens\":5,"
            "\"tool_choice\":\"none\",\"tools\":[{\"type\":\"function\"}],"
            "\"ignore_eos\":true}");
    cJSON *root = parse(&r);
    CHECK(number_at(cJSON_GetObjectItem(root, "usage"), "completion_tokens") ==
              3,
          "max_completion_tokens goes before max_tokens");
    cJSON_Delete(root);
    spt_buf_free(&r.body);
}

int main(void)
{
    tiny_server server;
    if (tiny_serve((spt_serve_options){.sessions = 3, .queue = 16}, &server)) {
        test_echo();
        test_stream("abc abc");
        test_stream("a");
        test_stream(
            "a text that is longer than the rows of one step have room");
        test_best();
        test_cached();
        test_most_tokens();
    }
    tiny_stop(&server);
    return check_done();
}
