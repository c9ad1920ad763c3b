#include "text.h"

#include <string.h>

int spt_text_compare(spt_text a, spt_text b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

bool spt_text_is(spt_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

spt_text_shown spt_text_show(spt_text text)
{
    spt_text_shown shown;
    size_t n = text.size > 60 ? 60 : text.size;
    for (size_t i = 0; i < n; i++)
        shown.text[i] =
            text.data[i] >= ' ' && text.data[i] <= '~' ? text.data[i] : '?';
    shown.text[n] = 0;
    return shown;
}
