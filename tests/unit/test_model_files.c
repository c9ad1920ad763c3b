/*
 * Models from files: each architecture as GGUF and as safetensors, split and
 * sharded ones, what is refused, and the real SmolLM2 where it was fetched.
 */
#include <unistd.h>

#include "check.h"
#include "tiny_model.h"

static spt_error err;

static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};
enum { ARCHS = sizeof archs / sizeof *archs };

/* A path in the test's own folder; spt_free. */
static char *path_of(const char *name)
{
    const char *folder = getenv("TMP");
    return spt_path_join(folder ? folder : "/tmp", name);
}

static void write_bytes(const char *path, const void *data, size_t size)
{
    CHECK_OK(spt_file_write(path, data, size, &err), &err, "a file is written");
}

static void check_shape(const tiny_model *t, const spt_model *model)
{
    const spt_model_config *c = spt_model_config_of(model);
    CHECK(strcmp(c->architecture, t->arch) == 0, "the architecture %s",
          t->arch);
    CHECK(c->layers == t->layers && c->hidden == t->hidden &&
              c->ffn == t->ffn && c->q_heads == t->q_heads &&
              c->kv_heads == t->kv_heads && c->head_dim == t->head_dim &&
              c->vocab == t->vocab && c->context == t->context,
          "its shape");
    CHECK_NEAR(c->attn_scale, 1 / sqrt(t->head_dim), 1e-9, "its scale");
    CHECK(c->tied_head == !t->own_head &&
              c->qk_norm == (t->arch[0] == 'g' || t->arch[4] == '3') &&
              c->attn_bias == (strcmp(t->arch, "qwen2") == 0),
          "and what it has");
}

static void check_tensors(const tiny_model *t, const spt_model *model)
{
    const spt_tensor *q = spt_model_tensor(model, SPT_ROLE_Q, 1);
    const spt_tensor *down = spt_model_tensor(model, SPT_ROLE_DOWN, 0);
    const spt_tensor *head = spt_model_tensor(model, SPT_ROLE_OUTPUT, 0);
    const spt_tensor *embed = spt_model_tensor(model, SPT_ROLE_TOKEN_EMBED, 0);
    CHECK(q && q->rows == t->q_heads * t->head_dim && q->cols == t->hidden &&
              q->type == t->type && q->bytes == q->row_bytes * (size_t)q->rows,
          "Q of the second layer");
    CHECK(down && down->rows == t->hidden && down->cols == t->ffn, "DOWN");
    CHECK((head == embed) == !t->own_head, "the head, or the embedding");
    CHECK(!spt_model_tensor(model, SPT_ROLE_Q_BIAS, 0) ==
              (strcmp(t->arch, "qwen2") != 0),
          "a bias where there is one");
}

static void test_gguf(void)
{
    for (int i = 0; i < ARCHS; i++) {
        tiny_model t = tiny_default(archs[i], SPT_WEIGHT_Q4_K);
        spt_buf file = {0};
        spt_model *model = NULL;
        tiny_gguf(&t, &file);
        if (CHECK_OK(spt_model_open_bytes(&model, file.data, file.size, "tiny",
                                          &err),
                     &err, "a tiny GGUF")) {
            check_shape(&t, model);
            check_tensors(&t, model);
            bool pairs =
                spt_model_config_of(model)->rope.layout == SPT_ROPE_PAIRS;
            CHECK(pairs == (i == 0), "rotary layout");
        }
        spt_model_close(model);
        spt_buf_free(&file);
    }
}

/* The same numbers come out of both formats. */
static void compare_values(const spt_model *a, const spt_model *b, int layers)
{
    bool equal = true;
    for (int r = 0; r < SPT_ROLES; r++)
        for (int l = 0; l < layers; l++) {
            const spt_tensor *x = spt_model_tensor(a, (spt_role)r, l);
            const spt_tensor *y = spt_model_tensor(b, (spt_role)r, l);
            equal &= !x == !y && (!x || x->bytes == y->bytes);
            double off = spt_model_config_of(b)->norm_offset;
            if (!x || (x->rows == 1 && off != 0))
                continue;
            equal &= memcmp(x->data, y->data, x->bytes) == 0;
        }
    CHECK(equal, "has the tensors of the GGUF");
}

