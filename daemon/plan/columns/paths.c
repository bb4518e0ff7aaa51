/* Cheapest paths between ranks: other gpus never stand inside a path, relays may, twice if that is what it
 * takes to come by the host's memory. Paths once found keep their index, so a tree is a list of indices and
 * equal trees compare equal. */
#include "plan/columns/paths.h"
#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- states ---- */

/* The topology's node that stands for a working node of its kind. */
static uint32_t any_member(const pack_net_t *net, uint32_t node)
{
    return net->members[net->first_member[node]];
}

static blink_result_t find_states(pack_paths_t *paths)
{
    const pack_net_t *net = paths->net;
    size_t n = net->rank_count;
    paths->state_count = net->node_count;
    if (net->topo->non_peer_count == 0)
        return BLINK_OK;
    paths->state_count = 2 * net->node_count;
    paths->apart = calloc(n * n, sizeof(*paths->apart));
    if (!paths->apart)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for paths between %u ranks", net->rank_count);
    for (uint32_t pair = 0; pair < n * n; pair++)
        paths->apart[pair] = !topo_are_peers(net->topo, any_member(net, (uint32_t)(pair / n)),
                                             any_member(net, (uint32_t)(pair % n)));
    return BLINK_OK;
}

static uint32_t node_of(const pack_paths_t *paths, uint32_t state)
{
    return state < paths->net->node_count ? state : state - paths->net->node_count;
}

/* The state in which a way from a rank comes to the end of a link; PLAN_NONE: it may not take the link. */
static uint32_t enter(const pack_paths_t *paths, uint32_t source, uint32_t state, uint32_t link)
{
    const pack_net_t *net = paths->net;
    uint32_t to = net->to[link];
    bool after_cpu = state >= net->node_count;
    if (!paths->apart)
        return to;
    if (to < net->rank_count)
        return after_cpu || !paths->apart[source * net->rank_count + to] ? to : PLAN_NONE;
    after_cpu |= net->topo->nodes[any_member(net, to)].kind == TOPO_CPU;
    return after_cpu ? net->node_count + to : to;
}

/* How a state is entered: by a link, from its beginning in one of two states. */
static uint32_t entry(const pack_paths_t *paths, uint32_t state, uint32_t link)
{
    return 2 * link + (state >= paths->net->node_count);
}

static uint32_t entry_link(uint32_t entry)
{
    return entry / 2;
}

static uint32_t entry_state(const pack_paths_t *paths, uint32_t entry)
{
    return paths->net->from[entry / 2] + entry % 2 * paths->net->node_count;
}

/* ---- hubs, and ranks that are near ---- */

static bool is_hub(const pack_paths_t *paths, uint32_t node)
{
    for (uint32_t i = 0; i < paths->hub_count; i++)
        if (paths->hubs[i].node == node)
            return true;
    return false;
}

/* None, if there are too many: a symmetry may take any of them to any other. Nor where ways have states. */
static blink_result_t find_hubs(pack_paths_t *paths)
{
    const pack_net_t *net = paths->net;
    uint32_t count = 0;
    if (paths->apart)
        return BLINK_OK;
    for (uint32_t node = net->rank_count; node < net->node_count; node++)
        if (net->out_first[node + 1] - net->out_first[node] >= PATHS_HUB_LINKS && ++count <= PATHS_HUBS_MAX)
            paths->hubs[count - 1].node = node;
    paths->hub_count = count <= PATHS_HUBS_MAX ? count : 0;
    for (uint32_t i = 0; i < paths->hub_count; i++) {
        pack_hub_t *hub = &paths->hubs[i];
        for (uint32_t link = 0; link < net->link_count; link++)
            hub->link = net->to[link] == hub->node ? link : hub->link;
        hub->to = malloc(net->rank_count * sizeof(*hub->to));
        hub->from = malloc(net->rank_count * sizeof(*hub->from));
        if (!hub->to || !hub->from)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ways of %u ranks", net->rank_count);
    }
    return BLINK_OK;
}

/* Write the near ranks that a rank reaches into heap[]; returns their number. place[] says by whom a node was
 * visited last, and relays wait behind the ranks. */
static uint32_t visit_near(pack_paths_t *paths, uint32_t source)
{
    const pack_net_t *net = paths->net;
    uint32_t ranks = 0, relays = paths->state_count, state = source;
    paths->place[source] = source;
    for (;; state = paths->heap[relays++]) {
        uint32_t node = node_of(paths, state);
        for (uint32_t i = net->out_first[node]; i < net->out_first[node + 1]; i++) {
            uint32_t to = enter(paths, source, state, net->out_links[i]);
            if (to == PLAN_NONE || paths->place[to] == source || is_hub(paths, to))
                continue;
            paths->place[to] = source;
            paths->heap[to < net->rank_count ? ranks++ : --relays] = to;
        }
        if (relays == paths->state_count)
            return ranks;
    }
}

