#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "measure_cupti.h"
#include "mem.h"

enum { SAMPLES_MAX_BYTES = 256 << 20, MAX_LAUNCHES = 256 };

struct spt_meter {
    spt_driver driver;
    spt_meter_options options;
    CUstream stream;
    CUevent begin, end;
    CUdeviceptr flush;
    size_t flush_bytes;
    spt_cupti *cupti; /* NULL: events */
    const char *source;
};

/* A subject while it is measured. */
typedef struct track {
    const spt_subject *subject;
    CUgraphExec graph;
    double *samples;
    int count;
} track;

double spt_median(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        double v = values[i];
        size_t j = i;
        for (; j > 0 && values[j - 1] > v; j--)
            values[j] = values[j - 1];
        values[j] = v;
    }
    if (count == 0)
        return 0;
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static spt_status check(const spt_meter *m, CUresult result, const char *what,
                        spt_error *err)
{
    return spt_driver_check(&m->driver, result, what, err);
}

/* Twice the L2, so that nothing of the last run stays in it. */
static spt_status make_flush(spt_meter *m, CUdevice device, spt_error *err)
{
    int l2 = 0;
    SPT_TRY(check(m,
                  m->driver.cuDeviceGetAttribute(
                      &l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device),
                  "cuDeviceGetAttribute", err));
    m->flush_bytes = 2 * (size_t)(l2 > 0 ? l2 : 64 << 20);
    return check(m, m->driver.cuMemAlloc(&m->flush, m->flush_bytes),
                 "cuMemAlloc of the flush buffer", err);
}

static void choose_source(spt_meter *m)
{
    spt_error why;
    m->source = m->driver.is_sim ? "sim" : "events";
    if (m->driver.is_sim || m->options.events)
        return;
    if (spt_cupti_open(NULL, &m->cupti, &why) == SPT_OK)
        m->source = "cupti";
    else
        spt_log_line(m->options.log, "timing with events: %s", why.text);
}

spt_status spt_meter_open(const spt_driver *driver, CUdevice device,
                          const spt_meter_options *options, spt_meter **meter,
                          spt_error *err)
{
    spt_meter *m = spt_calloc(1, sizeof *m);
    if (!m)
        return spt_fail(err, SPT_E_MEMORY, "measure: out of memory");
    m->driver = *driver;
    if (options)
        m->options = *options;
    if (m->options.rounds <= 0)
        m->options.rounds = 21;
    if (m->options.warmups <= 0)
        m->options.warmups = 3;
    choose_source(m);
    spt_status status =
        check(m, m->driver.cuStreamCreate(&m->stream, CU_STREAM_NON_BLOCKING),
              "cuStreamCreate", err);
    if (status == SPT_OK)
        status = check(m, m->driver.cuEventCreate(&m->begin, CU_EVENT_DEFAULT),
                       "cuEventCreate", err);
    if (status == SPT_OK)
        status = check(m, m->driver.cuEventCreate(&m->end, CU_EVENT_DEFAULT),
                       "cuEventCreate", err);
    /* Sim has no state between launches that a flush would have to evict. */
    if (status == SPT_OK && !m->options.warm_l2 && !m->driver.is_sim)
        status = make_flush(m, device, err);
    if (status != SPT_OK) {
        spt_meter_close(m);
        return status;
    }
    *meter = m;
    return SPT_OK;
}

void spt_meter_close(spt_meter *meter)
{
    if (!meter)
        return;
    if (meter->flush)
        meter->driver.cuMemFree(meter->flush);
    if (meter->end)
        meter->driver.cuEventDestroy(meter->end);
    if (meter->begin)
        meter->driver.cuEventDestroy(meter->begin);
    if (meter->stream)
        meter->driver.cuStreamDestroy(meter->stream);
    spt_cupti_close(meter->cupti);
    spt_free(meter);
}

static spt_status launch_all(spt_meter *m, const spt_subject *s, spt_error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        const spt_launch *l = &s->launches[i];
        SPT_TRY(check(m,
                      m->driver.cuLaunchKernel(
                          l->function, l->grid[0], l->grid[1], l->grid[2],
                          l->block[0], l->block[1], l->block[2],
                          l->shared_bytes, m->stream, l->params, NULL),
                      "cuLaunchKernel", err));
    }
    return SPT_OK;
}

