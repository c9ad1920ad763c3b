/*
 * Marks of undefined values: of registers and of memory, and their reports.
 */
#include <stdio.h>
#include <string.h>

#include "memory_bits.h"
#include "ptx_live.h"
#include "taint_int.h"

bool sim_taint_any(const sim_warp *w)
{
    return w->taint && w->taint->count;
}

bool sim_taint_local(const sim_warp *w, const uint8_t *byte)
{
    return w->taint && w->taint->local && w->taint->local[byte - w->local];
}

void sim_taint_shared_written(sim_cta *cta, uint64_t offset, uint32_t bytes)
{
    if (cta->undefined)
        memset(cta->undefined + offset, 0, bytes);
}

void sim_taint_local_written(sim_warp *w, const uint8_t *byte, uint32_t bytes)
{
    if (w->taint && w->taint->local)
        memset(w->taint->local + (byte - w->local), 0, bytes);
}

void sim_taint_copy(const sim_warp *w, const uint8_t *d, const uint8_t *s)
{
    if (w->taint && w->taint->local)
        w->taint->local[d - w->local] = w->taint->local[s - w->local];
}

void sim_taint_clear(sim_cta *cta)
{
    spt_free(cta->undefined);
    cta->undefined = NULL;
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_taint *t = cta->warps[i].taint;
        if (!t)
            continue;
        t->count = 0;
        spt_free(t->local);
        t->local = NULL;
    }
}

void sim_taint_free(sim_cta *cta)
{
    sim_taint_clear(cta);
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        spt_free(cta->warps[i].taint);
        cta->warps[i].taint = NULL;
    }
}

/* ---- marks ---- */

void sim_taint_drop(sim_taint *t, const sim_frame *frame, uint32_t lanes)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        mark *m = &t->marks[i];
        if (!frame || m->frame == frame)
            m->s.lanes &= ~lanes;
        if (m->s.lanes && kept != i)
            t->marks[kept] = *m;
        kept += m->s.lanes != 0;
    }
    t->count = kept;
}

void sim_taint_prune(sim_warp *w, uint32_t block, uint32_t lanes)
{
    sim_taint *t = w->taint;
    const sim_code *code = w->frame->code;
    const ptx_live *live =
        sim_program_live(w->launch->args.program, code->index);
    for (uint32_t i = 0; live && i < t->count; i++) {
        mark *m = &t->marks[i];
        const uint64_t *in = live->in + block * live->words;
        if (m->frame == w->frame && !(in[m->reg / 64] >> m->reg % 64 & 1))
            m->s.lanes &= ~lanes;
    }
    sim_taint_drop(t, NULL, 0);
}

shadow *sim_taint_find(const sim_warp *w, int64_t reg)
{
    for (uint32_t i = 0; reg >= 0 && i < w->taint->count; i++) {
        mark *m = &w->taint->marks[i];
        if (m->reg == reg && m->frame == w->frame)
            return &m->s;
    }
    return NULL;
}

/* What was told of is not told again. */
static void report(sim_warp *w, unsigned from, uint32_t lanes,
                   const ptx_insn *use)
{
    sim_taint *t = w->taint;
    const origin *o = &t->origins[from % 256];
    const ptx_insn *load = o->in->src;
    unsigned lane = from / 256;
    sim_place place;
    char detail[64] = "";
    sim_place_of(w, o->in, lane, &place);
    if (use->line && (use->line != load->line || use->file != load->file))
        snprintf(detail, sizeof detail, "its value is used at line %u",
                 use->line);
    else if (!use->line)
        snprintf(detail, sizeof detail, "its value is used at PTX line %u",
                 use->ptx_line);
    sim_report_add(o->kind, &place, o->addr[lane],
                   (uint64_t)__builtin_popcount(lanes), 0, detail);
    for (uint32_t i = 0; i < t->count; i++)
        EACH_MARKED (l, t->marks[i].s.lanes & lanes)
            if (t->marks[i].s.from[l] % 256 == from % 256)
                t->marks[i].s.lanes &= ~(1u << l);
}

