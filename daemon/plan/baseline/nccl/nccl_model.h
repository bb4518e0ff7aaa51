/*
 * NCCL's own arithmetic, for comparison: how many channels its search settles on, and the time its cost model
 * predicts for each algorithm and protocol. Numbers are those of NCCL 2.28 to 2.30 (src/graph/search.cc and
 * src/graph/tuning.cc there). Pure and thread-safe.
 */
#ifndef BLINK_PLAN_NCCL_MODEL_H
#define BLINK_PLAN_NCCL_MODEL_H

#include "plan/plan.h"

typedef enum nccl_generation { NCCL_PASCAL, NCCL_VOLTA, NCCL_AMPERE, NCCL_HOPPER } nccl_generation_t;

/* What the cost model needs to know of a communicator. */
typedef struct nccl_graph {
    nccl_generation_t generation;
    uint32_t rank_count, host_count;
    uint32_t channel_count; /* blocks launched per gpu */
    double channel_GBps;    /* of each */
    uint32_t copies;        /* how many of the channels run the same ring of the search: NCCL caps rings */
    bool nvlink;            /* inside hosts NVLink carries all hops; else PCIe */
    bool same_order;        /* all rings visit the ranks in one order */
} nccl_graph_t;

typedef struct nccl_prediction {
    blink_algorithm_t algorithm; /* RING or DOUBLE_BINARY_TREE */
    blink_protocol_t protocol;
    double latency_us;
    double GBps;    /* of the payload, once latency is paid */
    double time_us; /* latency + payload / bandwidth */
} nccl_prediction_t;

/*
 * The generation of the gpus, guessed from all NVLinks that leave the best connected rank, as vendors or NCCL
 * rate them: to 100 GB/s Pascal (4 links of 20), to 160 Volta (6 of 25), to 320 Ampere (12 of 25), above
 * Hopper (18 of 25). Without NVLink: Ampere.
 */
nccl_generation_t nccl_guess_generation(const topo_t *topo, const uint32_t *rank_node, uint32_t rank_count);

/*
 * NCCL's search over these ranks: the speed per ring, from the list for the generation, at which rings carry
 * most in all (a slower one only if it carries more, and none at less than 0.49 of the last that did); rings
 * of 25 GB/s or more are doubled at half the speed (on Hopper only from 50, or if there are at most 4), and
 * every ring runs in two channels. NVLinks count as NCCL rates them: 18 GB/s Pascal, 20 Volta and
 * Ampere, 20.6 Hopper. Where no listed speed fits, one ring as wide as there is. At least two ranks. Errors:
 * UNREACHABLE (no ring), NO_MEMORY.
 */
blink_result_t nccl_find_graph(const topo_t *topo, const uint32_t *rank_node, uint32_t rank_count,
                               nccl_generation_t generation, nccl_graph_t *graph);

/*
 * The model's time for a payload of so many bytes (collective.h says which). Across hosts, where NCCL
 * goes by the make of the CPU, the limit of LL is that of Intel's. At least two ranks. Errors: UNSUPPORTED
 * (not one of NCCL's five collectives; trees for another than allreduce; another algorithm).
 */
blink_result_t nccl_predict(const nccl_graph_t *graph, blink_collective_t collective,
                            blink_algorithm_t algorithm, blink_protocol_t protocol, uint64_t bytes,
                            nccl_prediction_t *prediction);

/* The least time over algorithms and protocols; LL128 only over NVLink and from Volta on. Errors: UNSUPPORTED
 * (not one of NCCL's five collectives). */
blink_result_t nccl_choose(const nccl_graph_t *graph, blink_collective_t collective, uint64_t bytes,
                           nccl_prediction_t *best);

#endif
