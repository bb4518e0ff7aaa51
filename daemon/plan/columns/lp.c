/* GLPK behind plan/lp.h. GLPK reports fatal errors (no memory, a broken
 * invariant) through a hook that must not return, so each call that may fail sets a jump target first. */
#include "plan/columns/lp.h"

#include "base/clock.h"
#include "base/vec.h"
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/plan.h"

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

/* By how much a solution must break a row that GLPK's problem lacks: GLPK itself is no more exact. */
#define BROKEN 1e-7

/* A column's run of entries in plan_lp_t.entries. */
typedef struct lp_column {
    size_t first;
    uint32_t count;
} lp_column_t;

typedef struct lp_entry {
    uint32_t row;
    double value;
} lp_entry_t;

/* GLPK's problem has only the rows that have limited a solution so far: of most programs few ever do. */
struct plan_lp {
    glp_prob *problem; /* NULL after a fatal error: GLPK's environment went with it */
    uint32_t row_count;
    int *place;    /* per row: its number in GLPK's problem, or 0 */
    double *limit; /* per row; 0 where the row must be 0 */
    double *sum;   /* per row: scratch */
    int settled;   /* of GLPK's rows: as many have the entries of all columns */
    VEC(lp_column_t) columns;
    VEC(lp_entry_t) entries;
    int *rows; /* one column in GLPK's form: entries count from 1 */
    double *values;
    uint64_t work, work_left;
    uint64_t deadline_ns; /* of clock_ns(); 0: none */
    bool whole;           /* the last solution is one in whole numbers */
    jmp_buf trap;
};

/* GLPK prints fatal errors even with its terminal off; a library is silent. */
static int lp_mute(void *info, const char *text)
{
    (void)info;
    (void)text;
    return 1;
}

static void lp_trap(void *info)
{
    plan_lp_t *lp = info;
    longjmp(lp->trap, 1);
}

/* After a fatal error the environment can only be freed, and all problems with it. */
static blink_result_t lp_fatal(plan_lp_t *lp)
{
    glp_error_hook(NULL, NULL);
    glp_free_env();
    lp->problem = NULL;
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "the linear program solver failed for want of memory");
}

static blink_result_t lp_begin(plan_lp_t *lp)
{
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    glp_term_out(GLP_OFF);
    glp_term_hook(lp_mute, NULL);
    lp->problem = glp_create_prob();
    glp_set_obj_dir(lp->problem, GLP_MAX);
    glp_error_hook(NULL, NULL);
    return BLINK_OK;
}

/* Give GLPK's problem a row without entries. */
static void lp_place_row(plan_lp_t *lp, uint32_t row)
{
    lp->place[row] = glp_add_rows(lp->problem, 1);
    bool balanced = !(lp->limit[row] > 0.0);
    glp_set_row_bnds(lp->problem, lp->place[row], balanced ? GLP_FX : GLP_UP, 0.0, lp->limit[row]);
}

static blink_result_t lp_place_all_rows(plan_lp_t *lp)
{
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    for (uint32_t row = 0; row < lp->row_count; row++)
        if (lp->place[row] == 0)
            lp_place_row(lp, row);
    glp_error_hook(NULL, NULL);
    return BLINK_OK;
}

blink_result_t plan_lp_create(uint32_t row_count, double loosening, plan_lp_t **out)
{
    plan_lp_t *lp = calloc(1, sizeof(*lp));
    if (!lp)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a linear program");
    lp->row_count = row_count;
    lp->place = calloc(row_count, sizeof(*lp->place));
    lp->limit = calloc(row_count, sizeof(*lp->limit));
    lp->sum = calloc(row_count, sizeof(*lp->sum));
    lp->rows = calloc(row_count + 1u, sizeof(*lp->rows));
    lp->values = calloc(row_count + 1u, sizeof(*lp->values));
    blink_result_t result = lp->place && lp->limit && lp->sum && lp->rows && lp->values
                                ? lp_begin(lp)
                                : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u rows", row_count);
    if (result != BLINK_OK) {
        plan_lp_destroy(lp);
        return result;
    }
    for (uint32_t row = 0; row < row_count; row++)
        /* Multiples of the golden ratio are far apart for neighbours. */
        lp->limit[row] = 1.0 + loosening * fmod(0.6180339887 * (row + 1), 1.0);
    lp->work_left = UINT64_MAX;
    *out = lp;
    return row_count > LP_EAGER_ROWS_MAX ? BLINK_OK : lp_place_all_rows(lp);
}

