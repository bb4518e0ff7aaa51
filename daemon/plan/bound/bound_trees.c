/* What the cheapest spanning trees cost, for all roots at once. On a bare matrix. */
#include "plan/bound/bound.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>

/* What rounding may have added to a sum of dual values, as a part of all of them. */
#define ROUNDING 1e-12

/* Sets are numbered in the order in which they are closed: nodes first, a set before the one around it. A
 * contracted set goes on in the row and column of one of its nodes. */
typedef struct contraction {
    uint32_t count; /* nodes */
    double *in_cost;
    uint32_t *live, live_count; /* rows in use */
    uint32_t *set;              /* per row: the set that it stands for */
    uint32_t *place;            /* per row: where it stands on the path, or PLAN_NONE */
    uint32_t *path, path_count; /* rows; each one's cheapest way in is from the next */
    double *dual;               /* per set */
    uint32_t *outer;            /* per set: the set around it, or PLAN_NONE */
    uint32_t set_count;
} contraction_t;

static blink_result_t contraction_init(contraction_t *c, double *in_cost, uint32_t count)
{
    *c = (contraction_t){.count = count, .in_cost = in_cost, .live_count = count, .set_count = count};
    c->live = malloc(count * sizeof(*c->live));
    c->set = malloc(count * sizeof(*c->set));
    c->place = malloc(count * sizeof(*c->place));
    c->path = malloc(count * sizeof(*c->path));
    c->dual = calloc(2 * (size_t)count, sizeof(*c->dual));
    c->outer = malloc(2 * (size_t)count * sizeof(*c->outer));
    if (!c->live || !c->set || !c->place || !c->path || !c->dual || !c->outer)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to price spanning trees over %u ranks", count);
    for (uint32_t row = 0; row < count; row++) {
        c->live[row] = c->set[row] = row;
        c->place[row] = PLAN_NONE;
    }
    return BLINK_OK;
}

static void contraction_fini(contraction_t *c)
{
    free(c->live);
    free(c->set);
    free(c->place);
    free(c->path);
    free(c->dual);
    free(c->outer);
}

/* The row that the cheapest way into this one leads from; its cost in *cost. */
static uint32_t cheapest_in(const contraction_t *c, uint32_t row, double *cost)
{
    const double *in_cost = &c->in_cost[(size_t)row * c->count];
    uint32_t best = PLAN_NONE;
    *cost = INFINITY;
    for (uint32_t i = 0; i < c->live_count; i++)
        if (c->live[i] != row && in_cost[c->live[i]] < *cost) {
            best = c->live[i];
            *cost = in_cost[best];
        }
    return best;
}

static void join_set(contraction_t *c, uint32_t row)
{
    c->outer[c->set[row]] = c->set_count;
    c->place[row] = PLAN_NONE;
}

/* Let `row` stand for `other` too: a way into either is a way into both, less what its end has paid already.
 */
static void merge_rows(contraction_t *c, uint32_t row, uint32_t other)
{
    double *into = &c->in_cost[(size_t)row * c->count], *into_other = &c->in_cost[(size_t)other * c->count];
    for (uint32_t i = 0; i < c->live_count; i++) {
        uint32_t far = c->live[i];
        double *from = &c->in_cost[(size_t)far * c->count];
        into[far] = fmin(into[far], into_other[far] - c->dual[c->set[other]]);
        from[row] = fmin(from[row], from[other]);
    }
}

static void retire(contraction_t *c)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->live_count; i++)
        if (c->set[c->live[i]] != PLAN_NONE)
            c->live[kept++] = c->live[i];
    c->live_count = kept;
}

/* Contract the end of the path, from `first` on, into one set. */
static void close_cycle(contraction_t *c, uint32_t first)
{
    uint32_t row = c->path[first];
    for (uint32_t i = 0; i < c->live_count; i++)
        c->in_cost[(size_t)row * c->count + c->live[i]] -= c->dual[c->set[row]];
    join_set(c, row);
    for (uint32_t i = first + 1; i < c->path_count; i++) {
        merge_rows(c, row, c->path[i]);
        join_set(c, c->path[i]);
        c->set[c->path[i]] = PLAN_NONE;
    }
    retire(c);
    c->set[row] = c->set_count++;
    c->place[row] = first;
    c->path_count = first + 1;
}

/* Follow cheapest ways in, backwards, closing each cycle as it appears, until one set holds all. False if a
 * set has no way in. */
static bool contract(contraction_t *c)
{
    c->path[0] = 0;
    c->place[0] = 0;
    c->path_count = 1;
    while (c->live_count > 1) {
        uint32_t row = c->path[c->path_count - 1];
        uint32_t from = cheapest_in(c, row, &c->dual[c->set[row]]);
        if (from == PLAN_NONE)
            return false;
        if (c->place[from] != PLAN_NONE) {
            close_cycle(c, c->place[from]);
        } else {
            c->place[from] = c->path_count;
            c->path[c->path_count++] = from;
        }
    }
    c->outer[c->set_count - 1] = PLAN_NONE;
    return true;
}

/* The sum of all duals less those of the sets around the root. */
static void sum_duals(const contraction_t *c, double *root_cost)
{
    double all = 0.0;
    for (uint32_t set = 0; set < c->set_count; set++)
        all += c->dual[set];
    for (uint32_t root = 0; root < c->count; root++) {
        double around = 0.0;
        for (uint32_t set = root; set != PLAN_NONE; set = c->outer[set])
            around += c->dual[set];
        root_cost[root] = fmax(0.0, all - around - ROUNDING * all);
    }
}

blink_result_t bound_tree_costs(double *in_cost, uint32_t count, double *root_cost)
{
    contraction_t c;
    blink_result_t result = contraction_init(&c, in_cost, count);
    if (result == BLINK_OK) {
        if (contract(&c))
            sum_duals(&c, root_cost);
        else
            for (uint32_t root = 0; root < count; root++)
                root_cost[root] = INFINITY;
    }
    contraction_fini(&c);
    return result;
}
