/*
 * The one way a topology comes to be: collect nodes and links, then check, merge and index them in one go.
 * Readers of every format come through here, so every rule for topologies is enforced once.
 */
#include "topo/topo.h"

#include "base/vec.h"
#include "error.h"
#include "topo/source.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the same file there are often many alike. */
#define NOTES_MAX  16u
#define NOTE_BYTES 256

/* Far above any machine, far below what would overflow 32-bit indices once links are doubled. */
#define ITEMS_MAX (1u << 24)

typedef struct build_link {
    char *from, *to;
    topo_link_kind_t kind;
    double GBps; /* of one of the `count` links */
    uint32_t count;
    double latency_us;
    bool duplex;
} build_link_t;

/* Two devices that are no peers. */
typedef struct build_pair {
    char *one, *other;
} build_pair_t;

struct topo_builder {
    char *name;
    char *source;
    VEC(topo_node_t) nodes;
    VEC(build_link_t) links;
    VEC(build_pair_t) non_peers;
    VEC(char) notes;
    uint32_t note_count;
};

typedef struct build_name {
    const char *id;
    uint32_t node;
} build_name_t;

/* One direction of a link. */
typedef struct build_edge {
    uint32_t from, to;
    uint32_t order; /* of appearance */
    uint32_t place; /* among all edges sorted by their ends */
    const build_link_t *link;
    double GBps; /* merged */
} build_edge_t;

/* What topo_build_finish() works on. */
typedef struct build_work {
    build_name_t *names; /* sorted by id */
    build_edge_t *edges;
    uint32_t edge_count;
    topo_pair_t *pairs;
} build_work_t;

static blink_result_t out_of_memory(const char *source)
{
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", topo_source_tail(source));
}

#define FAIL_BUILD(builder, format, ...)                                                                     \
    BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": " format,                                           \
               topo_source_tail((builder)->source) __VA_OPT__(, ) __VA_ARGS__)

#define FAIL_LINK(builder, link, format, ...)                                                                \
    FAIL_BUILD(builder, "link " TOPO_SHOWN " to " TOPO_SHOWN format, (link)->from,                           \
               (link)->to __VA_OPT__(, ) __VA_ARGS__)

blink_result_t topo_build_create(const char *name, const char *source, topo_builder_t **builder)
{
    topo_builder_t *made = calloc(1, sizeof(*made));
    if (!made)
        return out_of_memory(source);
    made->name = strdup(name);
    made->source = strdup(source);
    if (!made->name || !made->source) {
        topo_build_destroy(made);
        return out_of_memory(source);
    }
    *builder = made;
    return BLINK_OK;
}

void topo_build_destroy(topo_builder_t *builder)
{
    if (!builder)
        return;
    for (uint32_t i = 0; i < builder->links.count; i++) {
        free(builder->links.items[i].from);
        free(builder->links.items[i].to);
    }
    for (uint32_t i = 0; i < builder->nodes.count; i++) {
        free(builder->nodes.items[i].id);
        free(builder->nodes.items[i].host);
    }
    for (uint32_t i = 0; i < builder->non_peers.count; i++) {
        free(builder->non_peers.items[i].one);
        free(builder->non_peers.items[i].other);
    }
    vec_free(&builder->notes);
    vec_free(&builder->non_peers);
    vec_free(&builder->links);
    vec_free(&builder->nodes);
    free(builder->source);
    free(builder->name);
    free(builder);
}

blink_result_t topo_build_node(topo_builder_t *builder, const topo_node_t *node)
{
    topo_node_t added = *node;
    if (builder->nodes.count == ITEMS_MAX || !vec_reserve(&builder->nodes, builder->nodes.count + 1))
        return out_of_memory(builder->source);
    added.id = strdup(node->id);
    added.host = strdup(node->host ? node->host : "");
    builder->nodes.items[builder->nodes.count++] = added;
    return added.id && added.host ? BLINK_OK : out_of_memory(builder->source);
}

