/*
 * Rings as NCCL builds them, for comparison: as many edge-disjoint rings of single NVLinks as there are (one
 * more per NVSwitch, as wide as its narrowest port); across hosts one per rail of NICs; and only where
 * neither closes any, one ring over PCIe.
 */
#include "plan/baseline/nccl/ring.h"
#include "error.h"
#include "names.h"
#include "plan/baseline/nccl/cycles.h"
#include "plan/baseline/nccl/nccl_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ring_maker {
    const topo_t *topo;
    plan_t *plan;
    nccl_rings_t *rings;
    uint32_t n;
    uint32_t *rank_of; /* per node, PLAN_NONE if no rank is there */
    bool *met;         /* per node: scratch */
    uint32_t *stack;   /* per node: scratch */
    ring_search_t search;
} ring_maker_t;

static blink_result_t maker_init(ring_maker_t *m, const topo_t *topo, plan_t *plan, nccl_rings_t *rings)
{
    *m = (ring_maker_t){.topo = topo, .plan = plan, .rings = rings, .n = plan->rank_count};
    m->rank_of = malloc(topo->node_count * sizeof(*m->rank_of));
    m->met = malloc(topo->node_count * sizeof(*m->met));
    m->stack = malloc(topo->node_count * sizeof(*m->stack));
    BLINK_TRY(ring_search_init(&m->search, topo, NULL));
    if (!m->rank_of || !m->met || !m->stack)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to search rings over %u nodes", topo->node_count);
    for (uint32_t node = 0; node < topo->node_count; node++)
        m->rank_of[node] = PLAN_NONE;
    for (uint32_t rank = 0; rank < m->n; rank++)
        m->rank_of[plan->rank_node[rank]] = rank;
    return BLINK_OK;
}

static void maker_fini(ring_maker_t *m)
{
    ring_search_fini(&m->search);
    free(m->rank_of);
    free(m->met);
    free(m->stack);
}

void rings_fini(nccl_rings_t *rings)
{
    for (uint32_t i = 0; i < rings->count; i++) {
        free(rings->rings[i].order);
        free(rings->rings[i].hops);
    }
    free(rings->rings);
}

/* An empty ring to fill: room for order and hops. */
static blink_result_t add_ring(nccl_rings_t *rings, ring_kind_t kind, double GBps, nccl_ring_t **ring)
{
    if (rings->count == rings->room) {
        uint32_t room = 2 * rings->room + 8;
        nccl_ring_t *grown = realloc(rings->rings, room * sizeof(*grown));
        if (!grown)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u rings", room);
        rings->rings = grown;
        rings->room = room;
    }
    *ring = &rings->rings[rings->count++];
    **ring = (nccl_ring_t){.kind = kind,
                           .GBps = GBps,
                           .order = malloc(rings->rank_count * sizeof(*(*ring)->order)),
                           .hops = malloc(rings->rank_count * sizeof(*(*ring)->hops))};
    if (!(*ring)->order || !(*ring)->hops)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a ring over %u ranks", rings->rank_count);
    return BLINK_OK;
}

double ring_switch_GBps(const topo_t *topo, const plan_t *plan, uint32_t node)
{
    if (topo->nodes[node].kind != TOPO_SWITCH)
        return 0.0;
    double total_GBps = topo->nodes[node].total_GBps;
    double width = total_GBps > 0.0 ? total_GBps / plan->rank_count : INFINITY;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t in = topo_find_link(topo, plan->rank_node[rank], node);
        uint32_t out = topo_find_link(topo, node, plan->rank_node[rank]);
        if (in == TOPO_NONE || out == TOPO_NONE || !ring_in_class(&topo->links[in], RING_NVLINK) ||
            !ring_in_class(&topo->links[out], RING_NVLINK))
            return 0.0;
        width = fmin(width, fmin(topo->links[in].GBps, topo->links[out].GBps));
    }
    return width;
}

