/*
 * Rings as NCCL builds them, for comparison: as many edge-disjoint rings of single NVLinks as there are (one
 * more per NVSwitch, as wide as its narrowest port), and only where NVLink closes none, one ring over PCIe.
 */
#include "error.h"
#include "plan/cycles.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum link_class { CLASS_NVLINK, CLASS_OTHER, CLASS_ANY } link_class_t;

typedef struct ring {
    uint32_t *order; /* ranks in travelling order */
    uint32_t *hops;  /* plan path from each of them to the next */
    double GBps;
} ring_t;

typedef struct ring_maker {
    const topo_t *topo;
    plan_t *plan;
    uint32_t n;
    uint32_t *rank_of; /* per node, PLAN_NONE if no rank is there */
    uint32_t ring_count, ring_room;
    ring_t *rings;
    uint32_t *queue; /* per node: scratch */
    uint32_t *via;   /* per node: link that reached it, scratch */
    uint32_t *links; /* per node: a path, scratch */
} ring_maker_t;

static blink_result_t maker_init(ring_maker_t *m, const topo_t *topo, plan_t *plan)
{
    *m = (ring_maker_t){.topo = topo, .plan = plan, .n = plan->rank_count};
    m->rank_of = malloc(topo->node_count * sizeof(*m->rank_of));
    m->queue = malloc(topo->node_count * sizeof(*m->queue));
    m->via = malloc(topo->node_count * sizeof(*m->via));
    m->links = malloc(topo->node_count * sizeof(*m->links));
    if (m->rank_of == NULL || m->queue == NULL || m->via == NULL || m->links == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to search rings over %u nodes", topo->node_count);
    for (uint32_t node = 0; node < topo->node_count; node++)
        m->rank_of[node] = PLAN_NONE;
    for (uint32_t rank = 0; rank < m->n; rank++)
        m->rank_of[plan->rank_node[rank]] = rank;
    return BLINK_OK;
}

static void maker_fini(ring_maker_t *m)
{
    for (uint32_t i = 0; i < m->ring_count; i++) {
        free(m->rings[i].order);
        free(m->rings[i].hops);
    }
    free(m->rings);
    free(m->rank_of);
    free(m->queue);
    free(m->via);
    free(m->links);
}

static bool in_class(const topo_link_t *link, link_class_t wanted)
{
    bool nvlink = link->kind == TOPO_NVLINK || link->kind == TOPO_NVSWITCH;
    return wanted == CLASS_ANY || nvlink == (wanted == CLASS_NVLINK);
}

/* An empty ring to fill: room for order and hops. */
static blink_result_t add_ring(ring_maker_t *m, double GBps, ring_t **ring)
{
    if (m->ring_count == m->ring_room) {
        uint32_t room = 2 * m->ring_room + 8;
        ring_t *rings = realloc(m->rings, room * sizeof(*rings));
        if (rings == NULL)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u rings", room);
        m->rings = rings;
        m->ring_room = room;
    }
    *ring = &m->rings[m->ring_count++];
    (*ring)->GBps = GBps;
    (*ring)->order = malloc(m->n * sizeof(*(*ring)->order));
    (*ring)->hops = malloc(m->n * sizeof(*(*ring)->hops));
    if ((*ring)->order == NULL || (*ring)->hops == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a ring over %u ranks", m->n);
    return BLINK_OK;
}

/* The width of a ring all of whose hops go through one switch, 0 if a rank is not attached to it by NVLink.
 */
static double switch_width(const ring_maker_t *m, uint32_t node)
{
    double width = m->topo->nodes[node].total_GBps > 0.0 ? m->topo->nodes[node].total_GBps / m->n : INFINITY;
    for (uint32_t rank = 0; rank < m->n; rank++) {
        uint32_t in = topo_find_link(m->topo, m->plan->rank_node[rank], node);
        uint32_t out = topo_find_link(m->topo, node, m->plan->rank_node[rank]);
        if (in == TOPO_NONE || out == TOPO_NONE || !in_class(&m->topo->links[in], CLASS_NVLINK) ||
            !in_class(&m->topo->links[out], CLASS_NVLINK))
            return 0.0;
        width = fmin(width, fmin(m->topo->links[in].GBps, m->topo->links[out].GBps));
    }
    return width;
}

/* Identical rings over the parallel links to one switch are one channel, as wide as all of them. */
static blink_result_t find_switch_rings(ring_maker_t *m)
{
    for (uint32_t node = 0; node < m->topo->node_count; node++) {
        double width = m->topo->nodes[node].kind == TOPO_SWITCH ? switch_width(m, node) : 0.0;
        ring_t *ring = NULL;
        if (width <= 0.0)
            continue;
        BLINK_TRY(add_ring(m, width, &ring));
        for (uint32_t rank = 0; rank < m->n; rank++) {
            uint32_t next = m->plan->rank_node[(rank + 1) % m->n];
            uint32_t hop[2] = {topo_find_link(m->topo, m->plan->rank_node[rank], node),
                               topo_find_link(m->topo, node, next)};
            ring->order[rank] = rank;
            BLINK_TRY(plan_intern_path(m->plan, hop, 2, &ring->hops[rank]));
        }
    }
    return BLINK_OK;
}

/* A ring over direct links, `times` of each. */
static blink_result_t add_direct_ring(ring_maker_t *m, const uint32_t *order, uint32_t times)
{
    ring_t *ring = NULL;
    BLINK_TRY(add_ring(m, INFINITY, &ring));
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t link =
            topo_find_link(m->topo, m->plan->rank_node[order[i]], m->plan->rank_node[order[(i + 1) % m->n]]);
        ring->order[i] = order[i];
        ring->GBps = fmin(ring->GBps, times * m->topo->links[link].unit_GBps);
        BLINK_TRY(plan_intern_path(m->plan, &link, 1, &ring->hops[i]));
    }
    return BLINK_OK;
}

static blink_result_t find_direct_rings(ring_maker_t *m)
{
    plan_cycles_t *cycles = NULL;
    BLINK_TRY(plan_cycles_create(m->n, &cycles));
    for (uint32_t link = 0; link < m->topo->link_count; link++) {
        const topo_link_t *l = &m->topo->links[link];
        if (m->rank_of[l->from] != PLAN_NONE && m->rank_of[l->to] != PLAN_NONE && in_class(l, CLASS_NVLINK))
            plan_cycles_add_edge(cycles, m->rank_of[l->from], m->rank_of[l->to],
                                 (uint32_t)fmax(1.0, floor(l->GBps / l->unit_GBps + 1e-6)));
    }
    blink_result_t result = plan_cycles_pack(cycles);
    for (uint32_t i = 0; result == BLINK_OK && i < plan_cycles_count(cycles); i++) {
        uint32_t times = 0;
        const uint32_t *order = plan_cycles_get(cycles, i, &times);
        result = add_direct_ring(m, order, times);
    }
    plan_cycles_destroy(cycles);
    return result;
}

/* Ranks in the order in which a walk around the tree of relays meets them: a ring in this order crosses every
 * link of a tree at most once each way. Ranks behind no relay follow in rank order. */
static void tree_order(ring_maker_t *m, link_class_t class, uint32_t *order)
{
    const topo_t *topo = m->topo;
    uint32_t met = 0, height = 0;
    for (uint32_t node = 0; node < topo->node_count; node++)
        m->via[node] = PLAN_NONE;
    for (uint32_t rank = 0; rank < m->n; rank++) {
        if (m->via[m->plan->rank_node[rank]] != PLAN_NONE)
            continue;
        m->via[m->plan->rank_node[rank]] = 0;
        order[met++] = rank;
        m->queue[height++] = m->plan->rank_node[rank];
        while (height > 0) {
            uint32_t node = m->queue[--height];
            for (uint32_t i = topo->out_first[node]; i < topo->out_first[node + 1]; i++) {
                const topo_link_t *link = &topo->links[topo->out_links[i]];
                bool relay = topo->nodes[link->to].kind != TOPO_GPU;
                if (!in_class(link, class) || m->via[link->to] != PLAN_NONE ||
                    (!relay && (m->rank_of[link->to] == PLAN_NONE || m->rank_of[node] != PLAN_NONE)))
                    continue;
                m->via[link->to] = 0;
                if (relay)
                    m->queue[height++] = link->to;
                else
                    order[met++] = m->rank_of[link->to];
            }
        }
    }
}

/* Fewest links from a rank's node to everywhere, over links of a class and through relays only: fills via[].
 */
static void spread_from(ring_maker_t *m, link_class_t class, uint32_t source)
{
    const topo_t *topo = m->topo;
    uint32_t head = 0, tail = 0;
    for (uint32_t node = 0; node < topo->node_count; node++)
        m->via[node] = PLAN_NONE;
    m->queue[tail++] = source;
    while (head < tail) {
        uint32_t node = m->queue[head++];
        if (node != source && topo->nodes[node].kind == TOPO_GPU)
            continue;
        for (uint32_t i = topo->out_first[node]; i < topo->out_first[node + 1]; i++) {
            const topo_link_t *link = &topo->links[topo->out_links[i]];
            if (link->to == source || m->via[link->to] != PLAN_NONE || !in_class(link, class))
                continue;
            m->via[link->to] = topo->out_links[i];
            m->queue[tail++] = link->to;
        }
    }
}

/* The path from a rank to another after spread_from() the first. */
static blink_result_t trace_hop(ring_maker_t *m, uint32_t from, uint32_t to, uint32_t *hop)
{
    uint32_t count = 0, at = m->topo->node_count;
    for (uint32_t node = to; node != from; node = m->topo->links[m->via[node]].from) {
        m->links[--at] = m->via[node];
        count++;
    }
    return plan_intern_path(m->plan, &m->links[at], count, hop);
}

static blink_result_t add_shared_ring(ring_maker_t *m, link_class_t class, const uint32_t *order,
                                      const uint32_t *cycle)
{
    ring_t *ring = NULL;
    BLINK_TRY(add_ring(m, 1.0, &ring));
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t from = m->plan->rank_node[order[cycle[i]]];
        uint32_t to = m->plan->rank_node[order[cycle[(i + 1) % m->n]]];
        ring->order[i] = order[cycle[i]];
        spread_from(m, class, from);
        BLINK_TRY(trace_hop(m, from, to, &ring->hops[i]));
    }
    return BLINK_OK;
}

