/*
 * The main command: spectune --arch sm90 --heads 64/8.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "commands.h"
#include "files.h"
#include "json.h"
#include "options.h"
#include "tune.h"

typedef struct tune_options {
    const char *arch, *board, *heads, *dtype, *kv_dtype, *model, *weights;
    const char *acceptance, *effort, *folder, *engine, *draft_board;
    int64_t head_dim, page_size, boards;
    double link_us, power_limit;
    spt_texts drafters;
    spt_ints batches, contexts;
    bool json, quiet;
} tune_options;

static int parse(int argc, char **argv, tune_options *o)
{
    const spt_option options[] = {
        {"arch", 0, SPT_OPTION_TEXT, &o->arch, "ARCH",
         "architecture: sm80 ... sm121", 0, 0},
        {"board", 0, SPT_OPTION_TEXT, &o->board, "NAME|FILE.lua",
         "board; default: the architecture's first", 0, 0},
        {"heads", 0, SPT_OPTION_TEXT, &o->heads, "Q/KV",
         "query heads / KV heads", 0, 0},
        {"head-dim", 0, SPT_OPTION_INT, &o->head_dim, "N",
         "numbers per head (128, or the model's)", 1, 1024},
        {"dtype", 0, SPT_OPTION_CHOICE, &o->dtype, "bf16|fp16",
         "type of queries and output (bf16)", 0, 0},
        {"kv-dtype", 0, SPT_OPTION_TEXT, &o->kv_dtype, "T",
         "type of KV: bf16 or fp16, as the queries'; with --engine also fp8, "
         "q8_0, q4_0",
         0, 0},
        {"page-size", 0, SPT_OPTION_INT, &o->page_size, "N",
         "tokens per KV page, 0 = contiguous (16)", 0, 65536},
        {"model", 0, SPT_OPTION_TEXT, &o->model, "MODEL",
         "config.json, GGUF file or preset; default: a stand-in", 0, 0},
        {"weights", 0, SPT_OPTION_TEXT, &o->weights, "FORMAT",
         "format of the weights (bf16, or the file's)", 0, 0},
        {"drafter", 0, SPT_OPTION_TEXTS, &o->drafters, "LIST",
         "drafters to weigh (all six)", 0, 0},
        {"batch", 0, SPT_OPTION_INTS, &o->batches, "LIST",
         "sequences side by side (1,8,64)", 1, 4096},
        {"context", 0, SPT_OPTION_INTS, &o->contexts, "LIST",
         "KV tokens per sequence (1024,8192,32768)", 0, 1 << 24},
        {"acceptance", 0, SPT_OPTION_TEXT, &o->acceptance, "FILE",
         "acceptance tables of your own", 0, 0},
        {"engine", 0, SPT_OPTION_CHOICE, &o->engine,
         "spectune|llama.cpp|vllm|sglang|trtllm",
         "whose kernels will run (spectune); of another the answer is the "
         "draft length and what to type there",
         0, 0},
        {"tp", 0, SPT_OPTION_INT, &o->boards, "N",
         "boards that share every layer (1)", 1, 64},
        {"draft-board", 0, SPT_OPTION_TEXT, &o->draft_board, "NAME|FILE.lua",
         "board of the drafter, when it has its own", 0, 0},
        {"link-us", 0, SPT_OPTION_NUMBER, &o->link_us, "N",
         "microseconds to that board, one way (20)", 0, 1e6},
        {"power-limit", 0, SPT_OPTION_NUMBER, &o->power_limit, "W",
         "cap of the board, where its clocks under one are known", 1, 1e5},
        {"effort", 0, SPT_OPTION_CHOICE, &o->effort, "estimate|measure|patient",
         "model only, or times from a GPU (estimate)", 0, 0},
        {"output", 'o', SPT_OPTION_TEXT, &o->folder, "DIR",
         "folder for profile.json and pack/ (out/BOARD-Q-KV-dN)", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &o->json, NULL, "print one JSON object", 0,
         0},
        {"quiet", 'q', SPT_OPTION_FLAG, &o->quiet, NULL, "print nothing", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune",
        .summary = "Generates verify-attention kernels for a chip and a head "
                   "grouping, proves them, times them, and says which draft "
                   "length makes speculative decoding fastest.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    return spt_options(&usage, argc, argv, NULL);
}

static bool other_engine(const tune_options *o)
{
    return strcmp(o->engine, "spectune") != 0;
}

/* Types of kernels; of another engine only the KV's size counts. */
static spt_status set_types(const tune_options *o, spt_problem *p,
                            spt_error *err)
{
    if (!other_engine(o))
        return spt_problem_set_types(p, o->dtype, o->kv_dtype, err);
    if (!o->kv_dtype || spt_kv_type_bytes(o->kv_dtype) > 0)
        return SPT_OK;
    return spt_fail(err, SPT_E_USAGE,
                    "--kv-dtype %s: expected bf16, fp16, fp8, q8_0 or q4_0",
                    o->kv_dtype);
}

