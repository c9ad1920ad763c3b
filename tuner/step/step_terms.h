/* What a step's time is made of. */
#ifndef SPT_STEP_TERMS_H
#define SPT_STEP_TERMS_H

typedef enum spt_term {
#define SPT_TERM(id, name) SPT_TERM_##id,
#include "step_terms.def"
#undef SPT_TERM
    SPT_TERM_COUNT
} spt_term;

typedef struct spt_step_terms {
    double us[SPT_TERM_COUNT];
} spt_step_terms;

const char *spt_term_name(spt_term term);
double spt_step_total_us(const spt_step_terms *terms);

#endif
