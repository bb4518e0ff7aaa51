/* GLPK behind plan/lp.h. Its own file because of the trap: GLPK reports fatal errors (no memory, a broken
 * invariant) through a hook that must not return, so each call that may fail sets a jump target first. */
#include "plan/columns/lp.h"

#include "error.h"
#include "plan/plan.h"

#include <glpk.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

struct plan_lp {
    glp_prob *problem; /* NULL after a fatal error: GLPK's environment went with it */
    int *rows;         /* one column in GLPK's form: entries count from 1 */
    double *values;
    bool whole; /* the last solution is one in whole numbers */
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

static blink_result_t lp_begin(plan_lp_t *lp, uint32_t row_count, double loosening)
{
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    glp_term_out(GLP_OFF);
    glp_term_hook(lp_mute, NULL);
    lp->problem = glp_create_prob();
    glp_set_obj_dir(lp->problem, GLP_MAX);
    glp_add_rows(lp->problem, (int)row_count);
    for (int row = 1; row <= (int)row_count; row++)
        /* Multiples of the golden ratio are far apart for neighbours. */
        glp_set_row_bnds(lp->problem, row, GLP_UP, 0.0, 1.0 + loosening * fmod(0.6180339887 * row, 1.0));
    glp_error_hook(NULL, NULL);
    return BLINK_OK;
}

blink_result_t plan_lp_create(uint32_t row_count, double loosening, plan_lp_t **out)
{
    plan_lp_t *lp = calloc(1, sizeof(*lp));
    if (lp == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a linear program");
    lp->rows = calloc(row_count + 1u, sizeof(*lp->rows));
    lp->values = calloc(row_count + 1u, sizeof(*lp->values));
    blink_result_t result = lp->rows != NULL && lp->values != NULL
                                ? lp_begin(lp, row_count, loosening)
                                : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u rows", row_count);
    if (result != BLINK_OK) {
        plan_lp_destroy(lp);
        return result;
    }
    *out = lp;
    return BLINK_OK;
}

void plan_lp_destroy(plan_lp_t *lp)
{
    if (lp == NULL)
        return;
    if (lp->problem != NULL)
        glp_delete_prob(lp->problem);
    free(lp->rows);
    free(lp->values);
    free(lp);
}

void plan_lp_balance(plan_lp_t *lp, uint32_t row)
{
    glp_set_row_bnds(lp->problem, (int)row + 1, GLP_FX, 0.0, 0.0);
}

blink_result_t plan_lp_add(plan_lp_t *lp, uint32_t count, const uint32_t *rows, const double *values)
{
    for (uint32_t i = 0; i < count; i++) {
        lp->rows[i + 1] = (int)rows[i] + 1;
        lp->values[i + 1] = values[i];
    }
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    int column = glp_add_cols(lp->problem, 1);
    glp_set_col_bnds(lp->problem, column, GLP_LO, 0.0, 0.0);
    glp_set_obj_coef(lp->problem, column, 1.0);
    glp_set_mat_col(lp->problem, column, (int)count, lp->rows, lp->values);
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

/* One run of the simplex method; 0, its error, or the negative status of what it left. */
static int lp_run(const plan_lp_t *lp, const glp_smcp *control)
{
    int status = glp_simplex(lp->problem, control);
    if (status == 0 && glp_get_status(lp->problem) != GLP_OPT)
        status = -glp_get_status(lp->problem);
    return status;
}

/* Primal first: after new columns the old basis is still feasible. Where a fixed column left it infeasible,
 * the primal method's first phase repairs that. A basis found singular, or from which rounding leads to no
 * solution, is replaced by the slack basis once. */
static blink_result_t lp_simplex(plan_lp_t *lp, int *status)
{
    glp_smcp control;
    glp_init_smcp(&control);
    control.msg_lev = GLP_MSG_OFF;
    control.meth = GLP_PRIMAL;
    control.tol_dj = 1e-9;
    control.it_lim = 200000;
    if (setjmp(lp->trap) != 0)
        return lp_fatal(lp);
    glp_error_hook(lp_trap, lp);
    *status = lp_run(lp, &control);
    if (*status != 0) {
        glp_std_basis(lp->problem);
        *status = lp_run(lp, &control);
    }
    glp_error_hook(NULL, NULL);
    return BLINK_OK;
}

blink_result_t plan_lp_solve(plan_lp_t *lp)
{
    int status = 0;
    lp->whole = false;
    BLINK_TRY(lp_simplex(lp, &status));
    if (status != 0)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "the simplex method stopped with status %d", status);
    return BLINK_OK;
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
    int status = glp_intopt(lp->problem, &control);
    glp_error_hook(NULL, NULL);
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
    return glp_get_row_dual(lp->problem, (int)row + 1);
}

void plan_thread_release(void)
{
    glp_free_env();
}
