/* What the files of taint.h share. */
#ifndef SPT_SIM_TAINT_INT_H
#define SPT_SIM_TAINT_INT_H

#include "engine_int.h"
#include "taint.h"

#define EACH_MARKED(l, lanes)         \
    for (uint32_t rest_ = (lanes), l; \
         rest_ && (l = sim_first_lane(rest_), true); rest_ &= rest_ - 1)

enum { MARKS = 128, ORIGINS = 32, ELEMENTS = 8 };

/* The load that an undefined value comes from. */
typedef struct origin {
    spt_sim_kind kind;
    const sim_insn *in;
    uint64_t addr[SIM_LANES];
} origin;

/* Undefined bits of lanes, and which origin they have. */
typedef struct shadow {
    uint32_t lanes;
    uint16_t from[SIM_LANES]; /* origin + 256 * the lane that read it */
    uint64_t bits[SIM_LANES];
} shadow;

typedef struct mark {
    const sim_frame *frame;
    uint32_t reg;
    shadow s;
} mark;

/* A store that has yet to run. */
typedef struct pending {
    bool on;
    uint32_t bytes; /* of an element */
    uint64_t offset[SIM_LANES];
    uint32_t shared; /* lanes: shared, not local memory */
    shadow s[ELEMENTS];
} pending;

struct sim_taint {
    uint32_t count;
    mark marks[MARKS];
    origin origins[ORIGINS];
    pending store;
    const sim_insn *shuffle; /* a shfl that has yet to run; NULL: none */
    shadow shuffled; /* its result */
    uint8_t *local; /* undefined bits per byte of w->local; NULL: none */
};

/* Takes lanes away from the marks of a frame, or of all. */
void sim_taint_drop(sim_taint *t, const sim_frame *frame, uint32_t lanes);
/* Lanes whose registers of w->frame are dead where the block begins lose
   their marks. */
void sim_taint_prune(sim_warp *w, uint32_t block, uint32_t lanes);
/* The marks of a register of w->frame; NULL: none. */
shadow *sim_taint_find(const sim_warp *w, int64_t reg);
/* Lanes of a shadow (may be NULL) decide something in instruction src. */
void sim_taint_use(sim_warp *w, const shadow *s, uint32_t exec,
                   const ptx_insn *src);
/* Register reg (-1: none) of the lanes exec is as s says. */
void sim_taint_define(sim_warp *w, int64_t reg, uint32_t exec, const shadow *s,
                      const ptx_insn *src);
/* The register of an operand's element i: its value or its address; -1. */
int64_t sim_taint_register(const sim_warp *w, const ptx_operand *operand,
                           uint32_t i);
/* All bits that a register has. */
uint64_t sim_taint_register_bits(const sim_warp *w, int64_t reg);
/* A store has run: its bytes have the marks of what was stored. */
void sim_taint_keep(sim_warp *w);

static inline uint32_t elements(const ptx_operand *operand)
{
    return operand->kind == PTX_VECTOR ? operand->count : 1;
}

static inline void set_lane(shadow *s, unsigned lane, uint64_t bits,
                            unsigned from)
{
    s->lanes &= ~(1u << lane);
    s->lanes |= (uint32_t)(bits != 0) << lane;
    s->bits[lane] = bits;
    s->from[lane] = (uint16_t)from;
}

#endif
