/*
 * The run queue. Tasks whose time has not come are in a heap by that time; without a pacer there are none.
 * The others wait with the share that they belong to, in the order in which they came, and the shares take
 * turns (exec/turns.h). Not thread-safe: the pool's lock guards it.
 */
#ifndef BLINK_EXEC_QUEUE_H
#define BLINK_EXEC_QUEUE_H

#include "exec/host/exec_host.h"
#include "exec/turns.h"

#include <stdatomic.h>

typedef struct exec_task exec_task_t;
typedef struct host_instance host_instance_t;

#define QUEUE_NOWHERE UINT32_MAX

/* What a communicator's tasks may read and write before the next communicator's, and a tenant's of weight 1
 * before the next tenant's: less than a millisecond. */
#define WORK_QUANTUM_BYTES (1 << 20)

/* What a task costs that reads and writes less. */
#define WORK_LEAST_BYTES (16u << 10)

/* Embedded in what it runs, and owned by that; in the queue at most once. */
struct exec_task {
    uint64_t (*run)(exec_task_t *task); /* returns the bytes that it read and wrote */
    void (*taken)(exec_task_t *task);   /* called before run, still under the pool's lock; may be NULL */
    host_instance_t *instance;          /* whose abort hurries it; NULL in tests */
    exec_share_t *share;                /* whom it is charged to; set before it is pushed */
    uint64_t ready_ns;                  /* CLOCK_MONOTONIC */
    uint64_t arrival;
    uint32_t place;  /* in the heap; QUEUE_NOWHERE while it is not there */
    list_t of_share; /* exec_share_t.due, while it is due */
};

typedef struct exec_queue {
    exec_task_t **heap;
    uint32_t later; /* tasks in the heap */
    uint32_t due;   /* the others */
    uint32_t capacity;
    uint32_t reserved; /* tasks that may be queued at once */
    uint64_t next_arrival;
    exec_turns_t turns;
    _Atomic uint32_t
        tenants_hint; /* how many have tasks that are due; to be read relaxed, without the lock */
} exec_queue_t;

/* Make a task that is not queued. */
static inline void task_init(exec_task_t *task, uint64_t (*run)(exec_task_t *task), host_instance_t *instance)
{
    *task = (exec_task_t){.run = run, .instance = instance, .place = QUEUE_NOWHERE};
    list_init(&task->of_share);
}

static inline bool task_is_queued(const exec_task_t *task)
{
    return task->place != QUEUE_NOWHERE || !list_is_empty(&task->of_share);
}

void queue_init(exec_queue_t *queue);
void queue_fini(exec_queue_t *queue);

/* Reserve places, so that pushing these tasks cannot fail; give the places back. Errors: NO_MEMORY. */
blink_result_t queue_reserve(exec_queue_t *queue, uint32_t tasks);
void queue_release(exec_queue_t *queue, uint32_t tasks);

/* Ready at 0: the task is due at once. */
void queue_push(exec_queue_t *queue, exec_task_t *task, uint64_t ready_ns);

/* Tasks whose time has come are due. */
void queue_ripen(exec_queue_t *queue, uint64_t now_ns);

/* The due task whose turn it is; there must be one. Charge its share when it has run. */
exec_task_t *queue_pop(exec_queue_t *queue);
void queue_charge(exec_queue_t *queue, exec_share_t *share, uint64_t bytes);

/* Take out a task that is in the queue. */
void queue_remove(exec_queue_t *queue, exec_task_t *task);

/* Ready time of the earliest task: 0 if one is due, UINT64_MAX if there is none. */
uint64_t queue_next_ns(const exec_queue_t *queue);

/* If the task is in the queue, it is due at once. */
void queue_hurry(exec_queue_t *queue, exec_task_t *task);

#endif