static blink_result_t add_note(topo_builder_t *builder, const char *note)
{
    size_t length = strlen(note), separator = builder->notes.count > 0;
    if (!vec_reserve(&builder->notes, builder->notes.count + separator + length + 1))
        return out_of_memory(builder->source);
    char *end = builder->notes.items + builder->notes.count;
    if (separator)
        *end++ = '\n';
    memcpy(end, note, length + 1);
    builder->notes.count += separator + length; /* the NUL stands behind it */
    return BLINK_OK;
}

blink_result_t topo_build_note(topo_builder_t *builder, const char *format, ...)
{
    char note[NOTE_BYTES];
    va_list arguments;
    if (builder->note_count++ >= NOTES_MAX)
        return BLINK_OK;
    va_start(arguments, format);
    vsnprintf(note, sizeof(note), format, arguments);
    va_end(arguments);
    return add_note(builder, note);
}

/* The notes change owner. */
static blink_result_t finish_notes(topo_builder_t *builder, topo_t *topo)
{
    char more[NOTE_BYTES];
    if (builder->note_count > NOTES_MAX) {
        snprintf(more, sizeof(more), "and %u more of this kind", builder->note_count - NOTES_MAX);
        BLINK_TRY(add_note(builder, more));
    }
    topo->notes = builder->notes.items;
    builder->notes.items = NULL;
    vec_free(&builder->notes);
    return BLINK_OK;
}

blink_result_t topo_build_nvswitch(topo_builder_t *builder, const char *host, const char *id, bool reduces)
{
    return topo_build_node(builder, &(topo_node_t){.id = (char *)(uintptr_t)id,
                                                   .host = (char *)(uintptr_t)host,
                                                   .kind = TOPO_SWITCH,
                                                   .multicast = reduces,
                                                   .reduces = reduces});
}

blink_result_t topo_build_link(topo_builder_t *builder, const char *from, const char *to,
                               topo_link_kind_t kind, double GBps, uint32_t count, double latency_us,
                               bool duplex)
{
    if (builder->links.count == ITEMS_MAX || !vec_reserve(&builder->links, builder->links.count + 1))
        return out_of_memory(builder->source);
    build_link_t *added = &builder->links.items[builder->links.count++];
    *added = (build_link_t){.from = strdup(from),
                            .to = strdup(to),
                            .kind = kind,
                            .GBps = GBps,
                            .count = count,
                            .latency_us = latency_us,
                            .duplex = duplex};
    return added->from && added->to ? BLINK_OK : out_of_memory(builder->source);
}

blink_result_t topo_build_again(topo_builder_t *builder, const char *from, const char *to,
                                const topo_link_t *link)
{
    double rest_GBps;
    uint32_t count = topo_link_units(link, &rest_GBps);
    BLINK_TRY(
        topo_build_link(builder, from, to, link->kind, link->unit_GBps, count, link->latency_us, false));
    return rest_GBps > 0
               ? topo_build_link(builder, from, to, link->kind, rest_GBps, 1, link->latency_us, false)
               : BLINK_OK;
}

blink_result_t topo_build_non_peers(topo_builder_t *builder, const char *one, const char *other)
{
    if (builder->non_peers.count == ITEMS_MAX ||
        !vec_reserve(&builder->non_peers, builder->non_peers.count + 1))
        return out_of_memory(builder->source);
    build_pair_t *added = &builder->non_peers.items[builder->non_peers.count++];
    *added = (build_pair_t){strdup(one), strdup(other)};
    return added->one && added->other ? BLINK_OK : out_of_memory(builder->source);
}

blink_result_t topo_build_same_non_peers(topo_builder_t *builder, const topo_t *topo, char *const *ids)
{
    for (uint32_t i = 0; i < topo->non_peer_count; i++) {
        const topo_pair_t *pair = &topo->non_peers[i];
        BLINK_TRY(topo_build_non_peers(builder, ids ? ids[pair->one] : topo->nodes[pair->one].id,
                                       ids ? ids[pair->other] : topo->nodes[pair->other].id));
    }
    return BLINK_OK;
}

/* Names reach terminals, XML and logs: no control characters (C0, DEL, C1) and none of the two that XML
 * forbids. */
