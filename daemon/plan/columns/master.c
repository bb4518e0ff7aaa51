/* One program, its columns and its prices, for whoever finds columns. */
#include "plan/columns/master.h"

#include "base/clock.h"
#include "error.h"
#include "plan/columns/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ranks without a single link between them still get as far as being named. */
static uint32_t capacity_rows(const pack_master_t *m)
{
    return m->net->row_count > 0 ? m->net->row_count : 1;
}

static bool is_balanced(const pack_master_t *m)
{
    return m->rate_weight > 0.0;
}

blink_result_t pack_master_init(pack_master_t *m, const topo_t *topo, const plan_t *plan, const bool *allowed,
                                uint32_t few_ranks)
{
    *m = (pack_master_t){.plan = plan, .work_most = UINT64_MAX, .best_bound = INFINITY};
    if (plan->rank_count > few_ranks)
        BLINK_TRY(pack_find_symmetries(topo, plan, &m->symmetries, &m->symmetry_count));
    BLINK_TRY(pack_net_create(topo, plan, allowed, m->symmetries, m->symmetry_count, &m->net));
    if (m->net->symmetry_count == 0) {
        pack_free_symmetries(m->symmetries, m->symmetry_count);
        m->symmetries = NULL;
        m->symmetry_count = 0;
    }
    return pack_paths_init(&m->paths, m->net);
}

void pack_master_fini(pack_master_t *m)
{
    plan_lp_destroy(m->lp);
    pack_paths_fini(&m->paths);
    pack_net_destroy(m->net);
    pack_free_symmetries(m->symmetries, m->symmetry_count);
    vec_free(&m->columns);
    vec_free(&m->column_paths);
    free(m->goals);
    free(m->prices);
    free(m->duals);
    free(m->best_prices);
    free(m->rows);
    free(m->values);
    free(m->loads);
}

static blink_result_t allocate(pack_master_t *m, uint32_t goal_count)
{
    uint32_t rows = capacity_rows(m), entries = rows >= goal_count ? rows + 1 : goal_count;
    m->goals = calloc(goal_count + 1u, sizeof(*m->goals));
    m->prices = calloc(rows, sizeof(*m->prices));
    m->duals = calloc(rows, sizeof(*m->duals));
    m->best_prices = calloc(rows, sizeof(*m->best_prices));
    m->rows = calloc(entries, sizeof(*m->rows));
    m->values = calloc(entries, sizeof(*m->values));
    m->loads = calloc(rows, sizeof(*m->loads));
    if (!m->goals || !m->prices || !m->duals || !m->best_prices || !m->rows || !m->values || !m->loads)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a program of %u rows", rows);
    return BLINK_OK;
}

blink_result_t pack_master_open(pack_master_t *m, const uint32_t *sizes, uint32_t goal_count,
                                double rate_weight)
{
    uint32_t rows = capacity_rows(m);
    m->rate_weight = rate_weight;
    m->goal_count = goal_count;
    BLINK_TRY(allocate(m, goal_count));
    for (uint32_t goal = 0; goal < goal_count; goal++)
        m->goals[goal] = (pack_goal_t){.size = sizes[goal], .newest = PLAN_NONE};
    if (m->unsolved)
        return BLINK_OK;
    BLINK_TRY(
        plan_lp_create(rows + (is_balanced(m) ? goal_count : 0), m->large ? PACK_LOOSENING : 0.0, &m->lp));
    plan_lp_until(m->lp, m->plan->deadline_ns);
    if (!is_balanced(m))
        return BLINK_OK;
    for (uint32_t goal = 0; goal < goal_count; goal++) {
        m->rows[goal] = rows + goal;
        m->values[goal] = sizes[goal];
        plan_lp_balance(m->lp, rows + goal);
    }
    BLINK_TRY(plan_lp_add(m->lp, goal_count, m->rows, m->values));
    plan_lp_weigh(m->lp, 0, rate_weight);
    return BLINK_OK;
}

bool pack_master_late(const pack_master_t *m)
{
    return m->plan->deadline_ns > 0 && clock_ns() > m->plan->deadline_ns;
}

/* ---- columns ---- */

blink_result_t pack_master_write(pack_master_t *m, uint32_t count, uint32_t **paths)
{
    if (!vec_reserve(&m->column_paths, m->column_paths.count + count))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu columns", m->columns.count + 1);
    *paths = &m->column_paths.items[m->column_paths.count];
    return BLINK_OK;
}

