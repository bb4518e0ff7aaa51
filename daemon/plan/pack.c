/*
 * Packed spanning trees: the fractional packing of (root, reduce tree, broadcast tree) columns into the
 * links' capacities, solved by column generation. The program knows a few columns; the links' dual prices
 * tell, by one cheapest arborescence per root and direction, whether a better column exists (Gilmore and
 * Gomory's scheme on Edmonds' branchings). When none does, the packing is optimal and the prices are its
 * certificate.
 */
#include "plan/pack.h"

#include "error.h"
#include "plan/lp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A column whose cost under the prices is at least this is no gain. */
#define COST_OF_NO_GAIN (1.0 - 1e-9)
/* What one level of a tree may cost, of the mean path cost: enough to decide ties, too little to change an
 * optimum. */
#define LEVEL_PENALTY 1e-10
/* Values below this part of the bound are noise of the solver. */
#define NOISE      1e-9
#define ROUNDS_MAX 2000u

/* What a column under construction comes to. */
typedef struct candidate {
    uint32_t root;
    uint32_t depth; /* tree edges down and up */
    double cost;    /* under the current prices */
} candidate_t;

static void packer_fini(packer_t *p)
{
    plan_lp_destroy(p->lp);
    pack_arborist_fini(&p->arborist);
    pack_paths_fini(&p->paths);
    pack_net_destroy(p->net);
    free(p->column_paths);
    free(p->column_root);
    free(p->column_depth);
    free(p->prices);
    free(p->best_prices);
    free(p->matrix);
    free(p->parent);
    free(p->level);
    free(p->queue);
    free(p->rows);
    free(p->loads);
    free(p->values);
}

static blink_result_t packer_init(packer_t *p, const topo_t *topo, const plan_t *plan)
{
    uint32_t n = plan->rank_count;
    if (plan->collective != BLINK_ALLREDUCE && plan->collective != BLINK_BROADCAST)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "no plan for collective %u", (unsigned)plan->collective);
    *p = (packer_t){.topo = topo, .plan = plan, .n = n, .best_bound = INFINITY};
    p->tree_paths = plan->collective == BLINK_ALLREDUCE ? 2 * n : n;
    BLINK_TRY(pack_net_create(topo, plan, &p->net));
    BLINK_TRY(pack_paths_init(&p->paths, p->net));
    BLINK_TRY(pack_arborist_init(&p->arborist, n));
    /* Ranks without a single link between them still get as far as being named. */
    uint32_t rows = p->net->row_count > 0 ? p->net->row_count : 1;
    BLINK_TRY(plan_lp_create(rows, &p->lp));
    p->prices = calloc(rows, sizeof(*p->prices));
    p->best_prices = calloc(rows, sizeof(*p->best_prices));
    p->matrix = calloc((size_t)n * n, sizeof(*p->matrix));
    p->parent = calloc(n, sizeof(*p->parent));
    p->level = calloc(n, sizeof(*p->level));
    p->queue = calloc(n, sizeof(*p->queue));
    p->rows = calloc(rows, sizeof(*p->rows));
    p->loads = calloc(rows, sizeof(*p->loads));
    p->values = calloc(rows, sizeof(*p->values));
    if (p->prices == NULL || p->best_prices == NULL || p->matrix == NULL || p->parent == NULL ||
        p->level == NULL || p->queue == NULL || p->rows == NULL || p->loads == NULL || p->values == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to pack trees over %u ranks", n);
    return BLINK_OK;
}

/* Cost of an edge a tree may use between two ranks, in tree direction: away from the root, or toward it. */
static double edge_cost(const packer_t *p, uint32_t parent, uint32_t child, bool toward_root)
{
    return toward_root ? p->paths.cost[child * p->n + parent] : p->paths.cost[parent * p->n + child];
}

/* Fewest tree edges between the root and each rank; PLAN_NONE where there is no way. */
static void find_levels(packer_t *p, uint32_t root, bool toward_root)
{
    uint32_t head = 0, tail = 0;
    for (uint32_t rank = 0; rank < p->n; rank++)
        p->level[rank] = PLAN_NONE;
    p->level[root] = 0;
    p->queue[tail++] = root;
    while (head < tail) {
        uint32_t parent = p->queue[head++];
        for (uint32_t child = 0; child < p->n; child++)
            if (p->level[child] == PLAN_NONE && edge_cost(p, parent, child, toward_root) < INFINITY) {
                p->level[child] = p->level[parent] + 1;
                p->queue[tail++] = child;
            }
    }
}

