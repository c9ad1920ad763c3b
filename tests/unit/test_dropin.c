/*
 * Sim as a libcuda.so.1: a program that has it loaded from its folder, with
 * nothing else set, gets the boards, and is told what is missing.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static void *lib;

static void *call(const char *name)
{
    void *found = dlsym(lib, name);
    CHECK(found != NULL, "the library exports %s", name);
    if (!found)
        exit(check_done());
    return found;
}

/* What a call prints on stderr, and its result. */
static CUresult told(CUresult (*run)(void), char *text, size_t size)
{
    FILE *file = tmpfile();
    fflush(stderr);
    int old = dup(2);
    dup2(fileno(file), 2);
    CUresult result = run();
    dup2(old, 2);
    close(old);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    return result;
}

static bool open_beside(const char *relative)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    strcpy(slash + 1, relative);
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        printf("# %s\n", dlerror());
    return lib != NULL;
}

int main(void)
{
    char text[256];
    setenv("SPECTUNE_SIM_BOARD", "a100_sxm", 1);
    setenv("SPECTUNE_SIM_TRACE", "1", 1);
    unsetenv("SPECTUNE_HOME");
    if (!open_beside("../sim/libcuda.so.1")) {
        CHECK(false, "the library is loaded");
        return check_done();
    }
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))call("cuInit");
    CHECK_INT(init(0), CUDA_SUCCESS, "it finds the boards by itself");
    char name[64] = "";
    CUresult (*get_name)(char *, int, CUdevice) =
        (CUresult(*)(char *, int, CUdevice))call("cuDeviceGetName");
    CHECK_INT(get_name(name, sizeof(name), 0), CUDA_SUCCESS, "a device");
    CHECK_HAS(name, "A100", "of the board that was asked for");

    CUcontext ctx = NULL, seen = NULL;
    CUresult (*create)(CUcontext *, unsigned, CUdevice) =
        (CUresult(*)(CUcontext *, unsigned, CUdevice))call("cuCtxCreate_v2");
    CUresult (*get_current)(CUcontext *) =
        (CUresult(*)(CUcontext *))call("cuCtxGetCurrent");
    CHECK_INT(create(&ctx, 0, 0), CUDA_SUCCESS, "contexts of CUDA 12's form");
    CHECK_INT(get_current(&seen), CUDA_SUCCESS, "are made");
    CHECK(ctx && seen == ctx, "and current");

    CUresult (*missing)(void) =
        (CUresult(*)(void))call("cuMulticastGetGranularity");
    CHECK_INT(told(missing, text, sizeof(text)), CUDA_ERROR_NOT_SUPPORTED,
              "a call that is missing fails");
    CHECK_TEXT(text,
               "sim: cuMulticastGetGranularity: not supported: the call\n",
               "and names itself");

    CUresult (*find)(const char *, void **, int, cuuint64_t,
                     CUdriverProcAddressQueryResult *) =
        (CUresult(*)(
            const char *, void **, int, cuuint64_t,
            CUdriverProcAddressQueryResult *))call("cuGetProcAddress_v2");
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    CHECK_INT(find("cuGraphAddNode", &found, CUDA_VERSION, 0, &status),
              CUDA_SUCCESS, "calls are found by their plain names");
    CHECK(found != NULL, "with an address");
    CHECK_INT(find("cuTexObjectCreate", &found, CUDA_VERSION, 0, &status),
              CUDA_SUCCESS, "so are the missing ones");
    CHECK(found == dlsym(lib, "cuTexObjectCreate"), "which then say so");
    CHECK_INT(find("cuNoSuchCall", &found, CUDA_VERSION, 0, &status),
              CUDA_SUCCESS, "and no others");
    CHECK(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
          "they are not found");
    return check_done();
}