static spt_status capture(spt_meter *m, track *t, spt_error *err)
{
    CUgraph graph = NULL;
    SPT_TRY(check(m,
                  m->driver.cuStreamBeginCapture(
                      m->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "cuStreamBeginCapture", err));
    spt_status status = launch_all(m, t->subject, err);
    CUresult ended = m->driver.cuStreamEndCapture(m->stream, &graph);
    if (status == SPT_OK)
        status = check(m, ended, "cuStreamEndCapture", err);
    if (status == SPT_OK)
        status =
            check(m, m->driver.cuGraphInstantiateWithFlags(&t->graph, graph, 0),
                  "cuGraphInstantiate", err);
    if (graph)
        m->driver.cuGraphDestroy(graph);
    return status;
}

/* The span of the kernels of one graph launch. */
static spt_status cupti_time(spt_meter *m, const spt_subject *s, double *us,
                             spt_error *err)
{
    spt_cupti_record records[MAX_LAUNCHES];
    size_t count;
    SPT_TRY(spt_cupti_take(m->cupti, records, MAX_LAUNCHES, &count, err));
    if (count != s->count)
        return spt_fail(err, SPT_E_DEVICE,
                        "CUPTI: recorded %zu kernels, expected %zu", count,
                        s->count);
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++)
        if (records[i].end_ns > end)
            end = records[i].end_ns;
    *us = (double)(end - records[0].start_ns) * 1e-3;
    return SPT_OK;
}

static spt_status run_once(spt_meter *m, track *t, double *us, spt_error *err)
{
    const spt_driver *d = &m->driver;
    float ms = 0;
    size_t dropped;
    if (m->flush)
        SPT_TRY(check(
            m, d->cuMemsetD32Async(m->flush, 0, m->flush_bytes / 4, m->stream),
            "cuMemsetD32Async", err));
    if (m->cupti) {
        /* A memset may be a kernel: what it left in the records is dropped. */
        SPT_TRY(check(m, d->cuStreamSynchronize(m->stream),
                      "cuStreamSynchronize", err));
        SPT_TRY(spt_cupti_take(m->cupti, NULL, 0, &dropped, err));
    }
    SPT_TRY(
        check(m, d->cuEventRecord(m->begin, m->stream), "cuEventRecord", err));
    SPT_TRY(
        check(m, d->cuGraphLaunch(t->graph, m->stream), "cuGraphLaunch", err));
    SPT_TRY(
        check(m, d->cuEventRecord(m->end, m->stream), "cuEventRecord", err));
    SPT_TRY(check(m, d->cuStreamSynchronize(m->stream), "cuStreamSynchronize",
                  err));
    if (m->cupti)
        return cupti_time(m, t->subject, us, err);
    SPT_TRY(check(m, d->cuEventElapsedTime(&ms, m->begin, m->end),
                  "cuEventElapsedTime", err));
    *us = (double)ms * 1e3;
    return SPT_OK;
}

/* Gives up CUPTI for good; samples by events start anew. */
static void fall_back(spt_meter *m, track *tracks, size_t count,
                      const char *why)
{
    spt_log_line(m->options.log, "timing with events: %s", why);
    spt_cupti_close(m->cupti);
    m->cupti = NULL;
    m->source = "events";
    for (size_t i = 0; i < count; i++)
        tracks[i].count = 0;
}

static spt_status warm_up(spt_meter *m, track *tracks, size_t count,
                          spt_error *err)
{
    double us;
    for (int w = 0; w < m->options.warmups; w++)
        for (size_t i = 0; i < count; i++) {
            if (tracks[i].count >= m->options.rounds)
                continue;
            spt_status status = run_once(m, &tracks[i], &us, err);
            if (status != SPT_OK && m->cupti) {
                fall_back(m, tracks, count, err->text);
                status = run_once(m, &tracks[i], &us, err);
            }
            SPT_TRY(status);
        }
    return SPT_OK;
}

/* One line: source, id, microseconds. Written by one call, so never torn. */
static spt_status append_sample(const spt_meter *m, int fd,
                                const spt_subject *s, double us, spt_error *err)
{
    spt_buf line = {0};
    if (fd < 0)
        return SPT_OK;
    spt_buf_printf(&line, "%s\t%s\t%.4f\n", m->source, s->id, us);
    bool good =
        !line.failed && write(fd, line.data, line.size) == (ssize_t)line.size;
    spt_buf_free(&line);
    return good ? SPT_OK
                : spt_fail(err, SPT_E_IO, "%s: cannot append: %s",
                           m->options.samples, strerror(errno));
}

