/*
 * Link emulation: every directed link (and limited switch backplane) of a topology obeys its capacity × scale
 * and its latency ÷ scale, by virtual finish times. Nothing here sleeps: the executor asks when a transfer
 * would be over and shows its result no earlier. Because bookings are made at the time a transfer was ready,
 * not at the time a late-woken worker got round to it, wake-up delays cost no bandwidth.
 */
#ifndef BLINK_PACE_H
#define BLINK_PACE_H

#include "topo/topo.h"

typedef struct pace pace_t;

/* For whom links are booked: a tenant, with its weight, or a communicator of a tenant. */
typedef struct pace_flows pace_flows_t;

typedef struct pace_slot {
    uint64_t sent_ns;    /* the last byte has left: the source may be reused */
    uint64_t arrived_ns; /* the last byte is there: the destination may be read */
} pace_slot_t;

/* scale > 0. Borrows topo. Errors: INVALID_ARGUMENT (scale not finite or <= 0), NO_MEMORY. */
blink_result_t pace_create(const topo_t *topo, double scale, pace_t **pace);
void pace_destroy(pace_t *pace);

/* tenant: whose communicator it is, which outlives it; NULL: this is a tenant. Errors: NO_MEMORY. Destroying
 * it is not thread-safe, as pace_book() is not. */
blink_result_t pace_flows_create(const pace_t *pace, pace_flows_t *tenant, uint32_t weight,
                                 pace_flows_t **flows);
void pace_flows_destroy(pace_flows_t *flows);

/* A path of a plan. */
typedef struct pace_path {
    const uint32_t *links;
    uint32_t link_count;
    /* By link of the plan's topology: its number in the topology of pace_create(), or TOPO_NONE: another
     * host's, which is booked there and not here. NULL: both topologies are the same. */
    const uint32_t *own_link;
} pace_path_t;

/* Book `bytes` for a communicator over the links of a path, ready to leave at ready_ns (CLOCK_MONOTONIC).
 * Every link (and limited backplane) serves each communicator in the order of its bookings, at the
 * communicator's share of the link's capacity: tenants that have something booked share the capacity by their
 * weights, and a tenant's communicators share equally what the tenant has. What was booked before at a larger
 * share stays booked; who has booked furthest ahead then waits until the link has caught up, so that a link
 * never carries more than it can. A transfer is through when the last of its links is: switches buffer, so a
 * link never idles because another one of the path is busy. (Taking all links of a path at once was tried:
 * routes that cross in a PCIe tree then hold each other up to a third of their rate.) Not thread-safe: the
 * executor books under its scheduler lock. */
pace_slot_t pace_book(pace_t *pace, pace_flows_t *communicator, const pace_path_t *path, uint64_t bytes,
                      uint64_t ready_ns);

/* What the bytes take on the slowest of the path's own links if nothing else crosses it, without latency. */
uint64_t pace_alone_ns(const pace_t *pace, const pace_path_t *path, uint64_t bytes);

double pace_scale(const pace_t *pace);

/* A scale at which this machine moves the topology's busiest collectives with its processors under 70 % busy:
 * measures the reduction speed of one core for a few milliseconds. `workers` is the pool's size. */
double pace_default_scale(const topo_t *topo, uint32_t workers);

#endif
