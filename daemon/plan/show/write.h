/*
 * What the writers of plans share: the walk over a plan's trees and routes in the order that all formats
 * have, and how trees, algorithms and colours are called.
 */
#ifndef BLINK_PLAN_WRITE_H
#define BLINK_PLAN_WRITE_H

#include "plan/plan.h"
#include "topo/text.h"

/* A tree or a route of the plan. Borrows from the plan. */
typedef struct plan_branch {
    uint32_t channel;
    uint32_t root;             /* rank; of a route its source */
    uint32_t to;               /* rank; of a route its destination, else PLAN_NONE */
    double share;              /* of the payload */
    const char *phase;         /* "reduce", "broadcast" or "route" */
    const plan_tree_t *tree;   /* NULL: a route */
    const plan_route_t *route; /* NULL: a tree */
    bool shares_part;          /* the second tree of a part: the same payload again */
} plan_branch_t;

/* Where the walk is; all zero to start. */
typedef struct plan_walk {
    uint32_t channel, part, stage;
} plan_walk_t;

/* The next tree or route that has edges; false at the end. */
bool plan_walk_next(const plan_t *plan, plan_walk_t *walk, plan_branch_t *branch);

/* Edges of the branch by place, 0 to plan_branch_room() - 1: an index into plan_t.paths, or PLAN_NONE where a
 * tree has its root. */
uint32_t plan_branch_room(const plan_t *plan, const plan_branch_t *branch);
uint32_t plan_branch_edge(const plan_branch_t *branch, uint32_t place);
uint32_t plan_branch_depth(const plan_t *plan, const plan_branch_t *branch);

/* Id of a rank's node. */
const char *plan_rank_id(const topo_t *topo, const plan_t *plan, uint32_t rank);

/* As blink-plan/1 spells it. */
const char *plan_algorithm_label(const plan_t *plan);

/* One line without a newline: what is planned, where, between whom, by what. Escaping is the caller's:
 * `write_name` prints each name of the topology. */
void plan_write_heading(topo_text_t *text, const topo_t *topo, const plan_t *plan,
                        void (*write_name)(topo_text_t *text, const char *name));

/* "reduce to gpu0", "broadcast from gpu0", "gpu0 to gpu3"; likewise. */
void plan_write_branch(topo_text_t *text, const topo_t *topo, const plan_t *plan, const plan_branch_t *branch,
                       void (*write_name)(topo_text_t *text, const char *name));

/* "#rrggbb": the index'th of `count` colours that are easy to tell apart. Returns `colour`. */
#define PLAN_COLOUR_BYTES 8
const char *plan_colour(uint32_t index, uint32_t count, char colour[PLAN_COLOUR_BYTES]);

/* The plan with all images written out, for writers that show every tree: `plan` itself if it has no
 * symmetries. To be given back to plan_release_images(). Errors: NO_MEMORY. */
blink_result_t plan_acquire_images(const topo_t *topo, const plan_t *plan, const plan_t **all);
void plan_release_images(const plan_t *plan, const plan_t *all);

#endif
