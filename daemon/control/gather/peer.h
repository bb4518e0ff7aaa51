/*
 * The daemons that gatherings and trees have to do with, and what every file of this folder shares. A peer is
 * there as long as something refers to it.
 */
#ifndef BLINK_GATHER_PEER_H
#define BLINK_GATHER_PEER_H

#include "base/deadline.h"
#include "base/table.h"
#include "control/comms/id_hash.h"
#include "control/gather/gather.h"

typedef struct peer {
    table_link_t of_instances; /* in gather->peers, until it is lost */
    list_t of_lost;            /* on gather->lost_peers, once it is */
    gather_host_t host;
    list_t guests;    /* guest_t.of_peer: gatherings at this home in which the peer's ranks take part */
    list_t locals;    /* local_t.of_peer: gatherings of this host's ranks whose home the peer is */
    list_t edges;     /* edge_t.of_peer: of trees */
    uint32_t holders; /* calls that use it */
    bool is_own;      /* this daemon */
    bool is_lost;
    char why[BLINK_ERROR_TEXT_BYTES]; /* of one that is lost */
} peer_t;

struct gather {
    gather_config_t config;
    table_t peers;
    list_t lost_peers;
    /* home.c's: gatherings at this home. Those that are complete, while READY spreads, are in `spreading` by
     * the communicator's number, the others in `homes` by id. */
    table_t homes, spreading;
    table_t guests; /* of both, by instance and attempt */
    list_t home_deadlines, spreading_deadlines;
    /* local.c's: gatherings of this host's ranks, by id and by attempt. */
    table_t locals, attempts;
    list_t all_locals, joining, local_deadlines;
    /* tree.c's: by the communicator's number. */
    table_t trees;
    list_t all_trees;
    uint64_t last_attempt, steps;
    uint32_t last_comm, last_ticket;
    uint64_t now_ms;                                                    /* of the call */
    void (*deliver)(gather_t *gather, const gather_message_t *message); /* to this daemon itself */
};

/* The peer, made if there is none. NULL: no memory, with an error text. peer_put() when nothing may refer to
 * the peer any more. */
peer_t *peer_get(gather_t *gather, const gather_host_t *host);
void peer_put(gather_t *gather, peer_t *peer);

/* NULL: there is none, or it is lost. */
peer_t *peer_find(const gather_t *gather, uint64_t instance);

/* The peer is lost, if there is one, for this thread's error text: what it took part in is to fail. */
void peer_lose(gather_t *gather, uint64_t instance);

/* Dropped if the peer is lost, which it is from then on if the message cannot be sent. A message to this
 * daemon itself is taken in before this returns. */
void peer_send(gather_t *gather, const peer_t *peer, const gather_message_t *message);

/* It is lost, with these ranks; "": none of the communicator's. */
blink_result_t peer_fail_lost(const peer_t *peer, const char *ranks);

/* What a sentence calls it. */
const char *peer_name(const peer_t *peer);

static inline uint32_t gather_init_timeout_ms(const gather_t *gather, const terms_t *terms)
{
    return terms->init_timeout_ms > 0 ? terms->init_timeout_ms : gather->config.init_timeout_ms;
}

static inline uint64_t gather_hash_id(const gather_t *gather, const unique_id_t *id)
{
    return id_hash((const uint8_t *)id, gather->config.id_secrets);
}

static inline bool comm_equals(gather_comm_t a, gather_comm_t b)
{
    return a.home == b.home && a.number == b.number;
}

#endif
