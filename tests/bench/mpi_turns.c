/*
 * mpi_turns-MPI [--calls N] BYTES…: MPI's collectives by MPI itself (PMPI_…) and by blinkd's library, from
 * ordinary memory and from MPI_Alloc_mem()'s, turn by turn in the same ranks, float32, sums. A time is that
 * of the slowest rank, from a barrier to the end of the call; of the calls the median, in microseconds. Bytes
 * are those of all blocks. BLINK_MPI_MIN_BYTES=0 has blinkd take all of them.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MOST 999
#define WARM_UPS   2
#define WAYS       3

typedef struct job {
    const char *name;
    float *send, *recv;
    int count, block, ranks; /* elements of the vector, and of a rank's block */
    int *counts, *displacements;
} job_t;

typedef void (*call_t)(const job_t *job);

#define BOTH(name, arguments)                                                                                \
    static void theirs_##name(const job_t *job)                                                              \
    {                                                                                                        \
        PMPI_##name arguments;                                                                               \
    }                                                                                                        \
    static void ours_##name(const job_t *job)                                                                \
    {                                                                                                        \
        MPI_##name arguments;                                                                                \
    }

BOTH(Allreduce, (job->send, job->recv, job->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
BOTH(Reduce, (job->send, job->recv, job->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD))
BOTH(Bcast, (job->recv, job->count, MPI_FLOAT, 0, MPI_COMM_WORLD))
BOTH(Allgather, (job->send, job->block, MPI_FLOAT, job->recv, job->block, MPI_FLOAT, MPI_COMM_WORLD))
BOTH(Allgatherv, (job->send, job->block, MPI_FLOAT, job->recv, job->counts, job->displacements, MPI_FLOAT,
                  MPI_COMM_WORLD))
BOTH(Reduce_scatter_block, (job->send, job->recv, job->block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
BOTH(Reduce_scatter, (job->send, job->recv, job->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
BOTH(Alltoall, (job->send, job->block, MPI_FLOAT, job->recv, job->block, MPI_FLOAT, MPI_COMM_WORLD))
BOTH(Gather, (job->send, job->block, MPI_FLOAT, job->recv, job->block, MPI_FLOAT, 0, MPI_COMM_WORLD))
BOTH(Scatter, (job->send, job->block, MPI_FLOAT, job->recv, job->block, MPI_FLOAT, 0, MPI_COMM_WORLD))

static const struct {
    const char *name;
    call_t theirs, ours;
} collectives[] = {
#define ROW(name)                                                                                            \
    {                                                                                                        \
#name, theirs_##name, ours_##name                                                                    \
    }
    ROW(Allreduce),      ROW(Reduce),     ROW(Bcast),
    ROW(Allgather),      ROW(Allgatherv), ROW(Reduce_scatter_block),
    ROW(Reduce_scatter), ROW(Alltoall),   ROW(Gather),
    ROW(Scatter),
};

static double one_us(const job_t *job, call_t call)
{
    double slowest_s;
    PMPI_Barrier(MPI_COMM_WORLD);
    double begun_s = MPI_Wtime();
    call(job);
    double took_s = MPI_Wtime() - begun_s;
    PMPI_Allreduce(&took_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest_s * 1e6;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void measure(const job_t *jobs, int count, int collective)
{
    double us[WAYS][CALLS_MOST];
    call_t calls[WAYS] = {collectives[collective].theirs, collectives[collective].ours,
                          collectives[collective].ours};
    int rank;
    for (int i = -WARM_UPS; i < count; i++) {
        for (int way = 0; way < WAYS; way++)
            us[way][i < 0 ? 0 : i] = one_us(&jobs[way], calls[way]);
    }
    for (int way = 0; way < WAYS; way++)
        qsort(us[way], (size_t)count, sizeof(us[way][0]), compare);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double mpi = us[0][count / 2], staged = us[1][count / 2], in_place = us[2][count / 2];
    if (rank == 0)
        printf("| %-20s | %d | %9zu | %9.1f | %9.1f | %9.1f | %5.2f | %5.2f |\n",
               collectives[collective].name, jobs[0].ranks, (size_t)jobs[0].count * sizeof(float), mpi,
               staged, in_place, mpi / staged, mpi / in_place);
    fflush(stdout);
}

static void open_job(job_t *job, size_t bytes, int is_ours)
{
    MPI_Comm_size(MPI_COMM_WORLD, &job->ranks);
    job->count = (int)(bytes / sizeof(float)) / job->ranks * job->ranks;
    job->block = job->count / job->ranks;
    job->counts = malloc((size_t)job->ranks * sizeof(int));
    job->displacements = malloc((size_t)job->ranks * sizeof(int));
    for (int i = 0; i < job->ranks; i++) {
        job->counts[i] = job->block;
        job->displacements[i] = i * job->block;
    }
    if (is_ours) {
        MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &job->send);
        MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &job->recv);
    } else {
        job->send = malloc(bytes);
        job->recv = malloc(bytes);
    }
    memset(job->send, 0, bytes);
    memset(job->recv, 0, bytes);
}

static void close_job(job_t *job, int is_ours)
{
    if (is_ours) {
        MPI_Free_mem(job->send);
        MPI_Free_mem(job->recv);
    } else {
        free(job->send);
        free(job->recv);
    }
    free(job->counts);
    free(job->displacements);
}

int main(int argc, char **argv)
{
    int count = 21, first = 1;
    MPI_Init(&argc, &argv);
    if (argc > 2 && strcmp(argv[1], "--calls") == 0) {
        count = atoi(argv[2]);
        first = 3;
    }
    for (int i = first; i < argc && count > 0 && count <= CALLS_MOST; i++) {
        job_t jobs[WAYS];
        size_t bytes = strtoull(argv[i], NULL, 10);
        for (int way = 0; way < WAYS; way++)
            open_job(&jobs[way], bytes, way == 2);
        for (int each = 0; each < (int)(sizeof(collectives) / sizeof(collectives[0])); each++)
            measure(jobs, count, each);
        for (int way = 0; way < WAYS; way++)
            close_job(&jobs[way], way == 2);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
