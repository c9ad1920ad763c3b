#include "build.h"

#include <string.h>

#include "mem.h"

spt_status spt_find_board(spt_gen *gen, const char *arch, const char *name,
                          spt_board *board, spt_error *err)
{
    size_t length = name ? strlen(name) : 0;
    if (!arch && !name)
        return spt_fail(err, SPT_E_USAGE,
                        "--arch: expected an architecture (spectune archs "
                        "lists them)");
    if (!name)
        return spt_gen_default_board(gen, arch, board, err);
    if (length > 4 && strcmp(name + length - 4, ".lua") == 0)
        SPT_TRY(spt_gen_board_file(gen, name, board, err));
    else
        SPT_TRY(spt_gen_board(gen, name, board, err));
    if (arch && strcmp(arch, board->arch) != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--board %s: is of %s, expected %s as --arch says",
                        name, board->arch, arch);
    return SPT_OK;
}

spt_status spt_builder_open(spt_builder *builder, const char *arch,
                            const char *board_name, spt_board *board,
                            spt_error *err)
{
    SPT_TRY(spt_gen_open(NULL, &builder->gen, err));
    SPT_TRY(spt_find_board(builder->gen, arch, board_name, board, err));
    builder->board = board;
    return spt_compiler_open(NULL, NULL, &builder->compiler, err);
}

void spt_builder_close(spt_builder *builder)
{
    spt_compiler_close(builder->compiler);
    spt_gen_close(builder->gen);
    builder->compiler = NULL;
    builder->gen = NULL;
}

void spt_built_free(spt_built *built)
{
    spt_kernel_free(&built->kernel);
    spt_image_free(&built->image);
}

static spt_status emit_all(const spt_builder *builder,
                           const spt_build_item *items, size_t count,
                           spt_kernel *kernels, spt_error *err)
{
    for (size_t i = 0; i < count; i++)
        SPT_TRY(spt_gen_emit(builder->gen, items[i].template_name,
                             &items[i].config, builder->board, &kernels[i],
                             err));
    return SPT_OK;
}

spt_status spt_build(const spt_builder *builder, const spt_build_item *items,
                     size_t count, spt_built *built, spt_error *err)
{
    spt_kernel *kernels = spt_calloc(count, sizeof *kernels);
    spt_image *images = spt_calloc(count, sizeof *images);
    spt_status status = SPT_E_MEMORY;
    if (kernels && images)
        status = emit_all(builder, items, count, kernels, err);
    else
        spt_fail(err, status, "build: out of memory");
    if (status == SPT_OK)
        status = spt_compile(builder->compiler, kernels, count, 0, 0,
                             builder->progress, builder->user, images, err);
    for (size_t i = 0; kernels && i < count; i++)
        if (status == SPT_OK)
            built[i] = (spt_built){items[i].config, kernels[i], images[i]};
        else
            spt_kernel_free(&kernels[i]);
    spt_free(kernels);
    spt_free(images);
    return status;
}
