#include "power.h"

#include <string.h>

#include "files.h"
#include "json.h"

enum { MAX_BYTES = 1 << 20, MAX_POINTS = 32 };

typedef struct points {
    int count;
    spt_power list[MAX_POINTS];
} points;

static spt_status read_point(const cJSON *item, const char *where, points *p,
                             spt_error *err)
{
    spt_power point;
    if (!cJSON_IsObject(item) || p->count == MAX_POINTS)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: points: expected at most %d objects", where,
                        MAX_POINTS);
    SPT_TRY(spt_json_only(item, where, "watts plain verify", err));
    double least = p->count ? p->list[p->count - 1].watts + 1 : 1;
    SPT_TRY(
        spt_json_number(item, where, "watts", least, 1e5, &point.watts, err));
    SPT_TRY(spt_json_number(item, where, "plain", 0.1, 1, &point.plain, err));
    SPT_TRY(spt_json_number(item, where, "verify", 0.1, 1, &point.verify, err));
    p->list[p->count++] = point;
    return SPT_OK;
}

/* The points of one board; count 0 when it is not there. */
static spt_status read_board(const cJSON *item, const char *where,
                             const char *board, points *p, spt_error *err)
{
    const char *name, *source;
    const cJSON *list, *point;
    points all = {0};
    if (!cJSON_IsObject(item))
        return spt_fail(err, SPT_E_FORMAT, "%s: boards: expected objects",
                        where);
    SPT_TRY(spt_json_only(item, where, "board source points", err));
    SPT_TRY(spt_json_text(item, where, "board", &name, err));
    SPT_TRY(spt_json_text(item, where, "source", &source, err));
    SPT_TRY(spt_json_array(item, where, "points", &list, err));
    cJSON_ArrayForEach(point, list)
        SPT_TRY(read_point(point, where, &all, err));
    if (all.count < 2)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: points of %.31s: expected two or more", where,
                        name);
    if (strcmp(name, board) == 0)
        *p = all;
    return SPT_OK;
}

static spt_status interpolate(const points *p, const char *board, double watts,
                              spt_power *power, spt_error *err)
{
    const spt_power *first = p->list, *last = p->list + p->count - 1;
    if (!p->count)
        return spt_fail(err, SPT_E_USAGE,
                        "--power-limit: the clock of %.31s under a cap is not "
                        "known (profiles/power.json)",
                        board);
    if (watts < first->watts || watts > last->watts)
        return spt_fail(err, SPT_E_USAGE,
                        "--power-limit %g: of %.31s known from %g to %g W",
                        watts, board, first->watts, last->watts);
    while (watts > first[1].watts)
        first++;
    double at = (watts - first->watts) / (first[1].watts - first->watts);
    power->watts = watts;
    power->plain = first->plain + at * (first[1].plain - first->plain);
    power->verify = first->verify + at * (first[1].verify - first->verify);
    return SPT_OK;
}

static spt_status read_boards(const cJSON *root, const char *where,
                              const char *board, points *p, spt_error *err)
{
    const char *schema;
    const cJSON *list, *item;
    SPT_TRY(spt_json_text(root, where, "schema", &schema, err));
    if (strcmp(schema, "spectune.power/1") != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: schema '%.40s', expected spectune.power/1", where,
                        schema);
    SPT_TRY(spt_json_only(root, where, "schema boards", err));
    SPT_TRY(spt_json_array(root, where, "boards", &list, err));
    cJSON_ArrayForEach(item, list)
        SPT_TRY(read_board(item, where, board, p, err));
    return SPT_OK;
}

spt_status spt_power_parse(const char *text, size_t size, const char *name,
                           const char *board, double watts, spt_power *power,
                           spt_error *err)
{
    cJSON *root = NULL;
    points p = {0};
    SPT_TRY(spt_json_parse(text, size, name, &root, err));
    spt_status status = read_boards(root, name, board, &p, err);
    cJSON_Delete(root);
    SPT_TRY(status);
    return interpolate(&p, board, watts, power, err);
}

spt_status spt_power_load(const char *home, const char *board, double watts,
                          spt_power *power, spt_error *err)
{
    spt_buf text = {0};
    char *path = spt_path_join(home, "profiles/power.json");
    spt_status status =
        path ? spt_file_read(path, MAX_BYTES, &text, err)
             : spt_fail(err, SPT_E_MEMORY, "power: out of memory");
    if (status == SPT_OK)
        status = spt_power_parse(text.data ? text.data : "", text.size, path,
                                 board, watts, power, err);
    spt_buf_free(&text);
    spt_free(path);
    return status;
}

spt_board spt_power_board(const spt_board *board, double share)
{
    spt_board b = *board;
    b.clock_mhz *= share;
    b.bf16_tflops *= share;
    b.fp8_tflops *= share;
    b.l2_gbps *= share;
    b.launch_us /= share;
    b.wave_us /= share;
    b.l2_latency_ns /= share;
    return b;
}

spt_serving spt_power_serving(const spt_serving *serving, double share)
{
    spt_serving s = *serving;
    s.layer_us /= share;
    s.expert_layer_us /= share;
    s.draft_layer_us /= share;
    return s;
}
