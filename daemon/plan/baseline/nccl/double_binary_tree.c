/*
 * NCCL's trees for allreduce, for comparison: two complementary binary trees, each for half of the payload,
 * reduced to the root and broadcast from it along the same edges.
 */
#include "error.h"
#include "names.h"
#include "plan/baseline/nccl/cycles.h"
#include "plan/baseline/nccl/ring.h"

#include <stdlib.h>
#include <string.h>

typedef struct maker {
    const topo_t *topo;
    plan_t *plan;
    uint32_t n;
    uint32_t *parent; /* per rank: of the tree being made */
    rails_t rails;
    ring_search_t search;
    uint32_t rail;     /* for rail_way(): the rail in use */
    uint32_t *place;   /* for rail_way(): per rank, where in its host's walk it stands */
    rail_walk_t trail; /* for rail_way(): scratch */
    uint32_t hub;      /* for switch_way(): the switch in use */
    uint32_t choice;   /* for short_way(): which of parallel ways */
} maker_t;

/* The path from one rank to another that trees of a kind take. */
typedef blink_result_t (*way_t)(maker_t *m, uint32_t from, uint32_t to, uint32_t *path);

/* ---- the shape ---- */

/* In order: odd positions are leaves; position 0 is the root, with one child. */
static uint32_t in_order_parent(uint32_t count, uint32_t i)
{
    uint32_t lowest = i & (~i + 1u);
    uint32_t parent = (i ^ lowest) | lowest << 1;
    if (i == 0)
        return PLAN_NONE;
    return parent < count ? parent : i ^ lowest;
}

uint32_t double_binary_parent(uint32_t tree, uint32_t count, uint32_t i)
{
    bool mirrored = count % 2 == 0;
    if (tree == 0)
        return in_order_parent(count, i);
    uint32_t parent = in_order_parent(count, mirrored ? count - 1 - i : (i + count - 1) % count);
    if (parent == PLAN_NONE)
        return PLAN_NONE;
    return mirrored ? count - 1 - parent : (parent + 1) % count;
}

/* ---- ways ---- */

static blink_result_t short_way(maker_t *m, uint32_t from, uint32_t to, uint32_t *path)
{
    return plan_shortest_path(m->topo, m->plan, from, to, m->choice, path);
}

static blink_result_t switch_way(maker_t *m, uint32_t from, uint32_t to, uint32_t *path)
{
    uint32_t nodes[] = {m->plan->rank_node[from], m->hub, m->plan->rank_node[to]};
    return ring_intern_nodes(m->topo, m->plan, nodes, 3, path);
}

static const rail_walk_t *walk_of(const maker_t *m, uint32_t rank)
{
    return &m->rails.walks[m->rails.rank_host[rank] * m->rails.rail_count + m->rail];
}

/* Between neighbours of a host along its walk, either way; between the first ranks of two hosts by way of the
 * NICs where the rail enters both. */
static blink_result_t rail_way(maker_t *m, uint32_t from, uint32_t to, uint32_t *path)
{
    const rail_walk_t *source = walk_of(m, from), *target = walk_of(m, to);
    bool across = source != target;
    uint32_t end = across ? 0 : m->place[to];
    m->trail.count = 0;
    for (uint32_t i = m->place[from];; i = i < end ? i + 1 : i - 1) {
        BLINK_TRY(rail_walk_append(&m->trail, source->nodes[i]));
        if (i == end)
            break;
    }
    if (across)
        BLINK_TRY(rails_join(&m->search, m->rail, source->nodes[0], target->nodes[0], &m->trail));
    for (uint32_t i = 1; across && i <= m->place[to]; i++)
        BLINK_TRY(rail_walk_append(&m->trail, target->nodes[i]));
    return ring_intern_nodes(m->topo, m->plan, m->trail.nodes, m->trail.count, path);
}

/* ---- trees ---- */

/* A channel for the tree in m->parent. */
static blink_result_t add_tree(maker_t *m, double share, way_t way)
{
    plan_channel_t *channel = NULL;
    BLINK_TRY(plan_add_channel(m->plan, share, 1, &channel));
    plan_part_t *part = &channel->parts[0];
    for (uint32_t rank = 0; rank < m->n; rank++) {
        uint32_t parent = m->parent[rank];
        if (parent == PLAN_NONE) {
            part->root = rank;
            continue;
        }
        part->reduce.parent[rank] = part->broadcast.parent[rank] = parent;
        BLINK_TRY(way(m, rank, parent, &part->reduce.path[rank]));
        BLINK_TRY(way(m, parent, rank, &part->broadcast.path[rank]));
    }
    return BLINK_OK;
}

