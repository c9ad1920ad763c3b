/* Rotary and KV append (runtime/kernels/rotary.h) for `spectune prove`. */
#include <math.h>
#include <string.h>

#include "op_sequences.h"
#include "operator.h"
#include "rotary.h"

enum { DIM_MAX = 512 };
enum { Q, K, V, Q_OUT, K_CACHE, V_CACHE, COS_SIN, Q_WEIGHT, K_WEIGHT, SHAPE };

static size_t rotated(const spt_op_case *c)
{
    int64_t given = spt_op_int(c, "rotary_dim");
    return (size_t)(given ? given : spt_op_int(c, "head_dim"));
}

static void add_tokens(spt_op_case *c, const spt_op_sequences *s,
                       const char *name, const char *type, spt_role role,
                       const char *heads)
{
    size_t width = (size_t)(spt_op_int(c, heads) * spt_op_int(c, "head_dim"));
    spt_op_buffer *b = spt_op_add(c, name, spt_element_of(type), role, true,
                                  s->n_tokens, width);
    b->origin = s->origin;
    if (role == SPT_ROLE_IN)
        spt_op_fill(c, b, 2);
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    const char *in = spt_op_text(c, "in_type"), *out = spt_op_text(c, "dtype");
    size_t dim = (size_t)spt_op_int(c, "head_dim"), pairs = rotated(c) / 2;
    spt_op_sequences s;
    SPT_TRY(spt_op_sequences_make(c, &s, err));
    add_tokens(c, &s, "q", in, SPT_ROLE_IN, "q_heads");
    add_tokens(c, &s, "k", in, SPT_ROLE_IN, "kv_heads");
    add_tokens(c, &s, "v", in, SPT_ROLE_IN, "kv_heads");
    add_tokens(c, &s, "q_out", out, SPT_ROLE_OUT, "q_heads");
    spt_op_sequences_cache(c, &s, "k_cache", spt_element_of(out), SPT_ROLE_OUT,
                           1);
    spt_op_sequences_cache(c, &s, "v_cache", spt_element_of(out), SPT_ROLE_OUT,
                           1);
    size_t positions = SPT_OP_CONTEXT_MAX + SPT_TREE_NODES;
    spt_op_buffer *table = spt_op_add(c, "cos_sin", SPT_ELEMENT_F32,
                                      SPT_ROLE_IN, false, positions, 2 * pairs);
    float frequency[DIM_MAX / 2];
    for (size_t pair = 0; pair < pairs; pair++)
        frequency[pair] = (float)pow(1e4, -(double)pair / (double)pairs);
    if (!c->failed)
        spt_rotary_table(frequency, (int)pairs, 1, 0, (int64_t)positions,
                         (float *)table->data);
    for (int i = 0; i < 2; i++)
        spt_op_fill(c,
                    spt_op_add(c, i ? "k_weight" : "q_weight", SPT_ELEMENT_F32,
                               SPT_ROLE_IN, false, 1, dim),
                    1);
    spt_op_sequences_add(c, &s);
    return SPT_OK;
}

/* One head before rotation, with how far off the kernel's numbers may be. */
static void head_numbers(const spt_op_case *c, const spt_op_buffer *in,
                         const spt_op_buffer *weight, size_t token, size_t head,
                         double *x, double *off)
{
    size_t dim = (size_t)spt_op_int(c, "head_dim");
    double offset = spt_op_int(c, "offset") ? 1 : 0, sum = 0;
    for (size_t i = 0; i < dim; i++) {
        x[i] = spt_op_get(in, token, head * dim + i);
        off[i] = 0;
        sum += x[i] * x[i];
    }
    if (!weight || !spt_op_int(c, "qk_norm"))
        return;
    double scale = 1 / sqrt(sum / (double)dim + 1e-6);
    for (size_t i = 0; i < dim; i++) {
        x[i] *= scale * (offset + spt_op_get(weight, 0, i));
        off[i] = fabs(x[i]) * 16 * 0x1p-24;
    }
}

