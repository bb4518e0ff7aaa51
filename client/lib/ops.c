/* Submission, reaping and waiting; blink_wait() and blink_test(). The protocol is argued at the top of ops.h.
 */
#include "ops.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SPIN_MAX_NS       200000u /* then a spinning waiter sleeps after all */
#define SPINS_PER_CLOCK   256u    /* turns between two looks at the clock */
#define YIELD_FIRST_SPINS 200u
#define SLEEP_MAX_US      1000000u /* no wake-up is missed; this bounds the harm of a daemon that sends none */

struct blink_op {
    ops_t *ops;
    ops_queue_t *queue;
    blink_op_t *next;         /* in a queue's parked ops, or among the free ones */
    _Atomic uint64_t pending; /* the submission's user_data; 0 once it has ended and result and text stand */
    uint32_t index;           /* of this handle, from 0 */
    uint32_t generation;      /* makes user_data of a reused handle new; under submit_lock */
    blink_result_t result;
    union {
        ring_sqe_t sqe;                    /* while parked */
        char text[BLINK_ERROR_TEXT_BYTES]; /* once ended */
    };
};

/* The user_data under which the op is unfinished, or 0. */
static uint64_t op_pending(blink_op_t *op)
{
    /* Acquire: pairs with the release stores in op_end(), so result and text are seen, and of the
     * submission, so `queue` is. */
    return atomic_load_explicit(&op->pending, memory_order_acquire);
}

/* Under reap_lock. */
static void op_end(blink_op_t *op, blink_result_t result, const char *text)
{
    op->result = result;
    if (result != BLINK_OK)
        snprintf(op->text, sizeof(op->text), "%s", text);
    /* Relaxed load: reap_lock. Release store: pairs with the load in ops_queue_remove(), whose caller then
     * frees the queue. */
    uint32_t reaped = atomic_load_explicit(&op->queue->reaped, memory_order_relaxed);
    atomic_store_explicit(&op->queue->reaped, reaped + 1, memory_order_release);
    /* Release: pairs with the load in op_pending(); from here on the handle is its owner's to free. */
    atomic_store_explicit(&op->pending, 0, memory_order_release);
}

/* ---- handles ---- */

/* Under submit_lock. */
static blink_result_t add_chunk(ops_t *ops)
{
    if (ops->chunk_count == OPS_CHUNKS_MAX)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "%u ops have been submitted and not waited for",
                          OPS_CHUNKS_MAX * OPS_CHUNK_OPS);
    blink_op_t *chunk = calloc(OPS_CHUNK_OPS, sizeof(*chunk));
    if (!chunk)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ops", OPS_CHUNK_OPS);
    for (uint32_t i = OPS_CHUNK_OPS; i-- > 0;) {
        chunk[i].ops = ops;
        chunk[i].index = ops->chunk_count * OPS_CHUNK_OPS + i;
        chunk[i].next = ops->free_ops;
        ops->free_ops = &chunk[i];
    }
    /* Release: pairs with the load in op_find(). */
    atomic_store_explicit(&ops->chunks[ops->chunk_count], chunk, memory_order_release);
    ops->chunk_count++;
    return BLINK_OK;
}

/* Under submit_lock. NULL, with the sentence recorded, if memory ran out. */
static blink_op_t *op_get(ops_t *ops)
{
    if (!ops->free_ops) {
        /* Acquire: pairs with the release in op_put(), so `next` is seen. */
        ops->free_ops = atomic_exchange_explicit(&ops->freed_ops, NULL, memory_order_acquire);
    }
    if (!ops->free_ops)
        (void)add_chunk(ops);
    blink_op_t *op = ops->free_ops;
    if (op)
        ops->free_ops = op->next;
    return op;
}

static void op_put(blink_op_t *op)
{
    ops_t *ops = op->ops;
    blink_op_t *top = atomic_load_explicit(&ops->freed_ops, memory_order_relaxed);
    do {
        op->next = top;
        /* Release: pairs with the exchange in op_get(). The list is only ever taken whole, so a top that was
         * taken and came back is still the right successor. */
    } while (!atomic_compare_exchange_weak_explicit(&ops->freed_ops, &top, op, memory_order_release,
                                                    memory_order_relaxed));
}

