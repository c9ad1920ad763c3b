#include "prove.h"

#include <string.h>

#include "verify_run.h"

/* What rows are compared with. */
typedef struct expected {
    spt_instance in;
    double *out, *weight, *lse, *reach; /* of the reference */
    uint16_t *row_out; /* bits of every row computed alone; NULL = not asked */
    float *row_lse;
} expected;

static size_t row_count(const spt_instance *in)
{
    return (size_t)in->n_tokens * (size_t)in->problem.q_heads;
}

static void expected_free(expected *want)
{
    spt_instance_free(&want->in);
    spt_free(want->out);
    spt_free(want->weight);
    spt_free(want->lse);
    spt_free(want->reach);
    spt_free(want->row_out);
    spt_free(want->row_lse);
    *want = (expected){0};
}

static spt_status expected_make(const spt_problem *problem, expected *want,
                                spt_error *err)
{
    *want = (expected){0};
    SPT_TRY(spt_instance_make(problem, &want->in, err));
    size_t rows = row_count(&want->in), dim = (size_t)problem->head_dim;
    want->out = spt_calloc(rows * dim, sizeof *want->out);
    want->weight = spt_calloc(rows * dim, sizeof *want->weight);
    want->lse = spt_calloc(rows, sizeof *want->lse);
    want->reach = spt_calloc(rows, sizeof *want->reach);
    want->row_out = spt_calloc(rows * dim, sizeof *want->row_out);
    want->row_lse = spt_calloc(rows, sizeof *want->row_lse);
    if (!want->out || !want->weight || !want->lse || !want->reach ||
        !want->row_out || !want->row_lse) {
        expected_free(want);
        return spt_fail(err, SPT_E_MEMORY, "proof: out of memory");
    }
    spt_status status = spt_reference(&want->in, want->out, want->weight,
                                      want->lse, want->reach, err);
    if (status != SPT_OK)
        expected_free(want);
    return status;
}

/* Runs an instance into fresh result buffers (freed by results_free). */
static void results_free(spt_verify_results *results)
{
    spt_free(results->out);
    spt_free(results->lse);
    *results = (spt_verify_results){0};
}

static spt_status run(spt_machine *machine, const spt_verify_kernels *kernels,
                      const spt_instance *in, spt_proof *proof,
                      spt_verify_results *results, spt_error *err)
{
    size_t rows = row_count(in), dim = (size_t)in->problem.head_dim;
    *results = (spt_verify_results){
        .out = spt_calloc(rows * dim, sizeof *results->out),
        .lse = spt_calloc(rows, sizeof *results->lse)};
    if (!results->out || !results->lse) {
        results_free(results);
        return spt_fail(err, SPT_E_MEMORY, "proof: out of memory");
    }
    spt_status status = spt_verify_run(machine, kernels, in, results, err);
    spt_proof_take_reports(proof, machine);
    proof->runs++;
    if (status == SPT_OK && !results->guards_ok) {
        proof->guards_ok = false;
        spt_proof_blame(proof, "a result was written outside of its buffer");
    }
    if (status != SPT_OK)
        results_free(results);
    return status;
}

/* Fills row_out and row_lse: each token alone, batch 1. */
static spt_status compute_rows(spt_machine *machine,
                               const spt_verify_kernels *base, expected *want,
                               spt_proof *proof, spt_error *err)
{
    size_t heads = (size_t)want->in.problem.q_heads;
    size_t dim = (size_t)want->in.problem.head_dim;
    for (int s = 0; s < want->in.batch; s++)
        for (int i = 0; i < spt_instance_tokens(&want->in, s); i++) {
            spt_instance one;
            spt_verify_results results;
            size_t at = (size_t)(want->in.q_start[s] + i) * heads;
            SPT_TRY(spt_instance_single(&want->in, s, i, &one, err));
            spt_status status = run(machine, base, &one, proof, &results, err);
            spt_instance_free(&one);
            SPT_TRY(status);
            memcpy(want->row_out + at * dim, results.out, heads * dim * 2);
            memcpy(want->row_lse + at, results.lse, heads * sizeof(float));
            results_free(&results);
        }
    return SPT_OK;
}

