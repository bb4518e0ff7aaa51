/* Writes GOAL schedules. Labels: r and s of a transfer, w of a step, each with c and the chunk. */
#include "goal.h"

#include "error.h"
#include "sim.h"

#include <math.h>
#include <stdlib.h>

#define GOAL_UNITS    256u /* cpus and nics that the format tells apart */
#define GOAL_STEP_CPU 0u   /* where steps are; messages are on the others */

/* One dst on another rank. */
typedef struct goal_transfer {
    uint32_t lane, step, to;
    uint32_t cpu, nic;
    uint32_t tag_first; /* of chunk 0 */
} goal_transfer_t;

/* Who shows a semaphore. */
typedef struct goal_source {
    uint32_t transfer; /* by its arrival; PLAN_NONE: by the step itself */
    uint32_t lane, step;
} goal_source_t;

typedef struct goal {
    const topo_t *topo;
    const lane_geometry_t *geometry;
    const lane_program_t *program;
    double reduce_GBps;
    FILE *out;
    goal_transfer_t *transfers; /* in the order of the lanes' steps and their dsts */
    uint32_t transfer_count;
    uint32_t *step_transfer; /* per step: its first transfer */
    goal_source_t *sources;  /* per semaphore */
    uint32_t *first, *last;  /* per link: its number among those that paths begin with, and end with, from 1
                                on; 0: not numbered yet */
    uint32_t firsts, lasts;
} goal_t;

/* ---- what the program holds ---- */

static uint32_t goal_chunks(const goal_t *goal, uint32_t lane)
{
    return goal->geometry->channels[goal->program->lanes[lane].channel].chunks;
}

static uint64_t goal_bytes(const goal_t *goal, uint32_t lane, uint32_t step, uint32_t chunk)
{
    return lane_span(goal->geometry, goal->program->lanes[lane].channel, goal->program->steps[step].part,
                     chunk)
        .bytes;
}

static uint32_t goal_number(uint32_t *numbers, uint32_t *count, uint32_t link)
{
    if (numbers[link] == 0)
        numbers[link] = ++*count;
    return numbers[link] - 1;
}

/* By the link on which a chunk leaves its device, and by that on which it comes to the other one. */
static goal_transfer_t goal_transfer(goal_t *goal, const lane_operand_t *dst)
{
    const lane_path_t *path = &goal->program->paths[dst->path];
    const uint32_t *links = &goal->program->path_links[path->link_first];
    uint32_t first = goal_number(goal->first, &goal->firsts, links[0]);
    uint32_t last = goal_number(goal->last, &goal->lasts, links[path->link_count - 1]);
    return (goal_transfer_t){
        .to = dst->rank, .cpu = GOAL_STEP_CPU + 1 + last % (GOAL_UNITS - 1), .nic = first % GOAL_UNITS};
}

static blink_result_t goal_note_step(goal_t *goal, uint32_t lane, uint32_t index, uint64_t *tags)
{
    const lane_step_t *step = &goal->program->steps[index];
    goal->step_transfer[index] = goal->transfer_count;
    for (uint32_t i = 0; i < step->signal_count; i++)
        goal->sources[goal->program->signals[step->signal_first + i].semaphore] =
            (goal_source_t){PLAN_NONE, lane, index};
    for (uint32_t dst = 0; dst < step->dst_count; dst++) {
        const lane_operand_t *operand = &goal->program->operands[step->dst_first + dst];
        if (operand->path == PLAN_NONE)
            continue;
        for (uint32_t i = 0; i < step->signal_count; i++) {
            const lane_signal_t *signal = &goal->program->signals[step->signal_first + i];
            if (signal->dst == dst)
                goal->sources[signal->semaphore].transfer = goal->transfer_count;
        }
        goal_transfer_t *transfer = &goal->transfers[goal->transfer_count++];
        *transfer = goal_transfer(goal, operand);
        transfer->lane = lane;
        transfer->step = index;
        transfer->tag_first = (uint32_t)*tags;
        *tags += goal_chunks(goal, lane);
        if (*tags > UINT32_MAX)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "more chunks than the %u tags that GOAL has",
                              UINT32_MAX);
    }
    return BLINK_OK;
}

static blink_result_t goal_init(goal_t *goal)
{
    const lane_program_t *program = goal->program;
    goal->transfers = calloc((size_t)program->operand_count + 1, sizeof(*goal->transfers));
    goal->step_transfer = calloc((size_t)program->step_count + 1, sizeof(*goal->step_transfer));
    goal->first = calloc((size_t)goal->topo->link_count + 1, sizeof(*goal->first));
    goal->last = calloc((size_t)goal->topo->link_count + 1, sizeof(*goal->last));
    goal->sources = calloc((size_t)program->semaphore_count + 1, sizeof(*goal->sources));
    blink_result_t result = BLINK_OK;
    if (!goal->transfers || !goal->step_transfer || !goal->first || !goal->last || !goal->sources)
        result =
            BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to write a schedule of %u steps", program->step_count);
    uint64_t tags = 0;
    for (uint32_t i = 0; result == BLINK_OK && i < program->lane_count; i++) {
        const lane_t *lane = &program->lanes[i];
        for (uint32_t step = 0; result == BLINK_OK && step < lane->step_count; step++)
            result = goal_note_step(goal, i, lane->step_first + step, &tags);
    }
    return result;
}

static void goal_fini(goal_t *goal)
{
    free(goal->transfers);
    free(goal->step_transfer);
    free(goal->first);
    free(goal->last);
    free(goal->sources);
}

