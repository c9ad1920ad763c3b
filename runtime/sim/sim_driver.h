/*
 * Inside sim's driver: the machine, its contexts and what they own.
 *
 * Locking. One lock guards everything here; an API call takes it with
 * sim_enter and gives it back with sim_leave. Work that was enqueued runs in
 * the thread that synchronises, one piece at a time in the whole machine
 * ("busy"); the lock is released while a kernel or a host function runs, so
 * that other threads can go on enqueueing.
 *
 * Laziness. A stream is a queue. Nothing runs before somebody waits for it
 * (synchronise, query, a synchronous copy, a free), and then only what that
 * wait implies: earlier work of the stream, of the events it waits for, and of
 * the legacy default stream's order. Data that a program reads without the
 * wait that CUDA asks for is therefore old.
 *
 * Every piece of work has a number, growing in the order of the calls.
 * "Before" always means "a smaller number", so that waiting cannot go in
 * circles.
 */
#ifndef SPT_SIM_DRIVER_H
#define SPT_SIM_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counters.h"
#include "driver.h"
#include "engine.h"
#include "memory.h"
#include "sim.h"

/* sim's function behind a driver call: sim_cuMemAlloc_v2 for cuMemAlloc. */
#define SIM_FN_PASTE(name) sim_##name
#define SIM_FN(name) SIM_FN_PASTE(name)
#define SPT_DRIVER_CALL(name) extern __typeof__(name) SIM_FN(name);
#include "driver.def"
#undef SPT_DRIVER_CALL

typedef enum sim_handle_kind {
    SIM_HANDLE_NONE,
    SIM_HANDLE_CONTEXT,
    SIM_HANDLE_MODULE,
    SIM_HANDLE_FUNCTION,
    SIM_HANDLE_STREAM,
    SIM_HANDLE_EVENT,
    SIM_HANDLE_GRAPH,
    SIM_HANDLE_NODE,
    SIM_HANDLE_EXEC,
    SIM_HANDLE_LINK,
} sim_handle_kind;

/* One side of a copy: memory as rows of pitch bytes, slices of height rows. */
typedef struct sim_side {
    bool device;
    uint64_t address; /* device address, or a host pointer */
    uint64_t pitch, height;
} sim_side;

typedef struct sim_copy {
    sim_side to, from;
    uint64_t width, rows, slices; /* bytes, rows, slices */
    uint8_t *staged; /* owned copy of a pageable source; NULL = none */
} sim_copy;

typedef struct sim_fill {
    CUdeviceptr to;
    uint64_t pitch, width, rows; /* pitch in bytes, width in elements */
    uint32_t value;
    uint32_t bytes; /* of an element: 1, 2, 4 */
} sim_fill;

typedef struct sim_kernel {
    CUfunction func;
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_bytes; /* dynamic */
    bool cooperative;
    uint8_t *params; /* owned */
    uint64_t param_bytes;
} sim_kernel;

typedef enum sim_work_kind {
    SIM_WORK_EMPTY,
    SIM_WORK_COPY,
    SIM_WORK_FILL,
    SIM_WORK_KERNEL,
    SIM_WORK_HOST,
    SIM_WORK_RECORD,
    SIM_WORK_WAIT,
    SIM_WORK_GRAPH,
    SIM_WORK_FREE,
} sim_work_kind;

/* What a stream or a graph node does. */
typedef struct sim_work {
    sim_work_kind kind;
    union {
        sim_copy copy;
        sim_fill fill;
        sim_kernel kernel;
        struct {
            CUhostFn call;
            void *user;
        } host;
        struct {
            CUevent event;
            uint64_t ticket; /* RECORD: which of the event's records */
        } record;
        struct {
            uint64_t stream, number; /* WAIT: stream's id and work's number */
        } wait;
        CUgraphExec exec; /* owned reference */
        CUdeviceptr address; /* FREE */
    };
} sim_work;

typedef struct sim_queued {
    struct sim_queued *next;
    uint64_t number;
    sim_work work;
} sim_queued;

/* Nodes, an owned growable array. */
typedef struct sim_nodes {
    CUgraphNode *items;
    size_t count, capacity;
} sim_nodes;

