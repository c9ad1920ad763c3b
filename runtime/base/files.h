/*
 * Files: read whole, write whole. A written file appears by rename, so that a
 * reader never sees half of it and a failure leaves the old one.
 */
#ifndef SPT_FILES_H
#define SPT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "mem.h"

/* Appends the file's bytes to buf. max_bytes bounds what is accepted. */
spt_status spt_file_read(const char *path, size_t max_bytes, spt_buf *buf,
                         spt_error *err);

/* Writes path whole (temporary file in the same folder, fsync, rename). A link
   stays; the file that it leads to is replaced. */
spt_status spt_file_write(const char *path, const void *data, size_t size,
                          spt_error *err);

/*
 * Keeps others' spt_file_lock for this path, or another of its folder, waiting
 * until the unlock; a process that ends unlocks. Waits for a second at most:
 * -1, which unlock accepts, where it is not had. No file is made.
 */
int spt_file_lock(const char *path);
void spt_file_unlock(int lock);

/* A file's bytes, mapped read-only. */
typedef struct spt_mapping {
    void *data; /* NULL: nothing is mapped */
    size_t size;
} spt_mapping;

/* An empty file is SPT_E_FORMAT. */
spt_status spt_file_map(const char *path, spt_mapping *mapping, spt_error *err);
void spt_file_unmap(spt_mapping *mapping);

/* Makes the folder and its parents; an existing folder is fine. */
spt_status spt_folder_make(const char *path, spt_error *err);

/* Calls each(user, path) for the folder's files of that suffix, by name; files
   that begin with a dot are left out. Stops at the first failure. */
spt_status spt_folder_each(const char *folder, const char *suffix,
                           spt_status (*each)(void *user, const char *path,
                                              spt_error *err),
                           void *user, spt_error *err);

bool spt_file_exists(const char *path);

/* Cuts the last part of a path off; "/" and "." are where it ends. path is not
   empty. */
void spt_path_cut(char *path);

/* "folder/name" in a new string (spt_free), or NULL when out of memory. */
char *spt_path_join(const char *folder, const char *name);

#endif
