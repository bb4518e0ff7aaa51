/* Trees seen from the top, and the numbering of scratch edges and semaphores. lane.c turns edges into steps.
 */
#include "plan/lane/lane_edges.h"

#include "error.h"

#include <stdlib.h>

static uint32_t *new_u32(uint32_t count)
{
    return malloc((count ? count : 1) * sizeof(uint32_t));
}

/* ---- trees ---- */

static void tree_fini(lane_tree_t *tree)
{
    free(tree->child_first);
    free(tree->children);
    free(tree->depth);
    free(tree->height);
}

/* `fill` is room for a number per rank. */
static void list_children(lane_tree_t *tree, const uint32_t *parent, uint32_t root, uint32_t ranks,
                          uint32_t *fill)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (rank != root)
            tree->child_first[parent[rank] + 1]++;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        tree->child_first[rank + 1] += tree->child_first[rank];
        fill[rank] = tree->child_first[rank];
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (rank != root)
            tree->children[fill[parent[rank]]++] = rank;
    }
}

/* `order` is room for a number per rank. */
static void measure_levels(lane_tree_t *tree, const uint32_t *parent, uint32_t root, uint32_t *order)
{
    /* Breadth first from the root gives depths; the same order backwards gives heights. */
    uint32_t ordered = 0;
    order[ordered++] = root;
    tree->depth[root] = 0;
    for (uint32_t at = 0; at < ordered; at++) {
        uint32_t rank = order[at];
        for (uint32_t i = tree->child_first[rank]; i < tree->child_first[rank + 1]; i++) {
            tree->depth[tree->children[i]] = tree->depth[rank] + 1;
            order[ordered++] = tree->children[i];
        }
    }
    for (uint32_t at = ordered; at-- > 1;) {
        uint32_t rank = order[at];
        uint32_t height = tree->height[rank] + 1;
        if (height > tree->height[parent[rank]])
            tree->height[parent[rank]] = height;
    }
}

static blink_result_t tree_init(lane_tree_t *tree, const uint32_t *parent, uint32_t root, uint32_t ranks)
{
    *tree = (lane_tree_t){calloc(ranks + 1, sizeof(uint32_t)), new_u32(ranks), new_u32(ranks),
                          calloc(ranks, sizeof(uint32_t))};
    uint32_t *order = new_u32(ranks), *fill = new_u32(ranks);
    blink_result_t result = BLINK_OK;
    if (!tree->child_first || !tree->children || !tree->depth || !tree->height || !order || !fill) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a tree of %u ranks", ranks);
        goto done;
    }
    list_children(tree, parent, root, ranks, fill);
    measure_levels(tree, parent, root, order);
done:
    free(order);
    free(fill);
    return result;
}

uint32_t lane_child_count(const lane_tree_t *tree, uint32_t rank)
{
    return tree->child_first ? tree->child_first[rank + 1] - tree->child_first[rank] : 0;
}

/* ---- edges ---- */

void lane_edges_fini(lane_edges_t *edges)
{
    tree_fini(&edges->up);
    tree_fini(&edges->down);
    free(edges->slotted);
    free(edges->down_full);
    free(edges->down_slotted);
}

static const lane_slotted_t not_slotted = {PLAN_NONE, PLAN_NONE, PLAN_NONE};

bool lane_has_slots(const lane_slotted_t *slotted)
{
    return slotted->edge != PLAN_NONE;
}

static blink_result_t new_slotted(uint32_t count, lane_slotted_t **slotted)
{
    *slotted = malloc((count ? count : 1) * sizeof(**slotted));
    return *slotted ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u edges", count);
}

static lane_slotted_t number_slotted(lane_program_t *program)
{
    uint32_t full = program->semaphore_count;
    program->semaphore_count += 2;
    return (lane_slotted_t){program->edge_count++, full, full + 1};
}

static bool is_memory(const topo_t *topo, const plan_path_t *path)
{
    for (uint32_t i = 0; i < path->link_count; i++)
        if (topo->links[path->links[i]].kind != TOPO_SHM)
            return false;
    return true;
}

bool lane_is_wire(const lane_hosts_t *hosts, uint32_t from, uint32_t to)
{
    return hosts && hosts->of_rank[from] != hosts->of_rank[to];
}

