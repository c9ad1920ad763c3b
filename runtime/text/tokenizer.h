/*
 * Text to token ids and back, as the model's own tokenizer does it.
 *
 * Two kinds: byte-level BPE (a regular expression cuts the text into words,
 * ranked merges join a word's bytes) and SPM (blanks become U+2581, merges or
 * scores join characters, what is not in the vocabulary becomes byte tokens).
 * Read-only once it is open, so that threads may share it.
 */
#ifndef SPT_TOKENIZER_H
#define SPT_TOKENIZER_H

#include "mem.h"
#include "model_file.h"

/* Growable ids. Zero-initialise, then use; spt_ids_free. */
typedef struct spt_ids {
    int32_t *data;
    size_t size, capacity;
    bool failed; /* out of memory once: content is incomplete */
} spt_ids;

void spt_ids_add(spt_ids *ids, int32_t id);
void spt_ids_free(spt_ids *ids);

typedef struct spt_tokenizer spt_tokenizer;

/* The tokenizer of a model: of its GGUF, or tokenizer.json beside it.
   *out is for spt_tokenizer_close, which takes NULL too. */
spt_status spt_tokenizer_open(spt_tokenizer **out, const spt_model *model,
                              spt_error *err);
spt_status spt_tokenizer_from_gguf(spt_tokenizer **out, const spt_gguf *gguf,
                                   spt_error *err);
/* The text of a tokenizer.json; name is what errors call it. */
spt_status spt_tokenizer_from_json(spt_tokenizer **out, const char *text,
                                   size_t size, const char *name,
                                   spt_error *err);
void spt_tokenizer_close(spt_tokenizer *tokenizer);

/* How a text is read. */
typedef struct spt_encode_options {
    bool specials; /* "<|im_end|>" in the text is that token, not its letters */
    bool begin; /* the token that begins a text, where the model wants one */
    size_t most; /* a text of more ids is SPT_E_USAGE, found before all of it
                    is encoded; 0 = any number */
    /* Asked now and then; true ends it with SPT_E_CANCELLED. May be NULL. */
    bool (*stop)(void *user);
    void *user;
} spt_encode_options;

/*
 * Appends the ids of the text, which is UTF-8; anything else is SPT_E_FORMAT
 * with the place of the first wrong byte.
 */
spt_status spt_tokenizer_encode(const spt_tokenizer *tokenizer,
                                const char *text, size_t size,
                                spt_encode_options options, spt_ids *ids,
                                spt_error *err);

/* Ids are 0 ... size-1. */
int spt_tokenizer_size(const spt_tokenizer *tokenizer);

/* The token as the file writes it ("<|im_end|>"); the tokenizer's. */
const char *spt_tokenizer_token(const spt_tokenizer *tokenizer, int32_t id);

/* The bytes that the token adds to a text; specials add none unless asked
   for. Any bytes: a character may be spread over several tokens. */
spt_text spt_tokenizer_bytes(const spt_tokenizer *tokenizer, int32_t id,
                             bool specials);

/* The id of a token as the file writes it, or -1. */
int32_t spt_tokenizer_find(const spt_tokenizer *tokenizer, const char *token);

/* True for tokens that end a turn or a text (eos, eot, ...). */
bool spt_tokenizer_is_end(const spt_tokenizer *tokenizer, int32_t id);
bool spt_tokenizer_is_special(const spt_tokenizer *tokenizer, int32_t id);

/* Ids that the file names, or -1. */
int32_t spt_tokenizer_begin_id(const spt_tokenizer *tokenizer);
int32_t spt_tokenizer_end_id(const spt_tokenizer *tokenizer);

/* The file's chat template (Jinja), or NULL; the tokenizer's. */
const char *spt_tokenizer_template(const spt_tokenizer *tokenizer);

/*
 * Ids to text, piece by piece: gives whole characters only and holds the
 * bytes of a character that is not complete yet. Bytes that can't become a
 * character give U+FFFD, one for each longest beginning of a character.
 */
typedef struct spt_decoder {
    const spt_tokenizer *tokenizer;
    bool specials; /* show special tokens */
    bool started; /* the blank that SPM puts before a text is gone */
    unsigned char held[4];
    int held_size;
} spt_decoder;

void spt_decoder_start(spt_decoder *decoder, const spt_tokenizer *tokenizer,
                       bool specials);
void spt_decoder_add(spt_decoder *decoder, int32_t id, spt_buf *text);
/* What is still held becomes U+FFFD. */
void spt_decoder_end(spt_decoder *decoder, spt_buf *text);

/* All at once. */
void spt_tokenizer_decode(const spt_tokenizer *tokenizer, const int32_t *ids,
                          size_t count, bool specials, spt_buf *text);

#endif