/* The unfinished op that a completion is for; NULL if the daemon made the number up. */
static blink_op_t *op_find(ops_t *ops, uint64_t user_data)
{
    uint32_t number = (uint32_t)user_data;
    if (number == 0 || number > OPS_CHUNKS_MAX * OPS_CHUNK_OPS)
        return NULL;
    uint32_t index = number - 1;
    /* Acquire: pairs with the store in add_chunk(). */
    blink_op_t *chunk = atomic_load_explicit(&ops->chunks[index / OPS_CHUNK_OPS], memory_order_acquire);
    if (!chunk)
        return NULL;
    blink_op_t *op = &chunk[index % OPS_CHUNK_OPS];
    return op_pending(op) == user_data ? op : NULL;
}

/* ---- submission ---- */

/* Under submit_lock. */
static bool has_room(ops_t *ops, ops_queue_t *queue)
{
    uint32_t share = ops->limit / (ops->rank_count > 0 ? ops->rank_count : 1);
    /* seq_cst: the parker's look; pairs with the store in reap(). It also makes the relaxed stores of the
     * queues' counts before that store visible. */
    uint32_t reaped = atomic_load_explicit(&ops->reaped, memory_order_seq_cst);
    return ops->submitted - reaped < ops->limit &&
           queue->submitted - atomic_load_explicit(&queue->reaped, memory_order_relaxed) < share;
}

/* Under submit_lock, with room. */
static bool publish(ops_t *ops, ops_queue_t *queue, const ring_sqe_t *sqe)
{
    if (!ring_submit(&ops->ring, sqe))
        return false;
    ops->submitted++;
    queue->submitted++;
    if (ring_needs_doorbell(&ops->ring)) {
        uint64_t one = 1;
        /* It fails only if the eventfd's count is at its maximum: not in this world's time. */
        (void)!write(ops->doorbell_fd, &one, sizeof(one));
    }
    return true;
}

/* Under submit_lock. */
static void park(ops_t *ops, ops_queue_t *queue, blink_op_t *op, const ring_sqe_t *sqe)
{
    op->sqe = *sqe;
    op->next = NULL;
    if (queue->first_parked)
        queue->last_parked->next = op;
    else
        queue->first_parked = op;
    queue->last_parked = op;
    /* seq_cst: comes before the parker's looks at `reaped` and at `pumped`; pairs with ops_progress() and
     * ops_pump(). */
    atomic_fetch_add_explicit(&ops->parked, 1, memory_order_seq_cst);
    if (!atomic_load_explicit(&ops->pumped, memory_order_seq_cst)) {
        uint64_t one = 1;
        (void)!write(ops->pump_fd, &one, sizeof(one)); /* fails only if it is readable already */
    }
}

