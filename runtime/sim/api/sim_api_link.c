/*
 * Driver calls that link. Inputs are PTX, or fatbins that hold some; the
 * result is PTX text, which cuModuleLoadData takes.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"
#include "sim_fatbin.h"
#include "sim_link.h"

struct CUlinkState_st {
    sim_link_part *parts; /* each with an owned text */
    size_t count, room;
    spt_buf image; /* valid until the state is destroyed */
    unsigned n_options;
    CUjit_option *options; /* the caller's, alive as long as the state */
    void **values;
};

CUresult SIM_FN(cuLinkCreate)(unsigned n_options, CUjit_option *options,
                              void **values, CUlinkState *state)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!state || (n_options && (!options || !values)))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUlinkState made = spt_calloc(1, sizeof(*made));
    if (!made || !sim_handle_add(made, SIM_HANDLE_LINK)) {
        spt_free(made);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made->n_options = n_options;
    made->options = options;
    made->values = values;
    *state = made;
    return sim_leave(CUDA_SUCCESS);
}

static void state_delete(CUlinkState state)
{
    for (size_t i = 0; i < state->count; i++)
        spt_free((char *)state->parts[i].text);
    spt_free(state->parts);
    spt_buf_free(&state->image);
    sim_handle_drop(state);
    spt_free(state);
}

void sim_links_delete(void)
{
    for (size_t i = 0; i < sim_the.handles.capacity; i++)
        if (sim_the.handles.slots[i].kind == SIM_HANDLE_LINK)
            state_delete((CUlinkState)sim_the.handles.slots[i].handle);
}

static CUresult enter_link(CUlinkState state, CUcontext *ctx)
{
    CUresult result = sim_enter(ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(state, SIM_HANDLE_LINK))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

static CUresult add_part(CUlinkState state, const char *text, size_t size)
{
    if (!spt_grow(&state->parts, &state->room, state->count + 1,
                  sizeof *state->parts))
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *copy = spt_calloc(size + 1, 1);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, text, size);
    state->parts[state->count++] = (sim_link_part){copy, size};
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuLinkAddData)(CUlinkState state, CUjitInputType type,
                               void *data, size_t size, const char *name,
                               unsigned n_options, CUjit_option *options,
                               void **values)
{
    CUcontext ctx;
    CUresult result = enter_link(state, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    (void)name, (void)n_options, (void)options, (void)values;
    if (!data || !size)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_image found = {.text = data, .size = strnlen(data, size)};
    spt_error err = {0};
    if (type == CU_JIT_INPUT_FATBINARY) {
        result = sim_image_find(data, size, &sim_device_of(ctx)->board, &found,
                                &err);
        if (result != CUDA_SUCCESS)
            sim_reason(result, &err);
    } else if (type != CU_JIT_INPUT_PTX) {
        result = sim_lacks("cuLinkAddData", "an input that is not PTX");
    }
    if (result == CUDA_SUCCESS)
        result = add_part(state, found.text, found.size);
    sim_image_free(&found);
    return sim_leave(result);
}

CUresult SIM_FN(cuLinkAddFile)(CUlinkState state, CUjitInputType type,
                               const char *path, unsigned n_options,
                               CUjit_option *options, void **values)
{
    spt_buf file = {0};
    spt_error err = {0};
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_image_read(path, &file, &err);
    if (result != CUDA_SUCCESS)
        return sim_reason(result, &err);
    result = SIM_FN(cuLinkAddData)(state, type, file.data, file.size, path,
                                   n_options, options, values);
    spt_buf_free(&file);
    return result;
}

/* What cannot be loaded is refused here, with the reason in the log. */
static CUresult complete(CUlinkState state, CUcontext ctx)
{
    const spt_board *board = &sim_device_of(ctx)->board;
    uint32_t sm = (uint32_t)(10 * board->cc_major + board->cc_minor);
    spt_error err = {0};
    ptx_module *module = NULL;
    spt_buf_free(&state->image);
    spt_status status =
        sim_link(state->parts, state->count, &state->image, &err);
    if (status == SPT_OK)
        status = ptx_parse(state->image.data, state->image.size - 1, sm,
                           &module, &err);
    if (module)
        ptx_free(module);
    sim_module_log(state->n_options, state->options, state->values, err.text);
    return status == SPT_OK ? CUDA_SUCCESS
                            : sim_reason(CUDA_ERROR_INVALID_PTX, &err);
}

CUresult SIM_FN(cuLinkComplete)(CUlinkState state, void **image, size_t *size)
{
    CUcontext ctx;
    CUresult result = enter_link(state, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!image || !state->count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = complete(state, ctx);
    if (result == CUDA_SUCCESS) {
        *image = state->image.data;
        if (size)
            *size = state->image.size;
    }
    return sim_leave(result);
}

CUresult SIM_FN(cuLinkDestroy)(CUlinkState state)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(state, SIM_HANDLE_LINK))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    state_delete(state);
    return sim_leave(CUDA_SUCCESS);
}
