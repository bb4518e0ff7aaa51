#include "topo/show/rows.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

/* A square's corners have so many links to other squares at most; more are drawn as a circle. */
#define OUTSIDE_MOST 2u

/* In which row of its block a node stands: 0 devices, then rows above, then, from BELOW on, rows below. */
#define BELOW 1000u

/* Where a node belongs, for sorting. */
typedef struct rank {
    uint32_t block, row;
} rank_t;

/* ---- rows ---- */

static bool is_of_network(const topo_t *topo, uint32_t node)
{
    bool nets = false;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++)
        nets |= topo->links[topo->out_links[j]].kind == TOPO_NET;
    return nets && topo->nodes[node].kind == TOPO_SWITCH && !*topo->nodes[node].host;
}

static bool is_nvswitch(const topo_t *topo, uint32_t node)
{
    uint32_t first = topo->out_first[node], end = topo->out_first[node + 1];
    for (uint32_t j = first; j < end; j++)
        if (!topo_is_nvlink(&topo->links[topo->out_links[j]]))
            return false;
    return topo->nodes[node].kind == TOPO_SWITCH && end > first;
}

/* How many links of one sort (NVLinks or others, none of the network) are between a node and the nearest of
 * `queue`; what is not reached keeps TOPO_NONE. */
static void find_depths(const topo_t *topo, bool nvlinks, uint32_t *depth, uint32_t *queue, uint32_t tail)
{
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t node = queue[head];
        for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
            const topo_link_t *link = &topo->links[topo->out_links[j]];
            if (link->kind == TOPO_NET || topo_is_nvlink(link) != nvlinks || depth[link->to] != TOPO_NONE)
                continue;
            depth[link->to] = depth[node] + 1;
            queue[tail++] = link->to;
        }
    }
}

static uint32_t begin_at_devices(const topo_t *topo, uint32_t *depth, uint32_t *queue)
{
    memset(depth, 0xff, topo->node_count * sizeof(*depth));
    for (uint32_t i = 0; i < topo->gpu_count; i++) {
        queue[i] = topo->gpus[i];
        depth[topo->gpus[i]] = 0;
    }
    return topo->gpu_count;
}

static uint32_t least(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* PCIe switches by their depth, CPUs above them all, NICs above these; NVSwitches below. */
static void find_rows(const topo_t *topo, rank_t *ranks, uint32_t *depth, uint32_t *queue)
{
    const uint32_t switches_most = TOPO_ROWS_MOST - 2;
    find_depths(topo, true, depth, queue, begin_at_devices(topo, depth, queue));
    for (uint32_t node = 0; node < topo->node_count; node++)
        if (is_nvswitch(topo, node))
            ranks[node].row = BELOW + least(depth[node], TOPO_ROWS_MOST) - 1;
    find_depths(topo, false, depth, queue, begin_at_devices(topo, depth, queue));
    for (uint32_t node = 0; node < topo->node_count; node++) {
        topo_node_kind_t kind = topo->nodes[node].kind;
        if (kind == TOPO_SWITCH && ranks[node].row < BELOW)
            ranks[node].row = least(depth[node], switches_most);
        else if (kind == TOPO_CPU)
            ranks[node].row = switches_most + 1;
        else if (kind == TOPO_NIC)
            ranks[node].row = switches_most + 2;
    }
}

/* The network's switches by their distance from the hosts. */
static void find_network_rows(const topo_t *topo, const uint32_t *block_of, rank_t *ranks, uint32_t *depth,
                              uint32_t *queue)
{
    uint32_t tail = 0;
    memset(depth, 0xff, topo->node_count * sizeof(*depth));
    for (uint32_t node = 0; node < topo->node_count; node++) {
        if (block_of[node] == TOPO_NONE)
            continue;
        depth[node] = 0;
        queue[tail++] = node;
    }
    for (uint32_t head = 0; head < tail; head++)
        for (uint32_t j = topo->out_first[queue[head]]; j < topo->out_first[queue[head] + 1]; j++) {
            uint32_t next = topo->links[topo->out_links[j]].to;
            if (depth[next] != TOPO_NONE)
                continue;
            depth[next] = depth[queue[head]] + 1;
            queue[tail++] = next;
        }
    for (uint32_t node = 0; node < topo->node_count; node++)
        if (block_of[node] == TOPO_NONE)
            ranks[node].row = least(depth[node], TOPO_ROWS_MOST);
}

/* ---- blocks ---- */

/* By the names of hosts, in the order of the file. */
static void find_blocks(topo_rows_t *rows)
{
    const topo_t *topo = rows->topo;
    for (uint32_t node = 0; node < topo->node_count; node++) {
        const char *host = topo->nodes[node].host;
        uint32_t block = 0;
        rows->block_of[node] = TOPO_NONE;
        if (is_of_network(topo, node))
            continue;
        /* Most nodes are of the same host as the one before. */
        if (node > 0 && rows->block_of[node - 1] != TOPO_NONE &&
            strcmp(rows->blocks[rows->block_of[node - 1]].host, host) == 0)
            block = rows->block_of[node - 1];
        while (block < rows->block_count && strcmp(rows->blocks[block].host, host) != 0)
            block++;
        if (block == rows->block_count)
            rows->blocks[rows->block_count++].host = host;
        rows->block_of[node] = block;
    }
}

static int compare_ranks(const void *one, const void *other, void *ranks)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    const rank_t *rank_a = &((const rank_t *)ranks)[a], *rank_b = &((const rank_t *)ranks)[b];
    if (rank_a->block != rank_b->block)
        return rank_a->block < rank_b->block ? -1 : 1;
    if (rank_a->row != rank_b->row)
        return rank_a->row < rank_b->row ? -1 : 1;
    return (a > b) - (a < b);
}

