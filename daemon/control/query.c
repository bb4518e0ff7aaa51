#include "control/query.h"

#include "base/clock.h"
#include "collective.h"
#include "control/comms/roster.h"
#include "control/gpus.h"
#include "control/links.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The device of a rank that has not joined. */
#define NO_DEVICE UINT32_MAX

#define GPU_UUID_TEXT_BYTES 41

static void send_query_reply(connection_t *connection, uint64_t request, Blinkwire__QueryReply *body)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    reply.id = request;
    reply.body_case = BLINKWIRE__REPLY__BODY_QUERY;
    reply.query = body;
    connection_send(connection, &reply, NULL, 0);
}

static void reply_no_memory(connection_t *connection, uint64_t request)
{
    BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the answer");
    connection_reply_error(connection, request, BLINK_ERR_NO_MEMORY);
}

static void answer_status(const control_t *control, connection_t *connection, uint64_t request)
{
    Blinkwire__StatusReply status = BLINKWIRE__STATUS_REPLY__INIT;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    engine_comm_stats_t totals = engine_total_stats(control->engine);
    status.version = BLINK_VERSION;
    status.pid = (uint32_t)getpid();
    status.uptime_s = (double)(clock_ns() - control->started_ns) / 1e9;
    status.topology = control->topo->name;
    status.device_count = control->device_count;
    status.client_count = control->client_count;
    status.comm_count = control->rosters->count;
    status.worker_count = exec_host_workers(control->exec);
    status.op_count = totals.op_count;
    status.failed_op_count = totals.failed_op_count;
    status.engine_steps_most = engine_longest_turn(control->engine);
    status.pace_scale = control->settings->pace_scale;
    status.turn_steps_most = control->turns.steps_most;
    status.socket = (char *)(uintptr_t)control->settings->socket;
    if (control->gpus) {
        status.gpu_sharing = (char *)(uintptr_t)settings_sharing_name(control->settings);
        status.gpu_worker_pid = (uint32_t)gpus_worker_pid(control->gpus);
        status.gpu_worker_restarts = gpus_restarts(control->gpus);
    }
    LIST_FOR_EACH (link, &control->clients)
        status.registered_bytes += CONTAINER_OF(link, client_t, link)->registered_bytes;
    body.status = &status;
    send_query_reply(connection, request, &body);
}

static uint32_t rosters_on_device(const control_t *control, uint32_t device)
{
    uint32_t count = 0;
    LIST_FOR_EACH (link, &control->rosters->all) {
        const roster_t *roster = CONTAINER_OF(link, roster_t, link);
        for (uint32_t rank = 0; rank < roster->rank_count; rank++)
            count += roster->members[rank].client && roster->members[rank].device == device;
    }
    return count;
}

/* "GPU-" and the UUID as nvidia-smi writes it. */
static void write_uuid(const uint8_t uuid[GPU_UUID_BYTES], char text[GPU_UUID_TEXT_BYTES])
{
    size_t used = (size_t)snprintf(text, GPU_UUID_TEXT_BYTES, "GPU-");
    for (uint32_t i = 0; i < GPU_UUID_BYTES; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        used += (size_t)snprintf(text + used, GPU_UUID_TEXT_BYTES - used, "%s%02x", dash, uuid[i]);
    }
}

static void describe_device(const control_t *control, uint32_t device, Blinkwire__Device *described,
                            char uuid[GPU_UUID_TEXT_BYTES])
{
    const topo_t *topo = control->topo;
    uint32_t gpu = control_gpu_of_device(control, device);
    blinkwire__device__init(described);
    described->index = device;
    described->node = topo->nodes[topo->gpus[device]].id;
    described->kind = gpu == GPU_NONE ? "host" : "cuda";
    described->comm_count = rosters_on_device(control, device);
    if (gpu == GPU_NONE)
        return;
    const gpu_facts_t *facts = &gpus_facts(control->gpus)->gpus[gpu];
    write_uuid(facts->uuid, uuid);
    described->gpu = gpu;
    described->gpu_peers = facts->peers;
    described->gpu_uuid = uuid;
}

