/* Which moves are wires', from where they send, and what the processors are left with. lane.h has the rules.
 */
#include "plan/lane/lane_wire.h"

#include "base/vec.h"
#include "collective.h"
#include "error.h"
#include "plan/lane/lane_build.h"
#include "plan/lane/lane_number.h"

#include <stdlib.h>
#include <string.h>

/* From where the moves of a step are sent. */
typedef enum origin {
    FROM_INPUT,  /* the only source, and nobody tells when it is there */
    FROM_OUTPUT, /* the only source, which has come from elsewhere */
    FROM_SLOT,   /* the only source, and nobody else reads it: the step is the wire's */
    FROM_RESULT, /* the rank's output, which the step writes */
    FROM_COPY,   /* a send slot, which the step writes too */
} origin_t;

/* A step of a wire lane. PLAN_NONE stands for semaphores that it does not have. */
typedef struct move {
    uint32_t from_host, to_host;
    uint32_t lane;    /* of the processor, in the program that is split */
    uint32_t to_rank; /* these four are the wire lane */
    uint32_t order;   /* of the step among all */
    uint32_t part;
    lane_operand_t src, dst;
    uint32_t ready, read; /* the source has come; it has been read */
    uint32_t credit;      /* the destination is free */
    uint32_t full;        /* the destination has come */
} move_t;

typedef struct splitter {
    const lane_program_t *whole; /* what is split */
    const lane_hosts_t *hosts;
    lane_builder_t builder;
    VEC(move_t) moves;
    uint32_t *twin_first, *twin_count; /* by semaphore: others that tell the same to wire lanes */
    uint32_t *buffers;                 /* by edge of the program's own: where its slots lie */
    uint32_t semaphores, edges;        /* numbered so far */
} splitter_t;

/* A step with something to send. */
typedef struct sending {
    const lane_t *lane;
    const lane_step_t *step;
    uint32_t index; /* of the step */
    uint32_t wires; /* destinations on other hosts */
    origin_t origin;
    bool vanishes;
} sending_t;

static bool is_remote(const splitter_t *splitter, const lane_t *lane, const lane_operand_t *dst)
{
    return splitter->hosts->of_rank[lane->rank] != splitter->hosts->of_rank[dst->rank];
}

static const lane_operand_t *src_of(const splitter_t *splitter, const lane_step_t *step, uint32_t index)
{
    return &splitter->whole->operands[step->src_first + index];
}

static const lane_operand_t *dst_of(const splitter_t *splitter, const lane_step_t *step, uint32_t index)
{
    return &splitter->whole->operands[step->dst_first + index];
}

/* The semaphore that the step waits for on account of an operand, or PLAN_NONE. */
static uint32_t wait_for(const splitter_t *splitter, const lane_step_t *step, lane_wait_kind_t kind,
                         uint32_t operand)
{
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &splitter->whole->waits[step->wait_first + i];
        if (wait->kind == (uint32_t)kind && wait->operand == operand)
            return wait->semaphore;
    }
    return PLAN_NONE;
}

/* The semaphore by which the step announces a destination, or with PLAN_NONE that it has read its one source;
 * or PLAN_NONE. */
static uint32_t signal_of(const splitter_t *splitter, const lane_step_t *step, uint32_t dst)
{
    for (uint32_t i = 0; i < step->signal_count; i++) {
        const lane_signal_t *signal = &splitter->whole->signals[step->signal_first + i];
        if (signal->dst == dst)
            return signal->semaphore;
    }
    return PLAN_NONE;
}

static bool writes_own_output(const splitter_t *splitter, const lane_t *lane, const lane_step_t *step)
{
    for (uint32_t i = 0; i < step->dst_count; i++) {
        const lane_operand_t *dst = dst_of(splitter, step, i);
        if (dst->buffer == LANE_OUTPUT && dst->rank == lane->rank)
            return true;
    }
    return false;
}

static origin_t origin_of(const splitter_t *splitter, const lane_t *lane, const lane_step_t *step)
{
    uint32_t buffer = step->src_count == 1 ? src_of(splitter, step, 0)->buffer : PLAN_NONE;
    bool scaled = splitter->hosts->scales_inputs && collective_reduces(splitter->whole->collective);
    if ((buffer == LANE_SCRATCH || buffer == LANE_LANDING) && step->dst_count == 1)
        return FROM_SLOT;
    if (splitter->hosts->keeps_to_slots)
        return FROM_COPY;
    if (buffer == LANE_INPUT && !scaled)
        return FROM_INPUT;
    if (buffer == LANE_OUTPUT)
        return FROM_OUTPUT;
    return writes_own_output(splitter, lane, step) ? FROM_RESULT : FROM_COPY;
}

