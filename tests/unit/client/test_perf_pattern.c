/* blink-perf's inputs, references and checks: they accept what any plan may give, and nothing else. */
#include "check/check.h"
#include "check/facts.h"
#include "check/pattern.h"
#include "check/reference.h"
#include "memory/slots.h"

#include "element.h"
#include "names.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT     1500u /* elements: several pieces of the reference, and a rest */
#define FIRST     3u    /* an element within a word, for all types but the largest */
#define RANKS_MAX 40u
#define SEED      77u

static const blink_datatype_t datatypes[] = {
    BLINK_INT8,    BLINK_UINT8,   BLINK_INT32,   BLINK_UINT32,   BLINK_INT64,       BLINK_UINT64,
    BLINK_FLOAT16, BLINK_FLOAT32, BLINK_FLOAT64, BLINK_BFLOAT16, BLINK_FLOAT8_E4M3, BLINK_FLOAT8_E5M2};
static const blink_redop_t redops[] = {BLINK_SUM, BLINK_PROD, BLINK_MAX,
                                       BLINK_MIN, BLINK_AVG,  BLINK_PRE_MUL_SUM};
static const blink_datatype_t floats[] = {BLINK_FLOAT16,  BLINK_FLOAT32,     BLINK_FLOAT64,
                                          BLINK_BFLOAT16, BLINK_FLOAT8_E4M3, BLINK_FLOAT8_E5M2};
static const uint32_t rank_counts[] = {1, 2, 3, 8, 9, RANKS_MAX};
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- a reduction with the roundings of a plan ---- */

typedef struct reduction {
    blink_datatype_t datatype;
    blink_redop_t redop;
    uint32_t rank_count, left_out; /* this rank's input is not added; rank_count: all are */
    uint32_t first_rank;           /* where the chain begins */
    bool ignores_scalar, ignores_divisor;
} reduction_t;

