/*
 * Shapes: how the lanes' addresses in shared memory lie to each other. An
 * instruction has mostly one, wherever its first lane is, so that the pieces
 * of memory that it takes need not be found each time.
 */
#ifndef SPT_SIM_SHAPE_H
#define SPT_SIM_SHAPE_H

#include "access.h"

enum { SIM_CELL = 16 };

/*
 * Bytes of one cell of 16 that lanes side by side access: `first` to
 * first + n - 1, from lane `lane` on. Lanes that read what lanes before them
 * read have no part; those that they repeat have a bit in `several`.
 */
typedef struct sim_shape_part {
    int32_t cell; /* from the cell of lane 0 */
    uint16_t bytes; /* of the cell, a bit each */
    uint8_t first, n, lane;
    bool whole; /* all of the cell, and all its lanes alone or none of them */
    uint16_t several; /* bit 0: lane `lane` */
    uint16_t who; /* of a whole one, for marks of races: SIM_SHAPE_WHO */
} sim_shape_part;

/* Bytes side by side belong to lanes from `lane` on, 1 << shift bytes each. */
#define SIM_SHAPE_WHO(shift, lane) ((uint16_t)((shift) << 8 | (lane)))
enum { SIM_SHAPE_SEVERAL = 0xff }; /* they belong to several lanes each */

typedef struct sim_shape {
    uint32_t lanes, bytes; /* bytes per lane, 1 to 8; 0: empty */
    uint32_t place; /* of lane 0 in its cell */
    bool write; /* nothing is repeated */
    uint32_t apart[SIM_LANES]; /* of each lane from lane 0 */
    sim_wavefronts wavefronts; /* ideal 0: not looked at yet */
    uint32_t n;
    sim_shape_part part[SIM_LANES];
} sim_shape;

/* Finds the parts; at: offsets in shared memory, multiples of bytes, lanes
   that do not take part included. */
void sim_shape_make(sim_shape *shape, const uint32_t *at, uint32_t lanes,
                    uint32_t bytes, bool write);

enum { SIM_SHAPES = 32 };

typedef struct sim_shapes {
    sim_shape shape[SIM_SHAPES]; /* by a hash */
} sim_shapes;

/* The shape of an access of less than 16 bytes per lane. */
sim_shape *sim_shape_of(sim_shapes *shapes, const uint32_t *at, uint32_t lanes,
                        uint32_t bytes, bool write);

/* Does a bit per byte of shared memory differ from want's, all ones or zeros,
   at any of the parts? first: of lane 0. */
static inline bool sim_shape_differs(const sim_shape *shape,
                                     const uint64_t *bits, uint32_t first,
                                     uint64_t want)
{
    uint64_t differ = 0;
    for (uint32_t k = 0; k < shape->n; k++) {
        const sim_shape_part *p = &shape->part[k];
        uint32_t cell = first / SIM_CELL + (uint32_t)p->cell;
        differ |= ((bits[cell >> 2] ^ want) >> 16 * (cell & 3)) & p->bytes;
    }
    return differ != 0;
}

#endif
