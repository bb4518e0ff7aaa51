/* The formats of scratch slots: what is stored is loaded, and has arrived only once all of it is there. */
#include "exec/host/slot_format.h"
#include "plan/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#define CHUNK_BYTES 4099u

static const blink_protocol_t protocols[] = {BLINK_PROTOCOL_LL, BLINK_PROTOCOL_LL128};

typedef struct slot {
    _Alignas(128) char bytes[2 * CHUNK_BYTES + 256];
} slot_t;

static void fill(char *data, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i * 31 + seed);
}

static void test_what_is_stored_is_loaded(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 3, 4, 5, 119, 120, 121, 240, CHUNK_BYTES};
    for (size_t p = 0; p < 2; p++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            slot_t slot = {{0}};
            char data[CHUNK_BYTES], loaded[CHUNK_BYTES + 1] = {0};
            fill(data, lengths[i], 5);
            slot_store(protocols[p], slot.bytes, data, lengths[i], 7);
            assert_true(slot_arrived(protocols[p], slot.bytes, lengths[i], 7));
            slot_load(protocols[p], slot.bytes, loaded, lengths[i]);
            assert_memory_equal(loaded, data, lengths[i]);
            assert_int_equal(loaded[lengths[i]], 0);
        }
    }
}

/* Every single word or line that is missing is missed. */
static void test_nothing_arrives_before_its_last_word(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        uint64_t step = protocols[p] == BLINK_PROTOCOL_LL ? 8 : 128;
        uint64_t flag = protocols[p] == BLINK_PROTOCOL_LL ? 4 : 120;
        for (uint64_t at = 0; at < lane_format_bytes(protocols[p], CHUNK_BYTES); at += step) {
            slot_t slot = {{0}};
            char data[CHUNK_BYTES];
            fill(data, CHUNK_BYTES, 9);
            slot_store(protocols[p], slot.bytes, data, CHUNK_BYTES, 2);
            memset(slot.bytes + at + flag, 0, step - flag);
            assert_false(slot_arrived(protocols[p], slot.bytes, CHUNK_BYTES, 2));
        }
    }
}

static void test_an_older_epoch_is_not_taken_for_the_next(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        slot_t slot = {{0}};
        char data[CHUNK_BYTES];
        fill(data, CHUNK_BYTES, 1);
        assert_false(slot_arrived(protocols[p], slot.bytes, CHUNK_BYTES, 1));
        slot_store(protocols[p], slot.bytes, data, CHUNK_BYTES, 1);
        assert_false(slot_arrived(protocols[p], slot.bytes, CHUNK_BYTES, 2));
    }
}

static void test_offsets_of_grains_adjoin(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        slot_t parts = {{0}}, whole = {{0}};
        char data[CHUNK_BYTES];
        fill(data, CHUNK_BYTES, 3);
        slot_store(protocols[p], whole.bytes, data, CHUNK_BYTES, 4);
        for (uint64_t at = 0; at < CHUNK_BYTES; at += SLOT_GRAIN_BYTES) {
            uint64_t left = CHUNK_BYTES - at;
            slot_store(protocols[p], parts.bytes + lane_format_bytes(protocols[p], at), data + at,
                       left < SLOT_GRAIN_BYTES ? left : SLOT_GRAIN_BYTES, 4);
        }
        assert_memory_equal(parts.bytes, whole.bytes, sizeof(whole.bytes));
    }
    assert_int_equal(lane_format_bytes(BLINK_PROTOCOL_SIMPLE, CHUNK_BYTES), CHUNK_BYTES);
}

typedef struct stream {
    blink_protocol_t protocol;
    slot_t *slot;
    _Atomic uint64_t consumed;
} stream_t;

enum { ROUNDS = 2000, ROUND_BYTES = 1000 };

static void *produce(void *argument)
{
    stream_t *stream = argument;
    char data[ROUND_BYTES];
    for (unsigned round = 1; round <= ROUNDS; round++) {
        while (stream->consumed + 1 < round)
            sched_yield();
        fill(data, ROUND_BYTES, round);
        slot_store(stream->protocol, stream->slot->bytes, data, ROUND_BYTES, round);
    }
    return NULL;
}

/* The data alone tells the reader that it is there; the reader alone tells the writer to go on. */
static void test_a_reader_never_sees_half_of_a_chunk(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        static slot_t slot;
        memset(&slot, 0, sizeof(slot));
        stream_t stream = {.protocol = protocols[p], .slot = &slot};
        pthread_t producer;
        assert_int_equal(pthread_create(&producer, NULL, produce, &stream), 0);
        for (unsigned round = 1; round <= ROUNDS; round++) {
            char expected[ROUND_BYTES], loaded[ROUND_BYTES];
            while (!slot_arrived(protocols[p], slot.bytes, ROUND_BYTES, round))
                sched_yield();
            slot_load(protocols[p], slot.bytes, loaded, ROUND_BYTES);
            stream.consumed = round;
            fill(expected, ROUND_BYTES, round);
            assert_memory_equal(loaded, expected, ROUND_BYTES);
        }
        pthread_join(producer, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_stored_is_loaded),
        cmocka_unit_test(test_nothing_arrives_before_its_last_word),
        cmocka_unit_test(test_an_older_epoch_is_not_taken_for_the_next),
        cmocka_unit_test(test_offsets_of_grains_adjoin),
        cmocka_unit_test(test_a_reader_never_sees_half_of_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
