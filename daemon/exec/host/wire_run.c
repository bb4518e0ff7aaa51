/* The host's side of exec/wire.h. */
#include "exec/host/wire_run.h"

#include "base/clock.h"
#include "error.h"
#include "exec/host/semaphore.h"
#include "exec/host/step.h"
#include "exec/wire_lane.h"

#include <stdlib.h>

static exec_wire_t *wire_of(const host_instance_t *instance, uint32_t lane)
{
    return &instance->wires[lane - instance->lane_count];
}

static uint64_t wire_run(exec_task_t *task);

static const lane_step_t *step_of(const host_instance_t *instance, const exec_wire_t *wire, uint32_t sequence)
{
    return wire_lane_step(instance->base.program, wire->lane, sequence);
}

/* Of every wire lane, this is what its links are counted and booked for. */
static const lane_operand_t *crossing(const host_instance_t *instance, const exec_wire_t *wire,
                                      uint32_t sequence)
{
    return &instance->base.program->operands[step_of(instance, wire, sequence)->dst_first];
}

static uint64_t bytes_of(const host_instance_t *instance, const exec_wire_t *wire, uint32_t sequence)
{
    const lane_step_t *step = step_of(instance, wire, sequence);
    return lane_span(&instance->base.geometry, wire->lane->channel, step->part,
                     wire_lane_chunk(wire->lane, sequence))
        .bytes;
}

/* ---- setting up ---- */

size_t wires_bytes(const lane_program_t *program)
{
    return program->wire_count * sizeof(exec_wire_t) + program->landing_edge_count * sizeof(uint32_t);
}

static void find_landings(host_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const lane_landing_t *landing = &program->landings[i];
        for (uint32_t e = 0; e < landing->edge_count; e++)
            instance->edge_landing[landing->edge_first + e] = i;
    }
}

blink_result_t wires_create(host_instance_t *instance)
{
    const lane_program_t *program = instance->base.program;
    if (program->wire_count == 0)
        return BLINK_OK;
    instance->wires = aligned_alloc(_Alignof(exec_wire_t), program->wire_count * sizeof(*instance->wires));
    instance->edge_landing = malloc((program->landing_edge_count + 1u) * sizeof(*instance->edge_landing));
    if (!instance->wires || !instance->edge_landing)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u wire lanes", program->wire_count);
    for (uint32_t i = 0; i < program->wire_count; i++) {
        const lane_t *lane = &program->lanes[instance->lane_count + i];
        instance->wires[i] =
            (exec_wire_t){.lane = lane, .outgoing = program->rank_host[lane->rank] == program->host};
        task_init(&instance->wires[i].task, wire_run, instance);
    }
    find_landings(instance);
    return BLINK_OK;
}

void wires_destroy(host_instance_t *instance)
{
    free(instance->wires);
    free(instance->edge_landing);
}

bool wire_waits(const host_instance_t *instance, uint32_t lane, const lane_wait_t *wait)
{
    return wire_lane_waits(wait, wire_of(instance, lane)->outgoing);
}

uint32_t wires_reset(host_instance_t *instance, uint64_t now_ns)
{
    uint32_t with_moves = 0;
    for (uint32_t i = 0; i < instance->base.program->wire_count; i++) {
        exec_wire_t *wire = &instance->wires[i];
        wire->moves = exec_wire_moves(&instance->base, instance->lane_count + i);
        wire->told = wire->finished = 0;
        wire->is_booked = false;
        wire->start_ns = now_ns;
        wire->task.share = instance->completion.share;
        with_moves += wire->moves > 0;
    }
    return with_moves;
}

/* ---- telling the network ---- */

/* What the next move to tell of waits for; NULL if nothing. */
static const lane_wait_t *wire_blocked_on(const host_instance_t *instance, uint32_t lane,
                                          const exec_wire_t *wire)
{
    const lane_step_t *step = step_of(instance, wire, wire->told);
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &instance->base.program->waits[step->wait_first + i];
        if (wire_waits(instance, lane, wait) &&
            semaphore_blocks(instance, wait, wire_lane_chunk(wire->lane, wire->told)))
            return wait;
    }
    return NULL;
}

/* Paced: when the next move to tell of has its source, or its destination. */
static uint64_t wire_ready_ns(const host_instance_t *instance, uint32_t lane, const exec_wire_t *wire)
{
    const lane_step_t *step = step_of(instance, wire, wire->told);
    uint64_t ready_ns = wire->start_ns;
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &instance->base.program->waits[step->wait_first + i];
        if (!wire_waits(instance, lane, wait))
            continue;
        uint64_t due_ns = semaphore_due_ns(instance, wait, wire_lane_chunk(wire->lane, wire->told));
        if (due_ns > ready_ns)
            ready_ns = due_ns;
    }
    return ready_ns;
}

