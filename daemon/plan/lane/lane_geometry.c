/*
 * The split of a payload into blocks, extents, chunks and parts. Executors, simulation and verification
 * agree on it to the byte.
 */
#include "plan/lane/lane.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>

/* The pipeline's fill costs `depth` chunks of the 64 × depth that a channel is cut into. */
#define CHUNKS_PER_LEVEL 64u

/* A lane of several parts (a ring's) takes its steps in order, each waiting for what the step before set off
 * elsewhere: at two bandwidth-delay products the link is still busy with one step when the next one's data
 * comes. */
#define DELAYS_PER_PART_CHUNK 2u

/* A lane of one part has whole slots in flight. Few large ones: with many, the reduce phase runs ahead and
 * delays the broadcast on the links they share (measured on the DGX-1V with its PCIe tree). */
#define CHUNKS_PER_DELAY 2.0

/* LL is for payloads that are few such chunks, and every level of a tree but the first waits for one of them.
 * In a deep tree these levels together then wait for as long as one does otherwise. Chunks are cut no smaller
 * than this for it. */
#define CHUNK_LL_BYTES (16u << 10)

/* Slots of an edge that are not in flight: one being written, two arrived and being combined, one to spare.
 */
#define SLOTS_BESIDE_FLIGHT 4u
#define SLOTS_IN_FLIGHT_MAX 60.0

/* A block that takes several parts in order comes to an edge again when it has been to all others: meanwhile
 * one slot is written or on its way, and one is combined. In the simulator more are of no use (one hop on
 * eight A100 and H100, 16 and 256 MiB), and these programs have large chunks and many channels. */
#define SLOTS_IN_TURN 2u

/* Hops by a switch that a slot is taken for, copies included: of 2, 4 and 8 this is the fastest in the
 * simulator. */
#define MULTICAST_DELAYS 4

/* So much an edge between hosts has slots for, however small chunks are: what is under way waits at either
 * end until a thread has its turn, and slots are free again when a CREDIT says so. With twice as much the
 * reduce phase runs ahead. */
#define WIRE_SLOTS_BYTES (512u << 10)

/* Least chunk of a channel with a small share. */
#define CHUNK_LEAST_BYTES 1024u

/* Below this the cost of scheduling a step outweighs that of moving it. */
#define CHUNK_MIN_BYTES (8u << 10)

/* Slots with flags begin on lines of LL128. */
#define LANE_LINE_BYTES 128u

static uint64_t round_up_unit(uint64_t bytes)
{
    return (bytes + LANE_UNIT_BYTES - 1) / LANE_UNIT_BYTES * LANE_UNIT_BYTES;
}

