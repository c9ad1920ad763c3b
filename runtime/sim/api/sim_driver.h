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
 * wait that CUDA asks for is therefore old. For programs that wait by other
 * means, a thread runs what is pending after a time without calls
 * (options.idle_ms).
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
    SIM_HANDLE_POOL,
    SIM_HANDLE_LIBRARY,
    SIM_HANDLE_KERNEL,
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

/* Host memory that kernels may use. */
typedef struct sim_host_block {
    struct sim_host_block *next;
    uint8_t *base;
    uint64_t size;
    unsigned flags;
    bool owned; /* allocated here, not registered */
    bool managed;
    bool read_mostly; /* advice for managed memory, of the whole block */
    CUmemLocation preferred, prefetched;
    int accessed_by; /* device; CU_DEVICE_INVALID = none */
} sim_host_block;

typedef enum sim_work_kind {
    SIM_WORK_EMPTY,
    SIM_WORK_COPY,
    SIM_WORK_FILL,
    SIM_WORK_KERNEL,
    SIM_WORK_HOST,
    SIM_WORK_RECORD,
    SIM_WORK_WAIT,
    SIM_WORK_GRAPH,
    SIM_WORK_ALLOC,
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
            bool owned; /* user was made for this call, which frees it */
        } host;
        struct {
            CUevent event;
            uint64_t ticket; /* RECORD: which of the event's records; 0 in a
                                graph, whose launch has one */
        } record;
        struct {
            uint64_t stream, number; /* WAIT: stream's id and work's number */
            CUevent event; /* in a graph, instead of the two */
        } wait;
        struct {
            CUgraphExec exec; /* owned reference */
            uint64_t ticket; /* of a launch: for the events that it records */
        } graph;
        struct sim_graph_block *block; /* ALLOC: owned reference */
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
    CUfunc_cache cache; /* a preference; L1 and shared memory are one */
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

/* Attributes of launches and streams that change no result. */
enum {
#define SIM_HINT(name) SIM_HINT_##name,
#include "sim_hints.def"
#undef SIM_HINT
    SIM_HINTS
};

struct CUstream_st {
    CUcontext ctx;
    CUstream next;
    uint64_t id;
    unsigned flags;
    int priority;
    bool blocking; /* ordered with the legacy default stream */
    const void *owner; /* of a per-thread default stream */
    CUlaunchAttributeValue hints[SIM_HINTS];
    sim_queued *head, *tail;
    size_t length;
    double time_us; /* modelled end of what ran */
    sim_capture_state capture;
    bool capture_origin;
    CUstreamCaptureMode capture_mode;
    uint64_t capture_id;
    CUgraph capture_graph;
    bool capture_given; /* into a graph of the program's, */
    size_t capture_first; /* which had this many nodes */
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
    CUgraphNode origin; /* the node that this one was copied from, or NULL */
    bool disabled; /* of an executable's node: does nothing */
    bool marked; /* of walks over the graph */
    double end_us; /* while an exec runs */
    void **param_list; /* owned, what the parameters' getter gave out */
    CUlaunchAttributeValue hints[SIM_HINTS];
};

struct CUgraph_st {
    sim_nodes nodes;
};

struct CUgraphExec_st {
    CUgraph graph; /* a copy of its own */
    CUgraphNode *order; /* (nodes) topological */
    unsigned references; /* the handle's and the queued launches' */
    unsigned long long flags;
};

/* Memory of an allocation node: at one address as long as a graph has it. */
typedef struct sim_graph_block {
    struct sim_graph_block *next;
    uint64_t address, size;
    int device;
    unsigned references; /* nodes, of graphs and executables */
    bool live; /* between the allocation and the free */
} sim_graph_block;

/* A pool only counts: its memory comes from the device's one heap. */
struct CUmemPoolHandle_st {
    CUmemoryPool next;
    int device;
    bool is_default, destroyed;
    uint64_t threshold; /* bytes that it keeps when nothing uses them */
    uint64_t used, used_high, reserved, reserved_high;
    int reuse[3]; /* the CU_MEMPOOL_ATTR_REUSE_ switches, in that order */
    struct sim_pool_block {
        uint64_t address, size;
    } * blocks;
    size_t n_blocks, room;
};

typedef struct sim_device {
    spt_board board;
    sim_l2 *l2;
    CUcontext primary;
    CUmemoryPool default_pool, pool; /* NULL until asked for; current */
    /* Memory of graphs: live, and all that is kept at its address. */
    uint64_t graph_used, graph_used_high, graph_kept, graph_kept_high;
    unsigned retained, primary_flags;
    double busy_until_us; /* kernels of all streams run one after the other */
} sim_device;

