/*
 * Answers to many prompts with one drafter, as acceptance.py wants them:
 *
 *     bench_accept MODEL PROMPTS.jsonl OUT.jsonl NAME=VALUE...
 *
 * The answers that OUT lacks are written and appended to it, one line each when
 * it has ended: a killed run goes on where it was. Several are written in the
 * same steps, which changes none of them; draft lengths are chosen, and times
 * modelled, as for one alone. Names and defaults: `SETTINGS` below.
 *
 * N-gram drafts follow from the text, and the text is the same with and without
 * them. Where OUT has the answer without drafts, replay=1 goes through it with
 * the engine's own drafter and meter of lengths and runs no model; what an
 * answer's last step drafts past its end then counts as rejected.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "draft_length.h"
#include "draft_ngram.h"
#include "files.h"
#include "json.h"
#include "run_times.h"

enum { SLOTS_MAX = 32, PROMPTS_MAX = 512, TEXT_MAX = 4096, BOARDS = 2 };
/* As spt_engine_options has them. */
enum { PREFILL_CHUNK = 64, MIN_MATCH = 2, MAX_MATCH = 8 };

/* Draft lengths are chosen by the first, times are modelled for both. */
static const char *const boards[BOARDS] = {"h200_sxm", "h100_sxm"};

/* SETTING(name, default, what) */
#define SETTINGS(SETTING)                                              \
    SETTING(draft, "none", "none, ngram or the file of a draft model") \
    SETTING(name, "", "of the drafter in OUT; as draft")               \
    SETTING(lengths, "0",                                              \
            "draft lengths, -1 = as long as pays, up to longest")      \
    SETTING(longest, "8", "draft that there is room for")              \
    SETTING(tokens, "96", "of an answer at most")                      \
    SETTING(temperature, "0", "0 = greedy")                            \
    SETTING(accept, "match", "match or rejection")                     \
    SETTING(prompts, "512", "of each kind at most")                    \
    SETTING(sessions, "8", "written side by side; 1 also times sim")   \
    SETTING(replay, "0", "1 = n-gram drafts of answers that OUT has")

typedef struct settings {
#define SETTING(name, value, what) const char *name;
    SETTINGS(SETTING)
#undef SETTING
} settings;

typedef struct prompt {
    const char *kind, *source, *text;
} prompt;

typedef struct slot {
    struct bench *bench;
    const prompt *prompt; /* NULL: nothing to write */
    spt_session *session;
    cJSON *ids; /* of the answer */
    cJSON *row; /* REPLAY: of the answer without drafts */
    size_t prompt_tokens;
    double first; /* core seconds when the first token was there */
} slot;

typedef struct bench {
    settings set;
    cJSON *rows[PROMPTS_MAX]; /* own the texts of prompts */
    prompt prompts[PROMPTS_MAX];
    int n_prompts, n_sessions, length;
    int longest; /* draft that the engine has room for */
    size_t max_tokens;
    FILE *out;
    spt_buf done; /* what OUT had */
    spt_run_times times[BOARDS];
    spt_engine *engine;
    spt_draft_source lookup;
    slot slots[SLOTS_MAX];
} bench;

/* Core time of the process: what else the host does is not in it. */
static double core_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double alone_us(void *user, int batch, int context, int length)
{
    (void)batch;
    return spt_run_times_us(user, 1, context, length);
}

/* Calls each(bench, line, length) for the whole lines of a text. */
static spt_status each_line(bench *b, char *text,
                            spt_status (*each)(bench *, const char *,
                                               spt_error *),
                            spt_error *err)
{
    for (char *end; text && (end = strchr(text, '\n')); text = end + 1) {
        *end = 0;
        SPT_TRY(each(b, text, err));
    }
    return SPT_OK;
}

