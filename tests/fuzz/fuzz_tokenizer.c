/*
 * A tokenizer.json from anywhere, then a NUL and a text: one line of error, or
 * ids of the vocabulary.
 */
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static spt_error err;

static void use(const spt_tokenizer *t, const char *text, size_t size)
{
    spt_encode_options options = {.specials = size % 2 == 0, .begin = true};
    spt_ids ids = {0};
    spt_buf back = {0};
    if (spt_tokenizer_encode(t, text, size, options, &ids, &err) == SPT_OK)
        for (size_t i = 0; i < ids.size; i++)
            if (ids.data[i] < 0 || ids.data[i] >= spt_tokenizer_size(t))
                abort();
    spt_tokenizer_decode(t, ids.data, ids.size, true, &back);
    spt_ids_free(&ids);
    spt_buf_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data;
    const char *end = size ? memchr(json, 0, size) : NULL;
    size_t length = end ? (size_t)(end - json) : size;
    spt_tokenizer *t = NULL;
    if (spt_tokenizer_from_json(&t, json, length, "fuzz", &err) == SPT_OK)
        use(t, end ? end + 1 : "a b\n", end ? size - length - 1 : 4);
    spt_tokenizer_close(t);
    return 0;
}
