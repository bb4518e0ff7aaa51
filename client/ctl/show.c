/* The commands that show one answer of the daemon as a table or as JSON. */
#include "ctl.h"

#include "host.h"
#include "tools/human.h"
#include "tools/table.h"

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

/* ---- status ---- */

static blink_result_t print_status_json(const Blinkwire__StatusReply *status)
{
    return ctl_print_json(
        json_pack(
            "{s:o, s:I, s:f, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, "
            "s:I, s:I, s:I}",
            "version", ctl_json_text(status->version), "pid", (json_int_t)status->pid, "uptime_s",
            status->uptime_s, "socket", ctl_json_text(status->socket), "topology",
            ctl_json_text(status->topology), "device_count", (json_int_t)status->device_count, "client_count",
            (json_int_t)status->client_count, "comm_count", (json_int_t)status->comm_count, "worker_count",
            (json_int_t)status->worker_count, "op_count", (json_int_t)status->op_count, "failed_op_count",
            (json_int_t)status->failed_op_count, "bytes", (json_int_t)status->bytes, "registered_bytes",
            (json_int_t)status->registered_bytes, "pace_scale", status->pace_scale, "gpu_sharing",
            ctl_json_text_or_null(status->gpu_sharing), "gpu_worker_pid",
            status->gpu_worker_pid > 0 ? json_integer(status->gpu_worker_pid) : json_null(),
            "gpu_worker_restarts", (json_int_t)status->gpu_worker_restarts, "turn_steps_most",
            (json_int_t)status->turn_steps_most, "engine_steps_most", (json_int_t)status->engine_steps_most),
        JSON_INDENT(2));
}

static void print_gpus_text(const Blinkwire__StatusReply *status)
{
    const char *meaning = strcmp(status->gpu_sharing, "mps") == 0
                              ? "by MPS: a fault or a kill of one client may end all of a GPU"
                              : "GPUs take turns between processes";
    char worker[32] = "none at the moment";
    if (status->gpu_worker_pid > 0)
        snprintf(worker, sizeof(worker), "pid %u", status->gpu_worker_pid);
    printf("gpu sharing    %s (%s)\n", status->gpu_sharing, meaning);
    printf("gpu worker     %s, %u restarts\n", worker, status->gpu_worker_restarts);
}

static void print_status_text(const Blinkwire__StatusReply *status)
{
    char uptime[HUMAN_BYTES], bytes[HUMAN_BYTES];
    printf("blinkd %s, pid %u, up %s\n", status->version, status->pid,
           human_duration(status->uptime_s, uptime));
    printf("socket         %s\n", status->socket);
    printf("topology       %s\n", status->topology);
    if (status->pace_scale > 0)
        printf("links          paced: capacity x %g, latency / %g\n", status->pace_scale, status->pace_scale);
    else
        printf("links          not paced: as fast as memory\n");
    printf("devices        %u\n", status->device_count);
    if (*status->gpu_sharing)
        print_gpus_text(status);
    printf("workers        %u\n", status->worker_count);
    printf("clients        %u\n", status->client_count);
    printf("communicators  %u\n", status->comm_count);
    printf("collectives    %lu completed, %lu failed\n", (unsigned long)status->op_count,
           (unsigned long)status->failed_op_count);
    printf("memory         %s registered\n", human_bytes(status->registered_bytes, bytes));
    printf("longest turn   %u steps, of the engine %u\n", status->turn_steps_most, status->engine_steps_most);
}

