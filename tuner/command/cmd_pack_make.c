/*
 * spectune pack make FILE -o DIR: a pack of the kernels that a text file
 * lists, "NAME name=value ..." a line, or that models need; each is proved
 * first.
 */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "files.h"
#include "forward.h"
#include "options.h"
#include "pack_make.h"
#include "pack_write.h"
#include "progress.h"
#include "run_options.h"
#include "template.h"

enum { FILE_MAX_BYTES = 1 << 20 };

typedef struct request {
    const char *arch, *board_name, *device, *folder, *file, *dtype, *method;
    spt_texts models, drafts; /* files of targets, of draft models */
    int64_t page_size;
    spt_buf text;
    spt_kernel_request *kernels;
    size_t count;
    spt_builder builder;
    spt_board board;
} request;

/* The next word of a line, cut out of it; NULL at its end. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \t\r");
    size_t size = strcspn(word, " \t\r");
    if (!size || *word == '#')
        return NULL;
    *at = word + size + (word[size] != 0);
    word[size] = 0;
    return word;
}

static spt_status read_line(request *r, char *line, spt_error *err)
{
    const spt_template *t;
    char *word = next_word(&line);
    if (!word)
        return SPT_OK;
    spt_kernel_request *kernel = &r->kernels[r->count++];
    kernel->template_name = word;
    SPT_TRY(spt_gen_template(r->builder.gen, word, &t, err));
    while ((word = next_word(&line)) != NULL)
        SPT_TRY(spt_template_operand(t, word, &kernel->config, err));
    return SPT_OK;
}

/* Names of kernels point into the text. */
static spt_status read_file(request *r, spt_error *err)
{
    SPT_TRY(spt_file_read(r->file, FILE_MAX_BYTES, &r->text, err));
    size_t lines = 1;
    for (size_t i = 0; i < r->text.size; i++)
        lines += r->text.data[i] == '\n';
    r->kernels = spt_calloc(lines, sizeof *r->kernels);
    if (!r->kernels)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", r->file);
    char *line = r->text.data;
    for (size_t n = 1; line; n++) {
        char where[512], *end = strchr(line, '\n');
        if (end)
            *end = 0;
        snprintf(where, sizeof where, "%.400s:%zu", r->file, n);
        spt_status status = read_line(r, line, err);
        if (status != SPT_OK)
            return spt_fail_in(err, where);
        line = end ? end + 1 : NULL;
    }
    return SPT_OK;
}

static spt_dtype dtype_of(const request *r, const spt_model *model)
{
    if (strcmp(r->dtype, "auto") == 0)
        return spt_forward_dtype(spt_model_config_of(model));
    return strcmp(r->dtype, "fp16") == 0 ? SPT_FP16 : SPT_BF16;
}

/* Adds the kernels of one model; names of kernels are the library's. */
static spt_status add_kernels(request *r, const spt_model *model,
                              const spt_forward_limits *limits, spt_error *err)
{
    spt_kernel_request *more;
    size_t count;
    SPT_TRY(spt_forward_kernels(model, limits, &more, &count, err));
    spt_kernel_request *all =
        spt_realloc(r->kernels, r->count + count, sizeof *all);
    if (all) {
        memcpy(all + r->count, more, count * sizeof *all);
        r->kernels = all;
        r->count = spt_kernel_requests_unique(all, r->count + count);
    }
    spt_free(more);
    return all ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
}

/* Of a target: an engine with fewer kinds of drafts asks for a part of these.
   *dtype: what its draft models run in, too. */
static spt_status add_target(request *r, const char *path,
                             spt_draft_method method, spt_dtype *dtype,
                             spt_error *err)
{
    spt_forward_limits limits = {.page_size = (int)r->page_size,
                                 .trees = method != SPT_DRAFT_NONE,
                                 .histories = method == SPT_DRAFT_NGRAM};
    spt_model *model;
    SPT_TRY(spt_model_open(&model, path, err));
    limits.dtype = *dtype = dtype_of(r, model);
    spt_status status = add_kernels(r, model, &limits, err);
    spt_model_close(model);
    return status;
}

static spt_status add_draft(request *r, const char *path, const bool *dtypes,
                            spt_error *err)
{
    spt_forward_limits limits = {
        .page_size = (int)r->page_size, .target_vocab = 1, .kept = 1};
    spt_status status = SPT_OK;
    spt_model *model;
    SPT_TRY(spt_model_open(&model, path, err));
    for (int i = 0; i < 2 && status == SPT_OK; i++) {
        limits.dtype = i ? SPT_FP16 : SPT_BF16;
        if (dtypes[i])
            status = add_kernels(r, model, &limits, err);
    }
    spt_model_close(model);
    return status;
}

static spt_status read_models(request *r, spt_error *err)
{
    bool dtypes[2] = {false, false}; /* bf16, fp16: of any target */
    spt_draft_method method = SPT_DRAFT_NGRAM;
    if (r->method)
        SPT_TRY(spt_run_method("--spec-type", r->method, &method, err));
    if (r->method && !r->drafts.count != !spt_run_method_has_file(method))
        return spt_fail(err, SPT_E_USAGE,
                        "--spec-type: model or eagle3 and --model-draft go "
                        "together");
    for (int i = 0; i < r->models.count; i++) {
        spt_dtype dtype;
        SPT_TRY(add_target(r, r->models.values[i], method, &dtype, err));
        dtypes[dtype == SPT_FP16] = true;
    }
    for (int i = 0; i < r->drafts.count; i++)
        SPT_TRY(add_draft(r, r->drafts.values[i], dtypes, err));
    return SPT_OK;
}

