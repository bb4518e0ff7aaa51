/*
 * An instance on the host: what it takes to run one program as lanes or as items.
 */
#ifndef BLINK_EXEC_HOST_INSTANCE_H
#define BLINK_EXEC_HOST_INSTANCE_H

#include "exec/host/pool.h"
#include "exec/instance.h"

/* A run that reads and writes no more than this takes about 5 µs while caches hold its data. To wake another
 * thread costs as much, and it takes that thread 45 µs to get up: so such a run is made on the thread that
 * starts it. */
#define EXEC_INLINE_MAX_BYTES (512u << 10)

/* One lane writes it, and one waits for it. Each semaphore has a cache line of its own, since the two lanes
 * run on different cores. */
typedef struct exec_semaphore {
    _Alignas(64) _Atomic uint64_t value;
    _Atomic uint32_t parked; /* 1: the waiting lane sleeps here; the thread that makes it 0 queues the lane */
    uint32_t waiter;         /* lane; PLAN_NONE if nobody waits */
    bool in_data;            /* flags in the data say the same: nobody looks at the value */
    uint64_t *due_ns;        /* paced: when value c + 1 is visible, per chunk c; written before `value` */
} exec_semaphore_t;

typedef struct exec_lane {
    _Alignas(64) exec_task_t task; /* first: the task is the lane */
    const lane_t *lane;
    uint32_t chunk, chunks;
    uint32_t step;       /* of the chunk */
    uint64_t start_ns;   /* paced: of the step before */
    uint64_t *sent_ns;   /* paced, per slot: when the chunk that last used it had left the lane's rank */
    void **addresses;    /* of the operands of one step */
    char *blocks;        /* of one step, as in step_workspace_t */
    pace_slot_t *booked; /* of the dsts of one step; paced only */
} exec_lane_t;

/* A wire lane of this host. */
typedef struct exec_wire {
    /* First: the task is the lane. Paced only: it is in the queue, as one of the instance's users, until it
     * may go on. */
    _Alignas(64) exec_task_t task;
    const lane_t *lane;
    bool outgoing;
    uint32_t moves; /* of the run */
    /* These belong to the thread that took the lane up. */
    uint32_t told;     /* ready() has been called up to here */
    bool is_booked;    /* paced: the move after these, which may be sent at the task's time */
    uint64_t start_ns; /* paced: of the move before */
    /* Moves that were sent, or have come. Belongs to the network, one thread at a time. */
    _Alignas(64) uint32_t finished;
} exec_wire_t;

typedef struct exec_items exec_items_t;

struct host_instance {
    exec_instance_t base;
    exec_host_t *exec;     /* base.exec */
    double touched_blocks; /* what all steps together read and write, in blocks */
    exec_items_t *items;   /* NULL: the program runs as lanes, which the fields down to `scratch` are for */
    exec_lane_t *lanes;
    uint32_t lane_count;    /* of processors: the program's others are wire lanes */
    exec_wire_t *wires;     /* the wire lanes, in the program's order */
    uint32_t *edge_landing; /* by landing edge: its landing */
    exec_semaphore_t *semaphores;
    void **addresses;
    pace_slot_t *booked;
    char *blocks;
    char *scratch; /* the instance's one buffer, which due times share */
    uint64_t buffer_bytes;
    uint64_t scratch_bytes; /* of the buffer */
    bool has_buffer;        /* the buffer is that of the payload that the instance is bound to */
    uint64_t own_bytes;     /* of all that does not depend on the payload */
    uint64_t touched_bytes;
    bool stream;              /* as in reduce_step_t: the run reads and writes more than caches hold */
    bool reads_flags;         /* of a protocol that has them: without a pacer */
    bool is_inline;           /* begins inside exec_start(), and ends there unless lanes wait for others */
    exec_task_t completion;   /* paced: queued for the last arrival once every lane has ended */
    uint64_t last_arrival_ns; /* paced; under the pool's lock */
    /* Lanes that have not ended, wire lanes among them, threads that run lanes, and tasks of wire lanes. The
     * threads count because one that has parked a lane still looks at the instance when another thread may
     * have run that lane to its end; and these tasks, because the network may settle the run meanwhile. */
    _Atomic uint32_t users;
    _Atomic uint32_t abort_reason; /* BLINK_OK while the run is wanted */

    pthread_mutex_t mutex; /* guards `running`, so that an abort meets a whole run or none */
    bool running;
};

/* The host's side of exec_calls_t. */
blink_result_t host_instance_create(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                                    exec_instance_t **instance);
void host_instance_destroy(exec_instance_t *instance);
blink_result_t host_instance_bind(exec_instance_t *instance, uint64_t block_bytes);
blink_result_t host_instance_start(exec_instance_t *instance, uint64_t block_bytes, bool *under_way);
void host_instance_abort(exec_instance_t *instance, blink_result_t reason);

/* exec_task_t.run of a lane. */
uint64_t lane_run(exec_task_t *task);

/* Run the lanes of a list, and those that they wake, on this thread, until all have ended or wait for others.
 * The thread is one of the instance's users. Not for links that are emulated. */
void lanes_run_here(host_instance_t *instance, list_t *tasks);

/* Put a lane that waits for nothing any more into the queue, or unless `here` is NULL into that list. */
void lane_queue(host_instance_t *instance, exec_task_t *task, uint64_t ready_ns, list_t *here);

/* Put a lane into the queue under the pool's lock. It may be run, and the instance finished, as soon as the
 * lock is released. */
void lane_queue_locked(host_instance_t *instance, exec_task_t *task, uint64_t ready_ns);

/* So many of the instance's users are users no more. True if they were the last: the run has ended, and the
 * caller says so. Otherwise the instance may be gone. */
bool instance_leave(host_instance_t *instance, uint32_t users);

/* The same, and the owner is told if the run has ended. */
void instance_drop(host_instance_t *instance, uint32_t users);

/* Nothing of the run is left to do: the instance is idle. Returns the run's result: `result`, unless it was
 * aborted. */
blink_result_t instance_end(host_instance_t *instance, blink_result_t result);

/* End the run and tell its owner, who may free the instance. */
void instance_finish(host_instance_t *instance, blink_result_t result);

#endif
