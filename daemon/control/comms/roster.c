#include "control/comms/roster.h"

#include "control/comms/children.h"
#include "control/comms/id_hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* So many ranks that are only initialised, or unlinked, are a step of the loop's turn; so many rosters that
 * are passed by. */
#define RANKS_PER_STEP   16u
#define ROSTERS_PER_STEP 64u

/* ---- members ---- */

bool member_link(member_t *member, client_t *client)
{
    rosters_t *rosters = client->control->rosters;
    if (!table_add(&member->roster->devices, &member->of_devices, table_hash(member->device)))
        return false;
    if (!table_add(&rosters->members, &member->of_numbers, table_hash(member->number))) {
        table_remove(&member->roster->devices, &member->of_devices);
        return false;
    }
    member->client = client;
    list_prepend(&client->members, &member->link);
    list_append(&member->roster->joined, &member->of_joined);
    rosters->ranks_on[member->device]++;
    client->member_count++;
    return true;
}

void member_unlink(member_t *member)
{
    rosters_t *rosters = member->roster->control->rosters;
    list_remove(&member->link);
    list_remove(&member->of_joined);
    table_remove(&rosters->members, &member->of_numbers);
    if (member->roster->state == ROSTER_GATHERING)
        table_remove(&member->roster->devices, &member->of_devices);
    rosters->ranks_on[member->device]--;
    member->client->member_count--;
    member->client = NULL;
}

blink_result_t roster_find_member(const client_t *client, uint32_t number, member_t **found)
{
    table_link_t *link = table_find(&client->control->rosters->members, table_hash(number));
    while (link && CONTAINER_OF(link, member_t, of_numbers)->number != number)
        link = table_find_next(link);
    member_t *member = link ? CONTAINER_OF(link, member_t, of_numbers) : NULL;
    if (!member || member->client != client || member->leaving || member->roster->state == ROSTER_GATHERING)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "this client has no communicator handle %u", number);
    *found = member;
    return BLINK_OK;
}

/* ---- rosters ---- */

/* What one that has less time than others passes by is work of its tenant. */
static void set_deadline(roster_t *roster)
{
    control_t *control = roster->control;
    uint32_t passed = deadline_set(&control->rosters->gathering, &roster->deadline,
                                   uv_now(&control->loop) + roster_init_timeout_ms(roster));
    turns_count(&control->turns, passed / ROSTERS_PER_STEP);
}

/* False without memory; then nothing has changed. */
static bool roster_link(roster_t *roster)
{
    rosters_t *rosters = roster->control->rosters;
    if (!bag_add(&rosters->all, &roster->of_all))
        return false;
    if (!bag_add(&roster->tenant->rosters, &roster->of_tenant))
        goto undo_all;
    if (!table_add(&rosters->by_number, &roster->of_numbers, table_hash(roster->number)))
        goto undo_tenant;
    if (!table_add(&rosters->ids, &roster->of_ids, id_hash(roster->unique_id, rosters->id_secrets)))
        goto undo_number;
    set_deadline(roster);
    return true;
undo_number:
    table_remove(&rosters->by_number, &roster->of_numbers);
undo_tenant:
    bag_remove(&roster->tenant->rosters, &roster->of_tenant);
undo_all:
    bag_remove(&rosters->all, &roster->of_all);
    return false;
}

void roster_end_gathering(roster_t *roster)
{
    list_remove(&roster->deadline.link);
    table_remove(&roster->control->rosters->ids, &roster->of_ids);
    table_fini(&roster->devices);
    account_credit(&roster->tenant->account, BUDGET_GATHERING_RANKS, roster->rank_count);
}

roster_t *roster_find_gathering(const rosters_t *rosters, const uint8_t unique_id[UNIQUE_ID_BYTES])
{
    table_link_t *link = table_find(&rosters->ids, id_hash(unique_id, rosters->id_secrets));
    while (link && memcmp(CONTAINER_OF(link, roster_t, of_ids)->unique_id, unique_id, UNIQUE_ID_BYTES) != 0)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, roster_t, of_ids) : NULL;
}

