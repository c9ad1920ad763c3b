/*
 * The machine that kernels run on: a GPU through libcuda, or sim with a board
 * of archs/.
 */
#ifndef SPT_MACHINE_H
#define SPT_MACHINE_H

#include "board.h"
#include "driver.h"
#include "error.h"
#include "gen.h"

typedef struct spt_machine {
    spt_driver driver;
    CUdevice device;
    CUcontext context;
    bool is_board; /* the device is the board that it was opened for */
    char name[128]; /* of the device, as the driver says */
} spt_machine;

/*
 * Opens the machine, and enters it. A GPU has to have the board's compute
 * capability; of several the one most like the board is taken. checks: sim
 * reports what kernels do wrong; without, it runs faster.
 */
spt_status spt_machine_open(const spt_board *board, spt_device_choice choice,
                            bool checks, spt_machine *machine, spt_error *err);
/* Leaves it where the thread is in it. */
void spt_machine_close(spt_machine *machine);

/*
 * The machine's context becomes the thread's, and the one before it again by
 * leaving: any thread may use the machine, and a program's own context stays.
 */
spt_status spt_machine_enter(const spt_machine *machine, spt_error *err);
void spt_machine_leave(const spt_machine *machine);

/* "sim" or "gpu". */
const char *spt_machine_kind(const spt_machine *machine);

/* A kernel in the machine: sim gets its PTX, a GPU its cubin. */
typedef struct spt_loaded {
    CUmodule module;
    CUfunction function;
    int threads, shared_bytes;
} spt_loaded;

spt_status spt_machine_load(spt_machine *machine, const spt_kernel *kernel,
                            const spt_image *image, spt_loaded *loaded,
                            spt_error *err);
void spt_machine_unload(spt_machine *machine, spt_loaded *loaded);

#endif
