/*
 * The element loops behind reduce_apply(), compiled once per instruction set. Declared here so that tests can
 * run every set this processor has, not just the one that is chosen.
 */
#ifndef BLINK_REDUCE_LOOPS_H
#define BLINK_REDUCE_LOOPS_H

#include "exec/host/reduce/reduce.h"

/* Any number of sources and destinations; the destinations are written even where they are the source.
 * Streamed stores are ordered before it returns. */
typedef void reduce_loop_t(const reduce_step_t *step);

#define REDUCE_DATATYPES 12
#define REDUCE_OPERATORS 4 /* SUM, which also averages and scales, PROD, MAX, MIN */

typedef struct reduce_loops {
    reduce_loop_t *loops[REDUCE_DATATYPES][REDUCE_OPERATORS];
} reduce_loops_t;

/* The set at `index`, the fastest first, the plain one last; NULL behind it. Only sets that this processor
 * has. */
const reduce_loops_t *reduce_loops_at(uint32_t index);

/* reduce_apply() with a given set. */
void reduce_apply_with(const reduce_loops_t *loops, const reduce_step_t *step);

extern const reduce_loops_t reduce_loops_plain;
#if defined(__x86_64__)
extern const reduce_loops_t reduce_loops_avx2;
extern const reduce_loops_t reduce_loops_avx512;
#endif

#endif
