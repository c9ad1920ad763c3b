/* How the files of runtime/text make and use a tokenizer. */
#ifndef SPT_TOKENIZER_INT_H
#define SPT_TOKENIZER_INT_H

#include "tokenizer.h"

/* What a token is, as GGUF numbers it; tokenizer.json is brought to it. */
typedef enum token_kind {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3, /* special: no text of its own */
    TOKEN_USER = 4, /* cut out of the text as it is written */
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6, /* "<0x0A>" stands for that byte */
} token_kind;

typedef struct token {
    spt_text text; /* as the file writes it; a NUL follows */
    spt_text bytes; /* what it adds to a text */
    float score; /* SPM without merges: higher joins first */
    uint8_t kind;
    bool ends; /* a turn or a text */
} token;

/* Texts to ids: open addressing, a power of two of slots. */
typedef struct text_map {
    int32_t *slots; /* id, or -1 */
    uint32_t mask;
} text_map;

/* Pairs of ids to the rank of their merge and what it makes. */
typedef struct merge_slot {
    int32_t left, right; /* left -1: free */
    int32_t rank, made;
} merge_slot;

typedef struct merge_map {
    merge_slot *slots;
    uint32_t mask;
} merge_map;

/* One step of cutting a text into words; the steps follow each other. */
typedef struct cut_step {
    struct pcre2_real_code_8 *code;
    bool after; /* a match ends a word with what stands before it; else every
                   match and every gap is a word */
} cut_step;

enum { CUT_STEPS = 8 };

struct spt_tokenizer {
    spt_arena arena;
    const char *name; /* what errors call its file */
    token *tokens;
    int size;
    text_map by_text; /* every token, as the file writes it */
    text_map by_bytes; /* normal tokens of byte-level BPE, by their bytes */
    merge_map merges; /* slots NULL: joins by scores */

    /* Text to words. */
    bool byte_level; /* else SPM: blanks are U+2581 */
    bool nfc;
    bool marks_are_blanks; /* SPM of a GGUF, whose tokens that are cut out are
                              written with blanks: so is U+2581 of a text */
    bool blank_first; /* SPM: a blank is put before the text */
    bool whole_word; /* a word that is a token is not cut (ignore_merges) */
    cut_step cuts[CUT_STEPS];
    int cut_count;

    /* Words to ids. */
    int32_t byte_ids[256]; /* token of each byte, or -1 */
    int32_t unknown; /* or -1: what has no token is left out */
    bool fuse_unknown; /* neighbours become one unknown */
    bool strip_first; /* decoding drops the first blank */

    /* Tokens that are cut out of a text: by their text, and the sizes that
       those with the same first byte have, longest first. */
    text_map by_cut;
    int32_t *cut_sizes;
    int cut_first[257];
    size_t longest; /* bytes of a text that one id can stand for, at most;
                       0 = any number */

    int32_t begin, end; /* or -1 */
    bool adds_begin;
    const char *chat_template;
};

/* Whether the token is cut out of a text as it is written. */
bool spt_token_is_cut(const token *token);

/* tokens[] and size are set; fills the maps. */
spt_status spt_vocab_index(spt_tokenizer *tokenizer, spt_error *err);
int32_t spt_vocab_by_text(const spt_tokenizer *tokenizer, const char *text,
                          size_t size);
int32_t spt_vocab_by_cut(const spt_tokenizer *tokenizer, const char *text,
                         size_t size);
int32_t spt_vocab_by_bytes(const spt_tokenizer *tokenizer, const char *text,
                           size_t size);

/* Room for `count` merges; a merge of the same pair that comes later is
   dropped. */
spt_status spt_merges_room(spt_tokenizer *tokenizer, size_t count,
                           spt_error *err);
void spt_merges_add(spt_tokenizer *tokenizer, int32_t left, int32_t right,
                    int32_t rank, int32_t made);
const merge_slot *spt_merges_find(const merge_map *merges, int32_t left,
                                  int32_t right);

/* "left right" as the files write merges; rank is its place in the list. */
spt_status spt_merges_text(spt_tokenizer *tokenizer, spt_text merge,
                           int32_t rank, spt_error *err);
spt_status spt_merges_pair(spt_tokenizer *tokenizer, spt_text left,
                           spt_text right, int32_t rank, spt_error *err);

/* Cutting: adds a step from a pattern; `after` as in cut_step. */
spt_status spt_cuts_add(spt_tokenizer *tokenizer, const char *pattern,
                        bool after, spt_error *err);
/* The steps of a pre-tokenizer that GGUF names; SPT_E_UNSUPPORTED names those
   that are known. */
spt_status spt_cuts_named(spt_tokenizer *tokenizer, spt_text name,
                          spt_error *err);
/* The pattern that byte-level pre-tokenizers have built in (gpt-2). */
const char *spt_cuts_gpt2(void);
void spt_cuts_close(spt_tokenizer *tokenizer);

/* Calls word for each word of the text in order; stops at a failure. */
typedef spt_status spt_word_fn(void *user, const char *word, size_t size,
                               spt_error *err);
spt_status spt_cuts_run(const spt_tokenizer *tokenizer, const char *text,
                        size_t size, spt_word_fn *word, void *user,
                        spt_error *err);

/* Joins the symbols of one word; its memory serves many words. Of the options
   it asks `stop`; they outlive it. */
typedef struct spt_joiner spt_joiner;
spt_joiner *spt_joiner_new(const spt_tokenizer *tokenizer,
                           const spt_encode_options *options);
void spt_joiner_free(spt_joiner *joiner);
spt_status spt_joiner_word(spt_joiner *joiner, const char *word, size_t size,
                           spt_ids *ids, spt_error *err);

/* What every kind of file needs in the end: bytes of tokens, tokens that end a
   text, tokens that are cut out. */
spt_status spt_tokenizer_finish(spt_tokenizer *tokenizer, spt_error *err);
spt_status spt_tokenizer_new(spt_tokenizer **out, const char *name, size_t size,
                             spt_error *err);

/* tokenizer.json, config.json and the chat template of a folder. */
spt_status spt_tokenizer_from_folder(spt_tokenizer **out, const char *folder,
                                     spt_error *err);

/* The character that byte-level BPE writes for a byte, and back (-1: none). */
int spt_byte_char(int byte);
int spt_char_byte(int32_t character);

#endif
