/*
 * Driver calls about libraries: images that are loaded into a context when it
 * first uses one of their kernels or variables. A CUkernel is a name in a
 * library; wherever a CUfunction is taken it stands for the function of that
 * name in the current context.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"
#include "sim_fatbin.h"

struct CUkern_st {
    CUkernel next;
    CUlibrary library;
    char *name;
};

/* A library's module in one context. */
typedef struct loaded {
    struct loaded *next;
    CUcontext ctx;
    uint64_t ctx_id;
    CUmodule module;
} loaded;

struct CUlib_st {
    char *text; /* PTX, with a 0 at the end */
    CUkernel kernels;
    loaded *modules;
};

/* --- loading ------------------------------------------------------------ */

static CUresult load_into(CUlibrary library, CUcontext ctx, CUmodule *module)
{
    for (loaded *l = library->modules; l; l = l->next)
        if (l->ctx == ctx && l->ctx_id == ctx->id) {
            *module = l->module;
            return CUDA_SUCCESS;
        }
    spt_error err = {0};
    loaded *made = spt_calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result =
        sim_module_load(ctx, library->text, SIM_IMAGE_NO_LIMIT, module, &err);
    if (result != CUDA_SUCCESS) {
        spt_free(made);
        return result;
    }
    *made = (loaded){library->modules, ctx, ctx->id, *module};
    library->modules = made;
    return CUDA_SUCCESS;
}

static void library_delete(CUlibrary library)
{
    while (library->modules) {
        loaded *next = library->modules->next;
        CUmodule module = library->modules->module;
        if (sim_handle_is(module, SIM_HANDLE_MODULE))
            sim_module_delete(module);
        spt_free(library->modules);
        library->modules = next;
    }
    while (library->kernels) {
        CUkernel next = library->kernels->next;
        sim_handle_drop(library->kernels);
        spt_free(library->kernels->name);
        spt_free(library->kernels);
        library->kernels = next;
    }
    sim_handle_drop(library);
    spt_free(library->text);
    spt_free(library);
}

void sim_libraries_delete(void)
{
    for (size_t i = 0; i < sim_the.handles.capacity; i++)
        if (sim_the.handles.slots[i].kind == SIM_HANDLE_LIBRARY)
            library_delete((CUlibrary)sim_the.handles.slots[i].handle);
}

/* Of several PTX texts, the one for the current (or the first) device. */
static CUresult library_new(const void *image, size_t limit, CUlibrary *library)
{
    CUcontext ctx = sim_context_current();
    sim_image found;
    spt_error err = {0};
    CUresult result = sim_image_find(
        image, limit, &sim_the.devices[ctx ? ctx->device : 0].board, &found,
        &err);
    if (result != CUDA_SUCCESS)
        return sim_reason(result, &err);
    CUlibrary made = spt_calloc(1, sizeof(*made));
    char *text = spt_calloc(found.size + 1, 1);
    if (text)
        memcpy(text, found.text, found.size);
    sim_image_free(&found);
    if (!made || !text || !sim_handle_add(made, SIM_HANDLE_LIBRARY)) {
        spt_free(made);
        spt_free(text);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->text = text;
    CUmodule module;
    /* What cannot be loaded is refused here, not at the first launch. */
    result = ctx ? load_into(made, ctx, &module) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        library_delete(made);
        return result;
    }
    *library = made;
    return CUDA_SUCCESS;
}

static CUresult load(CUlibrary *library, const void *image, size_t limit)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(library && image ? library_new(image, limit, library)
                                      : CUDA_ERROR_INVALID_VALUE);
}

CUresult SIM_FN(cuLibraryLoadData)(CUlibrary *library, const void *image,
                                   CUjit_option *jit, void **jit_values,
                                   unsigned n_jit, CUlibraryOption *options,
                                   void **values, unsigned n_options)
{
    (void)jit, (void)jit_values, (void)n_jit;
    (void)options, (void)values, (void)n_options;
    return load(library, image, SIM_IMAGE_NO_LIMIT);
}

CUresult SIM_FN(cuLibraryLoadFromFile)(CUlibrary *library, const char *path,
                                       CUjit_option *jit, void **jit_values,
                                       unsigned n_jit, CUlibraryOption *options,
                                       void **values, unsigned n_options)
{
    spt_buf file = {0};
    spt_error err = {0};
    (void)jit, (void)jit_values, (void)n_jit;
    (void)options, (void)values, (void)n_options;
    if (!library || !path)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_image_read(path, &file, &err);
    if (result != CUDA_SUCCESS)
        return sim_reason(result, &err);
    result = load(library, file.data, file.size);
    spt_buf_free(&file);
    return result;
}

CUresult SIM_FN(cuLibraryUnload)(CUlibrary library)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(library, SIM_HANDLE_LIBRARY))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    result = sim_drain_all();
    if (sim_handle_is(library, SIM_HANDLE_LIBRARY))
        library_delete(library);
    return sim_leave(result);
}

/* --- what is in a library ----------------------------------------------- */

static CUresult enter_library(CUlibrary library, CUmodule *module)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(library, SIM_HANDLE_LIBRARY))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    result = load_into(library, ctx, module);
    return result == CUDA_SUCCESS ? result : sim_leave(result);
}

