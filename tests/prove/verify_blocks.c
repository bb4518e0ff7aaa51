/*
 * The blocks of every collective and their cover by the parts of a program.
 */
#include "verify_blocks.h"

#include "error.h"

#include <stdlib.h>

/* ---- collectives ---- */

/* 0: no such collective. */
static uint64_t block_count(const lane_program_t *program)
{
    uint64_t ranks = program->rank_count;
    switch (program->collective) {
    case BLINK_ALLREDUCE:
    case BLINK_BROADCAST:
    case BLINK_REDUCE:
    case BLINK_SENDRECV:
        return 1;
    case BLINK_ALLGATHER:
    case BLINK_REDUCESCATTER:
    case BLINK_GATHER:
    case BLINK_SCATTER:
        return ranks;
    case BLINK_ALLTOALL:
        return ranks * ranks;
    }
    return 0;
}

verify_block_t verify_block(const lane_program_t *program, uint32_t block)
{
    uint32_t every = PLAN_NONE, root = program->root;
    uint32_t from = block / program->rank_count, to = block % program->rank_count;
    switch (program->collective) {
    case BLINK_ALLREDUCE:
        break;
    case BLINK_BROADCAST:
        return (verify_block_t){root, every, 0, 0};
    case BLINK_REDUCE:
        return (verify_block_t){every, root, 0, 0};
    case BLINK_ALLGATHER:
        return (verify_block_t){block, every, 0, block};
    case BLINK_REDUCESCATTER:
        return (verify_block_t){every, block, block, 0};
    case BLINK_GATHER:
        return (verify_block_t){block, root, 0, block};
    case BLINK_SCATTER:
        return (verify_block_t){root, block, block, 0};
    case BLINK_ALLTOALL:
        return (verify_block_t){from, to, to, from};
    case BLINK_SENDRECV:
        return (verify_block_t){root, program->peer, 0, 0};
    }
    return (verify_block_t){every, every, 0, 0};
}

bool verify_reduces(blink_collective_t collective)
{
    return collective == BLINK_ALLREDUCE || collective == BLINK_REDUCE || collective == BLINK_REDUCESCATTER;
}

bool verify_has_in_place(blink_collective_t collective)
{
    return collective != BLINK_ALLTOALL && collective != BLINK_SENDRECV;
}

static blink_result_t check_ends(const lane_program_t *program)
{
    uint64_t blocks = block_count(program);
    if (blocks == 0)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "collective %d is unknown", (int)program->collective);
    if (blocks != program->block_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "%u blocks, not %llu", program->block_count,
                          (unsigned long long)blocks);
    bool rooted = program->collective == BLINK_BROADCAST || program->collective == BLINK_REDUCE ||
                  program->collective == BLINK_GATHER || program->collective == BLINK_SCATTER ||
                  program->collective == BLINK_SENDRECV;
    if (rooted && program->root >= program->rank_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "root %u of %u ranks", program->root, program->rank_count);
    if (program->collective == BLINK_SENDRECV && program->peer >= program->rank_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "peer %u of %u ranks", program->peer, program->rank_count);
    return BLINK_OK;
}

/* ---- cover ---- */

/* A block, while the parts are gone through in order. */
typedef struct cover {
    double end;       /* covered up to here */
    uint32_t channel; /* the last that carried it */
    const lane_part_t *last;
} cover_t;

static bool follows_sibling(const lane_part_t *part, const lane_part_t *before)
{
    return part->ordinal == before->ordinal + 1 && part->siblings == before->siblings &&
           part->begin >= before->begin && part->begin <= before->begin && part->end >= before->end &&
           part->end <= before->end;
}

/* A channel's first part of a block begins where the block has been covered to; the others are dealt the same
 * extent. */
static blink_result_t check_part(const lane_program_t *program, uint32_t channel, uint32_t index,
                                 cover_t *covers)
{
    const lane_part_t *part = &program->parts[program->channels[channel].part_first + index];
    if (part->block >= program->block_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "channel %u part %u carries block %u of %u", channel, index,
                          part->block, program->block_count);
    verify_block_t block = verify_block(program, part->block);
    if (part->in_block != block.in_block || part->out_block != block.out_block)
        return BLINK_FAIL(BLINK_ERR_INTERNAL,
                          "channel %u part %u: block %u stands at %u and %u of inputs and outputs, not at %u "
                          "and %u",
                          channel, index, part->block, block.in_block, block.out_block, part->in_block,
                          part->out_block);
    cover_t *cover = &covers[part->block];
    bool first = cover->channel != channel;
    bool fits = first ? part->ordinal == 0 && part->begin >= cover->end && part->begin <= cover->end &&
                            part->end >= part->begin
                      : follows_sibling(part, cover->last);
    if (!fits || part->siblings != program->parts[program->channels[channel].part_first].siblings)
        return BLINK_FAIL(BLINK_ERR_INTERNAL,
                          "channel %u part %u: %u of %u in block %u from %g to %g, which is covered to %g",
                          channel, index, part->ordinal, part->siblings, part->block, part->begin, part->end,
                          cover->end);
    *cover = (cover_t){part->end, channel, part};
    return BLINK_OK;
}

/* Every channel has all the siblings that its parts speak of. */
static blink_result_t check_siblings(const lane_program_t *program, uint32_t channel, const cover_t *covers)
{
    const lane_channel_t *of = &program->channels[channel];
    for (uint32_t i = 0; i < of->part_count; i++) {
        const lane_part_t *part = &program->parts[of->part_first + i];
        const lane_part_t *last = covers[part->block].last;
        if (last->ordinal + 1 != last->siblings)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "channel %u has %u of %u parts for block %u", channel,
                              last->ordinal + 1, last->siblings, part->block);
    }
    return BLINK_OK;
}

static blink_result_t check_cover(const lane_program_t *program, cover_t *covers)
{
    for (uint32_t i = 0; i < program->block_count; i++)
        covers[i].channel = PLAN_NONE;
    for (uint32_t channel = 0; channel < program->channel_count; channel++) {
        for (uint32_t i = 0; i < program->channels[channel].part_count; i++)
            BLINK_TRY(check_part(program, channel, i, covers));
        BLINK_TRY(check_siblings(program, channel, covers));
    }
    for (uint32_t i = 0; i < program->block_count; i++)
        if (!(covers[i].end >= 1.0 && covers[i].end <= 1.0))
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "block %u is covered to %g", i, covers[i].end);
    return BLINK_OK;
}

blink_result_t verify_blocks_check(const lane_program_t *program)
{
    BLINK_TRY(check_ends(program));
    cover_t *covers = calloc(program->block_count, sizeof(*covers));
    if (!covers)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to check %u blocks", program->block_count);
    blink_result_t result = check_cover(program, covers);
    free(covers);
    return result;
}
