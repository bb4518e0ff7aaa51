#include "control/comms/roster.h"

#include "control/comms/children.h"
#include "control/comms/id_hash.h"
#include "control/comms/lost_ops.h"

#include <errno.h>
#include <stdio.h>
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
    if (!member || member->client != client || member->leaving || !roster_has_begun(member->roster))
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "this client has no communicator handle %u", number);
    *found = member;
    return BLINK_OK;
}

/* ---- rosters ---- */

/* What one that has less time than others passes by is work of its tenant. An id's home has the time of its
 * own ranks. */
static void set_deadline(roster_t *roster)
{
    control_t *control = roster->control;
    list_init(&roster->deadline.link);
    if (roster->has_home)
        return;
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
    for (uint32_t rank = 0; rank < roster->rank_count; rank++)
        list_remove(&roster->members[rank].of_expected);
    table_fini(&roster->devices);
    account_credit(&roster->tenant->account, BUDGET_GATHERING_RANKS, roster->rank_count);
}

roster_t *roster_find_number(const rosters_t *rosters, uint32_t number)
{
    table_link_t *link = table_find(&rosters->by_number, table_hash(number));
    while (link && CONTAINER_OF(link, roster_t, of_numbers)->number != number)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, roster_t, of_numbers) : NULL;
}

roster_t *roster_find_gathering(const rosters_t *rosters, const uint8_t unique_id[UNIQUE_ID_BYTES], uid_t uid)
{
    for (table_link_t *link = table_find(&rosters->ids, id_hash(unique_id, rosters->id_secrets)); link;
         link = table_find_next(link)) {
        roster_t *roster = CONTAINER_OF(link, roster_t, of_ids);
        if (roster->tenant->uid == uid && memcmp(roster->unique_id, unique_id, UNIQUE_ID_BYTES) == 0)
            return roster;
    }
    return NULL;
}

static uint64_t hash_of_comm(gather_comm_t comm)
{
    return table_hash(comm.home ^ table_hash(comm.number));
}

bool roster_name(roster_t *roster, gather_comm_t comm)
{
    if (!table_add(&roster->control->rosters->comms, &roster->of_comms, hash_of_comm(comm)))
        return false;
    roster->comm = comm;
    roster->is_named = true;
    return true;
}

void roster_forget_name(roster_t *roster)
{
    if (!roster->is_named)
        return;
    if (roster->state == ROSTER_MEETING) /* other hosts may have begun ops of it */
        engine_comm_forget(roster->control->engine, roster->comm.home, roster->comm.number);
    roster->is_named = false;
    list_remove(&roster->of_meeting);
}

roster_t *roster_find_named(const rosters_t *rosters, gather_comm_t comm)
{
    for (table_link_t *link = table_find(&rosters->comms, hash_of_comm(comm)); link;
         link = table_find_next(link)) {
        roster_t *roster = CONTAINER_OF(link, roster_t, of_comms);
        if (roster->comm.home == comm.home && roster->comm.number == comm.number)
            return roster;
    }
    return NULL;
}

const char *roster_place(const roster_t *roster, char text[GATHER_NAME_BYTES + 4])
{
    const peers_t *peers = roster->control->peers;
    text[0] = '\0';
    if (roster->has_home && peers)
        snprintf(text, GATHER_NAME_BYTES + 4, " on %s", peers_own(peers)->name);
    return text;
}

uint64_t roster_init_timeout_ms(const roster_t *roster)
{
    return roster->init_timeout_ms > 0 ? roster->init_timeout_ms
                                       : (uint64_t)(roster->control->settings->init_timeout_s * 1e3);
}

uint64_t roster_op_timeout_us(const roster_t *roster)
{
    return roster->op_timeout_ms > 0 ? roster->op_timeout_ms * UINT64_C(1000)
                                     : (uint64_t)(roster->control->settings->op_timeout_s * 1e6);
}

void roster_set_timeout(client_t *client, uint64_t request, const Blinkwire__CommTimeout *message)
{
    member_t *member;
    blink_result_t result = roster_find_member(client, message->member, &member);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    roster_t *roster = member->roster;
    roster->op_timeout_ms = message->op_timeout_ms;
    engine_comm_set_timeout(roster->engine, roster_op_timeout_us(roster));
    connection_reply_ok(client->connection, request);
}

static void set_label(roster_t *roster, const char *label)
{
    bool is_labelled = *label != '\0';
    label_set(roster->label, label);
    snprintf(roster->title, sizeof(roster->title), "communicator %u%s%s%s", roster->number,
             is_labelled ? " (" : "", roster->label, is_labelled ? ")" : "");
}