static CUresult kernel_of(CUlibrary library, const char *name, CUkernel *kernel)
{
    for (CUkernel k = library->kernels; k; k = k->next)
        if (!strcmp(k->name, name)) {
            *kernel = k;
            return CUDA_SUCCESS;
        }
    CUkernel made = spt_calloc(1, sizeof(*made));
    char *copy = spt_strdup(name);
    if (!made || !copy || !sim_handle_add(made, SIM_HANDLE_KERNEL)) {
        spt_free(made);
        spt_free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct CUkern_st){library->kernels, library, copy};
    library->kernels = made;
    *kernel = made;
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuLibraryGetKernel)(CUkernel *kernel, CUlibrary library,
                                    const char *name)
{
    CUmodule module;
    CUfunction function;
    CUresult result = enter_library(library, &module);
    if (result != CUDA_SUCCESS)
        return result;
    result = kernel && name ? sim_module_function(module, name, &function)
                            : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = kernel_of(library, name, kernel);
    return sim_leave(result);
}

CUresult SIM_FN(cuLibraryGetKernelCount)(unsigned *count, CUlibrary library)
{
    CUmodule module;
    CUresult result = enter_library(library, &module);
    if (result != CUDA_SUCCESS)
        return result;
    sim_leave(result);
    return SIM_FN(cuModuleGetFunctionCount)(count, module);
}

CUresult SIM_FN(cuLibraryEnumerateKernels)(CUkernel *kernels, unsigned count,
                                           CUlibrary library)
{
    CUmodule module;
    CUresult result = enter_library(library, &module);
    if (result != CUDA_SUCCESS)
        return result;
    if (!kernels || !count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    unsigned found = 0;
    for (uint32_t i = 0; i < module->ptx->n_funcs && found < count; i++) {
        const ptx_func *func = &module->ptx->funcs[i];
        if (result == CUDA_SUCCESS && func->entry && func->defined)
            result = kernel_of(library, func->name, &kernels[found++]);
    }
    return sim_leave(result);
}

CUresult SIM_FN(cuLibraryGetModule)(CUmodule *module, CUlibrary library)
{
    CUmodule found;
    CUresult result = enter_library(library, &found);
    if (result != CUDA_SUCCESS)
        return result;
    if (!module)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *module = found;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuLibraryGetGlobal)(CUdeviceptr *address, size_t *bytes,
                                    CUlibrary library, const char *name)
{
    CUmodule module;
    CUresult result = enter_library(library, &module);
    if (result != CUDA_SUCCESS)
        return result;
    sim_leave(result);
    return SIM_FN(cuModuleGetGlobal)(address, bytes, module, name);
}

/* --- kernels ------------------------------------------------------------ */

CUresult sim_function_of(CUcontext ctx, CUfunction *function)
{
    CUmodule module;
    if (sim_handle_is(*function, SIM_HANDLE_FUNCTION))
        return CUDA_SUCCESS;
    if (!sim_handle_is(*function, SIM_HANDLE_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    CUkernel kernel = (CUkernel)*function;
    if (!ctx)
        ctx = sim_context_current();
    if (!sim_handle_is(ctx, SIM_HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = load_into(kernel->library, ctx, &module);
    return result == CUDA_SUCCESS
               ? sim_module_function(module, kernel->name, function)
               : result;
}

static CUresult enter_kernel(CUkernel kernel)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(kernel, SIM_HANDLE_KERNEL))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuKernelGetFunction)(CUfunction *function, CUkernel kernel)
{
    CUresult result = enter_kernel(kernel);
    if (result != CUDA_SUCCESS)
        return result;
    if (!function)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUfunction found = (CUfunction)kernel;
    result = sim_function_of(NULL, &found);
    if (result == CUDA_SUCCESS)
        *function = found;
    return sim_leave(result);
}

CUresult SIM_FN(cuKernelGetLibrary)(CUlibrary *library, CUkernel kernel)
{
    CUresult result = enter_kernel(kernel);
    if (result != CUDA_SUCCESS)
        return result;
    if (!library)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *library = kernel->library;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuKernelGetName)(const char **name, CUkernel kernel)
{
    CUresult result = enter_kernel(kernel);
    if (result != CUDA_SUCCESS)
        return result;
    if (!name)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *name = kernel->name;
    return sim_leave(CUDA_SUCCESS);
}

/* Of the current context's device; another one would need its own. */
static CUresult kernel_device(CUkernel kernel, CUdevice device)
{
    CUresult result = enter_kernel(kernel);
    if (result != CUDA_SUCCESS)
        return result;
    if (sim_context_current()->device != device)
        return sim_leave(
            sim_lacks("cuKernelSetAttribute", "the device of another context"));
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuKernelGetAttribute)(int *value, CUfunction_attribute id,
                                      CUkernel kernel, CUdevice device)
{
    CUresult result = kernel_device(kernel, device);
    return result == CUDA_SUCCESS
               ? SIM_FN(cuFuncGetAttribute)(value, id, (CUfunction)kernel)
               : result;
}

CUresult SIM_FN(cuKernelSetAttribute)(CUfunction_attribute id, int value,
                                      CUkernel kernel, CUdevice device)
{
    CUresult result = kernel_device(kernel, device);
    return result == CUDA_SUCCESS
               ? SIM_FN(cuFuncSetAttribute)((CUfunction)kernel, id, value)
               : result;
}

CUresult SIM_FN(cuKernelSetCacheConfig)(CUkernel kernel, CUfunc_cache config,
                                        CUdevice device)
{
    (void)config;
    return kernel_device(kernel, device);
}

CUresult SIM_FN(cuKernelGetParamInfo)(CUkernel kernel, size_t index,
                                      size_t *offset, size_t *size)
{
    return SIM_FN(cuFuncGetParamInfo)((CUfunction)kernel, index, offset, size);
}
