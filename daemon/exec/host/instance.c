/*
 * Setting up and starting a run. Its lanes then run in lane_run.c, or its items in items.c; run_end.c ends
 * it.
 */
#include "exec/host/items.h"
#include "exec/host/step.h"
#include "exec/host/wire_run.h"

#include "base/clock.h"
#include "base/pages.h"
#include "error.h"
#include "names.h"

#include <stdlib.h>
#include <string.h>

/* Of scratch: a line of LL128. */
#define SCRATCH_ALIGNMENT 128u

/* A buffer this large has pages of its own. */
#define BUFFER_PAGES_BYTES (128u << 10)

/* So much more than its payload needs may an instance's buffer be: payloads of different sizes may take turns
 * on an instance, and pages that are new cost more than the payload does. */
#define BUFFER_SPARE_BYTES (4u << 20)

static uint64_t round_up_scratch(uint64_t bytes)
{
    return (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
}

/* Whether the data that a signal announces say themselves that they are there. */
static bool signal_is_in_data(const host_instance_t *instance, const lane_step_t *step,
                              const lane_signal_t *signal)
{
    const lane_program_t *program = instance->base.program;
    return instance->reads_flags && signal->dst != PLAN_NONE &&
           step_is_flagged(program, &program->operands[step->dst_first + signal->dst]);
}

/* What each semaphore is for. */
static void instance_init_semaphores(host_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    for (uint32_t i = 0; i < program->semaphore_count; i++)
        instance->semaphores[i] = (exec_semaphore_t){.waiter = PLAN_NONE};
    for (uint32_t i = 0; i < program->step_count; i++) {
        const lane_step_t *step = &program->steps[i];
        for (uint32_t s = 0; s < step->signal_count; s++) {
            const lane_signal_t *signal = &program->signals[step->signal_first + s];
            instance->semaphores[signal->semaphore].in_data = signal_is_in_data(instance, step, signal);
        }
    }
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = 0; s < lane->step_count; s++) {
            const lane_step_t *step = &program->steps[lane->step_first + s];
            for (uint32_t w = 0; w < step->wait_count; w++) {
                const lane_wait_t *wait = &program->waits[step->wait_first + w];
                if (l < instance->lane_count || wire_waits(instance, l, wait))
                    instance->semaphores[wait->semaphore].waiter = l;
            }
        }
    }
}

/* The most that any step of a lane needs. */
typedef struct lane_needs {
    uint32_t addresses, dsts, blocks;
} lane_needs_t;

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static lane_needs_t instance_lane_needs(const lane_program_t *program, const lane_t *lane)
{
    lane_needs_t needs = {0};
    for (uint32_t s = 0; s < lane->step_count; s++) {
        const lane_step_t *step = &program->steps[lane->step_first + s];
        needs.addresses = most(needs.addresses, step_address_count(step));
        needs.dsts = most(needs.dsts, step->dst_count);
        needs.blocks = most(needs.blocks, step_block_count(step));
    }
    if (program->protocol == BLINK_PROTOCOL_SIMPLE)
        needs.blocks = 0;
    return needs;
}

/* What all lanes need together. */
static lane_needs_t instance_needs(const lane_program_t *program)
{
    lane_needs_t total = {0};
    for (uint32_t l = 0; l < program->lane_count - program->wire_count; l++) {
        lane_needs_t needs = instance_lane_needs(program, &program->lanes[l]);
        total.addresses += needs.addresses;
        total.dsts += needs.dsts;
        total.blocks += needs.blocks;
    }
    return total;
}

