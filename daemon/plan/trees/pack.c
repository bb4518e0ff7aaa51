/*
 * Packed spanning trees: the fractional packing of (root, reduce tree, broadcast tree) columns into the
 * links' capacities, solved by column generation. The program knows a few columns; the links' dual prices
 * tell, by one cheapest arborescence per root and direction, whether a better column exists (Gilmore and
 * Gomory's scheme on Edmonds' branchings). When none does, the packing is optimal and the prices are its
 * certificate. Where every rank is a root of its own, all must get the same rate, and the price of a root's
 * balance row says what its trees may cost.
 */
#include "plan/trees/pack.h"

#include "base/clock.h"
#include "error.h"
#include "plan/columns/lp.h"
#include "plan/columns/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Trees under a limit are for payloads that care little for the last percent of the rate. */
#define LEAST_GAIN_LIMITED 3e-4
/* Where no tree under a limit seems to gain, this many tastes are tried before that is believed. */
#define TASTES 6u

void pack_fini(packer_t *p)
{
    plan_lp_destroy(p->lp);
    pack_arborist_fini(&p->arborist);
    pack_paths_fini(&p->paths);
    pack_net_destroy(p->net);
    pack_free_symmetries(p->symmetries, p->symmetry_count);
    free(p->column_paths);
    free(p->column_root);
    free(p->column_depth);
    free(p->column_value);
    free(p->prices);
    free(p->own_prices);
    free(p->duals);
    free(p->best_prices);
    free(p->orbit_size);
    free(p->balance_row);
    free(p->worth);
    free(p->distance);
    free(p->parent);
    free(p->level);
    free(p->queue);
    free(p->rows);
    free(p->loads);
    free(p->values);
}

static blink_result_t allocate(packer_t *p, uint32_t rows)
{
    uint32_t n = p->n;
    p->prices = calloc(rows, sizeof(*p->prices));
    p->own_prices = calloc(rows, sizeof(*p->own_prices));
    p->duals = calloc(rows, sizeof(*p->duals));
    p->best_prices = calloc(rows, sizeof(*p->best_prices));
    p->orbit_size = calloc(n, sizeof(*p->orbit_size));
    p->balance_row = calloc(n, sizeof(*p->balance_row));
    p->worth = calloc(n, sizeof(*p->worth));
    p->distance = calloc(n, sizeof(*p->distance));
    p->parent = calloc(n, sizeof(*p->parent));
    p->level = calloc(n, sizeof(*p->level));
    p->queue = calloc(n, sizeof(*p->queue));
    p->rows = calloc(rows, sizeof(*p->rows));
    p->loads = calloc(rows, sizeof(*p->loads));
    p->values = calloc(rows, sizeof(*p->values));
    if (!p->prices || !p->own_prices || !p->duals || !p->best_prices || !p->orbit_size || !p->balance_row ||
        !p->worth || !p->distance || !p->parent || !p->level || !p->queue || !p->rows || !p->loads ||
        !p->values)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to pack trees over %u ranks", n);
    return BLINK_OK;
}

/* One balance row per orbit of roots, behind the capacity rows, and the rate of each rank as column 0: a rank
 * of an orbit of k needs k rates from its orbit's trees. */
static blink_result_t add_balance(packer_t *p, uint32_t capacity_rows, uint32_t orbits)
{
    uint32_t count = 0;
    for (uint32_t root = 0; root < p->n; root++) {
        if (p->orbit_size[root] == 0)
            continue;
        p->balance_row[root] = capacity_rows + count;
        p->rows[count] = capacity_rows + count;
        p->values[count++] = p->orbit_size[root];
        plan_lp_balance(p->lp, p->balance_row[root]);
    }
    BLINK_TRY(plan_lp_add(p->lp, orbits, p->rows, p->values));
    plan_lp_weigh(p->lp, 0, p->n);
    return BLINK_OK;
}

