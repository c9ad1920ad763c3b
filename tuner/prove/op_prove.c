/*
 * The proof of an operator's kernels: buffers laid out between guards, results
 * poisoned, every part launched and compared.
 */
#include <string.h>

#include "operator.h"

enum { GUARD_BYTES = 256, POISON = 0xff, PARTS = 4 };

/* A launch's results, one packed (rows, width) per buffer. */
typedef struct outcome {
    spt_arena arena;
    char *got[SPT_OP_BUFFERS];
} outcome;

/* A kernel that is loaded, with its config. */
typedef struct proved {
    spt_function function;
    const spt_config *config;
} proved;

/* Device memory of one launch. */
typedef struct layout {
    const spt_driver *driver;
    const spt_op_case *c;
    CUdeviceptr base[SPT_OP_BUFFERS]; /* of the allocations */
    CUdeviceptr at[SPT_OP_BUFFERS]; /* of the first rows */
} layout;

static spt_status check(const layout *l, CUresult result, const char *what,
                        spt_error *err)
{
    return spt_driver_check(l->driver, result, what, err);
}

static size_t row_bytes(const spt_op_buffer *b)
{
    return b->width * spt_element_bytes(b->type);
}

static size_t stride_bytes(const spt_op_buffer *b)
{
    return b->stride * spt_element_bytes(b->type);
}

static size_t buffer_bytes(const spt_op_buffer *b)
{
    return b->rows * stride_bytes(b);
}

/*
 * What is poisoned and checked of a buffer and its guards: all of it, or where
 * rows stand far apart a window around each.
 */
static bool far_apart(const spt_op_buffer *b)
{
    return stride_bytes(b) - row_bytes(b) >= 2 * GUARD_BYTES;
}

static size_t window_count(const spt_op_buffer *b)
{
    return far_apart(b) ? b->rows : 1;
}

static size_t window_bytes(const spt_op_buffer *b)
{
    return (far_apart(b) ? row_bytes(b) : buffer_bytes(b)) + 2 * GUARD_BYTES;
}

static spt_status poison(const layout *l, int i, spt_error *err)
{
    const spt_op_buffer *b = &l->c->buffers[i];
    for (size_t w = 0; w < window_count(b); w++)
        SPT_TRY(check(l,
                      l->driver->cuMemsetD8(l->base[i] + w * stride_bytes(b),
                                            POISON, window_bytes(b)),
                      "cuMemsetD8", err));
    return SPT_OK;
}

/* Inputs of sim keep what no row covers unwritten, so that it is reported. */
static spt_status lay_out(layout *l, int i, spt_error *err)
{
    const spt_op_buffer *b = &l->c->buffers[i];
    SPT_TRY(check(
        l,
        l->driver->cuMemAlloc(&l->base[i], buffer_bytes(b) + 2 * GUARD_BYTES),
        "cuMemAlloc", err));
    l->at[i] = l->base[i] + GUARD_BYTES;
    if (b->role != SPT_ROLE_IN || !l->driver->is_sim)
        SPT_TRY(poison(l, i, err));
    for (size_t row = 0; b->role != SPT_ROLE_OUT && row < b->rows; row++)
        SPT_TRY(check(l,
                      l->driver->cuMemcpyHtoD(l->at[i] + row * stride_bytes(b),
                                              b->data + row * row_bytes(b),
                                              row_bytes(b)),
                      "cuMemcpyHtoD", err));
    return SPT_OK;
}

static bool poisoned(const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)data[i] != POISON)
            return false;
    return true;
}

/* Rows of one window to `rows`; what lies around them must be poison. */
static bool take_window(const spt_op_buffer *b, const char *window, char *rows)
{
    size_t count = far_apart(b) ? 1 : b->rows, last = 0;
    bool clean = true;
    for (size_t row = 0; row < count; row++) {
        size_t at = GUARD_BYTES + row * stride_bytes(b);
        clean = clean && poisoned(window + last, at - last);
        memcpy(rows + row * row_bytes(b), window + at, row_bytes(b));
        last = at + row_bytes(b);
    }
    return clean && poisoned(window + last, window_bytes(b) - last);
}

