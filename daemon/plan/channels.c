/* How plans are kept: channels, interned paths, and images under symmetries. Algorithms
 * fill plans by what stands here. */
#include "error.h"
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

/* Open addressing over path indices; PLAN_NONE is empty. */
struct plan_path_table {
    uint32_t room; /* a power of two, at least twice the number of paths */
    uint32_t slots[];
};

/* ---- channels ---- */

static blink_result_t alloc_tree(plan_tree_t *tree, uint32_t rank_count)
{
    tree->parent = malloc(rank_count * sizeof(*tree->parent));
    tree->path = malloc(rank_count * sizeof(*tree->path));
    if (!tree->parent || !tree->path)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a tree over %u ranks", rank_count);
    for (uint32_t rank = 0; rank < rank_count; rank++)
        tree->parent[rank] = tree->path[rank] = PLAN_NONE;
    return BLINK_OK;
}

blink_result_t plan_add_channel(plan_t *plan, double share, uint32_t part_count, plan_channel_t **channel)
{
    uint32_t count = plan->channel_count;
    /* The room doubles: it is full whenever the count is a power of two. */
    if ((count & (count - 1)) == 0) {
        plan_channel_t *grown = realloc(plan->channels, (count ? 2 * (size_t)count : 1) * sizeof(*grown));
        if (!grown)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u channels", count + 1);
        plan->channels = grown;
    }
    plan_part_t *parts = calloc(part_count, sizeof(*parts));
    if (!parts)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a channel of %u parts", part_count);
    plan->channels[plan->channel_count++] = (plan_channel_t){share, part_count, parts};
    for (uint32_t i = 0; i < part_count; i++) {
        parts[i].root = PLAN_NONE;
        if (collective_reduces(plan->collective))
            BLINK_TRY(alloc_tree(&parts[i].reduce, plan->rank_count));
        if (collective_broadcasts(plan->collective))
            BLINK_TRY(alloc_tree(&parts[i].broadcast, plan->rank_count));
    }
    *channel = &plan->channels[plan->channel_count - 1];
    return BLINK_OK;
}

blink_result_t plan_set_route(plan_part_t *part, uint32_t hop_count)
{
    part->route.hop_count = hop_count;
    part->route.ranks = malloc((hop_count + 1u) * sizeof(*part->route.ranks));
    part->route.paths = malloc((hop_count + 1u) * sizeof(*part->route.paths));
    if (!part->route.ranks || !part->route.paths)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a route of %u hops", hop_count);
    return BLINK_OK;
}

void plan_normalise_shares(plan_t *plan)
{
    double sum = 0.0, given = 0.0;
    for (uint32_t i = 0; i < plan->channel_count; i++)
        sum += plan->channels[i].share;
    for (uint32_t i = 0; i + 1 < plan->channel_count; i++) {
        plan->channels[i].share /= sum;
        given += plan->channels[i].share;
    }
    if (plan->channel_count > 0)
        plan->channels[plan->channel_count - 1].share = 1.0 - given;
}

static void free_part(plan_part_t *part)
{
    free(part->reduce.parent);
    free(part->reduce.path);
    free(part->broadcast.parent);
    free(part->broadcast.path);
    free(part->route.ranks);
    free(part->route.paths);
}

static void free_channel(plan_channel_t *channel)
{
    for (uint32_t i = 0; i < channel->part_count; i++)
        free_part(&channel->parts[i]);
    free(channel->parts);
}

void plan_destroy(plan_t *plan)
{
    if (!plan)
        return;
    plan_keep_channels(plan, 0);
    for (uint32_t i = 0; i < plan->path_count; i++)
        free(plan->paths[i].links);
    for (uint32_t i = 0; i < plan->symmetry_count; i++) {
        free(plan->symmetries[i].rank_image);
        free(plan->symmetries[i].link_image);
    }
    free(plan->channels);
    free(plan->paths);
    free(plan->path_table);
    free(plan->symmetries);
    free(plan->prices);
    free(plan->rank_node);
    free(plan);
}

/* ---- division ---- */

static void copy_tree(const plan_tree_t *of, uint32_t rank_count, plan_tree_t *tree)
{
    if (!of->parent)
        return;
    memcpy(tree->parent, of->parent, rank_count * sizeof(*tree->parent));
    memcpy(tree->path, of->path, rank_count * sizeof(*tree->path));
}

static blink_result_t copy_part(const plan_part_t *of, uint32_t rank_count, plan_part_t *part)
{
    part->root = of->root;
    copy_tree(&of->reduce, rank_count, &part->reduce);
    copy_tree(&of->broadcast, rank_count, &part->broadcast);
    if (!of->route.ranks)
        return BLINK_OK;
    BLINK_TRY(plan_set_route(part, of->route.hop_count));
    memcpy(part->route.ranks, of->route.ranks, (of->route.hop_count + 1u) * sizeof(*part->route.ranks));
    if (of->route.hop_count > 0)
        memcpy(part->route.paths, of->route.paths, of->route.hop_count * sizeof(*part->route.paths));
    return BLINK_OK;
}

