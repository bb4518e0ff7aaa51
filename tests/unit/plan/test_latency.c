/*
 * Plans of few hops: every collective that one hop, the binomial tree and recursive doubling do, by a checker
 * of its own: blocks, spanning trees, routes, loads, depth.
 */
#include "error.h"
#include "names.h"
#include "plan/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_ONE_HOP, BLINK_ALGORITHM_BINOMIAL,
                                               BLINK_ALGORITHM_RECURSIVE_DOUBLING};
#define ALGORITHM_COUNT (sizeof(algorithms) / sizeof(algorithms[0]))

static topo_t *load(const char *what)
{
    topo_t *topo = NULL;
    if (topo_load(what, &topo) != BLINK_OK)
        fail_msg("%s: %s", what, blink_error_text());
    return topo;
}

/* Over the first gpus; NULL where the algorithm does not do the collective. */
static plan_t *make(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm,
                    uint32_t ranks, uint32_t root, uint32_t peer)
{
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = ranks,
                              .root = root,
                              .peer = peer};
    plan_t *plan = NULL;
    blink_result_t result = plan_create_unproven(topo, &request, &plan);
    if (result != BLINK_OK && result != BLINK_ERR_UNSUPPORTED)
        fail_msg("%s: %s", blink_name_collective(collective), blink_error_text());
    return plan;
}

/* ---- the checker ---- */

static void check_edge(const topo_t *topo, const plan_t *plan, uint32_t index, uint32_t from, uint32_t to)
{
    assert_true(index < plan->path_count);
    uint32_t at = plan->rank_node[from];
    for (uint32_t i = 0; i < plan->paths[index].link_count; i++) {
        const topo_link_t *link = &topo->links[plan->paths[index].links[i]];
        assert_int_equal(link->from, at);
        at = link->to;
        assert_true(i + 1 == plan->paths[index].link_count || topo->nodes[at].kind != TOPO_DEVICE);
    }
    assert_int_equal(at, plan->rank_node[to]);
}

static void check_tree(const topo_t *topo, const plan_t *plan, const plan_tree_t *tree, uint32_t root,
                       bool reduce)
{
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t at = rank;
        for (uint32_t hops = 0; at != root && hops < plan->rank_count; hops++)
            at = tree->parent[at];
        assert_int_equal(at, root);
        if (rank == root)
            assert_int_equal(tree->parent[rank], PLAN_NONE);
        else
            check_edge(topo, plan, tree->path[rank], reduce ? rank : tree->parent[rank],
                       reduce ? tree->parent[rank] : rank);
    }
}

/* The ends of the route that carries a block. */
static void expect_ends(const plan_t *plan, uint32_t block, uint32_t *from, uint32_t *to)
{
    uint32_t n = plan->rank_count;
    *from = plan->collective == BLINK_GATHER     ? block
            : plan->collective == BLINK_ALLTOALL ? block / n
                                                 : plan->root;
    *to = plan->collective == BLINK_GATHER     ? plan->root
          : plan->collective == BLINK_SCATTER  ? block
          : plan->collective == BLINK_ALLTOALL ? block % n
                                               : plan->peer;
}

static uint64_t check_route(const topo_t *topo, const plan_t *plan, const plan_route_t *route)
{
    uint32_t first = route->ranks[0], last = route->ranks[route->hop_count], from = 0, to = 0;
    uint64_t block = collective_block(plan->collective, plan->rank_count, first, last);
    expect_ends(plan, (uint32_t)block, &from, &to);
    assert_int_equal(first, from);
    assert_int_equal(last, to);
    for (uint32_t i = 0; i < route->hop_count; i++)
        check_edge(topo, plan, route->paths[i], route->ranks[i], route->ranks[i + 1]);
    return block;
}

/* Trees or a route as the collective asks for; which block the part carries. */
static uint64_t check_part(const topo_t *topo, const plan_t *plan, const plan_part_t *part)
{
    assert_int_equal(part->reduce.parent != NULL, collective_reduces(plan->collective));
    assert_int_equal(part->broadcast.parent != NULL, collective_broadcasts(plan->collective));
    assert_int_equal(part->route.ranks != NULL, collective_routes(plan->collective));
    if (part->route.ranks != NULL)
        return check_route(topo, plan, &part->route);
    if (collective_has_root(plan->collective))
        assert_int_equal(part->root, plan->root);
    if (part->reduce.parent != NULL)
        check_tree(topo, plan, &part->reduce, part->root, true);
    if (part->broadcast.parent != NULL)
        check_tree(topo, plan, &part->broadcast, part->root, false);
    return collective_block(plan->collective, plan->rank_count, part->root, PLAN_NONE);
}

