/*
 * Proofs: a kernel's results against the scalar reference, and bit for bit
 * against decoding without speculation.
 *
 * Every draft token is first computed alone: width 1, batch 1, contiguous KV,
 * the smallest config of the reduction key, its ancestors as plain context.
 * Whatever computes it later, with other rows beside it, in another batch,
 * from pages or in a tree, has to give the same bits (==).
 */
#ifndef SPT_PROVE_H
#define SPT_PROVE_H

#include "problem.h"
#include "proof.h"

typedef struct spt_proof_set {
    spt_problem problem; /* its fill is ignored: both are proved */
    /* What is proved: attention kernels of one key, and their combine. */
    const spt_built *attention;
    size_t count;
    const spt_built *combine;
    /* What computes rows alone: same key, chain, contiguous KV. */
    const spt_built *base_attention, *base_combine;
    /* Every width from 1 to 1 + D; else 1, half, and full. */
    bool every_width;
    /* Called after each kernel's proof, in order; or NULL. */
    void (*done)(void *user, size_t i, const spt_proof *proof);
    void *user;
} spt_proof_set;

/*
 * Proves each attention kernel with the combine; proofs has count entries. A
 * proof that fails is a result, not an error: SPT_OK with ok false.
 */
spt_status spt_prove(spt_machine *machine, const spt_proof_set *set,
                     spt_proof *proofs, spt_error *err);

#endif
