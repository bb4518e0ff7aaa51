/*
 * Communicators: ranks that gather under an unguessable id, leave, abort and die. What they submit is the
 * engine's business.
 */
#include "control/internal.h"

#include "base/log.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

struct tenant {
    tenant_t *next;
    uid_t uid;
    uint32_t comm_count;
};

/* NULL: no memory. */
static tenant_t *tenant_of(server_t *server, uid_t uid)
{
    tenant_t *tenant = server->tenants;
    while (tenant && tenant->uid != uid)
        tenant = tenant->next;
    if (tenant)
        return tenant;
    tenant = calloc(1, sizeof(*tenant));
    if (tenant) {
        tenant->uid = uid;
        tenant->next = server->tenants;
        server->tenants = tenant;
    }
    return tenant;
}

void comm_free_tenants(server_t *server)
{
    while (server->tenants) {
        tenant_t *tenant = server->tenants;
        server->tenants = tenant->next;
        free(tenant);
    }
}

static member_t **member_bucket(server_t *server, uint32_t number)
{
    return &server->members[number % MEMBER_BUCKETS];
}

static void unlink_member(member_t *member)
{
    *member->previous_next = member->next;
    if (member->next)
        member->next->previous_next = member->previous_next;
    member->client->member_count--;
    member_t **link = member_bucket(member->client->server, member->member);
    while (*link != member)
        link = &(*link)->next_bucket;
    *link = member->next_bucket;
}

static void link_member(member_t *member, client_t *client)
{
    member_t **bucket = member_bucket(client->server, member->member);
    member->client = client;
    member->next = client->members;
    member->previous_next = &client->members;
    if (member->next)
        member->next->previous_next = &member->next;
    client->members = member;
    client->member_count++;
    member->next_bucket = *bucket;
    *bucket = member;
}

static member_t *find_member(const client_t *client, uint32_t number)
{
    member_t *member = *member_bucket(client->server, number);
    while (member && (member->member != number || member->client != client))
        member = member->next_bucket;
    return member && !member->leaving ? member : NULL;
}

static void link_comm(comm_t *comm)
{
    server_t *server = comm->server;
    comm->next = server->comms;
    comm->previous_next = &server->comms;
    if (comm->next)
        comm->next->previous_next = &comm->next;
    server->comms = comm;
    comm->next_gathering = server->gathering;
    server->gathering = comm;
    server->comm_count++;
    comm->tenant->comm_count++;
}

static void end_gathering(comm_t *comm)
{
    comm_t **link = &comm->server->gathering;
    while (*link != comm)
        link = &(*link)->next_gathering;
    *link = comm->next_gathering;
}

static void comm_free(comm_t *comm)
{
    *comm->previous_next = comm->next;
    if (comm->next)
        comm->next->previous_next = comm->previous_next;
    comm->server->comm_count--;
    comm->tenant->comm_count--;
    free(comm);
}

static comm_t *find_gathering(server_t *server, const uint8_t unique_id[16])
{
    comm_t *comm = server->gathering;
    while (comm && memcmp(comm->unique_id, unique_id, sizeof(comm->unique_id)) != 0)
        comm = comm->next_gathering;
    return comm;
}

/* ---- gathering ---- */

/* Timers run for the communicator whose gathering ends first. */
static void arm_init_timer(server_t *server)
{
    uint64_t earliest_ms = UINT64_MAX, now_ms = uv_now(&server->loop);
    for (const comm_t *comm = server->gathering; comm; comm = comm->next_gathering) {
        if (comm->deadline_ms < earliest_ms)
            earliest_ms = comm->deadline_ms;
    }
    if (earliest_ms == UINT64_MAX)
        uv_timer_stop(&server->init_timer);
    else
        uv_timer_start(&server->init_timer, comm_on_init_timer,
                       earliest_ms > now_ms ? earliest_ms - now_ms : 0, 0);
}

static blink_result_t check_request(const Blinkwire__CommInit *message)
{
    if (message->unique_id.len != sizeof(((comm_t *)0)->unique_id))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a communicator id of %zu bytes, not 16",
                          message->unique_id.len);
    if (message->rank_count == 0 || message->rank_count > PLAN_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u ranks: from 1 to %u are possible",
                          message->rank_count, PLAN_RANKS_MAX);
    if (message->rank >= message->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u of %u ranks: the last one is %u",
                          message->rank, message->rank_count, message->rank_count - 1);
    if (message->device < -1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "device %d: a number from 0, or -1 for the rank's own",
                          message->device);
    if (!blink_algorithm_valid(message->algorithm))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown algorithm %u", message->algorithm);
    return BLINK_OK;
}

/* ---- devices ---- */

