#include "control/comms/survivors.h"

#include "control/comms/children.h"
#include "control/comms/gathering.h"
#include "net/message.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* So many ranks that are looked at are a step of the loop's turn; so many rosters that are passed by. */
#define RANKS_PER_STEP   16u
#define ROSTERS_PER_STEP 64u

/* ---- who they are ---- */

/* Those who live, as they are hashed: their id is the same for all that are told the same. */
typedef struct survivors {
    uint8_t parent[UNIQUE_ID_BYTES];
    uint64_t home; /* this and the next tell communicators apart that gathered under one id */
    uint32_t comm, count;
    uint32_t ranks[]; /* ascending */
} survivors_t;

static_assert(sizeof(survivors_t) == UNIQUE_ID_BYTES + 16, "no padding: it is hashed");

static bool spans_hosts(const roster_t *roster)
{
    return roster->hosts && roster->hosts->count > 1;
}

/* On this host, or on all. To be freed. Errors: NO_MEMORY. */
static blink_result_t collect(const roster_t *roster, bool are_here, survivors_t **collected)
{
    survivors_t *survivors = calloc(1, sizeof(*survivors) + roster->rank_count * sizeof(survivors->ranks[0]));
    if (!survivors)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", roster->rank_count);
    memcpy(survivors->parent, roster->unique_id, sizeof(survivors->parent));
    survivors->home = roster->comm.home;
    survivors->comm = spans_hosts(roster) ? roster->comm.number : roster->number;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        const member_t *member = &roster->members[rank];
        if (member_lives(member) && (member->client || !are_here))
            survivors->ranks[survivors->count++] = rank;
    }
    turns_count(&roster->control->turns, roster->rank_count / RANKS_PER_STEP);
    *collected = survivors;
    return BLINK_OK;
}

/* Who spans hosts gathers at the first survivor's host that can be dialled. */
static void find_home(const roster_t *roster, const survivors_t *survivors, unique_id_t *id)
{
    for (uint32_t i = 0; i < survivors->count && id->port == 0 && spans_hosts(roster); i++) {
        const gather_host_t *host = &roster->hosts->hosts[roster->hosts->host_of_rank[survivors->ranks[i]]];
        id->port = host->port;
        id->instance = host->instance;
        memcpy(id->addresses, host->addresses, sizeof(id->addresses));
    }
}

/* Under which they gather. Only who knows the parent's id can tell it. */
static blink_result_t derive_id(const roster_t *roster, const survivors_t *survivors, unique_id_t *id)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    size_t bytes = sizeof(*survivors) + survivors->count * sizeof(survivors->ranks[0]);
    if (EVP_Digest(survivors, bytes, digest, NULL, EVP_sha256(), NULL) != 1)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "no id for survivors: OpenSSL has no SHA-256");
    *id = (unique_id_t){.version = UNIQUE_ID_VERSION};
    find_home(roster, survivors, id);
    memcpy(id->nonce, digest, sizeof(id->nonce));
    return BLINK_OK;
}

/* ---- who asks ---- */

static void answer(const member_t *member, survivors_t *survivors, unique_id_t *id)
{
    Blinkwire__CommSurvivorsReply body = BLINKWIRE__COMM_SURVIVORS_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    body.unique_id.data = (uint8_t *)id;
    body.unique_id.len = sizeof(*id);
    body.ranks = survivors->ranks;
    body.n_ranks = survivors->count;
    body.partial = member->roster->hosts && member->roster->hosts->are_partial;
    reply.id = member->asks;
    reply.body_case = BLINKWIRE__REPLY__BODY_COMM_SURVIVORS;
    reply.comm_survivors = &body;
    connection_send(member->client->connection, &reply, NULL, 0);
}

/* The code with this thread's error text. */
static void answer_all_failed(roster_t *roster, blink_result_t code)
{
    for (member_t *member; (member = LIST_FIRST(&roster->asking, member_t, of_asking));) {
        list_remove(&member->of_asking);
        connection_reply_error(member->client->connection, member->asks, code);
    }
}

static bool all_have_told(const roster_t *roster)
{
    for (uint32_t host = 0; spans_hosts(roster) && host < roster->hosts->count; host++) {
        if (!roster->hosts->has_told[host])
            return false;
    }
    return true;
}

/* Answer those who ask, if it is known what. */
static void settle(roster_t *roster)
{
    survivors_t *survivors;
    unique_id_t id;
    if (list_is_empty(&roster->asking) || !all_have_told(roster))
        return;
    blink_result_t result = collect(roster, false, &survivors);
    if (result != BLINK_OK) {
        answer_all_failed(roster, result);
        return;
    }
    result = derive_id(roster, survivors, &id);
    if (result != BLINK_OK)
        answer_all_failed(roster, result);
    LIST_FOR_EACH (link, &roster->asking) {
        member_t *member = CONTAINER_OF(link, member_t, of_asking);
        if (member->asks_fewer_than > 0 && member->asks_fewer_than <= survivors->count)
            continue;
        list_remove(link);
        answer(member, survivors, &id);
    }
    free(survivors);
}

