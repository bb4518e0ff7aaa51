/*
 * Measures the host executor without daemon or clients: one AllReduce over all or some gpus of a topology, by
 * packed trees and by rings, first unpaced, then at the default pace (or another scale). Prints the achieved
 * payload rate, its ratio to the plan's own rate × scale, and the processors used.
 *
 *     exec_rate [TOPOLOGY [MiB [SCALE, 0 for the default [DEVICE…]]]]
 */
#include "error.h"
#include "exec/host/exec_host.h"
#include "names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define ROUNDS 3

typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    blink_result_t result;
} gate_t;

/* The ranks, and what they reduce. */
typedef struct job {
    const topo_t *topo;
    uint32_t ranks;
    uint32_t *rank_node;
    uint64_t count; /* float32 elements */
    float **inputs;
    float **outputs;
} job_t;

static void open_gate(const exec_end_t *end)
{
    gate_t *gate = end->context;
    pthread_mutex_lock(&gate->mutex);
    gate->done = true;
    gate->result = end->result;
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

static blink_result_t run_once(exec_instance_t *instance, const job_t *job)
{
    gate_t gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    exec_run_t run = {.inputs = (const void *const *)job->inputs,
                      .outputs = (void *const *)job->outputs,
                      .count = job->count,
                      .datatype = BLINK_FLOAT32,
                      .redop = BLINK_SUM,
                      .done = open_gate,
                      .context = &gate};
    exec_end_t end;
    if (exec_start(instance, &run, &end))
        return end.result;
    pthread_mutex_lock(&gate.mutex);
    while (!gate.done)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
    return gate.result;
}

/* Elements that differ from the sum of rank + 1. */
static uint64_t count_wrong(const job_t *job)
{
    uint32_t sum = job->ranks * (job->ranks + 1) / 2;
    float expected = (float)sum;
    uint64_t wrong = 0;
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        for (uint64_t i = 0; i < job->count; i++)
            wrong += job->outputs[rank][i] != expected;
    }
    return wrong;
}

typedef struct usage {
    double wall_s, cpu_s;
} usage_t;

static blink_result_t run_rounds(exec_instance_t *instance, const job_t *job, usage_t *usage)
{
    BLINK_TRY(run_once(instance, job)); /* touches scratch and outputs */
    double wall = wall_seconds();
    double cpu = cpu_seconds();
    for (int round = 0; round < ROUNDS; round++)
        BLINK_TRY(run_once(instance, job));
    *usage = (usage_t){wall_seconds() - wall, cpu_seconds() - cpu};
    return BLINK_OK;
}

static void report(const job_t *job, const plan_t *plan, uint32_t workers, const pace_t *pace, usage_t usage)
{
    double rate_GBps = (double)(ROUNDS * job->count * sizeof(float)) / usage.wall_s * 1e-9;
    printf("%-5s %-12s %3u channels: %8.4f GB/s, %3.0f %% of %u workers", pace ? "paced" : "free",
           blink_name_algorithm(plan->algorithm), plan->channel_count, rate_GBps,
           100.0 * usage.cpu_s / usage.wall_s / workers, workers);
    if (pace)
        printf(", ratio %.3f of %.3f GB/s x %g", rate_GBps / (plan->rate_GBps * pace_scale(pace)),
               plan->rate_GBps, pace_scale(pace));
    printf(", %llu wrong\n", (unsigned long long)count_wrong(job));
}

static blink_result_t measure(const job_t *job, blink_algorithm_t algorithm, pace_t *pace)
{
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .algorithm = algorithm,
                              .rank_node = job->rank_node,
                              .rank_count = job->ranks};
    exec_host_config_t config = {.bind = true, .pace = pace, .link_count = job->topo->link_count};
    plan_t *plan = NULL;
    lane_program_t *program = NULL;
    exec_host_t *exec = NULL;
    exec_instance_t *instance = NULL;
    usage_t usage = {0};
    blink_result_t result = plan_create(job->topo, &request, &plan);
    if (result == BLINK_OK)
        result = lane_compile(job->topo, plan, NULL, &program);
    if (result == BLINK_OK)
        result = exec_host_create(&config, &exec);
    if (result == BLINK_OK)
        result = exec_instance_create(exec_of_host(exec), program, job->rank_node, &instance);
    if (result == BLINK_OK)
        result = run_rounds(instance, job, &usage);
    if (result == BLINK_OK)
        report(job, plan, exec_host_workers(exec), pace, usage);
    exec_instance_destroy(instance);
    exec_host_destroy(exec);
    lane_program_destroy(program);
    plan_destroy(plan);
    return result;
}

static blink_result_t measure_all(const job_t *job, double scale)
{
    const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_RING};
    for (uint32_t i = 0; i < 4; i++) {
        /* Every measurement starts with idle links. */
        pace_t *pace = NULL;
        if (i >= 2)
            BLINK_TRY(pace_create(job->topo, scale, &pace));
        blink_result_t result = measure(job, algorithms[i % 2], pace);
        pace_destroy(pace);
        BLINK_TRY(result);
    }
    return BLINK_OK;
}

static blink_result_t job_init(job_t *job, const topo_t *topo, uint64_t bytes, char **devices,
                               uint32_t device_count)
{
    job->topo = topo;
    job->ranks = device_count ? device_count : topo->gpu_count;
    job->count = bytes / sizeof(float);
    job->rank_node = calloc(job->ranks, sizeof(*job->rank_node));
    job->inputs = calloc(job->ranks, sizeof(*job->inputs));
    job->outputs = calloc(job->ranks, sizeof(*job->outputs));
    if (!job->rank_node || !job->inputs || !job->outputs)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", job->ranks);
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        unsigned long device = device_count ? strtoul(devices[rank], NULL, 10) : rank;
        if (device >= topo->gpu_count)
            return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "no device %lu among %u", device, topo->gpu_count);
        job->rank_node[rank] = topo->gpus[device];
        job->inputs[rank] = malloc(bytes);
        job->outputs[rank] = malloc(bytes);
        if (!job->inputs[rank] || !job->outputs[rank])
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the buffers of rank %u", rank);
        for (uint64_t i = 0; i < job->count; i++)
            job->inputs[rank][i] = (float)(rank + 1);
    }
    return BLINK_OK;
}

static void job_fini(job_t *job)
{
    for (uint32_t rank = 0; rank < job->ranks && job->inputs && job->outputs; rank++) {
        free(job->inputs[rank]);
        free(job->outputs[rank]);
    }
    free(job->inputs);
    free(job->outputs);
    free(job->rank_node);
}

int main(int argc, char **argv)
{
    uint64_t bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 64) << 20;
    double scale = argc > 3 ? strtod(argv[3], NULL) : 0.0;
    topo_t *topo = NULL;
    job_t job = {0};
    blink_result_t result = topo_load(argc > 1 ? argv[1] : "dgx1v_hybrid", &topo);
    if (result == BLINK_OK)
        result = job_init(&job, topo, bytes, argv + 4, argc > 4 ? (uint32_t)(argc - 4) : 0);
    if (result == BLINK_OK)
        result = measure_all(&job, scale > 0.0 ? scale : pace_default_scale(topo, 0));
    if (result != BLINK_OK)
        fprintf(stderr, "exec_rate: %s: %s\n", blink_name_result(result), blink_error_text());
    job_fini(&job);
    topo_destroy(topo);
    plan_thread_release();
    return result == BLINK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
