/*
 * What the compiler needs to know of the edges of one part of a plan: who is whose child, how far from the
 * start of its phase, and what the edge is called in the program.
 */
#ifndef BLINK_LANE_EDGES_H
#define BLINK_LANE_EDGES_H

#include "plan/lane/lane.h"

/* What a program is compiled from. */
typedef struct lane_source {
    const topo_t *topo;
    const plan_t *plan;        /* without symmetries */
    const lane_hosts_t *hosts; /* NULL: one */
    uint32_t host;             /* whose part is compiled; PLAN_NONE: all */
} lane_source_t;

/* A tree seen from the top. All NULL where the part has no such tree. */
typedef struct lane_tree {
    uint32_t *child_first; /* rank_count + 1 offsets into children */
    uint32_t *children;
    uint32_t *depth;  /* edges to the root */
    uint32_t *height; /* edges to the deepest leaf below */
} lane_tree_t;

/* An edge into slots. All PLAN_NONE where an edge has none, and LANE_ELSEWHERE where no step that is compiled
 * names it. */
typedef struct lane_slotted {
    uint32_t edge, full, free; /* edge and the two semaphores */
    uint32_t buffer;           /* lane_buffer_t: LANE_LANDING where it comes from another host */
} lane_slotted_t;

#define LANE_ELSEWHERE (PLAN_NONE - 1)

typedef struct lane_edges {
    lane_tree_t up, down;
    lane_slotted_t *slotted; /* of the reduce tree: by rank, the edge to its parent, none for a leaf whose
                                parent reads its input; of a route: by hop, the edge that ends in slots */
    uint32_t *down_full;     /* broadcast tree, by rank: semaphore of the edge from its parent into its
                                output; PLAN_NONE for leaves, where nobody waits */
    lane_slotted_t *down_slotted; /* broadcast tree, by rank: the edge from its parent where that ends in
                                     slots: with flags, or from another host if that lands in slots */
    bool *up_acts, *down_acts;    /* by rank: whether its step in the reduce or broadcast tree is compiled;
                                     the root's, which is one, is so by both */
    uint32_t shared, semaphores;  /* by multicast: its first edge and semaphore (lane_multicast.h) */
    uint32_t depth;               /* edges a byte crosses one after the other */
    bool crosses;                 /* from host to host */
} lane_edges_t;

/* Number the scratch edges and semaphores of a part: next in the program. On failure edges is still to be
 * given to lane_edges_fini(). Errors: NO_MEMORY. */
blink_result_t lane_edges_init(const lane_source_t *source, const plan_part_t *part, lane_program_t *program,
                               lane_edges_t *edges);
void lane_edges_fini(lane_edges_t *edges);

/*
 * Of a host's part these steps are compiled: those of its ranks; those of other ranks that send to it, whose
 * moves are wire lanes that it keeps; and those of other ranks that read what it sends into their outputs,
 * for they say by which semaphores its wire lanes announce it.
 */
bool lane_hop_acts(const lane_source_t *source, const plan_route_t *route, uint32_t hop);

/* Whether two ranks are on different hosts. */
bool lane_is_wire(const lane_hosts_t *hosts, uint32_t from, uint32_t to);

/* Whether the destination of a route has slots, and so a step of its own that copies to its output. */
bool lane_route_ends_in_slots(const plan_route_t *route, const lane_edges_t *edges);

bool lane_has_slots(const lane_slotted_t *slotted);
uint32_t lane_child_count(const lane_tree_t *tree, uint32_t rank);

#endif
