/*
 * Heads: drafters of one layer that read another model's hidden states, as
 * their folders say it. EAGLE-3 in the layouts of SafeAILab (midlayer.*),
 * SpecForge, DeepSpec (layers.0.*) and speculators (transformer_layer_config).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model_int.h"

static const model_arch eagle3 = {
    .name = "eagle3",
    .layout = SPT_ROPE_HALVES,
    .activation = SPT_ACTIVATION_SILU,
};

static const char *text_at(const cJSON *object, const char *field)
{
    return cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(object, field));
}

bool spt_model_is_head(const cJSON *config)
{
    const cJSON *architectures =
        cJSON_GetObjectItemCaseSensitive(config, "architectures");
    const char *class =
        cJSON_GetStringValue(cJSON_GetArrayItem(architectures, 0));
    return spt_json_has(config, "draft_vocab_size") ||
           spt_json_has(config, "speculators_model_type") ||
           (class && strstr(class, "Eagle3"));
}

/* Flags of newer heads that change the computation. */
static spt_status refuse_flags(const spt_model *model, const cJSON *config,
                               spt_error *err)
{
    static const char *const flags[] = {"norm_before_fc", "fc_norm",
                                        "norm_output"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, flags[i])))
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: %s is true, expected false", model->path,
                            flags[i]);
    return SPT_OK;
}

/*
 * Layers whose results are read. Published lists name either the layer whose
 * output it is, or the layer that has it as its input; lists of the first kind
 * begin with 1, those of the second with 2, as the defaults of both do.
 */
static spt_status read_taps(spt_model *model, const cJSON *config,
                            const char *field, bool outputs, spt_error *err)
{
    spt_head *h = &model->config.head;
    const cJSON *list, *item;
    SPT_TRY(spt_json_array(config, model->path, field, &list, err));
    int count = cJSON_GetArraySize(list), n = 0;
    if (count < 1 || count > SPT_TAPS_MAX)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: %s has %d layers, expected 1 to %d", model->path,
                        field, count, SPT_TAPS_MAX);
    cJSON_ArrayForEach(item, list)
    {
        double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(id >= 0 && id < 4096) || id != (int)id)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: %s has an entry that is no layer", model->path,
                            field);
        outputs = outputs || (n == 0 && id == 1);
        h->layer[n++] = (int)id - !outputs;
    }
    h->taps = count;
    h->told = true;
    for (int i = 0; i < count; i++)
        if (h->layer[i] < (i ? h->layer[i - 1] : 0))
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: %s does not ascend, or reads the embedding",
                            model->path, field);
    return SPT_OK;
}

static spt_status find_taps(spt_model *model, const cJSON *config,
                            spt_error *err)
{
    static const char ids[] = "eagle_aux_hidden_state_layer_ids";
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(config, "eagle_config");
    model->config.head.taps = 3;
    if (spt_json_has(config, ids))
        return read_taps(model, config, ids, false, err);
    if (spt_json_has(own, ids))
        return read_taps(model, own, ids, false, err);
    if (spt_json_has(config, "target_layer_ids"))
        return read_taps(model, config, "target_layer_ids", true, err);
    return SPT_OK;
}

static spt_status optional_size(const spt_model *model, const cJSON *config,
                                const char *field, int *out, spt_error *err)
{
    int64_t value = *out;
    if (spt_json_has(config, field))
        SPT_TRY(
            spt_json_int(config, model->path, field, 1, 1 << 24, &value, err));
    *out = (int)value;
    return SPT_OK;
}

spt_status spt_model_head_config(spt_model *model, const cJSON *config,
                                 spt_error *err)
{
    spt_model_config *c = &model->config;
    const char *kind = text_at(config, "speculators_model_type");
    const cJSON *layer = config;
    if (kind && strcmp(kind, "eagle3") != 0)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: speculators_model_type '%.40s' is not run, "
                        "expected eagle3",
                        model->path, kind);
    if (kind)
        SPT_TRY(spt_json_object(config, model->path, "transformer_layer_config",
                                &layer, err));
    model->arch = &eagle3;
    SPT_TRY(refuse_flags(model, config, err));
    SPT_TRY(spt_model_hf_body(model, layer, err));
    if (c->layers != 1)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: num_hidden_layers is %d, expected 1 as EAGLE-3 "
                        "has it",
                        model->path, c->layers);
    c->tied_head = false;
    c->head.target_vocab = c->vocab;
    c->head.target_hidden = c->hidden;
    c->head.norm_residual = cJSON_IsTrue(
        cJSON_GetObjectItemCaseSensitive(config, "norm_before_residual"));
    SPT_TRY(optional_size(model, config, "draft_vocab_size", &c->vocab, err));
    SPT_TRY(optional_size(model, config, "target_hidden_size",
                          &c->head.target_hidden, err));
    return find_taps(model, config, err);
}

/* The d2t of the file, distances, as ids of the target. */
static spt_status read_map(spt_model *model, const file_tensor *t,
                           spt_error *err)
{
    spt_model_config *c = &model->config;
    size_t count = (size_t)c->vocab;
    if (t->type != SPT_WEIGHT_I64 || !t->plain || t->rows != 1 ||
        t->cols != count)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: tensor d2t is %" PRIu64 " x %" PRIu64
                        " of %s, expected 1 x %zu of I64",
                        model->path, t->rows, t->cols, t->format, count);
    int32_t *map = spt_arena_alloc(&model->arena, count, sizeof *map);
    bool *seen =
        spt_arena_alloc(&model->arena, (size_t)c->head.target_vocab, 1);
    if (!map || !seen)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        memcpy(&id, (const char *)t->data + i * sizeof id, sizeof id);
        bool fits = id >= -(int64_t)i && id < c->head.target_vocab - (int64_t)i;
        id = fits ? id + (int64_t)i : 0;
        if (!fits || seen[id])
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: d2t makes token %zu %s of the target's %d",
                            model->path, i, fits ? "one that it has" : "none",
                            c->head.target_vocab);
        seen[id] = true;
        map[i] = (int32_t)id;
    }
    c->head.to_target = map;
    return SPT_OK;
}

/* What the file has decides what the layer has. */
spt_status spt_model_head_tensors(spt_model *model, spt_error *err)
{
    spt_model_config *c = &model->config;
    file_tensor *to_target = spt_model_find(model, "d2t");
    file_tensor *drafted = spt_model_find(model, "t2d");
    c->qk_norm = spt_model_has(model, SPT_ROLE_Q_NORM);
    c->attn_bias = spt_model_has(model, SPT_ROLE_Q_BIAS);
    c->head.own_embed = spt_model_has(model, SPT_ROLE_TOKEN_EMBED);
    if (drafted)
        drafted->used = true; /* says again what d2t says */
    if (to_target) {
        to_target->used = true;
        return read_map(model, to_target, err);
    }
    if (c->vocab == c->head.target_vocab)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT,
                    "%s: tensor d2t is missing, which says what %d of %d "
                    "tokens it drafts",
                    model->path, c->vocab, c->head.target_vocab);
}
