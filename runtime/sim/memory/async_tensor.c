/*
 * cp.async.bulk.tensor, its reductions and prefetches: boxes of a tensor
 * between global memory and the CTA's own shared memory. async_bulk.c decides
 * when a box is moved.
 */
#include "async.h"

#include <stdio.h>

#include "memory_bits.h"

enum { SHARED_ALIGN = 128 };

/* What stands in an operand that holds a tensor map's address. */
static bool read_map(sim_warp *w, const sim_insn *in, unsigned lane,
                     uint64_t address, sim_tensor_map *map)
{
    uint8_t bytes[sizeof(CUtensorMap)];
    const sim_bulk reader = {.in = in, .lane = lane};
    char detail[80];
    for (uint32_t i = 0; i < sizeof bytes; i += SIM_CHUNK) {
        sim_access a;
        memcpy(bytes + i,
               sim_bulk_place(&a, w, &reader, address + i, SIM_CHUNK,
                              PTX_GENERIC, false),
               SIM_CHUNK);
    }
    if (w->cta->fault)
        return false;
    memcpy(map, bytes, sizeof *map);
    uint32_t rank = ptx_tensor_rank(in->src);
    bool is_map = map->mark == SIM_TENSOR_MARK;
    if (is_map && map->rank == rank && sim_tensor_has_box(map))
        return true;
    snprintf(detail, sizeof detail,
             !is_map             ? "no tensor map stands there"
             : map->rank == rank ? "the tensor map has no box"
                                 : "the tensor map has %u dimensions, the copy "
                                   "%u",
             map->rank, rank);
    sim_insn_report(w, in, SPT_SIM_OPERAND, lane, address, detail);
    sim_fault(w, CUDA_ERROR_ILLEGAL_INSTRUCTION);
    return false;
}

/* Bytes up to the end of the box, which a swizzle may move within its last line
   of 128 bytes. */
static uint32_t swizzled_bytes(const sim_bulk *bulk, uint32_t shared)
{
    uint32_t end = bulk->bytes;
    for (uint32_t i = end / SHARED_ALIGN * SHARED_ALIGN; i < bulk->bytes;
         i += SIM_CHUNK) {
        uint32_t to = sim_tensor_swizzled(&bulk->map, shared + i) - shared;
        end = to + SIM_CHUNK > end ? to + SIM_CHUNK : end;
    }
    return end;
}

static bool shared_is_sound(sim_warp *w, const sim_bulk *bulk, uint64_t shared)
{
    if (shared % SHARED_ALIGN) {
        sim_insn_report(w, bulk->in, SPT_SIM_MISALIGNED, bulk->lane, shared,
                        "a box needs a multiple of 128 bytes");
        sim_fault(w, CUDA_ERROR_MISALIGNED_ADDRESS);
        return false;
    }
    sim_bulk whole = *bulk;
    whole.bytes = swizzled_bytes(bulk, (uint32_t)shared);
    return sim_bulk_fits(w, &whole, shared);
}

/* One lane's copy, from its operands; false: there is none. */
static bool bulk_of(const sim_insn *in, sim_warp *w, const uint8_t *regs,
                    unsigned lane, const uint64_t *shared, const uint64_t *map,
                    sim_bulk *bulk)
{
    int coordinates = sim_bulk_is_load(in) ? 2 : 1;
    *bulk = (sim_bulk){.in = in, .lane = lane, .kind = SIM_BULK_BOX};
    if (!read_map(w, in, lane, map[lane], &bulk->map))
        return false;
    for (uint32_t i = 0; i < bulk->map.rank; i++) {
        const sim_arg *arg = &in->args->arg[in->args->first[coordinates] + i];
        memcpy(&bulk->at[i], regs + arg->slot + lane * arg->width, 4);
    }
    bulk->bytes =
        sim_tensor_rows(&bulk->map) * sim_tensor_row_bytes(&bulk->map);
    bulk->from = sim_shared_offset(shared[lane]) & SIM_SHARED_OFFSET_MASK;
    return shared_is_sound(w, bulk, bulk->from);
}

static void op_tensor(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    uint64_t shared[SIM_LANES], map[SIM_LANES], mbarrier[SIM_LANES] = {0};
    const sim_args *args = in->args;
    bool load = sim_bulk_is_load(in);
    sim_access_addresses(&args->arg[args->first[load ? 0 : 2]], w, regs,
                         shared);
    sim_access_addresses(&args->arg[args->first[load ? 1 : 0]], w, regs, map);
    if (load)
        sim_access_addresses(&args->arg[args->first[3]], w, regs, mbarrier);
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        sim_bulk bulk;
        if (!bulk_of(in, w, regs, l, shared, map, &bulk))
            continue;
        if (load && !sim_bulk_target(w, &bulk, sim_shared_offset(shared[l]),
                                     sim_shared_offset(mbarrier[l])))
            continue;
        bulk.group = ((sim_warp_memory *)w->memory)->async->bulk_committed[l];
        if (ptx_has(in->src, PTX_MOD_MULTICAST_CLUSTER))
            sim_bulk_multicast(w, &bulk,
                               sim_bulk_operand(in, regs, 4, l) & UINT16_MAX);
        else
            sim_bulk_issue(w, &bulk);
    }
}

