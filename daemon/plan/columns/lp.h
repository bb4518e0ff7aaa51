/*
 * A packing linear program, grown by columns: maximise the sum of weight·x over x >= 0 with every row's sum
 * <= 1. A thin wrapper over GLPK that turns its fatal errors into results instead of an abort.
 */
#ifndef BLINK_PLAN_LP_H
#define BLINK_PLAN_LP_H

#include "blink/types.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct plan_lp plan_lp_t;

/* At least one row; each row's limit is loosened by up to `loosening`, no two alike. Errors of all calls:
 * NO_MEMORY, INTERNAL (the solver gave up; its number is named). Belongs to one thread.
 */
blink_result_t plan_lp_create(uint32_t row_count, double loosening, plan_lp_t **lp);
void plan_lp_destroy(plan_lp_t *lp);

/* Make a row's sum exactly 0 instead of at most 1, before a column has it. Its price may then be negative. */
void plan_lp_balance(plan_lp_t *lp, uint32_t row);

/* Add a column with `count` entries (rows count from 0) and weight 1. Columns are numbered from 0 in order.
 */
blink_result_t plan_lp_add(plan_lp_t *lp, uint32_t count, const uint32_t *rows, const double *values);

/* Change a column's weight; fix its x at a value, or free it again. Takes effect with the
 * next solve. */
void plan_lp_weigh(plan_lp_t *lp, uint32_t column, double weight);
void plan_lp_fix(plan_lp_t *lp, uint32_t column, double value);
void plan_lp_free(plan_lp_t *lp, uint32_t column);

/* Let a column's x be at most so much, until it is fixed or freed. */
void plan_lp_cap(plan_lp_t *lp, uint32_t column, double most);

/* Let a column's x be only a whole number from 0 to `most` in plan_lp_solve_whole(); in plan_lp_solve() any
 * number up to that. */
void plan_lp_make_whole(plan_lp_t *lp, uint32_t column, uint32_t most);

/* Solve from the last basis. */
blink_result_t plan_lp_solve(plan_lp_t *lp);

/* After plan_lp_solve(), search the best solution in whole numbers by branch and cut; stop at one worth
 * `enough`, or after so many subproblems, so that the result does not depend on the machine's speed.
 * plan_lp_value() then gives the best solution found; all 0 if there was none. */
blink_result_t plan_lp_solve_whole(plan_lp_t *lp, double enough, uint32_t subproblems_max);

/* Steps of the simplex method so far, each times rows and columns: time, but the same on every machine. */
uint64_t plan_lp_work(const plan_lp_t *lp);

/* Solving fails with INTERNAL after this time of clock_ns(); 0: never. */
void plan_lp_until(plan_lp_t *lp, uint64_t deadline_ns);

/* How much more of it may be done; once it is, solving fails with INTERNAL. Without end at first. */
void plan_lp_allow(plan_lp_t *lp, uint64_t work);

/* Of the last solution: the column's x, and the row's price (what one more unit of it would gain). */
double plan_lp_value(const plan_lp_t *lp, uint32_t column);
double plan_lp_price(const plan_lp_t *lp, uint32_t row);

#endif
