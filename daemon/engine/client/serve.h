/*
 * Whom the loop visits. A client that does something is *active*: its ring, the words that its ops await and
 * its stored ops are looked at, a few in each visit, and as many clients of each tenant are visited in a
 * turn. A client that has done nothing for a while *rests*: it costs nothing until it rings its doorbell.
 *
 * A client is told to ring by the word of its ring that says that the engine sleeps. The argument at the top
 * of ring.h holds for every client by itself: first the client is told, then its queue and every word that an
 * op of it awaits are looked at once more, visit by visit (looks_owed), and only then does it rest. What it
 * publishes later it publishes after it could read that it must ring, and a doorbell that has rung is heard
 * by the next clients_listen(), also if that comes long after. A client for which all of that has been done
 * is *settled*. The engine itself sleeps in the same way: while it is drowsy (engine->drowsy) every client
 * that is visited is told and settles, and once no active client is unsettled the engine sleeps. Whoever is
 * found to have done something, or has rung, is not settled any more; who is told otherwise hears it when it
 * is visited.
 *
 * What a GPU writes nobody rings for: a client with stored ops, or whose ops await such a word, does not
 * rest.
 */
#ifndef BLINK_ENGINE_SERVE_H
#define BLINK_ENGINE_SERVE_H

#include "engine/client/client.h"

/* Visit some clients of every tenant that has active ones, and clients that are being removed; true if there
 * was anything to do. */
bool clients_serve(engine_t *engine);

/* Activate those that have rung their doorbells, waiting for one up to so long (NULL: without end). */
void clients_listen(engine_t *engine, const struct timespec *timeout);

#endif
