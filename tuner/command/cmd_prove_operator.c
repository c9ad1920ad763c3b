/*
 * spectune prove NAME [NAME=VALUE...]: one problem of an operator,
 * configs of its space, against the scalar reference and bit for bit against
 * the same rows in smaller parts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "operator.h"
#include "options.h"
#include "show.h"
#include "template.h"

typedef struct request {
    const char *arch, *board_name, *device;
    bool json, list, every_config;
    spt_texts operands;
    const spt_operator *op;
    size_t spilled; /* built, but not offered for their spills */
    spt_config problem; /* given, of the template */
    spt_config values; /* of the run, then of all */
} request;

static void list_values(const spt_operator *op)
{
    const spt_op_value *v;
    printf("%s\n", op->name);
    for (size_t i = 0; (v = spt_operator_value_at(op, i)) != NULL; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s: %lld to %lld (default %lld)", v->doc,
                 (long long)v->min, (long long)v->max, (long long)v->fallback);
        printf("  %-12s ", v->name);
        spt_print_wrapped(text, 15, 15);
    }
}

/* The values of the run; those of the problem: spectune emit NAME --list. */
static int list(const request *r)
{
    const spt_operator *op;
    for (size_t i = 0; (op = spt_operator_at(i)) != NULL; i++)
        if (!r->operands.count || strcmp(op->name, r->operands.values[0]) == 0)
            list_values(op);
    return 0;
}

static spt_status find_operator(request *r, spt_error *err)
{
    char names[512] = "verify_attention";
    const spt_operator *op;
    r->op = spt_operator_find(r->operands.values[0]);
    if (r->op)
        return SPT_OK;
    for (size_t i = 0; (op = spt_operator_at(i)) != NULL; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, ", %s", op->name);
    }
    return spt_fail(err, SPT_E_USAGE,
                    "%.40s: no operator that can be proved, expected one of: "
                    "%s",
                    r->operands.values[0], names);
}

/* A value of the run. */
static spt_status read_value(request *r, const spt_op_value *v,
                             const char *text, spt_error *err)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (!*text || *end || value < v->min || value > v->max)
        return spt_fail(err, SPT_E_USAGE,
                        "%s=%.40s: expected an integer from %lld to %lld",
                        v->name, text, (long long)v->min, (long long)v->max);
    spt_config_set_int(&r->values, v->name, value);
    return SPT_OK;
}

/* One operand NAME=VALUE: of the run, else of the template. */
static spt_status read_operand(request *r, const spt_template *t,
                               const char *text, spt_error *err)
{
    size_t size = strcspn(text, "=");
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(size < 31 ? size : 31), text);
    const spt_op_value *v = spt_operator_value(r->op, name);
    if (!v || !text[size])
        return spt_template_operand(t, text, &r->problem, err);
    if (spt_config_get(&r->values, name))
        return spt_fail(err, SPT_E_USAGE, "%s: is given twice", name);
    return read_value(r, v, text + size + 1, err);
}

static spt_status read_operands(request *r, spt_gen *gen, spt_error *err)
{
    const spt_template *t;
    SPT_TRY(find_operator(r, err));
    SPT_TRY(spt_gen_template(gen, r->op->name, &t, err));
    for (int i = 1; i < r->operands.count; i++)
        SPT_TRY(read_operand(r, t, r->operands.values[i], err));
    return SPT_OK;
}

/* How many values of config no kept one has. */
static int new_values(const spt_config *configs, const bool *kept, size_t count,
                      const spt_config *config)
{
    int fresh = 0;
    for (int i = 0; i < config->count; i++) {
        bool seen = false;
        for (size_t k = 0; k < count && !seen; k++)
            seen = kept[k] && memcmp(&configs[k].values[i], &config->values[i],
                                     sizeof config->values[i]) == 0;
        fresh += !seen;
    }
    return fresh;
}

/*
 * Keeps so many configs that every value of every parameter occurs: the first,
 * then always the first of those that bring the most new values.
 */
static size_t cover(spt_config *configs, size_t count)
{
    bool *kept = spt_calloc(count, sizeof *kept);
    size_t best = 0, n = 0;
    int most = kept ? 1 : 0;
    while (most) {
        kept[best] = true;
        most = 0;
        for (size_t i = 0; i < count; i++) {
            int fresh = new_values(configs, kept, count, &configs[i]);
            best = fresh > most ? i : best;
            most = fresh > most ? fresh : most;
        }
    }
    for (size_t i = 0; kept && i < count; i++)
        if (kept[i])
            configs[n++] = configs[i];
    spt_free(kept);
    return kept ? n : count;
}

/* One kernel stays: a proof says what is wrong with it. */
static void drop_spilled(request *r, spt_built *built, size_t *count)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (built[i].image.spill_bytes && (kept || i + 1 < *count))
            spt_built_free(&built[i]);
        else
            built[kept++] = built[i];
    r->spilled = *count - kept;
    *count = kept;
}

static spt_status build(request *r, const spt_builder *builder,
                        spt_built **built, size_t *count, spt_error *err)
{
    spt_config *configs;
    SPT_TRY(spt_gen_space(builder->gen, r->op->name, &r->problem,
                          builder->board, &configs, count, err));
    if (!r->every_config)
        *count = cover(configs, *count);
    spt_op_complete(r->op, &configs[0], &r->values);
    spt_build_item *items = spt_calloc(*count, sizeof *items);
    *built = spt_calloc(*count, sizeof **built);
    spt_status status = SPT_OK;
    if (!items || !*built)
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", r->op->name);
    for (size_t i = 0; status == SPT_OK && i < *count; i++)
        items[i] = (spt_build_item){r->op->name, configs[i]};
    if (status == SPT_OK)
        status = spt_build(builder, items, *count, *built, err);
    spt_free(items);
    spt_free(configs);
    if (status == SPT_OK)
        drop_spilled(r, *built, count);
    else
        spt_free(*built);
    return status;
}

