/*
 * What an image that a program gives to cuModuleLoadData is.
 */
#ifndef SPT_SIM_FATBIN_H
#define SPT_SIM_FATBIN_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "error.h"
#include "mem.h"

/* The caller of the driver does not say how long its image is. */
#define SIM_IMAGE_NO_LIMIT SIZE_MAX

/* PTX text; not NUL-terminated at size. */
typedef struct sim_image {
    const char *text; /* inside the image, or unpacked */
    size_t size;
    char *unpacked; /* owned; NULL where the image holds the text as it is */
} sim_image;

/*
 * Finds the PTX of an image: text, a fatbin or nvcc's wrapper around one; of
 * several texts the one for the latest target. Reads at most limit bytes.
 * CUDA_ERROR_NO_BINARY_FOR_GPU for machine code and for a fatbin without PTX
 * that the board can run, CUDA_ERROR_INVALID_IMAGE for anything else. After
 * success the caller calls sim_image_free.
 */
CUresult sim_image_find(const void *image, size_t limit, const spt_board *board,
                        sim_image *found, spt_error *err);
void sim_image_free(sim_image *found);

/* Reads an image from a file; a 0 follows it. The caller frees image. */
CUresult sim_image_read(const char *path, spt_buf *image, spt_error *err);

#endif