void plan_lp_destroy(plan_lp_t *lp)
{
    if (!lp)
        return;
    if (lp->problem)
        glp_delete_prob(lp->problem);
    vec_free(&lp->columns);
    vec_free(&lp->entries);
    free(lp->place);
    free(lp->limit);
    free(lp->sum);
    free(lp->rows);
    free(lp->values);
    free(lp);
}

/* Give GLPK's problem the column's entries in the rows that it has. */
static void lp_place_column(plan_lp_t *lp, uint32_t column)
{
    int count = 0;
    for (uint32_t i = 0; i < lp->columns.items[column].count; i++) {
        const lp_entry_t *entry = &lp->entries.items[lp->columns.items[column].first + i];
        if (lp->place[entry->row] == 0)
            continue;
        lp->rows[++count] = lp->place[entry->row];
        lp->values[count] = entry->value;
    }
    glp_set_mat_col(lp->problem, (int)column + 1, count, lp->rows, lp->values);
}

void plan_lp_balance(plan_lp_t *lp, uint32_t row)
{
    lp->limit[row] = 0.0;
    if (lp->place[row] != 0)
        glp_set_row_bnds(lp->problem, lp->place[row], GLP_FX, 0.0, 0.0);
}

/* The row that limits the column by itself, and all that are balanced, must be there, or the program might
 * have no end. */
static void lp_place_limits(plan_lp_t *lp, uint32_t count, const uint32_t *rows, const double *values)
{
    uint32_t busiest = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] > values[busiest])
            busiest = i;
        if (lp->place[rows[i]] == 0 && !(lp->limit[rows[i]] > 0.0))
            lp_place_row(lp, rows[i]);
    }
    if (count > 0 && lp->place[rows[busiest]] == 0)
        lp_place_row(lp, rows[busiest]);
}

blink_result_t plan_lp_add(plan_lp_t *lp, uint32_t count, const uint32_t *rows, const double *values)
{
    lp_column_t column = {.first = lp->entries.count, .count = count};
    if (!vec_push(&lp->columns, column) || !vec_reserve(&lp->entries, lp->entries.count + count))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu columns", lp->columns.count + 1);
    for (uint32_t i = 0; i < count; i++)
        lp->entries.items[lp->entries.count++] = (lp_entry_t){rows[i], values[i]};
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    int added = glp_add_cols(lp->problem, 1);
    glp_set_col_bnds(lp->problem, added, GLP_LO, 0.0, 0.0);
    glp_set_obj_coef(lp->problem, added, 1.0);
    lp_place_limits(lp, count, rows, values);
    lp_place_column(lp, (uint32_t)added - 1);
    glp_error_hook(NULL, NULL);
    return BLINK_OK;
}

void plan_lp_weigh(plan_lp_t *lp, uint32_t column, double weight)
{
    glp_set_obj_coef(lp->problem, (int)column + 1, weight);
}

void plan_lp_fix(plan_lp_t *lp, uint32_t column, double value)
{
    glp_set_col_bnds(lp->problem, (int)column + 1, GLP_FX, value, value);
}

void plan_lp_free(plan_lp_t *lp, uint32_t column)
{
    glp_set_col_bnds(lp->problem, (int)column + 1, GLP_LO, 0.0, 0.0);
}

void plan_lp_cap(plan_lp_t *lp, uint32_t column, double most)
{
    glp_set_col_bnds(lp->problem, (int)column + 1, GLP_DB, 0.0, most);
}

