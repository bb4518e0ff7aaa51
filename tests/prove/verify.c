/*
 * The symbolic run of a lane program: sets of contributions instead of bytes, vector clocks instead of time.
 * Each channel is run on its own, because channels share no memory and no semaphore.
 *
 * A lane's clock entry counts the steps it has executed, so the time of (lane, chunk, step) is known without
 * running, and so is whether a semaphore has reached a value: its only writer has executed the step that
 * stores it. What a wait learns is the writer's clock at that step.
 *
 * A write into another rank's memory may still be under way when its step is over. It has arrived, for an
 * observer whose clock includes the wait for a semaphore that announces just this destination.
 */
#include "verify.h"

#include "error.h"
#include "names.h"
#include "verify_blocks.h"
#include "verify_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A place in time: a step of a lane at a chunk. Lanes count within the channel. */
typedef struct moment {
    uint32_t lane, step, chunk; /* step: in the program */
} moment_t;

/* One span of a user's buffer, or one scratch slot. */
typedef struct location {
    bool written;   /* holds something */
    moment_t write; /* the last one; lane PLAN_NONE: before everything */
    uint32_t dst;   /* operand of that write */
    uint32_t part;  /* what it holds */
    uint32_t chunk;
} location_t;

/* A channel being run. Tables by lane have lane_count entries. */
typedef struct run {
    const lane_program_t *program;
    const lane_verify_options_t *options;
    const verify_shape_t *shape;
    uint32_t channel, lane_count;
    uint32_t *lanes;        /* by lane: which of the program's it is */
    uint32_t *local;        /* by lane of the program: which of the channel's it is */
    uint32_t *done;         /* by lane: steps executed, over all chunks */
    uint32_t *clocks;       /* by lane: its vector clock */
    size_t *first_moment;   /* by lane: where its moments begin in snapshots */
    uint32_t *snapshots;    /* by moment: the vector clock after it */
    verify_block_t *blocks; /* by part of the channel: what becomes of its block */
    size_t *first_input;    /* by part: its locations in the inputs of its contributors, by rank and chunk */
    size_t *first_output;   /* by part: likewise of its receivers */
    size_t location_count;
    location_t *locations;
    uint32_t *reads;  /* by location and lane: time of the last read since the last write; 0: none */
    uint8_t *counts;  /* by location and rank: how often its contribution is in, up to 255 */
    uint8_t *sum;     /* by rank: the result of the step in progress */
    const lane_t *at; /* the lane in progress */
    moment_t now;
    bool has_false_claim; /* a step says that it completes a reduction, and does not */
    moment_t false_claim; /* the first such */
} run_t;

static const lane_t *lane_at(const run_t *run, uint32_t lane)
{
    return &run->program->lanes[run->lanes[lane]];
}

/* ---- texts ---- */

enum { PLACE_BYTES = 64 };

static const char *place_text(const run_t *run, const lane_operand_t *operand, char text[PLACE_BYTES])
{
    static const char *const slots[] = {[LANE_SCRATCH] = "scratch",
                                        [LANE_SEND] = "send",
                                        [LANE_LANDING] = "landing",
                                        [LANE_SHARED] = "shared"};
    if (operand->buffer >= LANE_SCRATCH)
        snprintf(text, PLACE_BYTES, "%s edge %u slot %u", slots[operand->buffer], operand->edge,
                 run->now.chunk % run->options->slots);
    else
        snprintf(text, PLACE_BYTES, "the %s of rank %u", operand->buffer == LANE_INPUT ? "input" : "output",
                 operand->rank);
    return text;
}

/* Fail at the step in progress. `lane` is whom it clashes with, PLAN_NONE if nobody. */
static blink_result_t fail_at(const run_t *run, const char *verb, const lane_operand_t *operand,
                              const char *why, uint32_t lane)
{
    char place[PLACE_BYTES], other[PLACE_BYTES] = "";
    if (lane != PLAN_NONE) {
        const lane_t *with = lane_at(run, lane);
        snprintf(other, sizeof(other), " rank %u %s", with->rank, verify_phase_name(with->phase));
    }
    return BLINK_FAIL(BLINK_ERR_INTERNAL, "channel %u rank %u %s, chunk %u, step %u: %s %s, %s%s",
                      run->channel, run->at->rank, verify_phase_name(run->at->phase), run->now.chunk,
                      run->now.step - run->at->step_first, verb, place_text(run, operand, place), why, other);
}

