#include "exec/cuda/image.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

/* Slots begin on lines of LL128. */
#define SCRATCH_ALIGNMENT 128u

bool image_only_moves(const lane_program_t *program)
{
    for (uint32_t s = 0; s < program->step_count; s++) {
        if (program->steps[s].src_count != 1)
            return false;
    }
    return true;
}

/* ---- wires ---- */

static void number_semaphore(image_wires_t *wires, uint32_t semaphore)
{
    if (wires->place[semaphore] == PLAN_NONE)
        wires->place[semaphore] = wires->count++;
}

/* Of the semaphores of wires, marked so far, those that a lane of a processor raises. */
static void number_watched(const lane_program_t *program, image_wires_t *wires, const bool *of_wires)
{
    for (uint32_t l = 0; l < program->lane_count - program->wire_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_step_t *step = &program->steps[s];
            for (uint32_t i = step->signal_first; i < step->signal_first + step->signal_count; i++)
                if (of_wires[program->signals[i].semaphore])
                    number_semaphore(wires, program->signals[i].semaphore);
        }
    }
    wires->watched = wires->count;
}

static void mark_semaphores(const lane_program_t *program, bool *of_wires)
{
    for (uint32_t l = program->lane_count - program->wire_count; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_step_t *step = &program->steps[s];
            for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++)
                of_wires[program->waits[i].semaphore] = true;
            for (uint32_t i = step->signal_first; i < step->signal_first + step->signal_count; i++)
                of_wires[program->signals[i].semaphore] = true;
        }
    }
}

blink_result_t image_wires_init(const lane_program_t *program, image_wires_t *wires)
{
    *wires = (image_wires_t){
        .place = malloc((program->semaphore_count + 1u) * sizeof(*wires->place)),
        .area = calloc(program->landing_edge_count + 1u, sizeof(*wires->area)),
    };
    bool *of_wires = calloc(program->semaphore_count + 1u, sizeof(*of_wires));
    if (!wires->place || !wires->area || !of_wires) {
        free(of_wires);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u semaphores", program->semaphore_count);
    }
    for (uint32_t i = 0; i < program->semaphore_count; i++)
        wires->place[i] = PLAN_NONE;
    mark_semaphores(program, of_wires);
    number_watched(program, wires, of_wires);
    for (uint32_t i = 0; i < program->semaphore_count; i++)
        if (of_wires[i])
            number_semaphore(wires, i);
    free(of_wires);
    for (uint32_t i = 0; i < program->landing_count; i++)
        for (uint32_t e = 0; e < program->landings[i].edge_count; e++)
            wires->area[program->landings[i].edge_first + e] = i;
    return BLINK_OK;
}

void image_wires_fini(image_wires_t *wires)
{
    free(wires->place);
    free(wires->area);
}

/* ---- the lists of a program ---- */

/* The rank that receives by each edge: the one whose scratch its operands name; PLAN_NONE: send slots. */
static blink_result_t find_receivers(const lane_program_t *program, uint32_t **receivers)
{
    *receivers = calloc(program->edge_count + 1u, sizeof(**receivers));
    if (!*receivers)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u edges", program->edge_count);
    for (uint32_t i = 0; i < program->operand_count; i++) {
        const lane_operand_t *operand = &program->operands[i];
        if (operand->buffer == LANE_SCRATCH || operand->buffer == LANE_SHARED)
            (*receivers)[operand->edge] = operand->rank;
        else if (operand->buffer == LANE_SEND && operand->edge != PLAN_NONE)
            (*receivers)[operand->edge] = PLAN_NONE;
    }
    return BLINK_OK;
}

/* The rank that waits for each semaphore. */
static blink_result_t find_waiters(const lane_program_t *program, uint32_t **waiters)
{
    *waiters = calloc(program->semaphore_count + 1u, sizeof(**waiters));
    if (!*waiters)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u semaphores", program->semaphore_count);
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = 0; s < lane->step_count; s++) {
            const lane_step_t *step = &program->steps[lane->step_first + s];
            for (uint32_t w = 0; w < step->wait_count; w++)
                (*waiters)[program->waits[step->wait_first + w].semaphore] = lane->rank;
        }
    }
    return BLINK_OK;
}

/* In the binding the parts of all channels are numbered in one row. */
static void flatten_steps(const lane_program_t *program, lane_abi_step_t *steps)
{
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        uint32_t part_first = program->channels[lane->channel].part_first;
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_step_t *from = &program->steps[s];
            steps[s] = (lane_abi_step_t){.part = part_first + from->part,
                                         .src_first = from->src_first,
                                         .src_count = from->src_count,
                                         .dst_first = from->dst_first,
                                         .dst_count = from->dst_count,
                                         .wait_first = from->wait_first,
                                         .wait_count = from->wait_count,
                                         .signal_first = from->signal_first,
                                         .signal_count = from->signal_count,
                                         .completes = from->completes};
        }
    }
}

