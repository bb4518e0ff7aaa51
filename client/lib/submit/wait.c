/* Waiting: how long a thread stays awake, what it looks at before it sleeps; blink_wait() and its like. Apart
 * from ops.c because it is policy; why no wake-up is missed is argued at the top of ops.h. */
#include "submit/handle.h"

#include "error.h"

#include <sched.h>
#include <time.h>

#define SPIN_MAX_NS      200000u /* then a spinning waiter sleeps after all */
#define SPINS_PER_CLOCK  256u    /* turns between two looks at the clock */
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

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

typedef struct patience {
    uint64_t start_ns; /* 0: the clock has not been read yet */
    uint32_t turns;
} patience_t;

static bool elapsed(patience_t *patience, uint64_t max_ns)
{
    uint64_t now = now_ns();
    if (patience->start_ns == 0)
        patience->start_ns = now;
    return now - patience->start_ns > max_ns;
}

/* One turn of waiting awake, as the daemon advises; false when it is time to sleep. */
static bool stay_awake(patience_t *patience, ring_wait_policy_t policy)
{
    if (policy != RING_WAIT_SPIN && policy != RING_WAIT_YIELD)
        return false;
    patience->turns++;
    if (policy == RING_WAIT_SPIN) {
        relax();
        return patience->turns % SPINS_PER_CLOCK != 0 || !elapsed(patience, SPIN_MAX_NS);
    }
    sched_yield(); /* at once: whoever this thread waits for may be waiting for its core */
    return patience->turns % YIELDS_PER_CLOCK != 0 || !elapsed(patience, YIELD_MAX_NS);
}

/* What a thread waits for; `over` becomes true by what this context's daemon does, and stays so. */
typedef struct awaited {
    bool (*over)(void *what);
    void *what;
} awaited_t;

static void sleep_for(ops_t *ops, const awaited_t *awaited)
{
    uint32_t sequence = ring_sleep_begin(&ops->ring);
    bool doze = ops_progress_all(ops);
    if (!awaited->over(awaited->what))
        ring_sleep(&ops->ring, sequence, doze ? DOZE_MAX_US : SLEEP_MAX_US);
    ring_sleep_end(&ops->ring);
}

static void await(ops_t *ops, const awaited_t *awaited)
{
    patience_t patience = {0};
    while (!awaited->over(awaited->what)) {
        ops_progress(ops, false);
        if (awaited->over(awaited->what))
            return;
        if (!stay_awake(&patience, ring_wait_policy(&ops->ring)))
            sleep_for(ops, awaited);
    }
}

static bool op_over(void *what)
{
    return ops_is_over(what);
}

static bool queue_idle(void *what)
{
    const ops_queue_t *queue = what;
    /* Acquire: pairs with the store in ops_over(). */
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

/* ---- handles: an op and, if it is a group's, those of its other communicators ---- */

static bool all_over(blink_op_t *op)
{
    while (op && ops_is_over(op))
        op = op->rest;
    return !op;
}

/* Free all of it; the first failure, with its sentence. */
static blink_result_t finish(blink_op_t *op)
{
    blink_result_t result = BLINK_OK;
    for (blink_op_t *rest; op; op = rest) {
        rest = op->rest;
        if (result == BLINK_OK && op->result != BLINK_OK)
            result = blink_error_set(op->result, "%s", op->text);
        handle_put(op);
    }
    return result;
}

blink_result_t blink_wait(blink_op_t *op)
{
    if (!op)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_wait: op is NULL");
    for (blink_op_t *part = op; part; part = part->rest)
        await(part->ops, &(awaited_t){op_over, part});
    return finish(op);
}

blink_result_t blink_test(blink_op_t *op, bool *done)
{
    if (!op || !done)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_test: %s is NULL", op ? "done" : "op");
    for (blink_op_t *part = op; part; part = part->rest) {
        if (!ops_is_over(part))
            ops_progress(part->ops, true);
    }
    *done = all_over(op);
    return *done ? finish(op) : BLINK_OK;
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
    while (i < several->count && (!several->ops[i] || !all_over(several->ops[i])))
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
        for (blink_op_t *part = several->ops[i]; part; part = part->rest) {
            if (part->ops == last)
                continue;
            last = part->ops;
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

blink_result_t blink_wait_any(blink_op_t **ops, size_t count, ptrdiff_t *index)
{
    if ((!ops && count > 0) || !index)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_wait_any: %s is NULL", index ? "ops" : "index");
    several_t several = {.ops = ops, .count = count};
    size_t first = 0;
    while (first < count && !ops[first])
        first++;
    *index = -1;
    if (first == count)
        return BLINK_OK;
    ops_t *context = visit_contexts(&several, false);
    if (context)
        await(context, &(awaited_t){any_over, &several});
    else
        await_of_contexts(&several, ring_wait_policy(&ops[first]->ops->ring));
    blink_op_t *over = ops[several.over];
    ops[several.over] = NULL;
    *index = (ptrdiff_t)several.over;
    return finish(over);
}
