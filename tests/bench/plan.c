/*
 * How planning grows: plan and bound of N hosts for N = 1, 2, 4 … 128 (or as many as 1,024 gpus allow), each
 * in a process of its own so that its memory is its own. Prints processor time, memory, what the plan is and
 * how near to its bound; the last column is the growth of the time against that of the number of gpus (1:
 * linear).
 *
 *     bench_plan [BUILT-IN [COLLECTIVE…]]
 */
#include "plan/plan.h"
#include "error.h"
#include "names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct measured {
    uint32_t gpus;
    double cpu_ms, MiB;
} measured_t;

static int fail(const char *what)
{
    fprintf(stderr, "bench_plan: %s: %s\n", what, blink_error_text());
    return EXIT_FAILURE;
}

/* Processor time of this process so far: other work on the machine does not count. */
static double used_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec * 1e-6;
}

/* In a child: plan, print all but the last column, and send what the parent compares. */
static int plan_one(const char *name, blink_collective_t collective, int pipe_end)
{
    topo_t *topo;
    plan_t *plan;
    struct rusage before, after;
    if (topo_load(name, &topo) != BLINK_OK)
        return fail(name);
    plan_request_t request = {
        .collective = collective, .rank_node = topo->gpus, .rank_count = topo->gpu_count, .peer = 1};
    getrusage(RUSAGE_SELF, &before);
    double before_ms = used_ms();
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        return fail(name);
    getrusage(RUSAGE_SELF, &after);
    measured_t measured = {topo->gpu_count, used_ms() - before_ms,
                           (double)(after.ru_maxrss - before.ru_maxrss) / 1024.0};
    printf("%-14s %-14s %5u %10.2f %8.1f %9u %8llu %10.3f %10.3f %7.4f", name,
           blink_name_collective(collective), measured.gpus, measured.cpu_ms, measured.MiB,
           plan->channel_count, (unsigned long long)plan_image_count(plan), plan->rate_GBps, plan->bound_GBps,
           plan->rate_GBps / plan->bound_GBps);
    fflush(stdout);
    plan_destroy(plan);
    topo_destroy(topo);
    return write(pipe_end, &measured, sizeof(measured)) == (ssize_t)sizeof(measured) ? EXIT_SUCCESS
                                                                                     : EXIT_FAILURE;
}

static bool plan_in_child(const char *name, blink_collective_t collective, measured_t *measured)
{
    int ends[2], status;
    if (pipe(ends) != 0)
        return false;
    fflush(stdout); /* or the child would print it again */
    pid_t child = fork();
    if (child == 0)
        _exit(plan_one(name, collective, ends[1]));
    close(ends[1]);
    bool told = child > 0 && read(ends[0], measured, sizeof(*measured)) == (ssize_t)sizeof(*measured);
    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && told;
}

static bool grow(const char *machine, blink_collective_t collective, uint32_t hosts_max)
{
    measured_t last = {0};
    for (uint32_t hosts = 1; hosts <= hosts_max; hosts *= 2) {
        measured_t measured;
        char name[64];
        snprintf(name, sizeof(name), "%ux%s", hosts, machine);
        if (!plan_in_child(hosts == 1 ? machine : name, collective, &measured))
            return false;
        if (last.gpus > 0)
            printf(" %7.2f", log(measured.cpu_ms / last.cpu_ms) / log((double)measured.gpus / last.gpus));
        printf("\n");
        last = measured;
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *machine = argc > 1 ? argv[1] : "dgx1v";
    topo_t *topo;
    if (topo_load(machine, &topo) != BLINK_OK)
        return fail(machine);
    uint32_t hosts_max = PLAN_RANKS_MAX / topo->gpu_count > 128 ? 128 : PLAN_RANKS_MAX / topo->gpu_count;
    topo_destroy(topo);
    printf("%-14s %-14s %5s %10s %8s %9s %8s %10s %10s %7s %7s\n", "topology", "collective", "gpus", "cpu ms",
           "MiB", "templates", "images", "GB/s", "bound", "ratio", "growth");
    for (blink_collective_t c = BLINK_ALLREDUCE; argc <= 2 && c <= BLINK_REDUCESCATTER; c++)
        if (!grow(machine, c, hosts_max))
            return EXIT_FAILURE;
    for (int i = 2; i < argc; i++) {
        blink_collective_t collective;
        if (!blink_parse_collective(argv[i], &collective)) {
            fprintf(stderr, "bench_plan: there is no collective \"%s\"\n", argv[i]);
            return EXIT_FAILURE;
        }
        if (!grow(machine, collective, hosts_max))
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
