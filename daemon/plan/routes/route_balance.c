/*
 * Routes for many demands, near to the optimum and soon. What all rows cost together is made the least, where
 * a row costs exponentially more the more it is loaded: demand after demand moves payload from its dear
 * routes to its cheapest one, until both cost the same (gradient projection over paths, as traffic is
 * assigned to roads: Bertsekas and Gallager, Data Networks, 5.7; Jayakrishnan and others, 1994). The exponent
 * grows by a little each sweep, so that in the end the busiest row alone counts (Plotkin, Shmoys and Tardos,
 * 1995). Where it is large from the beginning, the busiest rows are so dear that nothing moves between them.
 * The same prices prove the bound.
 */
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/routes/route.h"

#include <math.h>
#include <stdlib.h>

/* What one GB/s of a route puts on a row: parts of its capacity. */
typedef struct use {
    uint32_t row;
    double part;
} use_t;

/* What moving 1 GB/s from one route to another changes. */
typedef struct shift {
    uint32_t *rows;
    double *change; /* per row of the net: parts of its capacity; zero between uses */
    uint32_t count;
} shift_t;

typedef struct balance {
    router_t *router;
    pack_spread_t loads;
    double *mean;     /* per row: of the prices that proved bounds */
    double *price;    /* per row: of its capacity */
    double steepness; /* by which a price grows with a load: the exponent for each part of a capacity */
    shift_t shift;
    VEC(use_t) uses;       /* of all routes */
    VEC(uint32_t) use_end; /* per route: where its uses end; the next one's begin there */
} balance_t;

static blink_result_t balance_init(balance_t *b, router_t *r)
{
    size_t rows = r->master.net->row_count + 1u;
    *b = (balance_t){.router = r};
    BLINK_TRY(pack_spread_init(&b->loads, &r->master));
    b->mean = calloc(rows, sizeof(*b->mean));
    b->price = calloc(rows, sizeof(*b->price));
    b->shift.rows = calloc(rows, sizeof(*b->shift.rows));
    b->shift.change = calloc(rows, sizeof(*b->shift.change));
    if (!b->mean || !b->price || !b->shift.rows || !b->shift.change)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the prices of %zu rows", rows);
    return BLINK_OK;
}

static void balance_fini(balance_t *b)
{
    pack_spread_fini(&b->loads);
    free(b->mean);
    free(b->price);
    free(b->shift.rows);
    free(b->shift.change);
    vec_free(&b->uses);
    vec_free(&b->use_end);
}

/* Know the uses of all routes that there are by now. */
static blink_result_t learn_uses(balance_t *b)
{
    pack_master_t *m = &b->router->master;
    while (b->use_end.count < m->columns.count) {
        uint32_t entries = pack_master_measure(m, (uint32_t)b->use_end.count);
        bool pushed = true;
        for (uint32_t i = 0; i < entries; i++)
            pushed &= vec_push(&b->uses, ((use_t){m->rows[i], m->values[i]}));
        if (!pushed || !vec_push(&b->use_end, (uint32_t)b->uses.count))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu routes", m->columns.count);
    }
    return BLINK_OK;
}

static const use_t *uses_of(const balance_t *b, uint32_t route)
{
    return &b->uses.items[route > 0 ? b->use_end.items[route - 1] : 0];
}

static const use_t *end_of(const balance_t *b, uint32_t route)
{
    return &b->uses.items[b->use_end.items[route]];
}

static pack_column_t *column_of(balance_t *b, uint32_t route)
{
    return &b->router->master.columns.items[route];
}

static double price_at(const balance_t *b, double load)
{
    return exp(b->steepness * (load - b->loads.most));
}

/* ---- a shift ---- */

static void change_by(balance_t *b, uint32_t route, double sign)
{
    for (const use_t *use = uses_of(b, route); use < end_of(b, route); use++) {
        if (b->shift.change[use->row] == 0.0)
            b->shift.rows[b->shift.count++] = use->row;
        b->shift.change[use->row] += sign * use->part;
    }
}