/* What flattening goes by. */
typedef struct flattening {
    const lane_program_t *program;
    const image_wires_t *wires;
    const cuda_reach_t *reach;
    uint32_t *waiters;
    uint32_t *own_rank; /* by rank: its number among those of this host; PLAN_NONE of others, which only wire
                           lanes name */
    const uint32_t *rank_gpu;
    uint32_t gpu_count;
} flattening_t;

static blink_result_t number_ranks(flattening_t *f)
{
    uint32_t count = 0, rank_count = f->program->rank_count;
    f->own_rank = malloc((rank_count + 1u) * sizeof(*f->own_rank));
    if (!f->own_rank)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", rank_count);
    for (uint32_t i = 0; i < rank_count; i++)
        f->own_rank[i] = f->rank_gpu[i] != GPU_NONE ? count++ : PLAN_NONE;
    if (count > LANE_ABI_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "%u ranks on one host: a collective on GPUs can have %u there", count,
                          LANE_ABI_RANKS_MAX);
    return BLINK_OK;
}

static void flatten_lanes(const flattening_t *f, uint32_t *lane_first, uint32_t *lane_count,
                          lane_abi_lane_t *lanes)
{
    const lane_program_t *program = f->program;
    uint32_t used = 0;
    for (uint32_t gpu = 0; gpu < f->gpu_count; gpu++) {
        lane_first[gpu] = used;
        for (uint32_t l = 0; l < program->lane_count; l++) {
            const lane_t *lane = &program->lanes[l];
            if (image_is_processors(lane) && f->rank_gpu[lane->rank] == gpu && lane->step_count > 0)
                lanes[used++] = (lane_abi_lane_t){lane->channel, f->own_rank[lane->rank], lane->step_first,
                                                  lane->step_count};
        }
        lane_count[gpu] = used - lane_first[gpu];
    }
}

static lane_abi_operand_t flatten_operand(const flattening_t *f, const lane_operand_t *from)
{
    lane_abi_operand_t operand = {.buffer = from->buffer, .rank = f->own_rank[from->rank]};
    if (from->buffer < LANE_SCRATCH || from->edge == PLAN_NONE)
        return operand;
    operand.edge = from->edge;
    if (from->buffer == LANE_SHARED) /* what a switch touches has a way there */
        operand.buffer = from->path == PLAN_NONE ? LANE_ABI_SCRATCH : LANE_ABI_SWITCH;
    if (from->buffer == LANE_SEND)
        operand.rank = f->program->landing_count; /* its area comes behind the landings */
    if (from->buffer == LANE_SCRATCH && f->reach->edges[from->edge])
        operand.rank = LANE_ABI_HOST;
    if (from->buffer == LANE_LANDING) {
        operand.rank = f->wires->area[from->edge];
        operand.edge += f->program->edge_count;
    }
    return operand;
}

/* Where a semaphore is: its number there, and at whom. */
static void place_semaphore(const flattening_t *f, uint32_t *semaphore, uint32_t *rank)
{
    bool of_wires = f->wires->place[*semaphore] != PLAN_NONE;
    uint32_t holder = f->reach->semaphores[*semaphore] ? LANE_ABI_HOST : f->own_rank[f->waiters[*semaphore]];
    *rank = of_wires ? LANE_ABI_WIRES : holder;
    *semaphore = of_wires ? f->wires->place[*semaphore] : *semaphore;
}

static void flatten_lists(const flattening_t *f, char *base, const lane_abi_program_t *header)
{
    const lane_program_t *program = f->program;
    lane_abi_operand_t *operands = (lane_abi_operand_t *)(void *)(base + header->operands_offset);
    lane_abi_wait_t *waits = (lane_abi_wait_t *)(void *)(base + header->waits_offset);
    lane_abi_signal_t *signals = (lane_abi_signal_t *)(void *)(base + header->signals_offset);
    for (uint32_t i = 0; i < program->operand_count; i++)
        operands[i] = flatten_operand(f, &program->operands[i]);
    for (uint32_t i = 0; i < program->wait_count; i++) {
        waits[i] =
            (lane_abi_wait_t){.semaphore = program->waits[i].semaphore, .kind = program->waits[i].kind};
        place_semaphore(f, &waits[i].semaphore, &waits[i].rank);
    }
    for (uint32_t i = 0; i < program->signal_count; i++) {
        signals[i] = (lane_abi_signal_t){.semaphore = program->signals[i].semaphore,
                                         .announces_data = program->signals[i].dst != PLAN_NONE};
        place_semaphore(f, &signals[i].semaphore, &signals[i].rank);
    }
}

