/* What BLINK_DEBUG=trace tells of ops: a line for each call that is submitted, and one for the end of the op.
 * A failure is told with BLINK_DEBUG=info already. */
#ifndef CLIENT_TRACE_H
#define CLIENT_TRACE_H

#include "submit/op.h"

void trace_tell_submission(blink_op_t *op, const ops_run_t *run);
void trace_tell_end(const blink_op_t *op);

/** Before the run of the op is published. */
static inline void trace_submission(blink_op_t *op, const ops_run_t *run)
{
    op->trace.number = 0;
    if (debug_traces())
        trace_tell_submission(op, run);
}

/** Before the op is its owner's to free. */
static inline void trace_end(const blink_op_t *op)
{
    if (debug_informs())
        trace_tell_end(op);
}

#endif
