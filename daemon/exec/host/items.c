/*
 * Handing out the items of a run. The run stands in the pool's queue as one task, an offer to take part: a
 * worker that takes it up leaves a new one behind while there is enough for another, so any number may come,
 * at any time, and workers go from run to run. The worker that leaves last, with no item left, ends the run.
 */
#include "exec/host/items.h"

#include "error.h"
#include "exec/host/step.h"

#include <stdlib.h>

/* Each worker that is woken must find this much left. A worker that is awake reads and writes two to four
 * times as much, out of caches, in the 45 µs until another one is up. */
#define ITEMS_WAKE_BYTES (1u << 20)

/* What a worker reads and writes of a run before it looks for other runs: less than a millisecond. */
#define ITEMS_QUANTUM_BYTES (4u << 20)

/* …and the same while tasks of other tenants wait: small ops do not stand behind large ones. */
#define ITEMS_SHARED_QUANTUM_BYTES (512u << 10)

/* The thread that starts a run of up to this many bytes takes part in it: otherwise it would be idle for as
 * long. A larger run would keep it from starting others. */
#define ITEMS_SHARED_MAX_BYTES (4u << 20)

/* The addresses of the largest step, on the stack of the thread that runs it: every rank's input, scalar and
 * output. */
#define ITEMS_ADDRESSES_MAX (3u * PLAN_RANKS_MAX)

/* The items of one step: one for every chunk of its channel. */
typedef struct item_row {
    const lane_step_t *step;
    uint64_t first; /* item */
    uint32_t channel;
} item_row_t;

struct exec_items {
    /* The item to hand out; may run past the end. On a line of its own: everybody writes it. */
    _Alignas(64) _Atomic uint64_t next;
    _Alignas(64) exec_task_t offer;
    host_instance_t *instance;
    uint64_t count;
    uint64_t quantum;        /* items that a worker takes before it looks for other runs */
    uint64_t shared_quantum; /* the same while others wait */
    uint64_t item_bytes;
    uint32_t users; /* threads that take part, and the offer while it is queued; under the pool's lock */
    uint32_t row_count;
    item_row_t rows[];
};

bool items_fit(const lane_program_t *program)
{
    if (!program->independent || program->edge_count > 0)
        return false;
    for (uint32_t i = 0; i < program->step_count; i++) {
        if (step_address_count(&program->steps[i]) > ITEMS_ADDRESSES_MAX)
            return false;
    }
    return true;
}

static bool items_over(const exec_items_t *items)
{
    /* Both relaxed: the pool's lock orders what matters. An abort (host_instance_abort()) that is seen late
     * only costs an item. */
    return atomic_load_explicit(&items->next, memory_order_relaxed) >= items->count ||
           atomic_load_explicit(&items->instance->abort_reason, memory_order_relaxed) != BLINK_OK;
}

static uint64_t items_left(const exec_items_t *items)
{
    uint64_t next = atomic_load_explicit(&items->next, memory_order_relaxed); /* as above */
    return next < items->count ? items->count - next : 0;
}

/* Whether tenants wait beside the one whose items these are; a hint. */
static bool others_wait(const exec_items_t *items)
{
    return atomic_load_explicit(&items->instance->exec->queue.tenants_hint, memory_order_relaxed) > 1;
}

/* Take items until none is left, or `most` have been taken, or fewer if others wait. Returns how many. */
static uint64_t items_work(exec_items_t *items, uint64_t most)
{
    host_instance_t *instance = items->instance;
    void *addresses[ITEMS_ADDRESSES_MAX];
    const step_workspace_t work = {.addresses = addresses};
    const item_row_t *row = items->rows, *end = items->rows + items->row_count;
    uint64_t taken = 0;
    for (; taken < most && !items_over(items); taken++) {
        if (taken >= items->shared_quantum && others_wait(items))
            break;
        uint64_t item = atomic_fetch_add_explicit(&items->next, 1, memory_order_relaxed);
        if (item >= items->count)
            break;
        while (row + 1 < end && row[1].first <= item)
            row++;
        uint32_t chunk = (uint32_t)(item - row->first);
        lane_span_t span = lane_span(&instance->base.geometry, row->channel, row->step->part, chunk);
        if (span.bytes > 0 &&
            !step_move(&(step_place_t){instance, row->step, row->channel, chunk, span}, &work))
            host_instance_abort(&instance->base, BLINK_ERR_SYSTEM);
    }
    return taken;
}

/* ---- taking part: under the pool's lock ---- */

static void items_offer(exec_items_t *items)
{
    queue_push(&items->instance->exec->queue, &items->offer, 0);
}

