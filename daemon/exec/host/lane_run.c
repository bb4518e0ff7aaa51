/*
 * The interpreter of lanes: wait, move, signal, for one step after the other, until a wait is not satisfied
 * or the step's time has not come.
 */
#include "exec/host/semaphore.h"
#include "exec/host/step.h"
#include "exec/host/wire_run.h"

/* Steps that a lane takes before other tasks may run, without a pacer: about a millisecond of the largest
 * chunks. */
#define LANE_BATCH_STEPS 16u

/* Put the running lane itself back. */
static void lane_requeue(host_instance_t *instance, exec_task_t *task, uint64_t ready_ns, list_t *here)
{
    if (here) {
        list_append(here, &task->of_share);
        return;
    }
    exec_host_t *exec = instance->exec;
    pthread_mutex_lock(&exec->mutex);
    lane_queue_locked(instance, task, ready_ns);
    pthread_mutex_unlock(&exec->mutex);
}

/* The first semaphore that the step must still wait for; NULL if there is none. */
static const lane_wait_t *lane_blocked_on(const host_instance_t *instance, const lane_step_t *step,
                                          uint32_t chunk)
{
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &instance->base.program->waits[step->wait_first + i];
        if (semaphore_blocks(instance, wait, chunk))
            return wait;
    }
    return NULL;
}

/* Paced: when what last used the lane's slot for this chunk had left. */
static uint64_t *lane_sent_ns(const host_instance_t *instance, const exec_lane_t *lane)
{
    return &lane->sent_ns[lane->chunk % instance->base.geometry.slots];
}

/* Paced: when the step may begin, its waits being satisfied. A lane that waits for nobody, such as that of a
 * broadcast's root, has no more chunks under way than there are slots: else it would book its whole payload
 * at once, ahead of what others send over the same links meanwhile. */
static uint64_t lane_ready_ns(const host_instance_t *instance, const exec_lane_t *lane,
                              const lane_step_t *step)
{
    uint64_t ready_ns = lane->start_ns;
    if (lane->step == 0 && *lane_sent_ns(instance, lane) > ready_ns)
        ready_ns = *lane_sent_ns(instance, lane);
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &instance->base.program->waits[step->wait_first + i];
        uint64_t due_ns = semaphore_due_ns(instance, wait, lane->chunk);
        if (due_ns > ready_ns)
            ready_ns = due_ns;
    }
    return ready_ns;
}

/* Paced: book every operand that crosses links; what is written leaves when all that is read has come.
 * Returns when the last byte of all sources has been read and sent on. */
static uint64_t lane_book(host_instance_t *instance, exec_lane_t *lane, const lane_step_t *step,
                          uint64_t bytes, uint64_t ready_ns)
{
    const lane_operand_t *operands = instance->base.program->operands;
    uint64_t there_ns = ready_ns;
    pthread_mutex_lock(&instance->exec->mutex);
    for (uint32_t i = 0; i < step->src_count; i++) {
        pace_slot_t slot = step_book_operand(instance, &operands[step->src_first + i], bytes, ready_ns);
        if (slot.arrived_ns > there_ns)
            there_ns = slot.arrived_ns;
    }
    uint64_t sent_ns = there_ns;
    for (uint32_t i = 0; i < step->dst_count; i++) {
        lane->booked[i] = step_book_operand(instance, &operands[step->dst_first + i], bytes, there_ns);
        if (lane->booked[i].sent_ns > sent_ns)
            sent_ns = lane->booked[i].sent_ns;
    }
    pthread_mutex_unlock(&instance->exec->mutex);
    return sent_ns;
}

static step_place_t lane_place(const host_instance_t *instance, const exec_lane_t *lane,
                               const lane_step_t *step)
{
    uint32_t channel = lane->lane->channel;
    lane_span_t span = lane_span(&instance->base.geometry, channel, step->part, lane->chunk);
    return (step_place_t){instance, step, channel, lane->chunk, span};
}