/* ---- what hosts tell each other ---- */

/* A host that is not told is lost, as its session ends. */
static void say(peers_t *peers, const gather_host_t *host, gather_comm_t comm, const survivors_t *survivors,
                bool partial)
{
    Blinkpeer__Survivors body = BLINKPEER__SURVIVORS__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    body.comm_home = comm.home;
    body.comm_number = comm.number;
    body.ranks = (uint32_t *)(uintptr_t)survivors->ranks; /* only read */
    body.n_ranks = survivors->count;
    body.partial = partial;
    message.body_case = BLINKPEER__MESSAGE__BODY_SURVIVORS;
    message.survivors = &body;
    blink_result_t result = peers_send(peers, host, &message);
    if (result != BLINK_OK)
        peers_fail(peers, host, result);
}

/* All others that have a session hear which ranks live here. */
static void tell_hosts(const roster_t *roster)
{
    const roster_hosts_t *hosts = roster->hosts;
    peers_t *peers = roster->control->peers;
    survivors_t *survivors;
    if (!peers)
        return; /* the daemon stops */
    blink_result_t result = collect(roster, true, &survivors);
    for (uint32_t host = 0; host < hosts->count; host++) {
        peer_view_t view;
        if (host == hosts->own || !peers_find(peers, hosts->hosts[host].instance, &view))
            continue;
        if (result == BLINK_OK)
            say(peers, &hosts->hosts[host], roster->comm, survivors, hosts->are_partial);
        else
            peers_fail(peers, &hosts->hosts[host], result);
        turns_count(&roster->control->turns, 1);
    }
    if (result == BLINK_OK)
        free(survivors);
}

/* A rank of another host has gone that had survived so far. */
static void lose(member_t *member)
{
    member->survives = false;
    children_lose_rank(member, "has gone");
}

/* The ranks of a host that live, ascending; as many as are its own are taken. */
static uint32_t note(roster_t *roster, uint32_t host, const uint32_t *ranks, size_t count)
{
    roster_hosts_t *hosts = roster->hosts;
    uint32_t taken = 0;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        member_t *member = &roster->members[rank];
        if (hosts->host_of_rank[rank] != host)
            continue;
        bool lives = taken < count && ranks[taken] == rank;
        taken += lives;
        if (!hosts->has_told[host])
            member->survives = lives;
        else if (member->survives && !lives)
            lose(member);
    }
    hosts->has_told[host] = true;
    turns_count(&roster->control->turns, roster->rank_count / RANKS_PER_STEP);
    return taken;
}

/* Of hosts that have no session nobody lives. A slice is one communicator. */
static bool miss_hosts(work_t *work)
{
    roster_t *roster = CONTAINER_OF(work, roster_t, miss_hosts);
    const roster_hosts_t *hosts = roster->hosts;
    for (uint32_t host = 0; roster->control->peers && host < hosts->count; host++) {
        peer_view_t view;
        if (host != hosts->own && !peers_find(roster->control->peers, hosts->hosts[host].instance, &view))
            (void)note(roster, host, NULL, 0);
    }
    turns_count(&roster->control->turns, hosts->count);
    settle(roster);
    return false;
}

/* Some rank of some host shrinks the communicator: tell which ranks live here, and wait for the others. */
static void begin(roster_t *roster)
{
    roster_hosts_t *hosts = roster->hosts;
    if (!list_is_empty(&roster->of_shrinking))
        return;
    work_init(&roster->miss_hosts, miss_hosts);
    list_append(&roster->control->rosters->shrinking, &roster->of_shrinking);
    for (uint32_t host = 0; host < hosts->count; host++) {
        peer_view_t view;
        hosts->has_told[host] =
            host == hosts->own || !peers_find(roster->control->peers, hosts->hosts[host].instance, &view);
    }
    tell_hosts(roster);
}

/* Whoever goes back from this communicator for it is not to be gone to the others, but to take them along. */
static void note_partial(roster_t *roster, bool partial)
{
    if (!partial || roster->hosts->are_partial)
        return;
    roster->hosts->are_partial = true;
    tell_hosts(roster);
}

/* The number of a host of the roster; the number of hosts: it is none, or this one. */
static uint32_t find_host(const roster_hosts_t *hosts, uint64_t instance)
{
    uint32_t host = 0;
    while (host < hosts->count && (host == hosts->own || hosts->hosts[host].instance != instance))
        host++;
    return host;
}

