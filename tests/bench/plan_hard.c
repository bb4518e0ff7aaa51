/*
 * Planning where nothing is regular, or where too much is: graphs that nobody builds machines of, and those
 * that somebody does. Every case is planned in a process of its own, which is ended after a limit. Prints
 * the processor time, the plan's trees or routes, its rate as a part of the bound, and the bound.
 *
 *     bench_plan_hard [-l SECONDS] [-s PLAN_SECONDS] [GRAPH[/COLLECTIVE]…]
 */
#include "error.h"
#include "names.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- graphs ---- */

typedef struct dice {
    uint64_t state;
} dice_t;

static uint32_t roll(dice_t *dice, uint32_t sides)
{
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice->state >> 33) % sides;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_plan_hard: %s: %s\n", what, blink_error_text());
    exit(EXIT_FAILURE);
}

static topo_builder_t *begin(const char *name, uint32_t devices)
{
    topo_builder_t *builder = NULL;
    if (topo_build_create(name, "bench", &builder) != BLINK_OK)
        fail(name);
    for (uint32_t i = 0; i < devices; i++) {
        char id[16];
        snprintf(id, sizeof(id), "g%u", i);
        if (topo_build_node(builder, &(topo_node_t){.id = id, .kind = TOPO_DEVICE}) != BLINK_OK)
            fail(name);
    }
    return builder;
}

static void join(topo_builder_t *builder, uint32_t from, uint32_t to, double GBps, bool duplex)
{
    char ids[2][16];
    snprintf(ids[0], sizeof(ids[0]), "g%u", from);
    snprintf(ids[1], sizeof(ids[1]), "g%u", to);
    if (topo_build_link(builder, ids[0], ids[1], TOPO_NVLINK, GBps, 1, 1.0, duplex) != BLINK_OK)
        fail(ids[0]);
}

static topo_t *finish(topo_builder_t *builder)
{
    topo_t *topo = NULL;
    if (topo_build_finish(builder, &topo) != BLINK_OK)
        fail("graph");
    topo_build_destroy(builder);
    return topo;
}

/* Every two devices joined, each direction with a capacity of its own. */
static topo_t *make_complete(uint32_t devices)
{
    dice_t dice = {devices};
    topo_builder_t *builder = begin("complete", devices);
    for (uint32_t i = 0; i < devices; i++)
        for (uint32_t j = 0; j < devices; j++)
            if (i != j)
                join(builder, i, j, 1.0 + roll(&dice, 1000) / 20.0, false);
    return finish(builder);
}

/* Every two devices joined, both directions alike. */
static topo_t *make_duplex(uint32_t devices)
{
    dice_t dice = {devices};
    topo_builder_t *builder = begin("duplex", devices);
    for (uint32_t i = 0; i < devices; i++)
        for (uint32_t j = 0; j < i; j++)
            join(builder, i, j, 1.0 + roll(&dice, 1000) / 20.0, true);
    return finish(builder);
}

/* A grid of three dimensions; a dimension that wraps joins its last to its first. */
static topo_t *make_grid(const uint32_t size[3], bool wraps)
{
    topo_builder_t *builder = begin("grid", size[0] * size[1] * size[2]);
    uint32_t stride[3] = {1, size[0], size[0] * size[1]};
    for (uint32_t at = 0; at < size[0] * size[1] * size[2]; at++)
        for (uint32_t d = 0; d < 3; d++) {
            uint32_t place = at / stride[d] % size[d];
            if (place + 1 < size[d])
                join(builder, at, at + stride[d], 25.0, true);
            else if (wraps && size[d] > 2)
                join(builder, at, at - place * stride[d], 25.0, true);
        }
    return finish(builder);
}

static topo_t *make_mesh(uint32_t devices)
{
    uint32_t side = devices == 16 ? 4 : devices == 64 ? 8 : 11;
    return make_grid((uint32_t[3]){side, side, 1}, false);
}

static topo_t *make_torus(uint32_t devices)
{
    return make_grid((uint32_t[3]){4, 4, devices / 16}, true);
}

static topo_t *make_hypercube(uint32_t devices)
{
    topo_builder_t *builder = begin("hypercube", devices);
    for (uint32_t i = 0; i < devices; i++)
        for (uint32_t bit = 1; bit < devices; bit *= 2)
            if ((i & bit) == 0)
                join(builder, i, i | bit, 25.0, true);
    return finish(builder);
}

/* Groups of 8, complete inside, one link between every two groups. */
static topo_t *make_dragonfly(uint32_t devices)
{
    topo_builder_t *builder = begin("dragonfly", devices);
    for (uint32_t i = 0; i < devices; i++)
        for (uint32_t j = i + 1; j < devices; j++) {
            if (i / 8 == j / 8)
                join(builder, i, j, 50.0, true);
            else if (i % 8 == j / 8 && j % 8 == i / 8)
                join(builder, i, j, 25.0, true);
        }
    return finish(builder);
}

/* Six random perfect matchings laid over one another, and a ring so that all are joined; or with capacities
 * at random. */
