/*
 * What waits to go over an endpoint's connection for control: frames and small moves, copied, as bytes in
 * their order. It is there before the endpoint has a transport, which takes from its front.
 */
#ifndef BLINK_DATA_OUTBOX_H
#define BLINK_DATA_OUTBOX_H

#include "base/vec.h"
#include "net/data/transport.h"

struct outbox {
    VEC(uint8_t) bytes;
    size_t gone_bytes; /* those at the front that have gone */
};

void outbox_free(outbox_t *outbox);

/* Put a control frame behind what waits. Errors: QUOTA (more than DATA_UNSENT_MOST_BYTES would wait),
 * NO_MEMORY. */
blink_result_t outbox_add(outbox_t *outbox, wire_type_t type, const void *payload, uint32_t bytes);

/* Put a move behind the control frames, if it is small and little waits, or if it must stay in order: of such
 * the receiver has memory for all that can be sent. False: it is not put there. Else its
 * source may be used for something else; not *whole: pages of the source are not there, and zeros go in their
 * stead. */
bool outbox_add_move(outbox_t *outbox, const transport_move_t *move, bool *whole);

/* What waits, and that so much of it has gone. */
const uint8_t *outbox_front(const outbox_t *outbox);
size_t outbox_waiting(const outbox_t *outbox);
void outbox_gone(outbox_t *outbox, size_t bytes);

#endif
