/*
 * Long texts and many cancelled ones. A text's memory stays what it was, its
 * last tenth is drafted and accepted as by a fresh process that is given the
 * rest, and whoever is cancelled, however, at whatever step, changes nothing
 * for the others. 400 tokens and 20 cancels; with TEST_LONG=1 10,000 and 500.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "tiny_engine.h"

enum { PROMPT = 21, PAIR = 2, ANSWER = 30 };

static spt_error err;
static bool whole;

#ifdef __SANITIZE_ADDRESS__
static const bool keeps_freed = true; /* resident memory says nothing */
#else
static const bool keeps_freed = false;
#endif

static void make_prompt(int which, int32_t *tokens)
{
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (i * (5 + which) + which * 29) % 13 + 60;
}

/* What the last tenth of a text came to. */
typedef struct tail {
    uint64_t drafts, drafted, accepted, hash;
} tail;

static tail tail_between(const spt_session_stats *from,
                         const spt_session_stats *to)
{
    return (tail){.drafts = to->drafts - from->drafts,
                  .drafted = to->draft_tokens - from->draft_tokens,
                  .accepted = to->accepted_tokens - from->accepted_tokens};
}

static uint64_t hash_of(const int32_t *tokens, size_t count)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)tokens[i]) * 1099511628211u;
    return hash;
}

static bool write_more(spt_session *s, size_t tokens)
{
    const spt_answer_options o = {.max_tokens = tokens, .ignore_end = true};
    bool good = spt_session_generate(s, &o, NULL, &err) == SPT_OK;
    if (!good)
        printf("# %s\n", err.text);
    return good;
}

static spt_session *open_text(spt_engine *e, const int32_t *tokens,
                              size_t count)
{
    const spt_session_options options = {
        .draft_length = 4,
        .sampling = {.temperature = 0.8, .seed = 11, .top_k = 4}};
    spt_session *s = NULL;
    if (spt_session_open(e, &options, &s, &err) != SPT_OK ||
        spt_session_sync(s, tokens, count, NULL, &err) != SPT_OK)
        printf("# %s\n", err.text);
    return s;
}

static spt_engine *open_engine(const char *model, const char *draft, int tokens)
{
    spt_engine *e = NULL;
    const spt_engine_options options = {
        .model = model,
        .device = SPT_DEVICE_SIM,
        .context = tokens + PROMPT + 11,
        .draft_length = 4,
        .draft = {.method = draft ? SPT_DRAFT_MODEL : SPT_DRAFT_NGRAM,
                  .model = draft,
                  .min_match = draft ? 0 : 1}};
    CHECK_OK(spt_engine_open(&options, &e, &err), &err, "the engine opens");
    return e;
}

/* The last tokens of a text, counted from the second on: where the text before
   it has just been fed, the first one comes without a draft. */
static tail write_tail(spt_session *s, size_t last)
{
    spt_session_stats before, after;
    size_t count = 0;
    tail t = {0};
    bool good = write_more(s, 1);
    spt_session_statistics(s, &before);
    if (good && write_more(s, last - 1)) {
        spt_session_statistics(s, &after);
        t = tail_between(&before, &after);
        const int32_t *tokens = spt_session_tokens(s, &count);
        t.hash = hash_of(tokens, count);
    }
    return t;
}

/* A process that was started before the first engine, and its pipes. */
typedef struct fresh {
    pid_t pid;
    int to, from;
} fresh;

