/*
 * The certificate: an upper bound on what any plan can reach, from link prices alone. Whoever made the
 * prices, every plan pays at least the cheapest spanning trees' cost per unit of payload and can buy at most
 * the capacity there is: rate <= sum(capacity · price) / cheapest. Shares no code with the packer, so that a
 * defect there cannot hide here.
 */
#include "error.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scratch {
    uint32_t nodes, ranks;
    double *dense;                   /* nodes squared: distances, later residual capacities */
    double *cost;                    /* ranks squared: distance from rank to rank */
    double *work;                    /* ranks squared */
    uint32_t *parent, *mark, *label; /* per node */
} scratch_t;

static blink_result_t scratch_init(scratch_t *s, const topo_t *topo, const plan_t *plan)
{
    *s = (scratch_t){.nodes = topo->node_count, .ranks = plan->rank_count};
    s->dense = malloc((size_t)s->nodes * s->nodes * sizeof(*s->dense));
    s->cost = malloc((size_t)s->ranks * s->ranks * sizeof(*s->cost));
    s->work = malloc((size_t)s->ranks * s->ranks * sizeof(*s->work));
    s->parent = malloc(s->nodes * sizeof(*s->parent));
    s->mark = malloc(s->nodes * sizeof(*s->mark));
    s->label = malloc(s->nodes * sizeof(*s->label));
    if (s->dense == NULL || s->cost == NULL || s->work == NULL || s->parent == NULL || s->mark == NULL ||
        s->label == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to bound a plan over %u nodes", s->nodes);
    return BLINK_OK;
}

static void scratch_fini(scratch_t *s)
{
    free(s->dense);
    free(s->cost);
    free(s->work);
    free(s->parent);
    free(s->mark);
    free(s->label);
}

/* All-pairs distances with relays as the only inner nodes (Floyd and Warshall), then the ranks' part of them.
 */
static void rank_distances(scratch_t *s, const topo_t *topo, const plan_t *plan, const double *prices)
{
    uint32_t n = s->nodes;
    for (size_t pair = 0; pair < (size_t)n * n; pair++)
        s->dense[pair] = INFINITY;
    for (uint32_t link = 0; link < topo->link_count; link++)
        s->dense[(size_t)topo->links[link].from * n + topo->links[link].to] = prices[link];
    for (uint32_t over = 0; over < n; over++) {
        if (topo->nodes[over].kind == TOPO_GPU)
            continue;
        double toll = topo->nodes[over].total_GBps > 0.0 ? prices[topo->link_count + over] : 0.0;
        for (uint32_t from = 0; from < n; from++)
            for (uint32_t to = 0; to < n; to++) {
                double around = s->dense[(size_t)from * n + over] + toll + s->dense[(size_t)over * n + to];
                s->dense[(size_t)from * n + to] = fmin(s->dense[(size_t)from * n + to], around);
            }
    }
    for (uint32_t from = 0; from < s->ranks; from++)
        for (uint32_t to = 0; to < s->ranks; to++)
            s->cost[from * s->ranks + to] = s->dense[(size_t)plan->rank_node[from] * n + plan->rank_node[to]];
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

/* Contract the labelled cycles in place: rows and columns of one label merge at their least reduced cost.
 * Labels are not ordered by node, so the smaller matrix is built behind a copy of the larger. */
static void contract(scratch_t *s, uint32_t n, uint32_t labels, const double *paid, double *smaller)
{
    for (uint32_t pair = 0; pair < labels * labels; pair++)
        smaller[pair] = INFINITY;
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; to < n; to++) {
            double *merged = &smaller[s->label[from] * labels + s->label[to]];
            if (s->label[from] != s->label[to])
                *merged = fmin(*merged, s->work[from * n + to] - paid[to]);
        }
    memcpy(s->work, smaller, (size_t)labels * labels * sizeof(*smaller));
}

/* Cost of the cheapest arborescence from `root` over s->work (n·n, overwritten): pay every node's cheapest
 * way in, contract what closes into cycles, repeat (Chu-Liu). The distance matrix serves as scratch space. */
static double arborescence_cost(scratch_t *s, uint32_t root)
{
    double sum = 0.0, *paid = s->dense;
    uint32_t n = s->ranks;
    for (;;) {
        for (uint32_t to = 0; to < n; to++) {
            uint32_t best = to == 0 ? n - 1 : 0;
            for (uint32_t from = 0; from < n; from++)
                if (from != to && s->work[from * n + to] < s->work[best * n + to])
                    best = from;
            s->parent[to] = best;
            paid[to] = to == root ? 0.0 : s->work[best * n + to];
            sum += paid[to];
        }
        uint32_t cycles = 0, labels = label_cycles(s, n, root, &cycles);
        if (cycles == 0 || !(sum < INFINITY))
            return sum;
        uint32_t next_root = s->label[root];
        contract(s, n, labels, paid, paid + n);
        root = next_root;
        n = labels;
    }
}

static double tree_cost(scratch_t *s, uint32_t root, bool toward_root)
{
    for (uint32_t from = 0; from < s->ranks; from++)
        for (uint32_t to = 0; to < s->ranks; to++)
            s->work[from * s->ranks + to] =
                toward_root ? s->cost[to * s->ranks + from] : s->cost[from * s->ranks + to];
    return arborescence_cost(s, root);
}

static double priced_bound(scratch_t *s, const topo_t *topo, const plan_t *plan, const double *prices)
{
    double budget = 0.0, cheapest = INFINITY;
    for (uint32_t link = 0; link < topo->link_count; link++)
        budget += topo->links[link].GBps * prices[link];
    for (uint32_t node = 0; node < topo->node_count; node++)
        if (topo->nodes[node].total_GBps > 0.0 && topo->nodes[node].kind != TOPO_GPU)
            budget += topo->nodes[node].total_GBps * prices[topo->link_count + node];
    rank_distances(s, topo, plan, prices);
    if (plan->collective == BLINK_BROADCAST)
        return budget / tree_cost(s, plan->root, false);
    if (plan->collective == BLINK_REDUCE)
        return budget / tree_cost(s, plan->root, true);
    if (plan->collective == BLINK_ALLGATHER || plan->collective == BLINK_REDUCESCATTER) {
        double sum = 0;
        for (uint32_t root = 0; root < plan->rank_count; root++)
            sum += tree_cost(s, root, plan->collective == BLINK_REDUCESCATTER);
        return budget * plan->rank_count / sum;
    }
    for (uint32_t root = 0; root < plan->rank_count; root++)
        cheapest = fmin(cheapest, tree_cost(s, root, true) + tree_cost(s, root, false));
    return budget / cheapest;
}

/* One shortest augmenting path (Edmonds and Karp); returns what it carried, 0 when none is left. */
static double augment(scratch_t *s, uint32_t source, uint32_t sink)
{
    uint32_t n = s->nodes, head = 0, tail = 0;
    uint32_t *queue = s->mark;
    for (uint32_t node = 0; node < n; node++)
        s->parent[node] = PLAN_NONE;
    s->parent[source] = source;
    queue[tail++] = source;
    while (head < tail && s->parent[sink] == PLAN_NONE) {
        uint32_t from = queue[head++];
        for (uint32_t to = 0; to < n; to++)
            if (s->parent[to] == PLAN_NONE && s->dense[(size_t)from * n + to] > 0.0) {
                s->parent[to] = from;
                queue[tail++] = to;
            }
    }
    if (s->parent[sink] == PLAN_NONE)
        return 0.0;
    double carried = INFINITY;
    for (uint32_t to = sink; to != source; to = s->parent[to])
        carried = fmin(carried, s->dense[(size_t)s->parent[to] * n + to]);
    for (uint32_t to = sink; to != source; to = s->parent[to]) {
        s->dense[(size_t)s->parent[to] * n + to] -= carried;
        s->dense[(size_t)to * n + s->parent[to]] += carried;
    }
    return carried;
}

/* What can flow from the root to one rank with all nodes but foreign gpus passing it on; limits of backplanes
 * are left out, which only loosens the bound. */
static double flow_bound(scratch_t *s, const topo_t *topo, const plan_t *plan, uint32_t rank)
{
    uint32_t n = s->nodes;
    double flow = 0.0;
    for (uint32_t node = 0; node < n; node++)
        s->label[node] = topo->nodes[node].kind != TOPO_GPU;
    for (uint32_t i = 0; i < plan->rank_count; i++)
        s->label[plan->rank_node[i]] = true;
    memset(s->dense, 0, (size_t)n * n * sizeof(*s->dense));
    for (uint32_t link = 0; link < topo->link_count; link++) {
        const topo_link_t *l = &topo->links[link];
        if (s->label[l->from] && s->label[l->to])
            s->dense[(size_t)l->from * n + l->to] = l->GBps;
    }
    for (double more; (more = augment(s, plan->rank_node[plan->root], plan->rank_node[rank])) > 0.0;)
        flow += more;
    return flow;
}

blink_result_t plan_bound_GBps(const topo_t *topo, const plan_t *plan, const double *prices,
                               double *bound_GBps)
{
    scratch_t s;
    blink_result_t result = scratch_init(&s, topo, plan);
    if (result == BLINK_OK) {
        *bound_GBps = priced_bound(&s, topo, plan, prices);
        for (uint32_t rank = 0; plan->collective == BLINK_BROADCAST && rank < plan->rank_count; rank++)
            if (rank != plan->root)
                *bound_GBps = fmin(*bound_GBps, flow_bound(&s, topo, plan, rank));
    }
    scratch_fini(&s);
    return result;
}
