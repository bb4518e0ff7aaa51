/*
 * Plans of many like hosts: made for one orbit of a symmetry, stored as templates, and right once written
 * out. What is checked is the step from template to plan, on topologies that are like, nearly like and not at
 * all alike.
 */
#include "plan_checks.h"

static const blink_collective_t tree_collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST, BLINK_REDUCE,
                                                      BLINK_ALLGATHER, BLINK_REDUCESCATTER};
#define TREE_COLLECTIVES (sizeof(tree_collectives) / sizeof(tree_collectives[0]))

/* Every gpu but some, in an order that no rotation keeps if `shuffled`. */
typedef struct pick {
    uint32_t first_missing, missing;
    bool shuffled;
} pick_t;

static const pick_t all_gpus = {0, 0, false};

static uint32_t *pick_ranks(const topo_t *topo, pick_t pick, uint32_t *count)
{
    uint32_t *nodes = malloc(topo->gpu_count * sizeof(*nodes)), state = 12345;
    *count = 0;
    for (uint32_t gpu = 0; gpu < topo->gpu_count; gpu++)
        if (gpu < pick.first_missing || gpu - pick.first_missing >= pick.missing)
            nodes[(*count)++] = topo->gpus[gpu];
    for (uint32_t i = *count; pick.shuffled && i > 1; i--) {
        state = state * 1664525u + 1013904223u;
        uint32_t other = (state >> 8) % i, node = nodes[i - 1];
        nodes[i - 1] = nodes[other];
        nodes[other] = node;
    }
    return nodes;
}

static plan_t *make_stored(const topo_t *topo, blink_collective_t collective, pick_t pick, uint32_t root)
{
    plan_request_t request = {.collective = collective, .algorithm = BLINK_ALGORITHM_TREES, .root = root};
    uint32_t *nodes = pick_ranks(topo, pick, &request.rank_count);
    plan_t *plan = NULL;
    request.rank_node = nodes;
    blink_result_t result = plan_create(topo, &request, &plan);
    free(nodes);
    if (result != BLINK_OK)
        fail_msg("%s %s from %u: %s", topo->name, blink_name_collective(collective), root,
                 blink_error_text());
    return plan;
}

/* Each symmetry is a bijection of ranks and of links that keeps capacities, ends and the root, and closes. */
static void check_symmetry(const topo_t *topo, const plan_t *plan, const plan_symmetry_t *symmetry)
{
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t at = rank;
        for (uint32_t i = 0; i < symmetry->order; i++)
            at = symmetry->rank_image[at];
        assert_int_equal(at, rank);
    }
    if (plan->root != PLAN_NONE)
        assert_int_equal(symmetry->rank_image[plan->root], plan->root);
    for (uint32_t link = 0; link < topo->link_count; link++) {
        const topo_link_t *one = &topo->links[link], *image = &topo->links[symmetry->link_image[link]];
        assert_close(image->GBps, one->GBps);
        uint32_t at = link;
        for (uint32_t i = 0; i < symmetry->order; i++)
            at = symmetry->link_image[at];
        assert_int_equal(at, link);
        for (uint32_t rank = 0; rank < plan->rank_count; rank++)
            if (plan->rank_node[rank] == one->from)
                assert_int_equal(image->from, plan->rank_node[symmetry->rank_image[rank]]);
    }
}

static void assert_same_loads(const topo_t *topo, const plan_t *stored, const plan_t *expanded)
{
    double *one = malloc(topo->link_count * sizeof(*one)), *other = malloc(topo->link_count * sizeof(*other));
    assert_int_equal(plan_link_loads(topo, stored, one), BLINK_OK);
    assert_int_equal(plan_link_loads(topo, expanded, other), BLINK_OK);
    for (uint32_t link = 0; link < topo->link_count; link++)
        if (fabs(one[link] - other[link]) > 1e-9)
            fail_msg("%s: link %u carries %g, written out %g", topo->name, link, one[link], other[link]);
    free(one);
    free(other);
}

/* The stored plan and the plan written out promise the same, and keep it. */
static void check_stored(const topo_t *topo, const plan_t *stored)
{
    plan_t *expanded = NULL;
    for (uint32_t i = 0; i < stored->symmetry_count; i++)
        check_symmetry(topo, stored, &stored->symmetries[i]);
    assert_int_equal(plan_expand(topo, stored, &expanded), BLINK_OK);
    assert_int_equal(expanded->symmetry_count, 0);
    assert_int_equal(expanded->channel_count, stored->channel_count * plan_image_count(stored));
    assert_int_equal(plan_tree_count(expanded), plan_tree_count(stored));
    assert_same_loads(topo, stored, expanded);
    check_plan(topo, expanded);
    if (stored->rate_GBps < 0.99 * stored->bound_GBps)
        fail_msg("%s %s from %u: %f of %f", topo->name, blink_name_collective(stored->collective),
                 stored->root, stored->rate_GBps, stored->bound_GBps);
    plan_destroy(expanded);
}

