/* The priced links of a plan, and the groups of ranks that they part. Private to the limit*.c files. */
#ifndef BLINK_PLAN_LIMIT_GROUPS_H
#define BLINK_PLAN_LIMIT_GROUPS_H

#include "plan/plan.h"

typedef struct limit_groups {
    const topo_t *topo;
    const plan_t *plan;
    bool *usable;     /* per node: any but a gpu that is no rank */
    double *part;     /* per link, then per node: its part of the whole price; 0 where not priced */
    uint32_t *group;  /* per node: groups with ranks first, in the order of their first ranks; PLAN_NONE where
                         not usable */
    uint32_t *ranks;  /* per group: ranks in it */
    uint32_t count;   /* groups */
    uint32_t parties; /* groups with ranks */
} limit_groups_t;

/* Undone by limit_groups_fini(), also after an error. Errors: NO_MEMORY. */
blink_result_t limit_groups_init(limit_groups_t *groups, const topo_t *topo, const plan_t *plan);
void limit_groups_fini(limit_groups_t *groups);

/* Whether a link counts at all: neither end is a gpu that is no rank. */
bool limit_link_usable(const limit_groups_t *groups, uint32_t link);

#endif
