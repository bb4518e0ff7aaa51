/*
 * Replays of stored ops (stored.h). Of a large group a slice is submitted in each visit to its client. Until
 * the last one nothing else is taken of the client: its other submissions would become a part of the group.
 */
#ifndef BLINK_ENGINE_REPLAY_H
#define BLINK_ENGINE_REPLAY_H

#include "engine/engine.h"

/* Look at some of the client's stored ops, and start the replay of the first that its stream has come to.
 * True if there was one, or one that had failed. */
bool replay_look(engine_client_t *client);

/* Go on with the client's replay that has begun (client->replaying), for a slice. */
void replay_go_on(engine_client_t *client);

#endif