/* Take a lane up that was parked; paced, when that time has come. */
static void lane_wake(host_instance_t *instance, uint32_t lane, uint64_t due_ns, list_t *here)
{
    if (lane < instance->lane_count)
        lane_queue(instance, &instance->lanes[lane].task, due_ns, here);
    else
        wire_wake(instance, lane, due_ns);
}

static void lane_step_run(host_instance_t *instance, exec_lane_t *lane, const step_place_t *place,
                          uint64_t ready_ns, list_t *here)
{
    const lane_step_t *step = place->step;
    uint64_t sent_ns = 0;
    if (instance->exec->config.pace) {
        sent_ns = lane_book(instance, lane, step,
                            lane_format_bytes(instance->base.program->protocol, place->span.bytes), ready_ns);
        if (sent_ns > *lane_sent_ns(instance, lane))
            *lane_sent_ns(instance, lane) = sent_ns;
    }
    if (place->span.bytes > 0 && !step_move(place, &(step_workspace_t){lane->addresses, lane->blocks})) {
        host_instance_abort(&instance->base, BLINK_ERR_SYSTEM);
        return;
    }
    for (uint32_t i = 0; i < step->signal_count; i++) {
        const lane_signal_t *signal = &instance->base.program->signals[step->signal_first + i];
        uint64_t due_ns = signal->dst == PLAN_NONE ? sent_ns : lane->booked[signal->dst].arrived_ns;
        uint32_t woken = semaphore_raise(instance, signal->semaphore, lane->chunk, due_ns);
        if (woken != PLAN_NONE)
            lane_wake(instance, woken, due_ns, here);
    }
    lane->start_ns = ready_ns;
    if (++lane->step == lane->lane->step_count) {
        lane->step = 0;
        lane->chunk++;
    }
}

/* Returns the bytes that it read and wrote. */
static uint64_t lane_advance(host_instance_t *instance, exec_lane_t *lane, list_t *here)
{
    bool paced = instance->exec->config.pace;
    uint32_t steps_run = 0;
    uint64_t bytes = 0;
    for (;;) {
        /* Relaxed: stored by host_instance_abort(); an abort that is seen late only costs a step. */
        if (lane->chunk == lane->chunks ||
            atomic_load_explicit(&instance->abort_reason, memory_order_relaxed) != BLINK_OK) {
            instance_drop(instance, 1);
            return bytes;
        }
        const lane_step_t *step = &instance->base.program->steps[lane->lane->step_first + lane->step];
        const lane_wait_t *wait = lane_blocked_on(instance, step, lane->chunk);
        if (wait) {
            if (semaphore_park(instance, wait, lane->chunk))
                return bytes;
            continue;
        }
        step_place_t place = lane_place(instance, lane, step);
        if (instance->reads_flags && !step_arrived(&place)) {
            lane_requeue(instance, &lane->task, 0, here);
            return bytes;
        }
        /* Paced: one step at a time, so that all bookings are made in the order of their ready times. */
        uint64_t ready_ns = paced ? lane_ready_ns(instance, lane, step) : 0;
        if (steps_run == (paced ? 1 : LANE_BATCH_STEPS) || ready_ns > lane->task.ready_ns) {
            lane_requeue(instance, &lane->task, ready_ns, here);
            return bytes;
        }
        bytes += place.span.bytes * (step->src_count + step->dst_count);
        lane_step_run(instance, lane, &place, ready_ns, here);
        steps_run++;
    }
}

uint64_t lane_run(exec_task_t *task)
{
    host_instance_t *instance = task->instance;
    /* Relaxed: it orders nothing, since the lane itself is still counted. */
    atomic_fetch_add_explicit(&instance->users, 1, memory_order_relaxed);
    uint64_t bytes = lane_advance(instance, (exec_lane_t *)task, NULL);
    instance_drop(instance, 1);
    return bytes;
}

void lanes_run_here(host_instance_t *instance, list_t *tasks)
{
    list_t *link;
    while ((link = list_take_first(tasks)))
        (void)lane_advance(instance, (exec_lane_t *)CONTAINER_OF(link, exec_task_t, of_share), tasks);
}
