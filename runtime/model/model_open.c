/* Opens and closes what a model's path stands for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model_int.h"

static spt_status no_memory(const char *path, spt_error *err)
{
    return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
}

static spt_status make_room(spt_model *model, int files, spt_error *err)
{
    size_t n = (size_t)files;
    model->maps = spt_arena_alloc(&model->arena, n, sizeof *model->maps);
    model->parts = spt_arena_alloc(&model->arena, n, sizeof *model->parts);
    return model->maps && model->parts ? SPT_OK : no_memory(model->path, err);
}

/* The parts of a split GGUF, 1 for a whole one; path must be the first. */
static spt_status count_parts(const spt_gguf *first, int *parts, spt_error *err)
{
    int64_t count = 1, index = 0;
    SPT_TRY(spt_gguf_int(first, "split.count", 0, 9999, &count, err));
    SPT_TRY(spt_gguf_int(first, "split.no", 0, 9999, &index, err));
    if (count > 1 && index)
        return spt_fail(err, SPT_E_USAGE,
                        "%s: is part %" PRId64 " of %" PRId64
                        ", expected the first",
                        spt_gguf_name(first), index + 1, count);
    *parts = count > 1 ? (int)count : 1;
    return SPT_OK;
}

/* "a-00001-of-00003.gguf" with another number; spt_free. */
static char *part_path(const char *path, int part, int parts)
{
    char tail[32];
    int length = snprintf(tail, sizeof tail, "-00001-of-%05d.gguf", parts);
    size_t size = strlen(path);
    if (size < (size_t)length ||
        strcmp(path + size - (size_t)length, tail) != 0)
        return NULL;
    spt_buf name = {0};
    spt_buf_printf(&name, "%.*s-%05d-of-%05d.gguf", (int)size - length, path,
                   part + 1, parts);
    return name.data;
}

static spt_status open_part(spt_model *model, int part, int parts,
                            spt_error *err)
{
    int64_t index = -1, count = -1;
    char *path = part_path(model->path, part, parts);
    if (!path)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: has %d parts, expected a name that ends with "
                        "-00001-of-%05d.gguf",
                        model->path, parts, parts);
    spt_status status = spt_file_map(path, &model->maps[part], err);
    if (status == SPT_OK) {
        model->map_count++;
        status = spt_gguf_parse(&model->parts[part], model->maps[part].data,
                                model->maps[part].size, path, err);
    }
    spt_free(path);
    SPT_TRY(status);
    SPT_TRY(spt_gguf_int(model->parts[part], "split.no", 0, 9999, &index, err));
    SPT_TRY(
        spt_gguf_int(model->parts[part], "split.count", 0, 9999, &count, err));
    if (index != part || count != parts)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: says it is part %" PRId64 " of %" PRId64
                        ", expected %d of %d",
                        spt_gguf_name(model->parts[part]), index + 1, count,
                        part + 1, parts);
    return SPT_OK;
}

static spt_status check_split(const spt_model *model, spt_error *err)
{
    int64_t expected = -1;
    size_t count = 0;
    for (int i = 0; i < model->map_count; i++)
        count += spt_gguf_tensor_count(model->parts[i]);
    SPT_TRY(spt_gguf_int(model->parts[0], "split.tensors.count", 0, INT32_MAX,
                         &expected, err));
    if (expected >= 0 && (size_t)expected != count)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: its parts have %zu tensors, expected %" PRId64,
                        model->path, count, expected);
    return SPT_OK;
}

static spt_status open_bytes(spt_model *model, const void *data, size_t size,
                             spt_error *err)
{
    spt_gguf *first = NULL;
    int parts = 1;
    SPT_TRY(spt_gguf_parse(&first, data, size, model->path, err));
    spt_status status = count_parts(first, &parts, err);
    if (status == SPT_OK)
        status = make_room(model, parts, err);
    if (status != SPT_OK) {
        spt_gguf_close(first);
        return status;
    }
    model->parts[0] = first;
    model->map_count = 1;
    for (int i = 1; i < parts; i++)
        SPT_TRY(open_part(model, i, parts, err));
    SPT_TRY(check_split(model, err));
    SPT_TRY(spt_model_gguf_config(model, first, err));
    SPT_TRY(spt_model_gguf_tensors(model, err));
    return spt_model_assign(model, err);
}

static spt_status open_gguf(spt_model *model, spt_error *err)
{
    spt_mapping map = {0};
    SPT_TRY(spt_file_map(model->path, &map, err));
    spt_status status = open_bytes(model, map.data, map.size, err);
    /* The first mapping is the model's as soon as there is room for it. */
    if (model->map_count)
        model->maps[0] = map;
    else
        spt_file_unmap(&map);
    return status;
}

static spt_status new_model(spt_model **out, const char *path, spt_error *err)
{
    spt_model *model = spt_calloc(1, sizeof *model);
    if (model)
        model->path = spt_arena_strdup(&model->arena, path, strlen(path));
    if (!model || !model->path) {
        spt_model_close(model);
        return no_memory(path, err);
    }
    *out = model;
    return SPT_OK;
}

static spt_status close_unless(spt_model **out, spt_model *model,
                               spt_status status)
{
    if (status == SPT_OK)
        *out = model;
    else
        spt_model_close(model);
    return status;
}

spt_status spt_model_open(spt_model **out, const char *path, spt_error *err)
{
    spt_model *model;
    struct stat info;
    SPT_TRY(new_model(&model, path, err));
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    return close_unless(out, model,
                        folder ? spt_model_open_folder(model, err)
                               : open_gguf(model, err));
}

spt_status spt_model_open_bytes(spt_model **out, const void *data, size_t size,
                                const char *name, spt_error *err)
{
    spt_model *model;
    SPT_TRY(new_model(&model, name, err));
    return close_unless(out, model, open_bytes(model, data, size, err));
}

void spt_model_close(spt_model *model)
{
    if (!model)
        return;
    for (int i = 0; i < model->map_count; i++) {
        spt_gguf_close(model->parts[i]);
        spt_file_unmap(&model->maps[i]);
    }
    spt_arena_free(&model->arena);
    spt_free(model);
}

const spt_model_config *spt_model_config_of(const spt_model *model)
{
    return &model->config;
}

uint64_t spt_model_weight_bytes(const spt_model *model)
{
    return model->weight_bytes;
}

const spt_gguf *spt_model_gguf(const spt_model *model)
{
    return model->folder ? NULL : model->parts[0];
}

const char *spt_model_folder(const spt_model *model)
{
    return model->folder;
}
