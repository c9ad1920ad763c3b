#include "gpu.h"

#include <math.h>

enum { SM_WEIGHT = 10 }; /* another count of SMs is another product */
static const double alike = 0.125;

typedef struct figures {
    int major, minor, sms, clock_khz, bus_bits;
    size_t memory;
} figures;

static bool read_figures(const spt_driver *d, CUdevice device, figures *f)
{
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &f->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &f->minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &f->sms},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &f->clock_khz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &f->bus_bits},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (d->cuDeviceGetAttribute(rows[i].value, rows[i].attribute, device) !=
            CUDA_SUCCESS)
            return false;
    return d->cuDeviceTotalMem(&f->memory, device) == CUDA_SUCCESS;
}

/* Both edges of the clock move data. */
static double gbps(const figures *f)
{
    return 2.0 * f->clock_khz * 1e3 * (f->bus_bits / 8.0) * 1e-9;
}

static void compare(const figures *f, const spt_board *b, spt_gpu *gpu)
{
    double sms = fabs(log((double)f->sms / b->sm_count));
    double memory = fabs(log((double)f->memory / b->memory_bytes));
    double rate = gbps(f) > 0 ? fabs(log(gbps(f) / b->dram_gbps)) : 0;
    gpu->is_board = f->sms == b->sm_count && memory < alike && rate < alike;
    gpu->distance = SM_WEIGHT * sms + memory + rate;
}

spt_status spt_gpu_find(const spt_driver *driver, const spt_board *board,
                        spt_gpu *gpu, spt_error *err)
{
    int count = 0;
    bool found = false;
    SPT_TRY(spt_driver_check(driver, driver->cuDeviceGetCount(&count),
                             "cuDeviceGetCount", err));
    for (int i = 0; i < count; i++) {
        figures f;
        spt_gpu seen = {0};
        if (driver->cuDeviceGet(&seen.device, i) != CUDA_SUCCESS ||
            !read_figures(driver, seen.device, &f) ||
            f.major != board->cc_major || f.minor != board->cc_minor)
            continue;
        compare(&f, board, &seen);
        if (!found || seen.distance < gpu->distance)
            *gpu = seen;
        found = true;
    }
    if (found)
        return SPT_OK;
    return spt_fail(err, SPT_E_NOT_FOUND,
                    "no GPU of compute capability %d.%d (%s) among %d",
                    board->cc_major, board->cc_minor, board->arch, count);
}

spt_status spt_gpu_board(const spt_driver *driver, spt_gen *gen,
                         spt_board *board, spt_gpu *gpu, spt_error *err)
{
    bool found = false;
    size_t boards = spt_gen_board_count(gen);
    for (size_t i = 0; i < boards; i++) {
        spt_board one;
        spt_gpu seen;
        SPT_TRY(spt_gen_board(gen, spt_gen_board_name(gen, i), &one, err));
        if (spt_gpu_find(driver, &one, &seen, err) != SPT_OK ||
            (found && seen.distance >= gpu->distance))
            continue;
        *board = one;
        *gpu = seen;
        found = true;
    }
    return found ? SPT_OK
                 : spt_fail(err, SPT_E_NOT_FOUND,
                            "no GPU of an architecture of archs/");
}