typedef struct sim_machine {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    pthread_cond_t closing;
    bool open, initialised, busy;
    bool idle_thread; /* runs; false asks it to end */
    pthread_t idle_handle;
    uint64_t calls; /* of the driver, as far as they took the lock */
    sim_device *devices;
    int n_devices;
    int users; /* calls of spt_sim_open that are not closed */
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
    sim_host_block *host_blocks; /* newest first */
    sim_graph_block *graph_blocks;
    CUmemoryPool pools;
} sim_machine;

extern sim_machine sim_the;

/* Called by cuInit first, to open a machine; NULL: none. */
extern void (*sim_open_hook)(void);
/* Called by cuGetProcAddress for calls that sim lacks; NULL: none. */
extern void *(*sim_find_hook)(const char *name);

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
/* CUDA_ERROR_NOT_SUPPORTED; with tracing, says on stderr what is missing. */
CUresult sim_lacks(const char *call, const char *what);

bool sim_nodes_add(sim_nodes *nodes, CUgraphNode node);
bool sim_nodes_copy(sim_nodes *to, const sim_nodes *from);
void sim_nodes_free(sim_nodes *nodes);

/* --- sim_api_device.c ---------------------------------------------------- */

/* sim_enter_any, and the device exists. */
CUresult sim_enter_device(CUdevice device);
sim_device *sim_device_of(CUcontext ctx);

/* --- sim_api_context.c --------------------------------------------------- */

CUcontext sim_context_current(void);
CUresult sim_context_new(int device, unsigned flags, CUcontext *ctx);
/* Drops pending work, modules, streams, events. */
void sim_context_delete(CUcontext ctx);

/* --- sim_api_copy.c ------------------------------------------------------ */

CUresult sim_copy_of_3d(const CUDA_MEMCPY3D *c, sim_copy *copy);

/* --- sim_api_library.c --------------------------------------------------- */

/* A CUkernel becomes a function of ctx (NULL: of the current context). */
CUresult sim_function_of(CUcontext ctx, CUfunction *function);
void sim_libraries_delete(void);

/* --- sim_api_module.c ---------------------------------------------------- */

/* Image: PTX text or a fatbin of at most limit bytes (sim_image_find). err gets
   the reason. */
CUresult sim_module_load(CUcontext ctx, const void *image, size_t limit,
                         CUmodule *module, spt_error *err);
/* A kernel of a module by its name, made when first asked for. */
CUresult sim_module_function(CUmodule module, const char *name,
                             CUfunction *function);
/* The error log that the caller's options ask for gets the reason. */
void sim_module_log(unsigned n_options, const CUjit_option *options,
                    void **values, const char *text);
void sim_module_delete(CUmodule module);

/* --- sim_api_link.c ------------------------------------------------------- */

void sim_links_delete(void);

/* --- sim_queue.c --------------------------------------------------------- */

/* NULL and the two special handles become streams; error when none such. */
CUresult sim_stream_of(CUcontext ctx, CUstream handle, CUstream *stream);
/* Enters for a call on a stream; good: its other arguments are. */
CUresult sim_enter_stream(CUstream handle, bool good, CUstream *stream);
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
/* The thread that runs work nobody waits for (options.idle_ms). Lock held;
   stopping gives it back for a moment. */
void sim_idle_start(void);
void sim_idle_stop(void);
/* For work that is running: what an event stood for before a number; returns
   when it ended, in modelled time. */
double sim_drain_event(CUevent event, uint64_t before);
CUstream sim_stream_by_id(uint64_t id);

/* --- sim_work.c ---------------------------------------------------------- */

void sim_work_free(sim_work *work);
CUresult sim_work_clone(sim_work *to, const sim_work *from);
/*
 * Runs one piece of work on a device, in the context's name. graph_ticket is
 * that of the graph launch it belongs to, or 0. start_us is when it may begin;
 * *end_us when it ends. Called by the busy thread, lock held.
 */
CUresult sim_work_run(CUcontext ctx, sim_work *work, uint64_t graph_ticket,
                      double start_us, double *end_us);
/* Both ranges are inside live allocations, or the error for the caller. */
CUresult sim_copy_check(const sim_copy *copy);
CUresult sim_fill_check(const sim_fill *fill);

/* --- sim_api_launch.c ---------------------------------------------------- */

