#include "run_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"

static spt_status set_draft(spt_run_options *o, spt_error *err)
{
    spt_draft_options *draft = &o->engine.draft;
    if (draft->model && !o->method)
        draft->method = SPT_DRAFT_MODEL;
    if (o->method)
        SPT_TRY(spt_run_method("--spec-type", o->method, &draft->method, err));
    if (o->speculative)
        SPT_TRY(spt_run_speculative(o, o->speculative, err));
    if (spt_run_method_has_file(draft->method) && !draft->model)
        return spt_fail(
            err, SPT_E_USAGE, "--model-draft: is missing, expected the %s",
            draft->method == SPT_DRAFT_EAGLE3 ? "head's folder"
                                              : "draft model's file");
    if (o->min_match && o->max_match && o->min_match > o->max_match)
        return spt_fail(err, SPT_E_USAGE,
                        "--ngram-min: %d, expected at most --ngram-max, %d",
                        (int)o->min_match, (int)o->max_match);
    draft->min_match = (int)o->min_match;
    draft->max_match = (int)o->max_match;
    draft->branches = (int)o->branches;
    if (o->draft_length == 0)
        draft->method = SPT_DRAFT_NONE;
    o->engine.draft_length = o->draft_length > 0 ? (int)o->draft_length : 0;
    o->session.draft_length = o->draft_length > 0 ? (int)o->draft_length : 0;
    return SPT_OK;
}

/* Into that folder, when it fits. */
static void use_folder(spt_run_options *o, const char *folder)
{
    size_t size = strlen(folder);
    if (size == 0 || size >= sizeof o->step_folder)
        return;
    memcpy(o->step_folder, folder, size + 1);
    o->engine.step_times_folder = o->step_folder;
}

/* Beside the profile, where the pack has one and its folder can be written to;
   else beside the kernels of the cache. */
static void place_step_times(spt_run_options *o)
{
    char folder[4096], profile[4200];
    char *cache = spt_cache_default();
    snprintf(folder, sizeof folder, "%s/..",
             o->engine.pack ? o->engine.pack : "");
    snprintf(profile, sizeof profile, "%s/profile.json", folder);
    if (o->engine.pack && access(profile, F_OK) == 0 &&
        access(folder, W_OK) == 0)
        use_folder(o, folder);
    else if (cache)
        use_folder(o, cache);
    spt_free(cache);
}

static void set_step_times(spt_run_options *o)
{
    if (!o->step_times)
        place_step_times(o);
    else if (strcmp(o->step_times, "none") != 0)
        o->engine.step_times = o->step_times;
}

