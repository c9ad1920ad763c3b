/*
 * From a template to CUDA text to machine code.
 *
 * A kernel is a descriptor (templates/NAME.lua: parameters, constraints,
 * launch geometry, reduction key) and a body (templates/NAME.cu). The Lua host
 * runs both sandboxed; the emitted text is the same bytes for the same input.
 */
#ifndef SPT_GEN_H
#define SPT_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "error.h"
#include "mem.h"

typedef enum spt_value_type {
    SPT_VALUE_INT,
    SPT_VALUE_BOOL,
    SPT_VALUE_NUMBER,
    SPT_VALUE_STRING,
} spt_value_type;

typedef struct spt_value {
    char name[24];
    spt_value_type type;
    int64_t integer; /* INT, and BOOL as 0 or 1 */
    double number;
    char text[24];
} spt_value;

/* Named values: a problem (what is computed) with a config (how). */
enum { SPT_CONFIG_MAX = 40 };
typedef struct spt_config {
    int count;
    spt_value values[SPT_CONFIG_MAX];
} spt_config;

void spt_config_set_int(spt_config *config, const char *name, int64_t value);
void spt_config_set_bool(spt_config *config, const char *name, bool value);
void spt_config_set_number(spt_config *config, const char *name, double value);
void spt_config_set_string(spt_config *config, const char *name,
                           const char *value);
const spt_value *spt_config_get(const spt_config *config, const char *name);
/* The integer (or bool) of that name; fallback when absent. */
int64_t spt_config_int(const spt_config *config, const char *name,
                       int64_t fallback);

/* "8", "true", "bf16" */
void spt_value_text(const spt_value *value, char *text, size_t size);

typedef struct spt_gen spt_gen;

/*
 * Opens the Lua host on the folder that holds archs/ and templates/. NULL:
 * $SPECTUNE_HOME, else the folders beside or above the program, else the
 * installed ones. Used by one thread at a time.
 */
spt_status spt_gen_open(const char *root, spt_gen **gen, spt_error *err);
/* Whether a folder has archs/ and templates/. */
bool spt_gen_has_root(const char *root);
void spt_gen_close(spt_gen *gen);

/* Boards of archs/, sorted by name; the strings live as long as gen. Without
   one (NULL) they are those that were built in, and need no files. */
size_t spt_gen_board_count(spt_gen *gen);
const char *spt_gen_board_name(spt_gen *gen, size_t index);
spt_status spt_gen_board(spt_gen *gen, const char *name, spt_board *board,
                         spt_error *err);
/* A user's own board file, checked by the same schema. */
spt_status spt_gen_board_file(spt_gen *gen, const char *path, spt_board *board,
                              spt_error *err);
/* The board that an arch (sm90) stands for when none is named. */
spt_status spt_gen_default_board(spt_gen *gen, const char *arch,
                                 spt_board *board, spt_error *err);

/* What a kernel with all its values fixed is. Freed by spt_kernel_free. */
typedef struct spt_kernel {
    char template_name[32]; /* verify_attention */
    char symbol[128]; /* name of the __global__ function */
    char config[512]; /* canonical "name=value name=value ..." */
    char key[160]; /* reduction key: equal keys, equal bits */
    char target[16]; /* sm_90a */
    char template_hash[65]; /* sha256 of descriptor, body and fragments */
    int threads; /* per CTA */
    int shared_bytes; /* dynamic shared memory per CTA */
    int min_ctas; /* of __launch_bounds__; 0 = not given */
    char *source; /* CUDA text, NUL-terminated */
    size_t source_size;
} spt_kernel;

/*
 * All configs of a kernel for a problem on a board whose constraints hold, in
 * a fixed order: every parameter that problem leaves open runs over its
 * values. *configs is one block (spt_free). Zero configs is SPT_E_UNSUPPORTED
 * with the constraint that refused the last candidate.
 */
spt_status spt_gen_space(spt_gen *gen, const char *template_name,
                         const spt_config *problem, const spt_board *board,
                         spt_config **configs, size_t *count, spt_error *err);

/*
 * Emits one kernel. Every parameter without default must be given; unknown
 * names, values out of range and broken constraints are SPT_E_USAGE.
 */
spt_status spt_gen_emit(spt_gen *gen, const char *template_name,
                        const spt_config *config, const spt_board *board,
                        spt_kernel *kernel, spt_error *err);
void spt_kernel_free(spt_kernel *kernel);

/*
 * What spt_gen_emit would give but for the text: source and template_hash
 * stay empty. For going over many configs.
 */
spt_status spt_gen_describe(spt_gen *gen, const char *template_name,
                            const spt_config *config, const spt_board *board,
                            spt_kernel *kernel, spt_error *err);

/* Machine code of one kernel, with what the assembler said of it. */
typedef struct spt_image {
    char *ptx;
    size_t ptx_size;
    char *cubin;
    size_t cubin_size;
    int registers, shared_bytes /* static */, spill_bytes, stack_bytes;
    char compiler[32]; /* "nvrtc 13.0.88" */
    char key[65]; /* sha256 of source, target, options, compiler */
} spt_image;
void spt_image_free(spt_image *image);

typedef struct spt_compiler spt_compiler;

/*
 * Opens NVRTC (library NULL: $SPECTUNE_NVRTC, the system's, the toolkit's, or
 * that of make deps). SPT_E_NOT_FOUND says where it looked and what to do.
 * cache_folder NULL: $SPECTUNE_CACHE, else $XDG_CACHE_HOME/spectune, else
 * ~/.cache/spectune; "" = no cache. It is kept below $SPECTUNE_CACHE_LIMIT
 * (2G): see cache.h. Safe to share between threads.
 */
spt_status spt_compiler_open(const char *library, const char *cache_folder,
                             spt_compiler **compiler, spt_error *err);
void spt_compiler_close(spt_compiler *compiler);

/*
 * Notes go to the caller's function, one line each, from any thread but one
 * at a time: a cache that cannot be written (once), a damaged entry.
 */
void spt_compiler_notes(spt_compiler *compiler,
                        void (*note)(void *user, const char *text), void *user);

/*
 * How far compiling is: the symbol of the kernel that was begun last, NULL
 * while all so far came from the cache; how many of how many are there.
 */
typedef void spt_compile_progress(void *user, const char *kernel, size_t done,
                                  size_t total);

/*
 * Compiles count kernels, threads at a time (0 = all cores), from the cache
 * where it has them. images has count entries. A compile that takes longer
 * than timeout_s (0 = 120) is SPT_E_TIMEOUT. progress (may be NULL) is called
 * from the calling thread, when a kernel is begun and when one is there.
 * On failure no image is kept and the error names the template's line.
 */
spt_status spt_compile(spt_compiler *compiler, const spt_kernel *kernels,
                       size_t count, int threads, double timeout_s,
                       spt_compile_progress *progress, void *user,
                       spt_image *images, spt_error *err);

#endif
