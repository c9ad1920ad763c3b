/*
 * Writes packs. Kernels are added with their images, proof and times; finish
 * makes the folder appear whole: an old pack stays until the new one is
 * complete. The same input gives the same bytes.
 */
#ifndef SPT_PACK_WRITE_H
#define SPT_PACK_WRITE_H

#include <cJSON.h>

#include "gen.h"

typedef struct spt_pack_writer spt_pack_writer;

/* compiler: as in spt_image.compiler. */
spt_status spt_pack_writer_open(const char *compiler, spt_pack_writer **writer,
                                spt_error *err);
void spt_pack_writer_close(spt_pack_writer *writer);

/*
 * Adds a kernel; images are copied. proof is an object with "ok": true, times
 * an array (NULL: none); the writer owns both from here on, also on failure.
 * A kernel without a proof that is ok is refused with SPT_E_PROOF.
 */
spt_status spt_pack_writer_add(spt_pack_writer *writer,
                               const spt_kernel *kernel, const spt_image *image,
                               cJSON *proof, cJSON *times, spt_error *err);

/*
 * What finish would refuse, before anything was made for it: a folder that
 * cannot be there, or holds other things. Leaves nothing behind.
 */
spt_status spt_pack_check_folder(const char *folder, spt_error *err);

/*
 * Writes everything to folder (its parents are made). A folder that exists
 * has to be empty or a pack.
 */
spt_status spt_pack_writer_finish(spt_pack_writer *writer, const char *folder,
                                  spt_error *err);

#endif