static uint64_t clamp_u64(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

uint64_t lane_format_bytes(blink_protocol_t protocol, uint64_t bytes)
{
    switch (protocol) {
    case BLINK_PROTOCOL_LL:
        return (bytes + 3) / 4 * 8;
    case BLINK_PROTOCOL_LL128:
        return (bytes + 119) / 120 * 128;
    case BLINK_PROTOCOL_SIMPLE:
        break;
    }
    return bytes;
}

static double part_share(const lane_program_t *program, uint32_t channel)
{
    return program->channels[channel].share / program->channels[channel].part_count;
}

static double largest_part_share(const lane_program_t *program)
{
    double largest = 0;
    for (uint32_t i = 0; i < program->channel_count; i++)
        largest = part_share(program, i) > largest ? part_share(program, i) : largest;
    return largest;
}

/* What the channel with the largest share moves through each of its edges in a microsecond. */
static double part_bytes_per_us(const lane_program_t *program)
{
    return program->rate_GBps * 1e3 * largest_part_share(program);
}

/* The chunk that keeps lanes of one part busy in spite of the longest path's latency. */
static uint64_t delay_chunk(const lane_program_t *program, uint32_t depth)
{
    double chunk_bytes = part_bytes_per_us(program) * program->latency_us / CHUNKS_PER_DELAY;
    if (program->protocol == BLINK_PROTOCOL_LL && chunk_bytes > CHUNK_LL_BYTES)
        chunk_bytes = fmax(chunk_bytes / (depth > 2 ? depth - 1 : 1), CHUNK_LL_BYTES);
    return (uint64_t)chunk_bytes;
}

/* The chunk with which two slots are on the way while links are full: what a slot holds comes into the switch
 * and out of it before the slot is free, and as long again passes with copies on either side. Larger ones
 * take longer to fill, for a rank copies a chunk of every part before the first one leaves. */
static uint64_t multicast_chunk(const lane_program_t *program)
{
    return (uint64_t)(MULTICAST_DELAYS * part_bytes_per_us(program) * program->latency_us / SLOTS_IN_TURN);
}

/* Whether lanes have several parts. */
static bool is_in_order(const lane_program_t *program)
{
    for (uint32_t i = 0; i < program->channel_count; i++)
        if (program->channels[i].part_count > 1)
            return true;
    return false;
}

uint64_t lane_choose_chunk(const lane_program_t *program, uint64_t bytes)
{
    if (program->lands_in_slots)
        return LANE_CHUNK_MAX_BYTES;
    if (program->multicast)
        return round_up_unit(clamp_u64(multicast_chunk(program), CHUNK_MIN_BYTES, LANE_CHUNK_MAX_BYTES));
    double part_bytes = (double)bytes * largest_part_share(program);
    uint32_t depth = program->depth ? program->depth : 1;
    uint64_t chunk_bytes = (uint64_t)(part_bytes / (CHUNKS_PER_LEVEL * (double)depth));
    uint64_t latency_bytes =
        is_in_order(program) ? DELAYS_PER_PART_CHUNK * program->bdp_bytes : delay_chunk(program, depth);
    if (chunk_bytes < latency_bytes)
        chunk_bytes = latency_bytes;
    return round_up_unit(clamp_u64(chunk_bytes, CHUNK_MIN_BYTES, LANE_CHUNK_MAX_BYTES));
}

uint32_t lane_choose_slots(const lane_program_t *program, uint64_t chunk_bytes)
{
    const bool in_turn = program->block_GBps > 0.0 && is_in_order(program);
    double in_flight = round(part_bytes_per_us(program) * program->latency_us / (double)chunk_bytes);
    double beside = in_turn ? SLOTS_IN_TURN : SLOTS_BESIDE_FLIGHT;
    double of_wires = program->rank_host ? WIRE_SLOTS_BYTES / (double)chunk_bytes - beside : 0;
    return (uint32_t)(beside + fmin(fmax(in_turn ? 0 : in_flight, of_wires), SLOTS_IN_FLIGHT_MAX));
}

/* ---- blocks ---- */

/* One block, while the parts that carry it are gone through. */
typedef struct block_division {
    double weight;     /* of all its parts */
    double given;      /* of the parts seen so far */
    double begin, end; /* the extent of the channel that was last seen carrying it */
    uint32_t channel;  /* that channel */
    uint32_t siblings; /* its parts that carry the block */
    uint32_t channels; /* still to be given their extent */
} block_division_t;

/* Number the siblings of one channel. */
static blink_result_t count_siblings(lane_program_t *program, uint32_t channel, block_division_t *blocks)
{
    const lane_channel_t *of = &program->channels[channel];
    lane_part_t *parts = &program->parts[of->part_first];
    for (uint32_t i = 0; i < of->part_count; i++) {
        block_division_t *block = &blocks[parts[i].block];
        if (block->channel != channel) {
            block->channel = channel;
            block->siblings = 0;
            block->channels++;
        }
        parts[i].ordinal = block->siblings++;
        block->weight += part_share(program, channel);
    }
    for (uint32_t i = 0; i < of->part_count; i++) {
        parts[i].siblings = blocks[parts[i].block].siblings;
        if (parts[i].siblings != parts[0].siblings)
            return BLINK_FAIL(
                BLINK_ERR_INTERNAL,
                "channel %u has %u parts for block %u and %u for block %u; it must have as many", channel,
                parts[0].siblings, parts[0].block, parts[i].siblings, parts[i].block);
    }
    return BLINK_OK;
}

/* Give a channel its extent of every block it carries. */
static void give_extents(lane_program_t *program, uint32_t channel, block_division_t *blocks)
{
    const lane_channel_t *of = &program->channels[channel];
    lane_part_t *parts = &program->parts[of->part_first];
    for (uint32_t i = 0; i < of->part_count; i++) {
        block_division_t *block = &blocks[parts[i].block];
        if (parts[i].ordinal == 0) {
            block->begin = block->end;
            block->given += part_share(program, channel) * parts[i].siblings;
            block->end = --block->channels == 0 ? 1.0 : fmin(block->given / block->weight, 1.0);
        }
        parts[i].begin = block->begin;
        parts[i].end = block->end;
    }
}

static blink_result_t divide_blocks(lane_program_t *program, block_division_t *blocks)
{
    for (uint32_t i = 0; i < program->block_count; i++)
        blocks[i].channel = PLAN_NONE;
    for (uint32_t i = 0; i < program->channel_count; i++)
        BLINK_TRY(count_siblings(program, i, blocks));
    for (uint32_t i = 0; i < program->block_count; i++)
        if (!(blocks[i].weight > 0.0))
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "no channel carries block %u of %u", i,
                              program->block_count);
    for (uint32_t i = 0; i < program->channel_count; i++)
        give_extents(program, i, blocks);
    return BLINK_OK;
}

