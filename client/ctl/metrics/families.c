#include "ctl/metrics/families.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 24
#define BYTES_PER_GB 1e9
#define US_PER_S     1e6

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *number(uint64_t value, char text[NUMBER_BYTES])
{
    snprintf(text, NUMBER_BYTES, "%lu", (unsigned long)value);
    return text;
}

static void put_alone(exposition_t *exposition, const metric_t *metric, double value)
{
    exposition_metric(exposition, metric);
    exposition_sample(exposition, metric, NULL, 0, value);
}

/* ---- the daemon ---- */

static void put_version(exposition_t *exposition, const Blinkwire__StatusReply *status)
{
    static const metric_t metric = {"blink_build_info", "The version of the daemon; the value is 1.", false};
    const label_t label = {"version", status->version};
    exposition_metric(exposition, &metric);
    exposition_sample(exposition, &metric, &label, 1, 1);
}

static void put_gpu_worker(exposition_t *exposition, const Blinkwire__StatusReply *status)
{
    static const metric_t running = {"blink_gpu_worker_running", "1: the GPU worker runs.", false};
    static const metric_t restarts = {"blink_gpu_worker_restarts", "GPU workers that have been started anew.",
                                      true};
    if (!*status->gpu_sharing)
        return;
    put_alone(exposition, &running, status->gpu_worker_pid > 0);
    put_alone(exposition, &restarts, status->gpu_worker_restarts);
}

static void put_status(exposition_t *exposition, const Blinkwire__StatusReply *status)
{
    const struct {
        metric_t metric;
        double value;
    } rows[] = {
        {{"blink_uptime_seconds", "How long the daemon has run.", false}, status->uptime_s},
        {{"blink_ops", "Collectives and transfers that have succeeded.", true}, (double)status->op_count},
        {{"blink_failed_ops", "Collectives and transfers that have failed.", true},
         (double)status->failed_op_count},
        {{"blink_payload_bytes", "Payload of collectives and transfers that have succeeded.", true},
         (double)status->bytes},
        {{"blink_registered_bytes", "Memory that clients have registered.", false},
         (double)status->registered_bytes},
        {{"blink_clients", "Connected application processes.", false}, status->client_count},
        {{"blink_control_turn_steps_max", "Steps of the longest turn of the control thread.", false},
         status->turn_steps_most},
        {{"blink_engine_turn_steps_max", "Steps of the longest turn of the engine thread.", false},
         status->engine_steps_most},
    };
    put_version(exposition, status);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        put_alone(exposition, &rows[i].metric, rows[i].value);
    put_gpu_worker(exposition, status);
}

/* ---- devices and links: as many as the machine has ---- */

static void put_devices(exposition_t *exposition, const Blinkwire__QueryReply *reply)
{
    static const metric_t metric = {"blink_device_ranks", "Ranks of communicators that have the device.",
                                    false};
    exposition_metric(exposition, &metric);
    for (size_t i = 0; i < reply->n_devices; i++) {
        const Blinkwire__Device *device = reply->devices[i];
        char index[NUMBER_BYTES];
        const label_t labels[] = {{"device", number(device->index, index)},
                                  {"node", device->node},
                                  {"kind", device->kind},
                                  {"gpu_uuid", device->gpu_uuid}};
        exposition_sample(exposition, &metric, labels, COUNT_OF(labels), device->comm_count);
    }
}

static double link_bytes(const Blinkwire__Link *link)
{
    return (double)link->bytes;
}

static double link_capacity(const Blinkwire__Link *link)
{
    return link->capacity_gbps * BYTES_PER_GB;
}

static void put_links(exposition_t *exposition, const Blinkwire__QueryReply *reply)
{
    static const struct {
        metric_t metric;
        double (*value)(const Blinkwire__Link *link);
    } rows[] = {
        {{"blink_link_bytes", "Bytes that have crossed a directed link.", true}, link_bytes},
        {{"blink_link_capacity_bytes_per_second", "What a directed link carries, as emulated.", false},
         link_capacity},
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        exposition_metric(exposition, &rows[r].metric);
        for (size_t i = 0; i < reply->n_links; i++) {
            const Blinkwire__Link *link = reply->links[i];
            char index[NUMBER_BYTES];
            const label_t labels[] = {
                {"link", number(i, index)}, {"from", link->from}, {"to", link->to}, {"kind", link->kind}};
            exposition_sample(exposition, &rows[r].metric, labels, COUNT_OF(labels), rows[r].value(link));
        }
    }
}

