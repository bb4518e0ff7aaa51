/*
 * Plans of few hops, for payloads whose time is latency: one hop, a binomial tree, recursive doubling. The
 * three differ in a single rule: who a rank's parent is in the tree of a given
 * root.
 */
#include "error.h"
#include "names.h"
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

/* Most channels, so most parallel switches that a plan spreads over. */
#define WAYS_MOST 16u

/* The parent of a rank other than the root, in the tree of that root over n ranks. */
typedef uint32_t parent_rule_t(uint32_t n, uint32_t root, uint32_t rank);

typedef struct maker {
    const topo_t *topo;
    plan_t *plan;
    parent_rule_t *parent_of;
    uint32_t n;
    uint32_t choice; /* which of the parallel ways between two ranks */
    uint32_t *paths; /* n × n, of this choice; PLAN_NONE: not looked for yet */
} maker_t;

/* ---- the rules ---- */

static uint32_t one_hop_parent(uint32_t n, uint32_t root, uint32_t rank)
{
    (void)n;
    (void)rank;
    return root;
}

static uint32_t floor_power_of_two(uint32_t n)
{
    uint32_t power = 1;
    while (2 * power <= n)
        power *= 2;
    return power;
}

/*
 * The number of a rank as seen from the root loses its lowest bit: a rank's far partners lie nearer to the
 * root than its near ones, so that where consecutive ranks share a host, one edge enters each host. Numbers
 * are differences, or for powers of two exclusive ors, which keep every edge along one dimension of the
 * hypercube.
 */
static uint32_t binomial_parent(uint32_t n, uint32_t root, uint32_t rank)
{
    if (floor_power_of_two(n) == n) {
        uint32_t number = rank ^ root;
        return (number & (number - 1)) ^ root;
    }
    uint32_t number = (rank + n - root) % n;
    return ((number & (number - 1)) + root) % n;
}

/*
 * Every rank exchanges with its partners at distance 1, 2, 4, …: what came from the root comes last over the
 * highest bit in which rank and root differ. Where n is no power of two, the first ranks are folded in pairs
 * (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005, §4): the
 * odd one of a pair only talks to the even one, and the even ones and the rest are the hypercube.
 */
static uint32_t doubling_parent(uint32_t n, uint32_t root, uint32_t rank)
{
    uint32_t pairs = n - floor_power_of_two(n);
    if (rank < 2 * pairs && rank % 2 == 1)
        return rank - 1;
    uint32_t from = root < 2 * pairs ? root / 2 : root - pairs; /* corners of the hypercube */
    uint32_t to = rank < 2 * pairs ? rank / 2 : rank - pairs;
    if (from == to)
        return root; /* the odd root's even partner */
    uint32_t corner = to ^ floor_power_of_two(from ^ to);
    if (corner == from)
        return root < 2 * pairs ? root - root % 2 : root;
    return corner < pairs ? 2 * corner : corner + pairs;
}

/* ---- filling a plan ---- */

static blink_result_t find_path(maker_t *m, uint32_t from, uint32_t to, uint32_t *path)
{
    uint32_t *found = &m->paths[(size_t)from * m->n + to];
    if (*found == PLAN_NONE)
        BLINK_TRY(plan_shortest_path(m->topo, m->plan, from, to, m->choice, found));
    *path = *found;
    return BLINK_OK;
}

static blink_result_t grow_tree(maker_t *m, uint32_t root, bool reduce, plan_tree_t *tree)
{
    for (uint32_t rank = 0; tree->parent && rank < m->n; rank++) {
        if (rank == root)
            continue;
        uint32_t parent = m->parent_of(m->n, root, rank);
        tree->parent[rank] = parent;
        BLINK_TRY(find_path(m, reduce ? rank : parent, reduce ? parent : rank, &tree->path[rank]));
    }
    return BLINK_OK;
}

/* The way between a rank and the root along the root's tree, towards the root or away from it. */
static blink_result_t follow_tree(maker_t *m, uint32_t root, uint32_t rank, bool away, plan_part_t *part)
{
    uint32_t hops = 0;
    for (uint32_t at = rank; at != root; at = m->parent_of(m->n, root, at))
        hops++;
    BLINK_TRY(plan_set_route(part, hops));
    plan_route_t *route = &part->route;
    for (uint32_t i = 0, at = rank; i <= hops; i++) {
        route->ranks[away ? hops - i : i] = at;
        at = at == root ? root : m->parent_of(m->n, root, at);
    }
    for (uint32_t i = 0; i < hops; i++)
        BLINK_TRY(find_path(m, route->ranks[i], route->ranks[i + 1], &route->paths[i]));
    return BLINK_OK;
}

