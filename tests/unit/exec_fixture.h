/*
 * What the executor's tests share: a machine of a few devices, programs made by hand for it, and payloads
 * with a reference to compare with.
 */
#ifndef EXEC_FIXTURE_H
#define EXEC_FIXTURE_H

#include "exec/host/exec_host.h"

#include "names.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define RANKS         4u
#define LINKS         (RANKS * RANKS)
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A full mesh, link (from, to) at from * RANKS + to; 1 GB/s and 1 µs each. */
typedef struct fixture {
    topo_t topo;
    topo_node_t nodes[RANKS];
    topo_link_t links[LINKS];
    _Atomic uint64_t link_bytes[LINKS];
    pace_t *pace;
    exec_host_t *exec;
} fixture_t;

static void fixture_init(fixture_t *fixture, uint32_t workers, double scale)
{
    memset(fixture, 0, sizeof(*fixture));
    for (uint32_t i = 0; i < LINKS; i++)
        fixture->links[i] = (topo_link_t){
            .from = i / RANKS, .to = i % RANKS, .GBps = 1.0, .unit_GBps = 1.0, .latency_us = 1.0};
    fixture->topo = (topo_t){.node_count = RANKS,
                             .link_count = LINKS,
                             .gpu_count = RANKS,
                             .nodes = fixture->nodes,
                             .links = fixture->links};
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

/* ---- plans ---- */

/* Parent of each rank in a chain that starts at the root, or in a star around it. */
static void fill_tree(plan_tree_t *tree, uint32_t root, bool chain)
{
    for (uint32_t i = 1; i < RANKS; i++) {
        uint32_t rank = (root + i) % RANKS;
        tree->parent[rank] = chain ? (root + i - 1) % RANKS : root;
    }
    tree->parent[root] = tree->path[root] = PLAN_NONE;
}

static void fill_part(plan_part_t *part, uint32_t root, bool reduces, bool chain, uint32_t *storage)
{
    part->root = root;
    part->broadcast = (plan_tree_t){storage, storage + RANKS};
    fill_tree(&part->broadcast, root, chain);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != root)
            part->broadcast.path[rank] = part->broadcast.parent[rank] * RANKS + rank;
    }
    if (!reduces)
        return;
    part->reduce = (plan_tree_t){storage + 2 * RANKS, storage + 3 * RANKS};
    fill_tree(&part->reduce, root, chain);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != root)
            part->reduce.path[rank] = rank * RANKS + part->reduce.parent[rank];
    }
}

typedef enum shape { TREES, RING } shape_t;

/* TREES: a chain and a star of unequal shares. RING: one channel with a chain from every rank. */
static lane_program_t *make_program(const fixture_t *fixture, blink_collective_t collective, shape_t shape)
{
    plan_part_t parts[RANKS] = {0};
    uint32_t storage[RANKS][4 * RANKS];
    uint32_t rank_node[RANKS];
    plan_path_t paths[LINKS];
    uint32_t path_links[LINKS];
    bool reduces = collective == BLINK_ALLREDUCE;
    for (uint32_t i = 0; i < LINKS; i++) {
        path_links[i] = i;
        paths[i] = (plan_path_t){&path_links[i], 1};
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        rank_node[i] = i;
        bool chain = shape == RING || i == 0;
        fill_part(&parts[i], shape == RING ? i : 0, reduces, chain, storage[i]);
    }
    plan_channel_t trees[] = {{0.7, 1, &parts[0]}, {0.3, 1, &parts[1]}};
    plan_channel_t ring[] = {{1.0, RANKS, parts}};
    plan_t plan = {.collective = collective,
                   .rank_count = RANKS,
                   .rank_node = rank_node,
                   .channel_count = shape == RING ? 1 : 2,
                   .channels = shape == RING ? ring : trees,
                   .path_count = LINKS,
                   .paths = paths};
    lane_program_t *program = NULL;
    assert_int_equal(lane_compile(&fixture->topo, &plan, &program), BLINK_OK);
    return program;
}

/* ---- runs ---- */

typedef struct outcome {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t done;
    blink_result_t result;
} outcome_t;

