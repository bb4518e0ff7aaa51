/*
 * Communicators that are made of the ranks of another one, their parent, by blink_comm_split() and
 * blink_comm_duplicate(). While the ranks of such a child gather, each place that is not taken is expected of
 * a rank of the parent: if that rank goes, or the parent is aborted, the gathering fails at once. Ranks of
 * other hosts are expected as long as the parent has not ended: what becomes of a single one is not known
 * here. Where the child is made of the parent's survivors nothing but a rank that goes makes it fail.
 */
#ifndef BLINK_CHILDREN_H
#define BLINK_CHILDREN_H

#include "control/comms/roster.h"

/* Of a new roster, whose ranks nobody expects yet. */
void children_init(roster_t *parent);

/*
 * Note of whom a new roster's places are expected; nothing if the request names no parent. The list ends for
 * a place when its rank joins, and for all of them with the gathering. Errors: NOT_FOUND (no such parent),
 * INVALID_ARGUMENT (the places do not fit the parent), PEER_LOST (a rank that is expected has gone already),
 * ABORTED.
 */
blink_result_t children_expect(const member_t *parent, const Blinkwire__CommInit *message, roster_t *child);

/* A rank of a ready roster goes, in good order or not (`how`: "left", "disconnected"; not copied): gatherings
 * that expect it fail with PEER_LOST, in slices of the tenant's turns. */
void children_lose_rank(member_t *member, const char *how);

/* A rank aborts its ready roster: gatherings that expect any of its ranks fail with ABORTED, in slices. */
void children_abort(roster_t *parent, const member_t *aborter);

/* The parent, whose hosts know how it has ended, has ended: gatherings that expect ranks of other hosts fail
 * with that, in slices. */
void children_end(roster_t *parent);

/* The roster goes: nobody of it is expected any more. */
void children_forget(roster_t *parent);

/* Whether the place of a roster that gathers may be taken. Errors: PEER_LOST, ABORTED (the gathering is to
 * fail, and has not had its slice yet). */
blink_result_t children_check(const member_t *place);

/* Whether gatherings that expect ranks of the roster have not failed yet: the roster is then freed with the
 * last of them. */
static inline bool children_are_failing(const roster_t *parent)
{
    return !list_is_empty(&parent->losing);
}

#endif
