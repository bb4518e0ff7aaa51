/* Communicators made from others. They are built on the public calls alone: an allgather tells every rank who
 * goes where, and the first rank of each colour names the new communicator. */
#include "api/config.h"
#include "api/group.h"
#include "context/comm.h"

#include <stdlib.h>

/* What every rank tells the others, as bytes. */
typedef struct choice {
    int32_t color, key;
    blink_unique_id_t id; /* taken where this rank is the first of its colour */
} choice_t;

static_assert(sizeof(choice_t) == 72, "no padding: processes exchange it");

static blink_result_t exchange(blink_comm_t *comm, const choice_t *own, choice_t *choices)
{
    blink_op_t *op;
    BLINK_TRY(blink_all_gather(own, choices, sizeof(*own), BLINK_UINT8, comm, &op));
    return blink_wait(op);
}

/* Whether rank a comes before rank b of the same colour. */
static bool precedes(const choice_t *choices, uint32_t a, uint32_t b)
{
    return choices[a].key != choices[b].key ? choices[a].key < choices[b].key : a < b;
}

/* The parent's ranks of this rank's colour, in the order of the new communicator; how many. */
static uint32_t collect(const blink_comm_t *comm, const choice_t *choices, uint32_t *ranks)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        if (choices[rank].color != choices[comm->rank].color)
            continue;
        uint32_t place = count++;
        for (; place > 0 && precedes(choices, rank, ranks[place - 1]); place--)
            ranks[place] = ranks[place - 1];
        ranks[place] = rank;
    }
    return count;
}

static blink_result_t join(blink_comm_t *comm, const choice_t *choices, const blink_comm_config_t *config,
                           blink_comm_t **split)
{
    uint32_t *ranks = calloc(comm->rank_count, sizeof(*ranks));
    if (!ranks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", comm->rank_count);
    uint32_t rank = 0, rank_count = collect(comm, choices, ranks);
    while (ranks[rank] != comm->rank)
        rank++;
    blink_result_t result = comm_create(comm->context, &(comm_parent_t){.comm = comm, .ranks = ranks},
                                        &choices[ranks[0]].id, rank_count, rank, config, split);
    free(ranks);
    return result;
}

static void tell_split(const blink_comm_t *comm, int color, int key, const blink_comm_t *split)
{
    if (split)
        debug_line(&comm->queue.rank, "split by color %d and key %d: communicator %u", color, key,
                   split->queue.rank.comm);
    else
        debug_line(&comm->queue.rank, "split, this rank taking no part");
}

blink_result_t blink_comm_split(blink_comm_t *comm, int color, int key, const blink_comm_config_t *config,
                                blink_comm_t **split)
{
    if (!comm || !split)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_split: %s is NULL", comm ? "split" : "comm");
    CALL_TRY(group_refuse("blink_comm_split"));
    CALL_TRY(comm_check_ready(comm, "blink_comm_split"));
    if (color < 0 && color != BLINK_SPLIT_NO_COLOR)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "color %d is negative and not BLINK_SPLIT_NO_COLOR",
                         color);
    blink_comm_config_t chosen;
    CALL_TRY(config_inherit(comm, config, &chosen));
    choice_t own = {.color = color, .key = key};
    BLINK_TRY(blink_get_unique_id(comm->context, &own.id));
    choice_t *choices = calloc(comm->rank_count, sizeof(*choices));
    if (!choices)
        return CALL_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the colors of %u ranks", comm->rank_count);
    *split = NULL;
    blink_result_t result = exchange(comm, &own, choices);
    if (result == BLINK_OK && color != BLINK_SPLIT_NO_COLOR)
        result = join(comm, choices, &chosen, split);
    free(choices);
    if (result == BLINK_OK && debug_informs())
        tell_split(comm, color, key, *split);
    return CALL_RESULT(result);
}

blink_result_t blink_comm_duplicate(blink_comm_t *comm, blink_comm_t **duplicate)
{
    if (!comm || !duplicate)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_duplicate: %s is NULL",
                         comm ? "duplicate" : "comm");
    return blink_comm_split(comm, 0, (int)comm->rank, NULL, duplicate);
}
