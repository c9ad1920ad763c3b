/* What the files of gen/ share about an open spt_gen. */
#ifndef SPT_GEN_INT_H
#define SPT_GEN_INT_H

#include "gen.h"
#include "lua_host.h"
#include "template.h"

struct spt_boards;

struct spt_gen {
    spt_lua *lua;
    struct spt_boards *boards; /* filled on first use by boards.c */
    spt_templates templates;
};

/* Frees gen->boards; NULL is fine. */
void spt_boards_free(struct spt_boards *boards);

#endif
