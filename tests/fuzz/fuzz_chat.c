/* A chat template from anywhere: one line of error, or a text. */
#include <stdlib.h>
#include <string.h>

#include "jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char messages[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\" be \"},"
        "{\"role\":\"user\",\"content\":\"h\xc3\xb6\"}],"
        "\"add_generation_prompt\":true,\"tools\":null,\"n\":3}";
    spt_error err;
    spt_buf text = {0};
    cJSON *context = cJSON_Parse(messages);
    spt_status status = spt_jinja_render((const char *)data, size, "fuzz",
                                         context, &text, &err);
    if (status != SPT_OK && (text.size || strchr(err.text, '\n')))
        abort();
    cJSON_Delete(context);
    spt_buf_free(&text);
    return 0;
}