/* Options that go together, or not. */
static spt_status check_options(const tune_options *o, spt_error *err)
{
    if (other_engine(o) && o->folder)
        return spt_fail(err, SPT_E_USAGE,
                        "--output %s: expected none beside --engine %s, which "
                        "has its own kernels",
                        o->folder, o->engine);
    if (other_engine(o) && strcmp(o->effort, "estimate") != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--effort %s: expected estimate beside --engine %s, "
                        "whose kernels are not here",
                        o->effort, o->engine);
    if (o->link_us >= 0 && !o->draft_board)
        return spt_fail(err, SPT_E_USAGE,
                        "--link-us: expected --draft-board beside it");
    return SPT_OK;
}

static spt_status make_input(const tune_options *o, spt_tune_input *in,
                             spt_error *err)
{
    spt_problem *p = &in->problem;
    SPT_TRY(check_options(o, err));
    if (!o->heads && !o->model)
        return spt_fail(err, SPT_E_USAGE,
                        "--heads: expected Q/KV, or --model MODEL");
    if (o->heads && o->model)
        return spt_fail(err, SPT_E_USAGE,
                        "--heads %s: expected no heads beside --model, which "
                        "brings its own",
                        o->heads);
    if (o->heads)
        SPT_TRY(spt_parse_heads(o->heads, &p->q_heads, &p->kv_heads, err));
    SPT_TRY(set_types(o, p, err));
    if (o->head_dim && o->model)
        return spt_fail(err, SPT_E_USAGE,
                        "--head-dim %lld: expected none beside --model, which "
                        "brings its own",
                        (long long)o->head_dim);
    p->head_dim = o->head_dim ? (int)o->head_dim : 128;
    p->page_size = (int)o->page_size;
    in->model = o->model;
    in->weights = o->weights;
    in->drafters = o->drafters;
    in->batches = o->batches;
    in->contexts = o->contexts;
    in->acceptance = o->acceptance;
    in->effort = o->effort;
    in->kv_dtype = o->kv_dtype ? o->kv_dtype : o->dtype;
    in->engine = other_engine(o) ? o->engine : NULL;
    in->power_limit = o->power_limit;
    in->boards = (int)o->boards;
    in->draft_board = o->draft_board;
    in->link_us = o->link_us >= 0 ? o->link_us : 20;
    return SPT_OK;
}

/* One line that is written over, on a terminal. */
static void show_progress(const char *what, size_t done, size_t count)
{
    if (count)
        fprintf(stderr, "\r\033[K%s %zu/%zu", what, done, count);
    else
        fprintf(stderr, "\r\033[K%s", what);
    fflush(stderr);
}

/* A note of its own line, over the progress where there is some. */
static void note(void *user, const char *text)
{
    const spt_tune_input *in = user;
    fprintf(stderr, "%sspectune: %s\n", in->progress ? "\r\033[K" : "", text);
}

static void clear_progress(const spt_tune_input *in)
{
    if (in->progress)
        fputs("\r\033[K", stderr);
}

