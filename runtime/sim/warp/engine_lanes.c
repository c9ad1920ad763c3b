/*
 * Which lane handler an instruction has: the tables' keys are read once into
 * a hash of opcode, modifiers and types.
 */
#include "engine_lanes.h"

#include <pthread.h>

#include "decode.h"
#include "ptx_rows.h"

enum { SLOTS = 4096, KEY_MODS = 6 };

typedef struct key {
    uint16_t op;
    uint8_t any; /* takes the modifiers that become bits */
    uint8_t n_mods, n_types;
    uint8_t types[2];
    uint8_t mods[KEY_MODS]; /* ascending */
} key;

static struct {
    key key;
    const sim_lane_op *op;
} slots[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t slot_of(const key *k)
{
    uint32_t at = ptx_hash((const char *)k, sizeof *k) % SLOTS;
    while (slots[at].op && memcmp(&slots[at].key, k, sizeof *k) != 0)
        at = (at + 1) % SLOTS;
    return at;
}

static void add_mod(key *k, uint8_t mod)
{
    int at = k->n_mods;
    if (at == KEY_MODS)
        return;
    while (at && k->mods[at - 1] > mod) {
        k->mods[at] = k->mods[at - 1];
        at--;
    }
    k->mods[at] = mod;
    k->n_mods++;
}

static void add_word(key *k, const char *text, size_t length)
{
    ptx_word word = ptx_find_word(text, length);
    if (word.kind == PTX_WORD_TYPE && k->n_types < 2)
        k->types[k->n_types++] = (uint8_t)word.id;
    else if (word.kind == PTX_WORD_MOD)
        add_mod(k, (uint8_t)word.id);
}

static void add_key(const char *text, size_t length, const sim_lane_op *op)
{
    key k;
    memset(&k, 0, sizeof k);
    k.any = *text == '~';
    text += k.any;
    length -= k.any;
    size_t at = 0;
    while (at < length && text[at] != '.')
        at++;
    const ptx_mnemonic *mnemonic = ptx_find_mnemonic(text, at);
    if (!mnemonic)
        return;
    k.op = (uint16_t)mnemonic->op;
    while (at < length) {
        size_t from = ++at;
        while (at < length && text[at] != '.')
            at++;
        add_word(&k, text + from, at - from);
    }
    uint32_t slot = slot_of(&k);
    slots[slot].key = k;
    slots[slot].op = op;
}

static void add_table(const sim_lane_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const char *at = table->ops[i].keys;
        while (*at) {
            size_t length = strcspn(at, " ");
            if (length)
                add_key(at, length, &table->ops[i]);
            at += length;
            at += *at == ' ';
        }
    }
}

sim_build sim_lanes_build(void)
{
#if defined(__x86_64__)
    /* Every processor with AVX2 has F16C, whose name clang does not know. */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return SIM_BUILD_PLAIN;
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        return SIM_BUILD_AVX512;
    return SIM_BUILD_AVX2;
#else
    return SIM_BUILD_PLAIN;
#endif
}

