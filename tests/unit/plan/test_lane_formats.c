/*
 * What the medium makes of a plan: in plain memory a direct exchange, under LL and LL128 an edge into scratch
 * for every hop. Each program is proved right.
 */
#include "collective.h"
#include "error.h"
#include "hand_plan.h"
#include "names.h"
#include "plan/lane/lane.h"
#include "prove/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { COLLECTIVES = BLINK_SENDRECV + 1, RANKS_MOST = 8 };

static topo_t *plain_memory(uint32_t devices)
{
    topo_builder_t *builder;
    topo_t *topo;
    topo_node_t memory = {.id = "memory", .host = "n0", .kind = TOPO_SWITCH};
    assert_int_equal(topo_build_create("memory", "test", &builder), BLINK_OK);
    assert_int_equal(topo_build_node(builder, &memory), BLINK_OK);
    for (uint32_t i = 0; i < devices; i++) {
        char id[16];
        snprintf(id, sizeof(id), "host%u", i);
        topo_node_t device = {.id = id, .host = "n0", .kind = TOPO_DEVICE};
        assert_int_equal(topo_build_node(builder, &device), BLINK_OK);
        assert_int_equal(topo_build_link(builder, id, "memory", TOPO_SHM, 10, 1, 0.5, true), BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

static plan_request_t request_of(const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm,
                                 uint32_t ranks)
{
    return (plan_request_t){.collective = (blink_collective_t)collective,
                            .algorithm = algorithm,
                            .rank_node = topo->gpus,
                            .rank_count = ranks,
                            .root = ranks - 1,
                            .peer = 0};
}

static void assert_right(const lane_program_t *program)
{
    bool has_in_place = program->collective != BLINK_ALLTOALL && program->collective != BLINK_SENDRECV;
    for (uint32_t slots = 1; slots <= 2; slots++) {
        for (int in_place = 0; in_place <= has_in_place; in_place++) {
            lane_verify_options_t options = {2 * slots + 1, slots, in_place == 1};
            if (lane_verify(program, &options) != BLINK_OK)
                fail_msg("%s, %u ranks, %s, %u slots%s: %s", blink_name_collective(program->collective),
                         program->rank_count, blink_name_protocol(program->protocol), slots,
                         in_place ? ", in place" : "", blink_error_text());
        }
    }
}

/* ---- plain memory ---- */

static void test_plain_memory_gets_a_direct_exchange(void **state)
{
    (void)state;
    topo_t *topo = plain_memory(RANKS_MOST);
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        for (uint32_t ranks = 1; ranks <= RANKS_MOST; ranks++) {
            plan_t *plan;
            lane_program_t *program;
            plan_request_t request = request_of(topo, collective, BLINK_ALGORITHM_AUTO, ranks);
            assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
            assert_int_equal(plan->algorithm, BLINK_ALGORITHM_ONE_HOP);
            assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
            assert_true(program->independent);
            assert_int_equal(program->edge_count, 0);
            assert_right(program);
            lane_program_destroy(program);
            plan_destroy(plan);
        }
    }
    topo_destroy(topo);
}

/* Elements of the payload that one chunk of every step reads and writes, counted in parts. */
static void count_operands(const lane_program_t *program, uint32_t *reads, uint32_t *writes)
{
    *reads = *writes = 0;
    for (uint32_t i = 0; i < program->step_count; i++) {
        *reads += program->steps[i].src_count;
        *writes += program->steps[i].dst_count;
    }
}

static void test_a_direct_exchange_reads_and_writes_every_element_once(void **state)
{
    (void)state;
    topo_t *topo = plain_memory(RANKS_MOST);
    static const struct {
        blink_collective_t collective;
        uint32_t reads, writes; /* per rank and part of the payload */
    } expected[] = {{BLINK_ALLREDUCE, RANKS_MOST, RANKS_MOST},
                    {BLINK_ALLGATHER, 1, RANKS_MOST},
                    {BLINK_REDUCESCATTER, RANKS_MOST, 1}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        plan_t *plan;
        lane_program_t *program;
        uint32_t reads, writes;
        plan_request_t request = request_of(topo, expected[i].collective, BLINK_ALGORITHM_AUTO, RANKS_MOST);
        assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
        assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
        count_operands(program, &reads, &writes);
        assert_int_equal(reads, expected[i].reads * program->part_count);
        assert_int_equal(writes, expected[i].writes * program->part_count);
        lane_program_destroy(program);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_a_size_does_not_change_the_choice_in_plain_memory(void **state)
{
    (void)state;
    topo_t *topo = plain_memory(4);
    static const uint64_t sizes[] = {1, 4096, 1u << 30};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        plan_t *plan;
        plan_request_t request = request_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_AUTO, 4);
        request.bytes = sizes[i];
        assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
        assert_int_equal(plan->algorithm, BLINK_ALGORITHM_ONE_HOP);
        assert_int_equal(plan->protocol, BLINK_PROTOCOL_SIMPLE);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* Of a chain of six the leaf sends and gets without slots; all edges of a star are leaves'. */
static void test_leaves_in_plain_memory_need_no_slots(void **state)
{
    (void)state;
    enum { RANKS = 6, WITHOUT_LEAF = RANKS - 2 };
    topo_t *topo = plain_memory(RANKS);
    lane_program_t *simple = hand_compile(topo, RANKS, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_SIMPLE);
    lane_program_t *flagged = hand_compile(topo, RANKS, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_LL);
    assert_int_equal(simple->edge_count, WITHOUT_LEAF);
    assert_int_equal(flagged->edge_count, 2 * WITHOUT_LEAF);
    assert_false(simple->independent);
    lane_program_destroy(simple);
    lane_program_destroy(flagged);
    topo_destroy(topo);
}

static void test_chains_and_stars_in_plain_memory_are_right(void **state)
{
    (void)state;
    topo_t *topo = plain_memory(RANKS_MOST);
    for (size_t i = 0; i < HAND_COLLECTIVES; i++)
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks += 2)
            for (int protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++)
                for (hand_shape_t shape = APART; shape <= TOGETHER; shape++) {
                    lane_program_t *program =
                        hand_compile(topo, ranks, hand_collectives[i], shape, (blink_protocol_t)protocol);
                    assert_right(program);
                    lane_program_destroy(program);
                }
    topo_destroy(topo);
}

/* Links of a machine are no shared memory: the same stars go through scratch there. */
static void test_one_hop_over_real_links_is_not_direct(void **state)
{
    (void)state;
    topo_t *topo;
    plan_t *plan;
    lane_program_t *program;
    assert_int_equal(topo_load("dgx2", &topo), BLINK_OK);
    plan_request_t request = request_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_ONE_HOP, RANKS_MOST);
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    assert_false(program->independent);
    assert_true(program->edge_count > 0);
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- flags in the data ---- */

static uint32_t count_scratch_destinations(const lane_program_t *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->operand_count; i++)
        count += program->operands[i].path != PLAN_NONE && program->operands[i].buffer != LANE_SCRATCH;
    return count;
}

static void prove_formats(const topo_t *topo, blink_algorithm_t algorithm)
{
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        plan_t *plan;
        plan_request_t request = request_of(topo, collective, algorithm, 6);
        if (plan_create(topo, &request, &plan) != BLINK_OK)
            continue;
        for (int protocol = BLINK_PROTOCOL_LL; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
            lane_program_t *program;
            plan->protocol = (blink_protocol_t)protocol;
            assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
            assert_int_equal(program->protocol, protocol);
            assert_int_equal(count_scratch_destinations(program), 0);
            assert_right(program);
            lane_program_destroy(program);
        }
        plan_destroy(plan);
    }
}

static void test_every_edge_with_flags_ends_in_scratch(void **state)
{
    (void)state;
    static const char *const names[] = {"dgx1v", "dgx1v_hybrid", "dgx2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *topo;
        assert_int_equal(topo_load(names[i], &topo), BLINK_OK);
        prove_formats(topo, BLINK_ALGORITHM_TREES);
        prove_formats(topo, BLINK_ALGORITHM_RING);
        prove_formats(topo, BLINK_ALGORITHM_BINOMIAL);
        prove_formats(topo, BLINK_ALGORITHM_ONE_HOP);
        topo_destroy(topo);
    }
}

static void test_slots_have_room_for_the_flags(void **state)
{
    (void)state;
    topo_t *topo;
    plan_t *plan;
    assert_int_equal(topo_load("dgx1v", &topo), BLINK_OK);
    plan_request_t request = request_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_BINOMIAL, 4);
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    for (int protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        lane_program_t *program;
        lane_geometry_t geometry;
        plan->protocol = (blink_protocol_t)protocol;
        assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
        assert_int_equal(lane_geometry_init(program, 100000, 4096, 2, &geometry), BLINK_OK);
        uint64_t least = lane_format_bytes(plan->protocol, geometry.channels[0].chunk_bytes);
        assert_true(geometry.channels[0].slot_bytes >= least);
        assert_int_equal(lane_scratch_offset(&geometry, 0, 0, 1) - lane_scratch_offset(&geometry, 0, 0, 0),
                         geometry.channels[0].slot_bytes);
        lane_geometry_fini(&geometry);
        lane_program_destroy(program);
    }
    assert_int_equal(lane_format_bytes(BLINK_PROTOCOL_LL, 5), 16);
    assert_int_equal(lane_format_bytes(BLINK_PROTOCOL_LL128, 121), 256);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_memory_gets_a_direct_exchange),
        cmocka_unit_test(test_a_direct_exchange_reads_and_writes_every_element_once),
        cmocka_unit_test(test_a_size_does_not_change_the_choice_in_plain_memory),
        cmocka_unit_test(test_leaves_in_plain_memory_need_no_slots),
        cmocka_unit_test(test_chains_and_stars_in_plain_memory_are_right),
        cmocka_unit_test(test_one_hop_over_real_links_is_not_direct),
        cmocka_unit_test(test_every_edge_with_flags_ends_in_scratch),
        cmocka_unit_test(test_slots_have_room_for_the_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
