/* The packer's working graph: only what the ranks may use, ranks first, and identical parallel switches
 * merged so that the program need not choose among equals. */
#include "plan/columns/net.h"
#include "error.h"
#include "plan/columns/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where merging stands: `frozen` nodes touch a merged group and must stay single, so groups split
 * independently. */
typedef struct merge {
    bool *frozen;       /* per topology node */
    double *weight;     /* per topology node: capacity relative to the first of its group */
    uint32_t *shape;    /* per topology node: hash of what it is joined to */
    uint32_t *degree;   /* per topology node: usable links in and out */
    uint32_t *by_shape; /* relays, sorted by shape, then index */
    uint32_t relay_count;
    uint32_t *class; /* per link: union-find over links that share a row; per node behind them */
} merge_t;

static blink_result_t allocate(pack_net_t *net, merge_t *merge)
{
    uint32_t nodes = net->topo->node_count, links = net->topo->link_count;
    net->from = calloc(links + 1u, sizeof(*net->from));
    net->to = calloc(links + 1u, sizeof(*net->to));
    net->reverse = calloc(links + 1u, sizeof(*net->reverse));
    net->link_row = calloc(links + 1u, sizeof(*net->link_row));
    net->link_GBps = calloc(links + 1u, sizeof(*net->link_GBps));
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
    merge->shape = calloc(nodes, sizeof(*merge->shape));
    merge->degree = calloc(nodes, sizeof(*merge->degree));
    merge->by_shape = calloc(nodes, sizeof(*merge->by_shape));
    merge->class = calloc((size_t)links + nodes, sizeof(*merge->class));
    if (!net->from || !net->to || !net->reverse || !net->link_row || !net->link_GBps || !net->row_GBps ||
        !net->node_row || !net->node_of || !net->link_of || !net->first_member || !net->members ||
        !net->member_end || !net->out_first || !net->out_links || !merge->frozen || !merge->weight ||
        !merge->shape || !merge->degree || !merge->by_shape || !merge->class)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a working graph of %u nodes", nodes);
    return BLINK_OK;
}

/* Whether the node may carry this plan's traffic: a rank, or anything but a gpu. */
static bool usable(const pack_net_t *net, uint32_t node)
{
    return net->topo->nodes[node].kind != TOPO_DEVICE || net->node_of[node] < net->rank_count;
}

static bool allowed(const pack_net_t *net, uint32_t link)
{
    return !net->allowed || net->allowed[link];
}

/* The link if it exists and may be used, else TOPO_NONE. */
static uint32_t find_allowed(const pack_net_t *net, uint32_t from, uint32_t to)
{
    uint32_t link = topo_find_link(net->topo, from, to);
    return link != TOPO_NONE && allowed(net, link) ? link : TOPO_NONE;
}

/* ---- parallel switches ---- */

static uint32_t scramble(uint32_t value)
{
    value = (value ^ value >> 16) * 0x45d9f3bu;
    value = (value ^ value >> 16) * 0x45d9f3bu;
    return value ^ value >> 16;
}

/* Sums, so that the order of links does not matter. */
static void note_shapes(const pack_net_t *net, merge_t *merge)
{
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        const topo_link_t *l = &net->topo->links[link];
        if (!allowed(net, link))
            continue;
        if (usable(net, l->to)) {
            merge->shape[l->from] += scramble(2 * l->to + 1);
            merge->degree[l->from]++;
        }
        if (usable(net, l->from)) {
            merge->shape[l->to] += scramble(2 * l->from + 2);
            merge->degree[l->to]++;
        }
    }
}

static int compare_shapes(const void *a, const void *b, void *context)
{
    const merge_t *merge = context;
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    if (merge->shape[one] != merge->shape[other])
        return merge->shape[one] < merge->shape[other] ? -1 : 1;
    return one < other ? -1 : one > other;
}

static void sort_relays(const pack_net_t *net, merge_t *merge)
{
    note_shapes(net, merge);
    for (uint32_t node = 0; node < net->topo->node_count; node++)
        if (net->topo->nodes[node].kind != TOPO_DEVICE)
            merge->by_shape[merge->relay_count++] = node;
    qsort_r(merge->by_shape, merge->relay_count, sizeof(*merge->by_shape), compare_shapes, merge);
}

static bool proportional(double one, double other, double ratio)
{
    return fabs(other - ratio * one) <= 1e-9 * other;
}