/* Begin a shift from one route to another. Ended by end_shift() or drop_shift(). */
static void begin_shift(balance_t *b, uint32_t from, uint32_t to)
{
    change_by(b, to, 1.0);
    change_by(b, from, -1.0);
}

static void drop_shift(balance_t *b)
{
    for (uint32_t i = 0; i < b->shift.count; i++)
        b->shift.change[b->shift.rows[i]] = 0.0;
    b->shift.count = 0;
}

static void end_shift(balance_t *b, uint32_t from, uint32_t to, double moved)
{
    column_of(b, from)->value -= moved;
    column_of(b, to)->value += moved;
    for (uint32_t i = 0; i < b->shift.count; i++) {
        uint32_t row = b->shift.rows[i];
        b->loads.load[row] += moved * b->shift.change[row];
        b->price[row] = price_at(b, b->loads.load[row]);
    }
    drop_shift(b);
}

/* A sum of prices that may be beyond any number, by its logarithm; and how that grows with what moves. */
typedef struct log_sum {
    double log, growth;
} log_sum_t;

/* What the next bit costs (sign 1) or saves (sign -1) once so much has moved. */
static log_sum_t sum_prices(const balance_t *b, double moved, double sign)
{
    double dearest = -INFINITY, sum = 0.0, growth = 0.0;
    for (uint32_t i = 0; i < b->shift.count; i++) {
        uint32_t row = b->shift.rows[i];
        double change = b->shift.change[row];
        if (sign * change > 0.0)
            dearest = fmax(dearest, b->loads.load[row] + moved * change);
    }
    for (uint32_t i = 0; i < b->shift.count; i++) {
        uint32_t row = b->shift.rows[i];
        double change = b->shift.change[row];
        if (!(sign * change > 0.0))
            continue;
        double part = fabs(change) * exp(b->steepness * (b->loads.load[row] + moved * change - dearest));
        sum += part;
        growth += part * b->steepness * change;
    }
    return (log_sum_t){log(sum) + b->steepness * dearest, growth / sum};
}

/* Whether the first bit costs what it saves, or more. False where prices are too small to tell. */
static bool has_no_gain(const balance_t *b)
{
    double cost = 0.0, saved = 0.0;
    for (uint32_t i = 0; i < b->shift.count; i++) {
        double change = b->shift.change[b->shift.rows[i]], price = b->price[b->shift.rows[i]];
        cost += fmax(change, 0.0) * price;
        saved += fmax(-change, 0.0) * price;
    }
    return saved > 0.0 && cost >= (1.0 - BALANCE_NEAR) * saved;
}

/* How much of `most` to move until the next bit costs what it saves. The logarithms of both are nearly
 * straight lines, on which Newton's steps are long and few. */
static double find_balance(const balance_t *b, double most)
{
    double low = 0.0, high = most, moved = 0.0;
    if (has_no_gain(b))
        return 0.0;
    for (uint32_t step = 0; step < BALANCE_STEPS; step++) {
        log_sum_t cost = sum_prices(b, moved, 1.0), saved = sum_prices(b, moved, -1.0);
        double excess = cost.log - saved.log;
        if (fabs(excess) <= BALANCE_NEAR)
            return moved;
        if (excess < 0.0)
            low = moved;
        else
            high = moved;
        if (low >= high)
            return low;
        moved = fmin(moved - excess / (cost.growth - saved.growth), most);
        if (!(moved > low && moved <= high))
            moved = 0.5 * (low + high);
    }
    return low;
}

/* ---- sweeps ---- */

static double cost_of(const balance_t *b, uint32_t route)
{
    double cost = 0.0;
    for (const use_t *use = uses_of(b, route), *end = end_of(b, route); use < end; use++)
        cost += use->part * b->price[use->row];
    return cost;
}

