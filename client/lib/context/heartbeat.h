/*
 * Whether the daemon is alive. While ops are under way the watcher asks the engine by the ring's ping, and
 * while requests wait for replies it asks the control thread by Ping; both answer in every turn, however busy
 * they are. Time counts in steps of the watcher's own, so that a client which is itself stopped for long does
 * not take the daemon for silent.
 */
#ifndef CLIENT_HEARTBEAT_H
#define CLIENT_HEARTBEAT_H

#include "blink/blink.h"

#include <stdint.h>

/** One thread of the daemon. */
typedef struct heart {
    bool asked;
    uint64_t silent_ns; /* since then, without an answer */
} heart_t;

typedef struct heartbeat {
    uint64_t timeout_ns; /* 0: the daemon is never given up */
    uint64_t looked_ns;
    uint64_t received; /* messages from the daemon when the control thread was asked */
    heart_t engine, control;
} heartbeat_t;

void heartbeat_init(heartbeat_t *heartbeat, double timeout_s);

/** How often the watcher is to look, for poll(); -1: never. */
int heartbeat_period_ms(const heartbeat_t *heartbeat);

/** Look, if it is time to. Errors: TIMEOUT (no answer for too long), those of connection_post(). */
blink_result_t heartbeat_look(blink_context_t *context);

#endif
