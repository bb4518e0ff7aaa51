/* libblinkclient's calls against a fake daemon: what each collective submits and refuses, operators with a
 * scalar, groups, communicators made from others, and waiting for any of several ops. */
#include "scene.h"

#define COUNT 16u /* elements of a block */

/* ---- collectives ---- */

static void test_every_collective_submits_its_opcode_and_one_block_of_elements(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    float *send = s.memory, *recv = s.memory + RANKS * COUNT;
    const blink_datatype_t f32 = BLINK_FLOAT32;
    for (uint32_t i = 0; i < 11; i++) {
        blink_result_t result = i == 0   ? blink_all_reduce(send, recv, COUNT, f32, BLINK_MAX, s.comm, &s.op)
                                : i == 1 ? blink_broadcast(send, recv, COUNT, f32, 3, s.comm, &s.op)
                                : i == 2 ? blink_reduce(send, NULL, COUNT, f32, BLINK_MAX, 3, s.comm, &s.op)
                                : i == 3 ? blink_all_gather(send, recv, COUNT, f32, s.comm, &s.op)
                                : i == 4
                                    ? blink_reduce_scatter(send, recv, COUNT, f32, BLINK_MAX, s.comm, &s.op)
                                : i == 5 ? blink_gather(send, NULL, COUNT, f32, 3, s.comm, &s.op)
                                : i == 6 ? blink_scatter(NULL, recv, COUNT, f32, 3, s.comm, &s.op)
                                : i == 7 ? blink_all_to_all(send, recv, COUNT, f32, s.comm, &s.op)
                                : i == 8 ? blink_send(send, COUNT, f32, 3, s.comm, &s.op)
                                : i == 9 ? blink_recv(recv, COUNT, f32, 3, s.comm, &s.op)
                                         : blink_barrier(s.comm, &s.op);
        const ring_sqe_t *sqe = submitted(&s, result);
        bool reduces = i == 0 || i == 2 || i == 4,
             rooted = i == 1 || i == 2 || i == 5 || i == 6 || i == 8 || i == 9;
        bool reads = i != 1 && i != 6 && i < 9, writes = i != 2 && i != 5 && i != 8 && i != 10;
        assert_int_equal(sqe->opcode, i + 1);
        assert_int_equal(sqe->count, i == 10 ? 0 : COUNT);
        assert_int_equal(sqe->datatype, i == 10 ? 0 : BLINK_FLOAT32);
        assert_int_equal(sqe->redop, reduces ? BLINK_MAX : 0);
        assert_int_equal(sqe->root, rooted ? 3 : 0);
        assert_int_equal(sqe->member, 1);
        assert_int_equal(sqe->flags, 0);
        assert_int_equal(sqe->in_region != 0, reads);
        assert_int_equal(sqe->out_region != 0, writes);
        assert_int_equal(sqe->out_offset_bytes, writes ? RANKS * COUNT * sizeof(float) : 0);
    }
    finish(&s);
}

static void test_in_place_is_the_form_that_each_collective_names(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    float *all = s.memory, *own = s.memory + RANK * COUNT;
    const blink_datatype_t f32 = BLINK_FLOAT32;
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    submitted(&s, blink_all_gather(own, all, COUNT, f32, s.comm, &s.op));
    submitted(&s, blink_reduce_scatter(all, own, COUNT, f32, BLINK_SUM, s.comm, &s.op));
    submitted(&s, blink_gather(own, all, COUNT, f32, RANK, s.comm, &s.op));
    submitted(&s, blink_gather(all, all, COUNT, f32, 0, s.comm, &s.op)); /* recv is not used here */
    submitted(&s, blink_scatter(all, own, COUNT, f32, RANK, s.comm, &s.op));
    submitted(&s, blink_reduce(all, all, COUNT, f32, BLINK_SUM, RANK, s.comm, &s.op));
    submitted(&s, blink_all_to_all(all, all + RANKS * COUNT, COUNT, f32, s.comm, &s.op));
    assert_fails(invalid, "send is not block 1 of recv, 64 bytes on",
                 blink_all_gather(all, all, COUNT, f32, s.comm, &s.op));
    assert_fails(invalid, "recv is not block 1 of send, 64 bytes on",
                 blink_reduce_scatter(all, own + COUNT, COUNT, f32, BLINK_SUM, s.comm, &s.op));
    assert_fails(invalid, "recv is not block 1 of send",
                 blink_scatter(all, own + 1, COUNT, f32, RANK, s.comm, &s.op));
    assert_fails(invalid, "no in-place form", blink_all_to_all(all, all, COUNT, f32, s.comm, &s.op));
    assert_fails(invalid, "no in-place form",
                 blink_all_to_all(all, all + RANKS * COUNT - 1, COUNT, f32, s.comm, &s.op));
    finish(&s);
}

