/* An answer as text. */
#include "answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deployment.h"
#include "show.h"

bool spt_answer_colour(FILE *out)
{
    const char *none = getenv("NO_COLOR");
    return isatty(fileno(out)) && !(none && *none);
}

/* Escapes, or nothing. */
typedef struct ink {
    const char *bold, *dim, *good, *poor, *off;
} ink;

static const ink plain_ink = {"", "", "", "", ""};
static const ink colour_ink = {"\033[1m", "\033[2m", "\033[32m", "\033[33m",
                               "\033[0m"};

/* "label  text", wrapped at 80 columns under the text. */
static void print_field(FILE *out, const ink *i, const char *label,
                        const char *text)
{
    enum { WIDTH = 80, INDENT = 11 };
    fprintf(out, "%s%-*s%s", i->bold, INDENT, label, i->off);
    int column = INDENT;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > INDENT && column + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_deployment(FILE *out, const ink *i, const spt_target *t,
                             const spt_deployment *w)
{
    spt_labelled lines[SPT_DEPLOYMENT_LINES];
    int n = spt_deployment_lines(t, w, lines);
    for (int k = 0; k < n; k++)
        print_field(out, i, lines[k].label, lines[k].text);
}

static void print_head(FILE *out, const ink *i, const spt_choose_input *in)
{
    const spt_target *t = in->target;
    char text[400], context[24];
    snprintf(text, sizeof text, "%s (%s, %s): %d SMs, %.0f GB/s, %.0f TFLOPS",
             in->board->title, in->board->name, in->board->target,
             in->board->sm_count, in->board->dram_gbps, in->board->bf16_tflops);
    print_field(out, i, "board", text);
    snprintf(text, sizeof text,
             "%lld/%lld%s, %lld query heads per KV head, head dim %lld, KV %s",
             (long long)t->q_heads, (long long)t->kv_heads,
             t->kv_rank ? " (latent attention, absorbed)" : "",
             (long long)(t->q_heads / t->kv_heads), (long long)t->head_dim,
             in->kv_dtype);
    print_field(out, i, "heads", text);
    snprintf(text, sizeof text, "%s, %s, %.1f GB: %s", t->name, t->weights,
             t->weight_bytes / 1e9, t->source);
    print_field(out, i, "model", text);
    size_t used = (size_t)snprintf(text, sizeof text, "batch");
    for (size_t b = 0; b < in->n_batches && used < 300; b++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %d",
                                 b ? "," : "", in->batches[b]);
    used += (size_t)snprintf(text + used, sizeof text - used, "; context");
    for (size_t c = 0; c < in->n_contexts && used < 300; c++)
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s %s", c ? "," : "",
            spt_tokens_text(in->contexts[c], context, sizeof context));
    print_field(out, i, "load", text);
    print_deployment(out, i, t, &in->where);
}

static void print_drafters(FILE *out, const ink *i, const spt_choose_input *in)
{
    char text[320];
    fprintf(out, "\n%sDrafters%s\n", i->bold, i->off);
    for (size_t d = 0; d < in->n_drafters; d++) {
        snprintf(text, sizeof text, "%s", in->drafters[d].shape);
        print_field(out, &plain_ink, in->drafters[d].name, text);
    }
}

static void print_ladder(FILE *out, const ink *i, const spt_choose_input *in,
                         const spt_choices *ch)
{
    char context[24], a[24], s[24];
    int group = (int)(in->target->q_heads / in->target->kv_heads);
    fprintf(out, "\n%sPublished rule%s  %d x (1 + D) <= %d rows: D = %s%d%s\n",
            i->bold, i->off, group, ch->rule.tile_rows, i->bold,
            ch->rule.draft_length, i->off);
    if (!ch->n_rungs)
        return;
    fprintf(out, "\n%sLadder%s  batch %d, context %s\n", i->bold, i->off,
            ch->ladder_batch,
            spt_tokens_text(ch->ladder_context, context, sizeof context));
    fprintf(out, "%s  rows    D   attention/layer   verify step   evidence%s\n",
            i->dim, i->off);
    for (size_t r = 0; r < ch->n_rungs; r++) {
        const spt_rung *rung = &ch->ladder[r];
        fprintf(out, "  %4d  %3d   %15s   %11s   %s\n", rung->rows,
                rung->draft_length,
                spt_time_text(rung->attention_us, a, sizeof a),
                spt_time_text(rung->step_us, s, sizeof s), rung->evidence);
    }
}