/* Give rows placed since the last time their entries of the older columns. */
static void lp_settle(plan_lp_t *lp)
{
    int rows = glp_get_num_rows(lp->problem);
    for (uint32_t column = 0; rows > lp->settled && column < lp->columns.count; column++) {
        const lp_entry_t *entries = &lp->entries.items[lp->columns.items[column].first];
        bool changed = false;
        for (uint32_t i = 0; i < lp->columns.items[column].count; i++)
            changed |= lp->place[entries[i].row] > lp->settled;
        if (changed)
            lp_place_column(lp, column);
    }
    lp->settled = rows;
}

/* One run of the simplex method; 0, its error, or the negative status of what it left. */
static int lp_run(const plan_lp_t *lp, const glp_smcp *control)
{
    int status = glp_simplex(lp->problem, control);
    if (status == 0 && glp_get_status(lp->problem) != GLP_OPT)
        status = -glp_get_status(lp->problem);
    return status;
}

/* The ways to run the simplex method, one after the other until one ends at an optimum: from the last basis,
 * with the textbook's ratio test, whose ties fall otherwise, where Harris's goes round in a circle; and both
 * from the slack basis, if the last one is singular or rounding leads from it to no solution. */
static const struct {
    int ratio_test;
    bool from_slack;
} ways[] = {{GLP_RT_HAR, false}, {GLP_RT_STD, false}, {GLP_RT_STD, true}, {GLP_RT_HAR, true}};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

static uint64_t lp_size(const plan_lp_t *lp)
{
    return 1 + (uint64_t)glp_get_num_rows(lp->problem) + (uint64_t)glp_get_num_cols(lp->problem);
}

/* Steps that a program of this size takes, unless it goes round in a circle; or as many as are left. */
static int lp_steps_max(const plan_lp_t *lp)
{
    uint64_t most = 200 + 2 * lp_size(lp), left = lp->work_left / lp_size(lp);
    return (int)(left < most ? left : most);
}

/* Milliseconds to the deadline; INT_MAX is none to GLPK. */
static int lp_time_max_ms(const plan_lp_t *lp)
{
    uint64_t now_ns = lp->deadline_ns > 0 ? clock_ns() : 0;
    if (lp->deadline_ns == 0)
        return INT_MAX;
    return now_ns < lp->deadline_ns ? (int)fmin((double)(lp->deadline_ns - now_ns) / 1e6 + 1.0, 1e9) : 0;
}

/* Solve GLPK's problem. After new columns the last basis is feasible still, and the primal method goes on
 * from it; after new rows its prices are, and the dual method does. */
static blink_result_t lp_simplex(plan_lp_t *lp, int method)
{
    int status = -1;
    glp_smcp control;
    glp_init_smcp(&control);
    control.msg_lev = GLP_MSG_OFF;
    control.meth = method;
    control.tol_dj = 1e-9;
    for (size_t i = 0; i < WAY_COUNT && status != 0; i++) {
        int before = glp_get_it_cnt(lp->problem);
        control.it_lim = lp_steps_max(lp);
        control.tm_lim = lp_time_max_ms(lp);
        if (control.it_lim == 0 || control.tm_lim == 0)
            break;
        control.r_test = ways[i].ratio_test;
        if (ways[i].from_slack)
            glp_std_basis(lp->problem);
        status = lp_run(lp, &control);
        uint64_t done = (uint64_t)(1 + glp_get_it_cnt(lp->problem) - before) * lp_size(lp);
        lp->work += done;
        lp->work_left -= done < lp->work_left ? done : lp->work_left;
    }
    if (status != 0)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "the simplex method stopped with status %d", status);
    return BLINK_OK;
}

