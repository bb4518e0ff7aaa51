/*
 * The watcher: the thread of a context that receives what the daemon sends and moves on what goes on without
 * the application's calls.
 *
 * When the connection ends, or the daemon gives no sign of life for too long (heartbeat.h), it has every
 * unfinished op and every waiting request fail with DAEMON_LOST, so that no thread waits for a daemon that is
 * gone. From then on until the context is closed it does the daemon's part for streams, which is to let them
 * go on.
 */
#ifndef CLIENT_WATCHER_H
#define CLIENT_WATCHER_H

#include "blink/blink.h"

/** Errors: SYSTEM. */
blink_result_t watcher_start(blink_context_t *context);

/** Disconnect; wait until the daemon has let go of the context's memory, but not for ever, and streams have
 * passed the ops that they waited for; end the watcher. */
void watcher_stop(blink_context_t *context);

#endif