/* ---- time ---- */

/* The lane's clock entry once it has executed the moment. 64 bits: a waiter's chunk may lie behind the last
 * one. */
static uint64_t time_of(const run_t *run, uint32_t lane, uint32_t step, uint64_t chunk)
{
    const lane_t *of = lane_at(run, lane);
    return chunk * of->step_count + (step - of->step_first) + 1;
}

static uint32_t *clock_of(const run_t *run, uint32_t lane)
{
    return &run->clocks[(size_t)lane * run->lane_count];
}

static uint32_t *snapshot_of(const run_t *run, uint32_t lane, uint64_t time)
{
    return &run->snapshots[(run->first_moment[lane] + (size_t)time - 1) * run->lane_count];
}

/* Whether the last write to a location has been completed as far as the lane in progress can know. */
static bool write_is_known(const run_t *run, const location_t *location)
{
    const uint32_t *clock = clock_of(run, run->now.lane);
    const moment_t *write = &location->write;
    if (write->lane == PLAN_NONE)
        return true;
    if (run->program->operands[location->dst].path == PLAN_NONE)
        return clock[write->lane] >= time_of(run, write->lane, write->step, write->chunk);
    const lane_step_t *step = &run->program->steps[write->step];
    for (uint32_t i = 0; i < step->signal_count; i++) {
        const lane_signal_t *signal = &run->program->signals[step->signal_first + i];
        const verify_end_t *waiter = &run->shape->waiters[signal->semaphore];
        if (signal->dst != location->dst - step->dst_first || waiter->lane == PLAN_NONE)
            continue;
        uint32_t lane = run->local[waiter->lane];
        uint64_t delay = waiter->kind == LANE_FREE ? run->options->slots : 0;
        if (clock[lane] >= time_of(run, lane, waiter->step, write->chunk + delay))
            return true;
    }
    return false;
}

/* The semaphore a lane's next step must still wait for, or PLAN_NONE. Joins what the satisfied waits tell. */
static uint32_t try_waits(const run_t *run)
{
    const lane_step_t *step = &run->program->steps[run->now.step];
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &run->program->waits[step->wait_first + i];
        uint32_t back = wait->kind == LANE_FREE ? run->options->slots : 0;
        if (run->now.chunk < back)
            continue;
        const verify_end_t *writer = &run->shape->writers[wait->semaphore];
        if (writer->lane == PLAN_NONE)
            return wait->semaphore;
        uint32_t lane = run->local[writer->lane];
        uint64_t time = time_of(run, lane, writer->step, run->now.chunk - back);
        if (run->done[lane] < time)
            return wait->semaphore;
        const uint32_t *told = snapshot_of(run, lane, time);
        uint32_t *clock = clock_of(run, run->now.lane);
        for (uint32_t l = 0; l < run->lane_count; l++)
            clock[l] = told[l] > clock[l] ? told[l] : clock[l];
    }
    return PLAN_NONE;
}

/* ---- memory ---- */

/* Whether a rank is the one, or one of all. */
static bool includes(uint32_t one_or_every, uint32_t rank)
{
    return one_or_every == PLAN_NONE || one_or_every == rank;
}

static uint32_t how_many(const run_t *run, uint32_t one_or_every)
{
    return one_or_every == PLAN_NONE ? run->program->rank_count : 1;
}

/* Whether the collective has this operand of a part. */
static bool exists(const run_t *run, const lane_operand_t *operand, uint32_t part)
{
    const verify_block_t *block = &run->blocks[part];
    switch ((lane_buffer_t)operand->buffer) {
    case LANE_INPUT:
        return includes(block->contributor, operand->rank);
    case LANE_OUTPUT:
        return includes(block->receiver, operand->rank);
    case LANE_SCRATCH:
    case LANE_SEND:
    case LANE_LANDING:
    case LANE_SHARED:
        break;
    }
    return true;
}

