/* The facts of plan/collective.h, in one table where a table will do. */
#include "plan/collective.h"

typedef enum form { WHOLE, PER_SOURCE, PER_DESTINATION, PER_PAIR } form_t;

typedef struct facts {
    form_t form; /* what a block is */
    bool rooted, reduces, broadcasts, routes;
} facts_t;

static const facts_t facts[] = {
    [BLINK_ALLREDUCE] = {WHOLE, false, true, true, false},
    [BLINK_BROADCAST] = {WHOLE, true, false, true, false},
    [BLINK_REDUCE] = {WHOLE, true, true, false, false},
    [BLINK_ALLGATHER] = {PER_SOURCE, false, false, true, false},
    [BLINK_REDUCESCATTER] = {PER_DESTINATION, false, true, false, false},
    [BLINK_GATHER] = {PER_SOURCE, true, false, false, true},
    [BLINK_SCATTER] = {PER_DESTINATION, true, false, false, true},
    [BLINK_ALLTOALL] = {PER_PAIR, false, false, false, true},
    [BLINK_SENDRECV] = {WHOLE, true, false, false, true},
};

bool collective_valid(uint32_t collective)
{
    return collective < sizeof(facts) / sizeof(facts[0]);
}

bool collective_has_root(blink_collective_t collective)
{
    return facts[collective].rooted;
}

bool collective_reduces(blink_collective_t collective)
{
    return facts[collective].reduces;
}

bool collective_broadcasts(blink_collective_t collective)
{
    return facts[collective].broadcasts;
}

bool collective_routes(blink_collective_t collective)
{
    return facts[collective].routes;
}

bool collective_per_rank(blink_collective_t collective)
{
    return facts[collective].form != WHOLE && !facts[collective].routes;
}

uint64_t collective_block_count(blink_collective_t collective, uint32_t rank_count)
{
    switch (facts[collective].form) {
    case WHOLE:
        return 1;
    case PER_PAIR:
        return (uint64_t)rank_count * rank_count;
    default:
        return rank_count;
    }
}

/* The rank whose block it is, where blocks are one per rank: a tree's root, or the end of a route that is not
 * the collective's root. */
static uint32_t owner(const facts_t *of, uint32_t root_or_from, uint32_t to)
{
    return of->routes && of->form == PER_DESTINATION ? to : root_or_from;
}

uint64_t collective_block(blink_collective_t collective, uint32_t rank_count, uint32_t root_or_from,
                          uint32_t to)
{
    const facts_t *of = &facts[collective];
    if (of->form == PER_PAIR)
        return (uint64_t)root_or_from * rank_count + to;
    return of->form == WHOLE ? 0 : owner(of, root_or_from, to);
}

uint32_t collective_in_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to)
{
    const facts_t *of = &facts[collective];
    if (of->form == PER_PAIR)
        return to;
    return of->form == PER_DESTINATION ? owner(of, root_or_from, to) : 0;
}

uint32_t collective_out_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to)
{
    const facts_t *of = &facts[collective];
    (void)to;
    return of->form == PER_PAIR || of->form == PER_SOURCE ? root_or_from : 0;
}

double collective_busbw_factor(blink_collective_t collective, uint32_t rank_count)
{
    double n = rank_count;
    if (rank_count < 2)
        return 1.0;
    if (collective == BLINK_ALLREDUCE)
        return 2.0 * (n - 1.0) / n;
    return facts[collective].form == WHOLE ? 1.0 : (n - 1.0) / n;
}
