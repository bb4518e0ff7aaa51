/* The lists of devices, communicators, clients, tenants and hosts. */
#include "ctl/list/listing.h"

#include "tools/human.h"

#include <stdlib.h>
#include <string.h>

/* A comma-separated list, "-" for the number that means none. */
static char *join_numbers(const uint32_t *numbers, size_t count, uint32_t none)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "," : "", out);
        if (numbers[i] == none)
            fputc('-', out);
        else
            fprintf(out, "%u", numbers[i]);
    }
    fclose(out);
    return text;
}

/* The greatest number is null: a device of another host's. */
static json_t *number_array(const uint32_t *numbers, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, numbers[i] == UINT32_MAX ? json_null() : json_integer(numbers[i]));
    return array;
}

static size_t device_count(const Blinkwire__QueryReply *query)
{
    return query->n_devices;
}

#define GPUS_MAX        32u
#define GPUS_TEXT_BYTES 96

/* "0,1,3": the GPUs of a mask; "-" if there are none. Returns `text`. */
static const char *gpus_text(uint32_t mask, char text[GPUS_TEXT_BYTES])
{
    size_t used = 0;
    snprintf(text, GPUS_TEXT_BYTES, "-");
    for (uint32_t gpu = 0; gpu < GPUS_MAX; gpu++) {
        if (mask & 1u << gpu)
            used += (size_t)snprintf(text + used, GPUS_TEXT_BYTES - used, "%s%u", used ? "," : "", gpu);
    }
    return text;
}

static json_t *gpus_json(uint32_t mask)
{
    json_t *list = json_array();
    for (uint32_t gpu = 0; gpu < GPUS_MAX; gpu++) {
        if (mask & 1u << gpu)
            json_array_append_new(list, json_integer(gpu));
    }
    return list;
}

static json_t *device_json(const Blinkwire__QueryReply *query, size_t i)
{
    const Blinkwire__Device *device = query->devices[i];
    return json_pack("{s:I, s:o, s:o, s:I, s:o, s:o, s:o}", "index", (json_int_t)device->index, "node",
                     ctl_json_text(device->node), "kind", ctl_json_text(device->kind), "comm_count",
                     (json_int_t)device->comm_count, "gpu",
                     *device->gpu_uuid ? json_integer(device->gpu) : json_null(), "gpu_uuid",
                     ctl_json_text_or_null(device->gpu_uuid), "gpu_peers", gpus_json(device->gpu_peers));
}

static void device_row(const Blinkwire__QueryReply *query, size_t i, table_t *table)
{
    const Blinkwire__Device *device = query->devices[i];
    char peers[GPUS_TEXT_BYTES];
    table_cell(table, "%u", device->index);
    table_cell(table, "%s", device->node);
    table_cell(table, "%s", device->kind);
    table_cell(table, "%u", device->comm_count);
    if (*device->gpu_uuid)
        table_cell(table, "%u", device->gpu);
    else
        table_cell(table, "-");
    table_cell(table, "%s", *device->gpu_uuid ? device->gpu_uuid : "-");
    table_cell(table, "%s", gpus_text(device->gpu_peers, peers));
}

blink_result_t ctl_devices(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"device", "node", "kind", "comms", "gpu", "gpu uuid", "reaches"};
    static const char *const sorts[] = {"index", "node", "kind", "comm_count", "gpu", NULL};
    static const listing_t listing = {.name = "devices",
                                      .doc = "Show the devices that the daemon offers.",
                                      .kind = BLINKWIRE__QUERY_KIND__DEVICES,
                                      .alignment = "rllrrll",
                                      .headers = headers,
                                      .sorts = sorts,
                                      .count = device_count,
                                      .json = device_json,
                                      .row = device_row,
                                      .if_none = "The daemon offers no device."};
    return listing_run(&listing, argc, argv, options);
}

static size_t comm_count(const Blinkwire__QueryReply *query)
{
    return query->n_comms;
}

static json_t *comm_json(const Blinkwire__QueryReply *query, size_t i)
{
    const Blinkwire__Comm *comm = query->comms[i];
    return json_pack("{s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "comm",
                     (json_int_t)comm->comm, "name", ctl_json_text_or_null(comm->name), "id",
                     ctl_json_text_or_null(comm->id), "state", ctl_json_text(comm->state), "rank_count",
                     (json_int_t)comm->rank_count, "devices", number_array(comm->devices, comm->n_devices),
                     "clients", number_array(comm->clients, comm->n_clients), "algorithm",
                     ctl_json_text(comm->algorithm), "op_count", (json_int_t)comm->op_count, "bytes",
                     (json_int_t)comm->bytes, "uid", (json_int_t)comm->uid, "direct_bytes",
                     (json_int_t)comm->direct_bytes, "staged_bytes", (json_int_t)comm->staged_bytes,
                     "failed_op_count", (json_int_t)comm->failed_op_count, "oldest_op_s", comm->oldest_op_s);
}

