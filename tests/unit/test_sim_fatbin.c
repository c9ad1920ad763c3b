/* PTX in fatbins: which entry is taken, both compressions, damage. */
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "driver_test.h"
#include "files.h"
#include "mem.h"
#include "sim_fatbin.h"

enum { LZ4 = 0x2000, ZSTD = 0x8000, CHIP = 0x100000, FAMILY = 0x200000 };

/* A fatbin of one or more entries; changed at will between. */
typedef struct maker {
    uint8_t bytes[8192];
    size_t size;
} maker;

static void put(uint8_t *at, uint64_t value, size_t size)
{
    memcpy(at, &value, size);
}

static void maker_start(maker *m)
{
    memset(m, 0, sizeof(*m));
    put(m->bytes, 0xba55ed50u, 4);
    put(m->bytes + 4, 1, 2);
    put(m->bytes + 6, 16, 2);
    m->size = 16;
}

/* The entry's payload is text, packed as flags say. */
static uint8_t *maker_add(maker *m, uint32_t target, uint64_t flags,
                          const char *text)
{
    uint8_t *entry = m->bytes + m->size, *payload = entry + 64;
    size_t text_size = strlen(text) + 1, room = sizeof(m->bytes) - m->size - 64;
    size_t packed = 0;
    if (flags & ZSTD)
        packed = ZSTD_compress(payload, room, text, text_size, 3);
    else if (flags & LZ4)
        packed = (size_t)LZ4_compress_default(text, (char *)payload,
                                              (int)text_size, (int)room);
    else
        memcpy(payload, text, text_size);
    size_t size = ((packed ? packed : text_size) + 7) / 8 * 8;
    put(entry, 1, 2);
    put(entry + 4, 64, 4);
    put(entry + 8, size, 8);
    put(entry + 16, packed, 4);
    put(entry + 28, target, 4);
    put(entry + 40, flags, 8);
    put(entry + 56, packed ? text_size : 0, 8);
    m->size += 64 + size;
    put(m->bytes + 8, m->size - 16, 8);
    return entry;
}

/* A copy of exactly size bytes, so that sanitizers see one byte too far. */
static CUresult find(const maker *m, size_t size, sim_image *found,
                     spt_error *err, char text[64])
{
    spt_board board = test_board();
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, m->bytes, size);
    text[0] = 0;
    CUresult result = sim_image_find(copy, size, &board, found, err);
    if (result == CUDA_SUCCESS)
        snprintf(text, 64, "%.*s", (int)found->size, found->text);
    sim_image_free(found);
    free(copy);
    return result;
}

static const char *const sample =
    ".version 8.0\n.target sm_80\n// blank blank blank\n";

static void check_forms(void)
{
    static const struct {
        const char *name;
        uint64_t flags;
    } forms[] = {{"plain text", 0}, {"zstd", ZSTD}, {"LZ4", LZ4}};
    for (size_t i = 0; i < 3; i++) {
        maker m;
        sim_image found;
        spt_error err;
        char text[64];
        maker_start(&m);
        maker_add(&m, 80, forms[i].flags, sample);
        CHECK(find(&m, m.size, &found, &err, text) == CUDA_SUCCESS &&
                  !strcmp(text, sample),
              "%s is read", forms[i].name);
        int refused = 0;
        for (size_t size = 4; size < m.size; size++)
            refused += find(&m, size, &found, &err, text) != CUDA_SUCCESS;
        CHECK_INT(refused, (int)m.size - 4, "and cut short it is refused");
    }
}