static void answer_devices(const control_t *control, connection_t *connection, uint64_t request)
{
    uint32_t count = control->device_count;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Device *devices = calloc(count, sizeof(*devices));
    char(*uuids)[GPU_UUID_TEXT_BYTES] = calloc(count, sizeof(*uuids));
    body.devices = calloc(count, sizeof(*body.devices));
    if (!devices || !uuids || !body.devices) {
        reply_no_memory(connection, request);
        goto done;
    }
    for (uint32_t i = 0; i < count; i++) {
        describe_device(control, i, &devices[i], uuids[i]);
        body.devices[body.n_devices++] = &devices[i];
    }
    send_query_reply(connection, request, &body);
done:
    free(devices);
    free(uuids);
    free(body.devices);
}

static void answer_topology(const control_t *control, connection_t *connection, uint64_t request)
{
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    blink_result_t result = topo_write_json(control->topo, &body.topology_json);
    if (result != BLINK_OK) {
        connection_reply_error(connection, request, result);
        return;
    }
    send_query_reply(connection, request, &body);
    free(body.topology_json);
}

/* An op that ends meanwhile may be in one sum and not yet in another. */
static void describe_times(const plan_use_t *use, Blinkwire__PlanInUse *plan)
{
    /* Relaxed: counters, each right by itself. */
    plan->measured_count = atomic_load_explicit(&use->measured_count, memory_order_relaxed);
    if (plan->measured_count == 0)
        return;
    double scale = (double)plan->measured_count * 1e3;
    plan->predicted_us = (double)atomic_load_explicit(&use->predicted_ns, memory_order_relaxed) / scale;
    plan->measured_us = (double)atomic_load_explicit(&use->measured_ns, memory_order_relaxed) / scale;
    plan->measured_least_us =
        (double)atomic_load_explicit(&use->measured_ns_least, memory_order_relaxed) * 1e-3;
}

/* What memory does not suffice for is left out. */
static void describe_plans(const plan_use_t *first, Blinkwire__Comm *described)
{
    size_t count = 0;
    for (const plan_use_t *use = first; use; use = use->next)
        count++;
    Blinkwire__PlanInUse *plans = calloc(count + 1, sizeof(*plans));
    described->plans = calloc(count + 1, sizeof(*described->plans));
    for (const plan_use_t *use = first; use && plans && described->plans && described->n_plans < count;
         use = use->next) {
        Blinkwire__PlanInUse *plan = &plans[described->n_plans];
        blinkwire__plan_in_use__init(plan);
        plan->collective = (char *)(uintptr_t)collective_op_name(use->opcode);
        plan->algorithm = (char *)(uintptr_t)blink_name_algorithm(use->algorithm);
        plan->protocol = (char *)(uintptr_t)blink_name_protocol(use->protocol);
        plan->transport = (char *)(uintptr_t)use->transport;
        /* Relaxed: counters, each right by itself. */
        plan->bytes_least = atomic_load_explicit(&use->bytes_least, memory_order_relaxed);
        plan->bytes_most = atomic_load_explicit(&use->bytes_most, memory_order_relaxed);
        plan->op_count = atomic_load_explicit(&use->op_count, memory_order_relaxed);
        describe_times(use, plan);
        described->plans[described->n_plans++] = plan;
    }
    if (described->n_plans == 0) {
        free(plans);
        free(described->plans);
        described->plans = NULL;
    }
}

static void free_described(Blinkwire__Comm *described)
{
    if (described->n_plans > 0)
        free(described->plans[0]); /* the first of one array */
    free(described->plans);
    free(described->devices);
    free(described);
}

