/*
 * What the executor's tests share: a machine of a few devices, and programs made by hand for it.
 */
#ifndef EXEC_FIXTURE_H
#define EXEC_FIXTURE_H

#include "exec_outcome.h"
#include "names.h"
#include "unit/plan/hand_plan.h"

#define RANKS         4u
#define LINKS         (RANKS * RANKS)
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A full mesh, link (from, to) at from * RANKS + to; 1 GB/s and 1 µs each. */
typedef struct fixture {
    topo_t topo;
    topo_node_t nodes[RANKS];
    topo_link_t links[LINKS];
    uint32_t gpus[RANKS], out_first[RANKS + 1], out_links[LINKS];
    _Atomic uint64_t link_bytes[LINKS];
    pace_t *pace;
    exec_host_t *exec;
} fixture_t;

static void fixture_init(fixture_t *fixture, uint32_t workers, double scale)
{
    memset(fixture, 0, sizeof(*fixture));
    for (uint32_t i = 0; i < LINKS; i++) {
        fixture->links[i] = (topo_link_t){
            .from = i / RANKS, .to = i % RANKS, .GBps = 1.0, .unit_GBps = 1.0, .latency_us = 1.0};
        fixture->out_links[i] = i;
    }
    for (uint32_t i = 0; i <= RANKS; i++)
        fixture->out_first[i] = i * RANKS;
    for (uint32_t i = 0; i < RANKS; i++)
        fixture->gpus[i] = i;
    fixture->topo = (topo_t){.node_count = RANKS,
                             .link_count = LINKS,
                             .gpu_count = RANKS,
                             .nodes = fixture->nodes,
                             .links = fixture->links,
                             .gpus = fixture->gpus,
                             .out_first = fixture->out_first,
                             .out_links = fixture->out_links};
    if (scale > 0.0)
        assert_int_equal(pace_create(&fixture->topo, scale, &fixture->pace), BLINK_OK);
    exec_host_config_t config = {.workers = workers,
                                 .bind = workers == 2,
                                 .pace = fixture->pace,
                                 .link_count = LINKS,
                                 .link_bytes = fixture->link_bytes};
    assert_int_equal(exec_host_create(&config, &fixture->exec), BLINK_OK);
    assert_int_equal(exec_host_workers(fixture->exec), workers);
}

static void fixture_fini(fixture_t *fixture)
{
    exec_host_destroy(fixture->exec);
    pace_destroy(fixture->pace);
}

static lane_program_t *make_program(const fixture_t *fixture, blink_collective_t collective,
                                    hand_shape_t shape, blink_protocol_t protocol)
{
    return hand_compile(&fixture->topo, RANKS, collective, shape, protocol);
}

static exec_instance_t *make_instance(const fixture_t *fixture, const lane_program_t *program)
{
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(exec_of_host(fixture->exec), program, NULL, &instance), BLINK_OK);
    return instance;
}

#endif
