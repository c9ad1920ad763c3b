/*
 * Driver calls about graphs and the edges between their nodes. What nodes do
 * is in sim_api_node.c, executables in sim_api_exec.c.
 */
#include "sim_driver.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"

CUresult SIM_FN(cuGraphCreate)(CUgraph *graph, unsigned flags)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!graph || flags)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraph made = sim_graph_new();
    if (!made || !sim_handle_add(made, SIM_HANDLE_GRAPH)) {
        spt_free(made);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *graph = made;
    return sim_leave(CUDA_SUCCESS);
}

CUresult sim_enter_graph(CUgraph graph)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(graph, SIM_HANDLE_GRAPH))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuGraphDestroy)(CUgraph graph)
{
    CUresult result = sim_enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    for (CUcontext ctx = sim_the.contexts; ctx; ctx = ctx->next)
        for (CUstream s = ctx->streams; s; s = s->next)
            if (s->capture_graph == graph)
                return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_graph_delete(graph);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphClone)(CUgraph *clone, CUgraph graph)
{
    CUresult result = sim_enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!clone)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraph made = sim_graph_clone(graph);
    if (!made)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (!sim_graph_register(made)) {
        sim_graph_delete(made);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *clone = made;
    return sim_leave(CUDA_SUCCESS);
}

/* Nodes into an array that may be NULL (only the number is wanted). */
static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count,
                           bool roots)
{
    CUresult result = sim_enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    size_t found = 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (roots && graph->nodes.items[i]->needs.count)
            continue;
        if (nodes && found < *count)
            nodes[found] = graph->nodes.items[i];
        found++;
    }
    for (size_t i = found; nodes && i < *count; i++)
        nodes[i] = NULL;
    *count = nodes && *count < found ? *count : found;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphGetNodes)(CUgraph graph, CUgraphNode *nodes,
                                 size_t *count)
{
    return list_nodes(graph, nodes, count, false);
}

CUresult SIM_FN(cuGraphGetRootNodes)(CUgraph graph, CUgraphNode *nodes,
                                     size_t *count)
{
    return list_nodes(graph, nodes, count, true);
}

CUresult SIM_FN(cuGraphNodeGetType)(CUgraphNode node, CUgraphNodeType *type)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(node, SIM_HANDLE_NODE))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!type)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *type = node->type;
    return sim_leave(CUDA_SUCCESS);
}

