/*
 * Packing directed Hamiltonian cycles into a small multigraph: what ring search comes down to. Up to 8 nodes
 * the search is exhaustive within a step budget that no graph of known machines exhausts; above, cycles are
 * taken greedily.
 */
#ifndef BLINK_PLAN_CYCLES_H
#define BLINK_PLAN_CYCLES_H

#include "blink/types.h"

typedef struct plan_cycles plan_cycles_t;

/* Errors: NO_MEMORY. n >= 2. */
blink_result_t plan_cycles_create(uint32_t n, plan_cycles_t **cycles);
void plan_cycles_destroy(plan_cycles_t *cycles);

/* `times` parallel edges. */
void plan_cycles_add_edge(plan_cycles_t *cycles, uint32_t from, uint32_t to, uint32_t times);

/* Find the most edge-disjoint cycles, or just the first in lexicographic order. Errors: NO_MEMORY. */
blink_result_t plan_cycles_pack(plan_cycles_t *cycles);
blink_result_t plan_cycles_find_one(plan_cycles_t *cycles);

/* The distinct cycles found: n nodes in travelling order from node 0, and how many times it is used.
 * Borrowed. */
uint32_t plan_cycles_count(const plan_cycles_t *cycles);
const uint32_t *plan_cycles_get(const plan_cycles_t *cycles, uint32_t index, uint32_t *times);

#endif