/* Of an operand that exists. In place, the input of a receiver is its output. */
static size_t location_of(const run_t *run, const lane_operand_t *operand, uint32_t part, uint32_t chunk)
{
    const verify_block_t *block = &run->blocks[part];
    uint32_t slots = run->options->slots, chunks = run->options->chunks;
    if (operand->buffer >= LANE_SCRATCH) {
        size_t first = run->location_count - (size_t)run->shape->channel_edges[run->channel] * slots;
        return first + (size_t)run->shape->edges[verify_edge_of(run->program, operand)].ordinal * slots +
               chunk % slots;
    }
    bool output = operand->buffer == LANE_OUTPUT ||
                  (run->options->in_place && includes(block->receiver, operand->rank));
    bool by_rank = (output ? block->receiver : block->contributor) == PLAN_NONE;
    size_t first = output ? run->first_output[part] : run->first_input[part];
    return first + (by_rank ? (size_t)operand->rank * chunks : 0) + chunk;
}

static size_t location_now(const run_t *run, const lane_operand_t *operand)
{
    return location_of(run, operand, run->program->steps[run->now.step].part, run->now.chunk);
}

static blink_result_t read_source(const run_t *run, const lane_operand_t *src, uint32_t part)
{
    if (!exists(run, src, part))
        return fail_at(run, "reads", src, "where its block does not stand", PLAN_NONE);
    size_t at = location_now(run, src);
    const location_t *location = &run->locations[at];
    if (!location->written)
        return fail_at(run, "reads", src, "which nothing has written", PLAN_NONE);
    if (!write_is_known(run, location) || (run->program->independent && location->write.lane != PLAN_NONE))
        return fail_at(run, "reads", src, "not known to have arrived from", location->write.lane);
    if (location->part != part || location->chunk != run->now.chunk)
        return fail_at(run, "reads", src, "which holds another chunk or part, written by",
                       location->write.lane);
    run->reads[at * run->lane_count + run->now.lane] = run->done[run->now.lane] + 1;
    const uint8_t *counts = &run->counts[at * run->program->rank_count];
    for (uint32_t rank = 0; rank < run->program->rank_count; rank++) {
        uint32_t sum = (uint32_t)run->sum[rank] + counts[rank];
        run->sum[rank] = (uint8_t)(sum < UINT8_MAX ? sum : UINT8_MAX);
    }
    return BLINK_OK;
}

/* Writes of one processor over one path arrive in order, so a lane may overwrite its own without hearing
 * back. What a wire carries may overtake. */
static bool follows_own_write(const run_t *run, const location_t *location, const lane_operand_t *dst)
{
    return run->at->to_rank == PLAN_NONE && location->write.lane == run->now.lane &&
           run->program->operands[location->dst].path == dst->path;
}

/* Steps of an independent program run in any order: what another one reads is never safe to write. */
static bool is_read_beside(const run_t *run, uint32_t lane, uint32_t read)
{
    bool own = lane == run->now.lane && read == run->done[lane] + 1;
    return run->program->independent && read != 0 && !own;
}

static blink_result_t write_destination(const run_t *run, uint32_t dst_index, uint32_t part)
{
    const lane_operand_t *dst = &run->program->operands[dst_index];
    size_t at = location_now(run, dst);
    location_t *location = &run->locations[at];
    const uint32_t *clock = clock_of(run, run->now.lane);
    uint32_t *reads = &run->reads[at * run->lane_count];
    if (!write_is_known(run, location) && !follows_own_write(run, location, dst))
        return fail_at(run, "overwrites", dst, "not known to have arrived from", location->write.lane);
    for (uint32_t lane = 0; lane < run->lane_count; lane++)
        if (reads[lane] > clock[lane] || is_read_beside(run, lane, reads[lane]))
            return fail_at(run, "overwrites", dst, "still to be read by", lane);
    if (run->program->independent && location->write.lane != PLAN_NONE)
        return fail_at(run, "overwrites", dst, "also written by", location->write.lane);
    memset(reads, 0, run->lane_count * sizeof(*reads));
    *location = (location_t){true, run->now, dst_index, part, run->now.chunk};
    memcpy(&run->counts[at * run->program->rank_count], run->sum, run->program->rank_count);
    return BLINK_OK;
}

