/* Any bytes as a cubin: facts or an error, never a read outside of them. */
#include <stdint.h>

#include "cubin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_cubin_facts facts;
    spt_cubin_read(data, size, "f", &facts, NULL);
    return 0;
}
