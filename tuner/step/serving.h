/*
 * Serving engines: what their kernels and their host part cost, from
 * profiles/engines/NAME.json, and the time of a step in one of them.
 *
 * Every result is `modelled`: the constants are fitted to published rates,
 * everything else follows from board, target and drafter.
 */
#ifndef SPT_SERVING_H
#define SPT_SERVING_H

#include "board.h"
#include "drafter.h"
#include "step_terms.h"
#include "target.h"

/*
 * What to type in an engine for a drafting method. {D}: drafts, {D+1}: with
 * the row that they hang on, {DRAFTER}: stays for the path of its weights.
 */
typedef struct spt_serving_method {
    char flags[200]; /* "": the engine lacks the method */
    char tree[260]; /* for a tree of {DEPTH}, {TOP_K}, {NODES}, {NODES+1}; "":
                       it has none */
    char no_pipeline[100]; /* why not over stages of layers, or "" */
    char source[160]; /* where the engine documents them, with its version */
} spt_serving_method;

typedef struct spt_serving {
    char name[24]; /* llama.cpp */
    char source[240];
    char off[80]; /* to type for no drafts */
    spt_serving_method methods[SPT_METHOD_COUNT];
#define SPT_SERVING_FACT(field, unit, min, max, meaning) double field;
#include "serving.def"
#undef SPT_SERVING_FACT
} spt_serving;

/* By name; case does not matter ("vLLM"). */
spt_status spt_serving_load(const char *home, const char *name,
                            spt_serving *serving, spt_error *err);
/* From bytes in memory; name is what errors call them. */
spt_status spt_serving_parse(const char *text, size_t size, const char *name,
                             spt_serving *serving, spt_error *err);

bool spt_serving_has(const spt_serving *serving, spt_method method);
bool spt_serving_has_trees(const spt_serving *serving, spt_method method);

/* What to type for a draft length; false when the engine lacks the method. */
bool spt_serving_flags(const spt_serving *serving, spt_method method,
                       int draft_length, char *text, size_t size);
/* The same for a tree. */
bool spt_serving_tree_flags(const spt_serving *serving, spt_method method,
                            const spt_draft_tree *tree, char *text,
                            size_t size);

/* Between boards; zeroed: as the board says. */
typedef struct spt_link {
    double hop_us; /* from a stage to the next, one way */
    double gbps; /* 0 = the board's own link */
    double reduce_us; /* least of a layer's all-reduces beside their bytes */
} spt_link;

/* One load: a batch of equal sequences on boards that share every layer, or on
   stages of such boards. */
typedef struct spt_load {
    const spt_serving *serving;
    const spt_board *board;
    const spt_target *target;
    const spt_drafter *drafter; /* NULL: none beside the target */
    int boards; /* tensor-parallel */
    double batch; /* sequences that ask */
    double context; /* tokens per sequence */
    double kv_bytes; /* of one KV element */
    int stages; /* that the layers are split into; 0 = 1 */
    spt_link link;
} spt_load;

/* Sequences that the engine's share of the memory has room for; under 1 it
   does not start. INFINITY where it does not count. */
double spt_serving_room(const spt_load *load, int draft_length);
/* Sequences that run side by side; what does not fit waits. At least 1. */
double spt_serving_running(const spt_load *load, int draft_length);

/*
 * Microseconds of one forward of the target with 1 + draft_length rows for
 * each of `running` sequences, host part included; and what drafting adds.
 */
double spt_serving_verify_us(const spt_load *load, double running,
                             int draft_length);
double spt_serving_draft_us(const spt_load *load, double running,
                            const spt_draft_tree *tree);

/*
 * What a rejected draft costs an engine that has to restore recurrent states:
 * copies, and the kept drafts once more; 0 elsewhere.
 */
double spt_serving_restore_us(const spt_load *load, double running,
                              int draft_length);

/* Of one forward with so many rows: activations from stage to stage, and the
   tokens back to the first. */
double spt_load_hops_us(const spt_load *load, double rows);

/*
 * Time in which every one of the batch's sequences takes one step: turns of
 * those that wait or that the engine verifies apart, drafting, verification,
 * restoring. With a chain, and with a tree.
 */
double spt_serving_step_us(const spt_load *load, int draft_length);
double spt_serving_tree_us(const spt_load *load, const spt_draft_tree *tree);

/*
 * The same step without a drafter, by terms. Reading and arithmetic overlap
 * over a whole forward: each part has the time in which it is read, and its
 * share by arithmetic of what the forward takes beyond reading.
 */
void spt_serving_verify_terms(const spt_load *load, int draft_length,
                              spt_step_terms *terms);

#endif