static blink_result_t check_direction(packer_t *p, uint32_t root, bool toward_root)
{
    find_levels(p, root, toward_root);
    for (uint32_t rank = 0; rank < p->n; rank++) {
        uint32_t from = toward_root ? rank : root, to = toward_root ? root : rank;
        if (p->level[rank] == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_UNREACHABLE, "no path of %s leads from rank %u (%s) to rank %u (%s)",
                              p->topo->name, from, p->topo->nodes[p->plan->rank_node[from]].id, to,
                              p->topo->nodes[p->plan->rank_node[to]].id);
    }
    return BLINK_OK;
}

/* Whether all ranks reach one another; needs priced paths. */
static blink_result_t check_reachable(packer_t *p)
{
    if (p->plan->collective == BLINK_BROADCAST)
        return check_direction(p, p->plan->root, false);
    BLINK_TRY(check_direction(p, 0, false));
    return check_direction(p, 0, true);
}

/* Edges out of ranks near the root are a hair cheaper, so that of equally cheap trees a shallow one is found.
 */
static void fill_matrix(packer_t *p, uint32_t root, bool toward_root)
{
    double sum = 0.0;
    uint32_t finite = 0;
    find_levels(p, root, toward_root);
    for (uint32_t parent = 0; parent < p->n; parent++)
        for (uint32_t child = 0; child < p->n; child++) {
            double cost = parent == child ? INFINITY : edge_cost(p, parent, child, toward_root);
            p->matrix[parent * p->n + child] = cost;
            if (cost < INFINITY) {
                sum += cost;
                finite++;
            }
        }
    double step = LEVEL_PENALTY * sum / finite;
    for (uint32_t parent = 0; parent < p->n; parent++)
        for (uint32_t child = 0; child < p->n; child++)
            p->matrix[parent * p->n + child] += step * p->level[parent];
}

