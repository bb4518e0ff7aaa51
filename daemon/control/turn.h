/*
 * Turns of the control thread's loop. What a tenant can make long (the requests of a connection, a client's
 * end) is done in slices: a turn goes round the tenants that have work, and round the works of each, until it
 * has made its number of steps. What is left waits for the next turn, after everybody's sockets and timers.
 * What is done for nobody alone, such as the end of all when the daemon stops, has a slice in each round.
 *
 * A step is about a microsecond of work: a request, an object that is described, closed or told of something.
 */
#ifndef BLINK_CONTROL_TURN_H
#define BLINK_CONTROL_TURN_H

#include "base/list.h"
#include "base/mailbox.h"
#include "base/tenant.h"
#include "error.h"

#include <uv.h>

/* After so many steps a turn ends, and a slice. What cannot be divided, such as telling all ranks of one
 * communicator, may exceed both. */
#define TURN_STEPS  256u
#define SLICE_STEPS 32u

/* Something that is done in slices. */
typedef struct work {
    list_t link; /* on the works of its tenant or of nobody, while it waits for its next slice */
    /* Do a slice. False: there is no more to do, and the work may be gone. */
    bool (*run)(struct work *work);
} work_t;

typedef struct turns {
    uv_check_t check;
    uv_idle_t idle; /* keeps the loop from waiting while something is left */
    mailbox_t *mailbox;
    list_t tenants; /* those with works; whose slice is next is first */
    list_t works;   /* nobody's */
    uint32_t steps, slice_steps;
    uint32_t steps_most; /* of all turns so far */
} turns_t;

/* The mailbox is the control thread's: its items are run in slices, too. The loop's handles are closed with
 * the loop. */
blink_result_t turns_init(turns_t *turns, uv_loop_t *loop, mailbox_t *mailbox);

/* Have `run` called until it returns false. A work that waits already stays where it is. tenant: whose work
 * it is; NULL: nobody's. */
void turns_post(turns_t *turns, tenant_t *tenant, work_t *work);

/* Have the timer called once at this time of the loop, or with its next turn if that has passed. A timer of
 * 0 ms that its own call sets is called again in the same turn (seen with libuv 1.44): who leaves the rest to
 * the next turn, because this one is over, would be called for ever. */
void turns_set_timer(uv_timer_t *timer, uint64_t at_ms, uv_timer_cb on_timer);

static inline void work_init(work_t *work, bool (*run)(work_t *work))
{
    list_init(&work->link);
    work->run = run;
}

/* The work has no slice any more until it is posted again. */
static inline void work_cancel(work_t *work)
{
    list_remove(&work->link);
}

static inline void turns_count(turns_t *turns, uint32_t steps)
{
    turns->steps += steps;
    turns->slice_steps += steps;
}

/* Whether the turn has made its number of steps. */
static inline bool turns_is_over(const turns_t *turns)
{
    return turns->steps >= TURN_STEPS;
}

/* Whether the slice under way has made its number of steps. */
static inline bool turns_slice_is_over(const turns_t *turns)
{
    return turns->slice_steps >= SLICE_STEPS;
}

#endif
