#include "kernel_set_int.h"

#include <stdio.h>
#include <string.h>

struct spt_kernel_set {
    const spt_driver *driver;
    spt_set_entry *entries;
    size_t n_entries;
    size_t *of_request; /* request -> entry */
};

static bool same_value(const spt_value *a, const spt_value *b)
{
    return b && a->type == b->type && a->integer == b->integer &&
           a->number == b->number && strcmp(a->text, b->text) == 0;
}

static bool same_request(const spt_kernel_request *a,
                         const spt_kernel_request *b)
{
    if (strcmp(a->template_name, b->template_name) != 0 ||
        a->config.count != b->config.count)
        return false;
    for (int i = 0; i < a->config.count; i++) {
        const spt_value *value = &a->config.values[i];
        if (!same_value(value, spt_config_get(&b->config, value->name)))
            return false;
    }
    return true;
}

size_t spt_kernel_requests_unique(spt_kernel_request *requests, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < kept && !same_request(&requests[at], &requests[i]))
            at++;
        if (at == kept)
            requests[kept++] = requests[i];
    }
    return kept;
}

/* One entry per different request. */
static void make_entries(spt_kernel_set *set,
                         const spt_kernel_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < set->n_entries &&
               !same_request(set->entries[at].request, &requests[i]))
            at++;
        if (at == set->n_entries)
            set->entries[set->n_entries++].request = &requests[i];
        set->of_request[i] = at;
    }
}

static spt_status take(const spt_driver *driver, const spt_kernel_made *made,
                       spt_set_entry *entry, spt_error *err)
{
    const spt_kernel *k = &made->kernel;
    const char *code = driver->is_sim ? made->image.ptx : made->image.cubin;
    SPT_TRY(spt_driver_load(driver, code, k->symbol, k->shared_bytes,
                            &entry->module, &entry->function.function, err));
    entry->function.threads = k->threads;
    entry->function.shared_bytes = k->shared_bytes;
    entry->config = made->config;
    snprintf(entry->key, sizeof entry->key, "%s", k->key);
    spt_sha256(code, driver->is_sim ? strlen(code) : made->image.cubin_size,
               entry->digest);
    return SPT_OK;
}

/* Of the entries that are still to be found, their requests. */
static size_t list_missing(const spt_kernel_set *set,
                           spt_kernel_request *requests, size_t *entries)
{
    size_t count = 0;
    for (size_t i = 0; i < set->n_entries; i++)
        if (!set->entries[i].module) {
            requests[count] = *set->entries[i].request;
            entries[count++] = i;
        }
    return count;
}

/* Progress counts what the pack had. */
typedef struct shifted {
    const spt_kernel_source *source;
    size_t found;
} shifted;

static void shift(void *user, const char *kernel, size_t done, size_t total)
{
    const shifted *s = user;
    s->source->progress(s->source->user, kernel, s->found + done,
                        s->found + total);
}

static spt_status make_missing(const spt_kernel_source *source,
                               spt_kernel_set *set, spt_error *err)
{
    size_t n = set->n_entries + 1, count = 0;
    spt_kernel_request *requests = spt_calloc(n, sizeof *requests);
    spt_kernel_made *made = spt_calloc(n, sizeof *made);
    size_t *entries = spt_calloc(n, sizeof *entries);
    spt_status status = SPT_OK;
    if (!requests || !made || !entries)
        status = spt_fail(err, SPT_E_MEMORY, "kernels: out of memory");
    else
        count = list_missing(set, requests, entries);
    shifted user = {source, set->n_entries - count};
    spt_kernel_source inner = *source;
    inner.progress = source->progress ? shift : NULL;
    inner.user = &user;
    if (status == SPT_OK)
        status = spt_kernels_make(&inner, requests, count, made, err);
    for (size_t i = 0; status == SPT_OK && i < count; i++)
        status = take(source->driver, &made[i], &set->entries[entries[i]], err);
    for (size_t i = 0; made && i < count; i++)
        spt_kernel_made_free(&made[i]);
    spt_free(requests);
    spt_free(made);
    spt_free(entries);
    return status;
}

/* "group=3 dtype=bf16": what is asked of a kernel. */
static void request_text(const spt_config *config, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < config->count && used < size; i++) {
        char value[32];
        spt_value_text(&config->values[i], value, sizeof value);
        used += (size_t)snprintf(text + used, size - used, "%s%s=%s",
                                 i ? " " : "", config->values[i].name, value);
    }
}

static spt_status check_found(const spt_kernel_set *set, spt_error *err)
{
    char asked[300];
    for (size_t i = 0; i < set->n_entries; i++) {
        const spt_set_entry *e = &set->entries[i];
        if (e->module)
            continue;
        if (*e->why)
            return spt_fail(err, SPT_E_NOT_FOUND, "kernel %s: %s",
                            e->request->template_name, e->why);
        request_text(&e->request->config, asked, sizeof asked);
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "kernel %s: the pack has none with %s, and none may "
                        "be made",
                        e->request->template_name, asked);
    }
    return SPT_OK;
}

static spt_status load(const spt_kernel_source *source, spt_kernel_set *set,
                       spt_error *err)
{
    if (source->pack)
        SPT_TRY(spt_set_from_pack(source, set->entries, set->n_entries, err));
    if (source->gen && source->compiler)
        SPT_TRY(make_missing(source, set, err));
    return check_found(set, err);
}

spt_status spt_kernel_set_open(const spt_kernel_source *source,
                               const spt_kernel_request *requests, size_t count,
                               spt_kernel_set **set, spt_error *err)
{
    spt_kernel_set *made = spt_calloc(1, sizeof *made);
    if (!made)
        return spt_fail(err, SPT_E_MEMORY, "kernels: out of memory");
    made->driver = source->driver;
    made->entries = spt_calloc(count + 1, sizeof *made->entries);
    made->of_request = spt_calloc(count + 1, sizeof *made->of_request);
    spt_status status = SPT_E_MEMORY;
    if (made->entries && made->of_request) {
        make_entries(made, requests, count);
        status = load(source, made, err);
    } else {
        spt_fail(err, status, "kernels: out of memory");
    }
    for (size_t i = 0; made->entries && i < made->n_entries; i++)
        made->entries[i].request = NULL; /* the caller's, gone from here on */
    if (status == SPT_OK)
        *set = made;
    else
        spt_kernel_set_close(made);
    return status;
}

void spt_kernel_set_close(spt_kernel_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; set->entries && i < set->n_entries; i++)
        if (set->entries[i].module)
            set->driver->cuModuleUnload(set->entries[i].module);
    spt_free(set->entries);
    spt_free(set->of_request);
    spt_free(set);
}

void spt_kernel_set_digest(const spt_kernel_set *set, char *hex)
{
    spt_buf all = {0};
    for (size_t i = 0; i < set->n_entries; i++)
        spt_buf_add(&all, set->entries[i].digest, SPT_SHA256_TEXT);
    spt_sha256(all.data, all.size, hex);
    spt_buf_free(&all);
}

static const spt_set_entry *entry(const spt_kernel_set *set, size_t index)
{
    return &set->entries[set->of_request[index]];
}

const spt_function *spt_kernel_set_at(const spt_kernel_set *set, size_t index)
{
    return &entry(set, index)->function;
}

const spt_config *spt_kernel_set_config(const spt_kernel_set *set, size_t index)
{
    return &entry(set, index)->config;
}

const char *spt_kernel_set_key(const spt_kernel_set *set, size_t index)
{
    return entry(set, index)->key;
}
