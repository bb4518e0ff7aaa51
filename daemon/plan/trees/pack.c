/*
 * Packed spanning trees: the fractional packing of (root, reduce tree, broadcast tree) columns into the
 * links' capacities, solved by column generation. The program knows a few columns; the links' dual prices
 * tell, by one cheapest arborescence per root and direction, whether a better column exists (Gilmore and
 * Gomory's scheme on Edmonds' branchings). When none does, the packing is optimal and the prices are its
 * certificate. Where every rank is a root of its own, all must get the same rate, and the price of a root's
 * balance row says what its trees may cost.
 */
#include "plan/columns/pack.h"

#include "error.h"
#include "plan/columns/lp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns that gain less than this are no gain, and a rate as near to its bound as this is optimal. Large
 * plans are content with less: each step costs them more. */
#define LEAST_GAIN       1e-9
#define LEAST_GAIN_LARGE 3e-4
/* Values below this part of the rate are noise of the solver. */
#define NOISE      1e-9
#define ROUNDS_MAX 2000u
/* A program that took this much work without an end is large, however few its ranks: some tens of ms. */
#define SMALL_WORK_MAX 3000000u
/* Where every rank is a root there are many trees anyhow, so symmetries pay sooner. */
#define PER_RANK_SMALL 8u
/* How far prices are pulled toward the best ones of a large plan. */
#define SMOOTHING 0.9
/* Roots priced per round where all are alike. */
#define REVERSIBLE_ROOTS 4u
/* Rows of a large plan are loosened by up to this, each differently, lest the simplex method stall among
 * ties. */
#define LOOSENING 1e-4

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
    free(p->prices);
    free(p->duals);
    free(p->best_prices);
    free(p->orbit_size);
    free(p->balance_row);
    free(p->worth);
    free(p->matrix);
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
    p->duals = calloc(rows, sizeof(*p->duals));
    p->best_prices = calloc(rows, sizeof(*p->best_prices));
    p->orbit_size = calloc(n, sizeof(*p->orbit_size));
    p->balance_row = calloc(n, sizeof(*p->balance_row));
    p->worth = calloc(n, sizeof(*p->worth));
    p->matrix = p->net->reversible ? NULL : calloc((size_t)n * n, sizeof(*p->matrix));
    p->distance = calloc(n, sizeof(*p->distance));
    p->parent = calloc(n, sizeof(*p->parent));
    p->level = calloc(n, sizeof(*p->level));
    p->queue = calloc(n, sizeof(*p->queue));
    p->rows = calloc(rows, sizeof(*p->rows));
    p->loads = calloc(rows, sizeof(*p->loads));
    p->values = calloc(rows, sizeof(*p->values));
    if (p->prices == NULL || p->duals == NULL || p->best_prices == NULL || p->orbit_size == NULL ||
        p->balance_row == NULL || p->worth == NULL || (p->matrix == NULL && !p->net->reversible) ||
        p->distance == NULL || p->parent == NULL || p->level == NULL || p->queue == NULL || p->rows == NULL ||
        p->loads == NULL || p->values == NULL)
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
                    .best_bound = INFINITY};
    if (n > (p->per_rank ? PER_RANK_SMALL : PACK_SMALL_RANKS))
        BLINK_TRY(pack_find_symmetries(topo, plan, &p->symmetries, &p->symmetry_count));
    BLINK_TRY(pack_net_create(topo, plan, allowed, p->symmetries, p->symmetry_count, &p->net));
    if (p->net->symmetry_count == 0) {
        pack_free_symmetries(p->symmetries, p->symmetry_count);
        p->symmetries = NULL;
        p->symmetry_count = 0;
    }
    p->large = n > PACK_SMALL_RANKS || p->symmetry_count > 0;
    BLINK_TRY(pack_paths_init(&p->paths, p->net));
    if (!p->net->reversible)
        BLINK_TRY(pack_arborist_init(&p->arborist, n));
    /* Ranks without a single link between them still get as far as being named. */
    uint32_t capacity_rows = p->net->row_count > 0 ? p->net->row_count : 1;
    BLINK_TRY(allocate(p, capacity_rows + n));
    for (uint32_t rank = 0; rank < n; rank++)
        orbits += p->orbit_size[p->net->orbit[rank]]++ == 0;
    BLINK_TRY(plan_lp_create(capacity_rows + (p->per_rank ? orbits : 0), p->large ? LOOSENING : 0.0, &p->lp));
    return p->per_rank ? add_balance(p, capacity_rows, orbits) : BLINK_OK;
}