static bool printable(const char *name)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c == 0x7f)
            return false;
        if (*c == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)
            return false;
        if (*c == 0xef && c[1] == 0xbf && c[2] >= 0xbe)
            return false;
    }
    return true;
}

static blink_result_t check_node(const topo_builder_t *builder, uint32_t index)
{
    const topo_node_t *node = &builder->nodes.items[index];
    if (!*node->id)
        return FAIL_BUILD(builder, "nodes[%u] has an empty id", index);
    if (!printable(node->id) || !printable(node->host))
        return FAIL_BUILD(builder, "nodes[%u] has a control character in its id or host", index);
    if (node->multicast && node->kind != TOPO_SWITCH)
        return FAIL_BUILD(builder, "node " TOPO_SHOWN ": only a switch can multicast, not a %s", node->id,
                          topo_node_kind_name(node->kind));
    if (node->reduces && !node->multicast)
        return FAIL_BUILD(builder, "node " TOPO_SHOWN ": what reduces copies, too: it needs \"multicast\"",
                          node->id);
    if (!isfinite(node->total_GBps) || node->total_GBps < 0)
        return FAIL_BUILD(builder, "node " TOPO_SHOWN ": GBps_total must be finite and above 0, not %g",
                          node->id, node->total_GBps);
    if (node->total_GBps > 0 && node->kind != TOPO_SWITCH && node->kind != TOPO_CPU)
        return FAIL_BUILD(builder, "node " TOPO_SHOWN ": only a switch or cpu has GBps_total, not a %s",
                          node->id, topo_node_kind_name(node->kind));
    return BLINK_OK;
}

static int compare_names(const void *one, const void *other)
{
    const build_name_t *a = one, *b = other;
    return strcmp(a->id, b->id);
}

/* Check every node and sort their ids, so that a large file's links are resolved without a quadratic search.
 */
static blink_result_t check_nodes(const topo_builder_t *builder, build_work_t *work)
{
    work->names = calloc(builder->nodes.count + 1, sizeof(*work->names));
    if (!work->names)
        return out_of_memory(builder->source);
    if (!printable(builder->name))
        return FAIL_BUILD(builder, "the topology's name has a control character");
    uint32_t gpus = 0;
    for (uint32_t i = 0; i < builder->nodes.count; i++) {
        BLINK_TRY(check_node(builder, i));
        gpus += builder->nodes.items[i].kind == TOPO_DEVICE;
        work->names[i] = (build_name_t){builder->nodes.items[i].id, i};
    }
    qsort(work->names, builder->nodes.count, sizeof(*work->names), compare_names);
    for (uint32_t i = 1; i < builder->nodes.count; i++) {
        if (strcmp(work->names[i - 1].id, work->names[i].id) == 0)
            return FAIL_BUILD(builder, "two nodes have the id " TOPO_SHOWN, work->names[i].id);
    }
    return gpus ? BLINK_OK : FAIL_BUILD(builder, "the topology has no gpu");
}

static uint32_t node_by_id(const topo_builder_t *builder, const build_work_t *work, const char *id)
{
    build_name_t key = {id, 0};
    const build_name_t *name =
        bsearch(&key, work->names, builder->nodes.count, sizeof(*work->names), compare_names);
    return name ? name->node : TOPO_NONE;
}

static blink_result_t check_link(const topo_builder_t *builder, const build_link_t *link, uint32_t from,
                                 uint32_t to)
{
    if (from == TOPO_NONE)
        return FAIL_LINK(builder, link, ": there is no node " TOPO_SHOWN, link->from);
    if (to == TOPO_NONE)
        return FAIL_LINK(builder, link, ": there is no node " TOPO_SHOWN, link->to);
    if (from == to)
        return FAIL_LINK(builder, link, " leads back to its own node");
    if (!isfinite(link->GBps) || link->GBps <= 0)
        return FAIL_LINK(builder, link, ": GBps must be finite and above 0, not %g", link->GBps);
    if (link->count < 1 || link->count > TOPO_PARALLEL_MAX)
        return FAIL_LINK(builder, link, ": count must be from 1 to %u, not %u", TOPO_PARALLEL_MAX,
                         link->count);
    if (!isfinite(link->latency_us) || link->latency_us < 0)
        return FAIL_LINK(builder, link, ": latency_us must be finite and not below 0, not %g",
                         link->latency_us);
    return BLINK_OK;
}

