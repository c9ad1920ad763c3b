/*
 * Two vocabularies: which token of a drafter is which of the target.
 *
 * Equal where all tokens that both have are written the same (one may be
 * padded); else tokens are matched by what they write (token-level
 * intersection, Timor et al. 2502.05202), and the drafter reads the text in
 * its own tokens.
 */
#ifndef SPT_VOCAB_MAP_H
#define SPT_VOCAB_MAP_H

#include "tokenizer.h"

typedef struct spt_vocab_map {
    bool same; /* ids are ids; to_target is NULL */
    int32_t *to_target; /* (drafter's vocabulary): id, or -1 */
    int shared; /* tokens that have one */
} spt_vocab_map;

/*
 * Sizes are those of the models, which may be padded past the tokenizers.
 * SPT_E_UNSUPPORTED when hardly anything is shared.
 */
spt_status spt_vocab_map_make(const spt_tokenizer *target, int target_vocab,
                              const spt_tokenizer *drafter, int drafter_vocab,
                              spt_vocab_map *map, spt_error *err);
void spt_vocab_map_free(spt_vocab_map *map);

#endif
