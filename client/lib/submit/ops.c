/* Submission, parked ops and reaping. The protocol is argued at the top of ops.h. */
#include "submit/ops.h"

#include "submit/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The user_data under which the op is unfinished, or 0. */
static uint64_t op_pending(blink_op_t *op)
{
    /* Acquire: pairs with the release stores in ops_over(), so result and text are seen, and of the
     * submission, so `queue` is. */
    return atomic_load_explicit(&op->pending, memory_order_acquire);
}

bool ops_is_over(blink_op_t *op)
{
    return op_pending(op) == 0;
}

bool ops_are_over(blink_op_t *op)
{
    while (op && ops_is_over(op))
        op = op->rest;
    return !op;
}

blink_result_t ops_finish(blink_op_t *op)
{
    blink_result_t result = BLINK_OK;
    for (blink_op_t *rest; op; op = rest) {
        rest = op->rest;
        if (result == BLINK_OK && op->result != BLINK_OK)
            result = blink_error_set(op->result, "%s", op->text);
        handle_put(&op->ops->handles, op);
    }
    return result;
}

/* ---- the end of an op ---- */

static void end(blink_op_t *op)
{
    ops_t *ops = op->ops;
    bool detached = op->ended != NULL;
    trace_end(op);
    if (detached)
        op->ended(op->owner, op->result, op->text);
    /* Relaxed: by this thread, or under its lock. */
    bool staged = atomic_load_explicit(&op->arrived, memory_order_relaxed);
    /* Release: pairs with the loads in ops_queue_remove() and in ops_await_idle() (wait.c), whose caller then
     * frees the queue. */
    atomic_fetch_sub_explicit(&op->queue->unfinished, 1, memory_order_release);
    /* Release: pairs with the load in op_pending(); from here on the handle is its owner's to free. */
    atomic_store_explicit(&op->pending, 0, memory_order_release);
    /* The daemon raised the event for the completion; a thread that has tested the op since was too early. */
    if (staged &&
        atomic_load_explicit(&ops->engine.ring.header->client_wants_event, memory_order_relaxed) != 0)
        ring_raise_event(ops->engine.completion_fd);
    if (detached)
        handle_put(&ops->handles, op);
}

/* Its completion is there. Under reap_lock, or before anybody else knows the op. */
static void arrive(blink_op_t *op, blink_result_t result, const char *text)
{
    op->result = result;
    if (result != BLINK_OK)
        snprintf(op->text, sizeof(op->text), "%s", text);
    if (op->staged == 0) {
        end(op);
        return;
    }
    staging_expect(&op->ops->staging);
    /* Release: pairs with the loads in advance() and follow_stream() (staging.c), so the result is seen. */
    atomic_store_explicit(&op->arrived, true, memory_order_release);
}

/* Copy what is staged and end the ops whose last output that was. */
static void progress_staging(ops_t *ops, bool certain)
{
    staging_round_t round;
    if (!staging_begin_round(&ops->staging, certain, &round))
        return;
    for (blink_op_t *op = round.ended, *next; op; op = next) {
        next = op->next;
        end(op);
    }
    staging_end_round(&ops->staging, &round);
}

/* ---- the ring ---- */

/* Ops with a place there. Under submit_lock. */
static uint32_t in_ring(ops_t *ops)
{
    /* seq_cst: the parker's look; pairs with the store in reap(). It also makes the relaxed changes of the
     * counts before that store visible. */
    return ops->submitted - atomic_load_explicit(&ops->reaped, memory_order_seq_cst);
}

/* Give an op of the queue a place in the ring, if the bounds (ops.h) let it. Under submit_lock. */
static bool take_place(ops_t *ops, ops_queue_t *queue)
{
    uint32_t all = in_ring(ops); /* read first: of queues in use there are never more */
    uint32_t own = atomic_load_explicit(&queue->in_ring, memory_order_relaxed);
    if (all >= ops->limit)
        return false;
    if (own > 0) {
        uint32_t used = atomic_load_explicit(&ops->used_queues, memory_order_relaxed);
        uint32_t live = ops->live_queues, half = ops->limit / 2;
        uint32_t shared = ops->limit - (live > half && live <= ops->limit ? live : half);
        uint32_t share = shared / (used > 0 ? used : 1);
        if (all - used >= shared || own > (share > 0 ? share : 1))
            return false;
    }
    ops->submitted++;
    if (atomic_fetch_add_explicit(&queue->in_ring, 1, memory_order_relaxed) == 0)
        atomic_fetch_add_explicit(&ops->used_queues, 1, memory_order_relaxed);
    return true;
}

