/* Constants of the time model from anywhere: within bounds, or refused. */
#include <stdint.h>
#include <stdlib.h>

#include "calibration.h"
#include "mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_calibration *c = spt_calloc(1, sizeof *c);
    spt_error err;
    if (!c)
        return 0;
    spt_status status =
        spt_calibration_parse((const char *)data, size, "fuzz.json", c, &err);
    for (int i = 0; status == SPT_OK && i < c->count; i++)
        for (int row = 0; row < SPT_TIME_CONSTANTS; row++) {
            double v = *spt_time_constant_at(&c->entries[i].constants, row);
            if (!(v >= spt_time_constant_rows[row].min &&
                  v <= spt_time_constant_rows[row].max))
                abort();
        }
    spt_free(c);
    return 0;
}
