/*
 * Programs of several hosts: every plan is proved right with its wire lanes, what the hosts keep of them fits
 * together, and single mutations are proved wrong.
 */
#include "collective.h"
#include "error.h"
#include "hand_hosts.h"
#include "hand_plan.h"
#include "mutants.h"
#include "names.h"
#include "plan/lane/lane.h"
#include "prove/verify.h"
#include "wire_programs.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* The ways to compile for several hosts. */
static const struct {
    bool lands_in_slots, scales_inputs, keeps_to_slots;
} ways[] = {{false, false, false}, {true, false, false}, {false, true, false},
            {true, true, false},   {false, false, true}, {true, false, true}};

enum { WAYS_TO_COMPILE = sizeof(ways) / sizeof(*ways) };

static lane_hosts_t hosts_of(const topo_t *topo, const plan_t *plan, size_t way,
                             uint32_t of_rank[PLAN_RANKS_MAX])
{
    hand_number_hosts(topo, plan, of_rank);
    return (lane_hosts_t){of_rank, ways[way].lands_in_slots, ways[way].scales_inputs,
                          ways[way].keeps_to_slots};
}

static lane_program_t *compile(const topo_t *topo, const plan_t *plan, size_t way)
{
    uint32_t of_rank[PLAN_RANKS_MAX];
    const lane_hosts_t hosts = hosts_of(topo, plan, way, of_rank);
    return whole_of(topo, plan, &hosts);
}

static bool copies_scaled_inputs(const lane_program_t *program, size_t way)
{
    return ways[way].scales_inputs && collective_reduces(program->collective);
}

/* What the prover cannot see, since it knows neither sizes nor operators. */
static void assert_wires(const lane_program_t *program, size_t way)
{
    for (uint32_t l = program->lane_count - program->wire_count; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_operand_t *src = &program->operands[program->steps[s].src_first];
            const lane_operand_t *dst = &program->operands[program->steps[s].dst_first];
            assert_false(src->buffer == LANE_INPUT && copies_scaled_inputs(program, way));
            assert_false(dst->buffer == LANE_OUTPUT && ways[way].lands_in_slots);
            assert_false(ways[way].keeps_to_slots && (src->buffer < LANE_SEND || dst->buffer < LANE_SEND));
        }
    }
    assert_int_equal(program->lands_in_slots, ways[way].lands_in_slots);
}

static void prove(const char *name, const topo_t *topo, plan_t *plan, uint32_t slots_most)
{
    for (size_t way = 0; way < WAYS_TO_COMPILE; way++) {
        lane_program_t *program = compile(topo, plan, way);
        assert_wires(program, way);
        for (uint32_t slots = 1; slots <= slots_most; slots++) {
            for (int in_place = 0; in_place <= has_in_place(plan->collective); in_place++) {
                lane_verify_options_t options = {2 * slots + 1, slots, in_place == 1};
                if (lane_verify(program, &options) != BLINK_OK)
                    fail_msg("%s, %s by %s, %s, way %zu, %u slots%s: %s", name,
                             blink_name_collective(plan->collective), blink_name_algorithm(plan->algorithm),
                             blink_name_protocol(plan->protocol), way, slots, in_place ? ", in place" : "",
                             blink_error_text());
            }
        }
        lane_program_destroy(program);
    }
}

/* Plan and prove in every format. Returns whether there is such a plan. */
static bool prove_plan(const char *name, const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm,
                       uint64_t bytes, uint32_t slots_most)
{
    plan_t *plan;
    plan_request_t request = {.collective = (blink_collective_t)collective,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .root = topo->gpu_count - 1,
                              .peer = 0,
                              .bytes = bytes,
                              .plan_seconds = 1};
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        return false;
    for (int protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL; protocol++) {
        plan->protocol = (blink_protocol_t)protocol;
        prove(name, topo, plan, slots_most);
    }
    plan_destroy(plan);
    return true;
}

/* ---- what is compiled is right ---- */

static const struct {
    const char *name;
    uint32_t devices[4], hosts;
} machines[] = {
    {"2x1", {1, 1}, 2}, {"2x4", {4, 4}, 2}, {"4x2", {2, 2, 2, 2}, 4}, {"hosts of 3, 1 and 2", {3, 1, 2}, 3}};

