/*
 * Driver calls about modules and functions.
 *
 * An image is PTX text, or a fatbin that holds some uncompressed (of several
 * the newest that the device can run is taken). Machine code is refused with
 * CUDA_ERROR_NO_BINARY_FOR_GPU, as a GPU does with code for another chip.
 */
#include "sim_driver.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "sim_fatbin.h"

/* --- loading ------------------------------------------------------------ */

/* Memory of a module's variables, with their initial values. */
static spt_status place_variable(CUmodule module, uint32_t index,
                                 spt_error *err)
{
    const ptx_var *var = &module->ptx->vars[index];
    if (var->space != PTX_GLOBAL && var->space != PTX_CONST)
        return SPT_OK;
    if (var->external)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "module: external variable %s is not linked",
                        var->name);
    uint64_t size = var->size ? var->size : 1;
    spt_status status = SPT_E_MEMORY;
    if (!var->managed)
        status = sim_memory_alloc(sim_the.memory, module->ctx->device, size,
                                  &module->addresses[index]);
    else if (sim_host_managed(size, &module->addresses[index]) == CUDA_SUCCESS)
        status = SPT_OK;
    if (status != SPT_OK)
        return spt_fail(err, status, "module: no memory for variable %s",
                        var->name);
    uint64_t address = module->addresses[index];
    uint8_t zero = 0;
    if (var->init)
        return sim_memory_write(sim_the.memory, address, var->init, var->size);
    return sim_memory_fill(sim_the.memory, address, &zero, 1, size);
}

static spt_status relocate(CUmodule module, uint32_t index, spt_error *err)
{
    const ptx_var *var = &module->ptx->vars[index];
    if (!module->addresses[index])
        return SPT_OK;
    for (uint32_t i = 0; i < var->n_relocs; i++) {
        const ptx_reloc *reloc = &var->relocs[i];
        uint64_t value = reloc->is_function
                             ? SIM_FUNCTION_ADDRESS((uint64_t)reloc->var)
                             : module->addresses[reloc->var];
        if (!value)
            return spt_fail(err, SPT_E_FORMAT,
                            "module: %s holds the address of %s, which has "
                            "none",
                            var->name, module->ptx->vars[reloc->var].name);
        value += (uint64_t)reloc->addend;
        SPT_TRY(sim_memory_write(sim_the.memory,
                                 module->addresses[index] + reloc->offset,
                                 &value, sizeof(value)));
    }
    return SPT_OK;
}

static spt_status module_fill(CUmodule module, const char *text, size_t size,
                              spt_error *err)
{
    const spt_board *board = &sim_device_of(module->ctx)->board;
    uint32_t sm = (uint32_t)(10 * board->cc_major + board->cc_minor);
    SPT_TRY(ptx_parse(text, size, sm, &module->ptx, err));
    uint32_t n_vars = module->ptx->n_vars, n_funcs = module->ptx->n_funcs;
    module->addresses = spt_calloc(n_vars + 1, sizeof(uint64_t));
    module->functions = spt_calloc(n_funcs + 1, sizeof(CUfunction));
    if (!module->addresses || !module->functions)
        return spt_fail(err, SPT_E_MEMORY, "module: out of memory");
    for (uint32_t i = 0; i < n_vars; i++)
        SPT_TRY(place_variable(module, i, err));
    for (uint32_t i = 0; i < n_vars; i++)
        SPT_TRY(relocate(module, i, err));
    return sim_program_new(module->ptx, module->addresses,
                           !sim_the.options.checks_off, &module->program, err);
}

static void release_variable(uint64_t address)
{
    sim_host_block *managed = sim_host_find((void *)(uintptr_t)address);
    if (managed)
        sim_host_remove(managed);
    else
        sim_memory_release(sim_the.memory, address);
}