/* A prefetch moves nothing, but names a map. */
static void op_prefetch(const sim_insn *in, sim_warp *w, uint8_t *regs,
                        uint32_t exec)
{
    uint64_t map[SIM_LANES];
    sim_tensor_map found;
    sim_access_addresses(&in->args->arg[in->args->first[0]], w, regs, map);
    for (uint32_t rest = exec; rest; rest &= rest - 1)
        read_map(w, in, sim_first_lane(rest), map[sim_first_lane(rest)],
                 &found);
}

/* ---- moving ---- */

void sim_tensor_fly(const sim_bulk *bulk)
{
    const sim_cta_memory *mem = bulk->target->memory;
    for (uint32_t i = 0; i < bulk->bytes; i += SIM_CHUNK)
        bits_set(mem->flight_bits,
                 sim_tensor_swizzled(&bulk->map, (uint32_t)bulk->to + i),
                 SIM_CHUNK);
}

/* Bytes of a row between the tensor and memory of sim's own: at once, or an
   element at a time where there is something to tell. */
static void read_row(sim_warp *w, const sim_bulk *bulk,
                     const sim_tensor_row *row, uint8_t *bytes)
{
    uint32_t n = row->to - row->from;
    uint32_t size = sim_tensor_element_bytes(&bulk->map);
    const uint8_t *at =
        n ? sim_global_span(w, row->global + row->from, n, false) : bytes;
    if (at && n)
        memcpy(bytes + row->from, at, n);
    for (uint32_t i = row->from; !at && i < row->to && !w->cta->fault;
         i += size) {
        sim_access a;
        memcpy(bytes + i,
               sim_bulk_place(&a, w, bulk, row->global + i, size, PTX_GLOBAL,
                              false),
               size);
    }
}

static void write_row(sim_warp *w, const sim_bulk *bulk,
                      const sim_tensor_row *row, const uint8_t *bytes)
{
    uint32_t n = row->to - row->from;
    uint32_t size = sim_tensor_element_bytes(&bulk->map);
    uint8_t *at =
        n ? sim_global_span(w, row->global + row->from, n, true) : NULL;
    if (at)
        memcpy(at, bytes + row->from, n);
    for (uint32_t i = row->from; !at && i < row->to && !w->cta->fault;
         i += size) {
        sim_access a;
        memcpy(sim_bulk_place(&a, w, bulk, row->global + i, size, PTX_GLOBAL,
                              true),
               bytes + i, size);
    }
}

static void load_row(sim_warp *w, const sim_bulk *bulk,
                     const sim_tensor_row *row, uint32_t shared)
{
    uint8_t bytes[SIM_TENSOR_ROW_MAX];
    read_row(w, bulk, row, bytes);
    sim_tensor_finish_row(&bulk->map, row, bytes);
    for (uint32_t i = 0; i < sim_tensor_row_bytes(&bulk->map); i += SIM_CHUNK) {
        uint32_t to = sim_tensor_swizzled(&bulk->map, shared + i);
        memcpy(bulk->target->shared + to, bytes + i, SIM_CHUNK);
        sim_bulk_land(w, bulk, to, SIM_CHUNK);
    }
}

/* Of a row, only chunks that the tensor has a part of are read. */
static void store_row(sim_warp *w, const sim_bulk *bulk,
                      const sim_tensor_row *row, uint32_t shared)
{
    uint8_t bytes[SIM_TENSOR_ROW_MAX], old[SIM_TENSOR_ROW_MAX];
    const ptx_insn *src = bulk->in->src;
    for (uint32_t i = row->from / SIM_CHUNK * SIM_CHUNK; i < row->to;
         i += SIM_CHUNK) {
        sim_access a;
        memcpy(bytes + i,
               sim_bulk_place(&a, w, bulk,
                              sim_tensor_swizzled(&bulk->map, shared + i),
                              SIM_CHUNK, PTX_SHARED, false),
               SIM_CHUNK);
    }
    if (src->op != PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR) {
        write_row(w, bulk, row, bytes);
        return;
    }
    read_row(w, bulk, row, old);
    sim_atom_combine(src, sim_tensor_type(&bulk->map), old + row->from,
                     bytes + row->from, row->to - row->from);
    write_row(w, bulk, row, old);
}

void sim_tensor_move(sim_warp *w, const sim_bulk *bulk)
{
    uint32_t row_bytes = sim_tensor_row_bytes(&bulk->map);
    uint32_t rows = sim_tensor_rows(&bulk->map);
    bool load = sim_bulk_is_load(bulk->in);
    sim_bulk_tally tally = {.bulk = bulk};
    for (uint32_t i = 0; i < rows && !w->cta->fault; i++) {
        sim_tensor_row row = sim_tensor_row_of(&bulk->map, bulk->at, i);
        uint32_t shared =
            (uint32_t)(load ? bulk->to : bulk->from) + i * row_bytes;
        (load ? load_row : store_row)(w, bulk, &row, shared);
        for (uint32_t k = row.from / SIM_CHUNK * SIM_CHUNK; k < row.to;
             k += SIM_CHUNK)
            sim_bulk_count(&tally, w, (row.global + k) / SIM_CHUNK * SIM_CHUNK,
                           sim_tensor_swizzled(&bulk->map, shared + k));
    }
    sim_bulk_count_end(&tally, w);
}

sim_op sim_tensor_op(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_CP_ASYNC_BULK_TENSOR:
    case PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR:
        return op_tensor;
    case PTX_OP_CP_ASYNC_BULK_PREFETCH_TENSOR:
        return op_prefetch;
    default:
        return sim_replace_op(insn);
    }
}
