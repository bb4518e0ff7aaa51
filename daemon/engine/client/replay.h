/*
 * Replays of stored ops (stored.h).
 */
#ifndef BLINK_ENGINE_REPLAY_H
#define BLINK_ENGINE_REPLAY_H

#include "engine/engine.h"

/* Look at some of the client's stored ops, and start the replay of the first that its stream has come to.
 * True if there was one, or one that had failed. */
bool replay_look(engine_client_t *client);

#endif