static void unpark_all(ops_t *ops)
{
    pthread_mutex_lock(&ops->submit_lock);
    for (ops_queue_t *queue = ops->queues; queue; queue = queue->next) {
        while (queue->first_parked && has_room(ops, queue)) {
            blink_op_t *op = queue->first_parked;
            ring_sqe_t sqe = op->sqe;
            queue->first_parked = op->next;
            /* Release: once published the op may end and be freed at any time; pairs with the load in
             * op_pending(), so that the looks into it above come before. */
            atomic_store_explicit(&op->pending, sqe.user_data, memory_order_release);
            if (!publish(ops, queue, &sqe)) {
                queue->first_parked = op;
                break;
            }
            /* Relaxed: counting down too late only costs a needless look. */
            atomic_fetch_sub_explicit(&ops->parked, 1, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&ops->submit_lock);
}

blink_result_t ops_submit(ops_t *ops, ops_queue_t *queue, ring_sqe_t *sqe, blink_op_t **op)
{
    blink_result_t result = BLINK_OK;
    bool published = false;
    pthread_mutex_lock(&ops->submit_lock);
    blink_op_t *fresh = ops->lost ? NULL : op_get(ops);
    if (fresh) {
        fresh->queue = queue;
        sqe->user_data = (uint64_t)++fresh->generation << 32 | (fresh->index + 1);
        /* Release: pairs with the load in op_pending(). */
        atomic_store_explicit(&fresh->pending, sqe->user_data, memory_order_release);
        published = !queue->first_parked && has_room(ops, queue) && publish(ops, queue, sqe);
        if (!published)
            park(ops, queue, fresh, sqe);
    } else if (ops->lost) {
        result = BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "the connection to the daemon is closed");
    } else {
        result = BLINK_ERR_NO_MEMORY; /* op_get() has said why */
    }
    pthread_mutex_unlock(&ops->submit_lock);
    if (result == BLINK_OK) {
        *op = fresh;
        if (!published)
            ops_progress(ops);
    }
    return result;
}

/* ---- completion ---- */

/* Under reap_lock. */
static void reap(ops_t *ops)
{
    ring_cqe_t cqe;
    uint32_t count = 0;
    while (ring_has_completion(&ops->ring) && ring_reap(&ops->ring, &cqe)) {
        blink_op_t *op = op_find(ops, cqe.user_data);
        if (!op)
            continue;
        op_end(op, cqe.result <= BLINK_ERR_INTERNAL ? (blink_result_t)cqe.result : BLINK_ERR_INTERNAL,
               cqe.text);
        count++;
    }
    if (count > 0) {
        /* seq_cst: comes before the look at `parked` in ops_progress(); pairs with has_room(). */
        atomic_fetch_add_explicit(&ops->reaped, count, memory_order_seq_cst);
    }
}

static void unpark_if_any(ops_t *ops)
{
    /* seq_cst: the reaper's look; pairs with park(). */
    if (atomic_load_explicit(&ops->parked, memory_order_seq_cst) != 0)
        unpark_all(ops);
}

void ops_progress(ops_t *ops)
{
    if (pthread_mutex_trylock(&ops->reap_lock) == 0) {
        reap(ops);
        pthread_mutex_unlock(&ops->reap_lock);
    }
    unpark_if_any(ops);
}

bool ops_pump(ops_t *ops)
{
    /* seq_cst: announced before the look at `parked`; pairs with park(). */
    atomic_store_explicit(&ops->pumped, true, memory_order_seq_cst);
    ops_progress(ops);
    if (atomic_load_explicit(&ops->parked, memory_order_seq_cst) != 0)
        return true;
    /* seq_cst: taken back before the last look, so that whoever parks sees that it must ring, or is seen
     * here. */
    atomic_store_explicit(&ops->pumped, false, memory_order_seq_cst);
    return atomic_load_explicit(&ops->parked, memory_order_seq_cst) != 0;
}

void ops_lose(ops_t *ops)
{
    pthread_mutex_lock(&ops->submit_lock);
    ops->lost = true;
    for (ops_queue_t *queue = ops->queues; queue; queue = queue->next) {
        for (; queue->first_parked; queue->first_parked = queue->first_parked->next)
            queue->submitted++; /* as op_end() will count it reaped */
    }
    /* Relaxed: only spares later needless looks. */
    atomic_store_explicit(&ops->parked, 0, memory_order_relaxed);
    uint32_t chunk_count = ops->chunk_count;
    pthread_mutex_unlock(&ops->submit_lock);

    pthread_mutex_lock(&ops->reap_lock);
    reap(ops); /* what the daemon finished before it ended */
    for (uint32_t i = 0; i < chunk_count * OPS_CHUNK_OPS; i++) {
        /* Acquire: pairs with the store in add_chunk(). */
        blink_op_t *chunk = atomic_load_explicit(&ops->chunks[i / OPS_CHUNK_OPS], memory_order_acquire);
        blink_op_t *op = &chunk[i % OPS_CHUNK_OPS];
        if (op_pending(op) != 0)
            op_end(op, BLINK_ERR_DAEMON_LOST, "the connection to the daemon broke before the op had ended");
    }
    pthread_mutex_unlock(&ops->reap_lock);
    ring_wake_client(&ops->ring);
    ring_raise_event(ops->completion_fd);
}

/* ---- waiting ---- */

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
    patience->turns++;
    if (policy == RING_WAIT_SPIN) {
        relax();
        return patience->turns % SPINS_PER_CLOCK != 0 || !elapsed(patience, SPIN_MAX_NS);
    }
    if (policy != RING_WAIT_YIELD)
        return false;
    if (patience->turns < YIELD_FIRST_SPINS)
        relax();
    else
        sched_yield();
    return patience->turns <= YIELD_FIRST_SPINS;
}

static void sleep_for(ops_t *ops, blink_op_t *op, uint64_t user_data)
{
    uint32_t sequence = ring_sleep_begin(&ops->ring);
    pthread_mutex_lock(&ops->reap_lock);
    reap(ops);
    pthread_mutex_unlock(&ops->reap_lock);
    unpark_if_any(ops);
    if (op_pending(op) == user_data)
        ring_sleep(&ops->ring, sequence, SLEEP_MAX_US);
    ring_sleep_end(&ops->ring);
}

/* Wait for one submission; its handle may be freed and reused by another thread meanwhile. */
static void ops_await(ops_t *ops, blink_op_t *op, uint64_t user_data)
{
    patience_t patience = {0};
    while (op_pending(op) == user_data) {
        ops_progress(ops);
        if (op_pending(op) != user_data)
            return;
        if (!stay_awake(&patience, ring_wait_policy(&ops->ring)))
            sleep_for(ops, op, user_data);
    }
}

