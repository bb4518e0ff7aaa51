/*
 * Connections that fail while ops are under way, at any moment and by every fault: they are made anew, and
 * the ops end as if nothing had happened. Over socket pairs, or with an argument over RDMA that is in memory.
 */
#include "data_world.h"

#include "base/log.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A world, and ops of several sizes in it. Its hosts have met: where the first connections fail hosts are
 * lost at once. */
typedef struct scene {
    topo_t *topo;
    plan_t *plan;
    world_t world;
} scene_t;

static bool all_have_met(const world_t *world)
{
    data_counts_t counts;
    bool have_met = true;
    for (uint32_t h = 0; h < world->host_count; h++)
        for (uint32_t p = 0; p < world->host_count; p++) {
            if (p != h)
                data_endpoint_count(world->hosts[h].endpoints[p], &counts);
            have_met &= p == h || counts.frames_in[WIRE_FAIL] > 0;
        }
    return have_met;
}

static void scene_init(scene_t *scene, const struct machine *machine, uint32_t collective, uint64_t seed)
{
    static const uint32_t of_no_op[2] = {UINT32_MAX, 0};
    scene->topo = hand_hosts(machine->devices, machine->hosts);
    scene->plan = make_plan(scene->topo, collective, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    world_init(&scene->world, scene->topo, machine->hosts, true);
    scene->world.dice = seed * 77;
    if (!scene->plan)
        return;
    for (uint32_t h = 0; h < machine->hosts; h++)
        for (uint32_t p = 0; p < machine->hosts; p++)
            if (p != h)
                (void)data_send(scene->world.hosts[h].endpoints[p], WIRE_FAIL, &of_no_op, sizeof(of_no_op));
    world_wait(&scene->world, all_have_met, "hosts have not met");
}

static void scene_fini(scene_t *scene)
{
    ops_destroy(&scene->world);
    world_fini(&scene->world);
    plan_destroy(scene->plan);
    topo_destroy(scene->topo);
}

static void begin_ops(scene_t *scene)
{
    static const uint64_t elements[] = {90000, 3, 700, 90000};
    for (uint32_t i = 0; i < LENGTH(elements); i++)
        begin_everywhere(
            op_create(&scene->world, scene->plan, count_for(scene->plan, elements[i]), i == 1, NULL));
}

static void go_on(world_t *world, uint32_t most)
{
    for (uint32_t steps = world_random(&world->dice, most); steps > 0; steps--)
        (void)world_step(world, 1);
}

static void assert_nobody_lost(const world_t *world)
{
    for (uint32_t h = 0; h < world->host_count; h++)
        if (*world->hosts[h].lost_text)
            fail_msg("host %u has lost one: %s", h, world->hosts[h].lost_text);
}

/* Nobody hears of anything. */
static void assert_all_right(scene_t *scene)
{
    world_t *world = &scene->world;
    world_wait(world, all_are_over, "an op has not ended");
    assert_nobody_lost(world);
    for (uint32_t i = 0; i < world->op_count; i++)
        assert_right(world->ops[i]);
    ops_destroy(world);
}

/* ---- faults ---- */

/* One connection fails, between a host and the next one. */
static void cut_a_wire(world_t *world)
{
    uint32_t low = world_random(&world->dice, world->host_count - 1);
    const int *wires = world->hosts[low].wires[low + 1];
    (void)shutdown(wires[world_random(&world->dice, ENDPOINT_STREAMS)], SHUT_RDWR);
}

static void fail_a_device(world_t *world)
{
    uint32_t device = world_random(&world->dice, world->host_count);
    switch (world_random(&world->dice, 7)) {
    case 0:
        fake_verbs_flush(device);
        return;
    case 1:
        fake_verbs_fail_message(device, IBV_WC_RETRY_EXC_ERR);
        return;
    case 2:
        fake_verbs_fail_write(device, IBV_WC_RNR_RETRY_EXC_ERR);
        return;
    case 3:
        fake_verbs_tell(device, IBV_EVENT_PORT_ERR);
        return;
    case 4:
        fake_verbs_tell(device, IBV_EVENT_DEVICE_FATAL);
        return;
    case 5:
        fake_verbs_tell_connections(device, RDMA_CM_EVENT_DEVICE_REMOVAL);
        return;
    default: /* both sides notice by themselves */
        for (uint32_t i = 0; i < world->host_count; i++)
            fake_verbs_flush(i);
    }
}

static void break_something(world_t *world)
{
    if (world_verbs)
        fail_a_device(world);
    else
        cut_a_wire(world);
}

/* How often connections were made anew, all pairs of hosts together. */
static uint32_t rounds_of(const world_t *world)
{
    uint32_t rounds = 0;
    for (uint32_t h = 0; h < world->host_count; h++)
        for (uint32_t p = 0; p < world->host_count; p++)
            rounds += world->hosts[h].rounds[p];
    return rounds;
}

/* ---- tests ---- */

static void break_meanwhile(const struct machine *machine, uint32_t collective, uint64_t seed, uint32_t often)
{
    scene_t scene;
    scene_init(&scene, machine, collective, seed);
    if (scene.plan) {
        begin_ops(&scene);
        for (uint32_t i = 0; i < often; i++) {
            go_on(&scene.world, 12);
            break_something(&scene.world);
        }
        assert_all_right(&scene);
        begin_ops(&scene);
        assert_all_right(&scene);
    }
    scene_fini(&scene);
}

static void test_ops_go_on_over_connections_that_are_made_anew(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < LENGTH(machines); m++)
        for (uint32_t collective = 0; collective <= BLINK_SENDRECV; collective++)
            break_meanwhile(&machines[m], collective, 1 + m + collective * 4, 1);
}

