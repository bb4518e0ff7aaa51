/*
 * Plans as bytes: who reads one compiles the same program as who wrote it, and whatever the bytes are, what
 * is read of them is a plan that can be compiled.
 */
#include "collective.h"
#include "hand_hosts.h"
#include "hand_plan.h"
#include "names.h"
#include "plan/bytes/bytes.h"
#include "plan/bytes/layout.h"
#include "plan/lane/lane.h"
#include "plan_checks.h"

enum { COLLECTIVES = BLINK_SENDRECV + 1 };

static const blink_algorithm_t algorithms[] = {
    BLINK_ALGORITHM_TREES,    BLINK_ALGORITHM_SHALLOW_TREES,      BLINK_ALGORITHM_RING,
    BLINK_ALGORITHM_ONE_HOP,  BLINK_ALGORITHM_DOUBLE_BINARY_TREE, BLINK_ALGORITHM_BLINK,
    BLINK_ALGORITHM_BINOMIAL, BLINK_ALGORITHM_RECURSIVE_DOUBLING};

enum { ALGORITHMS = sizeof(algorithms) / sizeof(*algorithms) };

static plan_request_t request_on(const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm)
{
    return (plan_request_t){.collective = (blink_collective_t)collective,
                            .algorithm = algorithm,
                            .rank_node = topo->gpus,
                            .rank_count = topo->gpu_count,
                            .root = topo->gpu_count - 1,
                            .peer = 0,
                            .plan_seconds = 1};
}