static void outcome_init(outcome_t *outcome)
{
    *outcome = (outcome_t){.result = BLINK_ERR_INTERNAL};
    pthread_mutex_init(&outcome->mutex, NULL);
    pthread_cond_init(&outcome->changed, NULL);
}

static void outcome_fini(outcome_t *outcome)
{
    pthread_cond_destroy(&outcome->changed);
    pthread_mutex_destroy(&outcome->mutex);
}

static void on_done(void *context, blink_result_t result)
{
    outcome_t *outcome = context;
    pthread_mutex_lock(&outcome->mutex);
    outcome->done++;
    outcome->result = result;
    pthread_cond_broadcast(&outcome->changed);
    pthread_mutex_unlock(&outcome->mutex);
}

static blink_result_t wait_done(outcome_t *outcome, uint32_t times)
{
    pthread_mutex_lock(&outcome->mutex);
    while (outcome->done < times)
        pthread_cond_wait(&outcome->changed, &outcome->mutex);
    blink_result_t result = outcome->result;
    pthread_mutex_unlock(&outcome->mutex);
    return result;
}

/* The payload of one run: inputs filled by sample(), outputs cleared. */
typedef struct payload {
    size_t bytes;
    void *inputs[RANKS];
    void *outputs[RANKS];
    bool in_place;
    outcome_t outcome;
    exec_run_t run;
} payload_t;

/* Exact in every type, and so are its sums and products over four ranks. */
static int sample(uint32_t rank, size_t i)
{
    return (int)((i + rank) % 3) + 1;
}

static void store(blink_datatype_t datatype, void *array, size_t i, int value)
{
    switch (datatype) {
    case BLINK_INT8:
    case BLINK_UINT8:
        ((uint8_t *)array)[i] = (uint8_t)value;
        break;
    case BLINK_INT32:
    case BLINK_UINT32:
        ((uint32_t *)array)[i] = (uint32_t)value;
        break;
    case BLINK_INT64:
    case BLINK_UINT64:
        ((uint64_t *)array)[i] = (uint64_t)value;
        break;
    case BLINK_FLOAT32:
        ((float *)array)[i] = (float)value;
        break;
    case BLINK_FLOAT64:
        ((double *)array)[i] = value;
        break;
    }
}

static int combine(blink_redop_t redop, int x, int y)
{
    switch (redop) {
    case BLINK_SUM:
        return x + y;
    case BLINK_PROD:
        return x * y;
    case BLINK_MAX:
        return x > y ? x : y;
    case BLINK_MIN:
        return x < y ? x : y;
    }
    return 0;
}

static void payload_init(payload_t *payload, uint64_t count, blink_datatype_t datatype, blink_redop_t redop,
                         bool in_place)
{
    memset(payload, 0, sizeof(*payload));
    payload->bytes = count * blink_datatype_bytes(datatype);
    payload->in_place = in_place;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        payload->inputs[rank] = calloc(1, payload->bytes + 1);
        payload->outputs[rank] = in_place ? payload->inputs[rank] : calloc(1, payload->bytes + 1);
        for (size_t i = 0; i < count; i++)
            store(datatype, payload->inputs[rank], i, sample(rank, i));
    }
    outcome_init(&payload->outcome);
    payload->run = (exec_run_t){.inputs = (const void *const *)payload->inputs,
                                .outputs = payload->outputs,
                                .count = count,
                                .datatype = datatype,
                                .redop = redop,
                                .done = on_done,
                                .context = &payload->outcome};
}

static void payload_fini(payload_t *payload)
{
    outcome_fini(&payload->outcome);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(payload->inputs[rank]);
        if (!payload->in_place)
            free(payload->outputs[rank]);
    }
}

static void assert_reduced(const payload_t *payload)
{
    void *expected = calloc(1, payload->bytes + 1);
    for (size_t i = 0; i < payload->run.count; i++) {
        int value = sample(0, i);
        for (uint32_t rank = 1; rank < RANKS; rank++)
            value = combine(payload->run.redop, value, sample(rank, i));
        store(payload->run.datatype, expected, i, value);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(payload->outputs[rank], expected, payload->bytes + 1);
    free(expected);
}

#endif