static bool is_taken(const comm_t *comm, uint32_t device)
{
    for (uint32_t rank = 0; comm && rank < comm->rank_count; rank++) {
        if (comm->members[rank].client && comm->members[rank].device == device)
            return true;
    }
    return false;
}

/* The first device of a GPU that no rank has; if all are taken, the last of them, for the refusal to name.
 * False: the daemon has none on that GPU. */
static bool find_device_on(const server_t *server, const comm_t *comm, uint32_t gpu, uint32_t *device)
{
    bool found = false;
    for (uint32_t i = 0; i < server->config.device_count; i++) {
        if (server_gpu_of_device(server, i) != gpu)
            continue;
        *device = i;
        found = true;
        if (!is_taken(comm, i))
            break;
    }
    return found;
}

/* `comm` is NULL for its first rank. */
static blink_result_t choose_device(const server_t *server, const comm_t *comm,
                                    const Blinkwire__CommInit *message, uint32_t *device)
{
    uint32_t gpu, count = server->config.device_count;
    *device = message->device < 0 ? message->rank : (uint32_t)message->device;
    if (message->device < 0 && message->gpu_uuid.len > 0 && server->gpus &&
        gpus_find(server->gpus, message->gpu_uuid.data, message->gpu_uuid.len, &gpu) == BLINK_OK &&
        find_device_on(server, comm, gpu, device))
        return gpus_check(server->gpus);
    if (*device >= count)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "rank %u asks for device %u; this daemon has devices 0 to %u",
                          message->rank, *device, count - 1);
    return server_gpu_of_device(server, *device) == EXEC_CUDA_NO_GPU ? BLINK_OK : gpus_check(server->gpus);
}

static const char *device_kind(const server_t *server, uint32_t device)
{
    return server_gpu_of_device(server, device) == EXEC_CUDA_NO_GPU ? "a host device" : "on a GPU";
}

static blink_result_t check_quota(const client_t *client, const tenant_t *tenant)
{
    uint32_t limit = client->server->config.settings->comms_per_tenant;
    if (!tenant)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another user");
    if (tenant->comm_count >= limit)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "user %u has %u communicators, the limit is %u", tenant->uid,
                          tenant->comm_count, limit);
    return BLINK_OK;
}

/* Whether a rank fits what those that joined before it have said. */
static blink_result_t check_agreement(const comm_t *comm, const client_t *client,
                                      const Blinkwire__CommInit *message, uint32_t device)
{
    if (comm->uid != client->connection->uid)
        return BLINK_FAIL(BLINK_ERR_PERMISSION, "the communicator belongs to another user");
    if (comm->rank_count != message->rank_count)
        return BLINK_FAIL(BLINK_ERR_MISMATCH,
                          "rank %u joined a communicator of %u ranks, rank %u asks for %u", comm->first_rank,
                          comm->rank_count, message->rank, message->rank_count);
    if (comm->algorithm != message->algorithm)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "rank %u asked for algorithm %s, rank %u asks for %s",
                          comm->first_rank, blink_name_algorithm(comm->algorithm), message->rank,
                          blink_name_algorithm(message->algorithm));
    if (comm->op_timeout_ms != message->op_timeout_ms)
        return BLINK_FAIL(BLINK_ERR_MISMATCH,
                          "rank %u asked for an op timeout of %u ms, rank %u asks for %u ms",
                          comm->first_rank, comm->op_timeout_ms, message->rank, message->op_timeout_ms);
    if (comm->members[message->rank].client)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "rank %u has joined this communicator already", message->rank);
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        if (comm->members[rank].client && comm->members[rank].device == device)
            return BLINK_FAIL(BLINK_ERR_EXISTS, "rank %u asks for device %u, which rank %u has taken",
                              message->rank, device, rank);
    }
    uint32_t first = comm->members[comm->first_rank].device;
    const char *kind = device_kind(comm->server, device), *first_kind = device_kind(comm->server, first);
    if (kind != first_kind)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "rank %u's device %u is %s, rank %u's device %u is %s: a communicator has one kind",
                          comm->first_rank, first, first_kind, message->rank, device, kind);
    return BLINK_OK;
}

static blink_result_t comm_create(const client_t *client, const Blinkwire__CommInit *message,
                                  comm_t **created)
{
    server_t *server = client->server;
    tenant_t *tenant = tenant_of(server, client->connection->uid);
    BLINK_TRY(check_quota(client, tenant));
    comm_t *comm = calloc(1, sizeof(*comm) + message->rank_count * sizeof(comm->members[0]));
    if (!comm)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks",
                          message->rank_count);
    comm->server = server;
    comm->comm = ++server->next_comm;
    memcpy(comm->unique_id, message->unique_id.data, sizeof(comm->unique_id));
    comm->uid = client->connection->uid;
    comm->tenant = tenant;
    comm->op_timeout_ms = message->op_timeout_ms;
    comm->rank_count = message->rank_count;
    comm->first_rank = message->rank;
    comm->algorithm = (blink_algorithm_t)message->algorithm;
    comm->deadline_ms = uv_now(&server->loop) + (uint64_t)(server->config.settings->init_timeout_s * 1e3);
    link_comm(comm);
    *created = comm;
    return BLINK_OK;
}

