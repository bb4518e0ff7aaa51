/* The interpreter of lanes on virtual clocks: which step runs when, and what its chunk meets on the way. */
#include "sim.h"

#include "error.h"
#include "events.h"
#include "plan/model.h"
#include "wires.h"

#include <math.h>
#include <stdlib.h>

typedef struct sim_lane {
    uint32_t chunk;
    uint32_t step; /* of the lane */
} sim_lane_t;

typedef struct sim_semaphore {
    uint32_t value;
    uint32_t parked; /* the lane that waits for it; PLAN_NONE */
} sim_semaphore_t;

/* A chunk on its way over the stages of a path. */
typedef struct sim_transfer {
    uint64_t bytes;
    double finish_us; /* of the stage before */
    const lane_step_t *step;
    uint32_t lane;  /* of the step; only where a switch reduces */
    uint32_t dst;   /* of the step; PLAN_NONE: what a switch reduces, before it is copied */
    uint32_t stage; /* to come, of the path; of what a switch reduces 0: into the block, 1: out of it */
    uint32_t next;  /* free transfer */
} sim_transfer_t;

typedef struct sim {
    const lane_geometry_t *geometry;
    const lane_program_t *program;
    events_t events;
    wires_t wires;
    sim_lane_t *lanes;
    double *read_us; /* per lane and slot: when the chunk that last used it had left */
    sim_semaphore_t *semaphores;
    VEC(sim_transfer_t) transfers;
    uint32_t free_transfer;
    uint32_t lanes_left;
    double now_us, end_us;
} sim_t;

/* ---- chunks on their way ---- */

static blink_result_t sim_take_transfer(sim_t *sim, uint32_t *index)
{
    if (sim->free_transfer != PLAN_NONE) {
        *index = sim->free_transfer;
        sim->free_transfer = sim->transfers.items[*index].next;
        return BLINK_OK;
    }
    if (!vec_reserve(&sim->transfers, sim->transfers.count + 1))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu chunks under way",
                          sim->transfers.count + 1);
    *index = (uint32_t)sim->transfers.count++;
    return BLINK_OK;
}

static void sim_give_transfer(sim_t *sim, uint32_t index)
{
    sim->transfers.items[index].next = sim->free_transfer;
    sim->free_transfer = index;
}

/* A transfer that comes to its next stage at at_us. */
static blink_result_t sim_push_transfer(sim_t *sim, double at_us, sim_transfer_t transfer)
{
    uint32_t index;
    BLINK_TRY(sim_take_transfer(sim, &index));
    sim->transfers.items[index] = transfer;
    return events_push(&sim->events, at_us, EVENT_HOP, index);
}

/* Show the semaphores that stand for this dst of the step, PLAN_NONE for its sources. */
static blink_result_t sim_signal(sim_t *sim, const lane_step_t *step, uint32_t dst, double at_us)
{
    sim->end_us = fmax(sim->end_us, at_us);
    for (uint32_t i = 0; i < step->signal_count; i++) {
        const lane_signal_t *signal = &sim->program->signals[step->signal_first + i];
        if (signal->dst == dst)
            BLINK_TRY(events_push(&sim->events, at_us, EVENT_SIGNAL, signal->semaphore));
    }
    return BLINK_OK;
}

/* Serve the transfer's next stage, to which it comes at at_us. */
static blink_result_t sim_hop(sim_t *sim, uint32_t index, double at_us, double *finish_us)
{
    sim_transfer_t *transfer = &sim->transfers.items[index];
    const lane_operand_t *dst = &sim->program->operands[transfer->step->dst_first + transfer->dst];
    const wires_path_t *path = &sim->wires.paths[dst->path];
    uint32_t stage = sim->wires.stages[path->stage_first + transfer->stage];
    wires_time_t served = wires_serve(&sim->wires.links[stage], transfer->bytes, at_us, transfer->finish_us);
    *finish_us = served.finish_us;
    transfer->finish_us = served.finish_us;
    if (++transfer->stage < path->stage_count)
        return events_push(&sim->events, served.start_us, EVENT_HOP, index);
    sim_give_transfer(sim, index);
    return sim_signal(sim, transfer->step, transfer->dst, served.finish_us + path->latency_us);
}

/* Send a dst of a step on its way; *left_us is when the source has been read. */
static blink_result_t sim_send(sim_t *sim, const lane_step_t *step, uint32_t dst, uint64_t bytes,
                               wires_time_t read, double *left_us)
{
    *left_us = read.finish_us;
    if (sim->program->operands[step->dst_first + dst].path == PLAN_NONE)
        return sim_signal(sim, step, dst, read.finish_us);
    uint32_t index;
    BLINK_TRY(sim_take_transfer(sim, &index));
    sim->transfers.items[index] =
        (sim_transfer_t){.bytes = bytes, .finish_us = read.finish_us, .step = step, .dst = dst};
    /* Booked ahead of its time, but in order: nothing but this rank's reader feeds the first link. */
    return sim_hop(sim, index, read.start_us, left_us);
}

