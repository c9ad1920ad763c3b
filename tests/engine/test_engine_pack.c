/*
 * An engine that takes its kernels from a pack alone writes what one writes
 * that makes them, and so does the library that has no templates; a pack that
 * lacks a kernel is refused by its name.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "forward.h"
#include "pack_write.h"
#include "tiny_engine.h"

enum { PROMPT = 21, TOKENS = 8 };

static spt_error err;
static char folder[] = "/tmp/spt_engine_pack_XXXXXX";

/* All but those of the template `without`. */
static bool write_pack(const spt_kernel_made *made, size_t count,
                       const char *without)
{
    spt_pack_writer *writer;
    if (spt_pack_writer_open("nvrtc", &writer, &err) != SPT_OK)
        return false;
    spt_status status = SPT_OK;
    for (size_t i = 0; status == SPT_OK && i < count; i++) {
        if (strcmp(made[i].kernel.template_name, without) == 0)
            continue;
        cJSON *proof = cJSON_CreateObject();
        cJSON_AddBoolToObject(proof, "ok", true);
        status = spt_pack_writer_add(writer, &made[i].kernel, &made[i].image,
                                     proof, NULL, &err);
    }
    if (status == SPT_OK)
        status = spt_pack_writer_finish(writer, folder, &err);
    spt_pack_writer_close(writer);
    return status == SPT_OK;
}

/* Makes the kernels of the model; how many, 0 = it failed. */
static size_t make_kernels(const char *path, spt_kernel_made **made)
{
    spt_forward_limits limits = {.page_size = 16};
    spt_model *model;
    spt_gen *gen;
    spt_compiler *compiler;
    spt_board board;
    spt_kernel_request *requests;
    size_t count = 0;
    bool good = CHECK_OK(spt_model_open(&model, path, &err), &err, "a model");
    if (good)
        limits.dtype = spt_forward_dtype(spt_model_config_of(model));
    good =
        good &&
        CHECK_OK(spt_forward_kernels(model, &limits, &requests, &count, &err),
                 &err, "says which kernels it needs") &&
        spt_gen_open(NULL, &gen, &err) == SPT_OK &&
        spt_gen_board(gen, "h100_sxm", &board, &err) == SPT_OK &&
        spt_compiler_open(NULL, NULL, &compiler, &err) == SPT_OK;
    if (!good)
        exit(check_done());
    CHECK_INT((long long)spt_kernel_requests_unique(requests, count),
              (long long)count, "each once");
    const spt_kernel_source source = {
        .board = &board, .gen = gen, .compiler = compiler};
    *made = calloc(count, sizeof **made);
    good = CHECK_OK(spt_kernels_make(&source, requests, count, *made, &err),
                    &err, "they are made");
    spt_free(requests);
    spt_model_close(model);
    spt_compiler_close(compiler);
    spt_gen_close(gen);
    return good ? count : 0;
}

/* The public calls of a library: this program's own, or one that is opened. */
typedef struct library {
#define CALLS(X)          \
    X(spt_engine_open)    \
    X(spt_engine_close)   \
    X(spt_session_open)   \
    X(spt_session_sync)   \
    X(spt_session_answer) \
    X(spt_engine_step) X(spt_session_finish) X(spt_session_close)
#define X(name) __typeof__(name) *name;
    CALLS(X)
#undef X
} library;

static const library own = {
#define X(name) name,
    CALLS(X)
#undef X
};

/* libspectune-slim.so beside the folder of this program. */
static bool open_slim(library *slim)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    path[n > 0 ? n : 0] = 0;
    for (int up = 0; up < 2 && strrchr(path, '/'); up++)
        *strrchr(path, '/') = 0;
    strcat(path, "/libspectune-slim.so");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    bool good = handle != NULL;
    if (!good)
        printf("# %s (make slim builds it)\n", dlerror());
#define X(name)                                      \
    if (good) {                                      \
        void *symbol = dlsym(handle, #name);         \
        good = symbol != NULL;                       \
        memcpy(&slim->name, &symbol, sizeof symbol); \
    }
    CALLS(X)
#undef X
    return good;
}

static bool answer_prompt(const library *l, spt_engine *engine, tiny_answer *a)
{
    spt_session *s = NULL;
    const spt_session_options session = {.draft_length = -1};
    const spt_answer_options o = {.max_tokens = TOKENS,
                                  .logprobs = true,
                                  .ignore_end = true,
                                  .event = tiny_event,
                                  .user = a};
    int32_t prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = i * 5 % 13 + 60;
    bool good = l->spt_session_open(engine, &session, &s, &err) == SPT_OK &&
                l->spt_session_sync(s, prompt, PROMPT, NULL, &err) == SPT_OK &&
                l->spt_session_answer(s, &o, &err) == SPT_OK;
    while (good && !l->spt_session_finish(s))
        good = l->spt_engine_step(engine, &s, 1, &err) == SPT_OK;
    l->spt_session_close(s);
    return good && a->n == TOKENS;
}