/* Under reap_lock. */
static void give_place(ops_t *ops, ops_queue_t *queue)
{
    if (atomic_fetch_sub_explicit(&queue->in_ring, 1, memory_order_relaxed) == 1)
        atomic_fetch_sub_explicit(&ops->used_queues, 1, memory_order_relaxed);
}

/* Publish a run, as much as the SQ takes, from *published on. Whether that was all: then the op may be over,
 * and freed, at any time. Under submit_lock. */
static bool publish(ops_t *ops, ring_sqe_t *sqes, uint32_t count, uint32_t *published)
{
    uint32_t before = *published;
    while (*published < count && ring_submit(&ops->engine.ring, &sqes[*published]))
        ++*published;
    if (*published > before)
        engine_wake(&ops->engine);
    return *published == count;
}

/* ---- parked ops ---- */

static ops_queue_t *queue_at(list_t *link)
{
    return CONTAINER_OF(link, ops_queue_t, of_parked);
}

static blink_op_t *first_parked(const ops_queue_t *queue)
{
    return LIST_FIRST(&queue->parked, blink_op_t, of_queue);
}

/* Enter a queue among those with parked ops, at or behind a place where all before it are older. Under
 * submit_lock. */
static void insert_by_age(ops_t *ops, list_t *place, ops_queue_t *queue)
{
    uint64_t age = first_parked(queue)->age;
    while (place != &ops->parked_queues && first_parked(queue_at(place))->age < age)
        place = place->next;
    list_insert(place, &queue->of_parked);
}

/* Under submit_lock. */
static void park(ops_t *ops, blink_op_t *op)
{
    ops_queue_t *queue = op->queue;
    if (list_is_empty(&queue->parked))
        list_append(&ops->parked_queues, &queue->of_parked); /* none is younger */
    list_append(&queue->parked, &op->of_queue);
    ops->stalled += op->has_place;
    /* seq_cst: comes before the parker's looks at `reaped` and at `pumped`; pairs with ops_progress() and
     * ops_pump(). */
    atomic_fetch_add_explicit(&ops->parked, 1, memory_order_seq_cst);
}

/* Publish what is left of an op that has a place. False if the SQ is full. Under submit_lock. */
static bool publish_parked(ops_t *ops, blink_op_t *op)
{
    ring_sqe_t single = op->sqe, *run = op->run;
    uint32_t published = op->run_published, count = op->run_count;
    list_t *following = op->of_queue.next;
    list_remove(&op->of_queue);
    /* Release: once published the op may end and be freed at any time; pairs with the load in op_pending(),
     * so that the looks into it above come before. */
    atomic_store_explicit(&op->pending, op_pending(op), memory_order_release);
    if (!publish(ops, run ? run : &single, count, &published)) {
        op->run_published = published;
        list_insert(following, &op->of_queue);
        return false;
    }
    free(run);
    /* Relaxed: counting down too late only costs a needless look. */
    atomic_fetch_sub_explicit(&ops->parked, 1, memory_order_relaxed);
    return true;
}

/* Move parked ops to the ring, the oldest first, a queue's in order. False if the SQ is full. Under
 * submit_lock. */
static bool unpark(ops_t *ops)
{
    list_t *link = ops->parked_queues.next;
    while (link != &ops->parked_queues && (ops->stalled > 0 || in_ring(ops) < ops->limit)) {
        ops_queue_t *queue = queue_at(link);
        blink_op_t *op = first_parked(queue);
        if (!op->has_place && !take_place(ops, queue)) {
            link = link->next;
            continue;
        }
        ops->stalled += !op->has_place;
        op->has_place = true;
        if (!publish_parked(ops, op))
            return false;
        ops->stalled--;
        link = link->next;
        list_remove(&queue->of_parked);
        if (list_is_empty(&queue->parked))
            continue;
        insert_by_age(ops, link, queue);
        if (queue->of_parked.next == link)
            link = &queue->of_parked;
    }
    return true;
}