/* Whether the twin link exists and has the ratio; the first one sets it. */
static bool twin_fits(const topo_t *topo, uint32_t link, uint32_t twin, double *ratio)
{
    if (twin == TOPO_NONE)
        return false;
    if (*ratio <= 0.0)
        *ratio = topo->links[twin].GBps / topo->links[link].GBps;
    return proportional(topo->links[link].GBps, topo->links[twin].GBps, *ratio);
}

/* Whether `other` has the links of `one`, all capacities in one ratio. Writes the ratio. */
static bool parallel(const pack_net_t *net, const merge_t *merge, uint32_t one, uint32_t other, double *ratio)
{
    const topo_t *topo = net->topo;
    uint32_t ways_in = 0, ways_out = 0;
    *ratio = 0.0;
    if (topo->nodes[one].kind != topo->nodes[other].kind || merge->degree[one] != merge->degree[other])
        return false;
    for (uint32_t i = topo->out_first[one]; i < topo->out_first[one + 1]; i++) {
        uint32_t link = topo->out_links[i], next = topo->links[link].to;
        if (!usable(net, next) || !allowed(net, link))
            continue;
        ways_out++;
        if (!twin_fits(topo, link, find_allowed(net, other, next), ratio))
            return false;
        uint32_t back = find_allowed(net, next, one);
        if (back == TOPO_NONE)
            continue;
        ways_in++;
        if (!twin_fits(topo, back, find_allowed(net, next, other), ratio))
            return false;
    }
    /* Switches with one-way links in are left alone. */
    return ways_out > 0 && ways_in + ways_out == merge->degree[one] &&
           proportional(topo->nodes[one].total_GBps, topo->nodes[other].total_GBps, *ratio);
}

static void freeze_neighbours(const pack_net_t *net, merge_t *merge, uint32_t node)
{
    for (uint32_t i = net->topo->out_first[node]; i < net->topo->out_first[node + 1]; i++)
        merge->frozen[net->topo->links[net->topo->out_links[i]].to] = true;
}

/* ---- nodes ---- */

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

/* One working node for the relay at by_shape[at] and every parallel one behind it. */
static void add_relay(pack_net_t *net, merge_t *merge, uint32_t at)
{
    uint32_t node = merge->by_shape[at];
    bool grouped = false;
    add_member(net, node);
    merge->weight[node] = 1.0;
    for (uint32_t i = at + 1; i < merge->relay_count && !merge->frozen[node]; i++) {
        uint32_t other = merge->by_shape[i];
        if (merge->shape[other] != merge->shape[node])
            break;
        if (net->node_of[other] != PLAN_NONE || merge->frozen[other] ||
            !parallel(net, merge, node, other, &merge->weight[other]))
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
    sort_relays(net, merge);
    for (uint32_t at = 0; at < merge->relay_count; at++)
        if (net->node_of[merge->by_shape[at]] == PLAN_NONE)
            add_relay(net, merge, at);
}

/* ---- links ---- */

/* The working link between two working nodes, or PLAN_NONE; out_first[] counts links so far, and the links of
 * a node are chained from out_links[] by `next`. */
static uint32_t find_working(const pack_net_t *net, uint32_t from, uint32_t to)
{
    for (uint32_t i = net->out_first[from]; i < net->out_first[from + 1]; i++)
        if (net->to[net->out_links[i]] == to)
            return net->out_links[i];
    return PLAN_NONE;
}

/* Topology links in the order of their working ends: those to be merged stand together. */
static int compare_ends(const void *a, const void *b, void *context)
{
    const pack_net_t *net = context;
    const topo_link_t *one = &net->topo->links[*(const uint32_t *)a];
    const topo_link_t *other = &net->topo->links[*(const uint32_t *)b];
    uint32_t ends[4] = {net->node_of[one->from], net->node_of[other->from], net->node_of[one->to],
                        net->node_of[other->to]};
    if (ends[0] != ends[1])
        return ends[0] < ends[1] ? -1 : 1;
    return ends[2] < ends[3] ? -1 : ends[2] > ends[3];
}

/* Sorted by `from`, so a node's links out are a run. */
static void add_links(pack_net_t *net)
{
    uint32_t *order = net->link_row, count = 0; /* free until rows are made */
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        uint32_t from = net->node_of[net->topo->links[link].from],
                 to = net->node_of[net->topo->links[link].to];
        net->link_of[link] = PLAN_NONE;
        if (from != PLAN_NONE && to != PLAN_NONE && from != to && allowed(net, link))
            order[count++] = link;
    }
    qsort_r(order, count, sizeof(*order), compare_ends, net);
    for (uint32_t i = 0; i < count; i++) {
        const topo_link_t *l = &net->topo->links[order[i]];
        if (i == 0 || compare_ends(&order[i - 1], &order[i], net) != 0) {
            net->from[net->link_count] = net->node_of[l->from];
            net->to[net->link_count] = net->node_of[l->to];
            net->out_links[net->link_count] = net->link_count;
            net->out_first[net->node_of[l->from] + 1] = ++net->link_count;
        }
        net->link_of[order[i]] = net->link_count - 1;
        net->link_GBps[net->link_count - 1] += l->GBps;
    }
    for (uint32_t node = 0; node < net->node_count; node++)
        if (net->out_first[node + 1] < net->out_first[node])
            net->out_first[node + 1] = net->out_first[node];
}