/* ---- those that are shown, of lists that others can make long ---- */

/* A sorted copy of a list of pointers. */
typedef struct shown {
    void *items;
    size_t count;
} shown_t;

static blink_result_t shown_create(const void *items, size_t count, size_t most,
                                   int (*compare)(const void *, const void *), shown_t *shown)
{
    *shown = (shown_t){.items = malloc((count + 1) * sizeof(void *)), .count = count < most ? count : most};
    if (!shown->items)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for metrics of %zu objects", count);
    if (count > 0) {
        memcpy(shown->items, items, count * sizeof(void *));
        qsort(shown->items, count, sizeof(void *), compare);
    }
    return BLINK_OK;
}

static int more_first(uint64_t one, uint64_t other)
{
    return (one < other) - (one > other);
}

/* ---- communicators ---- */

static int compare_comms(const void *left, const void *right)
{
    const Blinkwire__Comm *one = *(Blinkwire__Comm *const *)left, *other = *(Blinkwire__Comm *const *)right;
    int order = more_first(one->bytes, other->bytes);
    return order ? order : more_first(one->comm, other->comm);
}

/* What its launcher calls the job of the first rank on this host; "": nothing. */
static const char *job_of(const Blinkwire__Comm *comm, const Blinkwire__QueryReply *clients)
{
    for (size_t rank = 0; rank < comm->n_clients; rank++) {
        for (size_t i = 0; comm->clients[rank] > 0 && i < clients->n_clients; i++)
            if (clients->clients[i]->client == comm->clients[rank])
                return clients->clients[i]->job;
    }
    return "";
}

#define COMM_LABELS 5u

/* The labels of a communicator, and the text of those that are numbers. */
typedef struct comm_labels {
    label_t labels[COMM_LABELS + 1]; /* and one for a collective */
    char comm[NUMBER_BYTES], uid[NUMBER_BYTES];
} comm_labels_t;

static void label_comm(const Blinkwire__Comm *comm, const Blinkwire__QueryReply *clients,
                       comm_labels_t *labels)
{
    labels->labels[0] = (label_t){"comm", number(comm->comm, labels->comm)};
    labels->labels[1] = (label_t){"name", comm->name};
    labels->labels[2] = (label_t){"id", comm->id};
    labels->labels[3] = (label_t){"uid", number(comm->uid, labels->uid)};
    labels->labels[4] = (label_t){"launcher_job", job_of(comm, clients)};
}

static double comm_ops(const Blinkwire__Comm *comm)
{
    return (double)comm->op_count;
}

static double comm_failed_ops(const Blinkwire__Comm *comm)
{
    return (double)comm->failed_op_count;
}

static double comm_bytes(const Blinkwire__Comm *comm)
{
    return (double)comm->bytes;
}

static double comm_staged_bytes(const Blinkwire__Comm *comm)
{
    return (double)comm->staged_bytes;
}

static double comm_ranks(const Blinkwire__Comm *comm)
{
    return comm->rank_count;
}

static double comm_oldest_op(const Blinkwire__Comm *comm)
{
    return comm->oldest_op_s;
}

static void put_comms(exposition_t *exposition, const shown_t *shown, const Blinkwire__QueryReply *clients)
{
    static const struct {
        metric_t metric;
        double (*value)(const Blinkwire__Comm *comm);
    } rows[] = {
        {{"blink_communicator_ranks", "Ranks of the communicator, on all hosts.", false}, comm_ranks},
        {{"blink_communicator_ops", "Its ops that have succeeded.", true}, comm_ops},
        {{"blink_communicator_failed_ops", "Its ops that have failed.", true}, comm_failed_ops},
        {{"blink_communicator_payload_bytes", "Payload of its ops that have succeeded.", true}, comm_bytes},
        {{"blink_communicator_staged_bytes", "Bytes that were copied since their memory is not registered.",
          true},
         comm_staged_bytes},
        {{"blink_communicator_oldest_op_seconds",
          "How long its oldest op has not ended, be it that a rank is missing or that it runs.", false},
         comm_oldest_op},
    };
    Blinkwire__Comm *const *comms = shown->items;
    comm_labels_t labels;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        exposition_metric(exposition, &rows[r].metric);
        for (size_t i = 0; i < shown->count; i++) {
            label_comm(comms[i], clients, &labels);
            exposition_sample(exposition, &rows[r].metric, labels.labels, COMM_LABELS,
                              rows[r].value(comms[i]));
        }
    }
}

