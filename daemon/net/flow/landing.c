/* Flow numbers and memory of landings; what comes is found by its flow's number. */
#include "net/flow/landing.h"

#include <assert.h>

/* ---- flow numbers ---- */

void landings_init(landings_t *landings, uint32_t flows_most, landing_memory_t memory)
{
    *landings = (landings_t){.units_most = flows_most / LANDING_UNIT, .memory = memory};
}

void landings_destroy(landings_t *landings)
{
    vec_free(&landings->units);
}

/* The first of `wanted` adjoining free units in [from, to); `to` if there are none. */
static size_t find_free(const landings_t *landings, size_t from, size_t to, size_t wanted)
{
    size_t free = 0;
    for (size_t i = from; i < to; i++) {
        free = landings->units.items[i] ? 0 : free + 1;
        if (free == wanted)
            return i + 1 - wanted;
    }
    return to;
}

/* Make units_most at most, and about twice as many units as there are. */
static blink_result_t add_units(landings_t *landings, size_t wanted)
{
    size_t count = landings->units.count, left = landings->units_most - count;
    if (wanted > left)
        return BLINK_FAIL(BLINK_ERR_QUOTA,
                          "an op needs %zu more flow numbers of an endpoint that has %zu; wait for other ops",
                          wanted * LANDING_UNIT, landings->units_most * LANDING_UNIT);
    if (count > wanted)
        wanted = count < left ? count : left;
    if (!vec_reserve(&landings->units, count + wanted))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu flow numbers", wanted * LANDING_UNIT);
    while (landings->units.count < count + wanted)
        landings->units.items[landings->units.count++] = NULL;
    return BLINK_OK;
}

static blink_result_t take_units(landings_t *landings, landing_t *landing, size_t wanted)
{
    size_t count = landings->units.count, at = find_free(landings, landings->next_unit, count, wanted);
    if (at == count)
        at = find_free(landings, 0, count, wanted);
    if (at == count)
        BLINK_TRY(add_units(landings, wanted));
    for (size_t i = 0; i < wanted; i++)
        landings->units.items[at + i] = landing;
    landings->next_unit = at + wanted;
    landing->first_flow = (uint32_t)(at * LANDING_UNIT);
    return BLINK_OK;
}

static size_t units_of(const landing_t *landing)
{
    return (landing->flow_count + LANDING_UNIT - 1) / LANDING_UNIT;
}

static void give_units(landings_t *landings, const landing_t *landing)
{
    for (size_t i = 0; i < units_of(landing); i++)
        landings->units.items[landing->first_flow / LANDING_UNIT + i] = NULL;
}

/* ---- one landing ---- */

blink_result_t landing_lend(landings_t *landings, landing_t *landing, flow_receiver_t *flows,
                            uint32_t flow_count, uint64_t bytes)
{
    assert(flow_count > 0);
    *landing = (landing_t){.flow_count = flow_count, .unsettled = flow_count, .flows = flows, .bytes = bytes};
    BLINK_TRY(take_units(landings, landing, units_of(landing)));
    blink_result_t result =
        bytes > 0 ? landings->memory.take(landings->memory.context, bytes, &landing->memory) : BLINK_OK;
    if (result != BLINK_OK)
        give_units(landings, landing);
    return result;
}

void landing_give_memory(landings_t *landings, landing_t *landing)
{
    assert(landing_is_settled(landing));
    if (landing->memory)
        landings->memory.give(landings->memory.context, landing->memory, landing->bytes);
    landing->memory = NULL;
}

void landing_return(landings_t *landings, landing_t *landing)
{
    landing_give_memory(landings, landing);
    give_units(landings, landing);
    *landing = (landing_t){0};
}

static blink_result_t end_flows(landing_t *landing, const uint32_t *moves, uint32_t count,
                                blink_result_t (*end)(flow_receiver_t *flow, uint32_t moves))
{
    for (uint32_t i = 0; i < landing->flow_count; i++) {
        flow_receiver_t *flow = &landing->flows[i];
        if (flow_receiver_is_settled(flow))
            continue;
        blink_result_t result = end(flow, i < count ? moves[i] : 0);
        if (result != BLINK_OK)
            return BLINK_FAIL(result, "flow %u: %s", landing->first_flow + i, blink_error_text());
        landing->unsettled -= flow_receiver_is_settled(flow);
    }
    return BLINK_OK;
}

