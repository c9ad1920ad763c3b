/* An answer as JSON. */
#include <math.h>

#include "answer.h"
#include "deployment.h"
#include "json.h"

static void add_rung(cJSON *list, const spt_rung *rung)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "rows", rung->rows);
    cJSON_AddNumberToObject(o, "draft_length", rung->draft_length);
    spt_json_add4(o, "attention_us", rung->attention_us);
    spt_json_add4(o, "step_us", rung->step_us);
    cJSON_AddStringToObject(o, "evidence", rung->evidence);
    cJSON_AddItemToArray(list, o);
}

/* A number, or null where the choice is unknown. */
static void add_known(cJSON *o, const char *name, bool known, double value)
{
    if (known)
        spt_json_add4(o, name, value);
    else
        cJSON_AddNullToObject(o, name);
}

static void add_acceptance(cJSON *o, const spt_choice *c)
{
    if (!c->table) {
        cJSON_AddNullToObject(o, "acceptance");
        return;
    }
    cJSON *a = cJSON_AddObjectToObject(o, "acceptance");
    cJSON_AddStringToObject(a, "target", c->table->target);
    cJSON_AddStringToObject(a, "drafter", c->table->drafter);
    cJSON_AddStringToObject(a, "words", c->table->words);
    if (c->table->temperature < 0)
        cJSON_AddNullToObject(a, "temperature");
    else
        cJSON_AddNumberToObject(a, "temperature", c->table->temperature);
    if (c->table->thinking < 0)
        cJSON_AddNullToObject(a, "thinking");
    else
        cJSON_AddBoolToObject(a, "thinking", c->table->thinking);
    cJSON_AddBoolToObject(a, "borrowed", c->borrowed);
    cJSON_AddStringToObject(a, "source", c->table->source);
}

/* What to type in the engine that serves. */
static void add_flags(cJSON *o, const spt_choose_input *in, const spt_choice *c)
{
    char flags[256];
    if (!in->where.serving)
        return;
    bool has = spt_serving_flags(in->where.serving, c->drafter->method,
                                 c->draft_length, flags, sizeof flags);
    if (c->known && has)
        cJSON_AddStringToObject(o, "flags", flags);
    else
        cJSON_AddNullToObject(o, "flags");
}

/* Bounds of confidence gates, or null with the reason. */
static void add_gate(cJSON *o, const spt_choice *c)
{
    const spt_gate *g = &c->gate;
    if (!g->known) {
        cJSON_AddNullToObject(o, "gate");
        cJSON_AddStringToObject(o, "gate_reason",
                                c->known ? g->reason : c->reason);
        return;
    }
    cJSON *gate = cJSON_AddObjectToObject(o, "gate");
    cJSON_AddNumberToObject(gate, "draft_length", g->draft_length);
    spt_json_add4(gate, "best_gain", g->best);
    spt_json_add4(gate, "worst_gain", g->worst);
    cJSON_AddNullToObject(o, "gate_reason");
}

/* The best draft tree, or null with the reason. */
static void add_tree(cJSON *o, const spt_choose_input *in, const spt_choice *c)
{
    const spt_tree_choice *t = &c->tree;
    char flags[320];
    if (!t->known) {
        cJSON_AddNullToObject(o, "tree");
        cJSON_AddStringToObject(o, "tree_reason",
                                c->known ? t->reason : c->reason);
        return;
    }
    cJSON *tree = cJSON_AddObjectToObject(o, "tree");
    cJSON_AddNumberToObject(tree, "nodes", t->tree.nodes);
    cJSON_AddNumberToObject(tree, "depth", t->tree.depth);
    cJSON_AddNumberToObject(tree, "top_k", t->tree.top_k);
    cJSON_AddBoolToObject(tree, "published", t->published);
    spt_json_add4(tree, "expected_length", t->expected_length);
    spt_json_add4(tree, "draft_us", t->draft_us);
    spt_json_add4(tree, "verify_us", t->verify_us);
    cJSON_AddNumberToObject(tree, "memory_bytes", ceil(t->memory_bytes));
    spt_json_add4(tree, "speedup", t->speedup);
    cJSON_AddBoolToObject(tree, "beats_chain", t->beats);
    if (in->where.serving &&
        spt_serving_tree_flags(in->where.serving, c->drafter->method, &t->tree,
                               flags, sizeof flags))
        cJSON_AddStringToObject(tree, "flags", flags);
    cJSON_AddNullToObject(o, "tree_reason");
}

