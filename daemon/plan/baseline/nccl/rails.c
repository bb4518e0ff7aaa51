/*
 * Rails: how NCCL leads rings and trees through several hosts, one for every NIC that a host has. Each walk
 * enters a host at its NIC beside the nearest gpu, follows NVLinks past all its ranks where they allow it,
 * and leaves from another gpu. Rings and double binary trees both build on rails.
 */
#include "error.h"
#include "plan/baseline/nccl/cycles.h"
#include "plan/baseline/nccl/rail_hosts.h"
#include "plan/baseline/nccl/ring.h"

#include <math.h>
#include <stdlib.h>

typedef struct maker {
    const topo_t *topo;
    rails_t *rails;
    rail_hosts_t hosts;
    uint32_t *uses;  /* per link: how many rails cross it */
    uint32_t *exits; /* per node: how many rails leave the host from this NIC */
    ring_search_t search;
} maker_t;

/* A way between a rank of a host and one of its NICs. */
typedef struct leg {
    uint32_t rank; /* of the host */
    uint32_t nic;  /* of the host */
    double GBps;   /* left on its narrowest link if one more rail takes it */
    uint32_t link_count;
} leg_t;

/* One rail through one host, while it is sought. */
typedef struct passage {
    const rail_host_t *host;
    uint32_t host_index, rail;
    leg_t *entries, *exits;    /* per rank of the host, best first */
    uint32_t *direct, *joined; /* rank · rank_count + rank: NVLinks not used yet; whether NVLink joins them */
    uint32_t *order;           /* ranks as the passage visits them */
    uint32_t exit_nic;
} passage_t;

/* ---- walks ---- */

/* What a NIC's widest link out of the host has for one more rail. */
static double port_GBps(const maker_t *m, uint32_t nic)
{
    return rail_hosts_port_GBps(&m->hosts, nic) / (m->exits[nic] + 1u);
}

blink_result_t rail_walk_append(rail_walk_t *walk, uint32_t node)
{
    if (walk->count == walk->room) {
        uint32_t room = 2 * walk->room + 32;
        uint32_t *grown = realloc(walk->nodes, room * sizeof(*grown));
        if (!grown)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a walk over %u nodes", room);
        walk->nodes = grown;
        walk->room = room;
    }
    walk->nodes[walk->count++] = node;
    return BLINK_OK;
}

/* Append the way found by the last search from `from`, without its first node. */
static blink_result_t append_way(const ring_search_t *search, uint32_t from, uint32_t to, rail_walk_t *walk)
{
    uint32_t count = 0;
    const uint32_t *links = ring_search_way(search, from, to, &count);
    for (uint32_t i = 0; i < count; i++)
        BLINK_TRY(rail_walk_append(walk, search->topo->links[links[i]].to));
    return BLINK_OK;
}

/* Narrowest link of the way found, shared with the rails there are. */
static leg_t measure_leg(const maker_t *m, uint32_t from, uint32_t to)
{
    leg_t leg = {.GBps = INFINITY};
    const uint32_t *links = ring_search_way(&m->search, from, to, &leg.link_count);
    for (uint32_t i = 0; i < leg.link_count; i++)
        leg.GBps = fmin(leg.GBps, m->topo->links[links[i]].GBps / (m->uses[links[i]] + 1u));
    return leg;
}

static bool better_leg(const leg_t *one, const leg_t *other)
{
    if (one->GBps < other->GBps || one->GBps > other->GBps)
        return one->GBps > other->GBps;
    return one->link_count < other->link_count;
}

static void sort_legs(leg_t *legs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = i; j > 0 && better_leg(&legs[j], &legs[j - 1]); j--) {
            leg_t leg = legs[j];
            legs[j] = legs[j - 1];
            legs[j - 1] = leg;
        }
}

static ring_reach_t inside(const passage_t *p, ring_class_t class)
{
    return (ring_reach_t){.class = class, .host = p->host_index, .choice = p->rail};
}

