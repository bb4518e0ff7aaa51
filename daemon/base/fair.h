/*
 * Deficit round robin: who is next of those that wait for their share of something, when each may take more
 * or less at a time (M. Shreedhar, G. Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", 1995).
 * When its turn comes a share is given a quantum for each unit of its weight. It pays for what it takes, and
 * goes to the end of the round once it has nothing left. What it was given and did not use it keeps, so that
 * leaving the round and coming back gains nothing; and who comes back with something left stands first.
 */
#ifndef BLINK_FAIR_H
#define BLINK_FAIR_H

#include "base/list.h"

#include <stdint.h>

typedef struct fair_share {
    list_t of_round;
    int64_t credit;  /* what it may still take; less than 0: it has taken more than that */
    uint32_t weight; /* not 0 */
} fair_share_t;

typedef struct fair_round {
    list_t waiting; /* fair_share_t.of_round, the next one first */
    int64_t quantum;
} fair_round_t;

/* More is not charged at once: nobody takes so much. */
#define FAIR_COST_MAX ((uint64_t)1 << 60)

static inline void fair_round_init(fair_round_t *round, int64_t quantum)
{
    list_init(&round->waiting);
    round->quantum = quantum;
}

/* For a round that has this quantum. The share begins with what a round would give it. */
static inline void fair_share_init(fair_share_t *share, uint32_t weight, int64_t quantum)
{
    list_init(&share->of_round);
    share->credit = quantum * weight;
    share->weight = weight;
}

/* Whether the share is in a round. */
static inline bool fair_is_waiting(const fair_share_t *share)
{
    return !list_is_empty(&share->of_round);
}

/* The share has something to do from now on. */
static inline void fair_enter(fair_round_t *round, fair_share_t *share)
{
    if (fair_is_waiting(share))
        return;
    if (share->credit > 0)
        list_prepend(&round->waiting, &share->of_round);
    else
        list_append(&round->waiting, &share->of_round);
}

/* The share has nothing to do any more. */
static inline void fair_leave(fair_share_t *share)
{
    list_remove(&share->of_round);
}

static inline void fair_go_last(fair_round_t *round, fair_share_t *share)
{
    list_remove(&share->of_round);
    list_append(&round->waiting, &share->of_round);
}

/* Make the rounds at once that pay debts only: all but the last before somebody has something left. */
static inline void fair_skip_rounds(const fair_round_t *round)
{
    int64_t rounds = INT64_MAX;
    LIST_FOR_EACH (link, &round->waiting) {
        const fair_share_t *share = CONTAINER_OF(link, fair_share_t, of_round);
        int64_t own = share->credit > 0 ? 0 : -share->credit / (round->quantum * share->weight);
        rounds = own < rounds ? own : rounds;
        if (rounds == 0)
            return;
    }
    LIST_FOR_EACH (link, &round->waiting) {
        fair_share_t *share = CONTAINER_OF(link, fair_share_t, of_round);
        share->credit += rounds * round->quantum * share->weight;
    }
}

/* Whose turn it is; NULL: nobody waits. */
static inline fair_share_t *fair_next(fair_round_t *round)
{
    fair_share_t *first = LIST_FIRST(&round->waiting, fair_share_t, of_round);
    if (first && -first->credit >= round->quantum * first->weight)
        fair_skip_rounds(round);
    while ((first = LIST_FIRST(&round->waiting, fair_share_t, of_round)) && first->credit <= 0) {
        first->credit += round->quantum * first->weight;
        if (first->credit <= 0)
            fair_go_last(round, first); /* it has taken more than a round gives */
    }
    return first;
}

/* The share has taken so much. */
static inline void fair_charge(fair_round_t *round, fair_share_t *share, uint64_t taken)
{
    share->credit -= (int64_t)(taken < FAIR_COST_MAX ? taken : FAIR_COST_MAX);
    if (share->credit <= 0 && fair_is_waiting(share))
        fair_go_last(round, share);
}

#endif
