/* The calls of exec.h, and what instances of all kinds do alike. */
#include "exec/instance.h"

#include "base/clock.h"
#include "error.h"
#include "names.h"

#include <stdlib.h>

/* Epochs of LL are 32 bits wide. */
#define EPOCH_MAX UINT32_MAX

/* A run of fewer bytes takes 0.1 to 3 µs, and to measure it 0.05 µs more: of such runs one in so many is. */
#define SHORT_RUN_BYTES     (64u << 10)
#define SHORT_RUNS_MEASURED 16u

/* ---- instances of all kinds ---- */

blink_result_t exec_instance_init(exec_instance_t *instance, exec_t *exec, const lane_program_t *program)
{
    instance->exec = exec;
    instance->program = program;
    list_init(&instance->kept);
    instance->ranks = calloc(program->rank_count, sizeof(*instance->ranks));
    return instance->ranks ? BLINK_OK
                           : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", program->rank_count);
}

void exec_instance_fini(exec_instance_t *instance)
{
    lane_geometry_fini(&instance->geometry);
    free(instance->ranks);
}

void exec_instance_memory_gone(exec_instance_t *instance)
{
    exec_keeper_t *keeper = instance->keeper;
    instance->keeper = NULL;
    if (keeper)
        keeper->gone(keeper, instance);
}

blink_result_t exec_instance_set_geometry(exec_instance_t *instance, uint64_t block_bytes,
                                          uint64_t chunk_bytes, uint32_t slots)
{
    instance->bound = false;
    instance->scrub = true;
    lane_geometry_fini(&instance->geometry);
    instance->geometry = (lane_geometry_t){0};
    BLINK_TRY(lane_geometry_init(instance->program, block_bytes, chunk_bytes, slots, &instance->geometry));
    instance->most_chunks = 0;
    for (uint32_t c = 0; c < instance->program->channel_count; c++) {
        uint32_t chunks = instance->geometry.channels[c].chunks;
        instance->most_chunks = chunks > instance->most_chunks ? chunks : instance->most_chunks;
    }
    return BLINK_OK;
}

bool exec_instance_advance_epochs(exec_instance_t *instance)
{
    if (instance->program->protocol == BLINK_PROTOCOL_SIMPLE)
        return false;
    bool scrub = instance->scrub || instance->epoch_base + 2ull * instance->most_chunks > EPOCH_MAX;
    instance->epoch_base = scrub ? 0 : instance->epoch_base + instance->most_chunks;
    instance->scrub = false;
    return scrub;
}

exec_end_t exec_instance_end(const exec_instance_t *instance, blink_result_t result)
{
    return (exec_end_t){.context = instance->run.context,
                        .result = result,
                        .ns = instance->started_ns > 0 ? clock_ns() - instance->started_ns : 0};
}

static bool is_measured(exec_instance_t *instance, uint64_t block_bytes)
{
    return block_bytes * instance->program->rank_count >= SHORT_RUN_BYTES ||
           instance->short_runs++ % SHORT_RUNS_MEASURED == 0;
}

static void set_ranks(exec_instance_t *instance, const exec_run_t *run, uint64_t block_bytes)
{
    for (uint32_t i = 0; i < instance->program->rank_count; i++)
        instance->ranks[i] =
            (exec_rank_t){.input = run->inputs ? (uintptr_t)run->inputs[i] : 0,
                          .output = (uintptr_t)run->outputs[i],
                          .input_stride_bytes = run->input_strides ? run->input_strides[i] : block_bytes,
                          .output_stride_bytes = run->output_strides ? run->output_strides[i] : block_bytes,
                          .scalar = run->scalars ? run->scalars[i] : 0};
}

/* ---- the calls ---- */

blink_result_t exec_instance_create(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                                    exec_instance_t **instance)
{
    return exec->calls->create(exec, program, nodes, instance);
}

void exec_instance_destroy(exec_instance_t *instance)
{
    if (instance)
        instance->exec->calls->destroy(instance);
}

