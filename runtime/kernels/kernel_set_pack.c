/* Kernels of a set from a pack: those whose config agrees with the request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_set_int.h"
#include "log.h"
#include "pack.h"

/* Reads one "name=value" as what its text looks like. */
static bool read_value(const char *text, size_t size, spt_config *config)
{
    char word[64], *end;
    if (size >= sizeof word)
        return false;
    memcpy(word, text, size);
    word[size] = 0;
    char *equals = strchr(word, '=');
    if (!equals || !equals[1])
        return false;
    *equals = 0;
    const char *value = equals + 1;
    long long integer = strtoll(value, &end, 10);
    if (!*end)
        spt_config_set_int(config, word, integer);
    else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        spt_config_set_bool(config, word, *value == 't');
    else
        spt_config_set_string(config, word, value);
    return true;
}

/* The config of a pack's entry; false when it is malformed. */
static bool read_config(const char *text, spt_config *config)
{
    *config = (spt_config){0};
    while (*text) {
        size_t size = strcspn(text, " ");
        if (!read_value(text, size, config))
            return false;
        text += size + strspn(text + size, " ");
    }
    return true;
}

/* Every value that was asked for is there. */
static bool agrees(const spt_config *asked, const spt_config *full)
{
    for (int i = 0; i < asked->count; i++) {
        const spt_value *a = &asked->values[i];
        const spt_value *b = spt_config_get(full, a->name);
        if (!b || a->type != b->type || a->integer != b->integer ||
            strcmp(a->text, b->text) != 0)
            return false;
    }
    return true;
}

/* How many kernels came as what. */
typedef struct tally {
    size_t exact, family, ptx;
} tally;

static void count_image(const spt_kernel_source *source,
                        const spt_pack_image *image, tally *t)
{
    const spt_board *b = source->board;
    if (image->is_ptx)
        t->ptx++;
    else if (spt_pack_cubin_fit(image->kernel->target, b->cc_major,
                                b->cc_minor) == 2)
        t->exact++;
    else
        t->family++;
}

static void log_tally(const spt_kernel_source *source, size_t count,
                      const tally *t)
{
    char text[128] = "";
    const struct {
        size_t count;
        const char *what;
    } kinds[] = {{t->exact, "as exact cubin"},
                 {t->family, "as cubin of the family"},
                 {t->ptx, "as PTX"}};
    for (size_t i = 0, used = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].count)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     ", %zu %s", kinds[i].count, kinds[i].what);
    spt_log_line(source->log, "pack: has %zu of %zu kernels%s",
                 t->exact + t->family + t->ptx, count, text);
}

static spt_status load(const spt_kernel_source *source,
                       const spt_pack_image *image, spt_set_entry *entry,
                       spt_error *err)
{
    const spt_pack_kernel *k = image->kernel;
    SPT_TRY(spt_driver_load(source->driver, image->data, k->symbol,
                            k->dynamic_shared_bytes, &entry->module,
                            &entry->function.function, err));
    entry->function.threads = k->threads;
    entry->function.shared_bytes = k->dynamic_shared_bytes;
    snprintf(entry->key, sizeof entry->key, "%s", k->key);
    spt_sha256(image->data, image->size, entry->digest);
    return SPT_OK;
}

static spt_status find(const spt_kernel_source *source, spt_set_entry *entry,
                       tally *t, spt_error *err)
{
    const spt_kernel_request *r = entry->request;
    const spt_pack_kernel *k;
    for (size_t i = 0; (k = spt_pack_at(source->pack, i)) != NULL; i++) {
        spt_config full;
        spt_pack_image image;
        spt_error reason;
        if (strcmp(k->name, r->template_name) != 0 ||
            !read_config(k->config, &full) || !agrees(&r->config, &full))
            continue;
        if (spt_pack_load_for(source->pack, k->name, k->config,
                              source->board->cc_major, source->board->cc_minor,
                              source->driver->is_sim, source->log, &image,
                              &reason) != SPT_OK) {
            snprintf(entry->why, sizeof entry->why, "%.399s", reason.text);
            continue;
        }
        spt_status status = load(source, &image, entry, err);
        count_image(source, &image, t);
        spt_pack_image_free(&image);
        entry->config = full;
        return status;
    }
    return SPT_OK;
}

spt_status spt_set_from_pack(const spt_kernel_source *source,
                             spt_set_entry *entries, size_t count,
                             spt_error *err)
{
    tally t = {0};
    for (size_t i = 0; i < count; i++)
        SPT_TRY(find(source, &entries[i], &t, err));
    log_tally(source, count, &t);
    return SPT_OK;
}
