/* A GGUF from anywhere: one line of error, or a shape, a model whose tensors
   can be read, a tokenizer that gives back what it reads. */
#include <stdlib.h>
#include <string.h>

#include "model_file.h"
#include "target.h"
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static spt_error err;

static void use_target(const uint8_t *data, size_t size)
{
    spt_target target = {.name = "fuzz"};
    if (spt_target_gguf(data, size, "fuzz.gguf", &target, &err) == SPT_OK &&
        (target.q_heads < 1 || !(target.weight_bytes > 0)))
        abort();
}

/* Reads the last row of every tensor. */
static void use_model(const uint8_t *data, size_t size)
{
    spt_model *model = NULL;
    if (spt_model_open_bytes(&model, data, size, "fuzz.gguf", &err) != SPT_OK)
        return;
    const spt_model_config *c = spt_model_config_of(model);
    float sum = 0, magnitude;
    float *row = malloc(sizeof *row << 20);
    for (int r = 0; row && r < SPT_ROLES; r++) {
        const spt_tensor *t =
            spt_model_tensor(model, (spt_role)r, c->layers - 1);
        if (!t)
            continue;
        const char *last = t->data;
        last += t->row_bytes * (size_t)(t->rows - 1);
        spt_weight_row_f32(t->type, last, (size_t)t->cols, row);
        sum += row[t->cols - 1];
    }
    spt_rope_table(&c->rope, true, row, &magnitude);
    free(row);
    if (spt_model_layer_window(c, 0) < 0 || (sum > 0 && sum < 0))
        abort();
    spt_model_close(model);
}

static void use_tokenizer(const spt_gguf *gguf)
{
    static const char text[] = "Hello  w\xc3\xb6rld 123\n\n<s>";
    spt_encode_options options = {.specials = true, .begin = true};
    spt_tokenizer *t = NULL;
    if (spt_tokenizer_from_gguf(&t, gguf, &err) != SPT_OK)
        return;
    spt_ids ids = {0};
    spt_buf back = {0};
    if (spt_tokenizer_encode(t, text, strlen(text), options, &ids, &err) ==
        SPT_OK)
        for (size_t i = 0; i < ids.size; i++)
            if (ids.data[i] < 0 || ids.data[i] >= spt_tokenizer_size(t))
                abort();
    spt_tokenizer_decode(t, ids.data, ids.size, true, &back);
    spt_ids_free(&ids);
    spt_buf_free(&back);
    spt_tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spt_gguf *gguf = NULL;
    use_target(data, size);
    use_model(data, size);
    if (spt_gguf_parse(&gguf, data, size, "fuzz.gguf", &err) == SPT_OK)
        use_tokenizer(gguf);
    spt_gguf_close(gguf);
    return 0;
}
