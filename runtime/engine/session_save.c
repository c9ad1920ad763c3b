/*
 * Sessions as files: what the KV belongs to, tokens, KV pages, and the SHA-256
 * of all that as text at the end. Numbers are little-endian as on every host
 * that has a GPU.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "hash.h"
#include "mem.h"
#include "session_int.h"

enum { KEY_BYTES = 512, HASH_BYTES = SPT_SHA256_TEXT - 1 };

static const char MAGIC[8] = "SPTSES1";

typedef struct header {
    char magic[8];
    char key[KEY_BYTES]; /* model, types and sizes; zeros behind */
    int64_t n_tokens, n_kv;
    uint64_t page_bytes;
} header;

/* What has to be equal for KV to be of use. */
static void make_key(const spt_engine *e, char key[KEY_BYTES])
{
    const spt_model_config *c = spt_model_config_of(e->model);
    const spt_tensor *norm =
        spt_model_tensor(e->model, SPT_ROLE_OUTPUT_NORM, 0);
    char hash[SPT_SHA256_TEXT];
    spt_sha256(norm->data, norm->bytes, hash);
    memset(key, 0, KEY_BYTES);
    snprintf(key, KEY_BYTES,
             "%s %s layers=%d hidden=%d kv=%dx%d vocab=%d weights=%" PRIu64
             " norm=%s %s page=%d %s",
             c->architecture, c->name, c->layers, c->hidden, c->kv_heads,
             c->head_dim, c->vocab, spt_model_weight_bytes(e->model), hash,
             e->options.dtype == SPT_TYPE_FP16 ? "fp16" : "bf16",
             e->options.page_size, e->machine.driver.is_sim ? "sim" : "gpu");
}

static spt_status build(const spt_session *s, spt_buf *out, spt_error *err)
{
    const spt_sequence *q = &s->sequence;
    header h = {.n_tokens = q->n_tokens,
                .n_kv = q->n_kv,
                .page_bytes = spt_forward_page_bytes(s->engine->forward)};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    make_key(s->engine, h.key);
    char *page = spt_calloc(h.page_bytes, 1), hash[SPT_SHA256_TEXT];
    if (!page)
        return spt_fail(err, SPT_E_MEMORY, "session: out of memory");
    spt_buf_add(out, &h, sizeof h);
    spt_buf_add(out, q->tokens, (size_t)q->n_tokens * sizeof *q->tokens);
    spt_status status = SPT_OK;
    for (int i = 0; i < q->n_pages && status == SPT_OK; i++) {
        status =
            spt_forward_read_page(s->engine->forward, q->pages[i], page, err);
        spt_buf_add(out, page, h.page_bytes);
    }
    spt_free(page);
    SPT_TRY(status);
    if (!out->failed)
        spt_sha256(out->data, out->size, hash);
    spt_buf_add(out, hash, HASH_BYTES);
    return out->failed ? spt_fail(err, SPT_E_MEMORY, "session: out of memory")
                       : SPT_OK;
}

spt_status spt_session_save(const spt_session *s, const char *path,
                            spt_error *err)
{
    spt_buf file = {0};
    SPT_TRY(spt_machine_enter(&s->engine->machine, err));
    spt_status status = build(s, &file, err);
    spt_machine_leave(&s->engine->machine);
    if (status == SPT_OK)
        status = spt_file_write(path, file.data, file.size, err);
    spt_buf_free(&file);
    return status;
}

/* A file's parts, all inside its bytes. */
typedef struct parts {
    header h;
    const char *tokens, *pages;
    int n_pages;
} parts;

