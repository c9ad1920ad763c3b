/*
 * A program: functions of a module as handlers, and what a launch needs to
 * know of them. Internal to the engine's files.
 */
#ifndef SPT_SIM_DECODE_H
#define SPT_SIM_DECODE_H

#include "engine.h"

/* in->bits of float and conversion handlers: modifiers in one word. */
enum {
    SIM_RN,
    SIM_RZ,
    SIM_RM,
    SIM_RP,
    SIM_RNA, /* rounding, low three bits */
    SIM_ROUND = 7,
    SIM_FTZ = 8,
    SIM_SAT = 16,
    SIM_RELU = 32,
    SIM_SATFINITE = 64,
    SIM_TO_INTEGER = 128, /* .rni, .rzi, ...: the rounding is to an integer */
};

/* A slot that is filled when a frame is made. */
typedef enum sim_fill {
    SIM_FILL_LOCAL, /* local address: the frame's base + value */
    SIM_FILL_SHARED, /* shared_base + value */
    SIM_FILL_DYNAMIC, /* start of dynamic shared memory, aligned, + value */
    SIM_FILL_SPECIAL, /* special register index value */
} sim_fill;

typedef struct sim_filled {
    uint32_t slot;
    uint8_t fill, width;
    uint32_t align;
    int64_t value;
} sim_filled;

typedef struct sim_block {
    uint32_t rank, n_insns;
    uint32_t classes[PTX_CLASS_COUNT];
    uint32_t special; /* ex2 and the like, of its classes */
    uint64_t flops, wgmma_flops; /* all of them, wgmma's */
} sim_block;

struct sim_code {
    const ptx_func *func;
    uint32_t index; /* of func in the module */
    sim_insn *insns;
    sim_insn **starts; /* (n_insns): a block's header, where one starts */
    sim_block *blocks;
    uint32_t first_block; /* in the program's numbering */
    uint64_t regs_bytes;
    uint32_t registers_bytes; /* of the PTX's own registers, which come first */
    uint32_t constants_at; /* image of constants: offset and bytes in regs */
    uint32_t constants_bytes;
    uint8_t *constants;
    sim_filled *filled;
    uint32_t n_filled;
    uint64_t frame_bytes; /* local memory of one frame, aligned */
    bool calls, calls_unknown, communicates, allocates;
    uint32_t *callees;
    uint32_t n_callees;
};

struct sim_program {
    const ptx_module *module;
    const uint64_t *addresses;
    bool checks;
    sim_code **codes; /* (n_funcs): NULL until decoded */
    struct ptx_live **lives; /* (n_funcs): NULL until asked for */
    uint32_t n_blocks;
    spt_arena arena;
};

/* Bytes of a slot's lane, 0 for a predicate, and of the whole slot, so that
   every slot begins at a multiple of 64. */
uint32_t sim_slot_width(ptx_type type);
static inline uint32_t sim_slot_bytes(uint32_t width)
{
    return width ? width * SIM_LANES : 64;
}

/* decode_slots.c: the slot of each register of func, from *top on, which moves
   behind them; registers that nobody names get none. false: out of memory. */
bool sim_slots_give(const ptx_func *func, uint32_t *slots, uint32_t *top);

/* The type that a constant at this operand has. */
ptx_type sim_operand_type(const ptx_insn *insn, int at);

/* ex2 and the like, which have a counter of their own. */
bool sim_is_special(const ptx_insn *src);
/* 2 m n k of a matrix instruction, else 0. */
uint64_t sim_flops_of(const ptx_insn *src);

/* The registers of a function that are alive where its blocks begin; NULL when
   out of memory. Safe from any thread; belongs to the program. */
const struct ptx_live *sim_program_live(const sim_program *program,
                                        uint32_t func);

/* decode.c: fills program->codes[index], unless it is there. */
spt_status sim_decode_function(sim_program *program, uint32_t index,
                               spt_error *err);

/* The lane handlers of an instruction; false when there are none. */
bool sim_lanes_find(const ptx_insn *insn, sim_handler *full,
                    sim_handler *masked, uint64_t *bits);

/* Which build of the files lanes_*.c this processor runs. */
typedef enum sim_build {
    SIM_BUILD_PLAIN,
    SIM_BUILD_AVX2,
    SIM_BUILD_AVX512,
} sim_build;
sim_build sim_lanes_build(void);

/* engine_flow.c: handlers that decode.c places itself. */
extern const sim_handler sim_flow_header, sim_flow_next, sim_flow_guard,
    sim_flow_unguard, sim_flow_op, sim_flow_bra, sim_flow_brx, sim_flow_call,
    sim_flow_ret, sim_flow_exit, sim_flow_trap, sim_flow_barrier,
    sim_flow_warp_sync, sim_flow_sync, sim_flow_sync_full, sim_flow_nop,
    sim_flow_special, sim_flow_nanosleep, sim_flow_cluster, sim_flow_touch;

/* engine_special.c: whether a special register changes while a warp runs. */
bool sim_special_of_clock(uint32_t special);
/* engine_warp.c: shfl, vote, match, redux, elect, activemask; NULL: none. */
sim_op sim_warp_op(const ptx_insn *insn);
/* engine_move.c: mov of vectors and predicates, selp of them, cvta; NULL. */
sim_op sim_move_op(const ptx_insn *insn);
/* engine_compare.c: what follows the comparison of set and setp, min and max
   of three; NULL. */
sim_op sim_compare_op(const ptx_insn *insn);
/* set and setp of packed halves are one operation. */
bool sim_compares_packed(const ptx_insn *insn);
bool sim_takes_three(const ptx_insn *insn); /* min and max: not two */
/* engine_call.c: alloca, stacksave, stackrestore; NULL. */
sim_op sim_stack_op(const ptx_insn *insn);
/* engine_video.c: vadd, vadd2, vadd4 and the like; NULL. */
sim_op sim_video_op(const ptx_insn *insn);
/* engine_convert.c: cvt.pack and other conversions lane by lane; NULL. */
sim_op sim_convert_op(const ptx_insn *insn);

/* engine_extern.c: a declared function that lets CTAs see each other's work. */
bool sim_extern_communicates(const char *name);

#define SIM_NO_GUARD UINT32_MAX

#endif
