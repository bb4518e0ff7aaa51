/*
 * Instances: setting up, starting, aborting and ending a run. How its lanes run is in lane_run.c.
 */
#include "exec/host/instance.h"

#include "error.h"
#include "names.h"

#include <stdlib.h>
#include <string.h>

/* Each semaphore's one waiting lane. */
static void instance_find_waiters(exec_instance_t *instance)
{
    const lane_program_t *program = instance->program;
    for (uint32_t i = 0; i < program->semaphore_count; i++)
        instance->semaphores[i].waiter = PLAN_NONE;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = 0; s < lane->step_count; s++) {
            const lane_step_t *step = &program->steps[lane->step_first + s];
            for (uint32_t w = 0; w < step->wait_count; w++)
                instance->semaphores[program->waits[step->wait_first + w].semaphore].waiter = l;
        }
    }
}

/* Most operands and most dsts of any step of a lane. */
static void instance_lane_needs(const lane_program_t *program, const lane_t *lane, uint32_t *operands,
                                uint32_t *dsts)
{
    *operands = *dsts = 0;
    for (uint32_t s = 0; s < lane->step_count; s++) {
        const lane_step_t *step = &program->steps[lane->step_first + s];
        if (step->src_count + step->dst_count > *operands)
            *operands = step->src_count + step->dst_count;
        if (step->dst_count > *dsts)
            *dsts = step->dst_count;
    }
}

static blink_result_t instance_alloc_lanes(exec_instance_t *instance)
{
    const lane_program_t *program = instance->program;
    uint32_t operand_count = 0;
    uint32_t dst_count = 0;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        uint32_t operands, dsts;
        instance_lane_needs(program, &program->lanes[l], &operands, &dsts);
        operand_count += operands;
        dst_count += dsts;
    }
    instance->addresses = calloc(operand_count + 1u, sizeof(*instance->addresses));
    instance->booked = calloc(dst_count + 1u, sizeof(*instance->booked));
    instance->lanes = aligned_alloc(_Alignof(exec_lane_t), (program->lane_count + 1u) * sizeof(exec_lane_t));
    if (!instance->addresses || !instance->booked || !instance->lanes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u lanes", program->lane_count);
    operand_count = dst_count = 0;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        uint32_t operands, dsts;
        instance_lane_needs(program, &program->lanes[l], &operands, &dsts);
        instance->lanes[l] = (exec_lane_t){.task = {.run = lane_run, .instance = instance},
                                           .lane = &program->lanes[l],
                                           .addresses = instance->addresses + operand_count,
                                           .booked = instance->booked + dst_count};
        operand_count += operands;
        dst_count += dsts;
    }
    return BLINK_OK;
}

static void instance_free(exec_instance_t *instance)
{
    lane_geometry_fini(&instance->geometry);
    queue_fini(&instance->inline_queue);
    pthread_mutex_destroy(&instance->mutex);
    free(instance->outputs);
    free(instance->inputs);
    free(instance->scratch);
    free(instance->due_ns);
    free(instance->semaphores);
    free(instance->lanes);
    free(instance->booked);
    free(instance->addresses);
    free(instance);
}

static blink_result_t instance_init(exec_instance_t *instance)
{
    const lane_program_t *program = instance->program;
    BLINK_TRY(instance_alloc_lanes(instance));
    instance->semaphores =
        aligned_alloc(_Alignof(exec_semaphore_t), (program->semaphore_count + 1u) * sizeof(exec_semaphore_t));
    instance->inputs = calloc(program->rank_count, sizeof(*instance->inputs));
    instance->outputs = calloc(program->rank_count, sizeof(*instance->outputs));
    if (!instance->semaphores || !instance->inputs || !instance->outputs)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u semaphores", program->semaphore_count);
    instance_find_waiters(instance);
    BLINK_TRY(queue_reserve(&instance->inline_queue, program->lane_count));
    pthread_mutex_lock(&instance->exec->mutex);
    blink_result_t result = queue_reserve(&instance->exec->queue, program->lane_count + 1u);
    pthread_mutex_unlock(&instance->exec->mutex);
    return result;
}

static void instance_complete(exec_task_t *task)
{
    exec_instance_t *instance = task->instance;
    instance_finish(instance, BLINK_OK);
}

