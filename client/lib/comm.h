/* One rank of a communicator, as the library keeps it. */
#ifndef CLIENT_COMM_H
#define CLIENT_COMM_H

#include "blink/blink.h"
#include "ops.h"

#include "blink.pb-c.h"

struct blink_comm {
    blink_context_t *context;
    blink_comm_t *next; /* of the context's; under control.lock */
    uint32_t rank, rank_count;
    uint32_t device; /* this and member are set when the daemon answers and constant then */
    uint32_t member; /* the daemon's handle; 0 before */
    ops_queue_t queue;
    blink_result_t async_result; /* this and async_text: under control.lock */
    char async_text[BLINK_ERROR_TEXT_BYTES];
};

/** The daemon has answered: enter the communicator among the context's. Under control.lock. */
void comm_joined(blink_comm_t *comm, const Blinkwire__CommInitReply *reply);

/** The daemon gave a communicator up. Under control.lock; `comms` is the context's list. */
void comm_lost(blink_comm_t *comms, const Blinkwire__CommLost *event);

#endif
