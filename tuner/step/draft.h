/* The longest draft block that kernels and choices go up to. */
#ifndef SPT_DRAFT_H
#define SPT_DRAFT_H

/* Drafted tokens, and those with the anchor. */
enum { SPT_DRAFT_MAX = 31, SPT_NODES_MAX = SPT_DRAFT_MAX + 1 };

#endif
