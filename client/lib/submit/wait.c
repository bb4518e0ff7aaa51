/* How long a thread stays awake, and what it looks at before it sleeps. Why no wake-up is missed is argued in
 * ops.h. */
#include "submit/wait.h"

#include "base/clock.h"
#include "environment/range.h"

#include <sched.h>

#define SPIN_MAX_NS      200000u /* then a spinning waiter sleeps after all */
#define SPINS_PER_CLOCK  256u    /* between two looks at the clock */
#define YIELDS_PER_CLOCK 8u
#define YIELD_MAX_NS     200000u
#define SLEEP_MAX_US     1000000u /* no wake-up is missed; this bounds the harm of a daemon that sends none */
#define DOZE_MAX_US      50u      /* while the SQ is full, or ops of several contexts are waited for */

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

typedef struct patience {
    uint64_t start_ns; /* 0: the clock has not been read yet */
    uint32_t looks;
} patience_t;

static bool elapsed(patience_t *patience, uint64_t max_ns)
{
    uint64_t now = clock_ns();
    if (patience->start_ns == 0)
        patience->start_ns = now;
    return now - patience->start_ns > max_ns;
}

/* One look awake, as the daemon advises; false when it is time to sleep. */
static bool stay_awake(patience_t *patience, ring_wait_policy_t policy)
{
    if (policy != RING_WAIT_SPIN && policy != RING_WAIT_YIELD)
        return false;
    patience->looks++;
    if (policy == RING_WAIT_SPIN) {
        relax();
        return patience->looks % SPINS_PER_CLOCK != 0 || !elapsed(patience, SPIN_MAX_NS);
    }
    sched_yield(); /* at once: whoever this thread waits for may be waiting for its core */
    return patience->looks % YIELDS_PER_CLOCK != 0 || !elapsed(patience, YIELD_MAX_NS);
}

/* What a thread waits for; `over` becomes true by what this context's daemon does, and stays so. */
typedef struct awaited {
    bool (*over)(void *what);
    void *what;
} awaited_t;

/* Sleep until a wake-up or the deadline; false if that has passed. */
static bool sleep_for(ops_t *ops, const awaited_t *awaited, uint64_t deadline_ns)
{
    uint64_t now_ns = deadline_ns == UINT64_MAX ? 0 : clock_ns();
    if (now_ns >= deadline_ns)
        return false;
    uint32_t sequence = ring_sleep_begin(&ops->engine.ring);
    bool doze = ops_progress_all(ops);
    uint64_t left_us = (deadline_ns - now_ns) / 1000 + 1, most_us = doze ? DOZE_MAX_US : SLEEP_MAX_US;
    if (!awaited->over(awaited->what))
        ring_sleep(&ops->engine.ring, sequence, left_us < most_us ? left_us : most_us);
    ring_sleep_end(&ops->engine.ring);
    return true;
}

/* Whether it is over: else the deadline has passed. */
static bool await_until(ops_t *ops, const awaited_t *awaited, uint64_t deadline_ns)
{
    patience_t patience = {0};
    while (!awaited->over(awaited->what)) {
        ops_progress(ops, false);
        if (awaited->over(awaited->what))
            return true;
        if (!stay_awake(&patience, ring_wait_policy(&ops->engine.ring)) &&
            !sleep_for(ops, awaited, deadline_ns))
            return false;
    }
    return true;
}

static void await(ops_t *ops, const awaited_t *awaited)
{
    (void)await_until(ops, awaited, UINT64_MAX);
}

static bool op_over(void *what)
{
    return ops_is_over(what);
}

static bool queue_idle(void *what)
{
    const ops_queue_t *queue = what;
    /* Acquire: pairs with the store in end() (ops.c). */
    return atomic_load_explicit(&queue->unfinished, memory_order_acquire) == 0;
}

typedef struct drained {
    ops_t *ops;
    const ops_queue_t *queue;
} drained_t;

static bool nothing_parked(void *what)
{
    const drained_t *drained = what;
    return !ops_has_parked(drained->ops, drained->queue);
}

void ops_await_idle(ops_t *ops, ops_queue_t *queue)
{
    await(ops, &(awaited_t){queue_idle, queue});
}

void ops_drain(ops_t *ops, const ops_queue_t *queue)
{
    await(ops, &(awaited_t){nothing_parked, &(drained_t){ops, queue}});
}

bool ops_await(blink_op_t *op, uint64_t deadline_ns)
{
    range_begin("blink_wait");
    while (op && await_until(op->ops, &(awaited_t){op_over, op}, deadline_ns))
        op = op->rest;
    range_end();
    return !op;
}

/* ---- any of several ---- */

typedef struct several {
    blink_op_t **ops;
    size_t count;
    size_t over; /* the place of one that is over; `count`: none */
} several_t;

static bool any_over(void *what)
{
    several_t *several = what;
    size_t i = 0;
    while (i < several->count && (!several->ops[i] || !ops_are_over(several->ops[i])))
        i++;
    several->over = i;
    return i < several->count;
}

/* The context of all of them, NULL if there are several. With `progress`, each is moved on. */
static ops_t *visit_contexts(const several_t *several, bool progress)
{
    ops_t *first = NULL, *last = NULL;
    bool single = true;
    for (size_t i = 0; i < several->count; i++) {
        for (blink_op_t *op = several->ops[i]; op; op = op->rest) {
            if (op->ops == last)
                continue;
            last = op->ops;
            first = first ? first : last;
            single = single && last == first;
            if (progress)
                ops_progress(last, false);
        }
    }
    return single ? first : NULL;
}

/* There is no futex for several rings: between two looks the thread sleeps a little. */
static void await_of_contexts(several_t *several, ring_wait_policy_t policy)
{
    patience_t patience = {0};
    const struct timespec nap = {.tv_nsec = DOZE_MAX_US * 1000};
    while (!any_over(several)) {
        (void)visit_contexts(several, true);
        if (!stay_awake(&patience, policy))
            nanosleep(&nap, NULL);
    }
}

size_t ops_await_any(blink_op_t **ops, size_t count)
{
    several_t several = {.ops = ops, .count = count};
    size_t first = 0;
    while (first < count && !ops[first])
        first++;
    if (first == count)
        return count;
    ops_t *context = visit_contexts(&several, false);
    range_begin("blink_wait_any");
    if (context)
        await(context, &(awaited_t){any_over, &several});
    else
        await_of_contexts(&several, ring_wait_policy(&ops[first]->ops->engine.ring));
    range_end();
    return several.over;
}