static bool unpark_if_any(ops_t *ops)
{
    /* seq_cst: the reaper's look; pairs with park(). */
    if (atomic_load_explicit(&ops->parked, memory_order_seq_cst) == 0)
        return true;
    pthread_mutex_lock(&ops->submit_lock);
    bool drained = unpark(ops);
    pthread_mutex_unlock(&ops->submit_lock);
    return drained;
}

bool ops_has_parked(ops_t *ops, const ops_queue_t *queue)
{
    pthread_mutex_lock(&ops->submit_lock);
    bool parked = !list_is_empty(queue ? &queue->parked : &ops->parked_queues);
    pthread_mutex_unlock(&ops->submit_lock);
    return parked;
}

/* ---- submission ---- */

/* Under submit_lock. */
static blink_result_t reserve(ops_t *ops, blink_op_t **op)
{
    if (ops->lost_text)
        return BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "%s", ops->lost_text);
    *op = handle_get(&ops->handles);
    if (!*op)
        return BLINK_ERR_NO_MEMORY; /* handle_get() has said why */
    (*op)->rest = NULL;
    (*op)->ended = NULL;
    (*op)->result = BLINK_OK;
    atomic_store_explicit(&(*op)->arrived, false, memory_order_relaxed); /* published with `pending` */
    return BLINK_OK;
}

/* Number the op and its run, mark the run's ends. Under submit_lock, unless the daemon is lost. */
static void prepare(blink_op_t *op, ops_queue_t *queue, const ops_run_t *run)
{
    uint64_t user_data = (uint64_t)++op->generation << 32 | (op->index + 1);
    op->queue = queue;
    trace_submission(op, run);
    for (uint32_t i = 0; i < run->count; i++) {
        run->sqes[i].user_data = user_data;
        if (i + 1 < run->count)
            run->sqes[i].flags |= RING_SQE_MORE;
    }
    atomic_fetch_add_explicit(&queue->unfinished, 1, memory_order_relaxed);
    /* Release: pairs with the load in op_pending(). */
    atomic_store_explicit(&op->pending, user_data, memory_order_release);
}

/* Whether the watcher is to be told. Under submit_lock. */
static bool launch(blink_op_t *op, ops_queue_t *queue, const ops_run_t *run)
{
    ops_t *ops = op->ops;
    uint32_t published = 0;
    bool streams = staging_attach(&ops->staging, run->transfers, op);
    prepare(op, queue, run);
    bool has_place = list_is_empty(&ops->parked_queues) && take_place(ops, queue);
    if (has_place && publish(ops, run->sqes, run->count, &published)) {
        if (run->count > 1)
            free(run->sqes);
        return streams;
    }
    op->has_place = has_place;
    op->run = run->count > 1 ? run->sqes : NULL;
    op->run_count = run->count;
    op->run_published = published;
    op->age = ops->age++;
    if (!op->run)
        op->sqe = run->sqes[0];
    park(ops, op);
    (void)unpark(ops);
    return streams || !list_is_empty(&ops->parked_queues);
}

/* After a launch, without locks. */
static void follow_up(ops_t *ops, bool tell_watcher)
{
    /* seq_cst: comes after the count of what the watcher is to look after; pairs with ops_pump(). */
    if (tell_watcher && !atomic_load_explicit(&ops->pumped, memory_order_seq_cst))
        ops_wake_watcher(ops);
    if (tell_watcher)
        ops_progress(ops, false);
    else
        progress_staging(ops, false);
}

blink_result_t ops_submit(ops_t *ops, ops_queue_t *queue, const ops_run_t *run, blink_op_t **op)
{
    bool tell_watcher = false;
    blink_op_t *fresh;
    pthread_mutex_lock(&ops->submit_lock);
    blink_result_t result = reserve(ops, &fresh);
    if (result == BLINK_OK)
        tell_watcher = launch(fresh, queue, run);
    pthread_mutex_unlock(&ops->submit_lock);
    if (result != BLINK_OK)
        return result;
    follow_up(ops, tell_watcher);
    *op = fresh;
    return BLINK_OK;
}

blink_result_t ops_reserve(ops_t *ops, blink_op_t **op)
{
    pthread_mutex_lock(&ops->submit_lock);
    blink_result_t result = reserve(ops, op);
    pthread_mutex_unlock(&ops->submit_lock);
    return result;
}

void ops_unreserve(blink_op_t *op)
{
    handle_put(&op->ops->handles, op);
}

void ops_detach(blink_op_t *op, ops_ended_t *ended, void *owner)
{
    op->ended = ended;
    op->owner = owner;
}

