/*
 * The plan: how one collective crosses one topology. Pure: topology and ranks in, channels of trees out. A
 * plan holds shares, never bytes; plan/lane.h compiles it into the programs that executors run.
 *
 * Rate and bound are in the load model of FORMATS.md: the load of a directed link is the sum of the shares of
 * the tree edges whose path crosses it, all phases concurrent; rate = 1 / max(load / capacity).
 */
#ifndef BLINK_PLAN_H
#define BLINK_PLAN_H

#include "topo/topo.h"

#define PLAN_NONE UINT32_MAX

/* Most ranks of one communicator. */
#define PLAN_RANKS_MAX 1024u

/* The way of one tree edge: links in travelling order, sender to receiver. */
typedef struct plan_path {
    uint32_t *links;
    uint32_t link_count;
} plan_path_t;

/* A spanning tree over the ranks. For `reduce` an edge leads child to parent, for `broadcast` parent to
 * child. Arrays have one entry per rank; those of the root are PLAN_NONE. */
typedef struct plan_tree {
    uint32_t *parent; /* rank of the parent */
    uint32_t *path;   /* index into plan_t.paths of the edge between this rank and its parent */
} plan_tree_t;

/* A reduce tree and a broadcast tree with one root. `reduce.parent` is NULL where the collective does not
 * reduce. */
typedef struct plan_part {
    uint32_t root;
    plan_tree_t reduce;
    plan_tree_t broadcast;
} plan_part_t;

/*
 * An independent share of the payload. Packed trees have one part. A ring is one channel of n parts: every
 * chunk is cut into n equal pieces, part r runs along the ring and is complete at its root; the n reduce
 * chains are the reduce-scatter and the n broadcast chains the allgather of a ring AllReduce (a ring
 * Broadcast has one part).
 */
typedef struct plan_channel {
    double share; /* of the payload; all channels add up to 1 */
    uint32_t part_count;
    plan_part_t *parts;
} plan_channel_t;

typedef struct plan {
    blink_collective_t collective;
    const char *algorithm; /* static: "packed-trees", "ring" */
    uint32_t rank_count;
    uint32_t *rank_node; /* topology node of each rank */
    uint32_t root;       /* rank; PLAN_NONE for allreduce */
    double rate_GBps;    /* payload GB/s once the pipeline is full; 0 if nothing moves (one rank) */
    double bound_GBps;   /* proven upper bound for any plan; 0 if nothing moves */
    double plan_ms;      /* time spent planning */
    uint32_t channel_count;
    plan_channel_t *channels;
    uint32_t path_count;
    plan_path_t *paths;
} plan_t;

typedef struct plan_request {
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    const uint32_t *rank_node; /* topology nodes of the ranks, in rank order; distinct gpus */
    uint32_t rank_count;
    uint32_t root; /* rank, for broadcast; ignored for allreduce */
} plan_request_t;

/*
 * Plan. One rank succeeds with no channels. *plan is owned by the caller: plan_destroy(). Thread-safe (GLPK's
 * environment is per thread; call plan_thread_release() before a thread that planned ends).
 * Errors: INVALID_ARGUMENT (ranks that are not distinct gpus of the topology, root outside them; named),
 * UNREACHABLE (names two ranks that no path joins; for rings: that neither NVLink nor PCIe closes a ring),
 * NO_MEMORY.
 */
blink_result_t plan_create(const topo_t *topo, const plan_request_t *request, plan_t **plan);
void plan_destroy(plan_t *plan);
void plan_thread_release(void);

/* Share of the payload that crosses each directed link (link_count doubles, caller's array). */
void plan_link_loads(const topo_t *topo, const plan_t *plan, double *loads);

/* The rate the loads allow, from links and switch backplanes; 0 if nothing moves. */
double plan_rate_GBps(const topo_t *topo, const plan_t *plan);

/* Most tree edges between the root and any rank, reduce and broadcast added, over all parts of all channels.
 */
uint32_t plan_depth(const plan_t *plan);

/* Print as blink-plan/1 JSON (FORMATS.md), or as a table for people. *text is malloc'd and the caller's. */
blink_result_t plan_write_json(const topo_t *topo, const plan_t *plan, char **text);
blink_result_t plan_write_table(const topo_t *topo, const plan_t *plan, char **text);

#endif
