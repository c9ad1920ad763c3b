/* NVRTC: images, facts, errors with the template's line, the cache. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "cubin.h"
#include "files.h"
#include "gen.h"

static const char good[] =
    "#line 7 \"templates/k.cu\"\n"
    "extern \"C\" __global__ void __launch_bounds__(128) f(int *p)\n"
    "{\n"
    "    __shared__ int s[32];\n"
    "    s[threadIdx.x] = p[threadIdx.x];\n"
    "    __syncthreads();\n"
    "    p[threadIdx.x] = s[31 - threadIdx.x];\n"
    "}\n";

static spt_kernel kernel(const char *source, const char *target)
{
    spt_kernel k = {0};
    snprintf(k.template_name, sizeof k.template_name, "k");
    snprintf(k.symbol, sizeof k.symbol, "f");
    snprintf(k.target, sizeof k.target, "%s", target);
    k.source = (char *)(uintptr_t)source;
    k.source_size = strlen(source);
    return k;
}

static char noted[512];
static int notes;

static void take_note(void *user, const char *text)
{
    (void)user;
    notes++;
    snprintf(noted, sizeof noted, "%s", text);
}

typedef struct told {
    size_t done, total;
    int unnamed; /* times that no kernel was named */
    char kernel[128]; /* the last that was */
} told;

static void listen(void *user, const char *kernel, size_t done, size_t total)
{
    told *t = user;
    t->done = done;
    t->total = total;
    t->unnamed += kernel == NULL;
    if (kernel)
        snprintf(t->kernel, sizeof t->kernel, "%s", kernel);
}

static spt_status compile_one(spt_compiler *c, const char *source,
                              const char *target, spt_image *image,
                              spt_error *err)
{
    spt_kernel k = kernel(source, target);
    return spt_compile(c, &k, 1, 1, 0, NULL, NULL, image, err);
}

static void test_images(spt_compiler *c)
{
    static const char *const targets[] = {"sm_80", "sm_90a", "sm_120"};
    spt_kernel kernels[3];
    spt_image images[3];
    spt_error err;
    told t = {0};
    for (int i = 0; i < 3; i++)
        kernels[i] = kernel(good, targets[i]);
    if (!CHECK_OK(spt_compile(c, kernels, 3, 0, 0, listen, &t, images, &err),
                  &err, "three targets compile side by side"))
        return;
    CHECK_INT((long long)t.done, 3, "progress reaches the end");
    CHECK_INT((long long)t.total, 3, "of as many");
    CHECK_HAS(t.kernel, "f", "the kernel that is compiled is named");
    CHECK_INT(t.unnamed, 0, "and from the first on");
    for (int i = 0; i < 3; i++) {
        CHECK(images[i].registers > 0 && images[i].shared_bytes == 128 &&
                  images[i].spill_bytes == 0,
              "%s: registers, 128 bytes of shared memory, no spills",
              targets[i]);
        CHECK(strstr(images[i].ptx, targets[i]) &&
                  strstr(images[i].ptx, "\"templates/k.cu\"") &&
                  !strstr(images[i].ptx, "\"/"),
              "%s: the PTX names the target and the template", targets[i]);
        CHECK_HAS(images[i].compiler, "nvrtc 1", "its compiler is named");
        spt_image_free(&images[i]);
    }
}

/* The current folder is not to be seen in the bytes. */
static void test_same_bytes(spt_compiler *c)
{
    spt_image here = {0}, there = {0};
    spt_error err;
    char *folder = getcwd(NULL, 0);
    CHECK_OK(compile_one(c, good, "sm_90a", &here, &err), &err, "compiles");
    if (chdir("/") == 0)
        CHECK_OK(compile_one(c, good, "sm_90a", &there, &err), &err,
                 "compiles in another folder");
    CHECK(folder && chdir(folder) == 0, "back again");
    CHECK(here.ptx_size == there.ptx_size && here.ptx_size &&
              memcmp(here.ptx, there.ptx, here.ptx_size) == 0,
          "the PTX is the same");
    CHECK(here.cubin_size == there.cubin_size && here.cubin_size &&
              memcmp(here.cubin, there.cubin, here.cubin_size) == 0,
          "the cubin is the same");
    free(folder);
    spt_image_free(&here);
    spt_image_free(&there);
}

