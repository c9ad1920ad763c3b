/* A GGUF header from anywhere: one line of error, or a sane shape. */
#include <stdlib.h>

#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_target target = {.name = "fuzz"};
    spt_error err;
    if (spt_target_gguf(data, size, "fuzz.gguf", &target, &err) == SPT_OK &&
        (target.q_heads < 1 || !(target.weight_bytes > 0)))
        abort();
    return 0;
}
