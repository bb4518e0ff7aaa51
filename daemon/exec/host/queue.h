/*
 * The run queue: a binary heap of tasks by (ready_ns, order of arrival). Without a pacer every task is ready
 * at 0, and the heap is a FIFO. Not thread-safe: the pool's lock guards it.
 */
#ifndef BLINK_EXEC_QUEUE_H
#define BLINK_EXEC_QUEUE_H

#include "exec/host/exec_host.h"

typedef struct exec_task exec_task_t;
typedef struct host_instance host_instance_t;

#define QUEUE_NOWHERE UINT32_MAX

/* Embedded in what it runs, and owned by that; in the queue at most once. */
struct exec_task {
    void (*run)(exec_task_t *task);
    void (*taken)(exec_task_t *task); /* called before run, still under the pool's lock; may be NULL */
    host_instance_t *instance;        /* whose abort hurries it */
    uint64_t ready_ns;                /* CLOCK_MONOTONIC */
    uint64_t arrival;
    uint32_t place; /* in the heap; QUEUE_NOWHERE after it was taken out */
};

typedef struct exec_queue {
    exec_task_t **heap;
    uint32_t count, capacity;
    uint32_t reserved; /* tasks that may be queued at once */
    uint64_t next_arrival;
} exec_queue_t;

void queue_fini(exec_queue_t *queue);

/* Reserve places, so that pushing these tasks cannot fail; give the places back. Errors: NO_MEMORY. */
blink_result_t queue_reserve(exec_queue_t *queue, uint32_t tasks);
void queue_release(exec_queue_t *queue, uint32_t tasks);

void queue_push(exec_queue_t *queue, exec_task_t *task, uint64_t ready_ns);

/* The earliest task; the queue must not be empty. */
exec_task_t *queue_pop(exec_queue_t *queue);

/* Take out a task that is in the queue. */
void queue_remove(exec_queue_t *queue, exec_task_t *task);

/* Ready time of the earliest task; UINT64_MAX if there is none. */
uint64_t queue_next_ns(const exec_queue_t *queue);

/* Make every queued task of an instance ready at once. */
void queue_hurry(exec_queue_t *queue, const host_instance_t *instance);

#endif
