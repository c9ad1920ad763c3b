/* A CSV from anywhere: what is accepted is a whole table. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_csv csv = {0};
    spt_error err;
    size_t length = 0;
    double value;
    if (spt_csv_parse(&csv, (const char *)data, size, "fuzz.csv", &err) ==
        SPT_OK)
        for (size_t row = 0; row < csv.rows; row++)
            for (size_t i = 0; i < csv.columns; i++) {
                length += strlen(spt_csv_text(&csv, row, csv.header[i]));
                (void)spt_csv_number(&csv, row, csv.header[i], 0, 1, 0, &value,
                                     &err);
            }
    spt_csv_free(&csv);
    /* A column found by name is the first of that name. */
    return length > 64 * size + 1 ? abort(), 1 : 0;
}
