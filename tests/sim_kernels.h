/*
 * What a test needs that compiles kernels of templates/ and runs them on sim:
 * the default board of sm90, with checks.
 */
#ifndef SPT_TEST_SIM_KERNELS_H
#define SPT_TEST_SIM_KERNELS_H

#include "check.h"
#include "kernel_set.h"
#include "machine.h"

typedef struct sim_kernels {
    spt_gen *gen;
    spt_compiler *compiler;
    spt_board board;
} sim_kernels;

/* Opens all; false after a failed check. The machine is the caller's. */
static bool sim_kernels_open(sim_kernels *k, spt_machine *machine)
{
    spt_error err;
    return CHECK_OK(spt_gen_open(NULL, &k->gen, &err), &err, "templates") &&
           CHECK_OK(spt_gen_default_board(k->gen, "sm90", &k->board, &err),
                    &err, "a board") &&
           CHECK_OK(spt_compiler_open(NULL, NULL, &k->compiler, &err), &err,
                    "the compiler") &&
           CHECK_OK(
               spt_machine_open(&k->board, SPT_DEVICE_SIM, true, machine, &err),
               &err, "sim");
}

static spt_kernel_source sim_kernels_source(const sim_kernels *k,
                                            const spt_machine *machine)
{
    return (spt_kernel_source){.driver = &machine->driver,
                               .board = &k->board,
                               .gen = k->gen,
                               .compiler = k->compiler};
}

static void sim_kernels_close(sim_kernels *k)
{
    spt_compiler_close(k->compiler);
    spt_gen_close(k->gen);
}

#endif