static void test_errors(spt_compiler *c)
{
    spt_image image;
    spt_error err = {0};
    CHECK(compile_one(c, "#line 5 \"templates/k.cu\"\n__device__ int x = y;\n",
                      "sm_90a", &image, &err) == SPT_E_COMPILE,
          "an error is a compile error");
    CHECK_TEXT(err.text, "templates/k.cu:5: identifier \"y\" is undefined",
               "with the template's line");
    CHECK(compile_one(c,
                      "#line 5 \"templates/k.cu\"\n"
                      "extern \"C\" __global__ void f(int *p)\n{\n"
                      "    asm(\"none.u32 %0, 1;\" : \"=r\"(*p));\n}\n",
                      "sm_90a", &image, &err) == SPT_E_COMPILE,
          "so is one of the assembler");
    CHECK_HAS(err.text, "templates/k.cu:7: ptxas: Not a name",
              "with the template's line too");
    CHECK(compile_one(c, good, "sm_1", &image, &err) == SPT_E_COMPILE,
          "an unknown target is a compile error");
    CHECK(!strchr(err.text, '\n') && strlen(err.text) > 10, "of one line: %s",
          err.text);
    CHECK(compile_one(c, "__device__ int x;\n", "sm_90a", &image, &err) !=
              SPT_OK,
          "a source without the kernel fails");
    CHECK_HAS(err.text, "has no kernel 'f'", "and says so");
}

static void test_timeout(spt_compiler *c)
{
    spt_image image;
    spt_error err;
    spt_kernel k = kernel(good, "sm_90a");
    spt_status status =
        spt_compile(c, &k, 1, 1, 1e-6, NULL, NULL, &image, &err);
    if (status == SPT_OK) /* NVRTC before 12.8 cannot be stopped */
        spt_image_free(&image);
    CHECK(status == SPT_E_TIMEOUT || status == SPT_OK,
          "a compile that takes too long is stopped");
}

/* The one entry of the cache, opened for writing; NULL without it. */
static FILE *entry(const char *folder, const char *mode)
{
    char path[512] = "";
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strstr(e->d_name, ".kernel"))
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (dir)
        closedir(dir);
    return *path ? fopen(path, mode) : NULL;
}

static void test_cache(void)
{
    char folder[] = "/tmp/spectune-cache-XXXXXX", path[128];
    spt_compiler *c;
    spt_image first = {0}, second = {0};
    spt_error err;
    if (!mkdtemp(folder) ||
        !CHECK_OK(spt_compiler_open(NULL, folder, &c, &err), &err, "opens"))
        return;
    spt_compiler_notes(c, take_note, NULL);
    CHECK_OK(compile_one(c, good, "sm_90a", &first, &err), &err, "compiles");
    told t = {0};
    spt_kernel k = kernel(good, "sm_90a");
    CHECK_OK(spt_compile(c, &k, 1, 1, 0, listen, &t, &second, &err), &err,
             "comes from the cache");
    CHECK(t.done == 1 && !*t.kernel, "progress names nothing that is compiled");
    CHECK(first.cubin_size == second.cubin_size &&
              memcmp(first.cubin, second.cubin, first.cubin_size) == 0 &&
              first.registers == second.registers &&
              strcmp(first.key, second.key) == 0,
          "as it was");
    CHECK_INT(notes, 0, "without a note");
    for (long at = 90; at < 400; at += 60) {
        FILE *file = entry(folder, "r+");
        if (!CHECK(file != NULL, "there is an entry"))
            break;
        fseek(file, at, SEEK_SET);
        fputc('~', file);
        fclose(file);
        notes = 0;
        spt_image_free(&second);
        CHECK_OK(compile_one(c, good, "sm_90a", &second, &err), &err,
                 "a damaged entry is compiled again");
        CHECK(notes == 1 && strstr(noted, "is damaged"), "and noted");
        CHECK(first.registers == second.registers, "with the same facts");
    }
    spt_image_free(&first);
    spt_image_free(&second);
    spt_compiler_close(c);
    snprintf(path, sizeof path, "rm -r %s", folder);
    CHECK(system(path) == 0, "the cache is removed");
}

/* A cache that cannot be written is noted once and does no harm. */
static void test_no_cache(void)
{
    spt_compiler *c;
    spt_image image;
    spt_error err;
    notes = 0;
    if (!CHECK_OK(spt_compiler_open(NULL, "/dev/null/none", &c, &err), &err,
                  "opens without a usable cache"))
        return;
    spt_compiler_notes(c, take_note, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(compile_one(c, good, "sm_90a", &image, &err), &err,
                 "compiles without a cache");
        spt_image_free(&image);
    }
    CHECK_INT(notes, 1, "which is noted once");
    spt_compiler_close(c);
    CHECK(spt_compiler_open("/none/libnvrtc.so", "", &c, &err) ==
              SPT_E_NOT_FOUND,
          "a missing library is not found");
    CHECK_HAS(err.text, "/none/libnvrtc.so", "and is named");
}

int main(void)
{
    spt_compiler *c;
    spt_error err;
    if (CHECK_OK(spt_compiler_open(NULL, "", &c, &err), &err, "NVRTC opens")) {
        test_images(c);
        test_same_bytes(c);
        test_errors(c);
        test_timeout(c);
        spt_compiler_close(c);
        test_cache();
        test_no_cache();
    }
    return check_done();
}