static void test_folder(void)
{
    char *folder = path_of("tiny");
    spt_folder_make(folder, &err);
    for (int i = 0; i < ARCHS; i++) {
        tiny_model t = tiny_default(archs[i], SPT_WEIGHT_BF16);
        spt_buf file = {0};
        spt_model *model = NULL, *gguf = NULL;
        tiny_gguf(&t, &file);
        CHECK_OK(spt_model_open_bytes(&gguf, file.data, file.size, "t", &err),
                 &err, "a GGUF in bf16");
        CHECK_OK(tiny_folder(&t, folder, &err), &err, "a folder is written");
        if (CHECK_OK(spt_model_open(&model, folder, &err), &err,
                     "a safetensors folder")) {
            check_shape(&t, model);
            check_tensors(&t, model);
            const spt_model_config *c = spt_model_config_of(model);
            CHECK(c->rope.layout == SPT_ROPE_HALVES, "rotary layout");
            CHECK(c->norm_offset == (i == 3) && c->post_norms == (i == 3),
                  "norms of gemma");
            CHECK_INT(spt_model_layer_window(c, 0), i == 3 ? 64 : 0, "window");
            CHECK_INT(spt_model_layer_window(c, 1), 0, "no window");
            compare_values(gguf, model, t.layers);
        }
        spt_model_close(model);
        spt_model_close(gguf);
        spt_buf_free(&file);
    }
    spt_free(folder);
}

/* A GGUF in three parts: metadata in the first, tensors in all. */
typedef struct splitter {
    gguf_maker parts[3];
    int count;
} splitter;

static void split_sink(void *user, const char *name, const char *hf,
                       spt_weight_type type, int cols, int rows,
                       const void *data)
{
    splitter *s = user;
    tiny_to_gguf(&s->parts[s->count++ % 3], name, hf, type, cols, rows, data);
}

static void write_split(const tiny_model *t, int wrong)
{
    splitter s = {0};
    tiny_writer w = {.t = t, .sink = split_sink, .user = &s};
    tiny_pairs(&s.parts[0], t);
    tiny_tensors(&w);
    for (int i = 0; i < 3; i++) {
        char name[64];
        spt_buf file = {0};
        gguf_put_int(&s.parts[i], "split.no", (uint32_t)(i + (wrong == i)));
        gguf_put_int(&s.parts[i], "split.count", 3);
        gguf_put_int(&s.parts[i], "split.tensors.count",
                     (uint32_t)(s.count + (wrong == 9)));
        gguf_finish(&s.parts[i], &file);
        snprintf(name, sizeof name, "tiny-%05d-of-00003.gguf", i + 1);
        char *path = path_of(name);
        write_bytes(path, file.data, file.size);
        spt_free(path);
        spt_buf_free(&file);
    }
}

static void test_split(void)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_Q4_0);
    char *path = path_of("tiny-00001-of-00003.gguf");
    char *second = path_of("tiny-00002-of-00003.gguf");
    spt_model *model = NULL;
    write_split(&t, -1);
    if (CHECK_OK(spt_model_open(&model, path, &err), &err, "a split GGUF"))
        check_tensors(&t, model);
    spt_model_close(model);
    CHECK(spt_model_open(&model, second, &err) != SPT_OK,
          "its second part alone is refused");
    CHECK_HAS(err.text, "is part 2 of 3, expected the first", "by name");
    write_split(&t, 1);
    CHECK(spt_model_open(&model, path, &err) != SPT_OK,
          "a part with another number is refused");
    CHECK_HAS(err.text, "part 3 of 3, expected 2 of 3", "by name");
    write_split(&t, 9);
    CHECK(spt_model_open(&model, path, &err) != SPT_OK,
          "another number of tensors is refused");
    CHECK_HAS(err.text, "its parts have 21 tensors, expected 22", "by count");
    unlink(second);
    CHECK(spt_model_open(&model, path, &err) != SPT_OK,
          "a missing part is refused");
    CHECK_HAS(err.text, "tiny-00002-of-00003.gguf: cannot read", "by name");
    spt_free(path);
    spt_free(second);
}

