/*
 * Gatherings at this home: who has come, whether they agree, and, while READY spreads, whom to tell if the
 * communicator fails before it has begun everywhere.
 */
#ifndef BLINK_GATHER_HOME_H
#define BLINK_GATHER_HOME_H

#include "control/gather/peer.h"

/* One rank's place. */
typedef struct place {
    struct guest *guest; /* NULL: nobody has come */
    table_link_t of_devices;
    uint32_t device, ticket;
    bool on_gpu;
} place_t;

/* A host of whose ranks some have places. */
typedef struct guest {
    struct home *home;
    peer_t *peer;
    list_t of_home, of_peer;
    table_link_t of_attempts; /* in gather->guests */
    uint64_t attempt;
    uint32_t index; /* in READY */
    bool is_named;  /* in the error of a time-out */
} guest_t;

typedef struct home {
    table_link_t of_ids, of_spreading; /* in gather->homes; then in gather->spreading */
    deadline_t deadline;
    unique_id_t id;
    uint32_t uid;
    terms_t terms;
    list_t guests; /* in the order in which they came */
    table_t devices;
    uint32_t first_rank, joined_count, guest_count, foreign_count;
    gather_comm_t comm; /* once it is complete */
    terms_note_t note;
    place_t places[];
} home_t;

/* Ranks come. The gathering, if they make it complete; else NULL. */
home_t *home_take_join(gather_t *gather, peer_t *from, const gather_message_t *join);

/* A rank has gone of a host that is no guest: what its ranks were to come to fails, and the host hears so. */
void home_take_left(gather_t *gather, const peer_t *from, const gather_message_t *left);

/* A complete gathering becomes a communicator: *ready is what its hosts are to hear; home_free_ready() frees
 * what that refers to. Errors: all have been told. */
blink_result_t home_complete(gather_t *gather, home_t *home, gather_message_t *ready);
void home_free_ready(const gather_message_t *ready);

static inline bool home_is_complete(const home_t *home)
{
    return home->comm.number != 0;
}

/* The gathering whose READY spreads; NULL: all hosts have it, or it has failed. */
home_t *home_find_spreading(const gather_t *gather, gather_comm_t comm);

/* Every host has READY. */
void home_settled(gather_t *gather, home_t *home);

/* All hosts are told this code and this thread's error text, and the gathering ends. */
void home_fail(gather_t *gather, home_t *home, blink_result_t code);

/* The host's guest of this attempt, complete or not; NULL: it has none. */
const guest_t *home_find_guest(const gather_t *gather, const peer_t *peer, uint64_t attempt);

/* That a guest's peer is lost, with its ranks: PEER_LOST. */
blink_result_t home_lost_error(const guest_t *guest);

/* Do one thing that is due at gather->now_ms, but for what is spreading. False: nothing was. */
bool home_work(gather_t *gather);

#endif