enum { MACHINES = sizeof(machines) / sizeof(*machines) };

static void test_hosts_of_plain_memory_are_right(void **state)
{
    (void)state;
    for (size_t m = 0; m < MACHINES; m++) {
        topo_t *topo = hand_hosts(machines[m].devices, machines[m].hosts);
        for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
            uint32_t plans = 0;
            for (size_t a = 0; a < ALGORITHMS; a++)
                plans += prove_plan(machines[m].name, topo, collective, algorithms[a], 0, 2);
            assert_true(plans > 0);
            assert_true(prove_plan(machines[m].name, topo, collective, BLINK_ALGORITHM_AUTO, 8, 2));
            assert_true(prove_plan(machines[m].name, topo, collective, BLINK_ALGORITHM_AUTO, 1 << 20, 2));
        }
        topo_destroy(topo);
    }
}

static void prove_machine(const char *name)
{
    topo_t *topo = NULL;
    assert_int_equal(topo_load(name, &topo), BLINK_OK);
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        uint32_t plans = 0;
        plans += prove_plan(name, topo, collective, BLINK_ALGORITHM_AUTO, 8, 1);
        plans += prove_plan(name, topo, collective, BLINK_ALGORITHM_RING, 0, 1);
        plans += prove_plan(name, topo, collective, BLINK_ALGORITHM_DOUBLE_BINARY_TREE, 0, 1);
        if (collective != BLINK_ALLTOALL || topo->gpu_count <= 16)
            plans += prove_plan(name, topo, collective, BLINK_ALGORITHM_TREES, 0, 1);
        assert_true(plans > 0);
    }
    topo_destroy(topo);
}

static void test_two_dgx1v_are_right(void **state)
{
    (void)state;
    prove_machine("2xdgx1v");
}

static void test_four_dgx_h100_are_right(void **state)
{
    (void)state;
    prove_machine("4xdgx_h100");
}

/* Chains that lead in and out of hosts, stars, and routes by way of ranks on other hosts. */
static void test_plans_made_by_hand_are_right(void **state)
{
    (void)state;
    for (size_t m = 0; m < MACHINES; m++) {
        topo_t *topo = hand_hosts(machines[m].devices, machines[m].hosts);
        for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
            for (hand_shape_t shape = APART; shape <= TOGETHER; shape++) {
                plan_t *plan = hand_plan(topo, topo->gpu_count, hand_collectives[i], shape);
                for (int protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
                    plan->protocol = (blink_protocol_t)protocol;
                    prove(machines[m].name, topo, plan, 2);
                }
                plan_destroy(plan);
            }
        }
        topo_destroy(topo);
    }
}

/* ---- what is sent from where ---- */

static plan_t *plan_of(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm)
{
    plan_t *plan = NULL;
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count};
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return plan;
}

/* The program that a plan is compiled to. Frees the plan and its topology. */
static lane_program_t *program_of(topo_t *topo, plan_t *plan, size_t way)
{
    lane_program_t *program = compile(topo, plan, way);
    plan_destroy(plan);
    topo_destroy(topo);
    return program;
}

/* An AllReduce by trees, with so many devices on each host. */
static lane_program_t *allreduce_over(const uint32_t *devices, uint32_t hosts)
{
    topo_t *topo = hand_hosts(devices, hosts);
    return program_of(topo, plan_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES), 0);
}

static uint32_t count_wire_sources(const lane_program_t *program, lane_buffer_t buffer)
{
    uint32_t count = 0;
    for (uint32_t l = program->lane_count - program->wire_count; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++)
            count += program->operands[program->steps[s].src_first].buffer == (uint32_t)buffer;
    }
    return count;
}

/* Leaves send their inputs and roots their outputs, and no processor writes anything for it. */
static void test_two_hosts_of_one_rank_copy_nothing_to_send(void **state)
{
    (void)state;
    lane_program_t *program = allreduce_over((uint32_t[]){1, 1}, 2);
    assert_int_equal(count_wire_sources(program, LANE_INPUT), program->channel_count);
    assert_int_equal(count_wire_sources(program, LANE_OUTPUT), program->channel_count);
    assert_int_equal(program->wire_count, 2 * program->channel_count);
    assert_int_equal(program->edge_count, 0);
    assert_int_equal(program->landing_count, 2);
    lane_program_destroy(program);
}

