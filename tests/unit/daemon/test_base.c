/* The lists, arrays and arenas of daemon/base/. */
#include "base/arena.h"
#include "base/bag.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/table.h"
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

typedef struct entry {
    uint64_t key;
    table_link_t link;
    bag_item_t item;
} entry_t;

#define ENTRIES 1000u

/* Every fourth hash is the same as another's. */
static uint64_t hash_of(uint64_t key)
{
    return table_hash(key - key % 4);
}

static const entry_t *find(const table_t *table, uint64_t key)
{
    table_link_t *link = table_find(table, hash_of(key));
    while (link && CONTAINER_OF(link, entry_t, link)->key != key)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, entry_t, link) : NULL;
}

static void test_table_finds_what_is_in_it_while_it_grows(void **state)
{
    (void)state;
    static entry_t entries[ENTRIES];
    table_t table = {0};
    assert_null(find(&table, 0));
    for (uint64_t i = 0; i < ENTRIES; i++) {
        entries[i].key = i;
        assert_true(table_add(&table, &entries[i].link, hash_of(i)));
        for (uint64_t j = 0; j <= i; j += 1 + i / 50)
            assert_ptr_equal(find(&table, j), &entries[j]);
        assert_null(find(&table, i + 1));
    }
    for (uint64_t i = 0; i < ENTRIES; i += 3)
        table_remove(&table, &entries[i].link);
    for (uint64_t i = 0; i < ENTRIES; i++)
        assert_ptr_equal(find(&table, i), i % 3 == 0 ? NULL : &entries[i]);
    assert_int_equal(table.count, ENTRIES - (ENTRIES + 2) / 3);
    table_fini(&table);
}

static void test_bag_is_gone_through_from_its_end_while_items_leave(void **state)
{
    (void)state;
    static entry_t entries[ENTRIES];
    static bool met[ENTRIES], left[ENTRIES];
    bag_t bag = {0};
    for (size_t i = 0; i < ENTRIES; i++) {
        entries[i].key = i;
        assert_true(bag_add(&bag, &entries[i].item));
    }
    for (size_t place = bag.count; place > 0; place--) {
        if (place > bag.count)
            continue;
        met[CONTAINER_OF(bag.items[place - 1], entry_t, item)->key] = true;
        size_t leaves = place * 37 % ENTRIES;
        if (place % 3 == 0 && !left[leaves]) {
            bag_remove(&bag, &entries[leaves].item);
            left[leaves] = true;
        }
    }
    size_t left_count = 0;
    for (size_t i = 0; i < ENTRIES; i++) {
        assert_true(met[i] || left[i]);
        left_count += left[i];
    }
    assert_true(left_count > ENTRIES / 4);
    assert_int_equal(bag.count, ENTRIES - left_count);
    vec_free(&bag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_keeps_order_and_lets_items_leave),
        cmocka_unit_test(test_vec_grows_and_refuses_what_no_memory_holds),
        cmocka_unit_test(test_arena_is_zeroed_aligned_and_goes_back_to_a_mark),
        cmocka_unit_test(test_clock_does_not_run_back),
        cmocka_unit_test(test_table_finds_what_is_in_it_while_it_grows),
        cmocka_unit_test(test_bag_is_gone_through_from_its_end_while_items_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
