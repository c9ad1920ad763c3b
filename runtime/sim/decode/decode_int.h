/* What decode.c and decode_args.c share: one function that is decoded. */
#ifndef SPT_SIM_DECODE_INT_H
#define SPT_SIM_DECODE_INT_H

#include "decode.h"

typedef struct sim_decoder {
    sim_program *program;
    const ptx_func *func;
    sim_code *code;
    uint32_t *slots; /* per register */
    uint32_t top; /* bytes of the frame so far */
    spt_buf temps; /* temp: slots that one instruction needs by the way */
    uint32_t used_temps; /* by the present instruction */
    spt_buf insns; /* sim_insn; branches hold indices until the end */
    spt_buf constants, filled, callees;
    bool *matrix; /* (register): wgmma works on it; NULL: none, or no checks */
    uint32_t *starts; /* per PTX instruction: index of header + 1 */
    spt_error *err;
} sim_decoder;

/* Appends an instruction; NULL when out of memory. It may move the others. */
sim_insn *sim_decode_add(sim_decoder *d, sim_handler full, sim_handler masked,
                         const ptx_insn *src);
/* All operands of src; NULL when out of memory. */
const sim_args *sim_decode_args(sim_decoder *d, const ptx_insn *src);
/* A slot for the present instruction alone; the next one may have it again. */
uint32_t sim_decode_temp(sim_decoder *d, uint32_t width);
/* Places the constants behind all other slots and makes their image; then the
   slot of one is final. false: out of memory. */
bool sim_decode_constants(sim_decoder *d);
uint32_t sim_decode_final(const sim_decoder *d, uint32_t slot);
/* decode_memory.c: replaces the handlers of a memory instruction, which has
   its sim_op, where there are better ones. */
void sim_decode_memory(const sim_decoder *d, const ptx_insn *src,
                       const sim_args *args, sim_handler *full,
                       sim_handler *masked);

#endif