static double combine(blink_redop_t redop, double a, double b)
{
    switch (redop) {
    case BLINK_PROD:
        return a * b;
    case BLINK_MAX:
        return a > b ? a : b;
    case BLINK_MIN:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

/* The longest plan there is: one chain, where every rank rounds and stores. */
static double reduce_float(const reduction_t *r, unsigned char *const *inputs, uint64_t i)
{
    uint32_t bytes = blink_datatype_bytes(r->datatype);
    unsigned char stored[8];
    double value = NAN;
    for (uint32_t step = 0; step < r->rank_count; step++) {
        uint32_t rank = (r->first_rank + step) % r->rank_count;
        if (rank == r->left_out)
            continue;
        double input = element_load(r->datatype, inputs[rank] + i * bytes);
        if (r->redop == BLINK_PRE_MUL_SUM && !r->ignores_scalar)
            input *= perf_pattern_scalar(r->datatype, rank);
        element_store(r->datatype, isnan(value) ? input : combine(r->redop, value, input), stored);
        value = element_load(r->datatype, stored);
    }
    return r->redop == BLINK_AVG && !r->ignores_divisor ? value / r->rank_count : value;
}

static int64_t value_of(blink_datatype_t datatype, const unsigned char *element)
{
    uint32_t bytes = blink_datatype_bytes(datatype), unused = 64 - 8 * bytes;
    bool is_signed = datatype == BLINK_INT8 || datatype == BLINK_INT32 || datatype == BLINK_INT64;
    uint64_t bits = 0;
    memcpy(&bits, element, bytes);
    return is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

/* With 128 bits and the type's own arithmetic for the rest. */
static void reduce_integer(const reduction_t *r, unsigned char *const *inputs, uint64_t i, unsigned char *out)
{
    uint32_t bytes = blink_datatype_bytes(r->datatype);
    bool is_uint64 = r->datatype == BLINK_UINT64;
    unsigned char stored[8] = {0};
    bool begun = false;
    for (uint32_t step = 0; step < r->rank_count; step++) {
        uint32_t rank = (r->first_rank + step) % r->rank_count;
        if (rank == r->left_out)
            continue;
        int64_t input = value_of(r->datatype, inputs[rank] + i * bytes);
        int64_t sum = value_of(r->datatype, stored);
        if (r->redop == BLINK_PRE_MUL_SUM && !r->ignores_scalar)
            input = (int64_t)((uint64_t)input * (uint64_t)(int64_t)perf_pattern_scalar(r->datatype, rank));
        bool less = is_uint64 ? (uint64_t)input < (uint64_t)sum : input < sum;
        if (!begun)
            sum = input;
        else if (r->redop == BLINK_MAX || r->redop == BLINK_MIN)
            sum = less == (r->redop == BLINK_MIN) ? input : sum;
        else
            sum = (int64_t)(r->redop == BLINK_PROD ? (uint64_t)sum * (uint64_t)input
                                                   : (uint64_t)sum + (uint64_t)input);
        memcpy(stored, &sum, bytes);
        begun = true;
    }
    int64_t sum = value_of(r->datatype, stored);
    if (r->redop == BLINK_AVG && !r->ignores_divisor)
        sum = is_uint64 ? (int64_t)((uint64_t)sum / r->rank_count) : sum / (int64_t)r->rank_count;
    memcpy(out, &sum, bytes);
}

/* How many of COUNT elements, from FIRST on, the reference finds wrong in that reduction. */
static uint64_t wrong_of(const reduction_t *r)
{
    perf_pattern_t pattern = perf_pattern_make(r->datatype, true, r->redop, r->rank_count, SEED);
    uint32_t bytes = pattern.element_bytes;
    unsigned char *inputs[RANKS_MAX], *output = malloc(COUNT * (size_t)bytes);
    double *values;
    for (uint32_t rank = 0; rank < r->rank_count; rank++) {
        inputs[rank] = malloc(COUNT * (size_t)bytes);
        perf_pattern_fill(&pattern, rank, FIRST, COUNT, inputs[rank]);
    }
    for (uint64_t i = 0; i < COUNT; i++)
        if (perf_format_of(r->datatype).exponent_bits > 0)
            element_store(r->datatype, reduce_float(r, inputs, i), output + i * bytes);
        else
            reduce_integer(r, inputs, i, output + i * bytes);
    assert_int_equal(perf_reference_values(r->datatype, &values), BLINK_OK);
    perf_reference_t reference = perf_reference_make(&pattern, r->redop, values);
    perf_block_t block = {.count = COUNT, .source_at = FIRST, .source = PERF_ALL_RANKS};
    uint64_t wrong = perf_reference_wrong(&reference, &block, 0, COUNT, output);
    for (uint32_t rank = 0; rank < r->rank_count; rank++)
        free(inputs[rank]);
    free(values);
    free(output);
    return wrong;
}

static void expect_right(const reduction_t *r)
{
    uint64_t wrong = wrong_of(r);
    if (wrong > 0)
        fail_msg("%s of %s by %u ranks from %u: %lu wrong", blink_name_redop(r->redop),
                 blink_name_datatype(r->datatype), r->rank_count, r->first_rank, (unsigned long)wrong);
}

/* In at least one of `share` elements. */
static void expect_wrong(const reduction_t *r, uint64_t share)
{
    uint64_t wrong = wrong_of(r);
    if (wrong < COUNT / share)
        fail_msg("%s of %s by %u ranks without %u: only %lu wrong", blink_name_redop(r->redop),
                 blink_name_datatype(r->datatype), r->rank_count, r->left_out, (unsigned long)wrong);
}

static void test_chains_of_any_length_and_start_are_right(void **state)
{
    (void)state;
    for (size_t d = 0; d < LENGTH(datatypes); d++)
        for (size_t o = 0; o < LENGTH(redops); o++)
            for (size_t n = 0; n < LENGTH(rank_counts); n++)
                for (uint32_t first = 0; first < rank_counts[n]; first += 5)
                    expect_right(&(reduction_t){.datatype = datatypes[d],
                                                .redop = redops[o],
                                                .rank_count = rank_counts[n],
                                                .left_out = rank_counts[n],
                                                .first_rank = first});
}

/* A product of many ranks hides a factor of ±1 with the right sign, and a maximum a smaller input, so those
 * are rarer. */
static void test_a_rank_left_out_is_found(void **state)
{
    (void)state;
    for (size_t d = 0; d < LENGTH(datatypes); d++)
        for (size_t o = 0; o < LENGTH(redops); o++)
            for (size_t n = 1; n < LENGTH(rank_counts); n++)
                for (uint32_t rank = 0; rank < rank_counts[n]; rank += 7)
                    expect_wrong(&(reduction_t){.datatype = datatypes[d],
                                                .redop = redops[o],
                                                .rank_count = rank_counts[n],
                                                .left_out = rank},
                                 100);
}

static void test_a_scalar_or_divisor_that_is_ignored_is_found(void **state)
{
    (void)state;
    for (size_t d = 0; d < LENGTH(datatypes); d++)
        for (size_t n = 1; n < LENGTH(rank_counts); n++) {
            reduction_t r = {.datatype = datatypes[d],
                             .redop = BLINK_AVG,
                             .rank_count = rank_counts[n],
                             .left_out = rank_counts[n],
                             .ignores_scalar = true,
                             .ignores_divisor = true};
            expect_wrong(&r, 10);
            r.redop = BLINK_PRE_MUL_SUM;
            expect_wrong(&r, 10);
        }
}

/* The smallest error there is, at every exact place. */
static void test_exact_places_bear_no_error(void **state)
{
    (void)state;
    for (size_t d = 0; d < LENGTH(floats); d++) {
        perf_pattern_t pattern = perf_pattern_make(floats[d], true, BLINK_SUM, 2, SEED);
        uint32_t bytes = pattern.element_bytes, exact = 0;
        unsigned char inputs[2][64 * 8], output[64 * 8];
        perf_pattern_fill(&pattern, 0, 0, 64, inputs[0]);
        perf_pattern_fill(&pattern, 1, 0, 64, inputs[1]);
        for (uint32_t i = 0; i < 64; i++) {
            double sum = element_load(floats[d], inputs[0] + i * bytes) +
                         element_load(floats[d], inputs[1] + i * bytes);
            element_store(floats[d], sum, output + i * bytes);
            output[i * bytes] ^= 1;
            exact += perf_pattern_exact(&pattern, i);
        }
        perf_reference_t reference = perf_reference_make(&pattern, BLINK_SUM, NULL);
        perf_block_t block = {.count = 64, .source = PERF_ALL_RANKS};
        assert_true(exact >= 32);
        assert_true(perf_reference_wrong(&reference, &block, 0, 64, output) >= exact);
    }
}

static void test_nan_and_poison_are_wrong(void **state)
{
    (void)state;
    unsigned char output[COUNT * 8];
    for (size_t d = 0; d < LENGTH(datatypes); d++) {
        perf_pattern_t pattern = perf_pattern_make(datatypes[d], true, BLINK_SUM, 3, SEED);
        perf_reference_t reference = perf_reference_make(&pattern, BLINK_SUM, NULL);
        perf_block_t block = {.count = COUNT, .source = PERF_ALL_RANKS};
        memset(output, 0xa5, sizeof(output));
        assert_true(perf_reference_wrong(&reference, &block, 0, COUNT, output) > COUNT / 2);
        memset(output, 0xff, sizeof(output));
        assert_true(perf_reference_wrong(&reference, &block, 0, COUNT, output) > COUNT / 2);
    }
}

/* ---- inputs ---- */

static void test_a_part_of_an_input_is_the_same_wherever_it_is_computed(void **state)
{
    (void)state;
    for (size_t d = 0; d < LENGTH(datatypes); d++)
        for (size_t o = 0; o < LENGTH(redops); o++) {
            perf_pattern_t pattern = perf_pattern_make(datatypes[d], true, redops[o], 11, SEED);
            uint32_t bytes = pattern.element_bytes;
            unsigned char whole[200 * 8], part[200 * 8];
            perf_pattern_fill(&pattern, 4, 0, 200, whole);
            for (uint64_t first = 0; first < 40; first++) {
                perf_pattern_fill(&pattern, 4, first, 150, part);
                assert_memory_equal(part, whole + first * bytes, 150 * (size_t)bytes);
            }
        }
}

static void test_inputs_of_reductions_are_finite_and_of_both_signs(void **state)
{
    (void)state;
    for (size_t d = 0; d < LENGTH(floats); d++)
        for (size_t o = 0; o < LENGTH(redops); o++) {
            perf_pattern_t pattern = perf_pattern_make(floats[d], true, redops[o], 4, SEED);
            unsigned char input[COUNT * 8];
            uint32_t positive = 0, negative = 0;
            perf_pattern_fill(&pattern, 1, 0, COUNT, input);
            for (uint32_t i = 0; i < COUNT; i++) {
                double value = element_load(floats[d], input + i * pattern.element_bytes);
                assert_true(isfinite(value));
                positive += value > 0;
                negative += value < 0;
            }
            assert_true(positive > COUNT / 8 && negative > COUNT / 8);
        }
}

static void test_inputs_differ_between_ranks_and_seeds(void **state)
{
    (void)state;
    uint64_t inputs[3][64];
    perf_pattern_t pattern = perf_pattern_make(BLINK_UINT64, true, BLINK_SUM, 4, SEED);
    perf_pattern_t other = perf_pattern_make(BLINK_UINT64, true, BLINK_SUM, 4, SEED + 1);
    perf_pattern_fill(&pattern, 0, 0, 64, inputs[0]);
    perf_pattern_fill(&pattern, 1, 0, 64, inputs[1]);
    perf_pattern_fill(&other, 0, 0, 64, inputs[2]);
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_not_equal(inputs[0][i], inputs[1][i]);
        assert_int_not_equal(inputs[0][i], inputs[2][i]);
    }
}

/* ---- blocks ---- */

/* What every rank must get, put together block by block from the inputs, as blink.h tells it. */
static void test_outputs_are_made_of_the_right_blocks(void **state)
{
    (void)state;
    enum { RANKS = 3, BLOCK = 10 };
    perf_shape_t shape = {.rank_count = RANKS, .rank = 1, .root = 2, .count = BLOCK};
    static const struct {
        perf_collective_t collective;
        uint32_t blocks, source, source_at; /* of the last block */
    } expected[] = {{PERF_ALLREDUCE, 1, PERF_ALL_RANKS, 0},
                    {PERF_BROADCAST, 1, 2, 0},
                    {PERF_REDUCE, 0, 0, 0},
                    {PERF_ALLGATHER, RANKS, 2, 0},
                    {PERF_REDUCESCATTER, 1, PERF_ALL_RANKS, BLOCK},
                    {PERF_GATHER, 0, 0, 0},
                    {PERF_SCATTER, 1, 2, BLOCK},
                    {PERF_ALLTOALL, RANKS, 2, BLOCK},
                    {PERF_SENDRECV, 1, 0, 0}};
    for (size_t i = 0; i < LENGTH(expected); i++) {
        shape.collective = expected[i].collective;
        assert_int_equal(perf_output_blocks(&shape), expected[i].blocks);
        if (expected[i].blocks == 0)
            continue;
        perf_block_t block = perf_output_block(&shape, expected[i].blocks - 1);
        assert_int_equal(block.source, expected[i].source);
        assert_int_equal(block.source_at, expected[i].source_at);
        assert_int_equal(block.at, (expected[i].blocks - 1) * BLOCK);
    }
}

static void test_blocks_of_an_uneven_alltoall_fill_both_buffers(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 10; n++)
        for (uint32_t rank = 0; rank < n; rank++) {
            perf_shape_t shape = {.collective = PERF_ALLTOALLV, .rank_count = n, .rank = rank, .count = 7};
            uint64_t sent = 0, received = 0;
            for (uint32_t peer = 0; peer < n; peer++) {
                perf_block_t block = perf_output_block(&shape, peer);
                assert_int_equal(block.at, received);
                assert_int_equal(block.count, perf_pair_count(&shape, peer, rank));
                sent += perf_pair_count(&shape, rank, peer);
                received += block.count;
            }
            assert_int_equal(sent, n * shape.count);
            assert_int_equal(received, n * shape.count);
        }
}

/* Blocks of 10 differ by 5. */
static void test_blocks_of_different_lengths_follow_one_another(void **state)
{
    (void)state;
    enum { RANKS = 3, BLOCK = 10 };
    static const uint64_t counts[RANKS] = {15, 5, 10}, starts[RANKS] = {0, 15, 20};
    perf_shape_t shape = {.rank_count = RANKS, .rank = 1, .root = 1, .count = BLOCK};
    shape.collective = PERF_GATHERV;
    assert_int_equal(perf_input_count(&shape), counts[1]);
    assert_int_equal(perf_output_count(&shape), RANKS * BLOCK);
    assert_int_equal(perf_in_place_input(&shape), starts[1]);
    for (uint32_t i = 0; i < RANKS; i++) {
        perf_block_t block = perf_output_block(&shape, i);
        assert_int_equal(block.at, starts[i]);
        assert_int_equal(block.count, counts[i]);
        assert_int_equal(block.source, i);
        assert_int_equal(block.source_at, 0);
    }
    shape.collective = PERF_REDUCESCATTERV;
    perf_block_t block = perf_output_block(&shape, 0);
    assert_int_equal(perf_in_place_output(&shape), starts[1]);
    assert_int_equal(block.at, 0);
    assert_int_equal(block.count, counts[1]);
    assert_int_equal(block.source_at, starts[1]);
}

static void test_sizes_and_bandwidths_are_those_of_nccl_tests(void **state)
{
    (void)state;
    assert_int_equal(perf_collective_blocks(PERF_ALLREDUCE, 4), 1);
    assert_int_equal(perf_collective_blocks(PERF_ALLGATHER, 4), 4);
    assert_int_equal(perf_collective_blocks(PERF_ALLTOALL, 4), 4);
    assert_float_equal(perf_collective_busbw_factor(PERF_ALLREDUCE, 4), 1.5, 1e-12);
    assert_float_equal(perf_collective_busbw_factor(PERF_REDUCESCATTER, 4), 0.75, 1e-12);
    assert_float_equal(perf_collective_busbw_factor(PERF_ALLTOALLV, 4), 0.75, 1e-12);
    assert_float_equal(perf_collective_busbw_factor(PERF_BROADCAST, 4), 1, 1e-12);
    assert_float_equal(perf_collective_busbw_factor(PERF_SENDRECV, 4), 1, 1e-12);
    assert_float_equal(perf_collective_busbw_factor(PERF_ALLREDUCE, 1), 1, 1e-12);
}

/* ---- whole outputs ---- */

#define LARGE_COUNT ((uint64_t)4 << 20) /* float32: four times what is compared in full */
#define HOLE_COUNT  16384u

static uint64_t wrong_in_large_output(uint64_t hole_at)
{
    perf_shape_t shape = {.collective = PERF_ALLGATHER, .rank_count = 2, .count = LARGE_COUNT / 2};
    perf_pattern_t pattern = perf_pattern_make(BLINK_FLOAT32, false, BLINK_SUM, 2, SEED);
    perf_reference_t reference = perf_reference_make(&pattern, BLINK_SUM, NULL);
    float *output = malloc(LARGE_COUNT * sizeof(*output));
    perf_pattern_fill(&pattern, 0, 0, LARGE_COUNT / 2, output);
    perf_pattern_fill(&pattern, 1, 0, LARGE_COUNT / 2, output + LARGE_COUNT / 2);
    if (hole_at < LARGE_COUNT)
        memset(output + hole_at, 0xa5, HOLE_COUNT * sizeof(*output));
    uint64_t wrong = perf_check_output(&reference, &shape, output);
    free(output);
    return wrong;
}

static void test_samples_of_a_large_output_find_a_missing_piece(void **state)
{
    (void)state;
    assert_int_equal(wrong_in_large_output(LARGE_COUNT), 0);
    for (uint64_t at = 0; at + HOLE_COUNT <= LARGE_COUNT; at += LARGE_COUNT / 16 + 77)
        assert_true(wrong_in_large_output(at) > 0);
    assert_true(wrong_in_large_output(LARGE_COUNT - HOLE_COUNT) > 0);
}

static const perf_memory_source_t ordinary_memory = {.memory = PERF_MEMORY_ORDINARY};

/* Bytes beside an output that are written are told from the output, in every form; those of the output are
 * not. */
static void check_untouched(const perf_shape_t *shape, bool in_place)
{
    perf_slots_t slots;
    uint64_t bytes = shape->rank_count * shape->count;
    assert_int_equal(perf_slots_create(&ordinary_memory, bytes, 2, &slots), BLINK_OK);
    perf_place_t place = perf_slots_place(&slots, 1, shape, 1, in_place);
    perf_place_poison(&place);
    uint64_t untouched = perf_place_untouched(&place);
    for (uint64_t i = 0; i < place.area_bytes; i++) {
        bool is_output =
            place.recv_area + i >= place.recv && place.recv_area + i < place.recv + place.recv_bytes;
        place.recv_area[i] ^= 0x40;
        assert_int_equal(perf_place_untouched(&place) == untouched, is_output);
        place.recv_area[i] ^= 0x40;
    }
    for (uint64_t i = 0; place.send_area && i < place.area_bytes; i += 5) {
        place.send_area[i] ^= 0x40;
        assert_int_not_equal(perf_place_untouched(&place), untouched);
        place.send_area[i] ^= 0x40;
    }
    assert_int_equal(place.recv_bytes, perf_output_count(shape));
    perf_slots_destroy(&slots);
}

static void test_writes_beside_the_output_are_found(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < PERF_COLLECTIVE_COUNT; c++)
        for (uint32_t rank = 0; rank < 3 && perf_collective_moves((perf_collective_t)c); rank++)
            for (int in_place = 0; in_place < 2; in_place++)
                check_untouched(&(perf_shape_t){.collective = (perf_collective_t)c,
                                                .rank_count = 3,
                                                .rank = rank,
                                                .root = 1,
                                                .count = 37},
                                in_place == 1);
}

