/* Buffers in ordinary memory against a fake daemon that moves pieces between slots as windows.h says,
 * sleeping on the doorbell alone: a store that does not ring hangs. */
#include "fake_daemon.h"

#include <errno.h>

#define RANKS  3
#define PERIOD 10007u             /* prime to the size of a piece */
#define PIECE  STAGING_SLOT_BYTES /* elements of a byte, of an op of one block */

/* Random up to PERIOD, then again: no two pieces are alike, and it is quick under a sanitizer. */
static uint8_t *random_bytes(size_t bytes, unsigned int seed)
{
    uint8_t *made = malloc(bytes);
    size_t have = bytes < PERIOD ? bytes : PERIOD;
    for (size_t i = 0; i < have; i++) {
        seed = seed * 1103515245u + 12345u;
        made[i] = (uint8_t)(seed >> 16);
    }
    for (size_t copied; have < bytes; have += copied) {
        copied = bytes - have < have / PERIOD * PERIOD ? bytes - have : have / PERIOD * PERIOD;
        memcpy(made + have, made, copied);
    }
    return made;
}

/* Block b of the output is block b of the input (or its only one), b added to every byte: see fake_move(). */
static void check_blocks(const uint8_t *recv, uint32_t out_blocks, const uint8_t *send, uint32_t in_blocks,
                         size_t count)
{
    for (uint32_t b = 0; b < out_blocks; b++) {
        bool same = b == 0 && memcmp(recv, send, count) == 0; /* the quick look */
        for (size_t i = 0; !same && i < count; i++) {
            uint8_t expected = (uint8_t)(send[(b < in_blocks ? b : 0) * count + i] + b);
            if (recv[b * count + i] != expected)
                fail_msg("block %u, element %zu is %u, not %u", b, i, recv[b * count + i], expected);
        }
    }
}

static void reduce_counts(const size_t *counts, size_t count_count, ring_wait_policy_t policy)
{
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    ring_set_wait_policy(&fake.ring, policy);
    for (size_t i = 0; i < count_count; i++) {
        uint8_t *send = random_bytes(counts[i], (unsigned int)i), *recv = calloc(1, counts[i] + 1);
        recv[counts[i]] = 77;
        assert_int_equal(blink_all_reduce(send, recv, counts[i], BLINK_UINT8, BLINK_SUM, comm, &op),
                         BLINK_OK);
        assert_int_equal(blink_wait(op), BLINK_OK);
        check_blocks(recv, 1, send, 1, counts[i]);
        assert_int_equal(recv[counts[i]], 77);
        free(send);
        free(recv);
    }
    assert_int_equal(fake.arena_count, 1);
    blink_close(context);
    fake_stop(&fake);
}