/* At most one ring over links of a class, hops sharing links. */
static blink_result_t find_shared_ring(ring_maker_t *m, link_class_t class)
{
    plan_cycles_t *cycles = NULL;
    uint32_t *order = malloc(m->n * sizeof(*order));
    if (order == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to order %u ranks", m->n);
    tree_order(m, class, order);
    blink_result_t result = plan_cycles_create(m->n, &cycles);
    for (uint32_t i = 0; result == BLINK_OK && i < m->n; i++) {
        spread_from(m, class, m->plan->rank_node[order[i]]);
        for (uint32_t j = 0; j < m->n; j++)
            if (i != j && m->via[m->plan->rank_node[order[j]]] != PLAN_NONE)
                plan_cycles_add_edge(cycles, i, j, 1);
    }
    if (result == BLINK_OK)
        result = plan_cycles_find_one(cycles);
    if (result == BLINK_OK && plan_cycles_count(cycles) > 0) {
        uint32_t times = 0;
        const uint32_t *cycle = plan_cycles_get(cycles, 0, &times);
        result = add_shared_ring(m, class, order, cycle);
    }
    plan_cycles_destroy(cycles);
    free(order);
    return result;
}

/* Part of a ring: the reduce chain comes around to the root, the broadcast chain starts there. */
static void place_part(const plan_t *plan, const ring_t *ring, uint32_t root, plan_part_t *part)
{
    uint32_t n = plan->rank_count;
    part->root = root;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t sender = ring->order[i], receiver = ring->order[(i + 1) % n];
        if (part->reduce.parent != NULL && sender != root) {
            part->reduce.parent[sender] = receiver;
            part->reduce.path[sender] = ring->hops[i];
        }
        if (part->broadcast.parent != NULL && receiver != root) {
            part->broadcast.parent[receiver] = sender;
            part->broadcast.path[receiver] = ring->hops[i];
        }
    }
}

