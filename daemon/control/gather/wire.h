/*
 * Messages of gatherings as two daemons exchange them (proto/peer.proto, Gather), and back: what comes from a
 * peer is checked as a stranger's would be.
 */
#ifndef BLINK_GATHER_WIRE_H
#define BLINK_GATHER_WIRE_H

#include "base/arena.h"
#include "control/gather/gather.h"
#include "peer.pb-c.h"

/* What *written refers to lives in the arena, or is the message's. A JOIN says which topology `own` has.
 * Errors: NO_MEMORY. */
blink_result_t gather_write(const gather_message_t *message, const gather_host_t *own, arena_t *arena,
                            Blinkpeer__Gather *written);

/* What *read refers to lives in the arena, or is the message's. A JOIN tells the topology of `from`. Errors:
 * PROTOCOL (what is wrong), NO_MEMORY. */
blink_result_t gather_read(const Blinkpeer__Gather *message, arena_t *arena, gather_host_t *from,
                           gather_message_t *read);

#endif
