/*
 * Ops that await words of clients: copies of a staged op's next piece, or a stream. Each is kept with the
 * client that it waits for next. The words of a client that is active are looked at, some at every visit and
 * each in its turn; a client that rests rings its doorbell after it has written one (ring.h, client/serve.h).
 */
#ifndef BLINK_ENGINE_AWAIT_H
#define BLINK_ENGINE_AWAIT_H

#include "engine/op/op.h"

/* Which of the op's entries is not ready for its next piece; entry_count: all are. */
uint32_t await_find(const comm_op_t *op);

/* Look at some of the ops that await the client; the first that is ready goes on. True if there was one. */
bool await_look(engine_client_t *client);

#endif
