/*
 * The kernel changes each row of a draft block as the host changes the logits
 * of the text that leads to the row: any reach, trees, drafts that push the
 * text out of it and themselves too.
 */
#include <math.h>
#include <string.h>

#include "adjuster.h"
#include "sim_kernels.h"

enum { VOCAB = 23, TEXT = 40, BLOCKS = 300, NODES = SPT_TREE_NODES };

static spt_error err;
static spt_machine machine;
static uint64_t state = 1;

static uint64_t next(void)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return state >> 33;
}

/* A draft block after a text. */
typedef struct block {
    spt_sampling options;
    spt_logit_bias bias[3];
    int32_t text[TEXT], draft[NODES], parent[NODES];
    int count, nodes;
    float logits[NODES][VOCAB];
} block;

static double any_of(const double *values, size_t count)
{
    return values[next() % count];
}

static void make_options(block *b)
{
    static const double repeats[] = {0, 1, 1.1, 0.8, 1.5};
    static const double others[] = {0, 0.7, -0.3, 0.1};
    static const int reaches[] = {0, -1, 1, 3, 5, 17, 30, 45};
    b->options = (spt_sampling){.repeat_penalty = any_of(repeats, 5),
                                .presence_penalty = any_of(others, 4),
                                .frequency_penalty = any_of(others, 4),
                                .penalty_tokens = reaches[next() % 8],
                                .bias = b->bias,
                                .n_bias = next() % 4};
    for (int i = 0; i < 3; i++)
        b->bias[i] = (spt_logit_bias){(int32_t)(next() % VOCAB),
                                      i == 2 ? -INFINITY : 0.37f};
}

static void make_block(block *b)
{
    bool chain = next() % 3 == 0;
    make_options(b);
    b->count = 1 + (int)(next() % TEXT);
    b->nodes = 1 + (int)(next() % NODES);
    for (int i = 0; i < TEXT; i++)
        b->text[i] = (int32_t)(next() % VOCAB);
    for (int i = 0; i < b->nodes; i++) {
        b->draft[i] = (int32_t)(next() % VOCAB);
        b->parent[i] = chain || !i ? i - 1 : (int32_t)(next() % (unsigned)i);
        for (int j = 0; j < VOCAB; j++)
            b->logits[i][j] = (float)next() * 0x1p-28f - 4;
        b->logits[i][next() % VOCAB] = NAN;
        b->logits[i][next() % VOCAB] = INFINITY;
        b->logits[i][next() % VOCAB] = -INFINITY;
    }
}

/* The text and the drafts on the way to the node; how many tokens. */
static int text_to(const block *b, int node, int32_t *text)
{
    int depth = 0;
    for (int i = node; i > 0; i = b->parent[i])
        depth++;
    memcpy(text, b->text, (size_t)b->count * sizeof *text);
    for (int i = node, at = b->count + depth; i > 0; i = b->parent[i])
        text[--at] = b->draft[i];
    return b->count + depth;
}

static CUdeviceptr put(const void *data, size_t bytes)
{
    CUdeviceptr at = 0;
    machine.driver.cuMemAlloc(&at, bytes + 16);
    machine.driver.cuMemcpyHtoD(at, data, bytes);
    return at;
}

/* The kernel on all rows, then once more to put them back. */
static void run_kernel(const spt_function *kernel, const block *b,
                       const spt_adjustment *a, float (*out)[VOCAB],
                       float (*restored)[VOCAB])
{
    static int32_t data[VOCAB * 3 + NODES * SPT_ADJUST_CHANGES];
    spt_adjust_row rows[NODES];
    const spt_driver *d = &machine.driver;
    size_t entries = (size_t)a->list.count * 3, bytes = sizeof b->logits;
    int changes = a->start[b->nodes];
    memcpy(data, a->entries, entries * sizeof *data);
    memcpy(data + entries, a->changes, (size_t)changes * sizeof *data);
    for (int i = 0; i < b->nodes; i++)
        rows[i] = (spt_adjust_row){i, 0, (int32_t)entries + a->start[i],
                                   a->start[i + 1] - a->start[i]};
    CUdeviceptr at[] = {put(b->logits, bytes), put(&a->list, sizeof a->list),
                        put(rows, sizeof rows), put(data, sizeof data),
                        put(b->logits, bytes)};
    spt_adjust_args args = {.logits = at[0],
                            .lists = at[1],
                            .rows = at[2],
                            .data = at[3],
                            .kept = at[4],
                            .logits_stride = VOCAB,
                            .kept_stride = VOCAB};
    spt_adjust_launch(d, kernel, &args, b->nodes, NULL, &err);
    d->cuMemcpyDtoH(out, at[0], bytes);
    args.restore = 1;
    spt_adjust_launch(d, kernel, &args, b->nodes, NULL, &err);
    d->cuMemcpyDtoH(restored, at[0], bytes);
    for (int i = 0; i < 5; i++)
        d->cuMemFree(at[i]);
}