static void print_proof(void *user, const spt_built *built,
                        const spt_proof *proof)
{
    (void)user;
    spt_progress_clear();
    printf("%-4s  %s  registers %d  error %.2g of %.2g\n",
           proof->ok ? "ok" : "FAIL", built->kernel.symbol,
           built->image.registers, proof->max_error, proof->bound);
    if (!proof->ok)
        printf("      %s\n", proof->text);
    fflush(stdout);
}

static spt_status make_on(request *r, spt_machine *machine, bool *all_ok,
                          spt_error *err)
{
    const spt_pack_job job = {.builder = &r->builder,
                              .machine = machine,
                              .requests = r->kernels,
                              .count = r->count,
                              .folder = r->folder,
                              .done = print_proof,
                              .progress = spt_progress_compiling};
    SPT_TRY(spt_pack_make(&job, all_ok, err));
    if (*all_ok)
        printf("%s is written\n", r->folder);
    else
        printf("no pack is written: a proof failed\n");
    return SPT_OK;
}

static spt_status check_options(const request *r, spt_error *err)
{
    if (!r->folder)
        return spt_fail(err, SPT_E_USAGE,
                        "-o: expected the folder for the pack");
    if (!r->models.count == !r->file)
        return spt_fail(err, SPT_E_USAGE,
                        "expected a file that lists kernels, or --model");
    if (!r->models.count && (r->drafts.count || r->method))
        return spt_fail(err, SPT_E_USAGE,
                        "--model-draft, --spec-type: expected --model, whose "
                        "drafts they are");
    return spt_pack_check_folder(r->folder, err);
}

static spt_status make(request *r, bool *all_ok, spt_error *err)
{
    spt_machine machine;
    spt_device_choice choice = strcmp(r->device, "sim") == 0 ? SPT_DEVICE_SIM
                               : strcmp(r->device, "gpu") == 0
                                   ? SPT_DEVICE_GPU
                                   : SPT_DEVICE_AUTO;
    SPT_TRY(check_options(r, err));
    SPT_TRY(
        spt_builder_open(&r->builder, r->arch, r->board_name, &r->board, err));
    SPT_TRY(r->file ? read_file(r, err) : read_models(r, err));
    SPT_TRY(spt_machine_open(&r->board, choice, true, &machine, err));
    spt_status status = make_on(r, &machine, all_ok, err);
    spt_machine_close(&machine);
    return status;
}

int spt_cmd_pack_make(int argc, char **argv)
{
    static request r;
    r = (request){.device = "auto", .dtype = "auto", .page_size = 16};
    const spt_option options[] = {
        {"model", 'm', SPT_OPTION_EACH, &r.models, "FILE",
         "the kernels that an engine takes for this model; may be given again",
         0, 0},
        {"model-draft", 0, SPT_OPTION_EACH, &r.drafts, "FILE",
         "and those of this draft model or head, also -md; may be given again",
         0, 0},
        {"spec-type", 0, SPT_OPTION_TEXT, &r.method, "none|ngram|model|eagle3",
         "those for this kind of drafts alone (all kinds)", 0, 0},
        {"dtype", 0, SPT_OPTION_CHOICE, &r.dtype, "auto|bf16|fp16",
         "type of a model's activations and KV (auto: as an engine takes it)",
         0, 0},
        {"page-size", 0, SPT_OPTION_INT, &r.page_size, "N",
         "tokens per KV page of the engine (16)", 1, 4096},
        {"arch", 0, SPT_OPTION_TEXT, &r.arch, "ARCH",
         "architecture: sm80 ... sm121", 0, 0},
        {"board", 0, SPT_OPTION_TEXT, &r.board_name, "NAME|FILE.lua",
         "board; default: the architecture's first", 0, 0},
        {"device", 0, SPT_OPTION_CHOICE, &r.device, "auto|sim|gpu",
         "what proves the kernels (auto: a fitting GPU, else sim)", 0, 0},
        {"output", 'o', SPT_OPTION_TEXT, &r.folder, "DIR",
         "folder for the pack", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune pack make",
        .operands = "[FILE]",
        .min_operands = 0,
        .max_operands = 1,
        .summary = "Builds and proves the kernels that FILE lists, one a line "
                   "as NAME NAME=VALUE... (spectune emit NAME --list shows "
                   "the values), or those that models need, and writes a "
                   "pack when all proofs are good.",
        .foreign = true,
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    spt_texts operands = {0};
    spt_error err = {0};
    bool all_ok = false;
    int status = spt_options(&usage, argc, argv, &operands);
    if (status >= 0)
        return status;
    r.builder.board = &r.board;
    r.file = operands.count ? operands.values[0] : NULL;
    spt_status result = make(&r, &all_ok, &err);
    spt_builder_close(&r.builder);
    spt_free(r.kernels);
    spt_buf_free(&r.text);
    if (result != SPT_OK)
        return spt_exit_error(usage.command, &err);
    return all_ok ? 0 : 1;
}
