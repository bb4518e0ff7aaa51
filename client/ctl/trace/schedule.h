/*
 * A trace as a GOAL schedule (sim/goal.h): the ops of its threads one after the other, each on the device
 * that is the schedule's rank of that number.
 *
 * A submission is a calc of what its thread did before (tools/history.h), on a cpu of its own. What an op
 * sends and reduces on a device follows its submission there and the end of the op before it in the
 * communicator there, and its end follows all that it sends and receives there: ranks wait for the data that
 * they need, and not, as in blinkd, for all others to come. Ops without data, which do nothing but that, send
 * a byte to the communicator's first rank and get one back.
 */
#ifndef CTL_TRACE_SCHEDULE_H
#define CTL_TRACE_SCHEDULE_H

#include "ctl/trace/predict.h"
#include "sim/goal.h"

/* What the ops of a kind send and reduce. */
struct schedule {
    lane_program_t *program;
    lane_geometry_t geometry;
    goal_t *goal;
};

void schedule_free(schedule_t *schedule);

/** The kinds of the prediction that move something have their schedules. What fails in `out` stays there:
 * ferror(). Errors: UNSUPPORTED (a rank of another host, a rank of which it is not known when it came, more
 * chunks than GOAL has tags), NO_MEMORY. */
blink_result_t schedule_write(const trace_t *trace, const prediction_t *prediction, FILE *out);

#endif
