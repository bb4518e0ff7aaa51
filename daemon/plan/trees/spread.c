/*
 * A first packing by multiplicative weights (Garg and Koenemann, FOCS 1998; Plotkin, Shmoys and Tardos,
 * 1995): tree after tree, each the cheapest when a link costs exponentially more the more of the trees before
 * cross it. Their mean comes near to the optimum soon, though not to it; and the linear program finds in
 * these trees, unlike in any that it asks for itself, nearly all that it needs.
 */
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/trees/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct spread {
    packer_t *packer;
    double *load;   /* per row: parts of its capacity, by all trees so far */
    double *weight; /* per column: how often it was made */
    uint32_t weight_count;
    double most, total; /* of the loads; of what the trees carry */
    uint32_t trees;
    bool finish;
} spread_t;

static void set_prices(spread_t *s)
{
    packer_t *p = s->packer;
    double exponent =
        fmin(SPREAD_EXPONENT * sqrt(1.0 + s->trees / SPREAD_EXPONENT_TREES), SPREAD_EXPONENT_MAX);
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->prices[row] =
            exp(s->most > 0.0 ? exponent * (s->load[row] / s->most - 1.0) : 0.0) / p->net->row_GBps[row];
    pack_paths_price(&p->paths, p->prices);
}

/* One more tree of a root. */
static blink_result_t add_tree(spread_t *s, uint32_t root)
{
    packer_t *p = s->packer;
    pack_candidate_t made;
    uint32_t column = 0;
    double weight = p->per_rank ? p->orbit_size[root] : 1.0;
    set_prices(s);
    BLINK_TRY(pack_add_cheapest(p, root, &made, &column));
    uint32_t count = pack_measure_column(p, column);
    for (uint32_t i = 0; i < count; i++) {
        s->load[p->rows[i]] += p->values[i] * weight;
        s->most = fmax(s->most, s->load[p->rows[i]]);
    }
    if (p->column_count > s->weight_count) {
        double *grown = realloc(s->weight, p->column_count * sizeof(*grown));
        if (!grown)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u trees", p->column_count);
        memset(&grown[s->weight_count], 0, (p->column_count - s->weight_count) * sizeof(*grown));
        s->weight = grown;
        s->weight_count = p->column_count;
    }
    s->weight[column] += weight;
    s->total += weight;
    s->trees++;
    return BLINK_OK;
}

/* Whether to sweep over all roots once more. */
static bool goes_on(const spread_t *s, uint32_t sweeps)
{
    const packer_t *p = s->packer;
    uint64_t work = (uint64_t)s->trees * p->n * p->n;
    if (sweeps == 0)
        return true;
    if (!p->large || p->net->row_count < SPREAD_ROWS_LEAST || pack_late(p) ||
        s->total / s->most >= (1.0 - SPREAD_ENOUGH) * p->best_bound * p->unit_GBps)
        return false;
    if (s->finish)
        return s->trees < SPREAD_FINISH_TREES && work < SPREAD_FINISH_WORK;
    return (s->trees < SPREAD_TREES || sweeps < SPREAD_SWEEPS) && work < SPREAD_WORK;
}

/* A sweep is whole, for each root has its part of the payload. Its last prices prove a bound now and then. */
static blink_result_t sweep(spread_t *s)
{
    packer_t *p = s->packer;
    uint32_t proven = SPREAD_TREES / 2;
    for (uint32_t sweeps = 0; goes_on(s, sweeps); sweeps++) {
        for (uint32_t root = 0; root < p->n; root++)
            if (pack_may_be_root(p, root))
                BLINK_TRY(add_tree(s, root));
        if (s->trees < 2 * proven)
            continue;
        proven = s->trees;
        set_prices(s);
        BLINK_TRY(pack_prove(p));
    }
    return BLINK_OK;
}

/* Take the trees' mean for the solution, as much of it as the busiest row allows. */
static void take_mean(const spread_t *s)
{
    packer_t *p = s->packer;
    for (uint32_t column = 0; column < p->column_count; column++)
        p->column_value[column] =
            column < s->weight_count ? s->weight[column] / (s->most * p->unit_GBps) : 0.0;
    p->rate = s->total / (s->most * p->unit_GBps);
}

blink_result_t pack_spread(packer_t *p, bool finish)
{
    spread_t s = {.packer = p, .finish = finish, .load = calloc(p->net->row_count + 1u, sizeof(*s.load))};
    if (!s.load)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the loads of %u rows", p->net->row_count);
    blink_result_t result = sweep(&s);
    if (result == BLINK_OK && s.total / (s.most * p->unit_GBps) > p->rate)
        take_mean(&s);
    free(s.weight);
    free(s.load);
    return result;
}
