/*
 * Fatbins: a header of 16 bytes (magic, version, header size, size of all
 * that follows), then entries, each with a header (kind at 0, its own size at
 * 4, payload size at 8, the compressed size or 0 at 16, target at 28, flags
 * at 40, the size of the text where it is compressed at 56) and its payload.
 * nvcc's wrapper holds a pointer to one. NVIDIA documents none of it: this is
 * what nvcc 13 writes with --compress-mode none, default, size and balance
 * (zstd), and speed (LZ4, which nvcc up to 12.7 wrote too).
 */
#include "sim_fatbin.h"

#include <lz4.h>
#include <stdint.h>
#include <string.h>
#include <zstd.h>

#include "files.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define ELF_MAGIC 0x464c457fu

enum { KIND_PTX = 1, ENTRY_HEADER = 64, FATBIN_HEADER = 16 };
/* Flags of an entry; the last two: a target with the suffix a, f. */
enum {
    FLAG_LZ4 = 0x2000,
    FLAG_ZSTD = 0x8000,
    FLAG_CHIP = 0x100000,
    FLAG_FAMILY = 0x200000
};
/* The only bounds that an image without a size of its own can have. */
enum { MAX_TEXT = 1 << 30 };

typedef struct fatbin_entry {
    const uint8_t *payload; /* size bytes */
    uint64_t size;
    uint32_t packed_size; /* of the compressed text, 0: not compressed */
    uint32_t target; /* 90: compute_90 */
    uint64_t flags;
    uint64_t text_size; /* where it is compressed */
} fatbin_entry;

static uint16_t read16(const uint8_t *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof(value));
    return value;
}

static uint32_t read32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof(value));
    return value;
}

static uint64_t read64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof(value));
    return value;
}

static CUresult fail(CUresult result, spt_error *err, const char *text)
{
    spt_fail(err, SPT_E_UNSUPPORTED, "module: %s", text);
    return result;
}

static CUresult damaged(spt_error *err, const char *what)
{
    spt_fail(err, SPT_E_FORMAT, "module: damaged fatbin: %s", what);
    return CUDA_ERROR_INVALID_IMAGE;
}

/*
 * How well PTX for a target suits the board: 0 not at all, else the more the
 * better. PTX for one chip (suffix a) runs on that alone, PTX for a family
 * (f) on later chips of the same major number.
 */
static uint32_t suits(const fatbin_entry *entry, const spt_board *board)
{
    uint32_t sm = (uint32_t)(10 * board->cc_major + board->cc_minor);
    if (entry->target > sm)
        return 0;
    if (entry->flags & FLAG_CHIP)
        return entry->target == sm ? 3 * entry->target + 2 : 0;
    if (entry->flags & FLAG_FAMILY)
        return entry->target / 10 == sm / 10 ? 3 * entry->target + 1 : 0;
    return 3 * entry->target;
}

