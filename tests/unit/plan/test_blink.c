/*
 * Blink by name: the published numbers of trees and rates, every connected subset of a DGX-1 against the
 * optimum, one hop behind NVSwitches, the poster's groups, the hybrid split, three phases across servers.
 */
#include "error.h"
#include "plan/baseline/blink/blink.h"
#include "plan/baseline/blink/blink_parts.h"
#include "plan/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS_MAX 32u

static topo_t *load(const char *what)
{
    topo_t *topo = NULL;
    if (topo_load(what, &topo) != BLINK_OK)
        fail_msg("%s: %s", what, blink_error_text());
    return topo;
}

static topo_t *parse(const char *text)
{
    topo_t *topo = NULL;
    if (topo_parse_json(text, strlen(text), "test", &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

/* Gpus named by the bits of a mask, in device order. */
static uint32_t choose(const topo_t *topo, uint32_t mask, uint32_t *nodes)
{
    uint32_t count = 0;
    for (uint32_t gpu = 0; gpu < topo->gpu_count; gpu++)
        if ((mask >> gpu & 1u) != 0)
            nodes[count++] = topo->gpus[gpu];
    return count;
}

static plan_t *make_for(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm,
                        uint32_t mask, uint32_t root, uint64_t bytes)
{
    uint32_t nodes[RANKS_MAX];
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = nodes,
                              .rank_count = choose(topo, mask, nodes),
                              .root = root,
                              .bytes = bytes};
    plan_t *plan = NULL;
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s, gpus %#x: %s", topo->name, mask, blink_error_text());
    return plan;
}

static plan_t *make(const topo_t *topo, blink_collective_t collective, uint32_t mask)
{
    return make_for(topo, collective, BLINK_ALGORITHM_BLINK, mask, 0, 0);
}

/* The channels alone, for collectives whatever bounds there are for them. */
static plan_t *fill(const topo_t *topo, blink_collective_t collective, uint32_t mask, uint32_t root)
{
    plan_t *plan = calloc(1, sizeof(*plan));
    *plan = (plan_t){.collective = collective,
                     .algorithm = BLINK_ALGORITHM_BLINK,
                     .rank_node = malloc(RANKS_MAX * sizeof(uint32_t)),
                     .root = collective_has_root(collective) ? root : PLAN_NONE,
                     .peer = PLAN_NONE};
    plan->rank_count = choose(topo, mask, plan->rank_node);
    if (plan_blink(topo, 0, plan) != BLINK_OK)
        fail_msg("%s, gpus %#x: %s", topo->name, mask, blink_error_text());
    assert_int_equal(plan_rate_GBps(topo, plan, &plan->rate_GBps), BLINK_OK);
    return plan;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-3 * expected))
        fail_msg("%.6f is not %.6f", value, expected);
}

/* The path leads from one rank's node to the other's, through no gpu. */
static void check_path(const topo_t *topo, const plan_t *plan, uint32_t index, uint32_t from, uint32_t to)
{
    assert_true(index < plan->path_count);
    const plan_path_t *path = &plan->paths[index];
    uint32_t at = plan->rank_node[from];
    for (uint32_t i = 0; i < path->link_count; i++) {
        assert_true(path->links[i] < topo->link_count);
        const topo_link_t *link = &topo->links[path->links[i]];
        assert_int_equal(link->from, at);
        at = link->to;
        assert_true(i + 1 == path->link_count || topo->nodes[at].kind != TOPO_DEVICE);
    }
    assert_int_equal(at, plan->rank_node[to]);
}

static void check_tree(const topo_t *topo, const plan_t *plan, const plan_tree_t *tree, uint32_t root,
                       bool reduce)
{
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t at = rank, hops = 0;
        for (; tree->parent[at] != PLAN_NONE && hops < plan->rank_count; hops++)
            at = tree->parent[at];
        assert_int_equal(at, root);
        if (rank != root)
            check_path(topo, plan, tree->path[rank], reduce ? rank : tree->parent[rank],
                       reduce ? tree->parent[rank] : rank);
    }
}

