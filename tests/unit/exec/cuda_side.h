/*
 * One host of a broadcast from a rank on another host, or to it: the executor for GPUs with its wire lane,
 * and for the test to play, step by step, its GPU worker, the lanes on the GPU, and the network.
 */
#ifndef CUDA_SIDE_H
#define CUDA_SIDE_H

#include "exec/cuda/grant.h"
#include "exec/wire_lane.h"
#include "wire_buffers.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ENTRIES = 16, SLOTS = 2, SENDER = 1, RECEIVER = 0, ELEMENTS = 200000 };

#define ARENA_BYTES      (1u << 20)
#define EXPORTED_ADDRESS (UINT64_C(3) << 40)
#define WIRE_ADDRESS     (UINT64_C(1) << 40) /* where a GPU would find what it shares with the network */

/* What the network was told, and how the run has ended. */
typedef struct side {
    wire_memory_t *memory;
    exec_cuda_t *exec;
    gpu_facts_t gpu;
    uint32_t gpu_of_node[RANKS_MOST * 4];
    ring_t worker;
    bool exports; /* a worker that is attached from now on */
    topo_t *topo;
    plan_t *plan;
    lane_program_t *program;
    exec_instance_t *instance;
    void **landings;
    exec_wires_t wires;
    uint32_t lane; /* the wire lane that the test looks at: the last one */
    uint32_t ready;
    uint32_t aborts, dones;
    uint64_t running; /* user data of the run that the worker has; 0: none */
    uint32_t launches, loads, frees, abort_requests;
    gpu_run_t sent; /* the last run */
    exec_end_t end;
    char text[BLINK_ERROR_TEXT_BYTES];
} side_t;

/* ---- the network ---- */

static inline void on_wire_ready(void *context, uint32_t lane, uint32_t sequence)
{
    side_t *side = context;
    if (lane != side->lane)
        return;
    assert_true(sequence > side->ready);
    side->ready = sequence;
}

static inline void on_wire_aborted(void *context)
{
    side_t *side = context;
    side->aborts++;
}

static inline void on_done(const exec_end_t *end)
{
    side_t *side = end->context;
    side->end = *end;
    snprintf(side->text, sizeof(side->text), "%s", blink_error_text());
    side->dones++;
}

/* ---- the worker ---- */

static inline void attach(side_t *side)
{
    gpu_channel_t channel = {.doorbell_fd = eventfd(0, EFD_NONBLOCK),
                             .event_fd = ring_create_event(),
                             .wire_address = WIRE_ADDRESS};
    assert_int_equal(ring_create(ENTRIES, ENTRIES, &side->worker, &channel.ring_fd), BLINK_OK);
    channel.arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    channel.arena_bytes = ARENA_BYTES;
    if (side->exports) {
        channel.exported_address[0] = EXPORTED_ADDRESS;
        channel.exported_fd[0] = memfd_create("exported", MFD_CLOEXEC);
    }
    assert_int_equal(exec_cuda_attach(side->exec, &channel), BLINK_OK);
}

/* Take what has been sent: all but runs is done at once. */
static inline void take_all(side_t *side)
{
    ring_sqe_t sqe;
    while (side->exec->attached && ring_take(&side->worker, &sqe)) {
        if (sqe.opcode == GPU_RUN) {
            assert_int_equal(side->running, 0);
            side->running = sqe.user_data;
            side->launches++;
            memcpy(&side->sent, (const char *)side->exec->channel.arena + sqe.in_offset_bytes,
                   sizeof(side->sent));
            continue;
        }
        side->frees += sqe.opcode == GPU_FREE;
        side->loads += sqe.opcode == GPU_LOAD;
        side->abort_requests += sqe.opcode == GPU_ABORT;
        ring_complete(&side->worker, sqe.user_data, BLINK_OK, NULL);
    }
}

/* The daemon looks, and the worker. True if that tells the run's end. */
static inline bool look(side_t *side)
{
    exec_end_t end;
    bool ended = exec_poll(exec_of_cuda(side->exec), &end);
    if (ended)
        on_done(&end);
    take_all(side);
    return ended;
}