/* Best first. Without a way, GBps is below 0. */
static bool leads(const leg_t *leg)
{
    return leg->GBps >= 0.0;
}

/* The ways in from the rail's NIC and out to any NIC, the rail's own first among equals. False if there is no
 * way in, or none out. */
static bool find_legs(maker_t *m, passage_t *p)
{
    uint32_t count = p->host->rank_count, nic = p->host->nics[p->rail];
    ring_reach_t reach = inside(p, RING_ANY);
    ring_search_from(&m->search, &reach, nic);
    for (uint32_t i = 0; i < count; i++) {
        p->entries[i] = (leg_t){.rank = i, .GBps = -1.0};
        if (m->search.via[p->host->rank_node[i]] == TOPO_NONE)
            continue;
        p->entries[i] = measure_leg(m, nic, p->host->rank_node[i]);
        p->entries[i].rank = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        p->exits[i] = (leg_t){.rank = i, .GBps = -1.0};
        ring_search_from(&m->search, &reach, p->host->rank_node[i]);
        for (uint32_t j = 0; j < p->host->nic_count; j++) {
            uint32_t out = (p->rail + j) % p->host->nic_count;
            if (m->search.via[p->host->nics[out]] == TOPO_NONE)
                continue;
            leg_t leg = measure_leg(m, p->host->rank_node[i], p->host->nics[out]);
            leg.GBps = fmin(leg.GBps, port_GBps(m, p->host->nics[out]));
            leg.rank = i;
            leg.nic = out;
            if (better_leg(&leg, &p->exits[i]))
                p->exits[i] = leg;
        }
    }
    sort_legs(p->entries, count);
    sort_legs(p->exits, count);
    return leads(&p->entries[0]) && leads(&p->exits[0]);
}

/* Which ranks NVLink joins, and how many direct links are left between them. */
static void find_joined(maker_t *m, passage_t *p)
{
    uint32_t count = p->host->rank_count;
    ring_reach_t reach = inside(p, RING_NVLINK);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = p->host->rank_node[i];
        ring_search_from(&m->search, &reach, from);
        for (uint32_t j = 0; j < count; j++) {
            uint32_t to = p->host->rank_node[j], link = topo_find_link(m->topo, from, to);
            bool joined = i != j && m->search.via[to] != TOPO_NONE;
            p->joined[i * count + j] = joined;
            p->direct[i * count + j] = joined;
            if (joined && link != TOPO_NONE && m->search.via[to] == link)
                p->direct[i * count + j] =
                    m->topo->links[link].GBps / m->topo->links[link].unit_GBps + 1e-6 >= m->uses[link] + 1.0;
        }
    }
}

static const leg_t *exit_of(const passage_t *p, uint32_t rank)
{
    const leg_t *exit = p->exits;
    while (exit->rank != rank)
        exit++;
    return exit;
}

/* Past all ranks over these edges, from an entry to an exit: a cycle through one more node that stands for
 * the outside. Ranks are numbered by their entry, nearest first. Any entry and exit if `exit` is NULL. */
static blink_result_t order_ranks(passage_t *p, const uint32_t *edges, const leg_t *exit, bool *found)
{
    uint32_t count = p->host->rank_count, times = 0;
    plan_cycles_t *cycles = NULL;
    BLINK_TRY(plan_cycles_create(count + 1, &cycles));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = p->entries[i].rank;
        for (uint32_t j = 0; j < count; j++)
            if (!edges || edges[from * count + p->entries[j].rank] > 0)
                plan_cycles_add_edge(cycles, i + 1, j + 1, i != j);
        plan_cycles_add_edge(cycles, 0, i + 1, i == 0 || (!exit && leads(&p->entries[i])));
        plan_cycles_add_edge(cycles, i + 1, 0, !exit ? leads(exit_of(p, from)) : exit->rank == from);
    }
    blink_result_t result = plan_cycles_find_one(cycles);
    *found = result == BLINK_OK && plan_cycles_count(cycles) > 0;
    for (uint32_t i = 0; *found && i < count; i++)
        p->order[i] = p->entries[plan_cycles_get(cycles, 0, &times)[i + 1] - 1].rank;
    plan_cycles_destroy(cycles);
    return result;
}

