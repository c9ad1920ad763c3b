#include "foreign.h"

#include <string.h>

#define LENGTHS \
    "lengths are chosen by times, none included; --draft-length N fixes one"
#define GATE "drafts have no gate on probability"
#define SPEC_TYPE "--spec-type ngram or --model-draft FILE says what drafts"
#define NGRAM "--ngram-min and --ngram-max bound the match"
#define FILES "--model FILE names a file or folder that is here"
#define ROPE "positions are encoded as the model's file says"
#define KV_TYPE "KV has the type of activations, --dtype bf16 or fp16"
#define WEIGHTS "weights are read once, onto the device"
#define MEMORY "memory is what the context and the sessions need"
#define LAYERS "all layers are on the device"
#define THREADS "the device computes; sim takes all cores"
#define ONE_DEVICE "a model runs on one device; spectune --tp N models more"
#define BATCH "--prefill-chunk N says how many prompt tokens a step reads"
#define PREFIX "equal beginnings always share their KV"
#define ONE_ANSWER "it writes one answer, to a chat's message with --chat"
#define TURNS "it writes one answer; spectune serve holds conversations"
#define BIAS "requests to spectune serve have logit_bias"
#define GRAMMAR "answers follow no grammar here"
#define SAMPLERS "--temp, --top-k, --top-p, --min-p and penalties are here"

static const spt_foreign rows[] = {
#define FOREIGN(name, does, text) {name, SPT_FOREIGN_##does, text},
#include "foreign.def"
#undef FOREIGN
};

const spt_foreign *spt_foreign_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == length &&
            memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

const spt_foreign *spt_foreign_rows(size_t *count)
{
    *count = sizeof rows / sizeof *rows;
    return rows;
}

bool spt_foreign_switch(const char *word)
{
    static const char *const words[] = {"on",   "off",   "auto", "1",
                                        "true", "false", "0"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}
