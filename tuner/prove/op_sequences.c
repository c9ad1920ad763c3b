#include "op_sequences.h"

static size_t page_size_of(const spt_op_case *c)
{
    return (size_t)spt_op_int(c, "page_size");
}

static size_t token_elements_of(const spt_op_case *c)
{
    return (size_t)(spt_op_int(c, "kv_heads") * spt_op_int(c, "head_dim"));
}

/* Tokens of the draft block at a place of the whole: all at first, ragged. */
static size_t tokens_at(const spt_op_case *c, size_t place)
{
    size_t most = (size_t)spt_op_int(c, "tokens");
    return place == 0 ? most
                      : spt_op_random(c, "tokens", place, 0) % (most + 1);
}

static size_t context_at(const spt_op_case *c, size_t place)
{
    return place == 0 ? 0
                      : spt_op_random(c, "context", place, 0) %
                            (SPT_OP_CONTEXT_MAX + 1);
}

static bool is_part(const spt_op_case *c)
{
    return c->rows < (size_t)spt_op_int(c, "rows");
}

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

spt_status spt_op_sequences_make(spt_op_case *c, spt_op_sequences *s,
                                 spt_error *err)
{
    size_t slots = SPT_OP_CONTEXT_MAX + SPT_TREE_NODES, size = page_size_of(c);
    size_t most = (size_t)spt_op_int(c, "tokens"), start = 0;
    *s = (spt_op_sequences){
        .page_slots = size ? size : slots,
        .pages = size ? ceil_div(slots, size) : 1,
        .token_elements = token_elements_of(c),
        .origin =
            spt_arena_alloc(&c->arena, c->rows * most + 1, sizeof(size_t)),
        .tokens = spt_arena_alloc(&c->arena, c->rows + 1, sizeof(size_t)),
        .context = spt_arena_alloc(&c->arena, c->rows + 1, sizeof(size_t)),
    };
    if (!s->origin || !s->tokens || !s->context)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", c->op->name);
    s->places = s->pages * (size_t)spt_op_int(c, "rows");
    for (size_t place = 0; place < c->first; place++)
        start += tokens_at(c, place);
    for (size_t i = 0; i < c->rows; i++) {
        size_t own = tokens_at(c, c->first + i);
        s->tokens[i] = is_part(c) ? (own + 1) / 2 : own;
        s->context[i] = context_at(c, c->first + i);
        for (size_t k = 0; k < s->tokens[i]; k++)
            s->origin[s->n_tokens++] = start + k;
        start += own;
    }
    return SPT_OK;
}

spt_op_buffer *spt_op_sequences_cache(spt_op_case *c, spt_op_sequences *s,
                                      const char *name, spt_element type,
                                      spt_role role, size_t layers)
{
    spt_op_buffer *b =
        spt_op_add(c, name, type, role, false, layers * s->places,
                   s->page_slots * s->token_elements);
    spt_op_spread(c, b);
    b->stride = ceil_div(b->stride, s->token_elements) * s->token_elements;
    s->stride = b->stride;
    return b;
}