static blink_result_t resolve_links(const topo_builder_t *builder, build_work_t *work)
{
    work->edges = calloc(builder->links.count * 2 + 1, sizeof(*work->edges));
    if (!work->edges)
        return out_of_memory(builder->source);
    for (uint32_t i = 0; i < builder->links.count; i++) {
        const build_link_t *link = &builder->links.items[i];
        uint32_t from = node_by_id(builder, work, link->from);
        uint32_t to = node_by_id(builder, work, link->to);
        BLINK_TRY(check_link(builder, link, from, to));
        uint32_t order = work->edge_count;
        work->edges[work->edge_count++] =
            (build_edge_t){.from = from, .to = to, .order = order, .link = link};
        if (link->duplex)
            work->edges[work->edge_count++] =
                (build_edge_t){.from = to, .to = from, .order = order + 1, .link = link};
    }
    return BLINK_OK;
}

static blink_result_t check_peer(const topo_builder_t *builder, const char *id, uint32_t node)
{
    if (node == TOPO_NONE)
        return FAIL_BUILD(builder, "non_peers: there is no node " TOPO_SHOWN, id);
    if (builder->nodes.items[node].kind != TOPO_DEVICE)
        return FAIL_BUILD(builder, "non_peers: only gpus are peers, not the %s " TOPO_SHOWN,
                          topo_node_kind_name(builder->nodes.items[node].kind), id);
    return BLINK_OK;
}

static blink_result_t resolve_pairs(const topo_builder_t *builder, build_work_t *work)
{
    work->pairs = calloc(builder->non_peers.count + 1, sizeof(*work->pairs));
    if (!work->pairs)
        return out_of_memory(builder->source);
    for (uint32_t i = 0; i < builder->non_peers.count; i++) {
        const build_pair_t *pair = &builder->non_peers.items[i];
        uint32_t one = node_by_id(builder, work, pair->one), other = node_by_id(builder, work, pair->other);
        BLINK_TRY(check_peer(builder, pair->one, one));
        BLINK_TRY(check_peer(builder, pair->other, other));
        if (one == other)
            return FAIL_BUILD(builder, "non_peers: " TOPO_SHOWN " is its own peer", pair->one);
        work->pairs[i] = (topo_pair_t){one, other};
    }
    return BLINK_OK;
}

