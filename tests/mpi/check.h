/* What the scenarios share: a communicator, buffers of a given content, and failing with a sentence. */
#ifndef TESTS_MPI_CHECK_H
#define TESTS_MPI_CHECK_H

#include <mpi.h>

#include <stdbool.h>
#include <stddef.h>

/** Above BLINK_MPI_MIN_BYTES, which the tests set to 4096, whatever the type and also as a block. */
#define MANY 5000
/** Below it. */
#define FEW 3
/** More ranks than any test has. */
#define RANKS_MOST 8

typedef struct group {
    MPI_Comm comm;
    int rank, ranks;
} group_t;

group_t group_of(MPI_Comm comm);

/** End the job with a sentence unless `good`. */
void check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Small whole numbers of the type, which sum up without rounding, others on each rank. */
void fill(void *buffer, int count, MPI_Datatype type, int rank);

/** Two buffers of `count` elements, both of the same bytes. */
typedef struct pair {
    char *ours, *theirs;
    size_t bytes;
} pair_t;

pair_t pair_of(int count, MPI_Datatype type);

/** Check that both are equal still, and free them. */
void pair_end(pair_t *pair, const char *what);

/** All collectives, compared with those of MPI itself. */
void play_reductions(const group_t *group);
void play_moves(const group_t *group);
void play_derived(const group_t *group);

#endif
