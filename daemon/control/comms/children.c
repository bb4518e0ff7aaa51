#include "control/comms/children.h"

#include "control/comms/gathering.h"

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

/* Whether the rank is another host's, which expects it there. */
static bool is_elsewhere(const member_t *member)
{
    return member->number == 0;
}

static blink_result_t check_present(const roster_t *parent, const Blinkwire__CommInit *message)
{
    if (parent->aborted_by_rank && !message->of_survivors)
        return BLINK_FAIL(BLINK_ERR_ABORTED, "%s, whose ranks were to join, is aborted", parent->title);
    for (uint32_t rank = 0; rank < message->rank_count; rank++) {
        const member_t *member = &parent->members[expected_rank(message, rank)];
        bool is_watched = !is_elsewhere(member) || message->of_survivors;
        if (!is_watched && parent->hosts->end_code != BLINK_OK)
            return BLINK_FAIL(parent->hosts->end_code, "%s", parent->hosts->end_text);
        if (is_watched && !member_lives(member))
            return BLINK_FAIL(BLINK_ERR_PEER_LOST, "rank %u of %s has gone and will not join as rank %u",
                              member->rank, parent->title, rank);
    }
    return BLINK_OK;
}

static void expect(member_t *member, member_t *place)
{
    place->expected_of = member;
    list_append(place->roster->of_survivors ? &member->surviving : &member->expecting, &place->of_expected);
}

blink_result_t children_expect(const member_t *parent, const Blinkwire__CommInit *message, roster_t *child)
{
    BLINK_TRY(check_ranks(parent->roster, message));
    BLINK_TRY(check_present(parent->roster, message));
    for (uint32_t rank = 0; rank < child->rank_count; rank++) {
        member_t *member = &parent->roster->members[expected_rank(message, rank)];
        expect(member, &child->members[rank]);
    }
    return BLINK_OK;
}

/* Why the place is not taken by the rank that was to take it. */
static blink_result_t fail_lost(const member_t *place)
{
    const member_t *member = place->expected_of;
    const roster_t *parent = member->roster;
    if (place->roster->of_survivors)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST,
                          "rank %u of %s, which survived so far, has gone before it had joined as rank %u",
                          member->rank, parent->title, place->rank);
    if (is_elsewhere(member) && !member->gone)
        return BLINK_FAIL(parent->hosts->end_code, "%s", parent->hosts->end_text);
    if (member->gone)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "rank %u of %s %s before it had joined as rank %u",
                          member->rank, parent->title, member->gone, place->rank);
    return BLINK_FAIL(BLINK_ERR_ABORTED, "rank %u (pid %d) aborted %s", parent->aborter,
                      (int)parent->aborter_pid, parent->title);
}

blink_result_t children_check(const member_t *place)
{
    const member_t *member = place->expected_of;
    if (list_is_empty(&place->of_expected))
        return BLINK_OK;
    bool is_lost = place->roster->of_survivors ? !member_lives(member) : !list_is_empty(&member->of_losing);
    return is_lost ? fail_lost(place) : BLINK_OK;
}

/* The next place of a gathering that is to fail; NULL: there is none left. A gathering that has failed
 * expects nobody any more. */
static member_t *next_lost(roster_t *parent)
{
    member_t *member, *place = NULL;
    while (!place && (member = LIST_FIRST(&parent->losing, member_t, of_losing))) {
        place = LIST_FIRST(&member->expecting, member_t, of_expected);
        if (!place && !member_lives(member))
            place = LIST_FIRST(&member->surviving, member_t, of_expected);
        if (!place)
            list_remove(&member->of_losing);
    }
    return place;
}

static bool lose_slice(work_t *work)
{
    roster_t *parent = CONTAINER_OF(work, roster_t, lose);
    member_t *place;
    while ((place = next_lost(parent))) {
        if (turns_slice_is_over(&parent->control->turns))
            return true;
        roster_gathering_failed(place->roster, fail_lost(place));
    }
    roster_end_if_left(parent);
    return false;
}

/* Nothing to do if nobody expects the member, or if it is lost already. */
static void lose(member_t *member)
{
    roster_t *parent = member->roster;
    bool is_expected = !list_is_empty(&member->expecting) || !list_is_empty(&member->surviving);
    if (!is_expected || !list_is_empty(&member->of_losing))
        return;
    list_append(&parent->losing, &member->of_losing);
    turns_post(&parent->control->turns, parent->tenant, &parent->lose);
}

void children_lose_rank(member_t *member, const char *how)
{
    if (list_is_empty(&member->of_losing))
        member->gone = how;
    lose(member);
}

void children_abort(roster_t *parent, const member_t *aborter)
{
    parent->aborter = aborter->rank;
    parent->aborter_pid = aborter->client->pid;
    for (uint32_t rank = 0; rank < parent->rank_count; rank++)
        lose(&parent->members[rank]);
}

void children_end(roster_t *parent)
{
    for (uint32_t rank = 0; rank < parent->rank_count; rank++) {
        if (is_elsewhere(&parent->members[rank]))
            lose(&parent->members[rank]);
    }
}

void children_forget(roster_t *parent)
{
    for (uint32_t rank = 0; rank < parent->rank_count; rank++) {
        member_t *member = &parent->members[rank];
        while (list_take_first(&member->expecting) || list_take_first(&member->surviving))
            turns_count(&parent->control->turns, 1);
    }
}

void children_init(roster_t *parent)
{
    list_init(&parent->losing);
    work_init(&parent->lose, lose_slice);
}
