/*
 * blink-nccl: what programs of NCCL do, each as one scenario that ranks play against a running daemon, as
 * processes or, all in one, as threads. A rank whose expectation fails prints it and ends with status 1. The
 * driver is whatever libcuda.so.1 the loader finds, a GPU's or the stand-in.
 *
 *   blink-nccl SCENARIO RANKS [threads]    (the daemon's socket is in BLINK_SOCKET)
 */
#include "player.h"

#include "limit.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 8

typedef struct scenario {
    const char *name;
    void (*play)(player_t *p);
    enum {
        JOINS,
        MAY_DIE,
        ALONE
    } kind; /* the communicator is there; and ranks may kill themselves; neither */
} scenario_t;

static const scenario_t scenarios[] = {
    {"collectives", play_collectives, JOINS},
    {"groups", play_groups, JOINS},
    {"operators", play_operators, JOINS},
    {"split", play_split, JOINS},
    {"shrink", play_shrink, JOINS},
    {"shrink-after-a-loss", play_shrink_after_a_loss, MAY_DIE},
    {"revoke", play_revoke, JOINS},
    {"grow", play_grow, JOINS},
    {"nonblocking", play_nonblocking, ALONE},
    {"nonblocking-calls", play_nonblocking_calls, ALONE},
    {"nonblocking-abort", play_nonblocking_abort, ALONE},
    {"abort-from-a-thread", play_abort_from_a_thread, ALONE},
    {"abort-of-a-join", play_abort_of_a_join, ALONE},
    {"abort-of-a-blocking-join", play_abort_of_a_blocking_join, ALONE},
    {"abort-of-a-split", play_abort_of_a_split, JOINS},
    {"abort-of-a-shrink", play_abort_of_a_shrink, JOINS},
    {"memory", play_memory, JOINS},
    {"capture", play_capture, JOINS},
    {"refused", play_refused, JOINS},
    {"without-daemon", play_without_daemon, ALONE},
    {"one-thread", play_one_thread, ALONE},
};

const cuda_driver_t *cu;