blink_result_t plan_divide_channel(plan_t *plan, uint32_t channel, uint32_t pieces)
{
    double share = plan->channels[channel].share / pieces;
    plan->channels[channel].share = share;
    for (uint32_t piece = 1; piece < pieces; piece++) {
        plan_channel_t *added = NULL;
        BLINK_TRY(plan_add_channel(plan, share, plan->channels[channel].part_count, &added));
        for (uint32_t i = 0; i < added->part_count; i++)
            BLINK_TRY(copy_part(&plan->channels[channel].parts[i], plan->rank_count, &added->parts[i]));
    }
    return BLINK_OK;
}

void plan_keep_channels(plan_t *plan, uint32_t count)
{
    while (plan->channel_count > count)
        free_channel(&plan->channels[--plan->channel_count]);
}

/* ---- paths ---- */

static uint32_t hash_links(const uint32_t *links, uint32_t count)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, a link at a time */
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ links[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ hash >> 32);
}

/* The slot that holds the path, or the empty one where it belongs. */
static uint32_t *find_slot(const plan_t *plan, const uint32_t *links, uint32_t count)
{
    struct plan_path_table *table = plan->path_table;
    for (uint32_t at = hash_links(links, count);; at++) {
        uint32_t *slot = &table->slots[at & (table->room - 1)];
        if (*slot == PLAN_NONE)
            return slot;
        const plan_path_t *path = &plan->paths[*slot];
        if (path->link_count == count && memcmp(path->links, links, count * sizeof(*links)) == 0)
            return slot;
    }
}

static blink_result_t reserve_path(plan_t *plan)
{
    struct plan_path_table *old = plan->path_table;
    if (old && 2 * (plan->path_count + 1) <= old->room)
        return BLINK_OK;
    uint32_t room = !old ? 64 : 2 * old->room;
    struct plan_path_table *table = malloc(sizeof(*table) + room * sizeof(table->slots[0]));
    plan_path_t *paths = realloc(plan->paths, room / 2 * sizeof(*paths));
    if (paths)
        plan->paths = paths;
    if (!table || !paths) {
        free(table);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u paths", room / 2);
    }
    table->room = room;
    memset(table->slots, 0xff, room * sizeof(table->slots[0]));
    plan->path_table = table;
    free(old);
    for (uint32_t i = 0; i < plan->path_count; i++)
        *find_slot(plan, plan->paths[i].links, plan->paths[i].link_count) = i;
    return BLINK_OK;
}

blink_result_t plan_intern_path(plan_t *plan, const uint32_t *links, uint32_t link_count, uint32_t *index)
{
    BLINK_TRY(reserve_path(plan));
    uint32_t *slot = find_slot(plan, links, link_count);
    if (*slot == PLAN_NONE) {
        uint32_t *copy = malloc(link_count * sizeof(*copy));
        if (!copy)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path of %u links", link_count);
        memcpy(copy, links, link_count * sizeof(*copy));
        plan->paths[plan->path_count] = (plan_path_t){copy, link_count};
        *slot = plan->path_count++;
    }
    *index = *slot;
    return BLINK_OK;
}

/* ---- copies ---- */

blink_result_t plan_copy_head(const topo_t *topo, const plan_t *plan, plan_t **copy)
{
    size_t prices = (size_t)topo->link_count + topo->node_count;
    plan_t *head = malloc(sizeof(*head));
    *copy = head;
    if (!head)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan");
    *head = *plan;
    head->channel_count = head->path_count = head->symmetry_count = 0;
    head->channels = NULL;
    head->paths = NULL;
    head->path_table = NULL;
    head->symmetries = NULL;
    head->rank_node = malloc(plan->rank_count * sizeof(*head->rank_node));
    head->prices = !plan->prices ? NULL : malloc(prices * sizeof(*head->prices));
    if (!head->rank_node || (plan->prices && !head->prices))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan over %u ranks", plan->rank_count);
    memcpy(head->rank_node, plan->rank_node, plan->rank_count * sizeof(*head->rank_node));
    if (plan->prices)
        memcpy(head->prices, plan->prices, prices * sizeof(*head->prices));
    return BLINK_OK;
}

/* ---- images ---- */

uint64_t plan_image_count(const plan_t *plan)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < plan->symmetry_count; i++)
        count *= plan->symmetries[i].order;
    return count;
}

/* Where a rank and a link go under the power of a symmetry that is being written out. */
typedef struct image {
    plan_t *plan; /* the images' */
    const plan_t *of;
    uint32_t *rank, *link;
    uint32_t *links; /* scratch: a path */
} image_t;