/* The demand's cheapest route; a new one if the way last walked is cheaper by more than noise. */
static blink_result_t find_cheapest(balance_t *b, uint32_t demand, bool walked, uint32_t *cheapest)
{
    router_t *r = b->router;
    double least = INFINITY;
    for (uint32_t route = r->master.goals[demand].newest; route != PLAN_NONE;
         route = column_of(b, route)->next) {
        if (!walked && !(column_of(b, route)->value > 0.0))
            continue;
        double cost = cost_of(b, route);
        if (cost < least) {
            *cheapest = route;
            least = cost;
        }
    }
    if (!walked || r->distance[r->demands[demand].to] >= (1.0 - ROUTE_NOISE) * least)
        return BLINK_OK;
    uint32_t found = PLAN_NONE;
    BLINK_TRY(route_take(r, demand, &found));
    BLINK_TRY(learn_uses(b));
    if (cost_of(b, found) < least) /* the prices walked by are a little older */
        *cheapest = found;
    return BLINK_OK;
}

static blink_result_t balance_demand(balance_t *b, uint32_t demand, bool walked)
{
    uint32_t cheapest = b->router->master.goals[demand].newest;
    BLINK_TRY(find_cheapest(b, demand, walked, &cheapest));
    for (uint32_t route = b->router->master.goals[demand].newest; route != PLAN_NONE;
         route = column_of(b, route)->next) {
        if (route == cheapest || !(column_of(b, route)->value > 0.0))
            continue;
        begin_shift(b, route, cheapest);
        end_shift(b, route, cheapest, find_balance(b, column_of(b, route)->value));
    }
    return BLINK_OK;
}

static void find_busiest(balance_t *b)
{
    b->loads.most = 0.0;
    for (uint32_t row = 0; row < b->router->master.net->row_count; row++)
        b->loads.most = fmax(b->loads.most, b->loads.load[row]);
}

static void price_rows(balance_t *b, double exponent)
{
    find_busiest(b);
    b->steepness = exponent / b->loads.most;
    for (uint32_t row = 0; row < b->router->master.net->row_count; row++)
        b->price[row] = price_at(b, b->loads.load[row]);
}

/* The rate is what the busiest row allows. */
static void set_rate(balance_t *b)
{
    pack_master_t *m = &b->router->master;
    find_busiest(b);
    m->rate = 1.0 / (b->loads.most * m->unit_GBps);
}

/* Balance among the routes that carry something. */
static blink_result_t balance_known(balance_t *b)
{
    for (uint32_t demand = 0; demand < b->router->demand_count; demand++)
        BLINK_TRY(balance_demand(b, demand, false));
    return BLINK_OK;
}

/* Balance among all routes known, and look for cheaper ones. */
static blink_result_t balance_and_search(balance_t *b, double exponent)
{
    router_t *r = b->router;
    uint32_t walked = PLAN_NONE, sources = 0;
    for (uint32_t i = 0; i < r->demand_count; i++) {
        if (r->demands[i].from != walked && sources++ % ROUTE_SOURCES == 0) {
            pack_spread_price(&b->loads, &r->master, exponent);
            route_price_hop(r);
        }
        BLINK_TRY(route_walk(r, &r->demands[i], &walked));
        BLINK_TRY(balance_demand(b, i, true));
    }
    return BLINK_OK;
}

/* The prices of now prove a bound, and their mean, in which what is seldom dear costs less, often a better.
 */
static blink_result_t prove(balance_t *b, double exponent)
{
    pack_master_t *m = &b->router->master;
    uint32_t added = 0;
    double budget = 0.0;
    pack_spread_price(&b->loads, m, exponent);
    BLINK_TRY(pack_master_prove(m, 0.0, &added));
    for (uint32_t row = 0; row < m->net->row_count; row++)
        budget += m->prices[row] * m->net->row_GBps[row];
    for (uint32_t row = 0; row < m->net->row_count; row++) {
        b->mean[row] += BALANCE_MEAN * (m->prices[row] / budget - b->mean[row]);
        m->prices[row] = b->mean[row];
    }
    return pack_master_prove(m, 0.0, &added);
}