static bool same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Rows of the block that are not the host's. */
static int compare(const spt_function *kernel, const block *b, int *restored)
{
    static float out[NODES][VOCAB], back[NODES][VOCAB];
    spt_adjuster *adjuster = NULL;
    spt_adjustment a;
    int wrong = 0;
    if (spt_adjuster_open(&b->options, VOCAB, &adjuster, &err) != SPT_OK)
        return 1;
    if (!adjuster)
        return 0;
    if (!spt_adjuster_block(adjuster, b->text, b->count, b->draft, b->parent,
                            b->nodes, &a))
        wrong++;
    run_kernel(kernel, b, &a, out, back);
    for (int i = 0; i < b->nodes; i++) {
        int32_t text[TEXT + NODES];
        int count = text_to(b, i, text), off = 0;
        const float *host =
            spt_adjuster_apply(adjuster, b->logits[i], text, count);
        for (int j = 0; j < VOCAB; j++)
            off += !same(host[j], out[i][j]);
        wrong += off > 0;
        *restored += memcmp(back[i], b->logits[i], sizeof back[i]) == 0;
    }
    spt_adjuster_close(adjuster);
    return wrong;
}

static void test_blocks(const spt_function *kernel)
{
    static block b;
    int wrong = 0, rows = 0, restored = 0;
    for (int i = 0; i < BLOCKS; i++) {
        int before = restored;
        make_block(&b);
        wrong += compare(kernel, &b, &restored);
        rows += restored > before ? b.nodes : 0;
    }
    CHECK_INT(wrong, 0, "host and kernel change rows alike");
    CHECK_INT(restored, rows, "and the kernel puts all of them back");
    CHECK(rows > 10 * BLOCKS, "there are many");
}

static void test_limits(void)
{
    enum { LARGE = 2 * SPT_ADJUST_ENTRIES };
    static int32_t text[LARGE];
    const spt_sampling nothing = {.repeat_penalty = 1, .penalty_tokens = -1};
    const spt_sampling all = {.presence_penalty = 1, .penalty_tokens = -1};
    spt_adjuster *adjuster = NULL;
    spt_adjustment a;
    CHECK(spt_adjuster_open(&nothing, LARGE, &adjuster, &err) == SPT_OK &&
              !adjuster,
          "what changes nothing has no list");
    for (int i = 0; i < LARGE; i++)
        text[i] = i;
    spt_adjuster_open(&all, LARGE, &adjuster, &err);
    CHECK(spt_adjuster_block(adjuster, text, SPT_ADJUST_ENTRIES, NULL, NULL, 1,
                             &a) &&
              a.list.count == SPT_ADJUST_ENTRIES,
          "a list as long as kernels take it");
    CHECK(!spt_adjuster_block(adjuster, text, SPT_ADJUST_ENTRIES + 1, NULL,
                              NULL, 1, &a),
          "a longer one is the host's");
    CHECK(spt_adjuster_block(adjuster, text, 3, NULL, NULL, 1, &a) &&
              a.list.count == 3,
          "and is forgotten afterwards");
    spt_adjuster_close(adjuster);
}

int main(void)
{
    sim_kernels sim = {0};
    spt_kernel_set *set = NULL;
    const spt_kernel_request request = {.template_name = "adjust"};
    bool good = sim_kernels_open(&sim, &machine);
    const spt_kernel_source source = sim_kernels_source(&sim, &machine);
    if (good && CHECK_OK(spt_kernel_set_open(&source, &request, 1, &set, &err),
                         &err, "the kernel"))
        test_blocks(spt_kernel_set_at(set, 0));
    test_limits();
    spt_kernel_set_close(set);
    if (good)
        spt_machine_close(&machine);
    sim_kernels_close(&sim);
    return check_done();
}