static blink_result_t add_rank_trees(maker_t *m, double share, way_t way)
{
    for (uint32_t tree = 0; tree < 2; tree++) {
        for (uint32_t rank = 0; rank < m->n; rank++)
            m->parent[rank] = double_binary_parent(tree, m->n, rank);
        m->choice = tree;
        BLINK_TRY(add_tree(m, share, way));
    }
    return BLINK_OK;
}

/* The chain through the ranks in this order. */
static blink_result_t add_chain(maker_t *m, double share, const uint32_t *order)
{
    m->parent[order[0]] = PLAN_NONE;
    for (uint32_t i = 1; i < m->n; i++)
        m->parent[order[i]] = order[i - 1];
    return add_tree(m, share, short_way);
}

/* ---- several hosts ---- */

/* The first rank of each host, and behind it the chain of the others: in the order of the rail's walk, or of
 * ranks where there are no rails. head[] holds one entry per host. */
static blink_result_t chain_hosts(maker_t *m, uint32_t *head)
{
    uint32_t *last = malloc(m->rails.host_count * sizeof(*last));
    uint32_t *rank_of = malloc(m->topo->node_count * sizeof(*rank_of));
    if (!last || !rank_of) {
        free(last);
        free(rank_of);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for chains in %u hosts", m->rails.host_count);
    }
    memset(last, 0xff, m->rails.host_count * sizeof(*last));
    memset(rank_of, 0xff, m->topo->node_count * sizeof(*rank_of));
    for (uint32_t rank = 0; rank < m->n; rank++)
        rank_of[m->plan->rank_node[rank]] = rank;
    uint32_t walks = m->rails.rail_count > 0 ? m->rails.host_count : 1;
    for (uint32_t host = 0; host < walks; host++) {
        const rail_walk_t *walk =
            m->rails.rail_count > 0 ? &m->rails.walks[host * m->rails.rail_count + m->rail] : NULL;
        for (uint32_t i = 0; i < (walk ? walk->count : m->n); i++) {
            uint32_t rank = walk ? rank_of[walk->nodes[i]] : i;
            if (rank == PLAN_NONE)
                continue;
            uint32_t home = m->rails.rank_host[rank];
            m->place[rank] = i;
            m->parent[rank] = last[home];
            if (last[home] == PLAN_NONE)
                head[home] = rank;
            last[home] = rank;
        }
    }
    free(last);
    free(rank_of);
    return BLINK_OK;
}

static blink_result_t add_host_trees(maker_t *m, double share, way_t way)
{
    uint32_t count = m->rails.host_count, *head = malloc(count * sizeof(*head));
    if (!head)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for trees over %u hosts", count);
    blink_result_t result = chain_hosts(m, head);
    for (uint32_t tree = 0; result == BLINK_OK && tree < 2; tree++) {
        for (uint32_t host = 0; host < count; host++) {
            uint32_t parent = double_binary_parent(tree, count, host);
            m->parent[head[host]] = parent == PLAN_NONE ? PLAN_NONE : head[parent];
        }
        m->choice = tree;
        result = add_tree(m, share, way);
    }
    free(head);
    return result;
}

/* ---- one host ---- */

/* Whether paths lead both ways along all edges of both trees. */
static bool trees_joined(maker_t *m)
{
    for (uint32_t rank = 0; rank < m->n; rank++) {
        ring_search_from(&m->search, &(ring_reach_t){.class = RING_ANY, .host = PLAN_NONE},
                         m->plan->rank_node[rank]);
        for (uint32_t other = 0; other < m->n; other++)
            for (uint32_t tree = 0; tree < 2; tree++)
                if ((double_binary_parent(tree, m->n, other) == rank ||
                     double_binary_parent(tree, m->n, rank) == other) &&
                    m->search.via[m->plan->rank_node[other]] == TOPO_NONE)
                    return false;
    }
    return true;
}