static pace_slot_t wire_book(host_instance_t *instance, const exec_wire_t *wire, uint32_t sequence,
                             uint64_t ready_ns)
{
    pthread_mutex_lock(&instance->exec->mutex);
    pace_slot_t slot = step_book_operand(instance, crossing(instance, wire, sequence),
                                         bytes_of(instance, wire, sequence), ready_ns);
    pthread_mutex_unlock(&instance->exec->mutex);
    return slot;
}

/* Paced: what a move takes on this host's links at their full speed. */
static uint64_t wire_alone_ns(const host_instance_t *instance, const exec_wire_t *wire, uint32_t sequence)
{
    return step_alone_ns(instance, crossing(instance, wire, sequence), bytes_of(instance, wire, sequence));
}

/* Until when the next move to tell of, which waits for no semaphore, must not be told of; 0: it may be. Moves
 * are booked one at a time, from when each was ready, which may be long before now: a link that is busy so is
 * not idle until the lane is taken up again. */
static uint64_t wire_held_ns(host_instance_t *instance, uint32_t lane, exec_wire_t *wire)
{
    if (!instance->exec->config.pace)
        return 0;
    if (wire->is_booked) {
        wire->is_booked = false;
        return 0;
    }
    uint64_t ready_ns = wire_ready_ns(instance, lane, wire);
    if (ready_ns > wire->task.ready_ns)
        return ready_ns;
    wire->start_ns = ready_ns;
    wire->is_booked = wire->outgoing;
    if (!wire->outgoing)
        return 0;
    return wire_book(instance, wire, wire->told, ready_ns).arrived_ns -
           wire_alone_ns(instance, wire, wire->told);
}

/* It may be run, and the run ended, before this returns. The caller is one of the instance's users, or the
 * lane is. */
static void wire_queue(host_instance_t *instance, exec_wire_t *wire, uint64_t ready_ns)
{
    /* Relaxed: it orders nothing, since another user is counted. */
    atomic_fetch_add_explicit(&instance->users, 1, memory_order_relaxed);
    lane_queue(instance, &wire->task, ready_ns, NULL);
}

static void wire_advance(host_instance_t *instance, uint32_t lane)
{
    exec_wire_t *wire = wire_of(instance, lane);
    const exec_wires_t *network = instance->base.run.wires;
    /* Relaxed: stored by host_instance_abort(); what is told after an abort does no harm. */
    while (atomic_load_explicit(&instance->abort_reason, memory_order_relaxed) == BLINK_OK) {
        uint32_t told = wire->told;
        uint64_t held_ns = 0;
        const lane_wait_t *wait = NULL;
        while (wire->told < wire->moves && !(wait = wire_blocked_on(instance, lane, wire)) &&
               (held_ns = wire_held_ns(instance, lane, wire)) == 0)
            wire->told++;
        if (wire->told > told)
            network->ready(network->context, lane, wire->told);
        if (held_ns > 0)
            wire_queue(instance, wire, held_ns);
        if (held_ns > 0 || !wait || semaphore_park(instance, wait, wire_lane_chunk(wire->lane, wire->told)))
            return;
    }
}

/* exec_task_t.run of a wire lane. */
static uint64_t wire_run(exec_task_t *task)
{
    host_instance_t *instance = task->instance;
    wire_advance(instance, instance->lane_count + (uint32_t)((exec_wire_t *)task - instance->wires));
    instance_drop(instance, 1);
    return 0;
}

void wire_wake(host_instance_t *instance, uint32_t lane, uint64_t due_ns)
{
    if (instance->exec->config.pace)
        wire_queue(instance, wire_of(instance, lane), due_ns);
    else
        wire_advance(instance, lane);
}

void wires_begin(host_instance_t *instance)
{
    for (uint32_t i = 0; i < instance->base.program->wire_count; i++)
        wire_wake(instance, instance->lane_count + i, instance->wires[i].start_ns);
}

/* ---- being told ---- */

wire_place_t host_wire_place(const exec_instance_t *base, uint32_t lane, uint32_t sequence)
{
    const host_instance_t *instance = (const host_instance_t *)base;
    const exec_wire_t *wire = wire_of(instance, lane);
    const lane_step_t *step = step_of(instance, wire, sequence);
    uint32_t channel = wire->lane->channel, chunk = wire_lane_chunk(wire->lane, sequence);
    const lane_operand_t *operand = wire_lane_end(base->program, step, wire->outgoing);
    step_place_t place = {instance, step, channel, chunk,
                          lane_span(&base->geometry, channel, step->part, chunk)};
    bool lands = operand->buffer == LANE_LANDING;
    return (wire_place_t){.address = step_address(&place, operand),
                          .bytes = place.span.bytes,
                          .buffer = operand->buffer,
                          .rank = operand->rank,
                          .landing = lands ? instance->edge_landing[operand->edge] : PLAN_NONE};
}

