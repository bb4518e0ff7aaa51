/* Whether two hosts compile parts of the same program. */
#include "plan/lane/lane_digest.h"

#include <string.h>

/* FNV-1a (Fowler, Noll, Vo), by words of 32 bits. */
#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

typedef struct digest {
    uint64_t value;
} digest_t;

static void add_words(digest_t *digest, const void *words, size_t bytes)
{
    const uint8_t *at = words;
    for (size_t i = 0; i < bytes; i += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, at + i, sizeof(word));
        digest->value = (digest->value ^ word) * FNV_PRIME;
    }
}

static void add_word(digest_t *digest, uint32_t word)
{
    add_words(digest, &word, sizeof(word));
}

/* To the last bit: chunks and blocks are cut by them. */
static void add_double(digest_t *digest, double number)
{
    add_words(digest, &number, sizeof(number));
}

static void add_channels(digest_t *digest, const lane_program_t *program)
{
    for (uint32_t i = 0; i < program->channel_count; i++) {
        add_double(digest, program->channels[i].share);
        add_word(digest, program->channels[i].part_count);
    }
    for (uint32_t i = 0; i < program->part_count; i++) {
        const lane_part_t *part = &program->parts[i];
        add_word(digest, part->block);
        add_word(digest, part->in_block);
        add_word(digest, part->out_block);
        add_double(digest, part->begin);
        add_double(digest, part->end);
    }
}

/* Numbers of paths may be digested: all hosts number them alike, whether a plan was made there or shipped. */
static void add_tree(digest_t *digest, const plan_tree_t *tree, uint32_t rank_count)
{
    if (!tree->parent)
        return;
    add_words(digest, tree->parent, rank_count * sizeof(*tree->parent));
    add_words(digest, tree->path, rank_count * sizeof(*tree->path));
}

static void add_part(digest_t *digest, const plan_part_t *part, uint32_t rank_count)
{
    const plan_route_t *route = &part->route;
    if (route->ranks) {
        add_word(digest, route->hop_count);
        add_words(digest, route->ranks, (route->hop_count + 1) * sizeof(*route->ranks));
        add_words(digest, route->paths, route->hop_count * sizeof(*route->paths));
        return;
    }
    add_word(digest, part->root);
    add_tree(digest, &part->reduce, rank_count);
    add_tree(digest, &part->broadcast, rank_count);
}

static void add_plan(digest_t *digest, const plan_t *plan)
{
    for (uint32_t i = 0; i < plan->path_count; i++) {
        add_word(digest, plan->paths[i].link_count);
        add_words(digest, plan->paths[i].links, plan->paths[i].link_count * sizeof(*plan->paths[i].links));
    }
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++)
            add_part(digest, &plan->channels[c].parts[i], plan->rank_count);
}

static void add_hosts(digest_t *digest, const lane_hosts_t *hosts, uint32_t rank_count)
{
    add_words(digest, hosts->of_rank, rank_count * sizeof(*hosts->of_rank));
    add_word(digest, hosts->lands_in_slots);
    add_word(digest, hosts->scales_inputs);
    add_word(digest, hosts->keeps_to_slots);
}

uint64_t lane_digest(const lane_source_t *source, const lane_program_t *program)
{
    digest_t digest = {FNV_BASIS};
    add_word(&digest, LANE_RULES);
    add_word(&digest, (uint32_t)program->collective);
    add_word(&digest, (uint32_t)program->protocol);
    add_word(&digest, program->rank_count);
    add_word(&digest, program->depth);
    add_words(&digest, &program->bdp_bytes, sizeof(program->bdp_bytes));
    add_double(&digest, program->latency_us);
    add_double(&digest, program->rate_GBps);
    add_channels(&digest, program);
    add_hosts(&digest, source->hosts, program->rank_count);
    add_plan(&digest, source->plan);
    return digest.value;
}
