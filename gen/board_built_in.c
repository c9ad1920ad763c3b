#include "board_built_in.h"

#include <string.h>

/* Made by none/print_boards.c when the library is built. */
static const _Alignas(spt_board) unsigned char boards[][sizeof(spt_board)] = {
#include "board_bytes.inc"
};
enum { BOARDS = sizeof boards / sizeof *boards };

size_t spt_built_in_count(void)
{
    return BOARDS;
}

const spt_board *spt_built_in_at(size_t index)
{
    return index < BOARDS ? (const spt_board *)(const void *)boards[index]
                          : NULL;
}

spt_status spt_built_in_find(const char *name, spt_board *board, spt_error *err)
{
    const spt_board *b;
    for (size_t i = 0; (b = spt_built_in_at(i)) != NULL; i++)
        if (strcmp(b->name, name) == 0) {
            *board = *b;
            return SPT_OK;
        }
    return spt_fail(err, SPT_E_USAGE, "board %.60s: is none that is built in",
                    name);
}
