/*
 * A PTX module as the parser leaves it and the engine takes it.
 *
 * Names are resolved, labels are instruction indices, types and modifiers are
 * small enums, every instruction was checked against its row in ptx.def. All
 * memory belongs to the module's arena. The module is read-only afterwards.
 */
#ifndef SPT_PTX_H
#define SPT_PTX_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "mem.h"

typedef enum ptx_type {
    PTX_NONE,
#define PTX_TYPE(name, text, bytes, kind) PTX_##name,
#include "ptx_types.def"
#undef PTX_TYPE
    PTX_TYPE_COUNT
} ptx_type;

/* Counter classes of ptx.def; PTX_CLASS_TYPED never leaves ptx_insn_class(). */
typedef enum ptx_class {
    PTX_CLASS_TYPED,
    PTX_CLASS_INTEGER,
    PTX_CLASS_FLOAT,
    PTX_CLASS_HALF,
    PTX_CLASS_DOUBLE,
    PTX_CLASS_CONVERT,
    PTX_CLASS_MOVE,
    PTX_CLASS_LOGIC,
    PTX_CLASS_COMPARE,
    PTX_CLASS_CONTROL,
    PTX_CLASS_MEMORY,
    PTX_CLASS_ATOMIC,
    PTX_CLASS_SHUFFLE,
    PTX_CLASS_BARRIER,
    PTX_CLASS_ASYNC,
    PTX_CLASS_MATRIX,
    PTX_CLASS_SPECIAL,
    PTX_CLASS_COUNT
} ptx_class;

typedef enum ptx_kind {
    PTX_KIND_NONE,
    PTX_KIND_PREDICATE,
    PTX_KIND_UNSIGNED,
    PTX_KIND_SIGNED,
    PTX_KIND_BITS,
    PTX_KIND_FLOAT,
    PTX_KIND_PACKED,
    PTX_KIND_SMALL,
} ptx_kind;

typedef enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED, /* .shared, .shared::cta; ::cluster is a modifier */
    PTX_LOCAL,
    PTX_PARAM,
    PTX_CONST,
} ptx_space;

typedef enum ptx_op {
#define PTX_OP(name, ...) PTX_OP_##name,
#include "ptx.def"
#undef PTX_OP
    PTX_OP_COUNT
} ptx_op;

/* Modifiers other than types: .rn, .ftz, .wide, .lo, .acquire, .shared, ... */
typedef enum ptx_mod {
#define PTX_MOD(name, text) PTX_MOD_##name,
#include "ptx_mods.def"
#undef PTX_MOD
    PTX_MOD_COUNT
} ptx_mod;

/* Special registers: %tid.x, %laneid, ... */
typedef enum ptx_special {
#define PTX_SPECIAL(name, text, type) PTX_SPECIAL_##name,
#include "ptx_special.def"
#undef PTX_SPECIAL
    PTX_SPECIAL_COUNT
} ptx_special;

typedef enum ptx_operand_kind {
    PTX_ABSENT,
    PTX_REGISTER, /* index = register of the function */
    PTX_IMMEDIATE, /* value = bits of the constant in the operand's type,
                      upper bits zero */
    PTX_SPECIALREG,
    PTX_VECTOR, /* count operands from func->vectors[index] */
    PTX_ADDRESS, /* base (register or variable) + offset, in brackets or not */
    PTX_LABEL, /* index = instruction index of the target */
    PTX_FUNCTION, /* index = module->funcs[index] */
    PTX_TABLE, /* index = func->tables[index] (.branchtargets, calltargets) */
    PTX_SINK, /* "_" */
} ptx_operand_kind;

enum { PTX_NO_BASE = 0, PTX_BASE_REGISTER = 1, PTX_BASE_VARIABLE = 2 };

typedef struct ptx_operand {
    uint8_t kind; /* ptx_operand_kind */
    uint8_t negated; /* !p, or -a of vmad */
    uint8_t count; /* PTX_VECTOR: elements */
    uint8_t base; /* PTX_ADDRESS: PTX_NO_BASE, _REGISTER or _VARIABLE */
    uint8_t pair; /* "d|p": 1 when operand [+1] is its second half */
    uint8_t halves; /* PTX_REGISTER: select counts halves, not bytes */
    uint16_t select; /* PTX_REGISTER of a video instruction: the digits of
                        ".b3210", last one low, 8 added to each; 0: none */
    uint32_t index; /* register, special, variable, label, function, table */
    int64_t value; /* immediate bits, or byte offset of an address */
} ptx_operand;

enum { PTX_MAX_OPERANDS = 10, PTX_MAX_MODS = 12, PTX_MAX_TYPES = 5 };

/*
 * Operands are in the order written, with these additions: "d|p" is two
 * operands, the first with pair set. call: 0 the function (PTX_FUNCTION, or
 * PTX_REGISTER when indirect), 1 a PTX_VECTOR of where results go, 2 a
 * PTX_VECTOR of arguments (each a PTX_ADDRESS without brackets of a .param
 * variable, a register or a constant), 3 the PTX_TABLE of an indirect call (no
 * targets after .callprototype). bra: 0 the label. brx.idx: 0 the index, 1 the
 * table.
 */