static void print_choice(FILE *out, const ink *i, const spt_choice *c)
{
    char context[24], t[16], d[16], v[16];
    spt_tokens_text(c->context, context, sizeof context);
    if (!c->known) {
        fprintf(out, "%4d %6s  %s%s%s\n", c->batch, context, i->dim, c->reason,
                i->off);
        return;
    }
    const char *tint = c->speedup > 1.05 ? i->good
                       : c->draft_length ? ""
                                         : i->poor;
    char alike[32] = "";
    if (c->alike_from < c->alike_to)
        snprintf(alike, sizeof alike, "%d-%d", c->alike_from, c->alike_to);
    fprintf(out,
            "%4d %6s  %-11.11s %s%2d %-5s %5.2f %5.2fx%s %8s %8s %8s %6.1f\n",
            c->batch, context, c->workload, tint, c->draft_length, alike,
            c->expected_length, c->speedup, i->off,
            spt_time_text(c->target_us, t, sizeof t),
            spt_time_text(c->draft_us, d, sizeof d),
            spt_time_text(c->verify_us, v, sizeof v), c->memory_bytes / 1e9);
}

/* Rows of the table: not those without a table of acceptance, and a cell that
   does not fit once. */
static bool has_row(const spt_choices *ch, size_t k)
{
    const spt_choice *c = &ch->list[k];
    if (c->known)
        return true;
    if (!c->table)
        return false;
    for (size_t j = 0; j < k; j++)
        if (ch->list[j].batch == c->batch && ch->list[j].table &&
            ch->list[j].context == c->context &&
            ch->list[j].drafter == c->drafter)
            return false;
    return true;
}

/* "null  no acceptance table for ..." with its workloads. */
static void print_notes(FILE *out, const ink *i, const spt_choose_input *in,
                        const spt_choices *ch, const spt_drafter *drafter)
{
    char text[400] = "";
    size_t used = 0;
    for (size_t k = 0; k < ch->count && k < in->n_workloads; k++) {
        /* The first cell's rows of this drafter name every workload. */
        const spt_choice *c =
            &ch->list[(size_t)(drafter - in->drafters) * in->n_workloads + k];
        if (!c->table && used < sizeof text - 80)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                     used ? ", " : "no acceptance table for ",
                                     c->workload);
    }
    if (!used)
        return;
    snprintf(text + used, sizeof text - used,
             " with %s target; --acceptance FILE adds tables",
             in->target->stand_in ? "any" : "this");
    fprintf(out, "%s", i->dim);
    print_field(out, &plain_ink, "  null", text);
    fprintf(out, "%s", i->off);
}

static void print_tables(FILE *out, const ink *i, const spt_choose_input *in,
                         const spt_choices *ch, const spt_drafter *drafter)
{
    char text[900], table[400];
    for (size_t k = 0; k < ch->count; k++) {
        const spt_choice *c = &ch->list[k];
        bool again = !c->table || c->drafter != drafter;
        for (size_t j = 0; j < k && !again; j++)
            again = ch->list[j].table == c->table;
        if (again)
            continue;
        snprintf(text, sizeof text, "%s: %s%s; %s", c->workload,
                 spt_table_text(in->acceptance, c->table, table, sizeof table),
                 c->borrowed ? " (another target's, for the stand-in)" : "",
                 c->table->source);
        fprintf(out, "%s", i->dim);
        print_field(out, &plain_ink, "  from", text);
        fprintf(out, "%s", i->off);
    }
}

