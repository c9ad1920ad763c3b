#include "deployment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "8 boards share every layer", and how often they hold the KV. */
static void boards_text(const spt_target *t, const spt_deployment *w,
                        char *text, size_t size)
{
    double copies = spt_target_kv_copies(t, w->boards);
    snprintf(text, size, "%d boards share every layer", w->boards);
    if (copies <= 1)
        return;
    snprintf(text + strlen(text), size - strlen(text),
             ", but the KV has %lld head%s: it is held and read %.3g times "
             "(data-parallel attention, which would hold it once, is not "
             "modelled)",
             (long long)t->kv_heads, t->kv_heads > 1 ? "s" : "", copies);
}

/* What decides how much verification costs a mixture of experts. */
static void experts_text(char *text, size_t size)
{
    snprintf(text, size,
             "assumed: n rows of one sequence touch as many as n^%.1f rows of "
             "different ones (published: four rows 2.5 times the experts of "
             "one; cohere.com/blog, April 2026); spectune why says what "
             "independent rows would change",
             SPT_EXPERTS_EXPONENT);
}

int spt_deployment_lines(const spt_target *t, const spt_deployment *w,
                         spt_labelled lines[SPT_DEPLOYMENT_LINES])
{
    int n = 0;
    if (w->serving) {
        spt_labelled *l = &lines[n++];
        l->label = "engine";
        snprintf(l->text, sizeof l->text, "%s: costs %s", w->serving->name,
                 w->serving->source);
    }
    if (w->boards > 1) {
        spt_labelled *l = &lines[n++];
        l->label = "boards";
        boards_text(t, w, l->text, sizeof l->text);
    }
    if (w->stages > 1) {
        spt_labelled *l = &lines[n++];
        l->label = "stages";
        snprintf(l->text, sizeof l->text,
                 "%d of equal layers, %d boards in all; %g us to the next, "
                 "the drafter on the last",
                 w->stages, spt_deployment_boards(w), w->link_us);
    }
    if (w->power.watts > 0) {
        spt_labelled *l = &lines[n++];
        l->label = "power";
        snprintf(
            l->text, sizeof l->text,
            "capped at %g W: %.0f %% of the clock, %.0f %% while verifying",
            w->power.watts, 100 * w->power.plain, 100 * w->power.verify);
    }
    if (w->draft_board) {
        spt_labelled *l = &lines[n++];
        l->label = "drafter";
        snprintf(l->text, sizeof l->text, "on %s, %g us away",
                 w->draft_board->title, w->link_us);
    }
    if (t->moe_layers) {
        spt_labelled *l = &lines[n++];
        l->label = "experts";
        experts_text(l->text, sizeof l->text);
    }
    return n;
}

/* Where the constants of the time model come from; "" = nowhere. */
static const char *constants_of(const spt_board *b, const spt_deployment *w)
{
    return w->serving ? w->serving->name : b->time.fitted_on;
}

const char *spt_times_text(const spt_board *b, const spt_deployment *w,
                           char *text, size_t size)
{
    const char *from = constants_of(b, w);
    if (w->serving)
        snprintf(text, size, "modelled with the constants of %s", from);
    else if (!*from)
        snprintf(text, size,
                 "modelled with constants that no measured time was fitted to");
    else
        snprintf(text, size,
                 "modelled with constants fitted to measured kernels on %s; "
                 "sim's counters have no part in them",
                 strcmp(from, "generic") == 0 ? "all measured boards" : from);
    return text;
}

const char *spt_waits_text(int batch, double running, char *text, size_t size)
{
    snprintf(text, size,
             "%.0f of %d sequences find room for their KV, the others wait: "
             "times are those in which everyone has had a step",
             floor(running), batch);
    return text;
}

void spt_deployment_json(const spt_board *b, const spt_target *t,
                         const spt_deployment *w, cJSON *object)
{
    cJSON *model = cJSON_AddObjectToObject(object, "time_model");
    cJSON_AddStringToObject(model, "kind",
                            w->serving ? "engine" : "calibrated");
    cJSON_AddStringToObject(model, "constants", constants_of(b, w));
    if (w->serving) {
        cJSON_AddStringToObject(object, "engine", w->serving->name);
        cJSON_AddStringToObject(object, "engine_source", w->serving->source);
    }
    cJSON_AddNumberToObject(object, "boards", w->boards > 1 ? w->boards : 1);
    cJSON_AddNumberToObject(object, "kv_copies",
                            spt_target_kv_copies(t, w->boards));
    if (t->moe_layers)
        cJSON_AddNumberToObject(object, "experts_exponent",
                                SPT_EXPERTS_EXPONENT);
    cJSON_AddNumberToObject(object, "stages", w->stages > 1 ? w->stages : 1);
    if (w->power.watts > 0)
        cJSON_AddNumberToObject(object, "power_limit_w", w->power.watts);
    if (w->draft_board)
        cJSON_AddStringToObject(object, "draft_board", w->draft_board->name);
    if (w->draft_board || w->stages > 1)
        cJSON_AddNumberToObject(object, "link_us", w->link_us);
    if (w->link_gbps > 0)
        cJSON_AddNumberToObject(object, "link_gbps", w->link_gbps);
}
