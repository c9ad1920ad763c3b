/* Kernels of a set from templates: all that are missing, side by side. */
#include <stdio.h>

#include "kernel_set_int.h"
#include "log.h"

typedef struct jit {
    const spt_kernel_source *source;
    size_t found, total; /* entries of the set */
    size_t count; /* of these */
    spt_set_entry **entries;
    spt_kernel *kernels;
    spt_image *images;
} jit;

static void progress(void *user, size_t done)
{
    const jit *j = user;
    if (j->source->progress)
        j->source->progress(j->source->user, j->found + done, j->total);
}

/* The first config of the space that the request leaves. */
static spt_status emit(const jit *j, spt_set_entry *entry, spt_kernel *kernel,
                       spt_error *err)
{
    const spt_kernel_request *r = entry->request;
    spt_config *configs;
    size_t count;
    SPT_TRY(spt_gen_space(j->source->gen, r->template_name, &r->config,
                          j->source->board, &configs, &count, err));
    entry->config = configs[0];
    spt_free(configs);
    SPT_TRY(spt_gen_emit(j->source->gen, r->template_name, &entry->config,
                         j->source->board, kernel, err));
    snprintf(entry->key, sizeof entry->key, "%s", kernel->key);
    entry->function.threads = kernel->threads;
    entry->function.shared_bytes = kernel->shared_bytes;
    return SPT_OK;
}

static spt_status load(const jit *j, size_t i, spt_error *err)
{
    const spt_driver *driver = j->source->driver;
    const spt_image *image = &j->images[i];
    spt_set_entry *entry = j->entries[i];
    if (image->spill_bytes)
        spt_log_line(j->source->log, "%s: %d bytes of registers are spilled",
                     j->kernels[i].symbol, image->spill_bytes);
    return spt_driver_load(driver, driver->is_sim ? image->ptx : image->cubin,
                           j->kernels[i].symbol, j->kernels[i].shared_bytes,
                           &entry->module, &entry->function.function, err);
}

static spt_status build(jit *j, spt_error *err)
{
    for (size_t i = 0; i < j->count; i++)
        SPT_TRY(emit(j, j->entries[i], &j->kernels[i], err));
    SPT_TRY(spt_compile(j->source->compiler, j->kernels, j->count, 0, 0,
                        progress, j, j->images, err));
    for (size_t i = 0; i < j->count; i++)
        SPT_TRY(load(j, i, err));
    return SPT_OK;
}

spt_status spt_set_from_templates(const spt_kernel_source *source,
                                  spt_set_entry *entries, size_t count,
                                  spt_error *err)
{
    jit j = {.source = source, .total = count};
    j.entries = spt_calloc(count + 1, sizeof *j.entries);
    j.kernels = spt_calloc(count + 1, sizeof *j.kernels);
    j.images = spt_calloc(count + 1, sizeof *j.images);
    spt_status status = SPT_OK;
    if (!j.entries || !j.kernels || !j.images)
        status = spt_fail(err, SPT_E_MEMORY, "kernels: out of memory");
    for (size_t i = 0; status == SPT_OK && i < count; i++)
        if (!entries[i].module)
            j.entries[j.count++] = &entries[i];
    j.found = count - j.count;
    if (status == SPT_OK && j.count)
        status = build(&j, err);
    for (size_t i = 0; i < j.count; i++) {
        spt_kernel_free(&j.kernels[i]);
        spt_image_free(&j.images[i]);
    }
    spt_free((void *)j.entries);
    spt_free(j.kernels);
    spt_free(j.images);
    return status;
}
