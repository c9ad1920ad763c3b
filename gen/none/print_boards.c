/* Prints the boards of archs/ as the rows of board_built_in.c's table, which
   is not there yet. */
#include <stdio.h>

#include "board_built_in.h"

size_t spt_built_in_count(void)
{
    return 0;
}

const spt_board *spt_built_in_at(size_t index)
{
    (void)index;
    return NULL;
}

spt_status spt_built_in_find(const char *name, spt_board *board, spt_error *err)
{
    (void)name, (void)board;
    return spt_fail(err, SPT_E_INTERNAL, "no board is built in");
}

static void print_board(const spt_board *board)
{
    const unsigned char *bytes = (const unsigned char *)board;
    printf("/* %s */ {", board->name);
    for (size_t i = 0; i < sizeof *board; i++)
        printf("%s%d,", i % 32 ? "" : "\n", bytes[i]);
    printf("},\n");
}

int main(int argc, char **argv)
{
    spt_error err;
    spt_gen *gen;
    spt_status status = spt_gen_open(argc > 1 ? argv[1] : NULL, &gen, &err);
    size_t count = status == SPT_OK ? spt_gen_board_count(gen) : 0;
    for (size_t i = 0; status == SPT_OK && i < count; i++) {
        static spt_board board;
        status = spt_gen_board(gen, spt_gen_board_name(gen, i), &board, &err);
        if (status == SPT_OK)
            print_board(&board);
    }
    if (status != SPT_OK || !count) {
        fprintf(stderr, "print_boards: %s\n", count ? err.text : "no board");
        return 1;
    }
    spt_gen_close(gen);
    return 0;
}
