#include "control/comms/leave.h"

#include "control/comms/abort.h"
#include "control/comms/children.h"
#include "control/comms/gathering.h"

#include <stdio.h>

static void on_left(void *context)
{
    member_t *member = context;
    roster_t *roster = member->roster;
    member->left = true;
    roster->left_count++;
    /* A client that is gone took its members along in rosters_lose_one(). */
    if (member->client) {
        connection_reply_ok(member->client->connection, member->request);
        member_unlink(member);
    }
    roster_end_if_left(roster);
}

void roster_leave(client_t *client, uint64_t request, uint32_t number)
{
    member_t *member;
    blink_result_t result = roster_find_member(client, number, &member);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    member->leaving = true;
    member->request = request;
    children_lose_rank(member, "left");
    engine_comm_leave(member->roster->engine, member->rank, false, NULL, (engine_done_t){on_left, member});
}

void roster_abort(client_t *client, uint64_t request, uint32_t number)
{
    member_t *member;
    blink_result_t result = roster_find_member(client, number, &member);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    char text[BLINK_ERROR_TEXT_BYTES], place[GATHER_NAME_BYTES + 4];
    snprintf(text, sizeof(text), "rank %u (pid %d)%s aborted %s", member->rank, client->pid,
             roster_place(member->roster, place), member->roster->title);
    member->roster->aborted_by_rank = true;
    engine_comm_end(member->roster->engine, BLINK_ERR_ABORTED, text);
    children_abort(member->roster, member);
    roster_announce_abort(member->roster, BLINK_ERR_ABORTED, text, member);
    connection_reply_ok(client->connection, request);
}

static void member_lost(member_t *member, const char *text)
{
    roster_t *roster = member->roster;
    bool was_leaving = member->leaving;
    member_unlink(member);
    if (!roster_has_begun(roster)) {
        BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s before all ranks had joined", text);
        roster_gathering_failed(roster, BLINK_ERR_PEER_LOST);
        return;
    }
    if (was_leaving)
        return;
    member->leaving = true;
    children_lose_rank(member, "disconnected");
    roster_announce_abort(roster, BLINK_ERR_PEER_LOST, text, member);
    engine_comm_leave(roster->engine, member->rank, true, text, (engine_done_t){on_left, member});
}

bool rosters_lose_one(client_t *client)
{
    member_t *member = LIST_FIRST(&client->members, member_t, link);
    if (!member)
        return false;
    char text[BLINK_ERROR_TEXT_BYTES], place[GATHER_NAME_BYTES + 4];
    bool is_stopping = client->control->stopping, gathers = !roster_has_begun(member->roster);
    if (is_stopping)
        roster_stop(member->roster); /* the others are to hear that, and not that a rank has gone */
    if (is_stopping && gathers)
        return true;
    const char *label = member->roster->label;
    snprintf(text, sizeof(text), "rank %u (pid %d)%s%s%s disconnected", member->rank, client->pid,
             roster_place(member->roster, place), *label ? " of " : "", label);
    member_lost(member, text);
    return true;
}