void sim_module_delete(CUmodule module)
{
    CUmodule *link = &module->ctx->modules;
    while (*link && *link != module)
        link = &(*link)->next;
    if (*link)
        *link = module->next;
    sim_program_delete(module->program);
    for (uint32_t i = 0; module->ptx && i < module->ptx->n_funcs; i++)
        if (module->functions && module->functions[i]) {
            sim_handle_drop(module->functions[i]);
            spt_free(module->functions[i]);
        }
    for (uint32_t i = 0; module->ptx && i < module->ptx->n_vars; i++)
        if (module->addresses && module->addresses[i])
            release_variable(module->addresses[i]);
    spt_free(module->functions);
    spt_free(module->addresses);
    if (module->ptx)
        ptx_free(module->ptx);
    spt_free(module->text);
    sim_handle_drop(module);
    spt_free(module);
}

static CUresult load_result(const spt_error *err)
{
    CUresult result = CUDA_ERROR_INVALID_PTX;
    if (err->status == SPT_E_MEMORY)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (strstr(err->text, "version") && err->status == SPT_E_UNSUPPORTED)
        result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    return sim_reason(result, err);
}

void sim_module_log(unsigned n_options, const CUjit_option *options,
                    void **values, const char *text)
{
    char *log = NULL;
    size_t size = 0;
    void **used = NULL;
    for (unsigned i = 0; options && values && i < n_options; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            size = (uint32_t)(uintptr_t)values[i];
            used = &values[i];
        }
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
            values[i] = NULL;
    }
    int length = 0;
    if (log && size)
        length = snprintf(log, size, "%s", text);
    if (used)
        *used = (void *)(uintptr_t)(length < 0              ? 0
                                    : (size_t)length < size ? (size_t)length
                                                            : size);
}

static CUresult load_text(CUcontext ctx, const sim_image *found,
                          CUmodule *module, spt_error *err)
{
    CUmodule made = spt_calloc(1, sizeof(*made));
    if (!made || !sim_handle_add(made, SIM_HANDLE_MODULE)) {
        spt_free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->ctx = ctx;
    made->next = ctx->modules;
    ctx->modules = made;
    if (module_fill(made, found->text, found->size, err) != SPT_OK) {
        sim_module_delete(made);
        return load_result(err);
    }
    *module = made;
    return CUDA_SUCCESS;
}

CUresult sim_module_load(CUcontext ctx, const void *image, size_t limit,
                         CUmodule *module, spt_error *err)
{
    const spt_board *board = &sim_device_of(ctx)->board;
    sim_image found;
    CUresult result = sim_image_find(image, limit, board, &found, err);
    if (result != CUDA_SUCCESS)
        return sim_reason(result, err);
    /* The parser keeps no pointer into the text. */
    result = load_text(ctx, &found, module, err);
    sim_image_free(&found);
    return result;
}

/* The log of the options gets the reason of a failure. */
static CUresult load(CUmodule *module, const void *image, size_t limit,
                     unsigned n_options, CUjit_option *options, void **values)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!module || !image)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    spt_error err = {0};
    result = sim_module_load(ctx, image, limit, module, &err);
    sim_module_log(n_options, options, values, err.text);
    return sim_leave(result);
}

CUresult SIM_FN(cuModuleLoadDataEx)(CUmodule *module, const void *image,
                                    unsigned n_options, CUjit_option *options,
                                    void **values)
{
    return load(module, image, SIM_IMAGE_NO_LIMIT, n_options, options, values);
}

CUresult SIM_FN(cuModuleLoadData)(CUmodule *module, const void *image)
{
    return SIM_FN(cuModuleLoadDataEx)(module, image, 0, NULL, NULL);
}

CUresult SIM_FN(cuModuleLoadFatBinary)(CUmodule *module, const void *image)
{
    return SIM_FN(cuModuleLoadDataEx)(module, image, 0, NULL, NULL);
}

CUresult SIM_FN(cuModuleLoad)(CUmodule *module, const char *path)
{
    spt_buf file = {0};
    spt_error err = {0};
    if (!module || !path)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_image_read(path, &file, &err);
    if (result != CUDA_SUCCESS)
        return sim_reason(result, &err);
    result = load(module, file.data, file.size, 0, NULL, NULL);
    spt_buf_free(&file);
    return result;
}

