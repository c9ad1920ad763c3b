#include "pack_make.h"

#include <string.h>

#include "offer.h"
#include "operator.h"
#include "pack_write.h"
#include "prove.h"

typedef struct maker {
    const spt_pack_job *job;
    spt_built *built; /* of the requests */
    spt_pack_writer *writer; /* from the first kernel on */
    bool all_ok;
} maker;

static const spt_problem attention_problem = {
    .draft_length = 7,
    .batch = 4,
    .contexts = {0, 5, 509, 1041},
    .n_contexts = 4,
    .seed = 1,
};

/* Tells of a proof and puts the kernel into the pack when it is good. */
static spt_status add(maker *m, const spt_built *built, const spt_proof *proof,
                      spt_error *err)
{
    if (m->job->done)
        m->job->done(m->job->user, built, proof);
    m->all_ok = m->all_ok && proof->ok;
    if (!proof->ok)
        return SPT_OK;
    if (!m->writer)
        SPT_TRY(spt_pack_writer_open(built->image.compiler, &m->writer, err));
    return spt_pack_writer_add(
        m->writer, &built->kernel, &built->image,
        spt_proof_summary(proof, spt_machine_kind(m->job->machine)), NULL, err);
}

static spt_status prove_operator(maker *m, const spt_operator *op,
                                 const spt_built *built, spt_error *err)
{
    spt_config values = {0};
    spt_proof proof;
    spt_op_complete(op, &built->config, &values);
    SPT_TRY(spt_op_prove(m->job->machine, op, &values, built, 1, &proof, err));
    return add(m, built, &proof, err);
}

/* A problem for a kernel of that config: two KV heads, ragged sequences. */
static spt_problem problem_of(const spt_config *config)
{
    spt_problem p = attention_problem;
    const spt_value *dtype = spt_config_get(config, "dtype");
    p.kv_heads = 2;
    p.q_heads = 2 * (int)spt_config_int(config, "group", 1);
    p.head_dim = (int)spt_config_int(config, "head_dim", 0);
    p.dtype = dtype && strcmp(dtype->text, "fp16") == 0 ? SPT_FP16 : SPT_BF16;
    p.page_size = (int)spt_config_int(config, "page_size", 0);
    p.tree = spt_config_int(config, "tree", 0) != 0;
    p.window = spt_config_int(config, "window", 0) ? 200 : 0;
    p.softcap = spt_config_int(config, "softcap", 0) ? 30 : 0;
    p.sinks = spt_config_int(config, "sinks", 0) != 0;
    return p;
}

static spt_status prove_offer(maker *m, const spt_problem *problem,
                              const spt_offer *offer, bool combine,
                              spt_error *err)
{
    spt_proof proof;
    const spt_proof_set set = {
        .problem = *problem,
        .attention = offer->attention,
        .count = 1,
        .combine = &offer->combine,
        .base_attention = &offer->base_attention,
        .base_combine = &offer->base_combine,
    };
    if (!offer->count)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "verify_attention: the config that was asked for "
                        "spills registers");
    SPT_TRY(spt_prove(m->job->machine, &set, &proof, err));
    return add(m, combine ? &offer->combine : &offer->attention[0], &proof,
               err);
}

/* Attention is proved with its combine, combine with an attention. */
static spt_status prove_attention(maker *m, const spt_config *config,
                                  bool combine, spt_error *err)
{
    const spt_builder *builder = m->job->builder;
    spt_problem problem = problem_of(config);
    int chunk = (int)spt_config_int(config, "chunk", 0);
    spt_config *first = NULL;
    size_t count;
    spt_offer offer;
    if (combine)
        SPT_TRY(spt_offer_space(builder, &problem, chunk, false, &first, &count,
                                err));
    spt_status status = spt_offer_build(
        builder, &problem, chunk, combine ? first : config, 1, &offer, err);
    spt_free(first);
    SPT_TRY(status);
    status = prove_offer(m, &problem, &offer, combine, err);
    spt_offer_free(&offer);
    return status;
}

static spt_status prove_one(maker *m, const spt_built *built, spt_error *err)
{
    const char *name = built->kernel.template_name;
    const spt_operator *op = spt_operator_find(name);
    bool combine = strcmp(name, "combine") == 0;
    if (op)
        return prove_operator(m, op, built, err);
    if (combine || strcmp(name, "verify_attention") == 0)
        return prove_attention(m, &built->config, combine, err);
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "%s: there is no proof for this kernel, so that no pack "
                    "can have it",
                    name);
}

/* Kernel i, unless one before it is the same. */
static spt_status prove_next(maker *m, size_t i, spt_error *err)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(m->built[k].image.key, m->built[i].image.key) == 0)
            return SPT_OK;
    return prove_one(m, &m->built[i], err);
}

static spt_status build_all(maker *m, spt_error *err)
{
    const spt_builder *builder = m->job->builder;
    const spt_kernel_source source = {.gen = builder->gen,
                                      .compiler = builder->compiler,
                                      .board = builder->board,
                                      .progress = m->job->progress};
    spt_kernel_made *made = spt_calloc(m->job->count, sizeof *made);
    if (!made)
        return spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    spt_status status =
        spt_kernels_make(&source, m->job->requests, m->job->count, made, err);
    for (size_t i = 0; status == SPT_OK && i < m->job->count; i++)
        m->built[i] =
            (spt_built){made[i].config, made[i].kernel, made[i].image};
    spt_free(made);
    return status;
}

spt_status spt_pack_make(const spt_pack_job *job, bool *all_ok, spt_error *err)
{
    maker m = {.job = job, .all_ok = true};
    if (!job->count)
        return spt_fail(err, SPT_E_USAGE,
                        "pack: no kernel is asked for, expected one at least");
    m.built = spt_calloc(job->count, sizeof *m.built);
    if (!m.built)
        return spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    spt_status status = build_all(&m, err);
    for (size_t i = 0; status == SPT_OK && i < job->count; i++)
        status = prove_next(&m, i, err);
    if (status == SPT_OK && m.all_ok)
        status = spt_pack_writer_finish(m.writer, job->folder, err);
    if (m.writer)
        spt_pack_writer_close(m.writer);
    for (size_t i = 0; i < job->count; i++)
        spt_built_free(&m.built[i]);
    spt_free(m.built);
    if (status == SPT_OK)
        *all_ok = m.all_ok;
    return status;
}
