/*
 * Devices that are no peers: what joins two of them comes by a CPU, all other edges are as ever, and no lane
 * touches an input or output of a device that it does not reach.
 */
#include "exec/cuda/reach.h"
#include "plan/bytes/bytes.h"
#include "plan/lane/lane.h"
#include "plan/show/ways.h"
#include "plan_checks.h"
#include "prove/verify.h"
#include "topo/network.h"

enum { COLLECTIVES = BLINK_SENDRECV + 1, GPUS = 8, ALL = 0xff };

/* A DGX-1V's NVLinks join two groups of four, and a pair across for each. */
static const uint32_t mesh[GPUS] = {0x1f, 0x2f, 0x4f, 0x8f, 0xf1, 0xf2, 0xf4, 0xf8};

static topo_t *load_apart(const char *what, const uint32_t peers[GPUS])
{
    topo_t *topo = load(what);
    topo_pair_t pairs[GPUS * GPUS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < GPUS; i++)
        for (uint32_t j = 0; j < i; j++)
            if (!(peers[i] >> j & 1))
                pairs[count++] = (topo_pair_t){topo->gpus[i], topo->gpus[j]};
    assert_int_equal(topo_add_non_peers(topo, pairs, count), BLINK_OK);
    assert_int_equal(topo->non_peer_count, count);
    return topo;
}

/* Whether the path leads over NVLink only. */
static bool is_nvlink(const topo_t *topo, const plan_path_t *path)
{
    return path->link_count == 1 && topo->links[path->links[0]].kind == TOPO_NVLINK;
}

/* Returns how many of the plan's paths are NVLinks. */
static uint32_t check_paths(const topo_t *topo, const plan_t *plan)
{
    uint32_t nvlinks = 0;
    for (uint32_t i = 0; i < plan->path_count; i++) {
        const plan_path_t *path = &plan->paths[i];
        const topo_link_t *first = &topo->links[path->links[0]];
        const topo_link_t *last = &topo->links[path->links[path->link_count - 1]];
        bool by_cpu = false;
        for (uint32_t j = 0; j + 1 < path->link_count; j++)
            by_cpu |= topo->nodes[topo->links[path->links[j]].to].kind == TOPO_CPU;
        assert_true(by_cpu || topo_are_peers(topo, first->from, last->to));
        nvlinks += is_nvlink(topo, path);
    }
    return nvlinks;
}

/* The programs that the plan is compiled to are right, and keep to what their GPUs reach: an edge's slots are
 * on the host just where its ends are no peers. */
static void check_programs(const topo_t *topo, plan_t *plan, const uint32_t peers[GPUS])
{
    gpu_facts_t gpus[GPUS] = {0};
    uint32_t rank_gpu[GPUS];
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        gpus[gpu].peers = peers[gpu];
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        for (uint32_t gpu = 0; gpu < GPUS; gpu++)
            if (topo->gpus[gpu] == plan->rank_node[rank])
                rank_gpu[rank] = gpu;
    for (blink_protocol_t protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        lane_program_t *program = NULL;
        cuda_reach_t reach;
        const lane_verify_options_t options = {.chunks = 3, .slots = 1};
        plan->protocol = protocol;
        assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
        if (lane_verify(program, &options) != BLINK_OK ||
            cuda_reach_init(program, gpus, rank_gpu, &reach) != BLINK_OK)
            fail_msg("%s by %s: %s", blink_name_collective(plan->collective),
                     blink_name_algorithm(plan->algorithm), blink_error_text());
        assert_int_equal(reach.by_host, plan_meets_in_host(topo, plan) && program->edge_count > 0);
        cuda_reach_fini(&reach);
        lane_program_destroy(program);
    }
}

/* Every collective by every algorithm that does it; returns how many plans there were. */
static uint32_t check_all(const topo_t *topo, uint32_t mask, const uint32_t peers[GPUS],
                          uint32_t least_nvlinks)
{
    static const blink_algorithm_t algorithms[] = {
        BLINK_ALGORITHM_TREES,    BLINK_ALGORITHM_SHALLOW_TREES,      BLINK_ALGORITHM_ONE_HOP,
        BLINK_ALGORITHM_BINOMIAL, BLINK_ALGORITHM_RECURSIVE_DOUBLING, BLINK_ALGORITHM_RING,
        BLINK_ALGORITHM_BLINK,    BLINK_ALGORITHM_DOUBLE_BINARY_TREE};
    uint32_t nodes[RANKS_MAX], plans = 0;
    plan_request_t request = {.rank_node = nodes, .rank_count = choose(topo, mask, nodes), .peer = 1};
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
            plan_t *plan = NULL;
            request.collective = (blink_collective_t)collective;
            request.algorithm = algorithms[i];
            blink_result_t result = plan_create(topo, &request, &plan);
            if (result != BLINK_OK) {
                assert_true(result == BLINK_ERR_UNSUPPORTED || result == BLINK_ERR_UNREACHABLE);
                assert_true(i > 0 ||
                            collective_routes(request.collective)); /* packed trees are always there */
                continue;
            }
            check_plan(topo, plan);
            uint32_t nvlinks = check_paths(topo, plan);
            assert_true(algorithms[i] != BLINK_ALGORITHM_TREES || nvlinks >= least_nvlinks);
            check_programs(topo, plan, peers);
            plan_destroy(plan);
            plans++;
        }
    }
    return plans;
}