static blink_result_t show_status(const ctl_options_t *options, void *context)
{
    Blinkwire__Reply *reply;
    (void)context;
    BLINK_TRY(ctl_ask(options, BLINKWIRE__QUERY_KIND__STATUS, &reply));
    blink_result_t result = BLINK_OK;
    if (!reply->query->status)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon answered without a status");
    else if (options->json)
        result = print_status_json(reply->query->status);
    else
        print_status_text(reply->query->status);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

blink_result_t ctl_status(int argc, char **argv, ctl_options_t *options)
{
    ctl_parse_plain(argc, argv, "Show the daemon and its totals.", options);
    return host_each(options, show_status, NULL);
}

/* ---- lists: devices, communicators, clients ---- */

/* How to show the items of one list of a QueryReply. */
typedef struct listing {
    const char *name, *doc;
    Blinkwire__QueryKind kind;
    const char *alignment;
    const char *const *headers;
    size_t (*count)(const Blinkwire__QueryReply *query);
    json_t *(*json)(const Blinkwire__QueryReply *query, size_t i);
    void (*row)(const Blinkwire__QueryReply *query, size_t i, table_t *table);
    const char *if_none; /* instead of an empty table; NULL: that */
} listing_t;

static blink_result_t print_listing(const listing_t *listing, const Blinkwire__QueryReply *query, bool json)
{
    size_t count = listing->count(query);
    if (json) {
        json_t *array = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(array, listing->json(query, i));
        return ctl_print_json(json_pack("{s:o}", listing->name, array), JSON_INDENT(2));
    }
    table_t *table = table_create(listing->alignment, listing->headers);
    for (size_t i = 0; i < count; i++)
        listing->row(query, i, table);
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

static blink_result_t show_listing(const ctl_options_t *options, void *context)
{
    const listing_t *listing = context;
    Blinkwire__Reply *reply;
    BLINK_TRY(ctl_ask(options, listing->kind, &reply));
    blink_result_t result = BLINK_OK;
    if (listing->if_none && listing->count(reply->query) == 0 && !options->json)
        puts(listing->if_none);
    else
        result = print_listing(listing, reply->query, options->json);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

static blink_result_t run_listing(listing_t listing, int argc, char **argv, ctl_options_t *options)
{
    ctl_parse_plain(argc, argv, listing.doc, options);
    return host_each(options, show_listing, &listing);
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
    static const listing_t listing = {"devices",
                                      "Show the devices that the daemon offers.",
                                      BLINKWIRE__QUERY_KIND__DEVICES,
                                      "rllrrll",
                                      headers,
                                      device_count,
                                      device_json,
                                      device_row,
                                      NULL};
    return run_listing(listing, argc, argv, options);
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

blink_result_t ctl_comms(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"comm", "name",    "id",  "state",   "ranks",  "algorithm",
                                          "ops",  "payload", "uid", "devices", "clients"};
    static const listing_t listing = {"comms",
                                      "Show the communicators. Each daemon has numbers of its own for them; "
                                      "ids are the same on all hosts. Devices and clients are listed by "
                                      "rank; a rank of - has not joined here yet, has left, or is on "
                                      "another host.",
                                      BLINKWIRE__QUERY_KIND__COMMS,
                                      "rlllrlrrrll",
                                      headers,
                                      comm_count,
                                      comm_json,
                                      comm_row,
                                      NULL};
    return run_listing(listing, argc, argv, options);
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

blink_result_t ctl_clients(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"client", "pid", "uid", "registered", "regions",
                                          "comms",  "ops", "job", "program"};
    static const listing_t listing = {"clients",
                                      "Show the connected application processes.",
                                      BLINKWIRE__QUERY_KIND__CLIENTS,
                                      "rrrrrrrll",
                                      headers,
                                      client_count,
                                      client_json,
                                      client_row,
                                      NULL};
    return run_listing(listing, argc, argv, options);
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

blink_result_t ctl_tenants(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"uid", "weight", "resource", "used", "limit", "cgroup"};
    static const listing_t listing = {
        "tenants",
        "Show what users make the daemon keep, and what each may at this moment.",
        BLINKWIRE__QUERY_KIND__TENANTS,
        "rrlrrl",
        headers,
        tenant_count,
        tenant_json,
        tenant_row,
        NULL};
    return run_listing(listing, argc, argv, options);
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
    static const listing_t listing = {
        "nodes",
        "Show the daemons of the cluster that this one knows: itself, those with "
        "which it has a session, and those that it dials. Empty without "
        "[network] listen in blinkd.conf.",
        BLINKWIRE__QUERY_KIND__HOSTS,
        "llrlllll",
        headers,
        host_count,
        host_json,
        host_row,
        "This daemon knows no other host: [network] listen in its blinkd.conf is empty."};
    return run_listing(listing, argc, argv, options);
}

/* ---- version ---- */

/* Of the daemon that the options name; NULL: none has answered. */
static char *daemon_version(const ctl_options_t *options)
{
    Blinkwire__Reply *reply;
    if (ctl_ask(options, BLINKWIRE__QUERY_KIND__STATUS, &reply) != BLINK_OK)
        return NULL;
    char *version = reply->query->status ? strdup(reply->query->status->version) : NULL;
    blinkwire__reply__free_unpacked(reply, NULL);
    return version;
}

blink_result_t ctl_version(int argc, char **argv, ctl_options_t *options)
{
    ctl_parse_plain(argc, argv, "Show the version of blinkctl and, if one answers, of the daemon.", options);
    char *daemon = daemon_version(options);
    if (options->json) {
        json_t *version = daemon ? ctl_json_text(daemon) : json_null();
        free(daemon);
        return ctl_print_json(json_pack("{s:s, s:o}", "blinkctl", BLINK_VERSION, "blinkd", version),
                              JSON_INDENT(2));
    }
    printf("blinkctl %s\n", BLINK_VERSION);
    if (daemon)
        printf("blinkd %s\n", daemon);
    else
        printf("blinkd: %s\n", blink_error_text());
    free(daemon);
    return BLINK_OK;
}
