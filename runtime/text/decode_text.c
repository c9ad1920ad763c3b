/*
 * Ids to text, byte by byte: a byte either completes a character, or may still
 * become one, or shows that what is held never will.
 */
#include <string.h>

#include "tokenizer_int.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void spt_decoder_start(spt_decoder *decoder, const spt_tokenizer *tokenizer,
                       bool specials)
{
    *decoder = (spt_decoder){.tokenizer = tokenizer, .specials = specials};
}

/* Bytes of the character that begins with c; 0: none does. */
static int length_of(uint8_t c)
{
    return c < 0x80                ? 1
           : c >= 0xc2 && c < 0xe0 ? 2
           : c >= 0xe0 && c < 0xf0 ? 3
           : c >= 0xf0 && c < 0xf5 ? 4
                                   : 0;
}

/* Whether the bytes are a character (1), a beginning of one (0), neither. */
static int judge(const uint8_t *p, int n)
{
    int length = length_of(p[0]);
    if (!length)
        return -1;
    for (int i = 1; i < n; i++) {
        /* No overlong forms, no surrogates, nothing past U+10FFFF. */
        uint8_t least = i > 1          ? 0x80
                        : p[0] == 0xe0 ? 0xa0
                        : p[0] == 0xf0 ? 0x90
                                       : 0x80;
        uint8_t most = i > 1          ? 0xbf
                       : p[0] == 0xed ? 0x9f
                       : p[0] == 0xf4 ? 0x8f
                                      : 0xbf;
        if (p[i] < least || p[i] > most)
            return -1;
    }
    return n == length;
}

static void add_byte(spt_decoder *d, uint8_t byte, spt_buf *text)
{
    d->held[d->held_size++] = byte;
    int verdict = judge(d->held, d->held_size);
    if (verdict < 0 && d->held_size > 1) {
        spt_buf_puts(text, replacement);
        d->held[0] = byte;
        d->held_size = 1;
        verdict = judge(d->held, 1);
    }
    if (verdict > 0)
        spt_buf_add(text, d->held, (size_t)d->held_size);
    else if (verdict < 0)
        spt_buf_puts(text, replacement);
    if (verdict)
        d->held_size = 0;
}

void spt_decoder_add(spt_decoder *d, int32_t id, spt_buf *text)
{
    spt_text bytes = spt_tokenizer_bytes(d->tokenizer, id, d->specials);
    size_t skip = !d->started && d->tokenizer->strip_first && bytes.size &&
                  bytes.data[0] == ' ';
    if (bytes.size && !spt_tokenizer_is_special(d->tokenizer, id))
        d->started = true;
    for (size_t i = skip; i < bytes.size; i++)
        add_byte(d, (uint8_t)bytes.data[i], text);
}

void spt_decoder_end(spt_decoder *d, spt_buf *text)
{
    if (d->held_size)
        spt_buf_puts(text, replacement);
    d->held_size = 0;
}

void spt_tokenizer_decode(const spt_tokenizer *tokenizer, const int32_t *ids,
                          size_t count, bool specials, spt_buf *text)
{
    spt_decoder decoder;
    spt_decoder_start(&decoder, tokenizer, specials);
    for (size_t i = 0; i < count; i++)
        spt_decoder_add(&decoder, ids[i], text);
    spt_decoder_end(&decoder, text);
}
