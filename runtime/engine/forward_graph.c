/*
 * Passes of one shape as CUDA graphs: all that differs between them stands in
 * the inputs, so that a graph of one replays for the next. A shape is captured
 * when it comes for the second time; the one that was not used for longest
 * makes room.
 */
#include <string.h>

#include "forward_int.h"
#include "log.h"

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