/* Results of the whole instance against the reference. */
static void compare_reference(const expected *want,
                              const spt_verify_results *results,
                              spt_proof *proof)
{
    const spt_instance *in = &want->in;
    size_t dim = (size_t)in->problem.head_dim;
    size_t heads = (size_t)in->problem.q_heads;
    for (int s = 0; s < in->batch; s++)
        for (int token = in->q_start[s]; token < in->q_start[s + 1]; token++) {
            int visible = spt_instance_visible(in, s, token);
            for (size_t row = (size_t)token * heads;
                 row < (size_t)(token + 1) * heads; row++) {
                double reach = want->reach[row];
                for (size_t d = row * dim; d < (row + 1) * dim; d++)
                    spt_proof_compare(
                        proof,
                        (double)spt_half_to_float(in->problem.dtype,
                                                  results->out[d]),
                        want->out[d],
                        spt_bound_out(in, want->out[d], want->weight[d], reach,
                                      visible),
                        "output", row);
                spt_proof_compare(
                    proof, (double)results->lse[row], want->lse[row],
                    spt_bound_lse(in, want->lse[row], reach, visible), "LSE",
                    row);
            }
        }
}

/*
 * Results of a part of the instance against the rows computed alone; broken:
 * rows that see K and V that are not finite have nothing to be compared with.
 */
static void compare_rows(const expected *want, int first, int width,
                         const spt_instance *part, bool broken,
                         const spt_verify_results *results, spt_proof *proof)
{
    size_t heads = (size_t)part->problem.q_heads;
    size_t bytes = heads * (size_t)part->problem.head_dim * 2;
    for (int s = 0; s < part->batch; s++)
        for (int i = 0; i < spt_instance_tokens(part, s); i++) {
            size_t at = (size_t)(part->q_start[s] + i);
            size_t to = (size_t)(want->in.q_start[first + s] + i);
            if (broken && spt_instance_sees_broken(part, i))
                continue;
            if (memcmp((const char *)results->out + at * bytes,
                       (const char *)want->row_out + to * bytes, bytes) == 0 &&
                memcmp(results->lse + at * heads, want->row_lse + to * heads,
                       heads * sizeof(float)) == 0)
                continue;
            proof->rows_bit_equal = false;
            spt_proof_blame(
                proof,
                "token %d of sequence %d at width %d, batch %d differs in "
                "its bits from the same row alone%s",
                i, first + s, width, part->batch,
                broken ? ", whose K and V are finite" : "");
        }
}

/* Sequences [first, first + count) cut to a width, run and compared. */
static spt_status prove_part(spt_machine *machine,
                             const spt_verify_kernels *kernels,
                             const expected *want, int first, int count,
                             int width, bool broken, spt_proof *proof,
                             spt_error *err)
{
    spt_instance part;
    spt_verify_results results;
    SPT_TRY(spt_instance_cut(&want->in, first, count, width, &part, err));
    if (broken)
        spt_instance_break(&part);
    spt_status status = run(machine, kernels, &part, proof, &results, err);
    if (status == SPT_OK) {
        compare_rows(want, first, width, &part, broken, &results, proof);
        results_free(&results);
    }
    spt_instance_free(&part);
    return status;
}

static spt_status prove_equality(spt_machine *machine, const spt_proof_set *set,
                                 const spt_verify_kernels *kernels,
                                 const expected *want, spt_proof *proof,
                                 spt_error *err)
{
    int full = 1 + set->problem.draft_length, batch = want->in.batch;
    for (int width = 1; width <= full; width++) {
        bool some = width == 1 || width == (full + 1) / 2 || width == full;
        if (set->every_width || some)
            SPT_TRY(prove_part(machine, kernels, want, 0, batch, width, false,
                               proof, err));
    }
    for (int s = 0; batch > 1 && s < batch; s++)
        SPT_TRY(
            prove_part(machine, kernels, want, s, 1, full, false, proof, err));
    if (full == 1)
        return SPT_OK;
    return prove_part(machine, kernels, want, 0, 1, full, true, proof, err);
}

