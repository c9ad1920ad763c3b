/*
 * Weights on their way to the device. One walk over the model places
 * everything in one buffer; done without a forward it only measures, so the
 * estimate can't differ from what is loaded.
 */
#include <string.h>

#include "forward_int.h"
#include "mem.h"

enum { ALIGNMENT = 256 };

typedef struct packer {
    const spt_model *model;
    const spt_model_config *config;
    spt_dtype dtype;
    spt_forward *f; /* NULL: measuring */
    forward_layer *layers; /* to be filled; NULL: not asked for */
    forward_linear *head, *fc;
    uint64_t at; /* bytes placed */
    char *staging; /* what goes to the place next */
    size_t room;
} packer;

/* A place of that many bytes, and staging for its content. */
static spt_status place(packer *p, size_t bytes, CUdeviceptr *address,
                        spt_error *err)
{
    *address = p->at;
    p->at += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!p->f)
        return SPT_OK;
    *address += p->f->buffer[SPT_FORWARD_WEIGHTS];
    if (bytes <= p->room)
        return SPT_OK;
    spt_free(p->staging);
    p->room = 0;
    p->staging = spt_calloc(bytes, 1);
    if (!p->staging)
        return spt_fail(err, SPT_E_MEMORY, "weights: out of memory");
    p->room = bytes;
    return SPT_OK;
}

static spt_status send(const packer *p, CUdeviceptr address, const void *data,
                       size_t bytes, spt_error *err)
{
    return forward_check(p->f, p->f->driver->cuMemcpyHtoD(address, data, bytes),
                         "copy of weights", err);
}

static spt_status tensor_of(const packer *p, spt_role role, int layer,
                            const spt_tensor **out, spt_error *err)
{
    *out = spt_model_tensor(p->model, role, layer);
    if (*out)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT,
                    "model: tensor %d of layer %d is missing", (int)role,
                    layer);
}

/* Vectors one after the other, as floats. */
static spt_status vectors(packer *p, const spt_role *roles, int n, int layer,
                          CUdeviceptr *address, spt_error *err)
{
    const spt_tensor *tensors[3];
    size_t count = 0;
    for (int i = 0; i < n; i++) {
        SPT_TRY(tensor_of(p, roles[i], layer, &tensors[i], err));
        count += (size_t)tensors[i]->cols;
    }
    SPT_TRY(place(p, count * sizeof(float), address, err));
    if (!p->f)
        return SPT_OK;
    float *to = (float *)(void *)p->staging;
    for (int i = 0; i < n; i++) {
        spt_weight_row_f32(tensors[i]->type, tensors[i]->data,
                           (size_t)tensors[i]->cols, to);
        to += tensors[i]->cols;
    }
    return send(p, *address, p->staging, count * sizeof(float), err);
}

static spt_status vector(packer *p, spt_role role, int layer,
                         CUdeviceptr *address, spt_error *err)
{
    return vectors(p, &role, 1, layer, address, err);
}

static spt_status format_of(const spt_tensor *t, spt_linear_format *format,
                            spt_error *err)
{
    if (spt_linear_format_of(t->type, format))
        return SPT_OK;
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "model: %s is %s, which no kernel reads", t->name,
                    spt_weight_format_of(t->type)->name);
}

/* Matrices of one format below each other, or gate and up. */
static spt_status matrices(packer *p, const spt_tensor *const *tensors, int n,
                           bool gated, forward_linear *out, spt_error *err)
{
    spt_linear_part parts[3];
    spt_linear_shape shape = {
        .dtype = p->dtype, .gated = gated, .inputs = tensors[0]->cols};
    SPT_TRY(format_of(tensors[0], &shape.format, err));
    for (int i = 0; i < n; i++) {
        parts[i] = (spt_linear_part){.data = tensors[i]->data,
                                     .type = tensors[i]->type,
                                     .outputs = tensors[i]->rows};
        shape.outputs += gated && i > 0 ? 0 : tensors[i]->rows;
    }
    out->shape = shape;
    size_t bytes = spt_linear_bytes(&shape);
    SPT_TRY(place(p, bytes, &out->weights, err));
    if (!p->f)
        return SPT_OK;
    if (spt_linear_pack(&shape, parts, (size_t)n, p->staging, err) != SPT_OK)
        return spt_fail_in(err, tensors[0]->name);
    return send(p, out->weights, p->staging, bytes, err);
}

