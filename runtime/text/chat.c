#include "chat.h"

#include "jinja.h"
#include "json.h"
#include "tokenizer_int.h"

#include <stdio.h>
#include <string.h>

static void add_token(cJSON *context, const char *name, const spt_tokenizer *t,
                      int32_t id)
{
    cJSON_AddStringToObject(context, name, spt_tokenizer_token(t, id));
}

spt_status spt_chat_json(const spt_tokenizer *t, const cJSON *messages,
                         bool answer, spt_buf *text, spt_error *err)
{
    char name[200];
    const char *template = spt_tokenizer_template(t);
    if (!template)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: has no chat template: the model is not made for "
                        "chats",
                        t->name);
    snprintf(name, sizeof name, "%.150s: chat template", t->name);
    cJSON *context = cJSON_CreateObject();
    cJSON_AddItemReferenceToObject(context, "messages",
                                   (cJSON *)(uintptr_t)messages);
    cJSON_AddBoolToObject(context, "add_generation_prompt", answer);
    cJSON_AddNullToObject(context, "tools");
    cJSON_AddNullToObject(context, "documents");
    add_token(context, "bos_token", t, t->begin);
    add_token(context, "eos_token", t, t->end);
    spt_status status =
        spt_jinja_render(template, strlen(template), name, context, text, err);
    cJSON_Delete(context);
    return status;
}

spt_status spt_chat_text(const spt_tokenizer *t, const spt_message *messages,
                         size_t count, bool answer, spt_buf *text,
                         spt_error *err)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        cJSON *message = cJSON_CreateObject();
        cJSON_AddStringToObject(message, "role", messages[i].role);
        cJSON_AddStringToObject(message, "content", messages[i].content);
        cJSON_AddItemToArray(list, message);
    }
    spt_status status = spt_chat_json(t, list, answer, text, err);
    cJSON_Delete(list);
    return status;
}
