/* A safetensors file from anywhere: one line of error, or tensors that lie in
   its bytes. */
#include <stdlib.h>

#include "safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_arena arena = {0};
    file_tensor *files = NULL;
    size_t count = 0;
    spt_error err;
    if (spt_safetensors_read(data, size, "fuzz", &arena, &files, &count,
                             &err) == SPT_OK)
        for (size_t i = 0; i < count; i++) {
            const uint8_t *begin = files[i].data;
            if (begin < data || begin + files[i].bytes > data + size)
                abort();
        }
    spt_arena_free(&arena);
    return 0;
}
