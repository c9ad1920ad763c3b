/* What a drafting method asks for and where it pays, in words, with sources:
   profiles/methods.json. */
#ifndef SPT_METHODS_H
#define SPT_METHODS_H

#include <cJSON.h>

#include "drafter.h"

/* Texts stay in the JSON. */
typedef struct spt_method_words {
    const char *needs, *training, *training_source, *passes, *wins, *loses;
} spt_method_words;

/* One entry for each method; *root (cJSON_Delete) holds the texts. */
spt_status spt_methods_read(const char *home, cJSON **root,
                            spt_method_words words[SPT_METHOD_COUNT],
                            spt_error *err);

#endif
