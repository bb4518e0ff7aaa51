/*
 * The plan: how one collective crosses one topology. Pure: topology and ranks in, channels of trees or routes
 * out. A plan holds shares, never bytes; plan/lane/lane.h compiles it into the programs that executors run.
 *
 * Rate and bound are in one load model: the load of a directed link is the sum of the shares of
 * the edges whose path crosses it, all phases concurrent; rate = 1 / max(load / capacity). Shares are of the
 * payload that collective.h defines for the collective. On GPUs the blocks that run lanes are loaded, too
 * (plan/blocks.h): the bound knows of links alone, the rate of both.
 *
 * In a plan by BLINK_ALGORITHM_MULTICAST a switch combines what the edges of a reduce tree bring to it, and
 * copies what it gets to all edges of a broadcast tree. It does that to all ranks, the root among them: every
 * tree loads the link between each rank and the switch once, and of the root's links the one that leads the
 * other way, too.
 */
#ifndef BLINK_PLAN_H
#define BLINK_PLAN_H

#include "topo/topo.h"

#define PLAN_NONE UINT32_MAX

/* Most ranks of one communicator. */
#define PLAN_RANKS_MAX 1024u

/* The way of one edge between two ranks: links in travelling order, sender to receiver. */
typedef struct plan_path {
    uint32_t *links;
    uint32_t link_count;
} plan_path_t;

/* A spanning tree over the ranks. For `reduce` an edge leads child to parent, for `broadcast` parent to
 * child. Arrays have one entry per rank; those of the root are PLAN_NONE, but for what multicast has there.
 * Both NULL where the part has no such tree. */
typedef struct plan_tree {
    uint32_t *parent; /* rank of the parent */
    uint32_t *path;   /* index into plan_t.paths of the edge between this rank and its parent; of the root by
                         multicast: of the way to the switch and back */
} plan_tree_t;

/* A way from one rank to another, by way of other ranks where no path joins the two. No hops: a rank's own
 * block, which it copies from its input to its output. `ranks` is NULL where the part is no route. */
typedef struct plan_route {
    uint32_t hop_count;
    uint32_t *ranks; /* hop_count + 1, source first */
    uint32_t *paths; /* hop_count, indices into plan_t.paths */
} plan_route_t;

/* A reduce tree, a broadcast tree, both with one root, or a route: as the collective asks for
 * (collective.h). */
typedef struct plan_part {
    uint32_t root; /* of the trees; PLAN_NONE for a route */
    plan_tree_t reduce, broadcast;
    plan_route_t route;
} plan_part_t;

/*
 * An independent share of the payload, dealt evenly to its parts. Packed trees have one part. A ring is one
 * channel of n parts: part r runs along the ring and is complete at its root; the n reduce chains are the
 * reduce-scatter and the n broadcast chains the allgather of a ring AllReduce (a ring Broadcast has one
 * part).
 */
typedef struct plan_channel {
    double share; /* of the payload; all channels add up to 1 */
    uint32_t part_count;
    plan_part_t *parts;
} plan_channel_t;

/* A symmetry of the topology that maps ranks to ranks: where each rank and each link goes. Applying it
 * `order` times changes nothing. */
typedef struct plan_symmetry {
    uint32_t order;
    uint32_t *rank_image; /* per rank */
    uint32_t *link_image; /* per topology link */
} plan_symmetry_t;

typedef struct plan {
    blink_collective_t collective;
    blink_algorithm_t algorithm; /* never AUTO */
    blink_protocol_t protocol;   /* of all edges */
    uint32_t rank_count;
    uint32_t *rank_node; /* topology node of each rank */
    uint32_t root;       /* rank; for sendrecv the source; PLAN_NONE where the collective has none */
    uint32_t peer;       /* sendrecv: the destination; else PLAN_NONE */
    double block_GBps;   /* what the block that runs a lane moves at most; 0: any rate */
    double rate_GBps;    /* payload GB/s once the pipeline is full; 0 if nothing moves (one rank) */
    double bound_GBps; /* proven upper bound for any plan, but for those by multicast, whose own is higher; 0
                          if nothing moves */
    double *prices;    /* the proof of the bound: one per topology link, then one per node; see
                          plan/internal.h */
    double plan_ms;    /* time spent planning */
    uint64_t deadline_ns; /* of clock_ns(), for those that make the plan; 0: none */
    uint32_t channel_count;
    plan_channel_t *channels;
    uint32_t path_count;
    plan_path_t *paths;
    struct plan_path_table *path_table; /* finds a path by its links; private to plan/channels.c */
    /* A plan of many repeated hosts is stored as templates: each channel stands for all its images under the
     * symmetries (all products of their powers), which divide its share evenly. The symmetries commute.
     * plan_expand() writes the images out. */
    uint32_t symmetry_count; /* 0: the channels are all there is */
    plan_symmetry_t *symmetries;
} plan_t;

