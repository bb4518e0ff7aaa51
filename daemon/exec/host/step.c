#include "exec/host/step.h"

#include "base/guard.h"
#include "exec/host/reduce/reduce.h"
#include "exec/host/slot_format.h"
#include "plan/model.h"

#include <assert.h>

static_assert(STEP_BLOCK_BYTES % SLOT_GRAIN_BYTES == 0 && STEP_BLOCK_BYTES % 8 == 0,
              "blocks are whole grains and elements");

/* Where an edge's slot for a chunk is in its landing. */
static void *step_landing_address(const host_instance_t *instance, uint32_t channel, uint32_t edge,
                                  uint32_t chunk)
{
    char *landing = instance->base.run.wires->landings[instance->edge_landing[edge]];
    return landing + lane_landing_offset(&instance->base.geometry, channel, edge, chunk);
}

void *step_address(const step_place_t *place, const lane_operand_t *operand)
{
    const host_instance_t *instance = place->instance;
    if (operand->buffer == LANE_LANDING)
        return step_landing_address(instance, place->channel, operand->edge, place->chunk);
    if (operand->buffer == LANE_SCRATCH || operand->buffer == LANE_SEND || operand->buffer == LANE_SHARED)
        return instance->scratch +
               lane_scratch_offset(&instance->base.geometry, place->channel, operand->edge, place->chunk);
    return (void *)exec_operand_address(&instance->base, place->channel, place->step->part, operand,
                                        place->span);
}

/* The epoch of the chunk in its slot: never 0, and greater than any that the slot has seen since it was
 * emptied. */
static uint64_t slot_epoch(const step_place_t *place)
{
    return place->instance->base.epoch_base + place->chunk + 1;
}

bool step_arrived(const step_place_t *place)
{
    const host_instance_t *instance = place->instance;
    for (uint32_t i = 0; i < place->step->src_count; i++) {
        const lane_operand_t *src = &instance->base.program->operands[place->step->src_first + i];
        if (step_is_flagged(instance->base.program, src) &&
            !slot_arrived(instance->base.program->protocol, step_address(place, src), place->span.bytes,
                          slot_epoch(place)))
            return false;
    }
    return true;
}

void step_count_operand(const host_instance_t *instance, const lane_operand_t *operand, uint64_t bytes)
{
    if (operand->path == PLAN_NONE)
        return;
    const lane_path_t path = lane_loaded_path(instance->base.program, operand);
    const uint32_t *links = &instance->base.program->path_links[path.link_first];
    for (uint32_t l = 0; l < path.link_count; l++)
        exec_count_link(&instance->base, links[0], links[l], bytes);
}

static pace_path_t step_path(const host_instance_t *instance, const lane_operand_t *operand)
{
    const lane_program_t *program = instance->base.program;
    if (operand->path == PLAN_NONE)
        return (pace_path_t){0};
    const lane_path_t path = lane_loaded_path(program, operand);
    const uint32_t *links = &program->path_links[path.link_first];
    return (pace_path_t){.links = links,
                         .link_count = path.link_count,
                         .own_link = exec_link_numbers(&instance->base, links[0])};
}

uint64_t step_alone_ns(const host_instance_t *instance, const lane_operand_t *operand, uint64_t bytes)
{
    const pace_path_t path = step_path(instance, operand);
    return pace_alone_ns(instance->exec->config.pace, &path, bytes);
}

pace_slot_t step_book_operand(host_instance_t *instance, const lane_operand_t *operand, uint64_t bytes,
                              uint64_t ready_ns)
{
    const pace_path_t path = step_path(instance, operand);
    if (instance->base.program->multicast)
        bytes = (uint64_t)((double)bytes / MODEL_MULTICAST_REACHED);
    pace_slot_t slot =
        pace_book(instance->exec->config.pace, instance->completion.share->flows, &path, bytes, ready_ns);
    if (slot.arrived_ns > instance->last_arrival_ns)
        instance->last_arrival_ns = slot.arrived_ns;
    return slot;
}

/* Inputs are multiplied once, as they are read from where the user left them. */
static const void **step_scalars(const host_instance_t *instance, const lane_operand_t *srcs,
                                 uint32_t src_count, const void **scalars)
{
    if (instance->base.run.redop != BLINK_PRE_MUL_SUM)
        return NULL;
    for (uint32_t i = 0; i < src_count; i++)
        scalars[i] = srcs[i].buffer == LANE_INPUT ? &instance->base.ranks[srcs[i].rank].scalar : NULL;
    return scalars;
}