/* Signal that a move was sent, or has come. Returns a lane of a processor that goes on, or `woken` if that is
 * not NULL: then the lane is queued, as it always is when links are emulated. */
static exec_task_t *wire_signal(host_instance_t *instance, const exec_wire_t *wire, uint32_t sequence,
                                uint64_t due_ns, exec_task_t *woken)
{
    const lane_step_t *step = step_of(instance, wire, sequence);
    for (uint32_t i = 0; i < step->signal_count; i++) {
        const lane_signal_t *signal = &instance->base.program->signals[step->signal_first + i];
        if (!wire_lane_signals(signal, wire->outgoing))
            continue; /* the other host's */
        uint32_t lane =
            semaphore_raise(instance, signal->semaphore, wire_lane_chunk(wire->lane, sequence), due_ns);
        if (lane == PLAN_NONE)
            continue;
        if (lane >= instance->lane_count)
            wire_wake(instance, lane, due_ns);
        else if (woken || instance->exec->config.pace)
            lane_queue(instance, &instance->lanes[lane].task, due_ns, NULL);
        else
            woken = &instance->lanes[lane].task;
    }
    return woken;
}

/* Paced: when it is seen that a move was sent, or has come. */
static uint64_t wire_due_ns(host_instance_t *instance, const exec_wire_t *wire, uint32_t sequence)
{
    uint64_t now_ns = clock_ns();
    return wire->outgoing ? now_ns + wire_alone_ns(instance, wire, sequence)
                          : wire_book(instance, wire, sequence, now_ns).arrived_ns;
}

/* The moves below `sequence` were sent, or have come. Each host counts them on its own links. */
static exec_task_t *wire_finish(host_instance_t *instance, exec_wire_t *wire, uint32_t sequence)
{
    exec_task_t *woken = NULL;
    for (uint32_t move = wire->finished; move < sequence; move++) {
        uint64_t due_ns = instance->exec->config.pace ? wire_due_ns(instance, wire, move) : 0;
        step_count_operand(instance, crossing(instance, wire, move), bytes_of(instance, wire, move));
        woken = wire_signal(instance, wire, move, due_ns, woken);
    }
    wire->finished = sequence;
    return woken;
}

void host_wire_sent(exec_instance_t *base, uint32_t lane, uint32_t sequence)
{
    host_instance_t *instance = (host_instance_t *)base;
    exec_wire_t *wire = wire_of(instance, lane);
    exec_task_t *woken = wire_finish(instance, wire, sequence);
    if (woken)
        lane_queue(instance, woken, 0, NULL);
    if (wire->finished == wire->moves)
        instance_drop(instance, 1);
}

exec_task_t *host_wire_arrived(exec_instance_t *base, uint32_t lane, uint32_t sequence)
{
    host_instance_t *instance = (host_instance_t *)base;
    exec_wire_t *wire = wire_of(instance, lane);
    exec_task_t *woken = wire_finish(instance, wire, sequence);
    if (wire->finished == wire->moves)
        instance_drop(instance, 1);
    return woken;
}

void host_wire_run(exec_instance_t *base, exec_task_t *lane)
{
    host_instance_t *instance = (host_instance_t *)base;
    list_t tasks;
    list_init(&tasks);
    list_append(&tasks, &lane->of_share);
    /* Relaxed: it orders nothing, since the lane itself is still counted. */
    atomic_fetch_add_explicit(&instance->users, 1, memory_order_relaxed);
    lanes_run_here(instance, &tasks);
    instance_drop(instance, 1);
}

void host_wire_run_some(exec_instance_t *base, exec_task_t *lane)
{
    exec_host_t *exec = ((host_instance_t *)base)->exec;
    pthread_mutex_lock(&exec->mutex);
    pool_run_locked(exec, lane);
    /* The lane may have been put back, and this is no worker that returns to the queue. */
    pool_unlock_and_wake(exec);
}

void host_wire_queue(exec_instance_t *base, exec_task_t *lane)
{
    lane_queue((host_instance_t *)base, lane, 0, NULL);
}

void host_wire_settled(exec_instance_t *base)
{
    host_instance_t *instance = (host_instance_t *)base;
    uint32_t open = 0;
    for (uint32_t i = 0; i < base->program->wire_count; i++)
        open += instance->wires[i].finished < instance->wires[i].moves;
    if (open > 0)
        instance_drop(instance, open);
}