static void test_connections_fail_at_any_moment(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++)
        break_meanwhile(&machines[seed % 2 ? 1 : 3], BLINK_ALLREDUCE, seed, 1);
}

/* Also before the former ones are there again, or have told what had come. */
static void test_connections_fail_again_and_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 30; seed++)
        break_meanwhile(&machines[seed % 2 ? 1 : 3], BLINK_ALLREDUCE, seed, 4);
}

/* An op that fails waits for what was sent before, and that goes again although the op has failed. */
static void test_ops_fail_while_connections_do(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        scene_t scene;
        scene_init(&scene, &machines[seed % 2 ? 1 : 3], BLINK_ALLREDUCE, seed);
        world_t *world = &scene.world;
        begin_ops(&scene);
        go_on(world, 12);
        break_something(world);
        go_on(world, 6);
        for (uint32_t i = 0; i < world->op_count; i += 2)
            fail_part(&world->ops[i]->parts[world_random(&world->dice, world->host_count)],
                      BLINK_ERR_ABORTED);
        world_wait(world, all_are_over, "an op has not ended");
        assert_nobody_lost(world);
        for (uint32_t i = 0; i < world->op_count; i++)
            if (i % 2)
                assert_right(world->ops[i]);
            else
                assert_untouched(world->ops[i]);
        ops_destroy(world);
        begin_ops(&scene);
        assert_all_right(&scene);
        scene_fini(&scene);
    }
}

static bool first_has_lost(const world_t *world)
{
    return world->hosts[0].lost[1] && world->hosts[1].lost[0];
}

/* Of the first two hosts, at both sides. */
static void end_session(scene_t *scene)
{
    world_t *world = &scene->world;
    for (uint32_t h = 0; h < 2; h++)
        data_endpoint_close(world->hosts[h].endpoints[1 - h],
                            BLINK_FAIL(BLINK_ERR_PEER_LOST, "the session has ended"));
    world_wait(world, first_has_lost, "one side has not lost the other");
    begin_ops(scene);
    world_wait(world, all_are_over, "an op without connections has not ended");
    scene_fini(scene);
}

/* The session ends then. */
static void test_connections_that_fail_too_often_are_lost(void **state)
{
    scene_t scene;
    (void)state;
    scene_init(&scene, &machines[1], BLINK_ALLREDUCE, 1);
    world_t *world = &scene.world;
    for (uint32_t failures = 0; !world->hosts[0].lost[1] && !world->hosts[1].lost[0]; failures++) {
        assert_true(failures < 20);
        if (world_verbs)
            fake_verbs_flush(0);
        else
            (void)shutdown(world->hosts[0].wires[1][1], SHUT_RDWR);
        for (uint32_t before = rounds_of(world);
             rounds_of(world) == before && !world->hosts[0].lost[1] && !world->hosts[1].lost[0];)
            (void)world_step(world, 100);
        if (world->hosts[0].lost[1] || world->hosts[1].lost[0])
            break;
        begin_ops(&scene);
        assert_all_right(&scene);
    }
    assert_int_equal(rounds_of(world), 8);
    const world_host_t *told = &world->hosts[world->hosts[0].lost[1] ? 0 : 1];
    if (!strstr(told->lost_text, "; data connections have failed 9 times within 60 s"))
        fail_msg("it says: %s", told->lost_text);
    end_session(&scene);
}