static void check_plan(const topo_t *topo, const plan_t *plan)
{
    uint64_t blocks = collective_block_count(plan->collective, plan->rank_count);
    double *carried = calloc(blocks, sizeof(*carried));
    assert_non_null(carried);
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        assert_true(channel->share > 0.0);
        for (uint32_t i = 0; i < channel->part_count; i++)
            carried[check_part(topo, plan, &channel->parts[i])] += channel->share / channel->part_count;
    }
    for (uint64_t block = 0; block < blocks; block++)
        assert_true(fabs(carried[block] * (double)blocks - 1.0) < 1e-9);
    assert_true(plan->rate_GBps > 0.0);
    free(carried);
}

/* ---- the tests ---- */

static void check_all(const topo_t *topo, uint32_t ranks, uint32_t *made)
{
    for (size_t a = 0; a < ALGORITHM_COUNT; a++)
        for (blink_collective_t c = BLINK_ALLREDUCE; c <= BLINK_SENDRECV; c++) {
            plan_t *plan = make(topo, c, algorithms[a], ranks, ranks - 1, ranks / 2 - 1);
            if (plan == NULL)
                continue;
            check_plan(topo, plan);
            plan_destroy(plan);
            ++*made;
        }
}

static void test_every_block_is_carried_once_by_spanning_trees_or_routes(void **state)
{
    static const char *const names[] = {"dgx2", "dgx1v_hybrid", "dgx_h100", "2x_dgx1v_100g"};
    static const uint32_t ranks[] = {2, 3, 4, 5, 6, 7, 8, 11, 16};
    uint32_t made = 0;
    (void)state;
    for (size_t t = 0; t < sizeof(names) / sizeof(names[0]); t++) {
        topo_t *topo = load(names[t]);
        for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
            if (ranks[i] <= topo->gpu_count)
                check_all(topo, ranks[i], &made);
        topo_destroy(topo);
    }
    assert_int_equal(made, (2 * 9 + 2 * 7) * (9 + 5 + 3));
}