/* ---- lanes ---- */

static double *sim_slot_us(sim_t *sim, uint32_t lane)
{
    uint32_t slots = sim->geometry->slots;
    return &sim->read_us[(size_t)lane * slots + sim->lanes[lane].chunk % slots];
}

/* Bring the sources that lie in other ranks' memory; when the last of them is here. Pulls are made of whole
 * chunks, link after link, and booked at once: only plain memory has them. */
static double sim_pull(sim_t *sim, const lane_step_t *step, uint64_t bytes)
{
    double here_us = sim->now_us;
    for (uint32_t i = 0; i < step->src_count; i++) {
        const lane_operand_t *src = &sim->program->operands[step->src_first + i];
        if (src->path == PLAN_NONE)
            continue;
        const wires_path_t *path = &sim->wires.paths[src->path];
        wires_time_t served = {sim->now_us, sim->now_us};
        for (uint32_t stage = 0; stage < path->stage_count; stage++)
            served = wires_serve(&sim->wires.links[sim->wires.stages[path->stage_first + stage]], bytes,
                                 served.start_us, served.finish_us);
        here_us = fmax(here_us, served.finish_us + path->latency_us);
    }
    return here_us;
}

/* Move the step's bytes; *left_us is when they have left the sources. */
static blink_result_t sim_move(sim_t *sim, uint32_t index, const lane_step_t *step, uint64_t bytes,
                               double *left_us)
{
    double here_us = sim_pull(sim, step, bytes);
    wires_time_t read = wires_serve(&sim->wires.readers[sim->program->lanes[index].rank],
                                    bytes * step->src_count, sim->now_us, here_us);
    uint32_t most = step->src_count > step->dst_count ? step->src_count : step->dst_count;
    if (sim->wires.blocks)
        read = wires_serve(&sim->wires.blocks[index], bytes * most, read.start_us, read.finish_us);
    *left_us = read.finish_us;
    for (uint32_t i = 0; i < step->dst_count; i++) {
        double one_us;
        BLINK_TRY(sim_send(sim, step, i, bytes, read, &one_us));
        *left_us = fmax(*left_us, one_us);
    }
    return BLINK_OK;
}

/* ---- switches that reduce and copy ---- */

static bool sim_is_by_switch(const sim_t *sim, const lane_step_t *step)
{
    const lane_operand_t *src = &sim->program->operands[step->src_first];
    return src->buffer == LANE_SHARED && src->path != PLAN_NONE;
}

static const wires_path_t *sim_path(const sim_t *sim, uint32_t operand)
{
    return &sim->wires.paths[sim->program->operands[operand].path];
}

/* From a device into the switch: all of a path but its last link. */
static wires_time_t sim_climb(sim_t *sim, const wires_path_t *path, uint64_t bytes, wires_time_t from)
{
    for (uint32_t stage = 0; stage + 1 < path->stage_count; stage++)
        from = wires_serve(&sim->wires.links[sim->wires.stages[path->stage_first + stage]], bytes,
                           from.start_us, from.finish_us);
    return from;
}

/* Every device reads its slot and sends it into the switch. */
static blink_result_t sim_move_by_switch(sim_t *sim, uint32_t lane, const lane_step_t *step, uint64_t bytes,
                                         double *left_us)
{
    double start_us = sim->now_us;
    *left_us = sim->now_us;
    for (uint32_t i = 0; i < step->src_count; i++) {
        uint32_t rank = sim->program->operands[step->src_first + i].rank;
        wires_time_t read = wires_serve(&sim->wires.readers[rank], bytes, sim->now_us, sim->now_us);
        wires_time_t climb = sim_climb(sim, sim_path(sim, step->src_first + i), bytes, read);
        start_us = fmax(start_us, climb.start_us);
        *left_us = fmax(*left_us, climb.finish_us);
    }
    return sim_push_transfer(
        sim, start_us,
        (sim_transfer_t){
            .bytes = bytes, .finish_us = *left_us, .step = step, .lane = lane, .dst = PLAN_NONE});
}

