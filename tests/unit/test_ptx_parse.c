/*
 * The PTX parser: what it makes of sound text, and the one line it gives for
 * text that is not.
 */
#include <stdlib.h>

#include "check.h"
#include "ptx_rows.h"

static const char head[] = ".version 8.7\n.target sm_90\n.address_size 64\n";

static spt_error err;

static ptx_module *parse(const char *text, uint32_t sm)
{
    ptx_module *module = NULL;
    err.text[0] = 0;
    if (ptx_parse(text, strlen(text), sm, &module, &err) != SPT_OK)
        return NULL;
    return module;
}

/* The body of a kernel with registers of every type; line 5 of the text. */
static ptx_module *parse_body(const char *body)
{
    spt_buf text = {0};
    spt_buf_printf(&text,
                   "%s.entry k(.param .u64 p) { .reg .pred p<4>; .reg "
                   ".b16 h<9>; .reg .b32 r<40>; .reg .b64 d<9>; .reg "
                   ".f32 f<40>; .reg .f64 e<9>;\n%s\n}\n",
                   head, body);
    ptx_module *module = parse(text.data, 90);
    spt_buf_free(&text);
    return module;
}

static void refuse(const char *body, const char *part)
{
    ptx_module *module = parse_body(body);
    CHECK(!module, "refused: %s", body);
    CHECK_HAS(err.text, part, "with the reason");
    ptx_free(module);
}

static void refuse_module(const char *text, const char *part)
{
    ptx_module *module = parse(text, 90);
    CHECK(!module, "refused module");
    CHECK_HAS(err.text, part, part);
    ptx_free(module);
}

static void test_tables(void)
{
    char fault[200];
    CHECK(!ptx_rows_fault(fault, sizeof fault), "tables are sound");
    for (int op = 0; op < PTX_OP_COUNT; op++) {
        const ptx_mnemonic *found = ptx_find_mnemonic(
            ptx_op_text((ptx_op)op), strlen(ptx_op_text((ptx_op)op)));
        if (!found || found->op != (ptx_op)op)
            CHECK(false, "%s is found", ptx_op_text((ptx_op)op));
    }
    for (int mod = 0; mod < PTX_MOD_COUNT; mod++) {
        bool used = false;
        for (int op = 0; op < PTX_OP_COUNT; op++)
            used |= ptx_set_has(&ptx_op_row((ptx_op)op)->mods, (unsigned)mod);
        if (!used)
            CHECK(false, "some row takes .%s", ptx_mod_text((ptx_mod)mod));
    }
}

static void test_module(void)
{
    ptx_module *module = parse(
        ".version 8.3\n.target sm_80, debug\n.address_size 64\n"
        ".extern .shared .align 16 .b8 dyn[];\n"
        ".shared .align 8 .b8 common[24];\n"
        ".global .u32 cell;\n"
        ".visible .global .align 8 .u64 at[2] = {generic(cell)+4, 7};\n"
        ".const .f32 grid[2][2] = {{0.5}, {0f40000000, -1}};\n"
        ".func (.param .b32 r) f (.param .b32 a, .param .b64 b) { ret; }\n"
        ".visible .entry k(.param .u64 x, .param .align 16 .b8 y[20], "
        ".param .u8 z) .maxntid 128 .minnctapersm 2 {\n"
        "  .shared .align 32 .f32 own[4];\n  .reg .b64 d;\n"
        "  mov.u64 d, common; ret; }\n.file 1 \"a.cu\"\n",
        90);
    if (!CHECK(!module, "an integer does not initialise a float"))
        ptx_free(module);
    CHECK_HAS(err.text, "PTX line 8: an integer constant", "names the line");
    module = parse(
        ".version 8.3\n.target sm_80, debug\n.address_size 64\n"
        ".extern .shared .align 16 .b8 dyn[];\n"
        ".shared .align 8 .b8 common[24];\n"
        ".global .u32 cell;\n"
        ".visible .global .align 8 .u64 at[2] = {generic(cell)+4, 7};\n"
        ".const .f32 grid[2][2] = {{0.5}, {0f40000000, -1.0}};\n"
        ".func (.param .b32 r) f (.param .b32 a, .param .b64 b) { ret; }\n"
        ".visible .entry k(.param .u64 x, .param .align 16 .b8 y[20], "
        ".param .u8 z) .maxntid 128 .minnctapersm 2 {\n"
        "  .shared .align 32 .f32 own[4];\n  .reg .b64 d;\n"
        "  mov.u64 d, common; ret; }\n.file 1 \"a.cu\"\n",
        90);
    if (!CHECK(module != NULL, "module parses"))
        return;
    CHECK_INT(module->sm, 80, "target");
    CHECK_INT(module->version, 83, "version");
    const ptx_func *f = &module->funcs[0], *k = &module->funcs[1];
    CHECK_TEXT(k->name, "k", "kernel's name");
    CHECK(k->entry && !f->entry, "kernel and function");
    CHECK_INT(k->param_bytes, 37, "parameters");
    CHECK_INT(module->vars[k->params[1]].offset, 16, "alignment");
    CHECK_INT(k->max_threads[0] * k->max_threads[1], 128, ".maxntid");
    CHECK_INT(k->min_ctas, 2, ".minnctapersm");
    CHECK_INT(f->n_params, 2, "parameters of a function");
    CHECK_INT(f->local_bytes, 16, "and their place");
    CHECK_INT(k->shared_bytes, 48, "shared: of the module, then its own");
    const ptx_var *at = &module->vars[3], *grid = &module->vars[4];
    CHECK_INT(at->n_relocs, 1, "relocation");
    CHECK_INT(at->relocs[0].addend, 4, "with its offset");
    CHECK(at->relocs[0].generic && at->init[8] == 7, "and a constant");
    float values[4];
    memcpy(values, grid->init, sizeof values);
    CHECK(values[0] == 0.5f && values[1] == 0 && values[2] == 2 &&
              values[3] == -1,
          "rows of an array");
    CHECK_TEXT(module->files[1], "a.cu", "file");
    ptx_free(module);
}