blink_result_t pack_init(packer_t *p, const topo_t *topo, const plan_t *plan, const bool *allowed)
{
    uint32_t n = plan->rank_count, orbits = 0;
    bool both = collective_broadcasts(plan->collective) && collective_reduces(plan->collective);
    *p = (packer_t){.topo = topo,
                    .plan = plan,
                    .n = n,
                    .tree_paths = both ? 2 * n : n,
                    .per_rank = collective_per_rank(plan->collective),
                    .deadline_ns = plan->deadline_ns,
                    .best_bound = INFINITY};
    if (n > (p->per_rank ? PACK_SMALL_PER_RANK : PACK_SMALL_RANKS))
        BLINK_TRY(pack_find_symmetries(topo, plan, &p->symmetries, &p->symmetry_count));
    BLINK_TRY(pack_net_create(topo, plan, allowed, p->symmetries, p->symmetry_count, &p->net));
    if (p->net->symmetry_count == 0) {
        pack_free_symmetries(p->symmetries, p->symmetry_count);
        p->symmetries = NULL;
        p->symmetry_count = 0;
    }
    p->large = n > PACK_SMALL_RANKS || p->symmetry_count > 0 || p->net->row_count > PACK_SMALL_ROWS;
    BLINK_TRY(pack_paths_init(&p->paths, p->net));
    if (!p->net->reversible)
        BLINK_TRY(pack_arborist_init(&p->arborist, &p->paths));
    /* Ranks without a single link between them still get as far as being named. */
    uint32_t capacity_rows = p->net->row_count > 0 ? p->net->row_count : 1;
    BLINK_TRY(allocate(p, capacity_rows + n));
    for (uint32_t rank = 0; rank < n; rank++)
        orbits += p->orbit_size[p->net->orbit[rank]]++ == 0;
    BLINK_TRY(
        plan_lp_create(capacity_rows + (p->per_rank ? orbits : 0), p->large ? PACK_LOOSENING : 0.0, &p->lp));
    plan_lp_until(p->lp, p->deadline_ns);
    return p->per_rank ? add_balance(p, capacity_rows, orbits) : BLINK_OK;
}

bool pack_late(const packer_t *p)
{
    return p->deadline_ns > 0 && clock_ns() > p->deadline_ns;
}

static blink_result_t reserve_column(packer_t *p)
{
    if (p->column_count < p->column_room)
        return BLINK_OK;
    uint32_t room = 2 * p->column_room + 64;
    uint32_t *paths = realloc(p->column_paths, (size_t)room * p->tree_paths * sizeof(*paths));
    if (paths)
        p->column_paths = paths;
    uint32_t *roots = realloc(p->column_root, room * sizeof(*roots));
    if (roots)
        p->column_root = roots;
    uint32_t *depths = realloc(p->column_depth, room * sizeof(*depths));
    if (depths)
        p->column_depth = depths;
    double *values = realloc(p->column_value, room * sizeof(*values));
    if (values)
        p->column_value = values;
    if (!paths || !roots || !depths || !values)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u trees", room);
    p->column_room = room;
    return BLINK_OK;
}

static uint32_t measure_column(packer_t *p, const uint32_t *column)
{
    return pack_measure(&p->paths, column, p->tree_paths, p->rows, p->values, p->loads);
}

uint32_t pack_measure_column(packer_t *p, uint32_t column)
{
    return measure_column(p, &p->column_paths[(size_t)column * p->tree_paths]);
}

/* Where the column stands already, or PLAN_NONE. */
static uint32_t find_column(const packer_t *p, const uint32_t *column)
{
    for (uint32_t i = 0; i < p->column_count; i++)
        if (memcmp(&p->column_paths[(size_t)i * p->tree_paths], column, p->tree_paths * sizeof(*column)) == 0)
            return i;
    return PLAN_NONE;
}

/* Number of a tree column in the linear program. */
static uint32_t lp_column(const packer_t *p, uint32_t column)
{
    return p->per_rank ? column + 1 : column;
}

/* Add the written column behind the last one to the program. The first one sets the unit of x. */
static blink_result_t add_column(packer_t *p, const uint32_t *column, const pack_candidate_t *made)
{
    uint32_t count = measure_column(p, column);
    if (p->column_count == 0) {
        double busiest = 0.0;
        for (uint32_t i = 0; i < count; i++)
            busiest = fmax(busiest, p->values[i]);
        p->unit_GBps = 1.0 / busiest;
    }
    for (uint32_t i = 0; i < count; i++)
        p->values[i] *= p->unit_GBps;
    if (p->per_rank) {
        p->rows[count] = p->balance_row[p->net->orbit[made->root]];
        p->values[count++] = -1.0;
    }
    BLINK_TRY(plan_lp_add(p->lp, count, p->rows, p->values));
    if (p->per_rank)
        plan_lp_weigh(p->lp, lp_column(p, p->column_count), 0.0);
    p->column_root[p->column_count] = made->root;
    p->column_depth[p->column_count] = made->depth;
    p->column_value[p->column_count] = 0.0;
    p->column_count++;
    return BLINK_OK;
}