static uint32_t tree_depth(packer_t *p, uint32_t root)
{
    uint32_t deepest = 0;
    for (uint32_t rank = 0; rank < p->n; rank++) {
        uint32_t depth = 0;
        for (uint32_t at = rank; at != root; at = p->parent[at])
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

static blink_result_t reserve_column(packer_t *p)
{
    if (p->column_count < p->column_room)
        return BLINK_OK;
    uint32_t room = 2 * p->column_room + 64;
    uint32_t *paths = realloc(p->column_paths, (size_t)room * p->tree_paths * sizeof(*paths));
    if (paths != NULL)
        p->column_paths = paths;
    uint32_t *roots = realloc(p->column_root, room * sizeof(*roots));
    if (roots != NULL)
        p->column_root = roots;
    uint32_t *depths = realloc(p->column_depth, room * sizeof(*depths));
    if (depths != NULL)
        p->column_depth = depths;
    if (paths == NULL || roots == NULL || depths == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u trees", room);
    p->column_room = room;
    return BLINK_OK;
}

/* Make `root` the root of the tree in parent[]. */
static void turn_tree(packer_t *p, uint32_t root)
{
    uint32_t above = PLAN_NONE;
    for (uint32_t rank = root; rank != PLAN_NONE;) {
        uint32_t next = p->parent[rank];
        p->parent[rank] = above;
        above = rank;
        rank = next;
    }
}

/* Turn the tree in parent[] to the root that makes it shallowest. */
static uint32_t centre_tree(packer_t *p)
{
    uint32_t best = 0, best_depth = UINT32_MAX;
    for (uint32_t root = 0; root < p->n; root++) {
        turn_tree(p, root);
        uint32_t depth = tree_depth(p, root);
        if (depth < best_depth) {
            best = root;
            best_depth = depth;
        }
    }
    turn_tree(p, best);
    return best;
}

/* Write the tree in parent[] as path indices and add its cost and depth. */
static blink_result_t write_tree(packer_t *p, uint32_t root, bool toward_root, uint32_t *tree,
                                 candidate_t *made)
{
    made->depth += tree_depth(p, root);
    for (uint32_t rank = 0; rank < p->n; rank++) {
        uint32_t parent = p->parent[rank];
        tree[rank] = PLAN_NONE;
        if (rank == root)
            continue;
        made->cost += edge_cost(p, parent, rank, toward_root);
        BLINK_TRY(pack_paths_find(&p->paths, toward_root ? rank : parent, toward_root ? parent : rank,
                                  &tree[rank]));
    }
    return BLINK_OK;
}

static void grow_tree(packer_t *p, uint32_t root, bool toward_root)
{
    fill_matrix(p, root, toward_root);
    pack_arborist_grow(&p->arborist, p->matrix, root, p->parent);
}

/* The cheapest column for a root under the current prices. On a reversible graph the reduce tree is the
 * broadcast tree backwards: prices are the same both ways, so nothing is cheaper, and any rank may be the
 * root. */
static blink_result_t grow_column(packer_t *p, uint32_t root, uint32_t *column, candidate_t *made)
{
    *made = (candidate_t){.root = root};
    grow_tree(p, root, false);
    if (p->net->reversible)
        made->root = centre_tree(p);
    BLINK_TRY(write_tree(p, made->root, false, column, made));
    if (p->plan->collective != BLINK_ALLREDUCE)
        return BLINK_OK;
    if (!p->net->reversible) {
        grow_tree(p, root, true);
        return write_tree(p, root, true, column + p->n, made);
    }
    for (uint32_t rank = 0; rank < p->n; rank++) {
        column[p->n + rank] = PLAN_NONE;
        if (rank != made->root)
            BLINK_TRY(pack_paths_reverse(&p->paths, column[rank], &column[p->n + rank]));
    }
    made->cost *= 2.0;
    made->depth *= 2;
    return BLINK_OK;
}

/* Share of the payload per row that one unit of the column puts on it, gathered into rows[] and values[];
 * returns the number of entries. values[] are relative to what the row can carry. */
static uint32_t measure_column(packer_t *p, const uint32_t *column)
{
    const pack_net_t *net = p->net;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->tree_paths; i++) {
        if (column[i] == PLAN_NONE)
            continue;
        const pack_path_t *path = &p->paths.paths[column[i]];
        for (uint32_t j = 0; j < path->link_count; j++) {
            uint32_t link = p->paths.links[path->first_link + j];
            uint32_t crossed[2] = {net->link_row[link], net->node_row[net->to[link]]};
            for (uint32_t k = 0; k < 2; k++) {
                if (crossed[k] == PLAN_NONE)
                    continue;
                if (p->loads[crossed[k]] <= 0.0)
                    p->rows[count++] = crossed[k];
                p->loads[crossed[k]] += 1.0;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        p->values[i] = p->loads[p->rows[i]] / net->row_GBps[p->rows[i]];
        p->loads[p->rows[i]] = 0.0;
    }
    return count;
}

static bool column_known(const packer_t *p, const uint32_t *column)
{
    for (uint32_t i = 0; i < p->column_count; i++)
        if (memcmp(&p->column_paths[(size_t)i * p->tree_paths], column, p->tree_paths * sizeof(*column)) == 0)
            return true;
    return false;
}

/* Add the written column behind the last one to the program. The first one sets the unit of x. */
static blink_result_t add_column(packer_t *p, const uint32_t *column, const candidate_t *made)
{
    uint32_t count = measure_column(p, column);
    if (p->column_count == 0) {
        double busiest = 0.0;
        for (uint32_t i = 0; i < count; i++)
            busiest = fmax(busiest, p->values[i]);
        p->unit_GBps = 1.0 / busiest;
    }
    for (uint32_t i = 0; i < count; i++)
        p->values[i] *= p->unit_GBps;
    BLINK_TRY(plan_lp_add(p->lp, count, p->rows, p->values));
    p->column_root[p->column_count] = made->root;
    p->column_depth[p->column_count] = made->depth;
    p->column_count++;
    return BLINK_OK;
}

/* Price one column per possible root; add those that cost less than `limit`. *cheapest is the least cost
 * seen. */
static blink_result_t price_columns(packer_t *p, double limit, double *cheapest, uint32_t *added)
{
    *cheapest = INFINITY;
    *added = 0;
    pack_paths_price(&p->paths, p->prices);
    for (uint32_t root = 0; root < p->n; root++) {
        if (p->plan->collective == BLINK_BROADCAST && root != p->plan->root)
            continue;
        candidate_t made;
        BLINK_TRY(reserve_column(p));
        uint32_t *column = &p->column_paths[(size_t)p->column_count * p->tree_paths];
        BLINK_TRY(grow_column(p, root, column, &made));
        *cheapest = fmin(*cheapest, made.cost);
        if (made.cost >= limit || column_known(p, column))
            continue;
        BLINK_TRY(add_column(p, column, &made));
        ++*added;
    }
    return BLINK_OK;
}

/* First columns: the shallowest trees (every link costs the same), and those that prefer wide links. */
static blink_result_t seed_columns(packer_t *p)
{
    double cheapest = 0.0;
    uint32_t added = 0;
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->prices[row] = 1.0;
    pack_paths_price(&p->paths, p->prices);
    BLINK_TRY(check_reachable(p));
    BLINK_TRY(price_columns(p, INFINITY, &cheapest, &added));
    for (uint32_t row = 0; row < p->net->row_count; row++)
        p->prices[row] = 1.0 / p->net->row_GBps[row];
    return price_columns(p, INFINITY, &cheapest, &added);
}

/* Solve and take the prices; *budget is what all capacity is worth at them. */
static blink_result_t take_prices(packer_t *p, double *budget)
{
    p->solves++;
    BLINK_TRY(plan_lp_solve(p->lp));
    *budget = 0.0;
    for (uint32_t row = 0; row < p->net->row_count; row++) {
        double price = fmax(plan_lp_price(p->lp, row), 0.0);
        *budget += price;
        p->prices[row] = price * p->unit_GBps / p->net->row_GBps[row];
    }
    return BLINK_OK;
}

/* Column generation to the optimum. */
static blink_result_t optimise(packer_t *p)
{
    BLINK_TRY(seed_columns(p));
    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        double budget = 0.0, cheapest = 0.0;
        uint32_t added = 0;
        BLINK_TRY(take_prices(p, &budget));
        BLINK_TRY(price_columns(p, COST_OF_NO_GAIN, &cheapest, &added));
        if (budget / cheapest < p->best_bound) {
            p->best_bound = budget / cheapest;
            memcpy(p->best_prices, p->prices, p->net->row_count * sizeof(*p->prices));
        }
        if (added == 0 || budget >= COST_OF_NO_GAIN * p->best_bound)
            break;
    }
    return BLINK_OK;
}

double pack_rate(const packer_t *p)
{
    double rate = 0.0;
    for (uint32_t column = 0; column < p->column_count; column++)
        rate += plan_lp_value(p->lp, column);
    return rate;
}

bool pack_uses(const packer_t *p, uint32_t column)
{
    return plan_lp_value(p->lp, column) > NOISE * p->best_bound;
}

blink_result_t pack_reoptimise(packer_t *p, double least_gain)
{
    uint32_t added = 1;
    while (added > 0) {
        double budget = 0.0, cheapest = 0.0;
        BLINK_TRY(take_prices(p, &budget));
        BLINK_TRY(price_columns(p, 1.0 - least_gain, &cheapest, &added));
    }
    return BLINK_OK;
}

/* The best prices, per topology link and then node. */
static void write_prices(const packer_t *p, double *prices)
{
    const pack_net_t *net = p->net;
    for (uint32_t link = 0; link < p->topo->link_count; link++)
        prices[link] =
            net->link_of[link] == PLAN_NONE ? 0.0 : p->best_prices[net->link_row[net->link_of[link]]];
    for (uint32_t node = 0; node < p->topo->node_count; node++) {
        uint32_t working = net->node_of[node];
        uint32_t row = working == PLAN_NONE ? PLAN_NONE : net->node_row[working];
        prices[p->topo->link_count + node] = row == PLAN_NONE ? 0.0 : p->best_prices[row];
    }
}

blink_result_t plan_pack_trees(const topo_t *topo, plan_t *plan, double *prices)
{
    packer_t p;
    blink_result_t result = packer_init(&p, topo, plan);
    if (result == BLINK_OK)
        result = optimise(&p);
    if (result == BLINK_OK) {
        write_prices(&p, prices);
        result = pack_thin(&p);
    }
    if (result == BLINK_OK)
        result = pack_place(&p, plan);
    packer_fini(&p);
    return result;
}

blink_result_t plan_pack_prices(const topo_t *topo, const plan_t *plan, double *prices)
{
    packer_t p;
    blink_result_t result = packer_init(&p, topo, plan);
    if (result == BLINK_OK)
        result = optimise(&p);
    if (result == BLINK_OK)
        write_prices(&p, prices);
    packer_fini(&p);
    return result;
}
