/* Sets of kernels: from templates, from a pack, from both. */
#include <stdlib.h>

#include "check.h"
#include "gather.h"
#include "kernel_set.h"
#include "machine.h"
#include "pack_write.h"

static spt_error err;
static spt_gen *gen;
static spt_compiler *compiler;
static spt_board board;
static spt_machine machine;
static char folder[64] = "/tmp/spt_set_XXXXXX";
static size_t done_last, total_last;
static int log_lines;
static char last_line[200];

static void progress(void *user, const char *kernel, size_t done, size_t total)
{
    (void)user;
    (void)kernel;
    done_last = done;
    total_last = total;
}

static void note(void *user, const char *text)
{
    (void)user;
    log_lines++;
    snprintf(last_line, sizeof last_line, "%s", text);
}

static const spt_log log_to = {.line = note};

static spt_kernel_source source_of(const spt_pack *pack, bool templates)
{
    return (spt_kernel_source){.driver = &machine.driver,
                               .board = &board,
                               .pack = pack,
                               .gen = templates ? gen : NULL,
                               .compiler = templates ? compiler : NULL,
                               .log = &log_to,
                               .progress = progress};
}

/* Two norms, the second one asked for twice, a gather, one left open. */
enum { NORM, OTHER_NORM, SAME_NORM, GATHER, ATTENTION, REQUESTS };

static void make_requests(spt_kernel_request *r)
{
    memset(r, 0, REQUESTS * sizeof *r);
    r[NORM].template_name = r[OTHER_NORM].template_name =
        r[SAME_NORM].template_name = "norm";
    spt_config_set_int(&r[NORM].config, "width", 576);
    spt_config_set_int(&r[OTHER_NORM].config, "width", 64);
    spt_config_set_string(&r[OTHER_NORM].config, "out_type", "fp16");
    spt_config_set_string(&r[SAME_NORM].config, "out_type", "fp16");
    spt_config_set_int(&r[SAME_NORM].config, "width", 64);
    r[GATHER].template_name = "gather";
    r[ATTENTION].template_name = "verify_attention";
    spt_config_set_int(&r[ATTENTION].config, "group", 3);
    spt_config_set_int(&r[ATTENTION].config, "head_dim", 64);
    spt_config_set_int(&r[ATTENTION].config, "chunk", 256);
    spt_config_set_int(&r[ATTENTION].config, "rows", 16);
}

/* Runs a gather of the two rows of eight floats, swapped. */
static void check_gather(const spt_function *kernel)
{
    const spt_driver *d = &machine.driver;
    const int32_t index[] = {1, 0};
    float numbers[16], seen[16] = {0};
    CUdeviceptr memory;
    for (int i = 0; i < 16; i++)
        numbers[i] = (float)i;
    d->cuMemAlloc(&memory, 256);
    d->cuMemcpyHtoD(memory, numbers, sizeof numbers);
    d->cuMemcpyHtoD(memory + 128, index, sizeof index);
    const spt_gather_args args = {.in = memory,
                                  .out = memory + 64,
                                  .from = memory + 128,
                                  .in_stride = 8,
                                  .out_stride = 8,
                                  .width = 8};
    CHECK_OK(spt_gather_launch(d, kernel, &args, 2, NULL, &err), &err,
             "a kernel of the set is launched");
    d->cuMemcpyDtoH(seen, memory + 64, sizeof seen);
    CHECK(seen[0] == 8 && seen[15] == 7, "and runs");
    d->cuMemFree(memory);
}

static void check_templates(void)
{
    const spt_kernel_source source = source_of(NULL, true);
    spt_kernel_request r[REQUESTS];
    spt_kernel_set *set = NULL;
    make_requests(r);
    if (!CHECK_OK(spt_kernel_set_open(&source, r, REQUESTS, &set, &err), &err,
                  "a set from templates"))
        return;
    CHECK_INT((long long)done_last, REQUESTS - 1, "each kernel is made once");
    CHECK_INT((long long)total_last, REQUESTS - 1, "of as many");
    CHECK(spt_kernel_set_at(set, OTHER_NORM) ==
              spt_kernel_set_at(set, SAME_NORM),
          "equal requests are one kernel");
    CHECK(spt_kernel_set_at(set, NORM) != spt_kernel_set_at(set, OTHER_NORM),
          "different ones are not");
    CHECK_INT(spt_config_int(spt_kernel_set_config(set, ATTENTION), "rows", 0),
              16, "a parameter that was given stays");
    CHECK(spt_config_int(spt_kernel_set_config(set, ATTENTION), "stages", 0) >
              0,
          "one that was left open is known afterwards");
    CHECK(spt_kernel_set_at(set, ATTENTION)->shared_bytes > 0,
          "so is the shared memory");
    CHECK_HAS(spt_kernel_set_key(set, NORM), "norm-", "the reduction key");
    check_gather(spt_kernel_set_at(set, GATHER));
    spt_kernel_set_close(set);
}

/* 64 rows by one warp per KV warp do not fit into the registers. */
static void check_spills(void)
{
    const spt_kernel_source source = source_of(NULL, true);
    spt_kernel_request r[REQUESTS];
    spt_kernel_made made;
    make_requests(r);
    spt_config_set_int(&r[ATTENTION].config, "rows", 64);
    if (!CHECK_OK(spt_kernels_make(&source, &r[ATTENTION], 1, &made, &err),
                  &err, "a kernel for many rows"))
        return;
    CHECK_INT(made.image.spill_bytes, 0, "it takes a config without spills");
    CHECK_INT(spt_config_int(&made.config, "rows", 0), 64,
              "of those that were asked for");
    spt_kernel_made_free(&made);
}