static int compare_u32(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_ends(const void *one, const void *other)
{
    const build_edge_t *a = one, *b = other;
    if (a->from != b->from)
        return compare_u32(a->from, b->from);
    if (a->to != b->to)
        return compare_u32(a->to, b->to);
    return compare_u32(a->order, b->order);
}

static int compare_order(const void *one, const void *other)
{
    const build_edge_t *a = one, *b = other;
    return compare_u32(a->order, b->order);
}

/* Merge `count` edges with the same ends into *merged. Equal links are counted, not added up one by one, so
 * that the sum does not depend on how a file groups them. */
static blink_result_t merge_run(const topo_builder_t *builder, const build_edge_t *run, uint32_t count,
                                build_edge_t *merged)
{
    const build_link_t *fastest = run[0].link;
    for (uint32_t i = 1; i < count; i++) {
        if (run[i].link->GBps > fastest->GBps)
            fastest = run[i].link;
    }
    uint64_t equal = 0, all = 0;
    double slower_GBps = 0;
    for (uint32_t i = 0; i < count; i++) {
        const build_link_t *link = run[i].link;
        all += link->count;
        if (link->GBps == fastest->GBps)
            equal += link->count;
        else
            slower_GBps += link->GBps * link->count;
    }
    if (all > TOPO_PARALLEL_MAX)
        return FAIL_LINK(builder, fastest, ": more than %u links in parallel", TOPO_PARALLEL_MAX);
    double GBps = fastest->GBps * (double)equal + slower_GBps;
    if (!isfinite(GBps))
        return FAIL_LINK(builder, fastest, ": the capacities of its parallel links add up to infinity");
    build_edge_t first = run[0];
    *merged = first;
    merged->link = fastest;
    merged->GBps = GBps;
    return BLINK_OK;
}

static blink_result_t merge_edges(const topo_builder_t *builder, build_work_t *work)
{
    build_edge_t *edges = work->edges;
    uint32_t merged = 0;
    qsort(edges, work->edge_count, sizeof(*edges), compare_ends);
    for (uint32_t first = 0, next; first < work->edge_count; first = next) {
        for (next = first + 1; next < work->edge_count; next++) {
            if (edges[next].from != edges[first].from || edges[next].to != edges[first].to)
                break;
        }
        BLINK_TRY(merge_run(builder, &edges[first], next - first, &edges[merged]));
        edges[merged].place = merged;
        merged++;
    }
    work->edge_count = merged;
    return BLINK_OK;
}

static void index_nodes(topo_t *topo, const build_work_t *work)
{
    for (uint32_t i = 0; i < topo->node_count; i++) {
        topo->nodes_by_id[i] = work->names[i].node;
        if (topo->nodes[i].kind == TOPO_DEVICE)
            topo->gpus[topo->gpu_count++] = i;
    }
}

/* Links keep the order in which they appeared; out_links leads to them sorted by their ends. */
static void index_links(topo_t *topo, build_work_t *work)
{
    qsort(work->edges, work->edge_count, sizeof(*work->edges), compare_order);
    for (uint32_t i = 0; i < work->edge_count; i++) {
        const build_edge_t *edge = &work->edges[i];
        topo->links[i] = (topo_link_t){.from = edge->from,
                                       .to = edge->to,
                                       .kind = edge->link->kind,
                                       .GBps = edge->GBps,
                                       .unit_GBps = edge->link->GBps,
                                       .latency_us = edge->link->latency_us};
        topo->out_links[edge->place] = i;
        topo->out_first[edge->from + 1]++;
    }
    for (uint32_t i = 0; i < topo->node_count; i++)
        topo->out_first[i + 1] += topo->out_first[i];
}

static blink_result_t assemble(topo_builder_t *builder, build_work_t *work, topo_t **topo)
{
    topo_t *made = calloc(1, sizeof(*made));
    if (!made)
        return out_of_memory(builder->source);
    made->links = calloc((size_t)work->edge_count + 1, sizeof(*made->links));
    made->gpus = calloc(builder->nodes.count, sizeof(*made->gpus));
    made->out_first = calloc(builder->nodes.count + 1, sizeof(*made->out_first));
    made->out_links = calloc((size_t)work->edge_count + 1, sizeof(*made->out_links));
    made->nodes_by_id = calloc(builder->nodes.count, sizeof(*made->nodes_by_id));
    if (!made->links || !made->gpus || !made->out_first || !made->out_links || !made->nodes_by_id) {
        topo_destroy(made);
        return out_of_memory(builder->source);
    }
    /* The names and nodes change owner. */
    made->name = builder->name;
    made->nodes = builder->nodes.items;
    made->node_count = (uint32_t)builder->nodes.count;
    made->link_count = work->edge_count;
    builder->name = NULL;
    builder->nodes.items = NULL;
    vec_free(&builder->nodes);
    index_nodes(made, work);
    index_links(made, work);
    blink_result_t result = topo_add_non_peers(made, work->pairs, (uint32_t)builder->non_peers.count);
    if (result == BLINK_OK)
        result = finish_notes(builder, made);
    if (result == BLINK_OK)
        *topo = made;
    else
        topo_destroy(made);
    return result;
}

blink_result_t topo_build_finish(topo_builder_t *builder, topo_t **topo)
{
    build_work_t work = {0};
    blink_result_t result = check_nodes(builder, &work);
    if (result == BLINK_OK)
        result = resolve_links(builder, &work);
    if (result == BLINK_OK)
        result = merge_edges(builder, &work);
    if (result == BLINK_OK)
        result = resolve_pairs(builder, &work);
    if (result == BLINK_OK)
        result = assemble(builder, &work, topo);
    free(work.pairs);
    free(work.edges);
    free(work.names);
    return result;
}