/* The daemon was lost after the handle had been reserved: the op arrives as it begins. */
static void launch_lost(blink_op_t *op, ops_queue_t *queue, const ops_run_t *run)
{
    ops_t *ops = op->ops;
    pthread_mutex_lock(&ops->reap_lock); /* ops_lose() may be going through the handles */
    (void)staging_attach(&ops->staging, run->transfers, op);
    prepare(op, queue, run);
    arrive(op, BLINK_ERR_DAEMON_LOST, ops->lost_text);
    pthread_mutex_unlock(&ops->reap_lock);
    if (run->count > 1)
        free(run->sqes);
    progress_staging(ops, true);
}

void ops_launch(blink_op_t *op, ops_queue_t *queue, const ops_run_t *run)
{
    ops_t *ops = op->ops;
    bool tell_watcher = false;
    pthread_mutex_lock(&ops->submit_lock);
    bool lost = ops->lost_text;
    if (!lost)
        tell_watcher = launch(op, queue, run);
    pthread_mutex_unlock(&ops->submit_lock);
    if (lost)
        launch_lost(op, queue, run);
    else
        follow_up(ops, tell_watcher);
}

/* ---- completion ---- */

/* The op that a completion is for; NULL if the daemon made the number up. Under reap_lock. */
static blink_op_t *find(ops_t *ops, uint64_t user_data)
{
    blink_op_t *op = handle_at(&ops->handles, (uint32_t)user_data - 1);
    /* Relaxed: it is set under reap_lock. */
    bool expected =
        op && op_pending(op) == user_data && !atomic_load_explicit(&op->arrived, memory_order_relaxed);
    return expected ? op : NULL;
}

/* Under reap_lock. */
static void reap(ops_t *ops)
{
    ring_cqe_t cqe;
    uint32_t count = 0;
    while (ring_has_completion(&ops->engine.ring) && ring_reap(&ops->engine.ring, &cqe)) {
        blink_op_t *op = find(ops, cqe.user_data);
        if (!op)
            continue;
        give_place(ops, op->queue);
        arrive(op, cqe.result <= BLINK_ERR_INTERNAL ? (blink_result_t)cqe.result : BLINK_ERR_INTERNAL,
               cqe.text);
        count++;
    }
    /* Release: who finds nothing new sees what has become of the ops; pairs with has_completion(). */
    atomic_store_explicit(&ops->cq_seen, ops->engine.ring.cq_index, memory_order_release);
    if (count > 0) {
        /* seq_cst: comes before the look at `parked` in ops_progress(); pairs with in_ring(). */
        atomic_fetch_add_explicit(&ops->reaped, count, memory_order_seq_cst);
    }
}

/* A look at the CQ without the lock. */
static bool has_completion(ops_t *ops)
{
    /* Acquire: pairs with the store in reap(). The daemon's index: a hint, whoever reaps reads it again. */
    uint32_t seen = atomic_load_explicit(&ops->cq_seen, memory_order_acquire);
    return atomic_load_explicit(&ops->engine.ring.header->cq_tail, memory_order_relaxed) != seen;
}

void ops_progress(ops_t *ops, bool certain)
{
    if (has_completion(ops)) {
        if (certain)
            pthread_mutex_lock(&ops->reap_lock);
        if (certain || pthread_mutex_trylock(&ops->reap_lock) == 0) {
            reap(ops);
            pthread_mutex_unlock(&ops->reap_lock);
        }
    }
    progress_staging(ops, false);
    (void)unpark_if_any(ops);
}

bool ops_progress_all(ops_t *ops)
{
    pthread_mutex_lock(&ops->reap_lock);
    reap(ops);
    pthread_mutex_unlock(&ops->reap_lock);
    progress_staging(ops, true);
    return !unpark_if_any(ops);
}

static bool has_pump_work(ops_t *ops)
{
    /* seq_cst: pair with park() and staging_attach(). */
    return atomic_load_explicit(&ops->parked, memory_order_seq_cst) != 0 ||
           atomic_load_explicit(&ops->staging.streaming, memory_order_seq_cst) != 0;
}