bool pack_may_be_root(const packer_t *p, uint32_t root)
{
    bool rooted = collective_has_root(p->plan->collective);
    return p->orbit_size[root] > 0 && (!rooted || root == p->plan->root);
}

/* On a reversible graph trees cost the same from every root: a few tell enough of large plans. */
static bool enough_roots(const packer_t *p, uint32_t priced)
{
    return p->net->reversible && p->large && priced >= PACK_REVERSIBLE_ROOTS;
}

/* What the written column costs under the program's own prices. */
static double cost_in_program(packer_t *p, const uint32_t *column)
{
    uint32_t count = measure_column(p, column);
    double cost = 0.0;
    for (uint32_t i = 0; i < count; i++)
        cost += p->values[i] * p->unit_GBps * p->duals[p->rows[i]];
    return cost;
}

/* Grow the cheapest column of a root behind the last one. */
static blink_result_t grow_cheapest(packer_t *p, uint32_t root, uint32_t **column, pack_candidate_t *made)
{
    BLINK_TRY(reserve_column(p));
    *column = &p->column_paths[(size_t)p->column_count * p->tree_paths];
    return pack_grow_column(p, root, *column, made);
}

blink_result_t pack_add_cheapest(packer_t *p, uint32_t root, pack_candidate_t *made, uint32_t *index)
{
    uint32_t *column = NULL;
    BLINK_TRY(grow_cheapest(p, root, &column, made));
    *index = find_column(p, column);
    if (*index != PLAN_NONE)
        return BLINK_OK;
    *index = p->column_count;
    return add_column(p, column, made);
}

/* Price one column per root that the collective may have and that stands for its orbit; add those that cost
 * less than they are worth by `least_gain`. *cost is what the payload costs at the least: the cheapest
 * column, or the mean of the cheapest columns of all ranks where each is a root of its own. */
static blink_result_t price_columns(packer_t *p, double least_gain, double *cost, uint32_t *added)
{
    double cheapest = INFINITY, sum = 0.0;
    uint32_t priced = 0, *column = NULL;
    *added = 0;
    pack_paths_price(&p->paths, p->prices);
    for (uint32_t root = 0; root < p->n; root++) {
        if (!pack_may_be_root(p, root) || (enough_roots(p, priced)))
            continue;
        pack_candidate_t made;
        BLINK_TRY(grow_cheapest(p, root, &column, &made));
        if (!(made.cost < INFINITY))
            continue;
        priced++;
        cheapest = fmin(cheapest, made.cost);
        sum += made.cost * p->orbit_size[root];
        if (cost_in_program(p, column) >= p->worth[root] * (1.0 - least_gain) ||
            find_column(p, column) != PLAN_NONE)
            continue;
        BLINK_TRY(add_column(p, column, &made));
        ++*added;
    }
    *cost = p->per_rank ? sum / p->n : cheapest;
    return BLINK_OK;
}

/* Make the rows that a column crosses dearer, each by its part of the busiest one's. */
static void raise_prices(packer_t *p, uint32_t column)
{
    uint32_t count = pack_measure_column(p, column), rows = p->net->row_count;
    double busiest = 0.0, budget = 0.0;
    for (uint32_t row = 0; row < rows; row++)
        budget += p->prices[row] * p->net->row_GBps[row];
    for (uint32_t i = 0; i < count; i++)
        busiest = fmax(busiest, p->values[i]);
    for (uint32_t i = 0; i < count; i++) {
        double least = VARIETY_FLOOR * budget / rows / p->net->row_GBps[p->rows[i]];
        double *price = &p->prices[p->rows[i]];
        *price = fmax(*price, least) * (1.0 + VARIETY_RAISE * p->values[i] / busiest);
    }
}

/* More columns of the same round that differ from one another. Where optima are many, one column a round
 * tells the program next to nothing. */
static blink_result_t add_variety(packer_t *p, uint32_t *added)
{
    size_t bytes = p->net->row_count * sizeof(*p->prices);
    uint32_t most = VARIETY_WORK / (p->n * p->n);
    most = most < VARIETY_COLUMNS ? most : VARIETY_COLUMNS;
    memcpy(p->own_prices, p->prices, bytes);
    for (uint32_t tries = 0; tries < most && !pack_late(p);)
        for (uint32_t root = 0; root < p->n; root++) {
            pack_candidate_t made;
            uint32_t before = p->column_count, index = 0;
            if (!pack_may_be_root(p, root))
                continue;
            pack_paths_price(&p->paths, p->prices);
            BLINK_TRY(pack_add_cheapest(p, root, &made, &index));
            raise_prices(p, index);
            *added += p->column_count - before;
            tries++;
        }
    memcpy(p->prices, p->own_prices, bytes);
    return BLINK_OK;
}