static bool read_all(int file, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t n = read(file, (char *)data + got, size - got);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

static _Noreturn void be_fresh(const char *model, const char *draft, int tokens,
                               int in, int out)
{
    size_t count = (size_t)(PROMPT + tokens - tokens / 10);
    int32_t *text = calloc(count, sizeof *text);
    tail t = {0};
    fclose(stdout); /* its checks are not the parent's */
    if (read_all(in, text, count * sizeof *text)) {
        spt_engine *e = open_engine(model, draft, tokens);
        spt_session *s = e ? open_text(e, text, count) : NULL;
        if (s)
            t = write_tail(s, (size_t)(tokens / 10));
        spt_engine_close(e);
    }
    free(text);
    _exit(write(out, &t, sizeof t) != sizeof t);
}

static fresh start_fresh(const char *model, const char *draft, int tokens)
{
    int to[2], from[2];
    fresh f = {.pid = -1};
    fflush(stdout);
    if (pipe(to) == 0 && pipe(from) == 0)
        f.pid = fork();
    if (f.pid == 0) {
        close(to[1]);
        close(from[0]);
        be_fresh(model, draft, tokens, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    f.to = to[1];
    f.from = from[0];
    return f;
}

static tail ask_fresh(fresh *f, const int32_t *text, size_t count)
{
    tail t = {0};
    size_t size = count * sizeof *text;
    for (size_t sent = 0; sent < size;) {
        ssize_t n = write(f->to, (const char *)text + sent, size - sent);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    close(f->to);
    read_all(f->from, &t, sizeof t);
    close(f->from);
    waitpid(f->pid, NULL, 0);
    return t;
}

typedef struct memory {
    long resident; /* bytes of the process */
    size_t device; /* bytes that are left */
} memory;

static memory memory_now(const spt_engine *e)
{
    long pages = 0;
    size_t total;
    memory m = {0};
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %ld", &pages) == 1)
        m.resident = pages * sysconf(_SC_PAGESIZE);
    if (file)
        fclose(file);
    e->machine.driver.cuMemGetInfo(&m.device, &total);
    return m;
}

static void test_long(const char *model, const char *draft, const char *name)
{
    int tokens = whole ? 10000 : 400, last = tokens / 10;
    int32_t prompt[PROMPT];
    size_t count = 0;
    fresh f = start_fresh(model, draft, tokens);
    spt_engine *e = open_engine(model, draft, tokens);
    make_prompt(0, prompt);
    spt_session *s = open_text(e, prompt, PROMPT);
    bool good = write_more(s, (size_t)(tokens / 4));
    memory early = memory_now(e);
    good = good && write_more(s, (size_t)(tokens - tokens / 4 - last));
    tail t = {0}, expected;
    const int32_t *text = spt_session_tokens(s, &count);
    expected = ask_fresh(&f, text, count);
    if (good)
        t = write_tail(s, (size_t)last);
    memory late = memory_now(e);
    CHECK(t.accepted > 0 && memcmp(&t, &expected, sizeof t) == 0,
          "%s: of %d tokens the last %d as a fresh process writes them: %d of "
          "%d drafts accepted",
          name, tokens, last, (int)t.accepted, (int)t.drafted);
    CHECK_INT((long long)late.device, (long long)early.device,
              "device memory stays");
    /* Sim's KV is memory of the host from its first use on. */
    long kv = (long)(e->memory.kv / (uint64_t)e->options.kv_tokens) *
              (tokens - tokens / 4) * (draft ? 2 : 1);
    long more = late.resident - early.resident - kv;
    CHECK(keeps_freed || more < 1 << 20, "the host's does (%ld kB)",
          more / 1024);
    spt_engine_close(e);
}

/* Ways to end a session that writes. */
typedef struct victim {
    spt_session *session;
    int after; /* steps, or a thousandth of ms for the other thread */
    int seen;
    bool by_event;
} victim;

static bool victim_event(void *user, const spt_event *event)
{
    victim *v = user;
    (void)event;
    return v->by_event && ++v->seen > v->after;
}

static void *cancel_later(void *user)
{
    victim *v = user;
    usleep((useconds_t)(v->after * 1000));
    spt_session_cancel(v->session);
    return NULL;
}

static bool begin(spt_engine *e, int which, int draft_length,
                  spt_session **session, tiny_answer *answer)
{
    const spt_session_options options = {
        .draft_length = draft_length,
        .sampling = {.temperature = 0.8 * (which % 2), .seed = 3}};
    const spt_answer_options o = {.max_tokens = ANSWER,
                                  .ignore_end = true,
                                  .logprobs = which == 1,
                                  .event = tiny_event,
                                  .user = answer};
    int32_t prompt[PROMPT];
    make_prompt(which, prompt);
    *answer = (tiny_answer){.n = 0};
    return spt_session_open(e, &options, session, &err) == SPT_OK &&
           spt_session_sync(*session, prompt, PROMPT, NULL, &err) == SPT_OK &&
           spt_session_answer(*session, &o, &err) == SPT_OK;
}

/* A pair that writes on while victims come and go. */
typedef struct pair {
    spt_engine *e;
    spt_session *sessions[PAIR + 1]; /* the last: the victim */
    tiny_answer answers[PAIR], expected[PAIR];
    int finished;
    bool good;
} pair;

/* Steps all that are there; a finished text is compared and begun again. */
static void step_pair(pair *p)
{
    size_t count = p->sessions[PAIR] ? PAIR + 1 : PAIR;
    p->good =
        p->good && spt_engine_step(p->e, p->sessions, count, &err) == SPT_OK;
    for (int i = 0; i < PAIR && p->good; i++) {
        if (!spt_session_finish(p->sessions[i]))
            continue;
        p->finished++;
        p->good = tiny_same(&p->answers[i], &p->expected[i]);
        spt_session_close(p->sessions[i]);
        p->good =
            begin(p->e, i, 3 + i, &p->sessions[i], &p->answers[i]) && p->good;
    }
}

static void cancel_one(pair *p, uint64_t *state)
{
    uint64_t random = tiny_next(state);
    victim v = {.after = (int)(random >> 8 & 7), .by_event = random % 3 == 1};
    const spt_answer_options o = {
        .ignore_end = true, .event = victim_event, .user = &v};
    const spt_session_options options = {.draft_length = (int)(random % 5)};
    bool by_thread = random % 3 == 2;
    int32_t prompt[PROMPT];
    pthread_t thread;
    make_prompt((int)(random >> 16 & 7), prompt);
    p->good =
        p->good &&
        spt_session_open(p->e, &options, &v.session, &err) == SPT_OK &&
        spt_session_sync(v.session, prompt, PROMPT, NULL, &err) == SPT_OK &&
        spt_session_answer(v.session, &o, &err) == SPT_OK;
    if (!p->good)
        return;
    p->sessions[PAIR] = v.session;
    if (by_thread)
        pthread_create(&thread, NULL, cancel_later, &v);
    for (int i = 0; (v.by_event || by_thread || i <= v.after) &&
                    !spt_session_finish(v.session) && p->good;
         i++)
        step_pair(p);
    if (by_thread)
        pthread_join(thread, NULL);
    spt_finish finish = spt_session_finish(v.session);
    p->good = p->good && (finish == SPT_FINISH_CANCELLED ||
                          (by_thread && finish == SPT_FINISH_CONTEXT) ||
                          (!v.by_event && !by_thread));
    p->sessions[PAIR] = NULL;
    spt_session_close(v.session); /* some in the middle of an answer */
}

static void test_cancels(void)
{
    int cancels = whole ? 500 : 20;
    uint64_t state = 7;
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    pair p = {.good = true};
    const spt_engine_options options = {
        .context = 96,
        .sessions = PAIR + 1,
        .draft_length = 4,
        .draft = {.method = SPT_DRAFT_NGRAM, .min_match = 1}};
    p.e = tiny_open(&t, &options);
    for (int i = 0; i < PAIR; i++) {
        spt_session *alone = NULL;
        begin(p.e, i, -1, &alone, &p.expected[i]);
        while (!spt_session_finish(alone) &&
               spt_engine_step(p.e, &alone, 1, &err) == SPT_OK)
            continue;
        spt_session_close(alone);
    }
    int available = spt_pool_available(p.e->pool);
    for (int i = 0; i < PAIR; i++)
        begin(p.e, i, 3 + i, &p.sessions[i], &p.answers[i]);
    memory early = {0}, late;
    for (int i = 0; i < cancels && p.good; i++) {
        cancel_one(&p, &state);
        if (i == cancels / 4)
            early = memory_now(p.e);
    }
    late = memory_now(p.e);
    CHECK(p.good && p.finished > cancels / 20,
          "%d cancels, %d texts beside them: same bits", cancels, p.finished);
    for (int i = 0; i < PAIR; i++)
        spt_session_close(p.sessions[i]);
    CHECK_INT(spt_pool_available(p.e->pool), available,
              "all KV pages come back");
    CHECK(late.device == early.device &&
              (keeps_freed || late.resident - early.resident < 1 << 20),
          "memory stays (%ld kB more on the host)",
          (late.resident - early.resident) / 1024);
    spt_engine_close(p.e);
}

int main(void)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16), d;
    char model[64], draft[64];
    whole = getenv("TEST_LONG") != NULL;
    t.context = 16384;
    d = t;
    d.layers = 1; /* of the target's two */
    tiny_write(&t, model);
    tiny_write(&d, draft);
    test_long(model, NULL, "n-gram");
    test_long(model, draft, "a draft model");
    unlink(model);
    unlink(draft);
    test_cancels();
    return check_done();
}
