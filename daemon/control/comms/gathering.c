#include "control/comms/gathering.h"

#include "base/probe.h"
#include "control/comms/children.h"
#include "control/comms/place.h"
#include "control/gather/terms.h"
#include "control/gpus.h"
#include "control/links.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_gathering_timer(uv_timer_t *timer);

static void arm_gathering_timer(rosters_t *rosters)
{
    rosters_arm(&rosters->gathering_timer, &rosters->gathering, on_gathering_timer);
}

/* The first rank has come. */
static blink_result_t roster_begin(const client_t *client, const Blinkwire__CommInit *message,
                                   roster_t **begun)
{
    member_t *parent = NULL;
    BLINK_TRY(
        failed_ids_check(client->control->rosters->failed_ids, client->tenant->uid, message->unique_id.data));
    if (message->parent != 0)
        BLINK_TRY(roster_find_member(client, message->parent, &parent));
    const charge_t charges[] = {{BUDGET_COMMUNICATORS, 1}, {BUDGET_GATHERING_RANKS, message->rank_count}};
    BLINK_TRY(account_charge_all(&client->tenant->account, charges, 2));
    roster_t *roster = roster_create(client, message);
    if (!roster) {
        account_credit_all(&client->tenant->account, charges, 2);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks",
                          message->rank_count);
    }
    blink_result_t result = parent ? children_expect(parent, message, roster) : BLINK_OK;
    if (terms_is_final(result))
        failed_ids_add(client->control->rosters->failed_ids, client->tenant, message->unique_id.data,
                       message->init_timeout_ms, result);
    if (result != BLINK_OK) {
        roster_free(roster);
        return result;
    }
    *begun = roster;
    return BLINK_OK;
}

/* Other hosts do not know yet that the gathering fails, for the code and the text. */
static void tell_home(roster_t *roster, blink_result_t code, const char *text)
{
    rendezvous_t *rendezvous = roster->control->rendezvous;
    gather_comm_t comm = roster->comm;
    bool is_named = roster->is_named;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        gather_rank_t *place = &roster->members[rank].gather;
        if (place->local)
            rendezvous_leave(rendezvous, place, blink_error_set(code, "%s", text));
    }
    roster_forget_name(roster);
    if (is_named)
        rendezvous_comm_lost(rendezvous, comm, blink_error_set(code, "%s", text));
}

void roster_gathering_failed(roster_t *roster, blink_result_t code)
{
    rosters_t *rosters = roster->control->rosters;
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    LIST_FOR_EACH (link, &roster->joined) {
        member_t *member = CONTAINER_OF(link, member_t, of_joined);
        turns_count(&roster->control->turns, 1);
        connection_reply_error(member->client->connection, member->request, code);
        member_unlink(member);
    }
    if (roster->has_home)
        tell_home(roster, code, text);
    else if (terms_is_final(code))
        failed_ids_add(rosters->failed_ids, roster->tenant, roster->unique_id, roster->init_timeout_ms, code);
    roster_free(roster);
    arm_gathering_timer(rosters);
}

void gathering_refused(member_t *member, blink_result_t code)
{
    roster_t *roster = member->roster;
    connection_reply_error(member->client->connection, member->request, code);
    member_unlink(member);
    member->number = 0;
    if (--roster->joined_count == 0)
        roster_free(roster);
}

/* Where and whose the ranks are, as the engine is told. */
typedef struct places {
    engine_member_t *members;
    uint32_t member_count;
    uint32_t *nodes;
} places_t;

/* The node of a rank's device. Errors: INTERNAL (the rank's host has no such device). */
static blink_result_t find_node(const roster_t *roster, const fabric_t *fabric, uint32_t rank, uint32_t *node)
{
    const roster_hosts_t *hosts = roster->hosts;
    if (!fabric) {
        *node = roster->control->topo->gpus[roster->members[rank].device];
        return BLINK_OK;
    }
    uint32_t host = hosts->host_of_rank[rank], device = fabric->first_device[host];
    uint32_t end = host + 1 < hosts->count ? fabric->first_device[host + 1] : fabric->topo->gpu_count;
    if (hosts->device_of_rank[rank] >= end - device)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "rank %u has device %u of host %s, which has %u", rank,
                          hosts->device_of_rank[rank], hosts->hosts[host].name, end - device);
    *node = fabric->topo->gpus[device + hosts->device_of_rank[rank]];
    return BLINK_OK;
}

static blink_result_t places_fill(const roster_t *roster, const fabric_t *fabric, places_t *places)
{
    places->members = calloc(roster->rank_count, sizeof(*places->members));
    places->nodes = calloc(roster->rank_count, sizeof(*places->nodes));
    if (!places->members || !places->nodes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks",
                          roster->rank_count);
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        const member_t *member = &roster->members[rank];
        BLINK_TRY(find_node(roster, fabric, rank, &places->nodes[rank]));
        if (member->client)
            places->members[places->member_count++] =
                (engine_member_t){member->client->engine, member->number, rank};
    }
    return BLINK_OK;
}

