/* Ranges of shared memory: nothing overlaps, everything can be had again. */
#include "base/gpu_arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARENA_BYTES 65536u
#define PIECES      64u

static void test_ranges_given_back_are_whole_again(void **state)
{
    (void)state;
    gpu_arena_t arena;
    uint64_t offsets[PIECES], all;
    assert_int_equal(gpu_arena_init(&arena, NULL, ARENA_BYTES), BLINK_OK);
    for (uint32_t i = 0; i < PIECES; i++)
        assert_int_equal(gpu_arena_take(&arena, 1000, &offsets[i]), BLINK_OK);
    for (uint32_t i = 0; i < PIECES; i += 2)
        gpu_arena_give(&arena, offsets[i], 1000);
    for (uint32_t i = 1; i < PIECES; i += 2)
        gpu_arena_give(&arena, offsets[i], 1000);
    assert_int_equal(gpu_arena_take(&arena, ARENA_BYTES, &all), BLINK_OK);
    assert_int_equal(all, 0);
    gpu_arena_fini(&arena);
}

static void test_what_does_not_fit_is_refused_with_its_size(void **state)
{
    (void)state;
    gpu_arena_t arena;
    uint64_t first, second;
    assert_int_equal(gpu_arena_init(&arena, NULL, ARENA_BYTES), BLINK_OK);
    assert_int_equal(gpu_arena_take(&arena, ARENA_BYTES - 64, &first), BLINK_OK);
    assert_int_equal(gpu_arena_take(&arena, 65, &second), BLINK_ERR_NO_MEMORY);
    assert_non_null(strstr(blink_error_text(), "65 bytes"));
    assert_int_equal(gpu_arena_take(&arena, 64, &second), BLINK_OK);
    assert_int_equal(second, ARENA_BYTES - 64);
    gpu_arena_fini(&arena);
}

static bool overlaps(const uint64_t *offsets, const uint64_t *sizes, uint32_t one)
{
    for (uint32_t i = 0; i < PIECES; i++) {
        if (i != one && sizes[i] > 0 && offsets[i] < offsets[one] + sizes[one] &&
            offsets[one] < offsets[i] + sizes[i])
            return true;
    }
    return false;
}

static void test_pieces_never_overlap(void **state)
{
    (void)state;
    gpu_arena_t arena;
    uint64_t offsets[PIECES] = {0}, sizes[PIECES] = {0};
    srand(5);
    assert_int_equal(gpu_arena_init(&arena, NULL, ARENA_BYTES), BLINK_OK);
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t i = (uint32_t)rand() % PIECES;
        if (sizes[i] > 0) {
            gpu_arena_give(&arena, offsets[i], sizes[i]);
            sizes[i] = 0;
            continue;
        }
        uint64_t wanted = 1 + (uint64_t)rand() % 4000;
        if (gpu_arena_take(&arena, wanted, &offsets[i]) != BLINK_OK)
            continue;
        sizes[i] = wanted;
        assert_int_equal(offsets[i] % 64, 0);
        assert_true(offsets[i] + wanted <= ARENA_BYTES);
        assert_false(overlaps(offsets, sizes, i));
    }
    gpu_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_given_back_are_whole_again),
        cmocka_unit_test(test_what_does_not_fit_is_refused_with_its_size),
        cmocka_unit_test(test_pieces_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
