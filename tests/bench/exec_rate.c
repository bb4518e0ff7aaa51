/*
 * Measures the host executor without daemon or clients: one AllReduce over every gpu of a topology, by packed
 * trees and by rings, first unpaced, then at the default pace. Prints the achieved payload rate, its ratio to
 * the plan's own rate × scale, and the processors used.
 *
 *     exec_rate [TOPOLOGY [MiB [SCALE]]]
 */
#include "error.h"
#include "exec/host/exec_host.h"
#include "names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define ROUNDS 3

typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    blink_result_t result;
} gate_t;

typedef struct buffers {
    uint64_t count; /* float32 elements */
    float **inputs;
    float **outputs;
    uint32_t ranks;
} buffers_t;

static void open_gate(void *context, blink_result_t result)
{
    gate_t *gate = context;
    pthread_mutex_lock(&gate->mutex);
    gate->done = true;
    gate->result = result;
    pthread_cond_signal(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

static double wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static blink_result_t run_once(exec_instance_t *instance, const buffers_t *buffers)
{
    gate_t gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    exec_run_t run = {.inputs = (const void *const *)buffers->inputs,
                      .outputs = (void *const *)buffers->outputs,
                      .count = buffers->count,
                      .datatype = BLINK_FLOAT32,
                      .redop = BLINK_SUM,
                      .done = open_gate,
                      .context = &gate};
    BLINK_TRY(exec_start(instance, &run));
    pthread_mutex_lock(&gate.mutex);
    while (!gate.done)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
    return gate.result;
}

/* Elements that differ from the sum of rank + 1. */
static uint64_t count_wrong(const buffers_t *buffers)
{
    float expected = (float)(buffers->ranks * (buffers->ranks + 1) / 2);
    uint64_t wrong = 0;
    for (uint32_t rank = 0; rank < buffers->ranks; rank++) {
        for (uint64_t i = 0; i < buffers->count; i++)
            wrong += buffers->outputs[rank][i] != expected;
    }
    return wrong;
}

static blink_result_t measure(const topo_t *topo, blink_algorithm_t algorithm, const buffers_t *buffers,
                              pace_t *pace)
{
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count};
    plan_t *plan = NULL;
    lane_program_t *program = NULL;
    exec_host_t *exec = NULL;
    exec_instance_t *instance = NULL;
    exec_host_config_t config = {.bind = true, .pace = pace, .link_count = topo->link_count};
    lane_geometry_t geometry = {0};
    blink_result_t result = plan_create(topo, &request, &plan);
    if (result == BLINK_OK)
        result = lane_compile(topo, plan, &program);
    if (result == BLINK_OK)
        result = exec_host_create(&config, &exec);
    if (result == BLINK_OK)
        result = exec_instance_create(exec, program, NULL, &instance);
    if (result == BLINK_OK)
        result = run_once(instance, buffers); /* touches scratch and outputs */
    double wall = wall_seconds();
    double cpu = cpu_seconds();
    for (int round = 0; round < ROUNDS && result == BLINK_OK; round++)
        result = run_once(instance, buffers);
    wall = wall_seconds() - wall;
    cpu = cpu_seconds() - cpu;
    if (result == BLINK_OK)
        result = lane_geometry_init(program, buffers->count * sizeof(float), 0, 1, &geometry);
    if (result == BLINK_OK) {
        double rate_GBps = (double)(ROUNDS * buffers->count * sizeof(float)) / wall * 1e-9;
        printf("%-6s %-8s %3u channels, %6llu B chunks: %8.4f GB/s, %4.0f %% of %u cores",
               pace ? "paced" : "free", blink_name_algorithm(algorithm), plan->channel_count,
               (unsigned long long)geometry.chunk_bytes, rate_GBps,
               100.0 * cpu / wall / exec_host_workers(exec), exec_host_workers(exec));
        if (pace)
            printf(", ratio %.3f of %.3f GB/s x %g", rate_GBps / (plan->rate_GBps * pace_scale(pace)),
                   plan->rate_GBps, pace_scale(pace));
        printf(", %llu wrong\n", (unsigned long long)count_wrong(buffers));
    }
    lane_geometry_fini(&geometry);
    exec_instance_destroy(instance);
    exec_host_destroy(exec);
    lane_program_destroy(program);
    plan_destroy(plan);
    return result;
}

static blink_result_t measure_all(const topo_t *topo, const buffers_t *buffers, double scale)
{
    const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_RING};
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < 4 && result == BLINK_OK; i++) {
        /* Every measurement starts with idle links. */
        pace_t *pace = NULL;
        if (i >= 2)
            BLINK_TRY(pace_create(topo, scale, &pace));
        result = measure(topo, algorithms[i % 2], buffers, pace);
        pace_destroy(pace);
    }
    return result;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "dgx1v_hybrid";
    uint64_t bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 64) << 20;
    topo_t *topo = NULL;
    if (topo_load(name, &topo) != BLINK_OK) {
        fprintf(stderr, "exec_rate: %s\n", blink_error_text());
        return EXIT_FAILURE;
    }
    double scale = argc > 3 ? strtod(argv[3], NULL) : pace_default_scale(topo, 0);
    buffers_t buffers = {.count = bytes / sizeof(float), .ranks = topo->gpu_count};
    buffers.inputs = calloc(buffers.ranks, sizeof(*buffers.inputs));
    buffers.outputs = calloc(buffers.ranks, sizeof(*buffers.outputs));
    for (uint32_t rank = 0; rank < buffers.ranks; rank++) {
        buffers.inputs[rank] = malloc(bytes);
        buffers.outputs[rank] = malloc(bytes);
        for (uint64_t i = 0; i < buffers.count; i++)
            buffers.inputs[rank][i] = (float)(rank + 1);
    }
    blink_result_t result = measure_all(topo, &buffers, scale);
    if (result != BLINK_OK)
        fprintf(stderr, "exec_rate: %s: %s\n", blink_name_result(result), blink_error_text());
    for (uint32_t rank = 0; rank < buffers.ranks; rank++) {
        free(buffers.inputs[rank]);
        free(buffers.outputs[rank]);
    }
    free(buffers.inputs);
    free(buffers.outputs);
    topo_destroy(topo);
    plan_thread_release();
    return result == BLINK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