/* Of hosts of four only the one partial sum of each is written once more. */
static void test_partial_sums_alone_are_written_to_be_sent(void **state)
{
    (void)state;
    lane_program_t *program = allreduce_over((uint32_t[]){4, 4}, 2);
    assert_int_equal(count_wire_sources(program, LANE_INPUT), 0);
    assert_int_equal(count_wire_sources(program, LANE_SEND), program->channel_count);
    assert_int_equal(count_wire_sources(program, LANE_OUTPUT), program->channel_count);
    assert_int_equal(program->edge_count, program->channel_count);
    lane_program_destroy(program);
}

/* A rank that passes a broadcast on to two hosts: each wire hears of the arrival for itself. */
static void test_what_has_come_is_passed_on_without_a_processor(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){1, 1, 1}, 3);
    lane_program_t *program = program_of(topo, hand_plan(topo, 3, BLINK_BROADCAST, APART), 0);
    for (uint32_t l = 0; l < program->lane_count - program->wire_count; l++)
        assert_int_equal(program->lanes[l].rank, program->root);
    assert_int_equal(count_wire_sources(program, LANE_INPUT), 3);
    assert_int_equal(count_wire_sources(program, LANE_OUTPUT), 1);
    lane_program_destroy(program);
}

static void test_ranks_of_one_host_have_no_wires(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){4}, 1);
    lane_program_t *program = program_of(topo, plan_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_AUTO), 0);
    assert_true(program->independent);
    assert_int_equal(program->wire_count, 0);
    assert_int_equal(program->landing_count, 0);
    lane_program_destroy(program);
}

/* ---- what hosts keep ---- */

static lane_program_t *compile_for(const topo_t *topo, const plan_t *plan, size_t way, uint32_t host)
{
    uint32_t of_rank[PLAN_RANKS_MAX];
    const lane_hosts_t hosts = hosts_of(topo, plan, way, of_rank);
    lane_program_t *program = part_of(topo, plan, &hosts, host);
    assert_int_equal(program->host, host);
    return program;
}

static const lane_landing_t *find_landing(const lane_program_t *program, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < program->landing_count; i++)
        if (program->landings[i].from_host == from && program->landings[i].to_host == to)
            return &program->landings[i];
    return NULL;
}

static void assert_same_landing_step(const lane_geometry_t *sender, const lane_geometry_t *receiver,
                                     const lane_t *sent, const lane_t *received, uint32_t step)
{
    const lane_step_t *at_sender = &sender->program->steps[sent->step_first + step];
    const lane_step_t *at_receiver = &receiver->program->steps[received->step_first + step];
    const lane_operand_t *to = &sender->program->operands[at_sender->dst_first];
    const lane_operand_t *in = &receiver->program->operands[at_receiver->dst_first];
    assert_int_equal(at_sender->part, at_receiver->part);
    assert_int_equal(to->buffer, in->buffer);
    for (uint32_t chunk = 0; chunk < sender->channels[sent->channel].chunks; chunk++) {
        lane_span_t a = lane_span(sender, sent->channel, at_sender->part, chunk);
        lane_span_t b = lane_span(receiver, received->channel, at_receiver->part, chunk);
        assert_int_equal(a.offset_bytes, b.offset_bytes);
        assert_int_equal(a.bytes, b.bytes);
        if (to->buffer == LANE_LANDING)
            assert_int_equal(lane_landing_offset(sender, sent->channel, to->edge, chunk),
                             lane_landing_offset(receiver, received->channel, in->edge, chunk));
    }
}