static spt_status matrix(packer *p, spt_role role, int layer,
                         forward_linear *out, spt_error *err)
{
    const spt_tensor *tensor;
    SPT_TRY(tensor_of(p, role, layer, &tensor, err));
    return matrices(p, &tensor, 1, false, out, err);
}

static spt_status gate_up(packer *p, int layer, forward_linear *out,
                          spt_error *err)
{
    const spt_tensor *tensors[2];
    spt_linear_format gate, up;
    SPT_TRY(tensor_of(p, SPT_ROLE_GATE, layer, &tensors[0], err));
    SPT_TRY(tensor_of(p, SPT_ROLE_UP, layer, &tensors[1], err));
    SPT_TRY(format_of(tensors[0], &gate, err));
    SPT_TRY(format_of(tensors[1], &up, err));
    if (gate != up)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "model: %s is %s and %s is %s, expected one type",
                        tensors[0]->name, spt_linear_format_name(gate),
                        tensors[1]->name, spt_linear_format_name(up));
    return matrices(p, tensors, 2, true, out, err);
}

/* Q, K and V in as few matrices as their types allow. */
static spt_status qkv(packer *p, int layer, forward_layer *l, spt_error *err)
{
    static const spt_role weights[] = {SPT_ROLE_Q, SPT_ROLE_K, SPT_ROLE_V};
    static const spt_role biases[] = {SPT_ROLE_Q_BIAS, SPT_ROLE_K_BIAS,
                                      SPT_ROLE_V_BIAS};
    const spt_tensor *tensors[3];
    spt_linear_format formats[3];
    for (int i = 0; i < 3; i++) {
        SPT_TRY(tensor_of(p, weights[i], layer, &tensors[i], err));
        SPT_TRY(format_of(tensors[i], &formats[i], err));
    }
    int column = 0;
    l->n_qkv = 0;
    for (int i = 0, n; i < 3; i += n) {
        forward_linear *linear = &l->qkv[l->n_qkv++];
        n = 1;
        while (i + n < 3 && formats[i + n] == formats[i] &&
               tensors[i + n]->type == tensors[i]->type)
            n++;
        linear->column = column;
        SPT_TRY(matrices(p, tensors + i, n, false, linear, err));
        if (p->config->attn_bias)
            SPT_TRY(vectors(p, biases + i, n, layer, &linear->bias, err));
        column += (int)linear->shape.outputs;
    }
    return SPT_OK;
}

static spt_status layer_norms(packer *p, int layer, forward_layer *l,
                              spt_error *err)
{
    SPT_TRY(vector(p, SPT_ROLE_ATTN_NORM, layer, &l->attn_norm, err));
    SPT_TRY(vector(p, SPT_ROLE_FFN_NORM, layer, &l->ffn_norm, err));
    if (p->config->post_norms) {
        SPT_TRY(
            vector(p, SPT_ROLE_POST_ATTN_NORM, layer, &l->post_attn_norm, err));
        SPT_TRY(
            vector(p, SPT_ROLE_POST_FFN_NORM, layer, &l->post_ffn_norm, err));
    }
    if (p->config->qk_norm) {
        SPT_TRY(vector(p, SPT_ROLE_Q_NORM, layer, &l->q_norm, err));
        SPT_TRY(vector(p, SPT_ROLE_K_NORM, layer, &l->k_norm, err));
    }
    if (p->config->head.taps)
        SPT_TRY(vector(p, SPT_ROLE_HIDDEN_NORM, layer, &l->hidden_norm, err));
    return SPT_OK;
}

