/* The memory that GPUs and the network share: nothing overlaps, and everything can be had again. */
#include "exec/cuda/wire_memory.h"

#include "gpu_worker/link.h"
#include "unit/harness/short_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { PIECES = 64 };

static wire_memory_t *make(void)
{
    wire_memory_t *memory = NULL;
    assert_int_equal(wire_memory_create(&memory), BLINK_OK);
    return memory;
}

static void assert_all_is_there(wire_memory_t *memory)
{
    void *all = wire_memory_take(memory, GPU_WIRE_BYTES);
    assert_non_null(all);
    assert_int_equal(wire_memory_offset(memory, all), 0);
    wire_memory_give(memory, all, GPU_WIRE_BYTES);
}

static void test_pieces_are_whole_pages_apart(void **state)
{
    (void)state;
    wire_memory_t *memory = make();
    char *pieces[PIECES];
    for (uint64_t i = 0; i < PIECES; i++) {
        pieces[i] = wire_memory_take(memory, 1 + 1000 * i);
        assert_non_null(pieces[i]);
        assert_int_equal(wire_memory_offset(memory, pieces[i]) % 4096, 0);
        memset(pieces[i], (int)i, 1 + 1000 * i);
    }
    for (uint64_t i = 0; i < PIECES; i++) {
        for (uint64_t byte = 0; byte < 1 + 1000 * i; byte++)
            assert_int_equal(pieces[i][byte], i);
        wire_memory_give(memory, pieces[i], 1 + 1000 * i);
    }
    assert_all_is_there(memory);
    wire_memory_destroy(memory);
}

static void test_what_is_not_there_is_refused(void **state)
{
    (void)state;
    wire_memory_t *memory = make();
    assert_null(wire_memory_take(memory, GPU_WIRE_BYTES + 1));
    void *most = wire_memory_take(memory, GPU_WIRE_BYTES - 4096);
    assert_non_null(most);
    assert_null(wire_memory_take(memory, 4097));
    void *last = wire_memory_take(memory, 4096);
    assert_non_null(last);
    assert_null(wire_memory_take(memory, 1));
    wire_memory_give(memory, most, GPU_WIRE_BYTES - 4096);
    wire_memory_give(memory, last, 4096);
    assert_all_is_there(memory);
    wire_memory_destroy(memory);
}

static void test_addresses_that_are_not_in_it(void **state)
{
    (void)state;
    wire_memory_t *memory = make();
    char *first = wire_memory_take(memory, 1), other = 0;
    assert_int_equal(wire_memory_offset(memory, first + GPU_WIRE_BYTES - 1), GPU_WIRE_BYTES - 1);
    assert_true(wire_memory_offset(memory, first + GPU_WIRE_BYTES) == UINT64_MAX);
    assert_true(wire_memory_offset(memory, first - 1) == UINT64_MAX);
    assert_true(wire_memory_offset(memory, &other) == UINT64_MAX);
    assert_true(wire_memory_offset(memory, NULL) == UINT64_MAX);
    wire_memory_give(memory, first, 1);
    wire_memory_destroy(memory);
}

/* A worker sees the bytes at the same offset of the memfd. */
static void test_the_descriptor_leads_to_the_same_bytes(void **state)
{
    (void)state;
    wire_memory_t *memory = make();
    void *before = wire_memory_take(memory, 5 * 4096);
    char *piece = wire_memory_take(memory, 4096);
    memcpy(piece, "a slot", 7);
    const char *seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, wire_memory_fd(memory),
                            (off_t)wire_memory_offset(memory, piece));
    assert_ptr_not_equal(seen, MAP_FAILED);
    assert_string_equal(seen, "a slot");
    munmap((void *)(uintptr_t)seen, 4096);
    wire_memory_give(memory, piece, 4096);
    wire_memory_give(memory, before, 5 * 4096);
    wire_memory_destroy(memory);
}

static void test_pages_of_landings_come_from_it(void **state)
{
    (void)state;
    wire_memory_t *memory = make();
    const pages_source_t pages = wire_memory_pages(memory);
    void *landing = pages.take(pages.context, 10000);
    assert_true(wire_memory_offset(memory, landing) < GPU_WIRE_BYTES);
    pages.give(pages.context, landing, 10000);
    assert_all_is_there(memory);
    wire_memory_destroy(memory);
}

static void test_short_memory_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    wire_memory_t *memory = NULL;
    uint32_t nth = 1;
    for (;; nth++) {
        short_memory_begin(pthread_self(), nth);
        blink_result_t result = wire_memory_create(&memory);
        if (!short_memory_end())
            break;
        assert_int_equal(result, BLINK_ERR_NO_MEMORY);
        assert_null(memory);
    }
    assert_true(nth > 2);
    assert_all_is_there(memory);
    wire_memory_destroy(memory);
    wire_memory_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_whole_pages_apart),
        cmocka_unit_test(test_what_is_not_there_is_refused),
        cmocka_unit_test(test_addresses_that_are_not_in_it),
        cmocka_unit_test(test_the_descriptor_leads_to_the_same_bytes),
        cmocka_unit_test(test_pages_of_landings_come_from_it),
        cmocka_unit_test(test_short_memory_is_told_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
