/*
 * One op on several hosts: each host's executor runs its part of the program, and a fake network carries what
 * goes between them, in random order. Hosts start when they like; what they leave in every rank's memory is
 * to the bit what one host leaves that runs the same plan alone, and what they count on their own links is to
 * the byte what that host counts on these.
 */
#include "base/clock.h"
#include "exec/host/pool.h"
#include "exec_outcome.h"
#include "fake_wire.h"
#include "names.h"
#include "wire_buffers.h"

enum { SLOTS_CHOSEN = 0, LINKS_MOST = 64 };

/* Emulated links so fast that no test takes long by them, and so slow that nothing gets through in the time
 * of a test. */
#define PACE_FAST 1000.0
#define PACE_SLOW 1e-12
#define FAR_NS    ((uint64_t)3600 * 1000000000)

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- a cluster ---- */

/* How one op is done. */
typedef struct way {
    bool lands_in_slots, scales, in_place, keeps_to_slots;
    uint32_t slots[WIRE_HOSTS_MAX]; /* of each host */
} way_t;

/* Executors: one for each host, and the last one for the reference. */
typedef struct pools {
    exec_host_t *execs[WIRE_HOSTS_MAX];
    pace_t *paces[WIRE_HOSTS_MAX]; /* NULL: links are not emulated */
} pools_t;

typedef _Atomic uint64_t link_bytes_t[LINKS_MOST];

typedef struct cluster {
    const topo_t *topo;
    const plan_t *plan;
    uint32_t host_of[RANKS_MOST];
    lane_program_t *whole, *parts[WIRE_HOSTS_MAX];
    exec_instance_t *reference;
    wire_net_t net;
    uint32_t own_link[WIRE_HOSTS_MAX][LINKS_MOST]; /* of each host */
} cluster_t;

