/* spectune pack list|verify DIR [--json] */
#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "options.h"
#include "show.h"

static cJSON *kernel_json(const spt_pack_kernel *k)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", k->name);
    cJSON_AddStringToObject(item, "config", k->config);
    cJSON_AddStringToObject(item, "key", k->key);
    cJSON_AddStringToObject(item, "target", k->target);
    cJSON_AddNumberToObject(item, "threads", k->threads);
    cJSON_AddNumberToObject(item, "registers", k->registers);
    cJSON_AddNumberToObject(item, "shared_bytes", k->shared_bytes);
    cJSON_AddNumberToObject(item, "dynamic_shared_bytes",
                            k->dynamic_shared_bytes);
    cJSON_AddNumberToObject(item, "spill_bytes", k->spill_bytes);
    cJSON_AddItemToObject(item, "cubin",
                          k->cubin ? cJSON_CreateString(k->cubin)
                                   : cJSON_CreateNull());
    cJSON_AddItemToObject(
        item, "ptx", k->ptx ? cJSON_CreateString(k->ptx) : cJSON_CreateNull());
    return item;
}

static int list(const spt_pack *pack, const char *folder, bool json)
{
    if (json) {
        cJSON *root = cJSON_CreateObject(), *kernels;
        cJSON_AddStringToObject(root, "schema", "spectune.pack-list/1");
        cJSON_AddStringToObject(root, "folder", folder);
        cJSON_AddStringToObject(root, "compiler", spt_pack_compiler(pack));
        cJSON_AddStringToObject(root, "digest", spt_pack_digest(pack));
        kernels = cJSON_AddArrayToObject(root, "kernels");
        for (size_t i = 0; i < spt_pack_count(pack); i++)
            cJSON_AddItemToArray(kernels, kernel_json(spt_pack_at(pack, i)));
        spt_print_json(root);
        return 0;
    }
    printf("%s: %zu kernels, %s\ndigest %s\n", folder, spt_pack_count(pack),
           spt_pack_compiler(pack), spt_pack_digest(pack));
    for (size_t i = 0; i < spt_pack_count(pack); i++) {
        const spt_pack_kernel *k = spt_pack_at(pack, i);
        printf("\n%s  %s  %d threads, %d registers, %d B shared%s%s\n", k->name,
               k->target, k->threads, k->registers,
               k->shared_bytes + k->dynamic_shared_bytes,
               k->cubin ? ", cubin" : "", k->ptx ? ", ptx" : "");
        printf("  ");
        spt_print_wrapped(k->config, 2, 2);
    }
    return 0;
}

typedef struct damage {
    cJSON *list; /* with --json */
    size_t count;
} damage;

static void note_damage(void *user, const char *path, const char *reason)
{
    damage *d = user;
    d->count++;
    if (d->list) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "path", path);
        cJSON_AddStringToObject(item, "reason", reason);
        cJSON_AddItemToArray(d->list, item);
    } else {
        fprintf(stderr, "spectune pack: %s\n", reason);
    }
}

static int verify(const spt_pack *pack, const char *folder, bool json)
{
    damage d = {json ? cJSON_CreateArray() : NULL, 0};
    spt_error err;
    spt_status status = spt_pack_verify(pack, note_damage, &d, &err);
    if (json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "schema", "spectune.pack-verify/1");
        cJSON_AddStringToObject(root, "folder", folder);
        cJSON_AddStringToObject(root, "digest", spt_pack_digest(pack));
        cJSON_AddBoolToObject(root, "ok", status == SPT_OK);
        cJSON_AddItemToObject(root, "damaged", d.list);
        spt_print_json(root);
    } else if (status == SPT_OK) {
        printf("%s: good: %zu kernels, digest %s\n", folder,
               spt_pack_count(pack), spt_pack_digest(pack));
    }
    return status == SPT_OK ? 0 : 1;
}

int spt_cmd_pack(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "make") == 0)
        return spt_cmd_pack_make(argc - 1, argv + 1);
    bool json = false;
    const spt_option options[] = {
        {"json", 0, SPT_OPTION_FLAG, &json, NULL, "print one JSON object", 0,
         0},
    };
    const spt_usage usage = {
        .command = "spectune pack",
        .operands = "list|verify DIR",
        .min_operands = 2,
        .max_operands = 2,
        .summary = "Lists the kernels of a pack, or reads all of its files and "
                   "compares them with the manifest (exit status 1 when one is "
                   "missing or damaged). spectune pack make --help: writes "
                   "one.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    spt_texts operands = {0};
    int status = spt_options(&usage, argc, argv, &operands);
    if (status >= 0)
        return status;
    const char *what = operands.values[0], *folder = operands.values[1];
    bool is_list = strcmp(what, "list") == 0;
    if (!is_list && strcmp(what, "verify") != 0)
        return spt_exit_usage(usage.command,
                              "'%.40s': expected list, verify or make", what);
    spt_pack *pack;
    spt_error err;
    if (spt_pack_open(folder, &pack, &err) != SPT_OK)
        return spt_exit_error(usage.command, &err);
    status = is_list ? list(pack, folder, json) : verify(pack, folder, json);
    spt_pack_close(pack);
    return status;
}