/* Trees that span and carry what the collective asks of every root. */
static void check_plan(const topo_t *topo, const plan_t *plan)
{
    double given[RANKS_MAX] = {0}, sum = 0.0;
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        assert_true(channel->share > 0.0);
        sum += channel->share;
        for (uint32_t i = 0; i < channel->part_count; i++) {
            const plan_part_t *part = &channel->parts[i];
            given[part->root] += channel->share / channel->part_count;
            assert_true(plan->root == PLAN_NONE || part->root == plan->root);
            assert_int_equal(part->reduce.parent != NULL, collective_reduces(plan->collective));
            assert_int_equal(part->broadcast.parent != NULL, collective_broadcasts(plan->collective));
            if (part->broadcast.parent != NULL)
                check_tree(topo, plan, &part->broadcast, part->root, false);
            if (part->reduce.parent != NULL)
                check_tree(topo, plan, &part->reduce, part->root, true);
        }
    }
    assert_true(fabs(sum - 1.0) <= 1e-12);
    for (uint32_t rank = 0; collective_per_rank(plan->collective) && rank < plan->rank_count; rank++)
        assert_true(fabs(given[rank] - 1.0 / plan->rank_count) <= 1e-9);
    assert_true(plan->rate_GBps > 0.0);
    assert_true(plan->bound_GBps <= 0.0 || plan->rate_GBps <= plan->bound_GBps * (1.0 + 1e-6));
}

/* Whether NVLink joins the gpus of the mask. */
static bool connected(const topo_t *topo, uint32_t mask)
{
    uint32_t seen = mask & (~mask + 1u);
    for (uint32_t round = 0; round < topo->gpu_count; round++)
        for (uint32_t link = 0; link < topo->link_count; link++)
            for (uint32_t i = 0, from = 0, to = 0; i < topo->gpu_count; i++) {
                from |= topo->gpus[i] == topo->links[link].from ? 1u << i : 0;
                to |= topo->gpus[i] == topo->links[link].to ? 1u << i : 0;
                if (i + 1 == topo->gpu_count && (seen & from) != 0)
                    seen |= to & mask;
            }
    return seen == mask;
}

