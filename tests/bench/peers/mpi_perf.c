/* One MPI library's collectives, timed as blink-perf times blinkd's: of each iteration the slowest rank from
 * a barrier to the end of the call, of the iterations the median.
 *
 *     mpirun -n RANKS mpi_perf COLLECTIVE ITERATIONS WARMUP ordinary|huge BYTES… */
#include "peer.h"

#include <mpi.h>

static void run_once(const peer_job_t *job)
{
    const int count = (int)job->count, block = (int)job->block;
    switch (job->collective) {
    case PEER_ALLREDUCE:
        MPI_Allreduce(job->input, job->output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case PEER_BROADCAST:
        MPI_Bcast(job->output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
    case PEER_ALLGATHER:
        MPI_Allgather(job->input, block, MPI_FLOAT, job->output, block, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case PEER_REDUCESCATTER:
        MPI_Reduce_scatter_block(job->input, job->output, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case PEER_ALLTOALL:
        MPI_Alltoall(job->input, block, MPI_FLOAT, job->output, block, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case PEER_COLLECTIVES:
        break;
    }
}

static bool all_agree(bool mine)
{
    int good = mine, all = 0;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

static bool measure(const peer_job_t *job, const peer_wish_t *wish)
{
    double *times_us = malloc((size_t)wish->iterations * sizeof(*times_us));
    double *slowest_us = malloc((size_t)wish->iterations * sizeof(*slowest_us));
    bool good = all_agree(times_us && slowest_us);
    for (int i = -wish->warmup; good && i < wish->iterations; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start_us = peer_now_us();
        run_once(job);
        if (i >= 0)
            times_us[i] = peer_now_us() - start_us;
        if (i == -wish->warmup)
            good = all_agree(peer_check(job));
    }
    if (good) {
        MPI_Reduce(times_us, slowest_us, wish->iterations, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (job->rank == 0)
            peer_print(job, slowest_us, wish->iterations);
    }
    free(slowest_us);
    free(times_us);
    return good;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    peer_wish_t wish;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool good = peer_parse(argc - 1, argv + 1, &wish);
    if (!good && rank == 0)
        fprintf(stderr, "usage: mpi_perf COLLECTIVE ITERATIONS WARMUP ordinary|huge BYTES...\n");
    for (int i = 0; good && i < wish.size_count; i++) {
        peer_job_t job;
        good = all_agree(peer_open(&job, &wish, rank, ranks, wish.sizes[i]));
        if (good)
            good = measure(&job, &wish);
        else if (rank == 0)
            fprintf(stderr, "mpi_perf: %s bytes: no memory, or not a block for each rank\n", wish.sizes[i]);
        peer_close(&job);
    }
    MPI_Finalize();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