/* Everybody who gathered so far hears why it came to nothing. */
static void gathering_failed(comm_t *comm, blink_result_t code)
{
    server_t *server = comm->server;
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        member_t *member = &comm->members[rank];
        if (!member->client)
            continue;
        connection_reply_error(member->client->connection, member->request, code);
        unlink_member(member);
    }
    end_gathering(comm);
    comm_free(comm);
    arm_init_timer(server);
}

static void gathering_complete(comm_t *comm)
{
    server_t *server = comm->server;
    engine_member_t *members = calloc(comm->rank_count, sizeof(*members));
    if (!members) {
        BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks", comm->rank_count);
        gathering_failed(comm, BLINK_ERR_NO_MEMORY);
        return;
    }
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        member_t *member = &comm->members[rank];
        members[rank] = (engine_member_t){member->client->engine, member->member,
                                          server->config.topo->gpus[member->device]};
    }
    double op_timeout_s =
        comm->op_timeout_ms > 0 ? comm->op_timeout_ms / 1e3 : server->config.settings->op_timeout_s;
    engine_comm_config_t config = {comm->comm, comm->rank_count, members, comm->algorithm,
                                   (uint64_t)(op_timeout_s * 1e6)};
    blink_result_t result = engine_comm_add(server->engine, &config, &comm->engine);
    free(members);
    if (result != BLINK_OK) {
        gathering_failed(comm, result);
        return;
    }
    comm->state = COMM_READY;
    end_gathering(comm);
    LOG_INFO("communicator %u: %u ranks, algorithm %s", comm->comm, comm->rank_count,
             blink_name_algorithm(comm->algorithm));
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        const member_t *member = &comm->members[rank];
        Blinkwire__CommInitReply body = BLINKWIRE__COMM_INIT_REPLY__INIT;
        Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
        body.member = member->member;
        body.comm = comm->comm;
        body.device = member->device;
        uint32_t gpu = server_gpu_of_device(server, member->device);
        if (gpu != EXEC_CUDA_NO_GPU) {
            body.gpu_uuid.data = (uint8_t *)(uintptr_t)gpus_facts(server->gpus)->gpus[gpu].uuid;
            body.gpu_uuid.len = GPU_UUID_BYTES;
        }
        reply.id = member->request;
        reply.body_case = BLINKWIRE__REPLY__BODY_COMM_INIT;
        reply.comm_init = &body;
        connection_send(member->client->connection, &reply, NULL, 0);
    }
    arm_init_timer(server);
    links_wake(server->links);
}

void comm_join(client_t *client, uint64_t request, const Blinkwire__CommInit *message)
{
    server_t *server = client->server;
    comm_t *comm = NULL;
    uint32_t device;
    blink_result_t result = check_request(message);
    if (result == BLINK_OK) {
        comm = find_gathering(server, message->unique_id.data);
        result = choose_device(server, comm, message, &device);
    }
    if (result == BLINK_OK) {
        result = comm ? check_agreement(comm, client, message, device) : comm_create(client, message, &comm);
    }
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    member_t *member = &comm->members[message->rank];
    *member = (member_t){.comm = comm,
                         .rank = message->rank,
                         .member = ++server->next_member,
                         .device = device,
                         .request = request};
    link_member(member, client);
    if (++comm->joined_count == comm->rank_count)
        gathering_complete(comm);
    else
        arm_init_timer(server);
}

/* "1, 3 and 5 more": the ranks that have not joined, as far as they fit. */
static void name_missing(const comm_t *comm, char *text, size_t bytes)
{
    size_t used = 0;
    uint32_t unnamed = 0;
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        if (comm->members[rank].client)
            continue;
        if (used + 24 < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? ", " : "", rank);
        else
            unnamed++;
    }
    if (unnamed > 0)
        snprintf(text + used, bytes - used, " and %u more", unnamed);
}

void comm_on_init_timer(uv_timer_t *timer)
{
    server_t *server = timer->data;
    uint64_t now_ms = uv_now(&server->loop);
    comm_t *next;
    for (comm_t *comm = server->gathering; comm; comm = next) {
        next = comm->next_gathering;
        if (comm->deadline_ms > now_ms)
            continue;
        char missing[96] = "";
        name_missing(comm, missing, sizeof(missing));
        BLINK_FAIL(BLINK_ERR_TIMEOUT, "only %u of %u ranks joined within %g s; missing: rank %s",
                   comm->joined_count, comm->rank_count, server->config.settings->init_timeout_s, missing);
        gathering_failed(comm, BLINK_ERR_TIMEOUT);
    }
    arm_init_timer(server);
}

