/*
 * The certificate: an upper bound on what any plan can reach, from link prices alone. Whoever made the
 * prices, every plan pays at least the cheapest trees' or routes' cost per unit of payload and can buy at most
 * the capacity there is: rate <= sum(capacity · price) / cheapest. Shares no code with the algorithms, so that
 * a defect there cannot hide here.
 */
#include "error.h"
#include "plan/bound_flow.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scratch {
    const topo_t *topo;
    const plan_t *plan;
    const double *prices;
    uint32_t nodes, ranks;
    bool *rank_at;                   /* per node: a rank is there */
    double *away;                    /* per node: distance from a source */
    uint32_t *heap, *place;          /* per node: nodes by distance, and where they are in it */
    double *cost;                    /* ranks squared: distance from rank to rank */
    double *work;                    /* ranks squared, twice */
    uint32_t *parent, *mark, *label; /* per rank */
} scratch_t;

static void scratch_fini(scratch_t *s)
{
    free(s->rank_at);
    free(s->away);
    free(s->heap);
    free(s->place);
    free(s->cost);
    free(s->work);
    free(s->parent);
    free(s->mark);
    free(s->label);
}

static blink_result_t scratch_init(scratch_t *s, const topo_t *topo, const plan_t *plan, const double *prices)
{
    size_t nodes = topo->node_count, ranks = plan->rank_count;
    *s = (scratch_t){.topo = topo,
                     .plan = plan,
                     .prices = prices,
                     .nodes = topo->node_count,
                     .ranks = plan->rank_count,
                     .rank_at = calloc(nodes, sizeof(*s->rank_at)),
                     .away = malloc(nodes * sizeof(*s->away)),
                     .heap = malloc(nodes * sizeof(*s->heap)),
                     .place = malloc(nodes * sizeof(*s->place)),
                     .cost = malloc(ranks * ranks * sizeof(*s->cost)),
                     .work = malloc(2 * ranks * ranks * sizeof(*s->work)),
                     .parent = malloc(ranks * sizeof(*s->parent)),
                     .mark = malloc(ranks * sizeof(*s->mark)),
                     .label = malloc(ranks * sizeof(*s->label))};
    if (s->rank_at == NULL || s->away == NULL || s->heap == NULL || s->place == NULL || s->cost == NULL ||
        s->work == NULL || s->parent == NULL || s->mark == NULL || s->label == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to bound a plan over %u nodes", s->nodes);
    for (uint32_t rank = 0; rank < s->ranks; rank++)
        s->rank_at[plan->rank_node[rank]] = true;
    return BLINK_OK;
}

/* ---- prices ---- */

/* Nonsense counts as nothing: less than the truth proves less, never too much. */
static double sane(double price)
{
    return price > 0.0 && price < INFINITY ? price : 0.0;
}

static double toll(const scratch_t *s, uint32_t node)
{
    bool limited = s->topo->nodes[node].kind != TOPO_GPU && s->topo->nodes[node].total_GBps > 0.0;
    return limited ? sane(s->prices[s->topo->link_count + node]) : 0.0;
}

/* What all capacity is worth. */
static double find_budget(const scratch_t *s)
{
    double budget = 0.0;
    for (uint32_t link = 0; link < s->topo->link_count; link++)
        budget += s->topo->links[link].GBps * sane(s->prices[link]);
    for (uint32_t node = 0; node < s->nodes; node++)
        budget += s->topo->nodes[node].total_GBps * toll(s, node);
    return budget;
}

/* ---- distances ---- */

static void sift_up(scratch_t *s, uint32_t at)
{
    uint32_t node = s->heap[at];
    for (; at > 0 && s->away[node] < s->away[s->heap[(at - 1) / 2]]; at = (at - 1) / 2) {
        s->heap[at] = s->heap[(at - 1) / 2];
        s->place[s->heap[at]] = at;
    }
    s->heap[at] = node;
    s->place[node] = at;
}

static uint32_t take_nearest(scratch_t *s, uint32_t *count)
{
    uint32_t nearest = s->heap[0], last = s->heap[--*count], at = 0;
    for (uint32_t child = 1; child < *count; child = 2 * at + 1) {
        child += child + 1 < *count && s->away[s->heap[child + 1]] < s->away[s->heap[child]];
        if (!(s->away[s->heap[child]] < s->away[last]))
            break;
        s->heap[at] = s->heap[child];
        s->place[s->heap[at]] = at;
        at = child;
    }
    s->heap[at] = last;
    s->place[last] = at;
    return nearest;
}

/* Distances from a node over relays, and over ranks too where routes may (Dijkstra). */
static void walk_from(scratch_t *s, uint32_t source, bool over_ranks)
{
    uint32_t count = 1;
    for (uint32_t node = 0; node < s->nodes; node++) {
        s->away[node] = INFINITY;
        s->place[node] = PLAN_NONE;
    }
    s->away[source] = 0.0;
    s->heap[0] = source;
    s->place[source] = 0;
    while (count > 0) {
        uint32_t node = take_nearest(s, &count);
        bool passes = s->topo->nodes[node].kind != TOPO_GPU || (over_ranks && s->rank_at[node]);
        if (!passes && node != source)
            continue;
        for (uint32_t i = s->topo->out_first[node]; i < s->topo->out_first[node + 1]; i++) {
            uint32_t link = s->topo->out_links[i], to = s->topo->links[link].to;
            double away = s->away[node] + sane(s->prices[link]) + toll(s, to);
            if (!(away < s->away[to]))
                continue;
            s->away[to] = away;
            if (s->place[to] == PLAN_NONE)
                s->heap[s->place[to] = count++] = to;
            sift_up(s, s->place[to]);
        }
    }
}

static void find_distances(scratch_t *s, bool over_ranks)
{
    for (uint32_t from = 0; from < s->ranks; from++) {
        walk_from(s, s->plan->rank_node[from], over_ranks);
        for (uint32_t to = 0; to < s->ranks; to++)
            s->cost[(size_t)from * s->ranks + to] = s->away[s->plan->rank_node[to]];
    }
}

/* ---- trees ---- */

static bool alike(double one, double other)
{
    if (isinf(one) || isinf(other))
        return isinf(one) && isinf(other);
    return fabs(one - other) <= 1e-12 * one;
}

/* Whether the way back costs the same for every pair. */
static bool is_symmetric(const scratch_t *s)
{
    size_t n = s->ranks;
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < from; to++)
            if (!alike(s->cost[from * n + to], s->cost[to * n + from]))
                return false;
    return true;
}