static blink_result_t add_to_engine(roster_t *roster, fabric_t *fabric, const engine_remote_config_t *remote)
{
    const control_t *control = roster->control;
    places_t places = {0};
    blink_result_t result = places_fill(roster, fabric, &places);
    const engine_comm_config_t config = {.comm = roster->number,
                                         .title = roster->title,
                                         .tenant = roster->tenant,
                                         .rank_count = roster->rank_count,
                                         .member_count = places.member_count,
                                         .members = places.members,
                                         .fabric = fabric,
                                         .remote = remote,
                                         .nodes = places.nodes,
                                         .algorithm = roster->algorithm,
                                         .op_timeout_us = roster_op_timeout_us(roster)};
    if (result == BLINK_OK)
        result = engine_comm_add(control->engine, &config, &roster->engine);
    free(places.members);
    free(places.nodes);
    return result;
}

static void reply_joined(const member_t *member, bool spans_hosts)
{
    const control_t *control = member->roster->control;
    Blinkwire__CommInitReply body = BLINKWIRE__COMM_INIT_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    uint32_t gpu = control_gpu_of_device(control, member->device);
    body.member = member->number;
    body.comm = member->roster->number;
    body.device = member->device;
    body.spans_hosts = spans_hosts;
    if (gpu != GPU_NONE) {
        body.gpu_uuid.data = (uint8_t *)(uintptr_t)gpus_facts(control->gpus)->gpus[gpu].uuid;
        body.gpu_uuid.len = GPU_UUID_BYTES;
    }
    reply.id = member->request;
    reply.body_case = BLINKWIRE__REPLY__BODY_COMM_INIT;
    reply.comm_init = &body;
    connection_send(member->client->connection, &reply, NULL, 0);
}

blink_result_t gathering_complete(roster_t *roster, fabric_t *fabric, const engine_remote_config_t *remote)
{
    control_t *control = roster->control;
    BLINK_TRY(add_to_engine(roster, fabric, remote));
    if (roster->state == ROSTER_GATHERING)
        roster_end_gathering(roster);
    roster->state = ROSTER_READY;
    turns_count(&control->turns, roster->rank_count);
    tenant_event(roster->tenant, EVENT_COMM_MADE, roster->number, roster->title, LOG_LEVEL_INFO,
                 "%u ranks, algorithm %s", roster->rank_count, blink_name_algorithm(roster->algorithm));
    PROBE3(comm_made, roster->number, roster->tenant->uid, roster->rank_count);
    LIST_FOR_EACH (link, &roster->joined)
        reply_joined(CONTAINER_OF(link, member_t, of_joined), remote != NULL);
    arm_gathering_timer(control->rosters);
    links_wake(control->links);
    return BLINK_OK;
}

/* The roster that a rank may join, made if the rank is the first, and the rank's device. */
static blink_result_t find_place(const client_t *client, const Blinkwire__CommInit *message,
                                 roster_t **roster, uint32_t *device)
{
    BLINK_TRY(place_check_request(client->control, message));
    *roster = roster_find_gathering(client->control->rosters, message->unique_id.data, client->tenant->uid);
    BLINK_TRY(place_choose_device(client->control, *roster, message, device));
    if (!*roster)
        return roster_begin(client, message, roster);
    return place_check(*roster, client, message, *device);
}

/* All the rest is the home's business; it may have answered the rank when this returns. */
static void join_home(member_t *member, const Blinkwire__CommInit *message)
{
    const roster_t *roster = member->roster;
    const terms_t terms = place_terms(roster->control, message);
    member->gather.rank = member->rank;
    member->gather.device = member->device;
    member->gather.on_gpu = control_gpu_of_device(roster->control, member->device) != GPU_NONE;
    blink_result_t result = rendezvous_join(roster->control->rendezvous, roster->unique_id, roster->tenant,
                                            &terms, &member->gather);
    if (result != BLINK_OK)
        gathering_refused(member, result);
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
    roster->joined_count++;
    if (roster->has_home) {
        join_home(member, message);
        return;
    }
    result = roster->joined_count == roster->rank_count ? gathering_complete(roster, NULL, NULL) : BLINK_OK;
    if (result != BLINK_OK)
        roster_gathering_failed(roster, result);
    else
        arm_gathering_timer(rosters);
}

/* Whoever survived is known by its old number. */
static void add_missing(const member_t *place, terms_list_t *missing)
{
    char text[40];
    snprintf(text, sizeof(text), "%u", place->rank);
    if (place->roster->of_survivors && !list_is_empty(&place->of_expected))
        snprintf(text, sizeof(text), "%u (rank %u before)", place->rank, place->expected_of->rank);
    terms_list_add(missing, text);
}

/* Not all ranks came in time. */
static blink_result_t fail_late(const roster_t *roster)
{
    terms_list_t missing = {0};
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        if (!roster->members[rank].client)
            add_missing(&roster->members[rank], &missing);
    }
    return terms_fail_late(roster->joined_count, roster->rank_count, roster_init_timeout_ms(roster),
                           &roster->note, &missing, NULL);
}

/* The rosters whose ranks did not gather in time fail. */
static void on_gathering_timer(uv_timer_t *timer)
{
    rosters_t *rosters = timer->data;
    uint64_t now_ms = uv_now(&rosters->control->loop);
    roster_t *roster;
    while ((roster = LIST_FIRST(&rosters->gathering, roster_t, deadline.link)) &&
           roster->deadline.at_ms <= now_ms && !turns_is_over(&rosters->control->turns))
        roster_gathering_failed(roster, fail_late(roster));
    arm_gathering_timer(rosters);
}