blink_result_t lane_divide_blocks(lane_program_t *program)
{
    block_division_t *blocks = calloc(program->block_count, sizeof(*blocks));
    if (!blocks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to divide %u blocks", program->block_count);
    blink_result_t result = divide_blocks(program, blocks);
    free(blocks);
    return result;
}

static const lane_part_t *part_at(const lane_program_t *program, uint32_t channel, uint32_t part)
{
    return &program->parts[program->channels[channel].part_first + part];
}

/* Where a fraction of a block ends, in whole units but for the block's own end. */
static uint64_t border(const lane_geometry_t *geometry, double fraction)
{
    uint64_t units = geometry->block_bytes / LANE_UNIT_BYTES;
    return fraction < 1.0 ? (uint64_t)((double)units * fraction) * LANE_UNIT_BYTES : geometry->block_bytes;
}

/* The extent that a part and its siblings are dealt. */
static lane_span_t part_extent(const lane_geometry_t *geometry, const lane_part_t *part)
{
    uint64_t begin = border(geometry, part->begin);
    return (lane_span_t){begin, border(geometry, part->end) - begin};
}

/* ---- binding ---- */

/* Cut one channel's extents: chunks as large against the largest as its share is, but not tiny. */
static void cut_channel(lane_geometry_t *geometry, uint32_t channel, uint64_t largest_bytes,
                        double largest_share)
{
    const lane_program_t *program = geometry->program;
    const lane_channel_t *of = &program->channels[channel];
    struct lane_cut *cut = &geometry->channels[channel];
    uint64_t siblings = part_at(program, channel, 0)->siblings;
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < of->part_count; i++) {
        uint64_t bytes = part_extent(geometry, part_at(program, channel, i)).bytes;
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
    }
    double relative = part_share(program, channel) / largest_share;
    uint64_t chunk_bytes = round_up_unit((uint64_t)((double)largest_bytes * relative));
    uint64_t least_bytes = largest_bytes < CHUNK_LEAST_BYTES ? largest_bytes : CHUNK_LEAST_BYTES;
    chunk_bytes = clamp_u64(chunk_bytes, least_bytes, largest_bytes);
    uint64_t whole_bytes = round_up_unit((most_bytes + siblings - 1) / siblings);
    cut->chunk_bytes = clamp_u64(whole_bytes, LANE_UNIT_BYTES, chunk_bytes);
    cut->slot_bytes = lane_format_bytes(program->protocol, cut->chunk_bytes);
    if (program->protocol != BLINK_PROTOCOL_SIMPLE)
        cut->slot_bytes = (cut->slot_bytes + LANE_LINE_BYTES - 1) / LANE_LINE_BYTES * LANE_LINE_BYTES;
    uint64_t stride = cut->chunk_bytes * siblings;
    cut->chunks = (uint32_t)((most_bytes + stride - 1) / stride);
    cut->slots = cut->chunks < geometry->slots ? cut->chunks : geometry->slots;
    cut->scratch_offset = geometry->scratch_bytes;
    geometry->scratch_bytes += cut->slot_bytes * cut->slots * of->edge_count;
}

static uint64_t landing_slot_bytes(const struct lane_cut *cut)
{
    return (cut->chunk_bytes + LANE_LANDING_ALIGNMENT - 1) / LANE_LANDING_ALIGNMENT * LANE_LANDING_ALIGNMENT;
}

/* Give the edges of a landing their slots, in the order of the moves that write them. */
static void place_landing(lane_geometry_t *geometry, uint32_t index)
{
    const lane_program_t *program = geometry->program;
    const lane_landing_t *landing = &program->landings[index];
    uint64_t *bytes = &geometry->landing_bytes[index];
    for (uint32_t l = landing->lane_first; l < landing->lane_first + landing->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        const struct lane_cut *cut = &geometry->channels[lane->channel];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_operand_t *dst = &program->operands[program->steps[s].dst_first];
            if (dst->buffer != LANE_LANDING)
                continue;
            geometry->landing_offsets[dst->edge] = *bytes;
            *bytes += landing_slot_bytes(cut) * cut->slots;
        }
    }
}