CUresult SIM_FN(cuModuleGetLoadingMode)(CUmoduleLoadingMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuModuleUnload)(CUmodule module)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(module, SIM_HANDLE_MODULE))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    result = sim_drain_context(module->ctx);
    if (sim_handle_is(module, SIM_HANDLE_MODULE))
        sim_module_delete(module);
    return sim_leave(result);
}

/* --- functions and variables -------------------------------------------- */

static CUresult function_new(CUmodule module, uint32_t index,
                             CUfunction *function)
{
    const spt_board *board = &sim_device_of(module->ctx)->board;
    const ptx_func *ptx = &module->ptx->funcs[index];
    spt_error err = {0};
    if (sim_program_prepare(module->program, index, &err) != SPT_OK)
        return sim_reason(sim_result_of(err.status), &err);
    CUfunction made = spt_calloc(1, sizeof(*made));
    if (!made || !sim_handle_add(made, SIM_HANDLE_FUNCTION)) {
        spt_free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->module = module;
    made->index = index;
    made->shared_bytes = (int)sim_program_shared(module->program, index);
    made->local_bytes = (int)sim_program_local(module->program, index);
    made->registers = sim_registers_of(module->ptx, index, board);
    made->max_dynamic_bytes =
        made->shared_bytes < 49152 ? 49152 - made->shared_bytes : 0;
    made->carveout = -1;
    made->max_threads = board->max_threads_per_cta;
    if (ptx->max_threads[0]) {
        uint64_t product = 1;
        for (int i = 0; i < 3; i++)
            if (ptx->max_threads[i])
                product *= ptx->max_threads[i];
        if (product < (uint64_t)made->max_threads)
            made->max_threads = (int)product;
    }
    module->functions[index] = made;
    *function = made;
    return CUDA_SUCCESS;
}

static bool is_kernel(const ptx_func *func)
{
    return func->entry && func->defined;
}

CUresult sim_module_function(CUmodule module, const char *name,
                             CUfunction *function)
{
    for (uint32_t i = 0; i < module->ptx->n_funcs; i++) {
        const ptx_func *func = &module->ptx->funcs[i];
        if (!is_kernel(func) || strcmp(func->name, name))
            continue;
        if (!module->functions[i])
            return function_new(module, i, function);
        *function = module->functions[i];
        return CUDA_SUCCESS;
    }
    return sim_because(CUDA_ERROR_NOT_FOUND, "module: no kernel named %s",
                       name);
}

static CUresult enter_module(CUmodule module)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(module, SIM_HANDLE_MODULE))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuModuleGetFunction)(CUfunction *function, CUmodule module,
                                     const char *name)
{
    CUresult result = enter_module(module);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(function && name
                         ? sim_module_function(module, name, function)
                         : CUDA_ERROR_INVALID_VALUE);
}

CUresult SIM_FN(cuModuleGetFunctionCount)(unsigned *count, CUmodule module)
{
    CUresult result = enter_module(module);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *count = 0;
    for (uint32_t i = 0; i < module->ptx->n_funcs; i++)
        *count += is_kernel(&module->ptx->funcs[i]);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuModuleEnumerateFunctions)(CUfunction *functions,
                                            unsigned count, CUmodule module)
{
    CUresult result = enter_module(module);
    if (result != CUDA_SUCCESS)
        return result;
    if (!functions || !count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    unsigned found = 0;
    for (uint32_t i = 0; i < module->ptx->n_funcs && found < count; i++) {
        const ptx_func *func = &module->ptx->funcs[i];
        if (result == CUDA_SUCCESS && is_kernel(func))
            result =
                sim_module_function(module, func->name, &functions[found++]);
    }
    return sim_leave(result);
}

CUresult SIM_FN(cuModuleGetGlobal)(CUdeviceptr *address, size_t *bytes,
                                   CUmodule module, const char *name)
{
    CUresult result = enter_module(module);
    if (result != CUDA_SUCCESS)
        return result;
    if (!name)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (uint32_t i = 0; i < module->ptx->n_vars; i++) {
        const ptx_var *var = &module->ptx->vars[i];
        if (!module->addresses[i] || var->function >= 0 ||
            strcmp(var->name, name))
            continue;
        if (address)
            *address = module->addresses[i];
        if (bytes)
            *bytes = var->size;
        return sim_leave(CUDA_SUCCESS);
    }
    return sim_leave(CUDA_ERROR_NOT_FOUND);
}

/* A kernel of a library stands for its function in the current context. */
static CUresult enter_function(CUfunction *function)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_function_of(ctx, function);
    return result == CUDA_SUCCESS ? result : sim_leave(result);
}