static void check_refused(const spt_kernel_source *source,
                          const spt_kernel_request *request, spt_status status,
                          const char *part)
{
    spt_kernel_set *set = NULL;
    CHECK_INT(spt_kernel_set_open(source, request, 1, &set, &err), status,
              part);
    CHECK_HAS(err.text, part, "and said why");
    CHECK(!set, "there is no set");
}

static void check_refusals(void)
{
    const spt_kernel_source none = source_of(NULL, false);
    const spt_kernel_source templates = source_of(NULL, true);
    spt_kernel_request r[REQUESTS];
    make_requests(r);
    check_refused(&none, &r[GATHER], SPT_E_NOT_FOUND, "kernel gather");
    spt_config_set_int(&r[GATHER].config, "width", 3);
    check_refused(&templates, &r[GATHER], SPT_E_USAGE, "width");
    r[NORM].template_name = "none";
    check_refused(&templates, &r[NORM], SPT_E_USAGE, "no such kernel");
    spt_kernel_set *set = NULL;
    CHECK_OK(spt_kernel_set_open(&none, NULL, 0, &set, &err), &err,
             "a set of nothing");
    spt_kernel_set_close(set);
    spt_kernel_set_close(NULL);
}

/* A pack with the gather and one norm. */
static spt_status write_pack(void)
{
    static const char *const names[] = {"gather", "norm"};
    spt_pack_writer *writer;
    SPT_TRY(spt_pack_writer_open("nvrtc", &writer, &err));
    spt_status status = SPT_OK;
    for (int i = 0; i < 2 && status == SPT_OK; i++) {
        spt_kernel kernel = {0};
        spt_image image = {0};
        spt_config config = {0};
        if (i == 1)
            spt_config_set_int(&config, "width", 576);
        status = spt_gen_emit(gen, names[i], &config, &board, &kernel, &err);
        if (status == SPT_OK)
            status = spt_compile(compiler, &kernel, 1, 1, 0, NULL, NULL, &image,
                                 &err);
        cJSON *proof = cJSON_CreateObject();
        cJSON_AddBoolToObject(proof, "ok", true);
        if (status == SPT_OK)
            status =
                spt_pack_writer_add(writer, &kernel, &image, proof, NULL, &err);
        else
            cJSON_Delete(proof);
        spt_kernel_free(&kernel);
        spt_image_free(&image);
    }
    if (status == SPT_OK)
        status = spt_pack_writer_finish(writer, folder, &err);
    spt_pack_writer_close(writer);
    return status;
}

static void check_pack(void)
{
    spt_kernel_request r[REQUESTS];
    spt_kernel_set *set = NULL;
    spt_pack *pack = NULL;
    make_requests(r);
    if (!CHECK_OK(write_pack(), &err, "a pack is written") ||
        !CHECK_OK(spt_pack_open(folder, &pack, &err), &err, "and opened"))
        return;
    const spt_kernel_source only = source_of(pack, false);
    const spt_kernel_source both = source_of(pack, true);
    if (CHECK_OK(spt_kernel_set_open(&only, &r[GATHER], 1, &set, &err), &err,
                 "a set from the pack alone")) {
        check_gather(spt_kernel_set_at(set, 0));
        spt_kernel_set_close(set);
    }
    CHECK_INT(log_lines, 1, "one line says what was taken");
    CHECK_HAS(last_line, " kernels, ", "of how many, and as what");
    check_refused(&only, &r[OTHER_NORM], SPT_E_NOT_FOUND, "kernel norm");
    done_last = 0;
    if (CHECK_OK(spt_kernel_set_open(&both, r, REQUESTS, &set, &err), &err,
                 "a set from both")) {
        CHECK_INT((long long)done_last, REQUESTS - 1,
                  "progress counts what the pack had");
        CHECK_INT(spt_config_int(spt_kernel_set_config(set, NORM), "width", 0),
                  576, "configs of the pack are known");
        CHECK(!spt_config_int(spt_kernel_set_config(set, NORM), "add", 1),
              "values that were left open, too");
        spt_kernel_set_close(set);
    }
    spt_pack_close(pack);
}

int main(void)
{
    char command[128];
    if (!CHECK_OK(spt_gen_open(NULL, &gen, &err), &err, "templates open") ||
        !CHECK_OK(spt_gen_default_board(gen, "sm90", &board, &err), &err,
                  "a board") ||
        !CHECK_OK(spt_compiler_open(NULL, NULL, &compiler, &err), &err,
                  "the compiler") ||
        !CHECK_OK(
            spt_machine_open(&board, SPT_DEVICE_SIM, true, &machine, &err),
            &err, "sim") ||
        !CHECK(mkdtemp(folder) != NULL, "a folder"))
        return check_done();
    check_templates();
    check_spills();
    check_refusals();
    check_pack();
    spt_machine_close(&machine);
    spt_compiler_close(compiler);
    spt_gen_close(gen);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0, "the folder is removed");
    return check_done();
}