static void check_targets(void)
{
    static const struct {
        const char *name;
        uint32_t target[3];
        uint64_t flags[3];
        const char *taken; /* its number, "": none */
    } cases[] = {
        {"the latest that runs", {80, 86, 100}, {0, 0, 0}, "1"},
        {"this chip's before the plain one", {90, 90, 80}, {0, CHIP, 0}, "1"},
        {"this family's before the plain one", {90, 90, 80}, {FAMILY}, "0"},
        {"another chip's is none", {80, 89, 90}, {CHIP, CHIP, 0}, "2"},
        {"another family's is none", {80, 70, 0}, {FAMILY, 0, 0}, "1"},
        {"nothing that runs", {100, 86, 120}, {0, CHIP, 0}, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        maker m;
        sim_image found;
        spt_error err;
        char text[64];
        maker_start(&m);
        for (int j = 0; j < 3; j++) {
            char number[2] = {(char)('0' + j), 0};
            maker_add(&m, cases[i].target[j], cases[i].flags[j] | ZSTD, number);
        }
        CUresult result = find(&m, m.size, &found, &err, text);
        CHECK(!strcmp(text, cases[i].taken) &&
                  result ==
                      (*text ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU),
              "%s", cases[i].name);
    }
}

static void check_damage(void)
{
    static const struct {
        const char *name;
        uint64_t flags;
        int at; /* of the entry */
        int64_t add;
        const char *said;
    } cases[] = {
        {"a text longer than it says", ZSTD, 56, -1, "decompressed"},
        {"a text shorter than it says", ZSTD, 56, 1, "decompressed"},
        {"the same with LZ4", LZ4, 56, -1, "decompressed"},
        {"a text of the length 0", ZSTD, 56, -49, "sizes"},
        {"a text of a length without bounds", LZ4, 60, 1, "sizes"},
        {"more compressed bytes than there are", ZSTD, 16, 100, "sizes"},
        {"fewer compressed bytes", ZSTD, 16, -9, "decompressed"},
        {"no frame", ZSTD, 64, 1, "decompressed"},
        {"a compression that is not known", ZSTD, 40, 0x8000, "unknown"},
        {"an entry shorter than its header", 0, 4, -1, "cut short"},
        {"a payload beyond the end", 0, 8, 8, "cut short"},
        {"a payload without bounds", 0, 12, -1, "cut short"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        maker m;
        sim_image found;
        spt_error err = {0};
        char text[64];
        uint32_t word;
        maker_start(&m);
        uint8_t *at = maker_add(&m, 80, cases[i].flags, sample) + cases[i].at;
        memcpy(&word, at, 4);
        put(at, word + (uint64_t)cases[i].add, 4);
        CUresult result = find(&m, m.size, &found, &err, text);
        CHECK(result == CUDA_ERROR_INVALID_IMAGE, "%s is refused",
              cases[i].name);
        CHECK_HAS(err.text, cases[i].said, "and says so");
    }
}

/* What nvcc 13.0 wrote; through each call that takes an image. */
static void check_nvcc(const char *name)
{
    char path[128];
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CUlinkState link = NULL;
    CUfunction function;
    spt_buf file = {0};
    spt_error err = {0};
    snprintf(path, sizeof(path), "tests/fuzz/corpus/fatbin/%s", name);
    CHECK_OK(spt_file_read(path, 1 << 20, &file, &err), &err, path);
    CHECK(OK(drv.cuModuleLoadData(&module, file.data)) &&
              OK(drv.cuModuleGetFunction(&function, module, "scale")),
          "%s from memory", name);
    OK(drv.cuModuleUnload(module));
    CHECK(OK(drv.cuModuleLoad(&module, path)), "%s from a file", name);
    OK(drv.cuModuleUnload(module));
    CHECK(OK(drv.cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL,
                                       NULL, 0)),
          "%s as a library", name);
    OK(drv.cuLibraryUnload(library));
    OK(drv.cuLinkCreate(0, NULL, NULL, &link));
    CHECK(OK(drv.cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, file.data,
                               file.size, name, 0, NULL, NULL)),
          "%s to the linker", name);
    OK(drv.cuLinkDestroy(link));
    spt_buf_free(&file);
}

static void check_cut_file(void)
{
    char path[] = "/tmp/spectune_fatbin_XXXXXX";
    maker m;
    spt_error err;
    CUmodule module;
    maker_start(&m);
    maker_add(&m, 80, ZSTD, driver_test_ptx);
    int fd = mkstemp(path);
    CHECK(fd >= 0, "a temporary file");
    close(fd);
    CHECK_OK(spt_file_write(path, m.bytes, m.size - 64, &err), &err, "written");
    CHECK_INT(drv.cuModuleLoad(&module, path), CUDA_ERROR_INVALID_IMAGE,
              "a file that is cut short is refused");
    CHECK_HAS(spt_sim_last_error(), "cut short", "and says so");
    unlink(path);
}

int main(void)
{
    driver_test_open(NULL);
    check_forms();
    check_targets();
    check_damage();
    check_nvcc("plain.fatbin");
    check_nvcc("zstd.fatbin");
    check_nvcc("lz4.fatbin");
    check_nvcc("targets.fatbin");
    check_cut_file();
    spt_sim_close();
    return check_done();
}
