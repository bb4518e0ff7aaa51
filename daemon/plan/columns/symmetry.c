/*
 * Symmetries of a topology that map ranks to ranks: rotations of like hosts, and of the gpus within hosts.
 * A guess, then a proof: whatever the guess, only a map that takes every link to one of the same capacity is
 * kept. Plans of hundreds of devices are made for one orbit and stored as templates.
 */
#include "plan/columns/symmetry.h"
#include "error.h"
#include "plan/columns/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A host: a run of finder_t.nodes. */
typedef struct host {
    uint32_t first, count;
    uint64_t signature; /* equal for hosts that look alike from inside */
    uint32_t hub;       /* the first node outside that links lead to; TOPO_NONE: there is none */
    uint32_t turn;      /* how many hosts of this signature and hub come before it */
} host_t;

typedef struct finder {
    const topo_t *topo;
    const plan_t *plan;
    plan_symmetry_t *symmetries;
    uint32_t symmetry_count;
    uint32_t *rank_of; /* per node, or PLAN_NONE */
    uint32_t *nodes;   /* all nodes, by host */
    uint32_t *local;   /* per node: its place in its host */
    uint32_t *host_of; /* per node */
    host_t *hosts;     /* by signature, and those of one signature by hubs in turns */
    uint32_t host_count;
    uint32_t *image; /* per node: the guess */
    bool *taken;     /* per node: is somebody's image */
} finder_t;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdu;
}

static uint64_t mix_double(uint64_t hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return mix(hash, bits);
}

/* What a rank is to the collective: 0 no rank, 1 a rank, 2 its root, 3 its peer. */
static uint64_t role(const finder_t *f, uint32_t node)
{
    uint32_t rank = f->rank_of[node];
    if (rank == PLAN_NONE)
        return 0;
    return rank == f->plan->root ? 2 : rank == f->plan->peer ? 3 : 1;
}

/* ---- hosts ---- */

static int compare_by_host(const void *a, const void *b, void *context)
{
    const topo_t *topo = context;
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    int order = strcmp(topo->nodes[one].host, topo->nodes[other].host);
    return order != 0 ? order : one < other ? -1 : one > other;
}

static int compare_signatures(const void *a, const void *b)
{
    const host_t *one = a, *other = b;
    if (one->signature != other->signature)
        return one->signature < other->signature ? -1 : 1;
    if (one->turn != other->turn)
        return one->turn < other->turn ? -1 : 1;
    if (one->hub != other->hub)
        return one->hub < other->hub ? -1 : 1;
    return one->first < other->first ? -1 : one->first > other->first;
}

static uint64_t sign_host(const finder_t *f, const host_t *host)
{
    const topo_t *topo = f->topo;
    uint64_t hash = mix(1, host->count);
    for (uint32_t i = 0; i < host->count; i++) {
        uint32_t node = f->nodes[host->first + i];
        hash = mix(mix(hash, topo->nodes[node].kind), role(f, node));
        hash = mix_double(hash, topo->nodes[node].total_GBps);
        uint64_t links = 0; /* a sum: hosts may list their links in any order */
        for (uint32_t at = topo->out_first[node]; at < topo->out_first[node + 1]; at++) {
            const topo_link_t *link = &topo->links[topo->out_links[at]];
            bool inside = f->host_of[link->to] == f->host_of[node];
            links += mix_double(mix(0, inside ? f->local[link->to] : UINT32_MAX), link->GBps);
        }
        hash = mix(hash, links);
    }
    return hash;
}

static uint32_t find_hub(const finder_t *f, const host_t *host)
{
    const topo_t *topo = f->topo;
    for (uint32_t i = 0; i < host->count; i++) {
        uint32_t node = f->nodes[host->first + i];
        for (uint32_t at = topo->out_first[node]; at < topo->out_first[node + 1]; at++) {
            uint32_t to = topo->links[topo->out_links[at]].to;
            if (f->host_of[to] != f->host_of[node])
                return to;
        }
    }
    return TOPO_NONE;
}

/* Where a network has several switches with equally many hosts, a rotation of hosts that are dealt to the
 * switches in turns moves the switches on, too: then it can be a symmetry. */
