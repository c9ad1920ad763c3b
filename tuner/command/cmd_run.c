/*
 * spectune run: a model writes on from a prompt. The text goes to standard
 * output as it comes, the summary to standard error.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "files.h"
#include "json.h"
#include "progress.h"
#include "run_options.h"
#include "run_times.h"
#include "show.h"
#include "tokenizer.h"

static const char GREEN[] = "\033[32m", PLAIN[] = "\033[0m";

typedef struct run {
    spt_run_options options;
    spt_run_times times;
    bool has_times; /* the time model knows the model's shape */
    spt_engine *engine;
    spt_session *session;
    spt_engine_info info;
    spt_buf text; /* the prompt, then for JSON the answer */
    spt_ids tokens; /* of the answer, for JSON */
    size_t prompt_tokens, reused;
    spt_finish finish;
    double open_s, first_s, rest_s; /* host seconds */
    double started, ended;
    size_t steps, tokens_written;
    double steady; /* the end of the last step that read a prompt */
    size_t steady_tokens; /* that were written until then */
} run;

/* What an interrupt ends. */
static spt_session *volatile interrupted;
static volatile sig_atomic_t interrupted_by;

/* The first one ends the answer, and what was learnt is kept; the second one
   ends the process. */
static void on_interrupt(int signal_number)
{
    spt_session *session = interrupted;
    interrupted_by = signal_number;
    if (session)
        spt_session_cancel(session);
    signal(signal_number, SIG_DFL);
}