/* Prices at which the payload costs 1. */
static void keep_prices(packer_t *p, double bound, double cost)
{
    p->best_bound = bound;
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->best_prices[row] = p->prices[row] / cost;
}

blink_result_t pack_prove(packer_t *p)
{
    double budget = 0.0, cost = 0.0;
    uint32_t added = 0;
    BLINK_TRY(price_columns(p, 0.0, &cost, &added)); /* the first column sets the unit */
    for (uint32_t row = 0; row < p->net->row_count; row++)
        budget += p->prices[row] * p->net->row_GBps[row] / p->unit_GBps;
    if (cost > 0.0 && budget / cost < p->best_bound)
        keep_prices(p, budget / cost, cost);
    return BLINK_OK;
}

/* First columns: the shallowest trees (every link costs the same), and those that prefer wide links. The
 * prices prove the first bounds: as if all capacity could be used. */
static blink_result_t seed_columns(packer_t *p)
{
    for (uint32_t root = 0; root < p->n; root++)
        p->worth[root] = INFINITY;
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->prices[row] = 1.0;
    pack_paths_price(&p->paths, p->prices);
    BLINK_TRY(pack_check_reachable(p));
    BLINK_TRY(pack_prove(p));
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->prices[row] = 1.0 / p->net->row_GBps[row];
    return pack_prove(p);
}

/* The rank that least can come into, or go out of; of a rooted collective only the root sends all, or gets
 * all. */
static uint32_t find_narrowest_rank(packer_t *p, const uint32_t *end, bool of_root)
{
    const pack_net_t *net = p->net;
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
    const pack_net_t *net = p->net;
    uint32_t rank = find_narrowest_rank(p, end, of_root);
    memset(p->prices, 0, net->row_count * sizeof(*p->prices));
    for (uint32_t link = 0; link < net->link_count; link++)
        if (end[link] == rank)
            p->prices[net->link_row[link]] = 1.0;
    return pack_prove(p);
}

static void keep_solution(packer_t *p)
{
    for (uint32_t column = 0; column < p->column_count; column++)
        p->column_value[column] = plan_lp_value(p->lp, lp_column(p, column));
    p->rate = 0.0;
    if (p->per_rank)
        p->rate = p->n * plan_lp_value(p->lp, 0);
    else
        for (uint32_t column = 0; column < p->column_count; column++)
            p->rate += p->column_value[column];
}

blink_result_t pack_solve(packer_t *p, bool *solved)
{
    blink_result_t result = plan_lp_solve(p->lp);
    p->large |= plan_lp_work(p->lp) > PACK_SMALL_WORK;
    *solved = result == BLINK_OK;
    if (*solved)
        keep_solution(p);
    return result == BLINK_ERR_INTERNAL ? BLINK_OK : result;
}

/* Take the program's prices; *budget is what all capacity is worth at them, and so the program's rate. */
static void take_prices(packer_t *p, double *budget)
{
    *budget = 0.0;
    for (uint32_t row = 0; row < p->net->row_count; row++) {
        p->duals[row] = fmax(plan_lp_price(p->lp, row), 0.0);
        *budget += p->duals[row];
        p->prices[row] = p->duals[row] * p->unit_GBps / p->net->row_GBps[row];
    }
    for (uint32_t root = 0; root < p->n; root++)
        p->worth[root] = p->per_rank && p->orbit_size[root] > 0
                             ? fmax(plan_lp_price(p->lp, p->balance_row[root]), 0.0)
                             : 1.0;
}

/* Pull the prices toward those of the best bound (Wentges' smoothing): the program's own jump about while it
 * knows few columns. *budget follows. */
static void smooth_prices(packer_t *p, double *budget)
{
    *budget = 0.0;
    for (uint32_t row = 0; row < p->net->row_count; row++) {
        p->prices[row] = PACK_SMOOTHING * p->best_prices[row] + (1.0 - PACK_SMOOTHING) * p->prices[row];
        *budget += p->prices[row] * p->net->row_GBps[row] / p->unit_GBps;
    }
}