static blink_result_t list_near(pack_paths_t *paths)
{
    uint32_t n = paths->net->rank_count;
    memset(paths->place, 0xff, paths->state_count * sizeof(*paths->place));
    for (uint32_t from = 0; from < n; from++) {
        uint32_t reached = visit_near(paths, from);
        for (uint32_t i = 0; i < reached; i++) {
            if (!vec_push(&paths->out_to, paths->heap[i]))
                return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what %u ranks reach", n);
            paths->in_first[paths->heap[i] + 1]++;
        }
        paths->out_first[from + 1] = (uint32_t)paths->out_to.count;
    }
    paths->in_from = malloc((paths->out_to.count + 1) * sizeof(*paths->in_from));
    if (!paths->in_from)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what reaches %u ranks", n);
    for (uint32_t to = 0; to < n; to++)
        paths->in_first[to + 1] += paths->in_first[to];
    memcpy(paths->image, paths->in_first, n * sizeof(*paths->image));
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t i = paths->out_first[from]; i < paths->out_first[from + 1]; i++)
            paths->in_from[paths->image[paths->out_to.items[i]]++] = from;
    return BLINK_OK;
}

blink_result_t pack_paths_init(pack_paths_t *paths, const pack_net_t *net)
{
    size_t n = net->rank_count;
    *paths = (pack_paths_t){.net = net};
    BLINK_TRY(find_states(paths));
    BLINK_TRY(find_hubs(paths));
    paths->cost = calloc(n * n, sizeof(*paths->cost));
    paths->via = calloc((n + paths->hub_count) * paths->state_count, sizeof(*paths->via));
    paths->out_first = calloc(n + 1, sizeof(*paths->out_first));
    paths->in_first = calloc(n + 1, sizeof(*paths->in_first));
    paths->first = calloc(n * n, sizeof(*paths->first));
    paths->distance = calloc(paths->state_count, sizeof(*paths->distance));
    paths->hops = calloc(paths->state_count, sizeof(*paths->hops));
    paths->heap = calloc(paths->state_count, sizeof(*paths->heap));
    paths->place = calloc(paths->state_count, sizeof(*paths->place));
    paths->image = calloc(n, sizeof(*paths->image));
    if (!paths->cost || !paths->via || !paths->out_first || !paths->in_first || !paths->first ||
        !paths->distance || !paths->hops || !paths->heap || !paths->place || !paths->image)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for paths between %u ranks", net->rank_count);
    for (size_t pair = 0; pair < n * n; pair++)
        paths->first[pair] = PLAN_NONE;
    return list_near(paths);
}

void pack_paths_fini(pack_paths_t *paths)
{
    for (uint32_t i = 0; i < paths->hub_count; i++) {
        free(paths->hubs[i].to);
        free(paths->hubs[i].from);
    }
    free(paths->apart);
    free(paths->cost);
    free(paths->via);
    free(paths->out_first);
    vec_free(&paths->out_to);
    free(paths->in_first);
    free(paths->in_from);
    free(paths->first);
    vec_free(&paths->paths);
    vec_free(&paths->links);
    free(paths->distance);
    free(paths->hops);
    free(paths->heap);
    free(paths->place);
    free(paths->image);
}

/* ---- the heap of states reached but not settled ---- */

static bool nearer(const pack_paths_t *paths, uint32_t one, uint32_t other)
{
    if (paths->distance[one] < paths->distance[other] || paths->distance[one] > paths->distance[other])
        return paths->distance[one] < paths->distance[other];
    return paths->hops[one] < paths->hops[other];
}

static void put(pack_paths_t *paths, uint32_t at, uint32_t node)
{
    paths->heap[at] = node;
    paths->place[node] = at;
}

static void sift_up(pack_paths_t *paths, uint32_t at, uint32_t node)
{
    for (; at > 0 && nearer(paths, node, paths->heap[(at - 1) / 2]); at = (at - 1) / 2)
        put(paths, at, paths->heap[(at - 1) / 2]);
    put(paths, at, node);
}

/* Take the nearest node out of a heap of `*count`. */
static uint32_t take_nearest(pack_paths_t *paths, uint32_t *count)
{
    uint32_t nearest = paths->heap[0], last = paths->heap[--*count], at = 0;
    paths->place[nearest] = PLAN_NONE;
    for (uint32_t child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && nearer(paths, paths->heap[child + 1], paths->heap[child]))
            child++;
        if (!nearer(paths, paths->heap[child], last))
            break;
        put(paths, at, paths->heap[child]);
        at = child;
    }
    if (*count > 0)
        put(paths, at, last);
    return nearest;
}

