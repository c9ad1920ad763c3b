/*
 * Stands for gen/ in the library that takes its kernels from packs alone:
 * boards are those of board_built_in.c, templates and a compiler are not
 * there. Neither Lua nor NVRTC is needed.
 */
#include "board_built_in.h"
#include "kernel_set.h"

struct spt_gen {
    int unused;
};
static struct spt_gen only;

spt_status spt_gen_open(const char *root, spt_gen **gen, spt_error *err)
{
    (void)root;
    (void)err;
    *gen = &only;
    return SPT_OK;
}

void spt_gen_close(spt_gen *gen)
{
    (void)gen;
}

size_t spt_gen_board_count(spt_gen *gen)
{
    (void)gen;
    return spt_built_in_count();
}

const char *spt_gen_board_name(spt_gen *gen, size_t index)
{
    (void)gen;
    const spt_board *b = spt_built_in_at(index);
    return b ? b->name : NULL;
}

spt_status spt_gen_board(spt_gen *gen, const char *name, spt_board *board,
                         spt_error *err)
{
    (void)gen;
    return spt_built_in_find(name, board, err);
}

spt_status spt_gen_board_file(spt_gen *gen, const char *path, spt_board *board,
                              spt_error *err)
{
    (void)gen;
    (void)board;
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "%.200s: this library reads no board files, expected the "
                    "name of a board",
                    path);
}

spt_status spt_compiler_open(const char *library, const char *cache_folder,
                             spt_compiler **compiler, spt_error *err)
{
    (void)library;
    (void)cache_folder;
    (void)compiler;
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "this library makes no kernels, expected a pack and "
                    "pack_only");
}

void spt_compiler_close(spt_compiler *compiler)
{
    (void)compiler;
}

spt_status spt_kernels_make(const spt_kernel_source *source,
                            const spt_kernel_request *requests, size_t count,
                            spt_kernel_made *made, spt_error *err)
{
    (void)source;
    (void)made;
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "kernel %s: this library makes none",
                    count ? requests->template_name : "");
}

void spt_kernel_made_free(spt_kernel_made *made)
{
    (void)made;
}
