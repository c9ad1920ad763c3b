/*
 * The table of CUDA driver calls through which everything that runs kernels
 * speaks: to libcuda, or to sim. Types and names are cuda.h's.
 */
#ifndef SPT_DRIVER_H
#define SPT_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

#include "board.h"
#include "error.h"

typedef struct spt_driver {
#define SPT_DRIVER_CALL(name) __typeof__(name) *name;
#include "driver.def"
#undef SPT_DRIVER_CALL
    bool is_sim;
    void *library; /* dlopen handle of libcuda; NULL for sim */
} spt_driver;

/*
 * Opens libcuda ("" or NULL: the system's libcuda.so.1) and fills the table.
 * SPT_E_NOT_FOUND when the library is missing, SPT_E_DEVICE when it is there
 * but has no usable device. A libcuda that carries sim's private symbol
 * "spt_sim_is_sim" makes is_sim true.
 */
spt_status spt_driver_open(const char *library, spt_driver *driver,
                           spt_error *err);
void spt_driver_close(spt_driver *driver);

/* Fails with "what: CUDA_ERROR_NAME: text" unless result is success. */
spt_status spt_driver_check(const spt_driver *driver, CUresult result,
                            const char *what, spt_error *err);

/*
 * Loads code (PTX or cubin) into the current context and finds the kernel,
 * allowed that much dynamic shared memory. The module is freed by
 * cuModuleUnload.
 */
spt_status spt_driver_load(const spt_driver *driver, const char *code,
                           const char *symbol, int shared_bytes,
                           CUmodule *module, CUfunction *function,
                           spt_error *err);

#endif