static uint64_t digest_of(const topo_t *topo, const plan_t *plan)
{
    uint32_t of_rank[PLAN_RANKS_MAX];
    lane_program_t *program = NULL;
    const lane_hosts_t hosts = {.of_rank = of_rank};
    hand_number_hosts(topo, plan, of_rank);
    if (lane_compile(topo, plan, &hosts, &program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    uint64_t digest = program->digest;
    lane_program_destroy(program);
    return digest;
}

typedef struct bytes {
    uint8_t *at;
    size_t count;
} bytes_t;

static bytes_t write_plan(const topo_t *topo, const plan_t *plan)
{
    bytes_t bytes = {0};
    if (plan_to_bytes(topo, plan, &bytes.at, &bytes.count) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return bytes;
}

/* Written and read again, the plan is the same. Frees the plan. */
static void assert_same_when_read(const topo_t *topo, const plan_request_t *request, plan_t *plan)
{
    plan_t *read = NULL;
    bytes_t bytes = write_plan(topo, plan);
    if (plan_from_bytes(topo, request, bytes.at, bytes.count, &read) != BLINK_OK)
        fail_msg("%s, %s by %s: %s", topo->name, blink_name_collective(plan->collective),
                 blink_name_algorithm(plan->algorithm), blink_error_text());
    assert_true(digest_of(topo, read) == digest_of(topo, plan));
    assert_int_equal(read->algorithm, plan->algorithm);
    assert_true(read->bound_GBps == plan->bound_GBps);
    assert_true(read->block_GBps == plan->block_GBps);
    free(bytes.at);
    plan_destroy(read);
    plan_destroy(plan);
}

/* Returns whether there is such a plan. */
static bool ship(const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm)
{
    plan_t *plan = NULL;
    plan_request_t request = request_on(topo, collective, algorithm);
    request.block_GBps = 38.7;
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        return false;
    plan->protocol = (blink_protocol_t)(collective % 3);
    assert_same_when_read(topo, &request, plan);
    return true;
}

static void ship_all(const topo_t *topo)
{
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        uint32_t plans = 0;
        for (size_t a = 0; a < ALGORITHMS; a++)
            if (collective != BLINK_ALLTOALL || algorithms[a] != BLINK_ALGORITHM_TREES ||
                topo->gpu_count <= 16)
                plans += ship(topo, collective, algorithms[a]);
        assert_true(plans > 0);
    }
}

/* ---- what is written is what is read ---- */

static void test_plans_of_plain_memory_hosts_are_the_same_when_read(void **state)
{
    static const struct {
        uint32_t devices[4], hosts;
    } machines[] = {{{1, 1}, 2}, {{4, 4}, 2}, {{2, 2, 2, 2}, 4}, {{3, 1, 2}, 3}};
    (void)state;
    for (size_t m = 0; m < sizeof(machines) / sizeof(*machines); m++) {
        topo_t *topo = hand_hosts(machines[m].devices, machines[m].hosts);
        ship_all(topo);
        topo_destroy(topo);
    }
}

static void test_plans_of_machines_are_the_same_when_read(void **state)
{
    static const char *const machines[] = {"dgx1v", "2xdgx1v", "2xdgx1v_hybrid@5", "dgx2", "4xdgx_h100"};
    (void)state;
    for (size_t m = 0; m < sizeof(machines) / sizeof(*machines); m++) {
        topo_t *topo = load(machines[m]);
        ship_all(topo);
        topo_destroy(topo);
    }
}

/* Templates are written as such, and read as what they stand for. */
static void test_templates_are_small_and_the_same_when_read(void **state)
{
    (void)state;
    topo_t *topo = load("8xdgx1v");
    plan_request_t request = request_on(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    plan_t *plan = NULL, *expanded = NULL;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    assert_true(plan->symmetry_count > 0);
    assert_int_equal(plan_expand(topo, plan, &expanded), BLINK_OK);
    bytes_t small = write_plan(topo, plan), large = write_plan(topo, expanded);
    assert_true(2 * small.count < large.count);
    free(small.at);
    free(large.at);
    plan_destroy(expanded);
    assert_same_when_read(topo, &request, plan);
    topo_destroy(topo);
}

/* A block for each pair of ranks, and one way of four parallel switches for each, are as many parts as there
 * may be. */
static void test_an_alltoall_of_all_ranks_there_may_be_is_shipped(void **state)
{
    (void)state;
    topo_t *topo = NULL;
    plan_t *plan = NULL, *read = NULL;
    assert_int_equal(topo_load("128xdgx_h100", &topo), BLINK_OK);
    plan_request_t request = request_on(topo, BLINK_ALLTOALL, BLINK_ALGORITHM_TREES);
    assert_int_equal(request.rank_count, PLAN_RANKS_MAX);
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    assert_int_equal(plan_edge_count(plan), PLAN_RANKS_MAX * (PLAN_RANKS_MAX - 1));
    assert_true(plan->rate_GBps >= 0.999 * plan->bound_GBps);
    bytes_t bytes = write_plan(topo, plan);
    if (plan_from_bytes(topo, &request, bytes.at, bytes.count, &read) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    free(bytes.at);
    plan_destroy(read);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_a_transfer_to_oneself(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){2, 1}, 2);
    plan_request_t request = request_on(topo, BLINK_SENDRECV, BLINK_ALGORITHM_AUTO);
    plan_t *plan = NULL;
    request.peer = request.root;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    assert_same_when_read(topo, &request, plan);
    topo_destroy(topo);
}

/* ---- what is not sound is refused ---- */

typedef struct fixture {
    topo_t *topo;
    plan_request_t request;
    plan_t *plan;
} fixture_t;

static fixture_t make_fixture(uint32_t collective, hand_shape_t shape)
{
    fixture_t fixture = {.topo = hand_hosts((uint32_t[]){2, 1, 1}, 3)};
    fixture.request = request_on(fixture.topo, collective, BLINK_ALGORITHM_AUTO);
    fixture.plan = hand_plan(fixture.topo, fixture.topo->gpu_count, (blink_collective_t)collective, shape);
    fixture.request.root = fixture.plan->root;
    fixture.request.peer = fixture.plan->peer;
    fixture.plan->algorithm = BLINK_ALGORITHM_TREES;
    return fixture;
}

static void free_fixture(fixture_t *fixture)
{
    plan_destroy(fixture->plan);
    topo_destroy(fixture->topo);
}

/* The plan, after it has been tampered with, is refused with these words. */
static void assert_refused(const fixture_t *fixture, const char *words)
{
    plan_t *read = NULL;
    bytes_t bytes = write_plan(fixture->topo, fixture->plan);
    blink_result_t result = plan_from_bytes(fixture->topo, &fixture->request, bytes.at, bytes.count, &read);
    free(bytes.at);
    if (result != BLINK_ERR_PROTOCOL || !strstr(blink_error_text(), words))
        fail_msg("%d: \"%s\", not \"%s\"", result, blink_error_text(), words);
}

static void test_plans_for_something_else_are_refused(void **state)
{
    (void)state;
    fixture_t fixture = make_fixture(BLINK_BROADCAST, APART);
    fixture.request.collective = BLINK_REDUCE;
    assert_refused(&fixture, "instead of reduce");
    fixture.request.collective = BLINK_BROADCAST;
    fixture.request.root = (fixture.request.root + 1) % 4;
    assert_refused(&fixture, "instead of broadcast");
    fixture.request.root = fixture.plan->root;
    fixture.request.algorithm = BLINK_ALGORITHM_RING;
    assert_refused(&fixture, "a plan by algorithm");
    fixture.request.algorithm = BLINK_ALGORITHM_AUTO;
    fixture.plan->protocol = (blink_protocol_t)77;
    assert_refused(&fixture, "protocol 77");
    fixture.plan->protocol = BLINK_PROTOCOL_SIMPLE;
    fixture.topo->node_count--;
    bytes_t bytes = write_plan(fixture.topo, fixture.plan);
    fixture.topo->node_count++;
    plan_t *read;
    assert_int_equal(plan_from_bytes(fixture.topo, &fixture.request, bytes.at, bytes.count, &read),
                     BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "a plan on a topology"));
    free(bytes.at);
    free_fixture(&fixture);
}

static void test_another_version_is_named(void **state)
{
    (void)state;
    plan_t *read;
    fixture_t fixture = make_fixture(BLINK_ALLREDUCE, APART);
    bytes_t bytes = write_plan(fixture.topo, fixture.plan);
    bytes.at[offsetof(plan_bytes_head_t, version)]++;
    assert_int_equal(plan_from_bytes(fixture.topo, &fixture.request, bytes.at, bytes.count, &read),
                     BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "version 3"));
    free(bytes.at);
    free_fixture(&fixture);
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    const double rates[] = {NAN, INFINITY, -1, 1e300}, shares[] = {NAN, INFINITY, -1, 0, 2, 1e-320};
    fixture_t fixture = make_fixture(BLINK_ALLREDUCE, APART);
    double share = fixture.plan->channels[0].share;
    for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
        fixture.plan->rate_GBps = rates[i];
        assert_refused(&fixture, "GB/s");
        fixture.plan->rate_GBps = 1;
        fixture.plan->block_GBps = rates[i];
        assert_refused(&fixture, "with blocks of");
        fixture.plan->block_GBps = 0;
    }
    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
        fixture.plan->channels[0].share = shares[i];
        assert_refused(&fixture, "share");
    }
    fixture.plan->channels[0].share = share / 2;
    assert_refused(&fixture, "shares that add up to");
    free_fixture(&fixture);
}

