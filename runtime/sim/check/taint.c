/*
 * What instructions do with undefined values, and the loop that runs a warp an
 * instruction at a time.
 */
#include "taint.h"

#include <string.h>

#include "engine_args.h"
#include "ptx_live.h"
#include "taint_int.h"

static void use_operand(sim_warp *w, const ptx_operand *operand, uint32_t exec,
                        const ptx_insn *src)
{
    for (uint32_t i = 0; i < elements(operand); i++)
        sim_taint_use(w, sim_taint_find(w, sim_taint_register(w, operand, i)),
                      exec, src);
}

/* ---- what instructions do ---- */

static uint64_t value_of(const sim_insn *in, const uint8_t *regs, int operand,
                         unsigned lane)
{
    if (arg_of(in, operand)->width)
        return get(in, regs, operand, lane);
    return pred_of(in, regs, operand) >> lane & 1;
}

/* The undefined bits of one lane's result. */
static uint64_t lane_result(const sim_warp *w, const sim_insn *in,
                            unsigned lane, shadow *const *sources, int first)
{
    const ptx_insn *src = in->src;
    sim_taint_operands o = {0};
    int n = src->n_operands - first;
    for (int i = 0; i < n && i < SIM_TAINT_OPERANDS; i++) {
        const shadow *s = sources[i];
        o.bits[i] = s && s->lanes >> lane & 1 ? s->bits[lane] : 0;
        o.value[i] = value_of(in, w->frame->regs, first + i, lane);
    }
    if (src->op != PTX_OP_SELP)
        return sim_taint_result(src, &o);
    if (o.bits[2])
        return UINT64_MAX;
    return o.bits[o.value[2] ? 0 : 1];
}

static void compute(sim_warp *w, const sim_insn *in, uint32_t exec)
{
    const ptx_insn *src = in->src;
    const uint16_t *from[SIM_TAINT_OPERANDS] = {0};
    shadow *sources[SIM_TAINT_OPERANDS] = {0}, result = {0};
    int first = ptx_live_results(src);
    uint32_t lanes = 0;
    for (int i = 0; i < src->n_operands - first && i < SIM_TAINT_OPERANDS;
         i++) {
        sources[i] = sim_taint_find(
            w, sim_taint_register(w, &src->operands[first + i], 0));
        lanes |= sources[i] ? sources[i]->lanes & exec : 0;
        from[i] = sources[i] ? sources[i]->from : NULL;
    }
    EACH_MARKED (l, lanes) {
        int i = 0;
        while (!sources[i] || !(sources[i]->lanes >> l & 1))
            i++;
        set_lane(&result, l, lane_result(w, in, l, sources, first), from[i][l]);
    }
    for (int i = 0; i < first; i++) {
        int64_t reg = sim_taint_register(w, &src->operands[i], 0);
        shadow own = result;
        EACH_MARKED (l, reg >= 0 ? result.lanes : 0)
            set_lane(&own, l, result.bits[l] & sim_taint_register_bits(w, reg),
                     result.from[l]);
        sim_taint_define(w, reg, exec, &own, src);
    }
}

/* mov, also of and to vectors: bits go where they belong. */
static void move(sim_warp *w, const ptx_insn *src, uint32_t exec)
{
    const ptx_operand *to = &src->operands[0], *from = &src->operands[1];
    uint32_t bits = 8 * ptx_type_bytes((ptx_type)src->types[0]);
    shadow whole = {0};
    uint32_t step = bits / elements(from) % 64;
    for (uint32_t i = 0; i < elements(from); i++) {
        const shadow *s = sim_taint_find(w, sim_taint_register(w, from, i));
        EACH_MARKED (l, s ? s->lanes & exec : 0) {
            uint64_t old = whole.lanes >> l & 1 ? whole.bits[l] : 0;
            set_lane(&whole, l, old | s->bits[l] << step * i % 64, s->from[l]);
        }
    }
    step = bits / elements(to) % 64;
    for (uint32_t i = 0; i < elements(to); i++) {
        int64_t reg = sim_taint_register(w, to, i);
        shadow part = {0};
        EACH_MARKED (l, reg >= 0 ? whole.lanes : 0)
            set_lane(&part, l,
                     whole.bits[l] >> step * i % 64 &
                         sim_taint_register_bits(w, reg),
                     whole.from[l]);
        sim_taint_define(w, reg, exec, &part, src);
    }
}

