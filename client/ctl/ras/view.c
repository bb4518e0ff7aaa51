#include "ctl/ras/view.h"

#include "base/clock.h"
#include "ctl/host.h"
#include "ctl/ops/ops.h"
#include "names.h"
#include "tools/query.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_DEVICE UINT32_MAX
#define NS_PER_S  1e9

/* ---- asking ---- */

/* Ops under way, of communicators whose ranks have all joined. One that is gone since has none. */
static blink_result_t ask_for_ops(const ctl_options_t *options, query_t *query, ras_view_t *view)
{
    const Blinkwire__QueryReply *comms = view->comms->query;
    view->ops = calloc(comms->n_comms + 1, sizeof(*view->ops));
    if (!view->ops)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu communicators", comms->n_comms);
    for (size_t i = 0; i < comms->n_comms; i++) {
        Blinkwire__Query question = ctl_question(options, BLINKWIRE__QUERY_KIND__OPS);
        question.comm = comms->comms[i]->comm;
        question.ops_since = UINT64_MAX; /* none that has ended */
        blink_result_t result = query_ask_for(query, &question, &view->ops[i]);
        if (result != BLINK_ERR_NOT_FOUND)
            BLINK_TRY(result);
    }
    return BLINK_OK;
}

static blink_result_t ask_all(const ctl_options_t *options, query_t *query, ras_view_t *view)
{
    const struct {
        Blinkwire__QueryKind kind;
        Blinkwire__Reply **reply;
    } wanted[] = {{BLINKWIRE__QUERY_KIND__STATUS, &view->status},
                  {BLINKWIRE__QUERY_KIND__DEVICES, &view->devices},
                  {BLINKWIRE__QUERY_KIND__COMMS, &view->comms},
                  {BLINKWIRE__QUERY_KIND__CLIENTS, &view->clients}};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        const Blinkwire__Query question = ctl_question(options, wanted[i].kind);
        BLINK_TRY(host_result(options, query_ask_for(query, &question, wanted[i].reply)));
    }
    if (!view->status->query->status)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon answered without a status");
    return ask_for_ops(options, query, view);
}

blink_result_t ras_open(const ctl_options_t *options, ras_view_t *view)
{
    uint64_t began_ns = clock_ns();
    query_t query;
    *view = (ras_view_t){0};
    if (options->host)
        snprintf(view->host, sizeof(view->host), "%s", options->host);
    else
        gethostname(view->host, sizeof(view->host) - 1);
    BLINK_TRY(query_open(query_socket_path(options->socket_path), "blinkctl", &query));
    blink_result_t result = ask_all(options, &query, view);
    query_close(&query);
    view->took_s = (double)(clock_ns() - began_ns) / NS_PER_S;
    return result;
}

void ras_close(ras_view_t *view)
{
    for (size_t i = 0; view->ops && i < view->comms->query->n_comms; i++)
        blinkwire__reply__free_unpacked(view->ops[i], NULL);
    free(view->ops);
    blinkwire__reply__free_unpacked(view->status, NULL);
    blinkwire__reply__free_unpacked(view->devices, NULL);
    blinkwire__reply__free_unpacked(view->clients, NULL);
    blinkwire__reply__free_unpacked(view->comms, NULL);
}

/* ---- ranks ---- */

bool ras_is_aborted(const Blinkwire__Comm *comm)
{
    return strcmp(comm->state, "aborted") == 0;
}

bool ras_is_ready(const Blinkwire__Comm *comm)
{
    return strcmp(comm->state, "ready") == 0;
}

static const Blinkwire__Client *find_client(const ras_view_t *view, uint32_t number)
{
    const Blinkwire__QueryReply *clients = view->clients->query;
    for (size_t i = 0; i < clients->n_clients; i++)
        if (clients->clients[i]->client == number)
            return clients->clients[i];
    return NULL;
}

static const Blinkwire__Device *find_device(const ras_view_t *view, uint32_t index)
{
    const Blinkwire__QueryReply *devices = view->devices->query;
    for (size_t i = 0; i < devices->n_devices; i++)
        if (devices->devices[i]->index == index)
            return devices->devices[i];
    return NULL;
}