static double plan_ops(const Blinkwire__PlanInUse *plan)
{
    return (double)plan->measured_count;
}

static double plan_measured(const Blinkwire__PlanInUse *plan)
{
    return (double)plan->measured_count * plan->measured_us / US_PER_S;
}

static double plan_predicted(const Blinkwire__PlanInUse *plan)
{
    return (double)plan->measured_count * plan->predicted_us / US_PER_S;
}

/* Whether no plan before this one is of the same collective. */
static bool is_first_of_collective(const Blinkwire__Comm *comm, size_t plan)
{
    size_t i = 0;
    while (i < plan && strcmp(comm->plans[i]->collective, comm->plans[plan]->collective) != 0)
        i++;
    return i == plan;
}

static double sum_of_collective(const Blinkwire__Comm *comm, const char *collective,
                                double (*value)(const Blinkwire__PlanInUse *plan))
{
    double sum = 0;
    for (size_t i = 0; i < comm->n_plans; i++) {
        if (strcmp(comm->plans[i]->collective, collective) == 0)
            sum += value(comm->plans[i]);
    }
    return sum;
}

/* A sample for each collective that the communicator has run. */
static void put_times(exposition_t *exposition, const shown_t *shown, const Blinkwire__QueryReply *clients)
{
    static const struct {
        metric_t metric;
        double (*value)(const Blinkwire__PlanInUse *plan);
    } rows[] = {
        {{"blink_communicator_timed_ops", "Its ops whose time on the executor is known.", true}, plan_ops},
        {{"blink_communicator_measured_seconds", "How long these took.", true}, plan_measured},
        {{"blink_communicator_predicted_seconds", "How long they should have taken.", true}, plan_predicted},
    };
    Blinkwire__Comm *const *comms = shown->items;
    comm_labels_t labels;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        exposition_metric(exposition, &rows[r].metric);
        for (size_t i = 0; i < shown->count; i++) {
            label_comm(comms[i], clients, &labels);
            for (size_t p = 0; p < comms[i]->n_plans; p++) {
                const char *collective = comms[i]->plans[p]->collective;
                labels.labels[COMM_LABELS] = (label_t){"collective", collective};
                if (is_first_of_collective(comms[i], p))
                    exposition_sample(exposition, &rows[r].metric, labels.labels, COMM_LABELS + 1,
                                      sum_of_collective(comms[i], collective, rows[r].value));
            }
        }
    }
}

/* Of all communicators, also of those that are not shown. */
static void put_all_comms(exposition_t *exposition, const Blinkwire__QueryReply *reply)
{
    static const metric_t by_state = {"blink_communicators", "Communicators by their state.", false};
    static const metric_t oldest = {"blink_oldest_op_seconds",
                                    "How long the oldest op of any communicator has not ended.", false};
    static const char *const states[] = {"joining", "meeting", "ready", "aborted"};
    double oldest_s = 0;
    exposition_metric(exposition, &by_state);
    for (size_t s = 0; s < COUNT_OF(states); s++) {
        const label_t label = {"state", states[s]};
        double count = 0;
        for (size_t i = 0; i < reply->n_comms; i++)
            count += strcmp(reply->comms[i]->state, states[s]) == 0;
        exposition_sample(exposition, &by_state, &label, 1, count);
    }
    for (size_t i = 0; i < reply->n_comms; i++) {
        if (reply->comms[i]->oldest_op_s > oldest_s)
            oldest_s = reply->comms[i]->oldest_op_s;
    }
    put_alone(exposition, &oldest, oldest_s);
}

/* ---- tenants ---- */