static void relax(pack_paths_t *paths, const double *row_prices, uint32_t source, uint32_t *via,
                  uint32_t state, uint32_t *count)
{
    const pack_net_t *net = paths->net;
    uint32_t node = node_of(paths, state), hops = paths->hops[state] + 1;
    for (uint32_t i = net->out_first[node]; i < net->out_first[node + 1]; i++) {
        uint32_t link = net->out_links[i], to = enter(paths, source, state, link);
        if (to == PLAN_NONE)
            continue;
        double distance = paths->distance[state] + row_prices[net->link_row[link]];
        if (net->node_row[net->to[link]] != PLAN_NONE)
            distance += row_prices[net->node_row[net->to[link]]];
        if (distance > paths->distance[to] || (!(distance < paths->distance[to]) && hops >= paths->hops[to]))
            continue;
        bool fresh = paths->place[to] == PLAN_NONE;
        paths->distance[to] = distance;
        paths->hops[to] = hops;
        via[to] = entry(paths, state, link);
        sift_up(paths, fresh ? (*count)++ : paths->place[to], to);
    }
}

/* Dijkstra, through relays. How states are entered goes into `row` of via[]. */
static void price_from(pack_paths_t *paths, const double *row_prices, uint32_t source, uint32_t row)
{
    const pack_net_t *net = paths->net;
    uint32_t *via = &paths->via[(size_t)row * paths->state_count];
    uint32_t count = 1;
    for (uint32_t state = 0; state < paths->state_count; state++) {
        paths->distance[state] = INFINITY;
        paths->hops[state] = UINT32_MAX;
        paths->place[state] = PLAN_NONE;
    }
    paths->distance[source] = 0.0;
    paths->hops[source] = 0;
    put(paths, 0, source);
    while (count > 0) {
        uint32_t state = take_nearest(paths, &count);
        if (state == source || state >= net->rank_count)
            relax(paths, row_prices, source, via, state, &count);
    }
}

static void price_hubs(pack_paths_t *paths, const double *row_prices)
{
    const pack_net_t *net = paths->net;
    for (uint32_t i = 0; i < paths->hub_count; i++) {
        price_from(paths, row_prices, paths->hubs[i].node, net->rank_count + i);
        memcpy(paths->hubs[i].from, paths->distance, net->rank_count * sizeof(double));
    }
}

/* Copy what ways from the least rank of an orbit cost to where they go under the symmetries. */
static void copy_costs(pack_paths_t *paths, uint32_t source)
{
    const pack_net_t *net = paths->net;
    size_t n = net->rank_count;
    const double *least = &paths->cost[net->orbit[source] * n];
    double *cost = &paths->cost[source * n];
    pack_net_images(net, source, paths->image);
    for (uint32_t to = 0; to < n; to++)
        cost[paths->image[to]] = least[to];
    for (uint32_t i = 0; i < paths->hub_count; i++) {
        uint32_t image = net->to[pack_net_link_image(net, source, paths->hubs[i].link)];
        for (uint32_t j = 0; j < paths->hub_count; j++)
            if (paths->hubs[j].node == image)
                paths->hubs[j].to[source] = paths->hubs[i].to[net->orbit[source]];
    }
}

void pack_paths_price(pack_paths_t *paths, const double *row_prices)
{
    const pack_net_t *net = paths->net;
    size_t n = net->rank_count;
    price_hubs(paths, row_prices);
    for (uint32_t source = 0; source < n; source++) {
        if (net->orbit[source] != source)
            continue;
        price_from(paths, row_prices, source, source);
        memcpy(&paths->cost[source * n], paths->distance, n * sizeof(double));
        for (uint32_t i = 0; i < paths->hub_count; i++)
            paths->hubs[i].to[source] = paths->distance[paths->hubs[i].node];
    }
    for (uint32_t source = 0; source < n; source++)
        if (net->orbit[source] != source)
            copy_costs(paths, source);
}

/* Have memory for one more path, the longest. */
static blink_result_t reserve(pack_paths_t *paths)
{
    if (!vec_reserve(&paths->links, paths->links.count + paths->state_count) ||
        !vec_reserve(&paths->paths, paths->paths.count + 1))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu paths", paths->paths.count + 1);
    return BLINK_OK;
}

uint32_t pack_paths_trace(const pack_paths_t *paths, uint32_t from, uint32_t to, uint32_t *links)
{
    const uint32_t *via = &paths->via[(size_t)from * paths->state_count];
    uint32_t count = 0;
    for (uint32_t state = to; state != from; state = entry_state(paths, via[state]))
        count++;
    uint32_t *at = links + count;
    for (uint32_t state = to; state != from; state = entry_state(paths, via[state]))
        *--at = entry_link(via[state]);
    return count;
}