CUresult SIM_FN(cuFuncGetAttribute)(int *value, CUfunction_attribute attribute,
                                    CUfunction function)
{
    CUresult result = enter_function(&function);
    if (result != CUDA_SUCCESS)
        return result;
    if (!value)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const ptx_module *ptx = function->module->ptx;
    const ptx_func *func = &ptx->funcs[function->index];
    const spt_board *board = &sim_device_of(function->module->ctx)->board;
    switch (attribute) {
#define SIM_FUNCTION_ATTRIBUTE(name, expression) \
    case CU_FUNC_ATTRIBUTE_##name:               \
        *value = (int)(expression);              \
        break;
#include "sim_function_attributes.def"
#undef SIM_FUNCTION_ATTRIBUTE
    default:
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuFuncSetAttribute)(CUfunction function,
                                    CUfunction_attribute attribute, int value)
{
    CUresult result = enter_function(&function);
    if (result != CUDA_SUCCESS)
        return result;
    const spt_board *board = &sim_device_of(function->module->ctx)->board;
    int most = board->shared_per_cta_bytes - function->shared_bytes;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > most)
            return sim_leave(sim_because(
                CUDA_ERROR_INVALID_VALUE,
                "dynamic shared memory: %d bytes, expected at most %d (%s)",
                value, most, board->name));
        function->max_dynamic_bytes = value;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return sim_leave(CUDA_ERROR_INVALID_VALUE);
        function->carveout = value;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        function->cluster_any_size = value != 0;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        function->cluster_policy = value;
        break;
    default:
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuFuncSetCacheConfig)(CUfunction function, CUfunc_cache config)
{
    CUresult result = enter_function(&function);
    if (result != CUDA_SUCCESS)
        return result;
    /* A preference; chips with one memory for L1 and shared ignore it. */
    (void)config;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuFuncIsLoaded)(CUfunctionLoadingState *state,
                                CUfunction function)
{
    CUresult result = enter_function(&function);
    if (result != CUDA_SUCCESS)
        return result;
    if (!state)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuFuncLoad)(CUfunction function)
{
    CUresult result = enter_function(&function);
    return result == CUDA_SUCCESS ? sim_leave(result) : result;
}

CUresult SIM_FN(cuFuncGetName)(const char **name, CUfunction function)
{
    CUresult result = enter_function(&function);
    if (result != CUDA_SUCCESS)
        return result;
    if (!name)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *name = function->module->ptx->funcs[function->index].name;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuFuncGetModule)(CUmodule *module, CUfunction function)
{
    CUresult result = enter_function(&function);
    if (result != CUDA_SUCCESS)
        return result;
    if (!module)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *module = function->module;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuFuncGetParamInfo)(CUfunction function, size_t index,
                                    size_t *offset, size_t *size)
{
    CUresult result = enter_function(&function);
    if (result != CUDA_SUCCESS)
        return result;
    const ptx_module *ptx = function->module->ptx;
    const ptx_func *func = &ptx->funcs[function->index];
    if (index >= func->n_params || !offset)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *offset = ptx->vars[func->params[index]].offset;
    if (size)
        *size = ptx->vars[func->params[index]].size;
    return sim_leave(CUDA_SUCCESS);
}