/* Best first: over unused NVLinks from the nearest gpu to the best exit, over any NVLinks, over NVLinks from
 * and to anywhere, and over whatever there is. */
static blink_result_t choose_order(passage_t *p)
{
    uint32_t count = p->host->rank_count;
    const uint32_t *edges[] = {p->direct, p->joined};
    bool found = false;
    p->order[0] = 0;
    if (count == 1)
        return BLINK_OK;
    for (uint32_t i = 0; !found && i < 2; i++)
        for (uint32_t j = 0; !found && j < count; j++)
            if (p->exits[j].rank != p->entries[0].rank && leads(&p->exits[j]))
                BLINK_TRY(order_ranks(p, edges[i], &p->exits[j], &found));
    if (!found)
        BLINK_TRY(order_ranks(p, p->joined, NULL, &found));
    if (!found)
        BLINK_TRY(order_ranks(p, NULL, &p->exits[p->exits[0].rank == p->entries[0].rank], &found));
    return BLINK_OK;
}

/* One stretch of a walk inside the host. False in *found if no way leads there. */
static blink_result_t stretch(maker_t *m, const passage_t *p, ring_class_t class, uint32_t to,
                              rail_walk_t *walk, bool *found)
{
    uint32_t from = walk->nodes[walk->count - 1];
    ring_reach_t reach = inside(p, class);
    ring_search_from(&m->search, &reach, from);
    *found = m->search.via[to] != TOPO_NONE;
    return *found ? append_way(&m->search, from, to, walk) : BLINK_OK;
}

static blink_result_t lay_walk(maker_t *m, const passage_t *p, rail_walk_t *walk, bool *found)
{
    const rail_host_t *host = p->host;
    uint32_t last = p->order[host->rank_count - 1], nic = PLAN_NONE;
    BLINK_TRY(rail_walk_append(walk, host->nics[p->rail]));
    BLINK_TRY(stretch(m, p, RING_ANY, host->rank_node[p->order[0]], walk, found));
    for (uint32_t i = 1; *found && i < host->rank_count; i++) {
        bool joined = p->joined[p->order[i - 1] * host->rank_count + p->order[i]] > 0;
        BLINK_TRY(stretch(m, p, joined ? RING_NVLINK : RING_ANY, host->rank_node[p->order[i]], walk, found));
    }
    for (uint32_t i = 0; i < host->rank_count; i++)
        if (p->exits[i].rank == last)
            nic = host->nics[p->exits[i].nic];
    if (*found)
        BLINK_TRY(stretch(m, p, RING_ANY, nic, walk, found));
    return BLINK_OK;
}

/* From now on these links are shared. */
static void use_links(maker_t *m, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++)
        m->uses[topo_find_link(m->topo, nodes[i], nodes[i + 1])]++;
}

static void use_walk(maker_t *m, const rail_walk_t *walk)
{
    use_links(m, walk->nodes, walk->count);
    m->exits[walk->nodes[walk->count - 1]]++;
}

static blink_result_t passage_init(passage_t *p, const rail_host_t *host, uint32_t host_index, uint32_t rail)
{
    size_t n = host->rank_count;
    *p = (passage_t){.host = host,
                     .host_index = host_index,
                     .rail = rail,
                     .entries = calloc(n, sizeof(*p->entries)),
                     .exits = calloc(n, sizeof(*p->exits)),
                     .direct = calloc(n * n, sizeof(*p->direct)),
                     .joined = calloc(n * n, sizeof(*p->joined)),
                     .order = calloc(n, sizeof(*p->order))};
    if (!p->entries || !p->exits || !p->direct || !p->joined || !p->order)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to walk past %u ranks", host->rank_count);
    return BLINK_OK;
}