/* Minimum spanning tree (Prim): what the cheapest arborescence costs from every root of a symmetric matrix. */
static double spanning_cost(scratch_t *s)
{
    size_t n = s->ranks;
    double sum = 0.0, *nearest = s->work;
    memcpy(nearest, s->cost, n * sizeof(*nearest));
    nearest[0] = -1.0;
    for (size_t attached = 1; attached < n; attached++) {
        size_t best = 0;
        for (size_t rank = 1; rank < n; rank++)
            if (nearest[rank] >= 0.0 && (best == 0 || nearest[rank] < nearest[best]))
                best = rank;
        sum += nearest[best];
        nearest[best] = -1.0;
        for (size_t rank = 1; rank < n; rank++)
            if (s->cost[best * n + rank] < nearest[rank])
                nearest[rank] = s->cost[best * n + rank];
    }
    return sum;
}

/* Label what each node's cheapest way in closes into: cycles get labels from 0, the rest follow; returns the
 * number of labels, and of cycles in *cycles. */
static uint32_t label_cycles(scratch_t *s, uint32_t n, uint32_t root, uint32_t *cycles)
{
    uint32_t labels = 0;
    for (uint32_t node = 0; node < n; node++)
        s->mark[node] = s->label[node] = PLAN_NONE;
    for (uint32_t start = 0; start < n; start++) {
        uint32_t node = start;
        while (node != root && s->mark[node] == PLAN_NONE) {
            s->mark[node] = start;
            node = s->parent[node];
        }
        if (node == root || s->mark[node] != start || s->label[node] != PLAN_NONE)
            continue;
        for (; s->label[node] == PLAN_NONE; node = s->parent[node])
            s->label[node] = labels;
        labels++;
    }
    *cycles = labels;
    for (uint32_t node = 0; node < n; node++)
        if (s->label[node] == PLAN_NONE)
            s->label[node] = labels++;
    return labels;
}

/* Contract the labelled cycles: rows and columns of one label merge at their least reduced cost. */
static void contract(const scratch_t *s, size_t n, size_t labels, const double *paid, const double *work,
                     double *smaller)
{
    for (size_t pair = 0; pair < labels * labels; pair++)
        smaller[pair] = INFINITY;
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++) {
            double *merged = &smaller[s->label[from] * labels + s->label[to]];
            double cost = work[from * n + to] - paid[to];
            if (s->label[from] != s->label[to] && cost < *merged)
                *merged = cost;
        }
}

