/*
 * The split of payloads into blocks, extents, chunks and spans: exact for every size, as the shares say.
 */
#include "error.h"
#include "plan/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CHANNELS = 7, PARTS = 64, BLOCKS = 8 };

/* A channel whose parts carry `block_count` blocks in turn, from `first_block` on. */
typedef struct split_channel {
    double share;
    uint32_t part_count, first_block, block_count;
} split_channel_t;

typedef struct split {
    uint32_t block_count, channel_count;
    split_channel_t channels[CHANNELS];
} split_t;

/* A program of channels and parts alone. */
typedef struct divided {
    lane_program_t program;
    lane_channel_t channels[CHANNELS];
    lane_part_t parts[PARTS];
} divided_t;

static blink_result_t divide(divided_t *divided, const split_t *split)
{
    lane_program_t *program = &divided->program;
    *divided = (divided_t){.program = {.depth = 4,
                                       .block_count = split->block_count,
                                       .channel_count = split->channel_count,
                                       .channels = divided->channels,
                                       .parts = divided->parts}};
    for (uint32_t c = 0; c < split->channel_count; c++) {
        const split_channel_t *of = &split->channels[c];
        divided->channels[c] = (lane_channel_t){
            .share = of->share, .part_first = program->part_count, .part_count = of->part_count};
        for (uint32_t i = 0; i < of->part_count; i++)
            divided->parts[program->part_count++].block = of->first_block + i % of->block_count;
    }
    return lane_divide_blocks(program);
}

/* Channels of one block. */
static void divide_whole(divided_t *divided, uint32_t count, const split_channel_t *channels)
{
    split_t split = {.block_count = 1, .channel_count = count};
    memcpy(split.channels, channels, count * sizeof(*channels));
    assert_int_equal(divide(divided, &split), BLINK_OK);
}

/* In the order of channels, chunks and parts the spans of every block follow one another without a gap. */
static void assert_exact_cover(const lane_geometry_t *geometry)
{
    const lane_program_t *program = geometry->program;
    uint64_t covered_bytes[BLOCKS] = {0};
    for (uint32_t channel = 0; channel < program->channel_count; channel++) {
        uint64_t most_bytes = geometry->channels[channel].chunk_bytes;
        for (uint32_t chunk = 0; chunk < geometry->channels[channel].chunks; chunk++) {
            for (uint32_t part = 0; part < program->channels[channel].part_count; part++) {
                lane_span_t span = lane_span(geometry, channel, part, chunk);
                uint64_t *covered =
                    &covered_bytes[program->parts[program->channels[channel].part_first + part].block];
                *covered += span.bytes;
                if (span.offset_bytes + span.bytes != *covered || span.bytes > most_bytes ||
                    (span.bytes % LANE_UNIT_BYTES != 0 && *covered != geometry->block_bytes))
                    fail_msg("%llu bytes, chunks of %llu: channel %u chunk %u part %u is %llu bytes at %llu",
                             (unsigned long long)geometry->block_bytes, (unsigned long long)most_bytes,
                             channel, chunk, part, (unsigned long long)span.bytes,
                             (unsigned long long)span.offset_bytes);
            }
        }
    }
    for (uint32_t block = 0; block < program->block_count; block++)
        assert_int_equal(covered_bytes[block], geometry->block_bytes);
}

/* One block, then several: in channels of their own, all in one channel, and both. */
static const split_t splits[] = {
    {1, 1, {{1.0, 1, 0, 1}}},
    {1, 1, {{1.0, 8, 0, 1}}},
    {1, 3, {{1.0 / 3, 3, 0, 1}, {1.0 / 3, 3, 0, 1}, {1.0 / 3, 3, 0, 1}}},
    {1,
     7,
     {{0.1, 1, 0, 1},
      {0.2, 5, 0, 1},
      {0.3, 1, 0, 1},
      {0.05, 2, 0, 1},
      {0.15, 7, 0, 1},
      {0.1, 1, 0, 1},
      {0.1, 1, 0, 1}}},
    {1, 3, {{0.999999, 1, 0, 1}, {0.0000005, 4, 0, 1}, {0.0000005, 1, 0, 1}}},
    {1, 3, {{1.0, 1, 0, 1}, {0.0, 4, 0, 1}, {0.0, 1, 0, 1}}},
    {3, 4, {{0.1, 1, 0, 1}, {1.0 / 3, 1, 1, 1}, {1.0 / 3, 1, 2, 1}, {7.0 / 30, 1, 0, 1}}},
    {8, 1, {{1.0, 8, 0, 8}}},
    {8, 3, {{0.5, 16, 0, 8}, {0.3, 8, 0, 8}, {0.2, 24, 0, 8}}},
    {4, 3, {{0.5, 4, 0, 4}, {0.25, 6, 0, 2}, {0.25, 4, 2, 2}}},
};

