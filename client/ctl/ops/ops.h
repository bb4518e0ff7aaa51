/*
 * The ops of a communicator, as the daemon remembers them, in the order in which they are shown: those that
 * have ended, oldest first, then those under way.
 */
#ifndef CTL_OPS_H
#define CTL_OPS_H

#include "ctl/ctl.h"

#define OPS_NOT_COME UINT32_MAX

typedef struct ops {
    uint32_t comm;
    uint64_t now_us; /* by the clock of the ops */
    size_t count;
    Blinkwire__Op **ops;
} ops_t;

static inline bool ops_has_ended(const Blinkwire__Op *op)
{
    return op->ended_us > 0;
}

/** When the op ended, or that it is still there now. */
static inline uint64_t ops_end_us(const ops_t *ops, const Blinkwire__Op *op)
{
    return ops_has_ended(op) ? op->ended_us : ops->now_us;
}

/** Which of the op's ranks came last, or has not come, as an index; op->n_ranks: it has none. */
size_t ops_last(const Blinkwire__Op *op);

/** Print them in the Trace Event Format, which Perfetto and Chrome show. Errors: NO_MEMORY. */
blink_result_t ops_print_chrome(const ops_t *ops);

#endif