static blink_result_t instance_alloc_lanes(host_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    lane_needs_t total = instance_needs(program);
    instance->addresses = calloc(total.addresses + 1u, sizeof(*instance->addresses));
    instance->booked = calloc(total.dsts + 1u, sizeof(*instance->booked));
    instance->blocks = malloc((size_t)total.blocks * STEP_BLOCK_BYTES + 1u);
    instance->lanes = aligned_alloc(_Alignof(exec_lane_t), (instance->lane_count + 1u) * sizeof(exec_lane_t));
    if (!instance->addresses || !instance->booked || !instance->blocks || !instance->lanes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u lanes", program->lane_count);
    total = (lane_needs_t){0};
    for (uint32_t l = 0; l < instance->lane_count; l++) {
        lane_needs_t needs = instance_lane_needs(program, &program->lanes[l]);
        instance->lanes[l] =
            (exec_lane_t){.lane = &program->lanes[l],
                          .addresses = instance->addresses + total.addresses,
                          .booked = instance->booked + total.dsts,
                          .blocks = instance->blocks + (size_t)total.blocks * STEP_BLOCK_BYTES};
        task_init(&instance->lanes[l].task, lane_run, instance);
        total.addresses += needs.addresses;
        total.dsts += needs.dsts;
        total.blocks += needs.blocks;
    }
    return BLINK_OK;
}

bool host_wire_memory(const exec_instance_t *base, void **memory, uint64_t *bytes)
{
    const host_instance_t *instance = (const host_instance_t *)base;
    *memory = instance->scratch;
    *bytes = instance->buffer_bytes;
    return instance->buffer_bytes >= BUFFER_PAGES_BYTES;
}

static void instance_free_buffer(host_instance_t *instance)
{
    exec_instance_memory_gone(&instance->base);
    if (instance->buffer_bytes >= BUFFER_PAGES_BYTES)
        pages_give(instance->scratch, instance->buffer_bytes);
    else
        free(instance->scratch);
    instance->scratch = NULL;
    instance->buffer_bytes = 0;
}

static void instance_free(host_instance_t *instance)
{
    exec_instance_fini(&instance->base);
    pthread_mutex_destroy(&instance->mutex);
    instance_free_buffer(instance);
    wires_destroy(instance);
    free(instance->semaphores);
    free(instance->lanes);
    free(instance->booked);
    free(instance->addresses);
    free(instance->blocks);
    items_destroy(instance->items);
    free(instance);
}

static blink_result_t instance_init_lanes(host_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    instance->lane_count = program->lane_count - program->wire_count;
    BLINK_TRY(instance_alloc_lanes(instance));
    BLINK_TRY(wires_create(instance));
    instance->semaphores =
        aligned_alloc(_Alignof(exec_semaphore_t), (program->semaphore_count + 1u) * sizeof(exec_semaphore_t));
    if (!instance->semaphores)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u semaphores", program->semaphore_count);
    /* With a pacer the semaphores tell when; and a lane that looks for flags would be busy with it for as
     * long as another host takes. */
    instance->reads_flags = program->protocol != BLINK_PROTOCOL_SIMPLE && !instance->exec->config.pace &&
                            program->wire_count == 0;
    instance_init_semaphores(instance);
    return BLINK_OK;
}

static double instance_touched_blocks(const lane_program_t *program)
{
    double blocks = 0.0;
    for (uint32_t l = 0; l < program->lane_count - program->wire_count; l++) {
        const lane_t *lane = &program->lanes[l];
        const lane_part_t *parts = &program->parts[program->channels[lane->channel].part_first];
        for (uint32_t s = 0; s < lane->step_count; s++) {
            const lane_step_t *step = &program->steps[lane->step_first + s];
            const lane_part_t *part = &parts[step->part];
            blocks += (step->src_count + step->dst_count) * (part->end - part->begin) / part->siblings;
        }
    }
    return blocks;
}

/* Tasks that may be in the pool's queue at once: the offer of items, or all lanes and their completion. */
static uint32_t instance_task_count(const host_instance_t *instance)
{
    return instance->items ? 1 : instance->base.program->lane_count + 1;
}

static uint64_t instance_complete(exec_task_t *task)
{
    instance_finish(task->instance, BLINK_OK);
    return 0;
}

/* The bytes that belong to the instance's program, whatever the payload is. */
static uint64_t instance_own_bytes(const host_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    uint64_t bytes = sizeof(*instance) + lane_geometry_bytes(program);
    if (instance->items)
        return bytes + items_bytes(program);
    lane_needs_t needs = instance_needs(program);
    return bytes + wires_bytes(program) + instance->lane_count * sizeof(exec_lane_t) +
           program->semaphore_count * sizeof(exec_semaphore_t) + needs.addresses * sizeof(void *) +
           needs.dsts * sizeof(pace_slot_t) + (uint64_t)needs.blocks * STEP_BLOCK_BYTES;
}

static blink_result_t instance_init(host_instance_t *instance, exec_host_t *exec,
                                    const lane_program_t *program)
{
    instance->exec = exec;
    task_init(&instance->completion, instance_complete, instance);
    pthread_mutex_init(&instance->mutex, NULL);
    BLINK_TRY(exec_instance_init(&instance->base, &exec->base, program));
    instance->touched_blocks = instance_touched_blocks(program);
    if (!exec->config.pace && items_fit(program))
        BLINK_TRY(items_create(instance, &instance->items));
    else
        BLINK_TRY(instance_init_lanes(instance));
    instance->own_bytes = instance_own_bytes(instance);
    pthread_mutex_lock(&exec->mutex);
    blink_result_t result = queue_reserve(&exec->queue, instance_task_count(instance));
    pthread_mutex_unlock(&exec->mutex);
    return result;
}

blink_result_t host_instance_create(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                                    exec_instance_t **instance)
{
    (void)nodes; /* memory is the same to all of them */
    host_instance_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an executor instance");
    blink_result_t result = instance_init(created, (exec_host_t *)exec, program);
    if (result != BLINK_OK) {
        instance_free(created);
        return result;
    }
    *instance = &created->base;
    return BLINK_OK;
}

void host_instance_destroy(exec_instance_t *base)
{
    host_instance_t *instance = (host_instance_t *)base;
    pthread_mutex_lock(&instance->exec->mutex);
    queue_release(&instance->exec->queue, instance_task_count(instance));
    pthread_mutex_unlock(&instance->exec->mutex);
    instance_free(instance);
}

/* ---- memory ---- */

/* Due times of every chunk of every semaphore that somebody waits for, and of every slot of every lane: how
 * many there are, and where those of each begin in `times` unless that is NULL. */
static uint64_t instance_place_due_times(host_instance_t *instance, uint64_t *times)
{
    const lane_program_t *program = instance->base.program;
    uint64_t used = 0;
    for (uint32_t i = 0; i < program->semaphore_count; i++) {
        exec_semaphore_t *semaphore = &instance->semaphores[i];
        if (semaphore->waiter == PLAN_NONE)
            continue;
        semaphore->due_ns = times ? times + used : NULL;
        used += instance->base.geometry.channels[program->lanes[semaphore->waiter].channel].chunks;
    }
    for (uint32_t l = 0; l < instance->lane_count; l++, used += instance->base.geometry.slots)
        instance->lanes[l].sent_ns = times ? times + used : NULL;
    return used;
}

/* The buffers of a run: scratch, and when links are emulated due times behind it. A buffer that is there is
 * used if it is not much too large: payloads of one instance are alike mostly. */
static uint64_t instance_buffer_bytes(host_instance_t *instance)
{
    uint64_t due_bytes =
        instance->exec->config.pace ? instance_place_due_times(instance, NULL) * sizeof(uint64_t) : 0;
    uint64_t needed = round_up_scratch(round_up_scratch(instance->base.geometry.scratch_bytes) + due_bytes);
    bool suits = needed <= instance->buffer_bytes && instance->buffer_bytes - needed <= BUFFER_SPARE_BYTES;
    return suits ? instance->buffer_bytes : needed;
}

blink_result_t host_instance_bind(exec_instance_t *base, uint64_t block_bytes)
{
    host_instance_t *instance = (host_instance_t *)base;
    instance->touched_bytes = (uint64_t)(instance->touched_blocks * (double)block_bytes);
    instance->is_inline = !instance->exec->config.pace && instance->touched_bytes <= EXEC_INLINE_MAX_BYTES;
    instance->stream = instance->touched_bytes >= instance->exec->cache_bytes;
    /* Items wait for nothing, so their chunks concern this executor alone; and one thread alone gains nothing
     * by cutting its work. All other programs are cut as the plan says. */
    uint64_t chunk_bytes = instance->items && instance->is_inline ? LANE_CHUNK_MAX_BYTES : 0;
    BLINK_TRY(exec_instance_set_geometry(base, block_bytes, chunk_bytes, base->slots));
    if (instance->items)
        items_bind(instance);
    base->need.bytes = instance->own_bytes + instance_buffer_bytes(instance);
    instance->has_buffer = false;
    base->bound = true;
    return BLINK_OK;
}

/* Have the buffers of the payload that the instance is bound to. */
static blink_result_t instance_hold_buffer(host_instance_t *instance)
{
    uint64_t bytes = instance->base.need.bytes - instance->own_bytes;
    if (bytes != instance->buffer_bytes) {
        instance_free_buffer(instance);
        instance->scratch =
            bytes >= BUFFER_PAGES_BYTES ? pages_take(bytes) : aligned_alloc(SCRATCH_ALIGNMENT, bytes);
        if (!instance->scratch && bytes > 0)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %lu bytes of scratch",
                              (unsigned long)bytes);
        instance->buffer_bytes = bytes;
    }
    instance->scratch_bytes = round_up_scratch(instance->base.geometry.scratch_bytes);
    if (instance->exec->config.pace)
        (void)instance_place_due_times(instance, (uint64_t *)(instance->scratch + instance->scratch_bytes));
    instance->has_buffer = true;
    return BLINK_OK;
}

