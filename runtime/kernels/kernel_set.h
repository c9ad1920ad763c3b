/*
 * The kernels of an engine: asked for as a list, got all at once, from a pack
 * or from templates (compiled side by side, or from the cache), loaded into
 * the current context, kept until the set is closed.
 */
#ifndef SPT_KERNEL_SET_H
#define SPT_KERNEL_SET_H

#include "gen.h"
#include "launch.h"

/*
 * One kernel: a template, the values of its problem and those of its
 * parameters that matter. Parameters left open take the first config of the
 * space that spills no registers, or the last one where all do (from a pack:
 * the first entry that agrees).
 */
typedef struct spt_kernel_request {
    const char *template_name;
    spt_config config;
} spt_kernel_request;

/* Keeps the first of equal requests, in their order; how many are left. */
size_t spt_kernel_requests_unique(spt_kernel_request *requests, size_t count);

typedef struct spt_kernel_source {
    const spt_driver *driver; /* its context is current */
    const spt_board *board; /* target of the templates; of the pack's choice */
    const spt_pack *pack; /* NULL: templates only */
    spt_gen *gen; /* with compiler; NULL: pack only */
    spt_compiler *compiler;
    const spt_log *log; /* or NULL: misses of the pack, one line each */
    spt_compile_progress *progress; /* of all kernels, or NULL */
    void *user;
} spt_kernel_source;

/* A kernel that was made from its template. */
typedef struct spt_kernel_made {
    spt_config config; /* full */
    spt_kernel kernel;
    spt_image image;
} spt_kernel_made;
void spt_kernel_made_free(spt_kernel_made *made);

/*
 * Makes the kernels of the requests, compiled side by side, by gen, compiler
 * and board of the source. made has count entries, freed one by one; on
 * failure none is kept.
 */
spt_status spt_kernels_make(const spt_kernel_source *source,
                            const spt_kernel_request *requests, size_t count,
                            spt_kernel_made *made, spt_error *err);

typedef struct spt_kernel_set spt_kernel_set;

/*
 * Equal requests give one kernel. SPT_E_NOT_FOUND names the first kernel that
 * neither source has; SPT_E_USAGE what the template refuses.
 */
spt_status spt_kernel_set_open(const spt_kernel_source *source,
                               const spt_kernel_request *requests, size_t count,
                               spt_kernel_set **set, spt_error *err);
void spt_kernel_set_close(spt_kernel_set *set);

/* The kernel of request `index`; lives as long as the set. */
const spt_function *spt_kernel_set_at(const spt_kernel_set *set, size_t index);
/* Its values, those that were left open included. */
const spt_config *spt_kernel_set_config(const spt_kernel_set *set,
                                        size_t index);
/* SHA-256 of the code of all kernels, as text (SPT_SHA256_TEXT). */
void spt_kernel_set_digest(const spt_kernel_set *set, char *hex);
/* Its reduction key: equal keys, equal bits. */
const char *spt_kernel_set_key(const spt_kernel_set *set, size_t index);

#endif
