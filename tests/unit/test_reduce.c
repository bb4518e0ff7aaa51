/* The arithmetic of a step: every type and operator against a plain loop, aliasing, wrapping and NaN. */
#include "exec/host/reduce.h"

#include "names.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Not a multiple of any vector, and more than one block of any type. */
#define COUNT 20011u

static const blink_datatype_t datatypes[] = {BLINK_INT8,  BLINK_UINT8,  BLINK_INT32,   BLINK_UINT32,
                                             BLINK_INT64, BLINK_UINT64, BLINK_FLOAT32, BLINK_FLOAT64};
static const blink_redop_t redops[] = {BLINK_SUM, BLINK_PROD, BLINK_MAX, BLINK_MIN};
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void store(blink_datatype_t datatype, void *array, size_t i, int value)
{
    switch (datatype) {
    case BLINK_INT8:
        ((int8_t *)array)[i] = (int8_t)value;
        break;
    case BLINK_UINT8:
        ((uint8_t *)array)[i] = (uint8_t)value;
        break;
    case BLINK_INT32:
        ((int32_t *)array)[i] = value;
        break;
    case BLINK_UINT32:
        ((uint32_t *)array)[i] = (uint32_t)value;
        break;
    case BLINK_INT64:
        ((int64_t *)array)[i] = value;
        break;
    case BLINK_UINT64:
        ((uint64_t *)array)[i] = (uint64_t)value;
        break;
    case BLINK_FLOAT32:
        ((float *)array)[i] = (float)value;
        break;
    case BLINK_FLOAT64:
        ((double *)array)[i] = value;
        break;
    }
}

static int combine(blink_redop_t redop, int x, int y)
{
    switch (redop) {
    case BLINK_SUM:
        return x + y;
    case BLINK_PROD:
        return x * y;
    case BLINK_MAX:
        return x > y ? x : y;
    case BLINK_MIN:
        return x < y ? x : y;
    }
    return 0;
}

/* Small enough that the product of four fits an int8_t, never 0 (a float would have two of it), and not
 * negative for unsigned types. */
static int sample(blink_datatype_t datatype, size_t source, size_t i)
{
    int value = (int)((i * 7 + source * 2) % 3) + 1;
    bool is_unsigned = datatype == BLINK_UINT8 || datatype == BLINK_UINT32 || datatype == BLINK_UINT64;
    return is_unsigned || i % 2 ? value : -value;
}

static void check_sources(blink_datatype_t datatype, blink_redop_t redop, uint32_t src_count,
                          uint32_t dst_count, size_t alias)
{
    size_t bytes = COUNT * blink_datatype_bytes(datatype);
    void *srcs[4], *dsts[3];
    void *expected = malloc(bytes);
    for (uint32_t s = 0; s < src_count; s++) {
        srcs[s] = malloc(bytes);
        for (size_t i = 0; i < COUNT; i++)
            store(datatype, srcs[s], i, sample(datatype, s, i));
    }
    for (size_t i = 0; i < COUNT; i++) {
        int value = sample(datatype, 0, i);
        for (uint32_t s = 1; s < src_count; s++)
            value = combine(redop, value, sample(datatype, s, i));
        store(datatype, expected, i, value);
    }
    for (uint32_t d = 0; d < dst_count; d++)
        dsts[d] = d == 0 && alias < src_count ? srcs[alias] : calloc(1, bytes);

    reduce_apply(datatype, redop, dsts, dst_count, (const void *const *)srcs, src_count, bytes);

    for (uint32_t d = 0; d < dst_count; d++)
        assert_memory_equal(dsts[d], expected, bytes);
    for (uint32_t d = 0; d < dst_count; d++) {
        if (d > 0 || alias >= src_count)
            free(dsts[d]);
    }
    for (uint32_t s = 0; s < src_count; s++)
        free(srcs[s]);
    free(expected);
}

static void for_each_type_and_op(uint32_t src_count, uint32_t dst_count, size_t alias)
{
    for (size_t t = 0; t < LENGTH(datatypes); t++) {
        for (size_t o = 0; o < LENGTH(redops); o++)
            check_sources(datatypes[t], redops[o], src_count, dst_count, alias);
    }
}

static void test_two_sources_every_type_and_operator(void **state)
{
    (void)state;
    for_each_type_and_op(2, 1, SIZE_MAX);
}

static void test_many_sources_and_destinations(void **state)
{
    (void)state;
    for_each_type_and_op(4, 3, SIZE_MAX);
    for_each_type_and_op(2, 2, SIZE_MAX);
    for_each_type_and_op(1, 3, SIZE_MAX);
}

static void test_destination_may_be_any_source(void **state)
{
    (void)state;
    for (size_t alias = 0; alias < 2; alias++)
        for_each_type_and_op(2, 1, alias);
    for (size_t alias = 0; alias < 4; alias++)
        for_each_type_and_op(4, 2, alias);
    for_each_type_and_op(1, 2, 0);
}

static void test_integers_wrap(void **state)
{
    (void)state;
    int32_t large[] = {INT32_MAX, INT32_MIN}, step[] = {1, -1}, sum[2];
    void *dsts[] = {sum};
    const void *srcs[] = {large, step};
    reduce_apply(BLINK_INT32, BLINK_SUM, dsts, 1, srcs, 2, sizeof(sum));
    assert_int_equal(sum[0], INT32_MIN);
    assert_int_equal(sum[1], INT32_MAX);

    int64_t factor[] = {INT64_MAX}, two[] = {2}, product[1];
    void *product_dsts[] = {product};
    const void *product_srcs[] = {factor, two};
    reduce_apply(BLINK_INT64, BLINK_PROD, product_dsts, 1, product_srcs, 2, sizeof(product));
    assert_true(product[0] == -2);
}

static void test_max_and_min_keep_nan(void **state)
{
    (void)state;
    float left[] = {NAN, 1.0f, 2.0f}, right[] = {1.0f, NAN, 3.0f}, out[3];
    void *dsts[] = {out};
    const void *srcs[] = {left, right};
    reduce_apply(BLINK_FLOAT32, BLINK_MAX, dsts, 1, srcs, 2, sizeof(out));
    assert_true(isnan(out[0]) && isnan(out[1]) && out[2] == 3.0f);
    reduce_apply(BLINK_FLOAT32, BLINK_MIN, dsts, 1, srcs, 2, sizeof(out));
    assert_true(isnan(out[0]) && isnan(out[1]) && out[2] == 2.0f);
}

static void test_sources_are_combined_left_to_right(void **state)
{
    (void)state;
    float first = 1e8f, second = -1e8f, third = 1.0f, out = 0.0f;
    void *dsts[] = {&out};
    const void *srcs[] = {&first, &second, &third};
    reduce_apply(BLINK_FLOAT32, BLINK_SUM, dsts, 1, srcs, 3, sizeof(out));
    assert_true(out == 1.0f);
}

static void test_copy_ignores_the_element_size(void **state)
{
    (void)state;
    char text[] = "seven b", copy[sizeof(text)] = "";
    void *dsts[] = {copy};
    const void *srcs[] = {text};
    reduce_apply(BLINK_FLOAT64, BLINK_SUM, dsts, 1, srcs, 1, 7);
    assert_string_equal(copy, "seven b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_sources_every_type_and_operator),
        cmocka_unit_test(test_many_sources_and_destinations),
        cmocka_unit_test(test_destination_may_be_any_source),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_max_and_min_keep_nan),
        cmocka_unit_test(test_sources_are_combined_left_to_right),
        cmocka_unit_test(test_copy_ignores_the_element_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