static void comm_row(const Blinkwire__QueryReply *query, size_t i, table_t *table)
{
    const Blinkwire__Comm *comm = query->comms[i];
    char bytes[HUMAN_BYTES];
    char *devices = join_numbers(comm->devices, comm->n_devices, UINT32_MAX);
    char *clients = join_numbers(comm->clients, comm->n_clients, 0);
    table_cell(table, "%u", comm->comm);
    table_cell(table, "%s", *comm->name ? comm->name : "-");
    table_cell(table, "%s", *comm->id ? comm->id : "-");
    table_cell(table, "%s", comm->state);
    table_cell(table, "%u", comm->rank_count);
    table_cell(table, "%s", comm->algorithm);
    table_cell(table, "%lu", (unsigned long)comm->op_count);
    table_cell(table, "%s", human_bytes(comm->bytes, bytes));
    table_cell(table, "%u", comm->uid);
    table_cell(table, "%s", devices ? devices : "");
    table_cell(table, "%s", clients ? clients : "");
    free(devices);
    free(clients);
}

static bool comm_shows(const Blinkwire__QueryReply *query, size_t i, const filter_t *filter)
{
    const Blinkwire__Comm *comm = query->comms[i];
    return (!filter->busy || comm->op_count > 0) && (filter->comm == 0 || comm->comm == filter->comm) &&
           (!filter->has_user || comm->uid == filter->user);
}

blink_result_t ctl_comms(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"comm", "name",    "id",  "state",   "ranks",  "algorithm",
                                          "ops",  "payload", "uid", "devices", "clients"};
    static const char *const sorts[] = {"comm",     "name",  "state", "rank_count", "algorithm",
                                        "op_count", "bytes", "uid",   NULL};
    static const listing_t listing = {.name = "comms",
                                      .doc = "Show the communicators, the newest first. Each daemon has "
                                             "numbers of its own for them; ids are the "
                                             "same on all hosts. Devices and clients are listed by rank; a "
                                             "rank of - has not joined here yet, has "
                                             "left, or is on another host.",
                                      .kind = BLINKWIRE__QUERY_KIND__COMMS,
                                      .alignment = "rlllrlrrrll",
                                      .headers = headers,
                                      .sorts = sorts,
                                      .count = comm_count,
                                      .json = comm_json,
                                      .row = comm_row,
                                      .if_none = "There are no communicators.",
                                      .busy = "Only those in which ops have run",
                                      .by_comm = true,
                                      .by_user = true,
                                      .shows = comm_shows};
    return listing_run(&listing, argc, argv, options);
}

static size_t client_count(const Blinkwire__QueryReply *query)
{
    return query->n_clients;
}

static json_t *client_json(const Blinkwire__QueryReply *query, size_t i)
{
    const Blinkwire__Client *client = query->clients[i];
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I}", "client", (json_int_t)client->client,
                     "pid", (json_int_t)client->pid, "uid", (json_int_t)client->uid, "program",
                     ctl_json_text(client->program), "job", ctl_json_text_or_null(client->job),
                     "registered_bytes", (json_int_t)client->registered_bytes, "region_count",
                     (json_int_t)client->region_count, "member_count", (json_int_t)client->member_count,
                     "op_count", (json_int_t)client->op_count);
}

static void client_row(const Blinkwire__QueryReply *query, size_t i, table_t *table)
{
    const Blinkwire__Client *client = query->clients[i];
    char bytes[HUMAN_BYTES];
    table_cell(table, "%u", client->client);
    table_cell(table, "%u", client->pid);
    table_cell(table, "%u", client->uid);
    table_cell(table, "%s", human_bytes(client->registered_bytes, bytes));
    table_cell(table, "%u", client->region_count);
    table_cell(table, "%u", client->member_count);
    table_cell(table, "%lu", (unsigned long)client->op_count);
    table_cell(table, "%s", *client->job ? client->job : "-");
    table_cell(table, "%s", client->program);
}

