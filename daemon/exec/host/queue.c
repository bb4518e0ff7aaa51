#include "exec/host/queue.h"

#include "error.h"

#include <stdlib.h>

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

static bool queue_before(const exec_task_t *a, const exec_task_t *b)
{
    return a->ready_ns != b->ready_ns ? a->ready_ns < b->ready_ns : a->arrival < b->arrival;
}

static void queue_put(exec_queue_t *queue, uint32_t at, exec_task_t *task)
{
    queue->heap[at] = task;
    task->place = at;
}

static void queue_sift_down(exec_queue_t *queue, uint32_t at)
{
    exec_task_t *task = queue->heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < queue->count && queue_before(queue->heap[child + 1], queue->heap[child]))
            child++;
        if (child >= queue->count || !queue_before(queue->heap[child], task))
            break;
        queue_put(queue, at, queue->heap[child]);
        at = child;
    }
    queue_put(queue, at, task);
}

static void queue_sift_up(exec_queue_t *queue, uint32_t at)
{
    exec_task_t *task = queue->heap[at];
    while (at > 0 && queue_before(task, queue->heap[(at - 1) / 2])) {
        queue_put(queue, at, queue->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    queue_put(queue, at, task);
}

void queue_push(exec_queue_t *queue, exec_task_t *task, uint64_t ready_ns)
{
    task->ready_ns = ready_ns;
    task->arrival = queue->next_arrival++;
    queue_put(queue, queue->count++, task);
    queue_sift_up(queue, task->place);
}

exec_task_t *queue_pop(exec_queue_t *queue)
{
    exec_task_t *task = queue->heap[0];
    queue_remove(queue, task);
    return task;
}

void queue_remove(exec_queue_t *queue, exec_task_t *task)
{
    uint32_t at = task->place;
    exec_task_t *last = queue->heap[--queue->count];
    if (last != task) {
        queue_put(queue, at, last);
        queue_sift_up(queue, at);
        queue_sift_down(queue, last->place);
    }
    task->place = QUEUE_NOWHERE;
}

uint64_t queue_next_ns(const exec_queue_t *queue)
{
    return queue->count > 0 ? queue->heap[0]->ready_ns : UINT64_MAX;
}

void queue_hurry(exec_queue_t *queue, const host_instance_t *instance)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        if (queue->heap[i]->instance == instance)
            queue->heap[i]->ready_ns = 0;
    }
    for (uint32_t i = queue->count / 2; i-- > 0;)
        queue_sift_down(queue, i);
}
