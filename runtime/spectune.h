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

/* The version of the library, as in SPT_VERSION. */
SPT_API const char *spt_version(void);

/* The fixed text of a status; never NULL. */
SPT_API const char *spt_status_text(spt_status status);

#ifdef __cplusplus
}
#endif

#endif
