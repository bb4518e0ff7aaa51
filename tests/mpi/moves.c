/* Collectives that move data, by MPI_… and by PMPI_…, also where ranks describe the same data by other types.
 */
#include "check.h"

#include <stdlib.h>
#include <sys/mman.h>

static void play_in_place(const group_t *group, int count)
{
    const int rank = group->rank, all = count * group->ranks;
    pair_t both = pair_of(all, MPI_INT);
    fill(both.ours, all, MPI_INT, rank);
    fill(both.theirs, all, MPI_INT, rank);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, both.ours, count, MPI_INT, group->comm);
    PMPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, both.theirs, count, MPI_INT, group->comm);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, both.ours, count, MPI_INT, group->comm);
    PMPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, both.theirs, count, MPI_INT, group->comm);
    if (rank == 0) {
        MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, both.ours, count, MPI_INT, 0, group->comm);
        PMPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, both.theirs, count, MPI_INT, 0, group->comm);
        MPI_Scatter(both.ours, count, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, group->comm);
        PMPI_Scatter(both.theirs, count, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, group->comm);
    } else {
        MPI_Gather(both.ours, count, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, group->comm);
        PMPI_Gather(both.theirs, count, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, group->comm);
        MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, both.ours, count, MPI_INT, 0, group->comm);
        PMPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, both.theirs, count, MPI_INT, 0, group->comm);
    }
    pair_end(&both, "collectives in place");
}

/* Blocks of other lengths, at places that are each rank's own, with gaps, on both sides of the address. */
static void play_uneven(const group_t *group, MPI_Datatype send_type, MPI_Datatype recv_type)
{
    const int middle = MANY + 5;
    MPI_Aint lower, extent;
    int counts[RANKS_MOST], displacements[RANKS_MOST], end = 0;
    for (int i = 0; i < group->ranks; i++) {
        counts[i] = MANY - i;
        displacements[i] = end + group->rank - middle;
        end += MANY + group->rank;
    }
    int *send = malloc(2 * MANY * sizeof(*send));
    pair_t recv = pair_of(2 * (end + RANKS_MOST), MPI_INT);
    fill(send, 2 * MANY, MPI_INT, group->rank);
    MPI_Type_get_extent(recv_type, &lower, &extent);
    MPI_Allgatherv(send, counts[group->rank], send_type, (char *)recv.ours + middle * extent, counts,
                   displacements, recv_type, group->comm);
    PMPI_Allgatherv(send, counts[group->rank], send_type, (char *)recv.theirs + middle * extent, counts,
                    displacements, recv_type, group->comm);
    free(send);
    pair_end(&recv, "MPI_Allgatherv");
}

static void play_all(const group_t *group, int count, MPI_Datatype send_type, MPI_Datatype recv_type)
{
    const int ranks = group->ranks, root = ranks - 1, all = 2 * count * ranks;
    pair_t send = pair_of(all, MPI_INT), recv = pair_of(all, MPI_INT);
    fill(send.ours, all, MPI_INT, group->rank);
    MPI_Allgather(send.ours, count, send_type, recv.ours, count, recv_type, group->comm);
    PMPI_Allgather(send.ours, count, send_type, recv.theirs, count, recv_type, group->comm);
    pair_end(&recv, "MPI_Allgather");
    recv = pair_of(all, MPI_INT);
    MPI_Alltoall(send.ours, count, send_type, recv.ours, count, recv_type, group->comm);
    PMPI_Alltoall(send.ours, count, send_type, recv.theirs, count, recv_type, group->comm);
    pair_end(&recv, "MPI_Alltoall");
    recv = pair_of(all, MPI_INT);
    MPI_Gather(send.ours, count, send_type, recv.ours, count, recv_type, root, group->comm);
    PMPI_Gather(send.ours, count, send_type, recv.theirs, count, recv_type, root, group->comm);
    pair_end(&recv, "MPI_Gather");
    recv = pair_of(all, MPI_INT);
    MPI_Scatter(send.ours, count, send_type, recv.ours, count, recv_type, root, group->comm);
    PMPI_Scatter(send.ours, count, send_type, recv.theirs, count, recv_type, root, group->comm);
    pair_end(&recv, "MPI_Scatter");
    recv = pair_of(all, MPI_INT);
    if (group->rank == root) {
        fill(recv.ours, all, MPI_INT, 1);
        fill(recv.theirs, all, MPI_INT, 1);
    }
    MPI_Bcast(recv.ours, count, group->rank == root ? send_type : recv_type, root, group->comm);
    PMPI_Bcast(recv.theirs, count, group->rank == root ? send_type : recv_type, root, group->comm);
    pair_end(&recv, "MPI_Bcast");
    free(send.ours);
    free(send.theirs);
}

/* A root that gives alone may have its buffer where nobody writes. */
static void play_read_only(const group_t *group)
{
    const size_t bytes = 2 * RANKS_MOST * MANY * sizeof(int);
    int *given = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(given != MAP_FAILED, "no memory");
    fill(given, (int)(bytes / sizeof(int)), MPI_INT, 0);
    check(mprotect(given, bytes, group->rank == 0 ? PROT_READ : PROT_READ | PROT_WRITE) == 0, "mprotect");
    MPI_Bcast(given, group->ranks * MANY, MPI_INT, 0, group->comm);
    if (group->rank == 0)
        MPI_Scatter(given, MANY, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, group->comm);
    else
        MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, given, MANY, MPI_INT, 0, group->comm);
    check(given[1] == 1 + ((group->rank * MANY + 1) * 7) % 3, "what was given by a root that only reads");
    munmap(given, bytes);
}

void play_moves(const group_t *group)
{
    play_read_only(group);
    play_all(group, MANY, MPI_INT, MPI_INT);
    play_all(group, FEW, MPI_INT, MPI_INT);
    play_in_place(group, MANY);
    play_uneven(group, MPI_INT, MPI_INT);
}

/* A rank that gives nothing may do so by a type without elements; Open MPI 4.1 itself then waits for ever. */
static void play_empty(const group_t *group)
{
    int counts[RANKS_MOST], displacements[RANKS_MOST];
    MPI_Datatype empty;
    for (int i = 0; i < group->ranks; i++) {
        counts[i] = i > 0 ? MANY : 0;
        displacements[i] = i * MANY;
    }
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    int *send = malloc(MANY * sizeof(*send));
    pair_t recv = pair_of(MANY * group->ranks, MPI_INT);
    fill(send, MANY, MPI_INT, group->rank);
    if (group->rank > 0)
        MPI_Allgatherv(send, MANY, MPI_INT, recv.ours, counts, displacements, MPI_INT, group->comm);
    else
        MPI_Allgatherv(send, 1, empty, recv.ours, counts, displacements, MPI_INT, group->comm);
    PMPI_Allgatherv(send, counts[group->rank], MPI_INT, recv.theirs, counts, displacements, MPI_INT,
                    group->comm);
    free(send);
    MPI_Type_free(&empty);
    pair_end(&recv, "MPI_Allgatherv with nothing of a rank");
}

/* One int with a gap of another behind it; on ranks that differ: MPI demands the same ints, not the same
 * type. */
void play_derived(const group_t *group)
{
    MPI_Datatype spaced;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    bool is_odd = group->rank % 2;
    play_all(group, MANY, is_odd ? spaced : MPI_INT, is_odd ? MPI_INT : spaced);
    play_uneven(group, is_odd ? MPI_INT : spaced, is_odd ? spaced : MPI_INT);
    play_empty(group);
    MPI_Type_free(&spaced);
}
