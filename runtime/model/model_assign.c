/* Tensors of the files become the tensors of the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_int.h"

typedef enum dim {
    DIM_ONE,
    DIM_VOCAB,
    DIM_TOKENS,
    DIM_HIDDEN,
    DIM_IN,
    DIM_TAPS,
    DIM_FFN,
    DIM_HEAD_DIM,
    DIM_Q_WIDTH,
    DIM_KV_WIDTH,
} dim;

typedef enum per { PER_MODEL, PER_LAYER } per;

typedef enum when {
    WHEN_ALWAYS,
    WHEN_EMBED,
    WHEN_HEAD,
    WHEN_BIAS,
    WHEN_QK_NORM,
    WHEN_POST_NORMS,
    WHEN_TAPS,
} when;

static const struct role_row {
    per per;
    when when;
    const char *gguf, *hf, *hf_post;
    dim rows, cols;
} roles[SPT_ROLES] = {
#define SPT_ROLE(NAME, per, when, gguf, hf, hf_post, rows, cols) \
    {PER_##per, WHEN_##when, gguf, hf, hf_post, DIM_##rows, DIM_##cols},
#include "model_roles.def"
#undef SPT_ROLE
};

static uint64_t size_of(const spt_model_config *c, dim d)
{
    uint64_t hidden = (uint64_t)c->hidden, taps = (uint64_t)c->head.taps;
    const uint64_t sizes[] = {
        [DIM_ONE] = 1,
        [DIM_VOCAB] = (uint64_t)c->vocab,
        [DIM_TOKENS] = (uint64_t)(taps ? c->head.target_vocab : c->vocab),
        [DIM_HIDDEN] = hidden,
        [DIM_IN] = taps ? 2 * hidden : hidden,
        [DIM_TAPS] = taps * (uint64_t)c->head.target_hidden,
        [DIM_FFN] = (uint64_t)c->ffn,
        [DIM_HEAD_DIM] = (uint64_t)c->head_dim,
        [DIM_Q_WIDTH] = (uint64_t)c->q_heads * (uint64_t)c->head_dim,
        [DIM_KV_WIDTH] = (uint64_t)c->kv_heads * (uint64_t)c->head_dim,
    };
    return sizes[d];
}

static bool wanted(const spt_model_config *c, when w)
{
    const bool rows[] = {
        [WHEN_ALWAYS] = true,
        [WHEN_EMBED] = !c->head.taps || c->head.own_embed,
        [WHEN_HEAD] = !c->tied_head,
        [WHEN_BIAS] = c->attn_bias,
        [WHEN_QK_NORM] = c->qk_norm,
        [WHEN_POST_NORMS] = c->post_norms,
        [WHEN_TAPS] = c->head.taps > 0,
    };
    return rows[w];
}

enum { NAME_ROOM = 96 };

/* The name of a head's tensor in published way `way`; false: there are not so
   many ways. */
static bool head_name(spt_role role, int way, char name[NAME_ROOM])
{
    static const char *const before[][4] = {
        [PER_MODEL] = {"", "model."},
        [PER_LAYER] = {"midlayer.", "layers.0.", "model.layers.0."},
    };
    static const char own[] = "model.";
    const struct role_row *row = &roles[role];
    const char *tail = row->hf, *prefix = before[row->per][way];
    if (strncmp(tail, own, sizeof own - 1) == 0)
        tail += sizeof own - 1;
    if (prefix)
        snprintf(name, NAME_ROOM, "%s%s", prefix, tail);
    return prefix;
}

static void role_name(const spt_model *model, spt_role role, int layer,
                      char name[NAME_ROOM])
{
    const struct role_row *row = &roles[role];
    bool hf = model->folder != NULL;
    const char *tail = !hf                        ? row->gguf
                       : model->config.post_norms ? row->hf_post
                                                  : row->hf;
    if (row->per == PER_MODEL)
        snprintf(name, NAME_ROOM, "%s", tail);
    else
        snprintf(name, NAME_ROOM, hf ? "model.layers.%d.%s" : "blk.%d.%s",
                 layer, tail);
}

static int by_name(const void *a, const void *b)
{
    return spt_text_compare(((const file_tensor *)a)->name,
                            ((const file_tensor *)b)->name);
}

file_tensor *spt_model_find(const spt_model *model, const char *name)
{
    file_tensor wanted_one = {.name = {name, strlen(name)}};
    return model->file_count
               ? bsearch(&wanted_one, model->files, model->file_count,
                         sizeof wanted_one, by_name)
               : NULL;
}

/* The tensor of a role and its name; NULL: the name that is expected. */
static file_tensor *find_role(const spt_model *model, spt_role role, int layer,
                              char name[NAME_ROOM])
{
    file_tensor *t = NULL;
    if (!model->config.head.taps) {
        role_name(model, role, layer, name);
        return spt_model_find(model, name);
    }
    for (int way = 0; !t && head_name(role, way, name); way++)
        t = spt_model_find(model, name);
    if (!t)
        head_name(role, 0, name);
    return t;
}

bool spt_model_has(const spt_model *model, spt_role role)
{
    char name[NAME_ROOM];
    return find_role(model, role, 0, name) != NULL;
}