static blink_result_t check_span(const pack_net_t *net)
{
    uint32_t least = 0, most = 0;
    for (uint32_t link = 0; link < net->link_count; link++) {
        least = net->link_GBps[link] < net->link_GBps[least] ? link : least;
        most = net->link_GBps[link] > net->link_GBps[most] ? link : most;
    }
    if (net->link_count == 0 || net->link_GBps[most] <= NET_SPAN_MAX * net->link_GBps[least])
        return BLINK_OK;
    const topo_node_t *nodes = net->topo->nodes;
    return BLINK_FAIL(
        BLINK_ERR_INVALID_ARGUMENT,
        "%s: the link from %s to %s (%g GB/s) is over %g times as wide as that from %s to %s (%g)",
        net->topo->name, nodes[net->members[net->first_member[net->from[most]]]].id,
        nodes[net->members[net->first_member[net->to[most]]]].id, net->link_GBps[most], NET_SPAN_MAX,
        nodes[net->members[net->first_member[net->from[least]]]].id,
        nodes[net->members[net->first_member[net->to[least]]]].id, net->link_GBps[least]);
}

/* Whether every link has a reverse of the same capacity; fills reverse[]. */
static bool find_reverses(pack_net_t *net)
{
    for (uint32_t link = 0; link < net->link_count; link++) {
        uint32_t reverse = find_working(net, net->to[link], net->from[link]);
        if (reverse == PLAN_NONE || !proportional(net->link_GBps[link], net->link_GBps[reverse], 1.0))
            return false;
        net->reverse[link] = reverse;
    }
    return true;
}

/* ---- symmetries ---- */

/* Where working nodes and links go under a symmetry; false if it does not respect the groups. */
static bool map_working(const pack_net_t *net, const plan_symmetry_t *symmetry, uint32_t *node_image,
                        uint32_t *link_image)
{
    memset(node_image, 0xff, net->node_count * sizeof(*node_image));
    memset(link_image, 0xff, net->link_count * sizeof(*link_image));
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        uint32_t working = net->link_of[link], image = net->link_of[symmetry->link_image[link]];
        if (working == PLAN_NONE && image == PLAN_NONE)
            continue;
        if (working == PLAN_NONE || image == PLAN_NONE ||
            (link_image[working] != PLAN_NONE && link_image[working] != image))
            return false;
        link_image[working] = image;
        uint32_t ends[2] = {net->from[working], net->to[working]};
        uint32_t images[2] = {net->from[image], net->to[image]};
        for (uint32_t i = 0; i < 2; i++) {
            if (node_image[ends[i]] != PLAN_NONE && node_image[ends[i]] != images[i])
                return false;
            node_image[ends[i]] = images[i];
        }
    }
    for (uint32_t rank = 0; rank < net->rank_count; rank++)
        if (node_image[rank] != symmetry->rank_image[rank])
            return false;
    return true;
}

static void fill_powers(uint32_t *powers, const uint32_t *image, uint32_t order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        powers[i] = i;
    for (uint32_t power = 1; power < order; power++)
        for (uint32_t i = 0; i < count; i++)
            powers[power * count + i] = image[powers[(power - 1) * count + i]];
}

static uint32_t class_of(const merge_t *merge, uint32_t item)
{
    while (merge->class[item] != item) {
        merge->class[item] = merge->class[merge->class[item]];
        item = merge->class[item];
    }
    return item;
}

static void join(merge_t *merge, uint32_t one, uint32_t other)
{
    uint32_t a = class_of(merge, one), b = class_of(merge, other);
    merge->class[a > b ? a : b] = a > b ? b : a;
}

