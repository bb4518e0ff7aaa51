/*
 * The ranks of this host that gather under one id. They join at the id's home together, in one message or a
 * few, and hear the home's word: a rank is refused, all have failed, or all are ready.
 */
#ifndef BLINK_GATHER_LOCAL_H
#define BLINK_GATHER_LOCAL_H

#include "control/gather/peer.h"

typedef struct local {
    table_link_t of_ids, of_attempts;
    list_t of_all, of_peer; /* on gather->all_locals, home->locals */
    list_t joins;           /* on gather->joining while there are ranks to be sent */
    deadline_t gives_up;    /* on gather->local_deadlines */
    uint64_t attempt;
    unique_id_t id;
    uint32_t uid;
    terms_t terms; /* of the ranks that are to be sent, or were sent last */
    peer_t *home;
    list_t unsent, sent; /* gather_rank_t.link */
    uint32_t unsent_count, sent_count;
    bool is_given_up;    /* a rank has gone: the home is told, and says so to the others */
    blink_result_t code; /* of that, as the text */
    char text[BLINK_ERROR_TEXT_BYTES];
} local_t;

/* gather_join() and gather_leave(). */
blink_result_t local_join(gather_t *gather, const unique_id_t *id, uint32_t uid, const terms_t *terms,
                          gather_rank_t *rank);
void local_leave(gather_t *gather, gather_rank_t *rank, blink_result_t code);

/* Messages of the home. */
void local_take_refused(gather_t *gather, const peer_t *from, const gather_message_t *message);
void local_take_failed(gather_t *gather, const peer_t *from, const gather_message_t *message);

/* Whether the ranks of this host that a READY names wait for it. If they do not, then the home has failed the
 * gathering already, or is about to (it has been told that a rank has gone, or it sees that READY is not
 * acknowledged), and tells all hosts why. */
bool local_expects(const gather_t *gather, const gather_message_t *ready, uint32_t own_host);

/* Whether a READY names ranks of this host. */
bool local_has_ranks(const gather_message_t *ready, uint32_t own_host);

/* Hand the ranks over to gather_calls_t.ready: its result. */
blink_result_t local_take_ready(gather_t *gather, const gather_message_t *ready, uint32_t own_host);

/* All ranks are told this code and this thread's error text, and the gathering ends. */
void local_fail(gather_t *gather, local_t *local, blink_result_t code);

/* A peer is lost that is the home. */
void local_fail_lost(gather_t *gather, local_t *local);

/* Without a word to the ranks. */
void local_destroy(gather_t *gather, local_t *local);

/* Do one thing that is due at gather->now_ms. False: nothing was. */
bool local_work(gather_t *gather);

#endif