blink_result_t landing_agree(landing_t *landing, const uint32_t *moves, uint32_t count)
{
    assert(count <= landing->flow_count);
    return end_flows(landing, moves, count, flow_receiver_agree);
}

blink_result_t landing_fail(landing_t *landing, const uint32_t *sent, uint32_t count)
{
    if (count > landing->flow_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a FAIL names %u flows of a landing that has %u", count,
                          landing->flow_count);
    return end_flows(landing, sent, count, flow_receiver_fail);
}

bool landing_is_settled(const landing_t *landing)
{
    return landing->unsettled == 0;
}

void landing_fence(landing_t *landing)
{
    landing->is_shown = false;
    for (uint32_t i = 0; i < landing->flow_count; i++)
        flow_receiver_fence(&landing->flows[i]);
}

void landing_cut(landing_t *landing)
{
    for (uint32_t i = 0; i < landing->flow_count; i++)
        flow_receiver_cut(&landing->flows[i]);
    landing->unsettled = 0;
}

void landings_cut(landings_t *landings)
{
    for (size_t i = 0; i < landings->units.count; i++) {
        if (landings->units.items[i])
            landing_cut(landings->units.items[i]);
    }
}

/* ---- moves that come ---- */

static blink_result_t find_flow(const landings_t *landings, uint32_t number, landing_move_t *move)
{
    size_t unit = number / LANDING_UNIT;
    landing_t *landing = unit < landings->units.count ? landings->units.items[unit] : NULL;
    if (!landing || number - landing->first_flow >= landing->flow_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "flow %u: no op has this number", number);
    *move = (landing_move_t){.landing = landing, .flow = number - landing->first_flow};
    return BLINK_OK;
}

static blink_result_t claim(landing_move_t *move, uint32_t sequence)
{
    landing_t *landing = move->landing;
    move->sequence = sequence - landing->first_sequence;
    /* Sequences wrap around: half of them are earlier rounds. */
    if (landing->standing && (move->sequence > UINT32_MAX / 2 || landing_is_settled(landing))) {
        *move = (landing_move_t){0};
        return BLINK_OK;
    }
    blink_result_t result = flow_receiver_claim(&landing->flows[move->flow], move->sequence);
    if (result != BLINK_OK)
        return BLINK_FAIL(result, "flow %u, sequence %u: %s", landing->first_flow + move->flow, sequence,
                          blink_error_text());
    return BLINK_OK;
}

static blink_result_t find_place(const wire_frame_t *frame, landing_move_t *move)
{
    const landing_t *landing = move->landing;
    if (frame->place > landing->output_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "flow %u: place %u, and the op has %u outputs here",
                          frame->flow, frame->place, landing->output_count);
    landing_output_t place = frame->place > 0 ? landing->outputs[frame->place - 1]
                                              : (landing_output_t){landing->memory, landing->bytes};
    if (frame->bytes > place.bytes || frame->offset > place.bytes - frame->bytes)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "flow %u: %u bytes at offset %llu of place %u, which has %llu",
                          frame->flow, frame->bytes, (unsigned long long)frame->offset, frame->place,
                          (unsigned long long)place.bytes);
    if (place.address)
        move->address = (uint8_t *)place.address + frame->offset;
    return BLINK_OK;
}

blink_result_t landing_claim(landings_t *landings, const wire_frame_t *frame, landing_move_t *move)
{
    BLINK_TRY(find_flow(landings, frame->flow, move));
    BLINK_TRY(find_place(frame, move));
    return claim(move, frame->sequence);
}

blink_result_t landing_claim_immediate(landings_t *landings, uint32_t immediate, landing_move_t *move)
{
    BLINK_TRY(find_flow(landings, wire_immediate_flow(immediate), move));
    uint32_t arrived = move->landing->flows[move->flow].arrived;
    return claim(move, wire_immediate_sequence(immediate, move->landing->first_sequence + arrived));
}

uint32_t landing_arrive(const landing_move_t *move)
{
    flow_receiver_t *flow = &move->landing->flows[move->flow];
    uint32_t arrived = flow_receiver_arrive(flow, move->sequence);
    move->landing->unsettled -= flow_receiver_is_settled(flow);
    return arrived;
}
