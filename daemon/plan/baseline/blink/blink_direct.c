/* Trees that are written down instead of packed: one hop behind NVSwitches (the paper's section 3.4), and the
 * poster's AllReduce over fully connected groups. */
#include "error.h"
#include "plan/baseline/blink/blink_parts.h"

#include <math.h>
#include <stdlib.h>

/* ---- one hop ---- */

double blink_switch_GBps(const topo_t *topo, const plan_t *plan, const uint32_t *ranks, uint32_t rank_count,
                         uint32_t node)
{
    if (topo->nodes[node].kind != TOPO_SWITCH)
        return 0.0;
    double total_GBps = topo->nodes[node].total_GBps, width = INFINITY;
    if (total_GBps > 0.0)
        width = total_GBps / rank_count;
    for (uint32_t i = 0; i < rank_count; i++) {
        uint32_t out = topo_find_link(topo, plan->rank_node[ranks[i]], node);
        uint32_t in = topo_find_link(topo, node, plan->rank_node[ranks[i]]);
        if (out == TOPO_NONE || in == TOPO_NONE || !blink_in_class(&topo->links[out], BLINK_LINKS_NVLINK) ||
            !blink_in_class(&topo->links[in], BLINK_LINKS_NVLINK))
            return 0.0;
        width = fmin(width, fmin(topo->links[out].GBps, topo->links[in].GBps));
    }
    return width;
}

/* All ranks hang below the root, one hop away. */
static blink_result_t hang_star(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t root,
                                uint32_t node)
{
    part->root = root;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        if (rank != root)
            BLINK_TRY(blink_hang_through(topo, plan, part, rank, root, node));
    return BLINK_OK;
}

/* One rank hangs below the root, all others below that one. */
static blink_result_t hang_forwarded(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t by,
                                     uint32_t node)
{
    part->root = plan->root;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        if (rank != plan->root)
            BLINK_TRY(blink_hang_through(topo, plan, part, rank, rank == by ? plan->root : by, node));
    return BLINK_OK;
}

static blink_result_t fill_switch(const topo_t *topo, plan_t *plan, uint32_t node, double GBps)
{
    bool rooted = plan->root != PLAN_NONE;
    plan_channel_t *channel = NULL;
    BLINK_TRY(plan_add_channel(plan, GBps, rooted ? plan->rank_count - 1 : plan->rank_count, &channel));
    for (uint32_t part = 0; part < channel->part_count; part++) {
        uint32_t by = rooted && part >= plan->root ? part + 1 : part;
        BLINK_TRY(rooted ? hang_forwarded(topo, plan, &channel->parts[part], by, node)
                         : hang_star(topo, plan, &channel->parts[part], part, node));
    }
    return BLINK_OK;
}