/* Fills in the cluster that the kernel itself asks for. */
CUresult sim_kernel_check(sim_kernel *kernel);
/* Copies the parameters of a launch into kernel->params. */
CUresult sim_params_pack(sim_kernel *kernel, void **params, void **extra);
/* The hint that an attribute is; -1: none. */
int sim_hint_of(CUlaunchAttributeID id);
CUresult sim_kernel_attribute(sim_kernel *kernel,
                              const CUlaunchAttribute *attribute);

/* --- sim_graph.c ---------------------------------------------------------- */

CUgraph sim_graph_new(void);
void sim_graph_delete(CUgraph graph);
/* Takes over work, also on failure (NULL: out of memory). */
CUgraphNode sim_graph_add(CUgraph graph, CUgraphNodeType type, sim_work *work,
                          const sim_nodes *needs);
CUgraph sim_graph_clone(CUgraph graph);
/* Each node after those that it needs; false when there is a cycle. */
bool sim_graph_order(CUgraph graph, CUgraphNode *order);

/* Makes a copy's nodes, and the copy, known as handles. */
bool sim_graph_register(CUgraph graph);
/* Takes a node out, with the edges to it. */
void sim_graph_remove(CUgraphNode node);

CUresult sim_exec_new(CUgraph graph, CUgraphExec *exec);
void sim_exec_release(CUgraphExec exec);
/* The node of an executable that stands for one of its graph, or NULL. */
CUgraphNode sim_exec_node(CUgraphExec exec, CUgraphNode node);
/* The events that it records are pending from now on. */
void sim_exec_mark_events(CUgraphExec exec, CUstream stream, uint64_t ticket,
                          uint64_t number);
CUresult sim_exec_run(CUcontext ctx, CUgraphExec exec, uint64_t ticket,
                      double start_us, double *end_us);

/* --- sim_graph_memory.c --------------------------------------------------- */

CUresult sim_graph_block_new(int device, uint64_t size,
                             sim_graph_block **block);
void sim_graph_block_release(sim_graph_block *block);
sim_graph_block *sim_graph_block_at(uint64_t address);
/* Begins or ends the life of its contents. */
void sim_graph_block_set(sim_graph_block *block, bool live);

/* --- sim_api_graph.c ------------------------------------------------------ */

CUresult sim_enter_graph(CUgraph graph);
/* All of the nodes are the graph's. */
CUresult sim_graph_has(CUgraph graph, const CUgraphNode *nodes, size_t count);
/* Only edges from the end of one node to the start of another. */
CUresult sim_edges_plain(const CUgraphEdgeData *edges, size_t count);

/* --- sim_api_node.c ------------------------------------------------------- */

/* Parameters of a node become work, which the caller then owns. Lock held. */
CUresult sim_kernel_work(const CUDA_KERNEL_NODE_PARAMS *params, sim_work *work);
CUresult sim_copy_work(const CUDA_MEMCPY3D *params, sim_work *work);
CUresult sim_fill_work(const CUDA_MEMSET_NODE_PARAMS *params, sim_work *work);
CUresult sim_host_work(CUhostFn call, void *user, sim_work *work);
CUresult sim_host_node_work(const CUDA_HOST_NODE_PARAMS *params,
                            sim_work *work);
CUresult sim_child_work(CUgraph child, sim_work *work);
CUresult sim_record_work(CUevent event, sim_work *work);
CUresult sim_wait_work(CUevent event, sim_work *work);
CUresult sim_any_work(CUgraphNodeParams *params, sim_work *work);

/* Takes the work over; adds the node's handle. Lock held. */
CUresult sim_node_add(CUgraphNode *node, CUgraph graph,
                      const CUgraphNode *needs, size_t count,
                      CUgraphNodeType type, sim_work *work);

/* --- sim_api_capture.c ---------------------------------------------------- */

CUresult sim_capture_add(CUstream stream, sim_work *work);
CUresult sim_capture_alloc(CUstream stream, size_t size, CUdeviceptr *address);
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

/* The start of a live allocation. */
bool sim_is_allocation(CUdeviceptr address);

/* --- sim_api_pool.c ------------------------------------------------------- */

/* Gives memory back, to its pool if it came from one. */
void sim_pool_release(CUdeviceptr address);
CUmemoryPool sim_pool_of(CUdeviceptr address);
void sim_pools_delete(void);

/* --- sim_api_host.c ------------------------------------------------------- */

/* The block that holds a pointer, or NULL. */
sim_host_block *sim_host_find(const void *pointer);
void sim_host_remove(sim_host_block *block);
/* Zeroed managed memory. */
CUresult sim_host_managed(uint64_t size, uint64_t *address);
/* Page-locked host memory (allocated, registered or managed). */
bool sim_host_pinned(const void *pointer, uint64_t size);
void sim_host_blocks_delete(void);

#endif