blink_result_t survivors_heard(control_t *control, const gather_host_t *from,
                               const Blinkpeer__Survivors *message)
{
    const gather_comm_t comm = {message->comm_home, message->comm_number};
    roster_t *roster = roster_find_named(control->rosters, comm);
    if (roster && roster->state == ROSTER_MEETING) {
        BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s has ended on %s before it began here", roster->title, from->name);
        roster_gathering_failed(roster, BLINK_ERR_PEER_LOST);
        roster = NULL;
    }
    if (!roster || !spans_hosts(roster)) {
        if (message->n_ranks > 0 && control->peers)
            say(control->peers, from, comm, &(survivors_t){0}, true);
        return BLINK_OK;
    }
    uint32_t host = find_host(roster->hosts, from->instance);
    if (host == roster->hosts->count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it tells of ranks of a communicator that it is no host of");
    begin(roster);
    note_partial(roster, message->partial);
    uint32_t taken = note(roster, host, message->ranks, message->n_ranks);
    settle(roster);
    return taken == message->n_ranks
               ? BLINK_OK
               : BLINK_FAIL(BLINK_ERR_PROTOCOL, "it says that rank %u lives, which is another host's",
                            message->ranks[taken]);
}

void survivors_hosts_lost(control_t *control)
{
    uint32_t rosters = 0;
    LIST_FOR_EACH (link, &control->rosters->shrinking) {
        roster_t *roster = CONTAINER_OF(link, roster_t, of_shrinking);
        turns_post(&control->turns, roster->tenant, &roster->miss_hosts);
        rosters++;
    }
    turns_count(&control->turns, rosters / ROSTERS_PER_STEP);
}

void survivors_lose(member_t *member)
{
    roster_t *roster = member->roster;
    if (!list_is_empty(&member->of_asking) && member->client)
        connection_reply_error(member->client->connection, member->asks,
                               BLINK_FAIL(BLINK_ERR_PEER_LOST, "rank %u leaves %s, which it was to shrink",
                                          member->rank, roster->title));
    list_remove(&member->of_asking);
    if (list_is_empty(&roster->of_shrinking))
        return;
    tell_hosts(roster);
    settle(roster);
}

/* ---- who waits too long ---- */

static void on_asked_timer(uv_timer_t *timer);

static void arm(rosters_t *rosters)
{
    rosters_arm(&rosters->asked_timer, &rosters->asked, on_asked_timer);
}

static blink_result_t fail_late(const roster_t *roster)
{
    terms_list_t silent = {0};
    const roster_hosts_t *hosts = roster->hosts;
    double timeout_s = (double)roster_init_timeout_ms(roster) / 1e3;
    if (all_have_told(roster))
        return BLINK_FAIL(BLINK_ERR_TIMEOUT, "it was not heard within %g s which rank of %s has gone",
                          timeout_s, roster->title);
    for (uint32_t host = 0; host < hosts->count; host++) {
        if (!hosts->has_told[host])
            terms_list_add(&silent, hosts->hosts[host].name);
    }
    return BLINK_FAIL(BLINK_ERR_TIMEOUT, "%s did not tell within %g s which ranks of %s live",
                      terms_list_end(&silent), timeout_s, roster->title);
}

static void on_asked_timer(uv_timer_t *timer)
{
    rosters_t *rosters = timer->data;
    uint64_t now_ms = uv_now(&rosters->control->loop);
    roster_t *roster;
    while ((roster = LIST_FIRST(&rosters->asked, roster_t, asked.link)) && roster->asked.at_ms <= now_ms &&
           !turns_is_over(&rosters->control->turns)) {
        list_remove(&roster->asked.link);
        if (!list_is_empty(&roster->asking))
            answer_all_failed(roster, fail_late(roster));
    }
    arm(rosters);
}

/* The first who asks has all others answered in its time, too. */
static void set_limit(roster_t *roster)
{
    control_t *control = roster->control;
    list_remove(&roster->asked.link);
    turns_count(&control->turns, deadline_set(&control->rosters->asked, &roster->asked,
                                              uv_now(&control->loop) + roster_init_timeout_ms(roster)) /
                                     ROSTERS_PER_STEP);
    arm(control->rosters);
}

/* ---- asking ---- */

static blink_result_t check_hosts(const roster_t *roster)
{
    for (uint32_t host = 0; spans_hosts(roster) && host < roster->hosts->count; host++) {
        peer_view_t view;
        if (peers_find(roster->control->peers, roster->hosts->hosts[host].instance, &view) &&
            view.protocol < PEER_VERSION_SURVIVORS)
            return BLINK_FAIL(
                BLINK_ERR_UNSUPPORTED,
                "host %s has blinkd %s, which does not tell which ranks live: the survivors need "
                "a new id, by blink_get_unique_id()",
                view.name, view.version);
    }
    return BLINK_OK;
}

static blink_result_t check(const client_t *client, uint32_t number, member_t **member)
{
    BLINK_TRY(roster_find_member(client, number, member));
    if (!list_is_empty(&(*member)->of_asking))
        return BLINK_FAIL(BLINK_ERR_EXISTS, "rank %u asks for the survivors of %s already", (*member)->rank,
                          (*member)->roster->title);
    return check_hosts((*member)->roster);
}

void roster_tell_survivors(client_t *client, uint64_t request, const Blinkwire__CommSurvivors *message)
{
    member_t *member;
    blink_result_t result = check(client, message->member, &member);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    roster_t *roster = member->roster;
    bool is_first = list_is_empty(&roster->asking);
    member->asks = request;
    member->asks_fewer_than = message->fewer_than;
    list_append(&roster->asking, &member->of_asking);
    if (spans_hosts(roster))
        begin(roster);
    settle(roster);
    if (is_first && !list_is_empty(&roster->asking))
        set_limit(roster);
}