roster_t *roster_create(const client_t *client, const Blinkwire__CommInit *message)
{
    control_t *control = client->control;
    roster_t *roster = calloc(1, sizeof(*roster) + message->rank_count * sizeof(roster->members[0]));
    if (!roster)
        return NULL;
    roster->control = control;
    roster->number = ++control->rosters->last_roster;
    set_label(roster, message->name);
    memcpy(roster->unique_id, message->unique_id.data, sizeof(roster->unique_id));
    const uint8_t *nonce = roster->unique_id + UNIQUE_ID_HOME_BYTES;
    snprintf(roster->id, sizeof(roster->id), "%02x%02x%02x%02x", nonce[0], nonce[1], nonce[2], nonce[3]);
    roster->has_home = unique_id_has_home(roster->unique_id);
    list_init(&roster->of_meeting);
    list_init(&roster->of_shrinking);
    list_init(&roster->miss_hosts.link);
    list_init(&roster->asking);
    list_init(&roster->asked.link);
    roster->tenant = client->tenant;
    roster->op_timeout_ms = message->op_timeout_ms;
    roster->init_timeout_ms = message->init_timeout_ms;
    roster->rank_count = message->rank_count;
    roster->first_rank = message->rank;
    roster->algorithm = (blink_algorithm_t)message->algorithm;
    roster->of_survivors = message->of_survivors;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        member_t *member = &roster->members[rank];
        *member = (member_t){.roster = roster, .rank = rank};
        list_init(&member->of_expected);
        list_init(&member->expecting);
        list_init(&member->surviving);
        list_init(&member->of_losing);
        list_init(&member->of_asking);
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

/* Members that were told of the end before the home of their id was. */
static void leave_home(roster_t *roster)
{
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        member_t *member = &roster->members[rank];
        if (member->gather.local)
            rendezvous_leave(roster->control->rendezvous, &member->gather,
                             BLINK_FAIL(BLINK_ERR_ABORTED, "the communicator has ended"));
    }
}

static void free_hosts(roster_hosts_t *hosts)
{
    if (!hosts)
        return;
    free(hosts->host_of_rank);
    free(hosts->device_of_rank);
    free(hosts->has_told);
    free(hosts);
}

void roster_free(roster_t *roster)
{
    rosters_t *rosters = roster->control->rosters;
    children_forget(roster);
    work_cancel(&roster->lose);
    turns_count(&roster->control->turns, 1 + roster->rank_count / RANKS_PER_STEP);
    leave_home(roster);
    if (roster->state == ROSTER_GATHERING)
        roster_end_gathering(roster);
    roster_forget_name(roster);
    if (roster->comm.number != 0)
        table_remove(&rosters->comms, &roster->of_comms);
    work_cancel(&roster->miss_hosts);
    list_remove(&roster->of_shrinking);
    list_remove(&roster->asked.link);
    free_hosts(roster->hosts);
    bag_remove(&rosters->all, &roster->of_all);
    bag_remove(&roster->tenant->rosters, &roster->of_tenant);
    table_remove(&rosters->by_number, &roster->of_numbers);
    account_credit(&roster->tenant->account, BUDGET_COMMUNICATORS, 1);
    tenant_put(roster->tenant);
    free(roster);
}

void rosters_arm(uv_timer_t *timer, const list_t *deadlines, uv_timer_cb on_timer)
{
    const deadline_t *first = deadline_first(deadlines);
    if (!first)
        uv_timer_stop(timer);
    else
        turns_set_timer(timer, first->at_ms, on_timer);
}

void roster_end_if_left(roster_t *roster)
{
    if (roster->left_count < roster->joined_count || children_are_failing(roster))
        return;
    if (roster->is_named)
        rendezvous_comm_ended(roster->control->rendezvous, roster->comm);
    tenant_event(roster->tenant, EVENT_COMM_ENDED, roster->number, roster->title, LOG_LEVEL_INFO, "ended");
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
    list_init(&rosters->meeting);
    list_init(&rosters->shrinking);
    list_init(&rosters->asked);
    rosters->ranks_on = calloc(control->device_count, sizeof(*rosters->ranks_on));
    blink_result_t result = rosters->ranks_on ? failed_ids_create(control, &rosters->failed_ids)
                                              : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u devices",
                                                           control->device_count);
    if (result == BLINK_OK)
        result = lost_ops_create(&rosters->lost_ops);
    if (result == BLINK_OK && getrandom(rosters->id_secrets, sizeof(rosters->id_secrets), 0) !=
                                  (ssize_t)sizeof(rosters->id_secrets))
        result = BLINK_FAIL_ERRNO("random numbers");
    if (result != BLINK_OK) {
        rosters_destroy(rosters);
        return result;
    }
    uv_timer_init(&control->loop, &rosters->gathering_timer);
    rosters->gathering_timer.data = rosters;
    uv_timer_init(&control->loop, &rosters->asked_timer);
    rosters->asked_timer.data = rosters;
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
    lost_ops_destroy(rosters->lost_ops);
    table_fini(&rosters->ids);
    table_fini(&rosters->by_number);
    table_fini(&rosters->comms);
    table_fini(&rosters->members);
    vec_free(&rosters->all);
    free(rosters->ranks_on);
    free(rosters);
}
