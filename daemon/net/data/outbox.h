/*
 * What waits to go over an endpoint's connection for control: frames and small moves, copied, as bytes in
 * their order. It is there before the endpoint has a transport, which takes from its front. What has gone may
 * be kept until the peer has taken it in: then it goes again over connections that are made anew.
 */
#ifndef BLINK_DATA_OUTBOX_H
#define BLINK_DATA_OUTBOX_H

#include "base/vec.h"
#include "net/data/transport.h"

struct outbox {
    VEC(uint8_t) bytes;
    size_t gone_bytes;  /* those at the front that have gone, */
    size_t taken_bytes; /* and of these, those that nobody needs any more */
    uint64_t position;  /* so many went before the first one that is needed */
    bool keeps;         /* what has gone is needed until the peer has taken it in */
    bool waits;         /* nothing goes until it is known where to go on */
};

void outbox_free(outbox_t *outbox);

/* Put a control frame behind what waits. Errors: QUOTA (more than DATA_UNSENT_MOST_BYTES would wait, or be
 * kept), NO_MEMORY. */
blink_result_t outbox_add(outbox_t *outbox, const wire_frame_t *frame, const void *payload);

/* Put a move behind the control frames, if it is small and little waits, or if it must stay in order: of such
 * the receiver has memory for all that can be sent. False: it is not put there. Else its
 * source may be used for something else, and it is marked as copied; not *whole: pages of the source are not
 * there, and zeros go in their stead. */
bool outbox_add_move(outbox_t *outbox, transport_move_t *move, bool *whole);

/* What waits and may go, and that so much of it has gone. */
const uint8_t *outbox_front(const outbox_t *outbox);
size_t outbox_waiting(const outbox_t *outbox);
void outbox_gone(outbox_t *outbox, size_t bytes);

/* The peer has taken in so many bytes of all that has ever gone. Less than before changes nothing. Errors:
 * PROTOCOL (they have not gone). */
blink_result_t outbox_taken(outbox_t *outbox, uint64_t bytes);

/* There are no connections: nothing goes. Then there are to be other ones, and the peer has taken in so many
 * bytes: the rest goes again. Errors: as outbox_taken(). */
void outbox_hold(outbox_t *outbox);
blink_result_t outbox_resume(outbox_t *outbox, uint64_t bytes);

#endif
