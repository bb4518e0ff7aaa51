/*
 * Communicators that are made of the ranks of another one, their parent, by blink_comm_split() and
 * blink_comm_duplicate(). While the ranks of such a child gather, each place that is not taken is expected of
 * a rank of the parent: if that rank goes, or the parent is aborted, the gathering fails at once.
 */
#ifndef BLINK_CHILDREN_H
#define BLINK_CHILDREN_H

#include "control/comms/roster.h"

/*
 * Note of whom a new roster's places are expected; nothing if the request names no parent. The list ends for
 * a place when its rank joins, and for all of them with the gathering. Errors: NOT_FOUND (no such parent),
 * INVALID_ARGUMENT (the places do not fit the parent), PEER_LOST (a rank that is expected has gone already),
 * ABORTED.
 */
blink_result_t children_expect(const member_t *parent, const Blinkwire__CommInit *message, roster_t *child);

/* A rank of a ready roster goes, in good order or not (`how`: "left", "disconnected"): gatherings that expect
 * it fail with PEER_LOST. */
void children_lose_rank(member_t *member, const char *how);

/* A ready roster is aborted, with this thread's error text: gatherings of its ranks fail with ABORTED. */
void children_abort(roster_t *parent);

#endif
