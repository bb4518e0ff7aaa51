/* How many other hosts a host exchanges data with under a plan. */
#include "error.h"
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct peers {
    const plan_t *plan;
    uint32_t host_of_rank[PLAN_RANKS_MAX];
    bool *joined; /* [rank · rank_count + rank]: an edge joins the two */
    bool *images; /* the same, of a symmetry's images; then [host · rank_count + host] */
} peers_t;

static bool same_host(const topo_t *topo, const plan_t *plan, uint32_t one, uint32_t other)
{
    return strcmp(topo->nodes[plan->rank_node[one]].host, topo->nodes[plan->rank_node[other]].host) == 0;
}

/* Ranks of one host mostly adjoin. */
uint32_t plan_number_hosts(const topo_t *topo, const plan_t *plan, uint32_t *of_rank)
{
    uint32_t hosts = 0;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t first = rank > 0 && same_host(topo, plan, rank - 1, rank) ? of_rank[rank - 1] : 0;
        while (!same_host(topo, plan, first, rank))
            first++;
        of_rank[rank] = first;
        hosts += first == rank;
    }
    return hosts;
}

static void join(const peers_t *p, uint32_t from, uint32_t to)
{
    p->joined[(size_t)from * p->plan->rank_count + to] = true;
}

static void join_tree(const peers_t *p, const plan_tree_t *tree)
{
    for (uint32_t rank = 0; tree->parent && rank < p->plan->rank_count; rank++)
        if (tree->parent[rank] != PLAN_NONE)
            join(p, rank, tree->parent[rank]);
}

static void join_channels(const peers_t *p)
{
    for (uint32_t c = 0; c < p->plan->channel_count; c++)
        for (uint32_t i = 0; i < p->plan->channels[c].part_count; i++) {
            const plan_part_t *part = &p->plan->channels[c].parts[i];
            join_tree(p, &part->reduce);
            join_tree(p, &part->broadcast);
            for (uint32_t hop = 0; hop < part->route.hop_count; hop++)
                join(p, part->route.ranks[hop], part->route.ranks[hop + 1]);
        }
}

/* All images of the joined pairs are joined, too. Each pair's images are a circle, which is gone round once.
 */
static void join_images(peers_t *p, const plan_symmetry_t *symmetry)
{
    uint32_t n = p->plan->rank_count;
    memset(p->images, 0, (size_t)n * n * sizeof(*p->images));
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; to < n; to++) {
            uint32_t one = from, other = to;
            if (!p->joined[(size_t)from * n + to])
                continue;
            while (!p->images[(size_t)one * n + other]) {
                p->images[(size_t)one * n + other] = true;
                one = symmetry->rank_image[one];
                other = symmetry->rank_image[other];
            }
        }
    bool *images = p->images;
    p->images = p->joined;
    p->joined = images;
}

static uint32_t count_most(const peers_t *p)
{
    uint32_t n = p->plan->rank_count, most = 0;
    memset(p->images, 0, (size_t)n * n * sizeof(*p->images));
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; to < n; to++)
            if (p->joined[(size_t)from * n + to]) {
                p->images[(size_t)p->host_of_rank[from] * n + p->host_of_rank[to]] = true;
                p->images[(size_t)p->host_of_rank[to] * n + p->host_of_rank[from]] = true;
            }
    for (uint32_t host = 0; host < n; host++) {
        uint32_t count = 0;
        for (uint32_t other = 0; other < n; other++)
            count += host != other && p->images[(size_t)host * n + other];
        most = count > most ? count : most;
    }
    return most;
}

blink_result_t plan_peers_most(const topo_t *topo, const plan_t *plan, uint32_t *most)
{
    size_t pairs = (size_t)plan->rank_count * plan->rank_count;
    peers_t p = {
        .plan = plan, .joined = calloc(pairs, sizeof(*p.joined)), .images = calloc(pairs, sizeof(*p.images))};
    blink_result_t result = BLINK_OK;
    if (p.joined && p.images) {
        plan_number_hosts(topo, plan, p.host_of_rank);
        join_channels(&p);
        for (uint32_t i = 0; i < plan->symmetry_count; i++)
            join_images(&p, &plan->symmetries[i]);
        *most = count_most(&p);
    } else {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the pairs of %u ranks", plan->rank_count);
    }
    free(p.joined);
    free(p.images);
    return result;
}
