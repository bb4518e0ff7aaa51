/*
 * Replays of stored ops (stored.h).
 */
#ifndef BLINK_ENGINE_REPLAY_H
#define BLINK_ENGINE_REPLAY_H

#include "engine/engine.h"

/* Start the replays that streams have come to, one of each client; true if there was one. */
bool replay_poll(engine_t *engine);

#endif
