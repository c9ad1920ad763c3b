/* KV compaction (runtime/kernels/kv_compact.h) for `spectune prove`. */
#include "kv_compact.h"
#include "op_sequences.h"

enum { K_CACHE, V_CACHE, CONTEXT, PATH, PATH_LENGTH, SHAPE };

/* Each node of the draft block is on the path with a chance of a half. */
static void add_paths(spt_op_case *c, const spt_op_sequences *s)
{
    spt_op_buffer *context = spt_op_add(c, "context", SPT_ELEMENT_I32,
                                        SPT_ROLE_IN, false, 1, c->rows);
    spt_op_buffer *path = spt_op_add(c, "path", SPT_ELEMENT_I32, SPT_ROLE_IN,
                                     true, c->rows, SPT_TREE_NODES);
    spt_op_buffer *length = spt_op_add(c, "path_length", SPT_ELEMENT_I32,
                                       SPT_ROLE_IN, false, 1, c->rows);
    path->stride = SPT_TREE_NODES + 1;
    for (size_t row = 0; row < c->rows && !c->failed; row++) {
        size_t n = 0;
        for (size_t node = 0; node < s->tokens[row]; node++)
            if (!node || spt_op_random(c, "path", c->first + row, node) & 1)
                spt_op_set(path, row, n++, (double)node);
        spt_op_set(context, 0, row, (double)s->context[row]);
        spt_op_set(length, 0, row, (double)n);
    }
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    spt_op_sequences s;
    size_t layers = (size_t)spt_op_int(c, "layers");
    if (spt_op_int(c, "head_dim") % 8)
        return spt_fail(err, SPT_E_USAGE,
                        "head_dim=%lld: expected a multiple of 8",
                        (long long)spt_op_int(c, "head_dim"));
    SPT_TRY(spt_op_sequences_make(c, &s, err));
    spt_op_fill(c,
                spt_op_sequences_cache(c, &s, "k_cache", SPT_ELEMENT_BF16,
                                       SPT_ROLE_BOTH, layers),
                1);
    spt_op_fill(c,
                spt_op_sequences_cache(c, &s, "v_cache", SPT_ELEMENT_BF16,
                                       SPT_ROLE_BOTH, layers),
                1);
    add_paths(c, &s);
    spt_op_sequences_add(c, &s);
    return SPT_OK;
}

static void expect_move(spt_op_case *c, size_t s, size_t from, size_t to)
{
    size_t layers = (size_t)spt_op_int(c, "layers"), from_row, from_at, row, at;
    size_t token =
        (size_t)(spt_op_int(c, "kv_heads") * spt_op_int(c, "head_dim"));
    spt_op_slot(c, SHAPE, s, from, &from_row, &from_at);
    spt_op_slot(c, SHAPE, s, to, &row, &at);
    for (int cache = K_CACHE; cache <= V_CACHE; cache++) {
        spt_op_buffer *b = &c->buffers[cache];
        size_t places = b->rows / layers;
        for (size_t layer = 0; layer < layers; layer++)
            for (size_t i = 0; i < token; i++)
                spt_op_expect_exactly(
                    b, layer * places + row, at + i,
                    spt_op_get(b, layer * places + from_row, from_at + i));
    }
}

static void reference(spt_op_case *c)
{
    for (size_t s = 0; s < c->rows; s++) {
        size_t length = (size_t)spt_op_get(&c->buffers[PATH_LENGTH], 0, s);
        size_t context = spt_op_context(c, SHAPE, s);
        for (size_t j = 0; j < length; j++) {
            size_t node = (size_t)spt_op_get(&c->buffers[PATH], s, j);
            if (node != j)
                expect_move(c, s, context + node, context + j);
        }
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    spt_op_cache_strides strides = spt_op_cache_strides_of(c, SHAPE, K_CACHE);
    const spt_op_buffer *cache = &c->buffers[K_CACHE];
    int64_t layers = spt_op_int(c, "layers");
    const spt_kv_compact_args args = {
        .k = at[K_CACHE],
        .v = at[V_CACHE],
        .page_table = at[SHAPE + SPT_OP_PAGE_TABLE],
        .kv_start = at[SHAPE + SPT_OP_KV_START],
        .context = at[CONTEXT],
        .path = at[PATH],
        .path_length = at[PATH_LENGTH],
        .layer_stride = (int64_t)cache->rows / layers * (int64_t)cache->stride,
        .kv_page_stride = strides.page,
        .kv_token_stride = strides.token,
        .kv_head_stride = strides.head,
        .page_table_stride = strides.table,
        .path_stride = SPT_TREE_NODES + 1,
        .kv_heads = (int32_t)spt_op_int(c, "kv_heads"),
        .head_dim = (int32_t)spt_op_int(c, "head_dim"),
    };
    return spt_kv_compact_launch(driver, kernel, &args, (int64_t)c->rows,
                                 layers, stream, err);
}

const spt_operator spt_op_kv_compact = {
    .name = "kv_compact",
    .values = {{"kv_heads", 2, 1, 1024, "KV heads"},
               {"head_dim", 64, 8, 1024, "numbers per head"},
               {"layers", 2, 1, 1024, "layers of the cache"},
               SPT_OP_SEQUENCE_VALUES},
    .make = make,
    .reference = reference,
    .launch = launch,
};