static void sort_hosts(finder_t *f)
{
    for (uint32_t i = 0; i < f->host_count; i++) {
        host_t *host = &f->hosts[i];
        host->signature = sign_host(f, host);
        host->hub = find_hub(f, host);
        for (const host_t *before = f->hosts; before < host; before++)
            host->turn += before->signature == host->signature && before->hub == host->hub;
    }
    qsort(f->hosts, f->host_count, sizeof(*f->hosts), compare_signatures);
}

static void find_hosts(finder_t *f)
{
    const topo_t *topo = f->topo;
    for (uint32_t node = 0; node < topo->node_count; node++)
        f->nodes[node] = node;
    qsort_r(f->nodes, topo->node_count, sizeof(*f->nodes), compare_by_host, (void *)(uintptr_t)topo);
    for (uint32_t i = 0; i < topo->node_count; i++) {
        uint32_t node = f->nodes[i];
        if (i == 0 || strcmp(topo->nodes[node].host, topo->nodes[f->nodes[i - 1]].host) != 0)
            f->hosts[f->host_count++] = (host_t){.first = i};
        host_t *host = &f->hosts[f->host_count - 1];
        f->host_of[node] = f->host_count - 1;
        f->local[node] = host->count++;
    }
    sort_hosts(f);
}

/* ---- proof ---- */

static void start_guess(finder_t *f)
{
    for (uint32_t node = 0; node < f->topo->node_count; node++)
        f->image[node] = node;
}

static bool same_node(const finder_t *f, uint32_t one, uint32_t other)
{
    const topo_node_t *a = &f->topo->nodes[one], *b = &f->topo->nodes[other];
    return a->kind == b->kind && a->multicast == b->multicast && a->reduces == b->reduces &&
           !(fabs(a->total_GBps - b->total_GBps) > 0.0) && role(f, one) == role(f, other);
}

static bool same_link(const topo_link_t *one, const topo_link_t *other)
{
    return one->kind == other->kind && fabs(one->GBps - other->GBps) <= 1e-9 * one->GBps;
}

/* Whether the guess maps nodes and links onto their like; writes where each link goes. */
static bool maps_links(const finder_t *f, uint32_t *link_image)
{
    const topo_t *topo = f->topo;
    for (uint32_t node = 0; node < topo->node_count; node++)
        if (!same_node(f, node, f->image[node]))
            return false;
    for (uint32_t link = 0; link < topo->link_count; link++) {
        uint32_t image =
            topo_find_link(topo, f->image[topo->links[link].from], f->image[topo->links[link].to]);
        if (image == TOPO_NONE || !same_link(&topo->links[link], &topo->links[image]))
            return false;
        link_image[link] = image;
    }
    for (uint32_t i = 0; i < topo->non_peer_count; i++)
        if (topo_are_peers(topo, f->image[topo->non_peers[i].one], f->image[topo->non_peers[i].other]))
            return false;
    return true;
}

/* Whether `order` applications bring every link back. */
static bool closes(const finder_t *f, const uint32_t *link_image, uint32_t order)
{
    for (uint32_t link = 0; link < f->topo->link_count; link++) {
        uint32_t at = link;
        for (uint32_t i = 0; i < order; i++)
            at = link_image[at];
        if (at != link)
            return false;
    }
    return true;
}

static bool commutes(const finder_t *f, const uint32_t *link_image)
{
    for (uint32_t i = 0; i < f->symmetry_count; i++) {
        const uint32_t *other = f->symmetries[i].link_image;
        for (uint32_t link = 0; link < f->topo->link_count; link++)
            if (other[link_image[link]] != link_image[other[link]])
                return false;
    }
    return true;
}

/* Whether the guess moves a rank. A symmetry that does not, as of hosts without ranks, makes no orbit larger:
 * its images would all carry the same traffic. */
static bool moves_ranks(const finder_t *f)
{
    for (uint32_t rank = 0; rank < f->plan->rank_count; rank++)
        if (f->image[f->plan->rank_node[rank]] != f->plan->rank_node[rank])
            return true;
    return false;
}

