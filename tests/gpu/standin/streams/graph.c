/* Graphs, and launching them. */
#include "standin/streams/graph.h"

#include <stdlib.h>

struct CUgraphExec_st {
    graph_body_t body;
    unsigned references; /* its owner's and the running launches'; under stream_lock, as what follows */
    CUstream streams[GRAPH_LANES_MAX]; /* its own, for all lanes but the first */
    marker_t *ended;                   /* the latest launch's end; NULL: none yet */
};

CUgraph graph_create(CUcontext context)
{
    CUgraph graph = calloc(1, sizeof(*graph));
    if (graph) {
        graph->body.lanes[0] = context;
        graph->body.lane_count = 1;
    }
    return graph;
}

CUresult graph_append(CUgraph graph, const graph_node_t *node)
{
    graph_body_t *body = &graph->body;
    if (body->node_count == body->node_capacity) {
        size_t capacity = body->node_capacity ? 2 * body->node_capacity : 8;
        graph_node_t *nodes = realloc(body->nodes, capacity * sizeof(*nodes));
        if (!nodes)
            return CUDA_ERROR_OUT_OF_MEMORY;
        body->nodes = nodes;
        body->node_capacity = capacity;
    }
    body->nodes[body->node_count++] = *node;
    return CUDA_SUCCESS;
}

static void free_body(graph_body_t *body)
{
    for (size_t i = 0; i < body->node_count; i++) {
        if (body->nodes[i].kind == GRAPH_OP)
            op_drop(&body->nodes[i].op);
    }
    free(body->nodes);
    graph_release_holds(body);
}

/* Fails with nothing to free. */
static CUresult copy_body(graph_body_t *to, const graph_body_t *from)
{
    *to = *from;
    to->holds = NULL;
    to->nodes = calloc(from->node_count + 1, sizeof(*to->nodes));
    if (!to->nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < to->node_count; i++) {
        to->nodes[i] = from->nodes[i];
        if (to->nodes[i].kind == GRAPH_OP)
            op_keep(&to->nodes[i].op);
    }
    CUresult result = graph_hold_same(to, from);
    if (result != CUDA_SUCCESS)
        free_body(to);
    return result;
}

void graph_destroy(CUgraph graph)
{
    free_body(&graph->body);
    free(graph);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    STANDIN_ENTER(cuGraphDestroy, HEALTH);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    graph_destroy(graph);
    return CUDA_SUCCESS;
}

static void put_exec(CUgraphExec exec)
{
    pthread_mutex_lock(&stream_lock);
    bool is_last = --exec->references == 0;
    for (unsigned i = 1; is_last && i < exec->body.lane_count; i++) {
        if (exec->streams[i])
            stream_close(exec->streams[i]);
    }
    if (is_last)
        marker_put(exec->ended);
    pthread_mutex_unlock(&stream_lock);
    if (!is_last)
        return;
    free_body(&exec->body);
    free(exec);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    STANDIN_ENTER(cuGraphInstantiateWithFlags, CONTEXT);
    if (!exec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUgraphExec made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = copy_body(&made->body, &graph->body);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    made->references = 1;
    bool has_streams = true;
    pthread_mutex_lock(&stream_lock);
    for (unsigned i = 1; i < made->body.lane_count; i++)
        has_streams &= (made->streams[i] = stream_open(made->body.lanes[i])) != NULL;
    pthread_mutex_unlock(&stream_lock);
    if (!has_streams) {
        put_exec(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *exec = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    STANDIN_ENTER(cuGraphExecDestroy, HEALTH);
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    put_exec(exec); /* launches that run have their own references */
    return CUDA_SUCCESS;
}

static void do_nothing(const op_t *op)
{
    (void)op;
}

static void drop_exec(const op_t *op)
{
    put_exec(op->exec);
}

/* The end of a launch. */
static const op_type_t end_type = {.run = do_nothing, .drop = drop_exec};

/* Queue an operation; under the lock nothing can be dropped but markers, so one that fails stays with the
 * caller. */
static CUresult push_marker_op(CUstream stream, op_t op)
{
    CUresult result = stream_push(stream, &op);
    if (result != CUDA_SUCCESS)
        marker_put(op.marker);
    return result;
}

static CUresult push_node(CUgraphExec exec, const graph_node_t *node, CUstream stream, marker_t **markers)
{
    if (node->lane)
        stream = exec->streams[node->lane];
    if (node->kind == GRAPH_REACH)
        return push_marker_op(stream, marker_reach_op(marker_get(markers[node->marker])));
    if (node->kind == GRAPH_AWAIT)
        return push_marker_op(stream, marker_await_op(marker_get(markers[node->marker])));
    op_keep(&node->op); /* atomic or nothing: needs no lock */
    return stream_push(stream, &node->op);
}

/* Launches of one executable run one after another, also on different streams. */
static CUresult push_turn(CUgraphExec exec, CUstream stream)
{
    if (exec->ended)
        STANDIN_TRY(push_marker_op(stream, marker_await_op(marker_get(exec->ended))));
    return CUDA_SUCCESS;
}

static CUresult push_end(CUgraphExec exec, CUstream stream)
{
    marker_t *ended = marker_create();
    if (!ended)
        return CUDA_ERROR_OUT_OF_MEMORY;
    marker_put(exec->ended);
    exec->ended = ended;
    STANDIN_TRY(push_marker_op(stream, marker_reach_op(marker_get(ended))));
    STANDIN_TRY(stream_push(stream, &(op_t){.type = &end_type, .exec = exec}));
    exec->references++;
    return CUDA_SUCCESS;
}

/* With stream_lock held. What was queued before something failed runs. */
static CUresult launch(CUgraphExec exec, CUstream stream)
{
    const graph_body_t *body = &exec->body;
    marker_t **markers = calloc(body->marker_count + 1, sizeof(marker_t *));
    CUresult result = markers ? push_turn(exec, stream) : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < body->marker_count; i++) {
        if (!(markers[i] = marker_create()))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; result == CUDA_SUCCESS && i < body->node_count; i++)
        result = push_node(exec, &body->nodes[i], stream, markers);
    if (result == CUDA_SUCCESS)
        result = push_end(exec, stream);
    for (unsigned i = 0; markers && i < body->marker_count; i++)
        marker_put(markers[i]);
    free(markers);
    return result;
}

/* Count the kernels of a launch, and lose the process if it is to be lost at one of them. */
static bool is_fatal(CUgraphExec exec)
{
    bool fatal = false;
    for (size_t i = 0; i < exec->body.node_count; i++) {
        const graph_node_t *node = &exec->body.nodes[i];
        if (node->kind == GRAPH_OP && node->op.type->is_launch)
            fatal |= standin_launch_is_fatal();
    }
    return fatal;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    STANDIN_ENTER(cuGraphLaunch, CONTEXT);
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && stream->capture)
        result = capture_refuse(stream); /* a graph within a graph */
    bool fatal = result == CUDA_SUCCESS && is_fatal(exec);
    if (result == CUDA_SUCCESS && !fatal)
        result = launch(exec, stream);
    pthread_mutex_unlock(&stream_lock);
    if (fatal)
        stream_lose(standin_context(), CUDA_ERROR_ILLEGAL_ADDRESS);
    return result;
}
