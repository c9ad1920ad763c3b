/*
 * Times of kernels on a device, through the driver table.
 *
 * Subjects are timed in rounds, each round once per subject and starting with
 * another one, so that what drifts (clock, temperature) meets all alike. A
 * subject's launches run as one graph after the L2 was filled with other data.
 * Its time is from the first kernel's start to the last one's end: CUPTI's
 * records where they may be had, else events (which add a launch's overhead;
 * one line of the log says why). On sim it is the time model's, and the label
 * says so.
 */
#ifndef SPT_MEASURE_H
#define SPT_MEASURE_H

#include "driver.h"
#include "error.h"
#include "log.h"

typedef struct spt_launch {
    CUfunction function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void **params; /* as cuLaunchKernel's; live until the meter is done */
} spt_launch;

typedef struct spt_subject {
    /*
     * Everything that changes the time, in words without tabs: kernel, config,
     * problem, board. Samples of the log belong to the id.
     */
    const char *id;
    const spt_launch *launches; /* run in this order */
    size_t count;
} spt_subject;

typedef struct spt_meter_options {
    int rounds; /* samples per subject; 0 = 21 */
    int warmups; /* runs before the first round; 0 = 3 */
    bool warm_l2; /* do not evict between runs */
    bool events; /* do not try CUPTI */
    const char *samples; /* file that samples are appended to; NULL = none */
    const spt_log *log; /* may be NULL */
} spt_meter_options;

typedef struct spt_timing {
    double median_us, min_us;
    double spread_us; /* median distance from the median */
    int samples;
    const char *source; /* "cupti", "events" or "sim" */
    const char *evidence; /* "measured", or "simulated" on sim */
} spt_timing;

typedef struct spt_meter spt_meter;

/* A context of the device has to be current, now and in every call. */
spt_status spt_meter_open(const spt_driver *driver, CUdevice device,
                          const spt_meter_options *options, spt_meter **meter,
                          spt_error *err);
void spt_meter_close(spt_meter *meter);

/*
 * Times the subjects; timings has count entries. Samples that the file already
 * holds (same id, same source) are not taken again, so that a run which was
 * killed goes on where it stopped.
 */
spt_status spt_meter_run(spt_meter *meter, const spt_subject *subjects,
                         size_t count, spt_timing *timings, spt_error *err);

/* The median of values, which are sorted in place; 0 when there is none. */
double spt_median(double *values, size_t count);

#endif