static blink_result_t op_finish(blink_op_t *op)
{
    blink_result_t result = op->result;
    if (result != BLINK_OK)
        blink_error_set(result, "%s", op->text);
    op_put(op);
    return result;
}

blink_result_t blink_wait(blink_op_t *op)
{
    if (!op)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_wait: op is NULL");
    uint64_t user_data = op_pending(op);
    if (user_data != 0)
        ops_await(op->ops, op, user_data);
    return op_finish(op);
}

blink_result_t blink_test(blink_op_t *op, bool *done)
{
    if (!op || !done)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_test: %s is NULL", op ? "done" : "op");
    ops_progress(op->ops);
    *done = op_pending(op) == 0;
    return *done ? op_finish(op) : BLINK_OK;
}

/* ---- queues and lifetime ---- */

/* The op parked last in the queue, or in any; its user_data, or 0 if nothing is parked. */
static uint64_t last_parked(ops_t *ops, ops_queue_t *only, blink_op_t **op)
{
    uint64_t user_data = 0;
    pthread_mutex_lock(&ops->submit_lock);
    for (ops_queue_t *queue = ops->queues; queue && user_data == 0; queue = queue->next) {
        if (queue->first_parked && (!only || queue == only)) {
            *op = queue->last_parked;
            user_data = (*op)->sqe.user_data;
        }
    }
    pthread_mutex_unlock(&ops->submit_lock);
    return user_data;
}

void ops_drain(ops_t *ops, ops_queue_t *queue)
{
    blink_op_t *op;
    uint64_t user_data;
    while ((user_data = last_parked(ops, queue, &op)) != 0)
        ops_await(ops, op, user_data);
}

blink_result_t ops_queue_add(ops_t *ops, ops_queue_t *queue)
{
    blink_result_t result = BLINK_OK;
    pthread_mutex_lock(&ops->submit_lock);
    if (ops->rank_count == ops->limit) {
        result = BLINK_FAIL(BLINK_ERR_QUOTA, "one context can be at most %u ranks at a time", ops->limit);
    } else {
        ops->rank_count++;
        queue->next = ops->queues;
        ops->queues = queue;
    }
    pthread_mutex_unlock(&ops->submit_lock);
    return result;
}

bool ops_queue_remove(ops_t *ops, ops_queue_t *queue)
{
    pthread_mutex_lock(&ops->reap_lock);
    reap(ops);
    pthread_mutex_unlock(&ops->reap_lock);
    pthread_mutex_lock(&ops->submit_lock);
    /* Acquire: pairs with the store in op_end(). */
    uint32_t reaped = atomic_load_explicit(&queue->reaped, memory_order_acquire);
    bool idle = !queue->first_parked && queue->submitted == reaped;
    if (idle) {
        ops_queue_t **link = &ops->queues;
        while (*link != queue)
            link = &(*link)->next;
        *link = queue->next;
        ops->rank_count--;
    }
    pthread_mutex_unlock(&ops->submit_lock);
    return idle;
}

blink_result_t ops_init(ops_t *ops, const ring_t *ring, int doorbell_fd, int completion_fd)
{
    blink_result_t result;
    *ops = (ops_t){.ring = *ring, .doorbell_fd = doorbell_fd, .completion_fd = completion_fd, .pump_fd = -1};
    ops->limit = ring->sq_entries < ring->cq_entries ? ring->sq_entries : ring->cq_entries;
    ops->queues = &ops->nops;
    pthread_mutex_init(&ops->submit_lock, NULL);
    pthread_mutex_init(&ops->reap_lock, NULL);
    ops->chunks = calloc(OPS_CHUNKS_MAX, sizeof(*ops->chunks));
    if (!ops->chunks) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the table of ops");
        goto fail;
    }
    ops->pump_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ops->pump_fd < 0) {
        result = BLINK_FAIL_ERRNO("eventfd");
        goto fail;
    }
    return BLINK_OK;
fail:
    ops_fini(ops);
    return result;
}

void ops_fini(ops_t *ops)
{
    for (uint32_t i = 0; i < ops->chunk_count; i++)
        free(atomic_load_explicit(&ops->chunks[i],
                                  memory_order_relaxed)); /* the caller is the only thread left */
    free(ops->chunks);
    pthread_mutex_destroy(&ops->reap_lock);
    pthread_mutex_destroy(&ops->submit_lock);
    if (ops->pump_fd >= 0)
        close(ops->pump_fd);
    close(ops->completion_fd);
    close(ops->doorbell_fd);
    ring_unmap(&ops->ring);
}