static blink_result_t reserve_column(packer_t *p)
{
    if (p->column_count < p->column_room)
        return BLINK_OK;
    uint32_t room = 2 * p->column_room + 64;
    uint32_t *paths = realloc(p->column_paths, (size_t)room * p->tree_paths * sizeof(*paths));
    if (paths != NULL)
        p->column_paths = paths;
    uint32_t *roots = realloc(p->column_root, room * sizeof(*roots));
    if (roots != NULL)
        p->column_root = roots;
    uint32_t *depths = realloc(p->column_depth, room * sizeof(*depths));
    if (depths != NULL)
        p->column_depth = depths;
    if (paths == NULL || roots == NULL || depths == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u trees", room);
    p->column_room = room;
    return BLINK_OK;
}

static uint32_t measure_column(packer_t *p, const uint32_t *column)
{
    return pack_measure(&p->paths, column, p->tree_paths, p->rows, p->values, p->loads);
}

static bool column_known(const packer_t *p, const uint32_t *column)
{
    for (uint32_t i = 0; i < p->column_count; i++)
        if (memcmp(&p->column_paths[(size_t)i * p->tree_paths], column, p->tree_paths * sizeof(*column)) == 0)
            return true;
    return false;
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
    p->column_count++;
    return BLINK_OK;
}

/* Whether the collective may have this root, and it stands for its orbit. */
static bool may_be_root(const packer_t *p, uint32_t root)
{
    bool rooted = collective_has_root(p->plan->collective);
    return p->orbit_size[root] > 0 && (!rooted || root == p->plan->root);
}

/* On a reversible graph trees cost the same from every root: a few tell enough of large plans. */
static bool enough_roots(const packer_t *p, uint32_t priced)
{
    return p->net->reversible && p->large && priced >= REVERSIBLE_ROOTS;
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

/* Price one column per root that the collective may have and that stands for its orbit; add those that cost
 * less than they are worth by `least_gain`. *cost is what the payload costs at the least: the cheapest
 * column, or the mean of the cheapest columns of all ranks where each is a root of its own. */
static blink_result_t price_columns(packer_t *p, double least_gain, double *cost, uint32_t *added)
{
    double cheapest = INFINITY, sum = 0.0;
    uint32_t priced = 0;
    *added = 0;
    pack_paths_price(&p->paths, p->prices);
    for (uint32_t root = 0; root < p->n; root++) {
        if (!may_be_root(p, root) || (enough_roots(p, priced)))
            continue;
        priced++;
        pack_candidate_t made;
        BLINK_TRY(reserve_column(p));
        uint32_t *column = &p->column_paths[(size_t)p->column_count * p->tree_paths];
        BLINK_TRY(pack_grow_column(p, root, column, &made));
        cheapest = fmin(cheapest, made.cost);
        sum += made.cost * p->orbit_size[root];
        if (cost_in_program(p, column) >= p->worth[root] * (1.0 - least_gain) || column_known(p, column))
            continue;
        BLINK_TRY(add_column(p, column, &made));
        ++*added;
    }
    *cost = p->per_rank ? sum / p->n : cheapest;
    return BLINK_OK;
}

/* Prices at which the payload costs 1. */
static void keep_prices(packer_t *p, double bound, double cost)
{
    p->best_bound = bound;
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->best_prices[row] = p->prices[row] / cost;
}

/* First columns: the shallowest trees (every link costs the same), and those that prefer wide links, whose
 * prices are a first bound: as if all capacity could be used. */
static blink_result_t seed_columns(packer_t *p)
{
    double cost = 0.0;
    uint32_t added = 0;
    for (uint32_t root = 0; root < p->n; root++)
        p->worth[root] = INFINITY;
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->prices[row] = 1.0;
    pack_paths_price(&p->paths, p->prices);
    BLINK_TRY(pack_check_reachable(p));
    BLINK_TRY(price_columns(p, 0.0, &cost, &added));
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->prices[row] = 1.0 / p->net->row_GBps[row];
    BLINK_TRY(price_columns(p, 0.0, &cost, &added));
    keep_prices(p, p->net->row_count / p->unit_GBps / cost, cost);
    return BLINK_OK;
}

blink_result_t pack_solve(packer_t *p)
{
    p->work += (uint64_t)p->column_count * p->net->row_count;
    p->large |= p->work > SMALL_WORK_MAX;
    return plan_lp_solve(p->lp);
}

/* Solve and take the prices; *budget is what all capacity is worth at them, and so the program's rate. */
static blink_result_t take_prices(packer_t *p, double *budget)
{
    BLINK_TRY(pack_solve(p));
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
    return BLINK_OK;
}

/* Pull the prices toward those of the best bound (Wentges' smoothing): the program's own jump about while it
 * knows few columns. *budget follows. */
static void smooth_prices(packer_t *p, double *budget)
{
    *budget = 0.0;
    for (uint32_t row = 0; row < p->net->row_count; row++) {
        p->prices[row] = SMOOTHING * p->best_prices[row] + (1.0 - SMOOTHING) * p->prices[row];
        *budget += p->prices[row] * p->net->row_GBps[row] / p->unit_GBps;
    }
}

blink_result_t pack_optimise(packer_t *p)
{
    bool misled = false;
    BLINK_TRY(seed_columns(p));
    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        double rate = 0.0, budget = 0.0, cost = 0.0;
        uint32_t added = 0;
        BLINK_TRY(take_prices(p, &rate));
        bool smooth = p->large && !misled;
        budget = rate;
        if (smooth)
            smooth_prices(p, &budget);
        BLINK_TRY(price_columns(p, LEAST_GAIN, &cost, &added));
        if (budget / cost < p->best_bound)
            keep_prices(p, budget / cost, cost);
        /* Smooth prices may find nothing where the program's own would. */
        misled = smooth && added == 0;
        p->optimum = rate;
        if ((added == 0 && !misled) ||
            rate >= (1.0 - (p->large ? LEAST_GAIN_LARGE : LEAST_GAIN)) * p->best_bound)
            break;
    }
    return BLINK_OK;
}

double pack_rate(const packer_t *p)
{
    double rate = 0.0;
    if (p->per_rank)
        return p->n * plan_lp_value(p->lp, 0);
    for (uint32_t column = 0; column < p->column_count; column++)
        rate += plan_lp_value(p->lp, column);
    return rate;
}

double pack_value(const packer_t *p, uint32_t column)
{
    return plan_lp_value(p->lp, lp_column(p, column));
}

bool pack_uses(const packer_t *p, uint32_t column)
{
    return pack_value(p, column) > NOISE * p->optimum;
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

blink_result_t pack_reoptimise(packer_t *p, double least_gain)
{
    uint32_t added = 1;
    if (p->large)
        return pack_solve(p);
    while (added > 0 && !p->large) {
        double budget = 0.0, cost = 0.0;
        BLINK_TRY(take_prices(p, &budget));
        BLINK_TRY(price_columns(p, least_gain, &cost, &added));
    }
    return BLINK_OK;
}
