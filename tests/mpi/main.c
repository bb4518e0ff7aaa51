/*
 * A program of MPI that runs over blinkd's library: blink-mpi-MPI SCENARIO. It ends with 0 if all was as MPI
 * does it, and aborts the job otherwise.
 */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

group_t group_of(MPI_Comm comm)
{
    group_t group = {.comm = comm};
    MPI_Comm_rank(comm, &group.rank);
    MPI_Comm_size(comm, &group.ranks);
    return group;
}

void check(bool good, const char *format, ...)
{
    va_list arguments;
    if (good)
        return;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define FILL(kind)                                                                                           \
    for (int i = 0; i < count; i++)                                                                          \
    ((kind *)buffer)[i] = (kind)(1 + (i * 7 + rank) % 3)

void fill(void *buffer, int count, MPI_Datatype type, int rank)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    if (type == MPI_DOUBLE)
        FILL(double);
    else if (type == MPI_FLOAT)
        FILL(float);
    else if (bytes == 1)
        FILL(char);
    else if (bytes == 2)
        FILL(short);
    else if (bytes == 4)
        FILL(int);
    else
        FILL(long);
}

pair_t pair_of(int count, MPI_Datatype type)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    pair_t pair = {.bytes = (size_t)bytes * (size_t)count};
    pair.ours = calloc(1, pair.bytes);
    pair.theirs = calloc(1, pair.bytes);
    check(pair.ours && pair.theirs, "no memory");
    return pair;
}

void pair_end(pair_t *pair, const char *what)
{
    check(memcmp(pair->ours, pair->theirs, pair->bytes) == 0, "%s is not what MPI's is", what);
    free(pair->ours);
    free(pair->theirs);
}

static void play_collectives(const group_t *world)
{
    MPI_Comm half, twin;
    play_reductions(world);
    play_moves(world);
    play_derived(world);
    MPI_Comm_split(MPI_COMM_WORLD, world->ranks > 2 && world->rank == 0, -world->rank, &half);
    group_t split = group_of(half);
    play_moves(&split);
    MPI_Comm_dup(half, &twin);
    MPI_Comm_free(&half);
    split = group_of(twin);
    play_derived(&split);
    MPI_Comm_free(&twin);
}

/* The second rank receives before it comes to the collective in which the first one waits already. */
static void play_progress(const group_t *world)
{
    const int count = 4 << 20;
    int *message = calloc((size_t)count, sizeof(*message)), *sum = calloc((size_t)count, sizeof(*sum));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Allreduce(message, sum, MANY, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* joins, with MPI's calls */
    if (world->rank == 0)
        MPI_Isend(message, count, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    else if (world->rank == 1)
        MPI_Recv(message, count, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(message, sum, MANY, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(message);
    free(sum);
}

/* By default limits: the ranks tell each other whether they have the daemon's memory. */
static void play_memory(const group_t *world)
{
    const int count = (512 << 10) / (int)sizeof(int);
    int *plain = calloc((size_t)count, sizeof(*plain)), *ours;
    MPI_Alloc_mem((MPI_Aint)count * (MPI_Aint)sizeof(int), MPI_INFO_NULL, &ours);
    for (int i = 0; i < 6; i++) {
        int *buffer = i < 3 || (i < 5 && world->rank > 0) ? ours : plain; /* of all, of some, of none */
        fill(buffer, count, MPI_INT, world->rank + i);
        MPI_Bcast(buffer, count, MPI_INT, 0, MPI_COMM_WORLD);
        check(buffer[0] == 1 + i % 3, "broadcast %d has not come", i);
    }
    PMPI_Free_mem(ours); /* as Open MPI's Fortran does */
    free(plain);
}

static int reduce_some(MPI_Comm comm)
{
    static int send[MANY], recv[MANY];
    fill(send, MANY, MPI_INT, 0);
    int result = MPI_Allreduce(send, recv, MANY, MPI_INT, MPI_SUM, comm);
    check(result != MPI_SUCCESS || recv[1] == send[1] * group_of(comm).ranks, "the sum is wrong");
    return result;
}

/* The daemon is killed when this has said that it is ready, before the line comes that it waits for. */
static void play_lost(const group_t *world)
{
    int length;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Comm twin;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(reduce_some(MPI_COMM_WORLD) == MPI_SUCCESS, "the daemon fails too early");
    MPI_Barrier(MPI_COMM_WORLD); /* so that no rank is waiting for the daemon still */
    if (world->rank == 0) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        int result = reduce_some(MPI_COMM_WORLD);
        MPI_Error_string(result, text, &length);
        check(result != MPI_SUCCESS && strstr(text, "daemon"), "result %d: %s", result, text);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    check(reduce_some(twin) == MPI_SUCCESS, "MPI does not go on without the daemon");
    MPI_Comm_free(&twin);
}

/* Whether MPI keeps no attribute that is given it from now on. The library finds this function, not MPI's. */
static bool keeps_nothing;

int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value)
{
    int (*set_attr)(MPI_Comm comm, int keyval, void *value);
    if (keeps_nothing)
        return MPI_ERR_NO_MEM;
    *(void **)&set_attr = dlsym(RTLD_NEXT, "PMPI_Comm_set_attr");
    return set_attr(comm, keyval, value);
}

/* One rank cannot note anything with a communicator, for a while. */
static void play_unkept(const group_t *world)
{
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    keeps_nothing = world->rank == 1;
    for (int i = 0; i < 2; i++)
        check(reduce_some(twin) == MPI_SUCCESS, "a sum of ranks one of which keeps nothing");
    keeps_nothing = false;
    for (int i = 0; i < 2; i++)
        check(reduce_some(twin) == MPI_SUCCESS, "a sum of ranks that keep what they should");
    MPI_Comm_free(&twin);
}

/* A rank that is started by this one: it might be without the library. */
static void play_spawn(const group_t *world)
{
    MPI_Comm parent, between, both;
    char *arguments[] = {"spawn", NULL};
    MPI_Comm_get_parent(&parent);
    between = parent;
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(program_invocation_name, arguments, 1, MPI_INFO_NULL, 0, world->comm, &between,
                       MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &both);
    check(group_of(both).ranks == 2, "there is no second rank");
    check(reduce_some(both) == MPI_SUCCESS, "with a rank that was started later");
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&between);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*play)(const group_t *world);
    } scenarios[] = {
        {"collectives", play_collectives}, {"progress", play_progress}, {"memory", play_memory},
        {"unkept", play_unkept},           {"lost", play_lost},         {"spawn", play_spawn},
    };
    MPI_Init(&argc, &argv);
    group_t world = group_of(MPI_COMM_WORLD);
    for (int i = 1; i < argc; i++) {
        size_t found = 0, count = sizeof(scenarios) / sizeof(scenarios[0]);
        while (found < count && strcmp(scenarios[found].name, argv[i]) != 0)
            found++;
        check(found < count, "there is no scenario %s", argv[i]);
        scenarios[found].play(&world);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