static blink_result_t place_landings(lane_geometry_t *geometry)
{
    const lane_program_t *program = geometry->program;
    geometry->landing_offsets = calloc(program->landing_edge_count + 1u, sizeof(*geometry->landing_offsets));
    geometry->landing_bytes = calloc(program->landing_count, sizeof(*geometry->landing_bytes));
    if (!geometry->landing_offsets || !geometry->landing_bytes) {
        lane_geometry_fini(geometry);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the geometry of %u landings",
                          program->landing_count);
    }
    for (uint32_t i = 0; i < program->landing_count; i++)
        place_landing(geometry, i);
    return BLINK_OK;
}

blink_result_t lane_geometry_init(const lane_program_t *program, uint64_t block_bytes, uint64_t chunk_bytes,
                                  uint32_t slots, lane_geometry_t *geometry)
{
    chunk_bytes = chunk_bytes ? round_up_unit(chunk_bytes)
                              : lane_choose_chunk(program, block_bytes * program->block_count);
    *geometry = (lane_geometry_t){
        .program = program,
        .block_bytes = block_bytes,
        .slots = slots ? slots : lane_choose_slots(program, chunk_bytes),
        .channels = calloc(program->channel_count, sizeof(*geometry->channels)),
    };
    if (!geometry->channels)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the geometry of %u channels",
                          program->channel_count);
    double largest_share = largest_part_share(program);
    for (uint32_t i = 0; i < program->channel_count; i++)
        cut_channel(geometry, i, chunk_bytes, largest_share);
    return program->landing_count > 0 ? place_landings(geometry) : BLINK_OK;
}

void lane_geometry_fini(lane_geometry_t *geometry)
{
    free(geometry->channels);
    free(geometry->landing_offsets);
    free(geometry->landing_bytes);
    *geometry = (lane_geometry_t){0};
}

uint64_t lane_geometry_bytes(const lane_program_t *program)
{
    const lane_geometry_t *of = NULL;
    return program->channel_count * sizeof(*of->channels) +
           program->landing_edge_count * sizeof(*of->landing_offsets) +
           program->landing_count * sizeof(*of->landing_bytes);
}

/* ---- spans ---- */

lane_span_t lane_extent(const lane_geometry_t *geometry, uint32_t channel, uint32_t part)
{
    return part_extent(geometry, part_at(geometry->program, channel, part));
}

lane_span_t lane_span(const lane_geometry_t *geometry, uint32_t channel, uint32_t part, uint32_t chunk)
{
    const lane_part_t *of = part_at(geometry->program, channel, part);
    lane_span_t extent = part_extent(geometry, of);
    uint64_t stride = geometry->channels[channel].chunk_bytes * of->siblings;
    uint64_t chunk_offset = chunk * stride;
    if (chunk_offset >= extent.bytes)
        return (lane_span_t){extent.offset_bytes + extent.bytes, 0};
    uint64_t chunk_bytes = extent.bytes - chunk_offset;
    if (chunk_bytes > stride)
        chunk_bytes = stride;
    /* Whole units are dealt evenly, the ragged end of the block goes to the last part that has room for it.
     */
    uint64_t units = (chunk_bytes + LANE_UNIT_BYTES - 1) / LANE_UNIT_BYTES;
    uint64_t begin = units * of->ordinal / of->siblings * LANE_UNIT_BYTES;
    uint64_t end = units * (of->ordinal + 1) / of->siblings * LANE_UNIT_BYTES;
    if (end > chunk_bytes)
        end = chunk_bytes;
    return (lane_span_t){extent.offset_bytes + chunk_offset + begin, end - begin};
}

uint64_t lane_buffer_offset(const lane_geometry_t *geometry, uint32_t channel, uint32_t part,
                            lane_buffer_t buffer, uint64_t stride_bytes, lane_span_t span)
{
    const lane_part_t *of = part_at(geometry->program, channel, part);
    return (buffer == LANE_INPUT ? of->in_block : of->out_block) * stride_bytes + span.offset_bytes;
}

uint64_t lane_scratch_offset(const lane_geometry_t *geometry, uint32_t channel, uint32_t edge, uint32_t chunk)
{
    const struct lane_cut *cut = &geometry->channels[channel];
    uint64_t slot = (uint64_t)(edge - geometry->program->channels[channel].edge_first) * cut->slots +
                    chunk % geometry->slots;
    return cut->scratch_offset + slot * cut->slot_bytes;
}

uint64_t lane_landing_offset(const lane_geometry_t *geometry, uint32_t channel, uint32_t edge, uint32_t chunk)
{
    return geometry->landing_offsets[edge] +
           chunk % geometry->slots * landing_slot_bytes(&geometry->channels[channel]);
}