static void test_full_dgx1v_broadcast_takes_six_unit_trees(void **state)
{
    topo_t *topo = load("dgx1v");
    (void)state;
    for (uint32_t root = 0; root < 8; root++) {
        plan_t *plan = make_for(topo, BLINK_BROADCAST, BLINK_ALGORITHM_BLINK, 0xff, root, 0);
        check_plan(topo, plan);
        assert_int_equal(plan->channel_count, 6);
        assert_near(plan->rate_GBps, 150.0);
        for (uint32_t tree = 0; tree < 6; tree++)
            assert_near(plan->channels[tree].share, 1.0 / 6.0);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* The least cut is the same from every root and a whole number of links, so the 5 % that the integer program
 * may give away are no way out: only the optimum will do. */
static void check_every_root(const topo_t *topo, uint32_t mask, double best_GBps)
{
    for (uint32_t root = 0; root < (uint32_t)__builtin_popcount(mask); root++)
        for (uint32_t k = 0; k < 2; k++) {
            plan_t *plan = fill(topo, k == 0 ? BLINK_BROADCAST : BLINK_REDUCE, mask, root);
            check_plan(topo, plan);
            if (fabs(plan->rate_GBps - best_GBps) > 1e-6 * best_GBps)
                fail_msg("%s, gpus %#x, root %u: %f of %f", topo->name, mask, root, plan->rate_GBps,
                         best_GBps);
            assert_true(plan->channel_count <= (uint32_t)lround(best_GBps / topo->links[0].unit_GBps));
            plan_destroy(plan);
        }
}

/* All gpu subsets of 3 to 8 that NVLink joins. */
static void check_broadcast_subsets(const char *name, uint32_t expected_subsets)
{
    topo_t *topo = load(name);
    uint32_t subsets = 0;
    for (uint32_t mask = 1; mask < 256; mask++) {
        if (__builtin_popcount(mask) < 3 || !connected(topo, mask))
            continue;
        plan_t *best = make_for(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, mask, 0, 0);
        check_every_root(topo, mask, best->bound_GBps);
        plan_destroy(best);
        subsets++;
    }
    topo_destroy(topo);
    assert_int_equal(subsets, expected_subsets);
}

static void test_broadcast_is_as_many_unit_trees_as_the_least_cut_has_links(void **state)
{
    (void)state;
    check_broadcast_subsets("dgx1p", 181);
    check_broadcast_subsets("dgx1v", 181);
}

static void check_allreduce_subsets(const char *name)
{
    topo_t *topo = load(name);
    for (uint32_t mask = 1; mask < 256; mask++) {
        if (__builtin_popcount(mask) < 3 || !connected(topo, mask))
            continue;
        plan_t *plan = make(topo, BLINK_ALLREDUCE, mask);
        check_plan(topo, plan);
        if (plan->rate_GBps < 0.95 * plan->bound_GBps)
            fail_msg("%s, gpus %#x: %f of %f", name, mask, plan->rate_GBps, plan->bound_GBps);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_allreduce_of_undirected_trees_keeps_95_percent_on_every_connected_subset(void **state)
{
    (void)state;
    check_allreduce_subsets("dgx1p");
    check_allreduce_subsets("dgx1v");
}

static void test_allreduce_rotates_the_same_trees(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, 0xff);
    (void)state;
    check_plan(topo, plan);
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_part_t *part = &plan->channels[c].parts[0];
        assert_int_equal(part->root, 0);
        assert_memory_equal(part->reduce.parent, part->broadcast.parent, 8 * sizeof(uint32_t));
    }
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_reduce_is_broadcast_backwards(void **state)
{
    topo_t *topo = load("dgx1v");
    (void)state;
    plan_t *plan = fill(topo, BLINK_REDUCE, 0xff, 3);
    check_plan(topo, plan);
    assert_int_equal(plan->channel_count, 6);
    assert_near(plan->rate_GBps, 150.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* gpu1 is sent to at 10 GB/s and sends at 40: directions must not be mixed up. */
static void test_directions_of_unequal_capacity_are_kept_apart(void **state)
{
    topo_t *topo = parse("{\"schema\": \"blink-topology/1\", \"name\": \"slope\", \"nodes\": ["
                         "{\"id\": \"a\", \"kind\": \"gpu\"}, {\"id\": \"b\", \"kind\": \"gpu\"}],"
                         "\"links\": [{\"from\": \"a\", \"to\": \"b\", \"GBps\": 10, \"duplex\": false,"
                         "\"kind\": \"nvlink\"}, {\"from\": \"b\", \"to\": \"a\", \"GBps\": 40,"
                         "\"duplex\": false, \"kind\": \"nvlink\"}]}");
    static const struct {
        blink_collective_t collective;
        double GBps;
    } known[] = {{BLINK_BROADCAST, 10.0}, {BLINK_REDUCE, 40.0}, {BLINK_ALLREDUCE, 10.0}};
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        plan_t *plan = fill(topo, known[i].collective, 3, 0);
        check_plan(topo, plan);
        assert_near(plan->rate_GBps, known[i].GBps);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_every_rank_has_its_own_packing_for_allgather_and_reducescatter(void **state)
{
    static const char *const names[] = {"dgx1v", "dgx1v_hybrid", "pcie8", "dgx_h100", "2x_dgx1v_100g"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *topo = load(names[i]);
        for (uint32_t k = 0; k < 2; k++) {
            plan_t *plan = fill(topo, k == 0 ? BLINK_ALLGATHER : BLINK_REDUCESCATTER, 0x3f3f, 0);
            check_plan(topo, plan);
            plan_destroy(plan);
        }
        topo_destroy(topo);
    }
}

static void test_parallel_relays_each_carry_their_part(void **state)
{
    topo_t *topo = parse("{\"schema\": \"blink-topology/1\", \"name\": \"rails\", \"nodes\": ["
                         "{\"id\": \"a\", \"kind\": \"gpu\"}, {\"id\": \"b\", \"kind\": \"gpu\"},"
                         "{\"id\": \"s\", \"kind\": \"switch\"}, {\"id\": \"t\", \"kind\": \"switch\"}],"
                         "\"links\": [{\"from\": \"a\", \"to\": \"s\", \"GBps\": 10, \"kind\": \"pcie\"},"
                         "{\"from\": \"b\", \"to\": \"s\", \"GBps\": 10, \"kind\": \"pcie\"},"
                         "{\"from\": \"a\", \"to\": \"t\", \"GBps\": 30, \"kind\": \"pcie\"},"
                         "{\"from\": \"b\", \"to\": \"t\", \"GBps\": 30, \"kind\": \"pcie\"}]}");
    (void)state;
    plan_t *plan = make(topo, BLINK_ALLREDUCE, 3);
    check_plan(topo, plan);
    assert_near(plan->rate_GBps, 40.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- one hop ---- */

static void test_nvswitch_allreduce_is_one_hop_per_switch_and_root(void **state)
{
    static const struct {
        const char *topology;
        uint32_t mask, switches;
        double GBps;
    } known[] = {{"dgx2", 0xffff, 6, 80.0},
                 {"dgx_a100", 0xff, 6, 300.0 * 8 / 14},
                 {"dgx_h100", 0x6d, 4, 450.0 * 5 / 8}};
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        topo_t *topo = load(known[i].topology);
        plan_t *plan = make(topo, BLINK_ALLREDUCE, known[i].mask);
        check_plan(topo, plan);
        assert_int_equal(plan_depth(plan), 2);
        assert_int_equal(plan->channel_count, known[i].switches);
        assert_int_equal(plan->channels[0].part_count, plan->rank_count);
        assert_near(plan->rate_GBps, known[i].GBps);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

static void test_nvswitch_broadcast_is_forwarded_by_every_other_rank(void **state)
{
    topo_t *topo = load("dgx2");
    (void)state;
    plan_t *plan = make_for(topo, BLINK_BROADCAST, BLINK_ALGORITHM_BLINK, 0xffff, 5, 0);
    check_plan(topo, plan);
    assert_int_equal(plan_depth(plan), 2);
    assert_int_equal(plan->channels[0].part_count, 15);
    assert_near(plan->rate_GBps, 150.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- the poster's groups ---- */

static plan_t *fill_groups(const topo_t *topo, uint32_t mask)
{
    plan_t *plan = calloc(1, sizeof(*plan));
    *plan = (plan_t){.collective = BLINK_ALLREDUCE,
                     .algorithm = BLINK_ALGORITHM_BLINK,
                     .rank_node = malloc(RANKS_MAX * sizeof(uint32_t)),
                     .root = PLAN_NONE,
                     .peer = PLAN_NONE};
    plan->rank_count = choose(topo, mask, plan->rank_node);
    assert_int_equal(blink_fill_groups(topo, plan), BLINK_OK);
    if (plan->channel_count > 0)
        assert_int_equal(plan_rate_GBps(topo, plan, &plan->rate_GBps), BLINK_OK);
    return plan;
}

/* Links of 20 GB/s: a group of g with a partner for every rank reaches g/2 of a link. */
static void test_groups_scatter_inside_and_forward_across(void **state)
{
    static const struct {
        uint32_t mask, blocks;
        double GBps;
    } known[] = {{0xff, 4, 40.0}, {0x0f, 4, 40.0}, {0x77, 3, 30.0}, {0x7f, 3, 30.0},
                 {0x33, 2, 20.0}, {0x1f, 1, 20.0}, {0x07, 3, 30.0}};
    topo_t *topo = load("dgx1p");
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        plan_t *plan = fill_groups(topo, known[i].mask);
        check_plan(topo, plan);
        assert_int_equal(plan->channels[0].part_count, known[i].blocks);
        assert_near(plan->rate_GBps, known[i].GBps);
        plan_destroy(plan);
    }
    plan_t *none = fill_groups(topo, 0x96); /* gpus 1, 2, 4, 7: two pairs and no link between them */
    assert_int_equal(none->channel_count, 0);
    plan_destroy(none);
    topo_destroy(topo);
}

static void test_four_fully_connected_gpus_take_the_shallow_groups(void **state)
{
    topo_t *topo = load("dgx1p");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, 0x0f);
    (void)state;
    check_plan(topo, plan);
    assert_near(plan->rate_GBps, 40.0);
    assert_int_equal(plan_depth(plan), 2);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- hybrid ---- */

static void test_hybrid_split_lets_both_transfers_end_together(void **state)
{
    const double total = 1e9, pcie = 10.0, nvlink = 40.0, switching = 2000.0;
    (void)state;
    double over_pcie = blink_hybrid_split(total, pcie, nvlink, switching);
    assert_near(over_pcie, total / 5.0 - 2000.0 * 8.0 * 1e3);
    assert_near(over_pcie / (pcie * 1e3) + switching, (total - over_pcie) / (nvlink * 1e3));
    assert_near(blink_hybrid_split(total, pcie, nvlink, 0.0), total / 5.0);
    assert_true(blink_hybrid_split(1e6, pcie, nvlink, switching) <= 0.0);
    assert_near(blink_switch_us(8), 2.0 * blink_switch_us(4));
}

/* How many GB/s a hybrid broadcast gains over NVLink alone, switching included. */
static double hybrid_gain(uint32_t gpus, double nvlink_GBps, double bytes)
{
    double over_pcie = blink_hybrid_split(bytes, 11.0, nvlink_GBps, blink_switch_us(gpus));
    return bytes / ((bytes - over_pcie) / nvlink_GBps) - nvlink_GBps;
}

static void test_switching_cost_gives_the_published_gains(void **state)
{
    (void)state;
    assert_true(fabs(hybrid_gain(4, 100.0, 500e6) - 5.0) < 0.5);
    assert_true(fabs(hybrid_gain(8, 150.0, 1e9) - 2.0) < 0.5);
}

static bool is_nvlink(const topo_t *topo, const plan_t *plan, uint32_t path)
{
    return topo->links[plan->paths[path].links[0]].kind == TOPO_NVLINK;
}

/* The share of the payload that trees over PCIe carry. No tree mixes kinds. */
static double measure_pcie(const topo_t *topo, const plan_t *plan)
{
    double share = 0.0;
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_tree_t *tree = &plan->channels[c].parts[0].broadcast;
        bool nvlink = is_nvlink(topo, plan, tree->path[1]);
        for (uint32_t rank = 2; rank < plan->rank_count; rank++)
            assert_int_equal(is_nvlink(topo, plan, tree->path[rank]), nvlink);
        share += nvlink ? 0.0 : plan->channels[c].share;
    }
    return share;
}

static void test_hybrid_sends_over_two_sets_of_trees(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = make(topo, BLINK_BROADCAST, 0xff);
    (void)state;
    check_plan(topo, plan);
    assert_near(plan->rate_GBps, 161.0);
    assert_near(measure_pcie(topo, plan), 11.0 / 161.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_hybrid_split_depends_on_the_payload(void **state)
{
    const uint64_t bytes[] = {1u << 20, 1000000000u};
    topo_t *topo = load("dgx1v_hybrid");
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        plan_t *plan = make_for(topo, BLINK_BROADCAST, BLINK_ALGORITHM_BLINK, 0xff, 0, bytes[i]);
        double expected =
            blink_hybrid_split((double)bytes[i], 11.0, 150.0, blink_switch_us(8)) / (double)bytes[i];
        check_plan(topo, plan);
        assert_true(fabs(measure_pcie(topo, plan) - expected) < 1e-6);
        assert_int_equal(expected > 0.0, i == 1);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_pcie_alone_where_nvlink_does_not_join_the_ranks(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = make(topo, BLINK_BROADCAST, 0x12);
    (void)state;
    check_plan(topo, plan);
    assert_near(measure_pcie(topo, plan), 1.0);
    assert_near(plan->rate_GBps, 11.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- three phases ---- */

/* The hosts' roots hang below one of them; every other edge stays at home. */
static void check_phases(const topo_t *topo, const plan_t *plan, uint32_t hosts)
{
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_part_t *part = &plan->channels[c].parts[0];
        const plan_tree_t *tree = part->reduce.parent != NULL ? &part->reduce : &part->broadcast;
        uint32_t across = 0;
        for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
            if (rank == part->root || strcmp(topo->nodes[plan->rank_node[rank]].host,
                                             topo->nodes[plan->rank_node[tree->parent[rank]]].host) == 0)
                continue;
            across++;
            assert_int_equal(tree->parent[rank], part->root);
        }
        assert_int_equal(across, hosts - 1);
    }
}

static void test_three_phases_fill_the_network_between_two_servers(void **state)
{
    static const uint32_t masks[] = {0xffff, 0x0707, 0x017f, 0x0101};
    topo_t *topo = load("2x_dgx1v_100g");
    (void)state;
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        plan_t *plan = make(topo, BLINK_ALLREDUCE, masks[i]);
        check_plan(topo, plan);
        check_phases(topo, plan, 2);
        assert_true(plan->rate_GBps >= (i == 3 ? 11.0 : 0.85 * 12.5));
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_broadcast_across_servers_starts_at_its_root(void **state)
{
    topo_t *topo = load("2x_dgx1v_100g");
    (void)state;
    for (uint32_t root = 0; root < 16; root += 5) {
        plan_t *plan = make_for(topo, BLINK_BROADCAST, BLINK_ALGORITHM_BLINK, 0xffff, root, 0);
        check_plan(topo, plan);
        check_phases(topo, plan, 2);
        assert_near(plan->rate_GBps, 11.0); /* of the root's own PCIe link */
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* Four servers of one to four gpus behind 10 GB/s of network each. */
static topo_t *four_servers(void)
{
    char text[4096];
    size_t at = 0;
    at += (size_t)snprintf(text, sizeof(text),
                           "{\"schema\": \"blink-topology/1\", \"name\": \"four\", \"nodes\": ["
                           "{\"id\": \"net\", \"kind\": \"switch\"}");
    for (int host = 0; host < 4; host++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               ",{\"id\": \"nic%d\", \"kind\": \"nic\", \"host\": \"h%d\"}", host, host);
        for (int gpu = 0; gpu <= host; gpu++)
            at += (size_t)snprintf(text + at, sizeof(text) - at,
                                   ",{\"id\": \"g%d%d\", \"kind\": \"gpu\", \"host\": \"h%d\"}", host, gpu,
                                   host);
    }
    at += (size_t)snprintf(text + at, sizeof(text) - at, "], \"links\": [");
    for (int host = 0; host < 4; host++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "%s{\"from\": \"nic%d\", \"to\": \"net\", \"GBps\": 10, \"kind\": \"net\"}",
                               host == 0 ? "" : ",", host);
        for (int gpu = 0; gpu <= host; gpu++) {
            at += (size_t)snprintf(
                text + at, sizeof(text) - at,
                ",{\"from\": \"g%d%d\", \"to\": \"nic%d\", \"GBps\": 20, \"kind\": \"pcie\"}", host, gpu,
                host);
            for (int peer = 0; peer < gpu; peer++)
                at += (size_t)snprintf(
                    text + at, sizeof(text) - at,
                    ",{\"from\": \"g%d%d\", \"to\": \"g%d%d\", \"GBps\": 25, \"kind\": \"nvlink\"}", host,
                    gpu, host, peer);
        }
    }
    snprintf(text + at, sizeof(text) - at, "]}");
    return parse(text);
}

static void test_unequal_servers_take_turns_as_the_centre(void **state)
{
    topo_t *topo = four_servers();
    plan_t *plan = make(topo, BLINK_ALLREDUCE, 0x3ff);
    (void)state;
    check_plan(topo, plan);
    check_phases(topo, plan, 4);
    assert_near(plan->rate_GBps, 10.0 * 4.0 / 6.0); /* each server sends 3/4 to centres, and as one 3/4 */
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- bad requests ---- */

static void test_what_blink_does_not_do_is_refused(void **state)
{
    static const blink_collective_t collectives[] = {BLINK_GATHER, BLINK_SCATTER, BLINK_ALLTOALL,
                                                     BLINK_SENDRECV};
    topo_t *topo = load("dgx1v");
    (void)state;
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        plan_t plan = {.collective = collectives[i], .rank_count = 8, .rank_node = topo->gpus};
        assert_int_equal(plan_blink(topo, 0, &plan), BLINK_ERR_UNSUPPORTED);
    }
    plan_t *plan = NULL;
    uint32_t apart[] = {topo->gpus[1], topo->gpus[4]};
    plan_request_t request = {.collective = BLINK_BROADCAST,
                              .algorithm = BLINK_ALGORITHM_BLINK,
                              .rank_node = apart,
                              .rank_count = 2};
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_ERR_UNREACHABLE);
    assert_non_null(strstr(blink_error_text(), "gpu1"));
    assert_non_null(strstr(blink_error_text(), "gpu4"));
    request.rank_count = 1;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    assert_int_equal(plan->channel_count, 0);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_dgx1v_broadcast_takes_six_unit_trees),
        cmocka_unit_test(test_broadcast_is_as_many_unit_trees_as_the_least_cut_has_links),
        cmocka_unit_test(test_allreduce_of_undirected_trees_keeps_95_percent_on_every_connected_subset),
        cmocka_unit_test(test_allreduce_rotates_the_same_trees),
        cmocka_unit_test(test_reduce_is_broadcast_backwards),
        cmocka_unit_test(test_directions_of_unequal_capacity_are_kept_apart),
        cmocka_unit_test(test_every_rank_has_its_own_packing_for_allgather_and_reducescatter),
        cmocka_unit_test(test_parallel_relays_each_carry_their_part),
        cmocka_unit_test(test_nvswitch_allreduce_is_one_hop_per_switch_and_root),
        cmocka_unit_test(test_nvswitch_broadcast_is_forwarded_by_every_other_rank),
        cmocka_unit_test(test_groups_scatter_inside_and_forward_across),
        cmocka_unit_test(test_four_fully_connected_gpus_take_the_shallow_groups),
        cmocka_unit_test(test_hybrid_split_lets_both_transfers_end_together),
        cmocka_unit_test(test_switching_cost_gives_the_published_gains),
        cmocka_unit_test(test_hybrid_sends_over_two_sets_of_trees),
        cmocka_unit_test(test_hybrid_split_depends_on_the_payload),
        cmocka_unit_test(test_pcie_alone_where_nvlink_does_not_join_the_ranks),
        cmocka_unit_test(test_three_phases_fill_the_network_between_two_servers),
        cmocka_unit_test(test_broadcast_across_servers_starts_at_its_root),
        cmocka_unit_test(test_unequal_servers_take_turns_as_the_centre),
        cmocka_unit_test(test_what_blink_does_not_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
