/*
 * spectune archs [NAME] [--board FILE] [--json]: the architectures and boards
 * that are known; of one, every figure with unit and source.
 */
#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#include "boards.h"
#include "calibration.h"
#include "commands.h"
#include "json.h"
#include "options.h"
#include "show.h"

/* Without the vendor, which is the same everywhere: so a row has room. */
static const char *short_title(const spt_board *b)
{
    static const char vendor[] = "NVIDIA ";
    size_t size = sizeof vendor - 1;
    return strncmp(b->title, vendor, size) == 0 ? b->title + size : b->title;
}

static void print_list(spt_gen *gen)
{
    spt_board b;
    for (size_t a = 0; a < spt_gen_arch_count(gen); a++) {
        const char *arch = spt_gen_arch_name(gen, a);
        printf("%-7s %s\n", arch, spt_gen_arch_title(gen, a));
        for (size_t i = 0; i < spt_gen_board_count(gen); i++) {
            const char *name = spt_gen_board_name(gen, i);
            if (spt_gen_board(gen, name, &b, NULL) != SPT_OK ||
                strcmp(b.arch, arch) != 0)
                continue;
            bool stands = strcmp(spt_gen_arch_board(gen, a), name) == 0;
            printf("  %c %-17s %-34.34s %3d SMs %5.0f GB/s\n",
                   stands ? '*' : ' ', name, short_title(&b), b.sm_count,
                   b.dram_gbps);
        }
    }
    printf("\n* stands for its architecture when no board is named.\n"
           "spectune archs NAME shows the figures with their sources.\n");
}

/* The figure, and below it what it means and where it comes from. */
static void print_fact(const spt_fact *f)
{
    char value[40], text[320];
    snprintf(value, sizeof value, f->value > 1e6 ? "%.0f" : "%.10g", f->value);
    printf("  %-24s %14s %s\n    ", f->field, value, f->unit);
    snprintf(text, sizeof text, "%s (%s)", f->meaning, f->source);
    spt_print_wrapped(text, 4, 4);
}

static void print_matrix(spt_gen *gen, const spt_board *b)
{
    printf("\nMatrix instructions for bf16: rows come in steps, a full tile "
           "reaches a share\nof bf16_tflops.\n");
    for (int i = 0; i < b->matrix_count; i++) {
        const spt_matrix *m = &b->matrix[i];
        printf("  %-9s %-10s step %2d, up to %3d rows, share %.2f\n",
               m->instruction, m->shape, m->row_step, m->max_rows, m->fraction);
        const char *source = spt_gen_matrix_source(gen, b->arch, i);
        printf("  %-9s ", "");
        spt_print_wrapped(source ? source : "", 12, 12);
    }
}

static void print_time_model(const spt_board *b)
{
    printf("\nTime model\n");
    if (!*b->time.fitted_on) {
        printf("  constants that no measured time was fitted to\n");
        return;
    }
    printf("  constants fitted to measured kernels on %s",
           strcmp(b->time.fitted_on, "generic") == 0 ? "all measured boards"
                                                     : b->time.fitted_on);
    if (b->time.attention_mape > 0)
        printf(", mean\n  error of that fit: attention %.1f %%, gemm %.1f %%",
               b->time.attention_mape, b->time.gemm_mape);
    putchar('\n');
}

static void print_board(spt_gen *gen, const spt_board *b, const spt_fact *facts,
                        size_t count)
{
    printf("%s: %s, %s, target %s\n\nBoard\n", b->name, b->title, b->arch,
           b->target);
    for (size_t i = 0; i < count; i++)
        if (facts[i].of_board)
            print_fact(&facts[i]);
    printf("\nArchitecture %s\n", b->arch);
    for (size_t i = 0; i < count; i++)
        if (!facts[i].of_board)
            print_fact(&facts[i]);
    print_matrix(gen, b);
    print_time_model(b);
}

static cJSON *time_json(const spt_board *b)
{
    spt_time_constants time = b->time;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "fitted_on", time.fitted_on);
    spt_json_add4(o, "attention_mape", time.attention_mape);
    spt_json_add4(o, "gemm_mape", time.gemm_mape);
    cJSON *list = cJSON_AddObjectToObject(o, "constants");
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++) {
        const spt_time_constant *row = &spt_time_constant_rows[i];
        cJSON *c = cJSON_AddObjectToObject(list, row->field);
        spt_json_add4(c, "value", *spt_time_constant_at(&time, i));
        cJSON_AddStringToObject(c, "unit", row->unit);
        cJSON_AddStringToObject(c, "meaning", row->meaning);
    }
    return o;
}

