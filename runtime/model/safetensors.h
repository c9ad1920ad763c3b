/*
 * safetensors: eight bytes N, a JSON object of N bytes that names tensors
 * (dtype, shape, data_offsets), data. Checked as the format's own reader does:
 * the tensors cover the data without a hole or an overlap, shape and type
 * give exactly their bytes.
 */
#ifndef SPT_SAFETENSORS_H
#define SPT_SAFETENSORS_H

#include "model_int.h"

/*
 * Appends the file's tensors to files (*count entries in the arena, grown as
 * needed). Names are copied into the arena, data points into the bytes. name
 * is what errors call the file.
 */
spt_status spt_safetensors_read(const void *data, size_t size, const char *name,
                                spt_arena *arena, file_tensor **files,
                                size_t *count, spt_error *err);

#endif
