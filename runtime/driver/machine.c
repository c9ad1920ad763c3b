#include "machine.h"

#include <string.h>

#include "sim.h"

/* The first GPU of the board's compute capability, or SPT_E_NOT_FOUND. */
static spt_status find_gpu(const spt_board *board, spt_machine *machine,
                           spt_error *err)
{
    spt_driver *driver = &machine->driver;
    int count = 0;
    SPT_TRY(spt_driver_check(driver, driver->cuDeviceGetCount(&count),
                             "cuDeviceGetCount", err));
    for (int i = 0; i < count; i++) {
        int major = 0, minor = 0;
        CUdevice device;
        if (driver->cuDeviceGet(&device, i) != CUDA_SUCCESS ||
            driver->cuDeviceGetAttribute(
                &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) !=
                CUDA_SUCCESS ||
            driver->cuDeviceGetAttribute(
                &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) !=
                CUDA_SUCCESS)
            continue;
        if (major == board->cc_major && minor == board->cc_minor) {
            machine->device = device;
            return SPT_OK;
        }
    }
    return spt_fail(err, SPT_E_NOT_FOUND,
                    "no GPU of compute capability %d.%d (%s) among %d",
                    board->cc_major, board->cc_minor, board->arch, count);
}

static spt_status open_gpu(const spt_board *board, spt_machine *machine,
                           spt_error *err)
{
    SPT_TRY(spt_driver_open(NULL, &machine->driver, err));
    spt_status status = find_gpu(board, machine, err);
    if (status != SPT_OK)
        spt_driver_close(&machine->driver);
    return status;
}

static spt_status open_sim(const spt_board *board, bool checks,
                           spt_machine *machine, spt_error *err)
{
    spt_sim_options options = {.checks_off = !checks, .counters_off = !checks};
    SPT_TRY(spt_sim_open(board, 1, &options, &machine->driver, err));
    machine->device = 0;
    return spt_driver_check(&machine->driver, machine->driver.cuInit(0),
                            "cuInit", err);
}

static spt_status make_current(spt_machine *machine, spt_error *err)
{
    spt_driver *driver = &machine->driver;
    SPT_TRY(spt_driver_check(
        driver,
        driver->cuDevicePrimaryCtxRetain(&machine->context, machine->device),
        "cuDevicePrimaryCtxRetain", err));
    SPT_TRY(spt_driver_check(driver, driver->cuCtxSetCurrent(machine->context),
                             "cuCtxSetCurrent", err));
    return spt_driver_check(driver,
                            driver->cuDeviceGetName(machine->name,
                                                    sizeof machine->name,
                                                    machine->device),
                            "cuDeviceGetName", err);
}

spt_status spt_machine_open(const spt_board *board, spt_device_choice choice,
                            bool checks, spt_machine *machine, spt_error *err)
{
    *machine = (spt_machine){0};
    spt_status status = SPT_E_NOT_FOUND;
    if (choice != SPT_DEVICE_SIM)
        status = open_gpu(board, machine, err);
    if (status != SPT_OK && choice == SPT_DEVICE_GPU)
        return status;
    if (status != SPT_OK)
        SPT_TRY(open_sim(board, checks, machine, err));
    status = make_current(machine, err);
    if (status != SPT_OK)
        spt_machine_close(machine);
    return status;
}

void spt_machine_close(spt_machine *machine)
{
    if (machine->context)
        machine->driver.cuDevicePrimaryCtxRelease(machine->device);
    machine->context = NULL;
    if (machine->driver.is_sim)
        spt_sim_close();
    else
        spt_driver_close(&machine->driver);
}

const char *spt_machine_kind(const spt_machine *machine)
{
    return machine->driver.is_sim ? "sim" : "gpu";
}

spt_status spt_machine_load(spt_machine *machine, const spt_kernel *kernel,
                            const spt_image *image, spt_loaded *loaded,
                            spt_error *err)
{
    spt_driver *driver = &machine->driver;
    *loaded = (spt_loaded){.threads = kernel->threads,
                           .shared_bytes = kernel->shared_bytes};
    return spt_driver_load(driver, driver->is_sim ? image->ptx : image->cubin,
                           kernel->symbol, kernel->shared_bytes,
                           &loaded->module, &loaded->function, err);
}

void spt_machine_unload(spt_machine *machine, spt_loaded *loaded)
{
    if (loaded->module)
        machine->driver.cuModuleUnload(loaded->module);
    *loaded = (spt_loaded){0};
}