/* One more node of a row; of a row that has none yet a new one. */
static void add_to_row(topo_row_t *row_list, uint32_t *row_count, bool begins, uint32_t *node)
{
    if (begins)
        row_list[(*row_count)++] = (topo_row_t){.nodes = node};
    row_list[*row_count - 1].count++;
}

/* Cut the sorted nodes into blocks and rows. */
static void cut(topo_rows_t *rows, const rank_t *ranks)
{
    for (uint32_t i = 0; i < rows->topo->node_count; i++) {
        uint32_t *node = &rows->sorted[i];
        const rank_t *rank = &ranks[*node], *before = i > 0 ? &ranks[rows->sorted[i - 1]] : NULL;
        bool begins = !before || before->block != rank->block || before->row != rank->row;
        if (rank->block == TOPO_NONE) {
            add_to_row(rows->network, &rows->network_count, begins, node);
            continue;
        }
        topo_block_t *block = &rows->blocks[rank->block];
        if (block->node_count++ == 0)
            block->nodes = block->devices = node;
        if (rank->row == 0)
            block->device_count++;
        else if (rank->row < BELOW)
            add_to_row(block->above, &block->above_count, begins, node);
        else
            add_to_row(block->below, &block->below_count, begins, node);
    }
}

blink_result_t topo_rows_init(topo_rows_t *rows, const topo_t *topo)
{
    size_t nodes = (size_t)topo->node_count + 1;
    *rows = (topo_rows_t){.topo = topo,
                          .sorted = calloc(nodes, sizeof(*rows->sorted)),
                          .block_of = calloc(nodes, sizeof(*rows->block_of)),
                          .blocks = calloc(nodes, sizeof(*rows->blocks))};
    rank_t *ranks = calloc(nodes, sizeof(*ranks));
    uint32_t *depth = calloc(nodes, sizeof(*depth)), *queue = calloc(nodes, sizeof(*queue));
    bool enough = rows->sorted && rows->block_of && rows->blocks && ranks && depth && queue;
    if (enough) {
        find_blocks(rows);
        find_rows(topo, ranks, depth, queue);
        find_network_rows(topo, rows->block_of, ranks, depth, queue);
        for (uint32_t i = 0; i < topo->node_count; i++) {
            rows->sorted[i] = i;
            ranks[i].block = rows->block_of[i];
        }
        qsort_r(rows->sorted, topo->node_count, sizeof(*rows->sorted), compare_ranks, ranks);
        cut(rows, ranks);
    }
    free(ranks);
    free(depth);
    free(queue);
    if (enough)
        return BLINK_OK;
    topo_rows_fini(rows);
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to lay out %u nodes", topo->node_count);
}

void topo_rows_fini(topo_rows_t *rows)
{
    free(rows->sorted);
    free(rows->block_of);
    free(rows->blocks);
    *rows = (topo_rows_t){0};
}

/* ---- devices ---- */

static bool are_linked(const topo_t *topo, uint32_t one, uint32_t other)
{
    return topo_find_link(topo, one, other) != TOPO_NONE;
}

static uint32_t direct_links(const topo_t *topo, const topo_block_t *block, uint32_t device)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < block->device_count; i++)
        count += block->devices[i] != device && are_linked(topo, device, block->devices[i]);
    return count;
}

static void swap(uint32_t *one, uint32_t *other)
{
    uint32_t kept = *one;
    *one = *other;
    *other = kept;
}

/* Bring a device that is linked to all of the quad's `count` ones so far to its end; false: there is none. */
static bool extend_quad(const topo_t *topo, topo_block_t *block, uint32_t first, uint32_t count)
{
    for (uint32_t i = first + count; i < block->device_count; i++) {
        uint32_t linked = 0;
        while (linked < count && are_linked(topo, block->devices[first + linked], block->devices[i]))
            linked++;
        if (linked == count) {
            swap(&block->devices[first + count], &block->devices[i]);
            return true;
        }
    }
    return false;
}

static bool gather_quads(const topo_t *topo, topo_block_t *block)
{
    if (block->device_count == 0 || block->device_count % 4 != 0)
        return false;
    for (uint32_t first = 0; first < block->device_count; first += 4) {
        if (direct_links(topo, block, block->devices[first]) > 3 + OUTSIDE_MOST)
            return false;
        for (uint32_t count = 1; count < 4; count++)
            if (!extend_quad(topo, block, first, count))
                return false;
    }
    return true;
}

topo_shape_t topo_rows_shape(const topo_rows_t *rows, topo_block_t *block)
{
    bool linked = false;
    for (uint32_t i = 0; i < block->device_count && !linked; i++)
        linked = direct_links(rows->topo, block, block->devices[i]) > 0;
    if (!linked || block->device_count < 3)
        return TOPO_ROW;
    return gather_quads(rows->topo, block) ? TOPO_SQUARES : TOPO_CIRCLE;
}
