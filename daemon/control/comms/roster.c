#include "control/comms/roster.h"

#include "control/comms/abort.h"
#include "control/comms/children.h"
#include "control/comms/id_hash.h"
#include "control/comms/place.h"
#include "control/gpus.h"
#include "control/links.h"
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* So many ranks that are only initialised, or unlinked, are a step of the loop's turn; so many rosters that
 * are passed by. */
#define RANKS_PER_STEP   16u
#define ROSTERS_PER_STEP 64u

/* ---- lists ---- */

/* False without memory; then nothing has changed. */
static bool member_link(member_t *member, client_t *client)
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

static void member_unlink(member_t *member)
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

/* The member that a client's handle names, unless the roster still gathers or the member has begun to leave.
 */
static blink_result_t find_member(const client_t *client, uint32_t number, member_t **found)
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

/* Most rosters have the same time to gather, and come last. What one with less passes by is work of its
 * tenant. */
static void insert_by_deadline(roster_t *roster)
{
    rosters_t *rosters = roster->control->rosters;
    list_t *before = rosters->gathering.previous;
    uint32_t passed = 0;
    while (before != &rosters->gathering &&
           CONTAINER_OF(before, roster_t, of_gathering)->deadline_ms > roster->deadline_ms) {
        before = before->previous;
        passed++;
    }
    list_insert(before->next, &roster->of_gathering);
    turns_count(&roster->control->turns, passed / ROSTERS_PER_STEP);
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
    insert_by_deadline(roster);
    return true;
undo_number:
    table_remove(&rosters->by_number, &roster->of_numbers);
undo_tenant:
    bag_remove(&roster->tenant->rosters, &roster->of_tenant);
undo_all:
    bag_remove(&rosters->all, &roster->of_all);
    return false;
}

/* The roster does not gather any more. */
static void end_gathering(roster_t *roster)
{
    list_remove(&roster->of_gathering);
    table_remove(&roster->control->rosters->ids, &roster->of_ids);
    table_fini(&roster->devices);
    account_credit(&roster->tenant->account, BUDGET_GATHERING_RANKS, roster->rank_count);
}

static void roster_free(roster_t *roster)
{
    rosters_t *rosters = roster->control->rosters;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++)
        list_remove(&roster->members[rank].of_expected);
    work_cancel(&roster->lose);
    turns_count(&roster->control->turns, 1 + roster->rank_count / RANKS_PER_STEP);
    if (roster->state == ROSTER_GATHERING)
        end_gathering(roster);
    bag_remove(&rosters->all, &roster->of_all);
    bag_remove(&roster->tenant->rosters, &roster->of_tenant);
    table_remove(&rosters->by_number, &roster->of_numbers);
    account_credit(&roster->tenant->account, BUDGET_COMMUNICATORS, 1);
    tenant_put(roster->tenant);
    free(roster);
}

static roster_t *find_gathering(const rosters_t *rosters, const uint8_t unique_id[UNIQUE_ID_BYTES])
{
    table_link_t *link = table_find(&rosters->ids, id_hash(unique_id, rosters->id_secrets));
    while (link && memcmp(CONTAINER_OF(link, roster_t, of_ids)->unique_id, unique_id, UNIQUE_ID_BYTES) != 0)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, roster_t, of_ids) : NULL;
}

/* ---- gathering ---- */

static void on_gathering_timer(uv_timer_t *timer);

/* The timer runs for the roster whose deadline comes first. */
static void arm_gathering_timer(rosters_t *rosters)
{
    const roster_t *oldest = LIST_FIRST(&rosters->gathering, roster_t, of_gathering);
    uint64_t now_ms = uv_now(&rosters->control->loop);
    if (!oldest)
        uv_timer_stop(&rosters->gathering_timer);
    else
        uv_timer_start(&rosters->gathering_timer, on_gathering_timer,
                       oldest->deadline_ms > now_ms ? oldest->deadline_ms - now_ms : 0, 0);
}

static uint64_t init_timeout_ms(const roster_t *roster)
{
    return roster->init_timeout_ms > 0 ? roster->init_timeout_ms
                                       : (uint64_t)(roster->control->settings->init_timeout_s * 1e3);
}

/* On the tenant's account, which has been charged. NULL: no memory. */
static roster_t *roster_create(const client_t *client, const Blinkwire__CommInit *message)
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
    roster->deadline_ms = uv_now(&control->loop) + init_timeout_ms(roster);
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

/* Whether nobody who comes later can make it good. */
static bool is_final(blink_result_t code)
{
    return code == BLINK_ERR_PEER_LOST || code == BLINK_ERR_ABORTED;
}

