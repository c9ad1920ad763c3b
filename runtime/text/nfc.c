#include "nfc.h"

#include <stdlib.h>
#include <utf8proc.h>

/*
 * What Unicode 10 to 15 gave a combining class or a composition (UnicodeData):
 * utf8proc would order and compose them. Sorted.
 */
static const struct {
    utf8proc_int32_t first, last;
} newer[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},
    {0x9fe, 0x9fe},     {0xc3c, 0xc3c},     {0xd3b, 0xd3c},
    {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},
    {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930},
    {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47},
    {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
};

static bool is_newer(utf8proc_int32_t c)
{
    size_t low = 0, high = sizeof newer / sizeof *newer;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > newer[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof newer / sizeof *newer && c >= newer[low].first;
}

/* Bytes before the first newer character; *width are that character's. */
static size_t until_newer(const char *text, size_t size, size_t *width)
{
    *width = 0;
    for (size_t at = 0; at < size;) {
        utf8proc_int32_t c;
        size_t n = (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                            (utf8proc_ssize_t)(size - at), &c);
        if (is_newer(c)) {
            *width = n;
            return at;
        }
        at += n;
    }
    return size;
}

spt_status spt_nfc(const char *text, size_t size, spt_buf *out, spt_error *err)
{
    for (size_t at = 0, width; at < size; at += width) {
        utf8proc_uint8_t *composed = NULL;
        size_t run = until_newer(text + at, size - at, &width);
        utf8proc_ssize_t n = utf8proc_map(
            (const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)run,
            &composed, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
        if (n < 0)
            return spt_fail(err, SPT_E_MEMORY, "text cannot be normalised: %s",
                            utf8proc_errmsg(n));
        spt_buf_add(out, composed, (size_t)n);
        free(composed);
        at += run;
        spt_buf_add(out, text + at, width);
    }
    if (out->failed)
        return spt_fail(err, SPT_E_MEMORY, "text: out of memory");
    return SPT_OK;
}