/* A copy in place moves nothing, so it is no write. */
static bool moves_nothing(const run_t *run, const lane_step_t *step, const lane_operand_t *dst)
{
    return step->src_count == 1 &&
           location_now(run, dst) == location_now(run, &run->program->operands[step->src_first]);
}

/* Whether the step, whose sources have been summed, is the one that makes a reduction whole. */
static bool does_complete(const run_t *run, const lane_step_t *step)
{
    uint32_t ranks = run->program->rank_count;
    if (!verify_reduces(run->program->collective) || (step->src_count == 1 && ranks > 1))
        return false;
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (run->sum[rank] == 0)
            return false;
    return true;
}

static blink_result_t execute_step(run_t *run)
{
    const lane_step_t *step = &run->program->steps[run->now.step];
    uint32_t *clock = clock_of(run, run->now.lane);
    clock[run->now.lane] = run->done[run->now.lane] + 1;
    memset(run->sum, 0, run->program->rank_count);
    for (uint32_t i = 0; i < step->src_count; i++)
        BLINK_TRY(read_source(run, &run->program->operands[step->src_first + i], step->part));
    bool completes = does_complete(run, step);
    if (completes && !step->completes)
        return fail_at(run, "writes", &run->program->operands[step->dst_first],
                       "completes it and does not say so", PLAN_NONE);
    if (step->completes && !completes && !run->has_false_claim) {
        run->has_false_claim = true;
        run->false_claim = run->now;
    }
    for (uint32_t i = 0; i < step->dst_count; i++) {
        const lane_operand_t *dst = &run->program->operands[step->dst_first + i];
        if (!exists(run, dst, step->part))
            return fail_at(run, "writes", dst, "where its block does not go", PLAN_NONE);
        if (!moves_nothing(run, step, dst))
            BLINK_TRY(write_destination(run, step->dst_first + i, step->part));
    }
    run->done[run->now.lane]++;
    memcpy(snapshot_of(run, run->now.lane, run->done[run->now.lane]), clock,
           run->lane_count * sizeof(*clock));
    return BLINK_OK;
}

/* ---- running ---- */

static void select_lane(run_t *run, uint32_t lane)
{
    run->at = lane_at(run, lane);
    run->now = (moment_t){lane, run->at->step_first + run->done[lane] % run->at->step_count,
                          run->done[lane] / run->at->step_count};
}

static bool lane_ended(const run_t *run, uint32_t lane)
{
    return run->done[lane] == lane_at(run, lane)->step_count * run->options->chunks;
}

static blink_result_t check_ended(run_t *run)
{
    for (uint32_t lane = 0; lane < run->lane_count; lane++) {
        if (lane_ended(run, lane))
            continue;
        select_lane(run, lane);
        uint32_t semaphore = try_waits(run);
        bool signalled = run->shape->writers[semaphore].lane != PLAN_NONE;
        return BLINK_FAIL(
            BLINK_ERR_INTERNAL, "deadlock: channel %u rank %u %s, chunk %u, step %u waits for semaphore %u%s",
            run->channel, run->at->rank, verify_phase_name(run->at->phase), run->now.chunk,
            run->now.step - run->at->step_first, semaphore, signalled ? "" : ", which has no writer");
    }
    return BLINK_OK;
}

/* Any order will do (see the header); this one lets each lane run until it must wait. */
static blink_result_t run_lanes(run_t *run)
{
    bool progress = true;
    while (progress) {
        progress = false;
        for (uint32_t lane = 0; lane < run->lane_count; lane++) {
            while (!lane_ended(run, lane)) {
                select_lane(run, lane);
                if (try_waits(run) != PLAN_NONE)
                    break;
                BLINK_TRY(execute_step(run));
                progress = true;
            }
        }
    }
    return check_ended(run);
}