blink_result_t exec_instance_create(exec_host_t *exec, const lane_program_t *program,
                                    _Atomic uint64_t *comm_link_bytes, exec_instance_t **instance)
{
    exec_instance_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an executor instance");
    created->exec = exec;
    created->program = program;
    created->comm_link_bytes = comm_link_bytes;
    created->completion = (exec_task_t){.run = instance_complete, .instance = created};
    pthread_mutex_init(&created->mutex, NULL);
    blink_result_t result = instance_init(created);
    if (result != BLINK_OK) {
        instance_free(created);
        return result;
    }
    *instance = created;
    return BLINK_OK;
}

void exec_instance_destroy(exec_instance_t *instance)
{
    if (!instance)
        return;
    pthread_mutex_lock(&instance->exec->mutex);
    queue_release(&instance->exec->queue, instance->program->lane_count + 1u);
    pthread_mutex_unlock(&instance->exec->mutex);
    instance_free(instance);
}

/* Due times of every chunk of every semaphore that somebody waits for. */
static blink_result_t instance_bind_due_times(exec_instance_t *instance)
{
    const lane_program_t *program = instance->program;
    const lane_geometry_t *geometry = &instance->geometry;
    uint64_t needed = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t used = 0;
        for (uint32_t i = 0; i < program->semaphore_count; i++) {
            exec_semaphore_t *semaphore = &instance->semaphores[i];
            if (semaphore->waiter == PLAN_NONE)
                continue;
            semaphore->due_ns = pass == 0 ? NULL : instance->due_ns + used;
            used += geometry->channels[program->lanes[semaphore->waiter].channel].chunks;
        }
        needed = used;
        if (pass == 0 && needed > instance->due_capacity) {
            free(instance->due_ns);
            instance->due_capacity = 0;
            instance->due_ns = malloc(needed * sizeof(*instance->due_ns));
            if (!instance->due_ns)
                return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %llu arrival times",
                                  (unsigned long long)needed);
            instance->due_capacity = needed;
        }
    }
    return BLINK_OK;
}

static blink_result_t instance_bind_scratch(exec_instance_t *instance)
{
    const lane_geometry_t *geometry = &instance->geometry;
    uint64_t needed = geometry->scratch_bytes;
    needed = (needed + 63u) / 64u * 64u;
    if (needed <= instance->scratch_bytes)
        return BLINK_OK;
    free(instance->scratch);
    instance->scratch_bytes = 0;
    instance->scratch = aligned_alloc(64, needed);
    if (!instance->scratch)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %llu bytes of scratch",
                          (unsigned long long)needed);
    instance->scratch_bytes = needed;
    return BLINK_OK;
}

/* Bind the program to a payload; nothing to do if the last run had one of the same size. */
static blink_result_t instance_bind(exec_instance_t *instance, uint64_t block_bytes)
{
    if (instance->bound && instance->geometry.block_bytes == block_bytes)
        return BLINK_OK;
    instance->bound = false;
    lane_geometry_fini(&instance->geometry);
    memset(&instance->geometry, 0, sizeof(instance->geometry));
    uint32_t slots = instance->exec->config.pace ? 0 : EXEC_MEMORY_SLOTS;
    BLINK_TRY(lane_geometry_init(instance->program, block_bytes, 0, slots, &instance->geometry));
    BLINK_TRY(instance_bind_scratch(instance));
    if (instance->exec->config.pace)
        BLINK_TRY(instance_bind_due_times(instance));
    instance->bound = true;
    return BLINK_OK;
}

/* Nobody else touches an idle instance; queueing its lanes publishes these stores. */
static void instance_reset(exec_instance_t *instance, const exec_run_t *run, uint64_t now_ns)
{
    const lane_program_t *program = instance->program;
    instance->run = *run;
    if (run->inputs)
        memcpy(instance->inputs, run->inputs, program->rank_count * sizeof(*instance->inputs));
    memcpy(instance->outputs, run->outputs, program->rank_count * sizeof(*instance->outputs));
    for (uint32_t i = 0; i < program->semaphore_count; i++) {
        atomic_store_explicit(&instance->semaphores[i].value, 0, memory_order_relaxed);
        atomic_store_explicit(&instance->semaphores[i].parked, 0, memory_order_relaxed);
    }
    for (uint32_t l = 0; l < program->lane_count; l++) {
        exec_lane_t *lane = &instance->lanes[l];
        lane->chunk = lane->step = 0;
        lane->chunks =
            lane->lane->step_count > 0 ? instance->geometry.channels[lane->lane->channel].chunks : 0;
        lane->start_ns = now_ns;
    }
    instance->last_arrival_ns = now_ns;
    atomic_store_explicit(&instance->users, program->lane_count, memory_order_relaxed);
    atomic_store_explicit(&instance->abort_reason, BLINK_OK, memory_order_relaxed);
    pthread_mutex_lock(&instance->mutex);
    instance->running = true;
    pthread_mutex_unlock(&instance->mutex);
}