static sending_t look_at(const splitter_t *splitter, const lane_t *lane, uint32_t index)
{
    const lane_step_t *step = &splitter->whole->steps[index];
    sending_t sending = {.lane = lane, .step = step, .index = index};
    for (uint32_t i = 0; i < step->dst_count; i++)
        sending.wires += is_remote(splitter, lane, dst_of(splitter, step, i));
    if (sending.wires == 0)
        return sending;
    sending.origin = origin_of(splitter, lane, step);
    sending.vanishes = sending.wires == step->dst_count && sending.origin <= FROM_SLOT;
    return sending;
}

/* ---- what steps need of others ---- */

/* Of an output that wires read, each reader is told by a semaphore of its own. */
static void number_twins(splitter_t *splitter, const sending_t *sending)
{
    uint32_t full = wait_for(splitter, sending->step, LANE_FULL, 0);
    uint32_t twins = sending->wires - (sending->vanishes ? 1 : 0);
    splitter->twin_first[full] = splitter->semaphores;
    splitter->twin_count[full] = twins;
    splitter->semaphores += twins;
}

static void note_step(splitter_t *splitter, const sending_t *sending)
{
    const lane_step_t *step = sending->step;
    if (sending->wires == 0)
        return;
    if (sending->origin == FROM_OUTPUT)
        number_twins(splitter, sending);
    const lane_operand_t *src = src_of(splitter, step, 0);
    if (sending->origin == FROM_SLOT && src->buffer == LANE_SCRATCH)
        splitter->buffers[src->edge] = LANE_SEND;
}

static lane_operand_t placed(const splitter_t *splitter, const lane_operand_t *operand)
{
    lane_operand_t in_its_buffer = *operand;
    if (operand->buffer == LANE_SCRATCH)
        in_its_buffer.buffer = splitter->buffers[operand->edge];
    return in_its_buffer;
}

/* ---- steps of processors ---- */

/* Announce a destination to the waiter that there was and to the wires that read it too. */
static blink_result_t add_signals(splitter_t *splitter, lane_step_t *step, uint32_t semaphore, uint32_t dst)
{
    BLINK_TRY(lane_add_signal(&splitter->builder, step, semaphore, dst));
    for (uint32_t i = 0; i < splitter->twin_count[semaphore]; i++)
        BLINK_TRY(lane_add_signal(&splitter->builder, step, splitter->twin_first[semaphore] + i, dst));
    return BLINK_OK;
}

static blink_result_t add_sources(splitter_t *splitter, lane_step_t *step, const sending_t *sending)
{
    for (uint32_t i = 0; i < sending->step->src_count; i++)
        BLINK_TRY(
            lane_add_src(&splitter->builder, step, placed(splitter, src_of(splitter, sending->step, i))));
    for (uint32_t i = 0; i < sending->step->wait_count; i++) {
        const lane_wait_t *wait = &splitter->whole->waits[sending->step->wait_first + i];
        if (wait->kind == LANE_FULL)
            BLINK_TRY(lane_add_wait(&splitter->builder, step, wait->semaphore, LANE_FULL, wait->operand));
    }
    for (uint32_t i = 0; i < sending->step->signal_count; i++) {
        const lane_signal_t *signal = &splitter->whole->signals[sending->step->signal_first + i];
        if (signal->dst == PLAN_NONE)
            BLINK_TRY(lane_add_signal(&splitter->builder, step, signal->semaphore, PLAN_NONE));
    }
    return BLINK_OK;
}

static blink_result_t add_destination(splitter_t *splitter, lane_step_t *step, const sending_t *sending,
                                      uint32_t index)
{
    uint32_t free_slot = wait_for(splitter, sending->step, LANE_FREE, index);
    uint32_t full = signal_of(splitter, sending->step, index);
    if (free_slot != PLAN_NONE)
        BLINK_TRY(lane_add_wait(&splitter->builder, step, free_slot, LANE_FREE, step->dst_count));
    if (full != PLAN_NONE)
        BLINK_TRY(add_signals(splitter, step, full, step->dst_count));
    return lane_add_dst(&splitter->builder, step, placed(splitter, dst_of(splitter, sending->step, index)));
}

/* What the processor still writes by itself. */
static blink_result_t add_destinations(splitter_t *splitter, lane_step_t *step, const sending_t *sending)
{
    for (uint32_t i = 0; i < sending->step->dst_count; i++)
        if (!is_remote(splitter, sending->lane, dst_of(splitter, sending->step, i)))
            BLINK_TRY(add_destination(splitter, step, sending, i));
    return BLINK_OK;
}

/* ---- moves ---- */

