/*
 * The data plane between hosts in one process: what every collective leaves in memory, many ops at once, ops
 * that fail and connections that are cut at any moment.
 */
#include "data_world.h"

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

/* Hosts begin in any order. */
static void begin_everywhere(op_t *op)
{
    world_t *world = op->world;
    uint32_t first = world_random(&world->dice, world->host_count);
    for (uint32_t i = 0; i < world->host_count; i++)
        begin_part(&op->parts[(first + i) % world->host_count]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_equals_one_host_alone),
        cmocka_unit_test(test_rings_equal_one_host_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