static void test_blocks_are_split_exactly(void **state)
{
    (void)state;
    static const uint64_t blocks_bytes[] = {
        0,      1,      3,       4,       8,        15,       16,          17,
        31,     32,     33,      127,     255,      256,      257,         1009,
        4093,   4096,   8191,    65537,   104729,   262144,   99991,       99992,
        524287, 524288, 1048573, 1299709, 8u << 20, 15485863, (64u << 20), (64u << 20) + 4};
    static const uint64_t chunks_bytes[] = {0, 1, 16, 17, 48, 1000, 4096, 65536, LANE_CHUNK_MAX_BYTES};
    for (size_t i = 0; i < sizeof(splits) / sizeof(*splits); i++) {
        divided_t divided;
        assert_int_equal(divide(&divided, &splits[i]), BLINK_OK);
        for (size_t p = 0; p < sizeof(blocks_bytes) / sizeof(*blocks_bytes); p++) {
            for (size_t c = 0; c < sizeof(chunks_bytes) / sizeof(*chunks_bytes); c++) {
                if (chunks_bytes[c] > 0 && blocks_bytes[p] / chunks_bytes[c] > 100000 / 16)
                    continue;
                lane_geometry_t geometry;
                assert_int_equal(
                    lane_geometry_init(&divided.program, blocks_bytes[p], chunks_bytes[c], 2, &geometry),
                    BLINK_OK);
                assert_exact_cover(&geometry);
                lane_geometry_fini(&geometry);
            }
        }
    }
}

static void test_channels_divide_a_block_as_their_shares(void **state)
{
    (void)state;
    const split_t split = {2, 2, {{0.4, 2, 0, 2}, {0.6, 2, 0, 2}}};
    divided_t divided;
    lane_geometry_t geometry;
    assert_int_equal(divide(&divided, &split), BLINK_OK);
    assert_int_equal(lane_geometry_init(&divided.program, 16000, 16000, 1, &geometry), BLINK_OK);
    for (uint32_t part = 0; part < 2; part++) {
        assert_int_equal(lane_span(&geometry, 0, part, 0).bytes, 6400);
        assert_int_equal(lane_span(&geometry, 1, part, 0).offset_bytes, 6400);
    }
    lane_geometry_fini(&geometry);
}

static void test_offsets_count_whole_blocks_before_the_span(void **state)
{
    (void)state;
    divided_t divided;
    lane_geometry_t geometry;
    assert_int_equal(divide(&divided, &(split_t){4, 1, {{1.0, 4, 0, 4}}}), BLINK_OK);
    divided.parts[3].in_block = 2;
    divided.parts[3].out_block = 3;
    assert_int_equal(lane_geometry_init(&divided.program, 100, 16, 1, &geometry), BLINK_OK);
    lane_span_t span = lane_span(&geometry, 0, 3, 1);
    assert_int_equal(span.offset_bytes, 16);
    assert_int_equal(lane_buffer_offset(&geometry, 0, 3, LANE_INPUT, 100, span), 216);
    assert_int_equal(lane_buffer_offset(&geometry, 0, 3, LANE_OUTPUT, 140, span), 436);
    lane_geometry_fini(&geometry);
}

/* The lanes of a channel all run as many chunks, so those of a small extent end with empty spans. */
static void test_spans_behind_the_end_of_an_extent_are_empty(void **state)
{
    (void)state;
    divided_t divided;
    lane_geometry_t geometry;
    assert_int_equal(divide(&divided, &(split_t){2, 2, {{0.6, 2, 0, 2}, {0.4, 1, 0, 1}}}), BLINK_OK);
    assert_int_equal(lane_geometry_init(&divided.program, 1600, 16, 1, &geometry), BLINK_OK);
    assert_int_equal(geometry.channels[0].chunks, 100);
    assert_int_equal(lane_span(&geometry, 0, 1, 99).bytes, 16);
    assert_int_equal(lane_span(&geometry, 0, 0, 99).bytes, 0);
    assert_true(lane_span(&geometry, 0, 0, 99).offset_bytes <= 1600);
    lane_geometry_fini(&geometry);
}