/* Identical rings over the parallel links to one switch are one channel, as wide as all of them. */
static blink_result_t find_switch_rings(ring_maker_t *m)
{
    for (uint32_t node = 0; node < m->topo->node_count; node++) {
        double width = ring_switch_GBps(m->topo, m->plan, node);
        nccl_ring_t *ring = NULL;
        if (width <= 0.0)
            continue;
        BLINK_TRY(add_ring(m->rings, RING_SWITCHED, width, &ring));
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
    nccl_ring_t *ring = NULL;
    BLINK_TRY(add_ring(m->rings, RING_DIRECT, INFINITY, &ring));
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
        if (m->rank_of[l->from] != PLAN_NONE && m->rank_of[l->to] != PLAN_NONE &&
            ring_in_class(l, RING_NVLINK))
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
static void tree_order(ring_maker_t *m, ring_class_t class, uint32_t *order)
{
    const topo_t *topo = m->topo;
    uint32_t found = 0, height = 0;
    memset(m->met, 0, topo->node_count * sizeof(*m->met));
    for (uint32_t rank = 0; rank < m->n; rank++) {
        if (m->met[m->plan->rank_node[rank]])
            continue;
        m->met[m->plan->rank_node[rank]] = true;
        order[found++] = rank;
        m->stack[height++] = m->plan->rank_node[rank];
        while (height > 0) {
            uint32_t node = m->stack[--height];
            for (uint32_t i = topo->out_first[node]; i < topo->out_first[node + 1]; i++) {
                const topo_link_t *link = &topo->links[topo->out_links[i]];
                bool relay = topo->nodes[link->to].kind != TOPO_DEVICE;
                if (!ring_in_class(link, class) || m->met[link->to] ||
                    (!relay && (m->rank_of[link->to] == PLAN_NONE || m->rank_of[node] != PLAN_NONE)))
                    continue;
                m->met[link->to] = true;
                if (relay)
                    m->stack[height++] = link->to;
                else
                    order[found++] = m->rank_of[link->to];
            }
        }
    }
}

/* What each pass around the ring may carry: hops may share links. */
static blink_result_t measure_ring(const ring_maker_t *m, nccl_ring_t *ring)
{
    uint32_t *uses = calloc(m->topo->link_count, sizeof(*uses));
    if (!uses)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to measure a ring of %u ranks", m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        const plan_path_t *path = &m->plan->paths[ring->hops[i]];
        for (uint32_t j = 0; j < path->link_count; j++) {
            const topo_link_t *link = &m->topo->links[path->links[j]];
            ring->GBps = fmin(ring->GBps, link->GBps / ++uses[path->links[j]]);
        }
    }
    free(uses);
    return BLINK_OK;
}

static blink_result_t add_shared_ring(ring_maker_t *m, ring_class_t class, const uint32_t *order,
                                      const uint32_t *cycle)
{
    nccl_ring_t *ring = NULL;
    BLINK_TRY(add_ring(m->rings, RING_SHARED, INFINITY, &ring));
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t from = m->plan->rank_node[order[cycle[i]]];
        uint32_t to = m->plan->rank_node[order[cycle[(i + 1) % m->n]]];
        ring->order[i] = order[cycle[i]];
        uint32_t count = 0;
        ring_search_from(&m->search, &(ring_reach_t){.class = class, .host = PLAN_NONE}, from);
        const uint32_t *links = ring_search_way(&m->search, from, to, &count);
        BLINK_TRY(plan_intern_path(m->plan, links, count, &ring->hops[i]));
    }
    return measure_ring(m, ring);
}

