#include "control/comms/children.h"

#include <stdio.h>

/* The parent's rank that is to take a place. */
static uint32_t expected_rank(const Blinkwire__CommInit *message, uint32_t rank)
{
    return message->n_parent_ranks > 0 ? message->parent_ranks[rank] : rank;
}

static blink_result_t check_ranks(const roster_t *parent, const Blinkwire__CommInit *message)
{
    size_t named = message->n_parent_ranks;
    if (named > 0 ? named != message->rank_count : message->rank_count != parent->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%u ranks of a communicator of %u, of which %zu are named", message->rank_count,
                          parent->rank_count, named);
    for (uint32_t rank = 0; rank < message->rank_count; rank++) {
        if (expected_rank(message, rank) >= parent->rank_count)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u is to be rank %u of a communicator of %u",
                              rank, expected_rank(message, rank), parent->rank_count);
    }
    return BLINK_OK;
}

static blink_result_t check_present(const roster_t *parent, const Blinkwire__CommInit *message)
{
    if (parent->aborted_by_rank)
        return BLINK_FAIL(BLINK_ERR_ABORTED, "communicator %u, whose ranks were to join, is aborted",
                          parent->number);
    for (uint32_t rank = 0; rank < message->rank_count; rank++) {
        const member_t *member = &parent->members[expected_rank(message, rank)];
        if (!member->client || member->leaving)
            return BLINK_FAIL(BLINK_ERR_PEER_LOST,
                              "rank %u of communicator %u has gone and will not join as rank %u",
                              member->rank, parent->number, rank);
    }
    return BLINK_OK;
}

blink_result_t children_expect(const member_t *parent, const Blinkwire__CommInit *message, roster_t *child)
{
    BLINK_TRY(check_ranks(parent->roster, message));
    BLINK_TRY(check_present(parent->roster, message));
    for (uint32_t rank = 0; rank < child->rank_count; rank++)
        list_append(&parent->roster->members[expected_rank(message, rank)].expecting,
                    &child->members[rank].of_expected);
    return BLINK_OK;
}

/* The first gathering that expects this rank; a failed one expects nobody any more. */
static member_t *first_place(const member_t *member)
{
    return LIST_FIRST(&member->expecting, member_t, of_expected);
}

void children_lose_rank(member_t *member, const char *how)
{
    for (member_t *place; (place = first_place(member));) {
        BLINK_FAIL(BLINK_ERR_PEER_LOST, "rank %u of communicator %u %s before it had joined as rank %u",
                   member->rank, member->roster->number, how, place->rank);
        roster_gathering_failed(place->roster, BLINK_ERR_PEER_LOST);
    }
}

void children_abort(roster_t *parent)
{
    for (uint32_t rank = 0; rank < parent->rank_count; rank++) {
        for (member_t *place; (place = first_place(&parent->members[rank]));)
            roster_gathering_failed(place->roster, BLINK_ERR_ABORTED);
    }
}