static spt_status add_prompt(bench *b, const char *line, spt_error *err)
{
    prompt *p = &b->prompts[b->n_prompts];
    cJSON **row = &b->rows[b->n_prompts];
    int of_kind = 0;
    if (b->n_prompts == PROMPTS_MAX)
        return spt_fail(err, SPT_E_FORMAT, "%d prompts at most", PROMPTS_MAX);
    SPT_TRY(spt_json_parse(line, strlen(line), "prompts", row, err));
    SPT_TRY(spt_json_text(*row, "prompts", "kind", &p->kind, err));
    SPT_TRY(spt_json_text(*row, "prompts", "source", &p->source, err));
    SPT_TRY(spt_json_text(*row, "prompts", "prompt", &p->text, err));
    for (int i = 0; i < b->n_prompts; i++)
        of_kind += strcmp(b->prompts[i].kind, p->kind) == 0;
    if (of_kind < atoi(b->set.prompts))
        b->n_prompts++;
    else
        cJSON_Delete(*row);
    return SPT_OK;
}

/* What tells an answer from all others; the first field of its line. */
static void write_key(const bench *b, const prompt *p, spt_buf *key)
{
    spt_buf_printf(key, "{\"key\":\"%s %d %s %s %s %d %s\",", b->set.name,
                   b->length, b->set.tokens, b->set.temperature, b->set.accept,
                   b->n_sessions == 1, p->source);
}

static bool is_done(const bench *b, const prompt *p)
{
    spt_buf key = {0};
    write_key(b, p, &key);
    bool found = b->done.data && strstr(b->done.data, key.data);
    spt_buf_free(&key);
    return found;
}

static cJSON *counts(const uint64_t *of, const uint64_t *drafted)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < SPT_DRAFT_LENGTH_MAX && drafted[i]; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)of[i]));
    return list;
}

static void add_modelled(bench *b, const slot *s, const spt_session_stats *n,
                         cJSON *row)
{
    int middle = (int)(s->prompt_tokens + n->tokens / 2);
    cJSON *all = cJSON_AddObjectToObject(row, "modelled_us_per_token");
    for (int i = 0; i < BOARDS; i++) {
        spt_run_cost c = spt_run_times_cost(&b->times[i], n, middle);
        cJSON *one = cJSON_AddObjectToObject(all, boards[i]);
        cJSON_AddNumberToObject(one, "with", c.us_per_token);
        cJSON_AddNumberToObject(one, "without", c.plain_us_per_token);
    }
}

static cJSON *prompt_ids(const slot *s)
{
    cJSON *list = cJSON_CreateArray();
    size_t count;
    const int32_t *ids = spt_session_tokens(s->session, &count);
    for (size_t i = 0; i < s->prompt_tokens && i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(ids[i]));
    return list;
}

/* Appends the answer's line, all of it or, when killed, a part without end. */
static spt_status write_answer(slot *s, const spt_session_stats *n,
                               spt_error *err)
{
    bench *b = s->bench;
    spt_buf line = {0};
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "kind", s->prompt->kind);
    cJSON_AddStringToObject(row, "source", s->prompt->source);
    cJSON_AddStringToObject(row, "drafter", b->set.name);
    cJSON_AddNumberToObject(row, "draft_length", b->length);
    cJSON_AddNumberToObject(row, "temperature", atof(b->set.temperature));
    cJSON_AddStringToObject(row, "accept", b->set.accept);
    cJSON_AddNumberToObject(row, "prompt_tokens", (double)s->prompt_tokens);
    cJSON_AddNumberToObject(row, "steps", (double)n->steps);
    cJSON_AddNumberToObject(row, "drafts", (double)n->drafts);
    cJSON_AddItemToObject(row, "drafted", counts(n->drafted_at, n->drafted_at));
    cJSON_AddItemToObject(row, "accepted",
                          counts(n->accepted_at, n->drafted_at));
    add_modelled(b, s, n, row);
    if (b->n_sessions == 1 && !atoi(b->set.replay))
        cJSON_AddNumberToObject(row, "core_seconds", core_seconds() - s->first);
    cJSON_AddBoolToObject(row, "replayed", atoi(b->set.replay));
    if (s->session && strcmp(b->set.draft, "none") == 0)
        cJSON_AddItemToObject(row, "prompt", prompt_ids(s));
    cJSON_AddItemToObject(row, "tokens", s->ids);
    s->ids = NULL;
    write_key(b, s->prompt, &line);
    char *text = cJSON_PrintUnformatted(row);
    spt_buf_puts(&line, text + 1);
    spt_buf_puts(&line, "\n");
    bool written = fwrite(line.data, 1, line.size, b->out) == line.size &&
                   fflush(b->out) == 0;
    cJSON_free(text);
    cJSON_Delete(row);
    spt_buf_free(&line);
    return written ? SPT_OK : spt_fail(err, SPT_E_IO, "cannot write");
}

