/* Elements as numbers: every encoding of the small floats there and back, and where doubles round to. */
#include "element.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct format {
    blink_datatype_t datatype;
    uint32_t codes, smallest_normal, largest; /* largest: finite, positive */
    uint32_t overflow;                        /* what an infinity becomes */
    double smallest, largest_value;
} format_t;

static const format_t formats[] = {
    {BLINK_FLOAT16, 65536, 0x0400, 0x7bff, 0x7c00, 0x1p-24, 65504.0},
    {BLINK_BFLOAT16, 65536, 0x0080, 0x7f7f, 0x7f80, 0x1p-133, 0x1.fep127},
    {BLINK_FLOAT8_E4M3, 256, 0x08, 0x7e, 0x7e, 0x1p-9, 448.0},
    {BLINK_FLOAT8_E5M2, 256, 0x04, 0x7b, 0x7b, 0x1p-16, 57344.0},
};
#define FOR_EACH_FORMAT(f)                                                                                   \
    for (const format_t *f = formats; f < formats + sizeof(formats) / sizeof(formats[0]); f++)

static double load(const format_t *format, uint32_t code)
{
    uint16_t half = (uint16_t)code;
    uint8_t byte = (uint8_t)code;
    return element_load(format->datatype, format->codes == 256 ? (void *)&byte : (void *)&half);
}

static uint32_t store(const format_t *format, double value)
{
    uint16_t half = 0xa5a5;
    uint8_t byte = 0xa5;
    element_store(format->datatype, value, format->codes == 256 ? (void *)&byte : (void *)&half);
    return format->codes == 256 ? byte : half;
}

static void test_every_encoding_survives_load_and_store(void **state)
{
    (void)state;
    FOR_EACH_FORMAT(format)
    {
        for (uint32_t code = 0; code < format->codes; code++) {
            double value = load(format, code);
            uint32_t back = store(format, value);
            uint32_t sign = code & format->codes / 2;
            if (isnan(value))
                assert_true(isnan(load(format, back)));
            else if (isinf(value))
                assert_int_equal(back, sign | format->overflow);
            else
                assert_int_equal(back, code);
        }
    }
}

static void test_encodings_have_the_values_of_their_formats(void **state)
{
    (void)state;
    FOR_EACH_FORMAT(format)
    {
        uint32_t sign = format->codes / 2;
        assert_true(load(format, 0) == 0.0 && !signbit(load(format, 0)));
        assert_true(load(format, sign) == 0.0 && signbit(load(format, sign)));
        assert_true(load(format, 1) == format->smallest);
        assert_true(load(format, format->smallest_normal) == format->smallest * format->smallest_normal);
        assert_true(load(format, format->largest) == format->largest_value);
        assert_true(load(format, sign | format->largest) == -format->largest_value);
    }
    assert_true(load(&formats[0], 0x3c00) == 1.0 && load(&formats[0], 0x7c00) == (double)INFINITY);
    assert_true(load(&formats[1], 0x3f80) == 1.0 && load(&formats[1], 0xff80) == -(double)INFINITY);
    assert_true(load(&formats[2], 0x38) == 1.0 && isnan(load(&formats[2], 0x7f)) &&
                isnan(load(&formats[2], 0xff)));
    assert_true(load(&formats[3], 0x3c) == 1.0 && load(&formats[3], 0xfc) == -(double)INFINITY);
    assert_true(isnan(load(&formats[3], 0x7d)) && isnan(load(&formats[3], 0xff)));
}

/* Between every two neighbours, subnormals included: the middle goes to the even one, all else to the nearer.
 */
static void test_stores_round_to_nearest_even(void **state)
{
    (void)state;
    FOR_EACH_FORMAT(format)
    {
        for (uint32_t code = 0; code < format->largest; code++) {
            double below = load(format, code), above = load(format, code + 1);
            double middle = (below + above) / 2.0;
            uint32_t sign = format->codes / 2;
            assert_int_equal(store(format, middle), code + code % 2);
            assert_int_equal(store(format, -middle), sign | (code + code % 2));
            assert_int_equal(store(format, nextafter(middle, 0.0)), code);
            assert_int_equal(store(format, nextafter(middle, DBL_MAX)), code + 1);
        }
    }
}