static void passage_fini(passage_t *p)
{
    free(p->entries);
    free(p->exits);
    free(p->direct);
    free(p->joined);
    free(p->order);
}

/* False in *found if the rail does not lead through the host. */
static blink_result_t walk_host(maker_t *m, uint32_t host, uint32_t rail, rail_walk_t *walk, bool *found)
{
    passage_t p;
    *found = false;
    blink_result_t result = passage_init(&p, &m->hosts.hosts[host], host, rail);
    if (result == BLINK_OK && find_legs(m, &p)) {
        find_joined(m, &p);
        result = choose_order(&p);
        if (result == BLINK_OK)
            result = lay_walk(m, &p, walk, found);
    }
    if (result == BLINK_OK && *found)
        use_walk(m, walk);
    passage_fini(&p);
    return result;
}

/* The walk of an equal host, node by node. */
static blink_result_t copy_walk(maker_t *m, const rail_walk_t *model, uint32_t host, rail_walk_t *walk)
{
    for (uint32_t i = 0; i < model->count; i++)
        BLINK_TRY(rail_walk_append(walk, m->hosts.hosts[host].nodes[m->hosts.place[model->nodes[i]]]));
    use_walk(m, walk);
    return BLINK_OK;
}

/* ---- all of it ---- */

static blink_result_t walk_hosts(maker_t *m, bool *found)
{
    rails_t *rails = m->rails;
    const rail_host_t *hosts = m->hosts.hosts;
    for (uint32_t host = 0; *found && host < rails->host_count; host++) {
        uint32_t model = 0;
        while (model < host && !rail_hosts_are_equal(&m->hosts, &hosts[model], &hosts[host]))
            model++;
        for (uint32_t rail = 0; *found && rail < rails->rail_count; rail++) {
            rail_walk_t *walk = &rails->walks[host * rails->rail_count + rail];
            if (model < host)
                BLINK_TRY(copy_walk(m, &rails->walks[model * rails->rail_count + rail], host, walk));
            else
                BLINK_TRY(walk_host(m, host, rail, walk, found));
        }
    }
    return BLINK_OK;
}

static void narrow(const maker_t *m, const uint32_t *nodes, uint32_t count, double *GBps)
{
    for (uint32_t i = 0; i + 1 < count; i++) {
        uint32_t link = topo_find_link(m->topo, nodes[i], nodes[i + 1]);
        *GBps = fmin(*GBps, m->topo->links[link].GBps / m->uses[link]);
    }
}

/* The ways between the hosts of one rail, each with its first node. */
static blink_result_t join_hosts(maker_t *m, uint32_t rail, rail_walk_t *joins)
{
    const rails_t *rails = m->rails;
    for (uint32_t host = 0; host < rails->host_count; host++) {
        const rail_walk_t *walk = &rails->walks[host * rails->rail_count + rail];
        uint32_t next = (host + 1) % rails->host_count * rails->rail_count + rail, first = joins->count;
        BLINK_TRY(rail_walk_append(joins, walk->nodes[walk->count - 1]));
        BLINK_TRY(
            rails_join(&m->search, rail, walk->nodes[walk->count - 1], rails->walks[next].nodes[0], joins));
        use_links(m, &joins->nodes[first], joins->count - first);
        BLINK_TRY(rail_walk_append(joins, PLAN_NONE));
    }
    return BLINK_OK;
}