void sim_taint_use(sim_warp *w, const shadow *s, uint32_t exec,
                   const ptx_insn *src)
{
    for (uint32_t rest = s ? s->lanes & exec : 0; rest;) {
        uint32_t same = 0;
        unsigned from = s->from[sim_first_lane(rest)];
        EACH_MARKED (l, rest)
            same |= (uint32_t)(s->from[l] % 256 == from % 256) << l;
        report(w, from, same, src);
        rest &= ~same;
    }
}

/* Without room what is undefined counts as used: nothing is lost. */
void sim_taint_define(sim_warp *w, int64_t reg, uint32_t exec, const shadow *s,
                      const ptx_insn *src)
{
    sim_taint *t = w->taint;
    shadow *old = sim_taint_find(w, reg);
    if (reg < 0 || (!old && !(s->lanes & exec)))
        return;
    if (!old && t->count == MARKS)
        sim_taint_drop(t, NULL, 0);
    if (!old && t->count == MARKS) {
        sim_taint_use(w, s, exec, src);
        return;
    }
    if (!old) {
        t->marks[t->count] = (mark){.frame = w->frame, .reg = (uint32_t)reg};
        old = &t->marks[t->count++].s;
    }
    old->lanes = (old->lanes & ~exec) | (s->lanes & exec);
    EACH_MARKED (l, s->lanes & exec) {
        old->from[l] = s->from[l];
        old->bits[l] = s->bits[l];
    }
}

int64_t sim_taint_register(const sim_warp *w, const ptx_operand *operand,
                           uint32_t i)
{
    if (operand->kind == PTX_VECTOR)
        operand = &w->frame->code->func->vectors[operand->index + i];
    bool has =
        operand->kind == PTX_REGISTER ||
        (operand->kind == PTX_ADDRESS && operand->base == PTX_BASE_REGISTER);
    return has ? (int64_t)operand->index : -1;
}

uint64_t sim_taint_register_bits(const sim_warp *w, int64_t reg)
{
    ptx_type type = (ptx_type)w->frame->code->func->regs[reg].type;
    uint32_t bytes = ptx_type_bytes(type);
    return type == PTX_PRED ? 1 : bits_mask(0, bytes < 8 ? 8 * bytes : 64);
}

/* ---- memory ---- */

/* Undefined bits per byte of local or shared memory; NULL: none yet. */
static uint8_t *memory_of(const sim_warp *w, bool shared)
{
    return shared ? w->cta->undefined : w->taint ? w->taint->local : NULL;
}

static uint8_t *make_memory(sim_warp *w, bool shared)
{
    uint8_t **at = shared ? &w->cta->undefined : &w->taint->local;
    if (!*at)
        *at = spt_calloc(1, shared ? w->cta->shared_bytes
                                   : SIM_LANES * w->local_bytes + 4);
    return *at;
}

/* Where the byte at offset is in memory_of. */
static uint64_t byte_at(const sim_warp *w, bool shared, uint64_t offset,
                        unsigned lane)
{
    if (shared)
        return offset;
    return (uint64_t)(sim_local_byte(w, offset, lane) - w->local);
}

