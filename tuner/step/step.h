/*
 * Time and memory of one step of a batch: plain decoding, drafting and
 * verification, from the shapes of target and drafter.
 */
#ifndef SPT_STEP_H
#define SPT_STEP_H

#include "drafter.h"
#include "model.h"
#include "power.h"
#include "serving.h"

/* How attention is timed: the best of the kernels that are given. */
typedef struct spt_kernels {
    const spt_attention_config *configs;
    size_t count;
    /* Optional: times from elsewhere. Returns a negative number when it has
       none for (config, shape); *evidence is a text like "measured". */
    double (*time)(void *user, size_t config, const spt_attention_shape *shape,
                   const char **evidence);
    void *user;
} spt_kernels;

/* Where a step runs; zeroed: on one board, by spectune's own kernels. */
typedef struct spt_deployment {
    const spt_serving *serving; /* the engine; NULL = spectune */
    int boards; /* that share every layer (tensor-parallel); 0 = 1 */
    const spt_board *draft_board; /* of the drafter; NULL = the target's */
    const spt_kernels *draft_kernels; /* for it; NULL = the target's */
    int stages; /* that the layers are split into, each `boards`; 0 = 1 */
    double link_us; /* to the draft board, and between stages, one way */
    double link_gbps; /* between boards; 0 = the board's own link */
    double reduce_us; /* least of an all-reduce beside its bytes; 0 = usual */
    spt_power power; /* cap of the target's boards; zeroed: none */
} spt_deployment;

typedef struct spt_step {
    const spt_board *board;
    const spt_target *target;
    const spt_kernels *kernels;
    double kv_bytes; /* of one element */
    int batch;
    double context; /* tokens before the step, per sequence */
    spt_deployment where;
} spt_step;

int spt_step_boards(const spt_step *step); /* of a stage, at least 1 */
int spt_step_stages(const spt_step *step); /* at least 1 */
int spt_deployment_boards(const spt_deployment *where); /* of all stages */
/* For functions of serving.h. */
spt_load spt_step_load(const spt_step *step, const spt_drafter *drafter);

typedef struct spt_attention_best {
    double us;
    size_t config; /* index into kernels->configs */
    const char *evidence;
} spt_attention_best;

/* Attention of one full layer over the step's context, 1 + draft rows. */
spt_attention_best spt_step_attention(const spt_step *step, int draft_length);

/* The verify step's time by terms; in another engine as for
   spt_serving_verify_terms. */
void spt_step_verify_terms(const spt_step *step, int draft_length,
                           spt_step_terms *terms);

/* One forward of the target with 1 + draft_length rows per sequence; in an
   engine where sequences take turns, as many as all take. */
double spt_step_verify_us(const spt_step *step, int draft_length,
                          const char **evidence);
/* Plain decoding: a step that verifies nothing. */
double spt_step_target_us(const spt_step *step, const char **evidence);
/* What the drafter takes for draft_length drafts; 0 for none. */
double spt_step_draft_us(const spt_step *step, const spt_drafter *drafter,
                         int draft_length);

/* The same for a tree: `top_k` rows at each depth; verification of its nodes,
   and moving the kept path's KV together. */
double spt_step_tree_draft_us(const spt_step *step, const spt_drafter *drafter,
                              const spt_draft_tree *tree);
double spt_step_tree_verify_us(const spt_step *step,
                               const spt_draft_tree *tree);

/* Bytes by what they are for (memory_parts.def), of all boards that share the
   layers; drafter may be NULL. And their sum. */
typedef struct spt_footprint {
#define SPT_MEMORY_PART(field, name) double field;
#include "memory_parts.def"
#undef SPT_MEMORY_PART
} spt_footprint;

spt_footprint spt_step_footprint(const spt_step *step,
                                 const spt_drafter *drafter, int draft_length);
double spt_step_memory_bytes(const spt_step *step, const spt_drafter *drafter,
                             int draft_length);
/* Of the batch, those that run side by side: in engines sequences that find no
   room for their KV wait, and times are those of everyone's turn. */
double spt_step_running(const spt_step *step, const spt_drafter *drafter,
                        int draft_length);
/* Whether so many bytes fit these boards, and the drafter its own; in an
   engine, whether it has room for a sequence. */
bool spt_step_fits(const spt_step *step, const spt_drafter *drafter,
                   int draft_length, double memory_bytes);
/* "x of y GB" of what the boards have, "x of sglang's y GB"; text. */
const char *spt_step_room_text(const spt_step *step, double memory_bytes,
                               char *text, size_t size);

/* Reading `context` tokens of one prompt: the target, and what the drafter
   adds (its own pass over them; 0 for n-gram). */
double spt_step_prefill_us(const spt_step *step);
double spt_step_draft_prefill_us(const spt_step *step,
                                 const spt_drafter *drafter);

#endif
