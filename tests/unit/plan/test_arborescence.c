/*
 * Cheapest trees over priced paths, near ones and such across hubs: they cost what the bound, which shares no
 * code with the planner and knows no hubs, says that the cheapest trees cost.
 */
#include "plan_checks.h"

#include "plan/bound/bound.h"
#include "plan/trees/arborescence.h"

/* Paths over the working graph of an AllGather of all devices. */
typedef struct fixture {
    topo_t *topo;
    plan_t plan;
    plan_symmetry_t *symmetries;
    uint32_t symmetry_count, n;
    pack_net_t *net;
    pack_paths_t paths;
    pack_arborist_t arborist;
    uint32_t *parent;
    double *in_cost, *root_cost, *prices;
} fixture_t;

static void set_up(fixture_t *f, topo_t *topo, bool symmetric)
{
    *f = (fixture_t){.topo = topo,
                     .plan = {.collective = BLINK_ALLGATHER,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .root = PLAN_NONE,
                              .peer = PLAN_NONE},
                     .n = topo->gpu_count};
    if (symmetric)
        assert_int_equal(pack_find_symmetries(topo, &f->plan, &f->symmetries, &f->symmetry_count), BLINK_OK);
    assert_int_equal(pack_net_create(topo, &f->plan, NULL, f->symmetries, f->symmetry_count, &f->net),
                     BLINK_OK);
    assert_int_equal(pack_paths_init(&f->paths, f->net), BLINK_OK);
    assert_int_equal(pack_arborist_init(&f->arborist, &f->paths), BLINK_OK);
    f->parent = calloc(f->n, sizeof(*f->parent));
    f->in_cost = calloc((size_t)f->n * f->n, sizeof(*f->in_cost));
    f->root_cost = calloc(f->n, sizeof(*f->root_cost));
    f->prices = calloc(f->net->row_count, sizeof(*f->prices));
}

static void tear_down(fixture_t *f)
{
    pack_arborist_fini(&f->arborist);
    pack_paths_fini(&f->paths);
    pack_net_destroy(f->net);
    pack_free_symmetries(f->symmetries, f->symmetry_count);
    topo_destroy(f->topo);
    free(f->parent);
    free(f->in_cost);
    free(f->root_cost);
    free(f->prices);
}

/* A third of the rows costs nothing. */
static void roll_prices(fixture_t *f, dice_t *dice)
{
    for (uint32_t row = 0; row < f->net->row_count; row++)
        f->prices[row] = fmax(0.0, roll_part(dice) - 1.0 / 3.0);
    pack_paths_price(&f->paths, f->prices);
}

static double edge_cost(const fixture_t *f, uint32_t parent, uint32_t child, bool toward_root)
{
    return toward_root ? f->paths.cost[child * f->n + parent] : f->paths.cost[parent * f->n + child];
}

/* What the tree in parent[] costs; fails unless every rank hangs on the root. */
static double tree_cost(const fixture_t *f, uint32_t root, bool toward_root)
{
    double cost = 0.0;
    for (uint32_t rank = 0; rank < f->n; rank++) {
        uint32_t steps = 0;
        for (uint32_t at = rank; at != root; at = f->parent[at])
            assert_true(steps++ < f->n);
        if (rank != root)
            cost += edge_cost(f, f->parent[rank], rank, toward_root);
    }
    assert_int_equal(f->parent[root], PLAN_NONE);
    return cost;
}

static void check_trees(fixture_t *f, bool toward_root)
{
    for (uint32_t parent = 0; parent < f->n; parent++)
        for (uint32_t child = 0; child < f->n; child++)
            f->in_cost[child * f->n + parent] =
                parent == child ? INFINITY : edge_cost(f, parent, child, toward_root);
    assert_int_equal(bound_tree_costs(f->in_cost, f->n, f->root_cost), BLINK_OK);
    for (uint32_t root = 0; root < f->n; root += 1 + f->n / 8) {
        pack_arborist_grow(&f->arborist, root, toward_root, NULL, f->parent);
        assert_true(fabs(tree_cost(f, root, toward_root) - f->root_cost[root]) <= 1e-9 * f->n);
    }
}

