#include "plan/bytes/bytes.h"

#include "collective.h"
#include "error.h"
#include "plan/bytes/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the next bytes go; they are only counted while there is no memory for them. */
typedef struct writer {
    uint8_t *memory;
    size_t bytes;
    plan_size_t size; /* of what is written, images not counted */
} writer_t;

static void put(writer_t *writer, const void *bytes, size_t byte_count)
{
    if (writer->memory)
        memcpy(writer->memory + writer->bytes, bytes, byte_count);
    writer->bytes += byte_count;
}

static void put_words(writer_t *writer, const uint32_t *words, uint32_t count)
{
    put(writer, words, count * sizeof(*words));
}

static void put_rank(writer_t *writer, uint32_t rank)
{
    uint16_t narrow = rank == PLAN_NONE ? PLAN_BYTES_NO_RANK : (uint16_t)rank;
    put(writer, &narrow, sizeof(narrow));
}

static void put_ranks(writer_t *writer, const uint32_t *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put_rank(writer, ranks[i]);
}

static void put_head(writer_t *writer, const topo_t *topo, const plan_t *plan)
{
    const plan_bytes_head_t head = {.magic = PLAN_BYTES_MAGIC,
                                    .version = PLAN_BYTES_VERSION,
                                    .collective = (uint32_t)plan->collective,
                                    .algorithm = (uint32_t)plan->algorithm,
                                    .protocol = (uint32_t)plan->protocol,
                                    .rank_count = plan->rank_count,
                                    .root = plan->root,
                                    .peer = plan->peer,
                                    .node_count = topo->node_count,
                                    .link_count = topo->link_count,
                                    .path_count = plan->path_count,
                                    .symmetry_count = plan->symmetry_count,
                                    .channel_count = plan->channel_count,
                                    .rate_GBps = plan->rate_GBps,
                                    .bound_GBps = plan->bound_GBps,
                                    .block_GBps = plan->block_GBps};
    put(writer, &head, sizeof(head));
}

static void put_tree(writer_t *writer, const plan_tree_t *tree, uint32_t rank_count)
{
    if (!tree->parent)
        return;
    put_ranks(writer, tree->parent, rank_count);
    put_words(writer, tree->path, rank_count);
    writer->size.edges += rank_count;
}

static void put_part(writer_t *writer, const plan_part_t *part, uint32_t rank_count)
{
    const plan_route_t *route = &part->route;
    writer->size.parts++;
    if (route->ranks) {
        put_rank(writer, route->hop_count);
        put_ranks(writer, route->ranks, route->hop_count + 1);
        put_words(writer, route->paths, route->hop_count);
        writer->size.edges += route->hop_count;
        return;
    }
    put_rank(writer, part->root);
    put_tree(writer, &part->reduce, rank_count);
    put_tree(writer, &part->broadcast, rank_count);
}

static void put_channels(writer_t *writer, const plan_t *plan)
{
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        put(writer, &channel->share, sizeof(channel->share));
        put_words(writer, &channel->part_count, 1);
        for (uint32_t i = 0; i < channel->part_count; i++)
            put_part(writer, &channel->parts[i], plan->rank_count);
    }
}

static void put_plan(writer_t *writer, const topo_t *topo, const plan_t *plan)
{
    put_head(writer, topo, plan);
    for (uint32_t i = 0; i < plan->path_count; i++) {
        put_words(writer, &plan->paths[i].link_count, 1);
        put_words(writer, plan->paths[i].links, plan->paths[i].link_count);
    }
    for (uint32_t i = 0; i < plan->symmetry_count; i++) {
        put_words(writer, &plan->symmetries[i].order, 1);
        put_ranks(writer, plan->symmetries[i].rank_image, plan->rank_count);
        put_words(writer, plan->symmetries[i].link_image, topo->link_count);
    }
    put_channels(writer, plan);
}

static bool fits(const writer_t *writer, const plan_t *plan)
{
    uint64_t images = plan_image_count(plan);
    return writer->bytes <= PLAN_BYTES_MOST && images <= PLAN_PARTS_MOST &&
           plan_size_fits(&writer->size, PLAN_PARTS_MOST / images, PLAN_EDGES_MOST / images);
}

blink_result_t plan_to_bytes(const topo_t *topo, const plan_t *plan, uint8_t **bytes, size_t *byte_count)
{
    writer_t writer = {0};
    put_plan(&writer, topo, plan);
    if (!fits(&writer, plan))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "a plan over %u ranks of %zu bytes with %llu edges in each of %llu images is too "
                          "large for other hosts to be told",
                          plan->rank_count, writer.bytes, (unsigned long long)writer.size.edges,
                          (unsigned long long)plan_image_count(plan));
    writer = (writer_t){.memory = malloc(writer.bytes)};
    if (!writer.memory)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the bytes of a plan over %u ranks",
                          plan->rank_count);
    put_plan(&writer, topo, plan);
    *bytes = writer.memory;
    *byte_count = writer.bytes;
    return BLINK_OK;
}

/* ---- digests ---- */

static uint64_t add_bytes(uint64_t digest, const void *bytes, size_t byte_count)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < byte_count; i++)
        digest = (digest ^ at[i]) * 0x100000001b3u; /* FNV-1a */
    return digest;
}

uint64_t plan_bytes_digest(const uint8_t *bytes, size_t byte_count)
{
    plan_bytes_head_t head;
    memcpy(&head, bytes, sizeof(head));
    head.protocol = 0; /* which is chosen, or asked for, beside the plan */
    head.rate_GBps = head.bound_GBps = head.block_GBps = 0;
    uint64_t digest = add_bytes(0xcbf29ce484222325u, &head, sizeof(head));
    return add_bytes(digest, bytes + sizeof(head), byte_count - sizeof(head));
}

blink_result_t plan_digest(const topo_t *topo, const plan_t *plan, uint64_t *digest)
{
    uint8_t *bytes;
    size_t byte_count;
    BLINK_TRY(plan_to_bytes(topo, plan, &bytes, &byte_count));
    *digest = plan_bytes_digest(bytes, byte_count);
    free(bytes);
    return BLINK_OK;
}

const char *plan_digest_text(uint64_t digest, char text[PLAN_DIGEST_BYTES])
{
    snprintf(text, PLAN_DIGEST_BYTES, "%016lx", (unsigned long)digest);
    return text;
}