/* What the switch makes of them comes to the root's block. */
static blink_result_t sim_combine(sim_t *sim, sim_transfer_t transfer)
{
    const wires_path_t *path = sim_path(sim, transfer.step->src_first);
    uint32_t last = sim->wires.stages[path->stage_first + path->stage_count - 1];
    wires_time_t here = wires_serve(&sim->wires.links[last], transfer.bytes, sim->now_us, transfer.finish_us);
    here.finish_us += path->latency_us;
    if (sim->wires.blocks)
        here = wires_serve(&sim->wires.blocks[transfer.lane], transfer.bytes, here.start_us, here.finish_us);
    transfer.finish_us = here.finish_us;
    transfer.stage = 1;
    return sim_push_transfer(sim, here.start_us, transfer);
}

/* The block sends it up once, and it comes down at every device. */
static blink_result_t sim_copy(sim_t *sim, sim_transfer_t transfer)
{
    const wires_path_t *path = sim_path(sim, transfer.step->dst_first);
    wires_time_t up = sim_climb(sim, path, transfer.bytes, (wires_time_t){sim->now_us, transfer.finish_us});
    transfer.finish_us = up.finish_us;
    transfer.stage = path->stage_count - 1;
    for (transfer.dst = 0; transfer.dst < transfer.step->dst_count; transfer.dst++)
        BLINK_TRY(sim_push_transfer(sim, up.start_us, transfer));
    return BLINK_OK;
}

/* A chunk on its way comes to where it goes on. */
static blink_result_t sim_go_on(sim_t *sim, uint32_t index)
{
    sim_transfer_t transfer = sim->transfers.items[index];
    double finish_us;
    if (transfer.dst != PLAN_NONE)
        return sim_hop(sim, index, sim->now_us, &finish_us);
    sim_give_transfer(sim, index);
    return transfer.stage == 0 ? sim_combine(sim, transfer) : sim_copy(sim, transfer);
}

/* ---- steps ---- */

static blink_result_t sim_run_step(sim_t *sim, uint32_t index, const lane_step_t *step)
{
    const lane_t *lane = &sim->program->lanes[index];
    sim_lane_t *state = &sim->lanes[index];
    uint64_t bytes = lane_span(sim->geometry, lane->channel, step->part, state->chunk).bytes;
    double left_us;
    BLINK_TRY(sim_is_by_switch(sim, step) ? sim_move_by_switch(sim, index, step, bytes, &left_us)
                                          : sim_move(sim, index, step, bytes, &left_us));
    BLINK_TRY(sim_signal(sim, step, PLAN_NONE, left_us));
    double *slot_us = sim_slot_us(sim, index);
    *slot_us = fmax(*slot_us, left_us);
    if (++state->step == lane->step_count) {
        state->step = 0;
        state->chunk++;
    }
    return BLINK_OK;
}

/* Whether the step's waits are satisfied; if not, the lane is parked on one of them. */
static bool sim_waits_over(sim_t *sim, uint32_t lane, const lane_step_t *step)
{
    uint32_t after = sim->lanes[lane].chunk + 1, slots = sim->geometry->slots;
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &sim->program->waits[step->wait_first + i];
        uint32_t needed = wait->kind == LANE_FULL ? after : after > slots ? after - slots : 0;
        if (sim->semaphores[wait->semaphore].value < needed) {
            sim->semaphores[wait->semaphore].parked = lane;
            return false;
        }
    }
    return true;
}

/* One step at a time, so that lanes that are ready at once take turns on the links they share. */
static blink_result_t sim_advance(sim_t *sim, uint32_t index)
{
    const lane_t *lane = &sim->program->lanes[index];
    sim_lane_t *state = &sim->lanes[index];
    if (state->chunk == sim->geometry->channels[lane->channel].chunks) {
        sim->lanes_left--;
        return BLINK_OK;
    }
    const lane_step_t *step = &sim->program->steps[lane->step_first + state->step];
    if (!sim_waits_over(sim, index, step))
        return BLINK_OK;
    double free_us = state->step == 0 ? *sim_slot_us(sim, index) : 0;
    /* Links serve what comes first: what a block moves must not be booked before the block comes to it. */
    if (sim->wires.blocks && !sim->program->multicast)
        free_us = fmax(free_us, sim->wires.blocks[index].idle_us);
    if (free_us > sim->now_us)
        return events_push(&sim->events, free_us, EVENT_LANE, index);
    BLINK_TRY(sim_run_step(sim, index, step));
    return events_push(&sim->events, sim->now_us, EVENT_LANE, index);
}

static blink_result_t sim_happen(sim_t *sim, const event_t *event)
{
    sim->now_us = event->at_us;
    switch ((event_kind_t)event->kind) {
    case EVENT_LANE:
        return sim_advance(sim, event->index);
    case EVENT_HOP:
        return sim_go_on(sim, event->index);
    case EVENT_SIGNAL:
        break;
    }
    sim_semaphore_t *semaphore = &sim->semaphores[event->index];
    semaphore->value++;
    uint32_t lane = semaphore->parked;
    semaphore->parked = PLAN_NONE;
    return lane == PLAN_NONE ? BLINK_OK : events_push(&sim->events, sim->now_us, EVENT_LANE, lane);
}