/* ---- one rank ---- */

static void goal_write_receives(const goal_t *goal, uint32_t rank)
{
    for (uint32_t i = 0; i < goal->transfer_count; i++) {
        const goal_transfer_t *transfer = &goal->transfers[i];
        if (transfer->to != rank)
            continue;
        for (uint32_t chunk = 0; chunk < goal_chunks(goal, transfer->lane); chunk++) {
            uint64_t bytes = goal_bytes(goal, transfer->lane, transfer->step, chunk);
            if (bytes > 0)
                fprintf(goal->out, "r%uc%u: recv %llub from %u tag %u\n", i, chunk, (unsigned long long)bytes,
                        goal->program->lanes[transfer->lane].rank, transfer->tag_first + chunk);
        }
    }
}

/* A step's calc and its sends. 1 GB/s is a byte per nanosecond. */
static void goal_write_work(const goal_t *goal, uint32_t lane, uint32_t index, uint32_t chunk)
{
    const lane_step_t *step = &goal->program->steps[index];
    uint64_t bytes = goal_bytes(goal, lane, index, chunk);
    double read_bytes = step->src_count > 1 ? (double)bytes * step->src_count : 0;
    fprintf(goal->out, "w%uc%u: calc %.0f cpu %u\n", index, chunk, ceil(read_bytes / goal->reduce_GBps),
            GOAL_STEP_CPU);
    for (uint32_t i = goal->step_transfer[index];
         bytes > 0 && i < goal->transfer_count && goal->transfers[i].step == index; i++)
        fprintf(goal->out, "s%uc%u: send %llub to %u tag %u cpu %u nic %u\n", i, chunk,
                (unsigned long long)bytes, goal->transfers[i].to, goal->transfers[i].tag_first + chunk,
                goal->transfers[i].cpu, goal->transfers[i].nic);
}

static void goal_write_wait(const goal_t *goal, const lane_wait_t *wait, uint32_t lane, uint32_t index,
                            uint32_t chunk)
{
    const goal_source_t *source = &goal->sources[wait->semaphore];
    uint32_t slots = wait->kind == LANE_FREE ? goal->geometry->slots : 0;
    if (chunk < slots)
        return;
    uint32_t needed = chunk - slots;
    bool here = goal->program->lanes[source->lane].rank == goal->program->lanes[lane].rank;
    if (source->transfer == PLAN_NONE && here)
        fprintf(goal->out, "w%uc%u requires w%uc%u\n", index, chunk, source->step, needed);
    else if (source->transfer != PLAN_NONE && goal_bytes(goal, source->lane, source->step, needed) > 0)
        fprintf(goal->out, "w%uc%u requires r%uc%u\n", index, chunk, source->transfer, needed);
}

static void goal_write_requires(const goal_t *goal, uint32_t lane, uint32_t index, uint32_t chunk)
{
    const lane_t *of = &goal->program->lanes[lane];
    const lane_step_t *step = &goal->program->steps[index];
    if (index > of->step_first)
        fprintf(goal->out, "w%uc%u requires w%uc%u\n", index, chunk, index - 1, chunk);
    else if (chunk > 0)
        fprintf(goal->out, "w%uc%u requires w%uc%u\n", index, chunk, index + of->step_count - 1, chunk - 1);
    for (uint32_t i = 0; i < step->wait_count; i++)
        goal_write_wait(goal, &goal->program->waits[step->wait_first + i], lane, index, chunk);
    bool moves = goal_bytes(goal, lane, index, chunk) > 0;
    for (uint32_t i = goal->step_transfer[index];
         moves && i < goal->transfer_count && goal->transfers[i].step == index; i++)
        fprintf(goal->out, "s%uc%u requires w%uc%u\n", i, chunk, index, chunk);
}

typedef void goal_writer_t(const goal_t *goal, uint32_t lane, uint32_t index, uint32_t chunk);

static void goal_each_step(const goal_t *goal, uint32_t rank, goal_writer_t *write)
{
    for (uint32_t i = 0; i < goal->program->lane_count; i++) {
        const lane_t *lane = &goal->program->lanes[i];
        if (lane->rank != rank)
            continue;
        for (uint32_t chunk = 0; chunk < goal_chunks(goal, i); chunk++)
            for (uint32_t step = 0; step < lane->step_count; step++)
                write(goal, i, lane->step_first + step, chunk);
    }
}

blink_result_t goal_write(const topo_t *topo, const lane_geometry_t *geometry, double reduce_GBps, FILE *out)
{
    if (!(reduce_GBps > 0))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "devices that reduce at %g GB/s", reduce_GBps);
    if (geometry->program->multicast)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "GOAL has no word for switches that reduce and copy");
    BLINK_TRY(sim_check_step_count(sim_step_count(geometry)));
    goal_t goal = {.topo = topo,
                   .geometry = geometry,
                   .program = geometry->program,
                   .reduce_GBps = reduce_GBps,
                   .out = out};
    blink_result_t result = goal_init(&goal);
    if (result == BLINK_OK)
        fprintf(out, "num_ranks %u\n", goal.program->rank_count);
    for (uint32_t rank = 0; result == BLINK_OK && rank < goal.program->rank_count; rank++) {
        fprintf(out, "rank %u {\n", rank);
        goal_write_receives(&goal, rank);
        /* A label must be known before a dependency names it. */
        goal_each_step(&goal, rank, goal_write_work);
        goal_each_step(&goal, rank, goal_write_requires);
        fputs("}\n", out);
    }
    goal_fini(&goal);
    return result;
}