/* Pay every node's cheapest way in but the root's; returns the sum. */
static double pay_ways_in(scratch_t *s, size_t n, uint32_t root, const double *work, double *paid)
{
    double sum = 0.0;
    for (size_t to = 0; to < n; to++) {
        paid[to] = INFINITY;
        s->parent[to] = to == 0 ? 1 : 0;
    }
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++)
            if (from != to && work[from * n + to] < paid[to]) {
                paid[to] = work[from * n + to];
                s->parent[to] = (uint32_t)from;
            }
    paid[root] = 0.0;
    for (size_t to = 0; to < n; to++)
        sum += paid[to];
    return sum;
}

/* Cost of the cheapest arborescence from `root` over s->work (n·n, overwritten): pay every node's cheapest
 * way in, contract what closes into cycles, repeat (Chu-Liu). */
static double arborescence_cost(scratch_t *s, uint32_t root)
{
    double sum = 0.0, *work = s->work, *smaller = s->work + (size_t)s->ranks * s->ranks, *paid = s->away;
    uint32_t n = s->ranks;
    for (;;) {
        uint32_t cycles = 0;
        sum += pay_ways_in(s, n, root, work, paid);
        if (!(sum < INFINITY))
            return sum;
        uint32_t labels = label_cycles(s, n, root, &cycles);
        if (cycles == 0)
            return sum;
        contract(s, n, labels, paid, work, smaller);
        root = s->label[root];
        n = labels;
        double *freed = work;
        work = smaller;
        smaller = freed;
    }
}

static double tree_cost(scratch_t *s, uint32_t root, bool toward_root)
{
    size_t n = s->ranks;
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++)
            s->work[from * n + to] = toward_root ? s->cost[to * n + from] : s->cost[from * n + to];
    return arborescence_cost(s, root);
}

/* Cost of what the plan must buy for a root: trees away from it, toward it, or both. */
static double root_cost(scratch_t *s, uint32_t root)
{
    double cost = 0.0;
    if (collective_broadcasts(s->plan->collective))
        cost += tree_cost(s, root, false);
    if (collective_reduces(s->plan->collective))
        cost += tree_cost(s, root, true);
    return cost;
}

/* The least g such that all distances stay the same when every rank moves on by g: roots g apart cost the
 * same. n if there is no other. */
static uint32_t find_period(const scratch_t *s)
{
    size_t n = s->ranks;
    for (size_t period = 1; period < n; period++) {
        bool same = n % period == 0;
        for (size_t from = 0; same && from < n; from++) {
            const double *row = &s->cost[from * n], *moved = &s->cost[(from + period) % n * n];
            for (size_t to = 0; same && to < n; to++)
                same = alike(row[to], moved[to + period < n ? to + period : to + period - n]);
        }
        if (same)
            return (uint32_t)period;
    }
    return s->ranks;
}

/* What a unit of payload costs at the least, in trees. */
static double trees_cost(scratch_t *s)
{
    blink_collective_t collective = s->plan->collective;
    bool both = collective_broadcasts(collective) && collective_reduces(collective);
    double sum = 0.0, least = INFINITY;
    find_distances(s, false);
    if (is_symmetric(s))
        return (both ? 2.0 : 1.0) * spanning_cost(s);
    if (collective_has_root(collective))
        return root_cost(s, s->plan->root);
    uint32_t period = find_period(s);
    for (uint32_t root = 0; root < period; root++) {
        double cost = root_cost(s, root);
        sum += cost;
        least = fmin(least, cost);
    }
    return collective_per_rank(collective) ? sum / period : least;
}

/* ---- routes ---- */

/* What a unit of payload costs at the least, in routes between the ranks that the collective pairs. */
static double routes_cost(scratch_t *s)
{
    const plan_t *plan = s->plan;
    size_t n = s->ranks;
    double sum = 0.0;
    find_distances(s, true);
    if (plan->collective == BLINK_SENDRECV)
        return s->cost[plan->root * n + plan->peer];
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++) {
            bool paired = plan->collective == BLINK_ALLTOALL ||
                          (plan->collective == BLINK_GATHER && to == plan->root) ||
                          (plan->collective == BLINK_SCATTER && from == plan->root);
            if (paired && from != to)
                sum += s->cost[from * n + to];
        }
    return sum / (double)collective_block_count(plan->collective, s->ranks);
}

blink_result_t plan_bound_GBps(const topo_t *topo, const plan_t *plan, const double *prices,
                               double *bound_GBps)
{
    scratch_t s;
    blink_result_t result = scratch_init(&s, topo, plan, prices);
    if (result == BLINK_OK) {
        double cost = collective_routes(plan->collective) ? routes_cost(&s) : trees_cost(&s);
        *bound_GBps = cost > 0.0 ? find_budget(&s) / cost : INFINITY;
        result = plan_flow_bound_GBps(topo, plan, bound_GBps);
    }
    scratch_fini(&s);
    return result;
}