/* One chain past all ranks: a cycle through one more node that joins any to any. */
static blink_result_t add_any_chain(maker_t *m)
{
    plan_cycles_t *cycles = NULL;
    BLINK_TRY(plan_cycles_create(m->n + 1, &cycles));
    for (uint32_t i = 0; i < m->n; i++) {
        plan_cycles_add_edge(cycles, m->n, i, 1);
        plan_cycles_add_edge(cycles, i, m->n, 1);
        ring_search_from(&m->search, &(ring_reach_t){.class = RING_ANY, .host = PLAN_NONE},
                         m->plan->rank_node[i]);
        for (uint32_t j = 0; j < m->n; j++)
            if (i != j && m->search.via[m->plan->rank_node[j]] != TOPO_NONE)
                plan_cycles_add_edge(cycles, i, j, 1);
    }
    uint32_t *order = malloc(m->n * sizeof(*order)), times = 0, at = 0;
    blink_result_t result = order ? plan_cycles_find_one(cycles)
                                  : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", m->n);
    if (result == BLINK_OK && plan_cycles_count(cycles) == 0)
        result = BLINK_FAIL(
            BLINK_ERR_UNREACHABLE,
            "paths of %s join these %u ranks (%s … %s) neither to binary trees nor to a chain", m->topo->name,
            m->n, m->topo->nodes[m->plan->rank_node[0]].id, m->topo->nodes[m->plan->rank_node[m->n - 1]].id);
    if (result == BLINK_OK) {
        const uint32_t *cycle = plan_cycles_get(cycles, 0, &times);
        while (cycle[at] != m->n)
            at++;
        for (uint32_t i = 0; i < m->n; i++)
            order[i] = cycle[(at + 1 + i) % (m->n + 1)];
        result = add_chain(m, 1.0, order);
    }
    plan_cycles_destroy(cycles);
    free(order);
    return result;
}

static blink_result_t add_ring_chains(maker_t *m, const nccl_rings_t *rings)
{
    for (uint32_t i = 0; i < rings->count; i++)
        BLINK_TRY(add_chain(m, rings->rings[i].GBps, rings->rings[i].order));
    return rings->count > 0 ? BLINK_OK : add_any_chain(m);
}

/* Direct NVLinks join few pairs: there NCCL's tree is the chain, as PCIe in a tree would hold up the rest. */
static blink_result_t fill_unswitched(maker_t *m)
{
    nccl_rings_t rings;
    blink_result_t result = rings_find(m->topo, m->plan, &rings);
    if (result == BLINK_OK || result == BLINK_ERR_UNREACHABLE) {
        bool direct = rings.count > 0 && rings.rings[0].kind == RING_DIRECT;
        result = !direct && trees_joined(m) ? add_rank_trees(m, 1.0, short_way) : add_ring_chains(m, &rings);
    }
    rings_fini(&rings);
    return result;
}

static blink_result_t fill_one_host(maker_t *m)
{
    for (m->hub = 0; m->hub < m->topo->node_count; m->hub++) {
        double width = ring_switch_GBps(m->topo, m->plan, m->hub);
        if (width > 0.0)
            BLINK_TRY(add_rank_trees(m, width, switch_way));
    }
    return m->plan->channel_count > 0 ? BLINK_OK : fill_unswitched(m);
}

/* ---- all of it ---- */

static blink_result_t fill(maker_t *m)
{
    BLINK_TRY(rails_find(m->topo, m->plan, &m->rails));
    if (m->rails.host_count == 1)
        BLINK_TRY(fill_one_host(m));
    else if (m->rails.rail_count == 0)
        BLINK_TRY(add_host_trees(m, 1.0, short_way));
    for (m->rail = 0; m->rail < m->rails.rail_count; m->rail++)
        BLINK_TRY(add_host_trees(m, m->rails.GBps[m->rail], rail_way));
    plan_normalise_shares(m->plan);
    return BLINK_OK;
}

blink_result_t plan_double_binary_trees(const topo_t *topo, plan_t *plan)
{
    maker_t m = {.topo = topo, .plan = plan, .n = plan->rank_count};
    if (plan->collective != BLINK_ALLREDUCE)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "double binary trees do allreduce, not %s",
                          blink_name_collective(plan->collective));
    m.parent = malloc(m.n * sizeof(*m.parent));
    m.place = calloc(m.n, sizeof(*m.place));
    blink_result_t result = ring_search_init(&m.search, topo, NULL);
    if (result == BLINK_OK && (!m.parent || !m.place))
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for trees over %u ranks", m.n);
    if (result == BLINK_OK)
        result = fill(&m);
    rails_fini(&m.rails);
    ring_search_fini(&m.search);
    free(m.trail.nodes);
    free(m.parent);
    free(m.place);
    return result;
}