static void test_arguments_out_of_their_domain_are_named(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    float *a = s.memory, *b = s.memory + REGION_BYTES / 2 / sizeof(float);
    const blink_datatype_t f32 = BLINK_FLOAT32;
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    const size_t fits_once = (size_t)PTRDIFF_MAX / sizeof(float);
    assert_fails(invalid, "4 × 2305843009213693951 elements of 4 bytes are more than memory can hold",
                 blink_all_gather(a, b, fits_once, f32, s.comm, &s.op));
    assert_fails(invalid, "passes the end of the address space",
                 blink_send((void *)(UINTPTR_MAX - 3), 2, f32, 0, s.comm, &s.op));
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "recv buffer",
                 blink_all_gather(a, b, REGION_BYTES / sizeof(float) / 4, f32, s.comm, &s.op));
    assert_fails(invalid, "root -1 is not among 4 ranks", blink_gather(a, b, 1, f32, -1, s.comm, &s.op));
    assert_fails(invalid, "peer 4 is not among 4 ranks", blink_send(a, 1, f32, 4, s.comm, &s.op));
    assert_fails(invalid, "blink_recv: comm is NULL", blink_recv(a, 1, f32, 0, NULL, &s.op));
    assert_fails(invalid, "blink_barrier: op is NULL", blink_barrier(s.comm, NULL));
    assert_fails(invalid, "send buffer is NULL", blink_scatter(NULL, b, 1, f32, RANK, s.comm, &s.op));
    assert_fails(invalid, "recv buffer is NULL", blink_recv(NULL, 1, f32, 0, s.comm, &s.op));
    assert_fails(invalid, "is not aligned to its elements of 4 bytes",
                 blink_send((char *)a + 1, 1, f32, 0, s.comm, &s.op));
    assert_fails(invalid, "datatype 12 is none", blink_recv(a, 1, (blink_datatype_t)12, 0, s.comm, &s.op));
    assert_int_equal(s.fake.taken, 0);
    finish(&s);
}

/* ---- operators ---- */

static void test_operators_with_a_scalar_belong_to_one_communicator_and_datatype(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    blink_comm_t *other = join(s.context, RANKS, 2);
    blink_redop_t half, foreign;
    const float scalar = 0.5f;
    uint32_t bits;
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    memcpy(&bits, &scalar, sizeof(bits));
    assert_int_equal(blink_redop_create_pre_mul_sum(s.comm, &scalar, BLINK_FLOAT32, &half), BLINK_OK);
    assert_int_equal(blink_redop_create_pre_mul_sum(other, &scalar, BLINK_FLOAT32, &foreign), BLINK_OK);
    const ring_sqe_t *sqe =
        submitted(&s, blink_all_reduce(s.memory, s.memory, 1, BLINK_FLOAT32, half, s.comm, &s.op));
    assert_int_equal(sqe->redop, BLINK_PRE_MUL_SUM);
    assert_int_equal(sqe->scalar, bits);
    assert_fails(invalid, "is for float32, not for float64",
                 blink_all_reduce(s.memory, s.memory, 1, BLINK_FLOAT64, half, s.comm, &s.op));
    assert_fails(invalid, "is none of this communicator",
                 blink_all_reduce(s.memory, s.memory, 1, BLINK_FLOAT32, foreign, s.comm, &s.op));
    assert_fails(invalid, "no operator by itself",
                 blink_all_reduce(s.memory, s.memory, 1, BLINK_FLOAT32, BLINK_PRE_MUL_SUM, s.comm, &s.op));
    assert_fails(invalid, "operator 6 is none",
                 blink_all_reduce(s.memory, s.memory, 1, BLINK_FLOAT32, (blink_redop_t)6, s.comm, &s.op));
    assert_int_equal(blink_redop_destroy(s.comm, half), BLINK_OK);
    assert_fails(invalid, "is none of this communicator", blink_redop_destroy(s.comm, half));
    assert_fails(invalid, "is none of this communicator",
                 blink_all_reduce(s.memory, s.memory, 1, BLINK_FLOAT32, half, s.comm, &s.op));
    finish(&s);
}

