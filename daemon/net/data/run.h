/*
 * A run: the wire lanes of one op's run on this host, as flows over the endpoints of the hosts that they come
 * from and go to.
 *
 * Executors tell how far lanes are ready from any thread, in the middle of a step: that is stored, and the
 * run posted to whoever has the turn. All else is done with the turn.
 */
#ifndef BLINK_DATA_RUN_H
#define BLINK_DATA_RUN_H

#include "net/data/standing.h"

/* The flows between this host and another one. */
typedef struct run_peer {
    peer_flows_t flows;
    data_run_t *run;
    uint32_t host;
    uint16_t rank_count;            /* of the program, there */
    const lane_landing_t *out, *in; /* of the program; NULL: nothing goes there, or comes from there */
    /* What goes there, by lane of `out`. */
    flow_sender_t *senders;
    uint64_t *due; /* bitmap: flows that may have moves to be sent */
    uint32_t next_due;
    uint32_t unsettled;      /* senders */
    uint32_t first_sequence; /* of moves, on the wire */
    bool agreed;
    bool suits_out, suits_in; /* it lands in a standing landing, if there is one */
    bool may_send;            /* the moves have credit, by BEGIN or before it */
    bool borrows;             /* by BEGIN: they go to a landing that is lent, */
    data_keys_t remote_keys;  /* which this host's device may write to by these keys */
    uint64_t remote_address;  /* 0: it may not */
    bool looked_for_source;
    const data_keys_t *source; /* by which it may read send slots; NULL: it may not, or nobody has looked */
    const lane_geometry_t *there; /* how the peer places what comes: the run's own geometry, or: */
    lane_geometry_t other;
    /* What comes from there, by lane of `in`. */
    flow_receiver_t *receivers;
    uint32_t *moves;    /* of each in this op */
    uint32_t *told;     /* what the executor was told of each */
    landing_t *landing; /* the next one, or a standing one; NULL: nothing comes from there, or nothing yet */
    landing_t lent;
    data_keys_t keys;     /* that the peer is told of `lent`, if that was shown when it was lent, */
    uint64_t address;     /* where that is; 0: it was not shown, */
    uint32_t shown_round; /* and over the connections of which round; else 0 */
    const twin_t *twin;   /* of `lent`, where GPUs read what comes; NULL: in `lent` */
    bool twin_ordered;    /* as exec_wire_device() says */
    bool failed;          /* the peer's FAIL has come */
    bool given_up; /* the op has failed: nobody waits for the peer's BEGIN, and for what comes to a standing
                      landing */
} run_peer_t;

struct data_run {
    data_t *data;
    exec_instance_t *instance;
    const lane_program_t *program;
    void *context, *tenant;
    uint64_t charged_bytes;
    data_standing_t *standing;    /* NULL: the op has no part in standing landings */
    uint64_t number, first_ended; /* as data_run_config_t has them */
    void (*go_on)(exec_instance_t *instance,
                  exec_task_t *lane); /* what is done with a lane that a move wakes */
    exec_wires_t wires;
    void **landings;           /* by landing of the program */
    uint64_t *device_landings; /* the same, of those that have a twin */
    uint32_t output_count;
    landing_output_t *outputs; /* of the ranks on this host, in their order */
    uint16_t *place_of;        /* by rank: its output among those of its host, from 1 */
    run_peer_t *peers;
    uint32_t peer_count;
    uint32_t *peer_of_host; /* PLAN_NONE: no wire lanes go there or come from there */
    /* By wire lane. */
    uint32_t first_lane, lane_count;
    uint32_t *peer_of;
    _Atomic uint32_t *ready;   /* as the executor told */
    _Atomic uint64_t *raised;  /* bitmap: of which it has told since that was looked at */
    _Atomic bool posted;       /* the item is in the mailbox */
    _Atomic bool abort_posted; /* the executor has aborted the run */
    mailbox_item_t item;
    /* The life of the run. */
    bool started, ended; /* data_run_start(), data_run_ended() */
    uint32_t open;       /* lanes of which the executor has not been told all */
    bool aborted;        /* abort_posted was seen */
    bool failed; /* a page was not there, or a device flushed nothing: the executor is told nothing more */
    bool told_aborted; /* handler.aborted was called */
    bool settles;      /* data_run_settle() */
    bool settled;      /* handler.settled was called */
};

extern const peer_flows_calls_t run_peer_calls;

/* The executor's side of exec_wires_t, and what comes of it. */
void run_on_ready(void *context, uint32_t lane, uint32_t sequence);
void run_on_aborted(void *context);
void run_on_posted(mailbox_item_t *item);

/* Tell those who wait for it that nothing is under way any more, if so. The run may be gone afterwards as far
 * as the executor is concerned. */
void run_check_settled(data_run_t *run);

/* Whether nothing is under way between this host and the peer any more. */
bool run_peer_is_settled(const run_peer_t *peer);

/* No move goes to the peer that has not gone. */
void run_peer_stop(run_peer_t *peer);

/* ---- run_landing.c ---- */

/* Of the landing that is lent. */
uint64_t run_peer_landing_bytes(const run_peer_t *peer);

/* Find or lend where the peer's moves land; moves may have come to a standing landing before. Errors: QUOTA,
 * NO_MEMORY. */
blink_result_t run_peer_find_landing(run_peer_t *peer);

/* ---- run_moves.c ---- */

void run_peer_give_up(run_peer_t *peer);

/* Whether what comes from the peer lands in a standing landing. */
static inline bool run_peer_stands(const run_peer_t *peer)
{
    return peer->landing && peer->landing != &peer->lent;
}

#endif