static void test_a_cube_mesh_is_planned_over_its_nvlinks(void **state)
{
    (void)state;
    topo_t *topo = load_apart("dgx1v", mesh);
    assert_true(check_all(topo, ALL, mesh, 1) > COLLECTIVES);
    assert_true(check_all(topo, 0x72, mesh, 1) > COLLECTIVES); /* 1, 4, 5, 6 */
    assert_trees_near_bound(topo, BLINK_ALLREDUCE, ALL);
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0x72);
    assert_false(plan_meets_in_host(topo, plan));
    assert_close(plan->rate_GBps, 50.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Beside NVLink there is PCIe, which joins peers and others alike. */
static void test_ways_between_no_peers_come_by_a_cpu(void **state)
{
    (void)state;
    topo_t *topo = load_apart("dgx1v_hybrid", mesh);
    char *text = NULL;
    assert_true(check_all(topo, ALL, mesh, 1) > COLLECTIVES);
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0x72);
    assert_true(plan_meets_in_host(topo, plan));
    assert_int_equal(plan_ways_describe(topo, plan, &text), BLINK_OK);
    assert_non_null(strstr(text, "ways over NVLink: "));
    assert_non_null(strstr(text, "ways over other links: "));
    const char *by_host = strstr(text, "ways through memory of the host: ");
    assert_non_null(by_host);
    assert_non_null(strstr(by_host, "gpu1>gpu4"));
    assert_null(strstr(by_host, "gpu1>gpu5"));
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Two GPUs on one PCIe switch: the way to the host's memory crosses the switch twice. */
static void test_one_pair_of_a_pcie_switch(void **state)
{
    (void)state;
    uint32_t peers[GPUS];
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        peers[gpu] = gpu < 2 ? ALL & ~(2u >> gpu) : ALL;
    topo_t *topo = load_apart("pcie8", peers);
    assert_int_equal(topo->non_peer_count, 1);
    assert_true(check_all(topo, ALL, peers, 0) > COLLECTIVES);
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0x3);
    assert_true(plan->path_count > 0);
    for (uint32_t i = 0; i < plan->path_count; i++)
        assert_int_equal(plan->paths[i].link_count, 4); /* gpu, plx0, cpu0, plx0, gpu */
    check_programs(topo, plan, peers);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* The way to the host's memory and back is longer than there are nodes. Other hosts take such a plan, too. */
static void test_ways_to_the_host_and_back_are_shipped(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema\":\"blink-topology/1\",\"nodes\":[" GPU("g0") "," GPU("g1") "," SWITCH("s0") "," SWITCH(
            "s1") ","
                  "{\"id\":\"cpu\",\"kind\":\"cpu\"}],\"links\":[" LINK("g0", "s0", "10") "," LINK(
                      "g1", "s0", "10") "," LINK("s0", "s1",
                                                 "10") "," LINK("s1", "cpu",
                                                                "10") "],\"non_peers\":[[\"g0\",\"g1\"]]}";
    topo_t *topo = NULL;
    assert_int_equal(topo_parse_json(text, sizeof(text) - 1, "test", &topo), BLINK_OK);
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_ONE_HOP, 0x3), *shipped = NULL;
    const plan_request_t request = {.collective = BLINK_ALLREDUCE,
                                    .algorithm = BLINK_ALGORITHM_ONE_HOP,
                                    .rank_node = topo->gpus,
                                    .rank_count = 2};
    uint8_t *bytes = NULL;
    size_t byte_count = 0;
    assert_int_equal(plan->paths[0].link_count, 6);
    assert_int_equal(plan_to_bytes(topo, plan, &bytes, &byte_count), BLINK_OK);
    if (plan_from_bytes(topo, &request, bytes, byte_count, &shipped) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    free(bytes);
    plan_destroy(shipped);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* The CPU that is next to one of the two is far from the other. */
static void test_the_way_by_the_nearest_cpu_may_be_the_longer(void **state)
{
    (void)state;
    static const topo_node_t nodes[] = {{.id = "g0", .kind = TOPO_DEVICE}, {.id = "g1", .kind = TOPO_DEVICE},
                                        {.id = "near", .kind = TOPO_CPU},  {.id = "far", .kind = TOPO_CPU},
                                        {.id = "s0", .kind = TOPO_SWITCH}, {.id = "s1", .kind = TOPO_SWITCH},
                                        {.id = "s2", .kind = TOPO_SWITCH}};
    static const char *const links[][2] = {{"g0", "near"}, {"near", "s0"}, {"s0", "s1"}, {"s1", "g1"},
                                           {"g0", "s2"},   {"s2", "far"},  {"far", "g1"}};
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    assert_int_equal(topo_build_create("two", "test", &builder), BLINK_OK);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++)
        assert_int_equal(topo_build_node(builder, &nodes[i]), BLINK_OK);
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
        assert_int_equal(topo_build_link(builder, links[i][0], links[i][1], TOPO_PCIE, 10.0, 1, 1.0, true),
                         BLINK_OK);
    assert_int_equal(topo_build_non_peers(builder, "g0", "g1"), BLINK_OK);
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_ONE_HOP, 0x3);
    assert_int_equal(check_paths(topo, plan), 0);
    for (uint32_t i = 0; i < plan->path_count; i++)
        assert_int_equal(plan->paths[i].link_count, 3);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Where no CPU is there is no memory of the host. */
static void test_no_peers_without_a_cpu_are_named(void **state)
{
    (void)state;
    static const uint32_t alone[GPUS] = {1, 2, 4, 8, 16, 32, 64, 128};
    topo_t *topo = load_apart("dgx1v", alone);
    const plan_request_t request = {.collective = BLINK_ALLREDUCE,
                                    .algorithm = BLINK_ALGORITHM_TREES,
                                    .rank_node = topo->gpus,
                                    .rank_count = GPUS};
    plan_t *plan = NULL;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_ERR_UNREACHABLE);
    assert_non_null(strstr(blink_error_text(), "(gpu1), which are no peers"));
    assert_non_null(strstr(blink_error_text(), "as it has none"));
    topo_destroy(topo);
}