/* Take one symmetry over into the working graph; *fits says whether it could be. */
static blink_result_t add_symmetry(pack_net_t *net, merge_t *merge, const plan_symmetry_t *symmetry,
                                   bool *fits)
{
    uint32_t links = net->link_count, *node_image = malloc((net->node_count + links) * sizeof(*node_image));
    pack_symmetry_t *added = &net->symmetries[net->symmetry_count];
    *added = (pack_symmetry_t){symmetry->order,
                               malloc((size_t)symmetry->order * net->rank_count * sizeof(uint32_t)),
                               malloc(((size_t)symmetry->order * links + 1) * sizeof(uint32_t))};
    net->symmetry_count++;
    if (!node_image || !added->ranks || !added->links) {
        free(node_image);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a symmetry of %u links", links);
    }
    uint32_t *link_image = node_image + net->node_count;
    *fits = map_working(net, symmetry, node_image, link_image);
    if (*fits) {
        fill_powers(added->ranks, node_image, symmetry->order, net->rank_count);
        fill_powers(added->links, link_image, symmetry->order, links);
        for (uint32_t link = 0; link < links; link++)
            join(merge, link, link_image[link]);
        for (uint32_t node = 0; node < net->node_count; node++)
            if (node_image[node] != PLAN_NONE)
                join(merge, links + node, links + node_image[node]);
    }
    free(node_image);
    return BLINK_OK;
}

static void drop_symmetries(pack_net_t *net, merge_t *merge)
{
    for (uint32_t i = 0; i < net->symmetry_count; i++) {
        free(net->symmetries[i].ranks);
        free(net->symmetries[i].links);
    }
    net->symmetry_count = 0;
    for (uint32_t i = 0; i < net->link_count + net->node_count; i++)
        merge->class[i] = i;
}

/* The ranks' orbits: walk all products of powers from the least rank of each. */
static void find_orbits(pack_net_t *net)
{
    uint32_t symmetries = net->symmetry_count;
    for (uint32_t rank = 0; rank < net->rank_count; rank++)
        net->orbit[rank] = PLAN_NONE;
    for (uint32_t least = 0; least < net->rank_count; least++) {
        if (net->orbit[least] != PLAN_NONE)
            continue;
        uint32_t powers[8] = {0};
        for (uint32_t digit = 0; digit < symmetries || digit == 0;) {
            uint32_t image = least;
            for (uint32_t i = 0; i < symmetries; i++)
                image = net->symmetries[i].ranks[powers[i] * net->rank_count + image];
            if (net->orbit[image] == PLAN_NONE) {
                net->orbit[image] = least;
                memcpy(&net->power[image * symmetries], powers, symmetries * sizeof(powers[0]));
            }
            for (digit = 0; digit < symmetries && ++powers[digit] == net->symmetries[digit].order; digit++)
                powers[digit] = 0;
            if (symmetries == 0)
                break;
        }
    }
}

static blink_result_t add_symmetries(pack_net_t *net, merge_t *merge, const plan_symmetry_t *symmetries,
                                     uint32_t count)
{
    bool fits = true;
    drop_symmetries(net, merge);
    net->symmetries = calloc(count + 1u, sizeof(*net->symmetries));
    net->orbit = malloc(net->rank_count * sizeof(*net->orbit));
    net->power = calloc((size_t)net->rank_count * (count + 1u), sizeof(*net->power));
    if (!net->symmetries || !net->orbit || !net->power)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u symmetries", count);
    for (uint32_t i = 0; fits && i < count; i++)
        BLINK_TRY(add_symmetry(net, merge, &symmetries[i], &fits));
    if (!fits)
        drop_symmetries(net, merge);
    find_orbits(net);
    return BLINK_OK;
}

uint32_t pack_net_orbit_size(const pack_net_t *net, uint32_t rank)
{
    uint32_t size = 0;
    for (uint32_t other = 0; other < net->rank_count; other++)
        size += net->orbit[other] == net->orbit[rank];
    return size;
}

uint32_t pack_net_image(const pack_net_t *net, uint32_t by, uint32_t rank)
{
    for (uint32_t i = 0; i < net->symmetry_count; i++)
        rank = net->symmetries[i].ranks[net->power[by * net->symmetry_count + i] * net->rank_count + rank];
    return rank;
}

void pack_net_images(const pack_net_t *net, uint32_t by, uint32_t *images)
{
    for (uint32_t rank = 0; rank < net->rank_count; rank++)
        images[rank] = rank;
    for (uint32_t i = 0; i < net->symmetry_count; i++) {
        uint32_t power = net->power[by * net->symmetry_count + i];
        const uint32_t *ranks = &net->symmetries[i].ranks[power * net->rank_count];
        for (uint32_t rank = 0; rank < net->rank_count; rank++)
            images[rank] = ranks[images[rank]];
    }
}

