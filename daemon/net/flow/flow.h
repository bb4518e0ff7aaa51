/*
 * A flow: the moves of one wire lane in one op, from a sender to a receiver, numbered from 0. Moves leave in
 * order and may overtake one another on their way, since an endpoint has several connections.
 *
 * The receiver grants and the sender sends only what was granted: its one rule is sequence < credit. Credit
 * ends at the end of the op, at the places that the receiver has free, and FLOW_WINDOW moves behind the first
 * one that has not come; so whatever comes has its place, and what has come out of order is one 64-bit map.
 *
 * A flow is settled for the receiver when all that the sender says it sends has come: nothing more is written
 * for it. It is settled for the sender when all that it posted is done: nobody reads its sources any more.
 * An endpoint whose connections have failed is fenced: they are closed, and nothing that was under way comes
 * any more. It settles its flows, or makes connections again and has the flows resume: what has not come goes
 * again. So a source is done once the transport needs it no more and the receiver has said that the move has
 * come, or once a copy of it is kept for that.
 *
 * Pure state: no sockets, threads, clocks or allocation. Nothing blocks. A flow belongs to the proxy of its
 * endpoint; whoever calls has the proxy's turn.
 */
#ifndef BLINK_FLOW_H
#define BLINK_FLOW_H

#include "error.h"

#include <stdbool.h>
#include <stdint.h>

/* Moves that may be on their way at once; no more than there are bits in a map. The search of the tests is
 * compiled with fewer. */
#ifndef FLOW_WINDOW
#define FLOW_WINDOW 64u
#endif

/* The most moves of a flow. */
#define FLOW_MOVES_MAX (UINT32_MAX - 1)

/* The places of a flow whose moves all have memory at once, as in an output. */
#define FLOW_ALL_PLACES UINT32_MAX

/* ---- the sender's side ---- */

typedef struct flow_sender {
    uint32_t moves;    /* of the op */
    uint32_t ready;    /* the sources of moves below this one are ready */
    uint32_t credit;   /* the receiver has granted moves below this one */
    uint32_t posted;   /* moves below this one have been handed to the transport */
    uint32_t done;     /* the sources of moves below this one may be used for something else */
    bool stopped;      /* the op has failed: nothing new is posted */
    uint64_t finished; /* bit i: the source of move done + i is as well */
    uint64_t sent;     /* bit i: the transport has done with the source of move done + i, */
    uint64_t came;     /* or the receiver has said that it has come; with both it is finished */
    uint64_t again;    /* bit i: move done + i was lost and must be posted again */
} flow_sender_t;

/* Nothing is ready and nothing granted. At most FLOW_MOVES_MAX moves. */
void flow_sender_open(flow_sender_t *sender, uint32_t moves);

/* The sources of moves below `ready` are ready; fewer than before changes nothing. */
void flow_sender_ready(flow_sender_t *sender, uint32_t ready);

/* The receiver grants moves below `credit`; fewer than before changes nothing, since a CREDIT may be
 * repeated. Errors: PROTOCOL (the op has no such moves). */
blink_result_t flow_sender_grant(flow_sender_t *sender, uint32_t credit);

/* Take the next move that may be posted now; false: there is none. */
bool flow_sender_next(flow_sender_t *sender, uint32_t *sequence);

/* The transport has done with the source of a posted move, which is not needed any more: the move cannot be
 * lost unless the flow is. In any order, once for each move, and not with flow_sender_sent(). */
void flow_sender_done(flow_sender_t *sender, uint32_t sequence);

/* The transport has done with the source of a posted move, which may have to go again. As above. */
void flow_sender_sent(flow_sender_t *sender, uint32_t sequence);

/* The receiver says that the moves below `arrived` have come, and those whose bits are set in `came`, counted
 * from `arrived`. It may say it again. Errors: PROTOCOL (moves that were never posted). */
blink_result_t flow_sender_arrived(flow_sender_t *sender, uint32_t arrived, uint64_t came);