static spt_status finish(spt_run_options *o, spt_error *err)
{
    if (!o->engine.model)
        return spt_fail(err, SPT_E_USAGE,
                        "--model: is missing, expected a .gguf file or a "
                        "folder");
    if (o->engine.pack_only && !o->engine.pack)
        return spt_fail(err, SPT_E_USAGE,
                        "--pack-only: expected --pack DIR with it");
    if (!o->serves && !o->prompt == !o->prompt_file)
        return spt_fail(err, SPT_E_USAGE,
                        "--prompt or --file: expected one of them");
    o->engine.device = strcmp(o->device, "sim") == 0   ? SPT_DEVICE_SIM
                       : strcmp(o->device, "gpu") == 0 ? SPT_DEVICE_GPU
                                                       : SPT_DEVICE_AUTO;
    set_step_times(o);
    o->engine.dtype = strcmp(o->dtype, "bf16") == 0   ? SPT_TYPE_BF16
                      : strcmp(o->dtype, "fp16") == 0 ? SPT_TYPE_FP16
                                                      : SPT_TYPE_AUTO;
    o->engine.context = (int)o->context;
    o->engine.page_size = (int)o->page_size;
    o->engine.prefill_chunk = (int)o->chunk;
    o->session.accept = strcmp(o->accept, "rejection") == 0
                            ? SPT_ACCEPT_REJECTION
                            : SPT_ACCEPT_MATCH;
    if (o->predict == 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--predict: is 0, expected at least 1, or -1");
    o->session.sampling.top_k = (int)o->top_k;
    o->session.sampling.seed = o->seed;
    o->session.sampling.penalty_tokens = (int)o->penalty_tokens;
    if (o->penalty_tokens == 0) /* there it is the usual number of them */
        o->session.sampling.repeat_penalty =
            o->session.sampling.presence_penalty =
                o->session.sampling.frequency_penalty = 0;
    o->answer.max_tokens = o->predict > 0 ? (size_t)o->predict : 0;
    o->answer.stop_texts = o->stops.values;
    o->answer.n_stop_texts = (size_t)o->stops.count;
    return set_draft(o, err);
}

/* Rows of one subject, copied behind those that are there. */
static size_t add(spt_option *to, size_t n, const spt_option *rows,
                  size_t count)
{
    memcpy(to + n, rows, count * sizeof *rows);
    return n + count;
}

#define ADD(rows) add(to, n, (rows), sizeof(rows) / sizeof *(rows))

static size_t model_rows(spt_run_options *o, spt_option *to, size_t n)
{
    const spt_option rows[] = {
        {"model", 'm', SPT_OPTION_TEXT, &o->engine.model, "FILE",
         "model: a .gguf, or a folder with config.json", 0, 0},
        {"context", 'c', SPT_OPTION_INT, &o->context, "N",
         "tokens of prompt and answer (the model's, at most 4096)", 0, 1 << 24},
    };
    return ADD(rows);
}

static size_t text_rows(spt_run_options *o, spt_option *to, size_t n)
{
    const spt_option rows[] = {
        {"prompt", 'p', SPT_OPTION_TEXT, &o->prompt, "TEXT", "the prompt", 0,
         0},
        {"file", 'f', SPT_OPTION_TEXT, &o->prompt_file, "FILE",
         "the prompt from a file, - = standard input", 0, 0},
        {"predict", 'n', SPT_OPTION_INT, &o->predict, "N",
         "tokens to write, -1 = until the end (128)", -1, 1 << 24},
        {"chat", 0, SPT_OPTION_FLAG, &o->chat, NULL,
         "the prompt is a user's message in the model's chat template", 0, 0},
        {"system", 0, SPT_OPTION_TEXT, &o->system, "TEXT",
         "system message of the chat", 0, 0},
        {"stop", 'r', SPT_OPTION_EACH, &o->stops, "TEXT",
         "ends the answer before this text; may be given again", 0, 0},
        {"ignore-eos", 0, SPT_OPTION_FLAG, &o->answer.ignore_end, NULL,
         "end tokens do not end the answer", 0, 0},
        {"special", 0, SPT_OPTION_FLAG, &o->answer.show_specials, NULL,
         "show special tokens", 0, 0},
    };
    return ADD(rows);
}

static size_t draft_rows(spt_run_options *o, spt_option *to, size_t n)
{
    const spt_option rows[] = {
        {"spec-type", 0, SPT_OPTION_TEXT, &o->method, "none|ngram|model|eagle3",
         "what drafts (none; model with --model-draft)", 0, 0},
        {"model-draft", 0, SPT_OPTION_TEXT, &o->engine.draft.model, "FILE",
         "draft model, also -md", 0, 0},
        {"draft-length", 0, SPT_OPTION_INT, &o->draft_length, "N",
         "drafts of this length, -1 = as long as pays (-1)", -1,
         SPT_DRAFT_LENGTH_MAX},
        {"branches", 0, SPT_OPTION_INT, &o->branches, "N",
         "children per node of the draft tree (1: a chain)", 1, 8},
        {"step-times", 0, SPT_OPTION_TEXT, &o->step_times, "FILE|none",
         "keep the times of own steps, which lengths go by, here (measured "
         "ones: beside the pack's profile, or in the cache)",
         0, 0},
        {"ngram-min", 0, SPT_OPTION_INT, &o->min_match, "N",
         "shortest match of n-gram drafts (2)", 1, SPT_RUN_MATCH_MAX},
        {"ngram-max", 0, SPT_OPTION_INT, &o->max_match, "N",
         "longest match of n-gram drafts (8)", 1, SPT_RUN_MATCH_MAX},
        {"speculative-config", 0, SPT_OPTION_TEXT, &o->speculative, "JSON",
         "the drafter as vLLM writes it", 0, 0},
        {"accept", 0, SPT_OPTION_CHOICE, &o->accept, "match|rejection",
         "how drafts are judged (match: the text is that without drafts)", 0,
         0},
    };
    return ADD(rows);
}

static size_t sampling_rows(spt_run_options *o, spt_option *to, size_t n)
{
    spt_sampling *s = &o->session.sampling;
    const spt_option rows[] = {
        {"temp", 0, SPT_OPTION_NUMBER, &s->temperature, "T",
         "temperature, 0 = greedy (0)", 0, 100},
        {"top-k", 0, SPT_OPTION_INT, &o->top_k, "N",
         "of the k most probable tokens only (0: all)", 0, 1 << 24},
        {"top-p", 0, SPT_OPTION_NUMBER, &s->top_p, "P",
         "of the fewest tokens that hold this probability (0 or 1: all)", 0, 1},
        {"min-p", 0, SPT_OPTION_NUMBER, &s->min_p, "P",
         "of tokens with this part of the best one's probability (0)", 0, 1},
        {"repeat-penalty", 0, SPT_OPTION_NUMBER, &s->repeat_penalty, "X",
         "on tokens that occurred (1)", 0, 100},
        {"presence-penalty", 0, SPT_OPTION_NUMBER, &s->presence_penalty, "X",
         "subtracted from what occurred (0)", -100, 100},
        {"frequency-penalty", 0, SPT_OPTION_NUMBER, &s->frequency_penalty, "X",
         "subtracted per occurrence (0)", -100, 100},
        {"penalty-tokens", 0, SPT_OPTION_INT, &o->penalty_tokens, "N",
         "that penalties look back at, 0 = none, -1 = all (64)", -1, 1 << 24},
        {"seed", 's', SPT_OPTION_SEED, &o->seed, "N", "of random numbers (0)",
         0, 0},
    };
    return ADD(rows);
}

static size_t device_rows(spt_run_options *o, spt_option *to, size_t n)
{
    const spt_option rows[] = {
        {"device", 0, SPT_OPTION_CHOICE, &o->device, "auto|sim|gpu",
         "what runs the kernels (auto: a GPU, else sim)", 0, 0},
        {"board", 0, SPT_OPTION_TEXT, &o->engine.board, "NAME|FILE.lua",
         "board that sim is, that times are modelled for (h100_sxm)", 0, 0},
        {"pack", 0, SPT_OPTION_TEXT, &o->engine.pack, "DIR",
         "kernels of this pack first (spectune pack make)", 0, 0},
        {"pack-only", 0, SPT_OPTION_FLAG, &o->engine.pack_only, NULL,
         "and no others", 0, 0},
        {"dtype", 0, SPT_OPTION_CHOICE, &o->dtype, "auto|bf16|fp16",
         "type of activations and KV (auto: by the model)", 0, 0},
        {"page-size", 0, SPT_OPTION_INT, &o->page_size, "N",
         "tokens of a KV page (16)", 1, 4096},
        {"prefill-chunk", 0, SPT_OPTION_INT, &o->chunk, "N",
         "prompt tokens of one step (64)", 1, 4096},
        {"no-graphs", 0, SPT_OPTION_FLAG, &o->engine.no_graphs, NULL,
         "launch kernels one by one, not as CUDA graphs", 0, 0},
        {"checks", 0, SPT_OPTION_FLAG, &o->engine.checks, NULL,
         "sim checks every access; slow", 0, 0},
        {"verbose", 'v', SPT_OPTION_FLAG, &o->engine.log.verbose, NULL,
         "a line for each kernel that comes from the pack", 0, 0},
    };
    return ADD(rows);
}

static size_t output_rows(spt_run_options *o, spt_option *to, size_t n)
{
    const spt_option rows[] = {
        {"color", 0, SPT_OPTION_SWITCH, &o->color, "[on|off|auto]",
         "mark accepted drafts in green", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &o->json, NULL,
         "print one JSON object instead of the text", 0, 0},
    };
    return ADD(rows);
}

static const char other_names[] =
    "Options as llama.cpp, vLLM and SGLang spell them are understood where "
    "there is such a thing here; those that change no text are left aside, and "
    "the others refused, with a line that says why.";

static int parse(spt_run_options *o, int argc, char **argv)
{
    spt_option options[48];
    size_t n = model_rows(o, options, 0);
    n = text_rows(o, options, n);
    n = draft_rows(o, options, n);
    n = sampling_rows(o, options, n);
    n = device_rows(o, options, n);
    n = output_rows(o, options, n);
    const spt_usage usage = {
        .command = "spectune run",
        .summary = "Writes on from a prompt with a model, on a GPU or on sim. "
                   "Drafts change how fast it writes, not what. The text goes "
                   "to standard output, all else to standard error.",
        .options = options,
        .count = (int)n,
        .epilogue = other_names,
        .foreign = true,
    };
    return spt_options(&usage, argc, argv, NULL);
}

static int parse_serve(spt_run_options *o, const spt_option *own, size_t count,
                       int argc, char **argv)
{
    spt_option options[48];
    size_t n = model_rows(o, options, 0);
    n = add(options, n, own, count);
    n = draft_rows(o, options, n);
    n = device_rows(o, options, n);
    const spt_usage usage = {
        .command = "spectune serve",
        .summary = "Serves a model over HTTP in the shapes of OpenAI's API: "
                   "/v1/completions, /v1/chat/completions, /v1/models, "
                   "/health and /metrics. Requests at once are stepped "
                   "together; what one gets does not depend on the others. "
                   "Tools, forms of the answer (response_format), parts that "
                   "are no text, and prompt_logprobs (echo with logprobs has "
                   "them) are refused; fields that nobody knows are left "
                   "aside.",
        .options = options,
        .count = (int)n,
        .epilogue = other_names,
        .foreign = true,
    };
    return spt_options(&usage, argc, argv, NULL);
}

static int read_options(spt_run_options *o, const spt_option *own, size_t count,
                        int argc, char **argv)
{
    spt_error err = {0};
    *o = (spt_run_options){.device = "auto",
                           .dtype = "auto",
                           .accept = "match",
                           .predict = 128,
                           .penalty_tokens = 64,
                           .draft_length = -1};
    o->serves = own != NULL;
    int status =
        own ? parse_serve(o, own, count, argc, argv) : parse(o, argc, argv);
    if (status >= 0)
        return status;
    if (finish(o, &err) != SPT_OK)
        return spt_exit_error(own ? "spectune serve" : "spectune run", &err);
    return -1;
}

int spt_run_options_read(spt_run_options *o, int argc, char **argv)
{
    return read_options(o, NULL, 0, argc, argv);
}

int spt_serve_options_read(spt_run_options *o, const spt_option *own,
                           size_t count, int argc, char **argv)
{
    return read_options(o, own, count, argc, argv);
}