const uint32_t *pack_master_paths(const pack_master_t *m, uint32_t column)
{
    return &m->column_paths.items[m->columns.items[column].first_path];
}

uint32_t pack_master_find(const pack_master_t *m, uint32_t goal, uint32_t count)
{
    const uint32_t *written = &m->column_paths.items[m->column_paths.count];
    for (uint32_t i = m->goals[goal].newest; i != PLAN_NONE; i = m->columns.items[i].next)
        if (m->columns.items[i].path_count == count &&
            memcmp(pack_master_paths(m, i), written, count * sizeof(*written)) == 0)
            return i;
    return PLAN_NONE;
}

uint32_t pack_master_measure_written(pack_master_t *m, uint32_t count)
{
    const uint32_t *written = &m->column_paths.items[m->column_paths.count];
    return pack_measure(&m->paths, written, count, m->rows, m->values, m->loads);
}

uint32_t pack_master_measure(pack_master_t *m, uint32_t column)
{
    return pack_measure(&m->paths, pack_master_paths(m, column), m->columns.items[column].path_count, m->rows,
                        m->values, m->loads);
}

/* Number of a column in the linear program. */
static uint32_t lp_column(const pack_master_t *m, uint32_t column)
{
    return is_balanced(m) ? column + 1 : column;
}

/* The column whose entries are in rows[] and values[]. */
static blink_result_t add_to_program(pack_master_t *m, uint32_t column, uint32_t goal, uint32_t entries)
{
    for (uint32_t i = 0; i < entries; i++)
        m->values[i] *= m->unit_GBps;
    if (is_balanced(m)) {
        m->rows[entries] = capacity_rows(m) + goal;
        m->values[entries++] = -1.0;
    }
    BLINK_TRY(plan_lp_add(m->lp, entries, m->rows, m->values));
    if (is_balanced(m))
        plan_lp_weigh(m->lp, lp_column(m, column), 0.0);
    return BLINK_OK;
}

blink_result_t pack_master_add(pack_master_t *m, uint32_t goal, uint32_t count)
{
    uint32_t index = (uint32_t)m->columns.count, entries = pack_master_measure_written(m, count);
    double busiest = 0.0;
    pack_column_t column = {.goal = goal,
                            .first_path = (uint32_t)m->column_paths.count,
                            .path_count = count,
                            .next = m->goals[goal].newest};
    for (uint32_t i = 0; i < entries; i++)
        busiest = fmax(busiest, m->values[i]);
    if (!(m->unit_GBps > 0.0))
        m->unit_GBps = 1.0 / busiest;
    if (!m->unsolved)
        BLINK_TRY(add_to_program(m, index, goal, entries));
    if (!vec_push(&m->columns, column))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u columns", index + 1);
    m->column_paths.count += count;
    m->goals[goal].newest = index;
    return BLINK_OK;
}

void pack_master_favour(pack_master_t *m, uint32_t column, double bonus)
{
    plan_lp_weigh(m->lp, lp_column(m, column), (is_balanced(m) ? 0.0 : 1.0) + bonus);
}

void pack_master_cap(pack_master_t *m, uint32_t column, double most)
{
    plan_lp_cap(m->lp, lp_column(m, column), most);
}

void pack_master_fix(pack_master_t *m, uint32_t column, double value)
{
    plan_lp_fix(m->lp, lp_column(m, column), value);
}

void pack_master_free(pack_master_t *m, uint32_t column)
{
    plan_lp_free(m->lp, lp_column(m, column));
}

/* ---- solutions and prices ---- */

blink_result_t pack_master_solve(pack_master_t *m, bool *solved)
{
    blink_result_t result = plan_lp_solve(m->lp);
    m->large |= plan_lp_work(m->lp) > m->work_most;
    *solved = result == BLINK_OK;
    if (!*solved)
        return result == BLINK_ERR_INTERNAL ? BLINK_OK : result;
    m->rate = is_balanced(m) ? m->rate_weight * plan_lp_value(m->lp, 0) : 0.0;
    for (uint32_t column = 0; column < m->columns.count; column++) {
        m->columns.items[column].value = plan_lp_value(m->lp, lp_column(m, column));
        m->rate += is_balanced(m) ? 0.0 : m->columns.items[column].value;
    }
    return BLINK_OK;
}

void pack_master_set_worth(pack_master_t *m, double worth)
{
    for (uint32_t goal = 0; goal < m->goal_count; goal++)
        m->goals[goal].worth = worth;
}

