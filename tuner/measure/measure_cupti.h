/*
 * Kernel times from CUPTI's activity records, the library opened at run time.
 * One per process: CUPTI's buffers are global.
 */
#ifndef SPT_MEASURE_CUPTI_H
#define SPT_MEASURE_CUPTI_H

#include "error.h"

typedef struct spt_cupti spt_cupti;

/* One kernel as it ran, in ns of the device's clock. */
typedef struct spt_cupti_record {
    uint64_t start_ns, end_ns;
} spt_cupti_record;

/*
 * Opens CUPTI and starts recording kernels. library NULL: $SPECTUNE_CUPTI,
 * else the system's, the toolkit's, or that of make deps.
 * SPT_E_NOT_FOUND when there is none, SPT_E_DEVICE when it may not profile.
 */
spt_status spt_cupti_open(const char *library, spt_cupti **cupti,
                          spt_error *err);
void spt_cupti_close(spt_cupti *cupti);

/*
 * The records since the last call, ascending by start; all work has to be
 * synchronised before. At most max are written, *count is how many there were.
 */
spt_status spt_cupti_take(spt_cupti *cupti, spt_cupti_record *records,
                          size_t max, size_t *count, spt_error *err);

/* Opens the library only: its path and version, for spectune doctor. */
spt_status spt_cupti_find(const char *library, char *path, size_t size,
                          unsigned *version, spt_error *err);

#endif
