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

struct goal_links {
    uint32_t *first, *last; /* per link: its number among those that paths begin with, and end with, from 1
                               on; 0: not numbered yet */
    uint32_t firsts, lasts;
};

struct goal {
    goal_links_t *links; /* while it is made */
    const lane_geometry_t *geometry;
    const lane_program_t *program;
    double reduce_GBps;
    uint64_t tag_count;
    const goal_place_t *place; /* while it is written, as the next */
    FILE *out;
    goal_transfer_t *transfers; /* in the order of the lanes' steps and their dsts */
    uint32_t transfer_count;
    uint32_t *step_transfer; /* per step: its first transfer */
    goal_source_t *sources;  /* per semaphore */
};

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
    uint32_t first = goal_number(goal->links->first, &goal->links->firsts, links[0]);
    uint32_t last = goal_number(goal->links->last, &goal->links->lasts, links[path->link_count - 1]);
    return (goal_transfer_t){
        .to = dst->rank, .cpu = GOAL_STEP_CPU + 1 + last % (GOAL_UNITS - 1), .nic = first % GOAL_UNITS};
}

static blink_result_t goal_note_step(goal_t *goal, uint32_t lane, uint32_t index)
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
        transfer->tag_first = (uint32_t)goal->tag_count;
        goal->tag_count += goal_chunks(goal, lane);
        if (goal->tag_count > UINT32_MAX)
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
    goal->sources = calloc((size_t)program->semaphore_count + 1, sizeof(*goal->sources));
    blink_result_t result = BLINK_OK;
    if (!goal->transfers || !goal->step_transfer || !goal->sources)
        result =
            BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to write a schedule of %u steps", program->step_count);
    for (uint32_t i = 0; result == BLINK_OK && i < program->lane_count; i++) {
        const lane_t *lane = &program->lanes[i];
        for (uint32_t step = 0; result == BLINK_OK && step < lane->step_count; step++)
            result = goal_note_step(goal, i, lane->step_first + step);
    }
    return result;
}

blink_result_t goal_links_create(const topo_t *topo, goal_links_t **created)
{
    goal_links_t *links = calloc(1, sizeof(*links));
    *created = links;
    if (links) {
        links->first = calloc((size_t)topo->link_count + 1, sizeof(*links->first));
        links->last = calloc((size_t)topo->link_count + 1, sizeof(*links->last));
        if (links->first && links->last)
            return BLINK_OK;
    }
    goal_links_destroy(links);
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to number %u links", topo->link_count);
}

void goal_links_destroy(goal_links_t *links)
{
    if (!links)
        return;
    free(links->first);
    free(links->last);
    free(links);
}

blink_result_t goal_create(goal_links_t *links, const lane_geometry_t *geometry, double reduce_GBps,
                           goal_t **created)
{
    if (!(reduce_GBps > 0))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "devices that reduce at %g GB/s", reduce_GBps);
    if (geometry->program->multicast)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "GOAL has no word for switches that reduce and copy");
    BLINK_TRY(sim_check_step_count(sim_step_count(geometry)));
    goal_t *goal = calloc(1, sizeof(*goal));
    if (!goal)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a schedule");
    *goal = (goal_t){
        .links = links, .geometry = geometry, .program = geometry->program, .reduce_GBps = reduce_GBps};
    blink_result_t result = goal_init(goal);
    if (result == BLINK_OK)
        *created = goal;
    else
        goal_destroy(goal);
    return result;
}

void goal_destroy(goal_t *goal)
{
    if (!goal)
        return;
    free(goal->transfers);
    free(goal->step_transfer);
    free(goal->sources);
    free(goal);
}

uint64_t goal_tag_count(const goal_t *goal)
{
    return goal->tag_count;
}

/* ---- one rank ---- */

static uint32_t goal_rank(const goal_t *goal, uint32_t rank)
{
    return goal->place->ranks ? goal->place->ranks[rank] : rank;
}

static uint32_t goal_tag(const goal_t *goal, const goal_transfer_t *transfer, uint32_t chunk)
{
    return goal->place->tag_first + transfer->tag_first + chunk;
}

static void goal_write_receives(const goal_t *goal, uint32_t rank)
{
    for (uint32_t i = 0; i < goal->transfer_count; i++) {
        const goal_transfer_t *transfer = &goal->transfers[i];
        if (transfer->to != rank)
            continue;
        for (uint32_t chunk = 0; chunk < goal_chunks(goal, transfer->lane); chunk++) {
            uint64_t bytes = goal_bytes(goal, transfer->lane, transfer->step, chunk);
            if (bytes > 0)
                fprintf(goal->out, "%sr%uc%u: recv %llub from %u tag %u\n", goal->place->prefix, i, chunk,
                        (unsigned long long)bytes, goal_rank(goal, goal->program->lanes[transfer->lane].rank),
                        goal_tag(goal, transfer, chunk));
        }
    }
}

