/*
 * What executors and the network ask of each other in a run whose program has wire lanes (lane.h). The
 * network moves the bytes of wire lanes, and knows neither steps nor semaphores; the executor knows when a
 * move's source is there and when its destination is free, and learns here what became of the move.
 *
 * Lanes are named by their number in the program, moves by their number in the lane. A lane is outgoing where
 * its rank is on this host, incoming where its to_rank is. All numbers of moves say how far: `sequence` means
 * the moves below it, they only grow, and for one lane they are told in order, by one thread at a time.
 *
 * The network may call for a lane from the moment that exec_wires_t.ready() has been called for it, and until
 * it has told of the lane's last move, or that the run is settled. A run with wire lanes ends only after
 * that: none of its buffers, slots and landings is read or written by the network any more. Any thread may
 * call, and nothing blocks.
 */
#ifndef BLINK_EXEC_WIRE_H
#define BLINK_EXEC_WIRE_H

#include "exec/device_memory.h"
#include "exec/exec.h"

typedef struct exec_task exec_task_t;

/* What the network gives a run. Borrowed until the run ends. */
struct exec_wires {
    /*
     * Outgoing: the sources of the moves below `sequence` are there. Incoming: the destinations of these
     * moves are free. Called once at least for every lane that has moves, by exec_start() or later, unless
     * the run is aborted. It must not call back, for it is called by threads in the middle of a step.
     */
    void (*ready)(void *context, uint32_t lane, uint32_t sequence);
    /* The run was aborted, by exec_abort() or because a step failed: the network has it settled. Called once
     * at most, maybe before any ready(). It must not call back: a lock of the instance is held. A ready()
     * that is under way may still come during this call or after it, and is to be ignored. */
    void (*aborted)(void *context);
    void *context;
    /* By landing of the program: where it lies in memory, if it is of this host; aligned to
     * LANE_LANDING_ALIGNMENT, geometry.landing_bytes long. */
    void *const *landings;
    /* By landing: where GPUs find it, if it lies in memory of exec_wire_device(), and not where `landings`
     * has it; else 0. NULL: none does. */
    const uint64_t *device_landings;
};

/* Where the bytes of a move are on this host: its source if the lane is outgoing, its destination if it is
 * incoming. */
typedef struct wire_place {
    void *address;
    uint64_t bytes;   /* may be 0: the move is still made */
    uint32_t buffer;  /* lane_buffer_t: in which of the run's buffers that is, */
    uint32_t rank;    /* and, of an input or output, whose; of a landing, whose slots */
    uint32_t landing; /* number of the landing, or PLAN_NONE */
} wire_place_t;

/* Who keeps something about the memory of instances, as that a device may read it. */
typedef struct exec_keeper exec_keeper_t;
struct exec_keeper {
    /* The memory that exec_wire_memory() told of is about to go, and nothing runs in the instance. */
    void (*gone)(exec_keeper_t *keeper, exec_instance_t *instance);
};

/* The memory that has the send slots of a run, after ready() has been called for some outgoing lane; it stays
 * until the instance's keeper hears that it goes, which is set for that. False: nobody is told, or it is too
 * little. */
bool exec_wire_memory(const exec_instance_t *instance, void **memory, uint64_t *bytes);

/* Memory of a GPU in which landings of the instance's runs may lie, and that all GPUs reach which read them;
 * NULL: there is none. *ordered: what a device has written there needs no flush before those GPUs read it. */
device_memory_t *exec_wire_device(const exec_instance_t *instance, bool *ordered);

/* How many moves a lane has in the run. */
uint32_t exec_wire_moves(const exec_instance_t *instance, uint32_t lane);

/* Where one move is: `sequence` is its number. */
wire_place_t exec_wire_place(const exec_instance_t *instance, uint32_t lane, uint32_t sequence);

/* Outgoing: the sources of the moves below `sequence` may be used for something else. */
void exec_wire_sent(exec_instance_t *instance, uint32_t lane, uint32_t sequence);

/* Incoming: the moves below `sequence` have come. Returns a lane that goes on now, which the caller gives to
 * one of the next three; NULL if there is none. If several lanes go on, the others are queued
 * already. */
exec_task_t *exec_wire_arrived(exec_instance_t *instance, uint32_t lane, uint32_t sequence);

/* Run the lane, and those that it wakes, on this thread; the run may end in it. For short runs. */
void exec_wire_run(exec_instance_t *instance, exec_task_t *lane);

/* Run a few steps of the lane on this thread, which the executor's threads would run else: the rest of it,
 * and the lanes that it wakes, are left to them. The run may end in it. */
void exec_wire_run_some(exec_instance_t *instance, exec_task_t *lane);

/* Leave the lane to the executor's threads. */
void exec_wire_queue(exec_instance_t *instance, exec_task_t *lane);

/* The run was aborted, and the network has done with all of its wire lanes: it must say so, in its last call
 * for this run. Not if it had told of the last moves of all lanes before: then the run may be gone. */
void exec_wire_settled(exec_instance_t *instance);

#endif
