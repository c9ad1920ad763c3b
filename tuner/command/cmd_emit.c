/*
 * spectune emit [KERNEL [NAME=VALUE...]]: the CUDA text of a kernel, or its PTX
 * and cubin; without one, the kernels; --list shows a kernel's parameters.
 */
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "commands.h"
#include "files.h"
#include "options.h"
#include "template.h"

typedef struct request {
    const char *arch, *board_name, *ptx, *cubin;
    bool list;
    spt_texts operands;
    spt_gen *gen;
    spt_board board;
} request;

static spt_status list_kernels(spt_gen *gen, spt_error *err)
{
    char *names = NULL;
    size_t count = 0;
    const spt_template *t;
    SPT_TRY(spt_gen_template_names(gen, &names, &count, err));
    spt_status status = SPT_OK;
    for (const char *at = names; count-- && status == SPT_OK;
         at += strlen(at) + 1) {
        status = spt_gen_template(gen, at, &t, err);
        if (status == SPT_OK) {
            printf("%-18s ", t->name);
            spt_print_wrapped(t->title, 19, 19);
        }
    }
    spt_free(names);
    return status;
}

static void list_field(const spt_field *f)
{
    char values[512], text[640], fallback[32] = "";
    spt_field_values(f, values, sizeof values);
    if (f->has_default)
        spt_value_text(&f->fallback, fallback, sizeof fallback);
    snprintf(text, sizeof text, "%s%s%s%s", values,
             f->has_default ? " (default " : "", fallback,
             f->has_default ? ")" : "");
    printf("  %-12s ", f->name);
    spt_print_wrapped(f->doc, 15, 15);
    printf("  %-12s ", "");
    spt_print_wrapped(text, 15, 15);
}

static spt_status list_fields(spt_gen *gen, const char *name, spt_error *err)
{
    const spt_template *t;
    SPT_TRY(spt_gen_template(gen, name, &t, err));
    printf("%s: ", t->name);
    spt_print_wrapped(t->title, (int)strlen(t->name) + 2, 2);
    for (int how = 0; how < 2; how++) {
        printf("\n%s\n", how ? "How" : "What");
        for (int i = 0; i < t->n_fields; i++)
            if (t->fields[i].is_param == (how == 1))
                list_field(&t->fields[i]);
    }
    return SPT_OK;
}

static spt_status emit(request *r, spt_kernel *kernel, spt_error *err)
{
    const spt_template *t;
    spt_config given = {0}, *configs = NULL;
    size_t count = 0;
    SPT_TRY(spt_gen_template(r->gen, r->operands.values[0], &t, err));
    for (int i = 1; i < r->operands.count; i++)
        SPT_TRY(spt_template_operand(t, r->operands.values[i], &given, err));
    SPT_TRY(spt_find_board(r->gen, r->arch, r->board_name, &r->board, err));
    SPT_TRY(spt_gen_space(r->gen, t->name, &given, &r->board, &configs, &count,
                          err));
    spt_status status =
        spt_gen_emit(r->gen, t->name, &configs[0], &r->board, kernel, err);
    spt_free(configs);
    return status;
}

/* Writes to path, or to standard output for "-". */
static spt_status save(const char *path, const void *data, size_t size,
                       spt_error *err)
{
    if (strcmp(path, "-") != 0)
        return spt_file_write(path, data, size, err);
    if (fwrite(data, 1, size, stdout) != size || fflush(stdout) != 0)
        return spt_fail(err, SPT_E_IO, "standard output: cannot write");
    return SPT_OK;
}

static spt_status compile_and_save(const request *r, const spt_kernel *kernel,
                                   spt_error *err)
{
    spt_compiler *compiler;
    spt_image image;
    SPT_TRY(spt_compiler_open(NULL, NULL, &compiler, err));
    spt_status status =
        spt_compile(compiler, kernel, 1, 1, 0, NULL, NULL, &image, err);
    spt_compiler_close(compiler);
    SPT_TRY(status);
    if (r->ptx)
        status = save(r->ptx, image.ptx, image.ptx_size, err);
    if (status == SPT_OK && r->cubin)
        status = save(r->cubin, image.cubin, image.cubin_size, err);
    if (status == SPT_OK)
        fprintf(stderr,
                "%s for %s by %s: %d registers, %d bytes of shared memory, %d "
                "bytes spilled\n",
                kernel->symbol, kernel->target, image.compiler, image.registers,
                image.shared_bytes + kernel->shared_bytes, image.spill_bytes);
    spt_image_free(&image);
    return status;
}

static spt_status run(request *r, spt_error *err)
{
    spt_kernel kernel;
    SPT_TRY(spt_gen_open(NULL, &r->gen, err));
    if (!r->operands.count && (r->ptx || r->cubin))
        return spt_fail(err, SPT_E_USAGE,
                        "expected a kernel (--list shows them)");
    if (!r->operands.count)
        return list_kernels(r->gen, err);
    if (r->list && (r->operands.count > 1 || r->ptx || r->cubin))
        return spt_fail(err, SPT_E_USAGE,
                        "--list: expected a kernel's name, or nothing, beside "
                        "it");
    if (r->list)
        return list_fields(r->gen, r->operands.values[0], err);
    SPT_TRY(emit(r, &kernel, err));
    spt_status status = r->ptx || r->cubin
                            ? compile_and_save(r, &kernel, err)
                            : save("-", kernel.source, kernel.source_size, err);
    spt_kernel_free(&kernel);
    return status;
}

int spt_cmd_emit(int argc, char **argv)
{
    request r = {0};
    const spt_option options[] = {
        {"arch", 0, SPT_OPTION_TEXT, &r.arch, "ARCH", "architecture, as sm90",
         0, 0},
        {"board", 0, SPT_OPTION_TEXT, &r.board_name, "NAME|FILE.lua",
         "board; without it, the one that stands for the architecture", 0, 0},
        {"list", 0, SPT_OPTION_FLAG, &r.list, NULL,
         "show the kernels, or what KERNEL takes", 0, 0},
        {"ptx", 0, SPT_OPTION_TEXT, &r.ptx, "FILE",
         "compile and write the PTX (-: to standard output)", 0, 0},
        {"cubin", 0, SPT_OPTION_TEXT, &r.cubin, "FILE",
         "compile and write the cubin", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune emit",
        .operands = "[KERNEL [NAME=VALUE...]]",
        .max_operands = SPT_LIST_MAX,
        .summary = "Prints the CUDA text of a kernel; without one, the list of "
                   "kernels. What --list shows as its "
                   "problem has to be given; other parameters take the first "
                   "values that fit the board.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    spt_error err = {0};
    int status = spt_options(&usage, argc, argv, &r.operands);
    if (status >= 0)
        return status;
    spt_status result = run(&r, &err);
    spt_gen_close(r.gen);
    return result == SPT_OK ? 0 : spt_exit_error(usage.command, &err);
}