static void test_trees_that_are_none_are_refused(void **state)
{
    (void)state;
    fixture_t fixture = make_fixture(BLINK_ALLREDUCE, APART);
    plan_part_t *part = &fixture.plan->channels[0].parts[0];
    uint32_t *parent = part->reduce.parent, *path = part->reduce.path;
    uint32_t leaf = part->root == 0 ? 1 : 0, was = parent[leaf], path_was = path[leaf];
    parent[leaf] = PLAN_NONE;
    assert_refused(&fixture, "has no parent");
    parent[leaf] = leaf;
    assert_refused(&fixture, "which joins others");
    parent[leaf] = was;
    path[leaf] = fixture.plan->path_count;
    assert_refused(&fixture, "an edge by path");
    path[leaf] = path_was;
    part->root = leaf;
    assert_refused(&fixture, "a tree with root");
    free_fixture(&fixture);
}

/* Two ranks that are each other's parents, over paths that do join them. */
static void test_circles_are_refused(void **state)
{
    (void)state;
    fixture_t fixture = make_fixture(BLINK_REDUCE, TOGETHER);
    plan_part_t *part = &fixture.plan->channels[0].parts[0];
    uint32_t a = 0, b;
    while (a == part->root)
        a++;
    for (b = 0; b == a || b == part->root;)
        b++;
    part->reduce.parent[a] = b;
    part->reduce.parent[b] = a;
    assert_int_equal(plan_shortest_path(fixture.topo, fixture.plan, a, b, 0, &part->reduce.path[a]),
                     BLINK_OK);
    assert_int_equal(plan_shortest_path(fixture.topo, fixture.plan, b, a, 0, &part->reduce.path[b]),
                     BLINK_OK);
    assert_refused(&fixture, "below itself");
    free_fixture(&fixture);
}

static void test_routes_to_somewhere_else_are_refused(void **state)
{
    (void)state;
    fixture_t fixture = make_fixture(BLINK_SENDRECV, APART);
    plan_route_t *route = &fixture.plan->channels[0].parts[0].route;
    uint32_t last = route->ranks[route->hop_count];
    route->ranks[route->hop_count] = route->ranks[0];
    assert_refused(&fixture, "a route from rank");
    route->ranks[route->hop_count] = last;
    route->paths[0] = fixture.plan->path_count;
    assert_refused(&fixture, "an edge by path");
    free_fixture(&fixture);
}

static void test_paths_with_gaps_are_refused(void **state)
{
    (void)state;
    fixture_t fixture = make_fixture(BLINK_ALLREDUCE, APART);
    plan_path_t *path = &fixture.plan->paths[0];
    uint32_t links = path->link_count, was = path->links[links - 1];
    path->links[links - 1] = fixture.topo->link_count;
    assert_refused(&fixture, "a path by link");
    path->links[links - 1] = path->links[0];
    assert_refused(&fixture, "does not go on");
    path->links[links - 1] = was;
    free_fixture(&fixture);
}

