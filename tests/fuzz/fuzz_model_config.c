/* A config.json of a model from anywhere: one line of error, or a shape that
   can be run. */
#include <stdlib.h>

#include "model_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_model model = {.path = "fuzz", .folder = "fuzz"};
    cJSON *root = NULL;
    spt_error err;
    if (spt_json_parse((const char *)data, size, "fuzz", &root, &err) ==
            SPT_OK &&
        spt_model_hf_config(&model, root, &err) == SPT_OK) {
        const spt_model_config *c = &model.config;
        float magnitude, *table = malloc(sizeof *table * 1024);
        if (c->layers < 1 || c->q_heads % c->kv_heads || c->rope.dim > 1024)
            abort();
        if (table)
            spt_rope_table(&c->rope, false, table, &magnitude);
        free(table);
    }
    cJSON_Delete(root);
    spt_arena_free(&model.arena);
    return 0;
}