/* Extra fields of config.json that are refused, and why. */
static void test_configs(void)
{
    static const struct {
        const char *arch, *more, *says;
    } cases[] = {
        {"llama", "", NULL},
        {"llama",
         ",\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":"
         "\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
         "\"high_freq_factor\":4.0,"
         "\"original_max_position_embeddings\":256}",
         NULL},
        {"qwen3",
         ",\"rope_parameters\":{\"rope_theta\":1e6,\"rope_type\":"
         "\"yarn\",\"factor\":4.0,"
         "\"original_max_position_embeddings\":128}",
         NULL},
        {"qwen2", ",\"use_sliding_window\":false,\"sliding_window\":128", NULL},
        {"gemma3",
         ",\"layer_types\":[\"sliding_attention\","
         "\"full_attention\"],\"query_pre_attn_scalar\":64",
         NULL},
        {"llama", ",\"rope_scaling\":{\"type\":\"longrope\"}",
         "rotary scaling 'longrope', expected default, linear, llama3 or yarn"},
        {"llama", ",\"attention_bias\":true", "attention_bias is true"},
        {"llama", ",\"mlp_bias\":true", "mlp_bias is true"},
        {"llama", ",\"hidden_act\":\"relu\"", "activation 'relu'"},
        {"llama", ",\"partial_rotary_factor\":0.5", "expected 1"},
        {"qwen2",
         ",\"use_sliding_window\":true,\"sliding_window\":128,"
         "\"max_window_layers\":1",
         "max_window_layers with use_sliding_window"},
        {"gemma3",
         ",\"layer_types\":[\"full_attention\","
         "\"sliding_attention\"]",
         "layer 1 breaks the pattern of windows"},
        {"gemma3", ",\"layer_types\":[\"full_attention\"]",
         "layer_types has 1 entries, expected 2"},
        {"mistral", "", "model_type 'mistral' is not run, expected llama, "},
    };
    char *folder = path_of("configs");
    char *config = path_of("configs/config.json");
    spt_folder_make(folder, &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model t = tiny_default(cases[i].arch, SPT_WEIGHT_F16);
        spt_buf text = {0};
        spt_model *model = NULL;
        CHECK_OK(tiny_folder(&t, folder, &err), &err, "a folder");
        tiny_config(&t, cases[i].more, &text);
        write_bytes(config, text.data, text.size);
        spt_status status = spt_model_open(&model, folder, &err);
        if (cases[i].says) {
            CHECK(status != SPT_OK, "config %zu is refused", i);
            CHECK_HAS(err.text, cases[i].says, "and the line says why");
        } else {
            CHECK_OK(status, &err, "a config is read");
        }
        spt_model_close(model);
        spt_buf_free(&text);
    }
    spt_free(folder);
    spt_free(config);
}

/* A tensor too few, one too many, one of another shape or type. */
typedef struct spoiler {
    gguf_maker m;
    const char *name;
    int how;
} spoiler;

static void spoil_sink(void *user, const char *name, const char *hf,
                       spt_weight_type type, int cols, int rows,
                       const void *data)
{
    spoiler *s = user;
    bool hit = strcmp(name, s->name) == 0;
    if (hit && s->how == 0)
        return;
    if (hit && s->how == 1)
        tiny_to_gguf(&s->m, "blk.0.extra.weight", hf, type, cols, rows, data);
    if (hit && s->how == 2)
        tiny_to_gguf(&s->m, name, hf, SPT_WEIGHT_Q3_K, cols, rows, NULL);
    else if (hit && s->how == 3)
        tiny_to_gguf(&s->m, name, hf, type, cols, rows / 2, data);
    else
        tiny_to_gguf(&s->m, name, hf, type, cols, rows, data);
}