/* Who begins round after round while there are no connections makes work and no progress. */
static void test_rounds_in_vain_are_few(void **state)
{
    scene_t scene;
    (void)state;
    scene_init(&scene, &machines[1], BLINK_ALLREDUCE, 1);
    data_endpoint_t *endpoint = scene.world.hosts[0].endpoints[1];
    blink_result_t result = BLINK_OK;
    data_fence_t fence;
    uint32_t round = 0;
    while (result == BLINK_OK) {
        assert_true(++round < 1000);
        result = data_endpoint_fence(endpoint, round, &fence);
    }
    assert_int_equal(result, BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "rounds of data connections without making one"));
    end_session(&scene);
}

/* One device has no cable any more: the other one takes over. */
static void take_over(uint32_t nics)
{
    world_devices = 2;
    world_nics = nics;
    uint32_t rounds = 0; /* in some scene the ops may end first */
    for (uint64_t seed = 1; seed < 20; seed++) {
        scene_t scene;
        scene_init(&scene, &machines[1], BLINK_ALLREDUCE, seed);
        world_t *world = &scene.world;
        uint32_t device = world_random(&world->dice, 2);
        begin_ops(&scene);
        go_on(world, 12);
        fake_verbs_plug(device, false);
        fake_verbs_tell(device, IBV_EVENT_PORT_ERR);
        assert_all_right(&scene);
        /* The other one goes out as well, and the first one is in again. */
        begin_ops(&scene);
        go_on(world, 12);
        fake_verbs_plug(device, true);
        fake_verbs_plug(fake_second(device), false);
        fake_verbs_tell(fake_second(device), IBV_EVENT_PORT_ERR);
        assert_all_right(&scene);
        fake_verbs_plug(fake_second(device), true);
        rounds += rounds_of(world);
        scene_fini(&scene);
    }
    assert_true(rounds > 0);
    world_devices = 1;
    world_nics = 1;
}

static void test_a_port_goes_down_and_another_nic_takes_over(void **state)
{
    (void)state;
    if (world_verbs)
        take_over(1);
}

static void test_a_port_of_some_that_are_used_goes_down_and_the_others_take_all(void **state)
{
    (void)state;
    if (world_verbs)
        take_over(DATA_MOVE_STREAMS_MOST);
}

/* Moves that one host's device writes where they go, of an op of two hosts. */
static uint64_t written_once(scene_t *scene)
{
    uint64_t before = fake_verbs_written();
    begin_everywhere(op_create(&scene->world, scene->plan, count_for(scene->plan, 90000), false, NULL));
    assert_all_right(scene);
    return fake_verbs_written() - before;
}

/* In one pair of hosts, where something has failed that fails once. */
static void await_round(world_t *world, uint32_t round)
{
    for (uint32_t steps = 0; rounds_of(world) < round; steps++) {
        assert_true(steps < 1000);
        (void)world_step(world, 100);
    }
}

/* Ops that were under way have keys of the former connections: with these nothing would go but failures. */
static void test_the_device_writes_again_over_connections_that_are_made_anew(void **state)
{
    (void)state;
    for (uint64_t seed = 1; world_verbs && seed < 8; seed++) {
        scene_t scene;
        scene_init(&scene, &machines[1], BLINK_ALLREDUCE, seed);
        uint64_t written = written_once(&scene);
        assert_true(written > 0);
        for (uint32_t round = 1; round <= 2; round++) {
            begin_ops(&scene);
            go_on(&scene.world, 12);
            fake_verbs_flush(0);
            await_round(&scene.world, round);
            assert_all_right(&scene);
            (void)written_once(&scene); /* it may begin before the connections are there */
            assert_int_equal(written_once(&scene), written);
            assert_int_equal(rounds_of(&scene.world), round);
        }
        data_by_t by = data_endpoint_by(scene.world.hosts[0].endpoints[1]);
        assert_int_equal(by, world_has_gpus ? DATA_BY_RDMA | DATA_BY_GPUS : DATA_BY_RDMA);
        scene_fini(&scene);
    }
}

