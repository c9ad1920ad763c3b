/*
 * libspectune: what a program that uses spectune's results sees.
 *
 * Functions return spt_status and, on failure, one line of text in an
 * spt_error of the caller. Nothing prints, exits or keeps global state; a
 * handle is used by one thread at a time.
 */
#ifndef SPECTUNE_H
#define SPECTUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPT_VERSION "0.1.0"

#if defined(__GNUC__)
#define SPT_API __attribute__((visibility("default")))
#else
#define SPT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Values never change; runtime/base/status.def has the texts. */
typedef enum spt_status {
    SPT_OK = 0,
    SPT_E_USAGE = 1,
    SPT_E_MEMORY = 2,
    SPT_E_IO = 3,
    SPT_E_FORMAT = 4,
    SPT_E_NOT_FOUND = 5,
    SPT_E_UNSUPPORTED = 6,
    SPT_E_COMPILE = 7,
    SPT_E_DEVICE = 8,
    SPT_E_PROOF = 9,
    SPT_E_TIMEOUT = 10,
    SPT_E_CANCELLED = 11,
    SPT_E_INTERNAL = 12,
} spt_status;

typedef struct spt_error {
    spt_status status;
    char text[1024]; /* what, where, what was expected; one line */
} spt_error;

/* Where one-line notes of the library go: the caller's function, or nowhere. */
typedef struct spt_log {
    void (*line)(void *user, const char *text); /* NULL: dropped */
    void *user;
} spt_log;

/* The version of the library, as in SPT_VERSION. */
SPT_API const char *spt_version(void);

/* The fixed text of a status; never NULL. */
SPT_API const char *spt_status_text(spt_status status);

/*
 * Packs: a folder of proved kernels as machine code, with manifest.json.
 * Strings of a pack live until spt_pack_close.
 */
typedef struct spt_pack spt_pack;

typedef struct spt_pack_kernel {
    const char *name; /* of the template: verify_attention */
    const char *symbol; /* of the function in the image */
    const char *config; /* "name=value name=value ..." */
    const char *key; /* reduction key: equal keys, equal bits */
    const char *target; /* what the cubin was assembled for: sm_90a */
    const char *template_hash; /* SHA-256 of what the text came from */
    const char *cubin, *ptx; /* paths in the pack; NULL = not there */
    int threads; /* per CTA */
    int registers; /* per thread */
    int shared_bytes; /* static, per CTA */
    int dynamic_shared_bytes; /* to be given at launch */
    int spill_bytes;
} spt_pack_kernel;

/*
 * Reads and checks folder/manifest.json; images are read when loaded.
 * SPT_E_IO when it cannot be read, SPT_E_FORMAT when it is wrong or damaged.
 */
SPT_API spt_status spt_pack_open(const char *folder, spt_pack **pack,
                                 spt_error *err);
SPT_API void spt_pack_close(spt_pack *pack);

SPT_API size_t spt_pack_count(const spt_pack *pack);
/* NULL when index is past the end. */
SPT_API const spt_pack_kernel *spt_pack_at(const spt_pack *pack, size_t index);
/* The SHA-256 of all that the pack holds, and the compiler that made it. */
SPT_API const char *spt_pack_digest(const spt_pack *pack);
SPT_API const char *spt_pack_compiler(const spt_pack *pack);

/*
 * Reads every file and compares size and hash; bad (may be NULL) is told of
 * each that fails. SPT_E_FORMAT with the first reason when one does.
 */
SPT_API spt_status spt_pack_verify(const spt_pack *pack,
                                   void (*bad)(void *user, const char *path,
                                               const char *reason),
                                   void *user, spt_error *err);

typedef struct spt_pack_image {
    char *data; /* NUL after size bytes; freed by spt_pack_image_free */
    size_t size;
    bool is_ptx;
    const spt_pack_kernel *kernel;
} spt_pack_image;

/*
 * The image of a kernel for a device of that compute capability: exact cubin,
 * else a cubin of the same family, else PTX that the driver can translate.
 * config NULL: the first kernel of that name. A wrong or damaged file is a
 * miss: the next candidate is tried, and log (may be NULL) gets one line.
 * SPT_E_NOT_FOUND, with the last reason, when none is left.
 */
SPT_API spt_status spt_pack_load(const spt_pack *pack, const char *name,
                                 const char *config, int cc_major, int cc_minor,
                                 const spt_log *log, spt_pack_image *image,
                                 spt_error *err);
SPT_API void spt_pack_image_free(spt_pack_image *image);

/*
 * How a token is chosen from the model's logits. Zero is a default everywhere:
 * a zeroed struct is greedy decoding. The filters work in this order: logit
 * bias, penalties, top-k, top-p, min-p, temperature.
 */
typedef struct spt_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -infinity forbids the token */
} spt_logit_bias;

typedef struct spt_sampling {
    double temperature; /* 0 = greedy: the highest logit */
    uint64_t seed; /* of the random numbers, keyed by position */
    int top_k; /* the k highest; 0 = all */
    double top_p; /* the fewest that hold this probability; 0 or 1 = all */
    double min_p; /* at least this part of the highest's; 0 = all */
    double repeat_penalty; /* divides or multiplies; 0 or 1 = none */
    double presence_penalty; /* subtracted once from what occurred */
    double frequency_penalty; /* subtracted per occurrence */
    int penalty_tokens; /* of the text's end; 0 = 64, -1 = all */
    const spt_logit_bias *bias; /* n_bias of them */
    size_t n_bias;
} spt_sampling;

/* How drafts become text. */
typedef enum spt_accept_rule {
    SPT_ACCEPT_MATCH = 0, /* the text is the one without drafts */
    SPT_ACCEPT_REJECTION = 1, /* its distribution is, where drafts are drawn */
} spt_accept_rule;

#ifdef __cplusplus
}
#endif

#endif