/* ---- running ---- */

static void instance_reset_lanes(host_instance_t *instance, exec_share_t *share)
{
    uint64_t now_ns = instance->exec->config.pace ? clock_ns() : 0;
    const lane_program_t *program = instance->base.program;
    if (exec_instance_advance_epochs(&instance->base) && instance->scratch_bytes > 0)
        memset(instance->scratch, 0, instance->scratch_bytes);
    for (uint32_t i = 0; i < program->semaphore_count; i++) {
        atomic_store_explicit(&instance->semaphores[i].value, 0, memory_order_relaxed);
        atomic_store_explicit(&instance->semaphores[i].parked, 0, memory_order_relaxed);
    }
    for (uint32_t l = 0; l < instance->lane_count; l++) {
        exec_lane_t *lane = &instance->lanes[l];
        lane->chunk = lane->step = 0;
        lane->chunks =
            lane->lane->step_count > 0 ? instance->base.geometry.channels[lane->lane->channel].chunks : 0;
        lane->start_ns = now_ns;
        lane->task.share = share;
        for (uint32_t slot = 0; instance->exec->config.pace && slot < instance->base.geometry.slots; slot++)
            lane->sent_ns[slot] = now_ns;
    }
    instance->completion.share = share;
    instance->last_arrival_ns = now_ns;
    /* The thread that starts the run is one of its users until it has done so. */
    uint32_t users = instance->lane_count + wires_reset(instance, now_ns) + 1;
    atomic_store_explicit(&instance->users, users, memory_order_relaxed);
}

