/*
 * libcuda behind the table. Names are those that cuda.h gives each call
 * (cuMemAlloc is cuMemAlloc_v2), asked for by dlsym.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

typedef void (*any_call)(void);

/* Stands for a call that an older libcuda does not have. */
static CUresult not_supported(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static any_call find_call(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    any_call call = (any_call)not_supported;
    if (symbol)
        memcpy(&call, &symbol, sizeof(call));
    return call;
}

static void fill_table(spt_driver *driver)
{
    any_call call;
#define SPT_DRIVER_CALL(name)                      \
    call = find_call(driver->library, TEXT(name)); \
    memcpy(&driver->name, &call, sizeof(call));
#include "driver.def"
#undef SPT_DRIVER_CALL
    /* The second version of this one differs in nothing but its name. */
    if (!dlsym(driver->library, TEXT(cuEventElapsedTime))) {
        call = find_call(driver->library, "cuEventElapsedTime");
        memcpy(&driver->cuEventElapsedTime, &call, sizeof(call));
    }
}

spt_status spt_driver_open(const char *library, spt_driver *driver,
                           spt_error *err)
{
    const char *name = library && *library ? library : "libcuda.so.1";
    spt_driver found = {.library = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
    if (!found.library)
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "driver: %s, expected the library of an NVIDIA driver",
                        dlerror());
    fill_table(&found);
    found.is_sim = dlsym(found.library, "spt_sim_is_sim") != NULL;
    spt_status status = SPT_OK;
    if (!dlsym(found.library, "cuInit")) {
        status = spt_fail(err, SPT_E_NOT_FOUND,
                          "driver: %s has no cuInit, expected libcuda", name);
    } else {
        int count = 0;
        CUresult result = found.cuInit(0);
        if (result == CUDA_SUCCESS)
            result = found.cuDeviceGetCount(&count);
        if (result != CUDA_SUCCESS)
            status = spt_driver_check(&found, result, name, err);
        else if (count == 0)
            status = spt_fail(err, SPT_E_DEVICE,
                              "driver: %s has no device, expected one", name);
    }
    if (status != SPT_OK) {
        dlclose(found.library);
        return status;
    }
    *driver = found;
    return SPT_OK;
}

void spt_driver_close(spt_driver *driver)
{
    if (!driver)
        return;
    if (driver->library)
        dlclose(driver->library);
    memset(driver, 0, sizeof(*driver));
}

spt_status spt_driver_check(const spt_driver *driver, CUresult result,
                            const char *what, spt_error *err)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return SPT_OK;
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown result";
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
        text = "no text";
    return spt_fail(err, SPT_E_DEVICE, "%s: %s (%d): %s", what, name,
                    (int)result, text);
}

spt_status spt_driver_load(const spt_driver *driver, const char *code,
                           const char *symbol, int shared_bytes,
                           CUmodule *module, CUfunction *function,
                           spt_error *err)
{
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUresult result = driver->cuModuleLoadDataEx(&m, code, 0, NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = driver->cuModuleGetFunction(&f, m, symbol);
    if (result == CUDA_SUCCESS && shared_bytes > 0)
        result = driver->cuFuncSetAttribute(
            f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes);
    if (result != CUDA_SUCCESS) {
        if (m)
            driver->cuModuleUnload(m);
        return spt_driver_check(driver, result, symbol, err);
    }
    *module = m;
    *function = f;
    return SPT_OK;
}
