/* Any bytes as an image: PTX text or an error, never a read outside of it. */
#include <stdint.h>
#include <stdlib.h>

#include "sim_fatbin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const spt_board board = {.cc_major = 9, .cc_minor = 0};
    sim_image found;
    spt_error err;
    if (sim_image_find(data, size, &board, &found, &err) != CUDA_SUCCESS)
        return 0;
    /* Every byte of the text can be read. */
    for (size_t i = 0; i < found.size; i++)
        if (!found.text[i])
            abort();
    sim_image_free(&found);
    return 0;
}
