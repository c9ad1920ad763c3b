/*
 * Which GPU is which board: the driver names no board, so its figures are
 * held against archs/.
 */
#ifndef SPT_GPU_H
#define SPT_GPU_H

#include "board.h"
#include "driver.h"
#include "error.h"
#include "gen.h"

typedef struct spt_gpu {
    CUdevice device;
    /*
     * As many multiprocessors as the board, and within an eighth its memory
     * and its bandwidth; a device that does not tell its bandwidth may be any
     * of the others.
     */
    bool is_board;
    double distance; /* from the board; 0: none. Orders boards and devices. */
} spt_gpu;

/*
 * The driver's device that is most like the board, of the board's compute
 * capability (cubins run on no other); the first one of several alike. No
 * context is made. SPT_E_NOT_FOUND, SPT_E_DEVICE.
 */
spt_status spt_gpu_find(const spt_driver *driver, const spt_board *board,
                        spt_gpu *gpu, spt_error *err);

/*
 * The board, of all that gen has, that is most like one of the driver's
 * devices, and that device; the first by name of several alike.
 * SPT_E_NOT_FOUND where no device is of an architecture of archs/.
 */
spt_status spt_gpu_board(const spt_driver *driver, spt_gen *gen,
                         spt_board *board, spt_gpu *gpu, spt_error *err);

#endif
