/*
 * The split of a payload into channels, chunks and parts. One place, because executors, simulation and
 * verification must agree on it to the byte.
 */
#include "plan/lane.h"

#include "error.h"

#include <stdlib.h>

/* The pipeline's fill costs `depth` chunks of the 32 × depth that a channel is cut into: 3 %. */
#define CHUNKS_PER_LEVEL 32u

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

uint64_t lane_choose_chunk(const lane_program_t *program, uint64_t bytes)
{
    double largest_share = 0;
    for (uint32_t i = 0; i < program->channel_count; i++) {
        double part_share = program->channels[i].share / program->channels[i].part_count;
        largest_share = part_share > largest_share ? part_share : largest_share;
    }
    double part_bytes = (double)bytes * largest_share;
    uint32_t depth = program->depth ? program->depth : 1;
    uint64_t chunk_bytes = (uint64_t)(part_bytes / (CHUNKS_PER_LEVEL * (double)depth));
    if (chunk_bytes < program->bdp_bytes)
        chunk_bytes = program->bdp_bytes;
    return round_up_unit(clamp_u64(chunk_bytes, CHUNK_MIN_BYTES, LANE_CHUNK_MAX_BYTES));
}

blink_result_t lane_geometry_init(const lane_program_t *program, uint64_t bytes, uint64_t chunk_bytes,
                                  uint32_t slots, lane_geometry_t *geometry)
{
    *geometry = (lane_geometry_t){
        .program = program,
        .bytes = bytes,
        .chunk_bytes = chunk_bytes ? round_up_unit(chunk_bytes) : lane_choose_chunk(program, bytes),
        .slots = slots,
        .channels = calloc(program->channel_count, sizeof(*geometry->channels)),
    };
    if (!geometry->channels)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the geometry of %u channels",
                          program->channel_count);
    uint64_t units = bytes / LANE_UNIT_BYTES;
    double shares = 0;
    uint64_t offset_bytes = 0;
    for (uint32_t i = 0; i < program->channel_count; i++) {
        struct lane_extent *extent = &geometry->channels[i];
        shares += program->channels[i].share;
        uint64_t end_units = (uint64_t)((double)units * shares);
        bool last = i + 1 == program->channel_count;
        uint64_t end_bytes = last ? bytes : clamp_u64(end_units * LANE_UNIT_BYTES, offset_bytes, bytes);
        uint64_t stride = geometry->chunk_bytes * program->channels[i].part_count;
        extent->offset_bytes = offset_bytes;
        extent->bytes = end_bytes - offset_bytes;
        extent->chunks = (uint32_t)((extent->bytes + stride - 1) / stride);
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
    uint64_t chunk_offset = (uint64_t)chunk * geometry->chunk_bytes * parts;
    uint64_t chunk_bytes = extent->bytes - chunk_offset;
    if (chunk_bytes > geometry->chunk_bytes * parts)
        chunk_bytes = geometry->chunk_bytes * parts;
    /* Whole units are dealt evenly, the ragged end of the payload goes to the last part that has room for it.
     */
    uint64_t units = (chunk_bytes + LANE_UNIT_BYTES - 1) / LANE_UNIT_BYTES;
    uint64_t begin = units * part / parts * LANE_UNIT_BYTES;
    uint64_t end = units * (part + 1) / parts * LANE_UNIT_BYTES;
    if (end > chunk_bytes)
        end = chunk_bytes;
    return (lane_span_t){extent->offset_bytes + chunk_offset + begin, end - begin};
}