static spt_status check_shape(const spt_model *model, const file_tensor *t,
                              const char *name, uint64_t rows, uint64_t cols,
                              spt_error *err)
{
    if (!t->plain || t->rows != rows || t->cols != cols)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: tensor %s is %" PRIu64 " x %" PRIu64
                        "%s, expected %" PRIu64 " x %" PRIu64,
                        model->path, name, t->rows, t->cols,
                        t->plain ? "" : " x ...", rows, cols);
    if (t->type >= SPT_WEIGHT_TYPES || !spt_weight_format_of(t->type)->decodes)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: tensor %s is stored as %s, which no kernel reads",
                        model->path, name, t->format);
    if (cols % (uint64_t)spt_weight_format_of(t->type)->block_weights)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: tensor %s has rows of %" PRIu64
                        " weights, which are no whole blocks of %s",
                        model->path, name, cols, t->format);
    return SPT_OK;
}

static spt_status assign(spt_model *model, spt_role role, int layer,
                         spt_tensor *out, spt_error *err)
{
    const spt_model_config *c = &model->config;
    char name[NAME_ROOM];
    file_tensor *t = find_role(model, role, layer, name);
    if (!t)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: tensor %s is missing (architecture %s)",
                        model->path, name, c->architecture);
    uint64_t rows = size_of(c, roles[role].rows);
    uint64_t cols = size_of(c, roles[role].cols);
    SPT_TRY(check_shape(model, t, name, rows, cols, err));
    *out = (spt_tensor){
        .name = spt_arena_strdup(&model->arena, name, strlen(name)),
        .type = t->type,
        .rows = (int)rows,
        .cols = (int)cols,
        .row_bytes = (size_t)spt_weight_bytes(t->type, cols),
        .bytes = (size_t)t->bytes,
        .data = t->data,
    };
    if (!out->name)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    t->used = true;
    model->weight_bytes += t->bytes;
    return SPT_OK;
}

/* The vocabulary is as large as the embedding; the head may be its own. */
static spt_status settle_vocab(spt_model *model, spt_error *err)
{
    spt_model_config *c = &model->config;
    char name[NAME_ROOM];
    role_name(model, SPT_ROLE_TOKEN_EMBED, 0, name);
    const file_tensor *embed = spt_model_find(model, name);
    if (embed && embed->rows > (1 << 24))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: tensor %s has %" PRIu64 " rows, expected at most "
                        "%d",
                        model->path, name, embed->rows, 1 << 24);
    if (embed && !c->vocab)
        c->vocab = (int)embed->rows;
    role_name(model, SPT_ROLE_OUTPUT, 0, name);
    file_tensor *head = spt_model_find(model, name);
    if (!model->folder)
        c->tied_head = !head;
    else if (head && c->tied_head)
        head->used = true; /* a copy of the embedding that some files carry */
    return SPT_OK;
}

static spt_status sort_files(spt_model *model, spt_error *err)
{
    if (model->file_count)
        qsort(model->files, model->file_count, sizeof *model->files, by_name);
    for (size_t i = 1; i < model->file_count; i++)
        if (by_name(&model->files[i - 1], &model->files[i]) == 0)
            return spt_fail(err, SPT_E_FORMAT, "%s: tensor %s is there twice",
                            model->path,
                            spt_text_show(model->files[i].name).text);
    return SPT_OK;
}

static spt_status check_used(const spt_model *model, spt_error *err)
{
    for (size_t i = 0; i < model->file_count; i++)
        if (!model->files[i].used)
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: tensor %s has no place in the architecture %s",
                            model->path,
                            spt_text_show(model->files[i].name).text,
                            model->config.architecture);
    return SPT_OK;
}

spt_status spt_model_assign(spt_model *model, spt_error *err)
{
    const spt_model_config *c = &model->config;
    SPT_TRY(sort_files(model, err));
    SPT_TRY(c->head.taps ? spt_model_head_tensors(model, err)
                         : settle_vocab(model, err));
    model->layers = spt_arena_alloc(
        &model->arena, (size_t)c->layers * SPT_ROLES, sizeof *model->layers);
    if (!model->layers)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    for (int r = 0; r < SPT_ROLES; r++) {
        if (!wanted(c, roles[r].when))
            continue;
        int count = roles[r].per == PER_MODEL ? 1 : c->layers;
        for (int l = 0; l < count; l++)
            SPT_TRY(assign(model, (spt_role)r, l,
                           roles[r].per == PER_MODEL
                               ? &model->own[r]
                               : &model->layers[l * SPT_ROLES + r],
                           err));
    }
    return check_used(model, err);
}

const spt_tensor *spt_model_tensor(const spt_model *model, spt_role role,
                                   int layer)
{
    if (role == SPT_ROLE_OUTPUT && model->config.tied_head)
        role = SPT_ROLE_TOKEN_EMBED;
    const spt_tensor *t = roles[role].per == PER_MODEL
                              ? &model->own[role]
                              : &model->layers[layer * SPT_ROLES + (int)role];
    return t->data ? t : NULL;
}
