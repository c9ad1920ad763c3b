#include "drafter.h"

#include <stdio.h>
#include <string.h>

static const struct method_row {
    const char *name;
    int max_draft;
    const char *doc, *no_tree;
} method_rows[] = {
#define SPT_DRAFTER(id, name, max, doc, no_tree) {name, max, doc, no_tree},
#include "drafters.def"
#undef SPT_DRAFTER
};

int spt_drafter_find(const char *name)
{
    for (int i = 0; i < SPT_METHOD_COUNT; i++)
        if (strcmp(method_rows[i].name, name) == 0)
            return i;
    return -1;
}

const char *spt_drafter_name(spt_method method)
{
    return method_rows[method].name;
}

const char *spt_drafter_list(void)
{
    static const char list[] =
#define SPT_DRAFTER(id, name, max, doc, no_tree) name " "
#include "drafters.def"
#undef SPT_DRAFTER
        ;
    return list;
}

bool spt_drafter_is_block(spt_method method)
{
    return method == SPT_METHOD_DFLASH || method == SPT_METHOD_DSPARK;
}

const char *spt_drafter_no_tree(spt_method method)
{
    return method_rows[method].no_tree;
}

/* What stands in for an external drafter that nobody named. */
static const char default_external[] = "qwen3-0.6b";

static spt_status make_external(const char *home, const char *model,
                                const spt_target *target, spt_drafter *d,
                                spt_error *err)
{
    bool named = model != NULL;
    if (!model)
        model = *target->drafter ? target->drafter : default_external;
    SPT_TRY(spt_target_load(home, model, NULL, &d->model, err));
    if (named || *target->drafter) {
        snprintf(d->shape, sizeof d->shape, "%s in %s", d->model.name,
                 d->model.weights);
        return SPT_OK;
    }
    /* A drafter shares its target's vocabulary. */
    d->model.vocab = target->vocab;
    d->model.weight_bytes = 0;
    SPT_TRY(spt_target_finish(&d->model, err));
    snprintf(d->shape, sizeof d->shape,
             "assumed: the shape of %s with the target's vocabulary, in %s",
             d->model.name, d->model.weights);
    return SPT_OK;
}

/* Feed-forward width over hidden size where no config tells one. Assumed: what
   the configs of qwen3's mixtures have. */
enum { DENSE_RATIO = 3 };

/* A dense layer with plain attention: the drafters that people train for
   mixtures of experts and for latent attention have such. */
static void shape_layer(spt_drafter *d, const spt_target *t, char *text,
                        size_t size)
{
    const spt_draft_layer *published = &t->draft;
    bool like = !t->moe_layers && !t->kv_rank && !t->draft.source[0];
    spt_target *l = &d->model;
    *l = *t;
    l->output_gate = false;
    if (like) {
        snprintf(text, size, " like the target's");
        return;
    }
    l->moe_layers = l->experts = l->kv_rank = 0;
    l->ffn = published->ffn ? published->ffn : DENSE_RATIO * t->hidden;
    if (t->kv_rank) {
        /* As many heads as the latent ones, of the usual size. */
        l->head_dim = 128;
        l->q_heads = l->kv_heads = t->hidden / 128;
    }
    if (published->q_heads)
        l->q_heads = published->q_heads;
    if (published->kv_heads)
        l->kv_heads = published->kv_heads;
    if (published->head_dim)
        l->head_dim = published->head_dim;
    char heads[64] = "the target's heads";
    if (t->kv_rank || published->q_heads)
        snprintf(heads, sizeof heads, "%lld/%lld heads of %lld",
                 (long long)l->q_heads, (long long)l->kv_heads,
                 (long long)l->head_dim);
    snprintf(text, size, " (%s: %s, feed-forward %lld)",
             published->source[0] ? published->source : "assumed dense", heads,
             (long long)l->ffn);
}

