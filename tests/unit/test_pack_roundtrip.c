#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "json.h"
#include "pack.h"
#include "pack_write.h"

static spt_error err;
static char base[64] = "/tmp/spt_pack_XXXXXX";
static char folder[128];
static int log_lines;
static char last_log[512];

static void note(void *user, const char *text)
{
    (void)user;
    log_lines++;
    snprintf(last_log, sizeof last_log, "%s", text);
}

static cJSON *proof(bool good)
{
    cJSON *p = cJSON_CreateObject();
    cJSON_AddBoolToObject(p, "ok", good);
    spt_json_add4(p, "max_error", 1.0 / 3);
    return p;
}

static spt_kernel kernel_of(const char *target, const char *config)
{
    spt_kernel k = {.threads = 128, .shared_bytes = 1024};
    snprintf(k.template_name, sizeof k.template_name, "attn");
    snprintf(k.symbol, sizeof k.symbol, "attn_k");
    snprintf(k.config, sizeof k.config, "%s", config);
    snprintf(k.key, sizeof k.key, "key");
    snprintf(k.target, sizeof k.target, "%s", target);
    snprintf(k.template_hash, sizeof k.template_hash, "%064d", 7);
    return k;
}

static spt_image image_of(const char *text, const char *key)
{
    spt_image i = {.registers = 40};
    i.ptx = (char *)text;
    i.ptx_size = strlen(text);
    i.cubin = (char *)"\x7f"
                      "ELF";
    i.cubin_size = 4;
    snprintf(i.compiler, sizeof i.compiler, "nvrtc 13.0.88");
    snprintf(i.key, sizeof i.key, "%s%060d", key, 0);
    return i;
}

static spt_status write_pack(void)
{
    spt_pack_writer *w;
    spt_kernel hopper = kernel_of("sm_90a", "d=128"),
               ampere = kernel_of("sm_80", "d=128");
    spt_image one = image_of("ptx one", "1111"), two = image_of("two", "2222");
    SPT_TRY(spt_pack_writer_open("nvrtc 13.0.88", &w, &err));
    spt_status status =
        spt_pack_writer_add(w, &hopper, &one, proof(true), NULL, &err);
    if (status == SPT_OK)
        status = spt_pack_writer_add(w, &ampere, &two, proof(true), NULL, &err);
    CHECK(spt_pack_writer_add(w, &hopper, &one, proof(false), NULL, &err) ==
              SPT_E_PROOF,
          "a kernel whose proof failed is refused");
    if (status == SPT_OK)
        status = spt_pack_writer_finish(w, folder, &err);
    spt_pack_writer_close(w);
    return status;
}

static void read_manifest(spt_buf *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    CHECK_OK(spt_file_read(path, 1 << 20, text, &err), &err, "manifest reads");
}

static void test_round_trip(void)
{
    spt_buf first = {0}, second = {0};
    spt_pack *pack = NULL;
    CHECK_OK(write_pack(), &err, "a pack is written");
    read_manifest(&first);
    CHECK_OK(write_pack(), &err, "and written again over itself");
    read_manifest(&second);
    CHECK(first.size && first.size == second.size &&
              memcmp(first.data, second.data, first.size) == 0,
          "the same input gives the same bytes");
    spt_buf_free(&first);
    spt_buf_free(&second);
    CHECK_OK(spt_pack_open(folder, &pack, &err), &err, "it opens");
    CHECK_INT((long long)spt_pack_count(pack), 2, "two kernels");
    CHECK_TEXT(spt_pack_at(pack, 0)->config, "d=128", "config");
    CHECK_INT(spt_pack_at(pack, 0)->dynamic_shared_bytes, 1024, "shared");
    CHECK(!spt_pack_at(pack, 2), "nothing past the end");
    CHECK_OK(spt_pack_verify(pack, NULL, NULL, &err), &err, "it verifies");
    spt_pack_close(pack);
}

static void load(int major, int minor, const char *expected, bool is_ptx)
{
    spt_pack *pack;
    spt_pack_image image;
    const spt_log log = {.line = note, .verbose = true};
    if (!CHECK_OK(spt_pack_open(folder, &pack, &err), &err, "opens"))
        return;
    spt_status status =
        spt_pack_load(pack, "attn", "d=128", major, minor, &log, &image, &err);
    CHECK((status == SPT_OK) == (expected != NULL), "%d.%d: found or not",
          major, minor);
    if (status == SPT_OK) {
        CHECK_TEXT(image.kernel->target, expected, "whose image");
        CHECK(image.is_ptx == is_ptx, "of which kind");
        spt_pack_image_free(&image);
    }
    spt_pack_close(pack);
}

static void test_load_order(void)
{
    load(9, 0, "sm_90a", false);
    load(8, 0, "sm_80", false);
    load(8, 6, "sm_80", false);
    load(10, 0, "sm_80", true);
    CHECK_HAS(last_log, "attn: PTX ptx/", "the log says what was taken");
    load(7, 5, NULL, false);
    CHECK_HAS(err.text,
              "its attn is for sm_90a, sm_80, expected one for compute "
              "capability 7.5",
              "the reason");
}

static void test_damage(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/cubin/attn.sm_90a-1111%012d.cubin", folder,
             0);
    CHECK_OK(spt_file_write(path,
                            "\x7f"
                            "ELG",
                            4, &err),
             &err, "one byte changed");
    log_lines = 0;
    load(9, 0, "sm_90a", true);
    CHECK_INT(log_lines, 2, "a line for the miss, a line for the PTX");
    spt_pack *pack;
    CHECK_OK(spt_pack_open(folder, &pack, &err), &err, "opens");
    CHECK(spt_pack_verify(pack, NULL, NULL, &err) == SPT_E_FORMAT,
          "verify finds it");
    CHECK_HAS(err.text, "is damaged", "and says so");
    spt_pack_close(pack);
    unlink(path);
    CHECK(symlink("/etc/hostname", path) == 0, "a link in its place");
    load(9, 0, "sm_90a", true);
    CHECK_OK(write_pack(), &err, "a new pack replaces it");
    load(9, 0, "sm_90a", false);
}