/* Three hosts that are alike, and three of which one has its GPUs apart and is no image of the others. */
static void test_hosts_keep_their_no_peers(void **state)
{
    (void)state;
    topo_t *one = load_apart("1xdgx1v_hybrid", mesh), *other = load("1xdgx1v_hybrid"), *joined = NULL;
    for (int alike = 0; alike < 2; alike++) {
        const topo_host_t hosts[] = {{"n1", one}, {"n2", alike ? one : other}, {"n3", alike ? one : other}};
        assert_int_equal(topo_join(hosts, 3, &joined), BLINK_OK);
        assert_int_equal(joined->non_peer_count, one->non_peer_count * (alike ? 3 : 1));
        assert_false(topo_are_peers(joined, joined->gpus[0], joined->gpus[5]));
        assert_true(topo_are_peers(joined, joined->gpus[0], joined->gpus[13]));
        const plan_request_t request = {.collective = BLINK_ALLREDUCE,
                                        .algorithm = BLINK_ALGORITHM_TREES,
                                        .rank_node = joined->gpus,
                                        .rank_count = joined->gpu_count};
        plan_t *plan = NULL;
        assert_int_equal(plan_create(joined, &request, &plan), BLINK_OK);
        assert_int_equal(plan_image_count(plan) % 3 == 0, alike);
        check_plan(joined, plan);
        check_paths(joined, plan);
        plan_destroy(plan);
        topo_destroy(joined);
    }
    topo_destroy(one);
    topo_destroy(other);
}

/* A program of a planner that was not told: the lane and both GPUs are known. */
static void test_outputs_out_of_reach_are_refused(void **state)
{
    (void)state;
    topo_t *topo = load("pcie8");
    gpu_facts_t gpus[2] = {{.pci = "0000:06:00.0", .peers = 1}, {.pci = "0000:07:00.0", .peers = 3}};
    const uint32_t rank_gpu[] = {0, 1};
    lane_program_t *program = NULL;
    cuda_reach_t reach;
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 0x3);
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    assert_int_equal(cuda_reach_init(program, gpus, rank_gpu, &reach), BLINK_ERR_UNREACHABLE);
    assert_non_null(strstr(blink_error_text(), "0000:07:00.0"));
    cuda_reach_fini(&reach);
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cube_mesh_is_planned_over_its_nvlinks),
        cmocka_unit_test(test_ways_between_no_peers_come_by_a_cpu),
        cmocka_unit_test(test_one_pair_of_a_pcie_switch),
        cmocka_unit_test(test_ways_to_the_host_and_back_are_shipped),
        cmocka_unit_test(test_the_way_by_the_nearest_cpu_may_be_the_longer),
        cmocka_unit_test(test_no_peers_without_a_cpu_are_named),
        cmocka_unit_test(test_hosts_keep_their_no_peers),
        cmocka_unit_test(test_outputs_out_of_reach_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
