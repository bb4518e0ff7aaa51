#include "exec/host/queue.h"

#include "error.h"

#include <stdlib.h>

void queue_init(exec_queue_t *queue)
{
    *queue = (exec_queue_t){0};
    exec_turns_init(&queue->turns, WORK_QUANTUM_BYTES);
}

void queue_fini(exec_queue_t *queue)
{
    free(queue->heap);
}

blink_result_t queue_reserve(exec_queue_t *queue, uint32_t tasks)
{
    if (queue->reserved + tasks > queue->capacity) {
        uint32_t capacity = 2 * (queue->reserved + tasks);
        exec_task_t **heap = realloc(queue->heap, capacity * sizeof(exec_task_t *));
        if (!heap)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a run queue of %u tasks", capacity);
        queue->heap = heap;
        queue->capacity = capacity;
    }
    queue->reserved += tasks;
    return BLINK_OK;
}

void queue_release(exec_queue_t *queue, uint32_t tasks)
{
    queue->reserved -= tasks;
}

/* ---- tasks whose time has not come ---- */

static bool queue_before(const exec_task_t *a, const exec_task_t *b)
{
    return a->ready_ns != b->ready_ns ? a->ready_ns < b->ready_ns : a->arrival < b->arrival;
}

static void heap_put(exec_queue_t *queue, uint32_t at, exec_task_t *task)
{
    queue->heap[at] = task;
    task->place = at;
}

static void heap_sift_down(exec_queue_t *queue, uint32_t at)
{
    exec_task_t *task = queue->heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < queue->later && queue_before(queue->heap[child + 1], queue->heap[child]))
            child++;
        if (child >= queue->later || !queue_before(queue->heap[child], task))
            break;
        heap_put(queue, at, queue->heap[child]);
        at = child;
    }
    heap_put(queue, at, task);
}

static void heap_sift_up(exec_queue_t *queue, uint32_t at)
{
    exec_task_t *task = queue->heap[at];
    while (at > 0 && queue_before(task, queue->heap[(at - 1) / 2])) {
        heap_put(queue, at, queue->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(queue, at, task);
}

static void heap_remove(exec_queue_t *queue, exec_task_t *task)
{
    uint32_t at = task->place;
    exec_task_t *last = queue->heap[--queue->later];
    if (last != task) {
        heap_put(queue, at, last);
        heap_sift_up(queue, at);
        heap_sift_down(queue, last->place);
    }
    task->place = QUEUE_NOWHERE;
}

/* ---- tasks that are due ---- */

static void hint(exec_queue_t *queue, uint32_t change)
{
    /* Relaxed: a hint, which this lock's holder alone changes. */
    uint32_t tenants = atomic_load_explicit(&queue->tenants_hint, memory_order_relaxed);
    atomic_store_explicit(&queue->tenants_hint, tenants + change, memory_order_relaxed);
}

static void due_add(exec_queue_t *queue, exec_task_t *task)
{
    exec_share_t *share = task->share;
    list_append(&share->due, &task->of_share);
    queue->due++;
    if (exec_turns_enter(&queue->turns, share))
        hint(queue, 1);
}

static void due_remove(exec_queue_t *queue, exec_task_t *task)
{
    exec_share_t *share = task->share;
    list_remove(&task->of_share);
    queue->due--;
    if (list_is_empty(&share->due) && exec_turns_leave(share))
        hint(queue, UINT32_MAX);
}

/* ---- all ---- */

void queue_push(exec_queue_t *queue, exec_task_t *task, uint64_t ready_ns)
{
    task->ready_ns = ready_ns;
    if (ready_ns == 0) {
        due_add(queue, task);
        return;
    }
    task->arrival = queue->next_arrival++;
    heap_put(queue, queue->later++, task);
    heap_sift_up(queue, task->place);
}

void queue_ripen(exec_queue_t *queue, uint64_t now_ns)
{
    while (queue->later > 0 && queue->heap[0]->ready_ns <= now_ns) {
        exec_task_t *task = queue->heap[0];
        heap_remove(queue, task);
        due_add(queue, task);
    }
}

exec_task_t *queue_pop(exec_queue_t *queue)
{
    exec_task_t *task = LIST_FIRST(&exec_turns_next(&queue->turns)->due, exec_task_t, of_share);
    due_remove(queue, task);
    return task;
}

void queue_charge(exec_queue_t *queue, exec_share_t *share, uint64_t bytes)
{
    exec_turns_charge(&queue->turns, share, bytes > WORK_LEAST_BYTES ? bytes : WORK_LEAST_BYTES);
}

void queue_remove(exec_queue_t *queue, exec_task_t *task)
{
    if (task->place == QUEUE_NOWHERE)
        due_remove(queue, task);
    else
        heap_remove(queue, task);
}

uint64_t queue_next_ns(const exec_queue_t *queue)
{
    if (queue->due > 0)
        return 0;
    return queue->later > 0 ? queue->heap[0]->ready_ns : UINT64_MAX;
}

void queue_hurry(exec_queue_t *queue, exec_task_t *task)
{
    if (task->place == QUEUE_NOWHERE)
        return;
    heap_remove(queue, task);
    task->ready_ns = 0;
    due_add(queue, task);
}