bool ops_pump(ops_t *ops)
{
    /* seq_cst: announced before the look at the work; pairs with follow_up(). */
    atomic_store_explicit(&ops->pumped, true, memory_order_seq_cst);
    ops_progress(ops, false);
    if (has_pump_work(ops))
        return true;
    /* seq_cst: taken back before the last look, so that whoever has work sees that it must ring, or is seen
     * here. */
    atomic_store_explicit(&ops->pumped, false, memory_order_seq_cst);
    return has_pump_work(ops);
}

/* Refuse new ops and forget what is parked; how many chunks of handles there are. */
static uint32_t close_submission(ops_t *ops, const char *text)
{
    pthread_mutex_lock(&ops->submit_lock);
    ops->lost_text = text;
    for (list_t *link; (link = list_take_first(&ops->parked_queues)) != NULL;) {
        ops_queue_t *queue = queue_at(link);
        while ((link = list_take_first(&queue->parked)) != NULL)
            free(CONTAINER_OF(link, blink_op_t, of_queue)->run);
    }
    /* Relaxed: only spares later needless looks. */
    atomic_store_explicit(&ops->parked, 0, memory_order_relaxed);
    uint32_t chunk_count = ops->handles.chunk_count;
    pthread_mutex_unlock(&ops->submit_lock);
    return chunk_count;
}

void ops_wake_watcher(const ops_t *ops)
{
    uint64_t one = 1;
    (void)!write(ops->pump_fd, &one, sizeof(one)); /* fails only if it is readable already */
}

bool ops_are_awaited(ops_t *ops)
{
    pthread_mutex_lock(&ops->submit_lock);
    bool awaited = in_ring(ops) > 0;
    pthread_mutex_unlock(&ops->submit_lock);
    return awaited;
}

void ops_lose(ops_t *ops, const char *text)
{
    uint32_t chunk_count = close_submission(ops, text);
    pthread_mutex_lock(&ops->reap_lock);
    reap(ops); /* what the daemon finished before it ended */
    for (uint32_t i = 0; i < chunk_count * HANDLES_CHUNK_OPS; i++) {
        blink_op_t *op = handle_at(&ops->handles, i);
        if (op_pending(op) != 0 && !atomic_load_explicit(&op->arrived, memory_order_relaxed))
            arrive(op, BLINK_ERR_DAEMON_LOST, text);
    }
    pthread_mutex_unlock(&ops->reap_lock);
    progress_staging(ops, true);
    ring_wake_client(&ops->engine.ring);
    ring_raise_event(ops->engine.completion_fd);
}

/* ---- queues and lifetime ---- */

static void init_queue(ops_queue_t *queue)
{
    *queue = (ops_queue_t){0};
    list_init(&queue->parked);
    list_init(&queue->of_parked);
}

void ops_queue_add(ops_t *ops, ops_queue_t *queue)
{
    init_queue(queue);
    pthread_mutex_lock(&ops->submit_lock);
    ops->live_queues++;
    pthread_mutex_unlock(&ops->submit_lock);
}

bool ops_queue_remove(ops_t *ops, ops_queue_t *queue)
{
    (void)ops_progress_all(ops);
    pthread_mutex_lock(&ops->submit_lock);
    /* Acquire: pairs with the store in ops_over(). */
    bool idle = atomic_load_explicit(&queue->unfinished, memory_order_acquire) == 0;
    ops->live_queues -= idle;
    pthread_mutex_unlock(&ops->submit_lock);
    return idle;
}

blink_result_t ops_init(ops_t *ops, const engine_t *engine, connection_t *connection)
{
    const ring_t *ring = &engine->ring;
    *ops = (ops_t){.engine = *engine, .pump_fd = -1};
    ops->limit = ring->sq_entries < ring->cq_entries ? ring->sq_entries : ring->cq_entries;
    list_init(&ops->parked_queues);
    init_queue(&ops->nops);
    pthread_mutex_init(&ops->submit_lock, NULL);
    pthread_mutex_init(&ops->reap_lock, NULL);
    staging_init(&ops->staging, &ops->engine, connection);
    blink_result_t result = handles_init(&ops->handles, ops);
    if (result != BLINK_OK)
        goto fail;
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
    handles_fini(&ops->handles);
    staging_fini(&ops->staging);
    pthread_mutex_destroy(&ops->reap_lock);
    pthread_mutex_destroy(&ops->submit_lock);
    if (ops->pump_fd >= 0)
        close(ops->pump_fd);
    close(ops->engine.completion_fd);
    close(ops->engine.doorbell_fd);
    ring_unmap(&ops->engine.ring);
}
