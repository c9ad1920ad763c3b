/*
 * Proofs on disk, so that the same kernels are not proved twice by the same
 * program. An entry that cannot be read is no entry.
 */
#ifndef SPT_PROOF_CACHE_H
#define SPT_PROOF_CACHE_H

#include "prove.h"

/*
 * Keys of the set's proofs, one per attention kernel, on a machine ("sim"):
 * everything that they depend on, this program's own code included.
 */
spt_status spt_proof_keys(const spt_proof_set *set, const char *machine,
                          char (*keys)[65], spt_error *err);

bool spt_proof_load(const char *key, spt_proof *proof);

/* Keeps a proof that is ok; a cache that cannot be written is left alone. */
void spt_proof_store(const char *key, const spt_proof *proof);

#endif
