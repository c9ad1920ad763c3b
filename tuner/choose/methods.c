#include "methods.h"

#include <stdio.h>
#include <string.h>

#include "files.h"
#include "json.h"

enum { METHODS_MAX_BYTES = 1 << 20 };

static spt_status read_words(const cJSON *item, const char *where,
                             spt_method_words *w, spt_error *err)
{
    const struct {
        const char *field, **text;
    } fields[] = {
        {"needs", &w->needs},   {"training", &w->training},
        {"passes", &w->passes}, {"training_source", &w->training_source},
        {"wins", &w->wins},     {"loses", &w->loses},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        SPT_TRY(
            spt_json_text(item, where, fields[i].field, fields[i].text, err));
    return SPT_OK;
}

static spt_status read_list(const cJSON *root, const char *path,
                            spt_method_words *words, spt_error *err)
{
    const cJSON *list, *item;
    const char *name;
    SPT_TRY(spt_json_array(root, path, "methods", &list, err));
    cJSON_ArrayForEach(item, list)
    {
        SPT_TRY(spt_json_text(item, path, "method", &name, err));
        int method = spt_drafter_find(name);
        if (method < 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: method '%.40s': expected one of: %s", path,
                            name, spt_drafter_list());
        SPT_TRY(read_words(item, path, &words[method], err));
    }
    for (int m = 0; m < SPT_METHOD_COUNT; m++)
        if (!words[m].needs)
            return spt_fail(err, SPT_E_FORMAT, "%s: methods: %s is missing",
                            path, spt_drafter_name((spt_method)m));
    return SPT_OK;
}

spt_status spt_methods_read(const char *home, cJSON **root,
                            spt_method_words words[SPT_METHOD_COUNT],
                            spt_error *err)
{
    char *path = spt_path_join(home, "profiles/methods.json");
    memset(words, 0, SPT_METHOD_COUNT * sizeof *words);
    *root = NULL;
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "methods: out of memory");
    spt_status status = spt_json_read(path, METHODS_MAX_BYTES, root, err);
    if (status == SPT_OK)
        status = read_list(*root, path, words, err);
    spt_free(path);
    return status;
}