/* ---- losing ---- */

/* Tell every member that is still there, except one, that the communicator is of no more use. The first
 * reason counts. */
static void announce_lost(comm_t *comm, blink_result_t code, const char *text, const member_t *except)
{
    if (comm->state == COMM_LOST)
        return;
    comm->state = COMM_LOST;
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        const member_t *member = &comm->members[rank];
        if (member == except || member->leaving || member->left)
            continue;
        Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
        Blinkwire__CommLost lost = BLINKWIRE__COMM_LOST__INIT;
        Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
        error.code = (uint32_t)code;
        error.text = (char *)(uintptr_t)text; /* only read */
        lost.member = member->member;
        lost.error = &error;
        reply.body_case = BLINKWIRE__REPLY__BODY_COMM_LOST;
        reply.comm_lost = &lost;
        connection_send(member->client->connection, &reply, NULL, 0);
    }
}

void comm_lost_by_engine(void *context, uint32_t number, blink_result_t code, const char *text)
{
    server_t *server = context;
    for (comm_t *comm = server->comms; comm; comm = comm->next) {
        if (comm->comm == number)
            announce_lost(comm, code, text, NULL);
    }
}

void comm_end_all(server_t *server)
{
    static const char text[] = "the daemon is stopping";
    comm_t *next;
    for (comm_t *comm = server->comms; comm; comm = next) {
        next = comm->next;
        if (comm->state == COMM_JOINING) {
            BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "%s", text);
            gathering_failed(comm, BLINK_ERR_DAEMON_LOST);
        } else {
            engine_comm_abort(comm->engine, BLINK_ERR_DAEMON_LOST, text);
            announce_lost(comm, BLINK_ERR_DAEMON_LOST, text, NULL);
        }
    }
}

void comm_abort(client_t *client, uint64_t request, uint32_t number)
{
    member_t *member = find_member(client, number);
    if (!member || member->comm->state == COMM_JOINING) {
        BLINK_FAIL(BLINK_ERR_NOT_FOUND, "this client has no communicator handle %u", number);
        connection_reply_error(client->connection, request, BLINK_ERR_NOT_FOUND);
        return;
    }
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "rank %u (pid %d) aborted communicator %u", member->rank,
             client->connection->pid, member->comm->comm);
    engine_comm_abort(member->comm->engine, BLINK_ERR_ABORTED, text);
    announce_lost(member->comm, BLINK_ERR_ABORTED, text, member);
    connection_reply_ok(client->connection, request);
}

/* ---- leaving ---- */

static void on_left(void *context)
{
    member_t *member = context;
    comm_t *comm = member->comm;
    member->left = true;
    comm->left_count++;
    /* A client that is gone took its members along in comm_client_lost(). */
    if (member->client) {
        connection_reply_ok(member->client->connection, member->request);
        unlink_member(member);
        member->client = NULL;
    }
    if (comm->left_count == comm->rank_count) {
        LOG_INFO("communicator %u: ended", comm->comm);
        comm_free(comm);
    }
}

void comm_destroy(client_t *client, uint64_t request, uint32_t number)
{
    member_t *member = find_member(client, number);
    if (!member || member->comm->state == COMM_JOINING) {
        BLINK_FAIL(BLINK_ERR_NOT_FOUND, "this client has no communicator handle %u", number);
        connection_reply_error(client->connection, request, BLINK_ERR_NOT_FOUND);
        return;
    }
    member->leaving = true;
    member->request = request;
    engine_comm_leave(member->comm->engine, member->rank, false, NULL, (engine_done_t){on_left, member});
}

static void member_lost(member_t *member, const char *text)
{
    comm_t *comm = member->comm;
    bool was_leaving = member->leaving;
    unlink_member(member);
    if (comm->state == COMM_JOINING) {
        member->client = NULL;
        BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s before all ranks had joined", text);
        gathering_failed(comm, BLINK_ERR_PEER_LOST);
        return;
    }
    member->client = NULL;
    if (was_leaving)
        return;
    member->leaving = true;
    announce_lost(comm, BLINK_ERR_PEER_LOST, text, member);
    engine_comm_leave(comm->engine, member->rank, true, text, (engine_done_t){on_left, member});
}

void comm_client_lost(client_t *client)
{
    while (client->members) {
        char text[BLINK_ERROR_TEXT_BYTES];
        snprintf(text, sizeof(text), "rank %u (pid %d) disconnected", client->members->rank,
                 client->connection->pid);
        member_lost(client->members, text);
    }
}
