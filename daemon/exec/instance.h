/*
 * What the executors and instances of all kinds begin with, for those who make one.
 */
#ifndef BLINK_EXEC_INSTANCE_H
#define BLINK_EXEC_INSTANCE_H

#include "base/list.h"
#include "exec/turns.h"
#include "exec/wire.h"

/* What a kind of executors does for the calls of wire.h. */
typedef struct exec_wire_calls {
    bool (*memory)(const exec_instance_t *instance, void **memory, uint64_t *bytes); /* NULL: false */
    device_memory_t *(*device)(const exec_instance_t *instance, bool *ordered);      /* NULL: none */
    wire_place_t (*place)(const exec_instance_t *instance, uint32_t lane, uint32_t sequence);
    void (*sent)(exec_instance_t *instance, uint32_t lane, uint32_t sequence);
    exec_task_t *(*arrived)(exec_instance_t *instance, uint32_t lane, uint32_t sequence);
    void (*run)(exec_instance_t *instance, exec_task_t *lane);
    void (*run_some)(exec_instance_t *instance, exec_task_t *lane);
    void (*queue)(exec_instance_t *instance, exec_task_t *lane);
    void (*settled)(exec_instance_t *instance);
} exec_wire_calls_t;

/* What a kind of executors does for the calls of exec.h. */
typedef struct exec_calls {
    blink_result_t (*create)(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                             exec_instance_t **instance);
    void (*destroy)(exec_instance_t *instance);
    /* The instance has the geometry of this payload, and `need` is set. */
    blink_result_t (*bind)(exec_instance_t *instance, uint64_t block_bytes);
    /* The instance is bound to this payload, the run is in it, and moves something. *under_way: its end
     * follows; else the result is the run's. */
    blink_result_t (*start)(exec_instance_t *instance, uint64_t block_bytes, bool *under_way);
    void (*abort)(exec_instance_t *instance, blink_result_t reason);
    bool (*poll)(exec_t *exec, exec_end_t *end);
    const char *(*transport)(const exec_instance_t *instance);
    blink_result_t (*share_create)(exec_t *exec, const void *tenant, uint32_t weight, exec_share_t **share);
    void (*share_destroy)(exec_share_t *share);
    const exec_wire_calls_t *wire; /* NULL: it runs no programs with wire lanes */
} exec_calls_t;

struct exec {
    const exec_calls_t *calls;
    _Atomic uint64_t *link_bytes; /* bytes that crossed each directed link, borrowed; may be NULL */
    exec_share_t *own_share;      /* of runs without one */
};

/* What a run reads and writes of one rank. */
typedef struct exec_rank {
    uintptr_t input, output;
    uint64_t input_stride_bytes, output_stride_bytes;
    uint64_t scalar;
} exec_rank_t;

struct exec_instance {
    exec_t *exec;
    const lane_program_t *program;
    bool bound; /* to the payload that the geometry has */
    exec_need_t need;
    lane_geometry_t geometry;
    uint32_t slots;       /* of the next geometry; 0: as many as lane_choose_slots() says */
    uint32_t most_chunks; /* of any channel */
    /* Slots with flags. The epochs of a run are from epoch_base + 1 to epoch_base + most_chunks; every
     * slot holds a smaller epoch. If a slot may hold other bytes, `scrub` says so and all are emptied first.
     */
    uint64_t epoch_base;
    bool scrub;
    exec_run_t run; /* the last one */
    exec_rank_t *ranks;
    uint64_t started_ns; /* of the run; 0: it is not measured */
    uint64_t turn_us;    /* as exec_turn_us() tells it */
    uint32_t short_runs;
    exec_keeper_t *keeper; /* of the memory; NULL: none */
    list_t kept;           /* the keeper's */
};

/* Errors: NO_MEMORY; exec_instance_fini() must follow on failure too. */
blink_result_t exec_instance_init(exec_instance_t *instance, exec_t *exec, const lane_program_t *program);
void exec_instance_fini(exec_instance_t *instance);

/* The memory that exec_wire_calls_t.memory() told of is about to go. */
void exec_instance_memory_gone(exec_instance_t *instance);

/* Give the instance the geometry of another payload, whose slots lie elsewhere. Parameters and errors as of
 * lane_geometry_init(). */
blink_result_t exec_instance_set_geometry(exec_instance_t *instance, uint64_t block_bytes,
                                          uint64_t chunk_bytes, uint32_t slots);

/* Give the run epochs that no slot has seen. True if the slots must be emptied for that, because anything may
 * lie in them or the epochs are used up. */
bool exec_instance_advance_epochs(exec_instance_t *instance);

/* The end of the current run, at this moment. */
exec_end_t exec_instance_end(const exec_instance_t *instance, blink_result_t result);

/* Whose share the current run takes. */
static inline exec_share_t *exec_instance_share(const exec_instance_t *instance)
{
    return instance->run.share ? instance->run.share : instance->exec->own_share;
}

/* Where a span of a step's operand lies in the input or output of its rank. */
static inline uintptr_t exec_operand_address(const exec_instance_t *instance, uint32_t channel, uint32_t part,
                                             const lane_operand_t *operand, lane_span_t span)
{
    const exec_rank_t *rank = &instance->ranks[operand->rank];
    bool is_input = operand->buffer == LANE_INPUT;
    return (is_input ? rank->input : rank->output) +
           lane_buffer_offset(&instance->geometry, channel, part, (lane_buffer_t)operand->buffer,
                              is_input ? rank->input_stride_bytes : rank->output_stride_bytes, span);
}

/* By link of the program's topology its number here, for a path that begins with this link: own_link or
 * sent_link of the run. */
static inline const uint32_t *exec_link_numbers(const exec_instance_t *instance, uint32_t first_link)
{
    const uint32_t *own_link = instance->run.own_link;
    return own_link && own_link[first_link] != TOPO_NONE ? instance->run.sent_link : own_link;
}

/* Count bytes over a link of the program's topology, on a path that begins with first_link, if they are this
 * host's to count: for the machine and for the run's communicator. Counters only grow and order nothing.
 * Thread-safe. */
static inline void exec_count_link(const exec_instance_t *instance, uint32_t first_link, uint32_t link,
                                   uint64_t bytes)
{
    const uint32_t *numbers = exec_link_numbers(instance, first_link);
    uint32_t number = numbers ? numbers[link] : link;
    if (number == TOPO_NONE)
        return;
    if (instance->exec->link_bytes)
        atomic_fetch_add_explicit(&instance->exec->link_bytes[number], bytes, memory_order_relaxed);
    if (instance->run.comm_link_bytes)
        atomic_fetch_add_explicit(&instance->run.comm_link_bytes[number], bytes, memory_order_relaxed);
}

#endif