blink_result_t exec_bind(exec_instance_t *instance, uint64_t block_bytes, exec_need_t *need)
{
    blink_result_t result = BLINK_OK;
    if (!instance->bound || instance->geometry.block_bytes != block_bytes)
        result = instance->exec->calls->bind(instance, block_bytes);
    *need = instance->need;
    return result;
}

void exec_limit_slots(exec_instance_t *instance, uint32_t slots)
{
    instance->bound = instance->bound && instance->slots == slots;
    instance->slots = slots;
}

bool exec_start(exec_instance_t *instance, const exec_run_t *run, exec_end_t *end)
{
    uint64_t block_bytes = run->count * blink_datatype_bytes(run->datatype);
    bool under_way = false;
    *end = (exec_end_t){.context = run->context};
    if (block_bytes == 0 || instance->program->lane_count == 0)
        return true;
    instance->run = *run;
    instance->started_ns = is_measured(instance, block_bytes) ? clock_ns() : 0;
    set_ranks(instance, run, block_bytes);
    exec_need_t need;
    blink_result_t result = exec_bind(instance, block_bytes, &need);
    if (result == BLINK_OK)
        result = instance->exec->calls->start(instance, block_bytes, &under_way);
    if (under_way)
        return false; /* the instance may be gone by now */
    *end = exec_instance_end(instance, result);
    return true;
}

void exec_abort(exec_instance_t *instance, blink_result_t reason)
{
    instance->exec->calls->abort(instance, reason);
}

uint64_t exec_turn_us(const exec_instance_t *instance)
{
    return instance->turn_us;
}

bool exec_poll(exec_t *exec, exec_end_t *end)
{
    return exec->calls->poll(exec, end);
}

const char *exec_transport(const exec_instance_t *instance)
{
    return instance->exec->calls->transport(instance);
}

blink_result_t exec_share_create(exec_t *exec, const void *tenant, uint32_t weight, exec_share_t **share)
{
    return exec->calls->share_create(exec, tenant, weight, share);
}

void exec_share_destroy(exec_share_t *share)
{
    if (share)
        share->exec->calls->share_destroy(share);
}

/* ---- wires ---- */

uint32_t exec_wire_moves(const exec_instance_t *instance, uint32_t lane)
{
    const lane_t *of = &instance->program->lanes[lane];
    return instance->geometry.channels[of->channel].chunks * of->step_count;
}

bool exec_wire_memory(const exec_instance_t *instance, void **memory, uint64_t *bytes)
{
    const exec_wire_calls_t *wire = instance->exec->calls->wire;
    return wire->memory && wire->memory(instance, memory, bytes);
}

device_memory_t *exec_wire_device(const exec_instance_t *instance, bool *ordered)
{
    const exec_wire_calls_t *wire = instance->exec->calls->wire;
    return wire->device ? wire->device(instance, ordered) : NULL;
}

wire_place_t exec_wire_place(const exec_instance_t *instance, uint32_t lane, uint32_t sequence)
{
    return instance->exec->calls->wire->place(instance, lane, sequence);
}

void exec_wire_sent(exec_instance_t *instance, uint32_t lane, uint32_t sequence)
{
    instance->exec->calls->wire->sent(instance, lane, sequence);
}

exec_task_t *exec_wire_arrived(exec_instance_t *instance, uint32_t lane, uint32_t sequence)
{
    return instance->exec->calls->wire->arrived(instance, lane, sequence);
}

void exec_wire_run(exec_instance_t *instance, exec_task_t *lane)
{
    instance->exec->calls->wire->run(instance, lane);
}

void exec_wire_run_some(exec_instance_t *instance, exec_task_t *lane)
{
    instance->exec->calls->wire->run_some(instance, lane);
}

void exec_wire_queue(exec_instance_t *instance, exec_task_t *lane)
{
    instance->exec->calls->wire->queue(instance, lane);
}

void exec_wire_settled(exec_instance_t *instance)
{
    instance->exec->calls->wire->settled(instance);
}