static void shape_own_layers(spt_drafter *d, const spt_target *t)
{
    char layer[200];
    shape_layer(d, t, layer, sizeof layer);
    d->vocab = (double)t->vocab;
    switch (d->method) {
    case SPT_METHOD_EAGLE3:
        d->layers = 1;
        d->taps = 3;
        if (d->vocab > 32000)
            d->vocab = 32000;
        snprintf(d->shape, sizeof d->shape,
                 "1 layer%s, 3 target features, draft vocabulary %lld, bf16",
                 layer, (long long)d->vocab);
        break;
    case SPT_METHOD_MTP:
        d->layers = 1;
        d->taps = 2;
        snprintf(d->shape, sizeof d->shape,
                 "1 layer like the target's%s%s, the target's head",
                 t->moe_layers ? ", with all of its experts" : "",
                 t->mtp_layers ? "" : " (assumed: the checkpoint names none)");
        break;
    case SPT_METHOD_DFLASH:
    case SPT_METHOD_DSPARK:
        d->layers = 5;
        d->taps = 5;
        d->rank = d->method == SPT_METHOD_DSPARK ? 256 : 0;
        snprintf(d->shape, sizeof d->shape,
                 "5 layers%s, 5 target features, the target's head%s, bf16",
                 layer, d->rank > 0 ? ", serial head of rank 256" : "");
        break;
    default:
        snprintf(d->shape, sizeof d->shape, "lookup in the text, no weights");
        break;
    }
}

spt_status spt_drafter_make(const char *home, const char *name,
                            const spt_target *target, spt_drafter *drafter,
                            spt_error *err)
{
    spt_drafter d = {0};
    char method[32];
    const char *colon = strchr(name, ':');
    snprintf(method, sizeof method, "%.*s",
             colon ? (int)(colon - name) : (int)strlen(name), name);
    int found = strlen(name) < sizeof d.name ? spt_drafter_find(method) : -1;
    if (found < 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--drafter '%.60s': expected one of: %s(external:MODEL "
                        "names the model)",
                        name, spt_drafter_list());
    d.method = (spt_method)found;
    if (colon && (d.method != SPT_METHOD_EXTERNAL || !colon[1]))
        return spt_fail(err, SPT_E_USAGE,
                        "--drafter '%.60s': only external takes a model", name);
    snprintf(d.name, sizeof d.name, "%s", name);
    d.max_draft = method_rows[found].max_draft;
    if (d.method == SPT_METHOD_EXTERNAL)
        SPT_TRY(make_external(home, colon ? colon + 1 : NULL, target, &d, err));
    else
        shape_own_layers(&d, target);
    *drafter = d;
    return SPT_OK;
}

const spt_target *spt_drafter_layer(const spt_drafter *d, const spt_target *t)
{
    return d->method == SPT_METHOD_MTP ? t : &d->model;
}

/* EAGLE-3 reads token and feature side by side. */
double spt_drafter_layer_params(const spt_drafter *d, const spt_target *t)
{
    const spt_target *l = spt_drafter_layer(d, t);
    double params = spt_target_attention_params(l);
    if (l->moe_layers)
        params += (double)l->experts_per_token * spt_target_expert_params(l) +
                  3 * (double)(l->hidden * l->shared_ffn);
    else
        params += spt_target_ffn_params(l);
    if (d->method == SPT_METHOD_EAGLE3)
        params += (double)l->hidden *
                  (double)((l->q_heads + 2 * l->kv_heads) * l->head_dim);
    return params;
}

/* The checkpoint's next-token layer, in its formats, with every expert. */
static double mtp_bytes(const spt_drafter *d, const spt_target *t)
{
    double h = (double)t->hidden;
    double rest = t->moe_layers
                      ? (double)t->experts * spt_target_expert_params(t) +
                            3 * h * (double)t->shared_ffn
                      : spt_target_ffn_params(t);
    return d->layers *
           (spt_target_attention_params(t) * t->attention_bits +
            (rest + d->taps * h * h) * t->layer_bits) /
           8;
}

double spt_drafter_weight_bytes(const spt_drafter *d, const spt_target *t)
{
    double h = (double)t->hidden;
    if (d->method == SPT_METHOD_EXTERNAL)
        return d->model.weight_bytes;
    if (d->method == SPT_METHOD_NGRAM)
        return 0;
    if (d->method == SPT_METHOD_MTP)
        return mtp_bytes(d, t);
    double params =
        d->layers * spt_drafter_layer_params(d, t) + d->taps * h * h;
    if (d->method == SPT_METHOD_EAGLE3)
        params += d->vocab * h;
    params += 2 * d->rank * d->vocab;
    return params * 2;
}

double spt_drafter_sequence_bytes(const spt_drafter *d, const spt_target *t,
                                  double element_bytes, double context,
                                  int boards)
{
    const spt_target *l = spt_drafter_layer(d, t);
    if (d->method == SPT_METHOD_EXTERNAL)
        return spt_target_shared_bytes(l, element_bytes, context, boards);
    return d->layers * spt_target_kv_bytes(l, element_bytes) * context *
           spt_target_kv_copies(l, boards);
}
