#include "model_rows.h"

#include <stdlib.h>
#include <string.h>

#include "target.h"

const char *spt_time_operator_name(spt_time_operator op)
{
    return op == SPT_TIME_ATTENTION ? "attention" : "gemm";
}

/* Whole bytes only: the tables hold no block formats. */
static spt_status read_bits(const spt_csv *csv, size_t row, const char *column,
                            double *bits, spt_error *err)
{
    const char *text = spt_csv_text(csv, row, column);
    double bytes = spt_kv_type_bytes(text);
    if (bytes != 1 && bytes != 2)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s:%d: %s is '%.40s', expected bf16, fp16 or fp8 "
                        "(bfloat16, float16)",
                        csv->name, csv->lines[row], column, text);
    *bits = 8 * bytes;
    return SPT_OK;
}

static spt_status read_count(const spt_csv *csv, size_t row, const char *column,
                             double max, double *out, spt_error *err)
{
    SPT_TRY(spt_csv_number(csv, row, column, 1, max, -1, out, err));
    if (*out == (double)(long long)*out && *out >= 1)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT,
                    "%s:%d: %s is '%.40s', expected a whole number from 1",
                    csv->name, csv->lines[row], column,
                    spt_csv_text(csv, row, column));
}

/*
 * AI Configurator's rows of TensorRT-LLM 1.0.0: with grouped heads they stream
 * KV of any size at 1.66 times the data sheet, with one query head per KV head
 * at 0.87. Half the bytes explain it, were K and V one buffer: the grouped
 * kernel reads K and V of the same tokens one after the other.
 */
static bool same_buffer(const spt_csv *csv, size_t row)
{
    return strcmp(spt_csv_text(csv, row, "engine"), "trtllm") == 0 &&
           strcmp(spt_csv_text(csv, row, "version"), "1.0.0") == 0;
}

static spt_status read_attention(const spt_csv *csv, size_t row,
                                 spt_measured_row *out, spt_error *err)
{
    double batch, q, kv, dim, bits;
    SPT_TRY(read_count(csv, row, "batch", 1 << 20, &batch, err));
    SPT_TRY(read_count(csv, row, "q_heads", 4096, &q, err));
    SPT_TRY(read_count(csv, row, "kv_heads", 4096, &kv, err));
    SPT_TRY(read_count(csv, row, "head_dim", 4096, &dim, err));
    SPT_TRY(read_bits(csv, row, "kv_dtype", &bits, err));
    SPT_TRY(read_count(csv, row, "kv_len", 1 << 30, &out->shape.context, err));
    if ((int)q % (int)kv != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s:%d: kv_heads is '%d', expected a divisor of "
                        "q_heads (%d)",
                        csv->name, csv->lines[row], (int)kv, (int)q);
    out->one_buffer = same_buffer(csv, row);
    out->shape.batch = (int)batch;
    out->shape.q_heads = (int)q;
    out->shape.kv_heads = (int)kv;
    out->shape.head_dim = (int)dim;
    out->shape.element_bytes = bits / 8;
    return SPT_OK;
}

static spt_status read_gemm(const spt_csv *csv, size_t row,
                            spt_measured_row *out, spt_error *err)
{
    SPT_TRY(read_bits(csv, row, "dtype", &out->bits, err));
    SPT_TRY(read_count(csv, row, "m", 1 << 24, &out->m, err));
    SPT_TRY(read_count(csv, row, "n", 1 << 28, &out->n, err));
    return read_count(csv, row, "k", 1 << 28, &out->k, err);
}

/* What an operator's file holds. */
static const struct {
    const char *columns;
    spt_status (*read)(const spt_csv *csv, size_t row, spt_measured_row *out,
                       spt_error *err);
} files[] = {
    [SPT_TIME_ATTENTION] = {SPT_ATTENTION_COLUMNS, read_attention},
    [SPT_TIME_GEMM] = {SPT_GEMM_COLUMNS, read_gemm},
};

/* A column that nobody reads would be a silent condition. */
static spt_status check_columns(const spt_csv *csv, spt_time_operator op,
                                spt_error *err)
{
    const char *known = files[op].columns;
    for (size_t c = 0; c < csv->columns; c++) {
        const char *name = csv->header[c], *at = known;
        size_t length = strlen(name);
        bool found = false;
        while (length && !found && (at = strstr(at, name))) {
            found = (at == known || at[-1] == ' ') &&
                    (at[length] == ' ' || !at[length]);
            at += length;
        }
        if (!found)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s:1: column '%.40s': unknown, expected those of "
                            "%s times: %s",
                            csv->name, name, spt_time_operator_name(op), known);
    }
    return SPT_OK;
}

