/*
 * GGUF, version 2 or 3: the header of a mapped file, checked whole.
 *
 * Little-endian: magic "GGUF", version, number of tensors, number of pairs;
 * pairs of key, type, value; tensor infos of name, dimensions, type, offset;
 * padding to `general.alignment`; data. All checks are those of ggml's reader:
 * counts against the bytes that are there, unique keys and names, types,
 * whole blocks, offsets that are exactly the running padded sum. Whether the
 * data itself is there is asked with spt_gguf_complete, so that a header alone
 * is enough to learn a model's shape.
 *
 * Texts and arrays point into the caller's bytes, which must outlive it.
 */
#ifndef SPT_GGUF_H
#define SPT_GGUF_H

#include "error.h"
#include "text.h"
#include "weight.h"

typedef struct spt_gguf_tensor {
    spt_text name;
    int dims; /* 1 to 4 */
    uint64_t size[4]; /* size[0] is contiguous; 1 beyond dims */
    spt_weight_type type;
    uint64_t offset, bytes; /* offset from the start of the data */
} spt_gguf_tensor;

/* An array of numbers as it lies in the file (no alignment), or of texts. */
typedef struct spt_gguf_array {
    uint32_t type; /* of the elements, SPT_GGUF_* */
    uint64_t count;
    const void *data; /* numbers; NULL for texts */
    const spt_text *texts; /* texts; NULL for numbers */
} spt_gguf_array;

/* Types of values, as the file numbers them. */
typedef enum spt_gguf_type {
    SPT_GGUF_U8,
    SPT_GGUF_I8,
    SPT_GGUF_U16,
    SPT_GGUF_I16,
    SPT_GGUF_U32,
    SPT_GGUF_I32,
    SPT_GGUF_F32,
    SPT_GGUF_BOOL,
    SPT_GGUF_STRING,
    SPT_GGUF_ARRAY,
    SPT_GGUF_U64,
    SPT_GGUF_I64,
    SPT_GGUF_F64,
    SPT_GGUF_TYPES,
} spt_gguf_type;

typedef struct spt_gguf spt_gguf;

/* name is what errors call the file. *out is for spt_gguf_close. */
spt_status spt_gguf_parse(spt_gguf **out, const void *data, size_t size,
                          const char *name, spt_error *err);
void spt_gguf_close(spt_gguf *gguf);

/* Fails unless the bytes hold the data of every tensor. */
spt_status spt_gguf_complete(const spt_gguf *gguf, spt_error *err);

const char *spt_gguf_name(const spt_gguf *gguf);

/* Tensors in file order; find: NULL when there is none of that name. */
size_t spt_gguf_tensor_count(const spt_gguf *gguf);
const spt_gguf_tensor *spt_gguf_tensor_at(const spt_gguf *gguf, size_t index);
const spt_gguf_tensor *spt_gguf_tensor_find(const spt_gguf *gguf,
                                            const char *name);
/* Where its bytes are; valid when the file is complete. */
const void *spt_gguf_tensor_data(const spt_gguf *gguf,
                                 const spt_gguf_tensor *tensor);

/*
 * Values by key. A getter of a key that is not there leaves *out as it is and
 * succeeds; a value of another type or out of range is SPT_E_FORMAT.
 */
bool spt_gguf_has(const spt_gguf *gguf, const char *key);
spt_status spt_gguf_int(const spt_gguf *gguf, const char *key, int64_t min,
                        int64_t max, int64_t *out, spt_error *err);
spt_status spt_gguf_number(const spt_gguf *gguf, const char *key, double *out,
                           spt_error *err);
spt_status spt_gguf_bool(const spt_gguf *gguf, const char *key, bool *out,
                         spt_error *err);
spt_status spt_gguf_string(const spt_gguf *gguf, const char *key, spt_text *out,
                           spt_error *err);
spt_status spt_gguf_get_array(const spt_gguf *gguf, const char *key,
                              spt_gguf_array *out, spt_error *err);

/* Element of an array of integers or bools, or of floats; false: neither. */
bool spt_gguf_array_int(const spt_gguf_array *array, uint64_t index,
                        int64_t *out);
bool spt_gguf_array_float(const spt_gguf_array *array, uint64_t index,
                          float *out);

#endif
