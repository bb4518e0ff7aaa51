/*
 * Packed spanning trees: the fractional packing of (root, reduce tree, broadcast tree) columns into the
 * links' capacities, solved by column generation. The program knows a few columns; the links' dual prices
 * tell, by one cheapest arborescence per root and direction, whether a better column exists (Gilmore and
 * Gomory's scheme on Edmonds' branchings). When none does, the packing is optimal and the prices are its
 * certificate. Where every rank is a root of its own, all must get the same rate, and the price of a root's
 * balance row says what its trees may cost.
 */
#include "plan/trees/pack.h"

#include "error.h"
#include "plan/columns/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pack_fini(packer_t *p)
{
    pack_arborist_fini(&p->arborist);
    pack_master_fini(&p->master);
    vec_free(&p->trees);
    free(p->own_prices);
    free(p->orbit_size);
    free(p->goal);
    free(p->distance);
    free(p->parent);
    free(p->level);
    free(p->queue);
}

static blink_result_t allocate(packer_t *p)
{
    uint32_t n = p->n;
    p->own_prices = calloc(p->master.net->row_count + 1u, sizeof(*p->own_prices));
    p->orbit_size = calloc(n, sizeof(*p->orbit_size));
    p->goal = calloc(n, sizeof(*p->goal));
    p->distance = calloc(n, sizeof(*p->distance));
    p->parent = calloc(n, sizeof(*p->parent));
    p->level = calloc(n, sizeof(*p->level));
    p->queue = calloc(n, sizeof(*p->queue));
    if (!p->own_prices || !p->orbit_size || !p->goal || !p->distance || !p->parent || !p->level || !p->queue)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to pack trees over %u ranks", n);
    return BLINK_OK;
}

/* Make the program: a goal per orbit of roots, or one for all. */
static blink_result_t open_program(packer_t *p)
{
    uint32_t *sizes = p->level; /* free until trees are grown */
    uint32_t goals = 0;
    for (uint32_t rank = 0; rank < p->n; rank++)
        p->orbit_size[p->master.net->orbit[rank]]++;
    for (uint32_t root = 0; root < p->n && p->per_rank; root++) {
        if (p->orbit_size[root] == 0)
            continue;
        sizes[goals] = p->orbit_size[root];
        p->goal[root] = goals++;
    }
    if (!p->per_rank)
        sizes[goals++] = p->n;
    return pack_master_open(&p->master, sizes, goals, p->per_rank ? p->n : 0.0);
}

static blink_result_t price_columns(void *context, double least_gain, double *cost, uint32_t *added);
static blink_result_t add_variety(void *context, uint32_t *added);

blink_result_t pack_init(packer_t *p, const topo_t *topo, const plan_t *plan, const bool *allowed)
{
    static const pack_pricing_t pricing = {price_columns, add_variety};
    uint32_t n = plan->rank_count;
    pack_master_t *m = &p->master;
    bool both = collective_broadcasts(plan->collective) && collective_reduces(plan->collective);
    *p = (packer_t){.topo = topo,
                    .plan = plan,
                    .n = n,
                    .tree_paths = both ? 2 * n : n,
                    .per_rank = collective_per_rank(plan->collective)};
    BLINK_TRY(pack_master_init(m, topo, plan, allowed, p->per_rank ? PACK_SMALL_PER_RANK : PACK_SMALL_RANKS));
    m->pricing = &pricing;
    m->context = p;
    m->enough = PACK_GAIN;
    m->work_most = PACK_SMALL_WORK;
    m->large = n > PACK_SMALL_RANKS || m->symmetry_count > 0 || m->net->row_count > PACK_SMALL_ROWS;
    if (!m->net->reversible)
        BLINK_TRY(pack_arborist_init(&p->arborist, &m->paths));
    BLINK_TRY(allocate(p));
    return open_program(p);
}

bool pack_may_be_root(const packer_t *p, uint32_t root)
{
    bool rooted = collective_has_root(p->plan->collective);
    return p->orbit_size[root] > 0 && (!rooted || root == p->plan->root);
}

/* On a reversible graph trees cost the same from every root: a few tell enough of large plans. */
static bool enough_roots(const packer_t *p, uint32_t priced)
{
    return p->master.net->reversible && p->master.large && priced >= PACK_REVERSIBLE_ROOTS;
}

/* What the written column costs under the program's own prices. */
static double cost_in_program(packer_t *p)
{
    pack_master_t *m = &p->master;
    uint32_t count = pack_master_measure_written(m, p->tree_paths);
    double cost = 0.0;
    for (uint32_t i = 0; i < count; i++)
        cost += m->values[i] * m->unit_GBps * m->duals[m->rows[i]];
    return cost;
}