static blink_result_t sharpen(balance_t *b)
{
    pack_master_t *m = &b->router->master;
    uint32_t sweeps = 0;
    for (double exponent = ROUTE_EXPONENT; exponent < BALANCE_EXPONENT_MAX && !pack_master_late(m);
         exponent *= BALANCE_SHARPER) {
        price_rows(b, exponent);
        bool searching = sweeps++ % BALANCE_SEARCH == 0;
        BLINK_TRY(searching ? balance_and_search(b, exponent) : balance_known(b));
        set_rate(b);
        if (searching)
            BLINK_TRY(prove(b, exponent));
        if (pack_master_near_bound(m))
            break;
    }
    return BLINK_OK;
}

/* ---- fewer routes ---- */

typedef struct narrow {
    double value;
    uint32_t route;
} narrow_t;

static int compare_narrow(const void *a, const void *b)
{
    const narrow_t *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return (left->route > right->route) - (left->route < right->route);
}

/* How busy the busiest row that a shift of so much loads would be. */
static double load_after(const balance_t *b, double moved)
{
    double busiest = 0.0;
    for (uint32_t i = 0; i < b->shift.count; i++) {
        uint32_t row = b->shift.rows[i];
        if (b->shift.change[row] > 0.0)
            busiest = fmax(busiest, b->loads.load[row] + moved * b->shift.change[row]);
    }
    return busiest;
}

/* Of the demand's other routes the one that would be the least busy with all that this one carries, or
 * PLAN_NONE. */
static uint32_t find_taker(balance_t *b, uint32_t route)
{
    double least = INFINITY, value = column_of(b, route)->value;
    uint32_t taker = PLAN_NONE;
    for (uint32_t other = b->router->master.goals[column_of(b, route)->goal].newest; other != PLAN_NONE;
         other = column_of(b, other)->next) {
        if (other == route || !(column_of(b, other)->value > 0.0))
            continue;
        begin_shift(b, route, other);
        double busiest = load_after(b, value);
        drop_shift(b);
        if (busiest < least) {
            least = busiest;
            taker = other;
        }
    }
    return taker;
}

/* Give up to `most` routes to others of their demands, the narrowest first but for the first `skipped`. */
static blink_result_t merge(balance_t *b, uint32_t skipped, uint32_t most, uint32_t *merged)
{
    pack_master_t *m = &b->router->master;
    size_t count = 0;
    *merged = 0;
    narrow_t *narrow = malloc((m->columns.count + 1) * sizeof(*narrow));
    if (!narrow)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu routes", m->columns.count);
    for (uint32_t route = 0; route < m->columns.count; route++)
        if (column_of(b, route)->value > 0.0)
            narrow[count++] = (narrow_t){column_of(b, route)->value, route};
    qsort(narrow, count, sizeof(*narrow), compare_narrow);
    for (size_t i = 0; i < count && *merged < most; i++) {
        uint32_t route = narrow[i].route, taker = find_taker(b, route);
        if (taker == PLAN_NONE)
            continue;
        if (skipped > 0) {
            skipped--;
            continue;
        }
        begin_shift(b, route, taker);
        end_shift(b, route, taker, column_of(b, route)->value);
        ++*merged;
    }
    free(narrow);
    return BLINK_OK;
}

/* Balance what a merger has left until no row is busier than `enough`. */
static blink_result_t mend(balance_t *b, double enough)
{
    double exponent = BALANCE_MEND_EXPONENT;
    find_busiest(b);
    for (uint32_t sweep = 0; sweep < BALANCE_MEND_SWEEPS && b->loads.most > enough; sweep++) {
        price_rows(b, exponent);
        BLINK_TRY(balance_known(b));
        find_busiest(b);
        exponent *= BALANCE_MEND_SHARPER;
    }
    return BLINK_OK;
}

/* Let routes carry these values. */
static void carry(balance_t *b, const double *values)
{
    pack_master_t *m = &b->router->master;
    for (uint32_t row = 0; row < m->net->row_count; row++)
        b->loads.load[row] = 0.0;
    for (uint32_t route = 0; route < m->columns.count; route++) {
        column_of(b, route)->value = values[route];
        for (const use_t *use = uses_of(b, route), *end = end_of(b, route); use < end; use++)
            b->loads.load[use->row] += use->part * values[route];
    }
}

