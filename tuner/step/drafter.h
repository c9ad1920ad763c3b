/*
 * A drafter beside a target: its method and the shape that its time and
 * memory follow from. Where nothing better is known the shape is that of the
 * method's published form for the target, and `shape` says so.
 */
#ifndef SPT_DRAFTER_H
#define SPT_DRAFTER_H

#include "draft.h"
#include "target.h"

typedef enum spt_method {
#define SPT_DRAFTER(id, name, max, doc, no_tree) SPT_METHOD_##id,
#include "drafters.def"
#undef SPT_DRAFTER
    SPT_METHOD_COUNT
} spt_method;

typedef struct spt_drafter {
    spt_method method;
    char name[64]; /* "external", or "external:qwen3-1.7b" */
    char shape[300]; /* what is drafted with, for the output */
    spt_target model; /* EXTERNAL: the model; EAGLE3, DFLASH, DSPARK: what a
                         layer of its own is shaped like */
    int max_draft;
    double layers; /* EAGLE3, MTP, DFLASH, DSPARK: layers of its own */
    double taps; /* target features that its fc joins */
    double vocab; /* rows of its head */
    double rank; /* DSPARK: of the serial head */
} spt_drafter;

/* An n-gram lookup for one sequence, on host or device. Assumed. */
#define SPT_LOOKUP_US 2.0

/* Index of a method by name, or -1; their names in one text. */
int spt_drafter_find(const char *name);
const char *spt_drafter_name(spt_method method);
const char *spt_drafter_list(void);
/* Whether all drafts come out of one pass. */
bool spt_drafter_is_block(spt_method method);
/* Why a method drafts no trees, or NULL. */
const char *spt_drafter_no_tree(spt_method method);

/*
 * name: a method, or "external:MODEL" with MODEL as for spt_target_load.
 * The external drafter of a target is its preset's, else a named default.
 */
spt_status spt_drafter_make(const char *home, const char *name,
                            const spt_target *target, spt_drafter *drafter,
                            spt_error *err);

/* What a layer of its own (not EXTERNAL, NGRAM) is shaped like: MTP's like the
   target's, others dense, whatever the target. */
const spt_target *spt_drafter_layer(const spt_drafter *drafter,
                                    const spt_target *target);

/* Weights that one layer of its own (not EXTERNAL) reads for a row. */
double spt_drafter_layer_params(const spt_drafter *drafter,
                                const spt_target *target);

/* Weights that the drafter adds, and the KV bytes of a sequence, copies on
   boards that share its layers included. */
double spt_drafter_weight_bytes(const spt_drafter *drafter,
                                const spt_target *target);
double spt_drafter_sequence_bytes(const spt_drafter *drafter,
                                  const spt_target *target,
                                  double element_bytes, double context,
                                  int boards);

#endif