static lane_program_t *compile(const cluster_t *cluster, const lane_hosts_t *hosts)
{
    lane_program_t *program = NULL;
    if (lane_compile(cluster->topo, cluster->plan, hosts, &program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return program;
}

/* scales: of each host's links, if these are to be emulated. */
static void pools_init(pools_t *pools, const topo_t *topo, const double *scales)
{
    *pools = (pools_t){0};
    for (uint32_t h = 0; h < WIRE_HOSTS_MAX; h++) {
        if (scales)
            assert_int_equal(pace_create(topo, scales[h], &pools->paces[h]), BLINK_OK);
        exec_host_config_t config = {.workers = 1 + h % 2, .pace = pools->paces[h]};
        assert_int_equal(exec_host_create(&config, &pools->execs[h]), BLINK_OK);
    }
}

static void pools_fini(pools_t *pools)
{
    for (uint32_t h = 0; h < WIRE_HOSTS_MAX; h++) {
        exec_host_destroy(pools->execs[h]);
        pace_destroy(pools->paces[h]);
    }
}

static int make_pools(void **state)
{
    *state = malloc(sizeof(pools_t));
    pools_init(*state, NULL, NULL);
    return 0;
}

static int free_pools(void **state)
{
    pools_fini(*state);
    free(*state);
    return 0;
}

static exec_instance_t *make_part(exec_host_t *exec, const lane_program_t *program)
{
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(exec_of_host(exec), program, NULL, &instance), BLINK_OK);
    return instance;
}

/* A host has the links between its own nodes, and those between its NIC and the network. */
static void find_own_links(cluster_t *cluster)
{
    const topo_t *topo = cluster->topo;
    assert_in_range(topo->link_count, 1, LINKS_MOST);
    for (uint32_t h = 0; h < cluster->net.host_count; h++) {
        char name[32];
        snprintf(name, sizeof(name), "n%u", h);
        for (uint32_t i = 0; i < topo->link_count; i++) {
            const topo_link_t *link = &topo->links[i];
            bool own = strcmp(topo->nodes[link->from].host, name) == 0 ||
                       strcmp(topo->nodes[link->to].host, name) == 0;
            cluster->own_link[h][i] = own ? i : TOPO_NONE;
        }
    }
}

static void cluster_init(cluster_t *cluster, const pools_t *pools, const topo_t *topo, const plan_t *plan,
                         uint32_t host_count, const way_t *way)
{
    *cluster = (cluster_t){.topo = topo, .plan = plan, .net.host_count = host_count};
    hand_number_hosts(topo, plan, cluster->host_of);
    find_own_links(cluster);
    cluster->whole = compile(cluster, NULL);
    cluster->reference = make_part(pools->execs[WIRE_HOSTS_MAX - 1], cluster->whole);
    lane_hosts_t hosts = {cluster->host_of, way->lands_in_slots, way->scales, way->keeps_to_slots};
    for (uint32_t h = 0; h < host_count; h++) {
        cluster->parts[h] = compile(cluster, &hosts);
        assert_int_equal(lane_program_keep(cluster->parts[h], h), BLINK_OK);
        cluster->net.hosts[h].instance = make_part(pools->execs[h], cluster->parts[h]);
        exec_limit_slots(cluster->net.hosts[h].instance, way->slots[h]);
    }
    wire_net_init(&cluster->net);
}

static void cluster_fini(cluster_t *cluster)
{
    wire_net_fini(&cluster->net);
    for (uint32_t h = 0; h < cluster->net.host_count; h++) {
        exec_instance_destroy(cluster->net.hosts[h].instance);
        lane_program_destroy(cluster->parts[h]);
    }
    exec_instance_destroy(cluster->reference);
    lane_program_destroy(cluster->whole);
}

/* ---- one op ---- */

typedef struct op {
    cluster_t *cluster;
    const way_t *way;
    uint64_t count, dice;
    uint64_t scalars[RANKS_MOST];
    buffers_t expected, buffers;
    const void *inputs[WIRE_HOSTS_MAX][RANKS_MOST]; /* what each host knows: those of its own ranks */
    void *outputs[WIRE_HOSTS_MAX][RANKS_MOST];
    outcome_t outcomes[WIRE_HOSTS_MAX];
    bool begun[WIRE_HOSTS_MAX];
    link_bytes_t expected_bytes, bytes; /* over links */
} op_t;

static exec_run_t run_of(const op_t *op, const void *const *inputs, void *const *outputs, outcome_t *outcome)
{
    return (exec_run_t){.inputs = inputs,
                        .outputs = outputs,
                        .count = op->count,
                        .datatype = BLINK_FLOAT32,
                        .redop = op->way->scales ? BLINK_PRE_MUL_SUM : BLINK_SUM,
                        .scalars = op->way->scales ? op->scalars : NULL,
                        .done = on_end,
                        .context = outcome};
}

static void run_alone(op_t *op)
{
    outcome_t outcome;
    outcome_init(&outcome);
    exec_run_t run = run_of(op, op->expected.inputs, op->expected.outputs, &outcome);
    run.comm_link_bytes = op->expected_bytes;
    start_run(op->cluster->reference, &run);
    assert_int_equal(wait_done(&outcome, 1), BLINK_OK);
    outcome_fini(&outcome);
}

static void op_init(op_t *op, cluster_t *cluster, const way_t *way, uint64_t count, uint64_t seed)
{
    *op = (op_t){.cluster = cluster, .way = way, .count = count, .dice = seed * 2 + 1};
    for (uint32_t rank = 0; rank < cluster->plan->rank_count; rank++) {
        float scalar = 1.0f / (float)(rank + 2);
        memcpy(&op->scalars[rank], &scalar, sizeof(scalar));
    }
    buffers_init(&op->expected, cluster->plan, count, way->in_place);
    run_alone(op);
    buffers_init(&op->buffers, cluster->plan, count, way->in_place);
    for (uint32_t h = 0; h < cluster->net.host_count; h++) {
        exec_need_t need;
        outcome_init(&op->outcomes[h]);
        assert_int_equal(exec_bind(cluster->net.hosts[h].instance, count * sizeof(float), &need), BLINK_OK);
        for (uint32_t rank = 0; rank < cluster->plan->rank_count; rank++) {
            bool here = cluster->host_of[rank] == h;
            op->inputs[h][rank] = here ? op->buffers.inputs[rank] : NULL;
            op->outputs[h][rank] = here ? op->buffers.outputs[rank] : NULL;
        }
    }
    wire_net_reset(&cluster->net, seed);
    wire_net_start(&cluster->net);
}

static void op_fini(op_t *op)
{
    for (uint32_t h = 0; h < op->cluster->net.host_count; h++)
        outcome_fini(&op->outcomes[h]);
    buffers_fini(&op->buffers);
    buffers_fini(&op->expected);
}

static void pause_a_while(uint64_t *dice)
{
    if (wire_random(dice, 2))
        wire_sleep(wire_random(dice, 200));
}

/* Start hosts in any order, up to `most` of them. */
static void start_hosts(op_t *op, uint32_t most)
{
    uint32_t hosts = op->cluster->net.host_count, first = wire_random(&op->dice, hosts);
    bool backwards = wire_random(&op->dice, 2);
    for (uint32_t i = 0; i < most; i++) {
        uint32_t h = (first + (backwards ? hosts - i : i)) % hosts;
        wire_host_t *host = &op->cluster->net.hosts[h];
        exec_run_t run = run_of(op, op->inputs[h], op->outputs[h], &op->outcomes[h]);
        run.wires = &host->wires;
        run.comm_link_bytes = op->bytes;
        run.own_link = run.sent_link = op->cluster->own_link[h];
        pause_a_while(&op->dice);
        op->begun[h] = true;
        start_run(host->instance, &run);
    }
}

static void assert_bit_identical(const op_t *op)
{
    const plan_t *plan = op->cluster->plan;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        if (memcmp(op->buffers.memory[rank], op->expected.memory[rank],
                   op->buffers.elements * sizeof(float)) != 0)
            fail_msg("%s by %s, %s, %llu elements, in place %d, lands in slots %d: rank %u differs",
                     blink_name_collective(plan->collective), blink_name_algorithm(plan->algorithm),
                     blink_name_protocol(plan->protocol), (unsigned long long)op->count, op->way->in_place,
                     op->way->lands_in_slots, rank);
}

/* Between hosts there are no flags. */
static void assert_links_counted(const op_t *op)
{
    for (uint32_t i = 0; i < LINKS_MOST && op->cluster->plan->protocol == BLINK_PROTOCOL_SIMPLE; i++)
        assert_int_equal(op->bytes[i], op->expected_bytes[i]);
}

static void check_op(cluster_t *cluster, const way_t *way, uint64_t count, uint64_t seed)
{
    op_t op;
    op_init(&op, cluster, way, count, seed);
    start_hosts(&op, cluster->net.host_count);
    for (uint32_t h = 0; h < cluster->net.host_count; h++)
        assert_int_equal(wait_done(&op.outcomes[h], 1), BLINK_OK);
    wire_net_stop(&cluster->net);
    for (uint32_t h = 0; h < cluster->net.host_count; h++)
        assert_int_equal(op.outcomes[h].done, 1);
    assert_bit_identical(&op);
    assert_links_counted(&op);
    op_fini(&op);
}

/* Abort at some moment; one host may not have come to the op at all. */
static void check_aborted_op(cluster_t *cluster, const way_t *way, uint64_t count, uint64_t seed)
{
    op_t op;
    op_init(&op, cluster, way, count, seed);
    start_hosts(&op, cluster->net.host_count - wire_random(&op.dice, 2));
    pause_a_while(&op.dice);
    for (uint32_t h = 0; h < cluster->net.host_count; h++) {
        exec_abort(cluster->net.hosts[h].instance, BLINK_ERR_PEER_LOST);
        cluster->net.stopped = true;
        pause_a_while(&op.dice);
    }
    wire_net_settle(&cluster->net, op.begun);
    for (uint32_t h = 0; h < cluster->net.host_count; h++) {
        if (!op.begun[h])
            continue;
        blink_result_t result = wait_done(&op.outcomes[h], 1);
        assert_true(result == BLINK_OK || result == BLINK_ERR_PEER_LOST);
        assert_int_equal(op.outcomes[h].done, 1);
    }
    op_fini(&op);
}

/* ---- plans ---- */

/* All ways to run small and large payloads of a plan. */
static void check_plan(const pools_t *pools, const topo_t *topo, const plan_t *plan, uint32_t hosts)
{
    static const uint32_t slots[][WIRE_HOSTS_MAX] = {{SLOTS_CHOSEN}, {1, 1, 1, 1}, {1, 3, SLOTS_CHOSEN, 2}};
    static const uint64_t elements[] = {0, 70000};
    for (uint32_t i = 0; i < 2 * LENGTH(slots); i++) {
        way_t way = {.scales = i % 2 == 1, .keeps_to_slots = i / 2 == 2};
        memcpy(way.slots, slots[i / 2], sizeof(way.slots));
        if (way.scales && !collective_reduces(plan->collective))
            continue;
        cluster_t cluster;
        cluster_init(&cluster, pools, topo, plan, hosts, &way);
        for (uint32_t c = 0; c < LENGTH(elements); c++)
            for (int in_place = 0; in_place <= collective_has_in_place(plan->collective); in_place++) {
                way.in_place = in_place;
                check_op(&cluster, &way, count_for(plan, elements[c]), 100 * i + 10 * c + (uint32_t)in_place);
            }
        cluster_fini(&cluster);
    }
}

typedef void check_plan_t(const pools_t *pools, const topo_t *topo, const plan_t *plan, uint32_t hosts);

static void check_machine(const pools_t *pools, const struct machine *machine, blink_algorithm_t algorithm,
                          blink_protocol_t protocol, check_plan_t *check)
{
    topo_t *topo = hand_hosts(machine->devices, machine->hosts);
    for (uint32_t collective = 0; collective <= BLINK_SENDRECV; collective++) {
        plan_t *plan = make_plan(topo, collective, algorithm, protocol);
        if (plan)
            check(pools, topo, plan, machine->hosts);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_every_collective_equals_one_host_alone(void **state)
{
    for (uint32_t m = 0; m < LENGTH(machines); m++)
        check_machine(*state, &machines[m], BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE, check_plan);
}

static void test_rings_equal_one_host_alone(void **state)
{
    for (uint32_t m = 0; m < LENGTH(machines); m++)
        check_machine(*state, &machines[m], BLINK_ALGORITHM_RING, BLINK_PROTOCOL_SIMPLE, check_plan);
}

/* The executors of these hosts emulate their own links. */
/* So many moves come at once that a lane which goes on with them has to stop in between. */
static void check_many_moves(const pools_t *pools, const topo_t *topo, const plan_t *plan, uint32_t hosts)
{
    const way_t way = {0};
    cluster_t cluster;
    cluster_init(&cluster, pools, topo, plan, hosts, &way);
    for (uint32_t round = 0; round < 4; round++)
        check_op(&cluster, &way, count_for(plan, 1u << 21), round);
    cluster_fini(&cluster);
}

static void test_lanes_that_go_on_for_long(void **state)
{
    check_machine(*state, &machines[1], BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE, check_many_moves);
}

static void check_paced(const struct machine *machine, blink_protocol_t protocol, check_plan_t *check)
{
    static const double scales[WIRE_HOSTS_MAX] = {PACE_FAST, PACE_FAST, PACE_FAST, PACE_FAST};
    pools_t pools;
    topo_t *topo = hand_hosts(machine->devices, machine->hosts);
    pools_init(&pools, topo, scales);
    check_machine(&pools, machine, BLINK_ALGORITHM_TREES, protocol, check);
    pools_fini(&pools);
    topo_destroy(topo);
}

static void test_every_collective_over_emulated_links(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < LENGTH(machines); m++)
        check_paced(&machines[m], BLINK_PROTOCOL_SIMPLE, check_plan);
    check_paced(&machines[3], BLINK_PROTOCOL_LL, check_plan);
}

/* Flags stay within a host. */
static void test_every_collective_with_flags_within_hosts(void **state)
{
    check_machine(*state, &machines[3], BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_LL, check_plan);
    check_machine(*state, &machines[2], BLINK_ALGORITHM_BINOMIAL, BLINK_PROTOCOL_LL128, check_plan);
}

/* Data come before the receiver starts. */
static void check_early_data(const pools_t *pools, const topo_t *topo, const plan_t *plan, uint32_t hosts)
{
    way_t way = {.lands_in_slots = true};
    cluster_t cluster;
    cluster_init(&cluster, pools, topo, plan, hosts, &way);
    for (uint32_t round = 0; round < 6; round++) {
        way.in_place = round % 2 && collective_has_in_place(plan->collective);
        check_op(&cluster, &way, 1 + 3 * round, round);
    }
    cluster_fini(&cluster);
}

static void test_data_may_come_before_the_receiver_starts(void **state)
{
    for (uint32_t m = 0; m < LENGTH(machines); m++)
        check_machine(*state, &machines[m], BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE, check_early_data);
}

static void check_aborts(const pools_t *pools, const topo_t *topo, const plan_t *plan, uint32_t hosts)
{
    static const uint64_t elements[] = {100, 70000};
    for (uint32_t c = 0; c < LENGTH(elements); c++) {
        way_t way = {.lands_in_slots = c == 0};
        uint64_t count = count_for(plan, elements[c]);
        cluster_t cluster;
        cluster_init(&cluster, pools, topo, plan, hosts, &way);
        for (uint32_t round = 0; round < 10; round++)
            check_aborted_op(&cluster, &way, count, round);
        check_op(&cluster, &way, count, 1);
        cluster_fini(&cluster);
    }
}

static void test_aborted_ops_end_when_they_are_settled(void **state)
{
    for (uint32_t m = 0; m < LENGTH(machines); m++)
        check_machine(*state, &machines[m], BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE, check_aborts);
}

static void test_aborted_ops_over_emulated_links(void **state)
{
    (void)state;
    check_paced(&machines[1], BLINK_PROTOCOL_SIMPLE, check_aborts);
    check_paced(&machines[3], BLINK_PROTOCOL_SIMPLE, check_aborts);
}

/* All that is left to do waits for links. */
static bool waits_for_links(exec_host_t *exec)
{
    pthread_mutex_lock(&exec->mutex);
    uint64_t next_ns = queue_next_ns(&exec->queue);
    bool waits = exec->runners == 0 && next_ns != UINT64_MAX && next_ns > clock_ns() + FAR_NS;
    pthread_mutex_unlock(&exec->mutex);
    return waits;
}

/* Host 1 sends to host 0 what the links of host `slow` do not let through. */
static void check_held(uint32_t slow)
{
    static const uint32_t devices[] = {1, 1};
    double scales[WIRE_HOSTS_MAX] = {PACE_FAST, PACE_FAST, PACE_FAST, PACE_FAST};
    scales[slow] = PACE_SLOW;
    topo_t *topo = hand_hosts(devices, 2);
    plan_t *plan = make_plan(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    const way_t way = {0};
    pools_t pools;
    cluster_t cluster;
    op_t op;
    pools_init(&pools, topo, scales);
    cluster_init(&cluster, &pools, topo, plan, 2, &way);
    op_init(&op, &cluster, &way, 70000, 1);
    start_hosts(&op, 2);
    while (!waits_for_links(pools.execs[slow]))
        wire_sleep(200);
    for (uint32_t i = 0; i < cluster.net.flow_count; i++)
        assert_true((atomic_load(&cluster.net.flows[i].ready) > 0) == (slow == 0));
    exec_abort(cluster.net.hosts[0].instance, BLINK_ERR_PEER_LOST);
    exec_abort(cluster.net.hosts[1].instance, BLINK_ERR_PEER_LOST);
    wire_net_settle(&cluster.net, op.begun);
    assert_int_equal(wait_done(&op.outcomes[slow], 1), BLINK_ERR_PEER_LOST);
    (void)wait_done(&op.outcomes[1 - slow], 1);
    op_fini(&op);
    cluster_fini(&cluster);
    pools_fini(&pools);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_senders_links_hold_a_move_before_it_is_sent(void **state)
{
    (void)state;
    check_held(1);
}

static void test_receivers_links_hold_a_move_that_has_come(void **state)
{
    (void)state;
    check_held(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_equals_one_host_alone),
        cmocka_unit_test(test_rings_equal_one_host_alone),
        cmocka_unit_test(test_lanes_that_go_on_for_long),
        cmocka_unit_test(test_every_collective_over_emulated_links),
        cmocka_unit_test(test_every_collective_with_flags_within_hosts),
        cmocka_unit_test(test_data_may_come_before_the_receiver_starts),
        cmocka_unit_test(test_aborted_ops_end_when_they_are_settled),
        cmocka_unit_test(test_aborted_ops_over_emulated_links),
        cmocka_unit_test(test_senders_links_hold_a_move_before_it_is_sent),
        cmocka_unit_test(test_receivers_links_hold_a_move_that_has_come),
    };
    return cmocka_run_group_tests(tests, make_pools, free_pools);
}