/* Both ends count the flows and the bytes of a landing alike. */
static void assert_same_landing(const lane_geometry_t *sender, const lane_geometry_t *receiver, uint32_t from,
                                uint32_t to)
{
    const lane_program_t *a = sender->program, *b = receiver->program;
    const lane_landing_t *out = find_landing(a, from, to), *in = find_landing(b, from, to);
    assert_int_equal(!out, !in);
    if (!out)
        return;
    assert_int_equal(out->lane_count, in->lane_count);
    assert_int_equal(sender->landing_bytes[out - a->landings], receiver->landing_bytes[in - b->landings]);
    for (uint32_t i = 0; i < out->lane_count; i++) {
        const lane_t *sent = &a->lanes[out->lane_first + i], *received = &b->lanes[in->lane_first + i];
        assert_int_equal(sent->rank, received->rank);
        assert_int_equal(sent->to_rank, received->to_rank);
        assert_int_equal(sent->step_count, received->step_count);
        for (uint32_t step = 0; step < sent->step_count; step++)
            assert_same_landing_step(sender, receiver, sent, received, step);
    }
}

/* The lanes of processors, each on one host; the wire lanes, each on two. */
static void assert_parts_make_the_whole(const lane_program_t *whole, lane_program_t *const *parts,
                                        uint32_t hosts)
{
    uint32_t processors = 0, wires = 0, edges = 0, landings = 0;
    for (uint32_t host = 0; host < hosts; host++) {
        const lane_program_t *part = parts[host];
        processors += part->lane_count - part->wire_count;
        wires += part->wire_count;
        edges += part->edge_count;
        landings += part->landing_edge_count;
        for (uint32_t l = 0; l < part->lane_count; l++)
            assert_true(part->rank_host[part->lanes[l].rank] == host ||
                        part->rank_host[part->lanes[l].to_rank] == host);
    }
    assert_int_equal(processors, whole->lane_count - whole->wire_count);
    assert_int_equal(wires, 2 * whole->wire_count);
    assert_int_equal(edges, whole->edge_count);
    assert_int_equal(landings, 2 * whole->landing_edge_count);
}

static void check_parts(const topo_t *topo, const plan_t *plan, size_t way, uint64_t block_bytes)
{
    enum { HOSTS_MAX = 4 };
    uint32_t of_rank[PLAN_RANKS_MAX], hosts = 0;
    lane_program_t *parts[HOSTS_MAX] = {0}, *whole = compile(topo, plan, way);
    lane_geometry_t geometries[HOSTS_MAX];
    hand_number_hosts(topo, plan, of_rank);
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        hosts = of_rank[rank] >= hosts ? of_rank[rank] + 1 : hosts;
    for (uint32_t host = 0; host < hosts; host++) {
        parts[host] = compile_for(topo, plan, way, host);
        assert_int_equal(lane_geometry_init(parts[host], block_bytes, 0, 0, &geometries[host]), BLINK_OK);
        assert_int_equal(geometries[host].slots, geometries[0].slots);
    }
    assert_parts_make_the_whole(whole, parts, hosts);
    for (uint32_t from = 0; from < hosts; from++)
        for (uint32_t to = 0; to < hosts; to++)
            assert_same_landing(&geometries[from], &geometries[to], from, to);
    for (uint32_t host = 0; host < hosts; host++) {
        lane_geometry_fini(&geometries[host]);
        lane_program_destroy(parts[host]);
    }
    lane_program_destroy(whole);
}

static void test_what_hosts_keep_fits_together(void **state)
{
    (void)state;
    for (size_t m = 0; m < MACHINES; m++) {
        topo_t *topo = hand_hosts(machines[m].devices, machines[m].hosts);
        for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
            for (hand_shape_t shape = APART; shape <= TOGETHER; shape++) {
                plan_t *plan = hand_plan(topo, topo->gpu_count, hand_collectives[i], shape);
                plan->rate_GBps = 1;
                for (size_t way = 0; way < WAYS_TO_COMPILE; way++) {
                    check_parts(topo, plan, way, 100);
                    check_parts(topo, plan, way, 300001);
                }
                plan_destroy(plan);
            }
        }
        topo_destroy(topo);
    }
}

