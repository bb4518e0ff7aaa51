/*
 * The ideal bus bandwidth: what nccl-tests' busbw could show at most if each gpu sent and received all the
 * time at what its links carry, and each host at what its network does. A yardstick of benchmarks; not a
 * bound that is proven for one topology, which is plan_bound_GBps(). Pure and thread-safe.
 *
 * Method: nothing but transfers takes time, the slower of traffic inside and between hosts hides the other,
 * and every rank's data crosses to each other host once. Then with B per gpu, I per host, N ranks, Q hosts
 *   one host: B;   several: min(I·(N-1)·Q / (N·(Q-1)), B·(N-1) / (N-Q)).
 * By AllToAll each of the N/Q ranks of the other host gets data of its own: I counts Q/N times, and B, since
 * only a Qth of a rank's data stays on its host, Q times.
 */
#ifndef BLINK_PLAN_IDEAL_H
#define BLINK_PLAN_IDEAL_H

#include "topo/topo.h"

typedef struct ideal {
    uint32_t rank_count, host_count; /* N, Q */
    double gpu_GBps;                 /* B: out of one gpu to the other ranks of its host; least over ranks */
    double host_GBps;                /* I: out of one host; least over hosts; 0 for one host */
    double busbw_GBps;
} ideal_t;

/* The formula. 0 for one rank. One rank on each host leaves only the network's term. */
double ideal_busbw_GBps(blink_collective_t collective, double gpu_GBps, double host_GBps, uint32_t rank_count,
                        uint32_t host_count);

/*
 * B, I, N and Q of ranks (distinct gpus), and the formula. Links of a gpu count if a way through relays leads
 * by them to another rank (of its host, if there are several); links of a host if they leave it.
 * Errors: NO_MEMORY.
 */
blink_result_t ideal_find(const topo_t *topo, blink_collective_t collective, const uint32_t *rank_node,
                          uint32_t rank_count, ideal_t *ideal);

#endif
