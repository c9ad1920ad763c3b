/*
 * Sim: a GPU on the CPU behind the driver table. One process-wide simulated
 * machine, like libcuda; its devices are boards.
 *
 * What a GPU cannot tell, sim adds: reports of what a kernel did wrong and
 * counters of what it did.
 */
#ifndef SPT_SIM_H
#define SPT_SIM_H

#include "board.h"
#include "driver.h"
#include "error.h"

typedef struct spt_sim_options {
    bool checks_off; /* run faster, report nothing */
    bool counters_off; /* no L2 model, no sector and bank counting */
    int idle_ms; /* without a driver call, until pending work runs though
                    nobody waits for it; 0 = never */
    bool trace; /* name what is asked for and not supported, on stderr */
    int threads; /* host threads; 0 = all cores */
    uint64_t max_instructions; /* warp instructions per launch before a kernel
                                  counts as hung; 0 = default */
} spt_sim_options;

/*
 * Makes the simulated machine with one device per board and fills the table.
 * Called again it replaces devices and options, but while contexts are alive
 * the machine is shared: SPT_E_USAGE where boards and options are not the same.
 */
spt_status spt_sim_open(const spt_board *boards, int n_boards,
                        const spt_sim_options *options, spt_driver *driver,
                        spt_error *err);
/*
 * Frees the machine when the last who shares it closes it; outstanding reports
 * and counters are dropped.
 */
void spt_sim_close(void);

typedef enum spt_sim_kind {
#define SPT_SIM_KIND(name, text) SPT_SIM_##name,
#include "sim_kinds.def"
#undef SPT_SIM_KIND
    SPT_SIM_KIND_COUNT
} spt_sim_kind;

typedef struct spt_sim_report {
    spt_sim_kind kind;
    char kernel[64];
    char file[128]; /* template file of #line, or "" */
    unsigned line;
    unsigned block[3], thread[3];
    uint64_t address;
    uint64_t count; /* how often at this place */
    char text[256]; /* one line, all of the above in words */
} spt_sim_report;

/* Reports since the last call to spt_sim_clear, oldest first, one per place. */
size_t spt_sim_report_count(void);
bool spt_sim_report_get(size_t index, spt_sim_report *report);

typedef struct spt_sim_counters {
#define SPT_SIM_COUNTER(name, unit, meaning) uint64_t name;
#include "sim_counters.def"
#undef SPT_SIM_COUNTER
} spt_sim_counters;

/* Sums over the launches since the last clear; launches counts them. */
void spt_sim_counters_get(spt_sim_counters *counters);
/* The same by kernel, in the order of first launch; false past the last one.
   The name is valid until the next clear. */
bool spt_sim_kernel_get(size_t index, const char **kernel,
                        spt_sim_counters *counters);
void spt_sim_clear(void);

const char *spt_sim_kind_text(spt_sim_kind kind);

/*
 * Why the calling thread's last failing driver call failed, where sim knows
 * more than the CUresult (PTX line of a module that did not load, limit of a
 * launch, fault of a kernel); "" when it does not. Valid until the thread's
 * next call.
 */
const char *spt_sim_last_error(void);

#endif
