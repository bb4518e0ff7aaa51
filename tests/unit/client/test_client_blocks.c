/* Collectives whose blocks differ in length, against a fake daemon: what each submits and refuses. */
#include "scene.h"

static void test_all_to_all_v_is_a_group_of_sends_and_receives(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    const size_t counts[RANKS] = {1, 0, 3, 2}, offsets[RANKS] = {0, 900, 1, 4};
    const size_t clash[RANKS] = {0, 900, 1, 3}, huge[RANKS] = {0, 0, SIZE_MAX / 2, 0};
    float *send = s.memory, *recv = s.memory + 10;
    const blink_datatype_t f32 = BLINK_FLOAT32;
    submitted(&s, blink_all_to_all_v(send, counts, offsets, recv, counts, offsets, f32, s.comm, &s.op));
    assert_int_equal(s.fake.taken, 2 * RANKS);
    assert_int_equal(s.fake.completed, 1);
    for (uint32_t i = 0; i < 2 * RANKS; i++) {
        const ring_sqe_t *sqe = fake_seen(&s.fake, i);
        assert_int_equal(sqe->opcode, i % 2 == 0 ? RING_OP_SEND : RING_OP_RECV);
        assert_int_equal(sqe->root, i / 2);
        assert_int_equal(sqe->count, counts[i / 2]);
        assert_int_equal(sqe->flags, i + 1 < 2 * RANKS ? RING_SQE_MORE : 0);
    }
    assert_int_equal(fake_seen(&s.fake, 7)->out_offset_bytes, (10 + 4) * sizeof(float));
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    assert_fails(invalid, "a recv block overlaps another",
                 blink_all_to_all_v(send, counts, offsets, recv, counts, clash, f32, s.comm, &s.op));
    assert_fails(invalid, "a recv block overlaps another",
                 blink_all_to_all_v(send, counts, offsets, send + 5, counts, offsets, f32, s.comm, &s.op));
    assert_fails(invalid, "more than memory can hold",
                 blink_all_to_all_v(send, huge, offsets, recv, counts, offsets, f32, s.comm, &s.op));
    assert_fails(invalid, "recv_counts is NULL",
                 blink_all_to_all_v(send, counts, offsets, recv, NULL, offsets, f32, s.comm, &s.op));
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "recv buffer",
                 blink_all_to_all_v(send, counts, offsets, s.memory + REGION_BYTES / sizeof(float) - 3,
                                    counts, offsets, f32, s.comm, &s.op));
    assert_int_equal(s.fake.taken, 2 * RANKS);
    finish(&s);
}

/* Block 1 is this rank's. */
static const size_t counts_v[RANKS] = {1, 2, 0, 3}, offsets_v[RANKS] = {5, 1, 900, 6};

static void test_all_gather_v_is_a_group_of_broadcasts(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    float *recv = s.memory, *send = s.memory + 10;
    for (int in_place = 0; in_place < 2; in_place++) {
        if (in_place)
            send = recv + offsets_v[RANK];
        submitted(&s, blink_all_gather_v(send, 2, recv, counts_v, offsets_v, BLINK_FLOAT32, s.comm, &s.op));
        for (uint32_t i = 0; i < RANKS; i++) {
            const ring_sqe_t *sqe = fake_seen(&s.fake, (uint32_t)in_place * RANKS + i);
            assert_int_equal(sqe->opcode, RING_OP_BROADCAST);
            assert_int_equal(sqe->root, i);
            assert_int_equal(sqe->count, counts_v[i]);
            assert_int_equal(sqe->flags, i + 1 < RANKS ? RING_SQE_MORE : 0);
            if (counts_v[i] > 0)
                assert_int_equal(sqe->out_offset_bytes, offsets_v[i] * sizeof(float));
            assert_int_equal(sqe->in_region != 0, i == RANK);
        }
    }
    assert_int_equal(s.fake.completed, 2);
    finish(&s);
}

static void test_reduce_scatter_v_is_a_group_of_reductions(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    float *send = s.memory, *recv = s.memory + 10;
    const blink_datatype_t f32 = BLINK_FLOAT32;
    for (int in_place = 0; in_place < 2; in_place++) {
        if (in_place)
            recv = send + offsets_v[RANK];
        submitted(&s,
                  blink_reduce_scatter_v(send, counts_v, offsets_v, recv, 2, f32, BLINK_MIN, s.comm, &s.op));
        for (uint32_t i = 0; i < RANKS; i++) {
            const ring_sqe_t *sqe = fake_seen(&s.fake, (uint32_t)in_place * RANKS + i);
            assert_int_equal(sqe->opcode, RING_OP_REDUCE);
            assert_int_equal(sqe->redop, BLINK_MIN);
            assert_int_equal(sqe->root, i);
            assert_int_equal(sqe->count, counts_v[i]);
            if (counts_v[i] > 0)
                assert_int_equal(sqe->in_offset_bytes, offsets_v[i] * sizeof(float));
            assert_int_equal(sqe->out_region != 0, i == RANK);
        }
    }
    finish(&s);
}