/* Until the process ends. A reader that left is seen where text is written. */
static void catch_interrupts(void)
{
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    signal(SIGPIPE, SIG_IGN);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Text with the bytes of accepted drafts in green. */
static void print_marked(const spt_event *e)
{
    size_t at = 0;
    for (size_t i = 0; i < e->n_tokens && at < e->text_size; i++) {
        size_t end = e->ends[i] < e->text_size ? e->ends[i] : e->text_size;
        if (end <= at)
            continue;
        fputs(e->drafted[i] ? GREEN : PLAIN, stdout);
        fwrite(e->text + at, 1, end - at, stdout);
        at = end;
    }
    fputs(PLAIN, stdout);
    fwrite(e->text + at, 1, e->text_size - at, stdout);
}

/* The model reads the prompt before its first token, a draft model in the
   first step that could have drafts: neither says how fast tokens come. */
static void count_step(run *r, size_t tokens)
{
    bool by_model = spt_run_method_has_file(r->options.engine.draft.method);
    r->tokens_written += tokens;
    if (++r->steps == 1)
        r->first_s = now() - r->started;
    if (r->steps == (by_model ? 2 : 1)) {
        r->steady = now();
        r->steady_tokens = r->tokens_written;
    }
}

static bool on_event(void *user, const spt_event *e)
{
    run *r = user;
    if (e->n_tokens)
        count_step(r, e->n_tokens);
    if (r->options.json) {
        spt_buf_add(&r->text, e->text, e->text_size);
        for (size_t i = 0; i < e->n_tokens; i++)
            spt_ids_add(&r->tokens, e->tokens[i]);
        return false;
    }
    if (r->options.color)
        print_marked(e);
    else
        fwrite(e->text, 1, e->text_size, stdout);
    return fflush(stdout) != 0;
}

enum { PROMPT_MAX_BYTES = 64 << 20 };

/* All of standard input, as a file that is too. */
static spt_status read_input(spt_buf *text, spt_error *err)
{
    char block[4096];
    size_t n;
    while (text->size <= PROMPT_MAX_BYTES &&
           (n = fread(block, 1, sizeof block, stdin)) > 0)
        spt_buf_add(text, block, n);
    if (text->failed)
        return spt_fail(err, SPT_E_MEMORY, "prompt: out of memory");
    if (ferror(stdin))
        return spt_fail(err, SPT_E_IO, "standard input: read error");
    if (text->size > PROMPT_MAX_BYTES)
        return spt_fail(err, SPT_E_FORMAT,
                        "standard input: larger than %d bytes",
                        PROMPT_MAX_BYTES);
    return SPT_OK;
}

static spt_status read_prompt(run *r, spt_error *err)
{
    const spt_run_options *o = &r->options;
    if (o->prompt)
        spt_buf_puts(&r->text, o->prompt);
    else if (strcmp(o->prompt_file, "-") == 0)
        SPT_TRY(read_input(&r->text, err));
    else
        SPT_TRY(spt_file_read(o->prompt_file, PROMPT_MAX_BYTES, &r->text, err));
    if (r->text.failed)
        return spt_fail(err, SPT_E_MEMORY, "prompt: out of memory");
    /* Messages of a chat are C strings. */
    if (o->chat && r->text.size && memchr(r->text.data, 0, r->text.size))
        return spt_fail(err, SPT_E_USAGE,
                        "--chat: the prompt has a byte 0, expected text");
    return SPT_OK;
}

/* The prompt as the chat template writes it. */
static spt_status to_chat(run *r, spt_error *err)
{
    const spt_chat_message both[] = {
        {"system", r->options.system},
        {"user", r->text.data ? r->text.data : ""}};
    bool has_system = r->options.system != NULL;
    const spt_chat_message *messages = both + !has_system;
    size_t size = 0, count = has_system ? 2 : 1;
    spt_buf written = {0};
    SPT_TRY(spt_engine_chat(r->engine, messages, count, NULL, 0, &size, err));
    char *text = spt_calloc(size + 1, 1);
    if (!text)
        return spt_fail(err, SPT_E_MEMORY, "prompt: out of memory");
    spt_status status =
        spt_engine_chat(r->engine, messages, count, text, size, &size, err);
    if (status == SPT_OK)
        spt_buf_add(&written, text, size);
    spt_free(text);
    spt_buf_free(&r->text);
    r->text = written;
    return status;
}

static spt_status feed(run *r, spt_error *err)
{
    const spt_run_options *o = &r->options;
    const char *text = r->text.data ? r->text.data : "";
    size_t count = 0;
    SPT_TRY(spt_engine_encode(r->engine, text, r->text.size, !o->chat, o->chat,
                              NULL, 0, &count, err));
    if (count == 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--prompt: is empty, expected some text");
    if (count >= (size_t)r->info.context)
        return spt_fail(err, SPT_E_USAGE,
                        "--prompt: has %zu tokens, expected fewer than the "
                        "context of %d",
                        count, r->info.context);
    int32_t *tokens = spt_calloc(count, sizeof *tokens);
    if (!tokens)
        return spt_fail(err, SPT_E_MEMORY, "prompt: out of memory");
    spt_status status =
        spt_engine_encode(r->engine, text, r->text.size, !o->chat, o->chat,
                          tokens, count, &count, err);
    if (status == SPT_OK)
        status = spt_session_sync(r->session, tokens, count, &r->reused, err);
    spt_free(tokens);
    r->prompt_tokens = count;
    return status;
}

static spt_status write_answer(run *r, spt_error *err)
{
    r->options.answer.event = on_event;
    r->options.answer.user = r;
    spt_buf_free(&r->text);
    r->text = (spt_buf){0};
    interrupted = r->session;
    catch_interrupts();
    r->started = now();
    spt_status status =
        spt_session_generate(r->session, &r->options.answer, &r->finish, err);
    r->ended = now();
    r->rest_s = r->ended - r->started - r->first_s;
    interrupted = NULL;
    return status;
}

static void log_line(void *user, const char *text)
{
    (void)user;
    spt_progress_clear();
    fprintf(stderr, "%s\n", text);
}

static spt_status go(run *r, spt_error *err)
{
    double start = now();
    SPT_TRY(read_prompt(r, err));
    r->has_times = spt_run_times_attach(&r->times, &r->options.engine);
    r->options.engine.log.line = log_line;
    r->options.engine.compiling = spt_progress_compiling;
    SPT_TRY(spt_engine_open(&r->options.engine, &r->engine, err));
    r->open_s = now() - start;
    spt_engine_describe(r->engine, &r->info);
    if (r->options.chat)
        SPT_TRY(to_chat(r, err));
    SPT_TRY(spt_session_open(r->engine, &r->options.session, &r->session, err));
    SPT_TRY(feed(r, err));
    return write_answer(r, err);
}

static double per(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

static int middle_context(const run *r, const spt_session_stats *s)
{
    return (int)(r->prompt_tokens + s->tokens / 2);
}

static void print_modelled(const run *r, const spt_session_stats *s)
{
    if (!r->has_times || !s->tokens)
        return;
    spt_run_times times = r->times;
    spt_run_cost c = spt_run_times_cost(&times, s, middle_context(r, s));
    fprintf(stderr, "modelled for %s: %.1f us per token", times.board.name,
            c.us_per_token);
    if (s->drafts)
        fprintf(stderr, ", %.2f times as fast as without drafts",
                c.plain_us_per_token / c.us_per_token);
    fputc('\n', stderr);
}

static void print_rate(const run *r)
{
    double seconds = r->ended - r->steady;
    size_t tokens = r->tokens_written - r->steady_tokens;
    if (r->steady > 0 && tokens && seconds > 0)
        fprintf(stderr, "%.2f tokens/s (%s)", (double)tokens / seconds,
                r->info.is_sim ? "host time of sim, not a GPU's" : "measured");
    else
        fprintf(stderr, "too few for a rate");
}

static const char *times_evidence(const run *r)
{
    return r->info.is_sim ? "simulated" : "measured";
}

/* What chose how far to draft. */
static void print_lengths(const run *r, const spt_session_stats *s)
{
    if (r->options.session.draft_length > 0)
        fprintf(stderr, "draft lengths: %d, as given\n",
                r->options.session.draft_length);
    else if (s->lengths_timed + s->lengths_modelled > 0)
        fprintf(stderr,
                "draft lengths: %llu chosen by %s times of steps, %llu by the "
                "time model\n",
                (unsigned long long)s->lengths_timed, times_evidence(r),
                (unsigned long long)s->lengths_modelled);
    else
        fprintf(stderr, "draft lengths: the longest, no times are known\n");
}

static void print_summary(const run *r, const spt_session_stats *s)
{
    const spt_engine_info *i = &r->info;
    fprintf(stderr, "\n%s (%s) on %s\n", i->model, i->architecture, i->device);
    fprintf(stderr,
            "prompt: %zu tokens, %zu reused; first token after %.2f s\n",
            r->prompt_tokens, r->reused, r->first_s);
    fprintf(stderr, "answer: %llu tokens in %llu steps, ",
            (unsigned long long)s->tokens, (unsigned long long)s->steps);
    print_rate(r);
    fprintf(stderr, ", %s\n", spt_finish_text(r->finish));
    fprintf(stderr,
            "memory: %.1f MB of the device, CUDA graphs up to %.1f MB more "
            "(estimated)\n",
            (double)i->memory.total / 1e6, (double)i->memory.graphs / 1e6);
    print_modelled(r, s);
    if (r->options.engine.draft.method == SPT_DRAFT_NONE)
        return;
    print_lengths(r, s);
    if (!s->drafts) {
        fprintf(stderr, "drafts: none, no step had any to offer\n");
        return;
    }
    fprintf(stderr,
            "drafts: %llu, %llu of %llu tokens accepted (%.3f), mean "
            "acceptance length %.2f\n",
            (unsigned long long)s->drafts,
            (unsigned long long)s->accepted_tokens,
            (unsigned long long)s->draft_tokens,
            per(s->accepted_tokens, s->draft_tokens),
            1 + per(s->accepted_tokens, s->drafts));
    fprintf(stderr, "accepted per position:");
    for (int d = 0; d < SPT_DRAFT_LENGTH_MAX && s->drafted_at[d]; d++)
        fprintf(stderr, " %.2f", per(s->accepted_at[d], s->drafted_at[d]));
    fputc('\n', stderr);
}

static void add_drafts(cJSON *root, const run *r, const spt_session_stats *s)
{
    cJSON *drafts = cJSON_AddObjectToObject(root, "drafts");
    cJSON *lengths = cJSON_AddObjectToObject(drafts, "lengths_chosen_by");
    cJSON_AddNumberToObject(lengths, "step_times", (double)s->lengths_timed);
    cJSON_AddStringToObject(lengths, "evidence", times_evidence(r));
    cJSON_AddNumberToObject(lengths, "time_model", (double)s->lengths_modelled);
    cJSON_AddNumberToObject(drafts, "num_drafts", (double)s->drafts);
    cJSON_AddNumberToObject(drafts, "num_draft_tokens",
                            (double)s->draft_tokens);
    cJSON_AddNumberToObject(drafts, "num_accepted_tokens",
                            (double)s->accepted_tokens);
    spt_json_add4(drafts, "mean_acceptance_length",
                  1 + per(s->accepted_tokens, s->drafts));
    cJSON *at = cJSON_AddArrayToObject(drafts, "acceptance_per_position");
    for (int d = 0; d < SPT_DRAFT_LENGTH_MAX && s->drafted_at[d]; d++)
        cJSON_AddItemToArray(at, cJSON_CreateNumber(spt_round4(per(
                                     s->accepted_at[d], s->drafted_at[d]))));
}

static void add_modelled(cJSON *root, const run *r, const spt_session_stats *s)
{
    if (!r->has_times || !s->tokens)
        return;
    spt_run_times times = r->times;
    spt_run_cost c = spt_run_times_cost(&times, s, middle_context(r, s));
    cJSON *gpu = cJSON_AddObjectToObject(root, "gpu_time");
    cJSON_AddStringToObject(gpu, "evidence", "modelled");
    cJSON_AddStringToObject(gpu, "board", times.board.name);
    spt_json_add4(gpu, "us_per_token", c.us_per_token);
    spt_json_add4(gpu, "speedup", c.plain_us_per_token / c.us_per_token);
}

static void add_memory(cJSON *root, const spt_memory *m)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"weights", m->weights},     {"kv", m->kv},
                 {"workspace", m->workspace}, {"drafter", m->drafter},
                 {"total", m->total},         {"graphs_at_most", m->graphs}};
    cJSON *memory = cJSON_AddObjectToObject(root, "memory_bytes");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        cJSON_AddNumberToObject(memory, parts[i].name, (double)parts[i].bytes);
}

