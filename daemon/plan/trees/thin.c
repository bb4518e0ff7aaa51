/*
 * Fewer trees: the optimum uses as many as it likes, and an executor pays for each. First a dive: favour the
 * widest tree a little, let the program (and new trees that suit) rearrange around it, fix it as wide as it
 * got, repeat; wide trees leave room for few. Then backward elimination of what turned out dispensable. Small
 * programs can afford to try that several times with other tastes; the fewest trees win. Where every rank is
 * a root, the first roots would take trees as wide as all that they need and leave scraps to the last ones.
 * There the first dive goes by grains: a link's capacity is a whole number of them, and so is a root's part.
 */
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/trees/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Part of its value by which a fixed column is narrowed at each step: what GLPK itself takes for no
 * violation. */
#define ROUNDING 1e-6

typedef enum column_state { DROPPED, OPEN, NEEDED } column_state_t;

typedef struct thinning {
    packer_t *packer;
    uint32_t count; /* columns with a state */
    uint8_t *state; /* column_state_t per column */
    uint32_t trial; /* 0: columns seem as wide as they are */
    double grain;   /* the dive fixes columns at multiples of it; 0: at what they have got */
    uint64_t first_work;
    bool over;    /* work or time is over: the program is as it was when it last had a solution */
    double *best; /* values of the best solution, best_count of them; the columns since were not there */
    uint32_t best_count, best_columns;
} thinning_t;

static blink_result_t solve(thinning_t *t)
{
    bool solved = false;
    BLINK_TRY(pack_master_solve(&t->packer->master, &solved));
    t->over |= !solved;
    return BLINK_OK;
}

/* Keep the solution of now as the best one. */
static blink_result_t keep_best(thinning_t *t)
{
    packer_t *p = t->packer;
    double *best = realloc(t->best, p->trees.count * sizeof(*best));
    if (!best)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to thin %zu trees", p->trees.count);
    t->best = best;
    t->best_count = (uint32_t)p->trees.count;
    t->best_columns = 0;
    for (uint32_t column = 0; column < p->trees.count; column++) {
        best[column] = pack_uses(p, column) ? pack_value(p, column) : 0.0;
        t->best_columns += best[column] > 0.0;
    }
    return BLINK_OK;
}

/* How wide a column seems in this try. */
static double seeming(const thinning_t *t, uint32_t column)
{
    uint32_t taste = t->packer->per_rank ? 0 : t->trial;
    return pack_value(t->packer, column) * (1.0 + THIN_TASTE * pack_taste(column, taste));
}

/* The widest open column of the last solution, the shallower one among equals; or PLAN_NONE. */
static uint32_t widest(const thinning_t *t)
{
    const packer_t *p = t->packer;
    uint32_t best = PLAN_NONE;
    for (uint32_t column = 0; column < t->count; column++) {
        if (t->state[column] != OPEN || !pack_uses(p, column))
            continue;
        double more = best == PLAN_NONE ? 1.0 : seeming(t, column) / seeming(t, best) - 1.0;
        if (more > 1e-6 || (more > -1e-6 && p->trees.items[column].depth < p->trees.items[best].depth))
            best = column;
    }
    return best;
}

/* What a root's part and the narrowest link have in common, in units of x: a rank of that one link would get
 * as much of it for each root. 0 if that divides no root's part, or into too many grains. */
static double find_grain(const packer_t *p)
{
    const pack_net_t *net = p->master.net;
    double narrowest_GBps = INFINITY, part = p->optimum / p->n;
    for (uint32_t link = 0; link < net->link_count; link++)
        narrowest_GBps = fmin(narrowest_GBps, net->link_GBps[link]);
    double grains = part * p->master.unit_GBps * (p->n - 1) / narrowest_GBps;
    bool divides = fabs(grains - round(grains)) <= THIN_GRAIN_ROUND;
    return p->per_rank && !p->master.large && divides && grains > 1.5 && grains < THIN_GRAINS_MAX
               ? part / round(grains)
               : 0.0;
}

/* Give columns added since the last call a state. By grains, no column may carry all of a root's part. */
static blink_result_t admit(thinning_t *t)
{
    packer_t *p = t->packer;
    uint8_t *state = realloc(t->state, p->trees.count);
    if (!state)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to thin %zu trees", p->trees.count);
    t->state = state;
    for (; t->count < p->trees.count; t->count++) {
        state[t->count] = OPEN;
        if (t->grain > 0.0)
            pack_master_cap(&p->master, t->count, p->optimum / p->n - t->grain);
    }
    return BLINK_OK;
}

/* Solve, with new columns that gain. */
static blink_result_t refine(thinning_t *t)
{
    bool solved = false;
    BLINK_TRY(pack_reoptimise(t->packer, THIN_DIVE_GAIN, &solved));
    t->over = !solved;
    return admit(t);
}

