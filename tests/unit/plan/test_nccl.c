/*
 * What NCCL would do: its rings for every collective, on one host and over rails of NICs, its double binary
 * trees, its channel counts and cost model; and the ideal bus bandwidth.
 */
#include "plan/baseline/nccl/nccl_model.h"
#include "plan/baseline/nccl/ring.h"
#include "plan/show/ideal.h"
#include "plan_checks.h"
#include "prove/verify.h"

#define CLUSTER_GPUS 8u

/* ---- hosts of eight gpus: NVLinks in a circle or to a switch, `nics` NICs beside two gpus each or more ----
 */

static const char *name(char *text, size_t bytes, const char *what, uint32_t host, uint32_t i)
{
    snprintf(text, bytes, "%s%u_%u", what, host, i);
    return text;
}

#define NAME(what, host, i) name((char[32]){0}, 32, what, host, i)

static void add_node(topo_builder_t *b, const char *id, uint32_t host, topo_node_kind_t kind)
{
    char host_name[16];
    snprintf(host_name, sizeof(host_name), "n%u", host);
    topo_node_t node = {.id = (char *)(uintptr_t)id, .host = host_name, .kind = kind};
    assert_int_equal(topo_build_node(b, &node), BLINK_OK);
}

static void add_link(topo_builder_t *b, const char *from, const char *to, topo_link_kind_t kind, double GBps,
                     uint32_t count)
{
    assert_int_equal(topo_build_link(b, from, to, kind, GBps, count, 1.0, true), BLINK_OK);
}

static void add_host(topo_builder_t *b, uint32_t host, uint32_t nics, bool switched)
{
    for (uint32_t i = 0; i < CLUSTER_GPUS; i++)
        add_node(b, NAME("gpu", host, i), host, TOPO_DEVICE);
    for (uint32_t i = 0; i < nics; i++) {
        add_node(b, NAME("plx", host, i), host, TOPO_SWITCH);
        add_node(b, NAME("nic", host, i), host, TOPO_NIC);
        add_link(b, NAME("plx", host, i), NAME("nic", host, i), TOPO_PCIE, 32.0, 1);
        add_link(b, NAME("nic", host, i), "net", TOPO_NET, 12.5, 1);
    }
    add_node(b, NAME("nvsw", host, 0), host, TOPO_SWITCH);
    for (uint32_t i = 0; i < CLUSTER_GPUS; i++) {
        if (nics > 0)
            add_link(b, NAME("gpu", host, i), NAME("plx", host, i * nics / CLUSTER_GPUS), TOPO_PCIE, 32.0, 1);
        if (switched)
            add_link(b, NAME("gpu", host, i), NAME("nvsw", host, 0), TOPO_NVSWITCH, 25.0, 18);
        else
            add_link(b, NAME("gpu", host, i), NAME("gpu", host, (i + 1) % CLUSTER_GPUS), TOPO_NVLINK, 25.0,
                     2);
        if (i > 0 && nics > 1 && i < nics)
            add_link(b, NAME("plx", host, i - 1), NAME("plx", host, i), TOPO_PCIE, 16.0, 1);
    }
    if (nics == 0)
        add_link(b, NAME("gpu", host, 0), "net", TOPO_NET, 12.5, 1);
}

