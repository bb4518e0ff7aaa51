/* As few trees as keep the rate: the paper's section 3.2.1. Multiplicative weights spread the payload over
 * hundreds of trees; whole numbers of equal units need about as many trees as there are units. Where whole
 * links lose more than the paper's 5 %, units are relaxed to fractions of a link, and at last to any
 * weights. */
#include "error.h"
#include "plan/baseline/blink/blink_parts.h"

#include <math.h>

/* The part of the bound that fewer trees must keep. */
#define KEEP 0.95
/* Units down to this part of a link are tried before any weights are allowed. */
#define FINEST_UNIT 8u
/* More units than this are no fewer trees. */
#define UNITS_MAX 64.0
/* Subproblems that one search over whole numbers may solve. */
#define SUBPROBLEMS_MAX 500u
/* A solution's weight below this part of a unit is noise of the solver. */
#define NOISE 1e-6

/* A program over all trees of the pool: one unit of x is unit_GBps on the tree. */
static blink_result_t make_program(blink_pool_t *pool, double unit_GBps, plan_lp_t **lp)
{
    BLINK_TRY(plan_lp_create(pool->net->row_count, 0.0, lp));
    for (uint32_t tree = 0; tree < pool->tree_count; tree++) {
        uint32_t count = blink_pool_measure(pool, tree);
        for (uint32_t i = 0; i < count; i++)
            pool->values[i] *= unit_GBps;
        BLINK_TRY(plan_lp_add(*lp, count, pool->rows, pool->values));
    }
    return BLINK_OK;
}

static double sum_of(const plan_lp_t *lp, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t tree = 0; tree < count; tree++)
        sum += plan_lp_value(lp, tree);
    return sum;
}

static void take_weights(blink_pool_t *pool, const plan_lp_t *lp, double unit_GBps)
{
    for (uint32_t tree = 0; tree < pool->tree_count; tree++) {
        double value = plan_lp_value(lp, tree);
        pool->GBps[tree] = value > NOISE ? value * unit_GBps : 0.0;
    }
}

/* Search `enough` units, at most `most` of them on one tree. */
static blink_result_t search_units(blink_pool_t *pool, double unit_GBps, double enough, uint32_t most,
                                   bool *found)
{
    plan_lp_t *lp = NULL;
    blink_result_t result = make_program(pool, unit_GBps, &lp);
    for (uint32_t tree = 0; result == BLINK_OK && tree < pool->tree_count; tree++)
        plan_lp_make_whole(lp, tree, most);
    if (result == BLINK_OK)
        result = plan_lp_solve(lp);
    /* Whole numbers do no better than any: where those fall short there is nothing to search. */
    if (result == BLINK_OK && sum_of(lp, pool->tree_count) >= enough - NOISE) {
        result = plan_lp_solve_whole(lp, enough, SUBPROBLEMS_MAX);
        *found = result == BLINK_OK && sum_of(lp, pool->tree_count) >= enough - NOISE;
        if (*found)
            take_weights(pool, lp, unit_GBps);
    }
    plan_lp_destroy(lp);
    return result;
}

/* Any weights: the best these trees can do, on no more trees than rows are full. */
static blink_result_t solve_any(blink_pool_t *pool)
{
    plan_lp_t *lp = NULL;
    blink_result_t result = make_program(pool, pool->unit_GBps, &lp);
    if (result == BLINK_OK)
        result = plan_lp_solve(lp);
    if (result == BLINK_OK)
        take_weights(pool, lp, pool->unit_GBps);
    plan_lp_destroy(lp);
    return result;
}

double blink_pool_units(const blink_pool_t *pool, uint32_t part)
{
    double unit_GBps = pool->unit_GBps / part;
    double enough = ceil(KEEP * pool->bound_GBps / unit_GBps - NOISE);
    bool possible = enough <= UNITS_MAX && enough * unit_GBps <= pool->bound_GBps * (1.0 + NOISE);
    return possible ? enough : 0.0;
}

blink_result_t blink_pool_pick(blink_pool_t *pool, uint32_t part, bool *found)
{
    double unit_GBps = pool->unit_GBps / part, enough = blink_pool_units(pool, part);
    *found = false;
    if (enough <= 0.0)
        return BLINK_OK;
    /* The paper's weights are 0 or 1; parallel links may carry the same tree more than once. */
    BLINK_TRY(search_units(pool, unit_GBps, enough, 1, found));
    return *found ? BLINK_OK : search_units(pool, unit_GBps, enough, (uint32_t)enough, found);
}

blink_result_t blink_pool_relax(blink_pool_t *pool)
{
    bool found = false;
    for (uint32_t part = 2; part <= FINEST_UNIT && !found; part++)
        BLINK_TRY(blink_pool_pick(pool, part, &found));
    return found ? BLINK_OK : solve_any(pool);
}