/* The first rank has come. */
static blink_result_t roster_begin(const client_t *client, const Blinkwire__CommInit *message,
                                   roster_t **begun)
{
    member_t *parent = NULL;
    BLINK_TRY(
        failed_ids_check(client->control->rosters->failed_ids, client->tenant, message->unique_id.data));
    if (message->parent != 0)
        BLINK_TRY(find_member(client, message->parent, &parent));
    const charge_t charges[] = {{BUDGET_COMMUNICATORS, 1}, {BUDGET_GATHERING_RANKS, message->rank_count}};
    BLINK_TRY(account_charge_all(&client->tenant->account, charges, 2));
    roster_t *roster = roster_create(client, message);
    if (!roster) {
        account_credit_all(&client->tenant->account, charges, 2);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks",
                          message->rank_count);
    }
    blink_result_t result = parent ? children_expect(parent, message, roster) : BLINK_OK;
    if (is_final(result))
        failed_ids_add(client->control->rosters->failed_ids, client->tenant, message->unique_id.data,
                       message->init_timeout_ms, result);
    if (result != BLINK_OK) {
        roster_free(roster);
        return result;
    }
    *begun = roster;
    return BLINK_OK;
}

void roster_gathering_failed(roster_t *roster, blink_result_t code)
{
    rosters_t *rosters = roster->control->rosters;
    LIST_FOR_EACH (link, &roster->joined) {
        member_t *member = CONTAINER_OF(link, member_t, of_joined);
        turns_count(&roster->control->turns, 1);
        connection_reply_error(member->client->connection, member->request, code);
        member_unlink(member);
    }
    if (is_final(code))
        failed_ids_add(rosters->failed_ids, roster->tenant, roster->unique_id, roster->init_timeout_ms, code);
    roster_free(roster);
    arm_gathering_timer(rosters);
}

static blink_result_t add_to_engine(roster_t *roster)
{
    const control_t *control = roster->control;
    engine_member_t *members = calloc(roster->rank_count, sizeof(*members));
    if (!members)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks",
                          roster->rank_count);
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        const member_t *member = &roster->members[rank];
        members[rank] =
            (engine_member_t){member->client->engine, member->number, control->topo->gpus[member->device]};
    }
    double op_timeout_s =
        roster->op_timeout_ms > 0 ? roster->op_timeout_ms / 1e3 : control->settings->op_timeout_s;
    const engine_comm_config_t config = {.comm = roster->number,
                                         .tenant = roster->tenant,
                                         .rank_count = roster->rank_count,
                                         .members = members,
                                         .algorithm = roster->algorithm,
                                         .op_timeout_us = (uint64_t)(op_timeout_s * 1e6)};
    blink_result_t result = engine_comm_add(control->engine, &config, &roster->engine);
    free(members);
    return result;
}

static void reply_joined(const member_t *member)
{
    const control_t *control = member->roster->control;
    Blinkwire__CommInitReply body = BLINKWIRE__COMM_INIT_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    uint32_t gpu = control_gpu_of_device(control, member->device);
    body.member = member->number;
    body.comm = member->roster->number;
    body.device = member->device;
    if (gpu != GPU_NONE) {
        body.gpu_uuid.data = (uint8_t *)(uintptr_t)gpus_facts(control->gpus)->gpus[gpu].uuid;
        body.gpu_uuid.len = GPU_UUID_BYTES;
    }
    reply.id = member->request;
    reply.body_case = BLINKWIRE__REPLY__BODY_COMM_INIT;
    reply.comm_init = &body;
    connection_send(member->client->connection, &reply, NULL, 0);
}

static void gathering_complete(roster_t *roster)
{
    control_t *control = roster->control;
    blink_result_t result = add_to_engine(roster);
    if (result != BLINK_OK) {
        roster_gathering_failed(roster, result);
        return;
    }
    roster->state = ROSTER_READY;
    end_gathering(roster);
    turns_count(&control->turns, roster->rank_count);
    tenant_log(roster->tenant, LOG_LEVEL_INFO, "communicator %u: %u ranks, algorithm %s", roster->number,
               roster->rank_count, blink_name_algorithm(roster->algorithm));
    for (uint32_t rank = 0; rank < roster->rank_count; rank++)
        reply_joined(&roster->members[rank]);
    arm_gathering_timer(control->rosters);
    links_wake(control->links);
}