uint32_t pack_net_origin(const pack_net_t *net, uint32_t by, uint32_t rank)
{
    for (uint32_t i = 0; i < net->symmetry_count; i++) {
        uint32_t power = net->power[by * net->symmetry_count + i], order = net->symmetries[i].order;
        rank = net->symmetries[i].ranks[(order - power) % order * net->rank_count + rank];
    }
    return rank;
}

uint32_t pack_net_link_image(const pack_net_t *net, uint32_t by, uint32_t link)
{
    for (uint32_t i = 0; i < net->symmetry_count; i++)
        link = net->symmetries[i].links[net->power[by * net->symmetry_count + i] * net->link_count + link];
    return link;
}

/* ---- rows ---- */

/* Classes are named by their least link, which comes first. */
static void add_rows(pack_net_t *net, merge_t *merge)
{
    for (uint32_t link = 0; net->reversible && link < net->link_count; link++)
        join(merge, link, net->reverse[link]);
    for (uint32_t link = 0; link < net->link_count; link++) {
        uint32_t class = class_of(merge, link);
        net->link_row[link] = class == link ? net->row_count++ : net->link_row[class];
        net->row_GBps[net->link_row[link]] += net->link_GBps[link];
    }
}

static void add_backplanes(pack_net_t *net, merge_t *merge)
{
    for (uint32_t node = 0; node < net->node_count; node++) {
        double total_GBps = 0.0;
        uint32_t class = class_of(merge, net->link_count + node) - net->link_count;
        for (uint32_t i = net->first_member[node]; i < net->first_member[node + 1]; i++)
            total_GBps += net->topo->nodes[net->members[i]].total_GBps;
        net->node_row[node] = PLAN_NONE;
        if (node < net->rank_count || total_GBps <= 0.0)
            continue;
        net->node_row[node] = class == node ? net->row_count++ : net->node_row[class];
        net->row_GBps[net->node_row[node]] += total_GBps;
    }
}

static blink_result_t build(pack_net_t *net, merge_t *merge, const plan_t *plan,
                            const plan_symmetry_t *symmetries, uint32_t symmetry_count)
{
    BLINK_TRY(allocate(net, merge));
    add_nodes(net, merge, plan);
    add_links(net);
    BLINK_TRY(check_span(net));
    net->reversible = plan->collective == BLINK_ALLREDUCE && find_reverses(net);
    BLINK_TRY(add_symmetries(net, merge, symmetries, symmetry_count));
    add_rows(net, merge);
    add_backplanes(net, merge);
    return BLINK_OK;
}

blink_result_t pack_net_create(const topo_t *topo, const plan_t *plan, const bool *allowed,
                               const plan_symmetry_t *symmetries, uint32_t symmetry_count, pack_net_t **out)
{
    merge_t merge = {0};
    pack_net_t *net = calloc(1, sizeof(*net));
    if (!net)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a working graph");
    net->topo = topo;
    net->allowed = allowed;
    net->rank_count = plan->rank_count;
    blink_result_t result = build(net, &merge, plan, symmetries, symmetry_count);
    if (result == BLINK_OK)
        *out = net;
    else
        pack_net_destroy(net);
    free(merge.frozen);
    free(merge.weight);
    free(merge.shape);
    free(merge.degree);
    free(merge.by_shape);
    free(merge.class);
    return result;
}

void pack_net_destroy(pack_net_t *net)
{
    if (!net)
        return;
    for (uint32_t i = 0; i < net->symmetry_count; i++) {
        free(net->symmetries[i].ranks);
        free(net->symmetries[i].links);
    }
    free(net->symmetries);
    free(net->orbit);
    free(net->power);
    free(net->from);
    free(net->to);
    free(net->reverse);
    free(net->link_row);
    free(net->link_GBps);
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

void pack_write_prices(const pack_net_t *net, const double *row_prices, double *prices)
{
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        uint32_t working = net->link_of[link];
        prices[link] = working == PLAN_NONE ? 0.0 : row_prices[net->link_row[working]];
    }
    for (uint32_t node = 0; node < net->topo->node_count; node++) {
        uint32_t working = net->node_of[node];
        uint32_t row = working == PLAN_NONE ? PLAN_NONE : net->node_row[working];
        prices[net->topo->link_count + node] = row == PLAN_NONE ? 0.0 : row_prices[row];
    }
}
