#include "show.h"

#include <stdio.h>

#include "json.h"
#include "options.h"

const char *spt_time_text(double us, char *text, size_t size)
{
    if (us < 1000)
        snprintf(text, size, "%.1f us", us);
    else
        snprintf(text, size, "%.*f ms", us < 99995 ? 2 : 1, us / 1000);
    return text;
}

const char *spt_tokens_text(int64_t tokens, char *text, size_t size)
{
    if (tokens >= 1024 && tokens % 1024 == 0)
        snprintf(text, size, "%lldk", (long long)(tokens / 1024));
    else
        snprintf(text, size, "%lld", (long long)tokens);
    return text;
}

void spt_print_labelled(const char *label, const char *text)
{
    enum { COLUMN = 11 };
    printf("%-*s", COLUMN, label);
    spt_print_wrapped(text, COLUMN, COLUMN);
}

void spt_print_json(cJSON *object)
{
    spt_buf text = {0};
    spt_json_print(object, &text);
    puts(text.data ? text.data : "");
    spt_buf_free(&text);
    cJSON_Delete(object);
}