static spt_status one_layer(packer *p, int layer, forward_layer *l,
                            spt_error *err)
{
    l->window = spt_model_layer_window(p->config, layer);
    SPT_TRY(layer_norms(p, layer, l, err));
    SPT_TRY(qkv(p, layer, l, err));
    SPT_TRY(matrix(p, SPT_ROLE_O, layer, &l->o, err));
    SPT_TRY(gate_up(p, layer, &l->gate_up, err));
    return matrix(p, SPT_ROLE_DOWN, layer, &l->down, err);
}

bool forward_table_packed(const spt_model *model, spt_dtype dtype)
{
    const spt_tensor *t = spt_model_tensor(model, SPT_ROLE_TOKEN_EMBED, 0);
    spt_weight_type own = dtype == SPT_BF16 ? SPT_WEIGHT_BF16 : SPT_WEIGHT_F16;
    bool floats = t && spt_weight_format_of(t->type)->block_weights == 1;
    return t && spt_model_config_of(model)->tied_head &&
           (!floats || t->type == own);
}

/*
 * The table that tokens are looked up in, as the file has it; a tied head that
 * was packed is the table itself.
 */
static spt_status embedding(packer *p, const forward_linear *head,
                            CUdeviceptr *address, spt_error *err)
{
    const spt_tensor *t;
    bool borrowed = p->config->head.taps && !p->config->head.own_embed;
    *address = head->weights;
    if (borrowed || forward_table_packed(p->model, p->dtype))
        return SPT_OK;
    SPT_TRY(tensor_of(p, SPT_ROLE_TOKEN_EMBED, 0, &t, err));
    *address = p->at;
    p->at += (t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!p->f)
        return SPT_OK;
    *address += p->f->buffer[SPT_FORWARD_WEIGHTS];
    return send(p, *address, t->data, t->bytes, err);
}

static spt_status walk(packer *p, spt_error *err)
{
    forward_layer measured = {0};
    forward_linear head = {0}, fc = {0};
    CUdeviceptr table, norm;
    for (int i = 0; i < p->config->layers; i++)
        SPT_TRY(one_layer(p, i, p->layers ? &p->layers[i] : &measured, err));
    SPT_TRY(vector(p, SPT_ROLE_OUTPUT_NORM, 0, &norm, err));
    SPT_TRY(matrix(p, SPT_ROLE_OUTPUT, 0, &head, err));
    head.cap = (float)p->config->final_softcap;
    SPT_TRY(embedding(p, &head, &table, err));
    if (p->config->head.taps)
        SPT_TRY(matrix(p, SPT_ROLE_FC, 0, &fc, err));
    if (p->head)
        *p->head = head;
    if (p->fc)
        *p->fc = fc;
    if (p->f) {
        p->f->embedding = table;
        p->f->output_norm = norm;
    }
    return SPT_OK;
}

spt_status forward_weights_measure(const spt_model *model, spt_dtype dtype,
                                   uint64_t *bytes, spt_error *err)
{
    packer p = {
        .model = model, .config = spt_model_config_of(model), .dtype = dtype};
    SPT_TRY(walk(&p, err));
    *bytes = p.at;
    return SPT_OK;
}

spt_status forward_weights_shapes(spt_forward *f, spt_error *err)
{
    packer p = {.model = f->model,
                .config = f->config,
                .dtype = f->limits.dtype,
                .layers = f->layers,
                .head = &f->head,
                .fc = &f->fc};
    return walk(&p, err);
}

spt_status forward_weights_load(spt_forward *f, spt_error *err)
{
    packer p = {.model = f->model,
                .config = f->config,
                .dtype = f->limits.dtype,
                .f = f,
                .layers = f->layers,
                .head = &f->head,
                .fc = &f->fc};
    spt_status status = walk(&p, err);
    spt_free(p.staging);
    return status;
}