/* "  memory   target 16.5, KV 0.2, ... GB": parts that there are. */
static void print_memory(FILE *out, const spt_choice *c)
{
    char text[400];
    size_t used = 0;
    const struct {
        const char *name;
        double bytes;
    } parts[] = {
#define SPT_MEMORY_PART(field, name) {name, c->memory.field},
#include "memory_parts.def"
#undef SPT_MEMORY_PART
    };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k].bytes >= 5e7)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "%s%s %.1f", used ? ", " : "",
                                     parts[k].name, parts[k].bytes / 1e9);
    snprintf(text + used, sizeof text - used, " GB (batch %d, D = %d)",
             c->batch, c->draft_length);
    print_field(out, &plain_ink, "  memory", text);
}

/* What prompts cost the drafter, and when that is won back. */
static void print_prefill(FILE *out, const spt_choice *last)
{
    char text[400], context[24];
    char prompt[16], more[16];
    snprintf(
        text, sizeof text,
        "a prompt of %s takes %s, the drafter %s more: won back in answers "
        "of %.0f or more tokens (%s, batch %d, every sequence with such a "
        "prompt)",
        spt_tokens_text(last->context, context, sizeof context),
        spt_time_text(last->prefill_us, prompt, sizeof prompt),
        spt_time_text(last->draft_prefill_us, more, sizeof more),
        ceil(last->break_even), last->workload, last->batch);
    print_field(out, &plain_ink, "  prefill", text);
}

/* The engine's flags, and what the longest prompt costs the drafter. */
static void print_use(FILE *out, const ink *i, const spt_choose_input *in,
                      const spt_choices *ch, const spt_drafter *drafter)
{
    char flags[256], text[640];
    const spt_choice *last = NULL;
    for (size_t k = 0; k < ch->count; k++)
        if (ch->list[k].drafter == drafter && ch->list[k].known &&
            ch->list[k].draft_length)
            last = &ch->list[k];
    if (!last)
        return;
    fprintf(out, "%s", i->dim);
    if (in->where.serving &&
        spt_serving_flags(in->where.serving, drafter->method,
                          last->draft_length, flags, sizeof flags)) {
        snprintf(text, sizeof text, "%s (D = %d%s); %s (D = 0); from %s", flags,
                 last->draft_length,
                 strstr(flags, "DRAFTER") ? "; DRAFTER: its weights" : "",
                 in->where.serving->off,
                 in->where.serving->methods[drafter->method].source);
        print_field(out, &plain_ink, "  type", text);
    }
    if (last->draft_prefill_us > 0)
        print_prefill(out, last);
    print_memory(out, last);
    char gate[200];
    snprintf(text, sizeof text, "%s, batch %d: %s", last->workload, last->batch,
             spt_gate_text(&last->gate, gate, sizeof gate));
    print_field(out, &plain_ink, "  gate", text);
    fprintf(out, "%s", i->off);
}

/* Loads of which an engine runs a part at a time. */
static void print_waits(FILE *out, const ink *i, const spt_choices *ch,
                        const spt_drafter *drafter)
{
    char text[200], line[280], context[24];
    const spt_choice *said = NULL;
    fprintf(out, "%s", i->dim);
    for (size_t k = 0; k < ch->count; k++) {
        const spt_choice *c = &ch->list[k];
        bool again =
            said && said->batch == c->batch && said->context == c->context;
        if (c->drafter != drafter || !c->known || again ||
            c->running >= c->batch)
            continue;
        said = c;
        snprintf(line, sizeof line, "batch %d, %s: %s", c->batch,
                 spt_tokens_text(c->context, context, sizeof context),
                 spt_waits_text(c->batch, c->running, text, sizeof text));
        print_field(out, &plain_ink, "  waits", line);
    }
    fprintf(out, "%s", i->off);
}

