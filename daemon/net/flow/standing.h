/*
 * Standing landings: each communicator has a few for each peer, which are told to the peer once, and the k-th
 * collective uses the one that is k modulo their number. So data of small ops need not wait for BEGIN. With n
 * of them the rule is k < ended + n on both sides, where `ended` counts the first ops of the communicator
 * that have ended on the receiver's host and whose landings are settled:
 *
 *   - the k-th op begins on a host when the rule holds there for all its peers, and its BEGIN tells each of
 *     them `ended`;
 *   - a sender sends for the k-th op when the rule holds for what the receiver's last BEGIN told it. So BEGIN
 *     of the k-th op is always enough; where hosts go in step, an earlier BEGIN allows it already.
 *
 * What comes names its round, k divided by n. A move for an earlier op, or for any op while the landing is
 * settled, is read and dropped; another one for a later op is refused.
 */
#ifndef BLINK_STANDING_H
#define BLINK_STANDING_H

#include "net/flow/landing.h"

/* Landings of one set. The search of the tests is compiled with fewer. */
#ifndef STANDING_MOST
#define STANDING_MOST 4u
#endif

typedef struct standing {
    landing_t landings[STANDING_MOST];
    flow_receiver_t *flows; /* flow_count for each landing */
    uint32_t count, flow_count;
    uint64_t ended; /* the first so many ops have ended here, and their landings are settled */
} standing_t;

/* `count` landings, a power of two up to STANDING_MOST, each of so many flows and bytes, for ops from
 * `ended` on: those before have ended. Errors: QUOTA, NO_MEMORY; then there are none. */
blink_result_t standing_open(landings_t *landings, standing_t *standing, uint32_t count, uint32_t flow_count,
                             uint64_t bytes, uint64_t ended);

/* No op of the communicator begins any more, and none is under way: the memory is given back. The flow
 * numbers stay, for the peer may still send; what comes is dropped. */
void standing_retire(landings_t *landings, standing_t *standing);

/* The communicator has ended: all ops that began are settled, and the peer has said that it sends no more, or
 * the endpoint is fenced. */
void standing_close(landings_t *landings, standing_t *standing);

/* Whether the k-th op may begin on this host, as far as this peer is concerned. All ops of the
 * communicator obey, and one that takes nothing in there says so by landing_agree() with no moves: at its
 * BEGIN from the peer, or at its end if its program does not join the peer. That fails if the peer has sent,
 * and then the peer's FAIL settles the landing. */
bool standing_may_begin(const standing_t *standing, uint64_t k);

/* The landing of the k-th op; NULL: there is none yet, or it is settled and for a later op by now. */
landing_t *standing_landing(standing_t *standing, uint64_t k);

/* The first `ended` ops have ended on this host, and their landings are settled: landing_cut() has done that
 * for those that still waited for something. Fewer than before changes nothing. */
void standing_advance(standing_t *standing, uint64_t ended);

/* The sender's rule: whether data of the k-th op may go, when the last BEGIN of the receiver said that its
 * first `ended` ops have ended. */
static inline bool standing_may_send(uint32_t count, uint64_t ended, uint64_t k)
{
    return k < ended + count;
}

#endif
