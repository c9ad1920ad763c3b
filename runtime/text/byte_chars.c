/*
 * The characters with which byte-level BPE writes bytes: a printable Latin-1
 * byte is itself; the 68 others are U+0100 on, in their order (gpt-2's
 * bytes_to_unicode).
 */
#include "tokenizer_int.h"

static bool is_itself(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           byte >= 0xae;
}

int spt_byte_char(int byte)
{
    int others = 0;
    if (is_itself(byte))
        return byte;
    for (int b = 0; b < byte; b++)
        others += !is_itself(b);
    return 0x100 + others;
}

int spt_char_byte(int32_t character)
{
    if (character < 0x100)
        return character >= 0 && is_itself((int)character) ? (int)character
                                                           : -1;
    int others = 0x100;
    for (int b = 0; b < 0x100; b++)
        if (!is_itself(b) && others++ == character)
            return b;
    return -1;
}