/* The lanes on the GPU leave, wherever they are, or end. */
static inline void leave(side_t *side, blink_result_t result, const char *text)
{
    uint64_t running = side->running;
    assert_int_not_equal(running, 0);
    side->running = 0;
    ring_complete(&side->worker, running, result, text);
    (void)look(side);
}

/* ---- the lanes ---- */

static inline cuda_instance_t *instance_of(side_t *side)
{
    return (cuda_instance_t *)side->instance;
}

static const lane_step_t *wire_step(const side_t *side)
{
    return &side->program->steps[side->program->lanes[side->lane].step_first];
}

static inline uint64_t *word_of(side_t *side, uint32_t semaphore)
{
    const cuda_wires_t *wires = &instance_of(side)->wires;
    return (uint64_t *)(void *)(wires->block +
                                (size_t)wires->image.place[semaphore] * LANE_ABI_SEMAPHORE_BYTES);
}

/* A lane has filled so many send slots; or has emptied so many slots of the landing. */
static inline void lanes_have_done(side_t *side, uint32_t chunks)
{
    const lane_step_t *step = wire_step(side);
    uint64_t value = (instance_of(side)->rounds << CUDA_ROUND_SHIFT) + chunks;
    for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++) {
        const lane_wait_t *wait = &side->program->waits[i];
        if (wire_lane_waits(wait, side->program->host == SENDER))
            __atomic_store_n(word_of(side, wait->semaphore), value, __ATOMIC_RELEASE);
    }
}

/* How many moves a lane on the GPU sees as sent, or as come. */
static inline uint64_t lanes_see(side_t *side)
{
    const lane_step_t *step = wire_step(side);
    uint32_t i = step->signal_first;
    while (!wire_lane_signals(&side->program->signals[i], side->program->host == SENDER))
        i++;
    assert_true(i < step->signal_first + step->signal_count);
    uint64_t value = __atomic_load_n(word_of(side, side->program->signals[i].semaphore), __ATOMIC_ACQUIRE);
    return value == 0 ? 0 : value - (instance_of(side)->rounds << CUDA_ROUND_SHIFT);
}

/* All lanes on the GPU have come as far as this, and the last one has ended with its last chunk. */
static inline void lanes_have_come_to(side_t *side, uint32_t chunk)
{
    const cuda_wires_t *wires = &instance_of(side)->wires;
    lane_abi_progress_t *progress = (lane_abi_progress_t *)(void *)(wires->block + wires->progress_offset);
    for (uint32_t lane = 0; lane < side->lane; lane++)
        progress[lane] = (lane_abi_progress_t){.chunk = chunk};
}

static inline uint32_t moves(const side_t *side)
{
    return exec_wire_moves(side->instance, side->lane);
}

/* ---- sides ---- */

