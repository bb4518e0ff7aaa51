/*
 * How long ranks take to go on without one that was killed: in every round the last rank of a new
 * communicator is killed in the middle of AllReduces, and the others shrink and AllReduce again. Ranks are
 * processes; the daemon is the one at BLINK_SOCKET.
 *
 *   shrink [RANKS [ROUNDS]]     default 8 50
 */
#include <blink/blink.h>

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX  64
#define ROUNDS_MAX 1000
#define COUNT      65536u
#define OPS_LEAST  10u /* before the kill */

/* What the slowest survivor took, from the kill to the end of each step. */
typedef struct round {
    blink_unique_id_t id;
    atomic_uint ops; /* of the victim */
    _Atomic int64_t killed_ns;
    _Atomic int64_t heard_ns, shrink_ns, again_ns; /* the second: of the call alone */
} round_t;

typedef struct bench {
    int ranks, rounds;
    round_t *shared;
} bench_t;

static void must(blink_result_t result, const char *what)
{
    if (result == BLINK_OK)
        return;
    fprintf(stderr, "shrink: %s: %s\n", what, blink_last_error());
    _exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void note_most(_Atomic int64_t *most, int64_t value)
{
    int64_t seen = atomic_load(most);
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value))
        continue;
}

static blink_result_t all_reduce(void *memory, blink_comm_t *comm)
{
    blink_op_t *op;
    must(blink_all_reduce(memory, memory, COUNT, BLINK_FLOAT32, BLINK_SUM, comm, &op), "all_reduce");
    return blink_wait(op);
}

static void survive(round_t *round, void *memory, blink_comm_t *comm)
{
    blink_comm_t *shrunk;
    blink_result_t result = BLINK_OK;
    while (result == BLINK_OK)
        result = all_reduce(memory, comm);
    must(result == BLINK_ERR_PEER_LOST ? BLINK_OK : result, "the op that the victim ends");
    int64_t heard_ns = now_ns();
    must(blink_comm_shrink(comm, NULL, &shrunk), "shrink");
    int64_t shrunk_ns = now_ns();
    must(all_reduce(memory, shrunk), "all_reduce of the survivors");
    int64_t again_ns = now_ns(), killed_ns = atomic_load(&round->killed_ns);
    note_most(&round->heard_ns, heard_ns - killed_ns);
    note_most(&round->shrink_ns, shrunk_ns - heard_ns);
    note_most(&round->again_ns, again_ns - killed_ns);
    must(blink_comm_destroy(comm), "comm_destroy");
    must(blink_comm_destroy(shrunk), "comm_destroy of the survivors");
}

static void play(const bench_t *bench, int rank, int first, int end)
{
    blink_context_t *context;
    blink_comm_t *comm;
    void *memory;
    must(blink_open(NULL, &context), "open");
    must(blink_mem_alloc(context, COUNT * sizeof(float), &memory), "mem_alloc");
    for (int i = first; i < end; i++) {
        round_t *round = &bench->shared[i];
        must(blink_comm_init_rank(context, &round->id, bench->ranks, rank, NULL, &comm), "comm_init_rank");
        if (rank < bench->ranks - 1)
            survive(round, memory, comm);
        while (rank == bench->ranks - 1 && all_reduce(memory, comm) == BLINK_OK)
            atomic_fetch_add(&round->ops, 1);
    }
    blink_close(context);
    _exit(0);
}

static pid_t start(const bench_t *bench, int rank, int first, int end)
{
    pid_t pid = fork();
    if (pid == 0)
        play(bench, rank, first, end);
    return pid;
}

/* False: something else than the kill has ended the victim. */
static int kill_victim(const bench_t *bench, int i)
{
    round_t *round = &bench->shared[i];
    int status = 0;
    pid_t victim = start(bench, bench->ranks - 1, i, i + 1);
    while (atomic_load(&round->ops) < OPS_LEAST && waitpid(victim, &status, WNOHANG) == 0)
        usleep(100);
    if (atomic_load(&round->ops) < OPS_LEAST)
        return 0;
    atomic_store(&round->killed_ns, now_ns());
    kill(victim, SIGKILL);
    return waitpid(victim, &status, 0) == victim && WIFSIGNALED(status);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void print(const bench_t *bench, const char *what, size_t offset)
{
    static int64_t values[ROUNDS_MAX];
    size_t count = (size_t)bench->rounds;
    for (size_t i = 0; i < count; i++)
        values[i] = atomic_load((_Atomic int64_t *)(void *)((char *)&bench->shared[i] + offset));
    qsort(values, count, sizeof(values[0]), compare);
    printf("%-45s %8.2f ms median, %8.2f ms at most\n", what, (double)values[count / 2] / 1e6,
           (double)values[count - 1] / 1e6);
}

int main(int argc, char **argv)
{
    bench_t bench = {.ranks = argc > 1 ? atoi(argv[1]) : 8, .rounds = argc > 2 ? atoi(argv[2]) : 50};
    blink_context_t *context;
    int failed = 0, status;
    if (bench.ranks < 2 || bench.ranks > RANKS_MAX || bench.rounds < 1 || bench.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: shrink [RANKS [ROUNDS]]   2 to %d, 1 to %d\n", RANKS_MAX, ROUNDS_MAX);
        return 2;
    }
    bench.shared = mmap(NULL, ROUNDS_MAX * sizeof(*bench.shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench.shared == MAP_FAILED)
        return 1;
    must(blink_open(NULL, &context), "open");
    for (int i = 0; i < bench.rounds; i++)
        must(blink_get_unique_id(context, &bench.shared[i].id), "get_unique_id");
    blink_close(context);
    for (int rank = 0; rank < bench.ranks - 1; rank++)
        start(&bench, rank, 0, bench.rounds);
    for (int i = 0; i < bench.rounds && !failed; i++)
        failed = !kill_victim(&bench, i);
    while (wait(&status) > 0)
        failed |= status != 0;
    printf("%d ranks, of which one is killed, %d rounds; of the slowest survivor:\n", bench.ranks,
           bench.rounds);
    print(&bench, "from the kill until the failure is heard", offsetof(round_t, heard_ns));
    print(&bench, "blink_comm_shrink()", offsetof(round_t, shrink_ns));
    print(&bench, "from the kill to the end of an AllReduce", offsetof(round_t, again_ns));
    return failed;
}