/* Let the processor's step write a send slot for the move. */
static blink_result_t add_copy(splitter_t *splitter, lane_step_t *step, uint32_t rank, move_t *move)
{
    move->src = (lane_operand_t){LANE_SEND, rank, splitter->edges++, PLAN_NONE};
    move->ready = splitter->semaphores++;
    move->read = splitter->semaphores++;
    BLINK_TRY(lane_add_wait(&splitter->builder, step, move->read, LANE_FREE, step->dst_count));
    BLINK_TRY(lane_add_signal(&splitter->builder, step, move->ready, step->dst_count));
    return lane_add_dst(&splitter->builder, step, move->src);
}

/* Let the processor's step tell when the rank's output is written. */
static blink_result_t add_ready(splitter_t *splitter, lane_step_t *step, uint32_t rank, move_t *move)
{
    const lane_operand_t *dsts = &splitter->builder.program->operands[step->dst_first];
    uint32_t dst = 0;
    while (dsts[dst].buffer != LANE_OUTPUT || dsts[dst].rank != rank)
        dst++;
    move->src = dsts[dst];
    move->ready = splitter->semaphores++;
    return lane_add_signal(&splitter->builder, step, move->ready, dst);
}

/* Find the source of the move; `number` counts the moves of the step. */
static blink_result_t find_source(splitter_t *splitter, lane_step_t *step, const sending_t *sending,
                                  uint32_t number, move_t *move)
{
    uint32_t full = wait_for(splitter, sending->step, LANE_FULL, 0);
    move->src = placed(splitter, src_of(splitter, sending->step, 0));
    switch (sending->origin) {
    case FROM_INPUT:
        return BLINK_OK;
    case FROM_OUTPUT:
        if (sending->vanishes && number == 0)
            move->ready = full;
        else
            move->ready = splitter->twin_first[full] + number - (sending->vanishes ? 1 : 0);
        return BLINK_OK;
    case FROM_SLOT:
        move->ready = full;
        move->read = signal_of(splitter, sending->step, PLAN_NONE);
        return BLINK_OK;
    case FROM_RESULT:
        return add_ready(splitter, step, sending->lane->rank, move);
    case FROM_COPY:
        break;
    }
    return add_copy(splitter, step, sending->lane->rank, move);
}

static blink_result_t add_moves(splitter_t *splitter, lane_step_t *step, const sending_t *sending)
{
    const uint32_t *host = splitter->hosts->of_rank;
    uint32_t number = 0;
    for (uint32_t i = 0; i < sending->step->dst_count; i++) {
        const lane_operand_t *dst = dst_of(splitter, sending->step, i);
        if (!is_remote(splitter, sending->lane, dst))
            continue;
        move_t move = {.from_host = host[sending->lane->rank],
                       .to_host = host[dst->rank],
                       .lane = (uint32_t)(sending->lane - splitter->whole->lanes),
                       .to_rank = dst->rank,
                       .order = sending->index,
                       .part = sending->step->part,
                       .dst = placed(splitter, dst),
                       .ready = PLAN_NONE,
                       .read = PLAN_NONE,
                       .credit = wait_for(splitter, sending->step, LANE_FREE, i),
                       .full = signal_of(splitter, sending->step, i)};
        BLINK_TRY(find_source(splitter, step, sending, number++, &move));
        if (!vec_push(&splitter->moves, move))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu moves", splitter->moves.count + 1);
    }
    return BLINK_OK;
}

static blink_result_t split_step(splitter_t *splitter, const sending_t *sending)
{
    lane_step_t step = lane_begin_step(&splitter->builder, sending->step->part);
    step.completes = sending->step->completes;
    if (sending->vanishes)
        return add_moves(splitter, &step, sending);
    BLINK_TRY(add_sources(splitter, &step, sending));
    BLINK_TRY(add_destinations(splitter, &step, sending));
    BLINK_TRY(add_moves(splitter, &step, sending));
    return lane_add_step(&splitter->builder, &step);
}

static blink_result_t split_lane(splitter_t *splitter, const lane_t *whole)
{
    lane_t lane = *whole;
    lane.step_first = splitter->builder.program->step_count;
    for (uint32_t i = whole->step_first; i < whole->step_first + whole->step_count; i++) {
        sending_t sending = look_at(splitter, whole, i);
        BLINK_TRY(split_step(splitter, &sending));
    }
    lane.step_count = splitter->builder.program->step_count - lane.step_first;
    return lane.step_count > 0 ? lane_add_lane(&splitter->builder, &lane) : BLINK_OK;
}

/* ---- wire lanes ---- */