blink_result_t blink_fill_one_hop(const topo_t *topo, plan_t *plan)
{
    uint32_t *ranks = malloc(plan->rank_count * sizeof(*ranks));
    if (!ranks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", plan->rank_count);
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        ranks[rank] = rank;
    blink_result_t result = BLINK_OK;
    for (uint32_t node = 0; result == BLINK_OK && node < topo->node_count; node++) {
        double GBps = blink_switch_GBps(topo, plan, ranks, plan->rank_count, node);
        if (GBps > 0.0)
            result = fill_switch(topo, plan, node, GBps);
    }
    free(ranks);
    plan_normalise_shares(plan);
    return result;
}

/* ---- fully connected groups ---- */

enum { UNGROUPED, FIRST, SECOND };

typedef struct groups {
    const topo_t *topo;
    const plan_t *plan;
    uint32_t n;
    uint8_t *side;     /* per rank */
    uint32_t *partner; /* per rank: the rank of the other group it forwards to, or PLAN_NONE */
    uint32_t *stack;
} groups_t;

static bool joined(const groups_t *g, uint32_t one, uint32_t other)
{
    uint32_t there = topo_find_link(g->topo, g->plan->rank_node[one], g->plan->rank_node[other]);
    uint32_t back = topo_find_link(g->topo, g->plan->rank_node[other], g->plan->rank_node[one]);
    return there != TOPO_NONE && back != TOPO_NONE &&
           blink_in_class(&g->topo->links[there], BLINK_LINKS_NVLINK) &&
           blink_in_class(&g->topo->links[back], BLINK_LINKS_NVLINK);
}

static blink_result_t groups_init(groups_t *g, const topo_t *topo, const plan_t *plan)
{
    uint32_t n = plan->rank_count;
    *g = (groups_t){.topo = topo, .plan = plan, .n = n};
    g->side = calloc(n, sizeof(*g->side));
    g->partner = malloc(n * sizeof(*g->partner));
    g->stack = malloc(n * sizeof(*g->stack));
    if (!g->side || !g->partner || !g->stack)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for groups of %u ranks", n);
    for (uint32_t rank = 0; rank < n; rank++)
        g->partner[rank] = PLAN_NONE;
    return BLINK_OK;
}

static void groups_fini(groups_t *g)
{
    free(g->side);
    free(g->partner);
    free(g->stack);
}

/* Two groups are fully connected exactly if any two ranks without a link stand on different sides: colour the
 * graph of missing links. Ranks that it leaves free go to the first side. */
static bool find_sides(groups_t *g)
{
    for (uint32_t start = 0; start < g->n; start++) {
        if (g->side[start] != UNGROUPED)
            continue;
        uint32_t height = 0;
        g->side[start] = FIRST;
        g->stack[height++] = start;
        while (height > 0) {
            uint32_t rank = g->stack[--height];
            for (uint32_t other = 0; other < g->n; other++) {
                if (other == rank || joined(g, rank, other))
                    continue;
                if (g->side[other] == g->side[rank])
                    return false;
                if (g->side[other] == UNGROUPED) {
                    g->side[other] = g->side[rank] == FIRST ? SECOND : FIRST;
                    g->stack[height++] = other;
                }
            }
        }
    }
    return true;
}

/* Pair ranks across; returns the number of pairs, or of ranks if there is one group. */
static uint32_t find_partners(groups_t *g)
{
    uint32_t pairs = 0, second = 0;
    for (uint32_t one = 0; one < g->n; one++) {
        second += g->side[one] == SECOND;
        for (uint32_t other = 0; g->side[one] == FIRST && other < g->n; other++) {
            if (g->side[other] != SECOND || g->partner[other] != PLAN_NONE || !joined(g, one, other))
                continue;
            g->partner[one] = other;
            g->partner[other] = one;
            pairs++;
            break;
        }
    }
    return second == 0 ? g->n : pairs;
}

/* The block of one rank of the first group: each group reduces it to its rank of the pair, the pair's ranks
 * forward to each other, and each group's rank sends the result on within it. */
static blink_result_t hang_block(const groups_t *g, plan_t *plan, plan_part_t *part, uint32_t root)
{
    part->root = root;
    for (uint32_t rank = 0; rank < g->n; rank++) {
        bool cross = g->side[rank] == SECOND;
        uint32_t parent = cross && rank != g->partner[root] ? g->partner[root] : root;
        if (rank != root)
            BLINK_TRY(blink_hang_rank(g->topo, plan, part, rank, parent, 0));
    }
    return BLINK_OK;
}

static blink_result_t fill_groups(groups_t *g, plan_t *plan)
{
    plan_channel_t *channel = NULL;
    uint32_t blocks = find_sides(g) ? find_partners(g) : 0;
    if (blocks == 0)
        return BLINK_OK;
    bool one_group = blocks == g->n;
    BLINK_TRY(plan_add_channel(plan, 1.0, blocks, &channel));
    for (uint32_t rank = 0, part = 0; rank < g->n; rank++)
        if (g->side[rank] == FIRST && (one_group || g->partner[rank] != PLAN_NONE))
            BLINK_TRY(hang_block(g, plan, &channel->parts[part++], rank));
    return BLINK_OK;
}

blink_result_t blink_fill_groups(const topo_t *topo, plan_t *plan)
{
    groups_t groups;
    blink_result_t result = groups_init(&groups, topo, plan);
    if (result == BLINK_OK)
        result = fill_groups(&groups, plan);
    groups_fini(&groups);
    return result;
}