/* Fix what is NEEDED a hair below where the last solution has it; returns the sum. A solution keeps its rows
 * only to within rounding, so what is fixed must leave room for that, or the next program may have no
 * solution. */
static double fix_needed(thinning_t *t)
{
    double fixed = 0.0;
    for (uint32_t column = 0; column < t->count; column++)
        if (t->state[column] == NEEDED) {
            pack_master_fix(&t->packer->master, column, (1.0 - ROUNDING) * pack_value(t->packer, column));
            fixed += pack_value(t->packer, column);
        }
    return fixed;
}

/* Let a column have a whole number of grains, if it has one at all. */
static void round_down(const thinning_t *t, uint32_t column)
{
    double *value = &t->packer->master.columns.items[column].value;
    if (t->grain > 0.0 && *value > t->grain)
        *value = floor(*value / t->grain + THIN_GRAIN_ROUND) * t->grain;
}

/* Fix columns one by one, NEEDED from then on. Ends with the program solved and nothing else open but, if the
 * work ran out, what the last solution uses; *complete says. */
static blink_result_t dive(thinning_t *t, bool *complete)
{
    packer_t *p = t->packer;
    uint32_t steps = 0;
    double fixed = 0.0, enough = (1.0 - THIN_DIVE_REST / (p->per_rank ? p->n : 1)) * p->optimum;
    BLINK_TRY(admit(t));
    /* No column may carry all of a root's part any more, so the optimum needs more columns. */
    if (t->grain > 0.0)
        BLINK_TRY(refine(t));
    while (!t->over && fixed < enough && steps++ < THIN_DIVE_STEPS) {
        uint32_t column = widest(t);
        if (column == PLAN_NONE)
            break;
        pack_master_favour(&p->master, column, THIN_FAVOUR);
        BLINK_TRY(refine(t));
        if (t->over)
            break;
        pack_master_favour(&p->master, column, 0.0);
        t->state[column] = NEEDED;
        round_down(t, column);
        fixed = fix_needed(t);
    }
    *complete = fixed >= enough;
    for (uint32_t column = 0; column < t->count; column++)
        t->state[column] =
            t->state[column] == NEEDED || (!*complete && pack_uses(p, column)) ? OPEN : DROPPED;
    return BLINK_OK;
}

static void set_state(thinning_t *t, uint32_t column, column_state_t state)
{
    t->state[column] = (uint8_t)state;
    if (state == DROPPED)
        pack_master_fix(&t->packer->master, column, 0.0);
    else
        pack_master_free(&t->packer->master, column);
}

/* Take on the states of `states` and solve. */
static blink_result_t restore(thinning_t *t, const uint8_t *states)
{
    for (uint32_t column = 0; column < t->count; column++)
        set_state(t, column, (column_state_t)states[column]);
    return solve(t);
}

/* The open columns into order[], the narrowest of the last solution first, the deeper one among equals;
 * returns how many there are. */
static uint32_t order_open(const thinning_t *t, uint32_t *order)
{
    const packer_t *p = t->packer;
    uint32_t count = 0;
    for (uint32_t column = 0; column < t->count; column++) {
        if (t->state[column] != OPEN)
            continue;
        uint32_t at = count++;
        for (; at > 0; at--) {
            double less = pack_value(p, order[at - 1]) - pack_value(p, column);
            if (less < 0.0 ||
                (less <= 0.0 && p->trees.items[column].depth <= p->trees.items[order[at - 1]].depth))
                break;
            order[at] = order[at - 1];
        }
        order[at] = column;
    }
    return count;
}

/* Drop open columns while the rate stays at or above `floor`, the narrowest first, half of them at once, then
 * fewer; those that cannot be dropped even alone become NEEDED. Ends solved. */
static blink_result_t eliminate(thinning_t *t, double floor, uint32_t *left)
{
    uint32_t *order = malloc((t->count + 1u) * sizeof(*order));
    uint32_t open = 0, first = 0, chunk = 0;
    blink_result_t result =
        order ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to order %u trees", t->count);
    *left = 0;
    while (result == BLINK_OK && !t->over) {
        if (first == open) {
            open = order_open(t, order);
            first = 0;
            if (open == 0)
                break;
            chunk = chunk == 0 ? (open + 1) / 2 : chunk < open ? chunk : open;
        }
        for (uint32_t i = first; i < first + chunk; i++)
            set_state(t, order[i], DROPPED);
        result = solve(t);
        if (result == BLINK_OK && !t->over && pack_rate(t->packer) >= floor) {
            first = open = 0;
            continue;
        }
        for (uint32_t i = first; i < first + chunk; i++)
            set_state(t, order[i], chunk == 1 ? NEEDED : OPEN);
        *left += chunk == 1;
        first += chunk == 1;
        chunk = (chunk + 1) / 2;
        if (first == open && result == BLINK_OK && !t->over)
            result = solve(t);
    }
    free(order);
    return result;
}

