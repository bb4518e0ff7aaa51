/*
 * The split of a payload into channels, chunks and parts. One place, because executors, simulation and
 * verification must agree on it to the byte.
 */
#include "plan/lane.h"

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

/* Slots of an edge that are not in flight: one being written, two arrived and being combined, one to spare.
 */
#define SLOTS_BESIDE_FLIGHT 4u
#define SLOTS_IN_FLIGHT_MAX 60.0

/* Least chunk of a channel with a small share. */
#define CHUNK_LEAST_BYTES 1024u

/* Below this the cost of scheduling a step outweighs that of moving it. */
#define CHUNK_MIN_BYTES (8u << 10)

static uint64_t round_up_unit(uint64_t bytes)
{
    return (bytes + LANE_UNIT_BYTES - 1) / LANE_UNIT_BYTES * LANE_UNIT_BYTES;
}

static uint64_t clamp_u64(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
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

uint64_t lane_choose_chunk(const lane_program_t *program, uint64_t bytes)
{
    bool in_order = false;
    for (uint32_t i = 0; i < program->channel_count; i++)
        in_order |= program->channels[i].part_count > 1;
    double part_bytes = (double)bytes * largest_part_share(program);
    uint32_t depth = program->depth ? program->depth : 1;
    uint64_t chunk_bytes = (uint64_t)(part_bytes / (CHUNKS_PER_LEVEL * (double)depth));
    uint64_t latency_bytes =
        in_order ? DELAYS_PER_PART_CHUNK * program->bdp_bytes
                 : (uint64_t)(part_bytes_per_us(program) * program->latency_us / CHUNKS_PER_DELAY);
    if (chunk_bytes < latency_bytes)
        chunk_bytes = latency_bytes;
    return round_up_unit(clamp_u64(chunk_bytes, CHUNK_MIN_BYTES, LANE_CHUNK_MAX_BYTES));
}

uint32_t lane_choose_slots(const lane_program_t *program, uint64_t chunk_bytes)
{
    double in_flight = round(part_bytes_per_us(program) * program->latency_us / (double)chunk_bytes);
    return SLOTS_BESIDE_FLIGHT +
           (uint32_t)(in_flight < SLOTS_IN_FLIGHT_MAX ? in_flight : SLOTS_IN_FLIGHT_MAX);
}

/* Cut one channel's extent: chunks as large against the largest as its share is, but not tiny. */
static void cut_extent(lane_geometry_t *geometry, uint32_t channel, uint64_t largest_bytes)
{
    const lane_program_t *program = geometry->program;
    struct lane_extent *extent = &geometry->channels[channel];
    double relative = part_share(program, channel) / largest_part_share(program);
    uint64_t chunk_bytes = round_up_unit((uint64_t)((double)largest_bytes * relative));
    uint64_t least_bytes = largest_bytes < CHUNK_LEAST_BYTES ? largest_bytes : CHUNK_LEAST_BYTES;
    extent->chunk_bytes = clamp_u64(chunk_bytes, least_bytes, largest_bytes);
    extent->scratch_offset = geometry->scratch_bytes;
    geometry->scratch_bytes += extent->chunk_bytes * geometry->slots * program->channels[channel].edge_count;
    uint64_t stride = extent->chunk_bytes * program->channels[channel].part_count;
    extent->chunks = (uint32_t)((extent->bytes + stride - 1) / stride);
}

blink_result_t lane_geometry_init(const lane_program_t *program, uint64_t bytes, uint64_t chunk_bytes,
                                  uint32_t slots, lane_geometry_t *geometry)
{
    chunk_bytes = chunk_bytes ? round_up_unit(chunk_bytes) : lane_choose_chunk(program, bytes);
    *geometry = (lane_geometry_t){
        .program = program,
        .bytes = bytes,
        .slots = slots ? slots : lane_choose_slots(program, chunk_bytes),
        .channels = calloc(program->channel_count, sizeof(*geometry->channels)),
    };
    if (!geometry->channels)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the geometry of %u channels",
                          program->channel_count);
    uint64_t units = bytes / LANE_UNIT_BYTES;
    double shares = 0;
    uint64_t offset_bytes = 0;
    for (uint32_t i = 0; i < program->channel_count; i++) {
        shares += program->channels[i].share;
        bool last = i + 1 == program->channel_count;
        uint64_t end_units = (uint64_t)((double)units * shares);
        uint64_t end_bytes = last ? bytes : clamp_u64(end_units * LANE_UNIT_BYTES, offset_bytes, bytes);
        geometry->channels[i].offset_bytes = offset_bytes;
        geometry->channels[i].bytes = end_bytes - offset_bytes;
        cut_extent(geometry, i, chunk_bytes);
        offset_bytes = end_bytes;
    }
    return BLINK_OK;
}

void lane_geometry_fini(lane_geometry_t *geometry)
{
    free(geometry->channels);
    *geometry = (lane_geometry_t){0};
}

lane_span_t lane_span(const lane_geometry_t *geometry, uint32_t channel, uint32_t part, uint32_t chunk)
{
    const struct lane_extent *extent = &geometry->channels[channel];
    uint32_t parts = geometry->program->channels[channel].part_count;
    uint64_t stride = extent->chunk_bytes * parts;
    uint64_t chunk_offset = chunk * stride;
    uint64_t chunk_bytes = extent->bytes - chunk_offset;
    if (chunk_bytes > stride)
        chunk_bytes = stride;
    /* Whole units are dealt evenly, the ragged end of the payload goes to the last part that has room for it.
     */
    uint64_t units = (chunk_bytes + LANE_UNIT_BYTES - 1) / LANE_UNIT_BYTES;
    uint64_t begin = units * part / parts * LANE_UNIT_BYTES;
    uint64_t end = units * (part + 1) / parts * LANE_UNIT_BYTES;
    if (end > chunk_bytes)
        end = chunk_bytes;
    return (lane_span_t){extent->offset_bytes + chunk_offset + begin, end - begin};
}

uint64_t lane_scratch_offset(const lane_geometry_t *geometry, uint32_t channel, uint32_t edge, uint32_t chunk)
{
    const struct lane_extent *extent = &geometry->channels[channel];
    uint64_t slot = (uint64_t)(edge - geometry->program->channels[channel].edge_first) * geometry->slots +
                    chunk % geometry->slots;
    return extent->scratch_offset + slot * extent->chunk_bytes;
}
