/* The packer's working graph: only what the ranks may use, ranks first, and identical parallel switches
 * merged so that the program need not choose among equals. Its own file because expansion needs the way back
 * too. */
#include "error.h"
#include "plan/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where merging stands: `frozen` nodes touch a merged group and must stay single, so groups split
 * independently. */
typedef struct merge {
    bool *frozen;    /* per topology node */
    double *weight;  /* per topology node: capacity relative to the first of its group */
    double *GBps;    /* per working link */
    uint32_t *table; /* working nodes squared: working link, or PLAN_NONE */
} merge_t;

static blink_result_t allocate(pack_net_t *net, merge_t *merge)
{
    uint32_t nodes = net->topo->node_count, links = net->topo->link_count;
    net->from = calloc(links + 1u, sizeof(*net->from));
    net->to = calloc(links + 1u, sizeof(*net->to));
    net->reverse = calloc(links + 1u, sizeof(*net->reverse));
    net->link_row = calloc(links + 1u, sizeof(*net->link_row));
    net->row_GBps = calloc(links + nodes, sizeof(*net->row_GBps));
    net->node_row = calloc(nodes, sizeof(*net->node_row));
    net->node_of = calloc(nodes, sizeof(*net->node_of));
    net->link_of = calloc(links + 1u, sizeof(*net->link_of));
    net->first_member = calloc(nodes + 2u, sizeof(*net->first_member));
    net->members = calloc(nodes, sizeof(*net->members));
    net->member_end = calloc(nodes, sizeof(*net->member_end));
    net->out_first = calloc(nodes + 1u, sizeof(*net->out_first));
    net->out_links = calloc(links + 1u, sizeof(*net->out_links));
    merge->frozen = calloc(nodes, sizeof(*merge->frozen));
    merge->weight = calloc(nodes, sizeof(*merge->weight));
    merge->GBps = calloc(links + 1u, sizeof(*merge->GBps));
    merge->table = malloc((size_t)nodes * nodes * sizeof(*merge->table));
    if (net->from == NULL || net->to == NULL || net->reverse == NULL || net->link_row == NULL ||
        net->row_GBps == NULL || net->node_row == NULL || net->node_of == NULL || net->link_of == NULL ||
        net->first_member == NULL || net->members == NULL || net->member_end == NULL ||
        net->out_first == NULL || net->out_links == NULL || merge->frozen == NULL || merge->weight == NULL ||
        merge->GBps == NULL || merge->table == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a working graph of %u nodes", nodes);
    return BLINK_OK;
}

/* Whether the node may carry this plan's traffic: a rank, or anything but a gpu. */
static bool usable(const pack_net_t *net, uint32_t node)
{
    return net->topo->nodes[node].kind != TOPO_GPU || net->node_of[node] < net->rank_count;
}

static uint32_t usable_degree(const pack_net_t *net, uint32_t node)
{
    uint32_t degree = 0;
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        const topo_link_t *l = &net->topo->links[link];
        degree += (l->from == node && usable(net, l->to)) || (l->to == node && usable(net, l->from));
    }
    return degree;
}

static bool proportional(double one, double other, double ratio)
{
    return fabs(other - ratio * one) <= 1e-9 * other;
}

/* Whether `other` has the links of `one`, all capacities in one ratio. Writes the ratio. */
static bool parallel(const pack_net_t *net, uint32_t one, uint32_t other, double *ratio)
{
    const topo_t *topo = net->topo;
    bool first = true;
    if (topo->nodes[one].kind != topo->nodes[other].kind ||
        usable_degree(net, one) != usable_degree(net, other))
        return false;
    for (uint32_t link = 0; link < topo->link_count; link++) {
        const topo_link_t *l = &topo->links[link];
        bool out = l->from == one, in = l->to == one;
        if ((!out && !in) || !usable(net, out ? l->to : l->from))
            continue;
        uint32_t twin = out ? topo_find_link(topo, other, l->to) : topo_find_link(topo, l->from, other);
        if (twin == TOPO_NONE)
            return false;
        if (first)
            *ratio = topo->links[twin].GBps / l->GBps;
        first = false;
        if (!proportional(l->GBps, topo->links[twin].GBps, *ratio))
            return false;
    }
    return !first && proportional(topo->nodes[one].total_GBps, topo->nodes[other].total_GBps, *ratio);
}

static void freeze_neighbours(pack_net_t *net, merge_t *merge, uint32_t node)
{
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        const topo_link_t *l = &net->topo->links[link];
        if (l->from == node)
            merge->frozen[l->to] = true;
        if (l->to == node)
            merge->frozen[l->from] = true;
    }
}

static void add_member(pack_net_t *net, uint32_t node)
{
    net->node_of[node] = net->node_count;
    net->members[net->first_member[net->node_count + 1]++] = node;
}

static void close_node(pack_net_t *net, const merge_t *merge)
{
    uint32_t first = net->first_member[net->node_count], end = net->first_member[net->node_count + 1];
    double sum = 0.0, so_far = 0.0;
    for (uint32_t i = first; i < end; i++)
        sum += merge->weight[net->members[i]];
    for (uint32_t i = first; i < end; i++) {
        so_far += merge->weight[net->members[i]];
        net->member_end[i] = i + 1 == end ? 1.0 : so_far / sum;
    }
    net->node_count++;
    net->first_member[net->node_count + 1] = end;
}