/* A step's calc and its sends. 1 GB/s is a byte per nanosecond. */
static void goal_write_work(const goal_t *goal, uint32_t lane, uint32_t index, uint32_t chunk)
{
    const lane_step_t *step = &goal->program->steps[index];
    uint64_t bytes = goal_bytes(goal, lane, index, chunk);
    double read_bytes = step->src_count > 1 ? (double)bytes * step->src_count : 0;
    fprintf(goal->out, "%sw%uc%u: calc %.0f cpu %u\n", goal->place->prefix, index, chunk,
            ceil(read_bytes / goal->reduce_GBps), GOAL_STEP_CPU);
    for (uint32_t i = goal->step_transfer[index];
         bytes > 0 && i < goal->transfer_count && goal->transfers[i].step == index; i++)
        fprintf(goal->out, "%ss%uc%u: send %llub to %u tag %u cpu %u nic %u\n", goal->place->prefix, i, chunk,
                (unsigned long long)bytes, goal_rank(goal, goal->transfers[i].to),
                goal_tag(goal, &goal->transfers[i], chunk), goal->transfers[i].cpu, goal->transfers[i].nic);
}

/* The place of one label requires another one. */
static void goal_require(const goal_t *goal, char kind, uint32_t index, uint32_t chunk, char needed_kind,
                         uint32_t needed_index, uint32_t needed_chunk)
{
    fprintf(goal->out, "%s%c%uc%u requires %s%c%uc%u\n", goal->place->prefix, kind, index, chunk,
            goal->place->prefix, needed_kind, needed_index, needed_chunk);
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
        goal_require(goal, 'w', index, chunk, 'w', source->step, needed);
    else if (source->transfer != PLAN_NONE && goal_bytes(goal, source->lane, source->step, needed) > 0)
        goal_require(goal, 'w', index, chunk, 'r', source->transfer, needed);
}

static void goal_write_requires(const goal_t *goal, uint32_t lane, uint32_t index, uint32_t chunk)
{
    const lane_t *of = &goal->program->lanes[lane];
    const lane_step_t *step = &goal->program->steps[index];
    if (index > of->step_first)
        goal_require(goal, 'w', index, chunk, 'w', index - 1, chunk);
    else if (chunk > 0)
        goal_require(goal, 'w', index, chunk, 'w', index + of->step_count - 1, chunk - 1);
    for (uint32_t i = 0; i < step->wait_count; i++)
        goal_write_wait(goal, &goal->program->waits[step->wait_first + i], lane, index, chunk);
    bool moves = goal_bytes(goal, lane, index, chunk) > 0;
    for (uint32_t i = goal->step_transfer[index];
         moves && i < goal->transfer_count && goal->transfers[i].step == index; i++)
        goal_require(goal, 's', i, chunk, 'w', index, chunk);
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

/* ---- what stands before and behind a program ---- */

static bool goal_last_chunk(const goal_t *goal, uint32_t lane, uint32_t step, uint32_t *chunk)
{
    for (*chunk = goal_chunks(goal, lane); *chunk > 0;)
        if (goal_bytes(goal, lane, step, --*chunk) > 0)
            return true;
    return false;
}

static void goal_write_begin(const goal_t *goal, uint32_t rank)
{
    const goal_place_t *place = goal->place;
    for (uint32_t i = 0; i < goal->program->lane_count; i++) {
        const lane_t *lane = &goal->program->lanes[i];
        if (lane->rank == rank && lane->step_count > 0)
            fprintf(goal->out, "%sw%uc0 requires %s\n", place->prefix, lane->step_first, place->begin);
    }
}

/* Chunks follow each other, so the last ones are enough: of lanes, and of transfers from and to the rank. */
static void goal_write_end(const goal_t *goal, uint32_t rank)
{
    const goal_place_t *place = goal->place;
    uint32_t chunk;
    for (uint32_t i = 0; i < goal->program->lane_count; i++) {
        const lane_t *lane = &goal->program->lanes[i];
        if (lane->rank == rank && lane->step_count > 0)
            fprintf(goal->out, "%s requires %sw%uc%u\n", place->end, place->prefix,
                    lane->step_first + lane->step_count - 1, goal_chunks(goal, i) - 1);
    }
    for (uint32_t i = 0; i < goal->transfer_count; i++) {
        const goal_transfer_t *transfer = &goal->transfers[i];
        bool sends = goal->program->lanes[transfer->lane].rank == rank;
        if ((sends || transfer->to == rank) && goal_last_chunk(goal, transfer->lane, transfer->step, &chunk))
            fprintf(goal->out, "%s requires %s%c%uc%u\n", place->end, place->prefix, sends ? 's' : 'r', i,
                    chunk);
    }
}

void goal_write_rank(goal_t *goal, const goal_place_t *place, uint32_t rank, FILE *out)
{
    goal->place = place;
    goal->out = out;
    goal_write_receives(goal, rank);
    /* A label must be known before a dependency names it. */
    goal_each_step(goal, rank, goal_write_work);
    goal_each_step(goal, rank, goal_write_requires);
    if (place->begin)
        goal_write_begin(goal, rank);
    if (place->end)
        goal_write_end(goal, rank);
}

blink_result_t goal_write(const topo_t *topo, const lane_geometry_t *geometry, double reduce_GBps, FILE *out)
{
    const goal_place_t place = {.prefix = ""};
    goal_links_t *links;
    goal_t *goal = NULL;
    BLINK_TRY(goal_links_create(topo, &links));
    blink_result_t result = goal_create(links, geometry, reduce_GBps, &goal);
    if (result == BLINK_OK)
        fprintf(out, "num_ranks %u\n", geometry->program->rank_count);
    for (uint32_t rank = 0; result == BLINK_OK && rank < geometry->program->rank_count; rank++) {
        fprintf(out, "rank %u {\n", rank);
        goal_write_rank(goal, &place, rank, out);
        fputs("}\n", out);
    }
    goal_destroy(goal);
    goal_links_destroy(links);
    return result;
}