/* Keep the guess as a symmetry if it proves to be one; *kept says. */
static blink_result_t keep_if_proven(finder_t *f, uint32_t order, bool *kept)
{
    uint64_t images = order;
    for (uint32_t i = 0; i < f->symmetry_count; i++)
        images *= f->symmetries[i].order;
    *kept = false;
    if (f->symmetry_count == SYMMETRIES_MAX || images > SYMMETRY_IMAGES_MAX || !moves_ranks(f))
        return BLINK_OK;
    plan_symmetry_t symmetry = {order, malloc(f->plan->rank_count * sizeof(*symmetry.rank_image)),
                                malloc((f->topo->link_count + 1u) * sizeof(*symmetry.link_image))};
    if (!symmetry.rank_image || !symmetry.link_image) {
        free(symmetry.rank_image);
        free(symmetry.link_image);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a symmetry of %u links", f->topo->link_count);
    }
    *kept = maps_links(f, symmetry.link_image) && closes(f, symmetry.link_image, order) &&
            commutes(f, symmetry.link_image);
    if (!*kept) {
        free(symmetry.rank_image);
        free(symmetry.link_image);
        return BLINK_OK;
    }
    for (uint32_t rank = 0; rank < f->plan->rank_count; rank++)
        symmetry.rank_image[rank] = f->rank_of[f->image[f->plan->rank_node[rank]]];
    f->symmetries[f->symmetry_count++] = symmetry;
    return BLINK_OK;
}

/* ---- guesses ---- */

/* Number of hosts alike from `first` on. */
static uint32_t class_size(const finder_t *f, uint32_t first)
{
    uint32_t end = first;
    while (end < f->host_count && f->hosts[end].signature == f->hosts[first].signature)
        end++;
    return end - first;
}

/* Whether `candidate` can stand for `relay`: its links to the images of the relay's gpus and of everything
 * outside the host are alike. */
static bool stands_for(const finder_t *f, uint32_t relay, uint32_t candidate)
{
    const topo_t *topo = f->topo;
    for (uint32_t at = topo->out_first[relay]; at < topo->out_first[relay + 1]; at++) {
        const topo_link_t *link = &topo->links[topo->out_links[at]];
        if (topo->nodes[link->to].kind != TOPO_DEVICE && f->host_of[link->to] == f->host_of[relay])
            continue;
        uint32_t image = topo_find_link(topo, candidate, f->image[link->to]);
        if (image == TOPO_NONE || !same_link(link, &topo->links[image]))
            return false;
    }
    return same_node(f, relay, candidate);
}

/* The host's relays follow its gpus: each goes to the first free one that can stand for it, itself first. */
static void guess_relays(finder_t *f, const host_t *host)
{
    for (uint32_t at = 0; at < host->count; at++)
        f->taken[f->nodes[host->first + at]] = false;
    for (uint32_t at = 0; at < host->count; at++) {
        uint32_t relay = f->nodes[host->first + at];
        if (f->topo->nodes[relay].kind == TOPO_DEVICE)
            continue;
        for (uint32_t i = 0; i < host->count; i++) {
            uint32_t candidate = f->nodes[host->first + (at + i) % host->count];
            if (f->taken[candidate] || !stands_for(f, relay, candidate))
                continue;
            f->taken[candidate] = true;
            f->image[relay] = candidate;
            break;
        }
    }
}

/* Switches between hosts follow these. */
static void guess_network(finder_t *f)
{
    for (uint32_t i = 0; i < f->host_count; i++) {
        const host_t *host = &f->hosts[i];
        bool has_devices = false;
        for (uint32_t at = 0; at < host->count; at++)
            has_devices |= f->topo->nodes[f->nodes[host->first + at]].kind == TOPO_DEVICE;
        if (!has_devices)
            guess_relays(f, host);
    }
}

/* Send each host of the class to the next, node by node. */
static void guess_host_rotation(finder_t *f, uint32_t first, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        const host_t *host = &f->hosts[first + i], *next = &f->hosts[first + (i + 1) % size];
        for (uint32_t at = 0; at < host->count; at++)
            f->image[f->nodes[host->first + at]] = f->nodes[next->first + at];
    }
}

/* All classes of one size rotate together if they can, since that makes fewer images; else each by itself. */
static blink_result_t find_host_rotations(finder_t *f)
{
    bool kept = false;
    for (uint32_t first = 0, size; first < f->host_count; first += size) {
        size = class_size(f, first);
        bool seen = size < 2;
        for (uint32_t at = 0; at < first && !seen; at += class_size(f, at))
            seen = class_size(f, at) == size;
        if (seen)
            continue;
        start_guess(f);
        for (uint32_t at = first; at < f->host_count; at += class_size(f, at))
            if (class_size(f, at) == size)
                guess_host_rotation(f, at, size);
        guess_network(f);
        BLINK_TRY(keep_if_proven(f, size, &kept));
        for (uint32_t at = first; !kept && at < f->host_count; at += class_size(f, at)) {
            bool alone = false;
            if (class_size(f, at) != size)
                continue;
            start_guess(f);
            guess_host_rotation(f, at, size);
            guess_network(f);
            BLINK_TRY(keep_if_proven(f, size, &alone));
        }
    }
    return BLINK_OK;
}