static topo_t *make_matchings(uint32_t devices, bool random_GBps)
{
    dice_t dice = {devices + random_GBps};
    uint32_t order[256];
    topo_builder_t *builder = begin("matchings", devices);
    for (uint32_t i = 0; i < devices; i++)
        order[i] = i;
    for (uint32_t matching = 0; matching < 6; matching++) {
        for (uint32_t i = 0; i + 1 < devices; i += 2)
            join(builder, order[i], order[i + 1], random_GBps ? 1.0 + roll(&dice, 100) : 25.0, true);
        for (uint32_t i = devices - 1; i > 0; i--) {
            uint32_t j = roll(&dice, i + 1), moved = order[i];
            order[i] = order[j];
            order[j] = moved;
        }
    }
    for (uint32_t i = 0; i < devices; i++)
        join(builder, i, (i + 1) % devices, random_GBps ? 1.0 + roll(&dice, 100) : 25.0, true);
    return finish(builder);
}

static topo_t *make_regular(uint32_t devices)
{
    return make_matchings(devices, false);
}

static topo_t *make_unequal(uint32_t devices)
{
    return make_matchings(devices, true);
}

static topo_t *make_dgx1v(uint32_t devices)
{
    char name[32];
    topo_t *topo = NULL;
    if (devices == 8)
        snprintf(name, sizeof(name), "dgx1v");
    else
        snprintf(name, sizeof(name), "%uxdgx1v", devices / 8);
    if (topo_load(name, &topo) != BLINK_OK)
        fail(name);
    return topo;
}

static const struct {
    const char *name;
    topo_t *(*make)(uint32_t devices);
    uint32_t devices;
} graphs[] = {
    {"dgx1v", make_dgx1v, 8},
    {"complete-16", make_complete, 16},
    {"duplex-16", make_duplex, 16},
    {"unequal-16", make_unequal, 16},
    {"regular-16", make_regular, 16},
    {"mesh-16", make_mesh, 16},
    {"hypercube-16", make_hypercube, 16},
    {"torus-16", make_torus, 16},
    {"complete-32", make_complete, 32},
    {"duplex-32", make_duplex, 32},
    {"mesh-64", make_mesh, 64},
    {"torus-64", make_torus, 64},
    {"hypercube-64", make_hypercube, 64},
    {"dragonfly-64", make_dragonfly, 64},
    {"regular-64", make_regular, 64},
    {"unequal-64", make_unequal, 64},
    {"complete-64", make_complete, 64},
    {"128xdgx1v", make_dgx1v, 1024},
    {"torus-128", make_torus, 128},
    {"regular-128", make_regular, 128},
    {"unequal-128", make_unequal, 128},
    {"complete-128", make_complete, 128},
};
#define GRAPH_COUNT (sizeof(graphs) / sizeof(graphs[0]))

static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST, BLINK_ALLGATHER,
                                                 BLINK_ALLTOALL};
#define COLLECTIVE_COUNT (sizeof(collectives) / sizeof(collectives[0]))

/* ---- one case ---- */

static double used_s(int who)
{
    struct rusage used;
    getrusage(who, &used);
    return (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec * 1e-6;
}

static void plan_one(size_t graph, blink_collective_t collective, double plan_seconds)
{
    topo_t *topo = graphs[graph].make(graphs[graph].devices);
    plan_t *plan = NULL;
    plan_request_t request = {.collective = collective,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .peer = 1,
                              .plan_seconds = plan_seconds};
    double before_s = used_s(RUSAGE_SELF);
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        printf("%9.3f s  %s\n", used_s(RUSAGE_SELF) - before_s, blink_error_text());
    else
        printf("%9.3f s %8u %8.4f %10.3f GB/s\n", used_s(RUSAGE_SELF) - before_s, plan->channel_count,
               plan->rate_GBps / plan->bound_GBps, plan->bound_GBps);
    fflush(stdout);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void plan_in_child(size_t graph, blink_collective_t collective, unsigned limit_s, double plan_seconds)
{
    int status = 0;
    printf("%-13s %-10s", graphs[graph].name, blink_name_collective(collective));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(limit_s);
        plan_one(graph, collective, plan_seconds);
        _exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        printf("   ended after %u s, or failed\n", limit_s);
}

static bool asked(size_t graph, blink_collective_t collective, int count, char **names)
{
    char name[64];
    snprintf(name, sizeof(name), "%s/%s", graphs[graph].name, blink_name_collective(collective));
    for (int i = 0; i < count; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    unsigned limit_s = 60;
    int option;
    double plan_seconds = 0.0;
    while ((option = getopt(argc, argv, "l:s:")) != -1) {
        if (option == 'l')
            limit_s = (unsigned)atoi(optarg);
        else if (option == 's')
            plan_seconds = atof(optarg);
        else
            return EXIT_FAILURE;
    }
    printf("%-13s %-10s %11s %8s %8s %10s\n", "graph", "collective", "time", "channels", "of bound", "bound");
    for (size_t graph = 0; graph < GRAPH_COUNT; graph++)
        for (size_t c = 0; c < COLLECTIVE_COUNT; c++)
            if (asked(graph, collectives[c], argc - optind, argv + optind))
                plan_in_child(graph, collectives[c], limit_s, plan_seconds);
    return EXIT_SUCCESS;
}
