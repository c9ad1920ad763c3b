/* A file of acceptance tables from anywhere. */
#include <stdint.h>
#include <stdlib.h>

#include "acceptance.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_acceptance acceptance = {0};
    spt_error err;
    spt_status status = spt_acceptance_parse(&acceptance, (const char *)data,
                                             size, "fuzz.json", 0, &err);
    for (size_t i = 0; i < acceptance.count; i++)
        if (status != SPT_OK || acceptance.tables[i].longest < 1)
            abort();
    spt_acceptance_free(&acceptance);
    return 0;
}