typedef struct ptx_insn {
    uint16_t op; /* ptx_op */
    uint8_t n_operands, n_mods, n_types;
    uint8_t space; /* ptx_space, of memory instructions: the first one */
    uint8_t space2; /* the second one, of copies: cp.async.shared.global */
    uint8_t vector; /* 1, 2, 4, 8 for .v2 .v4 .v8 */
    uint16_t columns, depth; /* n and k of wgmma's shape */
    uint8_t guard_negated;
    int32_t guard; /* predicate register, or -1 */
    uint32_t unused_bytes; /* of a load: a bit per byte that
                              .pragma "used_bytes_mask" says nobody uses */
    uint8_t types[PTX_MAX_TYPES]; /* in the order written */
    uint8_t mods[PTX_MAX_MODS]; /* in the order written */
    ptx_operand operands[PTX_MAX_OPERANDS];
    uint32_t file, line; /* of .loc: source position; 0 = none */
    uint32_t ptx_line; /* of the PTX text */
} ptx_insn;

static inline bool ptx_has(const ptx_insn *insn, ptx_mod mod)
{
    for (int i = 0; i < insn->n_mods; i++)
        if (insn->mods[i] == mod)
            return true;
    return false;
}

/*
 * Where a variable lives. Parameters of device functions, their returns and
 * the .param variables that a body declares for its calls are PTX_LOCAL:
 * places in the local frame of their function, like .local variables (an
 * instruction that accesses them still says .param). Only parameters of
 * kernels are PTX_PARAM. A shared variable's offset is from the start of the
 * CTA's static shared memory for every kernel that uses it; extern shared
 * arrays have size 0 and start where the kernel's shared_bytes end.
 */
typedef struct ptx_var {
    const char *name;
    ptx_space space;
    ptx_type type; /* of one element */
    uint32_t align; /* bytes */
    uint64_t size; /* bytes; 0 for extern [] (dynamic shared memory) */
    uint64_t offset; /* within the function's param, shared or local frame,
                           or within the module's shared/const/global image */
    const uint8_t *init; /* size bytes, or NULL */
    bool external, visible;
    bool managed; /* the host uses it at the same address */
    int32_t function; /* owner, or -1 for module scope */
    const struct ptx_reloc *relocs; /* addresses of variables inside init */
    uint32_t n_relocs;
} ptx_var;

typedef struct ptx_reloc {
    uint64_t offset; /* of an 8-byte slot in the owner's init */
    uint32_t var; /* module->vars index, or function when is_function */
    bool is_function;
    bool generic;
    int64_t addend;
} ptx_reloc;

typedef struct ptx_reg {
    const char *name;
    uint8_t type; /* ptx_type; PTX_PRED for predicates */
} ptx_reg;

/* A basic block: instructions [first, last], in reverse postorder by rank. */
typedef struct ptx_block {
    uint32_t first, last;
    uint32_t rank; /* reverse postorder number; lower runs first */
} ptx_block;

typedef struct ptx_table {
    uint32_t *targets; /* instruction or function indices */
    uint32_t count;
} ptx_table;

typedef struct ptx_func {
    const char *name;
    bool entry;
    bool defined; /* false: only declared */
    uint32_t *params; /* module->vars indices, in order; space PTX_PARAM */
    uint32_t n_params;
    uint32_t *returns; /* of a device function */
    uint32_t n_returns;
    uint64_t param_bytes;
    uint64_t shared_bytes; /* static, of a kernel: all that it can reach */
    uint64_t local_bytes; /* one frame, parameters and those of calls too */
    ptx_reg *regs;
    uint32_t n_regs;
    ptx_insn *insns;
    uint32_t n_insns;
    ptx_operand *vectors;
    uint32_t n_vectors;
    ptx_table *tables;
    uint32_t n_tables;
    ptx_block *blocks; /* sorted by first */
    uint32_t n_blocks;
    uint32_t *block_of; /* per instruction */
    uint32_t max_threads[3], required_threads[3], min_ctas; /* 0 = not given */
    uint32_t cluster[3], max_cluster; /* CTAs; 0 = not given */
    bool explicit_cluster; /* a launch must say its size, if cluster does not */
} ptx_func;

typedef struct ptx_module {
    spt_arena arena;
    uint32_t version; /* 10*major + minor */
    uint32_t sm; /* 90 for sm_90a */
    char suffix; /* 'a', 'f' or 0 */
    const char **files;
    uint32_t n_files; /* files[i] for .file index i; NULL where unused */
    ptx_var *vars;
    uint32_t n_vars;
    ptx_func *funcs;
    uint32_t n_funcs;
    uint64_t global_bytes, const_bytes; /* images, module scope */
    uint64_t shared_bytes; /* static shared variables of module scope and of
                              device functions */
} ptx_module;

/*
 * Parses size bytes of PTX. On failure the text names the PTX line and what
 * was not understood. max_sm: the device's compute capability (10*major +
 * minor); a module for a newer target, or one with another suffix than the
 * device accepts, is refused. The module is freed with ptx_free.
 */
spt_status ptx_parse(const char *text, size_t size, uint32_t max_sm,
                     ptx_module **module, spt_error *err);
void ptx_free(ptx_module *module);

/* Dimensions of a copy of tensors, 0 for other instructions. */
uint32_t ptx_tensor_rank(const ptx_insn *insn);

/* Texts of the tables, for messages and tests. */
const char *ptx_type_text(ptx_type type);
uint32_t ptx_type_bytes(ptx_type type);
ptx_kind ptx_type_kind(ptx_type type);
const char *ptx_op_text(ptx_op op);
const char *ptx_special_text(ptx_special special);
ptx_type ptx_special_type(ptx_special special);
ptx_class ptx_insn_class(const ptx_insn *insn);
const char *ptx_mod_text(ptx_mod mod);

#endif
