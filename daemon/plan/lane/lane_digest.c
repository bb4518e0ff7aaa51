/* Whether two hosts have compiled the same program. */
#include "plan/lane/lane.h"

#include <assert.h>
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

/* These have words alone, and nothing between them. */
static_assert(sizeof(lane_t) == 6 * sizeof(uint32_t) && sizeof(lane_step_t) == 10 * sizeof(uint32_t) &&
                  sizeof(lane_operand_t) == 4 * sizeof(uint32_t) &&
                  sizeof(lane_wait_t) == 3 * sizeof(uint32_t) &&
                  sizeof(lane_signal_t) == 2 * sizeof(uint32_t),
              "what is digested has no gaps");

uint64_t lane_program_digest(const lane_program_t *program)
{
    digest_t digest = {FNV_BASIS};
    add_word(&digest, (uint32_t)program->collective);
    add_word(&digest, (uint32_t)program->protocol);
    add_word(&digest, program->rank_count);
    add_word(&digest, program->depth);
    add_words(&digest, &program->bdp_bytes, sizeof(program->bdp_bytes));
    add_double(&digest, program->latency_us);
    add_double(&digest, program->rate_GBps);
    add_channels(&digest, program);
    add_words(&digest, program->lanes, program->lane_count * sizeof(*program->lanes));
    add_words(&digest, program->steps, program->step_count * sizeof(*program->steps));
    add_words(&digest, program->operands, program->operand_count * sizeof(*program->operands));
    add_words(&digest, program->waits, program->wait_count * sizeof(*program->waits));
    add_words(&digest, program->signals, program->signal_count * sizeof(*program->signals));
    return digest.value;
}