static spt_status fetch(const layout *l, int i, outcome *out, spt_proof *proof,
                        spt_error *err)
{
    const spt_op_buffer *b = &l->c->buffers[i];
    out->got[i] = spt_arena_alloc(&out->arena, b->rows + 1, row_bytes(b));
    char *window = spt_calloc(window_bytes(b), 1);
    spt_status status = SPT_OK;
    if (!out->got[i] || !window)
        status = spt_fail(err, SPT_E_MEMORY, "proof: out of memory");
    for (size_t w = 0; status == SPT_OK && w < window_count(b); w++) {
        status = check(l,
                       l->driver->cuMemcpyDtoH(window,
                                               l->base[i] + w * stride_bytes(b),
                                               window_bytes(b)),
                       "cuMemcpyDtoH", err);
        if (status == SPT_OK &&
            !take_window(b, window, out->got[i] + w * row_bytes(b))) {
            proof->guards_ok = false;
            spt_proof_blame(proof, "%s is written outside of its rows",
                            b->name);
        }
    }
    spt_free(window);
    return status;
}

static spt_status launch(layout *l, const proved *kernel, outcome *out,
                         spt_proof *proof, spt_error *err)
{
    const spt_op_case *c = l->c;
    spt_op_case launched = *c;
    launched.kernel = kernel->config;
    for (int i = 0; i < c->n_buffers; i++)
        SPT_TRY(lay_out(l, i, err));
    SPT_TRY(c->op->launch(l->driver, &kernel->function, &launched, l->at, NULL,
                          err));
    SPT_TRY(check(l, l->driver->cuCtxSynchronize(), c->op->name, err));
    for (int i = 0; i < c->n_buffers; i++)
        if (c->buffers[i].role != SPT_ROLE_IN)
            SPT_TRY(fetch(l, i, out, proof, err));
    return SPT_OK;
}

static spt_status run(spt_machine *machine, const proved *kernel,
                      const spt_op_case *c, outcome *out, spt_proof *proof,
                      spt_error *err)
{
    layout l = {.driver = &machine->driver, .c = c};
    spt_status status = launch(&l, kernel, out, proof, err);
    for (int i = 0; i < c->n_buffers; i++)
        if (l.base[i])
            machine->driver.cuMemFree(l.base[i]);
    spt_proof_take_reports(proof, machine);
    proof->runs++;
    return status;
}

/* A result that no expectation names is what it was before the launch. */
static void compare_kept(const spt_op_buffer *b, const char *got, size_t k,
                         spt_proof *proof)
{
    size_t bytes = spt_element_bytes(b->type);
    const char *seen = got + k * bytes;
    bool same = b->role == SPT_ROLE_BOTH
                    ? memcmp(seen, b->data + k * bytes, bytes) == 0
                    : poisoned(seen, bytes);
    if (same)
        return;
    proof->guards_ok = false;
    spt_proof_blame(proof,
                    "%s of row %zu: element %zu is written, expected "
                    "to be left alone",
                    b->name, k / b->width, k % b->width);
}

static void compare_reference(const spt_op_case *c, const outcome *out,
                              spt_proof *proof)
{
    for (int i = 0; i < c->n_buffers; i++) {
        const spt_op_buffer *b = &c->buffers[i];
        spt_op_buffer seen = *b;
        seen.data = out->got[i];
        for (size_t k = 0; b->bound && k < b->rows * b->width; k++)
            if (b->bound[k] < 0)
                compare_kept(b, out->got[i], k, proof);
            else
                spt_proof_compare(
                    proof, spt_op_get(&seen, k / b->width, k % b->width),
                    b->expect[k], b->bound[k], b->name, k / b->width);
    }
}