/* Write the cheapest column of a root behind the last one. */
static blink_result_t grow_cheapest(packer_t *p, uint32_t root, pack_candidate_t *made)
{
    uint32_t *column = NULL;
    BLINK_TRY(pack_master_write(&p->master, p->tree_paths, &column));
    return pack_grow_column(p, root, column, made);
}

/* Where the written column stands already, or PLAN_NONE. */
static uint32_t find_column(const packer_t *p, uint32_t root)
{
    return pack_master_find(&p->master, p->goal[root], p->tree_paths);
}

static blink_result_t add_column(packer_t *p, uint32_t root, const pack_candidate_t *made)
{
    pack_tree_t tree = {made->root, made->depth};
    if (!vec_push(&p->trees, tree))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu trees", p->trees.count + 1);
    return pack_master_add(&p->master, p->goal[root], p->tree_paths);
}

blink_result_t pack_add_cheapest(packer_t *p, uint32_t root, uint32_t *index)
{
    pack_candidate_t made;
    BLINK_TRY(grow_cheapest(p, root, &made));
    *index = find_column(p, root);
    if (*index != PLAN_NONE)
        return BLINK_OK;
    *index = (uint32_t)p->trees.count;
    return add_column(p, root, &made);
}

/* Price one column per root that the collective may have and that stands for its orbit. The payload costs
 * what the cheapest column does, or the mean of the cheapest columns of all ranks where each is a root of its
 * own. */
static blink_result_t price_columns(void *context, double least_gain, double *cost, uint32_t *added)
{
    packer_t *p = context;
    double cheapest = INFINITY, sum = 0.0;
    uint32_t priced = 0;
    for (uint32_t root = 0; root < p->n; root++) {
        if (!pack_may_be_root(p, root) || enough_roots(p, priced))
            continue;
        pack_candidate_t made;
        BLINK_TRY(grow_cheapest(p, root, &made));
        if (!(made.cost < INFINITY))
            continue;
        priced++;
        cheapest = fmin(cheapest, made.cost);
        sum += made.cost * p->orbit_size[root];
        if (cost_in_program(p) >= p->master.goals[p->goal[root]].worth * (1.0 - least_gain) ||
            find_column(p, root) != PLAN_NONE)
            continue;
        BLINK_TRY(add_column(p, root, &made));
        ++*added;
    }
    *cost = p->per_rank ? sum / p->n : cheapest;
    return BLINK_OK;
}

/* Make the rows that a column crosses dearer, each by its part of the busiest one's. */
static void raise_prices(pack_master_t *m, uint32_t column)
{
    uint32_t count = pack_master_measure(m, column), rows = m->net->row_count;
    double busiest = 0.0, budget = 0.0;
    for (uint32_t row = 0; row < rows; row++)
        budget += m->prices[row] * m->net->row_GBps[row];
    for (uint32_t i = 0; i < count; i++)
        busiest = fmax(busiest, m->values[i]);
    for (uint32_t i = 0; i < count; i++) {
        double least = VARIETY_FLOOR * budget / rows / m->net->row_GBps[m->rows[i]];
        double *price = &m->prices[m->rows[i]];
        *price = fmax(*price, least) * (1.0 + VARIETY_RAISE * m->values[i] / busiest);
    }
}

/* Where optima are many, one column a round tells the program next to nothing. */
static blink_result_t add_variety(void *context, uint32_t *added)
{
    packer_t *p = context;
    pack_master_t *m = &p->master;
    size_t bytes = m->net->row_count * sizeof(*m->prices), before = m->columns.count;
    uint32_t most = VARIETY_WORK / (p->n * p->n), index = 0;
    if (m->net->row_count < SPREAD_ROWS_LEAST)
        return BLINK_OK;
    most = most < VARIETY_COLUMNS ? most : VARIETY_COLUMNS;
    memcpy(p->own_prices, m->prices, bytes);
    for (uint32_t tries = 0; tries < most && !pack_master_late(m);)
        for (uint32_t root = 0; root < p->n; root++) {
            if (!pack_may_be_root(p, root))
                continue;
            pack_paths_price(&m->paths, m->prices);
            BLINK_TRY(pack_add_cheapest(p, root, &index));
            raise_prices(m, index);
            tries++;
        }
    memcpy(m->prices, p->own_prices, bytes);
    *added += (uint32_t)(m->columns.count - before);
    return BLINK_OK;
}

/* First columns: the shallowest trees (every link costs the same), and those that prefer wide links. The
 * prices prove the first bounds: as if all capacity could be used. */
static blink_result_t seed_columns(packer_t *p)
{
    pack_master_t *m = &p->master;
    uint32_t added = 0;
    pack_master_set_worth(m, INFINITY);
    for (uint32_t row = 0; row < m->net->row_count; row++)
        m->prices[row] = 1.0;
    pack_paths_price(&m->paths, m->prices);
    BLINK_TRY(pack_check_reachable(p));
    BLINK_TRY(pack_master_prove(m, 0.0, &added));
    for (uint32_t row = 0; row < m->net->row_count; row++)
        m->prices[row] = 1.0 / m->net->row_GBps[row];
    return pack_master_prove(m, 0.0, &added);
}