static void print_json(const char *problem, const spt_built *built,
                       const spt_proof *proofs, size_t count, size_t passed)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "spectune.proof/1");
    cJSON *cases = cJSON_AddArrayToObject(root, "cases");
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(cases,
                             spt_proof_json(&built[i], problem, &proofs[i]));
    cJSON_AddNumberToObject(root, "passed", (double)passed);
    cJSON_AddNumberToObject(root, "failed", (double)(count - passed));
    spt_print_json(root);
}

static void print_text(const char *problem, const spt_built *built,
                       const spt_proof *proofs, size_t count, size_t passed,
                       size_t spilled)
{
    printf("%s\n", problem);
    for (size_t i = 0; i < count; i++) {
        const spt_proof *proof = &proofs[i];
        printf("%-4s  %s  registers %d  error %.2g of %.2g\n",
               proof->ok ? "ok" : "FAIL", built[i].kernel.symbol,
               built[i].image.registers, proof->max_error, proof->bound);
        if (!proof->ok)
            printf("      %s\n", proof->text);
    }
    if (spilled)
        printf("%zu more would spill registers and are not offered\n", spilled);
    printf("%zu passed, %zu failed\n", passed, count - passed);
}

static spt_status prove_built(const request *r, const spt_board *board,
                              const spt_built *built, size_t count,
                              bool *all_ok, spt_error *err)
{
    spt_device_choice choice = strcmp(r->device, "sim") == 0 ? SPT_DEVICE_SIM
                               : strcmp(r->device, "gpu") == 0
                                   ? SPT_DEVICE_GPU
                                   : SPT_DEVICE_AUTO;
    spt_machine machine;
    SPT_TRY(spt_machine_open(board, choice, true, &machine, err));
    spt_proof *proofs = spt_calloc(count, sizeof *proofs);
    spt_status status = proofs ? spt_op_prove(&machine, r->op, &r->values,
                                              built, count, proofs, err)
                               : spt_fail(err, SPT_E_MEMORY, "out of memory");
    if (status == SPT_OK) {
        char problem[640];
        size_t passed = 0;
        snprintf(problem, sizeof problem, "%s on %s: ", r->op->name,
                 machine.name);
        size_t used = r->json ? 0 : strlen(problem);
        spt_config_text(&r->values, problem + used, sizeof problem - used);
        for (size_t i = 0; i < count; i++)
            passed += proofs[i].ok;
        *all_ok = passed == count;
        if (r->json)
            print_json(problem, built, proofs, count, passed);
        else
            print_text(problem, built, proofs, count, passed, r->spilled);
    }
    spt_free(proofs);
    spt_machine_close(&machine);
    return status;
}

static spt_status prove(request *r, const spt_builder *builder, bool *all_ok,
                        spt_error *err)
{
    spt_built *built;
    size_t count;
    SPT_TRY(read_operands(r, builder->gen, err));
    SPT_TRY(build(r, builder, &built, &count, err));
    spt_status status =
        prove_built(r, builder->board, built, count, all_ok, err);
    for (size_t i = 0; i < count; i++)
        spt_built_free(&built[i]);
    spt_free(built);
    return status;
}

static int parse(int argc, char **argv, request *r)
{
    const spt_option options[] = {
        {"arch", 0, SPT_OPTION_TEXT, &r->arch, "ARCH",
         "architecture: sm80 ... sm121", 0, 0},
        {"board", 0, SPT_OPTION_TEXT, &r->board_name, "NAME|FILE.lua",
         "board; default: the architecture's first", 0, 0},
        {"device", 0, SPT_OPTION_CHOICE, &r->device, "auto|sim|gpu",
         "what runs the kernels (auto: a fitting GPU, else sim)", 0, 0},
        {"list", 0, SPT_OPTION_FLAG, &r->list, NULL,
         "the run-time values of an operator", 0, 0},
        {"every-config", 0, SPT_OPTION_FLAG, &r->every_config, NULL,
         "every config of the space, not just each value once", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &r->json, NULL, "print JSON", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune prove",
        .operands = "OPERATOR [NAME=VALUE...]",
        .min_operands = 1,
        .max_operands = SPT_LIST_MAX,
        .summary = "Runs one problem of an operator with kernels of its "
                   "space, compares results with a scalar reference and every "
                   "row, bit for bit, with the same row in smaller parts.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    return spt_options(&usage, argc, argv, &r->operands);
}

int spt_cmd_prove_operator(int argc, char **argv)
{
    request r = {.device = "auto"};
    int status = parse(argc, argv, &r);
    if (status >= 0)
        return status;
    if (r.list)
        return list(&r);
    spt_error err = {0};
    spt_board board;
    spt_builder builder = {.board = &board};
    bool all_ok = false;
    spt_status result =
        spt_builder_open(&builder, r.arch, r.board_name, &board, &err);
    if (result == SPT_OK)
        result = prove(&r, &builder, &all_ok, &err);
    spt_builder_close(&builder);
    if (result != SPT_OK)
        return spt_exit_error("spectune prove", &err);
    return all_ok ? 0 : 1;
}
