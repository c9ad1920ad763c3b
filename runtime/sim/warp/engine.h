/*
 * The engine: runs decoded PTX, a warp at a time.
 *
 * Register file. A frame (one per call of a function by a warp) is one block
 * of bytes, `regs`; a register, a constant or a special register is a slot, a
 * byte offset into it. A slot holds 32 lanes side by side, lane 0 first:
 *   width 4: uint32_t[32] (128 bytes) for types of 1 to 4 bytes. A type of 1
 *            or 2 bytes lies in the low bits; the bits above are zero.
 *   width 8: uint64_t[32] (256 bytes)
 *   width 16: 32 x 16 bytes (512 bytes), .b128
 *   width 0: a predicate, one uint32_t with a bit per lane (in 64 bytes)
 * Slots are 64-byte aligned; registers that are never alive together share
 * them. Constants, addresses of variables and special
 * registers that do not change while a CTA runs are slots that were filled
 * beforehand: a source operand is always a slot.
 *
 * Instructions. A handler does one instruction for the whole warp and calls
 * the next one. Each instruction has two: `full` when all 32 lanes take part
 * and `masked` when only those in exec do. Instructions that are not worth
 * that (memory, mma) are a sim_op, called with exec either way.
 *
 * A lane that is not in exec must not change: neither its registers nor its
 * bits in predicates.
 */
#ifndef SPT_SIM_ENGINE_H
#define SPT_SIM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "counters.h"
#include "error.h"
#include "memory.h"
#include "ptx.h"
#include "report.h"
#include "sim.h"

enum {
    SIM_LANES = 32,
    SIM_BARRIERS = 16,
    SIM_CLUSTER_BARRIER = 16, /* a group that waits for its cluster */
    SIM_FULL_WARP = -1,
};

typedef struct sim_insn sim_insn;
typedef struct sim_warp sim_warp;
typedef struct sim_cta sim_cta;
typedef struct sim_cluster sim_cluster;
typedef struct sim_launch sim_launch;
typedef struct sim_program sim_program;
typedef struct sim_code sim_code;
typedef struct sim_taint sim_taint;

typedef const sim_insn *(*sim_handler)(const sim_insn *in, sim_warp *w,
                                       uint8_t *regs, uint32_t exec);
typedef void (*sim_op)(const sim_insn *in, sim_warp *w, uint8_t *regs,
                       uint32_t exec);

enum {
    SIM_ARG_IMMEDIATE = 1, /* slot holds a constant, the same in all lanes */
    SIM_ARG_SINK = 2, /* "_": slot is scratch that nobody reads */
    SIM_ARG_FRAME = 4, /* address: add w->frame->local_base */
    SIM_ARG_ADDRESS = 8, /* value in brackets: slot lane + offset */
    SIM_ARG_VECTOR = 16, /* element of a {...} */
};

/* One operand; a vector operand is count of them in a row. */
typedef struct sim_arg {
    uint32_t slot;
    uint8_t width; /* of the slot: 0, 4, 8, 16 */
    uint8_t flags;
    uint8_t type; /* ptx_type of the register or constant */
    uint8_t spare;
    int64_t offset; /* of addresses; without base register slot is zeros */
} sim_arg;

/* All operands of an instruction, vectors flattened. */
typedef struct sim_args {
    uint16_t count; /* args */
    uint16_t first[PTX_MAX_OPERANDS + 1]; /* args index of PTX operand i */
    sim_arg arg[];
} sim_args;

struct sim_insn {
    sim_handler full, masked;
    /* The usual slots: destination and up to three sources, so that lane
       handlers need not look into args. For a sim_op: the first arg of PTX
       operands 0 to 3. */
    uint32_t d, a, b, c;
    union {
        sim_op op; /* of instructions that are a sim_op */
        const sim_insn *target; /* of branches */
        uint64_t bits; /* what else a handler wants to know */
    };
    const sim_args *args;
    int64_t offset; /* of the first address operand */
    const ptx_insn *src;
};

/* A slot's lanes. */
#define SIM_U32(slot) ((uint32_t *)(void *)(regs + (slot)))
#define SIM_U64(slot) ((uint64_t *)(void *)(regs + (slot)))
#define SIM_F32(slot) ((float *)(void *)(regs + (slot)))
#define SIM_PRED(slot) (*(uint32_t *)(void *)(regs + (slot)))

/* One call of a function by some lanes of a warp. */
typedef struct sim_frame {
    struct sim_frame *parent;
    const sim_code *code;
    const sim_insn *back; /* where the caller goes on */
    const sim_insn *call; /* the caller's instruction */
    uint8_t *regs;
    uint64_t regs_bytes;
    uint32_t lanes; /* that have not returned yet */
    uint32_t depth; /* 0: the kernel */
    uint64_t local_base; /* local address of this frame */
    uint64_t taken[SIM_LANES]; /* bytes behind it that alloca has given */
    struct sim_frame *older; /* all frames of the warp */
} sim_frame;

