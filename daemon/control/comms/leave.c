#include "control/comms/leave.h"

#include "control/comms/abort.h"
#include "control/comms/children.h"
#include "control/comms/gathering.h"
#include "control/comms/lost_ops.h"
#include "control/comms/survivors.h"

#include <stdio.h>

/* So many ranks of a client that are passed by are a step of the loop's turn. */
#define RANKS_PER_STEP 64u

static void on_left(void *context)
{
    member_t *member = context;
    roster_t *roster = member->roster;
    member->left = true;
    roster->left_count++;
    if (roster->left_count == roster->joined_count) {
        lost_ops_keep(roster->control->rosters->lost_ops, roster);
        engine_comm_free(roster->engine);
        roster->engine = NULL; /* the roster may stay while children fail */
    }
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
    survivors_lose(member);
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

/* The client's rank whose CommInit, by that request, is not answered yet; NULL: there is none. */
static const member_t *find_joining(const client_t *client, uint64_t joining)
{
    const member_t *found = NULL;
    uint32_t passed = 0;
    LIST_FOR_EACH (link, &client->members) {
        const member_t *member = CONTAINER_OF(link, member_t, link);
        if (member->request == joining && !roster_has_begun(member->roster)) {
            found = member;
            break;
        }
        passed++;
    }
    turns_count(&client->control->turns, passed / RANKS_PER_STEP);
    return found;
}

/* "rank 1 (pid 7) on n1 of grads disconnected", for what the rank did. */
static void say_of(const member_t *member, const char *did, char text[BLINK_ERROR_TEXT_BYTES])
{
    char place[GATHER_NAME_BYTES + 4];
    const char *label = member->roster->label;
    snprintf(text, BLINK_ERROR_TEXT_BYTES, "rank %u (pid %d)%s%s%s %s", member->rank, member->client->pid,
             roster_place(member->roster, place), *label ? " of " : "", label, did);
}

void roster_give_up(client_t *client, uint64_t request, uint64_t joining)
{
    const member_t *member = find_joining(client, joining);
    char text[BLINK_ERROR_TEXT_BYTES];
    if (member) {
        say_of(member, "gave up", text);
        BLINK_FAIL(BLINK_ERR_ABORTED, "%s before all ranks had joined", text);
        roster_gathering_failed(member->roster, BLINK_ERR_ABORTED);
    }
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
    survivors_lose(member);
    roster_announce_abort(roster, BLINK_ERR_PEER_LOST, text, member);
    engine_comm_leave(roster->engine, member->rank, true, text, (engine_done_t){on_left, member});
}

bool rosters_lose_one(client_t *client)
{
    member_t *member = LIST_FIRST(&client->members, member_t, link);
    if (!member)
        return false;
    char text[BLINK_ERROR_TEXT_BYTES];
    bool is_stopping = client->control->stopping, gathers = !roster_has_begun(member->roster);
    if (is_stopping)
        roster_stop(member->roster); /* the others are to hear that, and not that a rank has gone */
    if (is_stopping && gathers)
        return true;
    say_of(member, "disconnected", text);
    member_lost(member, text);
    return true;
}
