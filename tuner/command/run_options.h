/*
 * The options of `spectune run`: its own names, llama.cpp's spellings and
 * vLLM's --speculative-config, all into one struct.
 */
#ifndef SPT_RUN_OPTIONS_H
#define SPT_RUN_OPTIONS_H

#include "options.h"

/* Tokens of an n-gram match, at most. */
enum { SPT_RUN_MATCH_MAX = 64 };

typedef struct spt_run_options {
    spt_engine_options engine;
    spt_session_options session;
    spt_answer_options answer;
    const char *prompt; /* text, or NULL with prompt_file */
    const char *prompt_file; /* "-" = standard input */
    const char *system; /* message before the prompt of a chat, or NULL */
    bool chat, json, color;
    bool serves; /* they are those of `spectune serve` */
    /* What the options are read into. */
    spt_texts stops;
    const char *device, *method, *dtype, *accept, *speculative, *step_times;
    int64_t context, predict, sessions, page_size, chunk, draft_length,
        min_match, max_match, branches, top_k, penalty_tokens;
    uint64_t seed;
    char draft_model[4096], step_folder[4096];
} spt_run_options;

/*
 * Reads argv[1...]: -1 to go on, or the exit status after a line was printed.
 * argv must live as long as the options.
 */
int spt_run_options_read(spt_run_options *options, int argc, char **argv);

/* The same for `spectune serve`: what concerns model, drafts and device, and
   the command's own rows. */
int spt_serve_options_read(spt_run_options *options, const spt_option *own,
                           size_t count, int argc, char **argv);

/* The method of that name, here or in llama.cpp or vLLM; where: the option that
   the error names. */
spt_status spt_run_method(const char *where, const char *name,
                          spt_draft_method *method, spt_error *err);
/* Whether it drafts with what --model-draft names. */
bool spt_run_method_has_file(spt_draft_method method);

/* What vLLM's JSON says, into engine and draft length; SPT_E_USAGE. */
spt_status spt_run_speculative(spt_run_options *options, const char *json,
                               spt_error *err);

#endif