/* Write the links of the cheapest path behind those of all others, where there is memory for the longest. It
 * is traced from the least rank of the orbit and moved to where it belongs. */
static uint32_t trace(pack_paths_t *paths, uint32_t from, uint32_t to)
{
    const pack_net_t *net = paths->net;
    uint32_t *links = &paths->links.items[paths->links.count];
    uint32_t count = pack_paths_trace(paths, net->orbit[from], pack_net_origin(net, from, to), links);
    for (uint32_t i = 0; i < count; i++)
        links[i] = pack_net_link_image(net, from, links[i]);
    return count;
}

/* The path whose links stand behind those of all others: a known one, or a new one that takes them in. */
static uint32_t intern(pack_paths_t *paths, uint32_t from, uint32_t to, uint32_t count)
{
    const uint32_t *links = &paths->links.items[paths->links.count];
    uint32_t *first = &paths->first[from * paths->net->rank_count + to];
    for (uint32_t i = *first; i != PLAN_NONE; i = paths->paths.items[i].next) {
        const pack_path_t *known = &paths->paths.items[i];
        if (known->link_count == count &&
            memcmp(&paths->links.items[known->first_link], links, count * sizeof(*links)) == 0)
            return i;
    }
    paths->paths.items[paths->paths.count] =
        (pack_path_t){from, to, (uint32_t)paths->links.count, count, *first};
    paths->links.count += count;
    *first = (uint32_t)paths->paths.count++;
    return *first;
}

blink_result_t pack_paths_find(pack_paths_t *paths, uint32_t from, uint32_t to, uint32_t *path)
{
    BLINK_TRY(reserve(paths));
    *path = intern(paths, from, to, trace(paths, from, to));
    return BLINK_OK;
}

blink_result_t pack_paths_reverse(pack_paths_t *paths, uint32_t path, uint32_t *reverse)
{
    BLINK_TRY(reserve(paths));
    const pack_path_t *p = &paths->paths.items[path];
    for (uint32_t i = 0; i < p->link_count; i++)
        paths->links.items[paths->links.count + i] =
            paths->net->reverse[paths->links.items[p->first_link + p->link_count - 1 - i]];
    *reverse = intern(paths, p->to, p->from, p->link_count);
    return BLINK_OK;
}

uint32_t pack_measure(const pack_paths_t *paths, const uint32_t *indices, uint32_t index_count,
                      uint32_t *rows, double *values, double *loads)
{
    const pack_net_t *net = paths->net;
    uint32_t count = 0;
    for (uint32_t i = 0; i < index_count; i++) {
        if (indices[i] == PLAN_NONE)
            continue;
        const pack_path_t *path = &paths->paths.items[indices[i]];
        for (uint32_t j = 0; j < path->link_count; j++) {
            uint32_t link = paths->links.items[path->first_link + j];
            uint32_t crossed[2] = {net->link_row[link], net->node_row[net->to[link]]};
            for (uint32_t k = 0; k < 2; k++) {
                if (crossed[k] == PLAN_NONE)
                    continue;
                if (loads[crossed[k]] <= 0.0)
                    rows[count++] = crossed[k];
                loads[crossed[k]] += 1.0;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        values[i] = loads[rows[i]] / net->row_GBps[rows[i]];
        loads[rows[i]] = 0.0;
    }
    return count;
}

/* ---- on the topology ---- */

double pack_slice_end(const pack_paths_t *paths, const uint32_t *indices, uint32_t count, double at)
{
    const pack_net_t *net = paths->net;
    double end = 1.0;
    for (uint32_t i = 0; i < count; i++) {
        if (indices[i] == PLAN_NONE)
            continue;
        const pack_path_t *path = &paths->paths.items[indices[i]];
        for (uint32_t j = 0; j < path->link_count; j++) {
            uint32_t node = net->to[paths->links.items[path->first_link + j]];
            for (uint32_t m = net->first_member[node]; m < net->first_member[node + 1]; m++)
                if (net->member_end[m] > at + 1e-9)
                    end = fmin(end, net->member_end[m]);
        }
    }
    return end;
}

blink_result_t pack_place_path(const pack_paths_t *paths, plan_t *plan, uint32_t path_index, double at,
                               uint32_t *placed)
{
    const pack_net_t *net = paths->net;
    const pack_path_t *path = &paths->paths.items[path_index];
    uint32_t *links = malloc(path->link_count * sizeof(*links));
    if (!links)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path of %u links", path->link_count);
    for (uint32_t i = 0; i < path->link_count; i++) {
        uint32_t link = paths->links.items[path->first_link + i];
        links[i] = topo_find_link(net->topo, pack_net_member(net, net->from[link], at),
                                  pack_net_member(net, net->to[link], at));
    }
    blink_result_t result = plan_intern_path(plan, links, path->link_count, placed);
    free(links);
    return result;
}