/* Samples of an earlier run; a last line without its end is skipped. */
static void resume(const spt_meter *m, char *text, track *tracks, size_t count)
{
    char *line_end;
    for (char *line = text; (line_end = strchr(line, '\n')) != NULL;
         line = line_end + 1) {
        *line_end = 0;
        char *id = strchr(line, '\t');
        char *value = id ? strchr(id + 1, '\t') : NULL, *end;
        if (!value)
            continue;
        *id++ = *value++ = 0;
        double us = strtod(value, &end);
        if (end == value || *end || !isfinite(us) ||
            strcmp(line, m->source) != 0)
            continue;
        for (size_t i = 0; i < count; i++)
            if (strcmp(tracks[i].subject->id, id) == 0 &&
                tracks[i].count < m->options.rounds)
                tracks[i].samples[tracks[i].count++] = us;
    }
}

static spt_status open_samples(const spt_meter *m, track *tracks, size_t count,
                               int *fd, spt_error *err)
{
    const char *path = m->options.samples;
    if (!path)
        return SPT_OK;
    if (spt_file_exists(path)) {
        spt_buf text = {0};
        spt_status status = spt_file_read(path, SAMPLES_MAX_BYTES, &text, err);
        if (status == SPT_OK)
            resume(m, text.data, tracks, count);
        spt_buf_free(&text);
        SPT_TRY(status);
    }
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (*fd < 0)
        return spt_fail(err, SPT_E_IO, "%s: cannot write: %s", path,
                        strerror(errno));
    return SPT_OK;
}

static spt_status run_rounds(spt_meter *m, track *tracks, size_t count, int fd,
                             spt_error *err)
{
    for (int round = 0; round < m->options.rounds; round++)
        for (size_t k = 0; k < count; k++) {
            track *t = &tracks[(k + (size_t)round) % count];
            double us;
            if (t->count > round)
                continue;
            SPT_TRY(run_once(m, t, &us, err));
            SPT_TRY(append_sample(m, fd, t->subject, us, err));
            t->samples[t->count++] = us;
        }
    return SPT_OK;
}

static void summarise(const spt_meter *m, track *t, spt_timing *out)
{
    size_t n = (size_t)t->count;
    out->median_us = spt_median(t->samples, n);
    out->min_us = n ? t->samples[0] : 0;
    for (size_t i = 0; i < n; i++)
        t->samples[i] = fabs(t->samples[i] - out->median_us);
    out->spread_us = spt_median(t->samples, n);
    out->samples = t->count;
    out->source = m->source;
    out->evidence = m->driver.is_sim ? "simulated" : "measured";
}

static spt_status prepare(spt_meter *m, const spt_subject *subjects,
                          size_t count, track *tracks, spt_error *err)
{
    for (size_t i = 0; i < count; i++) {
        tracks[i].subject = &subjects[i];
        tracks[i].samples =
            spt_calloc((size_t)m->options.rounds, sizeof *tracks[i].samples);
        if (!tracks[i].samples)
            return spt_fail(err, SPT_E_MEMORY, "measure: out of memory");
        if (subjects[i].count == 0 || subjects[i].count > MAX_LAUNCHES)
            return spt_fail(err, SPT_E_USAGE,
                            "measure: %s: %zu launches, expected 1 to %d",
                            subjects[i].id, subjects[i].count, MAX_LAUNCHES);
        SPT_TRY(capture(m, &tracks[i], err));
    }
    return SPT_OK;
}

spt_status spt_meter_run(spt_meter *meter, const spt_subject *subjects,
                         size_t count, spt_timing *timings, spt_error *err)
{
    track *tracks = spt_calloc(count, sizeof *tracks);
    int fd = -1;
    if (!tracks)
        return spt_fail(err, SPT_E_MEMORY, "measure: out of memory");
    spt_status status = prepare(meter, subjects, count, tracks, err);
    if (status == SPT_OK)
        status = open_samples(meter, tracks, count, &fd, err);
    if (status == SPT_OK)
        status = warm_up(meter, tracks, count, err);
    if (status == SPT_OK)
        status = run_rounds(meter, tracks, count, fd, err);
    for (size_t i = 0; i < count; i++) {
        if (status == SPT_OK)
            summarise(meter, &tracks[i], &timings[i]);
        if (tracks[i].graph)
            meter->driver.cuGraphExecDestroy(tracks[i].graph);
        spt_free(tracks[i].samples);
    }
    if (fd >= 0)
        close(fd);
    spt_free(tracks);
    return status;
}