static void rotate(const spt_op_case *c, size_t position, double *x,
                   double *off)
{
    const spt_op_buffer *table = &c->buffers[COS_SIN];
    size_t pairs = rotated(c) / 2;
    bool neox = strcmp(spt_op_text(c, "layout"), "neox") == 0;
    for (size_t i = 0; i < pairs; i++) {
        size_t a = neox ? i : 2 * i, b = neox ? i + pairs : 2 * i + 1;
        double cosine = spt_op_get(table, position, 2 * i);
        double sine = spt_op_get(table, position, 2 * i + 1);
        double was_a = x[a], was_b = x[b], error = off[a] + off[b];
        error += (fabs(was_a) + fabs(was_b)) * 3 * 0x1p-24;
        x[a] = was_a * cosine - was_b * sine;
        x[b] = was_b * cosine + was_a * sine;
        off[a] = off[b] = error;
    }
}

static void expect_token(spt_op_case *c, size_t s, size_t i)
{
    spt_op_buffer *const b = c->buffers;
    double x[DIM_MAX], off[DIM_MAX];
    size_t dim = (size_t)spt_op_int(c, "head_dim");
    size_t heads[3] = {(size_t)spt_op_int(c, "q_heads"),
                       (size_t)spt_op_int(c, "kv_heads"),
                       (size_t)spt_op_int(c, "kv_heads")};
    spt_op_buffer *weights[3] = {&b[Q_WEIGHT], &b[K_WEIGHT], NULL};
    size_t token = spt_op_token(c, SHAPE, s, i);
    for (int part = Q; part <= V; part++)
        for (size_t head = 0; head < heads[part]; head++) {
            head_numbers(c, &b[part], weights[part], token, head, x, off);
            if (part != V)
                rotate(c, spt_op_position(c, SHAPE, s, i), x, off);
            spt_op_buffer *out = &b[part + Q_OUT];
            size_t row = token, at = head * dim;
            if (part != Q)
                spt_op_slot(c, SHAPE, s, spt_op_context(c, SHAPE, s) + i, &row,
                            &at);
            at += part != Q ? head * dim : 0;
            for (size_t k = 0; k < dim; k++)
                spt_op_expect(out, row, at + k, x[k], off[k]);
        }
}

static void reference(spt_op_case *c)
{
    for (size_t s = 0; s < c->rows; s++)
        for (size_t i = 0; i < spt_op_tokens(c, SHAPE, s); i++)
            expect_token(c, s, i);
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_op_buffer *b = c->buffers;
    spt_op_cache_strides strides = spt_op_cache_strides_of(c, SHAPE, K_CACHE);
    const spt_rotary_args args = {
        .q = at[Q],
        .k = at[K],
        .v = at[V],
        .q_out = at[Q_OUT],
        .k_cache = at[K_CACHE],
        .v_cache = at[V_CACHE],
        .page_table = at[SHAPE + SPT_OP_PAGE_TABLE],
        .q_start = at[SHAPE + SPT_OP_Q_START],
        .kv_len = at[SHAPE + SPT_OP_KV_LEN],
        .kv_start = at[SHAPE + SPT_OP_KV_START],
        .tree = at[SHAPE + SPT_OP_TREE],
        .cos_sin = at[COS_SIN],
        .q_weight = at[Q_WEIGHT],
        .k_weight = at[K_WEIGHT],
        .q_stride = (int64_t)b[Q].stride,
        .k_stride = (int64_t)b[K].stride,
        .v_stride = (int64_t)b[V].stride,
        .q_out_stride = (int64_t)b[Q_OUT].stride,
        .kv_page_stride = strides.page,
        .kv_token_stride = strides.token,
        .kv_head_stride = strides.head,
        .page_table_stride = strides.table,
        .q_heads = (int32_t)spt_op_int(c, "q_heads"),
        .kv_heads = (int32_t)spt_op_int(c, "kv_heads"),
        .eps = 1e-6f,
    };
    return spt_rotary_launch(driver, kernel, &args, (int64_t)c->rows,
                             spt_op_int(c, "tokens"), stream, err);
}

const spt_operator spt_op_rotary = {
    .name = "rotary",
    .values = {{"q_heads", 6, 1, 1024, "query heads"},
               {"kv_heads", 2, 1, 1024, "KV heads"},
               SPT_OP_SEQUENCE_VALUES},
    .make = make,
    .reference = reference,
    .launch = launch,
};