static void test_moves_go_as_messages_to_a_peer_that_knows_no_rounds_of_keys(void **state)
{
    scene_t scene;
    (void)state;
    if (!world_verbs)
        return;
    world_knows_keys = false;
    scene_init(&scene, &machines[1], BLINK_ALLREDUCE, 1);
    assert_true(written_once(&scene) > 0);
    fake_verbs_flush(0);
    await_round(&scene.world, 1);
    assert_int_equal(written_once(&scene), 0);
    assert_int_equal(written_once(&scene), 0);
    scene_fini(&scene);
    world_knows_keys = true;
}

/* Memory that was shown over former connections has what they left there, and no key opens it. */
static void test_a_peer_that_says_it_wrote_over_former_connections_is_lost(void **state)
{
    scene_t scene;
    (void)state;
    if (!world_verbs)
        return;
    scene_init(&scene, &machines[1], BLINK_ALLREDUCE, 1);
    world_t *world = &scene.world;
    (void)written_once(&scene);
    op_t *op = op_create(world, scene.plan, count_for(scene.plan, 90000), false, NULL);
    begin_part(&op->parts[0]);
    data_offer_t offer = data_run_offer(op->parts[0].run, 1);
    assert_true(fake_verbs_lets_write(0, 1, offer.keys.all[0], offer.address, 1));
    fake_verbs_flush(0);
    await_round(world, 1);
    op_t *next = op_create(world, scene.plan, count_for(scene.plan, 2), false, NULL);
    begin_everywhere(next);
    while (!next->parts[0].over || !next->parts[1].over)
        (void)world_step(world, 100);
    assert_false(fake_verbs_lets_write(0, 1, offer.keys.all[0], offer.address, 1));
    fake_verbs_say_written(0, false, wire_immediate(offer.first_flow, 0));
    fail_part(&op->parts[0], BLINK_ERR_ABORTED);
    world_wait(world, all_are_over, "the op has not ended");
    assert_non_null(strstr(world->hosts[0].lost_text, "a write to a landing that was not shown"));
    scene_fini(&scene);
}

/* What the peer keeps until it hears that it has come is little, and nothing is told of small ops. */
static void test_small_ops_take_two_frames_each_way(void **state)
{
    enum { OPS = 20 };
    scene_t scene;
    data_counts_t counts;
    uint64_t frames = 0;
    (void)state;
    scene_init(&scene, &machines[0], BLINK_ALLREDUCE, 1);
    for (uint32_t i = 0; i < OPS; i++) {
        begin_everywhere(op_create(&scene.world, scene.plan, 2, i % 2, NULL));
        assert_all_right(&scene);
    }
    data_endpoint_count(scene.world.hosts[0].endpoints[1], &counts);
    for (uint32_t type = 0; type < LENGTH(counts.frames_out); type++)
        frames += counts.frames_out[type];
    assert_int_equal(frames, 1 + 2 * OPS);
    scene_fini(&scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_go_on_over_connections_that_are_made_anew),
        cmocka_unit_test(test_connections_fail_at_any_moment),
        cmocka_unit_test(test_connections_fail_again_and_again),
        cmocka_unit_test(test_ops_fail_while_connections_do),
        cmocka_unit_test(test_connections_that_fail_too_often_are_lost),
        cmocka_unit_test(test_rounds_in_vain_are_few),
        cmocka_unit_test(test_a_port_goes_down_and_another_nic_takes_over),
        cmocka_unit_test(test_a_port_of_some_that_are_used_goes_down_and_the_others_take_all),
        cmocka_unit_test(test_the_device_writes_again_over_connections_that_are_made_anew),
        cmocka_unit_test(test_moves_go_as_messages_to_a_peer_that_knows_no_rounds_of_keys),
        cmocka_unit_test(test_a_peer_that_says_it_wrote_over_former_connections_is_lost),
        cmocka_unit_test(test_small_ops_take_two_frames_each_way),
    };
    log_init(LOG_LEVEL_ERROR, false);
    world_resumes = true;
    if (argc == 1)
        return cmocka_run_group_tests(tests, NULL, NULL);
    world_begin_verbs();
    world_has_gpus = strcmp(argv[1], "gpus") == 0;
    return world_end_verbs(cmocka_run_group_tests(tests, NULL, NULL));
}