static topo_t *cluster(uint32_t hosts, uint32_t nics, bool switched)
{
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    assert_int_equal(topo_build_create("cluster", "test", &builder), BLINK_OK);
    topo_node_t net = {.id = (char *)(uintptr_t) "net", .host = (char *)(uintptr_t) "", .kind = TOPO_SWITCH};
    assert_int_equal(topo_build_node(builder, &net), BLINK_OK);
    for (uint32_t host = 0; host < hosts; host++)
        add_host(builder, host, nics, switched);
    if (topo_build_finish(builder, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    topo_build_destroy(builder);
    return topo;
}

/* A plan over all gpus with channels filled by one algorithm, and nothing proven of it. */
static plan_t *fill(const topo_t *topo, blink_collective_t collective,
                    blink_result_t (*algorithm)(const topo_t *, plan_t *))
{
    plan_t *plan = calloc(1, sizeof(*plan));
    plan->collective = collective;
    plan->rank_count = topo->gpu_count;
    plan->root = collective_has_root(collective) ? 0 : PLAN_NONE;
    plan->rank_node = malloc(topo->gpu_count * sizeof(*plan->rank_node));
    memcpy(plan->rank_node, topo->gpus, topo->gpu_count * sizeof(*plan->rank_node));
    if (algorithm(topo, plan) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    assert_int_equal(plan_rate_GBps(topo, plan, &plan->rate_GBps), BLINK_OK);
    plan->bound_GBps = INFINITY;
    return plan;
}

/* ---- rings ---- */

static void test_channel_counts_of_known_machines(void **state)
{
    static const struct {
        const char *topology;
        uint32_t channel_count;
        double GBps; /* of all rings together */
    } known[] = {{"dgx1p", 8, 80.0},      {"dgx1v", 12, 150.0},    {"dgx2", 12, 150.0},
                 {"dgx_a100", 24, 300.0}, {"dgx_h100", 24, 450.0}, {"pcie8", 2, 11.0}};
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        topo_t *topo = load(known[i].topology);
        plan_t *plan = fill(topo, BLINK_BROADCAST, plan_find_rings);
        check_plan(topo, plan);
        assert_int_equal(plan->channel_count, known[i].channel_count);
        assert_close(plan->rate_GBps, known[i].GBps);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

static void test_rings_do_every_collective_with_trees(void **state)
{
    topo_t *topo = load("dgx1v");
    double n = 8.0;
    (void)state;
    for (uint32_t c = BLINK_ALLREDUCE; c <= BLINK_REDUCESCATTER; c++) {
        plan_t *plan = fill(topo, (blink_collective_t)c, plan_find_rings);
        check_plan(topo, plan);
        /* Six rings of 25 GB/s; each hop carries busbw's part of the payload. */
        assert_close(plan->rate_GBps, 150.0 / collective_busbw_factor((blink_collective_t)c, 8));
        assert_int_equal(plan->channels[0].part_count, collective_has_root((blink_collective_t)c) ? 1 : n);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void assert_unsupported(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm)
{
    uint32_t nodes[RANKS_MAX];
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = nodes,
                              .rank_count = choose(topo, 0xff, nodes),
                              .peer = 1};
    plan_t *plan = NULL;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_ERR_UNSUPPORTED);
    if (strstr(blink_error_text(), blink_name_collective(collective)) == NULL)
        fail_msg("\"%s\" does not name %s", blink_error_text(), blink_name_collective(collective));
}

static void test_collectives_that_nccl_lacks_are_named(void **state)
{
    topo_t *topo = load("dgx1v");
    (void)state;
    for (uint32_t c = BLINK_GATHER; c <= BLINK_SENDRECV; c++)
        assert_unsupported(topo, (blink_collective_t)c, BLINK_ALGORITHM_RING);
    for (uint32_t c = BLINK_BROADCAST; c <= BLINK_SENDRECV; c++)
        assert_unsupported(topo, (blink_collective_t)c, BLINK_ALGORITHM_DOUBLE_BINARY_TREE);
    topo_destroy(topo);
}

/* ---- rails ---- */

/* Rings that cross this link. */
static uint32_t crossings(const topo_t *topo, const plan_t *plan, const char *from, const char *to)
{
    uint32_t link = topo_find_link(topo, topo_find_node(topo, from), topo_find_node(topo, to)), count = 0;
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
            uint32_t path = plan->channels[c].parts[0].broadcast.path[rank];
            for (uint32_t i = 0; path != PLAN_NONE && i < plan->paths[path].link_count; i++)
                count += plan->paths[path].links[i] == link;
        }
    return count;
}

static void test_one_ring_per_nic_crosses_hosts(void **state)
{
    (void)state;
    for (uint32_t nics = 1; nics <= 8; nics *= 2)
        for (uint32_t switched = 0; switched < 2; switched++) {
            topo_t *topo = cluster(3, nics, switched);
            plan_t *plan = fill(topo, BLINK_ALLREDUCE, plan_find_rings);
            check_plan(topo, plan);
            uint32_t copies = plan->channel_count / nics;
            assert_int_equal(plan->channel_count, copies * nics);
            /* Rank 0 starts each broadcast chain: every host but the one that a chain ends in is left once.
             */
            for (uint32_t nic = 0; nic < nics; nic++)
                assert_int_equal(crossings(topo, plan, NAME("nic", 1, nic), "net"), copies);
            assert_close(plan->rate_GBps, nics * 12.5 / collective_busbw_factor(BLINK_ALLREDUCE, 24));
            plan_destroy(plan);
            topo_destroy(topo);
        }
}

static void test_rails_keep_to_nvlink_inside_hosts(void **state)
{
    topo_t *topo = cluster(2, 4, false);
    plan_t *plan = fill(topo, BLINK_BROADCAST, plan_find_rings);
    (void)state;
    for (uint32_t i = 0; i < plan->path_count; i++) {
        const topo_link_t *links = topo->links;
        const plan_path_t *path = &plan->paths[i];
        uint32_t from = links[path->links[0]].from, to = links[path->links[path->link_count - 1]].to;
        if (strcmp(topo->nodes[from].host, topo->nodes[to].host) == 0)
            assert_int_equal(links[path->links[0]].kind, TOPO_NVLINK);
    }
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_hosts_without_nics_share_one_ring(void **state)
{
    topo_t *topo = cluster(2, 0, true);
    uint32_t nodes[] = {topo_find_node(topo, "gpu0_0"), topo_find_node(topo, "gpu1_0")};
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .algorithm = BLINK_ALGORITHM_RING,
                              .rank_node = nodes,
                              .rank_count = 2};
    plan_t *plan = NULL;
    (void)state;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    check_plan(topo, plan);
    assert_int_equal(plan->channels[0].parts[0].reduce.path[1], plan->channels[1].parts[0].reduce.path[1]);
    assert_close(plan->rate_GBps, 12.5);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_hosts_may_differ(void **state)
{
    topo_t *topo = cluster(3, 4, false);
    uint32_t nodes[CLUSTER_GPUS * 3], count = 0;
    (void)state;
    for (uint32_t i = 0; i < topo->gpu_count; i++)
        if (i != 3 && i != 9 && i != 10)
            nodes[count++] = topo->gpus[i];
    plan_request_t request = {.collective = BLINK_ALLREDUCE, .rank_node = nodes, .rank_count = count};
    for (uint32_t tree = 0; tree < 2; tree++) {
        plan_t *plan = NULL;
        request.algorithm = tree ? BLINK_ALGORITHM_DOUBLE_BINARY_TREE : BLINK_ALGORITHM_RING;
        assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
        check_plan(topo, plan);
        assert_int_equal(plan->channel_count % 4, 0);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_hundreds_of_ranks(void **state)
{
    topo_t *topo = cluster(64, 4, false);
    (void)state;
    plan_t *plan = fill(topo, BLINK_ALLGATHER, plan_find_rings);
    assert_int_equal(plan->channel_count, 8);
    assert_close(plan->rate_GBps, 4 * 12.5 * 512.0 / 511.0);
    plan_destroy(plan);
    plan = fill(topo, BLINK_ALLREDUCE, plan_double_binary_trees);
    check_plan(topo, plan);
    assert_int_equal(plan->channel_count, 8);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- double binary trees ---- */

static uint32_t depth_of(uint32_t tree, uint32_t count, uint32_t i)
{
    uint32_t depth = 0;
    while ((i = double_binary_parent(tree, count, i)) != PLAN_NONE)
        assert_true(++depth <= count);
    return depth;
}

static void test_two_trees_complement_each_other(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 130; count++) {
        uint32_t inner_in_both = 0, leaf_in_both = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t children[2] = {0};
            for (uint32_t tree = 0; tree < 2; tree++) {
                for (uint32_t j = 0; j < count; j++)
                    children[tree] += double_binary_parent(tree, count, j) == i;
                assert_true(children[tree] <= 2);
                assert_true(1u << depth_of(tree, count, i) <= 2 * count);
            }
            inner_in_both += children[0] > 0 && children[1] > 0;
            leaf_in_both += children[0] == 0 && children[1] == 0;
        }
        assert_int_equal(leaf_in_both, 0);
        assert_int_equal(inner_in_both, count % 2);
    }
}

static void test_switches_carry_two_trees_each(void **state)
{
    topo_t *topo = load("dgx2");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_DOUBLE_BINARY_TREE, 0xffff);
    (void)state;
    check_plan(topo, plan);
    assert_int_equal(plan->channel_count, 12);
    /* An inner node of one tree and leaf of the other sends three times half of the payload, over all links
     * 150 GB/s: to two children and one parent in the one, to its parent in the other. */
    assert_close(plan->rate_GBps, 150.0 / 2.0);
    assert_int_equal(plan_depth(plan), 2 * 4);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_chains_where_direct_links_close_rings(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_DOUBLE_BINARY_TREE, 0xff);
    (void)state;
    check_plan(topo, plan);
    assert_int_equal(plan_depth(plan), 14);
    assert_close(plan->rate_GBps, 75.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_chain_where_no_ring_closes(void **state)
{
    topo_t *path = parse(GPU("a") "," GPU("b") "," GPU("c"), LINK("a", "c", "25") "," LINK("c", "b", "25"));
    plan_t *plan = make(path, BLINK_ALLREDUCE, BLINK_ALGORITHM_DOUBLE_BINARY_TREE, 0x7);
    (void)state;
    check_plan(path, plan);
    assert_close(plan->rate_GBps, 25.0);
    plan_destroy(plan);
    topo_destroy(path);

    topo_t *star = parse(GPU("a") "," GPU("b") "," GPU("c") "," GPU("d"),
                         LINK("a", "b", "25") "," LINK("a", "c", "25") "," LINK("a", "d", "25"));
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .algorithm = BLINK_ALGORITHM_DOUBLE_BINARY_TREE,
                              .rank_node = star->gpus,
                              .rank_count = 4};
    assert_int_equal(plan_create(star, &request, &plan), BLINK_ERR_UNREACHABLE);
    assert_non_null(strstr(blink_error_text(), "neither to binary trees nor to a chain"));
    topo_destroy(star);
}

static void test_trees_over_hosts_chain_inside(void **state)
{
    topo_t *topo = cluster(4, 4, true);
    plan_t *plan = fill(topo, BLINK_ALLREDUCE, plan_double_binary_trees);
    (void)state;
    check_plan(topo, plan);
    assert_int_equal(plan->channel_count, 2 * 4);
    /* 7 links down a host's chain, and up to two levels of hosts below the root's. */
    assert_int_equal(plan_depth(plan), 2 * (7 + 2));
    /* A NIC sends twice its rail's part: up and down in the tree where its host is inner, once as a leaf. */
    assert_close(plan->rate_GBps, 4 * 12.5 * 2.0 / 4.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_lanes_of_rails_and_trees_are_right(void **state)
{
    topo_t *topo = cluster(2, 2, false);
    (void)state;
    for (uint32_t tree = 0; tree < 2; tree++)
        for (uint32_t slots = 1; slots < 3; slots++) {
            plan_t *plan = fill(topo, BLINK_ALLREDUCE, tree ? plan_double_binary_trees : plan_find_rings);
            lane_verify_options_t options = {.chunks = 5, .slots = slots, .in_place = true};
            lane_program_t *program = NULL;
            assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
            if (lane_verify(program, &options) != BLINK_OK)
                fail_msg("%s", blink_error_text());
            lane_program_destroy(program);
            plan_destroy(plan);
        }
    topo_destroy(topo);
}

/* ---- NCCL's arithmetic ---- */

static void test_cost_model_agrees_with_nccl(void **state)
{
    static const nccl_graph_t h100 = {.generation = NCCL_HOPPER,
                                      .rank_count = 8,
                                      .host_count = 1,
                                      .channel_count = 24,
                                      .channel_GBps = 15.0,
                                      .copies = 1,
                                      .nvlink = true,
                                      .same_order = true};
    static const struct {
        blink_protocol_t protocol;
        double latency_us, GBps;
    } known[] = {{BLINK_PROTOCOL_SIMPLE, 56.0, 205.7},
                 {BLINK_PROTOCOL_LL128, 40.6, 189.3},
                 {BLINK_PROTOCOL_LL, 15.0, 80.6}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        nccl_prediction_t p;
        assert_int_equal(
            nccl_predict(&h100, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, known[i].protocol, 1000000, &p),
            BLINK_OK);
        assert_close(p.latency_us, known[i].latency_us);
        assert_close(p.GBps, known[i].GBps);
        assert_close(p.time_us, p.latency_us + 1000.0 / p.GBps);
    }
}

static void test_tree_bandwidth_is_corrected_by_size(void **state)
{
    static const nccl_graph_t h100 = {NCCL_HOPPER, 8, 1, 24, 15.0, 1, true, true};
    static const struct {
        blink_protocol_t protocol;
        uint64_t bytes;
        double GBps;
    } known[] = {{BLINK_PROTOCOL_SIMPLE, 64, 360 * .92 / 2 * .9},
                 {BLINK_PROTOCOL_SIMPLE, 64 << 12, 360 * .92 / 2 * .5},
                 {BLINK_PROTOCOL_SIMPLE, (uint64_t)64 << 24, 360 * .92 / 2},
                 {BLINK_PROTOCOL_LL, 64 << 12, 360 * .92 / 3.8 / 2 * .4},
                 {BLINK_PROTOCOL_LL128, 64 << 15, 360 * .92 * 7 / 9 / 2 * .6},
                 {BLINK_PROTOCOL_LL128, 1, 360 * .92 * 7 / 9 / 2}};
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        nccl_prediction_t p;
        assert_int_equal(nccl_predict(&h100, BLINK_ALLREDUCE, BLINK_ALGORITHM_DOUBLE_BINARY_TREE,
                                      known[i].protocol, known[i].bytes, &p),
                         BLINK_OK);
        assert_close(p.GBps, known[i].GBps);
    }
}

static void test_latency_grows_with_hosts(void **state)
{
    static const nccl_graph_t hosts = {NCCL_VOLTA, 32, 4, 2, 6.0, 2, true, true};
    nccl_prediction_t p;
    (void)state;
    nccl_predict(&hosts, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, BLINK_PROTOCOL_SIMPLE, 1, &p);
    assert_close(p.latency_us, 8.4 + 56 * 3.4 + 6 * 14.0);
    nccl_predict(&hosts, BLINK_ALLREDUCE, BLINK_ALGORITHM_DOUBLE_BINARY_TREE, BLINK_PROTOCOL_LL, 1, &p);
    assert_close(p.latency_us, 6.8 + 2 * (7 * 0.6 + 2 * 5.0));
    nccl_predict(&hosts, BLINK_ALLGATHER, BLINK_ALGORITHM_RING, BLINK_PROTOCOL_LL, 1, &p);
    assert_close(p.latency_us, 6.6 + 28 * 0.6 + 3 * 2.7);
    nccl_predict(&hosts, BLINK_BROADCAST, BLINK_ALGORITHM_RING, BLINK_PROTOCOL_LL128, 1, &p);
    assert_close(p.latency_us, 14.0 + 4.0);
    assert_close(p.GBps, 12.0 * 0.92);
}

static void test_choice_follows_size(void **state)
{
    static const nccl_graph_t h100 = {NCCL_HOPPER, 8, 1, 24, 15.0, 2, true, true};
    static const nccl_graph_t pcie = {NCCL_AMPERE, 8, 1, 2, 5.0, 2, false, true};
    nccl_prediction_t best;
    (void)state;
    assert_int_equal(nccl_choose(&h100, BLINK_ALLREDUCE, 8, &best), BLINK_OK);
    assert_int_equal(best.protocol, BLINK_PROTOCOL_LL);
    assert_int_equal(nccl_choose(&h100, BLINK_ALLREDUCE, 1 << 22, &best), BLINK_OK);
    assert_int_equal(best.protocol, BLINK_PROTOCOL_LL128);
    assert_int_equal(nccl_choose(&h100, BLINK_ALLREDUCE, 1u << 31, &best), BLINK_OK);
    assert_int_equal(best.protocol, BLINK_PROTOCOL_SIMPLE);
    assert_int_equal(best.algorithm, BLINK_ALGORITHM_RING);
    for (uint64_t bytes = 1; bytes < (uint64_t)1 << 33; bytes *= 2) {
        assert_int_equal(nccl_choose(&pcie, BLINK_ALLGATHER, bytes, &best), BLINK_OK);
        assert_int_not_equal(best.protocol, BLINK_PROTOCOL_LL128);
    }
    assert_int_equal(nccl_choose(&h100, BLINK_ALLTOALL, 8, &best), BLINK_ERR_UNSUPPORTED);
}

static void test_channels_are_those_nccl_would_launch(void **state)
{
    static const struct {
        const char *topology;
        nccl_generation_t generation;
        uint32_t channel_count;
        double channel_GBps;
        bool nvlink, same_order;
    } known[] = {
        {"dgx1p", NCCL_PASCAL, 8, 9.0, true, false},     {"dgx1v", NCCL_VOLTA, 12, 10.0, true, false},
        {"dgx2", NCCL_VOLTA, 12, 10.0, true, true},      {"dgx_a100", NCCL_AMPERE, 24, 10.0, true, true},
        {"dgx_h100", NCCL_HOPPER, 24, 15.0, true, true}, {"pcie8", NCCL_AMPERE, 2, 5.0, false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        topo_t *topo = load(known[i].topology);
        nccl_graph_t graph;
        nccl_generation_t generation = nccl_guess_generation(topo, topo->gpus, topo->gpu_count);
        assert_int_equal(generation, known[i].generation);
        assert_int_equal(nccl_find_graph(topo, topo->gpus, topo->gpu_count, generation, &graph), BLINK_OK);
        assert_int_equal(graph.channel_count, known[i].channel_count);
        assert_close(graph.channel_GBps, known[i].channel_GBps);
        assert_int_equal(graph.nvlink, known[i].nvlink);
        assert_int_equal(graph.same_order, known[i].same_order);
        assert_int_equal(graph.host_count, 1);
        topo_destroy(topo);
    }
}

static void test_nics_limit_channels_across_hosts(void **state)
{
    topo_t *topo = cluster(4, 8, true);
    nccl_graph_t graph;
    (void)state;
    assert_int_equal(nccl_find_graph(topo, topo->gpus, topo->gpu_count, NCCL_HOPPER, &graph), BLINK_OK);
    assert_int_equal(graph.host_count, 4);
    assert_int_equal(graph.channel_count, 2 * 8);
    assert_close(graph.channel_GBps, 12.0 / 2);
    assert_true(graph.nvlink);
    topo_destroy(topo);
}

/* ---- the ideal ---- */

static void test_ideal_examples(void **state)
{
    (void)state;
    assert_close(ideal_busbw_GBps(BLINK_ALLREDUCE, 450.0, 0.0, 8, 1), 450.0);
    assert_close(ideal_busbw_GBps(BLINK_ALLREDUCE, 450.0, 100.0, 16, 2), 187.5);
    assert_close(ideal_busbw_GBps(BLINK_ALLREDUCE, 450.0, 1000.0, 16, 2), 482.1);
    assert_close(ideal_busbw_GBps(BLINK_ALLREDUCE, 450.0, 100.0, 2, 2), 100.0);
    assert_true(ideal_busbw_GBps(BLINK_ALLREDUCE, 450.0, 0.0, 1, 1) <= 0.0);
    assert_close(ideal_busbw_GBps(BLINK_ALLTOALL, 450.0, 0.0, 8, 1), 450.0);
    assert_close(ideal_busbw_GBps(BLINK_ALLTOALL, 450.0, 100.0, 16, 2), 187.5 / 8.0);
    assert_close(ideal_busbw_GBps(BLINK_ALLTOALL, 450.0, 100.0, 2, 2), 100.0);
}

static void test_ideal_reads_the_topology(void **state)
{
    topo_t *topo = load("dgx_h100");
    ideal_t ideal;
    (void)state;
    assert_int_equal(ideal_find(topo, BLINK_ALLREDUCE, topo->gpus, 8, &ideal), BLINK_OK);
    assert_close(ideal.busbw_GBps, 450.0);
    topo_destroy(topo);

    topo = cluster(2, 8, true); /* a plx each, joined in a row: 450 GB/s of NVLink and 32 GB/s of PCIe */
    assert_int_equal(ideal_find(topo, BLINK_ALLREDUCE, topo->gpus, 16, &ideal), BLINK_OK);
    assert_int_equal(ideal.host_count, 2);
    assert_close(ideal.gpu_GBps, 482.0);
    assert_close(ideal.host_GBps, 100.0);
    assert_close(ideal.busbw_GBps, 187.5);
    topo_destroy(topo);
}

static void test_ideal_counts_links_to_other_ranks_only(void **state)
{
    topo_t *topo = load("dgx1v");
    uint32_t nodes[] = {topo->gpus[0], topo->gpus[1], topo->gpus[4]};
    ideal_t ideal;
    (void)state;
    assert_int_equal(ideal_find(topo, BLINK_ALLREDUCE, nodes, 3, &ideal), BLINK_OK);
    assert_close(ideal.gpu_GBps, 25.0); /* gpu1 has one link to gpu0 and none to gpu4 */
    topo_destroy(topo);

    topo = parse(GPU("a") "," GPU("b") "," SWITCH("s"),
                 LINK("a", "b", "25") "," LINK("a", "s", "10") "," LINK("b", "a", "5"));
    assert_int_equal(ideal_find(topo, BLINK_ALLREDUCE, topo->gpus, 2, &ideal), BLINK_OK);
    assert_close(ideal.gpu_GBps, 30.0); /* the switch leads back to a alone */
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_counts_of_known_machines),
        cmocka_unit_test(test_rings_do_every_collective_with_trees),
        cmocka_unit_test(test_collectives_that_nccl_lacks_are_named),
        cmocka_unit_test(test_one_ring_per_nic_crosses_hosts),
        cmocka_unit_test(test_rails_keep_to_nvlink_inside_hosts),
        cmocka_unit_test(test_hosts_without_nics_share_one_ring),
        cmocka_unit_test(test_hosts_may_differ),
        cmocka_unit_test(test_hundreds_of_ranks),
        cmocka_unit_test(test_two_trees_complement_each_other),
        cmocka_unit_test(test_switches_carry_two_trees_each),
        cmocka_unit_test(test_chains_where_direct_links_close_rings),
        cmocka_unit_test(test_chain_where_no_ring_closes),
        cmocka_unit_test(test_trees_over_hosts_chain_inside),
        cmocka_unit_test(test_lanes_of_rails_and_trees_are_right),
        cmocka_unit_test(test_cost_model_agrees_with_nccl),
        cmocka_unit_test(test_tree_bandwidth_is_corrected_by_size),
        cmocka_unit_test(test_latency_grows_with_hosts),
        cmocka_unit_test(test_choice_follows_size),
        cmocka_unit_test(test_channels_are_those_nccl_would_launch),
        cmocka_unit_test(test_nics_limit_channels_across_hosts),
        cmocka_unit_test(test_ideal_examples),
        cmocka_unit_test(test_ideal_reads_the_topology),
        cmocka_unit_test(test_ideal_counts_links_to_other_ranks_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