/* The rank that least can come into, or go out of; of a rooted collective only the root sends all, or gets
 * all. */
static uint32_t find_narrowest_rank(packer_t *p, const uint32_t *end, bool of_root)
{
    const pack_net_t *net = p->master.net;
    uint32_t narrowest = PLAN_NONE;
    memset(p->distance, 0, p->n * sizeof(*p->distance));
    for (uint32_t link = 0; link < net->link_count; link++)
        if (end[link] < p->n)
            p->distance[end[link]] += net->link_GBps[link];
    for (uint32_t rank = 0; rank < p->n; rank++) {
        bool stands = p->plan->root == PLAN_NONE || (rank == p->plan->root) == of_root;
        if (stands && (narrowest == PLAN_NONE || p->distance[rank] < p->distance[narrowest]))
            narrowest = rank;
    }
    return narrowest;
}

/* The prices at which nothing costs anything but the links that end in one rank, or those that begin there,
 * prove the cut around that rank. Often no prices prove more. */
static blink_result_t price_cut(packer_t *p, const uint32_t *end, bool of_root)
{
    const pack_net_t *net = p->master.net;
    double *prices = p->master.prices;
    uint32_t rank = find_narrowest_rank(p, end, of_root), added = 0;
    memset(prices, 0, net->row_count * sizeof(*prices));
    for (uint32_t link = 0; link < net->link_count; link++)
        if (end[link] == rank)
            prices[net->link_row[link]] = 1.0;
    return pack_master_prove(&p->master, 0.0, &added);
}

blink_result_t pack_optimise(packer_t *p)
{
    pack_master_t *m = &p->master;
    const pack_net_t *net = m->net;
    bool fans_in = p->plan->collective == BLINK_REDUCE, solved = false;
    BLINK_TRY(seed_columns(p));
    pack_master_set_worth(m, 0.0);
    BLINK_TRY(price_cut(p, fans_in ? net->to : net->from, true));
    if (!net->reversible) /* or both cuts are one */
        BLINK_TRY(price_cut(p, fans_in ? net->from : net->to, false));
    if (net->row_count >= SPREAD_ROWS_LEAST)
        BLINK_TRY(pack_spread(p, false));
    plan_lp_allow(m->lp, PACK_WORK_MAX);
    if (!pack_master_near_bound(m))
        BLINK_TRY(pack_master_generate(m, PACK_ROUNDS_MAX, &solved));
    /* Where time was over before the program had a solution, one sweep has one. */
    if (!pack_master_near_bound(m) && (m->large || m->rate <= 0.0))
        BLINK_TRY(pack_spread(p, true));
    p->optimum = m->rate;
    return BLINK_OK;
}

blink_result_t pack_optimise_limited(packer_t *p)
{
    pack_master_t *m = &p->master;
    bool solved = true;
    p->limit->tastes = 0;
    BLINK_TRY(seed_columns(p));
    plan_lp_allow(m->lp, PACK_WORK_MAX);
    for (uint32_t added = 1; added > 0 || p->limit->tastes == 0;) {
        p->limit->tastes = added > 0 ? 0 : m->large ? 1 : LIMIT_TASTES;
        /* However late it is, the first limit that joins the ranks gives a plan. */
        plan_lp_until(m->lp, m->rate > 0.0 ? p->plan->deadline_ns : 0);
        BLINK_TRY(pack_master_solve(m, &solved));
        if (!solved || pack_master_late(m))
            break;
        pack_master_take_prices(m);
        BLINK_TRY(pack_master_prove(m, LIMIT_GAIN, &added));
    }
    p->optimum = m->rate;
    m->best_bound = INFINITY; /* trees under a limit prove nothing about others */
    return BLINK_OK;
}

double pack_rate(const packer_t *p)
{
    return p->master.rate;
}

double pack_value(const packer_t *p, uint32_t column)
{
    return p->master.columns.items[column].value;
}

bool pack_uses(const packer_t *p, uint32_t column)
{
    return pack_value(p, column) > PACK_NOISE * p->optimum;
}

blink_result_t pack_reoptimise(packer_t *p, double least_gain, bool *solved)
{
    uint32_t added = 1;
    BLINK_TRY(pack_master_solve(&p->master, solved));
    while (*solved && added > 0 && !p->master.large) {
        pack_master_take_prices(&p->master);
        BLINK_TRY(pack_master_prove(&p->master, least_gain, &added));
        if (added > 0)
            BLINK_TRY(pack_master_solve(&p->master, solved));
    }
    return BLINK_OK;
}
