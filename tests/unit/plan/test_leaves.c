/*
 * Plans over hosts on several switches: rings cross what joins the switches as seldom as can be, and trees
 * reach what the narrowest of it allows.
 */
#include "plan/columns/symmetry.h"
#include "plan_checks.h"
#include "topo/network.h"

#define HOSTS_MAX  16u
#define RANKS_MOST 32u

/* Two pods of two leaves; hosts are dealt to the four leaves in turns, as ranks follow one another. */
#define PODS                                                                                                 \
    "[nics]\n"                                                                                               \
    "n0/* = a1\nn4/* = a1\nn1/* = b1\nn5/* = b1\nn2/* = a2\nn6/* = a2\nn3/* = b2\nn7/* = b2\n"               \
    "[links]\n"                                                                                              \
    "a[1-2] poda = 10\nb[1-2] podb = 10\npoda core = 10\npodb core = 10\n"

/* Two leaves, over which hosts are dealt in turns, under two spines. */
#define SPINES                                                                                               \
    "[nics]\n"                                                                                               \
    "n[0-0]/* = leaf1\nn2/* = leaf1\n*/* = leaf2\n"                                                          \
    "[links]\n"                                                                                              \
    "leaf[1-2] spine[1-2] = "

static topo_t *host_in(const fabric_file_t *file, const topo_t *local, uint32_t host)
{
    char name[16];
    const topo_nic_t nic = {"eth0", 5};
    topo_t *topo = NULL;
    snprintf(name, sizeof(name), "n%u", host);
    if (topo_add_network(local, &nic, 1, &(topo_fabric_t){.file = file, .host = name}, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

/* So many hosts of one kind. */
static topo_t *hosts_in(const char *fabric, const char *kind, uint32_t host_count)
{
    FILE *open = fmemopen((void *)(uintptr_t)fabric, strlen(fabric), "r");
    topo_t *local = load(kind), *topos[HOSTS_MAX], *joined = NULL;
    char names[HOSTS_MAX][16];
    topo_host_t hosts[HOSTS_MAX];
    fabric_file_t *file = NULL;
    if (!open || fabric_file_read_open(open, "fabric", &file) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    for (uint32_t i = 0; i < host_count; i++) {
        snprintf(names[i], sizeof(names[i]), "n%u", i);
        topos[i] = host_in(file, local, i);
        hosts[i] = (topo_host_t){names[i], topos[i]};
    }
    if (topo_join(hosts, host_count, &joined) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    for (uint32_t i = 0; i < host_count; i++)
        topo_destroy(topos[i]);
    fabric_file_destroy(file);
    topo_destroy(local);
    fclose(open);
    return joined;
}

/* Ranks that divide the devices evenly: as many as there are hosts are the first device of each. */
static plan_t *plan_over(const topo_t *topo, uint32_t rank_count, blink_algorithm_t algorithm)
{
    uint32_t nodes[RANKS_MOST];
    for (uint32_t i = 0; i < rank_count; i++)
        nodes[i] = topo->gpus[i * topo->gpu_count / rank_count];
    plan_request_t request = {
        .collective = BLINK_ALLREDUCE, .algorithm = algorithm, .rank_node = nodes, .rank_count = rank_count};
    plan_t *plan = NULL;
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    check_plan(topo, plan);
    return plan;
}

/* How often the channel's first broadcast tree, or its ring if it is one that is closed, crosses a link. */
static uint32_t crossings(const topo_t *topo, const plan_t *plan, uint32_t channel, const char *from,
                          const char *to)
{
    const plan_tree_t *tree = &plan->channels[channel].parts[0].broadcast;
    uint32_t link = topo_find_link(topo, topo_find_node(topo, from), topo_find_node(topo, to)), count = 0;
    assert_int_not_equal(link, TOPO_NONE);
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        for (uint32_t i = 0; tree->parent[rank] != PLAN_NONE && i < plan->paths[tree->path[rank]].link_count;
             i++)
            count += plan->paths[tree->path[rank]].links[i] == link;
    return count;
}

static void test_rings_go_past_a_pod_before_they_leave_it(void **state)
{
    (void)state;
    topo_t *topo = hosts_in(PODS, "1xpcie4@5", 8);
    plan_t *plan = plan_over(topo, 8, BLINK_ALGORITHM_RING);
    /* A broadcast goes round but for its last step, which leads back into the first leaf. */
    for (uint32_t channel = 0; channel < plan->channel_count; channel++) {
        assert_int_equal(crossings(topo, plan, channel, "net/poda", "net/core"), 1);
        assert_int_equal(crossings(topo, plan, channel, "net/podb", "net/core"), 0);
        for (uint32_t leaf = 1; leaf <= 2; leaf++) {
            char a[16], b[16];
            snprintf(a, sizeof(a), "net/a%u", leaf);
            snprintf(b, sizeof(b), "net/b%u", leaf);
            assert_int_equal(crossings(topo, plan, channel, a, "net/poda"), 1);
            assert_int_equal(crossings(topo, plan, channel, b, "net/podb"), leaf == 1);
        }
    }
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_a_narrow_spine_bounds_what_trees_and_rings_reach(void **state)
{
    (void)state;
    topo_t *topo = hosts_in(SPINES "0.5\n", "1xpcie4@5", 4);
    plan_t *trees = plan_over(topo, 4, BLINK_ALGORITHM_TREES),
           *ring = plan_over(topo, 4, BLINK_ALGORITHM_RING);
    /* Half of the payload leaves each leaf by either spine; a ring takes 6/4 of it round. */
    assert_close(trees->bound_GBps, 1.0);
    assert_close(trees->rate_GBps, 1.0);
    assert_in_range(ring->rate_GBps * 1000, 300, 1000);
    plan_destroy(ring);
    plan_destroy(trees);
    topo_destroy(topo);
}

static void test_rails_take_turns_in_spines(void **state)
{
    (void)state;
    topo_t *topo = hosts_in(SPINES "10\n", "1xdgx1v@5", 4);
    plan_t *plan = plan_over(topo, 32, BLINK_ALGORITHM_RING);
    uint32_t crossed[2] = {0};
    for (uint32_t channel = 0; channel < plan->channel_count; channel++) {
        crossed[0] += crossings(topo, plan, channel, "net/leaf1", "net/spine1");
        crossed[1] += crossings(topo, plan, channel, "net/leaf1", "net/spine2");
    }
    assert_int_equal(crossed[0], crossed[1]);
    assert_true(crossed[0] > 0);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_hosts_of_leaves_that_are_alike_are_alike(void **state)
{
    (void)state;
    static const struct {
        const char *fabric;
        uint32_t hosts, images;
    } cases[] = {
        {SPINES "10\n", 4, 4}, /* hosts are dealt to the leaves */
        {"[nics]\nn[0-3]/* = leaf1\nn[4-7]/* = leaf2\nn[8-11]/* = leaf3\n"
         "[links]\nleaf[1-3] spine[1-2] = 20\n",
         12, 12},
        {"[nics]\nn[0-2]/* = leaf1\n*/* = leaf2\n[links]\nleaf[1-2] spine = 20\n", 4, 1}, /* not alike */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        topo_t *topo = hosts_in(cases[i].fabric, "1xpcie4@5", cases[i].hosts);
        plan_t *plan = plan_over(topo, cases[i].hosts, BLINK_ALGORITHM_TREES);
        plan_symmetry_t *symmetries = NULL;
        uint32_t count = 0, images = 1;
        assert_int_equal(pack_find_symmetries(topo, plan, &symmetries, &count), BLINK_OK);
        for (uint32_t k = 0; k < count; k++)
            images *= symmetries[k].order;
        assert_int_equal(images, cases[i].images);
        pack_free_symmetries(symmetries, count);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

static void test_rails_that_nothing_joins(void **state)
{
    (void)state;
    topo_t *topo = hosts_in("[nics]\n*/nic0 = r0\n*/nic1 = r1\n*/nic2 = r2\n*/nic3 = r3\n", "1xdgx1v@5", 3);
    for (uint32_t i = 0; i < 3; i++) {
        static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_RING,
                                                       BLINK_ALGORITHM_DOUBLE_BINARY_TREE};
        plan_t *plan = plan_over(topo, 3, algorithms[i]);
        if (i == 0)
            assert_close(plan->rate_GBps, plan->bound_GBps);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings_go_past_a_pod_before_they_leave_it),
        cmocka_unit_test(test_a_narrow_spine_bounds_what_trees_and_rings_reach),
        cmocka_unit_test(test_rails_take_turns_in_spines),
        cmocka_unit_test(test_hosts_of_leaves_that_are_alike_are_alike),
        cmocka_unit_test(test_rails_that_nothing_joins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