static bool is_client_of(const Blinkwire__Comm *comm, uint32_t client)
{
    size_t rank = 0;
    while (comm && rank < comm->n_clients && comm->clients[rank] != client)
        rank++;
    return comm && rank < comm->n_clients;
}

static bool client_shows(const Blinkwire__QueryReply *query, size_t i, const filter_t *filter)
{
    const Blinkwire__Client *client = query->clients[i];
    return (!filter->busy || client->member_count > 0) &&
           (!filter->has_user || client->uid == filter->user) &&
           (filter->comm == 0 ||
            is_client_of(listing_find_comm(filter->comms, filter->comm), client->client));
}

blink_result_t ctl_clients(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"client", "pid", "uid", "registered", "regions",
                                          "comms",  "ops", "job", "program"};
    static const char *const sorts[] = {"client",           "pid",          "uid",          "program",  "job",
                                        "registered_bytes", "region_count", "member_count", "op_count", NULL};
    static const listing_t listing = {.name = "clients",
                                      .doc = "Show the connected application processes, the newest first.",
                                      .kind = BLINKWIRE__QUERY_KIND__CLIENTS,
                                      .alignment = "rrrrrrrll",
                                      .headers = headers,
                                      .sorts = sorts,
                                      .count = client_count,
                                      .json = client_json,
                                      .row = client_row,
                                      .if_none = "No application is connected.",
                                      .busy = "Only those that are in a communicator",
                                      .by_comm = true,
                                      .by_user = true,
                                      .shows = client_shows};
    return listing_run(&listing, argc, argv, options);
}

/* ---- tenants ---- */

static size_t tenant_count(const Blinkwire__QueryReply *query)
{
    return query->n_tenants;
}

static json_t *tenant_json(const Blinkwire__QueryReply *query, size_t i)
{
    const Blinkwire__Tenant *tenant = query->tenants[i];
    json_t *budgets = json_object();
    for (size_t b = 0; b < tenant->n_budgets; b++)
        json_object_set_new(budgets, tenant->budgets[b]->resource,
                            json_pack("{s:I, s:I}", "used", (json_int_t)tenant->budgets[b]->used, "limit",
                                      (json_int_t)tenant->budgets[b]->limit));
    return json_pack("{s:I, s:o, s:I, s:o, s:I, s:I, s:I}", "uid", (json_int_t)tenant->uid, "cgroup",
                     ctl_json_text(tenant->cgroup), "weight", (json_int_t)tenant->weight, "budgets", budgets,
                     "op_count", (json_int_t)tenant->op_count, "failed_op_count",
                     (json_int_t)tenant->failed_op_count, "bytes", (json_int_t)tenant->bytes);
}

/* A number, or bytes where the resource's name says so. */
static void amount_cell(table_t *table, const char *resource, uint64_t amount)
{
    char bytes[HUMAN_BYTES];
    const char *end = strrchr(resource, '_');
    if (end && strcmp(end, "_bytes") == 0)
        table_cell(table, "%s", human_bytes(amount, bytes));
    else
        table_cell(table, "%lu", (unsigned long)amount);
}

/* A row for each resource. */
static void tenant_row(const Blinkwire__QueryReply *query, size_t i, table_t *table)
{
    const Blinkwire__Tenant *tenant = query->tenants[i];
    for (size_t b = 0; b < tenant->n_budgets; b++) {
        const Blinkwire__Budget *budget = tenant->budgets[b];
        table_cell(table, "%u", tenant->uid);
        table_cell(table, "%u", tenant->weight);
        table_cell(table, "%s", budget->resource);
        amount_cell(table, budget->resource, budget->used);
        amount_cell(table, budget->resource, budget->limit);
        table_cell(table, "%s", *tenant->cgroup ? tenant->cgroup : "-");
    }
}

static bool tenant_shows(const Blinkwire__QueryReply *query, size_t i, const filter_t *filter)
{
    const Blinkwire__Tenant *tenant = query->tenants[i];
    bool uses = false;
    for (size_t b = 0; b < tenant->n_budgets; b++)
        uses = uses || tenant->budgets[b]->used > 0;
    return (!filter->busy || uses) && (!filter->has_user || tenant->uid == filter->user);
}