static uint64_t check_made(const topo_t *topo, blink_collective_t collective, pick_t pick, uint32_t root)
{
    plan_t *plan = make_stored(topo, collective, pick, root);
    uint64_t images = plan_image_count(plan);
    check_stored(topo, plan);
    plan_destroy(plan);
    return images;
}

/* All tree collectives; fewest images that a plan was stored as. */
static uint64_t check_all(const topo_t *topo, pick_t pick, uint32_t root)
{
    uint64_t fewest = UINT64_MAX;
    for (size_t i = 0; i < TREE_COLLECTIVES; i++) {
        uint64_t images = check_made(topo, tree_collectives[i], pick, root);
        fewest = images < fewest ? images : fewest;
    }
    return fewest;
}

/* ---- like hosts ---- */

static void test_plans_of_like_hosts_are_templates_that_expand_to_right_plans(void **state)
{
    (void)state;
    static const char *const names[] = {"4xdgx1v", "3xdgx1p", "5xpcie4", "3xdgx_a100"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *topo = load(names[i]);
        assert_true(check_all(topo, all_gpus, 0) > 1);
        topo_destroy(topo);
    }
}

/* Enough trees for fixed ones to leave the program no solution but for rounding. */
static void test_two_hosts_of_sixteen_gpus_are_planned_without_a_dead_end(void **state)
{
    (void)state;
    topo_t *topo = load("2xdgx2");
    check_all(topo, all_gpus, 0);
    check_all(topo, all_gpus, 21);
    topo_destroy(topo);
}

static void test_any_rank_may_be_the_root_of_a_template(void **state)
{
    (void)state;
    topo_t *topo = load("5xpcie4");
    for (uint32_t root = 0; root < topo->gpu_count; root++) {
        assert_true(check_made(topo, BLINK_BROADCAST, all_gpus, root) > 1);
        assert_true(check_made(topo, BLINK_REDUCE, all_gpus, root) > 1);
    }
    topo_destroy(topo);
}

static void test_sixteen_h100_hosts_are_symmetric_by_host_and_by_gpu(void **state)
{
    (void)state;
    topo_t *topo = load("16xdgx_h100");
    assert_int_equal(check_made(topo, BLINK_ALLREDUCE, all_gpus, 0), 128);
    assert_int_equal(check_made(topo, BLINK_ALLGATHER, all_gpus, 0), 128);
    /* Fifteen other hosts, seven other gpus of the root's host, eight of each other's. */
    assert_int_equal(check_made(topo, BLINK_BROADCAST, all_gpus, 77), 15 * 7 * 8);
    topo_destroy(topo);
}