static uint64_t place(uint64_t *end, uint64_t count, uint64_t bytes)
{
    uint64_t at = *end;
    *end = (at + count * bytes + 15) / 16 * 16;
    return at;
}

static blink_result_t make_program(const flattening_t *f, uint32_t *lane_first, uint32_t *lane_count,
                                   image_block_t *image)
{
    const lane_program_t *program = f->program;
    uint64_t end = 0;
    (void)place(&end, 1, sizeof(lane_abi_program_t));
    lane_abi_program_t header = {
        .protocol = program->protocol,
        .independent = program->independent,
        .lane_count = program->lane_count,
        .step_count = program->step_count,
        .operand_count = program->operand_count,
        .wait_count = program->wait_count,
        .signal_count = program->signal_count,
        .lanes_offset = (uint32_t)place(&end, program->lane_count, sizeof(lane_abi_lane_t)),
        .steps_offset = (uint32_t)place(&end, program->step_count, sizeof(lane_abi_step_t)),
        .operands_offset = (uint32_t)place(&end, program->operand_count, sizeof(lane_abi_operand_t)),
        .waits_offset = (uint32_t)place(&end, program->wait_count, sizeof(lane_abi_wait_t)),
        .signals_offset = (uint32_t)place(&end, program->signal_count, sizeof(lane_abi_signal_t)),
    };
    char *base = end <= UINT32_MAX ? calloc(1, end) : NULL;
    if (!base)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a program of %llu bytes",
                          (unsigned long long)end);
    flatten_lanes(f, lane_first, lane_count, (lane_abi_lane_t *)(void *)(base + header.lanes_offset));
    flatten_steps(program, (lane_abi_step_t *)(void *)(base + header.steps_offset));
    flatten_lists(f, base, &header);
    memcpy(base, &header, sizeof(header));
    *image = (image_block_t){base, end};
    return BLINK_OK;
}

blink_result_t image_program(const lane_program_t *program, const image_wires_t *wires,
                             const cuda_reach_t *reach, const uint32_t *rank_gpu, uint32_t gpu_count,
                             uint32_t *lane_first, uint32_t *lane_count, image_block_t *image)
{
    flattening_t f = {
        .program = program, .wires = wires, .reach = reach, .rank_gpu = rank_gpu, .gpu_count = gpu_count};
    for (uint32_t s = 0; s < program->step_count; s++) {
        const lane_step_t *step = &program->steps[s];
        if (step->src_count > LANE_ABI_OPERANDS_MAX || step->dst_count > LANE_ABI_OPERANDS_MAX)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "a step of %u sources and %u destinations: GPUs take %u",
                              step->src_count, step->dst_count, LANE_ABI_OPERANDS_MAX);
    }
    blink_result_t result = number_ranks(&f);
    if (result == BLINK_OK)
        result = find_waiters(program, &f.waiters);
    if (result == BLINK_OK)
        result = make_program(&f, lane_first, lane_count, image);
    free(f.waiters);
    free(f.own_rank);
    return result;
}

/* ---- the binding ---- */

/* The extent of a part in a block, by the same function that gives the host's executor its spans. */
static void flatten_part(const lane_geometry_t *geometry, uint32_t channel, uint32_t part,
                         lane_abi_part_t *to)
{
    const lane_program_t *program = geometry->program;
    const lane_part_t *from = &program->parts[program->channels[channel].part_first + part];
    lane_span_t extent = lane_extent(geometry, channel, part);
    *to = (lane_abi_part_t){.extent_begin = extent.offset_bytes,
                            .extent_bytes = extent.bytes,
                            .in_block = from->in_block,
                            .out_block = from->out_block,
                            .ordinal = from->ordinal,
                            .siblings = from->siblings};
}

static void flatten_channels(const lane_geometry_t *geometry, char *base, const lane_abi_binding_t *header)
{
    const lane_program_t *program = geometry->program;
    lane_abi_channel_t *channels = (lane_abi_channel_t *)(void *)(base + header->channels_offset);
    lane_abi_part_t *parts = (lane_abi_part_t *)(void *)(base + header->parts_offset);
    for (uint32_t c = 0; c < program->channel_count; c++) {
        const lane_channel_t *channel = &program->channels[c];
        channels[c] = (lane_abi_channel_t){.chunk_bytes = geometry->channels[c].chunk_bytes,
                                           .chunks = geometry->channels[c].chunks};
        for (uint32_t p = 0; p < channel->part_count; p++)
            flatten_part(geometry, c, p, &parts[channel->part_first + p]);
    }
}