static void add_choice(cJSON *list, const spt_choose_input *in,
                       const spt_choice *c)
{
    cJSON *o = cJSON_CreateObject();
    bool known = c->known;
    cJSON_AddNumberToObject(o, "batch", c->batch);
    cJSON_AddNumberToObject(o, "context", (double)c->context);
    cJSON_AddStringToObject(o, "drafter", c->drafter->name);
    cJSON_AddStringToObject(o, "workload", c->workload);
    add_known(o, "draft_length", known, c->draft_length);
    cJSON *alike = known ? cJSON_CreateArray() : cJSON_CreateNull();
    if (known) {
        cJSON_AddItemToArray(alike, cJSON_CreateNumber(c->alike_from));
        cJSON_AddItemToArray(alike, cJSON_CreateNumber(c->alike_to));
    }
    cJSON_AddItemToObject(o, "alike", alike);
    add_known(o, "expected_length", known, c->expected_length);
    add_known(o, "speedup", known, c->speedup);
    spt_json_add4(o, "target_us", c->target_us);
    add_known(o, "draft_us", known, c->draft_us);
    add_known(o, "verify_us", known, c->verify_us);
    add_known(o, "prefill_us", known, c->prefill_us);
    add_known(o, "draft_prefill_us", known, c->draft_prefill_us);
    add_known(o, "break_even_tokens", known, ceil(c->break_even));
    add_flags(o, in, c);
    add_gate(o, c);
    add_tree(o, in, c);
    cJSON_AddNumberToObject(o, "memory_bytes", ceil(c->memory_bytes));
    cJSON *memory = cJSON_AddObjectToObject(o, "memory");
#define SPT_MEMORY_PART(field, name) \
    cJSON_AddNumberToObject(memory, #field "_bytes", ceil(c->memory.field));
#include "memory_parts.def"
#undef SPT_MEMORY_PART
    cJSON_AddBoolToObject(o, "fits", c->fits);
    spt_json_add4(o, "running", c->running);
    cJSON_AddStringToObject(o, "evidence", c->evidence);
    if (*c->reason)
        cJSON_AddStringToObject(o, "reason", c->reason);
    else
        cJSON_AddNullToObject(o, "reason");
    add_acceptance(o, c);
    cJSON_AddItemToArray(list, o);
}

static void add_model(cJSON *object, const spt_target *t)
{
    cJSON *m = cJSON_AddObjectToObject(object, "model");
    cJSON_AddStringToObject(m, "name", t->name);
    cJSON_AddStringToObject(m, "source", t->source);
    cJSON_AddStringToObject(m, "weights", t->weights);
    cJSON_AddNumberToObject(m, "weight_bytes", ceil(t->weight_bytes));
    cJSON_AddNumberToObject(m, "layers", (double)t->layers);
    cJSON_AddBoolToObject(m, "stand_in", t->stand_in);
}

static void add_drafters(cJSON *object, const spt_choose_input *in)
{
    cJSON *list = cJSON_AddArrayToObject(object, "drafters");
    for (size_t i = 0; i < in->n_drafters; i++) {
        const spt_drafter *d = &in->drafters[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", d->name);
        cJSON_AddStringToObject(o, "shape", d->shape);
        cJSON_AddNumberToObject(o, "weight_bytes",
                                ceil(spt_drafter_weight_bytes(d, in->target)));
        cJSON_AddItemToArray(list, o);
    }
}

spt_status spt_answer_json(const spt_choose_input *in, const spt_choices *ch,
                           cJSON *object, spt_error *err)
{
    const spt_target *t = in->target;
    cJSON_AddStringToObject(object, "arch", in->board->arch);
    cJSON_AddStringToObject(object, "board", in->board->name);
    cJSON *heads = cJSON_AddObjectToObject(object, "heads");
    cJSON_AddNumberToObject(heads, "q", (double)t->q_heads);
    cJSON_AddNumberToObject(heads, "kv", (double)t->kv_heads);
    cJSON_AddNumberToObject(heads, "group", (double)(t->q_heads / t->kv_heads));
    cJSON_AddNumberToObject(object, "head_dim", (double)t->head_dim);
    cJSON_AddStringToObject(object, "kv_dtype", in->kv_dtype);
    spt_deployment_json(in->board, t, &in->where, object);
    add_model(object, t);
    add_drafters(object, in);
    cJSON *rule = cJSON_AddObjectToObject(object, "rule");
    cJSON_AddNumberToObject(rule, "tile_rows", ch->rule.tile_rows);
    cJSON_AddNumberToObject(rule, "draft_length", ch->rule.draft_length);
    cJSON *ladder = cJSON_AddArrayToObject(object, "ladder");
    for (size_t i = 0; i < ch->n_rungs; i++)
        add_rung(ladder, &ch->ladder[i]);
    cJSON *list = cJSON_AddArrayToObject(object, "choices");
    for (size_t i = 0; i < ch->count; i++)
        add_choice(list, in, &ch->list[i]);
    if (cJSON_GetArraySize(list) != (int)ch->count)
        return spt_fail(err, SPT_E_MEMORY, "answer: out of memory");
    return SPT_OK;
}