/* At most one ring over links of a class, hops sharing links. */
static blink_result_t find_shared_ring(ring_maker_t *m, ring_class_t class)
{
    plan_cycles_t *cycles = NULL;
    uint32_t *order = malloc(m->n * sizeof(*order));
    if (!order)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to order %u ranks", m->n);
    tree_order(m, class, order);
    blink_result_t result = plan_cycles_create(m->n, &cycles);
    for (uint32_t i = 0; result == BLINK_OK && i < m->n; i++) {
        ring_search_from(&m->search, &(ring_reach_t){.class = class, .host = PLAN_NONE},
                         m->plan->rank_node[order[i]]);
        for (uint32_t j = 0; j < m->n; j++)
            if (i != j && m->search.via[m->plan->rank_node[order[j]]] != TOPO_NONE)
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

/* ---- rings over rails ---- */

blink_result_t ring_intern_nodes(const topo_t *topo, plan_t *plan, const uint32_t *nodes, uint32_t count,
                                 uint32_t *path)
{
    uint32_t *links = malloc(count * sizeof(*links));
    blink_result_t result = BLINK_OK;
    if (!links)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path over %u nodes", count);
    for (uint32_t i = 0; result == BLINK_OK && i + 1 < count; i++) {
        links[i] = topo_find_link(topo, nodes[i], nodes[i + 1]);
        if (links[i] == TOPO_NONE)
            result = BLINK_FAIL(BLINK_ERR_UNREACHABLE, "no link of %s leads from %s to %s", topo->name,
                                topo->nodes[nodes[i]].id, topo->nodes[nodes[i + 1]].id);
    }
    if (result == BLINK_OK)
        result = plan_intern_path(plan, links, count - 1, path);
    free(links);
    return result;
}

/* Cut a walk that begins and ends at one rank into hops, rank to rank. */
static blink_result_t cut_walk(ring_maker_t *m, const rail_walk_t *walk, nccl_ring_t *ring)
{
    uint32_t found = 0, last = 0;
    ring->order[0] = m->rank_of[walk->nodes[0]];
    for (uint32_t i = 1; i < walk->count; i++) {
        if (m->rank_of[walk->nodes[i]] == PLAN_NONE)
            continue;
        BLINK_TRY(ring_intern_nodes(m->topo, m->plan, &walk->nodes[last], i - last + 1, &ring->hops[found]));
        last = i;
        if (++found < m->n)
            ring->order[found] = m->rank_of[walk->nodes[i]];
    }
    return BLINK_OK;
}

/* All hosts' walks of a rail, joined, from the first rank around to it. */
static blink_result_t walk_rail(ring_maker_t *m, const rails_t *rails, uint32_t rail, rail_walk_t *around)
{
    const rail_walk_t *first = &rails->walks[rail];
    uint32_t start = 0;
    while (m->rank_of[first->nodes[start]] == PLAN_NONE)
        start++;
    for (uint32_t i = start; i < first->count; i++)
        BLINK_TRY(rail_walk_append(around, first->nodes[i]));
    for (uint32_t host = 1; host <= rails->host_count; host++) {
        const rail_walk_t *next = &rails->walks[host % rails->host_count * rails->rail_count + rail];
        uint32_t end = host < rails->host_count ? next->count : start + 1;
        BLINK_TRY(rails_join(&m->search, rail, around->nodes[around->count - 1], next->nodes[0], around));
        for (uint32_t i = 1; i < end; i++)
            BLINK_TRY(rail_walk_append(around, next->nodes[i]));
    }
    return BLINK_OK;
}

static blink_result_t find_rail_rings(ring_maker_t *m)
{
    rails_t rails;
    blink_result_t result = rails_find(m->topo, m->plan, &rails);
    for (uint32_t rail = 0; result == BLINK_OK && rail < rails.rail_count; rail++) {
        rail_walk_t around = {0};
        nccl_ring_t *ring = NULL;
        result = add_ring(m->rings, RING_RAIL, rails.GBps[rail], &ring);
        if (result == BLINK_OK)
            result = walk_rail(m, &rails, rail, &around);
        if (result == BLINK_OK)
            result = cut_walk(m, &around, ring);
        free(around.nodes);
    }
    rails_fini(&rails);
    return result;
}

/* ---- from rings to channels ---- */

/* Part of a ring: the reduce chain comes around to the root, the broadcast chain starts there. */
static void place_part(const plan_t *plan, const nccl_ring_t *ring, uint32_t root, plan_part_t *part)
{
    uint32_t n = plan->rank_count;
    part->root = root;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t sender = ring->order[i], receiver = ring->order[(i + 1) % n];
        if (part->reduce.parent && sender != root) {
            part->reduce.parent[sender] = receiver;
            part->reduce.path[sender] = ring->hops[i];
        }
        if (part->broadcast.parent && receiver != root) {
            part->broadcast.parent[receiver] = sender;
            part->broadcast.path[receiver] = ring->hops[i];
        }
    }
}

/* Each ring as `copies` channels: lanes of a ring take their parts in order, so one channel per ring would
 * leave wide links idle between steps. */
static blink_result_t place_rings(plan_t *plan, const nccl_rings_t *rings, uint32_t copies)
{
    bool rooted = collective_has_root(plan->collective);
    for (uint32_t i = 0; i < rings->count * copies; i++) {
        const nccl_ring_t *ring = &rings->rings[i / copies];
        plan_channel_t *channel = NULL;
        BLINK_TRY(plan_add_channel(plan, ring->GBps / copies, rooted ? 1 : plan->rank_count, &channel));
        for (uint32_t part = 0; part < channel->part_count; part++)
            place_part(plan, ring, rooted ? plan->root : part, &channel->parts[part]);
    }
    plan_normalise_shares(plan);
    return BLINK_OK;
}

/* Whether direct NVLinks between ranks join them all. Spares the search for rings over hundreds of ranks that
 * only a network joins. */
static bool all_joined_directly(ring_maker_t *m)
{
    uint32_t height = 0, found = 1;
    memset(m->met, 0, m->topo->node_count * sizeof(*m->met));
    m->met[m->plan->rank_node[0]] = true;
    m->stack[height++] = m->plan->rank_node[0];
    while (height > 0) {
        uint32_t node = m->stack[--height];
        for (uint32_t i = m->topo->out_first[node]; i < m->topo->out_first[node + 1]; i++) {
            const topo_link_t *link = &m->topo->links[m->topo->out_links[i]];
            if (m->met[link->to] || m->rank_of[link->to] == PLAN_NONE || !ring_in_class(link, RING_NVLINK))
                continue;
            m->met[link->to] = true;
            m->stack[height++] = link->to;
            found++;
        }
    }
    return found == m->n;
}

static blink_result_t find_rings(ring_maker_t *m)
{
    BLINK_TRY(find_switch_rings(m));
    if (all_joined_directly(m))
        BLINK_TRY(find_direct_rings(m));
    if (m->rings->count == 0)
        BLINK_TRY(find_rail_rings(m));
    if (m->rings->count == 0)
        BLINK_TRY(find_shared_ring(m, RING_OTHER));
    if (m->rings->count == 0)
        BLINK_TRY(find_shared_ring(m, RING_ANY));
    if (m->rings->count == 0)
        return BLINK_FAIL(BLINK_ERR_UNREACHABLE,
                          "neither NVLink nor PCIe of %s closes a ring over these %u ranks (%s … %s)",
                          m->topo->name, m->n, m->topo->nodes[m->plan->rank_node[0]].id,
                          m->topo->nodes[m->plan->rank_node[m->n - 1]].id);
    return BLINK_OK;
}

blink_result_t rings_find(const topo_t *topo, plan_t *plan, nccl_rings_t *rings)
{
    ring_maker_t maker;
    *rings = (nccl_rings_t){.rank_count = plan->rank_count};
    blink_result_t result = maker_init(&maker, topo, plan, rings);
    if (result == BLINK_OK)
        result = find_rings(&maker);
    maker_fini(&maker);
    return result;
}

blink_result_t plan_find_rings(const topo_t *topo, plan_t *plan)
{
    nccl_rings_t rings;
    if (collective_routes(plan->collective))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "rings do not do %s",
                          blink_name_collective(plan->collective));
    nccl_graph_t graph;
    blink_result_t result = rings_find(topo, plan, &rings);
    if (result == BLINK_OK)
        result = nccl_find_graph(topo, plan->rank_node, plan->rank_count,
                                 nccl_guess_generation(topo, plan->rank_node, plan->rank_count), &graph);
    if (result == BLINK_OK)
        result = place_rings(plan, &rings,
                             graph.channel_count > rings.count ? graph.channel_count / rings.count : 1);
    rings_fini(&rings);
    return result;
}