static Blinkwire__Comm *describe_roster(const roster_t *roster)
{
    static const char *const states[] = {
        [ROSTER_GATHERING] = "joining", [ROSTER_READY] = "ready", [ROSTER_ABORTED] = "aborted"};
    Blinkwire__Comm *described = calloc(1, sizeof(*described));
    uint32_t *by_rank = calloc(2 * roster->rank_count, sizeof(*by_rank));
    if (!described || !by_rank) {
        free(described);
        free(by_rank);
        return NULL;
    }
    blinkwire__comm__init(described);
    described->comm = roster->number;
    described->rank_count = roster->rank_count;
    described->devices = by_rank;
    described->clients = by_rank + roster->rank_count;
    described->n_devices = described->n_clients = roster->rank_count;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        const member_t *member = &roster->members[rank];
        /* A rank that has left keeps its device. */
        described->devices[rank] = member->number > 0 ? member->device : NO_DEVICE;
        described->clients[rank] = member->client ? member->client->number : 0;
    }
    described->state = (char *)(uintptr_t)states[roster->state];
    described->algorithm = (char *)(uintptr_t)blink_name_algorithm(roster->algorithm);
    described->uid = roster->tenant->uid;
    if (roster->engine) {
        engine_comm_stats_t stats = engine_comm_stats(roster->engine);
        described->op_count = stats.op_count;
        described->bytes = stats.payload_bytes;
        described->direct_bytes = stats.direct_bytes;
        described->staged_bytes = stats.staged_bytes;
        describe_plans(engine_comm_plan_uses(roster->engine), described);
    }
    return described;
}

static void answer_comms(const control_t *control, connection_t *connection, uint64_t request)
{
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    body.comms = calloc(control->rosters->count + 1, sizeof(*body.comms));
    LIST_FOR_EACH (link, &control->rosters->all) {
        Blinkwire__Comm *described = body.comms ? describe_roster(CONTAINER_OF(link, roster_t, link)) : NULL;
        if (described)
            body.comms[body.n_comms++] = described;
    }
    send_query_reply(connection, request, &body);
    for (size_t i = 0; i < body.n_comms; i++)
        free_described(body.comms[i]);
    free(body.comms);
}

static void answer_clients(const control_t *control, connection_t *connection, uint64_t request)
{
    uint32_t count = control->client_count;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Client *clients = calloc(count + 1, sizeof(*clients));
    body.clients = calloc(count + 1, sizeof(*body.clients));
    if (!clients || !body.clients) {
        reply_no_memory(connection, request);
        goto done;
    }
    LIST_FOR_EACH (link, &control->clients) {
        const client_t *client = CONTAINER_OF(link, client_t, link);
        Blinkwire__Client *described = &clients[body.n_clients];
        blinkwire__client__init(described);
        described->client = client->number;
        described->pid = (uint32_t)client->pid;
        described->uid = client->tenant->uid;
        described->program = (char *)(uintptr_t)client->program;
        described->registered_bytes = client->registered_bytes;
        described->region_count = client->region_count;
        described->member_count = client->member_count;
        described->op_count = engine_client_op_count(client->engine);
        body.clients[body.n_clients++] = described;
    }
    send_query_reply(connection, request, &body);
done:
    free(clients);
    free(body.clients);
}

void query_answer(control_t *control, connection_t *connection, uint64_t request, Blinkwire__QueryKind kind)
{
    switch (kind) {
    case BLINKWIRE__QUERY_KIND__STATUS:
        answer_status(control, connection, request);
        return;
    case BLINKWIRE__QUERY_KIND__DEVICES:
        answer_devices(control, connection, request);
        return;
    case BLINKWIRE__QUERY_KIND__TOPOLOGY:
        answer_topology(control, connection, request);
        return;
    case BLINKWIRE__QUERY_KIND__LINKS:
        links_query(control->links, connection, request);
        return;
    case BLINKWIRE__QUERY_KIND__COMMS:
        answer_comms(control, connection, request);
        return;
    case BLINKWIRE__QUERY_KIND__CLIENTS:
        answer_clients(control, connection, request);
        return;
    default:
        BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "unknown query %d", (int)kind);
        connection_reply_error(connection, request, BLINK_ERR_UNSUPPORTED);
    }
}
