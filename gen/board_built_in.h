/* The boards of archs/ as they were when the library was built. */
#ifndef SPT_BOARD_BUILT_IN_H
#define SPT_BOARD_BUILT_IN_H

#include "gen.h"

size_t spt_built_in_count(void);
/* NULL past the last; sorted by name. */
const spt_board *spt_built_in_at(size_t index);
spt_status spt_built_in_find(const char *name, spt_board *board,
                             spt_error *err);

#endif
