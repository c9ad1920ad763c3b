/*
 * spectune prove [verify_attention]: one problem, every config of its reduction
 * key, against the scalar reference and bit for bit against rows alone.
 */
#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "offer.h"
#include "operator.h"
#include "options.h"
#include "prove.h"
#include "show.h"

typedef struct prove_options {
    const char *arch, *board, *heads, *mask, *dtype, *kv_dtype, *device;
    spt_ints contexts;
    int64_t head_dim, draft_length, page_size, window, batch, chunk;
    uint64_t seed;
    double softcap;
    bool sinks, far, every_config, json;
} prove_options;

static int parse(int argc, char **argv, prove_options *o)
{
    const spt_option options[] = {
        {"arch", 0, SPT_OPTION_TEXT, &o->arch, "ARCH",
         "architecture: sm80 ... sm121", 0, 0},
        {"board", 0, SPT_OPTION_TEXT, &o->board, "NAME|FILE.lua",
         "board; default: the architecture's first", 0, 0},
        {"heads", 0, SPT_OPTION_TEXT, &o->heads, "Q/KV",
         "query heads / KV heads", 0, 0},
        {"head-dim", 0, SPT_OPTION_INT, &o->head_dim, "N",
         "numbers per head (128)", 1, 1024},
        {"draft-length", 0, SPT_OPTION_INT, &o->draft_length, "N",
         "drafted tokens per sequence (7)", 0, SPT_DRAFT_MAX},
        {"page-size", 0, SPT_OPTION_INT, &o->page_size, "N",
         "tokens per KV page, 0 = contiguous (16)", 0, 65536},
        {"context", 0, SPT_OPTION_INTS, &o->contexts, "LIST",
         "KV tokens before the draft block", 0, 1 << 24},
        {"mask", 0, SPT_OPTION_CHOICE, &o->mask, "chain|tree",
         "shape of the draft block (chain)", 0, 0},
        {"window", 0, SPT_OPTION_INT, &o->window, "N",
         "a row sees its last N positions (0 = all)", 0, 1 << 24},
        {"softcap", 0, SPT_OPTION_NUMBER, &o->softcap, "X",
         "cap * tanh(x / cap) on logits (0 = none)", 0, 1e6},
        {"sinks", 0, SPT_OPTION_FLAG, &o->sinks, NULL,
         "one more logit per query head in the denominator", 0, 0},
        {"dtype", 0, SPT_OPTION_CHOICE, &o->dtype, "bf16|fp16",
         "type of queries and output (bf16)", 0, 0},
        {"kv-dtype", 0, SPT_OPTION_TEXT, &o->kv_dtype, "T",
         "type of KV: bf16 or fp16, as the queries'", 0, 0},
        {"batch", 0, SPT_OPTION_INT, &o->batch, "N",
         "sequences (one per context)", 1, 1024},
        {"seed", 0, SPT_OPTION_SEED, &o->seed, "N", "of the data (1)", 0, 0},
        {"chunk", 0, SPT_OPTION_INT, &o->chunk, "N",
         "KV tokens per CTA: 256, 512 or 1024 (512)", 1, 65536},
        {"far", 0, SPT_OPTION_FLAG, &o->far, NULL,
         "KV stands past element 2^31 of its buffer", 0, 0},
        {"every-config", 0, SPT_OPTION_FLAG, &o->every_config, NULL,
         "every config of the space, not one per tile", 0, 0},
        {"device", 0, SPT_OPTION_CHOICE, &o->device, "auto|sim|gpu",
         "what runs the kernels (auto: a fitting GPU, else sim)", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &o->json, NULL, "print JSON", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune prove",
        .summary = "Proves verify attention (spectune prove OPERATOR --help: "
                   "other kernels): runs one verify-attention problem with "
                   "every kernel that "
                   "is offered for it, compares results with a scalar "
                   "reference and every row, bit for bit, with the same row "
                   "computed alone.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    return spt_options(&usage, argc, argv, NULL);
}

/* The options as a problem; SPT_E_USAGE names the option that is wrong. */
static spt_status make_problem(const prove_options *o, spt_problem *p,
                               spt_error *err)
{
    if (!o->heads)
        return spt_fail(err, SPT_E_USAGE, "--heads: expected Q/KV");
    SPT_TRY(spt_parse_heads(o->heads, &p->q_heads, &p->kv_heads, err));
    SPT_TRY(spt_problem_set_types(p, o->dtype, o->kv_dtype, err));
    p->head_dim = (int)o->head_dim;
    p->page_size = (int)o->page_size;
    p->tree = strcmp(o->mask, "tree") == 0;
    p->window = (int)o->window;
    p->softcap = o->softcap;
    p->sinks = o->sinks;
    p->far = o->far;
    p->draft_length = (int)o->draft_length;
    p->seed = o->seed;
    p->n_contexts = o->contexts.count;
    for (int i = 0; i < p->n_contexts; i++)
        p->contexts[i] = (int)o->contexts.values[i];
    p->batch = o->batch ? (int)o->batch : p->n_contexts;
    return SPT_OK;
}

static void print_json(const spt_problem *problem, const spt_offer *offer,
                       const spt_proof *proofs, size_t passed)
{
    char text[320];
    spt_problem_text(problem, text, sizeof text);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "spectune.proof/1");
    cJSON *cases = cJSON_AddArrayToObject(root, "cases");
    for (size_t i = 0; i < offer->count; i++)
        cJSON_AddItemToArray(
            cases, spt_proof_json(&offer->attention[i], text, &proofs[i]));
    cJSON_AddNumberToObject(root, "passed", (double)passed);
    cJSON_AddNumberToObject(root, "failed", (double)(offer->count - passed));
    spt_print_json(root);
}

static void print_proof(const spt_built *built, const spt_proof *proof)
{
    const spt_config *c = &built->config;
    printf("%-4s  rows %3lld  row warps %lld  stages %lld  registers %3d  "
           "error %.2g of %.2g\n",
           proof->ok ? "ok" : "FAIL", (long long)spt_config_int(c, "rows", 0),
           (long long)spt_config_int(c, "row_warps", 0),
           (long long)spt_config_int(c, "stages", 0), built->image.registers,
           proof->max_error, proof->bound);
    if (!proof->ok)
        printf("      %s\n", proof->text);
}

static void print_text(const spt_machine *machine, const spt_problem *problem,
                       const spt_offer *offer, const spt_proof *proofs,
                       size_t passed)
{
    char text[320];
    spt_problem_text(problem, text, sizeof text);
    printf("verify attention on %s\n%s\n", machine->name, text);
    for (size_t i = 0; i < offer->count; i++)
        print_proof(&offer->attention[i], &proofs[i]);
    if (offer->spilled)
        printf("%zu more would spill registers and are not offered\n",
               offer->spilled);
    printf("%zu passed, %zu failed\n", passed, offer->count - passed);
}

static spt_status prove_offer(const prove_options *o, const spt_board *board,
                              const spt_problem *problem,
                              const spt_offer *offer, bool *all_ok,
                              spt_error *err)
{
    spt_device_choice choice = strcmp(o->device, "sim") == 0 ? SPT_DEVICE_SIM
                               : strcmp(o->device, "gpu") == 0
                                   ? SPT_DEVICE_GPU
                                   : SPT_DEVICE_AUTO;
    spt_machine machine;
    SPT_TRY(spt_machine_open(board, choice, true, &machine, err));
    spt_proof *proofs = spt_calloc(offer->count, sizeof *proofs);
    const spt_proof_set set = {
        .problem = *problem,
        .attention = offer->attention,
        .count = offer->count,
        .combine = &offer->combine,
        .base_attention = &offer->base_attention,
        .base_combine = &offer->base_combine,
        .every_width = true,
    };
    spt_status status = proofs ? spt_prove(&machine, &set, proofs, err)
                               : spt_fail(err, SPT_E_MEMORY, "out of memory");
    if (status == SPT_OK) {
        size_t passed = 0;
        for (size_t i = 0; i < offer->count; i++)
            passed += proofs[i].ok;
        *all_ok = passed == offer->count;
        if (o->json)
            print_json(problem, offer, proofs, passed);
        else
            print_text(&machine, problem, offer, proofs, passed);
    }
    spt_free(proofs);
    spt_machine_close(&machine);
    return status;
}

static spt_status prove(const prove_options *o, const spt_builder *builder,
                        bool *all_ok, spt_error *err)
{
    spt_problem problem = {0};
    spt_config *configs = NULL;
    size_t count;
    spt_offer offer;
    SPT_TRY(make_problem(o, &problem, err));
    SPT_TRY(spt_offer_space(builder, &problem, (int)o->chunk, o->every_config,
                            &configs, &count, err));
    spt_status status = spt_offer_build(builder, &problem, (int)o->chunk,
                                        configs, count, &offer, err);
    spt_free(configs);
    SPT_TRY(status);
    status = prove_offer(o, builder->board, &problem, &offer, all_ok, err);
    spt_offer_free(&offer);
    return status;
}

/* Options may stand before the operator: its name moves to the front. What
   follows an option is its value ("--mask tree"). */
static void lead_with_operator(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (argv[i - 1][0] != '-' && spt_operator_find(argv[i])) {
            char *name = argv[i];
            memmove(argv + 2, argv + 1, (size_t)(i - 1) * sizeof *argv);
            argv[1] = name;
            return;
        }
}

int spt_cmd_prove(int argc, char **argv)
{
    lead_with_operator(argc, argv);
    if (argc > 1 && argv[1][0] != '-') {
        if (strcmp(argv[1], "verify_attention") != 0)
            return spt_cmd_prove_operator(argc, argv);
        argc--, argv++;
    }
    prove_options o = {.mask = "chain",
                       .dtype = "bf16",
                       .device = "auto",
                       .contexts = {4, {0, 5, 509, 1041}},
                       .head_dim = 128,
                       .draft_length = 7,
                       .page_size = 16,
                       .seed = 1,
                       .chunk = 512};
    int status = parse(argc, argv, &o);
    if (status >= 0)
        return status;
    spt_error err = {0};
    spt_board board;
    spt_builder builder = {.board = &board};
    bool all_ok = false;
    spt_status result =
        spt_builder_open(&builder, o.arch, o.board, &board, &err);
    if (result == SPT_OK)
        result = prove(&o, &builder, &all_ok, &err);
    spt_builder_close(&builder);
    if (result != SPT_OK)
        return spt_exit_error("spectune prove", &err);
    return all_ok ? 0 : 1;
}
