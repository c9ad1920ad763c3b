/* Programs: which functions are decoded, and what they need together. */
#include "decode.h"
#include "ptx_live.h"

static void live_delete(ptx_live *live)
{
    if (live)
        ptx_live_free(live);
    spt_free(live);
}

const ptx_live *sim_program_live(const sim_program *program, uint32_t func)
{
    ptx_live *none = NULL, **at = &program->lives[func];
    ptx_live *live = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (live)
        return live;
    live = spt_calloc(1, sizeof *live);
    if (!live || !ptx_live_find(live, &program->module->funcs[func])) {
        live_delete(live);
        return NULL;
    }
    if (__atomic_compare_exchange_n(at, &none, live, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return live;
    live_delete(live); /* another thread was first */
    return none;
}

spt_status sim_program_new(const ptx_module *module, const uint64_t *addresses,
                           bool checks, sim_program **program, spt_error *err)
{
    sim_program *made = spt_calloc(1, sizeof *made);
    if (made)
        made->module = module;
    if (made)
        made->codes = spt_calloc(module->n_funcs, sizeof(sim_code *));
    if (made)
        made->lives = spt_calloc(module->n_funcs, sizeof(ptx_live *));
    if (!made || !made->codes || !made->lives) {
        sim_program_delete(made);
        return spt_fail(err, SPT_E_MEMORY, "sim: out of memory");
    }
    made->addresses = addresses;
    made->checks = checks;
    *program = made;
    return SPT_OK;
}

void sim_program_delete(sim_program *program)
{
    if (!program)
        return;
    for (uint32_t i = 0; program->lives && i < program->module->n_funcs; i++)
        live_delete(program->lives[i]);
    spt_arena_free(&program->arena);
    spt_free(program->lives);
    spt_free(program->codes);
    spt_free(program);
}

/* Decodes a function and all that it can reach. */
spt_status sim_program_prepare(sim_program *program, uint32_t func,
                               spt_error *err)
{
    if (program->codes[func])
        return SPT_OK;
    SPT_TRY(sim_decode_function(program, func, err));
    const sim_code *code = program->codes[func];
    if (!code)
        return SPT_OK;
    for (uint32_t i = 0; i < code->n_callees; i++)
        SPT_TRY(sim_program_prepare(program, code->callees[i], err));
    for (uint32_t i = 0; code->calls_unknown && i < program->module->n_funcs;
         i++)
        if (!program->module->funcs[i].entry)
            SPT_TRY(sim_program_prepare(program, i, err));
    return SPT_OK;
}

uint32_t sim_program_shared(sim_program *program, uint32_t func)
{
    return (uint32_t)program->module->funcs[func].shared_bytes;
}

enum { STACK_DEFAULT = 16384, CALL_DEPTH = 24 };

/* Local bytes of the deepest chain of calls; UINT64_MAX when it has no end. */
static uint64_t depth_bytes(const sim_program *program, uint32_t func,
                            int depth)
{
    const sim_code *code = program->codes[func];
    uint64_t most = 0;
    if (!code)
        return 0;
    if (depth > CALL_DEPTH || code->calls_unknown || code->allocates)
        return UINT64_MAX;
    for (uint32_t i = 0; i < code->n_callees; i++) {
        uint64_t bytes = depth_bytes(program, code->callees[i], depth + 1);
        if (bytes == UINT64_MAX)
            return bytes;
        most = bytes > most ? bytes : most;
    }
    return code->frame_bytes + most;
}

uint64_t sim_program_local(sim_program *program, uint32_t func)
{
    uint64_t bytes = depth_bytes(program, func, 0);
    if (bytes == UINT64_MAX)
        bytes = program->codes[func]->frame_bytes + STACK_DEFAULT;
    return bytes;
}