/* Lanes whose store goes where its thread or block alone reads. */
static uint32_t stays_inside(const ptx_insn *src, const uint64_t *addr,
                             uint32_t *shared)
{
    uint32_t local = 0;
    *shared = 0;
    if (src->space == PTX_SHARED)
        return *shared = UINT32_MAX;
    if (src->space == PTX_LOCAL || src->space == PTX_PARAM)
        return UINT32_MAX;
    for (unsigned l = 0; src->space == PTX_GENERIC && l < SIM_LANES; l++) {
        *shared |= (uint32_t)(addr[l] >> 40 == SIM_SHARED_WINDOW >> 40) << l;
        local |= (uint32_t)(addr[l] >> 40 == SIM_LOCAL_WINDOW >> 40) << l;
    }
    return *shared | local;
}

/* A store: to global memory it is a use; else it takes the marks along. */
static void store(sim_warp *w, const sim_insn *in, uint32_t exec)
{
    static const shadow nothing;
    const ptx_insn *src = in->src;
    pending *p = &w->taint->store;
    use_operand(w, &src->operands[0], exec, src);
    p->bytes = ptx_type_bytes((ptx_type)src->types[0]);
    sim_access_addresses(arg_of(in, 0), w, w->frame->regs, p->offset);
    uint32_t inside = stays_inside(src, p->offset, &p->shared);
    use_operand(w, &src->operands[1], exec & ~inside, src);
    for (uint32_t i = 0; i < elements(&src->operands[1]); i++) {
        const shadow *s =
            sim_taint_find(w, sim_taint_register(w, &src->operands[1], i));
        p->s[i] = s ? *s : nothing;
        p->s[i].lanes &= exec & inside;
        p->on |= p->s[i].lanes != 0;
    }
    for (unsigned l = 0; l < SIM_LANES; l++)
        p->offset[l] &= SIM_WINDOW_MASK;
}

/* shfl moves marks between lanes, once all of them are there. */
static void shuffle(sim_warp *w, const sim_insn *in, uint32_t exec)
{
    const ptx_insn *src = in->src;
    sim_taint *t = w->taint;
    int value = ptx_live_results(src);
    for (int i = value + 1; i < src->n_operands; i++)
        use_operand(w, &src->operands[i], exec, src);
    const shadow *s =
        sim_taint_find(w, sim_taint_register(w, &src->operands[value], 0));
    t->shuffle = in;
    t->shuffled.lanes = 0;
    EACH_MARKED (l, s ? exec : 0) {
        unsigned from = sim_shfl_lane(in, w->frame->regs, l);
        if (s->lanes & exec & 1u << from)
            set_lane(&t->shuffled, l, s->bits[from], s->from[from]);
    }
}

/* What the instruction at in did, once it has run: it went on to next. */
static void look_back(sim_warp *w, const sim_insn *in, const sim_insn *next,
                      uint32_t exec)
{
    static const shadow nothing;
    sim_taint *t = w->taint;
    sim_taint_keep(w);
    if (t->shuffle && next == in + 1) {
        const ptx_operand *to = in->src->operands;
        sim_taint_define(w, sim_taint_register(w, to, 0), exec, &t->shuffled,
                         in->src);
        if (to->pair)
            sim_taint_define(w, sim_taint_register(w, to + 1, 0), exec,
                             &nothing, in->src);
    }
    t->shuffle = NULL;
}

/* An instruction is about to run in lanes exec. */
static void look(sim_warp *w, const sim_insn *in, uint32_t exec)
{
    static const shadow nothing;
    const ptx_insn *src = in->src;
    switch (ptx_insn_class(src)) {
    case PTX_CLASS_INTEGER:
    case PTX_CLASS_FLOAT:
    case PTX_CLASS_HALF:
    case PTX_CLASS_DOUBLE:
    case PTX_CLASS_CONVERT:
    case PTX_CLASS_MOVE:
    case PTX_CLASS_LOGIC:
    case PTX_CLASS_COMPARE:
    case PTX_CLASS_SPECIAL:
        if (src->op == PTX_OP_MOV)
            move(w, src, exec);
        else
            compute(w, in, exec);
        return;
    default:
        break;
    }
    if (src->op == PTX_OP_ST) {
        store(w, in, exec);
        return;
    }
    if (src->op == PTX_OP_SHFL) {
        shuffle(w, in, exec);
        return;
    }
    int first = ptx_live_results(src);
    for (int i = first; i < src->n_operands; i++)
        if (src->op != PTX_OP_CALL || i != 1)
            use_operand(w, &src->operands[i], exec, src);
    for (int i = 0; i < first; i++)
        for (uint32_t k = 0; k < elements(&src->operands[i]); k++)
            sim_taint_define(w, sim_taint_register(w, &src->operands[i], k),
                             exec, &nothing, src);
}

