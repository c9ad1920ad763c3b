/*
 * An engine on a tiny seeded model with a byte-level tokenizer, for tests:
 * ids 0 ... 255 are bytes, 256 ends a text, 257 is "ab", the others are words
 * of their own.
 */
#ifndef SPT_TINY_ENGINE_H
#define SPT_TINY_ENGINE_H

#include <unistd.h>

#include "check.h"
#include "session_int.h"
#include "tiny_model.h"
#include "tokenizer_int.h"

enum { TINY_END = 256, TINY_TEXT = 64, TINY_TOP = 3 };

/* Models written from here on have their byte tokens moved by so many. */
static int tiny_shift;

/* UTF-8 of a character below U+0800. */
__attribute__((unused)) static void tiny_utf8(int c, char *text)
{
    if (c < 0x80) {
        text[0] = (char)c;
        text[1] = 0;
        return;
    }
    text[0] = (char)(0xc0 | c >> 6);
    text[1] = (char)(0x80 | (c & 0x3f));
    text[2] = 0;
}

__attribute__((unused)) static void tiny_tokenizer(gguf_maker *m, int vocab)
{
    static char texts[1024][16];
    static const char *pointers[1024];
    static int kinds[1024];
    static const char *const merges[] = {"a b"};
    for (int i = 0; i < vocab; i++) {
        if (i < 256)
            tiny_utf8(spt_byte_char((i + tiny_shift) % 256), texts[i]);
        else
            snprintf(texts[i], sizeof texts[i], i == 257 ? "ab" : "<w%d>", i);
        pointers[i] = texts[i];
        kinds[i] = i == TINY_END ? TOKEN_CONTROL : TOKEN_NORMAL;
    }
    gguf_put_text(m, "tokenizer.ggml.model", "gpt2");
    gguf_put_text(m, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_texts(m, "tokenizer.ggml.tokens", pointers, (size_t)vocab);
    gguf_put_ints(m, "tokenizer.ggml.token_type", kinds, (size_t)vocab);
    gguf_put_texts(m, "tokenizer.ggml.merges", merges, 1);
    gguf_put_int(m, "tokenizer.ggml.eos_token_id", TINY_END);
    gguf_put_text(m, "tokenizer.chat_template",
                  "{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
                  "{% endfor %}{% if add_generation_prompt %}assistant: "
                  "{% endif %}");
}

/* Writes the model to a temporary file; its name, to be unlinked. */
__attribute__((unused)) static bool tiny_write(const tiny_model *t, char *path)
{
    spt_error err;
    spt_buf file = {0};
    gguf_maker m = {0};
    tiny_pairs(&m, t);
    tiny_tokenizer(&m, t->vocab);
    tiny_writer w = {.t = t, .sink = tiny_to_gguf, .user = &m};
    tiny_tensors(&w);
    gguf_finish(&m, &file);
    strcpy(path, "/tmp/spectune-tiny-XXXXXX.gguf");
    int fd = mkstemps(path, 5);
    if (fd >= 0)
        close(fd);
    bool good = spt_file_write(path, file.data, file.size, &err) == SPT_OK;
    spt_buf_free(&file);
    return good;
}

/* Opens an engine of the options on the model; exits where it can't. */
__attribute__((unused)) static spt_engine *
tiny_open(const tiny_model *t, const spt_engine_options *options)
{
    char path[64];
    spt_error err;
    spt_engine *engine = NULL;
    spt_engine_options o = *options;
    o.model = path;
    o.device = SPT_DEVICE_SIM;
    bool good =
        tiny_write(t, path) &&
        CHECK_OK(spt_engine_open(&o, &engine, &err), &err, "the engine opens");
    unlink(path);
    if (!good)
        exit(check_done());
    return engine;
}

/* What an answer consists of. */
typedef struct tiny_answer {
    int32_t tokens[TINY_TEXT];
    double logprobs[TINY_TEXT];
    spt_token_logprob top[TINY_TEXT][TINY_TOP];
    size_t n;
    char text[1024];
    size_t size;
    spt_finish finish;
} tiny_answer;

/* The event function; user is a tiny_answer. */
__attribute__((unused)) static bool tiny_event(void *user, const spt_event *e)
{
    tiny_answer *a = user;
    for (size_t i = 0; i < e->n_tokens && a->n < TINY_TEXT; i++) {
        a->tokens[a->n] = e->tokens[i];
        for (size_t j = 0; j < e->n_top && j < TINY_TOP; j++)
            a->top[a->n][j] = e->top[i * e->n_top + j];
        a->logprobs[a->n++] = e->logprobs ? e->logprobs[i] : 0;
    }
    if (a->size + e->text_size < sizeof a->text) {
        memcpy(a->text + a->size, e->text, e->text_size);
        a->size += e->text_size;
    }
    a->finish = e->finish;
    return false;
}

static bool tiny_same_top(const tiny_answer *a, const tiny_answer *b)
{
    for (size_t i = 0; i < a->n; i++)
        for (int j = 0; j < TINY_TOP; j++) {
            const spt_token_logprob *x = &a->top[i][j], *y = &b->top[i][j];
            if (x->token != y->token ||
                memcmp(&x->logprob, &y->logprob, sizeof x->logprob) != 0)
                return false;
        }
    return true;
}

/* To the bit: tokens, logprobs, text, finish. */
__attribute__((unused)) static bool tiny_same(const tiny_answer *a,
                                              const tiny_answer *b)
{
    return a->n == b->n && a->size == b->size && a->finish == b->finish &&
           memcmp(a->tokens, b->tokens, a->n * sizeof *a->tokens) == 0 &&
           memcmp(a->logprobs, b->logprobs, a->n * sizeof *a->logprobs) == 0 &&
           memcmp(a->text, b->text, a->size) == 0 && tiny_same_top(a, b);
}

#endif
