/*
 * The standing landings of one communicator (data.h).
 */
#ifndef BLINK_DATA_STANDING_H
#define BLINK_DATA_STANDING_H

#include "net/data/endpoint.h"
#include "net/flow/standing.h"

/* What one landing takes in. A flow of each lane has more numbers than that anyhow, and most programs for
 * payloads of up to LANE_LANDS_IN_SLOTS_BYTES fit; others are lent landings. */
#define STANDING_FLOWS 64u
#define STANDING_BYTES (64u << 10)

/* What is between this host and another one. */
typedef struct standing_peer {
    data_endpoint_t *endpoint;    /* held; NULL: this host */
    standing_t own;               /* where what comes from there lands; by the turn */
    bool is_open, has_left;       /* `own` is; the peer sends nothing more there */
    bool is_stopped;              /* the peer has left */
    uint64_t ended;               /* as the peer's last BEGIN told */
    uint32_t told[STANDING_MOST]; /* the first flow of each landing that it has; PLAN_NONE: it has not told */
} standing_peer_t;

struct data_standing {
    data_t *data;
    void *tenant;
    uint32_t host_count;
    standing_peer_t peers[]; /* by host */
};

/* The landing of the number-th op for what comes from a host, of which the first `ended` ops have ended here;
 * with the turn. What comes for these is dropped from now on. NULL: there are none for this host yet. */
landing_t *standing_find(data_standing_t *standing, uint32_t host, uint64_t number, uint64_t ended);

/* Make them, unless they are there; without the turn. Errors: QUOTA, NO_MEMORY. */
blink_result_t standing_make(data_standing_t *standing, uint32_t host, uint64_t ended);

/* The first flow of the host's landing for the number-th op, if data may go there without waiting for its
 * BEGIN; else PLAN_NONE. */
uint32_t standing_told(const data_standing_t *standing, uint32_t host, uint64_t number);

#endif