/* On the caller's thread. Lanes that then wait for what another thread signals are queued by that thread. */
static void instance_run_inline(host_instance_t *instance)
{
    list_t tasks;
    list_init(&tasks);
    for (uint32_t l = 0; l < instance->lane_count; l++)
        list_append(&tasks, &instance->lanes[l].task.of_share);
    lanes_run_here(instance, &tasks);
}

static void instance_push_lanes(host_instance_t *instance)
{
    exec_host_t *exec = instance->exec;
    pthread_mutex_lock(&exec->mutex);
    for (uint32_t l = 0; l < instance->lane_count; l++)
        queue_push(&exec->queue, &instance->lanes[l].task, instance->lanes[l].start_ns);
    pool_unlock_and_wake(exec);
}

static blink_result_t instance_start_lanes(host_instance_t *instance, bool *under_way)
{
    wires_begin(instance);
    if (instance->is_inline)
        instance_run_inline(instance);
    else
        instance_push_lanes(instance);
    *under_way = !instance_leave(instance, 1);
    return *under_way ? BLINK_OK : instance_end(instance, BLINK_OK);
}

blink_result_t host_instance_start(exec_instance_t *base, uint64_t block_bytes, bool *under_way)
{
    host_instance_t *instance = (host_instance_t *)base;
    (void)block_bytes;
    if (!instance->has_buffer)
        BLINK_TRY(instance_hold_buffer(instance));
    exec_share_t *share = exec_instance_share(base);
    if (!instance->items)
        instance_reset_lanes(instance, share);
    /* An abort that takes the mutex after this finds the whole run as it was reset; one before finds none. */
    pthread_mutex_lock(&instance->mutex);
    atomic_store_explicit(&instance->abort_reason, BLINK_OK, memory_order_relaxed);
    instance->running = true;
    pthread_mutex_unlock(&instance->mutex);
    return instance->items ? items_start(instance, share, under_way)
                           : instance_start_lanes(instance, under_way);
}
