/* User objects: something of the application's that lives as long as the graphs that use it. */
#include "standin/streams/graph.h"

#include <stdlib.h>

struct CUuserObject_st {
    void *argument;
    CUhostFn destroy;
    uint64_t references; /* under stream_lock */
};

static void put(CUuserObject object, unsigned count)
{
    pthread_mutex_lock(&stream_lock);
    object->references -= count;
    bool is_last = object->references == 0;
    pthread_mutex_unlock(&stream_lock);
    if (!is_last)
        return;
    object->destroy(object->argument);
    free(object);
}

CUresult graph_hold(graph_body_t *body, CUuserObject object, unsigned count)
{
    graph_hold_t *hold = calloc(1, sizeof(*hold));
    if (!hold)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&stream_lock);
    object->references += count;
    *hold = (graph_hold_t){body->holds, object, count};
    body->holds = hold;
    pthread_mutex_unlock(&stream_lock);
    return CUDA_SUCCESS;
}

CUresult graph_hold_same(graph_body_t *to, const graph_body_t *from)
{
    for (const graph_hold_t *hold = from->holds; hold; hold = hold->next)
        STANDIN_TRY(graph_hold(to, hold->object, 1));
    return CUDA_SUCCESS;
}

void graph_release_holds(graph_body_t *body)
{
    while (body->holds) {
        graph_hold_t *hold = body->holds;
        body->holds = hold->next;
        put(hold->object, hold->count);
        free(hold);
    }
}

CUresult cuUserObjectCreate(CUuserObject *object, void *argument, CUhostFn destroy, unsigned int references,
                            unsigned int flags)
{
    STANDIN_ENTER(cuUserObjectCreate, DRIVER);
    if (!object || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    CUuserObject made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct CUuserObject_st){argument, destroy, references};
    *object = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    STANDIN_ENTER(cuGraphRetainUserObject, DRIVER);
    if (!graph || !object || !count || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(graph_hold(&graph->body, object, count));
    if (flags & CU_GRAPH_USER_OBJECT_MOVE)
        put(object, count); /* the caller's become the graph's */
    return CUDA_SUCCESS;
}
