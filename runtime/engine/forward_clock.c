/* Times of steps by events of the device, and what they hold for. */
#include <stdio.h>

#include "forward_int.h"
#include "hash.h"

static spt_status record(spt_forward *f, int which, spt_error *err)
{
    if (!f->clock[which])
        SPT_TRY(forward_check(
            f, f->driver->cuEventCreate(&f->clock[which], CU_EVENT_DEFAULT),
            "cuEventCreate", err));
    return forward_check(f,
                         f->driver->cuEventRecord(f->clock[which], f->stream),
                         "cuEventRecord", err);
}

spt_status spt_forward_start_clock(spt_forward *f, spt_error *err)
{
    return record(f, 0, err);
}

spt_status spt_forward_stop_clock(spt_forward *f, double *us, spt_error *err)
{
    float ms;
    SPT_TRY(record(f, 1, err));
    SPT_TRY(forward_check(f, f->driver->cuEventSynchronize(f->clock[1]),
                          "cuEventSynchronize", err));
    SPT_TRY(forward_check(
        f, f->driver->cuEventElapsedTime(&ms, f->clock[0], f->clock[1]),
        "cuEventElapsedTime", err));
    *us = (double)ms * 1e3;
    return SPT_OK;
}

void spt_forward_kernels_digest(const spt_forward *f, char *hex)
{
    spt_kernel_set_digest(f->kernels.set, hex);
}

static void add_tensors(const spt_model *model, int layer, spt_buf *text)
{
    for (int role = 0; role < SPT_ROLES; role++) {
        const spt_tensor *t = spt_model_tensor(model, (spt_role)role, layer);
        if (t)
            spt_buf_printf(text, " %d:%d:%dx%d", role, (int)t->type, t->rows,
                           t->cols);
    }
}

void spt_forward_model_digest(const spt_forward *f, char *hex)
{
    const spt_model_config *c = f->config;
    spt_buf text = {0};
    spt_buf_printf(&text, "%s %d %d %d %d %d %d %d %d %d", c->architecture,
                   c->layers, c->hidden, c->ffn, c->q_heads, c->kv_heads,
                   c->head_dim, c->vocab, c->window, c->window_period);
    for (int layer = 0; layer < c->layers; layer++)
        add_tensors(f->model, layer, &text);
    spt_sha256(text.data, text.size, hex);
    spt_buf_free(&text);
}
