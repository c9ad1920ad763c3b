/*
 * Heads of EAGLE-3 from their folders: the published layouts, which layers
 * they read, their tokens, and what is refused.
 */
#include "check.h"
#include "tiny_head.h"

static spt_error err;

static spt_status open_head(const tiny_head *h, spt_model **model)
{
    char path[64];
    *model = NULL;
    CHECK(tiny_head_write(h, path), "a head is written");
    spt_status status = spt_model_open(model, path, &err);
    tiny_head_remove(path);
    return status;
}

static void check_head(const tiny_head *h, const char *name)
{
    spt_model *model;
    if (!CHECK_OK(open_head(h, &model), &err, name))
        return;
    const spt_model_config *c = spt_model_config_of(model);
    const spt_head *is = &c->head;
    const spt_tensor *q = spt_model_tensor(model, SPT_ROLE_Q, 0);
    const spt_tensor *fc = spt_model_tensor(model, SPT_ROLE_FC, 0);
    bool taps = is->taps == h->taps && is->told;
    for (int i = 0; taps && i < h->taps; i++)
        taps = is->layer[i] == h->tap[i];
    CHECK(strcmp(c->architecture, "eagle3") == 0 && c->layers == 1 &&
              c->vocab == h->layer.vocab &&
              is->target_vocab == h->target_vocab &&
              is->target_hidden == h->target_hidden,
          "%s: its sizes", name);
    CHECK(taps && is->norm_residual == h->norm_residual &&
              is->own_embed == h->own_embed && c->qk_norm == h->qk_norm,
          "%s: what it reads and has", name);
    CHECK(q && q->cols == 2 * c->hidden && fc && fc->rows == c->hidden &&
              fc->cols == h->taps * h->target_hidden,
          "%s: its tensors", name);
    CHECK(!h->layer.own_head == !is->to_target &&
              (!is->to_target || (is->to_target[1] == (h->drafts ? 9 : 2))),
          "%s: its tokens", name);
    spt_model_close(model);
}

static void test_layouts(void)
{
    static const int32_t drafts[160] = {5, 9};
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    tiny_head h = tiny_head_of(&t);
    check_head(&h, "layers.0");
    memcpy(h.tap, (int[]){3, 4, 9}, 3 * sizeof(int));
    h.layout = TINY_MIDLAYER;
    check_head(&h, "midlayer");
    h.layout = TINY_SPECULATORS;
    h.own_embed = h.norm_residual = true;
    check_head(&h, "speculators");
    h = tiny_head_of(&t);
    h.taps = 5;
    memcpy(h.tap, (int[]){1, 9, 17, 25, 33}, 5 * sizeof(int));
    h.qk_norm = true;
    h.layer.vocab = h.target_vocab;
    h.layer.own_head = false;
    check_head(&h, "layers.0, five taps, all tokens");
    h = tiny_head_of(&t);
    h.layout = TINY_MIDLAYER;
    memcpy(h.tap, (int[]){1, 4, 6}, 3 * sizeof(int));
    check_head(&h, "taps that begin with 1 are outputs");
    h.tap[0] = 5; /* named as inputs: 6, 7, 8 */
    h.tap[1] = 6;
    h.tap[2] = 7;
    h.target_hidden = 128;
    h.layer.vocab = 2;
    h.drafts = drafts;
    check_head(&h, "another width, tokens of its own");
}

static void test_default(void)
{
    spt_model *model;
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    tiny_head h = tiny_head_of(&t);
    h.tap[0] = -1;
    if (CHECK_OK(open_head(&h, &model), &err, "no list of taps")) {
        const spt_head *is = &spt_model_config_of(model)->head;
        CHECK(is->taps == 3 && !is->told, "three, by the target's depth");
    }
    spt_model_close(model);
}

static void refuse(tiny_head h, const char *text)
{
    spt_model *model;
    spt_status status = open_head(&h, &model);
    CHECK(status != SPT_OK, "refused");
    CHECK_HAS(err.text, text, "and why");
    spt_model_close(model);
}

static void test_refused(void)
{
    static const int32_t twice[] = {5, 5}, past[] = {5, 320},
                         before[] = {5, -1};
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    tiny_head h = tiny_head_of(&t), bad = h;
    bad.without = "layers.0.hidden_norm.weight";
    refuse(bad, "tensor midlayer.hidden_norm.weight is missing");
    bad.without = "d2t";
    refuse(bad, "tensor d2t is missing, which says what 160 of 320 tokens");
    bad.without = "fc.weight";
    refuse(bad, "tensor fc.weight is missing");
    bad = h;
    bad.more = ",\"norm_before_fc\":true";
    refuse(bad, "norm_before_fc is true, expected false");
    bad = h;
    bad.layer.layers = 2;
    refuse(bad, "num_hidden_layers is 2, expected 1");
    bad = h;
    bad.layer.vocab = 2;
    bad.drafts = twice;
    refuse(bad, "d2t makes token 1 one that it has of the target's 320");
    bad.drafts = past;
    refuse(bad, "d2t makes token 1 none of the target's 320");
    bad.drafts = before;
    refuse(bad, "d2t makes token 1 none of");
    bad = h;
    bad.tap[0] = 3;
    refuse(bad, "does not ascend");
    bad = h;
    bad.more = ",\"speculators_model_type\":\"dflash\"";
    refuse(bad, "speculators_model_type 'dflash' is not run, expected eagle3");
}

int main(void)
{
    test_layouts();
    test_default();
    test_refused();
    return check_done();
}
