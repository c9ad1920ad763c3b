/*
 * Confidence gates: a drafter that stops where its own probability falls under
 * a threshold. What such a gate can gain at most and lose at most follows from
 * survival alone, whatever the threshold and however good the probabilities:
 * the bounds are those of a gate that knows how many drafts will be kept.
 */
#ifndef SPT_GATE_H
#define SPT_GATE_H

#include "acceptance.h"
#include "drafter.h"

/* A step's times by draft length, 0 to SPT_DRAFT_MAX. */
typedef struct spt_gate_times {
    const double *verify_us, *draft_us;
    bool block; /* drafts come all at once: stopping saves verification only */
    int batch; /* sequences that share the passes */
} spt_gate_times;

/*
 * Tokens per microsecond and sequence, at least and at most, of any gate over
 * drafts of up to draft_length. The best one stops before the draft that will
 * not be kept; a bad one that stops at k has drafted k + 1 to see it. False
 * where the table does not know survival by position.
 */
bool spt_gate_rates(const spt_table *table, int draft_length,
                    const spt_gate_times *times, double *least, double *most);

/* Against the best chain: shares of its rate, 0.1 = a tenth faster. */
typedef struct spt_gate {
    bool known; /* false: reason says why */
    double best, worst; /* best: over all lengths; worst: at the chain's */
    int draft_length; /* cap of the best */
    char reason[100];
} spt_gate;

/* chain: its length; rate: its tokens per microsecond; longest: the most
   drafts that fit. */
void spt_gate_weigh(const spt_drafter *drafter, const spt_table *table,
                    const spt_gate_times *times, int longest, int chain,
                    double rate, spt_gate *gate);

/* "gains at most ...", or why there is no number; text. */
const char *spt_gate_text(const spt_gate *gate, char *text, size_t size);

#endif
