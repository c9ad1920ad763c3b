/*
 * Passes of one shape as CUDA graphs: all that differs between them stands in
 * the inputs, so that a graph of one replays for the next. A shape is captured
 * when it comes for the second time; the one that was not used for longest
 * makes room.
 */
#include <string.h>

#include "forward_int.h"
#include "log.h"

/* Linears that queries, keys and values are: those of one type are one. */
static uint64_t qkv_linears(const spt_model *model, int layer)
{
    static const spt_role roles[] = {SPT_ROLE_Q, SPT_ROLE_K, SPT_ROLE_V};
    const spt_tensor *before = spt_model_tensor(model, roles[0], layer);
    uint64_t count = 1;
    for (int i = 1; i < 3; i++) {
        const spt_tensor *t = spt_model_tensor(model, roles[i], layer);
        count += !t || !before || t->type != before->type;
        before = t;
    }
    return count;
}

uint64_t forward_graph_nodes(const spt_model *model)
{
    enum {
        BEGIN = 3, /* inputs, embedding, norm */
        LAYER = 8, /* rotary, attention, combine, o, norm, two of FFN, norm */
        /* Norm, logits, penalties, sample, accept, choices; penalties taken
           back, log-probabilities and their copy. */
        HEAD = 9,
    };
    const spt_model_config *c = spt_model_config_of(model);
    uint64_t nodes = BEGIN + HEAD;
    for (int i = 0; i < c->layers; i++)
        nodes += qkv_linears(model, i) + LAYER;
    /* The last layer's norm is the head's. */
    return c->post_norms ? nodes : nodes - 1;
}

/* The shape's entry, or the oldest one, emptied. */
static forward_graph *entry_of(spt_forward *f, const forward_shape *shape)
{
    forward_graph *oldest = &f->graphs[0];
    for (int i = 0; i < f->limits.graphs; i++) {
        forward_graph *g = &f->graphs[i];
        if (g->used && memcmp(&g->shape, shape, sizeof *shape) == 0)
            return g;
        if (g->used < oldest->used)
            oldest = g;
    }
    if (oldest->exec)
        f->driver->cuGraphExecDestroy(oldest->exec);
    *oldest = (forward_graph){.shape = *shape};
    return oldest;
}

static spt_status instantiate(spt_forward *f, CUgraph graph, CUgraphExec *exec,
                              spt_error *err)
{
    spt_status status =
        forward_check(f, f->driver->cuGraphInstantiateWithFlags(exec, graph, 0),
                      "cuGraphInstantiate", err);
    f->driver->cuGraphDestroy(graph);
    return status;
}

/* Other threads may use the driver meanwhile: only this one is watched. */
static spt_status capture(spt_forward *f, const forward_work *work,
                          CUgraphExec *exec, spt_error *err)
{
    const spt_driver *d = f->driver;
    CUgraph graph = NULL;
    SPT_TRY(forward_check(
        f,
        d->cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture", err));
    spt_status status = work->enqueue(work->user, err);
    CUresult ended = d->cuStreamEndCapture(f->stream, &graph);
    if (status == SPT_OK)
        status = forward_check(f, ended, "cuStreamEndCapture", err);
    if (status == SPT_OK)
        return instantiate(f, graph, exec, err);
    if (graph)
        d->cuGraphDestroy(graph);
    return status;
}

spt_status forward_graph_run(spt_forward *f, const forward_shape *shape,
                             const forward_work *work, spt_error *err)
{
    spt_error why;
    forward_graph *g = entry_of(f, shape);
    bool again = g->used > 0;
    g->used = ++f->graph_turn;
    if (again && !g->exec && capture(f, work, &g->exec, &why) != SPT_OK) {
        spt_log_line(f->source.log, "no CUDA graphs from here on: %s",
                     why.text);
        forward_graphs_close(f);
        f->limits.graphs = 0;
        return work->enqueue(work->user, err);
    }
    if (!g->exec)
        return work->enqueue(work->user, err);
    return forward_check(f, f->driver->cuGraphLaunch(g->exec, f->stream),
                         "cuGraphLaunch", err);
}

void forward_graphs_close(spt_forward *f)
{
    for (int i = 0; f->graphs && i < f->limits.graphs; i++) {
        if (f->graphs[i].exec)
            f->driver->cuGraphExecDestroy(f->graphs[i].exec);
        f->graphs[i].exec = NULL;
    }
}
