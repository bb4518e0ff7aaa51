/* The arithmetic of a step: every type, operator and shape against one element at a time, on all instruction
 * sets. */
#include "exec/host/reduce/loops.h"

#include "element.h"
#include "names.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_SRCS    9u
#define MAX_DSTS    8u
#define MAX_COUNT   1100u
#define GUARD_BYTES 64u
#define GUARD       0xee

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define FOR_EACH_TYPE(datatype)  for (blink_datatype_t datatype = 0; datatype < REDUCE_DATATYPES; datatype++)
#define FOR_EACH_OPERATOR(redop) for (blink_redop_t redop = 0; redop <= BLINK_PRE_MUL_SUM; redop++)
#define FOR_EACH_SET(set)                                                                                    \
    for (uint32_t set##_at = 0; reduce_loops_at(set##_at); set##_at++)                                       \
        for (const reduce_loops_t *set = reduce_loops_at(set##_at); set; set = NULL)

typedef char memory_t[GUARD_BYTES + MAX_COUNT * 8 + GUARD_BYTES];

/* Sources with random elements, and room for destinations. */
typedef struct bench {
    _Alignas(64) memory_t sources[MAX_SRCS], results[MAX_DSTS], expected;
    uint64_t scalars[MAX_SRCS], random;
    const void *srcs[MAX_SRCS], *factors[MAX_SRCS];
    void *dsts[MAX_DSTS];
    reduce_step_t step;
} bench_t;

static uint64_t next_random(bench_t *bench)
{
    bench->random = bench->random * 6364136223846793005u + 1442695040888963407u;
    return bench->random ^ bench->random >> 29;
}

static bool is_float(blink_datatype_t datatype)
{
    return datatype >= BLINK_FLOAT16;
}

/* Any bits at all half of the time (for floats also NaN, infinities, subnormals), else a number near 1. */
static void random_element(bench_t *bench, blink_datatype_t datatype, void *element)
{
    uint64_t bits = next_random(bench);
    if (is_float(datatype) && bits >> 63)
        element_store(datatype, ((double)(bits & 0xffff) - 0x8000) / 0x2345, element);
    else
        memcpy(element, &bits, blink_datatype_bytes(datatype));
}

static void set_up(bench_t *bench, blink_datatype_t datatype, blink_redop_t redop, uint32_t src_count,
                   uint32_t dst_count, uint32_t count, uint32_t offset)
{
    uint32_t element_bytes = blink_datatype_bytes(datatype);
    uint32_t start = GUARD_BYTES + offset * element_bytes;
    for (uint32_t s = 0; s < src_count; s++) {
        for (uint32_t i = 0; i < count; i++)
            random_element(bench, datatype, bench->sources[s] + start + i * element_bytes);
        bench->srcs[s] = bench->sources[s] + start;
        random_element(bench, datatype, &bench->scalars[s]);
        bench->factors[s] = s % 3 == 2 ? NULL : &bench->scalars[s];
    }
    for (uint32_t d = 0; d < dst_count; d++) {
        memset(bench->results[d], GUARD, sizeof(memory_t));
        bench->dsts[d] = bench->results[d] + start;
    }
    bench->step = (reduce_step_t){.dsts = bench->dsts,
                                  .srcs = bench->srcs,
                                  .scalars = redop == BLINK_PRE_MUL_SUM ? bench->factors : NULL,
                                  .dst_count = dst_count,
                                  .src_count = src_count,
                                  .datatype = datatype,
                                  .redop = redop,
                                  .divisor = redop == BLINK_AVG ? 1 + src_count : 1,
                                  .bytes = (uint64_t)count * element_bytes};
}

/* ---- the reference ---- */

static bool takes_left(blink_redop_t redop, bool greater, bool less)
{
    return redop == BLINK_MAX ? greater : less;
}

static double combine_float(blink_redop_t redop, double x, double y)
{
    if (redop == BLINK_PROD)
        return x * y;
    if (redop != BLINK_MAX && redop != BLINK_MIN)
        return x + y;
    if (isnan(x) || isnan(y))
        return (double)NAN;
    return takes_left(redop, x > y, x < y) ? x : y;
}

/* What wraps at an integer's width, in 64 bits. */
static uint64_t wrap(blink_datatype_t datatype, uint64_t bits)
{
    switch (datatype) {
    case BLINK_INT8:
        return (uint64_t)(int64_t)(int8_t)bits;
    case BLINK_UINT8:
        return (uint8_t)bits;
    case BLINK_INT32:
        return (uint64_t)(int64_t)(int32_t)bits;
    case BLINK_UINT32:
        return (uint32_t)bits;
    default:
        return bits;
    }
}

static bool is_signed(blink_datatype_t datatype)
{
    return datatype == BLINK_INT8 || datatype == BLINK_INT32 || datatype == BLINK_INT64;
}

static uint64_t combine_integer(blink_datatype_t datatype, blink_redop_t redop, uint64_t x, uint64_t y)
{
    if (redop == BLINK_PROD)
        return wrap(datatype, x * y);
    if (redop != BLINK_MAX && redop != BLINK_MIN)
        return wrap(datatype, x + y);
    if (is_signed(datatype))
        return takes_left(redop, (int64_t)x > (int64_t)y, (int64_t)x < (int64_t)y) ? x : y;
    return takes_left(redop, x > y, x < y) ? x : y;
}

static uint64_t load_integer(blink_datatype_t datatype, const void *element)
{
    uint64_t bits = 0;
    memcpy(&bits, element, blink_datatype_bytes(datatype));
    return wrap(datatype, bits);
}

static void reference_integer(const reduce_step_t *step, uint64_t at, void *out)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < step->src_count; s++) {
        uint64_t x = load_integer(step->datatype, (const char *)step->srcs[s] + at);
        if (step->scalars && step->scalars[s])
            x = wrap(step->datatype, x * load_integer(step->datatype, step->scalars[s]));
        sum = s == 0 ? x : combine_integer(step->datatype, step->redop, sum, x);
    }
    if (is_signed(step->datatype))
        sum = (uint64_t)((int64_t)sum / (int64_t)step->divisor);
    else
        sum /= step->divisor;
    memcpy(out, &sum, blink_datatype_bytes(step->datatype));
}

/* A sum, product or quotient of two float32 may be taken in float64 and rounded: that gives the same float32.
 */
static double round_float(blink_datatype_t datatype, double x)
{
    return datatype == BLINK_FLOAT64 ? x : (double)(float)x;
}

static void reference_float(const reduce_step_t *step, uint64_t at, void *out)
{
    double sum = 0.0;
    for (uint32_t s = 0; s < step->src_count; s++) {
        double x = element_load(step->datatype, (const char *)step->srcs[s] + at);
        if (step->scalars && step->scalars[s])
            x = round_float(step->datatype, x * element_load(step->datatype, step->scalars[s]));
        sum = s == 0 ? x : round_float(step->datatype, combine_float(step->redop, sum, x));
    }
    element_store(step->datatype, round_float(step->datatype, sum / step->divisor), out);
}

static void reference(const reduce_step_t *step, char *out)
{
    if (step->src_count == 1 && !step->scalars && step->divisor == 1) {
        memcpy(out, step->srcs[0], step->bytes);
        return;
    }
    uint32_t element_bytes = blink_datatype_bytes(step->datatype);
    for (uint64_t at = 0; at < step->bytes; at += element_bytes) {
        if (is_float(step->datatype))
            reference_float(step, at, out + at);
        else
            reference_integer(step, at, out + at);
    }
}

/* The same bits, but any NaN is as good as another, and so are the zeros of a maximum. */
static bool same_element(const reduce_step_t *step, const void *x, const void *y)
{
    if (memcmp(x, y, blink_datatype_bytes(step->datatype)) == 0)
        return true;
    if (!is_float(step->datatype))
        return false;
    double left = element_load(step->datatype, x), right = element_load(step->datatype, y);
    bool extremum = step->redop == BLINK_MAX || step->redop == BLINK_MIN;
    return (isnan(left) && isnan(right)) || (extremum && left == 0.0 && right == 0.0);
}

static void check_result(const reduce_step_t *step, const void *result, const void *expected, uint32_t set)
{
    uint32_t element_bytes = blink_datatype_bytes(step->datatype);
    for (uint64_t at = 0; at < step->bytes; at += element_bytes) {
        if (!same_element(step, (const char *)result + at, (const char *)expected + at))
            fail_msg("%s %s of %u sources, %u destinations, %llu bytes, set %u, stream %d: element %llu is "
                     "%g, not %g",
                     blink_name_datatype(step->datatype), blink_name_redop(step->redop), step->src_count,
                     step->dst_count, (unsigned long long)step->bytes, set, step->stream,
                     (unsigned long long)(at / element_bytes),
                     element_load(step->datatype, (const char *)result + at),
                     element_load(step->datatype, (const char *)expected + at));
    }
}

static void check_guards(const memory_t memory, const void *start, uint64_t bytes)
{
    size_t before = (size_t)((const char *)start - memory);
    for (size_t i = 0; i < before; i++)
        assert_int_equal((uint8_t)memory[i], GUARD);
    for (size_t i = before + bytes; i < sizeof(memory_t); i++)
        assert_int_equal((uint8_t)memory[i], GUARD);
}

/* ---- the tests ---- */

static int make_bench(void **state)
{
    bench_t *bench = aligned_alloc(64, (sizeof(*bench) + 63) / 64 * 64);
    assert_non_null(bench);
    memset(bench, 0, sizeof(*bench));
    *state = bench;
    return 0;
}

static int free_bench(void **state)
{
    free(*state);
    return 0;
}

/* One shape, on every instruction set, with plain and streamed stores. */
static void check_shape(bench_t *bench, blink_datatype_t datatype, blink_redop_t redop, uint32_t src_count,
                        uint32_t dst_count, uint32_t count, uint32_t offset)
{
    set_up(bench, datatype, redop, src_count, dst_count, count, offset);
    reference(&bench->step, bench->expected);
    FOR_EACH_SET(set)
    {
        for (int stream = 0; stream < 2; stream++) {
            for (uint32_t d = 0; d < dst_count; d++)
                memset(bench->results[d], GUARD, sizeof(memory_t));
            bench->step.stream = stream;
            reduce_apply_with(set, &bench->step);
            for (uint32_t d = 0; d < dst_count; d++) {
                check_result(&bench->step, bench->dsts[d], bench->expected, set_at);
                check_guards(bench->results[d], bench->dsts[d], bench->step.bytes);
            }
        }
    }
}

static void test_every_type_operator_and_shape(void **state)
{
    FOR_EACH_TYPE(datatype)
    {
        FOR_EACH_OPERATOR(redop)
        {
            for (uint32_t src_count = 1; src_count <= MAX_SRCS; src_count++) {
                for (uint32_t dst_count = 1; dst_count <= MAX_DSTS; dst_count++)
                    check_shape(*state, datatype, redop, src_count, dst_count, 67 + 16 * dst_count,
                                dst_count % 2);
            }
        }
    }
}

static void test_every_length_and_start(void **state)
{
    FOR_EACH_TYPE(datatype)
    {
        for (uint32_t count = 0; count < 160; count++)
            check_shape(*state, datatype, BLINK_SUM, 2, 2, count, count % 9);
        check_shape(*state, datatype, BLINK_SUM, 3, 1, MAX_COUNT - 1, 1);
    }
}

/* Only one of them can be aligned to vectors. */
static void test_destinations_may_be_aligned_differently(void **state)
{
    bench_t *bench = *state;
    FOR_EACH_TYPE(datatype)
    {
        set_up(bench, datatype, BLINK_SUM, 2, 3, 301, 0);
        reference(&bench->step, bench->expected);
        for (uint32_t d = 0; d < 3; d++)
            bench->dsts[d] = (char *)bench->dsts[d] + d * blink_datatype_bytes(datatype);
        bench->step.stream = true;
        reduce_apply(&bench->step);
        for (uint32_t d = 0; d < 3; d++) {
            check_result(&bench->step, bench->dsts[d], bench->expected, 0);
            check_guards(bench->results[d], bench->dsts[d], bench->step.bytes);
        }
    }
}

static void test_destination_may_be_any_source(void **state)
{
    bench_t *bench = *state;
    FOR_EACH_TYPE(datatype)
    {
        for (uint32_t alias = 0; alias < 16; alias++) {
            set_up(bench, datatype, BLINK_SUM, 1 + alias / 2 % 8, 2, 211, 1);
            uint32_t source = alias / 4 % bench->step.src_count;
            reference(&bench->step, bench->expected);
            bench->dsts[alias % 2] = bench->sources[source] + ((char *)bench->srcs[0] - bench->sources[0]);
            bench->step.stream = alias % 4 >= 2;
            reduce_apply(&bench->step);
            check_result(&bench->step, bench->dsts[0], bench->expected, 0);
            check_result(&bench->step, bench->dsts[1], bench->expected, 0);
        }
    }
}

static void test_instruction_sets_give_the_same_bits(void **state)
{
    bench_t *bench = *state;
    FOR_EACH_TYPE(datatype)
    {
        FOR_EACH_OPERATOR(redop)
        {
            set_up(bench, datatype, redop, 3, 1, MAX_COUNT, 0);
            reduce_apply_with(&reduce_loops_plain, &bench->step);
            memcpy(bench->expected, bench->dsts[0], bench->step.bytes);
            FOR_EACH_SET(set)
            {
                reduce_apply_with(set, &bench->step);
                assert_memory_equal(bench->dsts[0], bench->expected, bench->step.bytes);
            }
        }
    }
}

static void test_results_do_not_depend_on_cuts(void **state)
{
    bench_t *bench = *state;
    FOR_EACH_TYPE(datatype)
    {
        FOR_EACH_OPERATOR(redop)
        {
            set_up(bench, datatype, redop, 3, 2, MAX_COUNT, 0);
            reduce_apply(&bench->step);
            reduce_step_t piece = bench->step;
            void *dsts[] = {bench->results[1]};
            const void *srcs[3];
            piece.dsts = dsts;
            piece.srcs = srcs;
            piece.dst_count = 1;
            for (uint64_t at = 0; at < bench->step.bytes; at += piece.bytes) {
                piece.bytes = (1 + next_random(bench) % 90) * blink_datatype_bytes(datatype);
                piece.bytes = piece.bytes < bench->step.bytes - at ? piece.bytes : bench->step.bytes - at;
                piece.stream = next_random(bench) & 1;
                dsts[0] = (char *)bench->dsts[1] + at;
                for (uint32_t s = 0; s < 3; s++)
                    srcs[s] = (const char *)bench->srcs[s] + at;
                reduce_apply(&piece);
            }
            assert_memory_equal(bench->dsts[0], bench->dsts[1], bench->step.bytes);
        }
    }
}

/* All encodings of a small float times a factor: every rounding, saturation and special value. */
static void test_every_small_float_times_a_scalar(void **state)
{
    (void)state;
    static const blink_datatype_t small[] = {BLINK_FLOAT16, BLINK_BFLOAT16, BLINK_FLOAT8_E4M3,
                                             BLINK_FLOAT8_E5M2};
    static const double factors[] = {1.0, -1.0, 1.0 / 3.0, 3.0, 0x1p-6, 0x1.8p5, 0.0};
    static uint16_t codes[65536], results[65536], expected[65536];
    for (uint32_t code = 0; code < 65536; code++)
        codes[code] = (uint16_t)code;
    for (size_t i = 0; i < LENGTH(small) * LENGTH(factors); i++) {
        uint64_t scalar = 0;
        element_store(small[i % LENGTH(small)], factors[i / LENGTH(small)], &scalar);
        reduce_step_t step = {.dsts = (void *[]){results},
                              .srcs = (const void *[]){codes},
                              .scalars = (const void *[]){&scalar},
                              .dst_count = 1,
                              .src_count = 1,
                              .datatype = small[i % LENGTH(small)],
                              .redop = BLINK_PRE_MUL_SUM,
                              .divisor = 1,
                              .bytes = sizeof(codes)};
        reference(&step, (char *)expected);
        FOR_EACH_SET(set)
        {
            reduce_apply_with(set, &step);
            check_result(&step, results, expected, set_at);
        }
    }
}

static void reduce_to(blink_datatype_t datatype, blink_redop_t redop, uint32_t divisor,
                      const void *const *srcs, uint32_t src_count, void *out, uint64_t bytes)
{
    reduce_apply(&(reduce_step_t){.dsts = (void *[]){out},
                                  .srcs = srcs,
                                  .dst_count = 1,
                                  .src_count = src_count,
                                  .datatype = datatype,
                                  .redop = redop,
                                  .divisor = divisor,
                                  .bytes = bytes});
}

static void reduce_two(blink_datatype_t datatype, blink_redop_t redop, uint32_t divisor, const void *left,
                       const void *right, void *out, uint64_t bytes)
{
    reduce_to(datatype, redop, divisor, (const void *[]){left, right}, 2, out, bytes);
}

static void test_integers_wrap(void **state)
{
    (void)state;
    int32_t large[] = {INT32_MAX, INT32_MIN}, step[] = {1, -1}, sum[2];
    reduce_two(BLINK_INT32, BLINK_SUM, 1, large, step, sum, sizeof(sum));
    assert_true(sum[0] == INT32_MIN && sum[1] == INT32_MAX);
    int64_t factor = INT64_MAX, two = 2, product;
    reduce_two(BLINK_INT64, BLINK_PROD, 1, &factor, &two, &product, sizeof(product));
    assert_true(product == -2);
}

static void test_averages_of_integers_wrap_and_then_truncate_towards_zero(void **state)
{
    (void)state;
    int8_t left[] = {-7, 7, 100, -128}, right[] = {0, 0, 100, 0}, average[4];
    reduce_two(BLINK_INT8, BLINK_AVG, 2, left, right, average, sizeof(average));
    assert_true(average[0] == -3 && average[1] == 3 && average[2] == -28 && average[3] == -64);
}

static void test_averages_of_integers_by_any_divisor(void **state)
{
    bench_t *bench = *state;
    static const uint32_t divisors[] = {
        2, 3, 5, 7, 127, 128, 255, 256, 65535, 1u << 24, (1u << 24) + 1, 1u << 31, UINT32_MAX};
    for (blink_datatype_t datatype = BLINK_INT8; datatype <= BLINK_UINT64; datatype++) {
        for (size_t i = 0; i < LENGTH(divisors); i++) {
            set_up(bench, datatype, BLINK_AVG, 1, 1, MAX_COUNT, 0);
            /* Multiples of the divisor and their neighbours, and both ends of the type. */
            for (uint64_t e = 0; e < MAX_COUNT; e++) {
                uint64_t value = next_random(bench) * divisors[i] + e % 3 - 1;
                value = e % 8 == 7
                            ? (UINT64_C(1) << 63 >> (64 - 8 * blink_datatype_bytes(datatype))) - e / 8 % 2
                            : value;
                memcpy(bench->sources[0] + GUARD_BYTES + e * blink_datatype_bytes(datatype), &value,
                       blink_datatype_bytes(datatype));
            }
            bench->step.divisor = divisors[i];
            reference(&bench->step, bench->expected);
            FOR_EACH_SET(set)
            {
                reduce_apply_with(set, &bench->step);
                assert_memory_equal(bench->dsts[0], bench->expected, bench->step.bytes);
            }
        }
    }
}

static void test_max_and_min_keep_nan(void **state)
{
    (void)state;
    float left[] = {NAN, 1.0f, 2.0f}, right[] = {1.0f, NAN, 3.0f}, out[3];
    reduce_two(BLINK_FLOAT32, BLINK_MAX, 1, left, right, out, sizeof(out));
    assert_true(isnan(out[0]) && isnan(out[1]) && out[2] == 3.0f);
    reduce_two(BLINK_FLOAT32, BLINK_MIN, 1, left, right, out, sizeof(out));
    assert_true(isnan(out[0]) && isnan(out[1]) && out[2] == 2.0f);
}

/* Processors pass on either operand's bits, by an order that compilers are free to swap. */
static void test_the_bits_of_nan_do_not_depend_on_the_operands(void **state)
{
    (void)state;
    static const struct {
        blink_datatype_t datatype;
        uint64_t left, right;
    } cases[] = {
        {BLINK_FLOAT16, 0x7e01, 0xfe02},         {BLINK_BFLOAT16, 0x7fc1, 0xffc2},
        {BLINK_FLOAT32, 0x7fc00001, 0xffc00002}, {BLINK_FLOAT64, 0x7ff8000000000001, 0xfff8000000000002},
        {BLINK_FLOAT8_E4M3, 0x7f, 0xff},         {BLINK_FLOAT8_E5M2, 0x7e, 0xff}};
    for (size_t i = 0; i < LENGTH(cases); i++) {
        uint64_t sum = 0, swapped = 0;
        uint32_t bytes = blink_datatype_bytes(cases[i].datatype);
        reduce_two(cases[i].datatype, BLINK_SUM, 1, &cases[i].left, &cases[i].right, &sum, bytes);
        reduce_two(cases[i].datatype, BLINK_SUM, 1, &cases[i].right, &cases[i].left, &swapped, bytes);
        assert_true(sum == swapped && isnan(element_load(cases[i].datatype, &sum)));
    }
}

static void test_float8_saturates(void **state)
{
    (void)state;
    uint8_t large[] = {0x7e, 0xfe}, sum[2];
    reduce_two(BLINK_FLOAT8_E4M3, BLINK_SUM, 1, large, large, sum, sizeof(sum));
    assert_true(sum[0] == 0x7e && sum[1] == 0xfe);
    uint8_t infinite[] = {0x7c, 0xfc}, zero[] = {0, 0};
    reduce_two(BLINK_FLOAT8_E5M2, BLINK_SUM, 1, infinite, zero, sum, sizeof(sum));
    assert_true(sum[0] == 0x7b && sum[1] == 0xfb);
}

/* Rounded after every addition it would stay 2048, where float16 counts in twos. */
static void test_small_floats_are_rounded_once_a_step(void **state)
{
    (void)state;
    uint16_t large = 0x6800, one = 0x3c00, sum;
    reduce_to(BLINK_FLOAT16, BLINK_SUM, 1, (const void *[]){&large, &one, &one}, 3, &sum, sizeof(sum));
    assert_true(element_load(BLINK_FLOAT16, &sum) == 2050.0);
}

static void test_sources_are_combined_left_to_right(void **state)
{
    (void)state;
    float first = 1e8f, second = -1e8f, third = 1.0f, out;
    reduce_to(BLINK_FLOAT32, BLINK_SUM, 1, (const void *[]){&first, &second, &third}, 3, &out, sizeof(out));
    assert_true(out == 1.0f);
}

static void test_copy_ignores_the_element_size(void **state)
{
    (void)state;
    char text[] = "seven b", copies[2][sizeof(text)] = {"", ""};
    for (uint32_t count = 1; count <= 2; count++) {
        reduce_apply(&(reduce_step_t){.dsts = (void *[]){copies[0], copies[1]},
                                      .srcs = (const void *[]){text},
                                      .dst_count = count,
                                      .src_count = 1,
                                      .datatype = BLINK_FLOAT64,
                                      .divisor = 1,
                                      .stream = count == 2,
                                      .bytes = 7});
        assert_string_equal(copies[count - 1], "seven b");
    }
}

/* One of the destinations is the source, which is in memory that cannot be written. */
static void test_copy_to_many_keeps_every_bit_and_skips_the_source(void **state)
{
    (void)state;
    static const uint32_t signalling[] = {0x7f800001, 0xffc12345, 0x80000000, 1};
    uint32_t copies[200][4] = {{0}};
    void *dsts[201];
    for (uint32_t d = 0; d < 201; d++)
        dsts[d] = d < 100 ? copies[d] : d > 100 ? copies[d - 1] : (void *)(uintptr_t)signalling;
    reduce_apply(&(reduce_step_t){.dsts = dsts,
                                  .srcs = (const void *[]){signalling},
                                  .dst_count = 201,
                                  .src_count = 1,
                                  .datatype = BLINK_FLOAT32,
                                  .divisor = 1,
                                  .bytes = sizeof(signalling)});
    for (uint32_t d = 0; d < 200; d++)
        assert_memory_equal(copies[d], signalling, sizeof(signalling));
}

#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, make_bench, free_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BENCH(test_every_type_operator_and_shape),
        WITH_BENCH(test_every_length_and_start),
        WITH_BENCH(test_destinations_may_be_aligned_differently),
        WITH_BENCH(test_destination_may_be_any_source),
        WITH_BENCH(test_instruction_sets_give_the_same_bits),
        WITH_BENCH(test_results_do_not_depend_on_cuts),
        WITH_BENCH(test_averages_of_integers_by_any_divisor),
        cmocka_unit_test(test_every_small_float_times_a_scalar),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_averages_of_integers_wrap_and_then_truncate_towards_zero),
        cmocka_unit_test(test_max_and_min_keep_nan),
        cmocka_unit_test(test_the_bits_of_nan_do_not_depend_on_the_operands),
        cmocka_unit_test(test_float8_saturates),
        cmocka_unit_test(test_small_floats_are_rounded_once_a_step),
        cmocka_unit_test(test_sources_are_combined_left_to_right),
        cmocka_unit_test(test_copy_ignores_the_element_size),
        cmocka_unit_test(test_copy_to_many_keeps_every_bit_and_skips_the_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
