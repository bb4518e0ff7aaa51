/*
 * The data plane between hosts in one process: what every collective leaves in memory, many ops at once, ops
 * that fail and connections that are cut at any moment.
 */
#include "data_world.h"

#include "base/log.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- ops that succeed ---- */

typedef void check_t(world_t *world, const plan_t *plan);

static void on_machine(const struct machine *machine, blink_algorithm_t algorithm, check_t *check)
{
    topo_t *topo = hand_hosts(machine->devices, machine->hosts);
    world_t world;
    world_init(&world, topo, machine->hosts, true);
    for (uint32_t collective = 0; collective <= BLINK_SENDRECV; collective++) {
        plan_t *plan = make_plan(topo, collective, algorithm, BLINK_PROTOCOL_SIMPLE);
        if (plan)
            check(&world, plan);
        plan_destroy(plan);
    }
    world_fini(&world);
    topo_destroy(topo);
}

static void check_sizes(world_t *world, const plan_t *plan)
{
    static const uint32_t slots[][WORLD_HOSTS_MAX] = {{0}, {1, 1, 1, 1}, {1, 3, 0, 2}};
    static const uint64_t elements[] = {0, 70000};
    for (uint32_t s = 0; s < LENGTH(slots); s++)
        for (uint32_t c = 0; c < LENGTH(elements); c++) {
            op_t *op = op_create(world, plan, count_for(plan, elements[c]), false, slots[s]);
            begin_everywhere(op);
            world_wait(world, all_are_over, "the op has not ended");
            assert_right(op);
            ops_destroy(world);
        }
}

static void test_every_collective_equals_one_host_alone(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < LENGTH(machines); m++)
        on_machine(&machines[m], BLINK_ALGORITHM_TREES, check_sizes);
}

static void test_rings_equal_one_host_alone(void **state)
{
    (void)state;
    on_machine(&machines[3], BLINK_ALGORITHM_RING, check_sizes);
}

/* ---- many ops at once ---- */

/* Each host begins the ops in another order. */
static void test_hosts_begin_ops_in_any_order(void **state)
{
    enum { OPS = 24 };
    (void)state;
    topo_t *topo = hand_hosts(machines[3].devices, machines[3].hosts);
    plan_t *plan = make_plan(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    world_t world;
    world_init(&world, topo, machines[3].hosts, true);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < OPS; i++)
            op_create(&world, plan, i % 4 == 0 ? 50000 : 1 + i, false, NULL);
        for (uint32_t i = 0; i < OPS; i++)
            for (uint32_t h = 0; h < world.host_count; h++)
                begin_part(&world.ops[h % 2 ? OPS - 1 - i : (i * (2 * h + 1)) % OPS]->parts[h]);
        world_wait(&world, all_are_over, "some op has not ended");
        for (uint32_t i = 0; i < OPS; i++)
            assert_right(world.ops[i]);
        ops_destroy(&world);
    }
    world_fini(&world);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- what an op takes ---- */

static data_counts_t counts_of(const world_t *world, uint32_t host, uint32_t peer)
{
    data_counts_t counts;
    data_endpoint_count(world->hosts[host].endpoints[peer], &counts);
    return counts;
}

static uint64_t frames_from(const world_t *world, uint32_t host, uint32_t peer)
{
    data_counts_t counts = counts_of(world, host, peer);
    uint64_t frames = 0;
    for (uint32_t type = 0; type < LENGTH(counts.frames_out); type++)
        frames += counts.frames_out[type];
    return frames;
}

