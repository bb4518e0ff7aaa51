/*
 * Fewer trees: the optimum uses as many as it likes, and an executor pays for each. First a dive: favour the
 * widest tree a little, let the program (and new trees that suit) rearrange around it, fix it as wide as it
 * got, repeat; wide trees leave room for few. Then backward elimination of what turned out dispensable. Small
 * programs can afford to try that several times with other tastes; the fewest trees win.
 */
#include "error.h"
#include "plan/columns/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a favoured column may cost the others: 1/200 of its gain. Bounds the dive's loss to 1/200 of the rate.
 */
#define FAVOUR 0.005
/* While diving, columns that gain less than this are not worth adding. */
#define DIVE_GAIN 1e-3
/* The dive ends when the fixed columns lack no more than this part of the optimum (of a single root's part
 * where each rank is one), or after this many steps. */
#define DIVE_REST  0.0045
#define DIVE_STEPS 40u
/* Part of its value by which a fixed column is narrowed at each step: what GLPK itself takes for no
 * violation. */
#define ROUNDING 1e-6
/* Further tries while the work (packer_t.work) promises to stay below this: some milliseconds. */
#define WORK_MAX  600000u
#define TRIES_MAX 6u
/* Programs of more entries than this are only trimmed. */
#define PROGRAM_MAX 250000u
/* How much wider or narrower than it is a tree may seem to another taste. */
#define TASTE 0.3
/* Of the optimum, what is kept where fewer trees are worth more; of the rate, what elimination may cost
 * otherwise. */
#define THIN_FLOOR  0.9905
#define EXACT_FLOOR (1.0 - 5e-5)

typedef enum column_state { DROPPED, OPEN, NEEDED } column_state_t;

typedef struct thinning {
    packer_t *packer;
    uint32_t count; /* columns with a state */
    uint8_t *state; /* column_state_t per column */
    uint32_t trial; /* 0: columns seem as wide as they are */
    uint64_t first_work;
    uint8_t *best; /* states of the best try, best_count of them; the columns since were not there */
    uint32_t best_count, best_columns;
} thinning_t;

/* How wide a column seems in this try. */
static double seeming(const thinning_t *t, uint32_t column)
{
    uint32_t hash = (column + 1) * 2654435761u ^ t->trial * 2246822519u;
    hash = (hash ^ hash >> 15) * 2654435761u;
    double taste = t->trial == 0 ? 0.0 : TASTE * ((hash >> 8) / (double)(1u << 23) - 1.0);
    return pack_value(t->packer, column) * (1.0 + taste);
}

/* The widest column of the last solution in state `wanted`, the shallower one among equals; or PLAN_NONE. */
static uint32_t widest(const thinning_t *t)
{
    const packer_t *p = t->packer;
    uint32_t best = PLAN_NONE;
    for (uint32_t column = 0; column < t->count; column++) {
        if (t->state[column] != OPEN || !pack_uses(p, column))
            continue;
        double more = best == PLAN_NONE ? 1.0 : seeming(t, column) / seeming(t, best) - 1.0;
        if (more > 1e-6 || (more > -1e-6 && p->column_depth[column] < p->column_depth[best]))
            best = column;
    }
    return best;
}

