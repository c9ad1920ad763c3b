/*
 * From template to a kernel that can be launched, without any cache: emit,
 * NVRTC, load on sim. Prints the median of each part; the baseline is the
 * compilation of an empty kernel, which no generator can beat.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build.h"
#include "machine.h"
#include "measure.h"
#include "offer.h"
#include "problem.h"

enum { RUNS = 5 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct parts {
    double emit[RUNS], compile[RUNS], load[RUNS], total[RUNS], empty[RUNS];
} parts;

static spt_status compile_empty(spt_compiler *compiler, const spt_kernel *like,
                                int run, double *seconds, spt_error *err)
{
    char text[128];
    spt_kernel empty = *like;
    spt_image image;
    snprintf(text, sizeof text,
             "extern \"C\" __global__ void empty_%d(int *p) { *p = %d; }\n",
             run, run);
    snprintf(empty.symbol, sizeof empty.symbol, "empty_%d", run);
    empty.source = text;
    empty.source_size = strlen(text);
    double begin = now();
    SPT_TRY(spt_compile(compiler, &empty, 1, 1, 0, NULL, NULL, &image, err));
    *seconds = now() - begin;
    spt_image_free(&image);
    return SPT_OK;
}

static spt_status one_run(spt_builder *builder, spt_machine *machine,
                          const spt_config *config, int run, parts *p,
                          spt_error *err)
{
    spt_kernel kernel;
    spt_image image;
    spt_loaded loaded;
    double t0 = now();
    SPT_TRY(spt_gen_emit(builder->gen, "verify_attention", config,
                         builder->board, &kernel, err));
    double t1 = now();
    spt_status status = spt_compile(builder->compiler, &kernel, 1, 1, 0, NULL,
                                    NULL, &image, err);
    double t2 = now();
    if (status == SPT_OK) {
        status = spt_machine_load(machine, &kernel, &image, &loaded, err);
        double t3 = now();
        p->emit[run] = t1 - t0;
        p->compile[run] = t2 - t1;
        p->load[run] = t3 - t2;
        p->total[run] = t3 - t0;
        if (status == SPT_OK)
            spt_machine_unload(machine, &loaded);
        spt_image_free(&image);
    }
    if (status == SPT_OK)
        status =
            compile_empty(builder->compiler, &kernel, run, &p->empty[run], err);
    spt_kernel_free(&kernel);
    return status;
}

static spt_status bench(parts *p, spt_error *err)
{
    spt_builder builder = {0};
    spt_board board;
    spt_machine machine = {0};
    spt_config *configs = NULL;
    size_t count = 0;
    spt_problem problem = {.q_heads = 8, .kv_heads = 1, .head_dim = 128};
    SPT_TRY(spt_builder_open(&builder, "sm90", NULL, &board, err));
    spt_status status =
        spt_machine_open(&board, SPT_DEVICE_SIM, true, &machine, err);
    if (status == SPT_OK)
        status = spt_offer_space(&builder, &problem, 512, false, &configs,
                                 &count, err);
    for (int run = 0; run < RUNS && status == SPT_OK; run++)
        status = one_run(&builder, &machine, &configs[0], run, p, err);
    spt_free(configs);
    spt_machine_close(&machine);
    spt_builder_close(&builder);
    return status;
}

int main(void)
{
    parts p;
    spt_error err;
    setenv("SPECTUNE_CACHE", "", 1);
    if (bench(&p, &err) != SPT_OK) {
        printf("first kernel: %s\n", err.text);
        return 1;
    }
    double empty = spt_median(p.empty, RUNS);
    const struct {
        const char *name;
        double *times;
    } rows[] = {{"first kernel: emit", p.emit},
                {"first kernel: NVRTC", p.compile},
                {"first kernel: load on sim", p.load},
                {"first kernel: all three", p.total}};
    printf("%-36s %9.3f s\n", "an empty kernel: NVRTC", empty);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double t = spt_median(rows[i].times, RUNS);
        printf("%-36s %9.3f s  %8.2f x an empty kernel\n", rows[i].name, t,
               t / empty);
    }
    return 0;
}
