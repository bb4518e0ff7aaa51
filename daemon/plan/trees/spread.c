/*
 * A first packing of trees by multiplicative weights: tree after tree of each root in turn.
 */
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/trees/pack.h"

#include <math.h>
#include <stdlib.h>

typedef struct spread {
    packer_t *packer;
    pack_spread_t loads;
    VEC(double) weights; /* per column: how often it was made */
    double total;        /* of what the trees carry */
    uint32_t trees;
    bool finish;
} spread_t;

static void set_prices(spread_t *s)
{
    pack_spread_price(
        &s->loads, &s->packer->master,
        fmin(SPREAD_EXPONENT * sqrt(1.0 + s->trees / SPREAD_EXPONENT_TREES), SPREAD_EXPONENT_MAX));
}

/* One more tree of a root. */
static blink_result_t add_tree(spread_t *s, uint32_t root)
{
    packer_t *p = s->packer;
    uint32_t column = 0;
    double weight = p->per_rank ? p->orbit_size[root] : 1.0;
    set_prices(s);
    BLINK_TRY(pack_add_cheapest(p, root, &column));
    pack_spread_load(&s->loads, &p->master, column, weight);
    while (s->weights.count <= column)
        if (!vec_push(&s->weights, 0.0))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u trees", column + 1);
    s->weights.items[column] += weight;
    s->total += weight;
    s->trees++;
    return BLINK_OK;
}

/* Rate of the trees' mean, as much of it as the busiest row allows, in units of x. */
static double mean_rate(const spread_t *s)
{
    return s->total / (s->loads.most * s->packer->master.unit_GBps);
}

/* Whether to sweep over all roots once more. */
static bool goes_on(const spread_t *s, uint32_t sweeps)
{
    const packer_t *p = s->packer;
    const pack_master_t *m = &p->master;
    uint64_t work = (uint64_t)s->trees * p->n * p->n;
    if (sweeps == 0)
        return true;
    if (!m->large || m->net->row_count < SPREAD_ROWS_LEAST || pack_master_late(m) ||
        mean_rate(s) >= (1.0 - SPREAD_ENOUGH) * m->best_bound)
        return false;
    if (s->finish)
        return s->trees < SPREAD_FINISH_TREES && work < SPREAD_FINISH_WORK;
    return (s->trees < SPREAD_TREES || sweeps < SPREAD_SWEEPS) && work < SPREAD_WORK;
}

/* A sweep is whole, for each root has its part of the payload. Its last prices prove a bound now and then. */
static blink_result_t sweep(spread_t *s)
{
    packer_t *p = s->packer;
    uint32_t proven = SPREAD_TREES / 2, added = 0;
    for (uint32_t sweeps = 0; goes_on(s, sweeps); sweeps++) {
        for (uint32_t root = 0; root < p->n; root++)
            if (pack_may_be_root(p, root))
                BLINK_TRY(add_tree(s, root));
        if (s->trees < 2 * proven)
            continue;
        proven = s->trees;
        set_prices(s);
        BLINK_TRY(pack_master_prove(&p->master, 0.0, &added));
    }
    return BLINK_OK;
}

/* Take the trees' mean for the solution. */
static void take_mean(const spread_t *s)
{
    pack_master_t *m = &s->packer->master;
    for (uint32_t column = 0; column < m->columns.count; column++)
        m->columns.items[column].value =
            column < s->weights.count ? s->weights.items[column] / (s->loads.most * m->unit_GBps) : 0.0;
    m->rate = mean_rate(s);
}

blink_result_t pack_spread(packer_t *p, bool finish)
{
    spread_t s = {.packer = p, .finish = finish};
    blink_result_t result = pack_spread_init(&s.loads, &p->master);
    if (result == BLINK_OK)
        result = sweep(&s);
    if (result == BLINK_OK && mean_rate(&s) > p->master.rate)
        take_mean(&s);
    vec_free(&s.weights);
    pack_spread_fini(&s.loads);
    return result;
}
