/*
 * One plan from what is asked for to a compiled program.
 */
#ifndef BLINK_ENGINE_MAKE_H
#define BLINK_ENGINE_MAKE_H

#include "engine/plans/plans.h"

/* On a thread of the planner's: plan, choose, predict and compile, and post the program's item to the engine.
 * The fields that the program has for that are this thread's until then. */
void plan_make(cached_program_t *cached);

#endif
