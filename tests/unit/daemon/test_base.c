/* The lists, arrays and arenas of daemon/base/. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/vec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct item {
    int number;
    list_t link;
} item_t;

static void assert_numbers(list_t *head, int from, int to, int step)
{
    int expected = from;
    LIST_FOR_EACH (link, head) {
        assert_int_equal(CONTAINER_OF(link, item_t, link)->number, expected);
        expected += step;
    }
    assert_int_equal(expected, to);
}

static void test_list_keeps_order_and_lets_items_leave(void **state)
{
    (void)state;
    list_t head, other;
    item_t items[6];
    list_init(&head);
    list_init(&other);
    assert_null(list_take_first(&head));
    assert_null(LIST_FIRST(&head, item_t, link));
    for (int i = 0; i < 6; i++)
        items[i].number = i;
    for (int i = 2; i < 4; i++)
        list_append(&head, &items[i].link);
    for (int i = 1; i >= 0; i--)
        list_prepend(&head, &items[i].link);
    for (int i = 4; i < 6; i++)
        list_append(&other, &items[i].link);
    list_splice(&head, &other);
    assert_true(list_is_empty(&other));
    assert_numbers(&head, 0, 6, 1);

    LIST_FOR_EACH (link, &head) {
        if (CONTAINER_OF(link, item_t, link)->number % 2)
            list_remove(link);
    }
    list_remove(&items[1].link); /* on no list: nothing happens */
    assert_true(list_is_empty(&items[1].link));
    assert_numbers(&head, 0, 6, 2);
    assert_ptr_equal(LIST_FIRST(&head, item_t, link), &items[0]);
    assert_ptr_equal(list_take_first(&head), &items[0].link);
    assert_numbers(&head, 2, 6, 2);
}

static void test_vec_grows_and_refuses_what_no_memory_holds(void **state)
{
    (void)state;
    VEC(int) numbers = {0};
    for (int i = 0; i < 1000; i++)
        assert_true(vec_push(&numbers, i));
    assert_int_equal(numbers.count, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers.items[i], i);
    assert_false(vec_reserve(&numbers, SIZE_MAX / 2));
    assert_int_equal(numbers.items[999], 999);
    vec_free(&numbers);
    assert_null(numbers.items);
    assert_int_equal(numbers.capacity, 0);
}

static void test_arena_is_zeroed_aligned_and_goes_back_to_a_mark(void **state)
{
    (void)state;
    arena_t arena = {0};
    arena_mark_t empty = arena_mark(&arena);
    char *first = arena_alloc(&arena, 3, 1);
    memset(first, 7, 3);
    arena_mark_t mark = arena_mark(&arena);
    for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 3 + 1) {
        char *memory = arena_alloc(&arena, bytes, 1);
        assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 9, bytes);
    }
    arena_release(&arena, mark);
    assert_int_equal(first[2], 7);
    char *again = arena_alloc(&arena, 64, 1);
    assert_int_equal(again[63], 0);
    assert_null(arena_alloc(&arena, SIZE_MAX / 2, 4));
    arena_release(&arena, empty);
    assert_int_equal(arena.bytes, 0);
    arena_free(&arena);
}

static void test_clock_does_not_run_back(void **state)
{
    (void)state;
    uint64_t before = clock_ns();
    struct timespec then = clock_in_ns(5000000000u);
    uint64_t then_ns = (uint64_t)then.tv_sec * 1000000000u + (uint64_t)then.tv_nsec;
    assert_true(then_ns >= before + 5000000000u);
    assert_true(clock_ns() >= before);
    assert_true(clock_us() >= before / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_keeps_order_and_lets_items_leave),
        cmocka_unit_test(test_vec_grows_and_refuses_what_no_memory_holds),
        cmocka_unit_test(test_arena_is_zeroed_aligned_and_goes_back_to_a_mark),
        cmocka_unit_test(test_clock_does_not_run_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
