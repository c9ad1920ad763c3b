/*
 * Kernels from templates: all that are asked for, compiled side by side. A
 * config that spills registers gives way to the next one of its space.
 */
#include <stdio.h>

#include "kernel_set_int.h"

/* The configs that a request leaves, and which of them is taken. */
typedef struct choice {
    spt_config *configs;
    size_t count, at;
} choice;

typedef struct maker {
    const spt_kernel_source *source;
    const spt_kernel_request *requests;
    size_t count, done; /* kernels; how many are made */
    choice *choices;
    spt_kernel_made *made;
    /* What is compiled now. */
    size_t n_open, *open;
    spt_kernel *kernels;
    spt_image *images;
} maker;

static void progress(void *user, const char *kernel, size_t done, size_t total)
{
    const maker *m = user;
    (void)total; /* of a round */
    if (m->source->progress)
        m->source->progress(m->source->user, kernel, m->done + done, m->count);
}

static spt_status emit(const maker *m, size_t i, spt_kernel *kernel,
                       spt_error *err)
{
    const choice *c = &m->choices[i];
    return spt_gen_emit(m->source->gen, m->requests[i].template_name,
                        &c->configs[c->at], m->source->board, kernel, err);
}

/* Keeps what was compiled for kernel i; false: its next config is to come. */
static bool keep(maker *m, size_t i, spt_kernel *kernel, spt_image *image)
{
    choice *c = &m->choices[i];
    if (image->spill_bytes && c->at + 1 < c->count) {
        c->at++;
        spt_kernel_free(kernel);
        spt_image_free(image);
        return false;
    }
    m->made[i] = (spt_kernel_made){c->configs[c->at], *kernel, *image};
    *kernel = (spt_kernel){0};
    *image = (spt_image){0};
    m->done++;
    return true;
}

/* Compiles what is open; what spills stays so. */
static spt_status make_round(maker *m, spt_error *err)
{
    size_t left = 0;
    for (size_t k = 0; k < m->n_open; k++)
        SPT_TRY(emit(m, m->open[k], &m->kernels[k], err));
    SPT_TRY(spt_compile(m->source->compiler, m->kernels, m->n_open, 0, 0,
                        progress, m, m->images, err));
    for (size_t k = 0; k < m->n_open; k++)
        if (!keep(m, m->open[k], &m->kernels[k], &m->images[k]))
            m->open[left++] = m->open[k];
    m->n_open = left;
    return SPT_OK;
}

static spt_status make_all(maker *m, spt_error *err)
{
    for (size_t i = 0; i < m->count; i++) {
        choice *c = &m->choices[i];
        SPT_TRY(spt_gen_space(m->source->gen, m->requests[i].template_name,
                              &m->requests[i].config, m->source->board,
                              &c->configs, &c->count, err));
        m->open[m->n_open++] = i;
    }
    while (m->n_open)
        SPT_TRY(make_round(m, err));
    return SPT_OK;
}

void spt_kernel_made_free(spt_kernel_made *made)
{
    spt_kernel_free(&made->kernel);
    spt_image_free(&made->image);
}

static void close_maker(maker *m, bool good)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->choices)
            spt_free(m->choices[i].configs);
        if (m->kernels)
            spt_kernel_free(&m->kernels[i]);
        if (m->images)
            spt_image_free(&m->images[i]);
        if (!good)
            spt_kernel_made_free(&m->made[i]);
    }
    spt_free(m->choices);
    spt_free(m->kernels);
    spt_free(m->images);
    spt_free(m->open);
}

spt_status spt_kernels_make(const spt_kernel_source *source,
                            const spt_kernel_request *requests, size_t count,
                            spt_kernel_made *made, spt_error *err)
{
    maker m = {.source = source,
               .requests = requests,
               .count = count,
               .made = made,
               .choices = spt_calloc(count + 1, sizeof *m.choices),
               .kernels = spt_calloc(count + 1, sizeof *m.kernels),
               .images = spt_calloc(count + 1, sizeof *m.images),
               .open = spt_calloc(count + 1, sizeof *m.open)};
    spt_status status = SPT_OK;
    for (size_t i = 0; i < count; i++)
        made[i] = (spt_kernel_made){.kernel = {.threads = 0}};
    if (!m.choices || !m.kernels || !m.images || !m.open)
        status = spt_fail(err, SPT_E_MEMORY, "kernels: out of memory");
    if (status == SPT_OK && count)
        status = make_all(&m, err);
    close_maker(&m, status == SPT_OK);
    return status;
}