struct CUctx_st {
    int device;
    bool primary;
    unsigned flags;
    CUresult error; /* sticky */
    CUstream null_stream;
    CUstream streams; /* list, the null stream included */
    CUmodule modules;
    CUevent events;
    CUcontext next;
    uint64_t id;
    size_t stack_bytes, printf_bytes, heap_bytes;
};

struct CUmod_st {
    CUcontext ctx;
    CUmodule next;
    char *text; /* owned PTX; NULL when the caller's was taken */
    ptx_module *ptx;
    uint64_t *addresses; /* (n_vars); 0 = no memory of its own */
    sim_program *program;
    CUfunction *functions; /* (n_funcs); NULL until asked for */
};

struct CUfunc_st {
    CUmodule module;
    uint32_t index;
    int registers; /* an estimate, see sim_registers_of */
    int shared_bytes, local_bytes;
    int max_dynamic_bytes, carveout, max_threads;
    int cluster_policy;
    bool cluster_any_size;
};

typedef enum sim_capture_state {
    SIM_CAPTURE_NONE,
    SIM_CAPTURE_ACTIVE,
    SIM_CAPTURE_BROKEN,
} sim_capture_state;

struct CUstream_st {
    CUcontext ctx;
    CUstream next;
    uint64_t id;
    unsigned flags;
    int priority;
    bool blocking; /* ordered with the legacy default stream */
    const void *owner; /* of a per-thread default stream */
    sim_queued *head, *tail;
    size_t length;
    double time_us; /* modelled end of what ran */
    sim_capture_state capture;
    bool capture_origin;
    CUstreamCaptureMode capture_mode;
    uint64_t capture_id;
    CUgraph capture_graph;
    sim_nodes capture_tail;
};

struct CUevent_st {
    CUcontext ctx;
    CUevent next;
    unsigned flags;
    bool recorded;
    uint64_t ticket; /* of the newest record */
    uint64_t done_ticket; /* of the newest that ran */
    uint64_t stream, number; /* of the newest record */
    double time_us;
    CUgraph capture_graph; /* recorded in a capture */
    uint64_t capture_id;
    sim_nodes capture_tail;
};

struct CUgraphNode_st {
    CUgraph graph;
    sim_work work;
    CUgraphNodeType type;
    sim_nodes needs;
    size_t index;
    bool marked; /* of walks over the graph */
    double end_us; /* while an exec runs */
};

struct CUgraph_st {
    sim_nodes nodes;
};

struct CUgraphExec_st {
    CUgraph graph; /* a copy of its own */
    CUgraphNode *order; /* (nodes) topological */
    CUgraphNode *origin; /* (nodes) the node of the graph it was made from */
    unsigned references; /* the handle's and the queued launches' */
};

typedef struct sim_device {
    spt_board board;
    sim_l2 *l2;
    CUcontext primary;
    unsigned retained, primary_flags;
    double busy_until_us; /* kernels of all streams run one after the other */
} sim_device;

typedef struct sim_machine {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    bool open, initialised, busy;
    sim_device *devices;
    int n_devices;
    spt_sim_options options;
    sim_memory *memory;
    CUcontext contexts;
    uint64_t next_number, next_id, grid_id;
    spt_sim_counters counters;
    struct sim_handle_table {
        struct {
            const void *handle;
            sim_handle_kind kind;
        } * slots;
        size_t capacity, used, live;
    } handles;
    struct sim_host_block *host_blocks;
} sim_machine;

extern sim_machine sim_the;

/* Called by cuInit first, to open a machine; NULL: none. */
extern void (*sim_open_hook)(void);

/* --- sim_driver.c ------------------------------------------------------- */

/*
 * Takes the lock. sim_enter wants a current context without a sticky error;
 * sim_enter_any only an initialised machine. The lock is held exactly when
 * CUDA_SUCCESS comes back.
 */
CUresult sim_enter(CUcontext *ctx);
CUresult sim_enter_any(void);
CUresult sim_leave(CUresult result);

bool sim_handle_add(const void *handle, sim_handle_kind kind);
bool sim_handle_is(const void *handle, sim_handle_kind kind);
void sim_handle_drop(const void *handle);

/* Keeps the reason of this thread's failing call for spt_sim_last_error. */
CUresult sim_reason(CUresult result, const spt_error *err);
/* The same with a text of its own. */
CUresult sim_because(CUresult result, const char *fmt, ...) SPT_PRINTF(2, 3);
CUresult sim_result_of(spt_status status);

