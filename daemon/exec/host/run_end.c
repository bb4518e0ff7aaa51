/* How a run ends: who takes part in it, the last of whom ends it, and aborts. */
#include "exec/host/instance.h"

#include "error.h"

void lane_queue_locked(host_instance_t *instance, exec_task_t *task, uint64_t ready_ns)
{
    /* host_instance_abort() stores the reason before it takes the pool's lock: either the reason is seen
     * here, or instance_flush() finds this task in the queue. */
    if (atomic_load_explicit(&instance->abort_reason, memory_order_relaxed) != BLINK_OK)
        ready_ns = 0;
    queue_push(&instance->exec->queue, task, ready_ns);
}

void lane_queue(host_instance_t *instance, exec_task_t *task, uint64_t ready_ns, list_t *here)
{
    if (here) {
        list_append(here, &task->of_share);
        return;
    }
    exec_host_t *exec = instance->exec;
    pthread_mutex_lock(&exec->mutex);
    lane_queue_locked(instance, task, ready_ns);
    pool_unlock_and_wake(exec);
}

bool instance_leave(host_instance_t *instance, uint32_t users)
{
    /* Acquire and release, pairing with one another: whatever the others did to the buffers happens before
     * the last one gives the buffers back. */
    if (atomic_fetch_sub_explicit(&instance->users, users, memory_order_acq_rel) != users)
        return false;
    if (!instance->exec->config.pace)
        return true;
    lane_queue(instance, &instance->completion, instance->last_arrival_ns, NULL);
    return false;
}

void instance_drop(host_instance_t *instance, uint32_t users)
{
    if (instance_leave(instance, users))
        instance_finish(instance, BLINK_OK);
}

blink_result_t instance_end(host_instance_t *instance, blink_result_t result)
{
    pthread_mutex_lock(&instance->mutex);
    instance->running = false;
    /* Stored by host_instance_abort() under this mutex. */
    uint32_t reason = atomic_load_explicit(&instance->abort_reason, memory_order_relaxed);
    pthread_mutex_unlock(&instance->mutex);
    if (reason == BLINK_OK)
        return result;
    instance->base.scrub = true; /* half of a chunk may lie in a slot */
    return BLINK_FAIL((blink_result_t)reason, "the run was aborted");
}

void instance_finish(host_instance_t *instance, blink_result_t result)
{
    exec_end_t end = exec_instance_end(&instance->base, instance_end(instance, result));
    instance->base.run.done(&end);
}

/* Queue every parked lane but those of wires, which the network ends, and make what is queued due now. A lane
 * that parks just now reads the reason after it has set `parked` (semaphore_park()), so either this function
 * sees the flag or the lane sees the reason. */
static void instance_flush(host_instance_t *instance)
{
    exec_host_t *exec = instance->exec;
    pthread_mutex_lock(&exec->mutex);
    for (uint32_t i = 0; i < instance->base.program->semaphore_count; i++) {
        exec_semaphore_t *semaphore = &instance->semaphores[i];
        /* Pairs with semaphore_park(). */
        if (atomic_exchange_explicit(&semaphore->parked, 0, memory_order_seq_cst) == 1 &&
            semaphore->waiter < instance->lane_count)
            queue_push(&exec->queue, &instance->lanes[semaphore->waiter].task, 0);
    }
    for (uint32_t l = 0; l < instance->lane_count; l++)
        queue_hurry(&exec->queue, &instance->lanes[l].task);
    for (uint32_t i = 0; i < instance->base.program->wire_count; i++)
        queue_hurry(&exec->queue, &instance->wires[i].task);
    queue_hurry(&exec->queue, &instance->completion);
    pool_unlock_and_wake(exec);
}

void host_instance_abort(exec_instance_t *base, blink_result_t reason)
{
    host_instance_t *instance = (host_instance_t *)base;
    pthread_mutex_lock(&instance->mutex);
    if (instance->running &&
        atomic_load_explicit(&instance->abort_reason, memory_order_relaxed) == BLINK_OK) {
        /* Read by lane_advance(), wire_advance(), semaphore_park(), lane_queue_locked() and items_over(). */
        atomic_store_explicit(&instance->abort_reason, reason, memory_order_seq_cst);
        if (!instance->items)
            instance_flush(instance);
        if (base->program->wire_count > 0)
            base->run.wires->aborted(base->run.wires->context);
    }
    pthread_mutex_unlock(&instance->mutex);
}