static int compare_tenants(const void *left, const void *right)
{
    const Blinkwire__Tenant *one = *(Blinkwire__Tenant *const *)left,
                            *other = *(Blinkwire__Tenant *const *)right;
    int order = more_first(one->bytes, other->bytes);
    return order ? order : -more_first(one->uid, other->uid);
}

static double tenant_ops(const Blinkwire__Tenant *tenant)
{
    return (double)tenant->op_count;
}

static double tenant_failed_ops(const Blinkwire__Tenant *tenant)
{
    return (double)tenant->failed_op_count;
}

static double tenant_bytes(const Blinkwire__Tenant *tenant)
{
    return (double)tenant->bytes;
}

#define TENANT_LABELS 2u

typedef struct tenant_labels {
    label_t labels[TENANT_LABELS + 1]; /* and one for a resource */
    char uid[NUMBER_BYTES];
} tenant_labels_t;

static void label_tenant(const Blinkwire__Tenant *tenant, tenant_labels_t *labels)
{
    labels->labels[0] = (label_t){"uid", number(tenant->uid, labels->uid)};
    labels->labels[1] = (label_t){"cgroup", tenant->cgroup};
}

static void put_tenants(exposition_t *exposition, const shown_t *shown)
{
    static const struct {
        metric_t metric;
        double (*value)(const Blinkwire__Tenant *tenant);
    } rows[] = {
        {{"blink_tenant_ops", "Ops of the tenant that have succeeded.", true}, tenant_ops},
        {{"blink_tenant_failed_ops", "Ops of the tenant that have failed.", true}, tenant_failed_ops},
        {{"blink_tenant_payload_bytes", "Payload of the tenant's ops that have succeeded.", true},
         tenant_bytes},
    };
    Blinkwire__Tenant *const *tenants = shown->items;
    tenant_labels_t labels;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        exposition_metric(exposition, &rows[r].metric);
        for (size_t i = 0; i < shown->count; i++) {
            label_tenant(tenants[i], &labels);
            exposition_sample(exposition, &rows[r].metric, labels.labels, TENANT_LABELS,
                              rows[r].value(tenants[i]));
        }
    }
}

/* "scratch_bytes" is the resource "scratch", in bytes. */
static bool is_in_bytes(const char *resource, size_t *name_length)
{
    static const char end[] = "_bytes";
    size_t length = strlen(resource), end_length = sizeof(end) - 1;
    bool is_so = length > end_length && strcmp(resource + length - end_length, end) == 0;
    *name_length = is_so ? length - end_length : length;
    return is_so;
}

static void put_budgets(exposition_t *exposition, const shown_t *shown, const metric_t *metric, bool in_bytes,
                        bool of_limits)
{
    Blinkwire__Tenant *const *tenants = shown->items;
    tenant_labels_t labels;
    exposition_metric(exposition, metric);
    for (size_t i = 0; i < shown->count; i++) {
        label_tenant(tenants[i], &labels);
        for (size_t b = 0; b < tenants[i]->n_budgets; b++) {
            const Blinkwire__Budget *budget = tenants[i]->budgets[b];
            size_t length;
            if (is_in_bytes(budget->resource, &length) != in_bytes)
                continue;
            char resource[64];
            snprintf(resource, sizeof(resource), "%.*s", (int)length, budget->resource);
            labels.labels[TENANT_LABELS] = (label_t){"resource", resource};
            exposition_sample(exposition, metric, labels.labels, TENANT_LABELS + 1,
                              (double)(of_limits ? budget->limit : budget->used));
        }
    }
}

static void put_all_budgets(exposition_t *exposition, const shown_t *shown)
{
    static const metric_t used_bytes = {"blink_tenant_used_bytes",
                                        "What the tenant makes the daemon keep, in bytes.", false};
    static const metric_t limit_bytes = {"blink_tenant_limit_bytes",
                                         "What it may at this moment, beside the others, in bytes.", false};
    static const metric_t used = {"blink_tenant_used_objects",
                                  "What the tenant makes the daemon keep, in pieces.", false};
    static const metric_t limit = {"blink_tenant_limit_objects",
                                   "What it may at this moment, beside the others, in pieces.", false};
    put_budgets(exposition, shown, &used_bytes, true, false);
    put_budgets(exposition, shown, &limit_bytes, true, true);
    put_budgets(exposition, shown, &used, false, false);
    put_budgets(exposition, shown, &limit, false, true);
}

