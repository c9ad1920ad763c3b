/* How the files of runtime/model put a model together. */
#ifndef SPT_MODEL_INT_H
#define SPT_MODEL_INT_H

#include "files.h"
#include "gguf_int.h"
#include "json.h"
#include "mem.h"
#include "model_file.h"

/* A row of model_arch.def. */
typedef struct model_arch {
    const char *name, *hf;
    spt_rope_layout layout;
    bool qk_norm, attn_bias, post_norms;
    spt_activation activation;
} model_arch;

/* NULL: none of that name. names: how errors list what there is. */
const model_arch *spt_model_arch_find(const char *name, bool hf);
void spt_model_arch_names(bool hf, spt_buf *names);

/* A tensor of a file before it has a role. */
typedef struct file_tensor {
    spt_text name;
    uint64_t rows, cols; /* cols contiguous; a vector has one row */
    bool plain; /* at most two dimensions */
    const char *format; /* its type's name, also when nothing decodes it */
    spt_weight_type type; /* SPT_WEIGHT_TYPES: one that GGUF doesn't have */
    const void *data;
    uint64_t bytes;
    bool used;
} file_tensor;

struct spt_model {
    spt_arena arena;
    const char *path; /* what errors start with */
    const char *folder; /* of safetensors, or NULL */
    spt_model_config config;
    const model_arch *arch;
    spt_mapping *maps;
    spt_gguf **parts; /* GGUFs of a split file; NULL for safetensors */
    int map_count;
    file_tensor *files; /* by name */
    size_t file_count;
    spt_tensor own[SPT_ROLES];
    spt_tensor *layers; /* (layers, SPT_ROLES) */
    uint64_t weight_bytes;
};

/* Steps of opening: config, then tensors, each from one kind of file. */
spt_status spt_model_gguf_config(spt_model *model, const spt_gguf *gguf,
                                 spt_error *err);
spt_status spt_model_gguf_tensors(spt_model *model, spt_error *err);
spt_status spt_model_hf_config(spt_model *model, const cJSON *config,
                               spt_error *err);

/* A config.json of transformers whose architecture is known. */
spt_status spt_model_hf_body(spt_model *model, const cJSON *config,
                             spt_error *err);

/* model_head.c: whether a config.json is a head's; its config; what its
   tensors say beside it, when they are sorted. */
bool spt_model_is_head(const cJSON *config);
spt_status spt_model_head_config(spt_model *model, const cJSON *config,
                                 spt_error *err);
spt_status spt_model_head_tensors(spt_model *model, spt_error *err);

/* Fills a model whose path is a folder. */
spt_status spt_model_open_folder(spt_model *model, spt_error *err);

/* What both kinds leave to be set or checked. */
spt_status spt_model_config_finish(spt_model *model, spt_error *err);

/* Gives every tensor of the file its role; a missing one, one of a wrong
   shape or type, and one that the architecture doesn't use are refused. */
spt_status spt_model_assign(spt_model *model, spt_error *err);

/* A tensor of the files by name, or NULL; whether layer 0 or the model has one
   of that role. The files are sorted. */
file_tensor *spt_model_find(const spt_model *model, const char *name);
bool spt_model_has(const spt_model *model, spt_role role);

/* Divisors of frequencies as llama 3 scales them (dim/2; the arena's). */
spt_status spt_model_llama3_factors(spt_model *model, double low, double high,
                                    spt_error *err);

/* Periodic windows from flags, one a layer (1: with the window). */
spt_status spt_model_window_period(spt_model *model, const uint8_t *windowed,
                                   spt_error *err);

#endif