/* folder: of profile and pack; NULL when there are none. */
static spt_status print_answer(const tune_options *o, const spt_tune *t,
                               const char *folder, spt_error *err)
{
    spt_buf profile = {0}, pack = {0}, text = {0};
    cJSON *json = NULL;
    if (folder) {
        spt_buf_printf(&profile, "%s/profile.json", folder);
        spt_buf_printf(&pack, "%s/pack", folder);
    }
    spt_status status = SPT_OK;
    if (o->json)
        status = spt_tune_json(t, "spectune.answer/1", profile.data, pack.data,
                               &json, err);
    if (status == SPT_OK && o->json) {
        spt_json_print(json, &text);
        puts(text.data ? text.data : "");
    } else if (status == SPT_OK && !o->quiet) {
        spt_answer_print(stdout, &t->input, &t->choices,
                         spt_answer_colour(stdout));
        if (folder)
            printf("\n%zu kernels proved on %s, chunk %d\n"
                   "profile and pack in %s\n",
                   t->offer.count + 1, t->proved_on, t->selection.chunk,
                   folder);
    }
    cJSON_Delete(json);
    spt_buf_free(&profile);
    spt_buf_free(&pack);
    spt_buf_free(&text);
    return status;
}

/* Another engine's answer: nothing is built and nothing written. */
static spt_status advise(const tune_options *o, spt_tune_input *in, spt_tune *t,
                         spt_error *err)
{
    SPT_TRY(spt_gen_open(NULL, &t->builder.gen, err));
    SPT_TRY(spt_find_board(t->builder.gen, o->arch, o->board, &t->board, err));
    t->builder.board = &t->board;
    SPT_TRY(spt_tune_run(in, t, err));
    return print_answer(o, t, NULL, err);
}

static spt_status tune(const tune_options *o, spt_tune_input *in, spt_tune *t,
                       spt_error *err)
{
    SPT_TRY(make_input(o, in, err));
    if (in->engine)
        return advise(o, in, t, err);
    SPT_TRY(spt_builder_open(&t->builder, o->arch, o->board, &t->board, err));
    spt_buf folder = {0};
    if (o->folder)
        spt_buf_puts(&folder, o->folder);
    else if (o->heads)
        spt_buf_printf(&folder, "out/%s-%d-%d-d%d", t->board.name,
                       in->problem.q_heads, in->problem.kv_heads,
                       in->problem.head_dim);
    else
        spt_buf_printf(&folder, "out/%s-model", t->board.name);
    char *samples = spt_path_join(folder.data, "samples.log");
    const spt_log log = {note, in};
    in->samples = samples;
    in->log = &log;
    spt_status status = spt_folder_make(folder.data, err);
    if (status == SPT_OK)
        status = spt_tune_run(in, t, err);
    spt_free(samples);
    clear_progress(in);
    if (status == SPT_OK)
        status = spt_tune_write(t, folder.data, err);
    if (status == SPT_OK)
        status = print_answer(o, t, folder.data, err);
    spt_buf_free(&folder);
    return status;
}

int spt_cmd_tune(int argc, char **argv)
{
    tune_options o = {
        .dtype = "bf16",
        .effort = "estimate",
        .engine = "spectune",
        .boards = 1,
        .link_us = -1,
        .page_size = 16,
        .batches = {3, {1, 8, 64}},
        .contexts = {3, {1024, 8192, 32768}},
        .drafters = {.count = 6,
                     .values = {"external", "eagle3", "mtp", "dflash", "dspark",
                                "ngram"}},
    };
    int code = parse(argc, argv, &o);
    if (code >= 0)
        return code;
    spt_error err = {0};
    spt_tune_input in = {0};
    static spt_tune t;
    if (isatty(STDERR_FILENO) && !o.quiet)
        in.progress = show_progress;
    spt_status status = tune(&o, &in, &t, &err);
    spt_tune_free(&t);
    spt_builder_close(&t.builder);
    return status == SPT_OK ? 0 : spt_exit_error("spectune", &err);
}
