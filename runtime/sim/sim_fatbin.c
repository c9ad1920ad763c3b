/*
 * Fatbins: a header of 16 bytes (magic, version, header size, size of all
 * that follows), then entries, each with a header (kind at 0, its own size at
 * 4, payload size at 8, the compressed size or 0 at 16, target at 28, flags
 * at 40) and its payload. nvcc's wrapper holds a pointer to one.
 */
#include "sim_fatbin.h"

#include <stdint.h>
#include <string.h>

#include "files.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define ELF_MAGIC 0x464c457fu

enum { KIND_PTX = 1, ENTRY_HEADER = 64, FATBIN_HEADER = 16 };
/* The only bounds that an image without a size of its own can have. */
enum { MAX_TEXT = 1 << 30 };

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

static CUresult find_in_fatbin(const uint8_t *fatbin, const spt_board *board,
                               sim_image *found, spt_error *err)
{
    uint32_t sm = (uint32_t)(10 * board->cc_major + board->cc_minor);
    uint32_t best = 0;
    bool compressed = false;
    const uint8_t *entry = fatbin + read16(fatbin + 6);
    uint64_t left = read64(fatbin + 8);
    while (left >= ENTRY_HEADER) {
        uint64_t header = read32(entry + 4), size = read64(entry + 8);
        if (header < ENTRY_HEADER || header > left || size > left - header)
            return fail(CUDA_ERROR_INVALID_IMAGE, err, "damaged fatbin");
        uint32_t target = read32(entry + 28);
        if (read16(entry) == KIND_PTX && target <= sm && target > best) {
            if (read32(entry + 16)) {
                compressed = true;
            } else {
                best = target;
                found->text = (const char *)entry + header;
                found->size = strnlen(found->text, size);
            }
        }
        entry += header + size;
        left -= header + size;
    }
    if (best)
        return CUDA_SUCCESS;
    return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, err,
                compressed ? "the fatbin's PTX is compressed; build with "
                             "--no-compress"
                           : "the fatbin has no PTX for this device");
}

static bool looks_like_text(const char *text)
{
    size_t i = 0;
    while (i < 4096 && (text[i] == '\t' || text[i] == '\n' || text[i] == '\r' ||
                        (text[i] >= ' ' && text[i] < 127)))
        i++;
    return i > 0 && (text[i] == 0 || i == 4096);
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

CUresult sim_image_find(const void *image, const spt_board *board,
                        sim_image *found, spt_error *err)
{
    const uint8_t *bytes = image;
    /* None of the magic words has a zero byte; a text may be shorter. */
    uint32_t magic = strnlen(image, 4) == 4 ? read32(bytes) : 0;
    if (magic == WRAPPER_MAGIC) {
        bytes = (const uint8_t *)(uintptr_t)read64(bytes + 8);
        magic = bytes ? read32(bytes) : 0;
    }
    if (magic == FATBIN_MAGIC)
        return find_in_fatbin(bytes, board, found, err);
    if (magic == ELF_MAGIC)
        return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, err,
                    "machine code cannot run on sim, expected PTX");
    if (bytes != image || !looks_like_text(image))
        return fail(CUDA_ERROR_INVALID_IMAGE, err,
                    "neither PTX text nor a fatbin");
    found->text = image;
    found->size = strnlen(image, MAX_TEXT);
    return CUDA_SUCCESS;
}