static blink_result_t measure_rails(maker_t *m)
{
    rails_t *rails = m->rails;
    rail_walk_t *joins = calloc(rails->rail_count, sizeof(*joins));
    if (!joins)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to measure %u rails", rails->rail_count);
    blink_result_t result = BLINK_OK;
    for (uint32_t rail = 0; result == BLINK_OK && rail < rails->rail_count; rail++)
        result = join_hosts(m, rail, &joins[rail]);
    for (uint32_t rail = 0; result == BLINK_OK && rail < rails->rail_count; rail++) {
        rails->GBps[rail] = INFINITY;
        for (uint32_t host = 0; host < rails->host_count; host++) {
            const rail_walk_t *walk = &rails->walks[host * rails->rail_count + rail];
            narrow(m, walk->nodes, walk->count, &rails->GBps[rail]);
        }
        for (uint32_t i = 0, first = 0; i < joins[rail].count; i++) {
            if (joins[rail].nodes[i] != PLAN_NONE)
                continue;
            narrow(m, &joins[rail].nodes[first], i - first, &rails->GBps[rail]);
            first = i + 1;
        }
    }
    for (uint32_t rail = 0; rail < rails->rail_count; rail++)
        free(joins[rail].nodes);
    free(joins);
    return result;
}

static blink_result_t find_rails(maker_t *m)
{
    rails_t *rails = m->rails;
    const rail_host_t *hosts = m->hosts.hosts;
    if (rails->host_count == 1)
        return BLINK_OK;
    rails->rail_count = hosts[0].nic_count;
    for (uint32_t host = 1; host < rails->host_count; host++)
        if (hosts[host].nic_count < rails->rail_count)
            rails->rail_count = hosts[host].nic_count;
    if (rails->rail_count == 0)
        return BLINK_OK;
    rails->walks = calloc((size_t)rails->host_count * rails->rail_count, sizeof(*rails->walks));
    rails->GBps = calloc(rails->rail_count, sizeof(*rails->GBps));
    if (!rails->walks || !rails->GBps)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u rails", rails->rail_count);
    bool found = true;
    BLINK_TRY(walk_hosts(m, &found));
    return found ? measure_rails(m) : BLINK_OK;
}

static blink_result_t maker_init(maker_t *m, const topo_t *topo, const plan_t *plan, rails_t *rails)
{
    *m = (maker_t){.topo = topo,
                   .rails = rails,
                   .uses = calloc(topo->link_count + 1u, sizeof(*m->uses)),
                   .exits = calloc(topo->node_count, sizeof(*m->exits))};
    BLINK_TRY(rail_hosts_find(topo, plan, &m->hosts));
    BLINK_TRY(ring_search_init(&m->search, topo, m->hosts.node_host));
    if (!m->uses || !m->exits)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for rails of %u ranks", plan->rank_count);
    rails->host_count = m->hosts.count;
    rails->rank_host = m->hosts.rank_host;
    m->hosts.rank_host = NULL;
    return BLINK_OK;
}

static void maker_fini(maker_t *m)
{
    ring_search_fini(&m->search);
    rail_hosts_fini(&m->hosts);
    free(m->uses);
    free(m->exits);
}

static void drop_rails(rails_t *rails)
{
    for (uint32_t i = 0; rails->walks && i < rails->host_count * rails->rail_count; i++)
        free(rails->walks[i].nodes);
    free(rails->walks);
    free(rails->GBps);
    rails->walks = NULL;
    rails->GBps = NULL;
    rails->rail_count = 0;
}

blink_result_t rails_find(const topo_t *topo, const plan_t *plan, rails_t *rails)
{
    maker_t maker;
    *rails = (rails_t){0};
    blink_result_t result = maker_init(&maker, topo, plan, rails);
    if (result == BLINK_OK)
        result = find_rails(&maker);
    maker_fini(&maker);
    /* A rail that leads nowhere, through a host or between two, leaves none. */
    if (result != BLINK_OK || rails->rail_count == 0 || rails->GBps[0] <= 0.0)
        drop_rails(rails);
    if (result == BLINK_ERR_UNREACHABLE)
        return BLINK_OK;
    return result;
}

void rails_fini(rails_t *rails)
{
    drop_rails(rails);
    free(rails->rank_host);
}