/* Whether a rank is a leaf of the tree whose edge leads through memory that its parent shares: the parent
 * reads its input, or writes its output, by itself. */
static bool is_direct(const lane_source_t *source, const plan_tree_t *of, const lane_tree_t *tree,
                      uint32_t rank)
{
    return lane_child_count(tree, rank) == 0 && !lane_is_wire(source->hosts, rank, of->parent[rank]) &&
           is_memory(source->topo, &source->plan->paths[of->path[rank]]);
}

/* Whether what comes to its end by this edge does so in slots. */
static bool ends_in_slots(const lane_source_t *source, uint32_t from, uint32_t to)
{
    const lane_hosts_t *hosts = source->hosts;
    return lane_is_wire(hosts, from, to) ? hosts->lands_in_slots || hosts->keeps_to_slots
                                         : source->plan->protocol != BLINK_PROTOCOL_SIMPLE;
}

static blink_result_t init_reduce(const lane_source_t *source, const plan_part_t *part,
                                  lane_program_t *program, lane_edges_t *edges)
{
    BLINK_TRY(new_slotted(program->rank_count, &edges->slotted));
    BLINK_TRY(tree_init(&edges->up, part->reduce.parent, part->root, program->rank_count));
    for (uint32_t rank = 0; rank < program->rank_count; rank++) {
        bool slots = rank != part->root && !is_direct(source, &part->reduce, &edges->up, rank);
        edges->slotted[rank] = slots ? number_slotted(program) : not_slotted;
    }
    edges->depth += edges->up.height[part->root];
    return BLINK_OK;
}

static blink_result_t init_broadcast(const lane_source_t *source, const plan_part_t *part,
                                     lane_program_t *program, lane_edges_t *edges)
{
    uint32_t ranks = program->rank_count;
    const plan_tree_t *tree = &part->broadcast;
    BLINK_TRY(new_slotted(ranks, &edges->down_slotted));
    edges->down_full = new_u32(ranks);
    if (!edges->down_full)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the edges of %u ranks", ranks);
    BLINK_TRY(tree_init(&edges->down, tree->parent, part->root, ranks));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool slots = rank != part->root && ends_in_slots(source, tree->parent[rank], rank) &&
                     !is_direct(source, tree, &edges->down, rank);
        bool waits = rank != part->root && lane_child_count(&edges->down, rank) > 0 && !slots;
        edges->down_full[rank] = waits ? program->semaphore_count++ : PLAN_NONE;
        edges->down_slotted[rank] = slots ? number_slotted(program) : not_slotted;
    }
    edges->depth += edges->down.height[part->root];
    return BLINK_OK;
}

/* Every hop but the last ends in a relay, and so in slots. */
static blink_result_t init_route(const lane_source_t *source, const plan_part_t *part,
                                 lane_program_t *program, lane_edges_t *edges)
{
    const plan_route_t *route = &part->route;
    BLINK_TRY(new_slotted(route->hop_count, &edges->slotted));
    edges->slotted[0] = not_slotted;
    for (uint32_t hop = 0; hop < route->hop_count; hop++) {
        bool slots =
            hop + 1 < route->hop_count || ends_in_slots(source, route->ranks[hop], route->ranks[hop + 1]);
        edges->slotted[hop] = slots ? number_slotted(program) : not_slotted;
    }
    edges->depth = route->hop_count;
    return BLINK_OK;
}

bool lane_route_ends_in_slots(const plan_route_t *route, const lane_edges_t *edges)
{
    return route->hop_count > 0 && lane_has_slots(&edges->slotted[route->hop_count - 1]);
}

blink_result_t lane_edges_init(const lane_source_t *source, const plan_part_t *part, lane_program_t *program,
                               lane_edges_t *edges)
{
    *edges = (lane_edges_t){0};
    if (part->route.ranks)
        return init_route(source, part, program, edges);
    if (part->reduce.parent)
        BLINK_TRY(init_reduce(source, part, program, edges));
    if (part->broadcast.parent)
        BLINK_TRY(init_broadcast(source, part, program, edges));
    return BLINK_OK;
}