static void assert_depth(blink_collective_t collective, blink_algorithm_t algorithm, uint32_t ranks,
                         uint32_t depth)
{
    topo_t *topo = load("dgx2");
    plan_t *plan = make(topo, collective, algorithm, ranks, 0, ranks - 1);
    assert_non_null(plan);
    if (plan_depth(plan) != depth)
        fail_msg("%s of %u ranks by %s: depth %u, not %u", blink_name_collective(collective), ranks,
                 blink_name_algorithm(algorithm), plan_depth(plan), depth);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_one_hop_takes_one_hop_there_and_one_back(void **state)
{
    (void)state;
    assert_depth(BLINK_ALLREDUCE, BLINK_ALGORITHM_ONE_HOP, 16, 2);
    for (blink_collective_t collective = BLINK_BROADCAST; collective <= BLINK_SENDRECV; collective++)
        assert_depth(collective, BLINK_ALGORITHM_ONE_HOP, 11, 1);
}

static void test_depth_is_the_logarithm_of_the_ranks(void **state)
{
    (void)state;
    for (uint32_t ranks = 2, log = 1; ranks <= 16; ranks *= 2, log++) {
        assert_depth(BLINK_BROADCAST, BLINK_ALGORITHM_BINOMIAL, ranks, log);
        assert_depth(BLINK_GATHER, BLINK_ALGORITHM_BINOMIAL, ranks, log);
        assert_depth(BLINK_ALLREDUCE, BLINK_ALGORITHM_BINOMIAL, ranks, 2 * log);
        assert_depth(BLINK_ALLGATHER, BLINK_ALGORITHM_RECURSIVE_DOUBLING, ranks, log);
        assert_depth(BLINK_ALLREDUCE, BLINK_ALGORITHM_RECURSIVE_DOUBLING, ranks, 2 * log);
    }
    assert_depth(BLINK_REDUCE, BLINK_ALGORITHM_BINOMIAL, 11, 3);
    assert_depth(BLINK_REDUCESCATTER, BLINK_ALGORITHM_RECURSIVE_DOUBLING, 11, 4); /* one end folded */
    assert_depth(BLINK_REDUCESCATTER, BLINK_ALGORITHM_RECURSIVE_DOUBLING, 15, 5); /* both ends folded */
}

static void test_recursive_doubling_goes_along_the_hypercube_nearest_partner_first(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLGATHER, BLINK_ALGORITHM_RECURSIVE_DOUBLING, 8, 0, 0);
    (void)state;
    for (uint32_t root = 0; root < 8; root++)
        for (uint32_t rank = 0; rank < 8; rank++) {
            uint32_t apart = rank ^ root, highest = apart >= 4 ? 4 : apart >= 2 ? 2 : 1;
            if (rank != root)
                assert_int_equal(plan->channels[0].parts[root].broadcast.parent[rank], rank ^ highest);
        }
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_binomial_tree_enters_each_host_once(void **state)
{
    topo_t *topo = load("2x_dgx1v_100g");
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_BINOMIAL, 16, 0, 0);
    const plan_tree_t *tree = &plan->channels[0].parts[0].broadcast;
    uint32_t entries = 0;
    (void)state;
    for (uint32_t rank = 8; rank < 16; rank++)
        entries += tree->parent[rank] < 8 ? 1 : 0;
    assert_int_equal(entries, 1);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_blocks_go_along_the_binomial_tree(void **state)
{
    static const uint32_t expected[] = {0, 4, 6, 7};
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_SCATTER, BLINK_ALGORITHM_BINOMIAL, 8, 0, 0);
    (void)state;
    assert_int_equal(plan->channels[0].parts[0].route.hop_count, 0);
    assert_int_equal(plan->channels[0].parts[7].route.hop_count, 3);
    assert_memory_equal(plan->channels[0].parts[7].route.ranks, expected, sizeof(expected));
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_parallel_switches_are_loaded_alike(void **state)
{
    double loads[256];
    topo_t *topo = load("dgx2");
    (void)state;
    assert_in_range(topo->link_count, 1, 256);
    for (size_t a = 0; a < ALGORITHM_COUNT; a += 2) {
        plan_t *plan = make(topo, BLINK_ALLREDUCE, algorithms[a], 16, 0, 0);
        assert_int_equal(plan->channel_count, 6);
        assert_int_equal(plan_link_loads(topo, plan, loads), BLINK_OK);
        for (uint32_t link = 0; link < topo->link_count; link++)
            assert_true(fabs(loads[link] - 30.0 / 96.0) < 1e-9);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_ranks_without_a_path_are_named(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .algorithm = BLINK_ALGORITHM_ONE_HOP,
                              .rank_node = topo->gpus,
                              .rank_count = 8};
    plan_t *plan = NULL;
    (void)state;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_ERR_UNREACHABLE);
    assert_non_null(strstr(blink_error_text(), "rank 5 (gpu5) to rank 0 (gpu0)"));
    topo_destroy(topo);
}

static void test_what_an_algorithm_does_not_do_is_said(void **state)
{
    static const struct {
        blink_algorithm_t algorithm;
        blink_collective_t collective;
        const char *text;
    } refused[] = {
        {BLINK_ALGORITHM_BINOMIAL, BLINK_ALLGATHER, "binomial does no allgather"},
        {BLINK_ALGORITHM_BINOMIAL, BLINK_ALLTOALL, "binomial does no alltoall"},
        {BLINK_ALGORITHM_RECURSIVE_DOUBLING, BLINK_BROADCAST, "recursive-doubling does no broadcast"},
        {BLINK_ALGORITHM_RECURSIVE_DOUBLING, BLINK_SENDRECV, "recursive-doubling does no sendrecv"}};
    topo_t *topo = load("dgx2");
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_null(make(topo, refused[i].collective, refused[i].algorithm, 4, 0, 1));
        assert_string_equal(blink_error_text(), refused[i].text);
    }
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_block_is_carried_once_by_spanning_trees_or_routes),
        cmocka_unit_test(test_one_hop_takes_one_hop_there_and_one_back),
        cmocka_unit_test(test_depth_is_the_logarithm_of_the_ranks),
        cmocka_unit_test(test_recursive_doubling_goes_along_the_hypercube_nearest_partner_first),
        cmocka_unit_test(test_binomial_tree_enters_each_host_once),
        cmocka_unit_test(test_blocks_go_along_the_binomial_tree),
        cmocka_unit_test(test_parallel_switches_are_loaded_alike),
        cmocka_unit_test(test_ranks_without_a_path_are_named),
        cmocka_unit_test(test_what_an_algorithm_does_not_do_is_said),
    };
    return cmocka_run_group_tests_name("latency", tests, NULL, NULL);
}
