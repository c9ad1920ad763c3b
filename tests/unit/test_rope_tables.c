/*
 * Rotary frequencies against transformers (tests/fixtures/rope_tables.py),
 * from config.json and, as converters write them, from GGUF keys.
 */
#include "check.h"
#include "model_int.h"
#include "tiny_model.h"

static spt_error err;

/* Largest relative difference; both are rounded to fp32, by other ways. */
static double distance(const float *seen, const cJSON *expected)
{
    const cJSON *item;
    double most = 0;
    int i = 0;
    cJSON_ArrayForEach(item, expected)
    {
        double wanted = item->valuedouble;
        double d = fabs((double)seen[i++] - wanted) / wanted;
        most = d > most ? d : most;
    }
    return most;
}

static void check_table(const spt_rope *rope, const cJSON *row,
                        const char *what)
{
    float table[64], magnitude;
    spt_rope_table(rope, false, table, &magnitude);
    double most = distance(table, cJSON_GetArrayItem(row, 1));
    if (!CHECK(most < 2e-6, "%s: frequencies", what))
        printf("#   differ by %g\n", most);
    CHECK_NEAR((double)magnitude, cJSON_GetArrayItem(row, 2)->valuedouble, 1e-6,
               "and the factor");
}

static double number(const cJSON *object, const char *name, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

/* A GGUF as llama.cpp's converters write it from those fields: the factors of
   llama 3 are a tensor, which the config's own are compared with. */
static void check_gguf(const cJSON *row, const spt_rope *from_json)
{
    const cJSON *p =
        cJSON_GetObjectItem(cJSON_GetArrayItem(row, 0), "rope_parameters");
    const char *kind = cJSON_GetObjectItem(p, "rope_type")->valuestring;
    bool llama3 = strcmp(kind, "llama3") == 0;
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    gguf_maker m = {0};
    tiny_writer w = {.t = &t, .sink = tiny_to_gguf, .user = &m};
    spt_buf file = {0};
    spt_model *model = NULL;
    tiny_pairs(&m, &t);
    gguf_put_f32(&m, "llama.rope.freq_base", (float)number(p, "rope_theta", 0));
    if (strcmp(kind, "default") != 0 && !llama3) {
        gguf_put_text(&m, "llama.rope.scaling.type", kind);
        gguf_put_f32(&m, "llama.rope.scaling.factor",
                     (float)number(p, "factor", 1));
        gguf_put_int(
            &m, "llama.rope.scaling.original_context_length",
            (uint32_t)number(p, "original_max_position_embeddings", 512));
    }
    tiny_tensors(&w);
    if (llama3)
        gguf_put_tensor(&m, "rope_freqs.weight", SPT_WEIGHT_F32, 32, 0,
                        from_json->factors);
    gguf_finish(&m, &file);
    if (CHECK_OK(spt_model_open_bytes(&model, file.data, file.size, "t", &err),
                 &err, "a GGUF with that scaling"))
        check_table(&spt_model_config_of(model)->rope, row, "gguf");
    spt_model_close(model);
    spt_buf_free(&file);
}

int main(void)
{
    cJSON *root = NULL;
    const cJSON *row;
    if (!CHECK_OK(spt_json_read("tests/fixtures/rope_tables.json", 1 << 20,
                                &root, &err),
                  &err, "the fixture is there"))
        return check_done();
    cJSON_ArrayForEach(row, root)
    {
        const cJSON *config = cJSON_GetArrayItem(row, 0);
        const cJSON *p = cJSON_GetObjectItem(config, "rope_parameters");
        spt_model model = {.path = "config.json", .folder = "."};
        if (CHECK_OK(spt_model_hf_config(&model, config, &err), &err,
                     "a config is read"))
            check_table(&model.config.rope, row,
                        cJSON_GetObjectItem(p, "rope_type")->valuestring);
        if (!cJSON_HasObjectItem(p, "beta_fast"))
            check_gguf(row, &model.config.rope);
        spt_arena_free(&model.arena);
    }
    cJSON_Delete(root);
    return check_done();
}