static void test_blocks_that_cannot_be_divided_are_refused(void **state)
{
    (void)state;
    divided_t divided;
    assert_int_equal(divide(&divided, &(split_t){3, 1, {{1.0, 4, 0, 3}}}), BLINK_ERR_INTERNAL);
    assert_string_equal(blink_error_text(),
                        "channel 0 has 2 parts for block 0 and 1 for block 1; it must have as many");
    assert_int_equal(divide(&divided, &(split_t){3, 1, {{1.0, 4, 0, 2}}}), BLINK_ERR_INTERNAL);
    assert_string_equal(blink_error_text(), "no channel carries block 2 of 3");
}

static void test_chunk_is_rounded_up_to_whole_units(void **state)
{
    (void)state;
    divided_t divided;
    lane_geometry_t geometry;
    divide_whole(&divided, 1, (split_channel_t[]){{1.0, 1, 0, 1}});
    assert_int_equal(lane_geometry_init(&divided.program, 100, 17, 2, &geometry), BLINK_OK);
    assert_int_equal(geometry.channels[0].chunk_bytes, 32);
    assert_int_equal(geometry.channels[0].chunks, 4);
    lane_geometry_fini(&geometry);
}

static void test_chosen_chunk_is_whole_units_and_bounded(void **state)
{
    (void)state;
    static const uint64_t bdps_bytes[] = {0, 1001, 50000, 10u << 20};
    lane_channel_t channels[2] = {{.share = 0.7, .part_count = 1}, {.share = 0.3, .part_count = 8}};
    for (size_t i = 0; i < sizeof(bdps_bytes) / sizeof(*bdps_bytes); i++) {
        lane_program_t program = {
            .depth = 6, .bdp_bytes = bdps_bytes[i], .channel_count = 2, .channels = channels};
        for (uint64_t bytes = 0; bytes < 1u << 30; bytes = bytes * 3 + 7) {
            uint64_t chunk_bytes = lane_choose_chunk(&program, bytes);
            assert_int_equal(chunk_bytes % LANE_UNIT_BYTES, 0);
            assert_in_range(chunk_bytes, LANE_UNIT_BYTES, LANE_CHUNK_MAX_BYTES);
            assert_true(chunk_bytes >= bdps_bytes[i] || chunk_bytes == LANE_CHUNK_MAX_BYTES);
        }
    }
}

static void test_channels_have_about_as_many_chunks_whatever_their_shares(void **state)
{
    (void)state;
    divided_t divided;
    lane_geometry_t geometry;
    divide_whole(&divided, 3, (split_channel_t[]){{0.75, 1, 0, 1}, {0.05, 1, 0, 1}, {0.2, 4, 0, 1}});
    assert_int_equal(lane_geometry_init(&divided.program, 64u << 20, 64u << 10, 4, &geometry), BLINK_OK);
    for (uint32_t channel = 1; channel < 3; channel++)
        assert_in_range(geometry.channels[channel].chunks, geometry.channels[0].chunks - 3,
                        geometry.channels[0].chunks + 3);
    assert_int_equal(geometry.channels[0].chunk_bytes, 64u << 10);
    lane_geometry_fini(&geometry);
}

static void test_scratch_slots_lie_apart(void **state)
{
    (void)state;
    divided_t divided;
    lane_geometry_t geometry;
    uint64_t end = 0;
    divide_whole(&divided, 2, (split_channel_t[]){{0.9, 1, 0, 1}, {0.1, 1, 0, 1}});
    lane_channel_t *channels = divided.channels;
    channels[0].edge_count = channels[1].edge_first = 3;
    channels[1].edge_count = 2;
    assert_int_equal(lane_geometry_init(&divided.program, 1u << 20, 4096, 3, &geometry), BLINK_OK);
    for (uint32_t channel = 0; channel < 2; channel++) {
        for (uint32_t edge = 0; edge < channels[channel].edge_count; edge++) {
            for (uint32_t slot = 0; slot < 3; slot++) {
                uint32_t number = channels[channel].edge_first + edge;
                assert_int_equal(lane_scratch_offset(&geometry, channel, number, slot), end);
                assert_int_equal(lane_scratch_offset(&geometry, channel, number, slot + 3), end);
                end += geometry.channels[channel].chunk_bytes;
            }
        }
    }
    assert_int_equal(end, geometry.scratch_bytes);
    lane_geometry_fini(&geometry);
}