/* Wake as many workers as there is enough left for, beside the `working` ones. */
static void items_wake(const exec_items_t *items, uint32_t working)
{
    exec_host_t *exec = items->instance->exec;
    uint64_t worth = items_left(items) * items->item_bytes / ITEMS_WAKE_BYTES;
    if (worth > exec->worker_count)
        worth = exec->worker_count;
    if (worth > working)
        pool_wake_helpers(exec, (uint32_t)worth - working);
}

/* exec_task_t.taken of the offer: its user is now the worker that took it. */
static void items_taken(exec_task_t *task)
{
    exec_items_t *items = task->instance->items;
    uint32_t working = items->users;
    if (items_left(items) <= working || items_over(items))
        return;
    items->users++;
    items_offer(items);
    items_wake(items, working);
}

/* This thread stops taking part. True if that ends the run. A worker returns to the queue; others do not, and
 * wake somebody for what is offered there: whoever was awake may be asleep by now. */
static bool items_leave(exec_items_t *items, bool is_worker)
{
    exec_host_t *exec = items->instance->exec;
    pthread_mutex_lock(&exec->mutex);
    bool over = items_over(items), offered = task_is_queued(&items->offer);
    if (!over && !offered) {
        /* Instead of this thread; a worker may take the offer up itself. */
        items_offer(items);
    } else if (over && offered) {
        queue_remove(&exec->queue, &items->offer);
        items->users -= 2;
    } else {
        items->users--;
    }
    bool last = items->users == 0;
    if (is_worker)
        pthread_mutex_unlock(&exec->mutex);
    else
        pool_unlock_and_wake(exec);
    return last;
}

/* exec_task_t.run of the offer. */
static uint64_t items_run(exec_task_t *task)
{
    exec_items_t *items = task->instance->items;
    uint64_t bytes = items_work(items, items->quantum) * items->item_bytes;
    if (items_leave(items, true))
        instance_finish(items->instance, BLINK_OK);
    return bytes;
}

/* ---- instances ---- */

size_t items_bytes(const lane_program_t *program)
{
    return (sizeof(exec_items_t) + program->step_count * sizeof(item_row_t) + 63) / 64 * 64;
}

blink_result_t items_create(host_instance_t *instance, exec_items_t **items)
{
    const lane_program_t *program = instance->base.program;
    exec_items_t *created = aligned_alloc(_Alignof(exec_items_t), items_bytes(program));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to run %u steps", program->step_count);
    *created = (exec_items_t){.instance = instance};
    task_init(&created->offer, items_run, instance);
    created->offer.taken = items_taken;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = 0; s < lane->step_count; s++)
            created->rows[created->row_count++] =
                (item_row_t){.step = &program->steps[lane->step_first + s], .channel = lane->channel};
    }
    *items = created;
    return BLINK_OK;
}

void items_destroy(exec_items_t *items)
{
    free(items);
}

void items_bind(host_instance_t *instance)
{
    exec_items_t *items = instance->items;
    items->count = 0;
    for (uint32_t i = 0; i < items->row_count; i++) {
        items->rows[i].first = items->count;
        items->count += instance->base.geometry.channels[items->rows[i].channel].chunks;
    }
    items->item_bytes = items->count > 0 ? instance->touched_bytes / items->count + 1 : 1;
    items->quantum = ITEMS_QUANTUM_BYTES / items->item_bytes + 1;
    items->shared_quantum = ITEMS_SHARED_QUANTUM_BYTES / items->item_bytes + 1;
}

blink_result_t items_start(host_instance_t *instance, exec_share_t *share, bool *under_way)
{
    exec_items_t *items = instance->items;
    exec_host_t *exec = instance->exec;
    atomic_store_explicit(&items->next, 0, memory_order_relaxed); /* the pool's lock publishes it */
    items->offer.share = share;
    *under_way = !instance->is_inline;
    if (instance->is_inline) {
        items_work(items, UINT64_MAX);
        return instance_end(instance, BLINK_OK);
    }
    bool takes_part =
        !instance->base.run.starter_is_busy && instance->touched_bytes <= ITEMS_SHARED_MAX_BYTES;
    pthread_mutex_lock(&exec->mutex);
    items->users = takes_part ? 2 : 1;
    items_offer(items);
    items_wake(items, takes_part ? 1 : 0);
    if (takes_part)
        pthread_mutex_unlock(&exec->mutex);
    else
        pool_unlock_and_wake(exec); /* a run left to the pool alone has a worker, however little it is */
    /* Unless this thread takes part, the run may have ended and the instance may be gone by now. */
    if (!takes_part)
        return BLINK_OK;
    items_work(items, UINT64_MAX);
    *under_way = !items_leave(items, false);
    return *under_way ? BLINK_OK : instance_end(instance, BLINK_OK);
}