/* The moves of a wire lane adjoin, and the wire lanes from one host to another. */
static int compare_moves(const void *a, const void *b)
{
    const move_t *x = a, *y = b;
    const uint32_t keys[][2] = {{x->from_host, y->from_host},
                                {x->to_host, y->to_host},
                                {x->lane, y->lane},
                                {x->to_rank, y->to_rank},
                                {x->order, y->order}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static blink_result_t add_wire_step(splitter_t *splitter, const move_t *move)
{
    lane_builder_t *builder = &splitter->builder;
    lane_step_t step = lane_begin_step(builder, move->part);
    BLINK_TRY(lane_add_src(builder, &step, move->src));
    BLINK_TRY(lane_add_dst(builder, &step, move->dst));
    if (move->ready != PLAN_NONE)
        BLINK_TRY(lane_add_wait(builder, &step, move->ready, LANE_FULL, 0));
    if (move->credit != PLAN_NONE)
        BLINK_TRY(lane_add_wait(builder, &step, move->credit, LANE_FREE, 0));
    if (move->read != PLAN_NONE)
        BLINK_TRY(lane_add_signal(builder, &step, move->read, PLAN_NONE));
    if (move->full != PLAN_NONE)
        BLINK_TRY(add_signals(splitter, &step, move->full, 0));
    return lane_add_step(builder, &step);
}

static blink_result_t add_wire_lanes(splitter_t *splitter)
{
    const move_t *moves = splitter->moves.items, *end = moves + splitter->moves.count;
    lane_program_t *program = splitter->builder.program;
    while (moves < end) {
        const move_t *first = moves;
        lane_t lane = splitter->whole->lanes[first->lane];
        lane.to_rank = first->to_rank;
        lane.step_first = program->step_count;
        for (; moves < end && moves->lane == first->lane && moves->to_rank == first->to_rank; moves++)
            BLINK_TRY(add_wire_step(splitter, moves));
        lane.step_count = program->step_count - lane.step_first;
        BLINK_TRY(lane_add_lane(&splitter->builder, &lane));
        program->wire_count++;
    }
    return BLINK_OK;
}

/* ---- programs ---- */

static blink_result_t splitter_init(splitter_t *splitter)
{
    const lane_program_t *whole = splitter->whole;
    splitter->semaphores = whole->semaphore_count;
    splitter->edges = whole->edge_count;
    splitter->twin_first = calloc(whole->semaphore_count + 1u, sizeof(*splitter->twin_first));
    splitter->twin_count = calloc(whole->semaphore_count + 1u, sizeof(*splitter->twin_count));
    splitter->buffers = calloc(whole->edge_count + 1u, sizeof(*splitter->buffers));
    if (!splitter->twin_first || !splitter->twin_count || !splitter->buffers)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to split a program of %u steps", whole->step_count);
    for (uint32_t i = 0; i < whole->edge_count; i++)
        splitter->buffers[i] = LANE_SCRATCH;
    return BLINK_OK;
}

static blink_result_t split(splitter_t *splitter)
{
    const lane_program_t *whole = splitter->whole;
    BLINK_TRY(splitter_init(splitter));
    for (uint32_t l = 0; l < whole->lane_count; l++) {
        const lane_t *lane = &whole->lanes[l];
        for (uint32_t i = lane->step_first; i < lane->step_first + lane->step_count; i++) {
            sending_t sending = look_at(splitter, lane, i);
            note_step(splitter, &sending);
        }
    }
    for (uint32_t l = 0; l < whole->lane_count; l++)
        BLINK_TRY(split_lane(splitter, &whole->lanes[l]));
    if (splitter->moves.count > 0)
        qsort(splitter->moves.items, splitter->moves.count, sizeof(*splitter->moves.items), compare_moves);
    BLINK_TRY(add_wire_lanes(splitter));
    splitter->builder.program->semaphore_count = splitter->semaphores;
    return lane_number(splitter->builder.program, splitter->edges);
}

blink_result_t lane_wire_split(lane_program_t *program, const lane_hosts_t *hosts)
{
    lane_program_t whole = *program;
    size_t host_bytes = program->rank_count * sizeof(*program->rank_host);
    program->rank_host = malloc(host_bytes);
    if (!program->rank_host)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", program->rank_count);
    memcpy(program->rank_host, hosts->of_rank, host_bytes);
    program->lands_in_slots = hosts->lands_in_slots;
    lane_detach_built(program);
    splitter_t splitter = {.whole = &whole, .hosts = hosts, .builder = {.program = program}};
    blink_result_t result = split(&splitter);
    vec_free(&splitter.moves);
    free(splitter.twin_first);
    free(splitter.twin_count);
    free(splitter.buffers);
    lane_free_built(&whole);
    return result;
}