static bool on_event(void *user, const spt_event *e)
{
    slot *s = user;
    if (e->n_tokens && !cJSON_GetArraySize(s->ids))
        s->first = core_seconds();
    for (size_t i = 0; i < e->n_tokens; i++)
        cJSON_AddItemToArray(s->ids, cJSON_CreateNumber(e->tokens[i]));
    return false;
}

static spt_status encode(slot *s, int32_t *ids, size_t room, spt_error *err)
{
    const spt_chat_message message = {"user", s->prompt->text};
    spt_engine *engine = s->bench->engine;
    static char text[1 << 16];
    size_t size = 0;
    SPT_TRY(
        spt_engine_chat(engine, &message, 1, text, sizeof text, &size, err));
    return spt_engine_encode(engine, text, size, false, true, ids, room,
                             &s->prompt_tokens, err);
}

static spt_status begin_answer(slot *s, const prompt *p, spt_error *err)
{
    bench *b = s->bench;
    static int32_t ids[TEXT_MAX];
    const spt_session_options options = {
        .sampling = {.temperature = atof(b->set.temperature)},
        .accept = strcmp(b->set.accept, "rejection") == 0 ? SPT_ACCEPT_REJECTION
                                                          : SPT_ACCEPT_MATCH,
        .draft_length = b->length == 0  ? -1
                        : b->length < 0 ? 0
                                        : b->length};
    const spt_answer_options answer = {
        .max_tokens = b->max_tokens, .event = on_event, .user = s};
    s->prompt = p;
    s->ids = cJSON_CreateArray();
    SPT_TRY(spt_session_open(b->engine, &options, &s->session, err));
    SPT_TRY(encode(s, ids, TEXT_MAX, err));
    SPT_TRY(spt_session_sync(s->session, ids, s->prompt_tokens, NULL, err));
    return spt_session_answer(s->session, &answer, err);
}

/* Gives slots that write nothing the next prompts; how many then write. */
static spt_status fill_slots(bench *b, int *next, spt_session **writing,
                             size_t *count, spt_error *err)
{
    *count = 0;
    for (int i = 0; i < b->n_sessions; i++) {
        slot *s = &b->slots[i];
        while (!s->prompt && *next < b->n_prompts) {
            const prompt *p = &b->prompts[(*next)++];
            if (!is_done(b, p))
                SPT_TRY(begin_answer(s, p, err));
        }
        if (s->prompt)
            writing[(*count)++] = s->session;
    }
    return SPT_OK;
}

/* Every prompt with the present draft length. */
static spt_status write_all(bench *b, spt_error *err)
{
    spt_session *writing[SLOTS_MAX];
    spt_session_stats stats;
    size_t count;
    int next = 0;
    SPT_TRY(fill_slots(b, &next, writing, &count, err));
    while (count) {
        SPT_TRY(spt_engine_step(b->engine, writing, count, err));
        for (int i = 0; i < b->n_sessions; i++) {
            slot *s = &b->slots[i];
            if (!s->prompt || spt_session_finish(s->session) == SPT_FINISH_NONE)
                continue;
            spt_session_statistics(s->session, &stats);
            SPT_TRY(write_answer(s, &stats, err));
            spt_session_close(s->session);
            *s = (slot){.bench = b};
        }
        SPT_TRY(fill_slots(b, &next, writing, &count, err));
    }
    return SPT_OK;
}