static spt_status find_board(spt_gen *gen, const spt_board *own,
                             const spt_csv *csv, size_t row, spt_board *out,
                             spt_error *err)
{
    spt_error inner = {0};
    const char *name = spt_csv_text(csv, row, "gpu");
    if (own && strcmp(own->name, name) == 0) {
        *out = *own;
        return SPT_OK;
    }
    if (spt_gen_board(gen, name, out, &inner) == SPT_OK)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT, "%s:%d: gpu: %s", csv->name,
                    csv->lines[row], inner.text);
}

/* The rows of the row's board and operator; new ones are appended. */
static spt_status find_rows(spt_measured_set *set, spt_gen *gen,
                            const spt_board *own, const spt_csv *csv,
                            size_t row, spt_time_operator op,
                            spt_measured **out, spt_error *err)
{
    const char *name = spt_csv_text(csv, row, "gpu");
    for (size_t i = 0; i < set->count; i++) {
        *out = &set->list[i];
        if ((*out)->op == op && strcmp((*out)->board.name, name) == 0)
            return SPT_OK;
    }
    if (set->count == sizeof set->list / sizeof *set->list)
        return spt_fail(err, SPT_E_UNSUPPORTED, "%s:%d: gpu: too many boards",
                        csv->name, csv->lines[row]);
    *out = &set->list[set->count];
    **out = (spt_measured){.op = op};
    SPT_TRY(find_board(gen, own, csv, row, &(*out)->board, err));
    (*out)->rows =
        spt_arena_alloc(&set->arena, csv->rows, sizeof(spt_measured_row));
    if (!(*out)->rows)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", csv->name);
    set->count++;
    return SPT_OK;
}

spt_status spt_measured_add(spt_measured_set *set, spt_gen *gen,
                            const spt_board *own, const spt_csv *csv,
                            spt_time_operator op, spt_error *err)
{
    size_t before = set->count;
    SPT_TRY(check_columns(csv, op, err));
    if (!csv->rows)
        return spt_fail(err, SPT_E_FORMAT, "%s: no rows", csv->name);
    for (size_t row = 0; row < csv->rows; row++) {
        spt_measured *m;
        spt_measured_row r = {0};
        SPT_TRY(find_rows(set, gen, own, csv, row, op, &m, err));
        if ((size_t)(m - set->list) < before)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s:%d: %s times of %s: another file has some "
                            "already",
                            csv->name, csv->lines[row],
                            spt_time_operator_name(op), m->board.name);
        SPT_TRY(files[op].read(csv, row, &r, err));
        SPT_TRY(
            spt_csv_number(csv, row, "latency_us", 1e-3, 1e9, -1, &r.us, err));
        if (r.us < 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s:%d: latency_us is empty, expected "
                            "microseconds",
                            csv->name, csv->lines[row]);
        m->rows[m->count++] = r;
    }
    return SPT_OK;
}

void spt_measured_free(spt_measured_set *set)
{
    spt_arena_free(&set->arena);
    set->count = 0;
}

double spt_measured_model_us(const spt_board *board, spt_time_operator op,
                             const spt_measured_row *row)
{
    if (op == SPT_TIME_ATTENTION)
        return spt_model_engine_attention_us(board, &row->shape,
                                             row->one_buffer);
    return spt_model_engine_gemm_us(board, row->m, row->n, row->k, row->bits);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of sorted values; between two of them by distance. */
static double quantile(const double *sorted, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] +
           (at - (double)below) * (sorted[above] - sorted[below]);
}

spt_status spt_measured_score(const spt_measured *m, spt_model_score *out,
                              spt_error *err)
{
    double *errors = spt_calloc(m->count, sizeof *errors);
    if (!errors)
        return spt_fail(err, SPT_E_MEMORY, "scores: out of memory");
    *out = (spt_model_score){.rows = m->count};
    for (size_t i = 0; i < m->count; i++) {
        double us = spt_measured_model_us(&m->board, m->op, &m->rows[i]);
        double percent = (us / m->rows[i].us - 1) * 100;
        errors[i] = percent < 0 ? -percent : percent;
        out->mape += errors[i] / (double)m->count;
        out->bias += percent / (double)m->count;
    }
    qsort(errors, m->count, sizeof *errors, ascending);
    out->median = quantile(errors, m->count, 0.5);
    out->p90 = quantile(errors, m->count, 0.9);
    spt_free(errors);
    return SPT_OK;
}