static void test_more_than_65536_operators_are_refused(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    const int64_t scalar = -1;
    blink_redop_t redop, first;
    assert_int_equal(blink_redop_create_pre_mul_sum(s.comm, &scalar, BLINK_INT64, &first), BLINK_OK);
    for (int i = 1; i < 65536; i++)
        assert_int_equal(blink_redop_create_pre_mul_sum(s.comm, &scalar, BLINK_INT64, &redop), BLINK_OK);
    assert_fails(BLINK_ERR_QUOTA, "65536 operators already",
                 blink_redop_create_pre_mul_sum(s.comm, &scalar, BLINK_INT64, &redop));
    assert_int_equal(blink_redop_destroy(s.comm, first), BLINK_OK);
    assert_int_equal(blink_redop_create_pre_mul_sum(s.comm, &scalar, BLINK_INT64, &redop), BLINK_OK);
    finish(&s);
}

/* ---- groups ---- */

static void test_a_group_is_one_run_and_one_completion_per_communicator(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    blink_comm_t *other = join(s.context, RANKS, 2);
    uint32_t of_member[3] = {0};
    assert_int_equal(blink_group_start(), BLINK_OK);
    for (int peer = 0; peer < RANKS; peer++) {
        assert_int_equal(blink_send(s.memory, 1, BLINK_INT8, peer, s.comm, NULL), BLINK_OK);
        assert_int_equal(blink_recv(s.memory + 8, 1, BLINK_INT8, peer, other, NULL), BLINK_OK);
    }
    assert_int_equal(blink_nop(s.context, NULL), BLINK_OK);
    assert_int_equal(blink_nop(s.context, NULL), BLINK_OK);
    assert_int_equal(s.fake.taken, 0);
    assert_int_equal(blink_group_end(&s.op), BLINK_OK);
    assert_int_equal(blink_wait(s.op), BLINK_OK);
    assert_int_equal(s.fake.taken, 2 * RANKS + 1);
    assert_int_equal(s.fake.completed, 3);
    for (uint32_t i = 0; i < 2 * RANKS + 1; i++) {
        const ring_sqe_t *sqe = fake_seen(&s.fake, i);
        uint32_t place = of_member[sqe->member]++;
        assert_int_equal(sqe->flags, sqe->member > 0 && place + 1 < RANKS ? RING_SQE_MORE : 0);
        assert_int_equal(sqe->root, sqe->member > 0 ? place : 0);
    }
    finish(&s);
}

static void test_a_group_larger_than_the_ring_keeps_its_order(void **state)
{
    (void)state;
    enum { ENTRIES = 500 };
    scene_t s = {.fake = {.idle = true}};
    begin(&s);
    blink_op_t *before, *after;
    assert_int_equal(blink_barrier(s.comm, &before), BLINK_OK);
    assert_int_equal(blink_group_start(), BLINK_OK);
    for (uint32_t i = 0; i < ENTRIES; i++)
        assert_int_equal(blink_send(s.memory, i % COUNT, BLINK_INT8, 0, s.comm, NULL), BLINK_OK);
    assert_int_equal(blink_group_end(&s.op), BLINK_OK);
    assert_int_equal(blink_barrier(s.comm, &after), BLINK_OK);
    atomic_store(&s.fake.idle, false);
    assert_int_equal(blink_wait(after), BLINK_OK);
    assert_int_equal(blink_wait(s.op), BLINK_OK);
    assert_int_equal(blink_wait(before), BLINK_OK);
    assert_int_equal(s.fake.taken, ENTRIES + 2);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(fake_seen(&s.fake, i + 1)->count, i % COUNT);
        assert_int_equal(fake_seen(&s.fake, i + 1)->flags, i + 1 < ENTRIES ? RING_SQE_MORE : 0);
    }
    assert_int_equal(fake_seen(&s.fake, ENTRIES + 1)->opcode, RING_OP_BARRIER);
    finish(&s);
}

