#include "machine.h"

#include "gpu.h"
#include "sim.h"

static spt_status open_gpu(const spt_board *board, spt_machine *machine,
                           spt_error *err)
{
    SPT_TRY(spt_driver_open(NULL, &machine->driver, err));
    spt_gpu gpu;
    spt_status status = spt_gpu_find(&machine->driver, board, &gpu, err);
    if (status != SPT_OK) {
        spt_driver_close(&machine->driver);
        return status;
    }
    machine->device = gpu.device;
    machine->is_board = gpu.is_board;
    return SPT_OK;
}

static spt_status open_sim(const spt_board *board, bool checks,
                           spt_machine *machine, spt_error *err)
{
    spt_sim_options options = {.checks_off = !checks, .counters_off = !checks};
    SPT_TRY(spt_sim_open(board, 1, &options, &machine->driver, err));
    machine->device = 0;
    machine->is_board = true;
    return spt_driver_check(&machine->driver, machine->driver.cuInit(0),
                            "cuInit", err);
}

static spt_status open_context(spt_machine *machine, spt_error *err)
{
    spt_driver *driver = &machine->driver;
    SPT_TRY(spt_driver_check(
        driver,
        driver->cuDevicePrimaryCtxRetain(&machine->context, machine->device),
        "cuDevicePrimaryCtxRetain", err));
    SPT_TRY(spt_machine_enter(machine, err));
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
    status = open_context(machine, err);
    if (status != SPT_OK)
        spt_machine_close(machine);
    return status;
}

void spt_machine_close(spt_machine *machine)
{
    spt_driver *driver = &machine->driver;
    if (machine->context) {
        CUcontext current = NULL;
        if (driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
            current == machine->context)
            spt_machine_leave(machine);
        driver->cuDevicePrimaryCtxRelease(machine->device);
        machine->context = NULL;
    }
    /* Sim may stand behind a library, too. */
    if (driver->is_sim && !driver->library)
        spt_sim_close();
    else
        spt_driver_close(driver);
}

spt_status spt_machine_enter(const spt_machine *machine, spt_error *err)
{
    const spt_driver *driver = &machine->driver;
    return spt_driver_check(driver, driver->cuCtxPushCurrent(machine->context),
                            "cuCtxPushCurrent", err);
}

void spt_machine_leave(const spt_machine *machine)
{
    CUcontext left;
    machine->driver.cuCtxPopCurrent(&left);
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
