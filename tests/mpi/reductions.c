/* Reductions, by MPI_… and by PMPI_…, of all types and operators that blinkd has and some that it does not
 * have. */
#include "check.h"

#include <math.h>
#include <stdlib.h>

static void play_one(const group_t *group, int count, MPI_Datatype type, MPI_Op op)
{
    int ranks = group->ranks, root = ranks - 1, block = count / ranks, counts[RANKS_MOST];
    pair_t send = pair_of(count, type), recv = pair_of(count, type);
    fill(send.ours, count, type, group->rank);
    MPI_Allreduce(send.ours, recv.ours, count, type, op, group->comm);
    PMPI_Allreduce(send.ours, recv.theirs, count, type, op, group->comm);
    pair_end(&recv, "MPI_Allreduce");

    recv = pair_of(count, type);
    MPI_Reduce(send.ours, group->rank == root ? recv.ours : NULL, count, type, op, root, group->comm);
    PMPI_Reduce(send.ours, group->rank == root ? recv.theirs : NULL, count, type, op, root, group->comm);
    pair_end(&recv, "MPI_Reduce");

    recv = pair_of(block, type);
    MPI_Reduce_scatter_block(send.ours, recv.ours, block, type, op, group->comm);
    PMPI_Reduce_scatter_block(send.ours, recv.theirs, block, type, op, group->comm);
    pair_end(&recv, "MPI_Reduce_scatter_block");

    for (int i = 0; i < ranks; i++)
        counts[i] = i == 0 ? block - 1 : block;
    recv = pair_of(block, type);
    MPI_Reduce_scatter(send.ours, recv.ours, counts, type, op, group->comm);
    PMPI_Reduce_scatter(send.ours, recv.theirs, counts, type, op, group->comm);
    pair_end(&recv, "MPI_Reduce_scatter");
    free(send.ours);
    free(send.theirs);
}

static void play_in_place(const group_t *group)
{
    pair_t both = pair_of(MANY, MPI_DOUBLE);
    fill(both.ours, MANY, MPI_DOUBLE, group->rank);
    fill(both.theirs, MANY, MPI_DOUBLE, group->rank);
    MPI_Allreduce(MPI_IN_PLACE, both.ours, MANY, MPI_DOUBLE, MPI_SUM, group->comm);
    PMPI_Allreduce(MPI_IN_PLACE, both.theirs, MANY, MPI_DOUBLE, MPI_SUM, group->comm);
    if (group->rank == 0) {
        MPI_Reduce(MPI_IN_PLACE, both.ours, MANY, MPI_DOUBLE, MPI_MAX, 0, group->comm);
        PMPI_Reduce(MPI_IN_PLACE, both.theirs, MANY, MPI_DOUBLE, MPI_MAX, 0, group->comm);
    } else {
        MPI_Reduce(both.ours, NULL, MANY, MPI_DOUBLE, MPI_MAX, 0, group->comm);
        PMPI_Reduce(both.theirs, NULL, MANY, MPI_DOUBLE, MPI_MAX, 0, group->comm);
    }
    pair_end(&both, "reductions in place");
}

/* The last rank gets nothing, and gives its vector apart, which MPI allows where the others are in place. */
static void play_some_in_place(const group_t *group)
{
    const int last = group->ranks - 1;
    const bool gets = group->rank < last;
    int counts[RANKS_MOST] = {0};
    for (int i = 0; i < last; i++)
        counts[i] = MANY / last;
    pair_t both = pair_of(MANY, MPI_INT);
    fill(both.ours, MANY, MPI_INT, group->rank);
    fill(both.theirs, MANY, MPI_INT, group->rank);
    MPI_Reduce_scatter(gets ? MPI_IN_PLACE : both.ours, gets ? both.ours : NULL, counts, MPI_INT, MPI_SUM,
                       group->comm);
    PMPI_Reduce_scatter(gets ? MPI_IN_PLACE : both.theirs, gets ? both.theirs : NULL, counts, MPI_INT,
                        MPI_SUM, group->comm);
    both.bytes = (size_t)counts[group->rank] * sizeof(int); /* what lies behind it is undefined */
    pair_end(&both, "MPI_Reduce_scatter in place on some ranks");
}

/* Buffers that are not aligned to their elements, as a member of a packed struct may be. */
static void play_unaligned(const group_t *group)
{
    pair_t recv = pair_of(MANY + 1, MPI_DOUBLE);
    double *send = malloc((MANY + 1) * sizeof(*send));
    fill(send, MANY, MPI_DOUBLE, group->rank);
    MPI_Allreduce(send, recv.ours + 4, MANY, MPI_DOUBLE, MPI_SUM, group->comm);
    PMPI_Allreduce(send, recv.theirs + 4, MANY, MPI_DOUBLE, MPI_SUM, group->comm);
    free(send);
    pair_end(&recv, "MPI_Allreduce of unaligned buffers");
}

/* The order of the summands is blinkd's: equal on all ranks, and near MPI's. */
static void play_rounded(const group_t *group)
{
    static double send[MANY], ours[MANY], theirs[MANY], first[MANY];
    srand48(group->rank + 1);
    for (int i = 0; i < MANY; i++)
        send[i] = drand48() - 0.5;
    MPI_Allreduce(send, ours, MANY, MPI_DOUBLE, MPI_SUM, group->comm);
    PMPI_Allreduce(send, theirs, MANY, MPI_DOUBLE, MPI_SUM, group->comm);
    PMPI_Allreduce(ours, first, MANY, MPI_DOUBLE, MPI_MAX, group->comm);
    for (int i = 0; i < MANY; i++) {
        check(ours[i] == first[i], "element %d is not the same on all ranks", i);
        check(fabs(ours[i] - theirs[i]) < 1e-14, "element %d: %g, but MPI has %g", i, ours[i], theirs[i]);
    }
}

static void keep_last(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] = ((int *)in)[i] > 1 ? ((int *)in)[i] : ((int *)inout)[i] + 1;
}

static void play_not_ours(const group_t *group)
{
    MPI_Op op;
    MPI_Op_create(keep_last, 0, &op);
    play_one(group, MANY, MPI_INT, op);
    MPI_Op_free(&op);
    play_one(group, MANY, MPI_SHORT, MPI_SUM);
    play_one(group, MANY, MPI_INT, MPI_BXOR);
}

void play_reductions(const group_t *group)
{
    play_one(group, MANY, MPI_DOUBLE, MPI_SUM);
    play_one(group, MANY, MPI_FLOAT, MPI_PROD);
    play_one(group, MANY, MPI_INT, MPI_MIN);
    play_one(group, MANY, MPI_UNSIGNED_LONG, MPI_MAX);
    play_one(group, MANY * 2, MPI_SIGNED_CHAR, MPI_SUM);
    play_one(group, MANY * 2, MPI_UINT8_T, MPI_SUM);
    play_one(group, FEW * group->ranks, MPI_DOUBLE, MPI_SUM);
    play_in_place(group);
    play_some_in_place(group);
    play_unaligned(group);
    play_rounded(group);
    play_not_ours(group);
}