void fail(const player_t *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rank %d: ", p->rank);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

void must(const player_t *p, abi_result_t result, const char *what)
{
    if (result != ABI_SUCCESS)
        fail(p, "%s: %d: %s", what, (int)result, ncclGetLastError(NULL));
}

void must_fail(const player_t *p, abi_result_t result, abi_result_t expected, const char *text,
               const char *what)
{
    if (result != expected)
        fail(p, "%s: %d instead of %d: %s", what, (int)result, (int)expected, ncclGetLastError(NULL));
    if (!strstr(ncclGetLastError(NULL), text))
        fail(p, "%s: \"%s\" does not say \"%s\"", what, ncclGetLastError(NULL), text);
}

void cuda_must(const player_t *p, CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    (void)cu->cuGetErrorName(result, &name);
    fail(p, "%s: %s", what, name);
}

static void open_gpu(player_t *p)
{
    CUdevice device;
    int count = 0;
    cuda_must(p, cu->cuInit(0), "cuInit");
    cuda_must(p, cu->cuDeviceGetCount(&count), "cuDeviceGetCount");
    cuda_must(p, cu->cuDeviceGet(&device, p->rank % count), "cuDeviceGet");
    cuda_must(p, cu->cuDevicePrimaryCtxRetain(&p->context, device), "cuDevicePrimaryCtxRetain");
    cuda_must(p, cu->cuCtxSetCurrent(p->context), "cuCtxSetCurrent");
    cuda_must(p, cu->cuStreamCreate(&p->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

void use_gpu(player_t *p)
{
    if (p->context)
        cuda_must(p, cu->cuCtxSetCurrent(p->context), "cuCtxSetCurrent");
    else
        open_gpu(p);
}

void *device_memory(const player_t *p, size_t bytes)
{
    CUdeviceptr memory = 0;
    cuda_must(p, cu->cuMemAlloc(&memory, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)memory;
}

void free_memory(const player_t *p, void *memory)
{
    cuda_must(p, cu->cuMemFree((CUdeviceptr)(uintptr_t)memory), "cuMemFree");
}

void write_to(const player_t *p, void *memory, const void *values, size_t bytes)
{
    cuda_must(p, cu->cuMemcpyHtoD((CUdeviceptr)(uintptr_t)memory, values, bytes), "cuMemcpyHtoD");
}

void read_from(const player_t *p, void *values, const void *memory, size_t bytes)
{
    cuda_must(p, cu->cuMemcpyDtoH(values, (CUdeviceptr)(uintptr_t)memory, bytes), "cuMemcpyDtoH");
}

void synchronize(const player_t *p)
{
    cuda_must(p, cu->cuStreamSynchronize(p->stream), "cuStreamSynchronize");
}

void sum_must_work(const player_t *p, nccl_comm_t *comm, const char *what)
{
    int32_t value;
    int rank, count;
    abi_result_t state;
    void *memory = device_memory(p, sizeof(value));
    must(p, ncclCommUserRank(comm, &rank), what);
    must(p, ncclCommCount(comm, &count), what);
    value = rank + 1;
    write_to(p, memory, &value, sizeof(value));
    must(p, ncclAllReduce(memory, memory, 1, BLINK_INT32, BLINK_SUM, comm, p->stream), what);
    synchronize(p);
    must(p, ncclCommGetAsyncError(comm, &state), what);
    must(p, state, what);
    read_from(p, &value, memory, sizeof(value));
    if (value != count * (count + 1) / 2)
        fail(p, "%s: the sum of %d ranks is %d", what, count, value);
    free_memory(p, memory);
}

/* ---- ranks as processes ---- */

static int rank_main(const scenario_t *scenario, player_t *p)
{
    alarm(2 * limit_s()); /* then the scenario hangs */
    if (scenario->kind != ALONE) {
        use_gpu(p);
        must(p, ncclCommInitRank(&p->comm, p->rank_count, p->id, p->rank), "ncclCommInitRank");
    }
    scenario->play(p);
    must(p, ncclCommDestroy(p->comm), "ncclCommDestroy");
    return 0;
}

static int play_in_processes(const scenario_t *scenario, int rank_count)
{
    player_t p = {.rank = -1, .rank_count = rank_count};
    int failed = 0;
    if (scenario->play != play_without_daemon)
        must(&p, ncclGetUniqueId(&p.id), "ncclGetUniqueId");
    for (p.rank = 0; p.rank < rank_count; p.rank++) {
        if (fork() == 0)
            return rank_main(scenario, &p);
    }
    for (int rank = 0; rank < rank_count; rank++) {
        int status;
        bool waited = wait(&status) >= 0;
        bool died = scenario->kind == MAY_DIE && waited && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        failed += !died && (!waited || status != 0);
    }
    return failed > 0;
}

/* ---- ranks as threads ---- */

static void (*played)(player_t *p);

static void *thread_main(void *player)
{
    player_t *p = player;
    use_gpu(p);
    played(p);
    return NULL;
}

static int play_in_threads(const scenario_t *scenario, int rank_count)
{
    const player_t maker = {.rank = -1};
    nccl_comm_t *comms[RANKS_MAX];
    player_t players[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    alarm(2 * limit_s());
    played = scenario->play;
    must(&maker, ncclCommInitAll(comms, rank_count, NULL), "ncclCommInitAll");
    for (int rank = 0; rank < rank_count; rank++) {
        players[rank] = (player_t){.rank = rank, .rank_count = rank_count, .comm = comms[rank]};
        if (pthread_create(&threads[rank], NULL, thread_main, &players[rank]) != 0)
            fail(&maker, "pthread_create");
    }
    for (int rank = 0; rank < rank_count; rank++)
        pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < rank_count; rank++)
        must(&maker, ncclCommDestroy(comms[rank]), "ncclCommDestroy");
    return 0;
}

int main(int argc, char **argv)
{
    int rank_count = argc >= 3 ? atoi(argv[2]) : 0;
    const scenario_t *scenario = NULL;
    for (size_t i = 0; argc >= 3 && i < sizeof(scenarios) / sizeof(*scenarios); i++) {
        if (strcmp(scenarios[i].name, argv[1]) == 0)
            scenario = &scenarios[i];
    }
    if (!scenario || rank_count < 1 || rank_count > RANKS_MAX) {
        fprintf(stderr, "usage: blink-nccl SCENARIO RANKS [threads]\n");
        return 2;
    }
    cu = cuda_driver_find(true);
    if (!cu)
        fail(&(player_t){.rank = -1}, "no driver");
    return argc > 3 ? play_in_threads(scenario, rank_count) : play_in_processes(scenario, rank_count);
}