/* The answer without drafts that OUT has; TEXT_MAX tokens in all. */
static spt_status known_answer(slot *s, int32_t *text, int *count,
                               spt_error *err)
{
    const bench *b = s->bench;
    spt_buf key = {0};
    const cJSON *list, *item;
    spt_buf_printf(&key, "{\"key\":\"none 0 %s %s match 0 %s\"", b->set.tokens,
                   b->set.temperature, s->prompt->source);
    const char *line = b->done.data ? strstr(b->done.data, key.data) : NULL;
    spt_buf_free(&key);
    cJSON_Delete(s->ids);
    s->ids = NULL;
    if (!line)
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "replay: no answer to %s without drafts",
                        s->prompt->source);
    SPT_TRY(spt_json_parse(line, strcspn(line, "\n"), "out", &s->row, err));
    SPT_TRY(spt_json_array(s->row, "out", "tokens", &list, err));
    *count = (int)s->prompt_tokens;
    cJSON_ArrayForEach(item, list) if (*count < TEXT_MAX) text[(*count)++] =
        (int32_t)item->valuedouble;
    s->ids = cJSON_DetachItemFromObject(s->row, "tokens");
    return SPT_OK;
}

static int depth(const bench *b, spt_draft_meter *meter, int at, int room)
{
    int most = b->length < 0 ? b->longest : b->length;
    double times[SPT_DRAFT_NODES];
    room = room < most ? room : most;
    for (int d = 0; d <= room; d++)
        times[d] = alone_us((void *)&b->times[0], 1, at, d);
    return b->length < 0 ? spt_draft_meter_choose(meter, times, room) : room;
}

/* One step from text[at] on; how many tokens it adds. */
static int replay_step(const int32_t *text, int at, int count,
                       const spt_draft *draft, spt_session_stats *n)
{
    int accepted = 0;
    while (accepted < draft->count && at + accepted < count &&
           draft->token[accepted + 1] == text[at + accepted])
        accepted++;
    n->steps++;
    n->drafts += draft->count > 0;
    for (int i = 0; i < draft->count; i++) {
        n->drafted_at[i]++;
        n->accepted_at[i] += i < accepted;
    }
    return accepted + 1;
}

/* Goes through text as the engine does; the first token is the prompt's. */
static spt_status replay(slot *s, spt_error *err)
{
    bench *b = s->bench;
    static int32_t text[TEXT_MAX];
    int count = 0;
    spt_session_stats n = {0};
    spt_draft_meter meter;
    SPT_TRY(encode(s, text, TEXT_MAX, err));
    SPT_TRY(known_answer(s, text, &count, err));
    int first = (int)s->prompt_tokens, end = first + (int)b->max_tokens;
    spt_draft_meter_start(&meter);
    for (int at = first; at < count;) {
        spt_draft draft;
        spt_draft_clear(&draft);
        spt_draft_request request = {
            .text = text, .count = at, .branches = 1, .draft = &draft};
        bool asks = at > first || first % PREFILL_CHUNK == 1;
        request.want = asks ? depth(b, &meter, at, end - at - 1) : 0;
        if (request.want > 0)
            SPT_TRY(b->lookup.class->draft(b->lookup.self, &request, 1, err));
        int added = replay_step(text, at, count, &draft, &n);
        if (request.want > 0)
            spt_draft_meter_note(&meter, draft.count, added - 1);
        at += added;
    }
    n.tokens = (uint64_t)(count - first);
    return write_answer(s, &n, err);
}

static spt_status replay_all(bench *b, spt_error *err)
{
    const spt_ngram_rule rule = {.min_match = MIN_MATCH,
                                 .max_match = MAX_MATCH};
    if (!b->lookup.class)
        SPT_TRY(spt_ngram_open(&rule, NULL, &b->lookup, err));
    for (int i = 0; i < b->n_prompts; i++) {
        slot s = {.bench = b, .prompt = &b->prompts[i]};
        if (is_done(b, s.prompt))
            continue;
        spt_status status = replay(&s, err);
        cJSON_Delete(s.row);
        SPT_TRY(status);
    }
    return SPT_OK;
}