static spt_status check_sizes(const spt_session *s, const spt_buf *file,
                              const char *path, parts *p, spt_error *err)
{
    const spt_engine *e = s->engine;
    const header *h = &p->h;
    int size = e->options.page_size,
        vocab = spt_model_config_of(e->model)->vocab;
    if (h->n_tokens < 0 || h->n_tokens > e->options.context || h->n_kv < 0 ||
        h->n_kv > h->n_tokens || (h->n_kv == h->n_tokens && h->n_kv > 0))
        return spt_fail(err, SPT_E_USAGE,
                        "%s: %" PRId64 " tokens, expected at most the context "
                        "of %d",
                        path, h->n_tokens, e->options.context);
    p->n_pages = (int)((h->n_kv + size - 1) / size);
    p->tokens = file->data + sizeof *h;
    p->pages = p->tokens + (size_t)h->n_tokens * sizeof(int32_t);
    size_t expected = sizeof *h + (size_t)h->n_tokens * sizeof(int32_t) +
                      (size_t)p->n_pages * (size_t)h->page_bytes + HASH_BYTES;
    if (file->size != expected ||
        h->page_bytes != spt_forward_page_bytes(e->forward))
        return spt_fail(err, SPT_E_FORMAT, "%s: %zu bytes, expected %zu", path,
                        file->size, expected);
    for (int64_t i = 0; i < h->n_tokens; i++) {
        int32_t token;
        memcpy(&token, p->tokens + (size_t)i * sizeof token, sizeof token);
        if (token < 0 || token >= vocab)
            return spt_fail(err, SPT_E_FORMAT, "%s: token %" PRId64 " is %d",
                            path, i, (int)token);
    }
    return SPT_OK;
}

static spt_status check(const spt_session *s, const spt_buf *file,
                        const char *path, parts *p, spt_error *err)
{
    char hash[SPT_SHA256_TEXT], key[KEY_BYTES];
    if (file->size < sizeof p->h + HASH_BYTES ||
        memcmp(file->data, MAGIC, sizeof MAGIC) != 0)
        return spt_fail(err, SPT_E_FORMAT, "%s: is no saved session", path);
    spt_sha256(file->data, file->size - HASH_BYTES, hash);
    if (memcmp(file->data + file->size - HASH_BYTES, hash, HASH_BYTES) != 0)
        return spt_fail(err, SPT_E_FORMAT, "%s: is damaged (SHA-256 differs)",
                        path);
    memcpy(&p->h, file->data, sizeof p->h);
    make_key(s->engine, key);
    if (memcmp(key, p->h.key, KEY_BYTES) != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: is of \"%.200s\", expected "
                        "\"%.200s\"",
                        path, p->h.key, key);
    return check_sizes(s, file, path, p, err);
}

/* The session becomes the file's; on failure it is empty. */
static spt_status restore(spt_session *s, const parts *p, spt_error *err)
{
    spt_sequence *q = &s->sequence;
    spt_page_copy copy;
    s->answering = false;
    spt_sequence_close(q);
    int32_t *tokens = spt_calloc((size_t)p->h.n_tokens + 1, sizeof *tokens);
    if (!tokens)
        return spt_fail(err, SPT_E_MEMORY, "session: out of memory");
    memcpy(tokens, p->tokens, (size_t)p->h.n_tokens * sizeof *tokens);
    spt_status status = spt_sequence_append(q, tokens, (int)p->h.n_tokens, err);
    spt_free(tokens);
    if (status == SPT_OK)
        status = spt_sequence_reserve(q, (int)p->h.n_kv, &copy, err);
    for (int i = 0; i < p->n_pages && status == SPT_OK; i++)
        status = spt_forward_write_page(
            s->engine->forward, q->pages[i],
            p->pages + (size_t)i * (size_t)p->h.page_bytes, err);
    if (status != SPT_OK) {
        spt_sequence_close(q);
        return status;
    }
    spt_sequence_keep(q, (int)p->h.n_kv);
    return SPT_OK;
}

spt_status spt_session_load(spt_session *s, const char *path, spt_error *err)
{
    spt_buf file = {0};
    parts p;
    SPT_TRY(spt_machine_enter(&s->engine->machine, err));
    spt_status status = spt_file_read(path, SIZE_MAX / 2, &file, err);
    if (status == SPT_OK)
        status = check(s, &file, path, &p, err);
    if (status == SPT_OK)
        status = restore(s, &p, err);
    spt_machine_leave(&s->engine->machine);
    spt_buf_free(&file);
    return status;
}