static void test_many_dgx1_hosts_gather_by_one_tree_for_each_device_of_a_host(void **state)
{
    (void)state;
    topo_t *topo = load("64xdgx1v");
    for (uint32_t i = 0; i < 2; i++) {
        plan_t *plan = make_stored(topo, i == 0 ? BLINK_ALLGATHER : BLINK_REDUCESCATTER, all_gpus, 0);
        assert_int_equal(plan->channel_count, 8);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_the_order_of_ranks_does_not_matter(void **state)
{
    (void)state;
    topo_t *topo = load("4xdgx1v");
    pick_t shuffled = {0, 0, true};
    assert_true(check_all(topo, shuffled, 9) > 1);
    topo_destroy(topo);
}

static void test_gpus_that_are_all_joined_are_symmetric_without_hosts(void **state)
{
    (void)state;
    enum { GPUS = 24 };
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    char ids[GPUS][8];
    assert_int_equal(topo_build_create("complete", "test", &builder), BLINK_OK);
    for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
        (void)snprintf(ids[gpu], sizeof(ids[gpu]), "gpu%u", gpu);
        topo_node_t node = {.id = ids[gpu], .host = (char[]){"h"}, .kind = TOPO_DEVICE};
        assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
        for (uint32_t other = 0; other < gpu; other++)
            assert_int_equal(topo_build_link(builder, ids[gpu], ids[other], TOPO_NVLINK, 25.0, 1, 1.0, true),
                             BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    assert_true(check_all(topo, all_gpus, 5) >= GPUS - 1);
    topo_destroy(topo);
}

/* With the root alone on its host its own block is one, where every other stands for its like on three hosts.
 */
static void test_templates_of_routes_carry_every_block_alike(void **state)
{
    (void)state;
    static const blink_collective_t routed[] = {BLINK_GATHER, BLINK_SCATTER, BLINK_ALLTOALL};
    topo_t *topo = load("4xdgx1v");
    pick_t picks[] = {{1, 7, false}, {1, 7, true}, {1, 1, false}};
    for (size_t i = 0; i < 9; i++)
        check_made(topo, routed[i % 3], picks[i / 3], 0);
    topo_destroy(topo);
}

/* ---- hosts that differ ---- */

/* The link from host h's first NIC to the network, and back. */
static void scale_nic(topo_t *topo, uint32_t host_index, double factor)
{
    uint32_t net = topo_find_node(topo, "net");
    char host[16];
    (void)snprintf(host, sizeof(host), "n%u", host_index);
    for (uint32_t node = 0; node < topo->node_count; node++) {
        uint32_t out = topo_find_link(topo, node, net), back = topo_find_link(topo, net, node);
        if (strcmp(topo->nodes[node].host, host) != 0 || out == TOPO_NONE)
            continue;
        topo->links[out].GBps *= factor;
        topo->links[back].GBps *= factor;
        return;
    }
    fail_msg("%s has no NIC on %s", topo->name, host);
}

static void test_a_host_with_a_slower_nic_is_left_out_of_the_symmetry(void **state)
{
    (void)state;
    static const char *const names[] = {"5xpcie4", "4xdgx1v"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *topo = load(names[i]);
        scale_nic(topo, 1, 0.5);
        check_all(topo, all_gpus, 0);
        check_all(topo, all_gpus, topo->gpu_count / 2);
        topo_destroy(topo);
    }
}

static void test_a_gpu_that_is_no_rank_does_not_spoil_the_plan(void **state)
{
    (void)state;
    static const char *const names[] = {"5xpcie4", "3xdgx1p"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *topo = load(names[i]);
        for (uint32_t missing = 0; missing < topo->gpu_count; missing += topo->gpu_count / 3) {
            pick_t pick = {missing, 1, missing % 2 == 0};
            check_all(topo, pick, 3);
        }
        topo_destroy(topo);
    }
}

/* ---- proof ---- */

/* Whichever link differs, no symmetry may take it to another. */
static void test_a_link_that_differs_from_its_images_is_kept_in_place(void **state)
{
    (void)state;
    topo_t *topo = load("5xpcie4");
    for (uint32_t link = 0; link < topo->link_count; link += 3) {
        double GBps = topo->links[link].GBps;
        topo->links[link].GBps = 0.875 * GBps;
        plan_t *plan = make_stored(topo, BLINK_ALLREDUCE, all_gpus, 0);
        for (uint32_t i = 0; i < plan->symmetry_count; i++)
            assert_int_equal(plan->symmetries[i].link_image[link], link);
        check_stored(topo, plan);
        plan_destroy(plan);
        topo->links[link].GBps = GBps;
    }
    topo_destroy(topo);
}

static void test_a_link_that_differs_by_a_hair_breaks_the_symmetry(void **state)
{
    (void)state;
    topo_t *topo = load("4xdgx1v");
    topo->links[5].GBps *= 1.0 + 1e-6;
    for (size_t i = 0; i < TREE_COLLECTIVES; i++) {
        plan_t *plan = make_stored(topo, tree_collectives[i], all_gpus, 3);
        for (uint32_t j = 0; j < plan->symmetry_count; j++)
            assert_int_equal(plan->symmetries[j].link_image[5], 5);
        check_stored(topo, plan);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_of_like_hosts_are_templates_that_expand_to_right_plans),
        cmocka_unit_test(test_two_hosts_of_sixteen_gpus_are_planned_without_a_dead_end),
        cmocka_unit_test(test_any_rank_may_be_the_root_of_a_template),
        cmocka_unit_test(test_sixteen_h100_hosts_are_symmetric_by_host_and_by_gpu),
        cmocka_unit_test(test_many_dgx1_hosts_gather_by_one_tree_for_each_device_of_a_host),
        cmocka_unit_test(test_the_order_of_ranks_does_not_matter),
        cmocka_unit_test(test_gpus_that_are_all_joined_are_symmetric_without_hosts),
        cmocka_unit_test(test_templates_of_routes_carry_every_block_alike),
        cmocka_unit_test(test_a_host_with_a_slower_nic_is_left_out_of_the_symmetry),
        cmocka_unit_test(test_a_gpu_that_is_no_rank_does_not_spoil_the_plan),
        cmocka_unit_test(test_a_link_that_differs_from_its_images_is_kept_in_place),
        cmocka_unit_test(test_a_link_that_differs_by_a_hair_breaks_the_symmetry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