/* No scratch for what is not there: 100 bytes in two channels need one slot of 64 or 48 each. */
static void test_chunks_are_no_larger_than_the_payload(void **state)
{
    (void)state;
    divided_t divided;
    lane_geometry_t geometry;
    divide_whole(&divided, 2, (split_channel_t[]){{0.5, 1, 0, 1}, {0.5, 1, 0, 1}});
    divided.channels[0].edge_count = divided.channels[1].edge_count = 1;
    assert_int_equal(lane_geometry_init(&divided.program, 100, 65536, 4, &geometry), BLINK_OK);
    assert_int_equal(geometry.scratch_bytes, 48 + 64);
    lane_geometry_fini(&geometry);
}

static void test_slots_cover_the_latency_of_the_longest_path(void **state)
{
    (void)state;
    /* 100 GB/s over half of the payload is 50 kB per µs: 8 µs hold 400 kB. */
    lane_channel_t channels[2] = {{.share = 0.5, .part_count = 1}, {.share = 0.5, .part_count = 1}};
    lane_program_t program = {
        .depth = 2, .channel_count = 2, .channels = channels, .rate_GBps = 100, .latency_us = 8};
    assert_int_equal(lane_choose_slots(&program, 50000), 4 + 8);
    assert_int_equal(lane_choose_slots(&program, 400000), 4 + 1);
    assert_int_equal(lane_choose_slots(&program, 16), 4 + 60);
}

static void test_slots_between_hosts_hold_half_a_megabyte(void **state)
{
    (void)state;
    lane_channel_t channel = {.share = 1, .part_count = 1};
    uint32_t host_of_rank[2] = {0, 1};
    lane_program_t program = {.depth = 2, .channel_count = 1, .channels = &channel, .rate_GBps = 1};
    assert_int_equal(lane_choose_slots(&program, 64 << 10), 4);
    program.rank_host = host_of_rank;
    assert_int_equal(lane_choose_slots(&program, 256 << 10), 4);
    assert_int_equal(lane_choose_slots(&program, 64 << 10), 8);
    assert_int_equal(lane_choose_slots(&program, 16), 4 + 60);
}

static void test_edges_of_few_chunks_have_few_slots(void **state)
{
    (void)state;
    divided_t divided;
    lane_geometry_t geometry;
    divide_whole(&divided, 1, (split_channel_t[]){{1.0, 1, 0, 1}});
    divided.channels[0].edge_count = 3;
    /* Two chunks of 1,024 bytes: two slots on each of three edges, where 60 were asked for. */
    assert_int_equal(lane_geometry_init(&divided.program, 2000, 1024, 60, &geometry), BLINK_OK);
    assert_int_equal(geometry.slots, 60);
    assert_int_equal(geometry.scratch_bytes, 3 * 2 * 1024);
    assert_int_equal(lane_scratch_offset(&geometry, 0, 2, 1), (2 * 2 + 1) * 1024);
    lane_geometry_fini(&geometry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_split_exactly),
        cmocka_unit_test(test_channels_divide_a_block_as_their_shares),
        cmocka_unit_test(test_offsets_count_whole_blocks_before_the_span),
        cmocka_unit_test(test_spans_behind_the_end_of_an_extent_are_empty),
        cmocka_unit_test(test_blocks_that_cannot_be_divided_are_refused),
        cmocka_unit_test(test_chunk_is_rounded_up_to_whole_units),
        cmocka_unit_test(test_chosen_chunk_is_whole_units_and_bounded),
        cmocka_unit_test(test_channels_have_about_as_many_chunks_whatever_their_shares),
        cmocka_unit_test(test_scratch_slots_lie_apart),
        cmocka_unit_test(test_chunks_are_no_larger_than_the_payload),
        cmocka_unit_test(test_slots_cover_the_latency_of_the_longest_path),
        cmocka_unit_test(test_slots_between_hosts_hold_half_a_megabyte),
        cmocka_unit_test(test_edges_of_few_chunks_have_few_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