/* Columns by the program's prices until it has an optimum, or no more work or time is left. */
static blink_result_t generate_columns(packer_t *p)
{
    bool misled = false, solved = true;
    for (uint32_t round = 0; round < PACK_ROUNDS_MAX && !pack_late(p); round++) {
        double rate = 0.0, budget = 0.0, cost = 0.0;
        uint32_t added = 0;
        BLINK_TRY(pack_solve(p, &solved));
        if (!solved)
            break;
        take_prices(p, &rate);
        bool smooth = p->large && !misled;
        budget = rate;
        if (smooth)
            smooth_prices(p, &budget);
        BLINK_TRY(price_columns(p, PACK_GAIN, &cost, &added));
        if (budget / cost < p->best_bound)
            keep_prices(p, budget / cost, cost);
        /* Smooth prices may find nothing where the program's own would. */
        misled = smooth && added == 0;
        if ((added == 0 && !misled) || pack_near_bound(p))
            break;
        if (p->large && p->net->row_count >= SPREAD_ROWS_LEAST)
            BLINK_TRY(add_variety(p, &added));
    }
    return BLINK_OK;
}

blink_result_t pack_optimise(packer_t *p)
{
    bool fans_in = p->plan->collective == BLINK_REDUCE;
    BLINK_TRY(seed_columns(p));
    for (uint32_t root = 0; root < p->n; root++)
        p->worth[root] = 0.0;
    BLINK_TRY(price_cut(p, fans_in ? p->net->to : p->net->from, true));
    if (!p->net->reversible) /* or both cuts are one */
        BLINK_TRY(price_cut(p, fans_in ? p->net->from : p->net->to, false));
    if (p->net->row_count >= SPREAD_ROWS_LEAST)
        BLINK_TRY(pack_spread(p, false));
    plan_lp_allow(p->lp, PACK_WORK_MAX);
    if (!pack_near_bound(p))
        BLINK_TRY(generate_columns(p));
    /* Where time was over before the program had a solution, one sweep has one. */
    if (!pack_near_bound(p) && (p->large || p->rate <= 0.0))
        BLINK_TRY(pack_spread(p, true));
    p->optimum = p->rate;
    return BLINK_OK;
}

bool pack_near_bound(const packer_t *p)
{
    return p->rate >= (1.0 - (p->large ? PACK_GAIN_LARGE : PACK_GAIN)) * p->best_bound;
}

blink_result_t pack_optimise_limited(packer_t *p)
{
    bool solved = true;
    p->limit->tastes = 0;
    BLINK_TRY(seed_columns(p));
    plan_lp_allow(p->lp, PACK_WORK_MAX);
    for (uint32_t added = 1; added > 0 || p->limit->tastes == 0;) {
        double rate = 0.0, cost = 0.0;
        p->limit->tastes = added > 0 ? 0 : p->large ? 1 : TASTES;
        /* However late it is, the first limit that joins the ranks gives a plan. */
        plan_lp_until(p->lp, p->rate > 0.0 ? p->deadline_ns : 0);
        BLINK_TRY(pack_solve(p, &solved));
        if (!solved || pack_late(p))
            break;
        take_prices(p, &rate);
        BLINK_TRY(price_columns(p, LEAST_GAIN_LIMITED, &cost, &added));
    }
    p->optimum = p->rate;
    p->best_bound = INFINITY; /* trees under a limit prove nothing about others */
    return BLINK_OK;
}

double pack_rate(const packer_t *p)
{
    return p->rate;
}

double pack_value(const packer_t *p, uint32_t column)
{
    return p->column_value[column];
}

bool pack_uses(const packer_t *p, uint32_t column)
{
    return pack_value(p, column) > PACK_NOISE * p->optimum;
}

void pack_favour(packer_t *p, uint32_t column, double bonus)
{
    plan_lp_weigh(p->lp, lp_column(p, column), (p->per_rank ? 0.0 : 1.0) + bonus);
}

void pack_fix(packer_t *p, uint32_t column, double value)
{
    plan_lp_fix(p->lp, lp_column(p, column), value);
}

void pack_free(packer_t *p, uint32_t column)
{
    plan_lp_free(p->lp, lp_column(p, column));
}

blink_result_t pack_reoptimise(packer_t *p, double least_gain, bool *solved)
{
    uint32_t added = 1;
    BLINK_TRY(pack_solve(p, solved));
    while (*solved && added > 0 && !p->large) {
        double budget = 0.0, cost = 0.0;
        take_prices(p, &budget);
        BLINK_TRY(price_columns(p, least_gain, &cost, &added));
        if (added > 0)
            BLINK_TRY(pack_solve(p, solved));
    }
    return BLINK_OK;
}