/* This rank is 1; in place what it gives itself is an empty transfer. */
static void test_gather_v_and_scatter_v_are_groups_of_sends_and_receives(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    float *all = s.memory, *own = s.memory + 10, *in_place = all + offsets_v[RANK];
    const blink_datatype_t f32 = BLINK_FLOAT32;
    const ring_sqe_t *sqe = submitted(&s, blink_gather_v(own, 7, NULL, NULL, NULL, f32, 3, s.comm, &s.op));
    assert_int_equal(s.fake.taken, 1);
    assert_int_equal(sqe->opcode, RING_OP_SEND);
    assert_int_equal(sqe->root, 3);
    assert_int_equal(sqe->count, 7);
    sqe = submitted(&s, blink_scatter_v(NULL, NULL, NULL, own, 0, f32, 3, s.comm, &s.op));
    assert_int_equal(s.fake.taken, 2);
    assert_int_equal(sqe->opcode, RING_OP_RECV);
    assert_int_equal(sqe->count, 0);
    submitted(&s, blink_gather_v(own, 2, all, counts_v, offsets_v, f32, RANK, s.comm, &s.op));
    assert_int_equal(s.fake.taken, 2 + RANKS + 1);
    assert_int_equal(fake_seen(&s.fake, 3)->opcode, RING_OP_SEND);
    assert_int_equal(fake_seen(&s.fake, 3)->count, 2);
    assert_int_equal(fake_seen(&s.fake, 6)->out_offset_bytes, offsets_v[3] * sizeof(float));
    submitted(&s, blink_scatter_v(all, counts_v, offsets_v, in_place, 2, f32, RANK, s.comm, &s.op));
    assert_int_equal(s.fake.taken, 2 + 2 * (RANKS + 1));
    assert_int_equal(fake_seen(&s.fake, 9)->count, 0);
    assert_int_equal(fake_seen(&s.fake, 9)->root, RANK);
    finish(&s);
}

static void test_blocks_of_different_lengths_are_checked(void **state)
{
    (void)state;
    scene_t s = {0};
    begin(&s);
    float *all = s.memory, *own = s.memory + 10;
    const size_t clash[RANKS] = {2, 1, 0, 6}, *counts = counts_v, *offsets = offsets_v;
    const size_t huge[RANKS] = {SIZE_MAX / 4, 2, 0, 3}, far[RANKS] = {PTRDIFF_MAX / 4, 1, 0, 6};
    const blink_datatype_t f32 = BLINK_FLOAT32;
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    assert_fails(invalid, "blink_all_gather_v: recv_offsets is NULL",
                 blink_all_gather_v(own, 2, all, counts, NULL, f32, s.comm, &s.op));
    assert_fails(invalid, "blink_all_gather_v: the block of rank 1, this one, has 3 elements in send and 2",
                 blink_all_gather_v(own, 3, all, counts, offsets, f32, s.comm, &s.op));
    assert_fails(invalid, "a recv block overlaps another",
                 blink_all_gather_v(own, 2, all, counts, clash, f32, s.comm, &s.op));
    assert_fails(invalid, "a recv block overlaps another",
                 blink_all_gather_v(all, 2, all, counts, offsets, f32, s.comm, &s.op));
    assert_fails(invalid, "more than memory can hold",
                 blink_all_gather_v(own, 2, all, huge, offsets, f32, s.comm, &s.op));
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "recv buffer",
                 blink_all_gather_v(own, 2, s.memory + REGION_BYTES / sizeof(float) - 7, counts, offsets, f32,
                                    s.comm, &s.op));
    /* In place, and yet in the way of a block that others need. */
    assert_fails(
        invalid, "a recv block overlaps another",
        blink_reduce_scatter_v(all, counts, clash, all + clash[RANK], 2, f32, BLINK_SUM, s.comm, &s.op));
    assert_fails(invalid, "operator 9 is none",
                 blink_reduce_scatter_v(all, counts, offsets, own, 2, f32, (blink_redop_t)9, s.comm, &s.op));
    assert_fails(
        invalid, "send block 0, 1 elements at offset 2305843009213693951, passes the end",
        blink_scatter_v((void *)(UINTPTR_MAX / 2 + 1), counts, far, own, 2, f32, RANK, s.comm, &s.op));
    assert_fails(invalid, "blink_scatter_v: send_counts is NULL",
                 blink_scatter_v(all, NULL, offsets, own, 2, f32, RANK, s.comm, &s.op));
    assert_fails(invalid, "blink_gather_v: root 4 is not among 4 ranks",
                 blink_gather_v(own, 2, all, counts, offsets, f32, RANKS, s.comm, &s.op));
    assert_fails(invalid, "blink_gather_v: comm is NULL",
                 blink_gather_v(own, 2, all, counts, offsets, f32, 0, NULL, &s.op));
    assert_fails(invalid, "blink_gather_v: op is NULL",
                 blink_gather_v(own, 2, all, counts, offsets, f32, 0, s.comm, NULL));
    assert_fails(invalid, "blink_all_to_all_v: comm is NULL",
                 blink_all_to_all_v_on(all, counts, offsets, own, counts, offsets, f32, NULL, NULL));
    assert_int_equal(s.fake.taken, 0);
    finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_to_all_v_is_a_group_of_sends_and_receives),
        cmocka_unit_test(test_all_gather_v_is_a_group_of_broadcasts),
        cmocka_unit_test(test_reduce_scatter_v_is_a_group_of_reductions),
        cmocka_unit_test(test_gather_v_and_scatter_v_are_groups_of_sends_and_receives),
        cmocka_unit_test(test_blocks_of_different_lengths_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