/* The whole instance against the reference. */
static spt_status prove_values(spt_machine *machine,
                               const spt_verify_kernels *kernels,
                               const expected *want, spt_proof *proof,
                               spt_error *err)
{
    spt_verify_results results;
    SPT_TRY(run(machine, kernels, &want->in, proof, &results, err));
    compare_reference(want, &results, proof);
    results_free(&results);
    return SPT_OK;
}

static spt_status load_kernels(spt_machine *machine, const spt_built *attention,
                               const spt_built *combine,
                               spt_verify_kernels *kernels, spt_error *err)
{
    *kernels = (spt_verify_kernels){0};
    const spt_config *config = &attention->config;
    kernels->chunk = (int)spt_config_int(config, "chunk", 0);
    kernels->rows = (int)spt_config_int(config, "rows", 0);
    kernels->page_size = (int)spt_config_int(config, "page_size", 0);
    kernels->tree = spt_config_int(config, "tree", 0) != 0;
    SPT_TRY(spt_machine_load(machine, &attention->kernel, &attention->image,
                             &kernels->attention, err));
    spt_status status = spt_machine_load(
        machine, &combine->kernel, &combine->image, &kernels->combine, err);
    if (status != SPT_OK)
        spt_machine_unload(machine, &kernels->attention);
    return status;
}

static void unload_kernels(spt_machine *machine, spt_verify_kernels *kernels)
{
    spt_machine_unload(machine, &kernels->attention);
    spt_machine_unload(machine, &kernels->combine);
}

/* A fault is what the proof found; sim's report says more than the driver. */
static spt_status faulted(spt_proof *proof, const spt_error *err)
{
    proof->rows_bit_equal = false;
    spt_proof_blame(proof, "%s", err->text);
    return SPT_OK;
}

/* One kernel against what is expected; a fault ends its proof. */
static spt_status prove_kernel(spt_machine *machine, const spt_proof_set *set,
                               const spt_built *attention,
                               const expected *random, const expected *equal,
                               spt_proof *proof, spt_error *err)
{
    spt_verify_kernels kernels;
    /* After another kernel's fault not even loading works. */
    spt_status status =
        load_kernels(machine, attention, set->combine, &kernels, err);
    bool loaded = status == SPT_OK;
    if (status == SPT_OK)
        status = prove_values(machine, &kernels, random, proof, err);
    if (status == SPT_OK)
        status = prove_values(machine, &kernels, equal, proof, err);
    if (status == SPT_OK)
        status = prove_equality(machine, set, &kernels, random, proof, err);
    if (loaded)
        unload_kernels(machine, &kernels);
    return status == SPT_E_DEVICE ? faulted(proof, err) : status;
}

static spt_status prove_all(spt_machine *machine, const spt_proof_set *set,
                            expected *random, const expected *equal,
                            spt_proof *proofs, spt_error *err)
{
    spt_verify_kernels base;
    spt_proof alone = spt_proof_begin();
    SPT_TRY(load_kernels(machine, set->base_attention, set->base_combine, &base,
                         err));
    spt_status status = compute_rows(machine, &base, random, &alone, err);
    unload_kernels(machine, &base);
    bool fault = status == SPT_E_DEVICE;
    SPT_TRY(fault ? faulted(&alone, err) : status);
    for (size_t i = 0; i < set->count; i++) {
        const spt_built *attention = &set->attention[i];
        spt_proof *proof = &proofs[i];
        *proof = alone;
        if (!fault)
            SPT_TRY(prove_kernel(machine, set, attention, random, equal, proof,
                                 err));
        spt_proof_end(proof, &attention->image);
        if (set->done)
            set->done(set->user, i, proof);
    }
    return SPT_OK;
}

spt_status spt_prove(spt_machine *machine, const spt_proof_set *set,
                     spt_proof *proofs, spt_error *err)
{
    expected random, equal;
    spt_problem problem = set->problem;
    problem.fill = SPT_FILL_RANDOM;
    SPT_TRY(expected_make(&problem, &random, err));
    problem.fill = SPT_FILL_EQUAL;
    spt_status status = expected_make(&problem, &equal, err);
    if (status == SPT_OK) {
        status = prove_all(machine, set, &random, &equal, proofs, err);
        expected_free(&equal);
    }
    expected_free(&random);
    return status;
}
