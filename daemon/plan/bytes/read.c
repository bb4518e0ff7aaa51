#include "plan/bytes/bytes.h"

#include "collective.h"
#include "error.h"
#include "names.h"
#include "plan/bytes/layout.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No rate is as high as this (GB/s). */
#define RATE_MOST_GBPS 1e9

typedef struct reader {
    const uint8_t *at;
    size_t left;
    const topo_t *topo;
    const plan_request_t *request;
    plan_bytes_head_t head;
    plan_t *plan;
    uint32_t *links;  /* room for a path */
    plan_size_t size; /* of what has been read, images not counted */
    uint64_t images;
} reader_t;

static blink_result_t take(reader_t *reader, void *to, size_t byte_count)
{
    if (byte_count > reader->left)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan that ends before it is whole");
    memcpy(to, reader->at, byte_count);
    reader->at += byte_count;
    reader->left -= byte_count;
    return BLINK_OK;
}

static blink_result_t take_words(reader_t *reader, uint32_t *words, uint32_t count)
{
    return take(reader, words, count * sizeof(*words));
}

/* A rank of the plan, or PLAN_NONE. */
static blink_result_t take_rank(reader_t *reader, uint32_t *rank)
{
    uint16_t narrow;
    BLINK_TRY(take(reader, &narrow, sizeof(narrow)));
    *rank = narrow == PLAN_BYTES_NO_RANK ? PLAN_NONE : narrow;
    if (*rank != PLAN_NONE && *rank >= reader->head.rank_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan over %u ranks with rank %u", reader->head.rank_count,
                          *rank);
    return BLINK_OK;
}

static blink_result_t take_ranks(reader_t *reader, uint32_t *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        BLINK_TRY(take_rank(reader, &ranks[i]));
    return BLINK_OK;
}

/* ---- the head ---- */

static bool is_rate(double rate_GBps)
{
    return isfinite(rate_GBps) && rate_GBps >= 0 && rate_GBps <= RATE_MOST_GBPS;
}

static blink_result_t check_version(const plan_bytes_head_t *head)
{
    if (head->magic != PLAN_BYTES_MAGIC)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "bytes that are no plan");
    if (head->version != PLAN_BYTES_VERSION)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan in version %u of the format, and this daemon reads %u",
                          head->version, PLAN_BYTES_VERSION);
    return BLINK_OK;
}

/* The plan is for what was asked for. */
static blink_result_t check_request(const reader_t *reader)
{
    const plan_bytes_head_t *head = &reader->head;
    const plan_request_t *request = reader->request;
    bool has_root = collective_has_root(request->collective);
    bool is_pair = request->collective == BLINK_SENDRECV;
    if (head->collective != (uint32_t)request->collective || head->rank_count != request->rank_count ||
        head->root != (has_root ? request->root : PLAN_NONE) ||
        head->peer != (is_pair ? request->peer : PLAN_NONE))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "a plan of collective %u over %u ranks, root %u, instead of %s "
                          "over %u, root %u",
                          head->collective, head->rank_count, head->root,
                          blink_name_collective(request->collective), request->rank_count, request->root);
    if (head->node_count != reader->topo->node_count || head->link_count != reader->topo->link_count)
        return BLINK_FAIL(
            BLINK_ERR_PROTOCOL, "a plan on a topology of %u nodes and %u links, not one of %u and %u",
            head->node_count, head->link_count, reader->topo->node_count, reader->topo->link_count);
    return BLINK_OK;
}

/* Switches add up allreduces alone, and could not tell flags from data. */
static blink_result_t check_multicast(const reader_t *reader)
{
    const plan_bytes_head_t *head = &reader->head;
    if (head->algorithm != BLINK_ALGORITHM_MULTICAST ||
        (reader->request->multicast && head->collective == BLINK_ALLREDUCE &&
         head->protocol == BLINK_PROTOCOL_SIMPLE && head->symmetry_count == 0))
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan by multicast for collective %u with protocol %u, %s",
                      head->collective, head->protocol,
                      reader->request->multicast ? "which switches do not do" : "and no switch reduces here");
}