static void print_json(const run *r, const spt_session_stats *s)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "spectune.run/1");
    cJSON_AddStringToObject(root, "model", r->info.model);
    cJSON_AddStringToObject(root, "device", r->info.device);
    cJSON_AddStringToObject(root, "drafter", r->info.drafter);
    spt_json_add_text(root, "text", (spt_text){r->text.data, r->text.size});
    cJSON *tokens = cJSON_AddArrayToObject(root, "tokens");
    for (size_t i = 0; i < r->tokens.size; i++)
        cJSON_AddItemToArray(tokens, cJSON_CreateNumber(r->tokens.data[i]));
    cJSON_AddStringToObject(root, "finish", spt_finish_text(r->finish));
    cJSON_AddNumberToObject(root, "prompt_tokens", (double)r->prompt_tokens);
    cJSON_AddNumberToObject(root, "steps", (double)s->steps);
    add_drafts(root, r, s);
    cJSON *time = cJSON_AddObjectToObject(root, "host_seconds");
    spt_json_add4(time, "open", r->open_s);
    spt_json_add4(time, "first_token", r->first_s);
    spt_json_add4(time, "rest", r->rest_s);
    cJSON_AddBoolToObject(root, "is_sim", r->info.is_sim);
    add_memory(root, &r->info.memory);
    add_modelled(root, r, s);
    spt_print_json(root);
}

int spt_cmd_run(int argc, char **argv)
{
    static run r;
    spt_error err = {0};
    spt_session_stats stats;
    int exit_status = spt_run_options_read(&r.options, argc, argv);
    if (exit_status >= 0)
        return exit_status;
    spt_status status = go(&r, &err);
    if (status == SPT_OK) {
        spt_session_statistics(r.session, &stats);
        if (r.options.json)
            print_json(&r, &stats);
        else
            print_summary(&r, &stats);
    }
    spt_session_close(r.session);
    spt_engine_close(r.engine);
    if (r.has_times)
        spt_run_times_close(&r.times);
    spt_buf_free(&r.text);
    spt_ids_free(&r.tokens);
    if (status != SPT_OK)
        return spt_exit_error("spectune run", &err);
    fflush(stdout);
    if (interrupted_by) /* so that who waits sees it */
        raise(interrupted_by);
    return 0;
}
