/*
 * Functions that a module only declares because CUDA's runtime brings them:
 * vprintf, __assertfail, malloc, free.
 *
 * What kernels print goes to a text of their CTA and from there, once the
 * launch has ended, to standard output: CTAs by number, and in the order in
 * which they ran where they run in one fixed order.
 */
#include <stdio.h>

#include "access.h"
#include "engine_int.h"

enum { TEXT_MAX = 65536, WIDTH_MAX = 4096, ALLOCATION_ALIGN = 16 };

/* One lane's call. */
typedef struct external {
    const sim_insn *in;
    sim_warp *w;
    const uint8_t *regs;
    unsigned lane;
    const ptx_func *callee;
} external;

static uint8_t *local_of(const external *call, const ptx_operand *operand,
                         uint32_t at)
{
    const ptx_var *var = &call->w->launch->module->vars[operand->index];
    return sim_local_byte(
        call->w, call->w->frame->local_base + var->offset + at, call->lane);
}

static uint64_t argument(const external *call, uint32_t i)
{
    const ptx_operand *list = &call->in->src->operands[2];
    const ptx_func *caller = call->w->frame->code->func;
    const ptx_operand *operand = &caller->vectors[list->index + i];
    uint64_t value = 0;
    if (i >= list->count)
        return 0;
    if (operand->kind == PTX_ADDRESS) {
        const ptx_var *var = &call->w->launch->module->vars[operand->index];
        bool written = true;
        for (uint32_t k = 0; k < var->size && k < 8; k++) {
            const uint8_t *byte = local_of(call, operand, k);
            value |= (uint64_t)*byte << 8 * k;
            written &= sim_local_is_written(call->w, byte);
        }
        if (!written)
            sim_insn_report(call->w, call->in, SPT_SIM_UNINIT_LOCAL, call->lane,
                            0, "passed to the runtime");
        return value;
    }
    const sim_arg *arg = &call->in->args->arg[call->in->args->first[2] + i];
    memcpy(&value, call->regs + arg->slot + call->lane * arg->width,
           arg->width < 8 ? arg->width : 8);
    return value;
}

static void give_result(const external *call, uint64_t value)
{
    const ptx_operand *list = &call->in->src->operands[1];
    const ptx_func *caller = call->w->frame->code->func;
    const ptx_operand *operand = &caller->vectors[list->index];
    if (!list->count)
        return;
    if (operand->kind != PTX_ADDRESS) {
        const sim_arg *arg = &call->in->args->arg[call->in->args->first[1]];
        memcpy((uint8_t *)call->regs + arg->slot + call->lane * arg->width,
               &value, arg->width < 8 ? arg->width : 8);
        return;
    }
    const ptx_var *var = &call->w->launch->module->vars[operand->index];
    for (uint32_t k = 0; k < var->size && k < 8; k++) {
        uint8_t *byte = local_of(call, operand, k);
        *byte = (uint8_t)(value >> 8 * k);
        sim_local_written(call->w, byte, 1);
    }
}

/* Reads like the kernel itself would; false when that was a fault. */
static bool read_memory(const external *call, uint64_t address, uint32_t bytes,
                        uint64_t *value)
{
    sim_access a;
    sim_access_begin(&a, call->in, call->w, 1u << call->lane, bytes, false,
                     call->w->launch->args.checks);
    a.count = -1;
    sim_access_one(&a, address);
    sim_access_resolve(&a, PTX_GENERIC);
    *value = 0;
    memcpy(value, a.at[call->lane], bytes);
    return !a.failed;
}

static void read_text(const external *call, uint64_t address, spt_buf *text)
{
    uint64_t byte;
    while (text->size < TEXT_MAX && read_memory(call, address++, 1, &byte) &&
           byte) {
        char c = (char)byte;
        spt_buf_add(text, &c, 1);
    }
}

/* ---- vprintf ---- */