/* The way across a hub is never cheaper than the cheapest, and is the cheapest of ranks that are not near. */
static void check_hubs(const fixture_t *f)
{
    for (uint32_t from = 0; from < f->n; from++)
        for (uint32_t to = 0; to < f->n; to++) {
            double across = INFINITY, cost = f->paths.cost[from * f->n + to];
            bool near = from == to;
            for (uint32_t i = 0; i < f->paths.hub_count; i++)
                across = fmin(across, f->paths.hubs[i].to[from] + f->paths.hubs[i].from[to]);
            for (uint32_t i = f->paths.out_first[from]; i < f->paths.out_first[from + 1]; i++)
                near |= f->paths.out_to.items[i] == to;
            assert_true(across >= cost - 1e-12);
            assert_true(near || across <= cost + 1e-12 || (isinf(across) && isinf(cost)));
        }
}

static void check(topo_t *topo, bool symmetric, uint32_t hubs)
{
    fixture_t f;
    dice_t dice = {1};
    set_up(&f, topo, symmetric);
    assert_int_equal(f.paths.hub_count, hubs);
    assert_int_equal(f.symmetry_count > 0, symmetric);
    for (uint32_t round = 0; round < 5; round++) {
        roll_prices(&f, &dice);
        check_hubs(&f);
        check_trees(&f, false);
        check_trees(&f, true);
    }
    tear_down(&f);
}

/* Hosts of 33 devices, each device on the host's switch and, by a link that goes one way, on the next device.
 * The switches are joined. `narrow`: a second switch, that is no multiple of the first, joins each host too.
 */
static topo_t *make_hosts(uint32_t hosts, bool narrow)
{
    const uint32_t devices = 33;
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    char ids[2][16], host[16];
    assert_int_equal(topo_build_create("hosts", "test", &builder), BLINK_OK);
    for (uint32_t h = 0; h < hosts; h++) {
        snprintf(host, sizeof(host), "h%u", h);
        for (uint32_t i = 0; i <= devices + (narrow ? 1u : 0u); i++) {
            snprintf(ids[0], sizeof(ids[0]), "h%u.%u", h, i);
            topo_node_t node = {.id = ids[0], .host = host, .kind = i < devices ? TOPO_DEVICE : TOPO_SWITCH};
            assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
        }
        for (uint32_t i = 0; i < devices; i++) {
            snprintf(ids[0], sizeof(ids[0]), "h%u.%u", h, i);
            for (uint32_t s = 0; s <= (narrow ? 1u : 0u); s++) {
                snprintf(ids[1], sizeof(ids[1]), "h%u.%u", h, devices + s);
                assert_int_equal(topo_build_link(builder, ids[0], ids[1], TOPO_NVLINK,
                                                 s == 0 ? 25.0 : 1.0 + i, 1, 1.0, true),
                                 BLINK_OK);
            }
            snprintf(ids[1], sizeof(ids[1]), "h%u.%u", h, (i + 1) % devices);
            assert_int_equal(topo_build_link(builder, ids[0], ids[1], TOPO_NVLINK, 5.0, 1, 1.0, false),
                             BLINK_OK);
        }
    }
    for (uint32_t h = 1; h < hosts; h++) {
        snprintf(ids[0], sizeof(ids[0]), "h%u.%u", h - 1, devices);
        snprintf(ids[1], sizeof(ids[1]), "h%u.%u", h, devices);
        assert_int_equal(topo_build_link(builder, ids[0], ids[1], TOPO_NET, 10.0, 1, 1.0, true), BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

static void test_trees_over_near_ranks_alone_are_cheapest(void **state)
{
    (void)state;
    check(load("dgx1v"), false, 0);
    check(load("2x_dgx1v_100g"), false, 0);
    check(load("dgx2"), false, 0);
}

static void test_trees_across_a_network_are_cheapest(void **state)
{
    (void)state;
    check(load("8xdgx1v"), false, 1);
    check(load("16xdgx1v"), true, 1);
}

static void test_trees_across_several_hubs_are_cheapest(void **state)
{
    (void)state;
    check(make_hosts(1, true), false, 2);
    check(make_hosts(2, false), false, 2);
    check(make_hosts(3, true), false, 6);
}

static void test_symmetries_take_hubs_to_hubs(void **state)
{
    (void)state;
    check(make_hosts(2, true), true, 4);
}

static void test_too_many_hubs_are_none(void **state)
{
    (void)state;
    check(make_hosts(9, false), false, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees_over_near_ranks_alone_are_cheapest),
        cmocka_unit_test(test_trees_across_a_network_are_cheapest),
        cmocka_unit_test(test_trees_across_several_hubs_are_cheapest),
        cmocka_unit_test(test_symmetries_take_hubs_to_hubs),
        cmocka_unit_test(test_too_many_hubs_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