/* Eliminate twice, at no cost of rate and at some; the first stands unless the second needs far fewer
 * columns. */
static blink_result_t eliminate_cheaply(thinning_t *t, uint8_t *open, uint8_t *exact)
{
    uint32_t exact_count = 0, thin_count = 0;
    memcpy(open, t->state, t->count);
    BLINK_TRY(restore(t, open));
    BLINK_TRY(eliminate(t, THIN_EXACT_FLOOR * pack_rate(t->packer), &exact_count));
    if (t->over)
        return BLINK_OK;
    memcpy(exact, t->state, t->count);
    BLINK_TRY(restore(t, open));
    BLINK_TRY(eliminate(t, fmin(THIN_FLOOR * t->packer->optimum, pack_rate(t->packer)), &thin_count));
    return !t->over && exact_count > thin_count + thin_count / 4 + 1 ? BLINK_OK : restore(t, exact);
}

/* Drop the narrowest columns together, as far as that costs next to nothing: for programs too large to weigh
 * each, or without the time. */
static void trim(packer_t *p)
{
    double left = fmin(THIN_DIVE_REST * p->optimum, p->master.rate - THIN_FLOOR * p->optimum) /
                  (p->per_rank ? p->n : 1);
    for (;;) {
        uint32_t narrow = PLAN_NONE;
        for (uint32_t column = 0; column < p->trees.count; column++)
            if (pack_uses(p, column) && (narrow == PLAN_NONE || p->master.columns.items[column].value <
                                                                    p->master.columns.items[narrow].value))
                narrow = column;
        if (narrow == PLAN_NONE || p->master.columns.items[narrow].value > left)
            return;
        left -= p->master.columns.items[narrow].value;
        p->master.columns.items[narrow].value = 0.0;
    }
}

/* One try from scratch; the best so far is kept. */
static blink_result_t try_taste(thinning_t *t)
{
    if (t->trial > 0) {
        memset(t->state, OPEN, t->count);
        BLINK_TRY(restore(t, t->state));
    }
    bool complete = false;
    BLINK_TRY(dive(t, &complete));
    uint8_t *copies = malloc(2 * (size_t)t->count);
    if (!copies)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to thin %u trees", t->count);
    blink_result_t result = BLINK_OK;
    if (complete && t->grain > 0.0)
        result = restore(t, t->state); /* grains leave hardly anything more to drop */
    else if (!t->over)
        result = eliminate_cheaply(t, copies, copies + t->count);
    free(copies);
    uint32_t used = 0;
    for (uint32_t column = 0; column < t->packer->trees.count; column++)
        used += pack_uses(t->packer, column);
    if (result == BLINK_OK && used < t->best_columns &&
        pack_rate(t->packer) >= THIN_FLOOR * t->packer->optimum)
        result = keep_best(t);
    return result;
}

/* Whether another try is likely to stay within the work allowed. Where every rank is a root there is one by
 * grains, then one without. */
static bool may_try_again(const thinning_t *t)
{
    uint64_t done = plan_lp_work(t->packer->master.lp) - t->first_work;
    return !t->over && (!t->packer->per_rank || t->grain > 0.0) && t->trial < THIN_TRIES_MAX &&
           done / t->trial * (t->trial + 1) < THIN_WORK_TRY_MAX;
}

static blink_result_t try_tastes(thinning_t *t)
{
    for (bool again = true; again; t->grain = 0.0) {
        BLINK_TRY(try_taste(t));
        t->trial++;
        again = may_try_again(t);
    }
    return BLINK_OK;
}

static void take_best(const thinning_t *t)
{
    packer_t *p = t->packer;
    p->master.rate = 0.0;
    for (uint32_t column = 0; column < p->trees.count; column++) {
        p->master.columns.items[column].value = column < t->best_count ? t->best[column] : 0.0;
        p->master.rate += p->master.columns.items[column].value;
    }
}

blink_result_t pack_thin(packer_t *p)
{
    thinning_t t = {.packer = p, .first_work = plan_lp_work(p->master.lp), .grain = find_grain(p)};
    plan_lp_allow(p->master.lp, THIN_WORK_MAX);
    blink_result_t result = keep_best(&t);
    if (result == BLINK_OK && (uint64_t)p->trees.count * p->master.net->row_count <= THIN_PROGRAM_MAX)
        result = try_tastes(&t);
    if (result == BLINK_OK)
        take_best(&t);
    if (result == BLINK_OK && t.over)
        trim(p);
    free(t.best);
    free(t.state);
    return result;
}
