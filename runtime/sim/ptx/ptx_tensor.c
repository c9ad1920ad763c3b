/* Copies of tensors: what their row in ptx.def cannot say. */
#include "ptx_parse.h"

uint32_t ptx_tensor_rank(const ptx_insn *insn)
{
    for (int i = 0; i < insn->n_mods; i++)
        if (insn->mods[i] >= PTX_MOD_TENSOR_1D &&
            insn->mods[i] <= PTX_MOD_TENSOR_5D)
            return 1u + insn->mods[i] - PTX_MOD_TENSOR_1D;
    return 0;
}

static spt_status expect(ptx_parser *parser, bool good, const char *what)
{
    return good ? SPT_OK : ptx_fail_insn(parser, SPT_E_FORMAT, "%s", what);
}

spt_status ptx_check_tensor(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool load = insn->space == PTX_SHARED;
    bool cast = ptx_has(insn, PTX_MOD_MULTICAST_CLUSTER);
    bool cluster = ptx_has(insn, PTX_MOD_SHARED_CLUSTER);
    bool hint = ptx_has(insn, PTX_MOD_L2_CACHE_HINT);
    bool group = ptx_has(insn, PTX_MOD_BULK_GROUP);
    SPT_TRY(expect(parser,
                   load ? insn->space2 == PTX_GLOBAL
                        : insn->space == PTX_GLOBAL &&
                              insn->space2 == PTX_SHARED && !cluster,
                   "a tensor is copied from .global to .shared::cluster or "
                   "from .shared::cta to .global"));
    SPT_TRY(expect(parser,
                   load ? ptx_has(insn, PTX_MOD_COMPLETE_TX_BYTES) : group,
                   load ? "a load completes by .mbarrier::complete_tx::bytes"
                        : "a store completes by .bulk_group"));
    SPT_TRY(expect(parser, !cast || (load && cluster),
                   ".multicast::cluster is for loads to .shared::cluster"));
    return expect(parser, insn->n_operands == 3 + load + cast + hint,
                  hint ? "a cache policy is the last operand"
                       : "there are more operands than modifiers for them");
}

/* Fields of which a map has one for each dimension say which. */
spt_status ptx_check_replace(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool one =
        ptx_has(insn, PTX_MOD_GLOBAL_ADDRESS) || ptx_has(insn, PTX_MOD_RANK);
    bool wide = ptx_has(insn, PTX_MOD_GLOBAL_ADDRESS) ||
                ptx_has(insn, PTX_MOD_GLOBAL_STRIDE);
    int64_t most = ptx_has(insn, PTX_MOD_GLOBAL_STRIDE) ? 3 : 4;
    SPT_TRY(expect(parser, insn->n_operands == (one ? 2 : 3),
                   one ? "this field has no number"
                       : "this field needs the dimension's number"));
    SPT_TRY(expect(parser,
                   one || (insn->operands[1].value >= 0 &&
                           insn->operands[1].value <= most),
                   "there is no such dimension"));
    return expect(parser, wide == (insn->types[0] == PTX_B64),
                  "addresses and strides are .b64, other fields .b32");
}
