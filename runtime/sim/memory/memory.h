/*
 * Device memory of the simulated machine.
 *
 * One virtual address space for all devices. Each device owns a window of
 * 1 TiB, reserved but not backed: a page costs host memory once it is
 * touched. Allocations are handed out upwards with a guard gap after each and
 * are not reused until the window is used up, so that a stale pointer is
 * recognised. Beside the data lies one bit per byte, "written"; a bit is only
 * ever set inside a live allocation, so that a set bit means that an access
 * needs no further check. Bytes never written read as SIM_POISON.
 *
 * Thread rule: all functions may be called from any thread. The data is the
 * kernels' and the driver's to order.
 */
#ifndef SPT_SIM_MEMORY_H
#define SPT_SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define SIM_WINDOW_BYTES (UINT64_C(1) << 40)
#define SIM_DEVICE_BASE(device) ((uint64_t)((device) + 1) << 40)

/*
 * Generic addresses of the other spaces. A shared address is 32 bits: the
 * byte offset in the own CTA's shared memory, or, as mapa makes it,
 * (rank + 1) << 24 | offset for a CTA of the cluster; generic adds the window.
 */
#define SIM_SHARED_WINDOW UINT64_C(0x700000000000)
#define SIM_LOCAL_WINDOW UINT64_C(0x710000000000)
#define SIM_PARAM_WINDOW UINT64_C(0x720000000000)
#define SIM_CONST_WINDOW UINT64_C(0x730000000000)
#define SIM_WINDOW_MASK UINT64_C(0xffffffff)
#define SIM_SHARED_RANK_SHIFT 24
#define SIM_SHARED_OFFSET_MASK UINT64_C(0xffffff)

enum { SIM_POISON = 0xff };

/* A live or freed allocation. bits: one per byte from host, LSB first. */
typedef struct sim_range {
    uint64_t va, size;
    uint8_t *host;
    uint64_t *bits; /* NULL: always written (host memory) */
    int device;
    bool freed;
} sim_range;

typedef struct sim_memory sim_memory;

/* capacity[i]: bytes that device i has; checks: poison unwritten bytes. */
sim_memory *sim_memory_new(const uint64_t *capacity, int devices, bool checks);
void sim_memory_delete(sim_memory *mem);

/* SPT_E_MEMORY when the device has not that much left; size > 0. */
spt_status sim_memory_alloc(sim_memory *mem, int device, uint64_t size,
                            uint64_t *va);
/* SPT_E_USAGE unless va is the start of a live allocation. */
spt_status sim_memory_release(sim_memory *mem, uint64_t va);
/* Makes the contents of a live allocation "never written" again. */
void sim_memory_forget(sim_memory *mem, uint64_t va);
/* Host memory that kernels may use, at its own address. */
spt_status sim_memory_map(sim_memory *mem, void *host, uint64_t size);

/*
 * The allocation that holds va, a freed one included; false if there is none.
 * nearest (may be NULL) then gets the live or freed one that ends last before
 * va, for messages, size 0 if none.
 */
bool sim_memory_find(sim_memory *mem, uint64_t va, sim_range *range,
                     sim_range *nearest);
void sim_memory_info(sim_memory *mem, int device, uint64_t *used,
                     uint64_t *capacity);

/* Copies; SPT_E_USAGE when a range is not inside one live allocation. */
spt_status sim_memory_write(sim_memory *mem, uint64_t va, const void *from,
                            uint64_t size);
spt_status sim_memory_read(sim_memory *mem, void *to, uint64_t va,
                           uint64_t size);
spt_status sim_memory_copy(sim_memory *mem, uint64_t to, uint64_t from,
                           uint64_t size);
/* Repeats a pattern of width 1, 2, 4, 8 or 16 bytes count times. */
spt_status sim_memory_fill(sim_memory *mem, uint64_t va, const void *pattern,
                           unsigned width, uint64_t count);

#endif