static blink_result_t check_output(const run_t *run, uint32_t rank, uint32_t part, uint32_t chunk)
{
    lane_operand_t output = {LANE_OUTPUT, rank, PLAN_NONE, PLAN_NONE};
    size_t at = location_of(run, &output, part, chunk);
    if (!run->locations[at].written)
        return BLINK_FAIL(BLINK_ERR_INTERNAL,
                          "channel %u part %u chunk %u: the output of rank %u is never written", run->channel,
                          part, chunk, rank);
    for (uint32_t from = 0; from < run->program->rank_count; from++) {
        uint32_t wanted = includes(run->blocks[part].contributor, from);
        uint32_t count = run->counts[at * run->program->rank_count + from];
        if (count != wanted)
            return BLINK_FAIL(
                BLINK_ERR_INTERNAL,
                "channel %u part %u chunk %u: the output of rank %u holds rank %u %u times, not %u",
                run->channel, part, chunk, rank, from, count, wanted);
    }
    return BLINK_OK;
}

static blink_result_t check_outputs(const run_t *run)
{
    for (uint32_t part = 0; part < run->program->channels[run->channel].part_count; part++) {
        for (uint32_t rank = 0; rank < run->program->rank_count; rank++) {
            if (!includes(run->blocks[part].receiver, rank))
                continue;
            for (uint32_t chunk = 0; chunk < run->options->chunks; chunk++)
                BLINK_TRY(check_output(run, rank, part, chunk));
        }
    }
    return BLINK_OK;
}

/* After the outputs, which say more clearly what is missing. */
static blink_result_t check_claims(run_t *run)
{
    if (!run->has_false_claim)
        return BLINK_OK;
    run->now = run->false_claim;
    run->at = lane_at(run, run->now.lane);
    const lane_step_t *step = &run->program->steps[run->now.step];
    return fail_at(run, "writes", &run->program->operands[step->dst_first],
                   "says that it completes it and does not", PLAN_NONE);
}

/* ---- set-up ---- */

static void *new_table(size_t rows, size_t columns, size_t entry_bytes)
{
    size_t entries;
    if (__builtin_mul_overflow(rows, columns, &entries))
        return NULL;
    return calloc(entries > 0 ? entries : 1, entry_bytes);
}

static void fill_input(const run_t *run, uint32_t rank, uint32_t part)
{
    lane_operand_t input = {LANE_INPUT, rank, PLAN_NONE, PLAN_NONE};
    for (uint32_t chunk = 0; chunk < run->options->chunks; chunk++) {
        size_t at = location_of(run, &input, part, chunk);
        run->locations[at] = (location_t){.written = true, .part = part, .chunk = chunk};
        run->counts[at * run->program->rank_count + rank] = 1;
    }
}

/* Inputs hold their rank's contribution from before everything. */
static void fill_inputs(const run_t *run)
{
    for (uint32_t part = 0; part < run->program->channels[run->channel].part_count; part++)
        for (uint32_t rank = 0; rank < run->program->rank_count; rank++)
            if (includes(run->blocks[part].contributor, rank))
                fill_input(run, rank, part);
    for (size_t at = 0; at < run->location_count; at++)
        run->locations[at].write.lane = PLAN_NONE;
}

/* Where each part's inputs and outputs begin; scratch comes last. */
static blink_result_t number_locations(run_t *run)
{
    const lane_channel_t *channel = &run->program->channels[run->channel];
    run->blocks = new_table(channel->part_count, 1, sizeof(*run->blocks));
    run->first_input = new_table(channel->part_count, 1, sizeof(*run->first_input));
    run->first_output = new_table(channel->part_count, 1, sizeof(*run->first_output));
    if (!run->blocks || !run->first_input || !run->first_output)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to verify %u parts", channel->part_count);
    size_t spans = 0;
    for (uint32_t i = 0; i < channel->part_count; i++) {
        run->blocks[i] = verify_block(run->program, run->program->parts[channel->part_first + i].block);
        run->first_input[i] = spans * run->options->chunks;
        spans += how_many(run, run->blocks[i].contributor);
        run->first_output[i] = spans * run->options->chunks;
        spans += how_many(run, run->blocks[i].receiver);
    }
    run->location_count =
        spans * run->options->chunks + (size_t)run->shape->channel_edges[run->channel] * run->options->slots;
    return BLINK_OK;
}