/* The forms that blink.h names: where the output begins, from the input on, of rank 2, which is the root. */
static void test_in_place_forms_are_those_of_the_library(void **state)
{
    (void)state;
    enum { RANK = 2, BLOCK = 37 };
    static const struct {
        perf_collective_t collective;
        ptrdiff_t output_from_input;
    } expected[] = {{PERF_ALLREDUCE, 0},
                    {PERF_BROADCAST, 0},
                    {PERF_REDUCE, 0},
                    {PERF_ALLGATHER, -RANK * BLOCK},
                    {PERF_REDUCESCATTER, RANK * BLOCK},
                    {PERF_GATHER, -RANK * BLOCK},
                    {PERF_SCATTER, RANK * BLOCK}};
    perf_slots_t slots;
    assert_int_equal(perf_slots_create(&ordinary_memory, 3 * BLOCK, 1, &slots), BLINK_OK);
    for (size_t i = 0; i < LENGTH(expected); i++) {
        perf_shape_t shape = {.collective = expected[i].collective,
                              .rank_count = 3,
                              .rank = RANK,
                              .root = RANK,
                              .count = BLOCK};
        perf_place_t place = perf_slots_place(&slots, 0, &shape, 1, true);
        assert_true(perf_collective_has_in_place(shape.collective));
        assert_int_equal(place.recv - place.send, expected[i].output_from_input);
        assert_null(place.send_area);
    }
    assert_false(perf_collective_has_in_place(PERF_ALLTOALL));
    perf_slots_destroy(&slots);
}