/* How many routes there are beyond one for each demand. */
static uint32_t count_spare(balance_t *b)
{
    uint32_t used = 0;
    for (uint32_t route = 0; route < b->router->master.columns.count; route++)
        used += column_of(b, route)->value > 0.0;
    return used > b->router->demand_count ? used - b->router->demand_count : 0;
}

static void keep(balance_t *b, double *values)
{
    for (uint32_t route = 0; route < b->router->master.columns.count; route++)
        values[route] = column_of(b, route)->value;
}

/* Merge as many routes at once as the others just can take: twice as many where they could, else half as
 * many; a single one that they cannot take stays. */
static blink_result_t thin(balance_t *b, double *values, double enough)
{
    uint32_t merged = 1, skipped = 0, most = count_spare(b);
    keep(b, values);
    for (uint32_t round = 0; round < BALANCE_THIN_ROUNDS && !pack_master_late(&b->router->master); round++) {
        BLINK_TRY(merge(b, skipped, most, &merged));
        if (merged == 0)
            break;
        BLINK_TRY(mend(b, enough));
        if (b->loads.most <= enough) {
            keep(b, values);
            most = 2 * merged;
        } else {
            carry(b, values);
            skipped += merged == 1;
            most = merged > 1 ? merged / 2 : 1;
        }
    }
    return BLINK_OK;
}

/* ---- all of it ---- */

static blink_result_t balance_all(balance_t *b)
{
    pack_master_t *m = &b->router->master;
    for (uint32_t route = 0; route < m->columns.count; route++)
        column_of(b, route)->value = 0.0;
    pack_master_set_worth(m, 0.0); /* proofs add no routes */
    BLINK_TRY(route_sweep(b->router, &b->loads));
    BLINK_TRY(learn_uses(b));
    return sharpen(b);
}

/* What routes carry where every pair gets 1 GB/s, without those whose value is noise. */
static void scale_values(balance_t *b, double *values)
{
    pack_master_t *m = &b->router->master;
    for (uint32_t goal = 0; goal < m->goal_count; goal++) {
        double sum = 0.0;
        for (uint32_t route = m->goals[goal].newest; route != PLAN_NONE; route = column_of(b, route)->next)
            sum += route_value(b->router, route);
        for (uint32_t route = m->goals[goal].newest; route != PLAN_NONE; route = column_of(b, route)->next)
            values[route] = route_value(b->router, route) / sum * m->goals[goal].size;
    }
}

static blink_result_t thin_all(balance_t *b)
{
    pack_master_t *m = &b->router->master;
    double enough = 1.0 / (m->rate * m->unit_GBps) / ROUTE_THIN_FLOOR;
    double *values = malloc((m->columns.count + 1) * sizeof(*values));
    if (!values)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu routes", m->columns.count);
    blink_result_t result = learn_uses(b);
    if (result == BLINK_OK) {
        scale_values(b, values);
        carry(b, values);
        result = mend(b, enough);
    }
    if (result == BLINK_OK)
        result = thin(b, values, enough);
    free(values);
    return result;
}

/* Meanwhile values are in GB/s where every pair gets 1 GB/s; afterwards in units of x, as everywhere. */
static blink_result_t with_balance(router_t *r, blink_result_t (*work)(balance_t *b))
{
    balance_t b;
    blink_result_t result = balance_init(&b, r);
    if (result == BLINK_OK)
        result = work(&b);
    if (result == BLINK_OK) {
        set_rate(&b);
        for (uint32_t route = 0; route < r->master.columns.count; route++)
            column_of(&b, route)->value *= r->master.rate;
    }
    balance_fini(&b);
    return result;
}

blink_result_t route_balance(router_t *r)
{
    return with_balance(r, balance_all);
}

blink_result_t route_thin(router_t *r)
{
    if (!(r->master.rate > 0.0)) /* route_place() says for which ranks there is nothing */
        return BLINK_OK;
    return with_balance(r, thin_all);
}