static void test_images_without_end_are_refused(void **state)
{
    (void)state;
    plan_t *read;
    topo_t *topo = load("4xdgx1v");
    plan_request_t request = request_on(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    plan_t *plan = NULL;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    plan_symmetry_t *symmetry = &plan->symmetries[0];
    const uint32_t orders[] = {0, topo->gpu_count + 1, UINT32_MAX};
    bytes_t bytes = write_plan(topo, plan);
    uint8_t *order = bytes.at + sizeof(plan_bytes_head_t);
    for (uint32_t i = 0; i < plan->path_count; i++)
        order += sizeof(uint32_t) * (plan->paths[i].link_count + 1);
    assert_memory_equal(order, &symmetry->order, sizeof(symmetry->order));
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        memcpy(order, &orders[i], sizeof(orders[i]));
        assert_int_equal(plan_from_bytes(topo, &request, bytes.at, bytes.count, &read), BLINK_ERR_PROTOCOL);
        assert_non_null(strstr(blink_error_text(), "a symmetry of order"));
    }
    free(bytes.at);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- any bytes at all ---- */

/* What is read can be compiled, or says why not. */
static void try(const topo_t *topo, const plan_request_t *request, const uint8_t *bytes, size_t count)
{
    plan_t *plan = NULL;
    if (plan_from_bytes(topo, request, bytes, count, &plan) != BLINK_OK)
        return;
    uint32_t of_rank[PLAN_RANKS_MAX];
    lane_program_t *program = NULL;
    const lane_hosts_t hosts = {.of_rank = of_rank};
    hand_number_hosts(topo, plan, of_rank);
    if (lane_compile(topo, plan, &hosts, &program) == BLINK_OK) {
        lane_geometry_t geometry;
        assert_int_equal(lane_geometry_init(program, 100000, 0, 0, &geometry), BLINK_OK);
        lane_geometry_fini(&geometry);
    }
    lane_program_destroy(program);
    plan_destroy(plan);
}

static void try_other_values(const topo_t *topo, const plan_request_t *request, bytes_t bytes, size_t at,
                             dice_t *dice)
{
    uint8_t was = bytes.at[at];
    const uint8_t others[] = {(uint8_t)(was + 1),      (uint8_t)(was - 1), (uint8_t)(was ^ 0x80), 0xff, 0,
                              (uint8_t)roll(dice, 256)};
    for (size_t i = 0; i < sizeof(others); i++) {
        bytes.at[at] = others[i];
        try(topo, request, bytes.at, bytes.count);
    }
    bytes.at[at] = was;
}

static void assert_too_short(const topo_t *topo, const plan_request_t *request, bytes_t bytes, size_t count)
{
    plan_t *read;
    uint8_t *cut = malloc(count ? count : 1); /* so that a sanitizer knows where it ends */
    assert_non_null(cut);
    memcpy(cut, bytes.at, count);
    assert_int_equal(plan_from_bytes(topo, request, cut, count, &read), BLINK_ERR_PROTOCOL);
    free(cut);
}

/* Every `step`-th byte has other values, and is the last one. */
static void try_mutations(const topo_t *topo, const plan_request_t *request, const plan_t *plan, size_t step)
{
    dice_t dice = {1};
    bytes_t bytes = write_plan(topo, plan);
    for (size_t at = 0; at < bytes.count; at += step) {
        try_other_values(topo, request, bytes, at, &dice);
        assert_too_short(topo, request, bytes, at);
    }
    free(bytes.at);
}

static void test_no_byte_does_harm(void **state)
{
    (void)state;
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        topo_t *topo = hand_hosts((uint32_t[]){2, 1}, 2);
        plan_request_t request = request_on(topo, collective, BLINK_ALGORITHM_AUTO);
        plan_t *plan = NULL;
        assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
        try_mutations(topo, &request, plan, 1);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

static void test_no_byte_of_a_template_does_harm(void **state)
{
    (void)state;
    topo_t *topo = load("4xdgx1v");
    plan_request_t request = request_on(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    plan_t *plan = NULL;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    assert_true(plan->symmetry_count > 0);
    try_mutations(topo, &request, plan, 7);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_of_plain_memory_hosts_are_the_same_when_read),
        cmocka_unit_test(test_plans_of_machines_are_the_same_when_read),
        cmocka_unit_test(test_templates_are_small_and_the_same_when_read),
        cmocka_unit_test(test_an_alltoall_of_all_ranks_there_may_be_is_shipped),
        cmocka_unit_test(test_a_transfer_to_oneself),
        cmocka_unit_test(test_plans_for_something_else_are_refused),
        cmocka_unit_test(test_another_version_is_named),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
        cmocka_unit_test(test_trees_that_are_none_are_refused),
        cmocka_unit_test(test_circles_are_refused),
        cmocka_unit_test(test_routes_to_somewhere_else_are_refused),
        cmocka_unit_test(test_paths_with_gaps_are_refused),
        cmocka_unit_test(test_images_without_end_are_refused),
        cmocka_unit_test(test_no_byte_does_harm),
        cmocka_unit_test(test_no_byte_of_a_template_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
