#include "control/comms/meeting.h"

#include "control/comms/abort.h"
#include "control/comms/fabrics.h"
#include "control/comms/gathering.h"
#include "control/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(FABRIC_DIGEST_BYTES == GATHER_DIGEST_BYTES, "both are of the same text");

/* ---- who the hosts are ---- */

static member_t *member_of(gather_rank_t *rank)
{
    return CONTAINER_OF(rank, member_t, gather);
}

/* READY's hosts that have ranks, in the order of their first ones: READY has them in the order in which they
 * came, and communicators of the same hosts are to have one fabric, and one plan. */
static uint32_t number_hosts(const gather_message_t *ready, uint32_t *numbers)
{
    uint32_t count = 0;
    for (uint32_t host = 0; host < ready->host_count; host++)
        numbers[host] = UINT32_MAX;
    for (uint32_t rank = 0; rank < ready->terms.rank_count; rank++) {
        uint32_t *number = &numbers[ready->seats[rank].host];
        if (*number == UINT32_MAX)
            *number = count++;
    }
    return count;
}

static void fill_hosts(const gather_message_t *ready, uint32_t own_host, const uint32_t *numbers,
                       roster_hosts_t *hosts)
{
    hosts->own = numbers[own_host];
    for (uint32_t host = 0; host < ready->host_count; host++) {
        if (numbers[host] != UINT32_MAX)
            hosts->hosts[numbers[host]] = ready->hosts[host].host;
    }
    for (uint32_t rank = 0; rank < ready->terms.rank_count; rank++) {
        hosts->host_of_rank[rank] = numbers[ready->seats[rank].host];
        hosts->device_of_rank[rank] = ready->seats[rank].device;
    }
}

static blink_result_t find_hosts(roster_t *roster, const gather_message_t *ready, uint32_t own_host)
{
    uint32_t *numbers = calloc(ready->host_count, sizeof(*numbers));
    uint32_t count = numbers ? number_hosts(ready, numbers) : 0;
    roster_hosts_t *hosts = calloc(1, sizeof(*hosts) + count * sizeof(hosts->hosts[0]));
    roster->hosts = hosts;
    if (hosts) {
        hosts->count = count;
        hosts->host_of_rank = calloc(roster->rank_count, sizeof(*hosts->host_of_rank));
        hosts->device_of_rank = calloc(roster->rank_count, sizeof(*hosts->device_of_rank));
        hosts->has_told = calloc(count, sizeof(*hosts->has_told));
    }
    bool fits = numbers && hosts && hosts->host_of_rank && hosts->device_of_rank && hosts->has_told;
    if (fits)
        fill_hosts(ready, own_host, numbers, hosts);
    free(numbers);
    return fits ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the hosts of a communicator");
}

static bool has_host(const roster_t *roster, uint64_t instance)
{
    for (uint32_t host = 0; host < roster->hosts->count; host++) {
        if (roster->hosts->hosts[host].instance == instance)
            return true;
    }
    return false;
}

/* ---- the communicator begins ---- */

/* What the engine is told of the hosts, by host. */
typedef struct met {
    fabric_host_t *hosts;
    data_endpoint_t **endpoints;
    const char **versions;
} met_t;

/* Errors: INTERNAL (a host's topology is not what the home was told of), NO_MEMORY. */
static blink_result_t met_fill(const roster_t *roster, met_t *met)
{
    const roster_hosts_t *hosts = roster->hosts;
    met->hosts = calloc(hosts->count, sizeof(*met->hosts));
    met->endpoints = calloc(hosts->count, sizeof(data_endpoint_t *));
    met->versions = calloc(hosts->count, sizeof(char *));
    if (!met->hosts || !met->endpoints || !met->versions)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the hosts of a communicator");
    for (uint32_t host = 0; host < hosts->count; host++) {
        peer_view_t view;
        (void)peers_find(roster->control->peers, hosts->hosts[host].instance, &view); /* they have met */
        if (memcmp(view.digest, hosts->hosts[host].topology, GATHER_DIGEST_BYTES) != 0)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "host %s has told two topologies", view.name);
        met->hosts[host] =
            (fabric_host_t){view.name, view.topology, view.digest, hosts->hosts[host].instance};
        met->endpoints[host] = view.endpoint;
        met->versions[host] = view.version;
    }
    return BLINK_OK;
}

static blink_result_t begin(roster_t *roster)
{
    const roster_hosts_t *hosts = roster->hosts;
    met_t met = {0};
    fabric_t *fabric = NULL;
    blink_result_t result = met_fill(roster, &met);
    if (result == BLINK_OK)
        result = fabrics_find(roster->control, met.hosts, hosts->count, hosts->own, &fabric);
    if (result == BLINK_OK) {
        const engine_remote_config_t remote = {.home = roster->comm.home,
                                               .number = roster->comm.number,
                                               .host_of_rank = hosts->host_of_rank,
                                               .endpoints = met.endpoints,
                                               .versions = met.versions};
        result = gathering_complete(roster, fabric, &remote);
    }
    fabric_put(fabric);
    free(met.hosts);
    free(met.endpoints);
    free(met.versions);
    return result;
}