/* The roster that a rank may join, made if the rank is the first, and the rank's device. */
static blink_result_t find_place(const client_t *client, const Blinkwire__CommInit *message,
                                 roster_t **roster, uint32_t *device)
{
    BLINK_TRY(place_check_request(message));
    *roster = find_gathering(client->control->rosters, message->unique_id.data);
    BLINK_TRY(place_choose_device(client->control, *roster, message, device));
    if (!*roster)
        return roster_begin(client, message, roster);
    return place_check(*roster, client, message, *device);
}

void roster_join(client_t *client, uint64_t request, const Blinkwire__CommInit *message)
{
    rosters_t *rosters = client->control->rosters;
    roster_t *roster;
    uint32_t device;
    blink_result_t result = find_place(client, message, &roster, &device);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    member_t *member = &roster->members[message->rank];
    result = children_check(member);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        roster_gathering_failed(roster, result);
        return;
    }
    member->number = rosters->last_member + 1;
    member->device = device;
    member->request = request;
    if (!member_link(member, client)) {
        member->number = 0;
        if (roster->joined_count == 0)
            roster_free(roster);
        BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a rank");
        connection_reply_error(client->connection, request, BLINK_ERR_NO_MEMORY);
        return;
    }
    rosters->last_member++;
    list_remove(&member->of_expected);
    if (++roster->joined_count == roster->rank_count)
        gathering_complete(roster);
    else
        arm_gathering_timer(rosters);
}

/* "1, 3 and 5 more": the ranks that have not joined, as far as they fit. */
static void name_missing(const roster_t *roster, char *text, size_t bytes)
{
    size_t used = 0;
    uint32_t unnamed = 0;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        if (roster->members[rank].client)
            continue;
        if (used + 24 < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? ", " : "", rank);
        else
            unnamed++;
    }
    if (unnamed > 0)
        snprintf(text + used, bytes - used, " and %u more", unnamed);
}

/* The rosters whose ranks did not gather in time fail. */
static void on_gathering_timer(uv_timer_t *timer)
{
    rosters_t *rosters = timer->data;
    uint64_t now_ms = uv_now(&rosters->control->loop);
    roster_t *roster;
    while ((roster = LIST_FIRST(&rosters->gathering, roster_t, of_gathering)) &&
           roster->deadline_ms <= now_ms && !turns_is_over(&rosters->control->turns)) {
        char missing[96] = "";
        name_missing(roster, missing, sizeof(missing));
        BLINK_FAIL(BLINK_ERR_TIMEOUT, "only %u of %u ranks joined within %g s; missing: rank %s",
                   roster->joined_count, roster->rank_count, (double)init_timeout_ms(roster) / 1e3, missing);
        roster_gathering_failed(roster, BLINK_ERR_TIMEOUT);
    }
    arm_gathering_timer(rosters);
}

/* ---- aborting ---- */

void roster_abort(client_t *client, uint64_t request, uint32_t number)
{
    member_t *member;
    blink_result_t result = find_member(client, number, &member);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "rank %u (pid %d) aborted communicator %u", member->rank, client->pid,
             member->roster->number);
    member->roster->aborted_by_rank = true;
    engine_comm_end(member->roster->engine, BLINK_ERR_ABORTED, text);
    children_abort(member->roster, member);
    roster_announce_abort(member->roster, BLINK_ERR_ABORTED, text, member);
    connection_reply_ok(client->connection, request);
}

/* ---- leaving ---- */

void roster_end_if_left(roster_t *roster)
{
    if (roster->left_count < roster->rank_count || children_are_failing(roster))
        return;
    tenant_log(roster->tenant, LOG_LEVEL_INFO, "communicator %u: ended", roster->number);
    roster_free(roster);
}

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
    blink_result_t result = find_member(client, number, &member);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    member->leaving = true;
    member->request = request;
    children_lose_rank(member, "left");
    engine_comm_leave(member->roster->engine, member->rank, false, NULL, (engine_done_t){on_left, member});
}

static void member_lost(member_t *member, const char *text)
{
    roster_t *roster = member->roster;
    bool was_leaving = member->leaving;
    member_unlink(member);
    if (roster->state == ROSTER_GATHERING) {
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
    char text[BLINK_ERROR_TEXT_BYTES];
    bool is_stopping = client->control->stopping, gathers = member->roster->state == ROSTER_GATHERING;
    if (is_stopping)
        roster_stop(member->roster); /* the others are to hear that, and not that a rank has gone */
    if (is_stopping && gathers)
        return true;
    snprintf(text, sizeof(text), "rank %u (pid %d) disconnected", member->rank, client->pid);
    member_lost(member, text);
    return true;
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