static blink_result_t number_lanes(run_t *run, size_t *moment_count)
{
    *moment_count = 0;
    for (uint32_t i = 0; i < run->program->lane_count; i++) {
        const lane_t *lane = &run->program->lanes[i];
        if (lane->channel != run->channel)
            continue;
        uint64_t moments = (uint64_t)lane->step_count * run->options->chunks;
        if (moments >= UINT32_MAX)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: %u steps over %u chunks are too many to verify",
                              i, lane->step_count, run->options->chunks);
        run->local[i] = run->lane_count;
        run->first_moment[run->lane_count] = *moment_count;
        run->lanes[run->lane_count++] = i;
        *moment_count += (size_t)moments;
    }
    return BLINK_OK;
}

static blink_result_t run_alloc(run_t *run)
{
    const lane_program_t *program = run->program;
    size_t moment_count;
    run->lanes = new_table(program->lane_count, 1, sizeof(*run->lanes));
    run->local = new_table(program->lane_count, 1, sizeof(*run->local));
    run->first_moment = new_table(program->lane_count, 1, sizeof(*run->first_moment));
    if (!run->lanes || !run->local || !run->first_moment)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to verify %u lanes", program->lane_count);
    BLINK_TRY(number_lanes(run, &moment_count));
    BLINK_TRY(number_locations(run));
    run->done = new_table(run->lane_count, 1, sizeof(*run->done));
    run->clocks = new_table(run->lane_count, run->lane_count, sizeof(*run->clocks));
    run->snapshots = new_table(moment_count, run->lane_count, sizeof(*run->snapshots));
    run->locations = new_table(run->location_count, 1, sizeof(*run->locations));
    run->reads = new_table(run->location_count, run->lane_count, sizeof(*run->reads));
    run->counts = new_table(run->location_count, program->rank_count, sizeof(*run->counts));
    run->sum = new_table(program->rank_count, 1, sizeof(*run->sum));
    if (!run->done || !run->clocks || !run->snapshots || !run->locations || !run->reads || !run->counts ||
        !run->sum)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to verify %u lanes over %u chunks", run->lane_count,
                          run->options->chunks);
    return BLINK_OK;
}

static void run_free(run_t *run)
{
    free(run->lanes);
    free(run->local);
    free(run->first_moment);
    free(run->blocks);
    free(run->first_input);
    free(run->first_output);
    free(run->done);
    free(run->clocks);
    free(run->snapshots);
    free(run->locations);
    free(run->reads);
    free(run->counts);
    free(run->sum);
}

static blink_result_t verify_channel(const lane_program_t *program, const lane_verify_options_t *options,
                                     const verify_shape_t *shape, uint32_t channel)
{
    run_t run = {.program = program, .options = options, .shape = shape, .channel = channel};
    blink_result_t result = run_alloc(&run);
    if (result == BLINK_OK) {
        fill_inputs(&run);
        result = run_lanes(&run);
    }
    if (result == BLINK_OK)
        result = check_outputs(&run);
    if (result == BLINK_OK)
        result = check_claims(&run);
    run_free(&run);
    return result;
}

blink_result_t lane_verify(const lane_program_t *program, const lane_verify_options_t *options)
{
    verify_shape_t shape;
    if (options->chunks == 0 || options->slots == 0)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "%u chunks in %u slots prove nothing", options->chunks,
                          options->slots);
    BLINK_TRY(verify_shape_init(program, &shape));
    blink_result_t result = BLINK_OK;
    if (options->in_place && !verify_has_in_place(program->collective))
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s has no form in place",
                            blink_name_collective(program->collective));
    for (uint32_t channel = 0; channel < program->channel_count && result == BLINK_OK; channel++)
        result = verify_channel(program, options, &shape, channel);
    if (result == BLINK_OK)
        result = verify_shape_check_ends(program, &shape);
    verify_shape_fini(&shape);
    return result;
}