static blink_result_t fill_part(maker_t *m, uint32_t index, plan_part_t *part)
{
    const plan_t *plan = m->plan;
    switch (plan->collective) {
    case BLINK_GATHER:
        return follow_tree(m, plan->root, index, false, part);
    case BLINK_SCATTER:
        return follow_tree(m, plan->root, index, true, part);
    case BLINK_ALLTOALL:
        return follow_tree(m, index % m->n, index / m->n, false, part);
    case BLINK_SENDRECV:
        return follow_tree(m, plan->peer, plan->root, false, part);
    default:
        part->root = collective_has_root(plan->collective) ? plan->root : index;
        BLINK_TRY(grow_tree(m, part->root, true, &part->reduce));
        return grow_tree(m, part->root, false, &part->broadcast);
    }
}

/* A part per block, or of an allreduce per rank, unless one binomial tree does it. */
static uint32_t count_parts(const plan_t *plan)
{
    if (plan->collective == BLINK_ALLREDUCE)
        return plan->algorithm == BLINK_ALGORITHM_BINOMIAL ? 1 : plan->rank_count;
    return (uint32_t)collective_block_count(plan->collective, plan->rank_count);
}

/* How many equal ways lead from one rank to another; `first` is the first of them. */
static blink_result_t count_ways(const maker_t *m, uint32_t from, uint32_t to, uint32_t first, uint32_t *ways)
{
    uint32_t path = PLAN_NONE;
    for (*ways = 1; *ways < WAYS_MOST; ++*ways) {
        BLINK_TRY(plan_shortest_path(m->topo, m->plan, from, to, *ways, &path));
        if (path == first)
            break;
    }
    return BLINK_OK;
}

/* The most ways of any of the first n pairs of ranks that the first channel joins. */
static blink_result_t count_most_ways(const maker_t *m, uint32_t *most)
{
    size_t pairs = (size_t)m->n * m->n;
    uint32_t looked_at = 0, ways = 0;
    *most = 1;
    for (size_t i = 0; i < pairs && looked_at < m->n; i++) {
        if (m->paths[i] == PLAN_NONE)
            continue;
        BLINK_TRY(count_ways(m, (uint32_t)(i / m->n), (uint32_t)(i % m->n), m->paths[i], &ways));
        *most = ways > *most ? ways : *most;
        looked_at++;
    }
    return BLINK_OK;
}

static blink_result_t add_channel(maker_t *m)
{
    uint32_t parts = count_parts(m->plan);
    plan_channel_t *channel = NULL;
    BLINK_TRY(plan_add_channel(m->plan, 1.0, parts, &channel));
    memset(m->paths, 0xff, (size_t)m->n * m->n * sizeof(*m->paths));
    for (uint32_t i = 0; i < parts; i++)
        BLINK_TRY(fill_part(m, i, &channel->parts[i]));
    return BLINK_OK;
}

static blink_result_t add_channels(maker_t *m)
{
    uint32_t ways = 0;
    BLINK_TRY(add_channel(m));
    BLINK_TRY(count_most_ways(m, &ways));
    for (m->choice = 1; m->choice < ways; m->choice++)
        BLINK_TRY(add_channel(m));
    plan_normalise_shares(m->plan);
    return BLINK_OK;
}

static bool does(blink_algorithm_t algorithm, blink_collective_t collective)
{
    switch (algorithm) {
    case BLINK_ALGORITHM_BINOMIAL:
        return collective == BLINK_ALLREDUCE ||
               (collective_has_root(collective) && collective != BLINK_SENDRECV);
    case BLINK_ALGORITHM_RECURSIVE_DOUBLING:
        return collective == BLINK_ALLREDUCE || collective_per_rank(collective);
    default:
        return true;
    }
}

blink_result_t plan_make_latency(const topo_t *topo, plan_t *plan)
{
    uint32_t n = plan->rank_count;
    if (!does(plan->algorithm, plan->collective))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s does no %s", blink_name_algorithm(plan->algorithm),
                          blink_name_collective(plan->collective));
    maker_t maker = {.topo = topo,
                     .plan = plan,
                     .parent_of = plan->algorithm == BLINK_ALGORITHM_ONE_HOP    ? one_hop_parent
                                  : plan->algorithm == BLINK_ALGORITHM_BINOMIAL ? binomial_parent
                                                                                : doubling_parent,
                     .n = n,
                     .paths = malloc((size_t)n * n * sizeof(*maker.paths))};
    if (!maker.paths)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the paths between %u ranks", n);
    blink_result_t result = add_channels(&maker);
    free(maker.paths);
    return result;
}
