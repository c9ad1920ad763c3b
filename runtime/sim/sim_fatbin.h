/*
 * What an image that a program gives to cuModuleLoadData is.
 */
#ifndef SPT_SIM_FATBIN_H
#define SPT_SIM_FATBIN_H

#include <cuda.h>
#include <stddef.h>

#include "board.h"
#include "error.h"
#include "mem.h"

/* PTX text inside the image; not NUL-terminated at size. */
typedef struct sim_image {
    const char *text;
    size_t size;
} sim_image;

/*
 * Finds the PTX of an image: text, a fatbin or nvcc's wrapper around one.
 * CUDA_ERROR_NO_BINARY_FOR_GPU for machine code and for a fatbin without PTX
 * that the board can run, CUDA_ERROR_INVALID_IMAGE for anything else.
 */
CUresult sim_image_find(const void *image, const spt_board *board,
                        sim_image *found, spt_error *err);

/* Reads an image from a file; a 0 follows it. The caller frees image. */
CUresult sim_image_read(const char *path, spt_buf *image, spt_error *err);

#endif