blink_result_t ctl_tenants(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"uid", "weight", "resource", "used", "limit", "cgroup"};
    static const char *const sorts[] = {"uid", "cgroup", "weight", NULL};
    static const listing_t listing = {
        .name = "tenants",
        .doc = "Show what users make the daemon keep, and what each may at this moment.",
        .kind = BLINKWIRE__QUERY_KIND__TENANTS,
        .alignment = "rrlrrl",
        .headers = headers,
        .sorts = sorts,
        .count = tenant_count,
        .json = tenant_json,
        .row = tenant_row,
        .if_none = "The daemon keeps nothing for anybody.",
        .busy = "Only those that make it keep anything",
        .by_user = true,
        .shows = tenant_shows};
    return listing_run(&listing, argc, argv, options);
}

/* ---- nodes: the hosts of the cluster ---- */

#define NICS_TEXT_BYTES 512

static size_t host_count(const Blinkwire__QueryReply *query)
{
    return query->n_hosts;
}

static json_t *host_json(const Blinkwire__QueryReply *query, size_t i)
{
    const Blinkwire__Host *host = query->hosts[i];
    json_t *nics = json_array();
    for (size_t n = 0; n < host->n_nics; n++)
        json_array_append_new(nics, json_pack("{s:o, s:o, s:b}", "name", ctl_json_text(host->nics[n]->name),
                                              "address", ctl_json_text(host->nics[n]->address), "has_moves",
                                              host->nics[n]->has_moves));
    return json_pack("{s:o, s:o, s:o, s:o, s:f, s:o, s:o}", "name", ctl_json_text(host->name), "state",
                     ctl_json_text(host->state), "address", ctl_json_text_or_null(host->address),
                     "daemon_version", ctl_json_text_or_null(host->daemon_version), "since_s", host->since_s,
                     "why", ctl_json_text_or_null(host->why), "nics", nics);
}

/* "eth0 192.0.2.1, ib0 192.0.2.2"; "-" if there are none. Returns `text`. */
static const char *nics_text(const Blinkwire__Host *host, char text[NICS_TEXT_BYTES])
{
    size_t used = 0;
    snprintf(text, NICS_TEXT_BYTES, "-");
    for (size_t n = 0; n < host->n_nics && used < NICS_TEXT_BYTES; n++)
        used += (size_t)snprintf(text + used, NICS_TEXT_BYTES - used, "%s%s %s", n > 0 ? ", " : "",
                                 host->nics[n]->name, host->nics[n]->address);
    return text;
}

/* "eth0, ib0": those that moves go over, "-" if there are none. Returns `text`. */
static const char *move_nics_text(const Blinkwire__Host *host, char text[NICS_TEXT_BYTES])
{
    size_t used = 0;
    snprintf(text, NICS_TEXT_BYTES, "-");
    for (size_t n = 0; n < host->n_nics && used < NICS_TEXT_BYTES; n++)
        if (host->nics[n]->has_moves)
            used += (size_t)snprintf(text + used, NICS_TEXT_BYTES - used, "%s%s", used > 0 ? ", " : "",
                                     host->nics[n]->name);
    return text;
}

static void host_row(const Blinkwire__QueryReply *query, size_t i, table_t *table)
{
    const Blinkwire__Host *host = query->hosts[i];
    char since[HUMAN_BYTES], nics[NICS_TEXT_BYTES], move_nics[NICS_TEXT_BYTES];
    table_cell(table, "%s", host->name);
    table_cell(table, "%s", host->state);
    table_cell(table, "%s", host->since_s > 0 ? human_duration(host->since_s, since) : "-");
    table_cell(table, "%s", *host->address ? host->address : "-");
    table_cell(table, "%s", *host->daemon_version ? host->daemon_version : "-");
    table_cell(table, "%s", nics_text(host, nics));
    table_cell(table, "%s", move_nics_text(host, move_nics));
    table_cell(table, "%s", host->why);
}

blink_result_t ctl_nodes(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"host",   "state", "since",      "address",
                                          "blinkd", "nics",  "moves over", "why not"};
    static const char *const sorts[] = {"name", "state", "address", "daemon_version", "since_s", NULL};
    static const listing_t listing = {
        .name = "nodes",
        .doc = "Show the daemons of the cluster that this one knows: itself, those with which it has a "
               "session, and "
               "those that it dials. Empty without [network] listen in blinkd.conf.",
        .kind = BLINKWIRE__QUERY_KIND__HOSTS,
        .alignment = "llrlllll",
        .headers = headers,
        .sorts = sorts,
        .count = host_count,
        .json = host_json,
        .row = host_row,
        .if_none = "This daemon knows no other host: [network] listen in its blinkd.conf is empty."};
    return listing_run(&listing, argc, argv, options);
}