typedef enum sim_event {
    SIM_EVENT_NONE,
    SIM_EVENT_GROUPS, /* groups changed: choose again */
    SIM_EVENT_QUANTUM, /* ran long enough */
    SIM_EVENT_STEP, /* one instruction at a time from here (taint.h) */
    SIM_EVENT_BARRIER, /* the group waits */
    SIM_EVENT_STOP, /* the CTA is to end: fault, trap, limit */
} sim_event;

enum { SIM_READY, SIM_AT_BARRIER, SIM_AT_SYNC };

/* Lanes of a warp that stand at the same place. */
typedef struct sim_group {
    const sim_insn *pc;
    sim_frame *frame;
    uint32_t mask;
    uint8_t state;
    uint8_t barrier;
    uint32_t need; /* SIM_AT_SYNC: lanes that must come together */
    uint64_t last; /* when it ran, for fairness */
} sim_group;

struct sim_warp {
    /* Hot while a group runs. */
    uint32_t mask; /* lanes of the running group */
    int32_t event; /* sim_event; handlers set it to leave the chain */
    uint32_t wait_rank; /* a block of this rank or higher must choose again */
    int32_t budget; /* instructions until the quantum is over */
    uint64_t *visits; /* (block, 2): runs and lanes, of this worker */
    sim_frame *frame;
    sim_cta *cta;
    sim_launch *launch;
    uint32_t index; /* in the CTA */
    uint32_t alive; /* lanes that have not exited */
    /* Local memory, local_bytes per lane: the 4-byte word at address a of
       lane l is at ((a / 4) * 32 + l) * 4, bytes within it in order. */
    uint8_t *local;
    uint64_t local_bytes;
    void *memory; /* of the memory spaces, per warp */
    sim_taint *taint; /* NULL until something is marked */

    int n_groups; /* waiting ones; the running one is not among them */
    sim_group groups[SIM_LANES];
    uint64_t clock;
    uint8_t *stack; /* frames' registers */
    uint64_t stack_used, stack_bytes;
    sim_frame *free_frames, *all_frames;
    bool done;
    bool fair; /* the group that waited longest is next, not the lowest */
    bool forced; /* the next warp-wide instruction does not wait for lanes */
    /* Lanes at barrier.cluster: that came in this phase, that came and have
       not waited since. */
    uint32_t cluster_came, cluster_owes;
    uint32_t carry; /* of .cc, a bit per lane */
    uint64_t ticks; /* so that clocks always grow */
};

typedef struct sim_barrier {
    uint32_t expected; /* threads; 0: all of the CTA */
    uint32_t arrived; /* by bar.arrive */
    uint32_t waiting; /* warps' threads that wait */
    uint32_t value; /* of bar.red */
    uint32_t arrivers; /* a bit per warp that came by bar.arrive */
    bool open; /* somebody came */
} sim_barrier;

struct sim_cta {
    sim_launch *launch;
    sim_cluster *cluster;
    uint32_t rank; /* in the cluster */
    uint64_t index; /* linear: x fastest */
    uint32_t id[3];
    uint32_t n_warps, n_threads;
    sim_warp *warps;
    uint8_t *shared; /* addresses 0 to shared_bytes; reserved part first */
    uint32_t shared_bytes;
    sim_barrier barriers[SIM_BARRIERS];
    uint32_t *synced; /* (warp): lanes, for sim_memory_barrier */
    uint64_t sequence; /* of reports, see sim_place */
    uint64_t instructions; /* run so far */
    int fault; /* CUresult that ends the launch; 0 = none */
    sim_counts *counts; /* of this CTA; NULL: counters are off */
    spt_buf *print; /* what its threads print */
    spt_buf own_print; /* of a CTA that prints for itself */
    void *memory; /* of the memory spaces, per CTA */
    uint8_t *undefined; /* bits of shared memory that are marked (taint.h) */
    bool watched; /* checks or counters are on */
};

/* CTAs that run together and see each other's shared memory. */
struct sim_cluster {
    sim_cta *ctas; /* by rank */
    uint32_t n;
    uint64_t number; /* in the launch */
    bool running;
    bool waited; /* somebody has come to barrier.cluster */
};