/* A conversion: "%" flags, width, precision, length, letter. */
typedef struct conversion {
    char spec[16]; /* for the host, "*" for width and precision */
    int width, precision; /* -1: none */
    int longs, shorts; /* length modifiers */
    char letter;
} conversion;

typedef struct arguments {
    const external *call;
    uint64_t at;
    int count;
} arguments;

static uint64_t next_argument(arguments *args, uint32_t bytes)
{
    uint64_t value;
    args->at = (args->at + bytes - 1) / bytes * bytes;
    read_memory(args->call, args->at, bytes, &value);
    args->at += bytes;
    args->count++;
    return value;
}

static const char *read_number(const char *at, arguments *args, int *number)
{
    int value = 0;
    if (*at == '*') {
        value = (int)next_argument(args, 4);
        at++;
    }
    for (; *at >= '0' && *at <= '9'; at++)
        if (value < WIDTH_MAX)
            value = 10 * value + *at - '0';
    *number = value > WIDTH_MAX    ? WIDTH_MAX
              : value < -WIDTH_MAX ? -WIDTH_MAX
                                   : value;
    return at;
}

/* What stands behind "%"; NULL when it is no conversion. */
static const char *read_conversion(const char *at, arguments *args,
                                   conversion *c)
{
    size_t flags = strspn(at, "-+ #0");
    if (flags > 6)
        return NULL;
    *c = (conversion){.precision = -1};
    c->spec[0] = '%';
    memcpy(c->spec + 1, at, flags);
    at = read_number(at + flags, args, &c->width);
    if (*at == '.')
        at = read_number(at + 1, args, &c->precision);
    for (; *at && strchr("hlLjzt", *at); at++)
        *(*at == 'h' ? &c->shorts : &c->longs) += 1;
    c->letter = *at;
    return *at && strchr("diouxXcspeEfFgGaA", *at) ? at + 1 : NULL;
}

static void print_text(spt_buf *out, const conversion *c, arguments *args)
{
    spt_buf text = {0};
    uint64_t address = next_argument(args, 8);
    if (address)
        read_text(args->call, address, &text);
    spt_buf_printf(out, c->spec, c->width, c->precision,
                   !address    ? "(null)"
                   : text.data ? text.data
                               : "");
    spt_buf_free(&text);
}

static void print_integer(spt_buf *out, const conversion *c, arguments *args)
{
    bool is_signed = c->letter == 'd' || c->letter == 'i';
    uint64_t value = next_argument(args, c->longs ? 8 : 4);
    unsigned drop = c->longs ? 0 : c->shorts > 1 ? 56 : c->shorts ? 48 : 32;
    if (is_signed)
        value = (uint64_t)((int64_t)(value << drop) >> drop);
    else
        value = value << drop >> drop;
    spt_buf_printf(out, c->spec, c->width, c->precision,
                   (unsigned long long)value);
}

static void print_one(spt_buf *out, conversion *c, arguments *args)
{
    size_t end = strlen(c->spec);
    const char *length = strchr("diouxX", c->letter) ? "ll" : "";
    snprintf(c->spec + end, sizeof c->spec - end, "*.*%s%c", length, c->letter);
    switch (c->letter) {
    case 's':
        print_text(out, c, args);
        break;
    case 'c': /* no precision */
        snprintf(c->spec + end, sizeof c->spec - end, "*c");
        spt_buf_printf(out, c->spec, c->width, (int)next_argument(args, 4));
        break;
    case 'p':
        snprintf(c->spec + end, sizeof c->spec - end, "*p");
        spt_buf_printf(out, c->spec, c->width,
                       (void *)(uintptr_t)next_argument(args, 8));
        break;
    case 'd':
    case 'i':
    case 'o':
    case 'u':
    case 'x':
    case 'X':
        print_integer(out, c, args);
        break;
    default: {
        uint64_t bits = next_argument(args, 8);
        double value;
        memcpy(&value, &bits, sizeof value);
        spt_buf_printf(out, c->spec, c->width, c->precision, value);
    }
    }
}