static void test_instructions(void)
{
    ptx_module *module = parse_body(
        "ld.global.nc.L1::no_allocate.v4.f32 {f0, f1, _, f3}, [d1+-16];\n"
        "@!p1 setp.lt.and.f32 p2|p3, f0, 0f3F800000, !p1;\n"
        "mov.b64 {r1, r2}, d1; shfl.sync.up.b32 r1|p1, r2, 1, 0, -1;\n"
        "bar.sync 0; cvta.to.global.u64 d2, d1; mov.u32 r3, %tid.x;\n"
        "add.s32 r3, r3, 1 << 4 | 3; st.shared.u8 [r1], h1;\n"
        "atom.global.cas.b32 r1, [d1], r2, r3;");
    if (!CHECK(module != NULL, "instructions parse")) {
        printf("#   %s\n", err.text);
        return;
    }
    const ptx_insn *insn = module->funcs[0].insns;
    CHECK_INT(insn[0].op, PTX_OP_LD, "ld");
    CHECK_INT(insn[0].vector, 4, "vector");
    CHECK_INT(insn[0].space, PTX_GLOBAL, "space");
    CHECK_INT(insn[0].operands[1].value, -16, "offset");
    const ptx_operand *third =
        &module->funcs[0].vectors[insn[0].operands[0].index + 2];
    CHECK_INT(third->kind, PTX_SINK, "sink");
    CHECK(insn[1].guard >= 0 && insn[1].guard_negated, "guard");
    CHECK_INT(insn[1].n_operands, 5, "pair counts twice");
    CHECK_INT(insn[1].operands[3].value, 0x3f800000, "float constant");
    CHECK(insn[1].operands[0].pair && insn[1].operands[4].negated,
          "pair and negation");
    CHECK_INT(insn[4].op, PTX_OP_BARRIER_SYNC, "bar is barrier");
    CHECK(ptx_has(&insn[4], PTX_MOD_ALIGNED), "aligned");
    CHECK_INT(insn[6].operands[1].index, PTX_SPECIAL_TID_X, "special");
    CHECK_INT(insn[7].operands[2].value, 19, "constant expression");
    CHECK_INT(insn[7].ptx_line, 9, "line");
    CHECK_INT(module->funcs[0].n_regs, 12, "only registers in use count");
    ptx_free(module);
}

static void test_scopes(void)
{
    ptx_module *module =
        parse_body("{ .reg .b32 x; w: mov.u32 x, 1; bra w; }\n"
                   "{ .reg .b64 x; w: mov.u64 x, 1; bra v; }\nv: ret;");
    if (!CHECK(module != NULL, "names of a scope are its own"))
        return;
    const ptx_insn *insn = module->funcs[0].insns;
    CHECK_INT(insn[1].operands[0].index, 0, "label of the first scope");
    CHECK_INT(insn[3].operands[0].index, 4, "label around the second");
    ptx_free(module);
    refuse("vadd.u32.u32.u32 r1, r2.b4, r3;", "b4 does not select");
    refuse("vadd2.u32.u32.u32 r1, r2.h3, r3, r4;", "does not select");
    refuse("vadd.u32.u32.u32 r1.b0, r2, r3;", "a part of the destination");
    refuse("fma.rz.f16 h1, h2, h3, h4;", ".rz is not for .f16");
    refuse("setp.lo.s32 p1, r1, r2;", ".lo is not for .s32");
    refuse("set.equ.u32.u32 r1, r2, r3;", ".equ is not for .u32");
    refuse("atom.global.and.u32 r1, [d1], r2;", ".and is not for .u32");
    refuse("atom.global.add.f16 h1, [d1], h2;", "need .noftz");
    refuse("atom.global.min.noftz.f16 h1, [d1], h2;", "for vectors");
    refuse("red.acquire.gpu.global.add.u32 [d1], r1;", "nothing to acquire");
    refuse("ld.global.v8.b32 {r1,r2,r3,r4,r5,r6,r7,r8}, [d1];", "sm_100");
    refuse("ld.shared.v4.b64 {d1,d2,d3,d4}, [r1];", "at most 16 bytes");
    refuse("ld.relaxed.gpu.local.b32 r1, [d1];", "no order");
    refuse("cp.async.cg.shared.global [r1], [d1], 8;", "copies 16 bytes");
    refuse("min.f32 f1, f2, f3, f4;", "sm_100");
    refuse("mma.sync.aligned.m16n8k8.col.col.f32.f16.f16.f32 {f1,f2,f3,f4}, "
           "{r1,r2}, {r3}, {f1,f2,f3,f4};",
           ".row.col");
    refuse("mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 "
           "{r1,r2,r3,r4}, {r5,r6,r7,r8}, {r9,r10,r11,r12}, {r1,r2,r3,r4}, "
           "r13, 1;",
           "must be 0");
    refuse("ldmatrix.sync.aligned.m8n8.x1.shared.b8 {r1}, [r2];", "sm_100");
    refuse("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32.ue8m0 "
           "{f1,f2,f3,f4}, {r1,r2}, {r3}, {f1,f2,f3,f4};",
           "scales need .block_scale");
    refuse("alloca.u64 d1, d2, 12;", "power of two");
    refuse("{ w: ret; } bra w;", "w is not declared");
    refuse("mov.u32 r1, r41;", "r41 is not declared");
    refuse("a: a: ret;", "declared twice");
}