/* A BEGIN and a move, and no credits. */
static void test_small_ops_take_two_frames_each_way(void **state)
{
    enum { OPS = 20 };
    (void)state;
    topo_t *topo = hand_hosts(machines[0].devices, machines[0].hosts);
    plan_t *plan = make_plan(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    world_t world;
    world_init(&world, topo, 2, true);
    for (uint32_t i = 0; i < OPS; i++) {
        begin_everywhere(op_create(&world, plan, 2, i % 2, NULL));
        world_wait(&world, all_are_over, "an op has not ended");
        assert_right(world.ops[0]);
        ops_destroy(&world);
    }
    assert_int_equal(frames_from(&world, 0, 1), 2 * OPS);
    assert_int_equal(frames_from(&world, 1, 0), 2 * OPS);
    world_fini(&world);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- moves that a device writes to where they go ---- */

typedef struct reduction {
    topo_t *topo;
    plan_t *plan;
    world_t world;
    uint32_t root, leaf; /* a host that takes partial sums in, and one of those that send them */
} reduction_t;

/* An op of which moves land in slots; the first one of it has made the connections. */
static void reduction_init(reduction_t *reduction, const struct machine *machine)
{
    reduction->topo = hand_hosts(machine->devices, machine->hosts);
    reduction->plan = make_plan(reduction->topo, BLINK_REDUCE, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    world_init(&reduction->world, reduction->topo, machine->hosts, true);
    op_t *op = op_create(&reduction->world, reduction->plan, 70000, false, NULL);
    const lane_landing_t *landing = &op->parts[op->host_of[reduction->plan->root]].program->landings[0];
    reduction->root = landing->to_host;
    reduction->leaf = landing->from_host;
    begin_everywhere(op);
    world_wait(&reduction->world, all_are_over, "the first op has not ended");
    ops_destroy(&reduction->world);
}

static void reduction_fini(reduction_t *reduction)
{
    ops_destroy(&reduction->world);
    world_fini(&reduction->world);
    plan_destroy(reduction->plan);
    topo_destroy(reduction->topo);
}

/* Returns the moves that the leaf has written meanwhile; *all: those it has sent, *in_place: those that its
 * device has read where they were. */
static uint64_t reduce_from(reduction_t *reduction, uint64_t *all, uint64_t *in_place)
{
    world_t *world = &reduction->world;
    data_counts_t before = counts_of(world, reduction->leaf, reduction->root), after;
    op_t *op = op_create(world, reduction->plan, 700000, false, NULL);
    begin_everywhere(op);
    world_wait(world, all_are_over, "the op has not ended");
    assert_right(op);
    ops_destroy(world);
    after = counts_of(world, reduction->leaf, reduction->root);
    *all = after.frames_out[WIRE_DATA] - before.frames_out[WIRE_DATA];
    *in_place = after.in_place - before.in_place;
    return after.writes_out - before.writes_out;
}

static uint64_t reduce_once(reduction_t *reduction, uint64_t *all)
{
    uint64_t in_place;
    return reduce_from(reduction, all, &in_place);
}

static void test_moves_to_slots_are_written_by_the_device_if_there_is_one(void **state)
{
    reduction_t reduction;
    uint64_t all, written;
    (void)state;
    reduction_init(&reduction, &machines[0]);
    for (uint32_t i = 0; i < 3; i++) {
        written = reduce_once(&reduction, &all);
        assert_true(all > 0);
        assert_int_equal(written, world_verbs ? all : 0);
    }
    reduction_fini(&reduction);
}

/* Then what is large is told by an immediate without bytes, on the queue pair of its writes, which may be
 * placed in any order. */
static void test_large_moves_are_told_alone_where_packets_take_several_ways(void **state)
{
    reduction_t reduction;
    uint64_t all, written;
    (void)state;
    if (!world_verbs)
        return;
    for (uint32_t on = 0; on < 2; on++) {
        world_adaptive_routing = on;
        fake_verbs_end();
        fake_verbs_begin(1);
        fake_verbs_set((fake_faults_t){.disorder = true});
        reduction_init(&reduction, &machines[0]);
        written = reduce_once(&reduction, &all);
        assert_true(all > 0);
        assert_int_equal(written, all);
        assert_int_equal(fake_verbs_told_most_bytes() > 8192, !on);
        reduction_fini(&reduction);
    }
    world_adaptive_routing = false;
    fake_verbs_set((fake_faults_t){0});
}

/* Partial sums of several ranks lie in send slots, which the executor fills again once they were read. What
 * has one rank's input for its source is copied, and so is all where memory cannot be pinned. */
static void test_partial_sums_are_written_from_where_they_are(void **state)
{
    enum { ONE_EACH, TWO_EACH };
    (void)state;
    for (uint32_t on = 0; world_verbs && on < 3; on++) {
        reduction_t reduction;
        uint64_t all, in_place, written;
        reduction_init(&reduction, &machines[on == 0 ? ONE_EACH : TWO_EACH]);
        fake_verbs_set((fake_faults_t){.no_local_memory = on == 2});
        for (uint32_t i = 0; i < 3; i++) {
            written = reduce_from(&reduction, &all, &in_place);
            assert_true(all > 0);
            assert_int_equal(written, all);
            assert_int_equal(in_place, on == 1 ? all : 0);
        }
        reduction_fini(&reduction);
    }
    fake_verbs_set((fake_faults_t){0});
}

/* Those of the root, from and to the leaf's device. Returns how often something was flushed. */
static uint64_t reduce_to_gpu(reduction_t *reduction, bool is_written)
{
    uint64_t all, before = fake_verbs_flushed();
    uint64_t written = reduce_once(reduction, &all);
    assert_true(all > 0);
    assert_int_equal(written, is_written ? all : 0);
    return fake_verbs_flushed() - before;
}

/* Every move is flushed, unless that is needless; the landing lies in host memory where that of the GPU is
 * used up. */
static void test_moves_are_written_to_memory_of_gpus_and_flushed(void **state)
{
    reduction_t reduction;
    uint64_t offset;
    (void)state;
    if (!world_has_gpus)
        return;
    reduction_init(&reduction, &machines[0]);
    world_gpu_t *gpu = &reduction.world.hosts[reduction.root].gpu;
    assert_true(reduce_to_gpu(&reduction, true) > 0);
    assert_int_equal(data_endpoint_by(reduction.world.hosts[reduction.root].endpoints[reduction.leaf]),
                     DATA_BY_RDMA | DATA_BY_GPUS);
    fake_verbs_set((fake_faults_t){.orders = true});
    gpu->ordered = true;
    assert_int_equal(reduce_to_gpu(&reduction, true), 0);
    fake_verbs_set((fake_faults_t){0});
    device_memory_t *full, *own = gpu->memory;
    char *mapped = world_gpu_make(&full);
    assert_true(device_memory_take(full, WORLD_GPU_BYTES, &offset));
    gpu->memory = full;
    assert_int_equal(reduce_to_gpu(&reduction, true), 0);
    gpu->memory = own;
    device_memory_give(full, offset, WORLD_GPU_BYTES);
    world_gpu_unmake(full, mapped);
    reduction_fini(&reduction);
}

/* The worker was started anew, and has other memory: what was in the former's is let go. */
static void test_landings_go_to_the_memory_that_there_is_now(void **state)
{
    reduction_t reduction;
    device_memory_t *later;
    (void)state;
    if (!world_has_gpus)
        return;
    reduction_init(&reduction, &machines[0]);
    world_gpu_t *gpu = &reduction.world.hosts[reduction.root].gpu;
    assert_true(reduce_to_gpu(&reduction, true) > 0);
    char *mapped = world_gpu_make(&later);
    device_memory_t *former = gpu->memory;
    gpu->memory = later;
    assert_true(reduce_to_gpu(&reduction, true) > 0);
    gpu->memory = NULL;
    assert_int_equal(reduce_to_gpu(&reduction, true), 0);
    gpu->memory = former;
    assert_true(reduce_to_gpu(&reduction, true) > 0);
    reduction_fini(&reduction);
    world_gpu_unmake(later, mapped);
}

static void test_landings_lie_in_host_memory_where_devices_take_no_dma_bufs(void **state)
{
    reduction_t reduction;
    (void)state;
    if (!world_has_gpus)
        return;
    for (uint32_t on = 0; on < 2; on++) {
        fake_verbs_set((fake_faults_t){.no_dma_bufs = true});
        reduction_init(&reduction, &machines[0]);
        assert_int_equal(reduce_to_gpu(&reduction, true), 0);
        fake_verbs_set((fake_faults_t){0});
        assert_int_equal(reduce_to_gpu(&reduction, true), 0); /* nobody asks again */
        reduction_fini(&reduction);
    }
}

/* What a device has written and cannot flush nobody may use: the op fails, and later ones land in host
 * memory. */
static void test_what_cannot_be_flushed_fails_the_op(void **state)
{
    reduction_t reduction;
    (void)state;
    if (!world_has_gpus)
        return;
    reduction_init(&reduction, &machines[0]);
    world_t *world = &reduction.world;
    fake_verbs_set((fake_faults_t){.no_reads = true});
    op_t *op = op_create(world, reduction.plan, 700000, false, NULL);
    begin_everywhere(op);
    world_wait(world, all_are_over, "the op has not ended");
    assert_int_equal(op->parts[reduction.root].result, BLINK_ERR_SYSTEM);
    assert_false(world->hosts[reduction.root].lost[reduction.leaf]);
    ops_destroy(world);
    fake_verbs_set((fake_faults_t){0});
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(reduce_to_gpu(&reduction, true), 0);
    reduction_fini(&reduction);
}

/* Landings are registered with all devices, and moves are written by whichever has room. */
static void test_moves_go_over_all_nics(void **state)
{
    (void)state;
    for (world_nics = 2; world_verbs && world_nics <= DATA_MOVE_STREAMS_MOST; world_nics *= 2) {
        reduction_t reduction;
        uint64_t before[DATA_MOVE_STREAMS_MOST], all, written;
        reduction_init(&reduction, &machines[0]);
        for (uint32_t i = 0; i < world_nics; i++)
            before[i] = fake_verbs_carried_by(fake_nic(reduction.leaf, i, world_nics));
        written = reduce_once(&reduction, &all);
        assert_true(all >= world_nics);
        assert_int_equal(written, all);
        for (uint32_t i = 0; i < world_nics; i++)
            assert_true(fake_verbs_carried_by(fake_nic(reduction.leaf, i, world_nics)) > before[i]);
        reduction_fini(&reduction);
    }
    world_nics = 1;
}

/* What cannot be pinned is sent as messages, which is slower and no less right. */
static void test_moves_go_as_messages_where_landings_cannot_be_pinned(void **state)
{
    reduction_t reduction;
    uint64_t all;
    (void)state;
    if (!world_verbs)
        return;
    reduction_init(&reduction, &machines[0]);
    fake_verbs_set((fake_faults_t){.no_memory = true});
    assert_int_equal(reduce_once(&reduction, &all), 0);
    assert_true(all > 0);
    fake_verbs_set((fake_faults_t){0});
    reduction_fini(&reduction);
}

/* The part of the host that takes in, which has begun alone, and where the leaf may write. */
static part_t *begin_at_root(reduction_t *reduction, data_offer_t *offer)
{
    op_t *op = op_create(&reduction->world, reduction->plan, 700000, false, NULL);
    part_t *part = &op->parts[reduction->root];
    begin_part(part);
    *offer = data_run_offer(part->run, reduction->leaf);
    return part;
}

static void test_a_key_opens_the_peers_landing_to_that_peer_and_nothing_else(void **state)
{
    reduction_t reduction;
    data_offer_t offer;
    (void)state;
    if (!world_verbs)
        return;
    reduction_init(&reduction, &machines[3]);
    uint32_t root = reduction.root, leaf = reduction.leaf, other = 0;
    while (other == root || other == leaf)
        other++;
    part_t *part = begin_at_root(&reduction, &offer);
    assert_true(offer.address != 0);
    assert_true(fake_verbs_lets_write(root, leaf, offer.keys.all[0], offer.address, 4096));
    assert_false(fake_verbs_lets_write(root, leaf, offer.keys.all[0], offer.address - 1, 1));
    assert_false(fake_verbs_lets_write(root, leaf, offer.keys.all[0], offer.address, 64u << 20));
    assert_false(fake_verbs_lets_write(root, leaf, offer.keys.all[0] + 1, offer.address, 1));
    assert_false(fake_verbs_lets_write(root, other, offer.keys.all[0], offer.address, 1));
    fail_part(part, BLINK_ERR_ABORTED);
    data_endpoint_close(reduction.world.hosts[root].endpoints[leaf],
                        BLINK_FAIL(BLINK_ERR_PEER_LOST, "the cable was cut"));
    assert_false(fake_verbs_lets_write(root, leaf, offer.keys.all[0], offer.address, 1));
    world_wait(&reduction.world, all_are_over, "the op has not ended");
    reduction_fini(&reduction);
}

/* Memory that was not shown has what others left there. */
static void test_a_peer_that_says_it_wrote_where_it_may_not_is_lost(void **state)
{
    reduction_t reduction;
    data_offer_t offer;
    char text[64];
    (void)state;
    if (!world_verbs)
        return;
    reduction_init(&reduction, &machines[0]);
    fake_verbs_set((fake_faults_t){.no_memory = true});
    part_t *part = begin_at_root(&reduction, &offer);
    assert_int_equal(offer.address, 0);
    fake_verbs_say_written(reduction.root, false, wire_immediate(offer.first_flow, 0));
    fail_part(part, BLINK_ERR_ABORTED);
    world_wait(&reduction.world, all_are_over, "the op has not ended");
    assert_int_equal(part->host->lost_code, BLINK_ERR_PROTOCOL);
    snprintf(text, sizeof(text), "flow %u: a write to a landing that was not shown", offer.first_flow);
    assert_non_null(strstr(part->host->lost_text, text));
    fake_verbs_set((fake_faults_t){0});
    reduction_fini(&reduction);
}

/* What was posted behind it is flushed; the op fails at both ends, and nothing hangs. */
static void fail_a_write(enum ibv_wc_status status)
{
    reduction_t reduction;
    char text[32];
    reduction_init(&reduction, &machines[0]);
    op_t *op = op_create(&reduction.world, reduction.plan, 700000, false, NULL);
    fake_verbs_fail_write(reduction.leaf, status);
    begin_everywhere(op);
    world_wait(&reduction.world, all_are_over, "the op has not ended");
    const world_host_t *leaf = &reduction.world.hosts[reduction.leaf];
    snprintf(text, sizeof(text), "(status %d)", status);
    if (!strstr(leaf->lost_text, text))
        fail_msg("'%s' does not say %s", leaf->lost_text, text);
    for (uint32_t h = 0; h < reduction.world.host_count; h++)
        assert_int_equal(op->parts[h].result, BLINK_ERR_PEER_LOST);
    assert_untouched(op);
    reduction_fini(&reduction);
}

static void test_writes_that_fail(void **state)
{
    static const enum ibv_wc_status all[] = {IBV_WC_REM_ACCESS_ERR, IBV_WC_RETRY_EXC_ERR,
                                             IBV_WC_RNR_RETRY_EXC_ERR};
    (void)state;
    for (size_t i = 0; world_verbs && i < LENGTH(all); i++)
        fail_a_write(all[i]);
}

/* ---- ops that fail ---- */

/* Let some things happen. */
static void go_on(world_t *world, uint32_t most)
{
    for (uint32_t steps = world_random(&world->dice, most); steps > 0; steps--)
        (void)world_step(world, 1);
}

/* Some host fails the op at some moment; one may not have come to it. */
static void fail_somewhere(op_t *op)
{
    world_t *world = op->world;
    uint32_t first = world_random(&world->dice, world->host_count);
    uint32_t late = world_random(&world->dice, 2);
    for (uint32_t i = 0; i + late < world->host_count; i++) {
        begin_part(&op->parts[(first + i) % world->host_count]);
        go_on(world, 4);
    }
    go_on(world, 30);
    fail_part(&op->parts[first], BLINK_ERR_ABORTED);
    for (uint32_t h = 0; h < world->host_count; h++) {
        go_on(world, 10);
        if (!op->parts[h].begun && world_random(&world->dice, 2))
            begin_part(&op->parts[h]);
    }
    /* Who waits for a host that does not come has a time-out. */
    for (uint32_t h = 0; late && h < world->host_count; h++)
        fail_part(&op->parts[h], BLINK_ERR_TIMEOUT);
    world_wait(world, all_are_over, "the op that failed has not ended");
}

static void check_failures(world_t *world, const plan_t *plan)
{
    static const uint64_t elements[] = {100, 70000};
    for (uint32_t round = 0; round < 12; round++) {
        op_t *op = op_create(world, plan, count_for(plan, elements[round % 2]), false, NULL);
        fail_somewhere(op);
        op_t *next = op_create(world, plan, count_for(plan, elements[1]), false, NULL);
        begin_everywhere(next);
        world_wait(world, all_are_over, "the op after one that failed has not ended");
        assert_right(next);
        assert_untouched(op);
        ops_destroy(world);
    }
}

static void test_ops_that_fail_harm_no_others(void **state)
{
    (void)state;
    on_machine(&machines[1], BLINK_ALGORITHM_TREES, check_failures);
    on_machine(&machines[3], BLINK_ALGORITHM_TREES, check_failures);
}

/* ---- connections that are cut ---- */

static void cut_somewhere(const plan_t *plan, const topo_t *topo, uint32_t hosts, uint64_t seed)
{
    world_t world;
    world_init(&world, topo, hosts, true);
    world.dice = seed;
    for (uint32_t i = 0; i < 3; i++)
        begin_everywhere(op_create(&world, plan, count_for(plan, 90000), false, NULL));
    go_on(&world, 20);
    uint32_t a = world_random(&world.dice, hosts), b = (a + 1) % hosts;
    data_endpoint_close(world.hosts[a].endpoints[b], BLINK_FAIL(BLINK_ERR_PEER_LOST, "the cable was cut"));
    world_wait(&world, all_are_over, "an op whose connections were cut has not ended");
    begin_everywhere(op_create(&world, plan, 5, false, NULL));
    world_wait(&world, all_are_over, "an op without connections has not ended");
    for (uint32_t i = 0; i < world.op_count; i++)
        assert_untouched(world.ops[i]);
    ops_destroy(&world);
    world_fini(&world);
}

static void test_connections_are_cut_at_any_moment(void **state)
{
    (void)state;
    for (uint32_t m = 1; m < LENGTH(machines); m += 2) {
        topo_t *topo = hand_hosts(machines[m].devices, machines[m].hosts);
        plan_t *plan = make_plan(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
        for (uint64_t seed = 1; seed < 40; seed++)
            cut_somewhere(plan, topo, machines[m].hosts, seed * 77);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

/* Over socket pairs, or with an argument over RDMA. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_equals_one_host_alone),
        cmocka_unit_test(test_rings_equal_one_host_alone),
        cmocka_unit_test(test_hosts_begin_ops_in_any_order),
        cmocka_unit_test(test_small_ops_take_two_frames_each_way),
        cmocka_unit_test(test_moves_to_slots_are_written_by_the_device_if_there_is_one),
        cmocka_unit_test(test_large_moves_are_told_alone_where_packets_take_several_ways),
        cmocka_unit_test(test_partial_sums_are_written_from_where_they_are),
        cmocka_unit_test(test_moves_are_written_to_memory_of_gpus_and_flushed),
        cmocka_unit_test(test_landings_go_to_the_memory_that_there_is_now),
        cmocka_unit_test(test_landings_lie_in_host_memory_where_devices_take_no_dma_bufs),
        cmocka_unit_test(test_what_cannot_be_flushed_fails_the_op),
        cmocka_unit_test(test_moves_go_over_all_nics),
        cmocka_unit_test(test_moves_go_as_messages_where_landings_cannot_be_pinned),
        cmocka_unit_test(test_a_key_opens_the_peers_landing_to_that_peer_and_nothing_else),
        cmocka_unit_test(test_a_peer_that_says_it_wrote_where_it_may_not_is_lost),
        cmocka_unit_test(test_writes_that_fail),
        cmocka_unit_test(test_ops_that_fail_harm_no_others),
        cmocka_unit_test(test_connections_are_cut_at_any_moment),
    };
    log_init(LOG_LEVEL_ERROR, false);
    if (argc == 1)
        return cmocka_run_group_tests(tests, NULL, NULL);
    world_begin_verbs();
    world_has_gpus = strcmp(argv[1], "gpus") == 0;
    return world_end_verbs(cmocka_run_group_tests(tests, NULL, NULL));
}