static void test_checksums_of_outputs_tell_moved_bytes(void **state)
{
    (void)state;
    unsigned char memory[64];
    perf_place_t place = {.recv = memory, .recv_bytes = sizeof(memory)};
    for (uint32_t i = 0; i < sizeof(memory); i++)
        memory[i] = (unsigned char)i;
    uint64_t sum = perf_place_output(&place);
    memory[8] = 16;
    memory[16] = 8;
    assert_int_not_equal(perf_place_output(&place), sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_of_any_length_and_start_are_right),
        cmocka_unit_test(test_a_rank_left_out_is_found),
        cmocka_unit_test(test_a_scalar_or_divisor_that_is_ignored_is_found),
        cmocka_unit_test(test_exact_places_bear_no_error),
        cmocka_unit_test(test_nan_and_poison_are_wrong),
        cmocka_unit_test(test_a_part_of_an_input_is_the_same_wherever_it_is_computed),
        cmocka_unit_test(test_inputs_of_reductions_are_finite_and_of_both_signs),
        cmocka_unit_test(test_inputs_differ_between_ranks_and_seeds),
        cmocka_unit_test(test_outputs_are_made_of_the_right_blocks),
        cmocka_unit_test(test_blocks_of_an_uneven_alltoall_fill_both_buffers),
        cmocka_unit_test(test_blocks_of_different_lengths_follow_one_another),
        cmocka_unit_test(test_sizes_and_bandwidths_are_those_of_nccl_tests),
        cmocka_unit_test(test_samples_of_a_large_output_find_a_missing_piece),
        cmocka_unit_test(test_writes_beside_the_output_are_found),
        cmocka_unit_test(test_in_place_forms_are_those_of_the_library),
        cmocka_unit_test(test_checksums_of_outputs_tell_moved_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
