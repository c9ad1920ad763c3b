/* The tokenizer of a Hugging Face folder, with what stands beside it. */
#include <string.h>

#include "files.h"
#include "json.h"
#include "tokenizer_int.h"

enum { TOKENIZER_MOST = 256 << 20, CONFIG_MOST = 16 << 20 };

/* The JSON of a file of the folder; NULL where there is none. */
static spt_status read_beside(const char *folder, const char *name,
                              cJSON **root, spt_error *err)
{
    char *path = spt_path_join(folder, name);
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    *root = NULL;
    spt_status status = spt_file_exists(path)
                            ? spt_json_read(path, CONFIG_MOST, root, err)
                            : SPT_OK;
    spt_free(path);
    return status;
}

static void add_end(spt_tokenizer *t, const cJSON *item)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble >= t->size)
        return;
    int32_t id = (int32_t)item->valuedouble;
    if (t->end < 0)
        t->end = id;
    t->tokens[id].ends = true;
}

/* eos_token_id: one or several. */
static spt_status read_ends(spt_tokenizer *t, const char *folder,
                            const char *name, spt_error *err)
{
    cJSON *root, *item;
    SPT_TRY(read_beside(folder, name, &root, err));
    const cJSON *ends = cJSON_GetObjectItemCaseSensitive(root, "eos_token_id");
    add_end(t, ends);
    if (cJSON_IsArray(ends))
        cJSON_ArrayForEach(item, ends) add_end(t, item);
    cJSON_Delete(root);
    return SPT_OK;
}

static spt_status keep_template(spt_tokenizer *t, const char *text,
                                spt_error *err)
{
    if (!text)
        return SPT_OK;
    t->chat_template = spt_arena_strdup(&t->arena, text, strlen(text));
    return t->chat_template
               ? SPT_OK
               : spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
}

/* chat_template.jinja, else the field of tokenizer_config.json. */
static spt_status read_template(spt_tokenizer *t, const char *folder,
                                spt_error *err)
{
    char *path = spt_path_join(folder, "chat_template.jinja");
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    spt_buf text = {0};
    bool there = spt_file_exists(path);
    spt_status status =
        there ? spt_file_read(path, CONFIG_MOST, &text, err) : SPT_OK;
    spt_free(path);
    if (status == SPT_OK && there)
        status = keep_template(t, text.data, err);
    spt_buf_free(&text);
    if (status != SPT_OK || there)
        return status;
    cJSON *root;
    SPT_TRY(read_beside(folder, "tokenizer_config.json", &root, err));
    status =
        keep_template(t,
                      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
                          root, "chat_template")),
                      err);
    cJSON_Delete(root);
    return status;
}

static spt_status read_beside_all(spt_tokenizer *t, const char *folder,
                                  spt_error *err)
{
    SPT_TRY(read_ends(t, folder, "config.json", err));
    SPT_TRY(read_ends(t, folder, "generation_config.json", err));
    return read_template(t, folder, err);
}

spt_status spt_tokenizer_from_folder(spt_tokenizer **out, const char *folder,
                                     spt_error *err)
{
    spt_tokenizer *t = NULL;
    spt_buf text = {0};
    char *path = spt_path_join(folder, "tokenizer.json");
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    spt_status status = spt_file_read(path, TOKENIZER_MOST, &text, err);
    if (status == SPT_OK)
        status = spt_tokenizer_from_json(&t, text.data ? text.data : "",
                                         text.size, path, err);
    spt_buf_free(&text);
    spt_free(path);
    if (status == SPT_OK)
        status = read_beside_all(t, folder, err);
    if (status == SPT_OK)
        *out = t;
    else
        spt_tokenizer_close(t);
    return status;
}