/* The op has failed on this host. Returns how far the flow has been sent, which FAIL tells the receiver:
 * moves below that one have come or will, no others. What must be posted again is posted still. */
uint32_t flow_sender_stop(flow_sender_t *sender);

/* Whether the op may end on this host as far as this flow is concerned: all moves, or with `stopped` those
 * that were posted, are done. */
bool flow_sender_is_settled(const flow_sender_t *sender);

/* The endpoint is fenced and the flow does not resume: the flow is stopped and settled. */
void flow_sender_cut(flow_sender_t *sender);

/* The endpoint is fenced, and the receiver has said of all that had come by then that it has. The other moves
 * that were posted and are not done go again. */
void flow_sender_resume(flow_sender_t *sender);

/* ---- the receiver's side ---- */

typedef struct flow_receiver {
    uint32_t moves;    /* that the sender sends if `ends`, else that it may send at most */
    uint32_t places;   /* moves that have memory at once: slots, or all of them */
    uint32_t granted;  /* moves below this one may come: what the sender has been told */
    uint32_t arrived;  /* all moves below this one have come */
    uint32_t consumed; /* the places of moves below this one are free again */
    bool ends;         /* the sender has said how many moves it sends */
    uint64_t came;     /* bit i: move arrived + i has come */
    uint64_t claimed;  /* bit i: move arrived + i has come or is being taken in */
} flow_receiver_t;

/* What is granted from the start, without a CREDIT. Of `moves` moves, `places` have memory at once: 1 or
 * more. Both sides know these numbers when the op begins. */
uint32_t flow_first_grant(uint32_t moves, uint32_t places);

/* The first grant is given. At most FLOW_MOVES_MAX moves. */
void flow_receiver_open(flow_receiver_t *receiver, uint32_t moves, uint32_t places);

/* A move begins to be taken in: call this before a byte is written. Until flow_receiver_arrive() the flow is
 * not settled. Errors: PROTOCOL (the move was not granted, or is a second one of its number). */
blink_result_t flow_receiver_claim(flow_receiver_t *receiver, uint32_t sequence);

/* A claimed move is there. Returns `arrived`, up to which the lane may go on. */
uint32_t flow_receiver_arrive(flow_receiver_t *receiver, uint32_t sequence);

/* The places of the moves below `consumed` are free again, because the lane has used these moves up, or
 * because a move to an output has a place of its own: then it need not have arrived. Fewer than before
 * changes nothing. */
void flow_receiver_consume(flow_receiver_t *receiver, uint32_t consumed);

/* Grant more moves if that is worth a CREDIT. True: the sender must be told, and `granted` is the credit.
 * Small advances are put off, so that not every move costs a CREDIT, but never such as leave the sender
 * nothing. */
bool flow_receiver_grant(flow_receiver_t *receiver);

/* The sender's BEGIN was found to agree with this host's: the flow has so many moves, which are all sent
 * unless a FAIL says otherwise. Not after flow_receiver_fail(). `moves` is at most what the flow was opened
 * with: the caller checks that before, for it is the peer's number. Errors: PROTOCOL (more have come). */
blink_result_t flow_receiver_agree(flow_receiver_t *receiver, uint32_t moves);

/* The sender's FAIL says how far it has sent; nothing is granted from now on. Errors: PROTOCOL (more have
 * come, or fewer were granted). */
blink_result_t flow_receiver_fail(flow_receiver_t *receiver, uint32_t sent);

/* Whether all that the sender sends has come. */
bool flow_receiver_is_settled(const flow_receiver_t *receiver);

/* The endpoint is fenced: what was being taken in will not arrive. The flow resumes with what has come, which
 * flow_sender_arrived() is told; or flow_receiver_cut() settles it without the rest. */
void flow_receiver_fence(flow_receiver_t *receiver);
void flow_receiver_cut(flow_receiver_t *receiver);

#endif