void pack_master_take_prices(pack_master_t *m)
{
    for (uint32_t row = 0; row < m->net->row_count; row++) {
        m->duals[row] = fmax(plan_lp_price(m->lp, row), 0.0);
        m->prices[row] = m->duals[row] * m->unit_GBps / m->net->row_GBps[row];
    }
    for (uint32_t goal = 0; goal < m->goal_count; goal++)
        m->goals[goal].worth =
            is_balanced(m) ? fmax(plan_lp_price(m->lp, capacity_rows(m) + goal), 0.0) : 1.0;
}

/* Pull the prices toward those of the best bound (Wentges' smoothing): the program's own jump about while it
 * knows few columns. */
static void smooth_prices(pack_master_t *m)
{
    for (uint32_t row = 0; row < m->net->row_count; row++)
        m->prices[row] = PACK_SMOOTHING * m->best_prices[row] + (1.0 - PACK_SMOOTHING) * m->prices[row];
}

blink_result_t pack_master_prove(pack_master_t *m, double least_gain, uint32_t *added)
{
    double budget = 0.0, cost = 0.0;
    *added = 0;
    pack_paths_price(&m->paths, m->prices);
    BLINK_TRY(m->pricing->price(m->context, least_gain, &cost, added)); /* the first column sets the unit */
    for (uint32_t row = 0; row < m->net->row_count; row++)
        budget += m->prices[row] * m->net->row_GBps[row] / m->unit_GBps;
    if (!(cost > 0.0 && budget / cost < m->best_bound))
        return BLINK_OK;
    m->best_bound = budget / cost;
    for (uint32_t row = 0; row < m->net->row_count; row++)
        m->best_prices[row] = m->prices[row] / cost;
    return BLINK_OK;
}

bool pack_master_near_bound(const pack_master_t *m)
{
    return m->rate >= (1.0 - (m->large ? fmax(PACK_GAIN_LARGE, m->enough) : m->enough)) * m->best_bound;
}

blink_result_t pack_master_generate(pack_master_t *m, uint32_t rounds_max, bool *solved)
{
    bool misled = false, again = true;
    *solved = false;
    for (uint32_t round = 0; round < rounds_max && again && !pack_master_late(m); round++) {
        uint32_t added = 0;
        bool enough = true;
        BLINK_TRY(pack_master_solve(m, &enough));
        if (!enough)
            break;
        *solved = true;
        pack_master_take_prices(m);
        bool smooth = m->large && !misled;
        if (smooth)
            smooth_prices(m);
        BLINK_TRY(pack_master_prove(m, PACK_GAIN, &added));
        /* Smooth prices may find nothing where the program's own would. */
        misled = smooth && added == 0;
        again = (added > 0 || misled) && !pack_master_near_bound(m);
        if (again && m->large && m->pricing->vary)
            BLINK_TRY(m->pricing->vary(m->context, &added));
    }
    return BLINK_OK;
}

void pack_master_finish(pack_master_t *m, plan_t *plan)
{
    plan_normalise_shares(plan);
    plan->symmetries = m->symmetries;
    plan->symmetry_count = m->symmetry_count;
    m->symmetries = NULL;
    m->symmetry_count = 0;
}

/* ---- a first packing ---- */

blink_result_t pack_spread_init(pack_spread_t *spread, const pack_master_t *m)
{
    *spread = (pack_spread_t){.load = calloc(m->net->row_count + 1u, sizeof(*spread->load))};
    if (!spread->load)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the loads of %u rows", m->net->row_count);
    return BLINK_OK;
}

void pack_spread_fini(pack_spread_t *spread)
{
    free(spread->load);
}

void pack_spread_price(const pack_spread_t *spread, pack_master_t *m, double exponent)
{
    for (uint32_t row = 0; row < m->net->row_count; row++)
        m->prices[row] = exp(spread->most > 0.0 ? exponent * (spread->load[row] / spread->most - 1.0) : 0.0) /
                         m->net->row_GBps[row];
    pack_paths_price(&m->paths, m->prices);
}

void pack_spread_load(pack_spread_t *spread, pack_master_t *m, uint32_t column, double weight)
{
    uint32_t count = pack_master_measure(m, column);
    for (uint32_t i = 0; i < count; i++) {
        spread->load[m->rows[i]] += m->values[i] * weight;
        spread->most = fmax(spread->most, spread->load[m->rows[i]]);
    }
}