uint64_t roster_init_timeout_ms(const roster_t *roster)
{
    return roster->init_timeout_ms > 0 ? roster->init_timeout_ms
                                       : (uint64_t)(roster->control->settings->init_timeout_s * 1e3);
}

roster_t *roster_create(const client_t *client, const Blinkwire__CommInit *message)
{
    control_t *control = client->control;
    roster_t *roster = calloc(1, sizeof(*roster) + message->rank_count * sizeof(roster->members[0]));
    if (!roster)
        return NULL;
    roster->control = control;
    roster->number = ++control->rosters->last_roster;
    memcpy(roster->unique_id, message->unique_id.data, sizeof(roster->unique_id));
    roster->tenant = client->tenant;
    roster->op_timeout_ms = message->op_timeout_ms;
    roster->init_timeout_ms = message->init_timeout_ms;
    roster->rank_count = message->rank_count;
    roster->first_rank = message->rank;
    roster->algorithm = (blink_algorithm_t)message->algorithm;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        member_t *member = &roster->members[rank];
        *member = (member_t){.roster = roster, .rank = rank};
        list_init(&member->of_expected);
        list_init(&member->expecting);
        list_init(&member->of_losing);
    }
    list_init(&roster->joined);
    children_init(roster);
    turns_count(&control->turns, roster->rank_count / RANKS_PER_STEP);
    if (!roster_link(roster)) {
        free(roster);
        return NULL;
    }
    tenant_hold(roster->tenant);
    return roster;
}

void roster_free(roster_t *roster)
{
    rosters_t *rosters = roster->control->rosters;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++)
        list_remove(&roster->members[rank].of_expected);
    work_cancel(&roster->lose);
    turns_count(&roster->control->turns, 1 + roster->rank_count / RANKS_PER_STEP);
    if (roster->state == ROSTER_GATHERING)
        roster_end_gathering(roster);
    bag_remove(&rosters->all, &roster->of_all);
    bag_remove(&roster->tenant->rosters, &roster->of_tenant);
    table_remove(&rosters->by_number, &roster->of_numbers);
    account_credit(&roster->tenant->account, BUDGET_COMMUNICATORS, 1);
    tenant_put(roster->tenant);
    free(roster);
}

void roster_end_if_left(roster_t *roster)
{
    if (roster->left_count < roster->rank_count || children_are_failing(roster))
        return;
    tenant_log(roster->tenant, LOG_LEVEL_INFO, "communicator %u: ended", roster->number);
    roster_free(roster);
}

/* ---- all of them ---- */

blink_result_t rosters_create(control_t *control, rosters_t **created)
{
    rosters_t *rosters = calloc(1, sizeof(*rosters));
    if (!rosters)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the communicators");
    rosters->control = control;
    list_init(&rosters->gathering);
    rosters->ranks_on = calloc(control->device_count, sizeof(*rosters->ranks_on));
    blink_result_t result = rosters->ranks_on ? failed_ids_create(control, &rosters->failed_ids)
                                              : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u devices",
                                                           control->device_count);
    if (result == BLINK_OK && getrandom(rosters->id_secrets, sizeof(rosters->id_secrets), 0) !=
                                  (ssize_t)sizeof(rosters->id_secrets))
        result = BLINK_FAIL_ERRNO("random numbers");
    if (result != BLINK_OK) {
        rosters_destroy(rosters);
        return result;
    }
    uv_timer_init(&control->loop, &rosters->gathering_timer);
    rosters->gathering_timer.data = rosters;
    *created = rosters;
    return BLINK_OK;
}

void rosters_destroy(rosters_t *rosters)
{
    if (!rosters)
        return;
    /* Whose gatherings have all failed by other ways, and which had no slice to find that any more. */
    while (rosters->all.count > 0)
        roster_free(CONTAINER_OF(rosters->all.items[rosters->all.count - 1], roster_t, of_all));
    failed_ids_destroy(rosters->failed_ids);
    table_fini(&rosters->ids);
    table_fini(&rosters->by_number);
    table_fini(&rosters->members);
    vec_free(&rosters->all);
    free(rosters->ranks_on);
    free(rosters);
}
