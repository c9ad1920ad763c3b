/*
 * State of the PTX parser, shared by its files:
 *   ptx_parse.c     module: version, target, functions, sections
 *   ptx_var.c       variables, initialisers
 *   ptx_body.c      function bodies: scopes, labels, registers
 *   ptx_operand.c   operands of an instruction, as written
 *   ptx_insn.c      instructions: suffixes, guard, calls
 *   ptx_check.c     operands against the rows of ptx.def
 *   ptx_rules.c     what rows cannot say: roundings, fragments, targets
 *   ptx_const.c     constant expressions
 *   ptx_symbols.c   names
 *   ptx_flow.c      basic blocks and their order
 */
#ifndef SPT_PTX_PARSE_H
#define SPT_PTX_PARSE_H

#include "ptx_lex.h"
#include "ptx_rows.h"

enum {
    PTX_MAX_DEPTH = 64, /* of scopes and of parentheses */
    PTX_MAX_FILES = 65536, /* .file indices */
    PTX_MAX_RANGE = 1 << 20, /* registers of one .reg %r<n> */
    PTX_MAX_RANGES = 1 << 22, /* and of all of a module together */
    PTX_MAX_LIST = 255, /* operands in braces or of a call */
    PTX_MAX_TABLE = 1 << 16, /* labels of one .branchtargets */
};
#define PTX_MAX_VAR_BYTES (1ull << 40) /* of one variable */
#define PTX_MAX_INIT_BYTES (1ull << 28) /* of all with initialisers */

typedef enum ptx_symbol_kind {
    PTX_SYMBOL_REGISTER,
    PTX_SYMBOL_RANGE, /* %r<100>: registers are made when first used */
    PTX_SYMBOL_VAR,
    PTX_SYMBOL_FUNC,
    PTX_SYMBOL_LABEL,
    PTX_SYMBOL_TABLE,
} ptx_symbol_kind;

typedef struct ptx_symbol {
    const char *name; /* in the text */
    uint32_t length, hash;
    uint32_t next; /* in its bucket: index + 1 */
    uint8_t kind; /* ptx_symbol_kind */
    uint8_t depth; /* of its scope; 0 = module */
    uint8_t type; /* of registers */
    uint32_t index; /* of register, variable, ..., instruction of a label */
    uint32_t count; /* of a range */
    uint32_t *map; /* of a range: register index + 1 */
} ptx_symbol;

/* A name of a label or table that is resolved when its scope closes. */
typedef struct ptx_fixup {
    const char *name;
    uint32_t length, line;
    bool in_table; /* tables[at].targets[element], else insns[at] */
    uint32_t at, element;
} ptx_fixup;

/* A constant as written, before it takes the type of its place. */
typedef struct ptx_value {
    bool real;
    uint8_t size; /* of a real: 4, 8, 0 = decimal */
    bool is_unsigned; /* of an integer */
    uint64_t bits; /* integer, or bits of the real */
} ptx_value;

/* A parameter or result of a function that its body names as a register. */
typedef struct ptx_held {
    uint32_t reg, var;
    bool result;
} ptx_held;

typedef struct ptx_parser {
    ptx_lexer lex;
    spt_error *err;
    ptx_module *module;
    uint32_t max_sm;
    spt_buf symbols; /* ptx_symbol */
    uint32_t *buckets; /* symbols index + 1 */
    spt_buf vars, funcs; /* ptx_var, ptx_func, until the end */
    spt_buf files; /* const char * */
    uint64_t ranges; /* registers of ranges so far */
    uint64_t init_bytes; /* of initialised variables so far */
    uint32_t depth;

    /* Of the function that is being read. */
    int32_t func; /* funcs index, -1 outside */
    spt_buf regs, insns, vectors, tables, fixups;
    spt_buf held; /* ptx_held */
    uint32_t file, line; /* of .loc */
    uint32_t unused_bytes; /* of the next load */

    /* Of the instruction that is being read. */
    const char *text; /* opcode with suffixes, for messages */
    uint32_t length, text_line;
    ptx_insn insn;
} ptx_parser;

#define PTX_ITEM(buf, type, index) (&((type *)(void *)(buf).data)[index])
#define PTX_COUNT(buf, type) ((uint32_t)((buf).size / sizeof(type)))

/* Appends one item. */
spt_status ptx_push(ptx_parser *parser, spt_buf *buf, const void *item,
                    size_t size);

/* Fails with "PTX line N: ..." at the current token. */
spt_status ptx_fail(ptx_parser *parser, const char *fmt, ...) SPT_PRINTF(2, 3);
/* The same at the instruction: "PTX line N: ld.global.u32: ...". */
spt_status ptx_fail_insn(ptx_parser *parser, spt_status status, const char *fmt,
                         ...) SPT_PRINTF(3, 4);