static inline void side_init(side_t *side, uint32_t host, blink_collective_t collective)
{
    static const uint32_t devices[] = {1, 1};
    uint32_t host_of[RANKS_MOST];
    *side = (side_t){.gpu = {.resident_blocks = 8, .peers = 1}};
    side->topo = hand_hosts(devices, 2);
    side->plan = make_plan(side->topo, collective, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    hand_number_hosts(side->topo, side->plan, host_of);
    const lane_hosts_t hosts = {.of_rank = host_of, .keeps_to_slots = true};
    assert_int_equal(lane_compile(side->topo, side->plan, &hosts, &side->program), BLINK_OK);
    assert_int_equal(lane_program_keep(side->program, host), BLINK_OK);
    side->lane = side->program->lane_count - 1;
    side->landings = calloc(side->program->landing_count, sizeof(*side->landings));
    side->wires = (exec_wires_t){on_wire_ready, on_wire_aborted, side, side->landings, NULL};
    assert_int_equal(wire_memory_create(&side->memory), BLINK_OK);
    const exec_cuda_config_t config = {
        .gpu_count = 1, .gpus = &side->gpu, .gpu_of_node = side->gpu_of_node, .wires = side->memory};
    assert_int_equal(exec_cuda_create(&config, &side->exec), BLINK_OK);
    attach(side);
}

static inline void give_landings(side_t *side)
{
    for (uint32_t i = 0; i < side->program->landing_count; i++)
        if (side->landings[i])
            wire_memory_give(side->memory, side->landings[i], side->instance->geometry.landing_bytes[i]);
    memset(side->landings, 0, side->program->landing_count * sizeof(*side->landings));
}

static inline void assert_no_memory_is_taken(side_t *side)
{
    void *all = wire_memory_take(side->memory, GPU_WIRE_BYTES);
    assert_non_null(all);
    wire_memory_give(side->memory, all, GPU_WIRE_BYTES);
}

static inline void side_fini(side_t *side)
{
    if (side->instance)
        give_landings(side);
    exec_instance_destroy(side->instance);
    (void)look(side);
    (void)look(side);
    assert_true(list_is_empty(&side->exec->requests));
    assert_no_memory_is_taken(side);
    exec_cuda_destroy(side->exec);
    wire_memory_destroy(side->memory);
    ring_unmap(&side->worker);
    free(side->landings);
    lane_program_destroy(side->program);
    plan_destroy(side->plan);
    topo_destroy(side->topo);
}

static inline blink_result_t make_instance(side_t *side, uint64_t elements)
{
    uint32_t nodes[RANKS_MOST];
    exec_need_t need;
    for (uint32_t rank = 0; rank < 2; rank++)
        nodes[rank] = rank == side->program->host ? 0 : TOPO_NONE;
    BLINK_TRY(exec_instance_create(exec_of_cuda(side->exec), side->program, nodes, &side->instance));
    exec_limit_slots(side->instance, SLOTS);
    return exec_bind(side->instance, elements * sizeof(float), &need);
}

/* Landings of this host, in memory that GPUs reach. */
static inline void take_landings(side_t *side)
{
    const lane_geometry_t *geometry = &side->instance->geometry;
    for (uint32_t i = 0; i < side->program->landing_count; i++)
        if (side->program->landings[i].to_host == side->program->host)
            side->landings[i] = wire_memory_take(side->memory, geometry->landing_bytes[i]);
}

/* True if it has ended at once. The addresses are a GPU's: nobody here looks there. */
static inline bool start(side_t *side, uint64_t elements)
{
    void *const outputs[2] = {(void *)4096, (void *)8192};
    const void *const inputs[2] = {NULL, (void *)12288};
    const exec_run_t run = {.inputs = inputs,
                            .outputs = outputs,
                            .count = elements,
                            .datatype = BLINK_FLOAT32,
                            .redop = BLINK_SUM,
                            .wires = &side->wires,
                            .done = on_done,
                            .context = side};
    exec_end_t end;
    side->ready = side->aborts = side->dones = side->launches = 0;
    bool ended = exec_start(side->instance, &run, &end);
    if (ended)
        on_done(&end);
    take_all(side);
    return ended;
}

static inline void begin(side_t *side, uint32_t host)
{
    side_init(side, host, BLINK_BROADCAST);
    assert_int_equal(make_instance(side, ELEMENTS), BLINK_OK);
    take_landings(side);
    assert_false(start(side, ELEMENTS));
    assert_int_equal(side->launches, 1);
    assert_true(moves(side) > 2 * SLOTS);
}

/* What is left of the run, to a good end. */
static inline void finish(side_t *side)
{
    uint32_t all = moves(side);
    lanes_have_come_to(side, all);
    lanes_have_done(side, all);
    leave(side, BLINK_OK, NULL);
    assert_int_equal(side->dones, 0); /* the network has not done its part */
    assert_int_equal(side->ready, all);
    if (side->program->host == SENDER)
        exec_wire_sent(side->instance, side->lane, all);
    else
        assert_null(exec_wire_arrived(side->instance, side->lane, all));
    assert_int_equal(side->dones, 1);
    assert_int_equal(side->end.result, BLINK_OK);
    assert_int_equal(side->aborts, 0);
}

#endif
