/*
 * The order of basic blocks: where paths meet ranks above the paths, and what
 * follows a loop above the loop.
 */
#include "check.h"
#include "ptx.h"

static ptx_module *parse_body(const char *body)
{
    spt_buf text = {0};
    spt_error err = {0};
    ptx_module *module = NULL;
    spt_buf_printf(&text,
                   ".version 8.0\n.target sm_80\n.address_size 64\n"
                   ".entry k() { .reg .pred p; .reg .b32 r;\n%s\n}\n",
                   body);
    if (ptx_parse(text.data, text.size, 80, &module, &err) != SPT_OK)
        CHECK(false, "%s", err.text);
    spt_buf_free(&text);
    return module;
}

/* The blocks' ranks in the order of the text, as in "0 2 1". */
static void check_ranks(const char *body, const char *expected,
                        const char *name)
{
    ptx_module *module = parse_body(body);
    spt_buf seen = {0};
    if (!module)
        return;
    const ptx_func *func = &module->funcs[0];
    for (uint32_t i = 0; i < func->n_blocks; i++)
        spt_buf_printf(&seen, i ? " %u" : "%u", func->blocks[i].rank);
    CHECK_TEXT(seen.data, expected, name);
    spt_buf_free(&seen);
    ptx_free(module);
}

int main(void)
{
    check_ranks("ret;", "0", "one block");
    check_ranks("@p bra a; mov.u32 r, 1; bra b; a: mov.u32 r, 2; b: ret;",
                "0 1 2 3", "two branches, then where they meet");
    check_ranks("bra c; b: mov.u32 r, 1; bra d; c: mov.u32 r, 2; bra b; "
                "d: ret;",
                "0 2 1 3", "blocks out of order");
    check_ranks("top: @p bra out; mov.u32 r, 1; bra top; out: ret;", "0 1 2",
                "what follows a loop comes after it");
    check_ranks("bra head; out: ret; head: @p bra out; mov.u32 r, 1; "
                "bra head;",
                "0 3 1 2", "even when it stands before it");
    check_ranks("a: mov.u32 r, 0; b: @p bra c; bra b; c: @p bra a; @p bra d; "
                "ret; d: exit;",
                "0 1 2 3 4 5 6", "loops in loops");
    check_ranks("l: .branchtargets x, y, z; brx.idx r, l; x: bra e; y: bra e; "
                "z: mov.u32 r, 1; e: ret;",
                "0 1 2 3 4", "a table of labels");
    check_ranks("@p ret; @p exit; mov.u32 r, 1;", "0 1 2",
                "a guarded ret goes on");
    return check_done();
}
