/*
 * The choice of algorithm and protocol for a size: every algorithm of ours that does the collective is
 * planned once, every protocol predicted (plan/predict.h), the fastest taken. Keeps all candidates, so that
 * the choice can be explained and repeated for other sizes without planning again.
 */
#ifndef BLINK_CHOOSE_H
#define BLINK_CHOOSE_H

#include "error.h"
#include "plan/blocks.h"
#include "plan/predict.h"

#include <stdbool.h>

/* Beyond this many ranks the algorithms that weigh every pair of ranks are left out: one hop, shallow trees,
 * recursive doubling. */
#define PLAN_CHOOSE_PAIRS_MOST 64u

/* Predictions that are above the least by no more than this part of it are as good: the model is no better.
 * Of such candidates the earliest in the contest is taken. */
#define PLAN_CHOOSE_TIE 1e-2

typedef struct plan_candidate {
    blink_algorithm_t algorithm;
    blink_protocol_t protocol;
    blink_result_t result; /* not OK: no candidate after all; `text` says why and the numbers are 0 */
    double predicted_us;   /* for the bytes of the request */
    double latency_us;     /* what of it no bytes would take: launch and hops */
    double rate_GBps;      /* of the plan, before the protocol's share */
    uint64_t chunk_bytes;
    uint64_t channel_count; /* all images counted */
    uint32_t depth;
    uint32_t contender; /* whose plan it is */
    char text[BLINK_ERROR_TEXT_BYTES];
} plan_candidate_t;

/* A plan and what predicts it. */
typedef struct plan_contender {
    blink_algorithm_t algorithm;
    bool all_nvlink; /* every path of the plan */
    plan_blocks_t blocks;
    uint32_t blocks_most; /* that a device runs; 0: any number, or no plan has so few */
    uint32_t peers;       /* most that a host exchanges data with; 0 where that is not limited */
    bool excluded;        /* has too many, and another one has not */
    plan_t *plan;         /* NULL once taken */
    plan_predictor_t *predictor;
} plan_contender_t;

/* The contender owns the plan, after an error too: plan_contender_fini(). Errors: NO_MEMORY. */
blink_result_t plan_contender_init(const topo_t *topo, plan_t *plan, plan_contender_t *contender);
void plan_contender_fini(plan_contender_t *contender);

/* LL128 is for NVLink alone, since nothing else keeps the order of a line's bytes; a switch that reduces
 * would add up flags with the data, so that multicast is Simple; and blocks must fit. */
bool plan_contender_may_use(const plan_contender_t *contender, blink_protocol_t protocol);

typedef struct plan_choice {
    uint32_t count;
    plan_candidate_t
        *candidates; /* fastest first, as good as equal ones in a fixed order; then those that failed */
    uint32_t contender_count;
    plan_contender_t *contenders;
    plan_candidate_t unlimited; /* what would be chosen if hosts might have any number of peers */
    plan_t *best; /* the plan of candidates[0], its protocol set; the choice owns it until it is taken */
} plan_choice_t;

/*
 * Plan and predict all candidates for request->bytes; request->algorithm is ignored. Chosen is the fastest;
 * of those within 1 % of it the first of one hop, packed trees, rings, shallow trees, recursive doubling,
 * binomial tree, multicast, and of their protocols the first of Simple, LL128, LL. Of shallow trees there are
 * several plans. Blink does not contend, and NCCL's double binary trees only where the request limits peers,
 * for they have few, nor multicast unless the request allows it: all three are planned when named. Of plans
 * with too many peers none is taken, unless there are no others; nor of those that take more blocks of a
 * device than it runs. Only the chosen plan's bound is proven. *choice is the caller's: plan_choice_fini().
 * Errors: those of plan_create(); where no candidate is left, the packed trees' one.
 */
blink_result_t plan_choose(const topo_t *topo, const plan_request_t *request, plan_choice_t *choice);
void plan_choice_fini(plan_choice_t *choice);

/* The best plan, now the caller's; crossovers can still be asked for. */
plan_t *plan_choice_take(plan_choice_t *choice);

/* From this many bytes on, up to the next one, this algorithm and protocol are the fastest. */
typedef struct plan_crossover {
    uint64_t bytes;
    blink_algorithm_t algorithm;
    blink_protocol_t protocol;
    double predicted_us; /* at `bytes` */
} plan_crossover_t;

/*
 * Where the best candidate changes between two sizes, 0 < from_bytes <= to_bytes; the first entry is at
 * from_bytes. Sizes double from one look to the next and a change is then found to 1/64 of its size, so a
 * candidate that is best only between two looks goes unnoticed. Blink's split of PCIe and NVLink stays that
 * of the request's size. *crossovers is malloc'd and the caller's. Errors: NO_MEMORY.
 */
blink_result_t plan_choice_crossovers(const plan_choice_t *choice, uint64_t from_bytes, uint64_t to_bytes,
                                      plan_crossover_t **crossovers, uint32_t *count);

#endif