/* A table of this processor's build. */
#if defined(__x86_64__)
#define PICK(name)                                          \
    (sim_lanes_build() == SIM_BUILD_AVX512 ? &name##_avx512 \
     : sim_lanes_build() == SIM_BUILD_AVX2 ? &name##_avx2   \
                                           : &name##_plain)
#else
#define PICK(name) (&name##_plain)
#endif

const sim_lane_table *sim_lanes_memory(void)
{
    return PICK(sim_lanes_memory);
}

const sim_lane_table *sim_lanes_copy(void)
{
    return PICK(sim_lanes_copy);
}

const sim_lane_table *sim_lanes_shuffle(void)
{
    return PICK(sim_lanes_shuffle);
}

const sim_lane_table *sim_lanes_mma(void)
{
    return PICK(sim_lanes_mma);
}

static void read_tables(void)
{
#define ADD(name) add_table(PICK(sim_lanes_##name));
    SIM_LANE_TABLES(ADD)
#undef ADD
}

/* The flag of a modifier that "~" rows take, or -1. */
static int flag_of(uint8_t mod)
{
    switch (mod) {
    case PTX_MOD_RN:
        return SIM_RN;
    case PTX_MOD_RZ:
        return SIM_RZ;
    case PTX_MOD_RM:
        return SIM_RM;
    case PTX_MOD_RP:
        return SIM_RP;
    case PTX_MOD_RNA:
        return SIM_RNA;
    case PTX_MOD_RNI:
        return SIM_RN | SIM_TO_INTEGER;
    case PTX_MOD_RZI:
        return SIM_RZ | SIM_TO_INTEGER;
    case PTX_MOD_RMI:
        return SIM_RM | SIM_TO_INTEGER;
    case PTX_MOD_RPI:
        return SIM_RP | SIM_TO_INTEGER;
    case PTX_MOD_FTZ:
        return SIM_FTZ;
    case PTX_MOD_SAT:
        return SIM_SAT;
    case PTX_MOD_RELU:
        return SIM_RELU;
    case PTX_MOD_SATFINITE:
        return SIM_SATFINITE;
    default:
        return -1;
    }
}

static const sim_lane_op *find(const ptx_insn *insn, bool any, uint64_t *bits)
{
    key k;
    memset(&k, 0, sizeof k);
    k.any = any;
    k.op = insn->op;
    *bits = 0;
    if (insn->n_types > 2)
        return NULL;
    for (int i = 0; i < insn->n_types; i++)
        k.types[k.n_types++] = insn->types[i];
    for (int i = 0; i < insn->n_mods; i++) {
        int flag = flag_of(insn->mods[i]);
        bool plain = insn->mods[i] == PTX_MOD_RN && insn->op != PTX_OP_CVT;
        if (any && flag >= 0)
            *bits |= (uint64_t)flag;
        else if (!plain)
            add_mod(&k, insn->mods[i]);
    }
    return slots[slot_of(&k)].op;
}

/* mov between one register and two of half its width. */
static const sim_lane_op *vector_move(const ptx_insn *insn)
{
    const ptx_operand *to = &insn->operands[0], *from = &insn->operands[1];
    bool packs = from->kind == PTX_VECTOR;
    if (insn->op != PTX_OP_MOV || packs == (to->kind == PTX_VECTOR) ||
        (packs ? from : to)->count != 2)
        return NULL;
    uint32_t bytes = ptx_type_bytes((ptx_type)insn->types[0]);
    const sim_lane_table *table = PICK(sim_lanes_move);
    if (bytes != 4 && bytes != 8)
        return NULL;
    return &table->ops[(bytes == 8 ? 2 : 0) + !packs];
}

/* The rows of lanes_move.c read slots as they are: no "!p", no constant p. */
static bool is_plain(const ptx_insn *insn)
{
    bool pred = insn->n_types && insn->types[0] == PTX_PRED;
    if (insn->op == PTX_OP_SETP)
        return true;
    if (sim_takes_three(insn))
        return false;
    for (int i = 0; i < insn->n_operands; i++) {
        const ptx_operand *o = &insn->operands[i];
        if (o->kind == PTX_VECTOR || o->negated || o->pair ||
            (pred && o->kind != PTX_REGISTER))
            return false;
    }
    return true;
}

bool sim_lanes_find(const ptx_insn *insn, sim_handler *full,
                    sim_handler *masked, uint64_t *bits)
{
    pthread_once(&once, read_tables);
    const sim_lane_op *op = find(insn, false, bits);
    if (!op)
        op = find(insn, true, bits);
    if (op && !is_plain(insn))
        op = NULL;
    if (insn->op == PTX_OP_MOV && !op) {
        *bits = 0;
        op = vector_move(insn);
    }
    if (!op)
        return false;
    *full = op->full;
    *masked = op->masked;
    return true;
}