static void test_a_failed_call_fails_the_whole_group(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_send(s.memory, 1, BLINK_INT8, 0, s.comm, NULL), BLINK_OK);
    assert_fails(invalid, "peer 9", blink_send(s.memory, 1, BLINK_INT8, 9, s.comm, NULL));
    assert_fails(invalid, "root 7", blink_broadcast(s.memory, s.memory, 1, BLINK_INT8, 7, s.comm, NULL));
    assert_fails(invalid, "peer 9 is not among 4 ranks", blink_group_end(&s.op)); /* the first failure */
    assert_null(s.op);
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_fails(invalid, "op is not NULL in a group", blink_barrier(s.comm, &s.op));
    assert_fails(invalid, "op is not NULL in a group", blink_group_end(&s.op));
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_barrier(s.comm, NULL), BLINK_OK);
    assert_fails(invalid, "cannot be in a group", blink_comm_finalize(s.comm));
    assert_fails(invalid, "cannot be in a group", blink_group_end(&s.op));
    assert_int_equal(s.fake.taken, 0);
    submitted(&s, blink_barrier(s.comm, &s.op)); /* outside, all is as before */
    finish(&s);
}

static void test_groups_nest_and_may_be_empty(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    blink_op_t *inner = NULL;
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    assert_fails(invalid, "has started no group", blink_group_end(&s.op));
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_group_end(&s.op), BLINK_OK);
    assert_null(s.op);
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_barrier(s.comm, NULL), BLINK_OK);
    assert_int_equal(blink_group_end(&inner), BLINK_OK);
    assert_null(inner);
    assert_int_equal(s.fake.taken, 0);
    assert_int_equal(blink_group_end(&s.op), BLINK_OK);
    assert_int_equal(blink_wait(s.op), BLINK_OK);
    assert_int_equal(s.fake.taken, 1);
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_barrier(s.comm, NULL), BLINK_OK);
    assert_fails(invalid, "op is NULL at the outermost end", blink_group_end(NULL));
    finish(&s);
}

static void test_a_group_has_at_most_65536_entries(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    assert_int_equal(blink_group_start(), BLINK_OK);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(blink_recv(s.memory, 1, BLINK_INT8, 0, s.comm, NULL), BLINK_OK);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "at most 65536 entries",
                 blink_recv(s.memory, 1, BLINK_INT8, 0, s.comm, NULL));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "at most 65536 entries", blink_group_end(&s.op));
    assert_int_equal(s.fake.taken, 0);
    finish(&s);
}

static void test_a_group_over_two_daemons_ends_when_both_have_ended_it(void **state)
{
    (void)state;
    scene_t s = {0}, other = {.fake = {.fail_with = BLINK_ERR_MISMATCH, .fail_text = "counts differ"}};
    begin(&s);
    begin(&other);
    bool done = false;
    blink_result_t result = BLINK_OK;
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_barrier(s.comm, NULL), BLINK_OK);
    assert_int_equal(blink_barrier(other.comm, NULL), BLINK_OK);
    assert_int_equal(blink_group_end(&s.op), BLINK_OK);
    while (!done)
        result = blink_test(s.op, &done);
    assert_int_equal(result, BLINK_ERR_MISMATCH);
    assert_string_equal(blink_last_error(), "counts differ");
    assert_int_equal(s.fake.completed + other.fake.completed, 2);
    finish(&other);
    finish(&s);
}

static void test_a_group_to_a_lost_daemon_is_refused(void **state)
{
    (void)state;
    scene_t s = {.fake = {.idle = true}};
    begin(&s);
    assert_int_equal(blink_barrier(s.comm, &s.op), BLINK_OK);
    assert_int_equal(blink_group_start(), BLINK_OK);
    assert_int_equal(blink_barrier(s.comm, NULL), BLINK_OK);
    fake_stop(&s.fake);
    assert_int_equal(blink_wait(s.op), BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_group_end(&s.op), BLINK_ERR_DAEMON_LOST);
    assert_null(s.op);
    blink_close(s.context);
}

/* ---- communicators from others ---- */

typedef struct split_entry {
    int32_t color, key;
    blink_unique_id_t id;
} split_entry_t;

