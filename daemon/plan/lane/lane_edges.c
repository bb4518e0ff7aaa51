/* Trees seen from the top, and the numbering of scratch edges and semaphores. lane.c turns edges into steps.
 */
#include "plan/lane/lane_edges.h"

#include "error.h"
#include "plan/lane/lane_multicast.h"

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
    free(edges->up_acts);
    free(edges->down_acts);
}

static const lane_slotted_t not_slotted = {PLAN_NONE, PLAN_NONE, PLAN_NONE, LANE_SCRATCH};

bool lane_has_slots(const lane_slotted_t *slotted)
{
    return slotted->edge != PLAN_NONE;
}

static blink_result_t new_slotted(uint32_t count, lane_slotted_t **slotted)
{
    *slotted = malloc((count ? count : 1) * sizeof(**slotted));
    return *slotted ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u edges", count);
}

/* An edge with slots; `named`: by a step that is compiled. */
static lane_slotted_t number_slotted(lane_program_t *program, bool named, bool wire)
{
    uint32_t full = program->semaphore_count, buffer = wire ? LANE_LANDING : LANE_SCRATCH;
    if (!named)
        return (lane_slotted_t){LANE_ELSEWHERE, LANE_ELSEWHERE, LANE_ELSEWHERE, buffer};
    program->semaphore_count += 2;
    return (lane_slotted_t){program->edge_count++, full, full + 1, buffer};
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

static bool are_peers(const lane_source_t *source, uint32_t rank, uint32_t other)
{
    const uint32_t *nodes = source->plan->rank_node;
    return topo_are_peers(source->topo, nodes[rank], nodes[other]);
}

/* Whether a rank is a leaf of the tree whose edge leads through memory that its parent shares: the parent
 * reads its input, or writes its output, by itself. */
static bool is_direct(const lane_source_t *source, const plan_tree_t *of, const lane_tree_t *tree,
                      uint32_t rank)
{
    return lane_child_count(tree, rank) == 0 && !lane_is_wire(source->hosts, rank, of->parent[rank]) &&
           are_peers(source, rank, of->parent[rank]) &&
           is_memory(source->topo, &source->plan->paths[of->path[rank]]);
}

/* Whether what comes to its end by this edge does so in slots. */
static bool ends_in_slots(const lane_source_t *source, uint32_t from, uint32_t to)
{
    const lane_hosts_t *hosts = source->hosts;
    return lane_is_wire(hosts, from, to)
               ? hosts->lands_in_slots || hosts->keeps_to_slots
               : source->plan->protocol != BLINK_PROTOCOL_SIMPLE || !are_peers(source, from, to);
}

/* ---- which steps are compiled ---- */

static bool is_kept(const lane_source_t *source, uint32_t rank)
{
    return source->host == PLAN_NONE || source->hosts->of_rank[rank] == source->host;
}

static bool keeps_child(const lane_source_t *source, const lane_tree_t *tree, uint32_t rank)
{
    for (uint32_t i = tree->child_first[rank]; i < tree->child_first[rank + 1]; i++)
        if (is_kept(source, tree->children[i]))
            return true;
    return false;
}

bool lane_hop_acts(const lane_source_t *source, const plan_route_t *route, uint32_t hop)
{
    return is_kept(source, route->ranks[hop]) ||
           (hop < route->hop_count && is_kept(source, route->ranks[hop + 1]));
}

static blink_result_t find_acting(const lane_source_t *source, const plan_part_t *part, lane_edges_t *edges)
{
    uint32_t ranks = source->plan->rank_count;
    edges->up_acts = malloc(ranks * sizeof(*edges->up_acts));
    edges->down_acts = malloc(ranks * sizeof(*edges->down_acts));
    if (!edges->up_acts || !edges->down_acts)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the steps of %u ranks", ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool kept = is_kept(source, rank), root = rank == part->root;
        bool sends_down = part->broadcast.parent && keeps_child(source, &edges->down, rank);
        edges->up_acts[rank] =
            kept || (part->reduce.parent && !root && is_kept(source, part->reduce.parent[rank]));
        edges->down_acts[rank] =
            kept || sends_down ||
            (part->broadcast.parent && !root && is_kept(source, part->broadcast.parent[rank]));
        if (root)
            edges->up_acts[rank] = edges->down_acts[rank];
    }
    return BLINK_OK;
}

/* ---- numbers ---- */

static blink_result_t init_reduce(const lane_source_t *source, const plan_part_t *part,
                                  lane_program_t *program, lane_edges_t *edges)
{
    const plan_tree_t *tree = &part->reduce;
    BLINK_TRY(new_slotted(program->rank_count, &edges->slotted));
    for (uint32_t rank = 0; rank < program->rank_count; rank++) {
        edges->slotted[rank] = not_slotted;
        if (rank == part->root)
            continue;
        bool wire = lane_is_wire(source->hosts, rank, tree->parent[rank]);
        bool named = edges->up_acts[rank] || edges->up_acts[tree->parent[rank]];
        edges->crosses |= wire;
        if (!is_direct(source, tree, &edges->up, rank))
            edges->slotted[rank] = number_slotted(program, named, wire);
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
    for (uint32_t rank = 0; rank < ranks; rank++) {
        edges->down_full[rank] = PLAN_NONE;
        edges->down_slotted[rank] = not_slotted;
        if (rank == part->root)
            continue;
        bool wire = lane_is_wire(source->hosts, tree->parent[rank], rank);
        bool named = edges->down_acts[rank] || edges->down_acts[tree->parent[rank]];
        edges->crosses |= wire;
        if (ends_in_slots(source, tree->parent[rank], rank) && !is_direct(source, tree, &edges->down, rank))
            edges->down_slotted[rank] = number_slotted(program, named, wire);
        else if (lane_child_count(&edges->down, rank) > 0)
            edges->down_full[rank] = named ? program->semaphore_count++ : LANE_ELSEWHERE;
    }
    edges->depth += edges->down.height[part->root];
    return BLINK_OK;
}

static blink_result_t init_trees(const lane_source_t *source, const plan_part_t *part,
                                 lane_program_t *program, lane_edges_t *edges)
{
    if (part->reduce.parent)
        BLINK_TRY(tree_init(&edges->up, part->reduce.parent, part->root, program->rank_count));
    if (part->broadcast.parent)
        BLINK_TRY(tree_init(&edges->down, part->broadcast.parent, part->root, program->rank_count));
    BLINK_TRY(find_acting(source, part, edges));
    if (part->reduce.parent)
        BLINK_TRY(init_reduce(source, part, program, edges));
    if (part->broadcast.parent)
        BLINK_TRY(init_broadcast(source, part, program, edges));
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
        uint32_t from = route->ranks[hop], to = route->ranks[hop + 1];
        bool wire = lane_is_wire(source->hosts, from, to);
        bool named = lane_hop_acts(source, route, hop) || lane_hop_acts(source, route, hop + 1);
        bool slots = hop + 1 < route->hop_count || ends_in_slots(source, from, to);
        edges->crosses |= wire;
        edges->slotted[hop] = slots ? number_slotted(program, named, wire) : not_slotted;
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
    if (program->multicast) {
        lane_multicast_number(program, edges);
        return BLINK_OK;
    }
    return part->route.ranks ? init_route(source, part, program, edges)
                             : init_trees(source, part, program, edges);
}
