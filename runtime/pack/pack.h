/*
 * The pack format, shared by reader and writer (see runtime/pack/README.md).
 */
#ifndef SPT_PACK_H
#define SPT_PACK_H

#include <cJSON.h>

#include "error.h"
#include "hash.h"
#include "mem.h"

#define SPT_PACK_SCHEMA "spectune.pack/1"
#define SPT_PACK_MANIFEST "manifest.json"

enum {
    SPT_PACK_MANIFEST_MAX = 64 << 20,
    SPT_PACK_FILE_MAX = 256 << 20,
    SPT_PACK_PATH_MAX = 200,
};

typedef struct spt_pack_file {
    const char *path; /* relative to the pack's folder */
    char sha256[SPT_SHA256_TEXT];
    uint64_t bytes;
} spt_pack_file;

struct spt_pack {
    spt_arena arena;
    char *folder;
    cJSON *manifest;
    const char *compiler;
    char digest[SPT_SHA256_TEXT];
    spt_pack_kernel *kernels;
    size_t n_kernels;
    spt_pack_file *files; /* ascending by path */
    size_t n_files;
};

/* As spt_pack_open, of a manifest in memory. */
spt_status spt_pack_parse(const char *text, size_t size, const char *folder,
                          spt_pack **pack, spt_error *err);

/* NULL when the pack does not list the path. */
const spt_pack_file *spt_pack_find_file(const spt_pack *pack, const char *path);

/* Reads a listed file and checks size and hash. */
spt_status spt_pack_read_file(const spt_pack *pack, const spt_pack_file *file,
                              spt_buf *out, spt_error *err);

/* As spt_pack_load; ptx_only: for sim, which runs no machine code. */
spt_status spt_pack_load_for(const spt_pack *pack, const char *name,
                             const char *config, int cc_major, int cc_minor,
                             bool ptx_only, const spt_log *log,
                             spt_pack_image *image, spt_error *err);

/* True for a/b-c.d: relative, plain characters, no "..", not too long. */
bool spt_pack_path_valid(const char *path);

/* SHA-256 of the manifest as printed without its field "digest". */
spt_status spt_pack_digest_of(const cJSON *manifest,
                              char digest[SPT_SHA256_TEXT], spt_error *err);

/*
 * How an image of that target ("sm_90a") suits a device: 0 not at all,
 * 1 same family, 2 exact.
 */
int spt_pack_cubin_fit(const char *target, int cc_major, int cc_minor);
bool spt_pack_ptx_fit(const char *target, int cc_major, int cc_minor);

#endif