typedef struct plan_request {
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    const uint32_t *rank_node; /* topology nodes of the ranks, in rank order; distinct gpus */
    uint32_t rank_count;
    uint32_t root;        /* rank, where the collective has one (sendrecv: the source); else ignored */
    uint32_t peer;        /* sendrecv: the destination; else ignored */
    uint64_t bytes;       /* of the payload, for AUTO; 0: as large as it takes for the highest rate */
    double move_us;       /* that a move between hosts takes whoever makes it, for AUTO, and where channels
                             are divided; 0: nothing */
    uint32_t peers_most;  /* other hosts that one host may exchange data with, for AUTO, where some plan makes
                             do with so few; 0: any number */
    double block_GBps;    /* of devices that are GPUs, what a block moves (model_block_GBps()): channels are
                             divided until blocks fill the links; 0: devices are none, or links alone count */
    uint32_t blocks_most; /* that run on a device at the same time: AUTO leaves out plans that have more; 0:
                             any number */
    bool multicast;      /* who runs the plan makes switches reduce and copy: AUTO may choose MULTICAST, which
                            is refused otherwise, named or not */
    bool narrow;         /* by multicast elements are combined that come in no vectors: blocks move less
                            (MODEL_NARROW_SHARE) */
    double plan_seconds; /* how long packing trees or routes may take; then the best found by then is the
                            plan, with what it lacks to its bound; 0: as long as it takes */
} plan_request_t;

/*
 * Plan. One rank succeeds with no channels. *plan is owned by the caller: plan_destroy(). Thread-safe (GLPK's
 * environment is per thread; call plan_thread_release() before a thread that planned ends).
 * Errors: INVALID_ARGUMENT (ranks that are not distinct gpus of the topology, root or peer outside them;
 * named), UNREACHABLE (names two ranks that no path joins; for rings: that neither NVLink nor PCIe closes a
 * ring), UNSUPPORTED (the algorithm does not do this collective), NO_MEMORY.
 */
blink_result_t plan_create(const topo_t *topo, const plan_request_t *request, plan_t **plan);
void plan_destroy(plan_t *plan);
void plan_thread_release(void);

/* How many images each channel stands for; 1 without symmetries. */
uint64_t plan_image_count(const plan_t *plan);

/* The same plan without symmetries: every image a channel of its own. *expanded is the caller's. Errors:
 * NO_MEMORY. */
blink_result_t plan_expand(const topo_t *topo, const plan_t *plan, plan_t **expanded);

/* Whether the plan joins ranks whose devices are no peers, by memory of the host. */
bool plan_meets_in_host(const topo_t *topo, const plan_t *plan);

/* Share of the payload that crosses each directed link (link_count doubles, caller's array). Errors:
 * NO_MEMORY. */
blink_result_t plan_link_loads(const topo_t *topo, const plan_t *plan, double *loads);

/* The rate the loads allow, from links, switch backplanes and blocks; 0 if nothing moves. Errors: NO_MEMORY.
 */
blink_result_t plan_rate_GBps(const topo_t *topo, const plan_t *plan, double *rate_GBps);

/*
 * The bound for plans by multicast: switches that reduce (topo_node_t) combine what comes in for one
 * receiver, and copy what leaves to several, so that a link carries once what all trees of a part take over
 * it. Where no switch reduces it is that of all other plans, which bound_GBps is for these. Errors:
 * NO_MEMORY.
 */
blink_result_t plan_multicast_bound_GBps(const topo_t *topo, const plan_t *plan, double *bound_GBps);

/* Most edges a byte crosses one after the other: between the root and any rank, reduce and broadcast added,
 * or along a route; over all parts of all channels. */
uint32_t plan_depth(const plan_t *plan);

/* Number every rank's host by the first rank on it. Returns how many hosts there are. */
uint32_t plan_number_hosts(const topo_t *topo, const plan_t *plan, uint32_t *of_rank);

/* The most other hosts that one host exchanges data with, over all hosts. Errors: NO_MEMORY. */
blink_result_t plan_peers_most(const topo_t *topo, const plan_t *plan, uint32_t *most);

/* Trees and routes with edges, all images counted: a reduce and a broadcast tree are two. */
uint64_t plan_tree_count(const plan_t *plan);

/* Edges of all trees and hops of all routes, all images counted. */
uint64_t plan_edge_count(const plan_t *plan);

/*
 * Print. *text is malloc'd and the caller's. JSON is blink-plan/1, with all images. The table,
 * for people, shows templates as such and, if payload_bytes > 0, how long so many bytes are predicted to
 * take. The pictures show each tree in a colour, all images of it. SVG stands alone and shows at most
 * PLAN_DRAWN_GPUS_MAX gpus; of a larger topology the host of rank 0 and the network. Graphviz gets an edge
 * per tree and link. Errors: NO_MEMORY; svg: UNSUPPORTED (rank 0's host alone is too large).
 */
#define PLAN_DRAWN_GPUS_MAX  64u
#define PLAN_DRAWN_NODES_MAX 256u
blink_result_t plan_write_json(const topo_t *topo, const plan_t *plan, char **text);
blink_result_t plan_write_table(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes, char **text);
blink_result_t plan_write_svg(const topo_t *topo, const plan_t *plan, char **text);
blink_result_t plan_write_dot(const topo_t *topo, const plan_t *plan, char **text);

/* Print the lanes that the plan is compiled to (plan/lane/lane.h), for people: with wire lanes where the
 * topology has the ranks on several hosts, as a payload of so many bytes has them. *text is malloc'd and the
 * caller's. Errors: as of lane_compile(). */
blink_result_t plan_write_lanes(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes, char **text);

#endif