void sim_taint_keep(sim_warp *w)
{
    pending *p = &w->taint->store;
    uint32_t n = p->on ? ELEMENTS : 0;
    for (uint32_t i = 0; i < n; i++) {
        const shadow *s = &p->s[i];
        EACH_MARKED (l, s->lanes) {
            bool shared = p->shared >> l & 1;
            uint64_t at = p->offset[l] + i * p->bytes;
            uint64_t size = shared ? w->cta->shared_bytes : w->local_bytes;
            uint8_t *memory = make_memory(w, shared);
            for (uint32_t k = 0; memory && k < p->bytes && at + k < size; k++)
                memory[byte_at(w, shared, at + k, l)] =
                    (uint8_t)(k < 8 ? s->bits[l] >> 8 * k : 255);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        p->s[i].lanes = 0;
    p->on = false;
}

/* Bytes of a lane's access that have marks; a write takes them away. */
static bool any_mark(const sim_access *a, bool shared, uint64_t offset,
                     unsigned lane)
{
    uint8_t *memory = memory_of(a->w, shared);
    uint8_t any = 0;
    for (uint32_t i = 0; memory && i < a->bytes; i++) {
        uint8_t *byte = memory + byte_at(a->w, shared, offset + i, lane);
        any |= *byte;
        if (a->write)
            *byte = 0;
    }
    return any != 0;
}

/* The undefined bits of an element in memory, as its register gets them. */
static uint64_t element_bits(const sim_access *a, bool shared, uint64_t offset,
                             unsigned lane, uint32_t bytes)
{
    const sim_warp *w = a->w;
    const uint64_t *bits =
        shared ? sim_cta_memory_of(w)->shared_bits
               : ((const sim_warp_memory *)w->memory)->local_bits;
    const uint8_t *memory = memory_of(w, shared);
    uint64_t result = 0;
    for (uint32_t i = 0; i < bytes && i < 8; i++) {
        uint64_t at = byte_at(w, shared, offset + i, lane);
        uint64_t byte = !bits_get(bits, at) ? 255 : memory ? memory[at] : 0;
        result |= byte << 8 * i;
    }
    bool extends =
        ptx_type_kind((ptx_type)a->in->src->types[0]) == PTX_KIND_SIGNED &&
        bytes < 8 && result >> (8 * bytes - 1) & 1;
    return extends ? result | ~bits_mask(0, 8 * bytes) : result;
}

/* A place for an origin that no mark names; -1. */
static int free_origin(sim_taint *t)
{
    uint32_t used = 0;
    sim_taint_drop(t, NULL, 0);
    for (uint32_t i = 0; i < t->count; i++)
        EACH_MARKED (l, t->marks[i].s.lanes)
            used |= 1u << t->marks[i].s.from[l] % 256;
    return used == UINT32_MAX ? -1 : __builtin_ctz(~used);
}

/* Marks the registers that a load fills; false: it cannot. */
static bool mark_load(const sim_access *a, spt_sim_kind kind, uint32_t lanes,
                      const uint64_t *offset)
{
    sim_warp *w = a->w;
    const ptx_insn *src = a->in->src;
    if (src->op != PTX_OP_LD && src->op != PTX_OP_LDU)
        return false;
    if (!w->taint)
        w->taint = spt_calloc(1, sizeof *w->taint);
    int from = w->taint ? free_origin(w->taint) : -1;
    if (from < 0)
        return false;
    origin *o = &w->taint->origins[from];
    *o = (origin){.kind = kind, .in = a->in};
    memcpy(o->addr, a->addr, sizeof o->addr);
    uint32_t n = elements(&src->operands[0]), bytes = a->bytes / n;
    for (uint32_t i = 0; i < n; i++) {
        int64_t reg = sim_taint_register(w, &src->operands[0], i);
        shadow s = {0};
        EACH_MARKED (l, reg >= 0 ? lanes : 0)
            set_lane(&s, l,
                     element_bits(a, kind == SPT_SIM_UNINIT_SHARED,
                                  offset[l] + i * bytes, l, bytes) &
                         sim_taint_register_bits(w, reg),
                     (unsigned)from + 256 * l);
        sim_taint_define(w, reg, s.lanes, &s, src);
    }
    if (!w->event)
        w->event = SIM_EVENT_STEP;
    return true;
}

void sim_taint_access(const sim_access *a, spt_sim_kind kind, uint32_t lanes,
                      uint32_t unwritten, const uint64_t *offset)
{
    bool shared = kind == SPT_SIM_UNINIT_SHARED;
    uint32_t undefined = unwritten;
    if (memory_of(a->w, shared))
        EACH_MARKED (l, lanes & ~unwritten)
            undefined |= (uint32_t)any_mark(a, shared, offset[l], l) << l;
    if (a->write || !undefined || mark_load(a, kind, undefined, offset))
        return;
    sim_access_report(a, kind, undefined, "");
}
