/*
 * What compiling costs one of many hosts: processor time, the most memory that it takes beside the plan, and
 * what is kept. `whole` compiles all lanes and keeps the host's part of them; `part` compiles that part. Each
 * in a process of its own, of the plan as a host has it that another one has told it.
 *
 *     bench_compile [MACHINE [COLLECTIVE [ALGORITHM]]]
 */
#include "error.h"
#include "names.h"
#include "plan/lane/lane.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct compile_case {
    topo_t *topo;
    plan_t *plan;
    lane_hosts_t hosts;
    uint32_t of_rank[PLAN_RANKS_MAX];
} compile_case_t;

static int fail(const char *what)
{
    fprintf(stderr, "bench_compile: %s: %s\n", what, blink_error_text());
    return EXIT_FAILURE;
}

static double used_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec * 1e-6;
}

/* A line of /proc/self/status, in MiB. */
static double status_MiB(const char *key)
{
    char line[128];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        if (strncmp(line, key, strlen(key)) == 0)
            sscanf(line + strlen(key), ": %ld", &kib);
    if (status)
        fclose(status);
    return (double)kib / 1024.0;
}

/* Forget the most memory there was so far. */
static void reset_peak(void)
{
    malloc_trim(0);
    FILE *refs = fopen("/proc/self/clear_refs", "w");
    if (refs) {
        fputs("5", refs);
        fclose(refs);
    }
}

static blink_result_t open_case(const char *name, blink_collective_t collective, blink_algorithm_t algorithm,
                                compile_case_t *opened)
{
    plan_t *templates;
    BLINK_TRY(topo_load(name, &opened->topo));
    const topo_t *topo = opened->topo;
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .peer = 1};
    BLINK_TRY(plan_create(topo, &request, &templates));
    BLINK_TRY(plan_expand(topo, templates, &opened->plan));
    plan_destroy(templates);
    for (uint32_t rank = 0, host = 0; rank < topo->gpu_count; rank++) {
        const topo_node_t *node = &topo->nodes[topo->gpus[rank]];
        host += rank > 0 && strcmp(node->host, topo->nodes[topo->gpus[rank - 1]].host) != 0;
        opened->of_rank[rank] = host;
    }
    opened->hosts.of_rank = opened->of_rank;
    return BLINK_OK;
}

static blink_result_t compile(const compile_case_t *of, bool whole, lane_program_t **program)
{
    if (!whole)
        return lane_compile_part(of->topo, of->plan, &of->hosts, 0, program);
    BLINK_TRY(lane_compile(of->topo, of->plan, &of->hosts, program));
    return lane_program_keep(*program, 0);
}

static int compile_one(const char *name, blink_collective_t collective, blink_algorithm_t algorithm,
                       bool whole)
{
    compile_case_t opened = {0};
    lane_program_t *program;
    if (open_case(name, collective, algorithm, &opened) != BLINK_OK)
        return fail(name);
    reset_peak();
    double plan_MiB = status_MiB("VmRSS"), before_ms = used_ms();
    if (compile(&opened, whole, &program) != BLINK_OK)
        return fail(name);
    double ms = used_ms() - before_ms, peak_MiB = status_MiB("VmHWM") - plan_MiB;
    printf("%-20s %-10s %-18s %5u %-5s %10.1f %9.1f %9.2f %8u %9u\n", name, blink_name_collective(collective),
           blink_name_algorithm(algorithm), opened.plan->rank_count, whole ? "whole" : "part", ms, peak_MiB,
           (double)lane_program_bytes(program) / (1 << 20), program->lane_count, program->step_count);
    return EXIT_SUCCESS;
}

static bool compile_in_child(const char *name, blink_collective_t collective, blink_algorithm_t algorithm,
                             bool whole)
{
    int status;
    fflush(stdout); /* or the child would print it again */
    pid_t child = fork();
    if (child == 0) {
        int code = compile_one(name, collective, algorithm, whole);
        fflush(stdout);
        _exit(code);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    const char *machine = argc > 1 ? argv[1] : "dgx1v";
    blink_collective_t collective = BLINK_ALLREDUCE;
    blink_algorithm_t algorithm = BLINK_ALGORITHM_TREES;
    if ((argc > 2 && !blink_parse_collective(argv[2], &collective)) ||
        (argc > 3 && !blink_parse_algorithm(argv[3], &algorithm))) {
        fprintf(stderr, "bench_compile: [MACHINE [COLLECTIVE [ALGORITHM]]]\n");
        return EXIT_FAILURE;
    }
    printf("%-20s %-10s %-18s %5s %-5s %10s %9s %9s %8s %9s\n", "topology", "collective", "algorithm",
           "ranks", "", "cpu ms", "peak MiB", "kept MiB", "lanes", "steps");
    for (uint32_t hosts = 8; hosts <= 128; hosts *= 4) {
        char name[64];
        snprintf(name, sizeof(name), "%ux%s", hosts, machine);
        if (!compile_in_child(name, collective, algorithm, true) ||
            !compile_in_child(name, collective, algorithm, false))
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