/* 1 + 2^-11 + 2^-30 is above the middle of two float16, but not once it has been a float32. */
static void test_a_store_rounds_once(void **state)
{
    (void)state;
    assert_int_equal(store(&formats[0], 1.0 + 0x1p-11 + 0x1p-30), 0x3c01);
    assert_int_equal(store(&formats[1], 1.0 + 0x1p-8 + 0x1p-30), 0x3f81);
    assert_int_equal(store(&formats[2], 1.0 + 0x1p-4 + 0x1p-30), 0x39);
    assert_int_equal(store(&formats[3], 1.0 + 0x1p-3 + 0x1p-30), 0x3d);
}

static void test_overflow_is_infinity_or_saturates(void **state)
{
    (void)state;
    FOR_EACH_FORMAT(format)
    {
        uint32_t sign = format->codes / 2;
        double step = format->largest_value - load(format, format->largest - 1);
        double tie = format->largest_value + step / 2.0;
        assert_int_equal(store(format, nextafter(tie, 0.0)), format->largest);
        assert_int_equal(store(format, tie), format->overflow);
        assert_int_equal(store(format, -2.0 * format->largest_value), sign | format->overflow);
        assert_int_equal(store(format, DBL_MAX), format->overflow);
        assert_int_equal(store(format, (double)INFINITY), format->overflow);
        assert_int_equal(store(format, -(double)INFINITY), sign | format->overflow);
    }
}

static void test_values_too_small_become_zero_of_their_sign(void **state)
{
    (void)state;
    FOR_EACH_FORMAT(format)
    {
        assert_int_equal(store(format, format->smallest / 2.0), 0);
        assert_int_equal(store(format, DBL_MIN), 0);
        assert_int_equal(store(format, 0x1p-1074), 0);
        assert_int_equal(store(format, -0x1p-1074), format->codes / 2);
        assert_int_equal(store(format, -0.0), format->codes / 2);
    }
}

static void test_nan_stays_nan(void **state)
{
    (void)state;
    FOR_EACH_FORMAT(format)
    assert_true(isnan(load(format, store(format, (double)NAN))));
}

static void test_integers_and_wide_floats_are_kept(void **state)
{
    (void)state;
    static const struct {
        blink_datatype_t datatype;
        double low, high;
    } ranges[] = {{BLINK_INT8, -128, 127},
                  {BLINK_UINT8, 0, 255},
                  {BLINK_INT32, -2147483648.0, 2147483647.0},
                  {BLINK_UINT32, 0, 4294967295.0},
                  {BLINK_INT64, -0x1p63, 0x1.fffffffffffffp62},
                  {BLINK_UINT64, 0, 0x1.fffffffffffffp63},
                  {BLINK_FLOAT32, -0x1.fffffep127, 0x1p-149},
                  {BLINK_FLOAT64, -DBL_MAX, 0x1p-1074}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        _Alignas(8) char element[8];
        element_store(ranges[i].datatype, ranges[i].low, element);
        assert_true(element_load(ranges[i].datatype, element) == ranges[i].low);
        element_store(ranges[i].datatype, ranges[i].high, element);
        assert_true(element_load(ranges[i].datatype, element) == ranges[i].high);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_encoding_survives_load_and_store),
        cmocka_unit_test(test_encodings_have_the_values_of_their_formats),
        cmocka_unit_test(test_stores_round_to_nearest_even),
        cmocka_unit_test(test_a_store_rounds_once),
        cmocka_unit_test(test_overflow_is_infinity_or_saturates),
        cmocka_unit_test(test_values_too_small_become_zero_of_their_sign),
        cmocka_unit_test(test_nan_stays_nan),
        cmocka_unit_test(test_integers_and_wide_floats_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