/* Give columns added since the last call a state. */
static blink_result_t admit(thinning_t *t)
{
    uint8_t *state = realloc(t->state, t->packer->column_count);
    if (state == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to thin %u trees", t->packer->column_count);
    t->state = state;
    memset(&state[t->count], OPEN, t->packer->column_count - t->count);
    t->count = t->packer->column_count;
    return BLINK_OK;
}

/* Fix what is NEEDED a hair below where the last solution has it; returns the sum. A solution keeps its rows
 * only to within rounding, so what is fixed must leave room for that, or the next program may have no
 * solution. */
static double fix_needed(thinning_t *t)
{
    double fixed = 0.0;
    for (uint32_t column = 0; column < t->count; column++)
        if (t->state[column] == NEEDED) {
            pack_fix(t->packer, column, (1.0 - ROUNDING) * pack_value(t->packer, column));
            fixed += pack_value(t->packer, column);
        }
    return fixed;
}

/* Fix columns one by one, NEEDED from then on. Ends with the program solved and nothing else open but, if the
 * work ran out, what the last solution uses. */
static blink_result_t dive(thinning_t *t, double optimum)
{
    packer_t *p = t->packer;
    uint32_t steps = 0;
    double fixed = 0.0, enough = (1.0 - DIVE_REST / (p->per_rank ? p->n : 1)) * optimum;
    BLINK_TRY(admit(t));
    while (fixed < enough && steps++ < DIVE_STEPS) {
        uint32_t column = widest(t);
        if (column == PLAN_NONE)
            break;
        pack_favour(p, column, FAVOUR);
        BLINK_TRY(pack_reoptimise(p, DIVE_GAIN));
        BLINK_TRY(admit(t));
        pack_favour(p, column, 0.0);
        t->state[column] = NEEDED;
        fixed = fix_needed(t);
    }
    bool complete = fixed >= enough;
    for (uint32_t column = 0; column < t->count; column++)
        t->state[column] = t->state[column] == NEEDED || (!complete && pack_uses(p, column)) ? OPEN : DROPPED;
    return BLINK_OK;
}

static void set_state(thinning_t *t, uint32_t column, column_state_t state)
{
    t->state[column] = (uint8_t)state;
    if (state == DROPPED)
        pack_fix(t->packer, column, 0.0);
    else
        pack_free(t->packer, column);
}

/* Take on the states of `states` and solve. */
static blink_result_t restore(thinning_t *t, const uint8_t *states)
{
    for (uint32_t column = 0; column < t->count; column++)
        set_state(t, column, (column_state_t)states[column]);
    return pack_solve(t->packer);
}

/* The open column of the smallest share, the deeper one among equals, or PLAN_NONE. */
static uint32_t narrowest(const thinning_t *t)
{
    const packer_t *p = t->packer;
    uint32_t best = PLAN_NONE;
    for (uint32_t column = 0; column < t->count; column++) {
        if (t->state[column] != OPEN)
            continue;
        double less = best == PLAN_NONE ? 1.0 : pack_value(p, best) - pack_value(p, column);
        if (less > 0.0 || (less >= 0.0 && p->column_depth[column] > p->column_depth[best]))
            best = column;
    }
    return best;
}

/* Drop open columns one by one while the rate stays at or above `floor`; the others become NEEDED. Ends
 * solved. */
static blink_result_t eliminate(thinning_t *t, double floor, uint32_t *left)
{
    *left = 0;
    for (uint32_t column; (column = narrowest(t)) != PLAN_NONE;) {
        set_state(t, column, DROPPED);
        BLINK_TRY(pack_solve(t->packer));
        if (pack_rate(t->packer) >= floor)
            continue;
        set_state(t, column, NEEDED);
        BLINK_TRY(pack_solve(t->packer));
        ++*left;
    }
    return BLINK_OK;
}

/* Eliminate twice, at no cost of rate and at some; the first stands unless the second needs far fewer
 * columns. */
static blink_result_t eliminate_cheaply(thinning_t *t, double optimum, uint8_t *open, uint8_t *exact)
{
    uint32_t exact_count = 0, thin_count = 0;
    memcpy(open, t->state, t->count);
    BLINK_TRY(restore(t, open));
    BLINK_TRY(eliminate(t, EXACT_FLOOR * pack_rate(t->packer), &exact_count));
    memcpy(exact, t->state, t->count);
    BLINK_TRY(restore(t, open));
    BLINK_TRY(eliminate(t, fmin(THIN_FLOOR * optimum, pack_rate(t->packer)), &thin_count));
    return exact_count > thin_count + thin_count / 4 + 1 ? BLINK_OK : restore(t, exact);
}

/* Drop the narrowest columns together, as far as that costs next to nothing: for programs too large to weigh
 * each. Ends solved. */
static blink_result_t trim(thinning_t *t, double optimum)
{
    double dropped = 0.0, most = DIVE_REST / (t->packer->per_rank ? t->packer->n : 1) * optimum;
    for (uint32_t column; (column = narrowest(t)) != PLAN_NONE;) {
        dropped += pack_value(t->packer, column);
        set_state(t, column, dropped > most ? NEEDED : DROPPED);
    }
    return pack_solve(t->packer);
}

static uint32_t count_needed(const thinning_t *t)
{
    uint32_t needed = 0;
    for (uint32_t column = 0; column < t->count; column++)
        needed += t->state[column] == NEEDED;
    return needed;
}

/* One try from scratch; the best so far is kept. */
static blink_result_t try_taste(thinning_t *t, double optimum)
{
    packer_t *p = t->packer;
    if (t->trial > 0) {
        memset(t->state, OPEN, t->count);
        BLINK_TRY(restore(t, t->state));
    }
    BLINK_TRY(dive(t, optimum));
    uint8_t *copies = malloc(2 * (size_t)t->count);
    if (copies == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to thin %u trees", p->column_count);
    blink_result_t result = eliminate_cheaply(t, optimum, copies, copies + t->count);
    uint32_t needed = count_needed(t);
    if (result == BLINK_OK && (t->best == NULL || needed < t->best_columns)) {
        memcpy(copies, t->state, t->count);
        free(t->best);
        t->best = copies;
        t->best_count = t->count;
        t->best_columns = needed;
        return BLINK_OK;
    }
    free(copies);
    return result;
}

/* Whether another try is likely to stay within the work allowed. Where every rank is a root one takes all the
 * time there is. */
static bool may_try_again(const thinning_t *t)
{
    uint64_t done = t->packer->work - t->first_work;
    return !t->packer->per_rank && t->trial < TRIES_MAX && done / t->trial * (t->trial + 1) < WORK_MAX;
}

static blink_result_t try_tastes(thinning_t *t, double optimum)
{
    do {
        BLINK_TRY(try_taste(t, optimum));
        t->trial++;
    } while (may_try_again(t));
    memset(t->state, DROPPED, t->count);
    memcpy(t->state, t->best, t->best_count);
    return restore(t, t->state);
}

blink_result_t pack_thin(packer_t *p)
{
    thinning_t t = {.packer = p, .first_work = p->work};
    bool large = (uint64_t)p->column_count * p->net->row_count > PROGRAM_MAX;
    blink_result_t result = BLINK_OK;
    if (large) {
        result = admit(&t);
        if (result == BLINK_OK)
            result = trim(&t, pack_rate(p));
    } else {
        result = try_tastes(&t, pack_rate(p));
    }
    free(t.best);
    free(t.state);
    return result;
}