bool sim_nodes_add(sim_nodes *nodes, CUgraphNode node);
bool sim_nodes_copy(sim_nodes *to, const sim_nodes *from);
void sim_nodes_free(sim_nodes *nodes);

/* --- sim_api_device.c ---------------------------------------------------- */

CUcontext sim_context_current(void);
CUresult sim_context_new(int device, unsigned flags, CUcontext *ctx);
/* Drops pending work, modules, streams, events. */
void sim_context_delete(CUcontext ctx);
sim_device *sim_device_of(CUcontext ctx);

/* --- sim_api_copy.c ------------------------------------------------------ */

CUresult sim_copy_of_3d(const CUDA_MEMCPY3D *c, sim_copy *copy);

/* --- sim_api_module.c ---------------------------------------------------- */

void sim_module_delete(CUmodule module);

/* --- sim_queue.c --------------------------------------------------------- */

/* NULL and the two special handles become streams; error when none such. */
CUresult sim_stream_of(CUcontext ctx, CUstream handle, CUstream *stream);
CUresult sim_stream_new(CUcontext ctx, unsigned flags, CUstream *stream);
void sim_stream_delete(CUstream stream);
/*
 * Takes over work (also on failure): enqueued, or captured as a node when the
 * stream captures. number (may be NULL) gets the work's number.
 */
CUresult sim_enqueue(CUstream stream, sim_work *work, uint64_t *number);
/* Runs what must have run; the context's error afterwards. */
CUresult sim_drain(CUstream stream, uint64_t number);
CUresult sim_drain_stream(CUstream stream);
CUresult sim_drain_context(CUcontext ctx);
CUresult sim_drain_all(void);
/* Runs at most one piece of work; false when the stream is empty. */
bool sim_drain_one(CUstream stream);
CUstream sim_stream_by_id(uint64_t id);

/* --- sim_work.c ---------------------------------------------------------- */

void sim_work_free(sim_work *work);
CUresult sim_work_clone(sim_work *to, const sim_work *from);
/*
 * Runs one piece of work on a device, in the context's name. start_us is when
 * it may begin; *end_us when it ends. Called by the busy thread, lock held.
 */
CUresult sim_work_run(CUcontext ctx, sim_work *work, bool graph,
                      double start_us, double *end_us);
/* Both ranges are inside live allocations, or the error for the caller. */
CUresult sim_copy_check(const sim_copy *copy);
CUresult sim_fill_check(const sim_fill *fill);

/* --- sim_api_launch.c ---------------------------------------------------- */

/* Fills in the cluster that the kernel itself asks for. */
CUresult sim_kernel_check(sim_kernel *kernel);
/* Copies the parameters of a launch into kernel->params. */
CUresult sim_params_pack(sim_kernel *kernel, void **params, void **extra);

/* --- sim_graph.c ---------------------------------------------------------- */

CUgraph sim_graph_new(void);
void sim_graph_delete(CUgraph graph);
/* Takes over work, also on failure (NULL: out of memory). */
CUgraphNode sim_graph_add(CUgraph graph, CUgraphNodeType type, sim_work *work,
                          const sim_nodes *needs);
CUgraph sim_graph_clone(CUgraph graph);
/* Each node after those that it needs; false when there is a cycle. */
bool sim_graph_order(CUgraph graph, CUgraphNode *order);

CUresult sim_exec_new(CUgraph graph, CUgraphExec *exec);
void sim_exec_release(CUgraphExec exec);
CUresult sim_exec_run(CUcontext ctx, CUgraphExec exec, double start_us,
                      double *end_us);

/* --- sim_api_capture.c ---------------------------------------------------- */

CUresult sim_capture_add(CUstream stream, sim_work *work);
/* Waits for a captured event: the stream joins its capture. */
CUresult sim_capture_join(CUstream stream, CUevent event);

/* --- sim_registers.c ------------------------------------------------------ */

/*
 * Registers per thread that an assembler would need at least: the most 32-bit
 * values alive at one instruction, plus what addressing and calls take.
 */
int sim_registers_of(const ptx_module *module, uint32_t func,
                     const spt_board *board);

/* --- sim_api_memory.c ----------------------------------------------------- */

/* Page-locked host memory (allocated, registered or managed). */
bool sim_host_pinned(const void *pointer, uint64_t size);
void sim_host_blocks_delete(void);

#endif