static blink_result_t check_head(const reader_t *reader)
{
    const plan_bytes_head_t *head = &reader->head;
    const plan_request_t *request = reader->request;
    BLINK_TRY(check_version(head));
    BLINK_TRY(check_request(reader));
    bool is_asked_for =
        request->algorithm == BLINK_ALGORITHM_AUTO
            ? head->algorithm != BLINK_ALGORITHM_AUTO && blink_algorithm_valid(head->algorithm)
            : head->algorithm == (uint32_t)request->algorithm;
    if (!is_asked_for || !blink_protocol_valid(head->protocol))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan by algorithm %u with protocol %u", head->algorithm,
                          head->protocol);
    BLINK_TRY(check_multicast(reader));
    if (!is_rate(head->rate_GBps) || !is_rate(head->bound_GBps) || !is_rate(head->block_GBps))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan of %g GB/s, of at most %g, with blocks of %g",
                          head->rate_GBps, head->bound_GBps, head->block_GBps);
    if (head->symmetry_count > PLAN_SYMMETRIES_MOST)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan with %u symmetries", head->symmetry_count);
    return BLINK_OK;
}

static blink_result_t begin_plan(reader_t *reader)
{
    const plan_bytes_head_t *head = &reader->head;
    const plan_request_t *request = reader->request;
    plan_t *plan = reader->plan = calloc(1, sizeof(*plan));
    reader->links = malloc((2 * reader->topo->node_count + 1u) * sizeof(*reader->links));
    if (!plan || !reader->links)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan");
    plan->collective = request->collective;
    plan->algorithm = (blink_algorithm_t)head->algorithm;
    plan->protocol = (blink_protocol_t)head->protocol;
    plan->rank_count = head->rank_count;
    plan->root = head->root;
    plan->peer = head->peer;
    plan->rate_GBps = head->rate_GBps;
    plan->bound_GBps = head->bound_GBps;
    plan->block_GBps = head->block_GBps;
    plan->rank_node = malloc(head->rank_count * sizeof(*plan->rank_node));
    plan->symmetries = calloc(head->symmetry_count + 1u, sizeof(*plan->symmetries));
    if (!plan->rank_node || !plan->symmetries)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan over %u ranks", head->rank_count);
    memcpy(plan->rank_node, request->rank_node, head->rank_count * sizeof(*plan->rank_node));
    return BLINK_OK;
}

/* ---- paths and symmetries ---- */

/* Paths keep their numbers: no two are alike. A path may cross a node twice, to the host's memory and back.
 */
static blink_result_t take_path(reader_t *reader)
{
    uint32_t link_count, index;
    BLINK_TRY(take_words(reader, &link_count, 1));
    if (link_count == 0 || link_count > 2 * reader->topo->node_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a path of %u links", link_count);
    BLINK_TRY(take_words(reader, reader->links, link_count));
    for (uint32_t i = 0; i < link_count; i++)
        if (reader->links[i] >= reader->topo->link_count)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a path by link %u of %u", reader->links[i],
                              reader->topo->link_count);
    uint32_t before = reader->plan->path_count;
    BLINK_TRY(plan_intern_path(reader->plan, reader->links, link_count, &index));
    return index == before ? BLINK_OK
                           : BLINK_FAIL(BLINK_ERR_PROTOCOL, "paths %u and %u are the same", index, before);
}

static blink_result_t take_paths(reader_t *reader)
{
    for (uint32_t i = 0; i < reader->head.path_count; i++)
        BLINK_TRY(take_path(reader));
    return BLINK_OK;
}

static blink_result_t check_permutation(const uint32_t *image, uint32_t count)
{
    uint8_t *seen = calloc(count + 1u, 1);
    uint32_t i = 0;
    if (!seen)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a symmetry");
    while (i < count && image[i] < count && !seen[image[i]])
        seen[image[i++]] = 1;
    free(seen);
    return i == count
               ? BLINK_OK
               : BLINK_FAIL(BLINK_ERR_PROTOCOL, "a symmetry that is none: it maps %u to %u", i, image[i]);
}