ras_rank_t ras_rank(const ras_view_t *view, const Blinkwire__Comm *comm, uint32_t rank)
{
    uint32_t client = rank < comm->n_clients ? comm->clients[rank] : 0;
    uint32_t device = rank < comm->n_devices ? comm->devices[rank] : NO_DEVICE;
    ras_rank_t found = {.client = find_client(view, client), .device = find_device(view, device)};
    if (client != 0)
        found.place = RAS_HERE;
    else if (device != NO_DEVICE)
        found.place = RAS_LEFT;
    else
        found.place = strcmp(comm->state, "joining") == 0 ? RAS_NOT_JOINED : RAS_ELSEWHERE;
    return found;
}

uint32_t ras_missing(const ras_view_t *view, const Blinkwire__Comm *comm)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < comm->rank_count; rank++)
        count += ras_is_missing(ras_rank(view, comm, rank).place);
    return count;
}

/* ---- ops ---- */

static const Blinkwire__QueryReply *ops_of(const ras_view_t *view, size_t comm)
{
    return view->ops[comm] ? view->ops[comm]->query : NULL;
}

const Blinkwire__Op *ras_oldest(const ras_view_t *view, size_t comm)
{
    const Blinkwire__QueryReply *ops = ops_of(view, comm);
    return ops && ops->n_ops > 0 ? ops->ops[0] : NULL;
}

bool ras_came(const Blinkwire__Op *op, uint32_t rank)
{
    for (size_t i = 0; i < op->n_ranks && i < op->n_came_us; i++)
        if (op->ranks[i] == rank)
            return op->came_us[i] != OPS_NOT_COME;
    return true;
}

bool ras_mismatches(const ras_view_t *view, size_t comm)
{
    const Blinkwire__QueryReply *ops = ops_of(view, comm);
    for (size_t i = 0; ops && i < ops->n_ops; i++) {
        size_t last = ops_last(ops->ops[i]);
        if (last < ops->ops[i]->n_ranks && ops->ops[i]->came_us[last] == OPS_NOT_COME)
            return true;
    }
    return false;
}

static const struct {
    const char *name;
    blink_collective_t collective;
} kinds[RAS_KINDS - 1] = {
    {"Broadcast", BLINK_BROADCAST}, {"Reduce", BLINK_REDUCE},
    {"AllGather", BLINK_ALLGATHER}, {"ReduceScatter", BLINK_REDUCESCATTER},
    {"AllReduce", BLINK_ALLREDUCE}, {"Gather", BLINK_GATHER},
    {"Scatter", BLINK_SCATTER},     {"AlltoAll", BLINK_ALLTOALL},
};

const char *ras_kind_name(unsigned kind)
{
    return kind < RAS_KINDS - 1 ? kinds[kind].name : "Other";
}

static unsigned kind_of(const char *collective)
{
    blink_collective_t found;
    unsigned kind = 0;
    if (!blink_parse_collective(collective, &found))
        return RAS_KINDS - 1;
    while (kind < RAS_KINDS - 1 && kinds[kind].collective != found)
        kind++;
    return kind;
}

/* Plans count the ops that moved something; all others are the rest of what has ended. */
static uint64_t count_ended(const Blinkwire__Comm *comm, unsigned kind)
{
    uint64_t of_kind = 0, of_named = 0, all = comm->op_count + comm->failed_op_count;
    for (size_t i = 0; i < comm->n_plans; i++) {
        unsigned found = kind_of(comm->plans[i]->collective);
        of_kind += found == kind ? comm->plans[i]->op_count : 0;
        of_named += found < RAS_KINDS - 1 ? comm->plans[i]->op_count : 0;
    }
    if (kind < RAS_KINDS - 1)
        return of_kind;
    return all > of_named ? all - of_named : 0;
}

/* A transfer is of two ranks and says nothing about the others. */
static bool is_of_all(const Blinkwire__Op *op)
{
    return strcmp(op->collective, blink_name_collective(BLINK_SENDRECV)) != 0;
}

uint64_t ras_count(const ras_view_t *view, size_t comm, uint32_t rank, unsigned kind)
{
    const Blinkwire__QueryReply *ops = ops_of(view, comm);
    uint64_t count = count_ended(view->comms->query->comms[comm], kind);
    for (size_t i = 0; ops && i < ops->n_ops; i++) {
        const Blinkwire__Op *op = ops->ops[i];
        unsigned found = op->bytes > 0 ? kind_of(op->collective) : RAS_KINDS - 1;
        count += found == kind && is_of_all(op) && ras_came(op, rank);
    }
    return count;
}