static blink_result_t map_path(const image_t *image, uint32_t path, uint32_t *mapped)
{
    const plan_path_t *of = &image->of->paths[path];
    for (uint32_t i = 0; i < of->link_count; i++)
        image->links[i] = image->link[of->links[i]];
    return plan_intern_path(image->plan, image->links, of->link_count, mapped);
}

static blink_result_t map_tree(const image_t *image, const plan_tree_t *of, plan_tree_t *tree)
{
    for (uint32_t rank = 0; of->parent && rank < image->of->rank_count; rank++) {
        if (of->parent[rank] != PLAN_NONE)
            tree->parent[image->rank[rank]] = image->rank[of->parent[rank]];
        if (of->path[rank] != PLAN_NONE)
            BLINK_TRY(map_path(image, of->path[rank], &tree->path[image->rank[rank]]));
    }
    return BLINK_OK;
}

static blink_result_t map_route(const image_t *image, const plan_route_t *of, plan_part_t *part)
{
    if (!of->ranks)
        return BLINK_OK;
    BLINK_TRY(plan_set_route(part, of->hop_count));
    for (uint32_t i = 0; i <= of->hop_count; i++)
        part->route.ranks[i] = image->rank[of->ranks[i]];
    for (uint32_t i = 0; i < of->hop_count; i++)
        BLINK_TRY(map_path(image, of->paths[i], &part->route.paths[i]));
    return BLINK_OK;
}

static blink_result_t map_channels(const image_t *image, uint32_t order)
{
    for (uint32_t c = 0; c < image->of->channel_count; c++) {
        const plan_channel_t *of = &image->of->channels[c];
        plan_channel_t *channel = NULL;
        BLINK_TRY(plan_add_channel(image->plan, of->share / order, of->part_count, &channel));
        for (uint32_t i = 0; i < of->part_count; i++) {
            const plan_part_t *part = &of->parts[i];
            channel->parts[i].root = part->root == PLAN_NONE ? PLAN_NONE : image->rank[part->root];
            BLINK_TRY(map_tree(image, &part->reduce, &channel->parts[i].reduce));
            BLINK_TRY(map_tree(image, &part->broadcast, &channel->parts[i].broadcast));
            BLINK_TRY(map_route(image, &part->route, &channel->parts[i]));
        }
    }
    return BLINK_OK;
}

/* All powers of the symmetry (none: the plan itself), the identity first. */
static blink_result_t map_powers(const topo_t *topo, const image_t *image, const plan_symmetry_t *symmetry)
{
    uint32_t order = !symmetry ? 1 : symmetry->order;
    for (uint32_t rank = 0; rank < image->of->rank_count; rank++)
        image->rank[rank] = rank;
    for (uint32_t link = 0; link < topo->link_count; link++)
        image->link[link] = link;
    for (uint32_t power = 0; power < order; power++) {
        BLINK_TRY(map_channels(image, order));
        for (uint32_t rank = 0; symmetry && rank < image->of->rank_count; rank++)
            image->rank[rank] = symmetry->rank_image[image->rank[rank]];
        for (uint32_t link = 0; symmetry && link < topo->link_count; link++)
            image->link[link] = symmetry->link_image[image->link[link]];
    }
    return BLINK_OK;
}

/* The plan's channels and their images under one symmetry. */
static blink_result_t expand_symmetry(const topo_t *topo, const plan_t *plan, const plan_symmetry_t *symmetry,
                                      plan_t **expanded)
{
    image_t image = {.of = plan,
                     .rank = malloc(plan->rank_count * sizeof(*image.rank)),
                     .link = malloc((topo->link_count + 1u) * sizeof(*image.link)),
                     .links = malloc((topo->link_count + 1u) * sizeof(*image.links))};
    blink_result_t result = BLINK_OK;
    *expanded = NULL;
    if (!image.rank || !image.link || !image.links)
        result =
            BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to write out a plan over %u ranks", plan->rank_count);
    if (result == BLINK_OK)
        result = plan_copy_head(topo, plan, expanded);
    image.plan = *expanded;
    if (result == BLINK_OK)
        result = map_powers(topo, &image, symmetry);
    if (result != BLINK_OK) {
        plan_destroy(*expanded);
        *expanded = NULL;
    }
    free(image.rank);
    free(image.link);
    free(image.links);
    return result;
}

blink_result_t plan_expand(const topo_t *topo, const plan_t *plan, plan_t **expanded)
{
    plan_t *so_far = NULL;
    if (plan->symmetry_count == 0)
        return expand_symmetry(topo, plan, NULL, expanded);
    for (uint32_t i = 0; i < plan->symmetry_count; i++) {
        plan_t *more = NULL;
        blink_result_t result = expand_symmetry(topo, !so_far ? plan : so_far, &plan->symmetries[i], &more);
        plan_destroy(so_far);
        BLINK_TRY(result);
        so_far = more;
    }
    *expanded = so_far;
    return BLINK_OK;
}
