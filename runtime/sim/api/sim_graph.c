/*
 * Graphs: nodes that hold work and need other nodes, and executable copies of
 * them. An executable runs its nodes one by one in topological order; in
 * modelled time, a node begins when those that it needs have ended.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

CUgraph sim_graph_new(void)
{
    return spt_calloc(1, sizeof(struct CUgraph_st));
}

static void node_free(CUgraphNode node)
{
    sim_handle_drop(node);
    sim_work_free(&node->work);
    sim_nodes_free(&node->needs);
    spt_free(node->param_list);
    spt_free(node);
}

void sim_graph_delete(CUgraph graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        node_free(graph->nodes.items[i]);
    sim_nodes_free(&graph->nodes);
    sim_handle_drop(graph);
    spt_free(graph);
}

CUgraphNode sim_graph_add(CUgraph graph, CUgraphNodeType type, sim_work *work,
                          const sim_nodes *needs)
{
    CUgraphNode node = spt_calloc(1, sizeof(*node));
    if (!node || !sim_nodes_copy(&node->needs, needs) ||
        !sim_nodes_add(&graph->nodes, node)) {
        if (node)
            sim_nodes_free(&node->needs);
        spt_free(node);
        sim_work_free(work);
        return NULL;
    }
    node->graph = graph;
    node->type = type;
    node->work = *work;
    node->index = graph->nodes.count - 1;
    return node;
}

bool sim_graph_register(CUgraph graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (!sim_handle_is(graph->nodes.items[i], SIM_HANDLE_NODE) &&
            !sim_handle_add(graph->nodes.items[i], SIM_HANDLE_NODE))
            return false;
    return sim_handle_is(graph, SIM_HANDLE_GRAPH) ||
           sim_handle_add(graph, SIM_HANDLE_GRAPH);
}

void sim_graph_remove(CUgraphNode node)
{
    sim_nodes *nodes = &node->graph->nodes;
    nodes->count--;
    for (size_t i = node->index; i < nodes->count; i++) {
        nodes->items[i] = nodes->items[i + 1];
        nodes->items[i]->index = i;
    }
    for (size_t i = 0; i < nodes->count; i++) {
        sim_nodes *needs = &nodes->items[i]->needs;
        size_t kept = 0;
        for (size_t n = 0; n < needs->count; n++)
            if (needs->items[n] != node)
                needs->items[kept++] = needs->items[n];
        needs->count = kept;
    }
    node_free(node);
}

static CUgraphNode clone_node(CUgraph to, CUgraphNode node)
{
    static const sim_nodes none;
    sim_work work;
    if (sim_work_clone(&work, &node->work) != CUDA_SUCCESS)
        return NULL;
    CUgraphNode made = sim_graph_add(to, node->type, &work, &none);
    if (made) {
        made->origin = node;
        memcpy(made->hints, node->hints, sizeof(made->hints));
    }
    return made;
}

CUgraph sim_graph_clone(CUgraph graph)
{
    CUgraph to = sim_graph_new();
    bool good = to != NULL;
    for (size_t i = 0; good && i < graph->nodes.count; i++)
        good = clone_node(to, graph->nodes.items[i]) != NULL;
    for (size_t i = 0; good && i < graph->nodes.count; i++) {
        const sim_nodes *needs = &graph->nodes.items[i]->needs;
        for (size_t n = 0; good && n < needs->count; n++)
            good = sim_nodes_add(&to->nodes.items[i]->needs,
                                 to->nodes.items[needs->items[n]->index]);
    }
    if (!good && to) {
        sim_graph_delete(to);
        to = NULL;
    }
    return to;
}

static bool is_ready(CUgraphNode node)
{
    for (size_t i = 0; i < node->needs.count; i++)
        if (!node->needs.items[i]->marked)
            return false;
    return true;
}

bool sim_graph_order(CUgraph graph, CUgraphNode *order)
{
    size_t count = graph->nodes.count, done = 0;
    for (size_t i = 0; i < count; i++)
        graph->nodes.items[i]->marked = false;
    while (done < count) {
        size_t before = done;
        /* One round suffices where nodes were added in a possible order. */
        for (size_t i = 0; i < count; i++) {
            CUgraphNode node = graph->nodes.items[i];
            if (node->marked || !is_ready(node))
                continue;
            node->marked = true;
            order[done++] = node;
        }
        if (done == before)
            return false;
    }
    return true;
}

CUresult sim_exec_new(CUgraph graph, CUgraphExec *exec)
{
    size_t count = graph->nodes.count;
    CUgraphExec made = spt_calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->references = 1;
    made->graph = sim_graph_clone(graph);
    made->order = spt_calloc(count + 1, sizeof(CUgraphNode));
    if (!made->graph || !made->order) {
        sim_exec_release(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!sim_graph_order(made->graph, made->order)) {
        sim_exec_release(made);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *exec = made;
    return CUDA_SUCCESS;
}

void sim_exec_release(CUgraphExec exec)
{
    if (--exec->references)
        return;
    if (exec->graph)
        sim_graph_delete(exec->graph);
    spt_free(exec->order);
    sim_handle_drop(exec);
    spt_free(exec);
}

CUgraphNode sim_exec_node(CUgraphExec exec, CUgraphNode node)
{
    const sim_nodes *nodes = &exec->graph->nodes;
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->items[i]->origin == node)
            return nodes->items[i];
        CUgraphNode inside =
            nodes->items[i]->work.kind == SIM_WORK_GRAPH
                ? sim_exec_node(nodes->items[i]->work.graph.exec, node)
                : NULL;
        if (inside)
            return inside;
    }
    return NULL;
}

void sim_exec_mark_events(CUgraphExec exec, CUstream stream, uint64_t ticket,
                          uint64_t number)
{
    for (size_t i = 0; i < exec->graph->nodes.count; i++) {
        const sim_work *work = &exec->graph->nodes.items[i]->work;
        if (work->kind == SIM_WORK_GRAPH)
            sim_exec_mark_events(work->graph.exec, stream, ticket, number);
        CUevent event = work->record.event;
        if (work->kind != SIM_WORK_RECORD ||
            !sim_handle_is(event, SIM_HANDLE_EVENT))
            continue;
        event->recorded = true;
        event->ticket = ticket;
        event->stream = stream->id;
        event->number = number;
    }
}

CUresult sim_exec_run(CUcontext ctx, CUgraphExec exec, uint64_t ticket,
                      double start_us, double *end_us)
{
    *end_us = start_us;
    for (size_t i = 0; i < exec->graph->nodes.count; i++) {
        CUgraphNode node = exec->order[i];
        double start = start_us;
        for (size_t n = 0; n < node->needs.count; n++)
            if (node->needs.items[n]->end_us > start)
                start = node->needs.items[n]->end_us;
        node->end_us = start;
        CUresult result =
            node->disabled
                ? CUDA_SUCCESS
                : sim_work_run(ctx, &node->work, ticket, start, &node->end_us);
        if (result != CUDA_SUCCESS)
            return result;
        if (node->end_us > *end_us)
            *end_us = node->end_us;
    }
    return CUDA_SUCCESS;
}