/* One working node for the relay and every parallel one behind it. */
static void add_relay(pack_net_t *net, merge_t *merge, uint32_t node)
{
    bool grouped = false;
    add_member(net, node);
    merge->weight[node] = 1.0;
    for (uint32_t other = node + 1; other < net->topo->node_count && !merge->frozen[node]; other++) {
        if (net->topo->nodes[other].kind == TOPO_GPU || net->node_of[other] != PLAN_NONE ||
            merge->frozen[other] || !parallel(net, node, other, &merge->weight[other]))
            continue;
        add_member(net, other);
        grouped = true;
    }
    if (grouped)
        freeze_neighbours(net, merge, node);
    close_node(net, merge);
}

static void add_nodes(pack_net_t *net, merge_t *merge, const plan_t *plan)
{
    for (uint32_t node = 0; node < net->topo->node_count; node++)
        net->node_of[node] = PLAN_NONE;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        net->node_of[plan->rank_node[rank]] = rank;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        add_member(net, plan->rank_node[rank]);
        merge->weight[plan->rank_node[rank]] = 1.0;
        close_node(net, merge);
    }
    for (uint32_t node = 0; node < net->topo->node_count; node++)
        if (net->topo->nodes[node].kind != TOPO_GPU && net->node_of[node] == PLAN_NONE)
            add_relay(net, merge, node);
}

static void add_links(pack_net_t *net, merge_t *merge)
{
    for (size_t pair = 0; pair < (size_t)net->node_count * net->node_count; pair++)
        merge->table[pair] = PLAN_NONE;
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        const topo_link_t *l = &net->topo->links[link];
        uint32_t from = net->node_of[l->from], to = net->node_of[l->to];
        net->link_of[link] = PLAN_NONE;
        if (from == PLAN_NONE || to == PLAN_NONE || from == to)
            continue;
        uint32_t *known = &merge->table[(size_t)from * net->node_count + to];
        if (*known == PLAN_NONE) {
            *known = net->link_count++;
            net->from[*known] = from;
            net->to[*known] = to;
        }
        net->link_of[link] = *known;
        merge->GBps[*known] += l->GBps;
    }
}

/* Whether every link has a reverse of the same capacity; fills reverse[]. */
static bool find_reverses(pack_net_t *net, const merge_t *merge)
{
    for (uint32_t link = 0; link < net->link_count; link++) {
        uint32_t reverse = merge->table[(size_t)net->to[link] * net->node_count + net->from[link]];
        if (reverse == PLAN_NONE || !proportional(merge->GBps[link], merge->GBps[reverse], 1.0))
            return false;
        net->reverse[link] = reverse;
    }
    return true;
}

static void add_rows(pack_net_t *net, const merge_t *merge)
{
    for (uint32_t link = 0; link < net->link_count; link++) {
        bool shares = net->reversible && net->reverse[link] < link;
        net->link_row[link] = shares ? net->link_row[net->reverse[link]] : net->row_count++;
        net->row_GBps[net->link_row[link]] += merge->GBps[link];
    }
}

static void add_backplanes(pack_net_t *net)
{
    for (uint32_t node = 0; node < net->node_count; node++) {
        double total_GBps = 0.0;
        for (uint32_t i = net->first_member[node]; i < net->first_member[node + 1]; i++)
            total_GBps += net->topo->nodes[net->members[i]].total_GBps;
        net->node_row[node] = node >= net->rank_count && total_GBps > 0.0 ? net->row_count : PLAN_NONE;
        if (net->node_row[node] != PLAN_NONE)
            net->row_GBps[net->row_count++] = total_GBps;
    }
}

static void index_links(pack_net_t *net)
{
    uint32_t filled = 0;
    for (uint32_t node = 0; node < net->node_count; node++) {
        net->out_first[node] = filled;
        for (uint32_t link = 0; link < net->link_count; link++)
            if (net->from[link] == node)
                net->out_links[filled++] = link;
    }
    net->out_first[net->node_count] = filled;
}

blink_result_t pack_net_create(const topo_t *topo, const plan_t *plan, pack_net_t **out)
{
    merge_t merge = {0};
    pack_net_t *net = calloc(1, sizeof(*net));
    if (net == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a working graph");
    net->topo = topo;
    net->rank_count = plan->rank_count;
    blink_result_t result = allocate(net, &merge);
    if (result == BLINK_OK) {
        add_nodes(net, &merge, plan);
        add_links(net, &merge);
        net->reversible = plan->collective == BLINK_ALLREDUCE && find_reverses(net, &merge);
        add_rows(net, &merge);
        add_backplanes(net);
        index_links(net);
        *out = net;
    } else {
        pack_net_destroy(net);
    }
    free(merge.frozen);
    free(merge.weight);
    free(merge.GBps);
    free(merge.table);
    return result;
}

void pack_net_destroy(pack_net_t *net)
{
    if (net == NULL)
        return;
    free(net->from);
    free(net->to);
    free(net->reverse);
    free(net->link_row);
    free(net->row_GBps);
    free(net->node_row);
    free(net->node_of);
    free(net->link_of);
    free(net->first_member);
    free(net->members);
    free(net->member_end);
    free(net->out_first);
    free(net->out_links);
    free(net);
}

uint32_t pack_net_member(const pack_net_t *net, uint32_t node, double at)
{
    uint32_t i = net->first_member[node];
    while (i + 1 < net->first_member[node + 1] && net->member_end[i] <= at)
        i++;
    return net->members[i];
}