/* Begin if all hosts have met; else have those meet that have not. */
static blink_result_t try_to_begin(roster_t *roster)
{
    const roster_hosts_t *hosts = roster->hosts;
    rosters_t *rosters = roster->control->rosters;
    peers_t *peers = roster->control->peers;
    bool have_met = true;
    turns_count(&roster->control->turns, hosts->count);
    for (uint32_t host = 0; host < hosts->count; host++) {
        peer_view_t view;
        if (peers_find(peers, hosts->hosts[host].instance, &view))
            continue;
        blink_result_t result = peers_reach(peers, &hosts->hosts[host], NULL);
        if (result != BLINK_OK)
            return BLINK_FAIL(result, "%s: %s", hosts->hosts[host].name, blink_error_text());
        have_met = false;
    }
    list_remove(&roster->of_meeting);
    if (have_met)
        return begin(roster);
    list_append(&rosters->meeting, &roster->of_meeting);
    return BLINK_OK;
}

static blink_result_t meet(roster_t *roster, const gather_message_t *ready, uint32_t own_host)
{
    if (!roster_name(roster, ready->comm))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator");
    BLINK_TRY(find_hosts(roster, ready, own_host));
    if (roster->hosts->count == 1)
        return gathering_complete(roster, NULL, NULL);
    return try_to_begin(roster);
}

/* ---- what gathering tells ---- */

void meeting_refused(void *context, gather_rank_t *rank, blink_result_t code)
{
    (void)context;
    member_t *member = member_of(rank);
    if (member->client)
        gathering_refused(member, code);
}

/* Members whose places others have taken: the home will refuse them, and they hear it now. */
static void refuse_unseated(const roster_t *roster)
{
    LIST_FOR_EACH (link, &roster->joined) {
        member_t *member = CONTAINER_OF(link, member_t, of_joined);
        if (member->gather.local)
            gathering_refused(member, BLINK_FAIL(BLINK_ERR_EXISTS,
                                                 "rank %u is taken by a rank of another host", member->rank));
    }
}

blink_result_t meeting_ready(void *context, const gather_message_t *ready, uint32_t own_host, list_t *ranks)
{
    (void)context;
    gather_rank_t *first = LIST_FIRST(ranks, gather_rank_t, link);
    if (!first)
        return BLINK_OK; /* this is the home, and no more */
    roster_t *roster = member_of(first)->roster;
    while (list_take_first(ranks)) {
    }
    refuse_unseated(roster);
    roster_end_gathering(roster);
    roster->state = ROSTER_MEETING;
    blink_result_t result = meet(roster, ready, own_host);
    if (result == BLINK_OK)
        return BLINK_OK;
    roster_forget_name(roster); /* who called tells the other hosts */
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    roster_gathering_failed(roster, result);
    return blink_error_set(result, "%s", text);
}

void meeting_lost(void *context, gather_comm_t comm, blink_result_t code)
{
    const control_t *control = context;
    roster_t *roster = roster_find_named(control->rosters, comm);
    char text[BLINK_ERROR_TEXT_BYTES];
    if (!roster || !roster->is_named) {
        engine_comm_forget(control->engine, comm.home, comm.number);
        return;
    }
    memcpy(text, blink_error_text(), sizeof(text));
    roster_forget_name(roster); /* the other hosts know */
    if (roster->state == ROSTER_MEETING) {
        roster_gathering_failed(roster, blink_error_set(code, "%s", text));
    } else {
        roster_end_ops(roster, code, text);
        roster_announce_abort(roster, code, text, NULL);
    }
}

/* ---- what sessions tell ---- */

/* The next roster that waits for the host, from this link on; NULL: there is none. */
static roster_t *next_waiting(const rosters_t *rosters, uint64_t instance, list_t **link)
{
    while (*link != &rosters->meeting) {
        roster_t *roster = CONTAINER_OF(*link, roster_t, of_meeting);
        *link = (*link)->next;
        if (has_host(roster, instance))
            return roster;
    }
    return NULL;
}

void meeting_host_opened(control_t *control, uint64_t instance)
{
    list_t *meeting = &control->rosters->meeting;
    size_t unseen = 0;
    LIST_FOR_EACH (link, meeting)
        unseen++;
    /* Each is looked at on its way to the end of the list, on which it is found if a host is lost. */
    for (; unseen > 0 && !list_is_empty(meeting); unseen--) {
        list_t *link = list_take_first(meeting);
        roster_t *roster = CONTAINER_OF(link, roster_t, of_meeting);
        list_append(meeting, link);
        blink_result_t result = has_host(roster, instance) ? try_to_begin(roster) : BLINK_OK;
        if (result != BLINK_OK)
            roster_gathering_failed(roster, result);
    }
}

/* "n2, with rank 4, 5, is lost: …". */
static blink_result_t fail_lost(const roster_t *roster, uint64_t instance, const char *why)
{
    const roster_hosts_t *hosts = roster->hosts;
    terms_list_t ranks = {0};
    uint32_t host = 0;
    while (hosts->hosts[host].instance != instance)
        host++;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        if (hosts->host_of_rank[rank] == host)
            terms_list_add_number(&ranks, rank);
    }
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s, with rank %s, is lost: %s", hosts->hosts[host].name,
                      terms_list_end(&ranks), why);
}

void meeting_host_lost(control_t *control, uint64_t instance, blink_result_t code)
{
    char why[BLINK_ERROR_TEXT_BYTES];
    list_t *link = control->rosters->meeting.next;
    memcpy(why, blink_error_text(), sizeof(why));
    for (roster_t *roster; (roster = next_waiting(control->rosters, instance, &link));)
        roster_gathering_failed(roster, fail_lost(roster, instance, why));
    blink_error_set(code, "%s", why);
}
