/*
 * Random numbers that are a function of what they are for, not of how many
 * were drawn before: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel
 * random numbers: as easy as 1, 2, 3; SC 2011) keyed by the request's seed and
 * counted by position and use. So a draft that is thrown away shifts nothing.
 */
#ifndef SPT_RANDOM_H
#define SPT_RANDOM_H

#include <stdint.h>

/* What a number is for; the values go into the counter. */
typedef enum spt_random_use {
    SPT_RANDOM_SAMPLE = 0, /* the target's token at a position */
    SPT_RANDOM_DRAFT = 1, /* the drafter's token at a position */
    SPT_RANDOM_ACCEPT = 2, /* whether a sampled draft is accepted */
    SPT_RANDOM_RESIDUAL = 3, /* the token instead of a rejected draft */
} spt_random_use;

void spt_philox(const uint32_t counter[4], const uint32_t key[2],
                uint32_t out[4]);

/* Uniform in [0, 1), a multiple of 2^-53. */
double spt_random(uint64_t seed, int64_t position, spt_random_use use);

#endif