static uint32_t count_plain_ranks(const finder_t *f, const host_t *host)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < host->count; at++)
        count += role(f, f->nodes[host->first + at]) == 1;
    return count;
}

/* Send each rank of the host that is neither root nor peer to the next. */
static void guess_rank_rotation(finder_t *f, const host_t *host)
{
    uint32_t first = PLAN_NONE, last = PLAN_NONE;
    for (uint32_t at = 0; at < host->count; at++) {
        uint32_t node = f->nodes[host->first + at];
        if (role(f, node) != 1)
            continue;
        if (last == PLAN_NONE)
            first = node;
        else
            f->image[last] = node;
        last = node;
    }
    f->image[last] = first;
}

/* Turn the gpus of all hosts with, or without, the root or peer: those of one kind have equally many. */
static blink_result_t find_rank_rotation(finder_t *f, bool with_root)
{
    uint32_t order = 0;
    bool kept = false;
    start_guess(f);
    for (uint32_t i = 0; i < f->host_count; i++) {
        const host_t *host = &f->hosts[i];
        uint32_t plain = count_plain_ranks(f, host), special = 0;
        for (uint32_t at = 0; at < host->count; at++)
            special += role(f, f->nodes[host->first + at]) > 1;
        if ((special > 0) != with_root || plain == 0)
            continue;
        if (plain < 2 || (order != 0 && plain != order))
            return BLINK_OK;
        order = plain;
        guess_rank_rotation(f, host);
        guess_relays(f, host);
    }
    guess_network(f);
    return order == 0 ? BLINK_OK : keep_if_proven(f, order, &kept);
}

static blink_result_t finder_init(finder_t *f, const topo_t *topo, const plan_t *plan)
{
    uint32_t nodes = topo->node_count;
    *f = (finder_t){.topo = topo,
                    .plan = plan,
                    .symmetries = calloc(SYMMETRIES_MAX, sizeof(*f->symmetries)),
                    .rank_of = malloc(nodes * sizeof(*f->rank_of)),
                    .nodes = malloc(nodes * sizeof(*f->nodes)),
                    .local = calloc(nodes, sizeof(*f->local)),
                    .host_of = malloc(nodes * sizeof(*f->host_of)),
                    .hosts = calloc(nodes, sizeof(*f->hosts)),
                    .image = malloc(nodes * sizeof(*f->image)),
                    .taken = calloc(nodes, sizeof(*f->taken))};
    if (!f->symmetries || !f->rank_of || !f->nodes || !f->local || !f->host_of || !f->hosts || !f->image ||
        !f->taken)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to find symmetries of %u nodes", nodes);
    memset(f->rank_of, 0xff, nodes * sizeof(*f->rank_of));
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        f->rank_of[plan->rank_node[rank]] = rank;
    return BLINK_OK;
}

void pack_free_symmetries(plan_symmetry_t *symmetries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(symmetries[i].rank_image);
        free(symmetries[i].link_image);
    }
    free(symmetries);
}

blink_result_t pack_find_symmetries(const topo_t *topo, const plan_t *plan, plan_symmetry_t **symmetries,
                                    uint32_t *count)
{
    finder_t f;
    blink_result_t result = finder_init(&f, topo, plan);
    if (result == BLINK_OK) {
        find_hosts(&f);
        result = find_host_rotations(&f);
    }
    if (result == BLINK_OK)
        result = find_rank_rotation(&f, false);
    if (result == BLINK_OK)
        result = find_rank_rotation(&f, true);
    if (result == BLINK_OK) {
        *symmetries = f.symmetries;
        *count = f.symmetry_count;
    } else {
        pack_free_symmetries(f.symmetries, f.symmetry_count);
    }
    free(f.rank_of);
    free(f.nodes);
    free(f.local);
    free(f.host_of);
    free(f.hosts);
    free(f.image);
    free(f.taken);
    return result;
}