static void test_small_buffers_take_one_slot_each(void **state)
{
    (void)state;
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    uint8_t send[65], recv[65];
    memset(send, 5, sizeof(send));
    assert_int_equal(blink_all_reduce(send, recv, 65, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    assert_memory_equal(send, recv, sizeof(send));
    assert_int_equal(fake_seen(&fake, 0)->flags, RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED);
    assert_int_equal(fake_seen(&fake, 0)->in_region, fake.arenas[0].region);
    assert_int_equal(fake_seen(&fake, 0)->in_offset_bytes, STAGING_HEADER_BYTES);
    assert_int_equal(fake_seen(&fake, 0)->out_offset_bytes, STAGING_HEADER_BYTES + 128);
    assert_int_equal(fake_seen(&fake, 0)->window, 0);
    assert_true(fake.arenas[0].bytes >= STAGING_HEADER_BYTES + (16u << 20));
    blink_close(context);
    fake_stop(&fake);
}

static void test_buffers_are_cut_in_pieces_under_every_waiting_policy(void **state)
{
    (void)state;
    const size_t counts[] = {1, PIECE - 1, PIECE, PIECE + 1, 4 * PIECE, 4 * PIECE + 1, 9 * PIECE + 4321};
    reduce_counts(counts, 7, RING_WAIT_SLEEP);
    reduce_counts(counts, 7, RING_WAIT_YIELD);
    reduce_counts(counts, 7, RING_WAIT_SPIN);
}

static void test_a_piece_holds_its_share_of_every_block(void **state)
{
    (void)state;
    const size_t count = 5 * (PIECE / RANKS) + 12345; /* pieces end within blocks; the last is shorter */
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    uint8_t *send = random_bytes(RANKS * count, 1), *recv = calloc(RANKS, count);
    assert_int_equal(blink_all_gather(send, recv, count, BLINK_UINT8, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    check_blocks(recv, RANKS, send, 1, count);
    assert_int_equal(blink_reduce_scatter(send, recv, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    check_blocks(recv, 1, send, RANKS, count);
    assert_int_equal(blink_all_to_all(send, recv, count, BLINK_UINT8, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    check_blocks(recv, RANKS, send, RANKS, count);
    blink_close(context);
    fake_stop(&fake);
    free(send);
    free(recv);
}

/* Nobody on another host knows that this rank is staged, so all go by one piece. */
static void test_across_hosts_a_buffer_is_one_piece(void **state)
{
    (void)state;
    const size_t count = 9 * PIECE + 12345;
    fake_t fake = {.rank_count = RANKS, .spans_hosts = true};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    void *registered;
    uint8_t *send = random_bytes(RANKS * count, 1), *recv = calloc(RANKS, count);
    assert_int_equal(blink_all_reduce(send, recv, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    check_blocks(recv, 1, send, 1, count);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(blink_all_to_all(send, recv, count, BLINK_UINT8, comm, &op), BLINK_OK);
        assert_int_equal(blink_wait(op), BLINK_OK);
        check_blocks(recv, RANKS, send, RANKS, count);
    }
    assert_int_equal(fake.pieces, 4);
    assert_int_equal(fake.arena_count, 2); /* the larger one serves again */
    assert_int_equal(blink_mem_alloc(context, count, &registered), BLINK_OK);
    assert_int_equal(blink_all_reduce(registered, recv, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    assert_int_equal(fake_seen(&fake, 4)->flags, RING_SQE_OUT_STAGED);
    assert_int_equal(fake.pieces, 5);
    blink_close(context);
    fake_stop(&fake);
    free(send);
    free(recv);
}

static void test_only_what_lies_in_no_region_is_staged(void **state)
{
    (void)state;
    const size_t count = 6 * PIECE;
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    void *registered;
    uint8_t *plain = calloc(1, count);
    assert_int_equal(blink_mem_alloc(context, count, &registered), BLINK_OK);
    assert_int_equal(blink_all_reduce(registered, plain, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    assert_int_equal(fake_seen(&fake, 0)->flags, RING_SQE_OUT_STAGED);
    assert_int_equal(fake_seen(&fake, 0)->in_region, 1);
    for (size_t i = 0; i < count; i += PIECE)
        assert_int_equal(plain[i], i / PIECE); /* the pieces' numbers, see fake_move() */
    assert_int_equal(blink_all_reduce(plain, registered, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    assert_int_equal(fake_seen(&fake, 1)->flags, RING_SQE_IN_STAGED);
    assert_int_equal(fake.pieces, 12);
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "runs 1 bytes past the end",
                 blink_all_reduce((char *)registered + 1, plain, count, BLINK_UINT8, BLINK_SUM, comm, &op));
    blink_close(context);
    fake_stop(&fake);
    free(plain);
}

static void test_long_ops_go_on_without_any_call(void **state)
{
    (void)state;
    const size_t count = 7 * PIECE + 3;
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    uint8_t *send = random_bytes(count, 3), *recv = calloc(1, count);
    assert_int_equal(blink_all_reduce(send, recv, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    while (atomic_load(&fake.completed) == 0)
        usleep(1000); /* the alarm ends it if they do not */
    assert_int_equal(blink_comm_finalize(comm), BLINK_OK);
    check_blocks(recv, 1, send, 1, count); /* over for this rank, though nobody has waited for the op */
    assert_int_equal(blink_wait(op), BLINK_OK);
    blink_close(context);
    fake_stop(&fake);
    free(send);
    free(recv);
}

static void test_an_op_found_by_poll_is_over_after_some_event(void **state)
{
    (void)state;
    const size_t count = 6 * PIECE;
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    uint8_t *send = random_bytes(count, 3), *recv = calloc(1, count);
    int fd;
    assert_int_equal(blink_poll_fd(context, &fd), BLINK_OK);
    for (int round = 0; round < 20; round++) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        blink_op_t *op;
        bool done = false;
        uint64_t ignored;
        assert_int_equal(blink_all_reduce(send, recv, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
        while (!done) {
            assert_int_equal(poll(&readable, 1, -1), 1);
            /* poll() may see an event that was raised again before it was read: then there is nothing to
             * read. */
            ssize_t got = read(fd, &ignored, sizeof(ignored));
            assert_true(got == sizeof(ignored) || (got < 0 && errno == EAGAIN));
            assert_int_equal(blink_test(op, &done), BLINK_OK);
        }
        check_blocks(recv, 1, send, 1, count);
    }
    blink_close(context);
    fake_stop(&fake);
    free(send);
    free(recv);
}

static void test_windows_and_slots_are_used_again(void **state)
{
    (void)state;
    enum { OPS = 40 }; /* more than an arena has windows */
    fake_t fake = {.rank_count = RANKS, .idle = true};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *ops[OPS];
    uint8_t send[OPS][64], recv[OPS][64];
    for (uint32_t round = 0; round < 50; round++) {
        atomic_store(&fake.idle, true);
        for (uint32_t i = 0; i < OPS; i++) {
            memset(send[i], (int)(round + i), sizeof(send[i]));
            assert_int_equal(blink_all_reduce(send[i], recv[i], 1 + i, BLINK_UINT8, BLINK_SUM, comm, &ops[i]),
                             BLINK_OK);
        }
        atomic_store(&fake.idle, false);
        for (uint32_t i = 0; i < OPS; i++) {
            uint32_t which = (i * 7 + round) % OPS;
            assert_int_equal(blink_wait(ops[which]), BLINK_OK);
            assert_memory_equal(recv[which], send[which], 1 + which);
        }
    }
    assert_int_equal(fake.arena_count, 2);
    blink_close(context);
    fake_stop(&fake);
}

static void test_a_failed_op_leaves_the_output_and_frees_its_window(void **state)
{
    (void)state;
    fake_t fake = {.rank_count = RANKS, .fail_with = BLINK_ERR_PEER_LOST, .fail_text = "rank 2 is gone"};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    uint8_t *send = random_bytes(6 * PIECE, 1), *recv = calloc(6, PIECE);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(blink_all_reduce(send, recv, 6 * PIECE, BLINK_UINT8, BLINK_SUM, comm, &op),
                         BLINK_OK);
        assert_fails(BLINK_ERR_PEER_LOST, "rank 2 is gone", blink_wait(op));
    }
    for (size_t i = 0; i < 6 * PIECE; i++)
        assert_int_equal(recv[i], 0);
    assert_int_equal(fake.arena_count, 1);
    blink_close(context);
    fake_stop(&fake);
    free(send);
    free(recv);
}

static void test_a_refused_arena_is_passed_up(void **state)
{
    (void)state;
    enum { FIT = STAGING_WINDOWS };
    fake_t fake = {.rank_count = RANKS, .idle = true, .arenas_max = 1};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *ops[FIT], *op;
    uint8_t send[8] = {1}, recv[FIT][8];
    for (uint32_t i = 0; i < FIT; i++)
        assert_int_equal(blink_all_reduce(send, recv[i], 8, BLINK_UINT8, BLINK_SUM, comm, &ops[i]), BLINK_OK);
    assert_fails(BLINK_ERR_QUOTA, "no more staging memory for you",
                 blink_all_reduce(send, send, 8, BLINK_UINT8, BLINK_SUM, comm, &op));
    atomic_store(&fake.idle, false);
    for (uint32_t i = 0; i < FIT; i++)
        assert_int_equal(blink_wait(ops[i]), BLINK_OK);
    assert_int_equal(blink_all_reduce(send, send, 8, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    blink_close(context);
    fake_stop(&fake);
}

static void test_a_group_of_staged_ops_reads_its_buffers_at_the_end(void **state)
{
    (void)state;
    enum { OPS = 6 };
    const size_t count = 5 * PIECE + 17;
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, RANKS, 0);
    blink_op_t *op;
    uint8_t *send = calloc(OPS, count), *recv = calloc(OPS, count), *bytes = random_bytes(OPS * count, 9);
    assert_int_equal(blink_group_start(), BLINK_OK);
    for (uint32_t i = 0; i < OPS; i++)
        assert_int_equal(
            blink_all_reduce(send + i * count, recv + i * count, count, BLINK_UINT8, BLINK_SUM, comm, NULL),
            BLINK_OK);
    memcpy(send, bytes, OPS * count);
    assert_int_equal(blink_group_end(&op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    check_blocks(recv, 1, bytes, 1, OPS * count);
    assert_int_equal(fake.completed, 1);

    assert_int_equal(blink_group_start(), BLINK_OK); /* a failed group gives its windows back */
    assert_int_equal(blink_all_reduce(send, recv, count, BLINK_UINT8, BLINK_SUM, comm, NULL), BLINK_OK);
    assert_int_equal(blink_send(send, 1, BLINK_UINT8, -1, comm, NULL), BLINK_ERR_INVALID_ARGUMENT);
    assert_int_equal(blink_group_end(&op), BLINK_ERR_INVALID_ARGUMENT);
    uint32_t arenas = fake.arena_count;
    for (uint32_t i = 0; i < 2 * OPS; i++) {
        assert_int_equal(blink_all_reduce(send, recv, count, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
        assert_int_equal(blink_wait(op), BLINK_OK);
    }
    assert_int_equal(fake.arena_count, arenas);
    blink_close(context);
    fake_stop(&fake);
    free(send);
    free(recv);
    free(bytes);
}

/* ---- several threads, and the daemon's death ---- */

typedef struct worker {
    pthread_t thread;
    blink_comm_t *comm;
    unsigned int seed;
    bool wrong;
} worker_t;

static void *reduce_often(void *argument)
{
    worker_t *worker = argument;
    const size_t counts[] = {8, 3 * PIECE + 1, 100, 6 * PIECE};
    for (uint32_t i = 0; i < 8; i++) {
        size_t count = counts[(i + worker->seed) % 4];
        uint8_t *bytes = random_bytes(count, worker->seed + i), *copy = malloc(count);
        blink_op_t *op;
        memcpy(copy, bytes, count);
        worker->wrong |=
            blink_all_reduce(bytes, bytes, count, BLINK_UINT8, BLINK_SUM, worker->comm, &op) != BLINK_OK ||
            blink_wait(op) != BLINK_OK || memcmp(bytes, copy, count) != 0;
        free(bytes);
        free(copy);
    }
    return NULL;
}

static void test_threads_share_a_context_with_staged_ops(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    fake_t fake = {.rank_count = RANKS};
    blink_context_t *context = open_context(&fake);
    worker_t workers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (worker_t){.comm = join(context, RANKS, 0), .seed = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, reduce_often, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_false(workers[i].wrong);
    }
    blink_close(context);
    fake_stop(&fake);
}

static void test_daemon_death_ends_staged_ops(void **state)
{
    (void)state;
    enum { OPS = 20 };
    for (uint32_t before_us = 0; before_us < 4000; before_us += 800) {
        fake_t fake = {.rank_count = RANKS};
        blink_context_t *context = open_context(&fake);
        blink_comm_t *comm = join(context, RANKS, 0);
        blink_op_t *ops[OPS];
        uint8_t *bytes = calloc(OPS, 6 * PIECE);
        for (uint32_t i = 0; i < OPS; i++)
            assert_int_equal(blink_all_reduce(bytes + i * 6 * PIECE, bytes + i * 6 * PIECE,
                                              i % 5 == 0 ? 6 * PIECE : 8, BLINK_UINT8, BLINK_SUM, comm,
                                              &ops[i]),
                             BLINK_OK);
        usleep(before_us);
        fake_stop(&fake);
        bool lost = false;
        for (uint32_t i = 0; i < OPS; i++) {
            blink_result_t result = blink_wait(ops[i]);
            assert_true(result == BLINK_ERR_DAEMON_LOST || (result == BLINK_OK && !lost));
            lost = lost || result != BLINK_OK;
        }
        blink_close(context);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_buffers_take_one_slot_each),
        cmocka_unit_test(test_buffers_are_cut_in_pieces_under_every_waiting_policy),
        cmocka_unit_test(test_a_piece_holds_its_share_of_every_block),
        cmocka_unit_test(test_across_hosts_a_buffer_is_one_piece),
        cmocka_unit_test(test_only_what_lies_in_no_region_is_staged),
        cmocka_unit_test(test_long_ops_go_on_without_any_call),
        cmocka_unit_test(test_an_op_found_by_poll_is_over_after_some_event),
        cmocka_unit_test(test_windows_and_slots_are_used_again),
        cmocka_unit_test(test_a_failed_op_leaves_the_output_and_frees_its_window),
        cmocka_unit_test(test_a_refused_arena_is_passed_up),
        cmocka_unit_test(test_a_group_of_staged_ops_reads_its_buffers_at_the_end),
        cmocka_unit_test(test_threads_share_a_context_with_staged_ops),
        cmocka_unit_test(test_daemon_death_ends_staged_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