static void test_split_ranks_by_key_and_joins_what_the_first_rank_names(void **state)
{
    (void)state;
    /* Of color 5: rank 3 (key -1), then 0 and 1, whose keys are equal. */
    const split_entry_t entries[RANKS] = {
        {5, 2, {{10}}}, {5, 2, {{11}}}, {BLINK_SPLIT_NO_COLOR, 0, {{12}}}, {5, -1, {{13}}}};
    scene_t s = {.fake = {.rank_count = RANKS, .gathered = (const uint8_t *)entries}};
    blink_comm_t *split;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    begin(&s);
    config.device = 7;
    config.algorithm = BLINK_ALGORITHM_RING;
    config.op_timeout_ms = 250;
    assert_int_equal(blink_comm_split(s.comm, 5, 2, &config, &split), BLINK_OK);
    assert_int_equal(s.fake.joined.rank, 2);
    assert_int_equal(s.fake.joined.rank_count, 3);
    assert_int_equal(s.fake.joined.device, RANK); /* that of the parent */
    assert_int_equal(s.fake.joined.algorithm, BLINK_ALGORITHM_RING);
    assert_int_equal(s.fake.joined.op_timeout_ms, 250);
    assert_memory_equal(&s.fake.joined.id, &entries[3].id, sizeof(blink_unique_id_t));

    blink_comm_t *again;
    assert_int_equal(blink_comm_split(split, 5, 2, NULL, &again), BLINK_OK); /* inherits */
    assert_int_equal(s.fake.joined.algorithm, BLINK_ALGORITHM_RING);
    assert_int_equal(s.fake.joined.op_timeout_ms, 250);
    assert_int_equal(blink_comm_split(s.comm, BLINK_SPLIT_NO_COLOR, 0, NULL, &again), BLINK_OK);
    assert_null(again);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "color -2", blink_comm_split(s.comm, -2, 0, NULL, &again));
    config.struct_bytes = 16; /* of a version without the timeout */
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "struct_bytes is 16",
                 blink_comm_split(s.comm, 5, 0, &config, &again));
    finish(&s);
}

static void test_a_duplicate_has_the_same_ranks_and_device(void **state)
{
    (void)state;
    const split_entry_t entries[RANKS] = {{0, 0, {{20}}}, {0, 1, {{21}}}, {0, 2, {{22}}}, {0, 3, {{23}}}};
    scene_t s = {.fake = {.rank_count = RANKS, .gathered = (const uint8_t *)entries}};
    blink_comm_t *duplicate;
    int device;
    begin(&s);
    assert_int_equal(blink_comm_duplicate(s.comm, &duplicate), BLINK_OK);
    assert_int_equal(s.fake.joined.rank, RANK);
    assert_int_equal(s.fake.joined.rank_count, RANKS);
    assert_memory_equal(&s.fake.joined.id, &entries[0].id, sizeof(blink_unique_id_t));
    assert_int_equal(blink_comm_device(duplicate, &device), BLINK_OK);
    assert_int_equal(device, RANK);
    finish(&s);
}

static void test_a_finalized_communicator_takes_no_more(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    blink_op_t *op;
    for (int i = 0; i < 100; i++)
        assert_int_equal(blink_barrier(s.comm, &op), BLINK_OK);
    assert_int_equal(blink_comm_finalize(s.comm), BLINK_OK);
    assert_int_equal(s.fake.completed, 100);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "has been finalized", blink_barrier(s.comm, &op));
    assert_int_equal(blink_comm_destroy(s.comm), BLINK_OK);
    finish(&s);
}

/* ---- any of several ---- */

static void test_wait_any_frees_one_op_at_a_time(void **state)
{
    (void)state;
    enum { OPS = 20 };
    scene_t s = {0};
    begin(&s);
    blink_op_t *ops[OPS + 1] = {NULL};
    ptrdiff_t index;
    for (int i = 0; i < OPS; i++)
        assert_int_equal(blink_barrier(s.comm, &ops[i + 1]), BLINK_OK);
    for (int i = 0; i < OPS; i++) {
        assert_int_equal(blink_wait_any(ops, OPS + 1, &index), BLINK_OK);
        assert_in_range(index, 1, OPS);
        assert_null(ops[index]);
    }
    assert_int_equal(blink_wait_any(ops, OPS + 1, &index), BLINK_OK);
    assert_int_equal(index, -1);
    finish(&s);
}

static void test_wait_any_finds_the_one_that_ends(void **state)
{
    (void)state;
    scene_t idle = {.fake = {.idle = true}},
            busy = {.fake = {.fail_with = BLINK_ERR_TIMEOUT, .fail_text = "late"}};
    begin(&idle);
    begin(&busy);
    blink_op_t *ops[3];
    ptrdiff_t index;
    assert_int_equal(blink_barrier(idle.comm, &ops[0]), BLINK_OK);
    assert_int_equal(blink_barrier(idle.comm, &ops[1]), BLINK_OK);
    assert_int_equal(blink_barrier(busy.comm, &ops[2]), BLINK_OK);
    assert_fails(BLINK_ERR_TIMEOUT, "late", blink_wait_any(ops, 3, &index));
    assert_int_equal(index, 2);
    fake_stop(&idle.fake);
    assert_int_equal(blink_wait_any(ops, 3, &index), BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_wait_any(ops, 3, &index), BLINK_ERR_DAEMON_LOST);
    blink_close(idle.context);
    finish(&busy);
}

