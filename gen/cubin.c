/*
 * Reader of cubin files: ELF64 of machine 190. A kernel k has the sections
 * .text.k, .nv.info.k and perhaps .nv.shared.k; .nv.info has attributes of all
 * functions by symbol index. An attribute is a format byte, an attribute byte
 * and two bytes that are its value, or the size of what follows (format 4).
 */
#include "cubin.h"

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    MACHINE_CUDA = 190,
    ABI_SM_IN_BYTE_1 = 8, /* e_flags has the SM in byte 0 before */
    FORMAT_SIZED = 4,
    RESERVED_SHARED = 1024, /* of each CTA, in .nv.shared of sm_90 and newer */
};

/* Attributes of .nv.info and .nv.info.KERNEL that are read. */
enum {
    ATTR_MAX_THREADS = 0x05,
    ATTR_FRAME_SIZE = 0x11,
    ATTR_REGISTERS = 0x2f,
};

typedef struct image {
    const unsigned char *data;
    size_t size;
    Elf64_Ehdr head;
} image;

static spt_status bad(spt_error *err, const char *what)
{
    return spt_fail(err, SPT_E_FORMAT, "cubin: %s", what);
}

static bool inside(const image *m, uint64_t offset, uint64_t size)
{
    return offset <= m->size && size <= m->size - offset;
}

static bool section(const image *m, unsigned index, Elf64_Shdr *out)
{
    if (index >= m->head.e_shnum)
        return false;
    memcpy(out, m->data + m->head.e_shoff + index * sizeof *out, sizeof *out);
    return out->sh_type == SHT_NOBITS ||
           inside(m, out->sh_offset, out->sh_size);
}

/* The text at offset of a string section; NULL when it has no end. */
static const char *text_at(const image *m, const Elf64_Shdr *strings,
                           uint64_t offset)
{
    if (strings->sh_type != SHT_STRTAB || offset >= strings->sh_size)
        return NULL;
    const unsigned char *at = m->data + strings->sh_offset + offset;
    return memchr(at, 0, strings->sh_size - offset) ? (const char *)at : NULL;
}

/* Finds the section "prefix" + symbol. */
static bool find_section(const image *m, const char *prefix, const char *symbol,
                         Elf64_Shdr *out)
{
    Elf64_Shdr strings;
    size_t length = strlen(prefix);
    if (!section(m, m->head.e_shstrndx, &strings))
        return false;
    for (unsigned i = 0; i < m->head.e_shnum; i++) {
        if (!section(m, i, out))
            continue;
        const char *name = text_at(m, &strings, out->sh_name);
        if (name && strncmp(name, prefix, length) == 0 &&
            strcmp(name + length, symbol) == 0)
            return true;
    }
    return false;
}

/* Index of a function's symbol; -1 when there is none. */
static int64_t find_symbol(const image *m, const char *symbol)
{
    Elf64_Shdr table, strings;
    if (!find_section(m, ".symtab", "", &table) ||
        table.sh_type != SHT_SYMTAB || !section(m, table.sh_link, &strings))
        return -1;
    for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;
        memcpy(&s, m->data + table.sh_offset + i * sizeof s, sizeof s);
        const char *name = text_at(m, &strings, s.st_name);
        if (name && ELF64_ST_TYPE(s.st_info) == STT_FUNC &&
            strcmp(name, symbol) == 0)
            return (int64_t)i;
    }
    return -1;
}

static uint32_t word_at(const unsigned char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static int clamp(uint64_t value)
{
    return value > INT_MAX ? INT_MAX : (int)value;
}

/* One attribute with its payload. */
static void take_attribute(unsigned attribute, const unsigned char *payload,
                           size_t size, int64_t symbol, spt_cubin_facts *facts)
{
    bool of_symbol = size == 8 && word_at(payload) == symbol;
    if (attribute == ATTR_REGISTERS && of_symbol)
        facts->registers = clamp(word_at(payload + 4));
    else if (attribute == ATTR_FRAME_SIZE && of_symbol)
        facts->stack_bytes = clamp(word_at(payload + 4));
    else if (attribute == ATTR_MAX_THREADS && size == 12)
        facts->max_threads =
            clamp((uint64_t)word_at(payload) * (word_at(payload + 4) & 0xffff) *
                  (word_at(payload + 8) & 0xffff));
}

static bool read_info(const image *m, const Elf64_Shdr *info, int64_t symbol,
                      spt_cubin_facts *facts)
{
    if (info->sh_type == SHT_NOBITS)
        return false;
    const unsigned char *at = m->data + info->sh_offset;
    uint64_t left = info->sh_size;
    while (left >= 4) {
        unsigned format = at[0], attribute = at[1];
        uint64_t size = format == FORMAT_SIZED ? at[2] + 256u * at[3] : 0;
        if (size > left - 4)
            return false;
        take_attribute(attribute, at + 4, size, symbol, facts);
        at += 4 + size;
        left -= 4 + size;
    }
    return true;
}

static spt_status open_image(const void *data, size_t size, image *m,
                             spt_error *err)
{
    m->data = data;
    m->size = size;
    if (size < sizeof m->head || memcmp(data, ELFMAG, SELFMAG) != 0)
        return bad(err, "is not an ELF file");
    memcpy(&m->head, data, sizeof m->head);
    if (m->head.e_ident[EI_CLASS] != ELFCLASS64 ||
        m->head.e_ident[EI_DATA] != ELFDATA2LSB ||
        m->head.e_machine != MACHINE_CUDA)
        return bad(err, "is not an ELF file of CUDA");
    if (m->head.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(m, m->head.e_shoff,
                (uint64_t)m->head.e_shnum * sizeof(Elf64_Shdr)))
        return bad(err, "has a malformed section table");
    return SPT_OK;
}

spt_status spt_cubin_read(const void *data, size_t size, const char *symbol,
                          spt_cubin_facts *facts, spt_error *err)
{
    image m;
    Elf64_Shdr part;
    spt_cubin_facts f = {0};
    SPT_TRY(open_image(data, size, &m, err));
    bool new_flags = m.head.e_ident[EI_ABIVERSION] >= ABI_SM_IN_BYTE_1;
    f.sm = (int)(m.head.e_flags >> (new_flags ? 8 : 0) & 0xff);
    int64_t index = find_symbol(&m, symbol);
    if (index < 0 || !find_section(&m, ".text.", symbol, &part))
        return spt_fail(err, SPT_E_FORMAT, "cubin: has no kernel '%.100s'",
                        symbol);
    if (!find_section(&m, ".nv.info", "", &part) ||
        !read_info(&m, &part, index, &f))
        return bad(err, "has no valid .nv.info");
    if (find_section(&m, ".nv.info.", symbol, &part) &&
        !read_info(&m, &part, index, &f))
        return bad(err, "has a malformed .nv.info of the kernel");
    if (f.registers <= 0)
        return bad(err, "does not say how many registers the kernel takes");
    if (find_section(&m, ".nv.shared.", symbol, &part)) {
        uint64_t reserved = f.sm >= 90 ? RESERVED_SHARED : 0;
        f.shared_bytes =
            clamp(part.sh_size > reserved ? part.sh_size - reserved : 0);
    }
    *facts = f;
    return SPT_OK;
}