spt_status ptx_out_of_memory(ptx_parser *parser);
/* "expected WHAT instead of TOKEN" at the current token. */
spt_status ptx_unexpected(ptx_parser *parser, const char *what);

/* ptx_symbols.c */
spt_status ptx_symbols_start(ptx_parser *parser);
/* The innermost symbol of that name, or NULL. */
ptx_symbol *ptx_symbol_find(ptx_parser *parser, const char *name,
                            uint32_t length);
/* A register by name, also one of a range; index in regs, or -1 when the name
   is not a register. */
spt_status ptx_register_find(ptx_parser *parser, const ptx_token *name,
                             int32_t *index);
/* Names one more thing in the current scope, where it must be new. */
spt_status ptx_symbol_add(ptx_parser *parser, const ptx_token *name,
                          ptx_symbol_kind kind, uint32_t index,
                          ptx_symbol **symbol);
/* Forgets what was named at this depth or deeper. */
void ptx_symbols_drop(ptx_parser *parser, uint32_t depth);

/* ptx_const.c: a constant expression; integers are 64 bits wide. */
spt_status ptx_constant(ptx_parser *parser, ptx_value *value);
/* An integer in [0, limit]. what names it in messages. */
spt_status ptx_count(ptx_parser *parser, uint64_t limit, const char *what,
                     uint64_t *count);
/* The bits of a value in a type; SPT_E_FORMAT text goes to *why, not err. */
bool ptx_value_bits(const ptx_value *value, ptx_type type, uint64_t *bits,
                    const char **why);

/* ptx_var.c */
/* .global .align 4 .u32 a, b[2] = {1, 2}; from the space on. */
spt_status ptx_variables(ptx_parser *parser, bool external, bool visible);
/* One .param of a function's head. index: of the variable. */
spt_status ptx_parameter(ptx_parser *parser, bool kernel, uint32_t *index);
spt_status ptx_register_add(ptx_parser *parser, ptx_type type,
                            const ptx_token *name);
/* Gives offsets to shared variables when all functions are known. */
spt_status ptx_place_shared(ptx_parser *parser);

/* ptx_body.c: from "{" to its "}". */
spt_status ptx_body(ptx_parser *parser);

/* ptx_parse.c: .attribute(...); .managed makes *managed (may be NULL) true */
spt_status ptx_attribute_list(ptx_parser *parser, bool *managed);

/* ptx_operand.c. A constant is kept as written (ptx_raw) until ptx_check. */
spt_status ptx_operand_read(ptx_parser *parser, ptx_operand *operand);
/* Operands up to ";" into parser->insn. */
spt_status ptx_operands(ptx_parser *parser);
/* Names up to a closing ")" into a vector. */
spt_status ptx_operand_list(ptx_parser *parser, ptx_operand *operand);
ptx_value ptx_raw(const ptx_operand *operand);

/* ptx_insn.c: what follows the opcode, with its ";"; the guard is in insn. */
spt_status ptx_instruction(ptx_parser *parser, const ptx_token *opcode);
/* Moves between registers that are parameters and their places: the results'
   before a return with that guard, or the others' at the start. */
spt_status ptx_move_held(ptx_parser *parser, bool results, int32_t guard,
                         bool negated);

/* ptx_check.c: operands against the row; constants take their types. */
spt_status ptx_check(ptx_parser *parser);

/* ptx_rules.c: what single instructions demand beyond their row. */
spt_status ptx_check_rules(ptx_parser *parser);
/* Registers of the vector at this operand of a matrix instruction, or 0. */
uint32_t ptx_fragment_count(const ptx_insn *insn, int operand);
/* Bytes of each. */
uint32_t ptx_fragment_bytes(const ptx_insn *insn, int operand);

/* ptx_wgmma.c: takes a suffix that is a shape, like m64n8k16; its rules;
   registers of its vectors, 0 for other operands and instructions. */
bool ptx_wgmma_shape(ptx_insn *insn, const char *text, uint32_t length);
spt_status ptx_check_wgmma(ptx_parser *parser);
uint32_t ptx_wgmma_registers(const ptx_insn *insn, int operand);

/* ptx_tensor.c: the rules of copies of tensors. */
spt_status ptx_check_tensor(ptx_parser *parser);
spt_status ptx_check_replace(ptx_parser *parser);

/* ptx_flow.c. Whether an instruction, when it is not guarded, never goes on to
   the next one. */
bool ptx_ends_block(const ptx_insn *insn);
/* Blocks of a function whose instructions are complete. */
spt_status ptx_flow(ptx_func *func, spt_arena *arena, spt_error *err);

#endif