/* On the caller's thread. The queue runs dry when every lane has ended, or an abort has ended some that
 * others wait for; that lanes are left without an abort would be a program that cannot end. */
static void instance_run_inline(exec_instance_t *instance)
{
    for (uint32_t l = 0; l < instance->program->lane_count; l++)
        queue_push(&instance->inline_queue, &instance->lanes[l].task, 0);
    while (instance->inline_queue.count > 0) {
        exec_task_t *task = queue_pop(&instance->inline_queue);
        task->run(task);
    }
    bool ended = atomic_load_explicit(&instance->users, memory_order_relaxed) == 0;
    instance_finish(instance, ended ? BLINK_OK : BLINK_ERR_INTERNAL);
}

blink_result_t exec_start(exec_instance_t *instance, const exec_run_t *run)
{
    exec_host_t *exec = instance->exec;
    uint64_t block_bytes = run->count * blink_datatype_bytes(run->datatype);
    uint64_t payload_bytes = block_bytes * instance->program->block_count;
    if (payload_bytes == 0 || instance->program->lane_count == 0) {
        run->done(run->context, BLINK_OK);
        return BLINK_OK;
    }
    BLINK_TRY(instance_bind(instance, block_bytes));
    instance->is_inline =
        !exec->config.pace && payload_bytes <= EXEC_INLINE_MAX_BYTES / instance->program->rank_count;
    uint64_t now_ns = exec->config.pace ? pool_now_ns() : 0;
    instance_reset(instance, run, now_ns);
    if (instance->is_inline) {
        instance_run_inline(instance);
        return BLINK_OK;
    }
    uint32_t lane_count = instance->program->lane_count;
    pthread_mutex_lock(&exec->mutex);
    for (uint32_t l = 0; l < lane_count; l++)
        queue_push(&exec->queue, &instance->lanes[l].task, now_ns);
    pool_unlock_and_wake(exec);
    return BLINK_OK;
}

void instance_finish(exec_instance_t *instance, blink_result_t result)
{
    exec_run_t run = instance->run;
    pthread_mutex_lock(&instance->mutex);
    instance->running = false;
    /* Stored by exec_abort() under this mutex. */
    uint32_t reason = atomic_load_explicit(&instance->abort_reason, memory_order_relaxed);
    pthread_mutex_unlock(&instance->mutex);
    run.done(run.context, reason != BLINK_OK ? (blink_result_t)reason : result);
}

/* Queue every parked lane, and make what is queued due now. A lane that parks just now reads the reason after
 * it has set `parked`, so either this sees the flag or the lane sees the reason. */
static void instance_flush(exec_instance_t *instance)
{
    exec_host_t *exec = instance->exec;
    pthread_mutex_lock(&exec->mutex);
    for (uint32_t i = 0; i < instance->program->semaphore_count; i++) {
        exec_semaphore_t *semaphore = &instance->semaphores[i];
        /* Pairs with lane_park(). */
        if (atomic_exchange_explicit(&semaphore->parked, 0, memory_order_seq_cst) == 1)
            queue_push(&exec->queue, &instance->lanes[semaphore->waiter].task, 0);
    }
    queue_hurry(&exec->queue, instance);
    pool_unlock_and_wake(exec);
}

void exec_abort(exec_instance_t *instance, blink_result_t reason)
{
    pthread_mutex_lock(&instance->mutex);
    if (instance->running &&
        atomic_load_explicit(&instance->abort_reason, memory_order_relaxed) == BLINK_OK) {
        /* Read by lane_run(), lane_park() and instance_queue(). */
        atomic_store_explicit(&instance->abort_reason, reason, memory_order_seq_cst);
        if (!instance->is_inline)
            instance_flush(instance);
    }
    pthread_mutex_unlock(&instance->mutex);
}