static void test_refusals(void)
{
    refuse("frobnicate.b32 r1, r2;", "PTX line 5: frobnicate.b32: unknown");
    refuse("add.foo.s32 r1, r2, r3;", "unknown modifier .foo");
    refuse("add.wide.s32 r1, r2, r3;", "misplaced modifier .wide");
    refuse("add.pred p1, p2, p3;", "type .pred is not allowed");
    refuse("add.s32 r1, r2;", "operands are missing");
    refuse("add.s32 r1, r2, r3, r4;", "operand 4");
    refuse("add.s32 r1, r2, d3;", "operand 3 has type .b64");
    refuse("add.s32 f1, r2, r3;", "operand 1 has type .f32");
    refuse("add.f32 f1, f2, 1;", "an integer constant");
    refuse("add.s32 r1, r2, 1.0;", "a floating-point constant");
    refuse("add.s32 4, r2, r3;", "operand 1 is not of the kind");
    refuse("mul.s32 r1, r2, r3;", ".lo, .hi and .wide");
    refuse("fma.f32 f1, f2, f3, f4;", "one rounding");
    refuse("cvt.f32.s32 f1, r1;", "a rounding");
    refuse("cvt.rn.s32.f32 r1, f1;", ".rni");
    refuse("setp.f32 p1, f1, f2;", "a modifier like");
    refuse("ld.global [d1];", "a type is missing");
    refuse("ld.global.v2.f32 f1, [d1];", "operand 1");
    refuse("ld.global.v2.f32 {f1, f2, f3}, [d1];", "expected 2");
    refuse("ld.global.f32 f1, [f2];", "an address is in a register");
    refuse("bra r1;", "is not declared");
    refuse("add.rn.bf16x2.f32 r1, r2, r3;", "type .f32 is not allowed");
    refuse("add.rn.f32x2 d1, d2, d3;", "needs target sm_100");
    refuse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0, f1, f2, "
           "f3}, {r1, r2}, {r1, r2}, {f0, f1, f2, f3};",
           "operand 2 has 2 registers, expected 4");
    refuse("mov.u32 r1, (((1;", "expected");
    refuse("@r1 ret;", "a predicate register");
    refuse("call nowhere;", "nowhere is not declared");
    refuse("/* never closed", "comment is not closed");
    refuse("mov.f32 f1, 0f3F80;", "too few digits");
}

static void test_modules_refused(void)
{
    refuse_module("", "expected \".version\"");
    refuse_module(".version 8.0\n.target sm_100\n", "compute capability 9.0");
    refuse_module(".version 8.0\n.target sm_80a\n", "compute capability 9.0");
    refuse_module(".version 8.0\n.target sm_80\n.address_size 32\n",
                  ".address_size must be 64");
    refuse_module(".version 8.0\n.target sm_80\n.address_size 64\n.entry k(",
                  "before the end of the text");
    refuse_module(".version 8.0\n.target sm_80\n.address_size 64\n"
                  ".entry k() { .reg .b32 %r<2000000>; }",
                  "too many registers");
    spt_buf deep = {0};
    spt_buf_printf(&deep, "%s.entry k() { .reg .b32 r; mov.u32 r, ", head);
    for (int i = 0; i < 100000; i++)
        spt_buf_puts(&deep, "(");
    refuse_module(deep.data, "nested too deeply");
    spt_buf_free(&deep);
    spt_buf_printf(&deep, "%s.entry k() ", head);
    for (int i = 0; i < 100000; i++)
        spt_buf_puts(&deep, "{");
    refuse_module(deep.data, "nested too deeply");
    spt_buf_free(&deep);
}

int main(void)
{
    test_tables();
    test_module();
    test_instructions();
    test_scopes();
    test_refusals();
    test_modules_refused();
    return check_done();
}
