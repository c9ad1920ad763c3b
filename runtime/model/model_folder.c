/* Opens a folder with config.json and safetensors, sharded or whole. */
#include <stdio.h>
#include <string.h>

#include "safetensors.h"

enum { CONFIG_MOST = 16 << 20, INDEX_MOST = 64 << 20, SHARDS_MOST = 4096 };

static spt_status read_config(spt_model *model, spt_error *err)
{
    cJSON *config = NULL;
    char *path = spt_path_join(model->folder, "config.json");
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    spt_status status = spt_json_read(path, CONFIG_MOST, &config, err);
    spt_free(path);
    if (status == SPT_OK)
        status = spt_model_hf_config(model, config, err);
    cJSON_Delete(config);
    return status;
}

static spt_status open_shard(spt_model *model, const char *name, spt_error *err)
{
    char *path = spt_path_join(model->folder, name);
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    spt_mapping *map = &model->maps[model->map_count];
    spt_status status = spt_file_map(path, map, err);
    if (status == SPT_OK) {
        model->map_count++;
        status = spt_safetensors_read(map->data, map->size, path, &model->arena,
                                      &model->files, &model->file_count, err);
    }
    spt_free(path);
    return status;
}

static spt_status shard_name(const cJSON *item, const char *where,
                             const char **name, spt_error *err)
{
    *name = cJSON_GetStringValue(item);
    if (!*name || !**name || strchr(*name, '/') || strlen(*name) > 200)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: weight_map has a file that is no plain name",
                        where);
    return SPT_OK;
}

/* The different files that weight_map names, in their first order. */
static spt_status list_shards(const cJSON *map, const char *where,
                              const char **names, int *count, spt_error *err)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        const char *name;
        SPT_TRY(shard_name(item, where, &name, err));
        int i = 0;
        while (i < *count && strcmp(names[i], name) != 0)
            i++;
        if (i < *count)
            continue;
        if (*count == SHARDS_MOST)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: more than %d files, expected fewer", where,
                            SHARDS_MOST);
        names[(*count)++] = name;
    }
    return SPT_OK;
}

static spt_status open_shards(spt_model *model, const cJSON *index,
                              const char *where, spt_error *err)
{
    const cJSON *map;
    int count = 0;
    SPT_TRY(spt_json_object(index, where, "weight_map", &map, err));
    const char **names =
        spt_arena_alloc(&model->arena, SHARDS_MOST, sizeof *names);
    model->maps =
        spt_arena_alloc(&model->arena, SHARDS_MOST, sizeof *model->maps);
    model->parts =
        spt_arena_alloc(&model->arena, SHARDS_MOST, sizeof *model->parts);
    if (!names || !model->maps || !model->parts)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    SPT_TRY(list_shards(map, where, names, &count, err));
    for (int i = 0; i < count; i++)
        SPT_TRY(open_shard(model, names[i], err));
    if (model->file_count != (size_t)cJSON_GetArraySize(map))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: weight_map has %d tensors, its files have %zu",
                        where, cJSON_GetArraySize(map), model->file_count);
    return SPT_OK;
}

static spt_status open_tensors(spt_model *model, spt_error *err)
{
    char *path = spt_path_join(model->folder, "model.safetensors.index.json");
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    cJSON *index = NULL;
    spt_status status;
    if (spt_file_exists(path)) {
        status = spt_json_read(path, INDEX_MOST, &index, err);
        if (status == SPT_OK)
            status = open_shards(model, index, path, err);
    } else {
        model->maps = spt_arena_alloc(&model->arena, 1, sizeof *model->maps);
        model->parts = spt_arena_alloc(&model->arena, 1, sizeof *model->parts);
        status = model->maps && model->parts
                     ? open_shard(model, "model.safetensors", err)
                     : spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    }
    cJSON_Delete(index);
    spt_free(path);
    return status;
}

spt_status spt_model_open_folder(spt_model *model, spt_error *err)
{
    model->folder = model->path;
    SPT_TRY(read_config(model, err));
    SPT_TRY(open_tensors(model, err));
    return spt_model_assign(model, err);
}