/* Text that is no conversion stays as it is. */
static void run_vprintf(const external *call)
{
    spt_buf format = {0}, *out = call->w->cta->print;
    arguments args = {.call = call, .at = argument(call, 1)};
    uint64_t address = argument(call, 0);
    if (address)
        read_text(call, address, &format);
    for (const char *at = format.data; at && *at;) {
        conversion c;
        size_t plain = strcspn(at, "%");
        spt_buf_add(out, at, plain);
        at += plain;
        if (!*at)
            break;
        const char *next =
            at[1] == '%' ? NULL : read_conversion(at + 1, &args, &c);
        if (next)
            print_one(out, &c, &args);
        else
            spt_buf_add(out, "%", 1);
        at = next ? next : at + 1 + (at[1] == '%');
    }
    spt_buf_free(&format);
    give_result(call, address ? (uint64_t)args.count : UINT32_MAX - 1);
}

/* ---- the others ---- */

static void run_assertfail(const external *call)
{
    spt_buf what = {0}, file = {0}, text = {0};
    sim_place place;
    read_text(call, argument(call, 0), &what);
    read_text(call, argument(call, 1), &file);
    if (what.data && file.data)
        spt_buf_printf(&text, "%s (%s:%u)", what.data, file.data,
                       (uint32_t)argument(call, 2));
    sim_place_of(call->w, call->in, call->lane, &place);
    sim_report_add(SPT_SIM_ASSERT, &place, 0, 1, 0, text.data);
    sim_fault(call->w, CUDA_ERROR_ASSERT);
    spt_buf_free(&what);
    spt_buf_free(&file);
    spt_buf_free(&text);
}

static void run_malloc(const external *call)
{
    uint64_t size = argument(call, 0), address = 0;
    const sim_launch_args *args = &call->w->launch->args;
    if (size &&
        sim_memory_alloc(args->memory, args->device, size, &address) != SPT_OK)
        address = 0;
    give_result(call, address);
}

static void run_free(const external *call)
{
    uint64_t address = argument(call, 0);
    if (!address ||
        sim_memory_release(call->w->launch->args.memory, address) == SPT_OK)
        return;
    sim_place place;
    sim_place_of(call->w, call->in, call->lane, &place);
    sim_report_add(SPT_SIM_CALL, &place, address, 1, 0,
                   "free of what malloc did not give");
    sim_fault(call->w, CUDA_ERROR_LAUNCH_FAILED);
}

static void run_unknown(const external *call)
{
    sim_place place;
    sim_place_of(call->w, call->in, call->lane, &place);
    sim_report_add(SPT_SIM_CALL, &place, 0, 1, 0, call->callee->name);
    sim_fault(call->w, CUDA_ERROR_LAUNCH_FAILED);
}

static const struct {
    const char *name;
    void (*run)(const external *call);
    bool shared; /* what CTAs do shows in others */
} externals[] = {
    {"vprintf", run_vprintf, false},
    {"__assertfail", run_assertfail, false},
    {"malloc", run_malloc, true},
    {"free", run_free, true},
};
enum { EXTERNALS = sizeof externals / sizeof *externals };

bool sim_extern_communicates(const char *name)
{
    for (int i = 0; i < EXTERNALS; i++)
        if (!strcmp(name, externals[i].name))
            return externals[i].shared;
    return false;
}

void sim_extern_run(const sim_insn *in, sim_warp *w, const uint8_t *regs,
                    const ptx_func *callee, uint32_t exec)
{
    void (*call)(const external *) = run_unknown;
    for (int i = 0; i < EXTERNALS; i++)
        if (!strcmp(callee->name, externals[i].name))
            call = externals[i].run;
    for (unsigned l = 0; l < SIM_LANES; l++)
        if (exec >> l & 1)
            call(&(external){in, w, regs, l, callee});
}