static reduce_step_t step_reduction(const step_place_t *place, const step_workspace_t *work)
{
    const host_instance_t *instance = place->instance;
    const lane_step_t *step = place->step;
    const lane_operand_t *srcs = &instance->base.program->operands[step->src_first];
    void **src_addresses = work->addresses + step->dst_count;
    const void **scalars = (const void **)(src_addresses + step->src_count);
    bool divides = step->completes && instance->base.run.redop == BLINK_AVG;
    return (reduce_step_t){.dsts = work->addresses,
                           .srcs = (const void *const *)src_addresses,
                           .scalars = step_scalars(instance, srcs, step->src_count, scalars),
                           .dst_count = step->dst_count,
                           .src_count = step->src_count,
                           .datatype = instance->base.run.datatype,
                           .redop = instance->base.run.redop,
                           .divisor = divides ? instance->base.program->rank_count : 1,
                           .stream = instance->stream,
                           .bytes = place->span.bytes};
}

/* Put the addresses of one block of the step's operands into the workspace: what lies in slots with flags is
 * unpacked into blocks of the workspace, and what goes to such slots is made in the last of these blocks. */
static void step_lay_out(const step_place_t *place, const step_workspace_t *work, uint64_t at, uint64_t bytes)
{
    const host_instance_t *instance = place->instance;
    const lane_step_t *step = place->step;
    blink_protocol_t protocol = instance->base.program->protocol;
    for (uint32_t i = 0; i < step->dst_count; i++) {
        const lane_operand_t *dst = &instance->base.program->operands[step->dst_first + i];
        work->addresses[i] = step_is_flagged(instance->base.program, dst)
                                 ? work->blocks + (size_t)step->src_count * STEP_BLOCK_BYTES
                                 : (char *)step_address(place, dst) + at;
    }
    for (uint32_t i = 0; i < step->src_count; i++) {
        const lane_operand_t *src = &instance->base.program->operands[step->src_first + i];
        char *address = step_address(place, src);
        if (step_is_flagged(instance->base.program, src)) {
            char *block = work->blocks + (size_t)i * STEP_BLOCK_BYTES;
            slot_load(protocol, address + lane_format_bytes(protocol, at), block, bytes);
            address = block;
        } else {
            address += at;
        }
        work->addresses[step->dst_count + i] = address;
    }
}

/* A block at a time, so that what is unpacked stays in the first-level cache. */
static void step_move_flagged(const step_place_t *place, const step_workspace_t *work)
{
    const host_instance_t *instance = place->instance;
    const lane_step_t *step = place->step;
    blink_protocol_t protocol = instance->base.program->protocol;
    char *result = work->blocks + (size_t)step->src_count * STEP_BLOCK_BYTES;
    for (uint64_t at = 0; at < place->span.bytes; at += STEP_BLOCK_BYTES) {
        uint64_t left = place->span.bytes - at, bytes = left < STEP_BLOCK_BYTES ? left : STEP_BLOCK_BYTES;
        step_lay_out(place, work, at, bytes);
        reduce_step_t reduction = step_reduction(place, work);
        reduction.bytes = bytes;
        reduction.stream = false;
        reduce_apply(&reduction);
        for (uint32_t i = 0; i < step->dst_count; i++) {
            const lane_operand_t *dst = &instance->base.program->operands[step->dst_first + i];
            if (step_is_flagged(instance->base.program, dst))
                slot_store(protocol, (char *)step_address(place, dst) + lane_format_bytes(protocol, at),
                           result, bytes, slot_epoch(place));
        }
    }
}

typedef struct step_job {
    const step_place_t *place;
    const step_workspace_t *work;
} step_job_t;

/* Of guard_run(). */
static void step_move_bytes(void *context)
{
    const step_job_t *job = context;
    if (job->place->instance->base.program->protocol != BLINK_PROTOCOL_SIMPLE) {
        step_move_flagged(job->place, job->work);
        return;
    }
    step_lay_out(job->place, job->work, 0, job->place->span.bytes);
    reduce_step_t reduction = step_reduction(job->place, job->work);
    reduce_apply(&reduction);
}

bool step_move(const step_place_t *place, const step_workspace_t *work)
{
    const host_instance_t *instance = place->instance;
    const lane_step_t *step = place->step;
    const lane_operand_t *dsts = &instance->base.program->operands[step->dst_first];
    const lane_operand_t *srcs = &instance->base.program->operands[step->src_first];
    uint64_t wire_bytes = lane_format_bytes(instance->base.program->protocol, place->span.bytes);
    for (uint32_t i = 0; i < step->dst_count; i++)
        step_count_operand(instance, &dsts[i], wire_bytes);
    for (uint32_t i = 0; i < step->src_count; i++)
        step_count_operand(instance, &srcs[i], wire_bytes);
    return guard_run(step_move_bytes, &(step_job_t){place, work});
}