static void test_wait_for_leaves_an_op_that_has_not_ended(void **state)
{
    (void)state;
    scene_t s = {.fake = {.idle = true}};
    begin(&s);
    blink_op_t *op;
    assert_int_equal(blink_barrier(s.comm, &op), BLINK_OK);
    assert_fails(BLINK_ERR_TIMEOUT, "within 0 ms", blink_wait_for(&op, 0));
    assert_fails(BLINK_ERR_TIMEOUT, "within 30 ms", blink_wait_for(&op, 30));
    assert_non_null(op);
    atomic_store(&s.fake.idle, false);
    assert_int_equal(blink_wait_for(&op, limit_ms()), BLINK_OK);
    assert_null(op);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "*op is NULL", blink_wait_for(&op, 0));
    finish(&s);
}

static void test_an_engine_without_a_heartbeat_is_given_up(void **state)
{
    (void)state;
    scene_t s = {.fake = {.idle = true, .silent = true}};
    setenv(BLINK_DAEMON_TIMEOUT_ENV, "2", 1);
    begin(&s);
    unsetenv(BLINK_DAEMON_TIMEOUT_ENV);
    blink_op_t *op;
    assert_int_equal(blink_barrier(s.comm, &op), BLINK_OK);
    assert_fails(BLINK_ERR_DAEMON_LOST, "has not answered for 2 s", blink_wait(op));
    assert_fails(BLINK_ERR_DAEMON_LOST, "has not answered for 2 s", blink_barrier(s.comm, &op));
    finish(&s);
}

static void test_a_busy_engine_is_waited_for(void **state)
{
    (void)state;
    scene_t s = {.fake = {.idle = true}};
    setenv(BLINK_DAEMON_TIMEOUT_ENV, "2", 1);
    begin(&s);
    unsetenv(BLINK_DAEMON_TIMEOUT_ENV);
    blink_op_t *op;
    assert_int_equal(blink_barrier(s.comm, &op), BLINK_OK);
    assert_fails(BLINK_ERR_TIMEOUT, "within 4500 ms", blink_wait_for(&op, 4500));
    atomic_store(&s.fake.idle, false);
    assert_int_equal(blink_wait(op), BLINK_OK);
    finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_submits_its_opcode_and_one_block_of_elements),
        cmocka_unit_test(test_in_place_is_the_form_that_each_collective_names),
        cmocka_unit_test(test_arguments_out_of_their_domain_are_named),
        cmocka_unit_test(test_operators_with_a_scalar_belong_to_one_communicator_and_datatype),
        cmocka_unit_test(test_more_than_65536_operators_are_refused),
        cmocka_unit_test(test_a_group_is_one_run_and_one_completion_per_communicator),
        cmocka_unit_test(test_a_group_larger_than_the_ring_keeps_its_order),
        cmocka_unit_test(test_a_failed_call_fails_the_whole_group),
        cmocka_unit_test(test_groups_nest_and_may_be_empty),
        cmocka_unit_test(test_a_group_has_at_most_65536_entries),
        cmocka_unit_test(test_a_group_over_two_daemons_ends_when_both_have_ended_it),
        cmocka_unit_test(test_a_group_to_a_lost_daemon_is_refused),
        cmocka_unit_test(test_split_ranks_by_key_and_joins_what_the_first_rank_names),
        cmocka_unit_test(test_a_duplicate_has_the_same_ranks_and_device),
        cmocka_unit_test(test_a_finalized_communicator_takes_no_more),
        cmocka_unit_test(test_wait_any_frees_one_op_at_a_time),
        cmocka_unit_test(test_wait_any_finds_the_one_that_ends),
        cmocka_unit_test(test_wait_for_leaves_an_op_that_has_not_ended),
        cmocka_unit_test(test_an_engine_without_a_heartbeat_is_given_up),
        cmocka_unit_test(test_a_busy_engine_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