static CUresult unpack(const fatbin_entry *entry, sim_image *found,
                       spt_error *err)
{
    if (entry->packed_size > entry->size || !entry->text_size ||
        entry->text_size > MAX_TEXT)
        return damaged(err, "sizes of the compressed PTX");
    found->unpacked = spt_calloc(entry->text_size, 1);
    if (!found->unpacked) {
        spt_fail(err, SPT_E_MEMORY, "module: out of memory");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t size = 0;
    if (entry->flags & FLAG_ZSTD) {
        size = ZSTD_decompress(found->unpacked, entry->text_size,
                               entry->payload, entry->packed_size);
    } else if (entry->flags & FLAG_LZ4 && entry->packed_size <= MAX_TEXT) {
        int made =
            LZ4_decompress_safe((const char *)entry->payload, found->unpacked,
                                (int)entry->packed_size, (int)entry->text_size);
        size = made > 0 ? (size_t)made : 0;
    }
    if (size == entry->text_size) {
        found->text = found->unpacked;
        found->size = strnlen(found->text, size);
        return CUDA_SUCCESS;
    }
    sim_image_free(found);
    return damaged(err, entry->flags & (FLAG_ZSTD | FLAG_LZ4)
                            ? "its PTX cannot be decompressed"
                            : "its PTX is compressed in an unknown way");
}

/* Reads the entry at left bytes before the end; 0: it is cut short. */
static uint64_t read_entry(const uint8_t *at, uint64_t left,
                           fatbin_entry *entry)
{
    if (left < ENTRY_HEADER)
        return 0;
    uint64_t header = read32(at + 4), size = read64(at + 8);
    if (header < ENTRY_HEADER || header > left || size > left - header)
        return 0;
    *entry = (fatbin_entry){.payload = at + header,
                            .size = size,
                            .packed_size = read32(at + 16),
                            .target = read32(at + 28),
                            .flags = read64(at + 40),
                            .text_size = read64(at + 56)};
    return header + size;
}

static CUresult find_in_fatbin(const uint8_t *fatbin, size_t limit,
                               const spt_board *board, sim_image *found,
                               spt_error *err)
{
    fatbin_entry entry, chosen = {0};
    uint32_t best = 0;
    if (limit < FATBIN_HEADER)
        return damaged(err, "it is cut short");
    uint64_t header = read16(fatbin + 6), left = read64(fatbin + 8);
    if (header < FATBIN_HEADER || header > limit || left > limit - header)
        return damaged(err, "it is cut short");
    for (const uint8_t *at = fatbin + header; left;) {
        uint64_t size = read_entry(at, left, &entry);
        if (!size)
            return damaged(err, "an entry is cut short");
        uint32_t rank = read16(at) == KIND_PTX ? suits(&entry, board) : 0;
        if (rank > best) {
            best = rank;
            chosen = entry;
        }
        at += size;
        left -= size;
    }
    if (!best)
        return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, err,
                    "the fatbin has no PTX for this device");
    if (chosen.packed_size)
        return unpack(&chosen, found, err);
    found->text = (const char *)chosen.payload;
    found->size = strnlen(found->text, chosen.size);
    return CUDA_SUCCESS;
}

static bool looks_like_text(const char *text, size_t limit)
{
    size_t i = 0;
    if (limit > 4096)
        limit = 4096;
    while (i < limit && (text[i] == '\t' || text[i] == '\n' ||
                         text[i] == '\r' || (text[i] >= ' ' && text[i] < 127)))
        i++;
    return i > 0 && (i == limit || text[i] == 0);
}

CUresult sim_image_read(const char *path, spt_buf *image, spt_error *err)
{
    if (spt_file_read(path, MAX_TEXT, image, err) != SPT_OK)
        return CUDA_ERROR_FILE_NOT_FOUND;
    spt_buf_add(image, "", 1);
    if (!image->failed)
        return CUDA_SUCCESS;
    spt_buf_free(image);
    spt_fail(err, SPT_E_MEMORY, "module: out of memory");
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_image_find(const void *image, size_t limit, const spt_board *board,
                        sim_image *found, spt_error *err)
{
    const uint8_t *bytes = image;
    *found = (sim_image){0};
    /* None of the magic words has a zero byte; a text may be shorter. */
    size_t start = limit < 4 ? limit : 4;
    uint32_t magic = strnlen(image, start) == 4 ? read32(bytes) : 0;
    /* A pointer is one only in memory of the program itself. */
    if (magic == WRAPPER_MAGIC && limit == SIM_IMAGE_NO_LIMIT) {
        bytes = (const uint8_t *)(uintptr_t)read64(bytes + 8);
        magic = bytes ? read32(bytes) : 0;
    }
    if (magic == FATBIN_MAGIC)
        return find_in_fatbin(bytes, limit, board, found, err);
    if (magic == ELF_MAGIC)
        return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, err,
                    "machine code cannot run on sim, expected PTX");
    if (bytes != image || !looks_like_text(image, limit))
        return fail(CUDA_ERROR_INVALID_IMAGE, err,
                    "neither PTX text nor a fatbin");
    found->text = image;
    found->size = strnlen(image, limit < MAX_TEXT ? limit : MAX_TEXT);
    return CUDA_SUCCESS;
}

void sim_image_free(sim_image *found)
{
    spt_free(found->unpacked);
    *found = (sim_image){0};
}