static size_t gcd(size_t a, size_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* Page n of all stands at place n * step mod places. */
static size_t page_place(const spt_op_sequences *s, size_t n)
{
    size_t step = s->places / 2 + 1;
    while (gcd(step, s->places) != 1)
        step++;
    return n * step % s->places;
}

static spt_op_buffer *add_array(spt_op_case *c, const char *name,
                                spt_element type, size_t width)
{
    return spt_op_add(c, name, type, SPT_ROLE_IN, false, 1, width);
}

/* Parents stand before their children; a chain without `tree`. */
static void add_tree(spt_op_case *c, const spt_op_sequences *s)
{
    spt_op_buffer *b = add_array(c, "tree", SPT_ELEMENT_U32, s->n_tokens);
    uint32_t masks[SPT_TREE_NODES];
    size_t token = 0;
    for (size_t row = 0; row < c->rows; row++)
        for (size_t i = 0; i < s->tokens[row]; i++, token++) {
            size_t parent = i - 1;
            if (spt_op_int(c, "tree") && i > 1)
                parent = spt_op_random(c, "parent", c->first + row, i) % i;
            masks[i] = (i ? masks[parent] : 0) | UINT32_C(1) << i;
            if (b->rows)
                spt_op_set(b, 0, token, (double)masks[i]);
        }
}

/* Entries past a sequence's last page are wrong on purpose. */
static void add_pages(spt_op_case *c, const spt_op_sequences *s)
{
    spt_op_buffer *b = spt_op_add(c, "page_table", SPT_ELEMENT_I32, SPT_ROLE_IN,
                                  true, c->rows, s->pages);
    b->stride = s->pages + 3; /* 32 bits: never far */
    for (size_t row = 0; row < b->rows; row++)
        for (size_t page = 0; page < s->pages; page++) {
            size_t kv = s->context[row] + s->tokens[row];
            bool used = page * s->page_slots < kv;
            size_t n = (c->first + row) * s->pages + page;
            spt_op_set(b, row, page,
                       used ? (double)page_place(s, n) : (double)INT32_MAX);
        }
}

void spt_op_sequences_add(spt_op_case *c, const spt_op_sequences *s)
{
    spt_op_buffer *start =
        add_array(c, "q_start", SPT_ELEMENT_I32, c->rows + 1);
    spt_op_buffer *length = add_array(c, "kv_len", SPT_ELEMENT_I32, c->rows);
    spt_op_buffer *kv = add_array(c, "kv_start", SPT_ELEMENT_I64, c->rows);
    size_t token = 0;
    for (size_t row = 0; row < c->rows && !c->failed; row++) {
        size_t place = page_place(s, (c->first + row) * s->pages);
        token += s->tokens[row];
        spt_op_set(start, 0, row + 1, (double)token);
        spt_op_set(length, 0, row, (double)(s->context[row] + s->tokens[row]));
        spt_op_set(kv, 0, row,
                   (double)(place * (s->stride / s->token_elements)));
    }
    add_tree(c, s);
    add_pages(c, s);
}

static size_t number(const spt_op_case *c, int shape, int which, size_t i)
{
    return (size_t)spt_op_get(&c->buffers[shape + which], 0, i);
}

size_t spt_op_token(const spt_op_case *c, int shape, size_t s, size_t i)
{
    return number(c, shape, SPT_OP_Q_START, s) + i;
}

size_t spt_op_tokens(const spt_op_case *c, int shape, size_t s)
{
    return spt_op_token(c, shape, s + 1, 0) - spt_op_token(c, shape, s, 0);
}

size_t spt_op_context(const spt_op_case *c, int shape, size_t s)
{
    return number(c, shape, SPT_OP_KV_LEN, s) - spt_op_tokens(c, shape, s);
}

size_t spt_op_position(const spt_op_case *c, int shape, size_t s, size_t i)
{
    size_t token = spt_op_token(c, shape, s, i);
    unsigned bits = (unsigned)number(c, shape, SPT_OP_TREE, token);
    return spt_op_context(c, shape, s) + (size_t)__builtin_popcount(bits) - 1;
}

void spt_op_slot(const spt_op_case *c, int shape, size_t s, size_t slot,
                 size_t *row, size_t *at)
{
    const spt_op_buffer *table = &c->buffers[shape + SPT_OP_PAGE_TABLE];
    size_t size = page_size_of(c);
    *row = (size_t)spt_op_get(table, s, size ? slot / size : 0);
    *at = (size ? slot % size : slot) * token_elements_of(c);
}

spt_op_cache_strides spt_op_cache_strides_of(const spt_op_case *c, int shape,
                                             int cache)
{
    return (spt_op_cache_strides){
        .page = (int64_t)c->buffers[cache].stride,
        .token = (int64_t)token_elements_of(c),
        .head = spt_op_int(c, "head_dim"),
        .table = (int32_t)c->buffers[shape + SPT_OP_PAGE_TABLE].stride,
    };
}
