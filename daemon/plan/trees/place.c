/* From working columns to channels. A column that crosses a group of parallel switches becomes one channel
 * per member, in proportion to the members' capacities, so the channels load every real link as the program
 * loaded the group. */
#include "error.h"
#include "plan/columns/pack.h"

#include <math.h>
#include <stdlib.h>

double pack_slice_end(const pack_paths_t *paths, const uint32_t *indices, uint32_t count, double at)
{
    const pack_net_t *net = paths->net;
    double end = 1.0;
    for (uint32_t i = 0; i < count; i++) {
        if (indices[i] == PLAN_NONE)
            continue;
        const pack_path_t *path = &paths->paths[indices[i]];
        for (uint32_t j = 0; j < path->link_count; j++) {
            uint32_t node = net->to[paths->links[path->first_link + j]];
            for (uint32_t m = net->first_member[node]; m < net->first_member[node + 1]; m++)
                if (net->member_end[m] > at + 1e-9)
                    end = fmin(end, net->member_end[m]);
        }
    }
    return end;
}

blink_result_t pack_place_path(const pack_paths_t *paths, plan_t *plan, uint32_t path_index, double at,
                               uint32_t *placed)
{
    const pack_net_t *net = paths->net;
    const pack_path_t *path = &paths->paths[path_index];
    uint32_t *links = malloc(path->link_count * sizeof(*links));
    if (links == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path of %u links", path->link_count);
    for (uint32_t i = 0; i < path->link_count; i++) {
        uint32_t link = paths->links[path->first_link + i];
        links[i] = topo_find_link(net->topo, pack_net_member(net, net->from[link], at),
                                  pack_net_member(net, net->to[link], at));
    }
    blink_result_t result = plan_intern_path(plan, links, path->link_count, placed);
    free(links);
    return result;
}

static blink_result_t place_tree(const packer_t *p, plan_t *plan, const uint32_t *tree, double at,
                                 bool toward_root, plan_tree_t *placed)
{
    for (uint32_t rank = 0; rank < p->n; rank++) {
        if (tree[rank] == PLAN_NONE)
            continue;
        const pack_path_t *path = &p->paths.paths[tree[rank]];
        placed->parent[rank] = toward_root ? path->to : path->from;
        BLINK_TRY(pack_place_path(&p->paths, plan, tree[rank], at, &placed->path[rank]));
    }
    return BLINK_OK;
}

/* What the columns of each orbit of roots add up to, by least root; of all in given[0] where the roots'
 * shares are free. */
static void sum_values(const packer_t *p, double *given)
{
    for (uint32_t column = 0; column < p->column_count; column++)
        if (pack_uses(p, column))
            given[p->per_rank ? p->net->orbit[p->column_root[column]] : 0] += pack_value(p, column);
}

/* What the column carries, GB/s: exactly 1/n of the rate for each root together where the collective wants
 * that. */
static double rate_of(const packer_t *p, uint32_t column, const double *given)
{
    uint32_t orbit = p->net->orbit[p->column_root[column]];
    double part = p->per_rank ? pack_value(p, column) / given[orbit] * p->orbit_size[orbit] / p->n
                              : pack_value(p, column) / given[0];
    return part * pack_rate(p) * p->unit_GBps;
}

/* One channel per slice of the column. */
static blink_result_t place_column(const packer_t *p, plan_t *plan, uint32_t index, const double *given)
{
    const uint32_t *column = &p->column_paths[(size_t)index * p->tree_paths];
    for (double at = 0.0, end; at < 1.0; at = end) {
        end = pack_slice_end(&p->paths, column, p->tree_paths, at);
        double middle = (at + end) / 2.0;
        plan_channel_t *channel = NULL;
        BLINK_TRY(plan_add_channel(plan, rate_of(p, index, given) * (end - at), 1, &channel));
        plan_part_t *part = &channel->parts[0];
        const uint32_t *tree = column;
        part->root = p->column_root[index];
        if (part->broadcast.parent != NULL) {
            BLINK_TRY(place_tree(p, plan, tree, middle, false, &part->broadcast));
            tree += p->n;
        }
        if (part->reduce.parent != NULL)
            BLINK_TRY(place_tree(p, plan, tree, middle, true, &part->reduce));
    }
    return BLINK_OK;
}

blink_result_t pack_place(const packer_t *p, plan_t *plan)
{
    double *given = calloc(p->n, sizeof(*given));
    if (given == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u roots", p->n);
    sum_values(p, given);
    blink_result_t result = BLINK_OK;
    for (uint32_t column = 0; column < p->column_count && result == BLINK_OK; column++)
        if (pack_uses(p, column))
            result = place_column(p, plan, column, given);
    free(given);
    return result;
}