/* Replaces a text of the manifest and sets the digest right again. */
static spt_status parse_changed(const char *from, const char *to, bool redigest)
{
    spt_buf text = {0}, changed = {0};
    spt_pack *pack;
    read_manifest(&text);
    char *at = strstr(text.data, from);
    CHECK(at != NULL, "the manifest holds %s", from);
    if (!at)
        return SPT_E_INTERNAL;
    spt_buf_add(&changed, text.data, (size_t)(at - text.data));
    spt_buf_puts(&changed, to);
    spt_buf_puts(&changed, at + strlen(from));
    cJSON *root = NULL;
    char digest[SPT_SHA256_TEXT];
    if (redigest && spt_json_parse(changed.data, changed.size, "x", &root,
                                   &err) == SPT_OK) {
        spt_pack_digest_of(root, digest, &err);
        cJSON_ReplaceItemInObject(root, "digest", cJSON_CreateString(digest));
        spt_buf_free(&changed);
        spt_json_print(root, &changed);
        cJSON_Delete(root);
    }
    spt_status status =
        spt_pack_parse(changed.data, changed.size, folder, &pack, &err);
    if (status == SPT_OK)
        spt_pack_close(pack);
    spt_buf_free(&text);
    spt_buf_free(&changed);
    return status;
}

static void test_manifest(void)
{
    static const struct {
        const char *from, *to, *expected;
        bool redigest;
    } cases[] = {
        {"\"threads\": 128", "\"threads\": 64", "digest", false},
        {"spectune.pack/1", "spectune.pack/9", "schema", true},
        {"\"threads\": 128", "\"threads\": -1", "threads", true},
        {"\"threads\": 128", "\"thread\": 128", "unknown field", true},
        {"\"path\": \"cubin/", "\"path\": \"../cubin/", "relative path", true},
        {"\"path\": \"cubin/", "\"path\": \"/cubin/", "relative path", true},
        {"\"sha256\": \"", "\"sha256\": \"x", "64 digits", true},
        {"\"cubin\": \"cubin/attn", "\"cubin\": \"cubin/bttn", "among", true},
        {"\"files\": [", "\"files\": 7, \"x\": [", "unknown field 'x'", true},
        {"\"bytes\": 4", "\"bytes\": 1e12", "bytes", true},
    };
    CHECK_OK(parse_changed("nvrtc 13.0.88", "nvrtc 13.0.88", false), &err,
             "the manifest parses unchanged");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(parse_changed(cases[i].from, cases[i].to, cases[i].redigest) ==
                  SPT_E_FORMAT,
              "manifest with %s is refused", cases[i].to);
        CHECK_HAS(err.text, cases[i].expected, "reason");
    }
    static const char *const paths[] = {"",     "/a",   "../a", "a/../b",
                                        "a//b", "a/",   "a\\b", ".a",
                                        "a b",  "a/.b", "~a"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CHECK(!spt_pack_path_valid(paths[i]), "path '%s'", paths[i]);
    CHECK(spt_pack_path_valid("ptx/a-b_c.1.ptx"), "a plain path");
}

static void test_targets(void)
{
    CHECK_INT(spt_pack_cubin_fit("sm_90a", 9, 0), 2, "exact");
    CHECK_INT(spt_pack_cubin_fit("sm_100a", 10, 3), 0, "a is exact");
    CHECK_INT(spt_pack_cubin_fit("sm_100f", 10, 3), 1, "f is the family");
    CHECK_INT(spt_pack_cubin_fit("sm_86", 8, 0), 0, "no older chip");
    CHECK_INT(spt_pack_cubin_fit("sm_8x", 8, 0), 0, "nonsense");
    CHECK(spt_pack_ptx_fit("sm_80", 12, 1), "PTX on later chips");
    CHECK(!spt_pack_ptx_fit("sm_90a", 10, 0), "PTX with a is exact");
    CHECK(!spt_pack_ptx_fit("compute_80", 9, 0), "nonsense");
}

static void test_install(void)
{
    char path[200], other[200];
    spt_pack_writer *w;
    snprintf(other, sizeof other, "%s/other", base);
    snprintf(path, sizeof path, "%s/other/file", base);
    CHECK_OK(spt_folder_make(other, &err), &err, "a folder of the user's");
    CHECK_OK(spt_file_write(path, "x", 1, &err), &err, "with a file");
    CHECK_OK(spt_pack_writer_open("c", &w, &err), &err, "writer");
    CHECK(spt_pack_writer_finish(w, other, &err) == SPT_E_IO,
          "is not replaced");
    CHECK_HAS(err.text, "holds other files", "reason");
    CHECK(spt_file_exists(path), "and keeps its file");
    CHECK(spt_pack_writer_finish(w, path, &err) == SPT_E_IO,
          "nor is a file replaced");
    spt_pack_writer_close(w);
}

int main(void)
{
    if (!mkdtemp(base))
        return 1;
    snprintf(folder, sizeof folder, "%s/pack", base);
    test_round_trip();
    test_load_order();
    test_manifest();
    test_damage();
    test_targets();
    test_install();
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", base);
    if (system(command) != 0)
        return 1;
    return check_done();
}
