/*
 * What a proof found out about one kernel, and how proofs note it.
 */
#ifndef SPT_PROOF_H
#define SPT_PROOF_H

#include <cJSON.h>

#include "build.h"
#include "machine.h"

typedef struct spt_proof {
    double max_error, bound; /* at the element nearest to its bound */
    bool within_bound, rows_bit_equal, guards_ok;
    uint64_t reports; /* of sim's checks */
    uint64_t runs; /* launches that were compared */
    bool ok; /* all of it, and no spills */
    char text[320]; /* the first thing that was wrong, or "" */
} spt_proof;

/* A proof that has found nothing wrong yet. */
spt_proof spt_proof_begin(void);

/* Sets ok from what was found and from the kernel's spills. */
void spt_proof_end(spt_proof *proof, const spt_image *image);

/* Keeps the first thing that was wrong. */
void spt_proof_blame(spt_proof *proof, const char *fmt, ...) SPT_PRINTF(2, 3);

/* Moves what sim has reported since the last call into the proof. */
void spt_proof_take_reports(spt_proof *proof, const spt_machine *machine);

/* The error is nearer to its bound than the one that the proof holds. */
bool spt_proof_nearer(const spt_proof *proof, double error, double bound);

/*
 * Compares a number with what it should be: past the bound the proof blames
 * `what` of that row.
 */
void spt_proof_compare(spt_proof *proof, double seen, double right,
                       double bound, const char *what, size_t row);

/* What a pack and a profile say of a proof. */
cJSON *spt_proof_summary(const spt_proof *proof, const char *proved_on);

/* The proof of one kernel as an object of spectune.proof/1. */
cJSON *spt_proof_json(const spt_built *built, const char *problem,
                      const spt_proof *proof);

#endif
