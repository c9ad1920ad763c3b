/*
 * The kernels of one reduction key, built: what a problem needs so that it can
 * run, be proved and be offered.
 */
#ifndef SPT_OFFER_H
#define SPT_OFFER_H

#include "build.h"
#include "problem.h"

typedef struct spt_offer {
    spt_built *attention; /* without spills, in the order of the configs */
    size_t count;
    size_t spilled; /* built, but not offered for their spills */
    spt_built combine;
    /* The same key without draft block, pages or tree: rows alone. */
    spt_built base_attention, base_combine;
} spt_offer;

/* The values of verify_attention that a problem and a chunk fix. */
void spt_offer_config(const spt_problem *problem, int chunk,
                      spt_config *config);

/*
 * One config per number of rows and row warps, stages taken in turn, or every
 * config: what spt_gen_space has for the problem. *configs: spt_free.
 */
spt_status spt_offer_space(const spt_builder *builder,
                           const spt_problem *problem, int chunk, bool every,
                           spt_config **configs, size_t *count, spt_error *err);

/* Builds the configs (from spt_offer_space) and what belongs to them. */
spt_status spt_offer_build(const spt_builder *builder,
                           const spt_problem *problem, int chunk,
                           const spt_config *configs, size_t count,
                           spt_offer *offer, spt_error *err);
void spt_offer_free(spt_offer *offer);

#endif