/* Bits of a part's results against those of the whole. */
static void compare_bits(const spt_op_case *part, const outcome *out,
                         const outcome *whole, spt_proof *proof)
{
    for (int i = 0; i < part->n_buffers; i++) {
        const spt_op_buffer *b = &part->buffers[i];
        size_t bytes = spt_element_bytes(b->type);
        for (size_t k = 0; b->bound && k < b->rows * b->width; k++) {
            size_t row = k / b->width, at = row;
            if (b->bound[k] < 0)
                continue;
            if (b->origin)
                at = b->origin[row];
            else if (b->by_row)
                at = part->first + row;
            at = at * b->width + k % b->width;
            if (memcmp(out->got[i] + k * bytes, whole->got[i] + at * bytes,
                       bytes) == 0)
                continue;
            proof->rows_bit_equal = false;
            spt_proof_blame(proof,
                            "%s of row %zu among rows %zu to %zu differs in "
                            "its bits from the same row among all",
                            b->name, row, part->first,
                            part->first + part->rows - 1);
        }
    }
}

static spt_status prove_part(spt_machine *machine, const proved *kernel,
                             const spt_op_case *all, size_t first, size_t rows,
                             const outcome *whole, spt_proof *proof,
                             spt_error *err)
{
    spt_op_case part;
    outcome out = {0};
    SPT_TRY(spt_op_case_make(all->op, &all->values, first, rows, &part, err));
    spt_status status = run(machine, kernel, &part, &out, proof, err);
    if (status == SPT_OK) {
        compare_reference(&part, &out, proof);
        compare_bits(&part, &out, whole, proof);
    }
    spt_arena_free(&out.arena);
    spt_op_case_free(&part);
    return status;
}

/* The whole, then parts of it; whole NULL: the kernel is its key's first. */
static spt_status prove_kernel(spt_machine *machine, const proved *kernel,
                               const spt_op_case *all, outcome *own,
                               const outcome *whole, spt_proof *proof,
                               spt_error *err)
{
    size_t rows = all->rows;
    const size_t parts[PARTS][2] = {{0, 1},
                                    {rows - 1, 1},
                                    {0, (rows + 1) / 2},
                                    {rows / 3, rows - rows / 3}};
    SPT_TRY(run(machine, kernel, all, own, proof, err));
    compare_reference(all, own, proof);
    if (whole)
        compare_bits(all, own, whole, proof);
    for (int i = 0; rows > 1 && i < PARTS; i++)
        SPT_TRY(prove_part(machine, kernel, all, parts[i][0], parts[i][1],
                           whole ? whole : own, proof, err));
    return SPT_OK;
}

/* Loads and proves kernel i; a fault is what its proof found. */
static spt_status prove_one(spt_machine *machine, const spt_op_case *all,
                            const spt_built *built, size_t i, outcome *own,
                            spt_proof *proof, spt_error *err)
{
    const outcome *whole = NULL;
    for (size_t k = 0; k < i && !whole; k++)
        if (strcmp(built[k].kernel.key, built[i].kernel.key) == 0)
            whole = &own[k];
    spt_loaded loaded;
    SPT_TRY(spt_machine_load(machine, &built[i].kernel, &built[i].image,
                             &loaded, err));
    const proved kernel = {
        {loaded.function, loaded.threads, loaded.shared_bytes},
        &built[i].config};
    spt_status status =
        prove_kernel(machine, &kernel, all, &own[i], whole, proof, err);
    spt_machine_unload(machine, &loaded);
    return status;
}

spt_status spt_op_prove(spt_machine *machine, const spt_operator *op,
                        const spt_config *values, const spt_built *built,
                        size_t count, spt_proof *proofs, spt_error *err)
{
    spt_op_case all;
    size_t rows = (size_t)spt_config_int(values, "rows", 0);
    SPT_TRY(spt_op_case_make(op, values, 0, rows, &all, err));
    outcome *own = spt_calloc(count, sizeof *own);
    spt_status status =
        own ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "proof: out of memory");
    for (size_t i = 0; i < count && status == SPT_OK; i++) {
        proofs[i] = spt_proof_begin();
        status = prove_one(machine, &all, built, i, own, &proofs[i], err);
        if (status == SPT_E_DEVICE) {
            proofs[i].rows_bit_equal = false;
            spt_proof_blame(&proofs[i], "%s", err->text);
            status = SPT_OK;
        }
        spt_proof_end(&proofs[i], &built[i].image);
    }
    for (size_t i = 0; own && i < count; i++)
        spt_arena_free(&own[i].arena);
    spt_free(own);
    spt_op_case_free(&all);
    return status;
}