/* The end of the memory that an edge's slots lie in. `used` has those of the GPUs. */
static uint64_t *end_of(uint32_t edge, uint32_t receiver, const cuda_reach_t *reach, const uint32_t *rank_gpu,
                        uint64_t *used, image_slots_t *slots)
{
    if (receiver == PLAN_NONE)
        return &slots->send_bytes;
    return reach->edges[edge] ? &slots->host_bytes : &used[rank_gpu[receiver]];
}

/* A channel's edges are consecutive, and their slots are as large as the channel's chunks. */
static void place_edges(const lane_geometry_t *geometry, const uint32_t *receivers, const cuda_reach_t *reach,
                        const uint32_t *rank_gpu, uint64_t *used, image_slots_t *slots,
                        lane_abi_edge_t *edges)
{
    const lane_program_t *program = geometry->program;
    for (uint32_t c = 0; c < program->channel_count; c++) {
        const lane_channel_t *channel = &program->channels[c];
        uint64_t slot_bytes = geometry->channels[c].slot_bytes;
        for (uint32_t e = channel->edge_first; e < channel->edge_first + channel->edge_count; e++) {
            uint64_t *end = end_of(e, receivers[e], reach, rank_gpu, used, slots);
            edges[e] = (lane_abi_edge_t){*end, slot_bytes};
            *end += slot_bytes * geometry->channels[c].slots;
            *end = (*end + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
        }
    }
}

static void place_landing_edges(const lane_geometry_t *geometry, lane_abi_edge_t *edges)
{
    const lane_program_t *program = geometry->program;
    for (uint32_t l = program->lane_count - program->wire_count; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_operand_t *dst = &program->operands[program->steps[s].dst_first];
            if (dst->buffer != LANE_LANDING)
                continue;
            uint64_t first = lane_landing_offset(geometry, lane->channel, dst->edge, 0);
            edges[dst->edge] =
                (lane_abi_edge_t){first, lane_landing_offset(geometry, lane->channel, dst->edge, 1) - first};
        }
    }
}

blink_result_t image_binding(const lane_geometry_t *geometry, const cuda_reach_t *reach,
                             const uint32_t *rank_gpu, uint32_t gpu_count, image_slots_t *slots,
                             image_block_t *image)
{
    const lane_program_t *program = geometry->program;
    uint64_t end = 0, edge_count = (uint64_t)program->edge_count + program->landing_edge_count;
    (void)place(&end, 1, sizeof(lane_abi_binding_t));
    lane_abi_binding_t header = {
        .slots = geometry->slots,
        .channel_count = program->channel_count,
        .part_count = program->part_count,
        .edge_count = (uint32_t)edge_count,
        .channels_offset = (uint32_t)place(&end, program->channel_count, sizeof(lane_abi_channel_t)),
        .parts_offset = (uint32_t)place(&end, program->part_count, sizeof(lane_abi_part_t)),
        .edges_offset = (uint32_t)place(&end, edge_count, sizeof(lane_abi_edge_t)),
    };
    uint32_t *receivers = NULL;
    *slots = (image_slots_t){0};
    BLINK_TRY(find_receivers(program, &receivers));
    char *base = calloc(1, end);
    uint64_t *used = calloc(gpu_count + 1u, sizeof(*used));
    if (base && used) {
        memcpy(base, &header, sizeof(header));
        flatten_channels(geometry, base, &header);
        lane_abi_edge_t *edges = (lane_abi_edge_t *)(void *)(base + header.edges_offset);
        place_edges(geometry, receivers, reach, rank_gpu, used, slots, edges);
        for (uint32_t gpu = 0; gpu < gpu_count; gpu++)
            slots->gpu_bytes = used[gpu] > slots->gpu_bytes ? used[gpu] : slots->gpu_bytes;
        place_landing_edges(geometry, edges + program->edge_count);
        *image = (image_block_t){base, end};
    } else {
        free(base);
        base = NULL;
    }
    free(used);
    free(receivers);
    return base ? BLINK_OK
                : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a binding of %llu bytes",
                             (unsigned long long)end);
}

uint64_t image_part_bytes(const lane_geometry_t *geometry, uint32_t channel, uint32_t part)
{
    uint64_t bytes = 0;
    for (uint32_t chunk = 0; chunk < geometry->channels[channel].chunks; chunk++)
        bytes +=
            lane_format_bytes(geometry->program->protocol, lane_span(geometry, channel, part, chunk).bytes);
    return bytes;
}