/* ---- the loop ---- */

static const sim_insn *stop(const sim_insn *in, sim_warp *w, uint8_t *regs,
                            uint32_t exec)
{
    (void)w, (void)regs, (void)exec;
    return in;
}

/* Handlers that return after one instruction, some only when there is an
   event; the others go on to what stands behind them. */
static bool returns(sim_handler h)
{
    return h == sim_flow_next || h == sim_flow_op || h == sim_flow_sync ||
           h == sim_flow_warp_sync || h == sim_flow_barrier ||
           h == sim_flow_bra || h == sim_flow_brx || h == sim_flow_call ||
           h == sim_flow_ret || h == sim_flow_exit || h == sim_flow_trap;
}

static const sim_insn *run_one(const sim_insn *in, sim_warp *w, uint32_t exec)
{
    uint8_t *regs = w->frame->regs;
    if (returns(in->full)) {
        w->event = SIM_EVENT_STEP;
        const sim_insn *out = sim_go(in, w, regs, exec);
        if (w->event == SIM_EVENT_STEP)
            w->event = SIM_EVENT_NONE;
        return out;
    }
    sim_insn alone[2] = {*in, {.full = stop, .masked = stop}};
    return in + (sim_go(alone, w, regs, exec) - alone);
}

/* The lanes of w->mask for which an instruction's guard holds. */
static uint32_t guarded(const sim_insn *in, sim_warp *w)
{
    uint32_t lanes;
    if (in->src->guard < 0)
        return w->mask;
    sim_taint_use(w, sim_taint_find(w, in->src->guard), w->mask, in->src);
    memcpy(&lanes, w->frame->regs + in->a, sizeof lanes);
    return (lanes ^ in->b) & w->mask;
}

/* Branches and exits have their guard inside; who leaves takes along what is
   marked. */
static void look_at_flow(const sim_insn *in, sim_warp *w)
{
    uint32_t lanes = guarded(in, w);
    if (in->full == sim_flow_ret)
        sim_taint_drop(w->taint, w->frame, lanes);
    if (in->full == sim_flow_exit)
        sim_taint_drop(w->taint, NULL, lanes);
}

static bool has_own_guard(const sim_insn *in)
{
    return in->full == sim_flow_bra || in->full == sim_flow_ret ||
           in->full == sim_flow_exit;
}

const sim_insn *sim_taint_run(sim_warp *w, const sim_insn *pc)
{
    const ptx_insn *looked = NULL;
    uint32_t exec = w->mask;
    bool inside = false; /* behind a guard: exec is not the group's mask */
    while (!w->event && (w->taint->count || inside)) {
        const ptx_insn *src = pc->src;
        bool marker = pc->full == sim_flow_header || pc->full == sim_flow_next;
        if (pc->full == sim_flow_guard) {
            exec = guarded(pc, w);
            inside = exec != 0;
            pc += inside ? 1 : pc->c + 1;
            exec = inside ? exec : w->mask;
            continue;
        }
        if (pc->full == sim_flow_unguard) {
            exec = w->mask;
            inside = false;
            pc++;
            continue;
        }
        if (pc->full == sim_flow_header)
            sim_taint_prune(w, pc->a - w->frame->code->first_block, w->mask);
        if (has_own_guard(pc))
            look_at_flow(pc, w);
        else if (!marker && pc->args && src != looked)
            look(w, pc, exec);
        looked = marker ? NULL : pc->args ? src : looked;
        const sim_insn *next = run_one(pc, w, exec);
        look_back(w, pc, next, exec);
        pc = next;
    }
    return pc;
}
