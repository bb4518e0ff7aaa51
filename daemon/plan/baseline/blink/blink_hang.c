/* Trees into a plan's parts. Every one of Blink's schemes ends here: a part's reduce and broadcast trees are
 * always the same tree, crossed in opposite directions. */
#include "error.h"
#include "plan/baseline/blink/blink_parts.h"

#include <stdlib.h>

/* The edge's links as travelled from `sender`, one of its ends. */
static blink_result_t edge_path(const topo_t *topo, plan_t *plan, const blink_forest_t *forest,
                                const blink_edge_t *edge, uint32_t sender, uint32_t *path)
{
    const uint32_t *links = &forest->links[edge->first_link];
    if (sender == edge->from)
        return plan_intern_path(plan, links, edge->link_count, path);
    uint32_t *back = malloc((edge->link_count + 1u) * sizeof(*back));
    if (!back)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path of %u links", edge->link_count);
    for (uint32_t i = 0; i < edge->link_count; i++) {
        const topo_link_t *link = &topo->links[links[edge->link_count - 1 - i]];
        back[i] = topo_find_link(topo, link->to, link->from);
    }
    blink_result_t result = plan_intern_path(plan, back, edge->link_count, path);
    free(back);
    return result;
}

/* Whether the part's trees hold the rank already. */
static bool hangs(const plan_part_t *part, uint32_t rank, uint32_t root)
{
    const plan_tree_t *tree = part->reduce.parent ? &part->reduce : &part->broadcast;
    return rank == root || tree->parent[rank] != PLAN_NONE;
}

static blink_result_t hang_edge(const topo_t *topo, plan_t *plan, plan_part_t *part,
                                const blink_forest_t *forest, const blink_edge_t *edge, uint32_t child)
{
    uint32_t parent = child == edge->from ? edge->to : edge->from;
    if (part->reduce.parent) {
        part->reduce.parent[child] = parent;
        BLINK_TRY(edge_path(topo, plan, forest, edge, child, &part->reduce.path[child]));
    }
    if (part->broadcast.parent) {
        part->broadcast.parent[child] = parent;
        BLINK_TRY(edge_path(topo, plan, forest, edge, parent, &part->broadcast.path[child]));
    }
    return BLINK_OK;
}

/* Edges hang as soon as one of their ends does: a level of the tree per round at least. */
blink_result_t blink_hang_tree(const topo_t *topo, plan_t *plan, plan_part_t *part,
                               const blink_forest_t *forest, uint32_t tree, uint32_t root)
{
    const blink_edge_t *edges = &forest->edges[(size_t)tree * forest->edge_count];
    for (uint32_t hung = 0; hung < forest->edge_count;)
        for (uint32_t i = 0; i < forest->edge_count; i++) {
            bool from = hangs(part, edges[i].from, root), to = hangs(part, edges[i].to, root);
            if (from == to)
                continue;
            BLINK_TRY(hang_edge(topo, plan, part, forest, &edges[i], from ? edges[i].to : edges[i].from));
            hung++;
        }
    return BLINK_OK;
}

blink_result_t blink_hang_rank(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t child,
                               uint32_t parent, uint32_t choice)
{
    if (part->reduce.parent) {
        part->reduce.parent[child] = parent;
        BLINK_TRY(plan_shortest_path(topo, plan, child, parent, choice, &part->reduce.path[child]));
    }
    if (part->broadcast.parent) {
        part->broadcast.parent[child] = parent;
        BLINK_TRY(plan_shortest_path(topo, plan, parent, child, choice, &part->broadcast.path[child]));
    }
    return BLINK_OK;
}

static blink_result_t path_through(const topo_t *topo, plan_t *plan, uint32_t from, uint32_t to,
                                   uint32_t node, uint32_t *path)
{
    uint32_t links[2] = {topo_find_link(topo, plan->rank_node[from], node),
                         topo_find_link(topo, node, plan->rank_node[to])};
    return plan_intern_path(plan, links, 2, path);
}

blink_result_t blink_hang_through(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t child,
                                  uint32_t parent, uint32_t node)
{
    if (part->reduce.parent) {
        part->reduce.parent[child] = parent;
        BLINK_TRY(path_through(topo, plan, child, parent, node, &part->reduce.path[child]));
    }
    if (part->broadcast.parent) {
        part->broadcast.parent[child] = parent;
        BLINK_TRY(path_through(topo, plan, parent, child, node, &part->broadcast.path[child]));
    }
    return BLINK_OK;
}
