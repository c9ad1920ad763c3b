#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

spt_status spt_problem_set_types(spt_problem *problem, const char *dtype,
                                 const char *kv_dtype, spt_error *err)
{
    const char *kv = kv_dtype ? kv_dtype : dtype;
    if (strcmp(kv, "bf16") != 0 && strcmp(kv, "fp16") != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--kv-dtype %s: expected bf16 or fp16", kv);
    if (strcmp(kv, dtype) != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--kv-dtype %s: expected the type of the queries, %s",
                        kv, dtype);
    problem->dtype = strcmp(kv, "bf16") == 0 ? SPT_BF16 : SPT_FP16;
    return SPT_OK;
}

int spt_problem_rows(const spt_problem *problem)
{
    return problem->q_heads / problem->kv_heads * (1 + problem->draft_length);
}

void spt_problem_text(const spt_problem *p, char *text, int size)
{
    spt_buf buf = {0};
    spt_buf_printf(&buf, "%d/%d d%d %s", p->q_heads, p->kv_heads, p->head_dim,
                   spt_half_name(p->dtype));
    if (p->page_size)
        spt_buf_printf(&buf, " page %d", p->page_size);
    spt_buf_printf(&buf, " D %d %s batch %d context ", p->draft_length,
                   p->tree ? "tree" : "chain", p->batch);
    for (int i = 0; i < p->n_contexts; i++)
        spt_buf_printf(&buf, "%s%d", i ? "," : "", p->contexts[i]);
    if (p->window)
        spt_buf_printf(&buf, " window %d", p->window);
    if (p->softcap > 0)
        spt_buf_printf(&buf, " softcap %g", p->softcap);
    spt_buf_puts(&buf, p->sinks ? " sinks" : "");
    spt_buf_puts(&buf, p->far ? " far" : "");
    snprintf(text, (size_t)size, "%s", buf.failed ? "?" : buf.data);
    spt_buf_free(&buf);
}

/* splitmix64: each call gives the next number of the sequence. */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Sum of four uniform numbers: bell-shaped, variance 1. */
static float random_normal(uint64_t *state)
{
    uint64_t bits = random_bits(state);
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (int)(bits >> 16 * i & 0xffff);
    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

static void fill_normal(uint16_t *data, size_t count, spt_dtype dtype,
                        float scale, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        data[i] = spt_half_from_float(dtype, scale * random_normal(state));
}

/* Small integers, so that sums of thousands are exact. */
static void fill_integers(uint16_t *data, size_t count, spt_dtype dtype,
                          uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        data[i] = spt_half_from_float(
            dtype, (float)((int)(random_bits(state) % 31) - 15));
}

static int block_tokens(const spt_problem *p, int s)
{
    int full = 1 + p->draft_length;
    if (s == 0)
        return full;
    if (p->batch >= 4 && s % 3 == 2)
        return 0;
    return 1 + (int)((unsigned)s * 5 % (unsigned)full);
}

static size_t head_elements(const spt_problem *p)
{
    return (size_t)p->kv_heads * (size_t)p->head_dim;
}

static spt_status instance_alloc(spt_instance *in, spt_error *err)
{
    const spt_problem *p = &in->problem;
    size_t tokens = (size_t)in->n_tokens;
    size_t slots = (size_t)in->kv_first[in->batch];
    in->tree = spt_calloc(tokens, sizeof *in->tree);
    in->q = spt_calloc(tokens * (size_t)p->q_heads * (size_t)p->head_dim, 2);
    in->k = spt_calloc(slots * head_elements(p), 2);
    in->v = spt_calloc(slots * head_elements(p), 2);
    in->sinks = spt_calloc((size_t)p->q_heads, sizeof *in->sinks);
    if (!in->tree || !in->q || !in->k || !in->v || !in->sinks)
        return spt_fail(err, SPT_E_MEMORY, "problem: out of memory");
    return SPT_OK;
}

/* Sizes of an instance with the given contexts and tokens. */
static spt_status instance_shape(spt_instance *in, const spt_problem *problem,
                                 int batch, const int *context,
                                 const int *tokens, spt_error *err)
{
    *in = (spt_instance){.problem = *problem, .batch = batch};
    in->context = spt_calloc((size_t)batch, sizeof *in->context);
    in->q_start = spt_calloc((size_t)batch + 1, sizeof *in->q_start);
    in->kv_first = spt_calloc((size_t)batch + 1, sizeof *in->kv_first);
    if (!in->context || !in->q_start || !in->kv_first) {
        spt_instance_free(in);
        return spt_fail(err, SPT_E_MEMORY, "problem: out of memory");
    }
    for (int s = 0; s < batch; s++) {
        in->context[s] = context[s];
        in->q_start[s + 1] = in->q_start[s] + tokens[s];
        in->kv_first[s + 1] = in->kv_first[s] + context[s] + tokens[s];
    }
    in->n_tokens = in->q_start[batch];
    spt_status status = instance_alloc(in, err);
    if (status != SPT_OK)
        spt_instance_free(in);
    return status;
}

/* Chains, or random trees whose parents stand before their children. */
static void fill_tree(spt_instance *in, uint64_t *state)
{
    for (int s = 0; s < in->batch; s++) {
        uint32_t *tree = in->tree + in->q_start[s];
        for (int i = 0; i < spt_instance_tokens(in, s); i++) {
            int parent = i - 1;
            if (in->problem.tree && i > 1)
                parent = (int)(random_bits(state) % (unsigned)i);
            tree[i] = (i ? tree[parent] : 0) | UINT32_C(1) << i;
        }
    }
}

spt_status spt_instance_make(const spt_problem *p, spt_instance *in,
                             spt_error *err)
{
    int *shape = spt_calloc((size_t)p->batch * 2 + 1, sizeof *shape);
    if (!shape)
        return spt_fail(err, SPT_E_MEMORY, "problem: out of memory");
    int *context = shape, *tokens = shape + p->batch;
    for (int s = 0; s < p->batch; s++) {
        context[s] = p->contexts[s % p->n_contexts];
        tokens[s] = block_tokens(p, s);
    }
    spt_status status = instance_shape(in, p, p->batch, context, tokens, err);
    spt_free(shape);
    SPT_TRY(status);
    uint64_t state = p->seed * 0x2545f4914f6cdd1du + 1;
    fill_tree(in, &state);
    size_t q = (size_t)in->n_tokens * (size_t)p->q_heads * (size_t)p->head_dim;
    size_t kv = (size_t)in->kv_first[in->batch] * head_elements(p);
    if (p->fill == SPT_FILL_EQUAL) {
        fill_integers(in->v, kv, p->dtype, &state);
    } else {
        fill_normal(in->q, q, p->dtype, 1.5f, &state);
        fill_normal(in->k, kv, p->dtype, 1.0f, &state);
        fill_normal(in->v, kv, p->dtype, 1.0f, &state);
    }
    for (int h = 0; h < p->q_heads; h++)
        in->sinks[h] = p->fill == SPT_FILL_EQUAL ? 0 : random_normal(&state);
    return SPT_OK;
}

spt_status spt_instance_cut(const spt_instance *from, int first, int count,
                            int tokens, spt_instance *in, spt_error *err)
{
    const spt_problem *p = &from->problem;
    int *shape = spt_calloc((size_t)count + 1, sizeof *shape);
    if (!shape)
        return spt_fail(err, SPT_E_MEMORY, "problem: out of memory");
    for (int s = 0; s < count; s++) {
        int own = spt_instance_tokens(from, first + s);
        shape[s] = tokens && tokens < own ? tokens : own;
    }
    spt_status status =
        instance_shape(in, p, count, from->context + first, shape, err);
    spt_free(shape);
    SPT_TRY(status);
    size_t q_token = (size_t)p->q_heads * (size_t)p->head_dim;
    for (int s = 0; s < count; s++) {
        size_t own = (size_t)spt_instance_tokens(in, s);
        size_t to = (size_t)in->q_start[s];
        size_t at = (size_t)from->q_start[first + s];
        size_t slots = (size_t)in->context[s] + own;
        size_t kv_to = (size_t)in->kv_first[s] * head_elements(p);
        size_t kv_at = (size_t)from->kv_first[first + s] * head_elements(p);
        memcpy(in->tree + to, from->tree + at, own * sizeof *in->tree);
        memcpy(in->q + to * q_token, from->q + at * q_token, own * q_token * 2);
        memcpy(in->k + kv_to, from->k + kv_at, slots * head_elements(p) * 2);
        memcpy(in->v + kv_to, from->v + kv_at, slots * head_elements(p) * 2);
    }
    memcpy(in->sinks, from->sinks, (size_t)p->q_heads * sizeof *in->sinks);
    return SPT_OK;
}

spt_status spt_instance_single(const spt_instance *from, int s, int i,
                               spt_instance *in, spt_error *err)
{
    spt_problem problem = from->problem;
    problem.tree = false;
    uint32_t path = from->tree[from->q_start[s] + i];
    int context = from->context[s];
    int depth = __builtin_popcount(path) - 1;
    int longer = context + depth, one = 1;
    SPT_TRY(instance_shape(in, &problem, 1, &longer, &one, err));
    size_t q_token = (size_t)problem.q_heads * (size_t)problem.head_dim;
    memcpy(in->q, from->q + (size_t)(from->q_start[s] + i) * q_token,
           q_token * 2);
    in->tree[0] = 1;
    size_t slot = head_elements(&problem);
    size_t base = (size_t)from->kv_first[s] * slot;
    memcpy(in->k, from->k + base, (size_t)context * slot * 2);
    memcpy(in->v, from->v + base, (size_t)context * slot * 2);
    size_t to = (size_t)context;
    for (int node = 0; node < SPT_NODES_MAX; node++) {
        if (!(path >> node & 1))
            continue;
        size_t at = base + ((size_t)context + (size_t)node) * slot;
        memcpy(in->k + to * slot, from->k + at, slot * 2);
        memcpy(in->v + to * slot, from->v + at, slot * 2);
        to++;
    }
    memcpy(in->sinks, from->sinks, (size_t)problem.q_heads * sizeof(float));
    return SPT_OK;
}

/* The first position that a window leaves to the anchor alone, or -1. */
static int window_start(const spt_instance *in)
{
    int window = in->problem.window;
    int first = in->context[0] - window + 1;
    return window && first >= 0 && first < in->context[0] ? first : -1;
}

static void break_slot(spt_instance *in, int slot)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    size_t count = head_elements(&in->problem);
    size_t at = ((size_t)in->kv_first[0] + (size_t)slot) * count;
    for (size_t i = 0; i < count; i++) {
        in->k[at + i] = spt_half_from_float(in->problem.dtype, bad[i % 3]);
        in->v[at + i] = spt_half_from_float(in->problem.dtype, bad[i / 3 % 3]);
    }
}

void spt_instance_break(spt_instance *in)
{
    break_slot(in, in->context[0] + spt_instance_tokens(in, 0) - 1);
    if (window_start(in) >= 0)
        break_slot(in, window_start(in));
}

bool spt_instance_sees_broken(const spt_instance *in, int token)
{
    int last = spt_instance_tokens(in, 0) - 1;
    return (in->tree[token] >> last & 1) ||
           (window_start(in) >= 0 && spt_instance_depth(in, token) == 0);
}

void spt_instance_free(spt_instance *in)
{
    spt_free(in->context);
    spt_free(in->q_start);
    spt_free(in->kv_first);
    spt_free(in->tree);
    spt_free(in->q);
    spt_free(in->k);
    spt_free(in->v);
    spt_free(in->sinks);
    *in = (spt_instance){0};
}

int spt_instance_depth(const spt_instance *in, int token)
{
    return __builtin_popcount(in->tree[token]) - 1;
}

int spt_instance_visible(const spt_instance *in, int s, int token)
{
    int all = in->context[s] + spt_instance_depth(in, token) + 1;
    int window = in->problem.window;
    return window && window < all ? window : all;
}