/* ---- a run ---- */

static blink_result_t sim_stuck(const sim_t *sim)
{
    uint32_t stuck = 0;
    while (sim->lanes[stuck].chunk == sim->geometry->channels[sim->program->lanes[stuck].channel].chunks)
        stuck++;
    const lane_t *lane = &sim->program->lanes[stuck];
    return BLINK_FAIL(BLINK_ERR_INTERNAL,
                      "%u of %u lanes wait for ever, such as that of rank %u in channel %u, at chunk %u",
                      sim->lanes_left, sim->program->lane_count, lane->rank, lane->channel,
                      sim->lanes[stuck].chunk);
}

static blink_result_t sim_init(sim_t *sim, const topo_t *topo, const lane_geometry_t *geometry,
                               double reduce_GBps)
{
    const lane_program_t *program = geometry->program;
    size_t lanes = (size_t)program->lane_count + 1;
    *sim = (sim_t){
        .geometry = geometry,
        .program = program,
        .lanes = calloc(lanes, sizeof(*sim->lanes)),
        .read_us = calloc(lanes * geometry->slots, sizeof(*sim->read_us)),
        .semaphores = calloc((size_t)program->semaphore_count + 1, sizeof(*sim->semaphores)),
        .free_transfer = PLAN_NONE,
        .lanes_left = program->lane_count,
    };
    BLINK_TRY(wires_init(&sim->wires, topo, program, reduce_GBps));
    if (!sim->lanes || !sim->read_us || !sim->semaphores)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to simulate %u lanes of %u slots",
                          program->lane_count, geometry->slots);
    for (uint32_t i = 0; i < program->semaphore_count; i++)
        sim->semaphores[i].parked = PLAN_NONE;
    for (uint32_t i = 0; i < program->lane_count; i++)
        BLINK_TRY(events_push(&sim->events, 0, EVENT_LANE, i));
    return BLINK_OK;
}

static void sim_fini(sim_t *sim)
{
    events_fini(&sim->events);
    wires_fini(&sim->wires);
    free(sim->lanes);
    free(sim->read_us);
    free(sim->semaphores);
    vec_free(&sim->transfers);
}

static blink_result_t sim_report(const sim_t *sim, const topo_t *topo, sim_result_t *result)
{
    *result = (sim_result_t){
        .time_us = model_launch_us(sim->program->protocol) + sim->end_us,
        .step_count = sim_step_count(sim->geometry),
        .links = calloc((size_t)topo->link_count + 1, sizeof(*result->links)),
    };
    if (!result->links)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the shares of %u links", topo->link_count);
    for (uint32_t i = 0; i < topo->link_count; i++)
        result->links[i] = (sim_link_t){sim->wires.links[i].busy_us, sim->wires.links[i].bytes};
    return BLINK_OK;
}

uint64_t sim_step_count(const lane_geometry_t *geometry)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < geometry->program->lane_count; i++) {
        const lane_t *lane = &geometry->program->lanes[i];
        count += (uint64_t)lane->step_count * geometry->channels[lane->channel].chunks;
    }
    return count;
}

blink_result_t sim_check_step_count(uint64_t step_count)
{
    if (step_count <= SIM_STEPS_MAX)
        return BLINK_OK;
    return BLINK_FAIL(
        BLINK_ERR_UNSUPPORTED,
        "%llu steps × chunks are more than the %u that are simulated: fewer ranks, fewer bytes or "
        "larger chunks",
        (unsigned long long)step_count, SIM_STEPS_MAX);
}

blink_result_t sim_run(const topo_t *topo, const lane_geometry_t *geometry, double reduce_GBps,
                       sim_result_t *result)
{
    if (!(reduce_GBps > 0))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "devices that reduce at %g GB/s", reduce_GBps);
    BLINK_TRY(sim_check_step_count(sim_step_count(geometry)));
    sim_t sim;
    event_t event;
    bool found = true;
    blink_result_t status = sim_init(&sim, topo, geometry, reduce_GBps);
    while (status == BLINK_OK && found) {
        status = events_pop(&sim.events, &event, &found);
        if (status == BLINK_OK && found)
            status = sim_happen(&sim, &event);
    }
    if (status == BLINK_OK && sim.lanes_left > 0)
        status = sim_stuck(&sim);
    if (status == BLINK_OK)
        status = sim_report(&sim, topo, result);
    sim_fini(&sim);
    return status;
}

void sim_result_fini(sim_result_t *result)
{
    free(result->links);
    *result = (sim_result_t){0};
}