static blink_result_t take_symmetry(reader_t *reader)
{
    uint32_t ranks = reader->head.rank_count, links = reader->topo->link_count;
    plan_symmetry_t *symmetry = &reader->plan->symmetries[reader->plan->symmetry_count++];
    symmetry->rank_image = malloc(ranks * sizeof(*symmetry->rank_image));
    symmetry->link_image = malloc((links + 1u) * sizeof(*symmetry->link_image));
    if (!symmetry->rank_image || !symmetry->link_image)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a symmetry of %u ranks", ranks);
    BLINK_TRY(take_words(reader, &symmetry->order, 1));
    BLINK_TRY(take_ranks(reader, symmetry->rank_image, ranks));
    BLINK_TRY(take_words(reader, symmetry->link_image, links));
    BLINK_TRY(check_permutation(symmetry->rank_image, ranks));
    BLINK_TRY(check_permutation(symmetry->link_image, links));
    if (symmetry->order == 0 || symmetry->order > ranks || symmetry->order > PLAN_PARTS_MOST / reader->images)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a symmetry of order %u, behind others of %llu in all",
                          symmetry->order, (unsigned long long)reader->images);
    reader->images *= symmetry->order;
    return BLINK_OK;
}

static blink_result_t take_symmetries(reader_t *reader)
{
    while (reader->plan->symmetry_count < reader->head.symmetry_count)
        BLINK_TRY(take_symmetry(reader));
    return BLINK_OK;
}

/* ---- channels ---- */

/* Count a part with so many edges, before anything is made of it. */
static blink_result_t count_part(reader_t *reader, uint64_t edges)
{
    reader->size.parts++;
    reader->size.edges += edges;
    if (!plan_size_fits(&reader->size, PLAN_PARTS_MOST / reader->images, PLAN_EDGES_MOST / reader->images))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan of more than %u parts or %u edges", PLAN_PARTS_MOST,
                          PLAN_EDGES_MOST);
    return BLINK_OK;
}

static blink_result_t check_paths_of(const reader_t *reader, const uint32_t *paths, uint32_t count,
                                     uint32_t but)
{
    for (uint32_t i = 0; i < count; i++)
        if (i != but && paths[i] >= reader->plan->path_count)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "an edge by path %u of %u", paths[i],
                              reader->plan->path_count);
    return BLINK_OK;
}

static blink_result_t take_tree(reader_t *reader, const plan_tree_t *tree, uint32_t root)
{
    if (!tree->parent)
        return BLINK_OK;
    uint32_t ranks = reader->head.rank_count;
    BLINK_TRY(take_ranks(reader, tree->parent, ranks));
    BLINK_TRY(take_words(reader, tree->path, ranks));
    for (uint32_t rank = 0; rank < ranks; rank++)
        if ((tree->parent[rank] == PLAN_NONE) != (rank == root))
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a tree with root %u in which rank %u has %s parent", root,
                              rank, rank == root ? "a" : "no");
    bool has_way = reader->plan->algorithm == BLINK_ALGORITHM_MULTICAST;
    BLINK_TRY(check_paths_of(reader, tree->path, ranks, has_way ? PLAN_NONE : root));
    if (!has_way)
        tree->path[root] = PLAN_NONE;
    return BLINK_OK;
}

static blink_result_t take_trees(reader_t *reader, plan_part_t *part)
{
    BLINK_TRY(take_rank(reader, &part->root));
    if (part->root == PLAN_NONE)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a tree without a root");
    BLINK_TRY(take_tree(reader, &part->reduce, part->root));
    return take_tree(reader, &part->broadcast, part->root);
}

