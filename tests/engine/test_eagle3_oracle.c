/*
 * What an EAGLE-3 head drafts, step by step while its target writes, against
 * torch in double precision (tests/fixtures/eagle3_drafts.py): the text, and
 * each draft up to where the best logit is too close to the second to tell
 * them apart in 16 bits.
 */
#include "json.h"
#include "tiny_engine.h"
#include "tiny_head.h"

enum { PROMPT = 37, ANSWER = 20, DRAFTS = 4, CONTEXT = 96 };

static const char FIXTURE[] = "tests/fixtures/eagle3_drafts.json";

/* Logits of a few units, after about twenty roundings to fp16. */
static const double CLOSE = 0.03;

static spt_error err;

static double number_at(const cJSON *object, const char *field, int i)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, field);
    return cJSON_GetNumberValue(cJSON_GetArrayItem(list, i));
}

static spt_engine *open_engine(bool more)
{
    char path[64];
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    tiny_head h = tiny_head_of(&t);
    h.norm_residual = h.qk_norm = h.own_embed = more;
    tiny_head_write(&h, path);
    const spt_engine_options o = {
        .context = CONTEXT,
        .draft_length = DRAFTS,
        .draft = {.method = SPT_DRAFT_EAGLE3, .model = path}};
    spt_engine *e = tiny_open(&t, &o);
    tiny_head_remove(path);
    return e;
}

static const cJSON *step_of(const cJSON *head, int length)
{
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(head, "steps"), *step;
    cJSON_ArrayForEach(step, steps)
    {
        const cJSON *at = cJSON_GetObjectItemCaseSensitive(step, "length");
        if (cJSON_GetNumberValue(at) == length)
            return step;
    }
    return NULL;
}

/* Drafts of the session's last step that were compared; -1: one differs. */
static int compare(const spt_draft *draft, const cJSON *step)
{
    int n = 0;
    while (n < draft->count && number_at(step, "margins", n) > CLOSE) {
        if (draft->token[n + 1] != (int)number_at(step, "drafts", n))
            return -1;
        n++;
    }
    return n;
}

static void check_head(const cJSON *root, const cJSON *head, bool more)
{
    spt_engine *e = open_engine(more);
    spt_session *s = NULL;
    int32_t text[PROMPT + ANSWER];
    const spt_session_options options = {.draft_length = DRAFTS};
    const spt_answer_options answer = {.max_tokens = ANSWER,
                                       .ignore_end = true};
    for (int i = 0; i < PROMPT + ANSWER; i++)
        text[i] = (int32_t)number_at(root, "text", i);
    CHECK(spt_session_open(e, &options, &s, &err) == SPT_OK &&
              spt_session_sync(s, text, PROMPT, NULL, &err) == SPT_OK &&
              spt_session_answer(s, &answer, &err) == SPT_OK,
          "an answer begins");
    int compared = 0, steps = 0, differ = 0;
    while (!spt_session_finish(s)) {
        const cJSON *step = step_of(head, s->sequence.n_tokens);
        if (!CHECK_OK(spt_engine_step(e, &s, 1, &err), &err, "a step"))
            break;
        if (!s->draft.count || !step)
            continue;
        int n = compare(&s->draft, step);
        differ += n < 0;
        compared += n;
        steps++;
    }
    CHECK(s->sequence.n_tokens == PROMPT + ANSWER &&
              memcmp(s->sequence.tokens, text, sizeof text) == 0,
          "the text is torch's");
    CHECK(!differ && steps > 10 && compared > 2 * steps,
          "%s head: %d drafts of %d steps are torch's", more ? "a full" : "a",
          compared, steps);
    spt_session_close(s);
    spt_engine_close(e);
}

int main(void)
{
    cJSON *root = NULL;
    if (!CHECK_OK(spt_json_read(FIXTURE, 1 << 20, &root, &err), &err,
                  "the fixture"))
        return check_done();
    const cJSON *heads = cJSON_GetObjectItemCaseSensitive(root, "heads");
    for (int i = 0; i < 2; i++)
        check_head(root, cJSON_GetArrayItem(heads, i), i == 1);
    cJSON_Delete(root);
    return check_done();
}
