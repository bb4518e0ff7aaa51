/*
 * Two or three hosts that run ops together: the flows, landings and standing landings of daemon/net, and
 * around them, as plain as can be, what the engine does by BEGIN, CREDIT, FAIL and the end of an op. Between
 * each two hosts that an op joins there are a control stream, in order, and two data streams, which overtake
 * each other. A move takes its time to be written; on verbs the NIC writes it, and the receiver hears of it
 * later.
 *
 * The hosts know what is true besides: which op every byte of memory is for at the moment, and what is in it.
 */
#ifndef HOSTS_H
#define HOSTS_H

#include "search.h"

#include <stdbool.h>
#include <stdint.h>

#define HOSTS_MAX 3u
#define COMMS_MAX 2u
#define OPS_MAX   4u
#define FLOWS_MAX 4u /* of an op, at most one from one host to another */

typedef struct flow_plan {
    uint8_t from, to; /* hosts */
    uint8_t moves;
    uint8_t slots; /* at the receiver; 0: moves go into an output */
    uint8_t
        after; /* i: move s needs that move s of the i-th flow, counted from 1, was used up here; 0: none */
} flow_plan_t;

typedef struct op_plan {
    uint8_t comm;
    bool standing; /* the flows use standing landings */
    uint8_t other; /* moves of the first flow as its receiver believes, by mistake; 0: the same */
    bool stranger; /* the first flow's receiver knows nothing of that flow nor of its sender */
    bool never;    /* the last host does not come to this op */
    bool lends;    /* a standing op's first flow: its receiver lends a landing, by mistake */
    uint8_t flow_count;
    flow_plan_t flows[FLOWS_MAX];
} op_plan_t;

/* What there is to do, and what may happen. */
typedef struct hosts_plan {
    uint8_t host_count, op_count;
    uint8_t fails;  /* so many times a host may fail an op by itself */
    bool cuts;      /* hosts may close all connections */
    uint8_t fences; /* so many times a receiver may fence its data streams, and the flows resume */
    bool late;      /* transports report late that sources are done with */
    bool verbs; /* NICs write moves where the sender says, unchecked, and an immediate tells of it later */
    op_plan_t ops[OPS_MAX];
} hosts_plan_t;

/* Search everything that may happen. */
void hosts_search(const hosts_plan_t *plan, search_result_t *result);

#endif