static cJSON *matrix_json(spt_gen *gen, const spt_board *b)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < b->matrix_count; i++) {
        const spt_matrix *m = &b->matrix[i];
        cJSON *o = cJSON_CreateObject();
        const char *source = spt_gen_matrix_source(gen, b->arch, i);
        cJSON_AddStringToObject(o, "instruction", m->instruction);
        cJSON_AddStringToObject(o, "shape", m->shape);
        cJSON_AddNumberToObject(o, "row_step", m->row_step);
        cJSON_AddNumberToObject(o, "max_rows", m->max_rows);
        cJSON_AddNumberToObject(o, "fraction", m->fraction);
        cJSON_AddStringToObject(o, "source", source ? source : "");
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

static cJSON *board_json(spt_gen *gen, const spt_board *b,
                         const spt_fact *facts, size_t count)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", b->name);
    cJSON_AddStringToObject(o, "title", b->title);
    cJSON_AddStringToObject(o, "arch", b->arch);
    cJSON_AddStringToObject(o, "target", b->target);
    cJSON *list = cJSON_AddObjectToObject(o, "facts");
    for (size_t i = 0; i < count; i++) {
        cJSON *f = cJSON_AddObjectToObject(list, facts[i].field);
        cJSON_AddNumberToObject(f, "value", facts[i].value);
        cJSON_AddStringToObject(f, "unit", facts[i].unit);
        cJSON_AddStringToObject(f, "source", facts[i].source);
    }
    cJSON_AddItemToObject(o, "matrix", matrix_json(gen, b));
    cJSON_AddItemToObject(o, "time_model", time_json(b));
    return o;
}

static spt_status list_json(spt_gen *gen, spt_error *err)
{
    cJSON *root = cJSON_CreateObject();
    spt_fact facts[SPT_FACT_MAX];
    spt_board b;
    spt_status status = SPT_OK;
    size_t count = 0;
    cJSON_AddStringToObject(root, "schema", "spectune.archs/1");
    cJSON *archs = cJSON_AddArrayToObject(root, "archs");
    for (size_t a = 0; a < spt_gen_arch_count(gen); a++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", spt_gen_arch_name(gen, a));
        cJSON_AddStringToObject(o, "title", spt_gen_arch_title(gen, a));
        cJSON_AddStringToObject(o, "default_board", spt_gen_arch_board(gen, a));
        cJSON_AddItemToArray(archs, o);
    }
    cJSON *boards = cJSON_AddArrayToObject(root, "boards");
    for (size_t i = 0; i < spt_gen_board_count(gen) && status == SPT_OK; i++) {
        const char *name = spt_gen_board_name(gen, i);
        status = spt_gen_board(gen, name, &b, err);
        if (status == SPT_OK)
            status = spt_gen_board_facts(gen, &b, facts, &count, err);
        if (status == SPT_OK)
            cJSON_AddItemToArray(boards, board_json(gen, &b, facts, count));
    }
    if (status == SPT_OK)
        spt_print_json(root);
    else
        cJSON_Delete(root);
    return status;
}

static spt_status show(spt_gen *gen, const char *name, const char *file,
                       bool json, spt_error *err)
{
    spt_fact facts[SPT_FACT_MAX];
    spt_board b;
    size_t count = 0;
    spt_status status = SPT_OK;
    bool is_arch = false;
    for (size_t a = 0; name && a < spt_gen_arch_count(gen); a++)
        is_arch |= strcmp(spt_gen_arch_name(gen, a), name) == 0;
    if (file)
        status = spt_gen_board_file(gen, file, &b, err);
    else if (is_arch || strncmp(name, "sm", 2) == 0)
        status = spt_gen_default_board(gen, name, &b, err);
    else
        status = spt_gen_board(gen, name, &b, err);
    SPT_TRY(status);
    SPT_TRY(spt_gen_board_facts(gen, &b, facts, &count, err));
    if (!json) {
        print_board(gen, &b, facts, count);
        return SPT_OK;
    }
    cJSON *o = board_json(gen, &b, facts, count);
    spt_print_json(o);
    return SPT_OK;
}

int spt_cmd_archs(int argc, char **argv)
{
    bool json = false;
    const char *file = NULL;
    const spt_option options[] = {
        {"board", 0, SPT_OPTION_TEXT, &file, "FILE.lua",
         "show a board of your own", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune archs",
        .operands = "[NAME]",
        .max_operands = 1,
        .summary = "Lists architectures and boards; of one, shows every "
                   "figure with its unit and source.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    spt_texts names = {0};
    spt_error err = {0};
    spt_gen *gen = NULL;
    int code = spt_options(&usage, argc, argv, &names);
    if (code >= 0)
        return code;
    if (file && names.count)
        return spt_exit_usage("spectune archs",
                              "--board: expected no NAME beside it");
    spt_status status = spt_gen_open(NULL, &gen, &err);
    spt_board probe;
    /* Any board loads all files, so that errors in them are said. */
    if (status == SPT_OK && spt_gen_board_count(gen) == 0)
        status = spt_gen_board(gen, "", &probe, &err);
    if (status == SPT_OK && (file || names.count))
        status =
            show(gen, names.count ? names.values[0] : NULL, file, json, &err);
    else if (status == SPT_OK && json)
        status = list_json(gen, &err);
    else if (status == SPT_OK)
        print_list(gen);
    spt_gen_close(gen);
    return status == SPT_OK ? 0 : spt_exit_error("spectune archs", &err);
}
