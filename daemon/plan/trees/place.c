/* From working columns to channels. A column that crosses a group of parallel switches becomes one channel
 * per member, in proportion to the members' capacities, so the channels load every real link as the program
 * loaded the group. */
#include "error.h"
#include "plan/trees/pack.h"

#include <math.h>
#include <stdlib.h>

static blink_result_t place_tree(const packer_t *p, plan_t *plan, const uint32_t *tree, double at,
                                 bool toward_root, plan_tree_t *placed)
{
    for (uint32_t rank = 0; rank < p->n; rank++) {
        if (tree[rank] == PLAN_NONE)
            continue;
        const pack_path_t *path = &p->master.paths.paths.items[tree[rank]];
        placed->parent[rank] = toward_root ? path->to : path->from;
        BLINK_TRY(pack_place_path(&p->master.paths, plan, tree[rank], at, &placed->path[rank]));
    }
    return BLINK_OK;
}

/* What the columns of each orbit of roots add up to, by least root; of all in given[0] where the roots'
 * shares are free. */
static void sum_values(const packer_t *p, double *given)
{
    for (uint32_t column = 0; column < p->trees.count; column++)
        if (pack_uses(p, column))
            given[p->per_rank ? p->master.net->orbit[p->trees.items[column].root] : 0] +=
                pack_value(p, column);
}

/* What the column carries, GB/s: exactly 1/n of the rate for each root together where the collective wants
 * that. */
static double rate_of(const packer_t *p, uint32_t column, const double *given)
{
    uint32_t orbit = p->master.net->orbit[p->trees.items[column].root];
    double part = p->per_rank ? pack_value(p, column) / given[orbit] * p->orbit_size[orbit] / p->n
                              : pack_value(p, column) / given[0];
    return part * pack_rate(p) * p->master.unit_GBps;
}

/* One channel per slice of the column. */
static blink_result_t place_column(const packer_t *p, plan_t *plan, uint32_t index, const double *given)
{
    const uint32_t *column = pack_master_paths(&p->master, index);
    for (double at = 0.0, end; at < 1.0; at = end) {
        end = pack_slice_end(&p->master.paths, column, p->tree_paths, at);
        double middle = (at + end) / 2.0;
        plan_channel_t *channel = NULL;
        BLINK_TRY(plan_add_channel(plan, rate_of(p, index, given) * (end - at), 1, &channel));
        plan_part_t *part = &channel->parts[0];
        const uint32_t *tree = column;
        part->root = p->trees.items[index].root;
        if (part->broadcast.parent) {
            BLINK_TRY(place_tree(p, plan, tree, middle, false, &part->broadcast));
            tree += p->n;
        }
        if (part->reduce.parent)
            BLINK_TRY(place_tree(p, plan, tree, middle, true, &part->reduce));
    }
    return BLINK_OK;
}

blink_result_t pack_place(const packer_t *p, plan_t *plan)
{
    double *given = calloc(p->n, sizeof(*given));
    if (!given)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u roots", p->n);
    sum_values(p, given);
    blink_result_t result = BLINK_OK;
    for (uint32_t column = 0; column < p->trees.count && result == BLINK_OK; column++)
        if (pack_uses(p, column))
            result = place_column(p, plan, column, given);
    free(given);
    return result;
}