/* Slots of a landing do not overlap, and are whole lines. */
static void test_slots_of_a_landing_lie_apart(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){2, 2}, 2);
    lane_program_t *program = program_of(topo, hand_plan(topo, 4, BLINK_ALLTOALL, TOGETHER), 1);
    lane_geometry_t geometry;
    assert_int_equal(lane_geometry_init(program, 1000, 400, 3, &geometry), BLINK_OK);
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const lane_landing_t *landing = &program->landings[i];
        uint64_t end = 0;
        for (uint32_t e = landing->edge_first; e < landing->edge_first + landing->edge_count; e++) {
            for (uint32_t chunk = 0; chunk < geometry.channels[0].slots; chunk++) {
                assert_int_equal(lane_landing_offset(&geometry, 0, e, chunk), end);
                end += (geometry.channels[0].chunk_bytes + 127) / 128 * 128;
            }
        }
        assert_int_equal(geometry.landing_bytes[i], end);
    }
    lane_geometry_fini(&geometry);
    lane_program_destroy(program);
}

/* Whoever charges somebody for a geometry charges for what it has allocated, but for rounding. */
static void test_what_a_geometry_keeps_is_known(void **state)
{
    enum { ROUNDING_BYTES = 32, ALLOCATIONS = 3 };
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){4, 4}, 2);
    lane_program_t *program = program_of(topo, hand_plan(topo, 8, BLINK_ALLTOALL, TOGETHER), 1);
    lane_geometry_t geometry;
    assert_int_equal(lane_geometry_init(program, 1000, 0, 0, &geometry), BLINK_OK);
    uint64_t kept_bytes = malloc_usable_size(geometry.channels) +
                          malloc_usable_size(geometry.landing_offsets) +
                          malloc_usable_size(geometry.landing_bytes);
    assert_in_range(lane_geometry_bytes(program), kept_bytes - ALLOCATIONS * ROUNDING_BYTES, kept_bytes);
    lane_geometry_fini(&geometry);
    lane_program_destroy(program);
}

/* Every move has a slot of its own. */
static void test_small_payloads_are_one_chunk(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){2, 2}, 2);
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        plan_t *plan = hand_plan(topo, 4, hand_collectives[i], TOGETHER);
        lane_program_t *program = compile(topo, plan, 1);
        lane_geometry_t geometry;
        uint64_t block_bytes = LANE_LANDS_IN_SLOTS_BYTES / program->block_count;
        assert_int_equal(lane_geometry_init(program, block_bytes, 0, 0, &geometry), BLINK_OK);
        assert_int_equal(geometry.channels[0].chunks, 1);
        lane_geometry_fini(&geometry);
        lane_program_destroy(program);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* ---- what is mutated is wrong ---- */

static void mutate_plan(const topo_t *topo, plan_t *plan, uint32_t rounds)
{
    for (size_t way = 0; way < WAYS_TO_COMPILE; way++) {
        lane_program_t *program = compile(topo, plan, way);
        mutate(program, blink_name_collective(plan->collective), rounds);
        lane_program_destroy(program);
    }
    plan_destroy(plan);
}

static void test_every_mutation_of_wires_is_caught(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){3, 1, 2}, 3);
    for (size_t i = 0; i < HAND_COLLECTIVES; i++)
        for (hand_shape_t shape = APART; shape <= TOGETHER; shape++)
            mutate_plan(topo, hand_plan(topo, topo->gpu_count, hand_collectives[i], shape), 20);
    mutate_plan(topo, plan_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES), 40);
    topo_destroy(topo);
}

/* ---- what breaks a rule of hosts is named ---- */

static void assert_wrong(const lane_program_t *program, const char *expected)
{
    const lane_verify_options_t options = {3, 1, false};
    assert_int_equal(lane_verify(program, &options), BLINK_ERR_INTERNAL);
    if (!strstr(blink_error_text(), expected))
        fail_msg("expected \"%s\", got \"%s\"", expected, blink_error_text());
}

/* An AllReduce over two hosts of two, as in docs/architecture.md: rank 2 sends up to rank 0, which sends
 * down. Lanes 0 to 2 are processors', 3 is the wire down, 4 the wire up. */
static lane_program_t *two_by_two(void)
{
    lane_program_t *program = allreduce_over((uint32_t[]){2, 2}, 2);
    assert_int_equal(program->lane_count, 5);
    assert_int_equal(program->wire_count, 2);
    return program;
}

static lane_step_t *first_step(const lane_program_t *program, uint32_t lane)
{
    return &program->steps[program->lanes[lane].step_first];
}