static spt_status open_engine(bench *b, const char *model, spt_error *err)
{
    spt_engine_options o = {.model = model,
                            .device = SPT_DEVICE_SIM,
                            .context = 640,
                            .sessions = b->n_sessions,
                            .draft_length = b->longest,
                            .step_us = alone_us,
                            .step_user = &b->times[0]};
    if (strcmp(b->set.draft, "ngram") == 0)
        o.draft.method = SPT_DRAFT_NGRAM;
    else if (strcmp(b->set.draft, "none") != 0)
        o.draft = (spt_draft_options){.method = SPT_DRAFT_MODEL,
                                      .model = b->set.draft};
    for (int i = 0; i < BOARDS; i++) {
        o.board = boards[i];
        SPT_TRY(spt_run_times_open(&b->times[i], &o, err));
    }
    o.board = boards[0];
    return spt_engine_open(&o, &b->engine, err);
}

static spt_status read_files(bench *b, char **paths, spt_error *err)
{
    spt_buf text = {0};
    SPT_TRY(spt_file_read(paths[1], 16 << 20, &text, err));
    spt_status status = each_line(b, text.data, add_prompt, err);
    spt_buf_free(&text);
    SPT_TRY(status);
    if (spt_file_exists(paths[2]))
        SPT_TRY(spt_file_read(paths[2], 512 << 20, &b->done, err));
    b->out = fopen(paths[2], "a");
    if (!b->out)
        return spt_fail(err, SPT_E_IO, "%s: %s", paths[2], strerror(errno));
    /* The end of a line that was never whole. */
    if (b->done.size && b->done.data[b->done.size - 1] != '\n')
        fputc('\n', b->out);
    return SPT_OK;
}

static spt_status go(bench *b, char **paths, spt_error *err)
{
    SPT_TRY(read_files(b, paths, err));
    SPT_TRY(open_engine(b, paths[0], err));
    const char *lengths = b->set.lengths;
    for (char *end; *lengths; lengths = *end ? end + 1 : end) {
        b->length = (int)strtol(lengths, &end, 10);
        if (b->length > b->longest)
            return spt_fail(err, SPT_E_USAGE, "lengths: %d is beyond longest",
                            b->length);
        SPT_TRY(atoi(b->set.replay) ? replay_all(b, err) : write_all(b, err));
    }
    return SPT_OK;
}

static bool set(settings *s, const char *text)
{
#define SETTING(name, value, what)                     \
    if (strncmp(text, #name "=", sizeof #name) == 0) { \
        s->name = text + sizeof #name;                 \
        return true;                                   \
    }
    SETTINGS(SETTING)
#undef SETTING
    return false;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_accept MODEL PROMPTS OUT NAME=VALUE...\n");
#define SETTING(name, value, what) \
    fprintf(stderr, "  %-12s %s (%s)\n", #name, what, value);
    SETTINGS(SETTING)
#undef SETTING
    return 2;
}

int main(int argc, char **argv)
{
    static bench b = {.set = {
#define SETTING(name, value, what) .name = value,
                          SETTINGS(SETTING)
#undef SETTING
                      }};
    spt_error err;
    for (int i = 4; i < argc; i++)
        if (!set(&b.set, argv[i]))
            return usage();
    if (argc < 4)
        return usage();
    if (!*b.set.name)
        b.set.name = b.set.draft;
    b.max_tokens = (size_t)strtoull(b.set.tokens, NULL, 10);
    b.n_sessions = atoi(b.set.sessions);
    b.longest = atoi(b.set.longest);
    if (b.longest < 1 || b.longest > SPT_DRAFT_LENGTH_MAX || b.n_sessions < 1 ||
        b.n_sessions > SLOTS_MAX || b.max_tokens < 1)
        return usage();
    for (int i = 0; i < SLOTS_MAX; i++)
        b.slots[i].bench = &b;
    spt_status status = go(&b, argv + 1, &err);
    if (status != SPT_OK)
        fprintf(stderr, "bench_accept: %s\n", err.text);
    if (b.lookup.class)
        b.lookup.class->close(b.lookup.self);
    spt_engine_close(b.engine);
    for (int i = 0; i < BOARDS; i++)
        spt_run_times_close(&b.times[i]);
    return status == SPT_OK ? 0 : 1;
}