static spt_status open_engine(const library *l, const tiny_model *t,
                              spt_engine_options options, spt_engine **engine)
{
    char path[64];
    options.model = path;
    options.device = SPT_DEVICE_SIM;
    if (!CHECK(tiny_write(t, path), "a model is written"))
        exit(check_done());
    spt_status status = l->spt_engine_open(&options, engine, &err);
    unlink(path);
    return status;
}

static void answer(const library *l, const tiny_model *t,
                   const spt_engine_options *options, tiny_answer *a)
{
    spt_engine *engine = NULL;
    *a = (tiny_answer){.n = 0};
    if (!CHECK_OK(open_engine(l, t, *options, &engine), &err,
                  "an engine opens"))
        return;
    CHECK(answer_prompt(l, engine, a), "it answers");
    l->spt_engine_close(engine);
}

static void check_slim(const tiny_model *t, const spt_engine_options *packed,
                       const tiny_answer *expected)
{
    library slim;
    tiny_answer seen;
    spt_engine *engine = NULL;
    spt_engine_options makes = *packed;
    if (!CHECK(open_slim(&slim), "the library without templates"))
        return;
    answer(&slim, t, packed, &seen);
    CHECK(tiny_same(expected, &seen), "it answers alike");
    makes.pack_only = false;
    CHECK_INT(open_engine(&slim, t, makes, &engine), SPT_E_UNSUPPORTED,
              "it makes no kernels");
    CHECK_HAS(err.text, "expected a pack", "and says what it wants");
}

static void check_lacking(const tiny_model *t, const spt_engine_options *packed)
{
    spt_engine *engine = NULL;
    CHECK_INT(open_engine(&own, t, *packed, &engine), SPT_E_NOT_FOUND,
              "a pack that lacks a kernel is refused");
    CHECK_HAS(err.text,
              "kernel linear: the pack has none with dtype=fp16 weight=q8_0",
              "by the kernel's name and what was asked");
}

/* Packs for another chip, damaged images: the error says which, and what was
   expected; neither needs the folder of templates. */
static void check_reasons(const tiny_model *t, spt_engine_options packed)
{
    char command[200];
    spt_engine *engine = NULL;
    packed.board = "a100_sxm";
    CHECK_INT(open_engine(&own, t, packed, &engine), SPT_E_NOT_FOUND,
              "a pack of another chip is refused");
    CHECK_HAS(err.text, folder, "by its folder,");
    CHECK_HAS(err.text,
              " is for sm_90a, expected one for compute capability 8.0",
              "with its chip and this one");
    packed.board = NULL;
    packed.pack = NULL;
    CHECK(open_engine(&own, t, packed, &engine) == SPT_E_USAGE &&
              strstr(err.text, "pack_only without a pack"),
          "pack_only without a pack is refused");
    packed.pack = folder;
    snprintf(command, sizeof command,
             "for f in %s/ptx/linear*; do printf X | dd of=$f bs=1 seek=99 "
             "conv=notrunc 2>/dev/null; done",
             folder);
    CHECK(system(command) == 0 &&
              open_engine(&own, t, packed, &engine) == SPT_E_NOT_FOUND,
          "damaged images are refused");
    CHECK_HAS(err.text, "kernel linear: /tmp/", "by the kernel,");
    CHECK_HAS(err.text, "/ptx/linear", "the file");
    CHECK_HAS(err.text, ": is damaged: its SHA-256 is not the manifest's",
              "and what is wrong with it");
}

int main(void)
{
    const tiny_model t = tiny_default("llama", SPT_WEIGHT_Q8_0);
    const spt_engine_options plain = {.context = 128};
    spt_engine_options packed = plain;
    tiny_answer expected = {.n = 0}, seen = {.n = 0};
    spt_kernel_made *made = NULL;
    char path[64], command[128];
    packed.pack = folder;
    packed.pack_only = true;
    if (!CHECK(mkdtemp(folder) && tiny_write(&t, path), "a model is written"))
        return check_done();
    size_t count = make_kernels(path, &made);
    unlink(path);
    if (CHECK(write_pack(made, count, ""), "a pack of them")) {
        answer(&own, &t, &plain, &expected);
        answer(&own, &t, &packed, &seen);
        CHECK(tiny_same(&expected, &seen), "the pack's kernels answer alike");
        check_slim(&t, &packed, &expected);
        setenv("SPECTUNE_HOME", folder, 1);
        answer(&own, &t, &packed, &seen);
        CHECK(tiny_same(&expected, &seen),
              "they need no folder of templates and boards");
        check_reasons(&t, packed);
    }
    if (CHECK(write_pack(made, count, "linear"), "a smaller pack"))
        check_lacking(&t, &packed);
    for (size_t i = 0; i < count; i++)
        spt_kernel_made_free(&made[i]);
    free(made);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0, "the folder is removed");
    return check_done();
}