static void test_a_processor_that_reaches_another_host_is_caught(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){2, 2}, 2);
    plan_t *plan = plan_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    lane_program_t *program = NULL;
    uint32_t of_rank[] = {0, 0, 1, 1};
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    program->rank_host = of_rank;
    assert_wrong(program, "writes to rank 2 on another host");
    of_rank[2] = 0;
    assert_wrong(program, "on another host");
    program->rank_host = NULL;
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_slots_of_a_wrong_kind_are_caught(void **state)
{
    (void)state;
    lane_program_t *program = two_by_two();
    lane_operand_t *sent = &program->operands[first_step(program, 4)->src_first];
    assert_int_equal(sent->buffer, LANE_SEND);
    sent->buffer = LANE_SCRATCH;
    assert_wrong(program, "of a wire reads scratch edge 0, which may have flags");
    sent->buffer = LANE_LANDING;
    assert_wrong(program, "reads scratch edge 0, which lies at rank 0");
    lane_program_destroy(program);
    program = two_by_two();
    program->operands[first_step(program, 4)->dst_first].buffer = LANE_SEND;
    assert_wrong(program, "of a wire writes scratch edge 0");
    lane_program_destroy(program);
}

static void test_wire_lanes_out_of_their_order_are_caught(void **state)
{
    (void)state;
    lane_program_t *program = two_by_two();
    lane_t down = program->lanes[3];
    program->lanes[3] = program->lanes[4];
    program->lanes[4] = down;
    assert_wrong(program, "lane 4: a wire out of its order");
    program->lanes[4] = program->lanes[3];
    program->lanes[3] = down;
    program->landings[0].lane_count = 2;
    assert_wrong(program, "landing 0 has lane 4 of other hosts");
    program->landings[0].lane_count = 1;
    program->lanes[4].to_rank = 3;
    assert_wrong(program, "lane 4: a wire from rank 2 to rank 3 joins no two hosts");
    lane_program_destroy(program);
}

static void test_a_wire_to_another_rank_than_it_says_is_caught(void **state)
{
    (void)state;
    lane_program_t *program = two_by_two();
    program->lanes[4].to_rank = 1;
    assert_wrong(program, "of a wire to rank 1 writes to rank 0");
    lane_program_destroy(program);
}

/* Without hearing that the slot is free a wire may not send again, though it is in its own order. */
static void test_a_wire_without_credit_is_caught(void **state)
{
    (void)state;
    lane_program_t *program = two_by_two();
    lane_step_t *up = first_step(program, 4);
    uint32_t credit = 0;
    while (program->waits[up->wait_first + credit].kind != LANE_FREE)
        credit++;
    program->waits[up->wait_first + credit] = program->waits[up->wait_first + --up->wait_count];
    assert_wrong(program, "overwrites landing edge 0 slot 0");
    lane_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_of_plain_memory_are_right),
        cmocka_unit_test(test_plans_made_by_hand_are_right),
        cmocka_unit_test(test_two_hosts_of_one_rank_copy_nothing_to_send),
        cmocka_unit_test(test_partial_sums_alone_are_written_to_be_sent),
        cmocka_unit_test(test_what_has_come_is_passed_on_without_a_processor),
        cmocka_unit_test(test_ranks_of_one_host_have_no_wires),
        cmocka_unit_test(test_what_hosts_keep_fits_together),
        cmocka_unit_test(test_slots_of_a_landing_lie_apart),
        cmocka_unit_test(test_what_a_geometry_keeps_is_known),
        cmocka_unit_test(test_small_payloads_are_one_chunk),
        cmocka_unit_test(test_a_processor_that_reaches_another_host_is_caught),
        cmocka_unit_test(test_slots_of_a_wrong_kind_are_caught),
        cmocka_unit_test(test_wire_lanes_out_of_their_order_are_caught),
        cmocka_unit_test(test_a_wire_to_another_rank_than_it_says_is_caught),
        cmocka_unit_test(test_a_wire_without_credit_is_caught),
        cmocka_unit_test(test_every_mutation_of_wires_is_caught),
        cmocka_unit_test(test_two_dgx1v_are_right),
        cmocka_unit_test(test_four_dgx_h100_are_right),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}