static blink_result_t place_rings(const ring_maker_t *m)
{
    plan_t *plan = m->plan;
    bool rooted = collective_has_root(plan->collective);
    for (uint32_t i = 0; i < m->ring_count; i++) {
        plan_channel_t *channel = NULL;
        BLINK_TRY(plan_add_channel(plan, m->rings[i].GBps, rooted ? 1 : m->n, &channel));
        for (uint32_t part = 0; part < channel->part_count; part++)
            place_part(plan, &m->rings[i], rooted ? plan->root : part, &channel->parts[part]);
    }
    plan_normalise_shares(plan);
    return BLINK_OK;
}

static blink_result_t find_rings(ring_maker_t *m)
{
    BLINK_TRY(find_switch_rings(m));
    BLINK_TRY(find_direct_rings(m));
    if (m->ring_count == 0)
        BLINK_TRY(find_shared_ring(m, CLASS_OTHER));
    if (m->ring_count == 0)
        BLINK_TRY(find_shared_ring(m, CLASS_ANY));
    if (m->ring_count == 0)
        return BLINK_FAIL(BLINK_ERR_UNREACHABLE,
                          "neither NVLink nor PCIe of %s closes a ring over these %u ranks (%s … %s)",
                          m->topo->name, m->n, m->topo->nodes[m->plan->rank_node[0]].id,
                          m->topo->nodes[m->plan->rank_node[m->n - 1]].id);
    return place_rings(m);
}

blink_result_t plan_find_rings(const topo_t *topo, plan_t *plan)
{
    ring_maker_t maker;
    blink_result_t result = maker_init(&maker, topo, plan);
    if (result == BLINK_OK)
        result = find_rings(&maker);
    maker_fini(&maker);
    return result;
}