typedef struct sim_launch_args {
    sim_program *program;
    uint32_t func; /* module->funcs index of a kernel */
    const spt_board *board;
    sim_memory *memory;
    int device;
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* 0: none */
    uint32_t dynamic_shared;
    const void *params; /* the kernel's param_bytes */
    bool cooperative;
    bool checks, counters;
    int threads; /* host threads; 0 = all cores */
    uint64_t max_instructions; /* 0 = default */
    uint64_t stack_bytes; /* per thread, for recursion; 0 = default */
    uint64_t grid_id;
    uint64_t workspace; /* of a cooperative launch, zeroed; else 0 */
    sim_l2 *l2; /* of the device, when counters */
} sim_launch_args;

struct sim_launch {
    sim_launch_args args;
    const ptx_module *module;
    const ptx_func *func;
    const sim_code *code;
    uint32_t shared_base; /* first address that is not reserved */
    uint32_t shared_bytes; /* reserved + static + dynamic */
    uint64_t n_ctas;
    uint32_t cluster[3]; /* at least 1 */
    const uint8_t *params;
    uint64_t local_bytes;
    bool serial; /* CTAs talk to each other: fixed interleaving */
};

/*
 * Makes a module ready to run. addresses[i]: device address of module->vars[i]
 * for global and constant variables of module scope (others are ignored). The
 * module must outlive the program; functions are decoded at first use.
 */
spt_status sim_program_new(const ptx_module *module, const uint64_t *addresses,
                           bool checks, sim_program **program, spt_error *err);
void sim_program_delete(sim_program *program);

/*
 * Decodes the kernel and what it calls, unless done before. An instruction
 * that sim cannot run is SPT_E_UNSUPPORTED with its PTX line.
 */
spt_status sim_program_prepare(sim_program *program, uint32_t func,
                               spt_error *err);

/* Static shared bytes of a kernel, its callees' and the module's included;
   local bytes per thread of a prepared kernel. */
uint32_t sim_program_shared(sim_program *program, uint32_t func);
uint64_t sim_program_local(sim_program *program, uint32_t func);

/* What indirect calls take and `mov %rd, function` gives. */
#define SIM_FUNCTION_ADDRESS(index) (UINT64_C(0x740000000000) + 16 * (index))

/*
 * Runs one grid to its end and returns the CUresult of the launch (0, or what
 * the context would be left with: CUDA_ERROR_ILLEGAL_ADDRESS, ..._ASSERT,
 * ..._LAUNCH_FAILED, ..._LAUNCH_TIMEOUT for the instruction limit). The ctas,
 * warps, ptx_ and mma_flops counters are added to sum, with counters on all
 * of counters.h too. err gets one line when the result is not 0.
 */
int sim_launch_run(const sim_launch_args *args, spt_sim_counters *sum,
                   spt_error *err);

/* --- for handlers ------------------------------------------------------ */

/* Where lane of w stands at instruction in; for reports. */
void sim_place_of(const sim_warp *w, const sim_insn *in, unsigned lane,
                  sim_place *place);

/* Ends the launch with a CUresult: the warp stops after this instruction. */
void sim_fault(sim_warp *w, int result);

/* Lets other groups and warps run first, e.g. after a failed try_wait. */
static inline void sim_yield(sim_warp *w)
{
    w->budget = 0;
}

/* --- what the memory spaces give the engine (memory_*.c) ---------------- */

/*
 * The handler of an instruction that touches memory or is a matrix
 * instruction: ld, st, atom, red, ldmatrix, cp.async, mbarrier, mma, fence,
 * prefetch, isspacep, ... NULL when it is none of those. insn is checked
 * against ptx.def; checks: choose the variant with shadow checks. ld.param of
 * kernel parameters comes here, space PTX_PARAM, address within
 * launch->params; parameters of calls come as PTX_LOCAL. cvta is the engine's.
 */
sim_op sim_memory_op(const ptx_insn *insn, bool checks);

/* The instruction can make CTAs see each other's work in progress. */
bool sim_memory_communicates(const ptx_insn *insn);

/* Once per CTA that a worker holds: room for shadow bits. false: no memory. */
bool sim_memory_cta_open(sim_cta *cta);
void sim_memory_cta_close(sim_cta *cta);
/* Before a CTA's first and after its last instruction. */
void sim_memory_cta_begin(sim_cta *cta);
void sim_memory_cta_end(sim_cta *cta);
/* cta->synced[warp] lanes have met at a barrier. */
void sim_memory_barrier(sim_cta *cta);
/* in names a register that wgmma works on; with checks only. */
void sim_wgmma_touch(const sim_insn *in, sim_warp *w);
/* barrier.cluster: a warp comes, all have come, a warp goes on. */
void sim_memory_cluster_release(sim_warp *w);
void sim_memory_cluster_over(sim_cta *cta);
void sim_memory_cluster_acquire(sim_warp *w);
/* Lanes of one warp have met at a warp-wide instruction; with checks only. */
void sim_memory_warp_sync(sim_warp *w);

#endif