/* One line for each load that has a tree's length; else why there is none. */
static void print_trees(FILE *out, const ink *i, const spt_choose_input *in,
                        const spt_choices *ch, const spt_drafter *drafter)
{
    char tree[200], text[700], context[24], flags[320];
    const spt_choice *none = NULL, *last = NULL;
    fprintf(out, "%s", i->dim);
    for (size_t k = 0; k < ch->count; k++) {
        const spt_choice *c = &ch->list[k];
        if (c->drafter != drafter || !c->known)
            continue;
        if (!c->tree.known) {
            none = c;
            continue;
        }
        last = c;
        snprintf(text, sizeof text, "%s, batch %d, %s: %s", c->workload,
                 c->batch, spt_tokens_text(c->context, context, sizeof context),
                 spt_tree_text(&c->tree, tree, sizeof tree));
        print_field(out, &plain_ink, "  tree", text);
    }
    if (last && in->where.serving &&
        spt_serving_tree_flags(in->where.serving, drafter->method,
                               &last->tree.tree, flags, sizeof flags))
        print_field(out, &plain_ink, "  type", flags);
    if (none && !last)
        print_field(out, &plain_ink, "  tree",
                    spt_tree_text(&none->tree, tree, sizeof tree));
    fprintf(out, "%s", i->off);
}

static void print_choices(FILE *out, const ink *i, const spt_choose_input *in,
                          const spt_choices *ch, const spt_drafter *drafter)
{
    bool any = false;
    fprintf(out, "\n%sBest draft length with %s%s\n", i->bold, drafter->name,
            i->off);
    for (size_t k = 0; k < ch->count; k++) {
        if (ch->list[k].drafter != drafter || !has_row(ch, k))
            continue;
        if (!any)
            fprintf(out,
                    "%sbatch  ctx  workload     D alike  E[L]  speed   target "
                    "   draft   verify     GB%s\n",
                    i->dim, i->off);
        any = true;
        print_choice(out, i, &ch->list[k]);
    }
    if (any) {
        print_waits(out, i, ch, drafter);
        print_use(out, i, in, ch, drafter);
        print_trees(out, i, in, ch, drafter);
    }
    print_notes(out, i, in, ch, drafter);
    print_tables(out, i, in, ch, drafter);
}

/* Where not even plain decoding of the smallest load fits. */
static void warn_of_memory(FILE *out, const spt_choose_input *in,
                           const spt_choices *ch)
{
    char text[160], room[100];
    const spt_choice *least = NULL;
    for (size_t k = 0; k < ch->count; k++)
        if (ch->list[k].fits)
            return;
        else if (!least || ch->list[k].memory_bytes < least->memory_bytes)
            least = &ch->list[k];
    if (!least)
        return;
    const spt_step step = {.board = in->board, .where = in->where};
    snprintf(text, sizeof text, "no load fits: the least takes %s",
             spt_step_room_text(&step, least->memory_bytes, room, sizeof room));
    print_field(out, &plain_ink, "memory", text);
}

void spt_answer_print(FILE *out, const spt_choose_input *in,
                      const spt_choices *ch, bool colour)
{
    const ink *i = colour ? &colour_ink : &plain_ink;
    print_head(out, i, in);
    warn_of_memory(out, in, ch);
    print_drafters(out, i, in);
    print_ladder(out, i, in, ch);
    for (size_t d = 0; d < in->n_drafters; d++)
        print_choices(out, i, in, ch, &in->drafters[d]);
    const char *evidence = ch->n_rungs ? ch->ladder[0].evidence : "modelled";
    char text[300];
    fprintf(out, "\n");
    print_field(out, &plain_ink, "times",
                strcmp(evidence, "modelled") == 0
                    ? spt_times_text(in->board, &in->where, text, sizeof text)
                    : evidence);
    print_field(out, &plain_ink, "speed", "E[L] x target / (draft + verify)");
    print_field(out, &plain_ink, "D",
                "the fastest; of lengths within 0.5 % of it the shortest");
    print_field(out, &plain_ink, "alike",
                "draft lengths that the model cannot tell from D");
}
