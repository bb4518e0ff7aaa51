/* Graphs: what a capture recorded. */
#ifndef STANDIN_GRAPH_H
#define STANDIN_GRAPH_H

#include "standin/streams/stream.h"

enum { GRAPH_LANES_MAX = 64 };

typedef enum graph_node_kind { GRAPH_OP, GRAPH_REACH, GRAPH_AWAIT } graph_node_kind_t;

typedef struct graph_node {
    graph_node_kind_t kind;
    unsigned lane;
    op_t op; /* GRAPH_OP */
    unsigned
        marker; /* GRAPH_REACH, GRAPH_AWAIT: its number in the graph; every launch makes its own markers */
} graph_node_t;

/* A user object, and how many references to it a graph or its executable has. */
typedef struct graph_hold {
    struct graph_hold *next;
    CUuserObject object;
    unsigned count;
} graph_hold_t;

/* Lane 0 is what the capture began with, or what the graph is launched on; the others are the streams that
 * joined. */
typedef struct graph_body {
    graph_node_t *nodes;
    size_t node_count, node_capacity;
    CUcontext lanes[GRAPH_LANES_MAX];
    unsigned lane_count, marker_count;
    graph_hold_t *holds;
} graph_body_t;

struct CUgraph_st {
    graph_body_t body;
};

/** NULL: no memory. */
CUgraph graph_create(CUcontext context);
/** Without stream_lock: it may run destructors of user objects. */
void graph_destroy(CUgraph graph);
/** Takes over what the node's operation holds, unless it fails. With stream_lock held. */
CUresult graph_append(CUgraph graph, const graph_node_t *node);

/* User objects (user_object.c); all without stream_lock. */
CUresult graph_hold(graph_body_t *body, CUuserObject object, unsigned count);
CUresult graph_hold_same(graph_body_t *to, const graph_body_t *from);
void graph_release_holds(graph_body_t *body);

#endif