/* ---- other hosts ---- */

static bool is_this_host(const Blinkwire__Host *host)
{
    return strcmp(host->state, "this host") == 0;
}

static bool is_connected(const Blinkwire__Host *host)
{
    return strcmp(host->state, "connected") == 0;
}

static bool is_reached(const Blinkwire__Host *host)
{
    return is_connected(host) || is_this_host(host);
}

static int compare_hosts(const void *left, const void *right)
{
    const Blinkwire__Host *one = *(Blinkwire__Host *const *)left, *other = *(Blinkwire__Host *const *)right;
    int order = (int)is_reached(one) - (int)is_reached(other);
    return order ? order : strcmp(one->name, other->name);
}

/* A host may be dialled by the name that it is connected by. */
static bool is_named_before(Blinkwire__Host *const *hosts, size_t host)
{
    size_t i = 0;
    while (i < host && strcmp(hosts[i]->name, hosts[host]->name) != 0)
        i++;
    return i < host;
}

static void put_hosts(exposition_t *exposition, const shown_t *shown, const Blinkwire__QueryReply *reply)
{
    static const metric_t connected = {"blink_peer_connected", "1: there is a session with the other host.",
                                       false};
    static const metric_t peers = {"blink_peers",
                                   "Other hosts that the daemon knows, by whether there is a "
                                   "session.",
                                   false};
    Blinkwire__Host *const *hosts = shown->items;
    double counts[] = {0, 0};
    exposition_metric(exposition, &connected);
    for (size_t i = 0; i < shown->count; i++) {
        const label_t label = {"peer", hosts[i]->name};
        if (!is_this_host(hosts[i]) && !is_named_before(hosts, i))
            exposition_sample(exposition, &connected, &label, 1, is_connected(hosts[i]));
    }
    for (size_t i = 0; i < reply->n_hosts; i++) {
        if (!is_this_host(reply->hosts[i]))
            counts[is_connected(reply->hosts[i])]++;
    }
    exposition_metric(exposition, &peers);
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        const label_t label = {"connected", i == 0 ? "no" : "yes"};
        exposition_sample(exposition, &peers, &label, 1, counts[i]);
    }
}

/* ---- all ---- */

/* What is not shown for the sake of the number of time series. */
static void put_left_out(exposition_t *exposition, size_t comms, size_t tenants, size_t hosts)
{
    static const metric_t metric = {"blink_metrics_left_out",
                                    "Objects without metrics of their own, as there are too many.", false};
    const struct {
        label_t label;
        size_t count;
    } rows[] = {{{"kind", "communicator"}, comms}, {{"kind", "tenant"}, tenants}, {{"kind", "peer"}, hosts}};
    exposition_metric(exposition, &metric);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        exposition_sample(exposition, &metric, &rows[i].label, 1, (double)rows[i].count);
}

blink_result_t families_write(exposition_t *exposition, const answers_t *answers, size_t most)
{
    shown_t comms = {0}, tenants = {0}, hosts = {0};
    blink_result_t result =
        shown_create(answers->comms->comms, answers->comms->n_comms, most, compare_comms, &comms);
    if (result == BLINK_OK)
        result = shown_create(answers->tenants->tenants, answers->tenants->n_tenants, most, compare_tenants,
                              &tenants);
    if (result == BLINK_OK)
        result = shown_create(answers->hosts->hosts, answers->hosts->n_hosts, most, compare_hosts, &hosts);
    if (result == BLINK_OK) {
        put_status(exposition, answers->status);
        put_devices(exposition, answers->devices);
        put_links(exposition, answers->links);
        put_all_comms(exposition, answers->comms);
        put_comms(exposition, &comms, answers->clients);
        put_times(exposition, &comms, answers->clients);
        put_tenants(exposition, &tenants);
        put_all_budgets(exposition, &tenants);
        put_hosts(exposition, &hosts, answers->hosts);
        put_left_out(exposition, answers->comms->n_comms - comms.count,
                     answers->tenants->n_tenants - tenants.count, answers->hosts->n_hosts - hosts.count);
        exposition_end(exposition);
    }
    free(comms.items);
    free(tenants.items);
    free(hosts.items);
    return result;
}
