/*
 * What others would do, beside AUTO's contest: NCCL's rings and double binary trees, and Blink. The
 * comparison that bench_contest prints and unit.shallow checks; every time is predicted (plan/predict.h).
 */
#ifndef BLINK_TESTS_RIVALS_H
#define BLINK_TESTS_RIVALS_H

#include "plan/choose.h"

/* The fastest of some plans under any protocol they can have. */
typedef struct rival {
    double us; /* INFINITY: there is none */
    blink_algorithm_t algorithm;
    blink_protocol_t protocol;
} rival_t;

/* The fastest of the choice's contenders at this size. */
rival_t rival_of_choice(const plan_choice_t *choice, uint64_t bytes);

/* The fastest baseline for the request and its bytes; the request's algorithm is ignored. Errors: NO_MEMORY,
 * INTERNAL. */
blink_result_t rival_of_baselines(const topo_t *topo, const plan_request_t *request, rival_t *rival);

/* Whether direct NVLinks join the devices of the topology whose bits are set. */
bool rival_set_connected(const topo_t *topo, uint32_t devices);

/* Write the nodes of the devices whose bits are set to ranks[] and return how many they are. */
uint32_t rival_set_ranks(const topo_t *topo, uint32_t devices, uint32_t *ranks);

#endif
