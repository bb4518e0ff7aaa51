/*
 * The working graph of the packers: ranks, relays, identical parallel switches merged into one.
 */
#ifndef BLINK_PLAN_NET_H
#define BLINK_PLAN_NET_H

#include "plan/columns/symmetry.h"

/* A symmetry in the working graph: images of all its powers, [power·count + index]. */
typedef struct pack_symmetry {
    uint32_t order;
    uint32_t *ranks, *links;
} pack_symmetry_t;

/* Working nodes 0 … rank_count-1 are the ranks; the rest are relays: single nodes, or groups of parallel
 * switches whose capacities are proportional, so that any use of the group splits over its members in the
 * same proportion. Links that are each other's image under a symmetry share one capacity row, since a plan's
 * images load them alike, and a relay's backplane limit has one. Where `reversible`, a link and its reverse
 * share a row too: whoever loads both directions alike needs no more. */
typedef struct pack_net {
    const topo_t *topo;
    const bool *allowed; /* per topology link, or NULL: all may be used */
    uint32_t rank_count, node_count, link_count, row_count;
    bool reversible;        /* every link has a reverse of the same capacity, and the plan may use that */
    uint32_t *from, *to;    /* per link */
    uint32_t *reverse;      /* per link, where reversible */
    uint32_t *link_row;     /* per link */
    double *link_GBps;      /* per link */
    double *row_GBps;       /* per row: of all its links together */
    uint32_t *node_row;     /* per node: its backplane's row, or PLAN_NONE */
    uint32_t *node_of;      /* per topology node: its working node, or PLAN_NONE */
    uint32_t *link_of;      /* per topology link: its working link, or PLAN_NONE */
    uint32_t *first_member; /* per node, and one more: offsets into members */
    uint32_t *members;      /* topology nodes */
    double *member_end;     /* fraction of the group's capacity up to and with this member; 1 for the last */
    uint32_t *out_first;    /* per node, and one more: offsets into out_links */
    uint32_t *out_links;
    uint32_t symmetry_count;
    pack_symmetry_t *symmetries;
    uint32_t *orbit; /* per rank: the least rank of its orbit under the symmetries */
    uint32_t *power; /* per rank and symmetry, [rank·symmetry_count + symmetry]: which powers lead to it from
                        there */
} pack_net_t;

/* `allowed` is borrowed. `symmetries` are dropped (symmetry_count 0) if they do not map groups of switches to
 * groups. Errors: INVALID_ARGUMENT (capacities too far apart for the arithmetic; the links are named),
 * NO_MEMORY. */
blink_result_t pack_net_create(const topo_t *topo, const plan_t *plan, const bool *allowed,
                               const plan_symmetry_t *symmetries, uint32_t symmetry_count, pack_net_t **net);
void pack_net_destroy(pack_net_t *net);

/* The member of a node that stands for position `at` of [0, 1) of the group's capacity. */
uint32_t pack_net_member(const pack_net_t *net, uint32_t node, double at);

/* How many ranks the rank's orbit has, the rank among them. */
uint32_t pack_net_orbit_size(const pack_net_t *net, uint32_t rank);

/* Where the rank goes under the product of symmetries that leads from the orbit's least rank to `by`. */
uint32_t pack_net_image(const pack_net_t *net, uint32_t by, uint32_t rank);

/* Where each rank goes under it, into images[]. */
void pack_net_images(const pack_net_t *net, uint32_t by, uint32_t *images);

/* The rank that goes to `rank` under that product. */
uint32_t pack_net_origin(const pack_net_t *net, uint32_t by, uint32_t rank);

/* Where a link goes under it. */
uint32_t pack_net_link_image(const pack_net_t *net, uint32_t by, uint32_t link);

/* Prices per row as plan_bound_GBps() takes them: per topology link, then per node. */
void pack_write_prices(const pack_net_t *net, const double *row_prices, double *prices);

#endif