CUresult sim_graph_has(CUgraph graph, const CUgraphNode *needs, size_t count)
{
    if (count && !needs)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!sim_handle_is(needs[i], SIM_HANDLE_NODE) ||
            needs[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sim_edges_plain(const CUgraphEdgeData *edges, size_t count)
{
    for (size_t i = 0; edges && i < count; i++)
        if (edges[i].type || edges[i].from_port || edges[i].to_port)
            return sim_lacks("cuGraphAddDependencies",
                             "edges from a part of a kernel");
    return CUDA_SUCCESS;
}

/* The place of an edge among those of its node; the count if there is none. */
static size_t edge_of(const struct CUgraphNode_st *to, CUgraphNode from)
{
    size_t i = 0;
    while (i < to->needs.count && to->needs.items[i] != from)
        i++;
    return i;
}

static CUresult enter_edges(CUgraph graph, const CUgraphNode *from,
                            const CUgraphNode *to, const CUgraphEdgeData *edges,
                            size_t count)
{
    CUresult result = sim_enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_graph_has(graph, from, count);
    if (result == CUDA_SUCCESS)
        result = sim_graph_has(graph, to, count);
    if (result == CUDA_SUCCESS)
        result = sim_edges_plain(edges, count);
    return result == CUDA_SUCCESS ? result : sim_leave(result);
}

CUresult SIM_FN(cuGraphAddDependencies)(CUgraph graph, const CUgraphNode *from,
                                        const CUgraphNode *to,
                                        const CUgraphEdgeData *edges,
                                        size_t count)
{
    CUresult result = enter_edges(graph, from, to, edges, count);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        if (edge_of(to[i], from[i]) < to[i]->needs.count)
            result = CUDA_ERROR_INVALID_VALUE;
        else if (!sim_nodes_add(&to[i]->needs, from[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphRemoveDependencies)(CUgraph graph,
                                           const CUgraphNode *from,
                                           const CUgraphNode *to,
                                           const CUgraphEdgeData *edges,
                                           size_t count)
{
    CUresult result = enter_edges(graph, from, to, edges, count);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < count; i++) {
        sim_nodes *needs = &to[i]->needs;
        size_t at = edge_of(to[i], from[i]);
        if (at == needs->count)
            return sim_leave(CUDA_ERROR_INVALID_VALUE);
        needs->count--;
        for (; at < needs->count; at++)
            needs->items[at] = needs->items[at + 1];
    }
    return sim_leave(CUDA_SUCCESS);
}

/* A list that the caller gave room for count of; NULL: only the number. */
typedef struct edge_list {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data;
    size_t room, found;
} edge_list;

static void put_edge(edge_list *list, CUgraphNode from, CUgraphNode to)
{
    size_t i = list->found++;
    if (i >= list->room)
        return;
    if (list->from)
        list->from[i] = from;
    if (list->to)
        list->to[i] = to;
    if (list->data)
        memset(&list->data[i], 0, sizeof(list->data[i]));
}

/* Room beyond what was found holds NULL; *count becomes what was filled in. */
static CUresult end_edges(edge_list *list, size_t *count)
{
    for (size_t i = list->found; i < list->room; i++) {
        if (list->from)
            list->from[i] = NULL;
        if (list->to)
            list->to[i] = NULL;
    }
    bool filled = list->from || list->to;
    *count = filled && list->room < list->found ? list->room : list->found;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphGetEdges)(CUgraph graph, CUgraphNode *from,
                                 CUgraphNode *to, CUgraphEdgeData *edges,
                                 size_t *count)
{
    CUresult result = sim_enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count || !from != !to)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    edge_list list = {from, to, edges, from ? *count : 0, 0};
    for (size_t i = 0; i < graph->nodes.count; i++) {
        CUgraphNode node = graph->nodes.items[i];
        for (size_t n = 0; n < node->needs.count; n++)
            put_edge(&list, node->needs.items[n], node);
    }
    return end_edges(&list, count);
}

static CUresult enter_node(CUgraphNode node)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(node, SIM_HANDLE_NODE))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuGraphNodeGetDependencies)(CUgraphNode node,
                                            CUgraphNode *nodes,
                                            CUgraphEdgeData *edges,
                                            size_t *count)
{
    CUresult result = enter_node(node);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    edge_list list = {nodes, NULL, edges, nodes ? *count : 0, 0};
    for (size_t i = 0; i < node->needs.count; i++)
        put_edge(&list, node->needs.items[i], node);
    return end_edges(&list, count);
}

CUresult SIM_FN(cuGraphNodeGetDependentNodes)(CUgraphNode node,
                                              CUgraphNode *nodes,
                                              CUgraphEdgeData *edges,
                                              size_t *count)
{
    CUresult result = enter_node(node);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    edge_list list = {NULL, nodes, edges, nodes ? *count : 0, 0};
    for (size_t i = 0; i < node->graph->nodes.count; i++) {
        CUgraphNode other = node->graph->nodes.items[i];
        if (edge_of(other, node) < other->needs.count)
            put_edge(&list, node, other);
    }
    return end_edges(&list, count);
}

CUresult SIM_FN(cuGraphDestroyNode)(CUgraphNode node)
{
    CUresult result = enter_node(node);
    if (result != CUDA_SUCCESS)
        return result;
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED); /* nor does CUDA */
    sim_graph_remove(node);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphNodeFindInClone)(CUgraphNode *node, CUgraphNode original,
                                        CUgraph clone)
{
    CUresult result = sim_enter_graph(clone);
    if (result != CUDA_SUCCESS)
        return result;
    if (!node)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < clone->nodes.count; i++)
        if (clone->nodes.items[i]->origin == original) {
            *node = clone->nodes.items[i];
            return sim_leave(CUDA_SUCCESS);
        }
    return sim_leave(CUDA_ERROR_INVALID_VALUE);
}

static const char *type_text(CUgraphNodeType type)
{
    static const char *const texts[] = {
        [CU_GRAPH_NODE_TYPE_KERNEL] = "kernel",
        [CU_GRAPH_NODE_TYPE_MEMCPY] = "memcpy",
        [CU_GRAPH_NODE_TYPE_MEMSET] = "memset",
        [CU_GRAPH_NODE_TYPE_HOST] = "host",
        [CU_GRAPH_NODE_TYPE_GRAPH] = "graph",
        [CU_GRAPH_NODE_TYPE_EMPTY] = "empty",
        [CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "wait event",
        [CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "record event",
        [CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "alloc",
        [CU_GRAPH_NODE_TYPE_MEM_FREE] = "free",
    };
    size_t count = sizeof(texts) / sizeof(texts[0]);
    return (size_t)type < count && texts[type] ? texts[type] : "?";
}

static const char *kernel_text(const struct CUgraphNode_st *node)
{
    if (node->work.kind != SIM_WORK_KERNEL)
        return "";
    CUfunction func = node->work.kernel.func;
    return sim_handle_is(func, SIM_HANDLE_FUNCTION)
               ? func->module->ptx->funcs[func->index].name
               : "(unloaded)";
}

/* Graphviz text: a line per node, a line per edge. */
CUresult SIM_FN(cuGraphDebugDotPrint)(CUgraph graph, const char *path,
                                      unsigned flags)
{
    CUresult result = sim_enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    (void)flags;
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out)
        return sim_leave(CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(out, "digraph {\n");
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct CUgraphNode_st *node = graph->nodes.items[i];
        fprintf(out, "  n%zu [label=\"%zu %s %s\"];\n", i, i,
                type_text(node->type), kernel_text(node));
        for (size_t n = 0; n < node->needs.count; n++)
            fprintf(out, "  n%zu -> n%zu;\n", node->needs.items[n]->index, i);
    }
    fprintf(out, "}\n");
    bool written = !ferror(out);
    return sim_leave(fclose(out) || !written ? CUDA_ERROR_OPERATING_SYSTEM
                                             : CUDA_SUCCESS);
}
