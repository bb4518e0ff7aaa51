/* The limits, and the counts that BLINK_DEBUG=info shows at the end. */
#include "limits.h"

#include "settings.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>

#define KIB   ((size_t)1 << 10)
#define MIB   ((size_t)1 << 20)
#define NEVER SIZE_MAX

/* Limits of both MPIs stand side by side. */
#ifdef OPEN_MPI
#define LIMITS(open_mpi, mpich) open_mpi
#else
#define LIMITS(open_mpi, mpich) mpich
#endif
#define LIMIT(in_place, staged)                                                                              \
    {                                                                                                        \
        in_place, staged                                                                                     \
    }

static const struct {
    const char *name;
    shim_limit_t limit;
} collectives[SHIM_COLLECTIVES] = {
    [SHIM_ALLREDUCE] = {"MPI_Allreduce", LIMITS(LIMIT(64 * KIB, 1 * MIB), LIMIT(64 * KIB, 16 * MIB))},
    [SHIM_BCAST] = {"MPI_Bcast", LIMIT(256 * KIB, NEVER)},
    [SHIM_REDUCE] = {"MPI_Reduce", LIMITS(LIMIT(64 * KIB, NEVER), LIMIT(64 * KIB, 1 * MIB))},
    [SHIM_ALLGATHER] = {"MPI_Allgather", LIMITS(LIMIT(256 * KIB, NEVER), LIMIT(1 * MIB, NEVER))},
    [SHIM_ALLGATHERV] = {"MPI_Allgatherv", LIMITS(LIMIT(256 * KIB, NEVER), LIMIT(1 * MIB, NEVER))},
    [SHIM_REDUCE_SCATTER] = {"MPI_Reduce_scatter",
                             LIMITS(LIMIT(64 * KIB, 256 * KIB), LIMIT(64 * KIB, NEVER))},
    [SHIM_ALLTOALL] = {"MPI_Alltoall", LIMIT(NEVER, NEVER)},
    [SHIM_GATHER] = {"MPI_Gather", LIMITS(LIMIT(256 * KIB, NEVER), LIMIT(16 * MIB, NEVER))},
    [SHIM_SCATTER] = {"MPI_Scatter", LIMITS(LIMIT(256 * KIB, NEVER), LIMIT(16 * MIB, NEVER))},
};

static struct {
    atomic_uint_fast64_t by_blinkd, bytes, by_mpi;
} counts[SHIM_COLLECTIVES];

shim_limit_t shim_limit(shim_collective_t collective)
{
    return collectives[collective].limit;
}

/* Relaxed: the numbers are read when nothing is counted any more. */
void shim_count(shim_collective_t collective, size_t bytes, bool by_blinkd)
{
    atomic_fetch_add_explicit(by_blinkd ? &counts[collective].by_blinkd : &counts[collective].by_mpi, 1,
                              memory_order_relaxed);
    if (by_blinkd)
        atomic_fetch_add_explicit(&counts[collective].bytes, bytes, memory_order_relaxed);
}

void shim_tell_counts(void)
{
    for (int i = 0; i < SHIM_COLLECTIVES; i++) {
        unsigned long by_blinkd = atomic_load_explicit(&counts[i].by_blinkd, memory_order_relaxed);
        unsigned long by_mpi = atomic_load_explicit(&counts[i].by_mpi, memory_order_relaxed);
        if (by_blinkd + by_mpi > 0)
            shim_line("%s: %lu calls (%lu bytes) by blinkd, %lu by MPI", collectives[i].name, by_blinkd,
                      (unsigned long)atomic_load_explicit(&counts[i].bytes, memory_order_relaxed), by_mpi);
    }
}