static void test_spoilt(void)
{
    static const struct {
        const char *name, *says;
        int how;
    } cases[] = {
        {"blk.1.ffn_up.weight", "tensor blk.1.ffn_up.weight is missing", 0},
        {"token_embd.weight", "tensor token_embd.weight is missing", 0},
        {"blk.1.attn_k.weight", "blk.0.extra.weight has no place in the", 1},
        {"blk.1.attn_k.weight", "stored as q3_k, which no kernel reads", 2},
        {"blk.0.attn_v.weight", "is 64 x 256, expected 128 x 256", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model t = tiny_default("llama", SPT_WEIGHT_Q8_0);
        spoiler s = {.name = cases[i].name, .how = cases[i].how};
        tiny_writer w = {.t = &t, .sink = spoil_sink, .user = &s};
        spt_buf file = {0};
        spt_model *model = NULL;
        tiny_pairs(&s.m, &t);
        tiny_tensors(&w);
        gguf_finish(&s.m, &file);
        CHECK(spt_model_open_bytes(&model, file.data, file.size, "t", &err) !=
                  SPT_OK,
              "spoilt model %zu is refused", i);
        CHECK_HAS(err.text, cases[i].says, "and the line says why");
        spt_model_close(model);
        spt_buf_free(&file);
    }
}

static void test_smollm2(void)
{
    spt_model *model = NULL;
    const char *path = "deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!spt_file_exists(path))
        return;
    if (!CHECK_OK(spt_model_open(&model, path, &err), &err, "SmolLM2"))
        return;
    const spt_model_config *c = spt_model_config_of(model);
    CHECK(c->layers == 30 && c->hidden == 576 && c->ffn == 1536 &&
              c->q_heads == 9 && c->kv_heads == 3 && c->head_dim == 64 &&
              c->vocab == 49152 && c->context == 8192 && c->tied_head,
          "has its published shape");
    CHECK(c->rope.theta == 1e5 && c->rope.dim == 64, "and rotary base");
    CHECK(
        spt_model_tensor(model, SPT_ROLE_OUTPUT, 0)->type == SPT_WEIGHT_Q8_0 &&
            spt_model_tensor(model, SPT_ROLE_DOWN, 29)->type == SPT_WEIGHT_Q4_1,
        "and the types of its weights");
    spt_model_close(model);
}

static void test_gemma(void)
{
    spt_model *model = NULL;
    const char *path = "deps/models/gemma-3-270m-q4_k_m.gguf";
    if (!spt_file_exists(path))
        return;
    if (!CHECK_OK(spt_model_open(&model, path, &err), &err, "Gemma 3"))
        return;
    const spt_model_config *c = spt_model_config_of(model);
    CHECK(c->layers == 18 && c->hidden == 640 && c->ffn == 2048 &&
              c->q_heads == 4 && c->kv_heads == 1 && c->head_dim == 256 &&
              c->vocab == 262144 && c->context == 32768 && c->tied_head,
          "has its published shape");
    CHECK(c->window == 512 && spt_model_layer_window(c, 4) == 512 &&
              spt_model_layer_window(c, 5) == 0,
          "a window in five of six layers");
    CHECK(c->rope.theta == 1e6 && c->rope.theta_local == 1e4 &&
              c->attn_scale == 0.0625,
          "and two rotary bases");
    spt_model_close(model);
}

int main(void)
{
    test_gguf();
    test_folder();
    test_split();
    test_configs();
    test_spoilt();
    test_smollm2();
    test_gemma();
    return check_done();
}
