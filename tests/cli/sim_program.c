/*
 * A program that knows nothing of sim: doubles 64 numbers through libcuda.so.1
 * and checks them. With an argument its kernel also reads one number past the
 * buffer.
 */
#include <dlfcn.h>
#include <stdio.h>

static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry twice(.param .u64 data)\n{\n"
    ".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n"
    "ld.param.u64 %rd1, [data];\nmov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\n"
    "ld.global.u32 %r2, [%rd3];\nadd.u32 %r2, %r2, %r2;\n"
    "st.global.u32 [%rd3], %r2;\nret;\n}\n";

typedef unsigned long long address;

static void *lib;

static int call(const char *name, void *a, void *b, void *c)
{
    int (*function)(void *, void *, void *) =
        (int (*)(void *, void *, void *))dlsym(lib, name);
    int result = function ? function(a, b, c) : 999;
    if (result)
        fprintf(stderr, "%s: %d\n", name, result);
    return result;
}

int main(int argc, char **argv)
{
    void *context, *module, *kernel;
    address data;
    unsigned numbers[64], bad = 0;
    (void)argv;
    lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib || call("cuInit", NULL, NULL, NULL) ||
        call("cuDevicePrimaryCtxRetain", &context, NULL, NULL) ||
        call("cuCtxSetCurrent", context, NULL, NULL) ||
        call("cuModuleLoadData", &module, (void *)ptx, NULL) ||
        call("cuModuleGetFunction", &kernel, module, "twice") ||
        call("cuMemAlloc_v2", &data, (void *)sizeof numbers, NULL))
        return 3;
    for (unsigned i = 0; i < 64; i++)
        numbers[i] = i;
    if (call("cuMemcpyHtoD_v2", (void *)data, numbers, (void *)sizeof numbers))
        return 3;
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned, unsigned, void *, void **, void **) =
        (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                 unsigned, unsigned, void *, void **,
                 void **))dlsym(lib, "cuLaunchKernel");
    void *params[] = {&data};
    launch(kernel, 1, 1, 1, argc > 1 ? 65 : 64, 1, 1, 0, NULL, params, NULL);
    call("cuMemcpyDtoH_v2", numbers, (void *)data, (void *)sizeof numbers);
    for (unsigned i = 0; i < 64; i++)
        bad += numbers[i] != 2 * i;
    printf("%u wrong\n", bad);
    return bad != 0;
}