static blink_result_t take_route(reader_t *reader, plan_part_t *part)
{
    uint32_t hop_count;
    BLINK_TRY(take_rank(reader, &hop_count)); /* a route visits no rank twice: it has fewer hops than these */
    if (hop_count == PLAN_NONE)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a route without a number of hops");
    BLINK_TRY(count_part(reader, hop_count));
    BLINK_TRY(plan_set_route(part, hop_count));
    BLINK_TRY(take_ranks(reader, part->route.ranks, hop_count + 1));
    BLINK_TRY(take_words(reader, part->route.paths, hop_count));
    for (uint32_t i = 0; i <= hop_count; i++)
        if (part->route.ranks[i] == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a route by way of no rank");
    return check_paths_of(reader, part->route.paths, hop_count, PLAN_NONE);
}

/* The bytes of the smallest part that the collective may have. */
static size_t part_bytes(const reader_t *reader)
{
    blink_collective_t collective = reader->plan->collective;
    size_t trees = (size_t)collective_reduces(collective) + collective_broadcasts(collective);
    size_t per_rank = sizeof(uint16_t) + sizeof(uint32_t);
    return collective_routes(collective) ? 2 * sizeof(uint16_t)
                                         : sizeof(uint16_t) + trees * per_rank * reader->head.rank_count;
}

/* As many parts as there are bytes for are made at once. */
static blink_result_t check_part_count(const reader_t *reader, uint32_t part_count)
{
    if (part_count == 0 || part_count > reader->left / part_bytes(reader) ||
        part_count > PLAN_PARTS_MOST / reader->images)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a channel of %u parts in %zu bytes", part_count, reader->left);
    return BLINK_OK;
}

static blink_result_t take_channel(reader_t *reader)
{
    plan_channel_t *channel = NULL;
    double share;
    uint32_t part_count;
    bool routes = collective_routes(reader->plan->collective);
    uint64_t edges = (part_bytes(reader) / (sizeof(uint16_t) + sizeof(uint32_t)));
    BLINK_TRY(take(reader, &share, sizeof(share)));
    BLINK_TRY(take_words(reader, &part_count, 1));
    BLINK_TRY(check_part_count(reader, part_count));
    for (uint32_t i = 0; !routes && i < part_count; i++)
        BLINK_TRY(count_part(reader, edges));
    BLINK_TRY(plan_add_channel(reader->plan, share, part_count, &channel));
    for (uint32_t i = 0; i < part_count; i++)
        BLINK_TRY(routes ? take_route(reader, &channel->parts[i]) : take_trees(reader, &channel->parts[i]));
    return BLINK_OK;
}

static blink_result_t take_channels(reader_t *reader)
{
    for (uint32_t i = 0; i < reader->head.channel_count; i++)
        BLINK_TRY(take_channel(reader));
    if (reader->left > 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan with %zu bytes behind it", reader->left);
    return BLINK_OK;
}

/* ---- all of it ---- */

static blink_result_t take_plan(reader_t *reader)
{
    BLINK_TRY(take(reader, &reader->head, sizeof(reader->head)));
    BLINK_TRY(check_head(reader));
    BLINK_TRY(begin_plan(reader));
    BLINK_TRY(take_paths(reader));
    BLINK_TRY(take_symmetries(reader));
    return take_channels(reader);
}

/* What lane_compile() would do: a plan without images keeps the numbers of its paths, which the program has.
 */
static blink_result_t expand(reader_t *reader, plan_t **plan)
{
    if (reader->plan->symmetry_count > 0)
        return plan_expand(reader->topo, reader->plan, plan);
    *plan = reader->plan;
    reader->plan = NULL;
    return BLINK_OK;
}

blink_result_t plan_from_bytes(const topo_t *topo, const plan_request_t *request, const uint8_t *bytes,
                               size_t byte_count, plan_t **plan)
{
    reader_t reader = {.at = bytes, .left = byte_count, .topo = topo, .request = request, .images = 1};
    plan_t *expanded = NULL;
    blink_result_t result = plan_check_request(topo, request);
    if (result == BLINK_OK)
        result = take_plan(&reader);
    if (result == BLINK_OK)
        result = expand(&reader, &expanded);
    if (result == BLINK_OK)
        result = plan_check(topo, expanded);
    plan_destroy(reader.plan);
    free(reader.links);
    if (result != BLINK_OK)
        plan_destroy(expanded);
    else
        *plan = expanded;
    return result;
}