/* Place the rows that the last solution breaks, or all; false if there are none. */
static bool lp_place_broken(plan_lp_t *lp, bool all)
{
    bool broken = false;
    memset(lp->sum, 0, lp->row_count * sizeof(*lp->sum));
    for (uint32_t column = 0; column < lp->columns.count; column++) {
        double x = glp_get_col_prim(lp->problem, (int)column + 1);
        const lp_entry_t *entries = &lp->entries.items[lp->columns.items[column].first];
        for (uint32_t i = 0; x > 0.0 && i < lp->columns.items[column].count; i++)
            lp->sum[entries[i].row] += x * entries[i].value;
    }
    for (uint32_t row = 0; row < lp->row_count; row++)
        if (lp->place[row] == 0 && (all || lp->sum[row] > lp->limit[row] + BROKEN)) {
            lp_place_row(lp, row);
            broken = true;
        }
    return broken;
}

static blink_result_t lp_solve(plan_lp_t *lp)
{
    lp_settle(lp);
    BLINK_TRY(lp_simplex(lp, GLP_PRIMAL));
    while (lp_place_broken(lp, false)) {
        lp_settle(lp);
        BLINK_TRY(lp_simplex(lp, GLP_DUALP));
    }
    return BLINK_OK;
}

blink_result_t plan_lp_solve(plan_lp_t *lp)
{
    lp->whole = false;
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    blink_result_t result = lp_solve(lp);
    glp_error_hook(NULL, NULL);
    return result;
}

uint64_t plan_lp_work(const plan_lp_t *lp)
{
    return lp->work;
}

void plan_lp_until(plan_lp_t *lp, uint64_t deadline_ns)
{
    lp->deadline_ns = deadline_ns;
}

void plan_lp_allow(plan_lp_t *lp, uint64_t work)
{
    lp->work_left = work;
}

void plan_lp_make_whole(plan_lp_t *lp, uint32_t column, uint32_t most)
{
    glp_set_col_kind(lp->problem, (int)column + 1, GLP_IV);
    glp_set_col_bnds(lp->problem, (int)column + 1, GLP_DB, 0.0, most);
}

typedef struct lp_search {
    double enough;
    uint32_t subproblems_max;
} lp_search_t;

static void lp_watch(glp_tree *tree, void *info)
{
    const lp_search_t *search = info;
    glp_prob *problem = glp_ios_get_prob(tree);
    int solved = 0;
    glp_ios_tree_size(tree, NULL, NULL, &solved);
    bool found = glp_mip_status(problem) == GLP_FEAS || glp_mip_status(problem) == GLP_OPT;
    if ((uint32_t)solved > search->subproblems_max ||
        (found && glp_mip_obj_val(problem) >= search->enough - 1e-6))
        glp_ios_terminate(tree);
}

blink_result_t plan_lp_solve_whole(plan_lp_t *lp, double enough, uint32_t subproblems_max)
{
    lp_search_t search = {enough, subproblems_max};
    glp_iocp control;
    glp_init_iocp(&control);
    control.msg_lev = GLP_MSG_OFF;
    control.cb_func = lp_watch;
    control.cb_info = &search;
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    blink_result_t result = lp_place_broken(lp, true) ? lp_solve(lp) : BLINK_OK;
    int status = result == BLINK_OK ? glp_intopt(lp->problem, &control) : 0;
    glp_error_hook(NULL, NULL);
    if (result != BLINK_OK)
        return result;
    if (status != 0 && status != GLP_ESTOP)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "the search over whole numbers stopped with status %d", status);
    lp->whole = true;
    return BLINK_OK;
}

double plan_lp_value(const plan_lp_t *lp, uint32_t column)
{
    if (lp->whole)
        return glp_mip_col_val(lp->problem, (int)column + 1);
    return glp_get_col_prim(lp->problem, (int)column + 1);
}

double plan_lp_price(const plan_lp_t *lp, uint32_t row)
{
    return lp->place[row] == 0 ? 0.0 : glp_get_row_dual(lp->problem, lp->place[row]);
}

void plan_thread_release(void)
{
    glp_free_env();
}
