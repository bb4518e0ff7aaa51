#include "control/query.h"

#include "base/clock.h"
#include "base/counter.h"
#include "base/events.h"
#include "control/comms/describe.h"
#include "control/comms/lost_ops.h"
#include "control/comms/ops.h"
#include "control/gpus.h"
#include "control/links.h"
#include "control/peers/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A page of an answer takes so many steps, and at most so many objects. */
#define PAGE_STEPS 128u

#define TOPOLOGY_PAGE_BYTES 65536u

#define GPU_UUID_TEXT_BYTES 41

/* One page of an answer: who asks what, and how much of the page is left. */
typedef struct page {
    const asker_t *asker;
    const view_t *view; /* the asker's */
    uint64_t number;    /* where this page begins, as the one before has said */
    uint32_t steps;     /* made for it so far */
} page_t;

static bool page_is_full(const page_t *page)
{
    return page->steps >= PAGE_STEPS;
}

/* How many items of a list are left for this page and those behind it: lists are shown from their ends. */
static size_t items_left(const page_t *page, const bag_t *bag)
{
    return page->number == 0 || page->number > bag->count ? bag->count : (size_t)page->number;
}

static void send_page(const page_t *page, Blinkwire__QueryReply *body)
{
    turns_count(&page->view->control->turns, page->steps);
    asker_answer(page->asker, body);
}

static void answer_status(page_t *page)
{
    const control_t *control = page->view->control;
    Blinkwire__StatusReply status = BLINKWIRE__STATUS_REPLY__INIT;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    engine_comm_stats_t totals = engine_total_stats(control->engine);
    status.version = BLINK_VERSION;
    status.pid = (uint32_t)getpid();
    status.uptime_s = (double)(clock_ns() - control->started_ns) / 1e9;
    status.topology = control->topo->name;
    status.device_count = control->device_count;
    status.client_count = control->client_count;
    status.comm_count = (uint32_t)control->rosters->all.count;
    status.worker_count = exec_host_workers(control->exec);
    status.op_count = totals.op_count;
    status.failed_op_count = totals.failed_op_count;
    status.bytes = totals.payload_bytes;
    status.engine_steps_most = engine_longest_turn(control->engine);
    status.pace_scale = control->settings->pace_scale;
    status.turn_steps_most = control->turns.steps_most;
    status.socket = (char *)(uintptr_t)control->settings->socket;
    if (control->gpus) {
        status.gpu_sharing = (char *)(uintptr_t)settings_sharing_name(control->settings);
        status.gpu_worker_pid = (uint32_t)gpus_worker_pid(control->gpus);
        status.gpu_worker_restarts = gpus_restarts(control->gpus);
    }
    status.registered_bytes = budget_used(&control->tenants.budget, BUDGET_REGISTERED_BYTES);
    body.status = &status;
    send_page(page, &body);
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
    described->comm_count = control->rosters->ranks_on[device];
    if (gpu == GPU_NONE)
        return;
    const gpu_facts_t *facts = &gpus_facts(control->gpus)->gpus[gpu];
    write_uuid(facts->uuid, uuid);
    described->gpu = gpu;
    described->gpu_peers = facts->peers;
    described->gpu_uuid = uuid;
}

static void answer_devices(page_t *page)
{
    const control_t *control = page->view->control;
    uint64_t next = page->number;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Device devices[PAGE_STEPS], *pointers[PAGE_STEPS];
    char uuids[PAGE_STEPS][GPU_UUID_TEXT_BYTES];
    body.devices = pointers;
    for (; next < control->device_count && !page_is_full(page); next++) {
        describe_device(control, (uint32_t)next, &devices[page->steps], uuids[page->steps]);
        body.devices[body.n_devices++] = &devices[page->steps++];
    }
    body.next_page = next < control->device_count ? next : 0;
    send_page(page, &body);
}

/* A part of the text. */
static void send_topology(page_t *page, const char *text)
{
    char part[TOPOLOGY_PAGE_BYTES + 1];
    size_t bytes = strlen(text), begin = page->number < bytes ? (size_t)page->number : bytes;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    size_t part_bytes = bytes - begin < TOPOLOGY_PAGE_BYTES ? bytes - begin : TOPOLOGY_PAGE_BYTES;
    memcpy(part, text + begin, part_bytes);
    part[part_bytes] = '\0';
    body.topology_json = part;
    body.next_page = begin + part_bytes < bytes ? begin + part_bytes : 0;
    page->steps = PAGE_STEPS;
    send_page(page, &body);
}

/* The topology stays what it is: its text is made once. */
static void answer_topology(page_t *page, char **text)
{
    blink_result_t result = *text ? BLINK_OK : topo_write_json(page->view->control->local, text);
    if (result != BLINK_OK)
        asker_fail(page->asker, result);
    else
        send_topology(page, *text);
}

/* NULL: there is none that the asker sees. */
static const roster_t *find_roster(const view_t *view, uint32_t number)
{
    const roster_t *roster = roster_find_number(view->control->rosters, number);
    return roster && view_sees(view, roster->tenant) ? roster : NULL;
}

static void fail_without_comm(const page_t *page, uint32_t comm)
{
    blink_result_t result =
        BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                   "no communicator %u whose ranks have all joined; blinkctl comms lists them", comm);
    asker_fail(page->asker, result);
}

static void answer_ops(const page_t *page, const Blinkwire__Query *query)
{
    const roster_t *roster = find_roster(page->view, query->comm);
    const history_t *lost;
    if (roster && roster->engine)
        ops_query(page->asker, roster, query->ops_since, page->number);
    else if ((lost = lost_ops_find(page->view->control->rosters->lost_ops, page->view, query->comm)))
        ops_query_lost(page->asker, lost, query->ops_since, page->number);
    else
        asker_fail(
            page->asker,
            BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                       "no communicator %u whose ranks have all joined, and it is none of the last few "
                       "that were lost; blinkctl comms lists the ones that there are",
                       query->comm));
}

static void answer_topology_of(page_t *page, uint32_t comm, char **local)
{
    const roster_t *roster = find_roster(page->view, comm);
    const fabric_t *fabric = roster && roster->engine ? engine_comm_fabric(roster->engine) : NULL;
    if (fabric && fabric->text) {
        send_topology(page, fabric->text);
    } else if (fabric) {
        answer_topology(page, local);
    } else {
        fail_without_comm(page, comm);
    }
}

/* What memory does not suffice for is left out. */
static void answer_comms(page_t *page)
{
    const bag_t *rosters = view_rosters(page->view);
    size_t left = items_left(page, rosters);
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Comm *comms[PAGE_STEPS];
    body.comms = comms;
    for (; left > 0 && !page_is_full(page); left--) {
        const roster_t *roster = view_roster(page->view, rosters->items[left - 1]);
        page->steps += roster ? describe_steps(roster) : 1;
        Blinkwire__Comm *described = roster ? describe_roster(roster) : NULL;
        if (described)
            comms[body.n_comms++] = described;
    }
    body.next_page = left;
    send_page(page, &body);
    for (size_t i = 0; i < body.n_comms; i++)
        described_free(comms[i]);
}

static void describe_client(const client_t *client, Blinkwire__Client *described)
{
    blinkwire__client__init(described);
    described->client = client->number;
    described->pid = (uint32_t)client->pid;
    described->uid = client->tenant->uid;
    described->program = (char *)(uintptr_t)client->program;
    described->job = (char *)(uintptr_t)client->job;
    described->registered_bytes = client->registered_bytes;
    described->region_count = client->region_count;
    described->member_count = client->member_count;
    described->op_count = engine_client_op_count(client->engine);
}

static void answer_clients(page_t *page)
{
    const bag_t *clients = view_clients(page->view);
    size_t left = items_left(page, clients);
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    Blinkwire__Client described[PAGE_STEPS], *pointers[PAGE_STEPS];
    body.clients = pointers;
    for (; left > 0 && !page_is_full(page); left--) {
        const client_t *client = view_client(page->view, clients->items[left - 1]);
        page->steps++;
        if (!client)
            continue;
        describe_client(client, &described[body.n_clients]);
        pointers[body.n_clients] = &described[body.n_clients];
        body.n_clients++;
    }
    body.next_page = left;
    send_page(page, &body);
}

/* ---- tenants ---- */

/* Tenants of one page. */
#define PAGE_TENANTS (PAGE_STEPS / BUDGET_KINDS)

typedef struct described_tenant {
    Blinkwire__Tenant tenant;
    Blinkwire__Budget budgets[BUDGET_KINDS], *pointers[BUDGET_KINDS];
} described_tenant_t;

static void describe_tenant(const tenant_t *tenant, described_tenant_t *described)
{
    blinkwire__tenant__init(&described->tenant);
    described->tenant.uid = tenant->uid;
    described->tenant.cgroup = (char *)(uintptr_t)tenant->cgroup;
    described->tenant.weight = tenant->weight;
    described->tenant.op_count = counter_get(&tenant->op_count);
    described->tenant.failed_op_count = counter_get(&tenant->failed_op_count);
    described->tenant.bytes = counter_get(&tenant->payload_bytes);
    described->tenant.budgets = described->pointers;
    described->tenant.n_budgets = BUDGET_KINDS;
    for (uint32_t kind = 0; kind < BUDGET_KINDS; kind++) {
        Blinkwire__Budget *budget = described->pointers[kind] = &described->budgets[kind];
        blinkwire__budget__init(budget);
        budget->resource = (char *)(uintptr_t)budget_name(kind);
        budget->used = account_used(&tenant->account, kind);
        budget->limit = account_limit(&tenant->account, kind);
    }
}

/* A page's number is that of the tenants before it. */
static void answer_tenants(page_t *page)
{
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    described_tenant_t described[PAGE_TENANTS];
    Blinkwire__Tenant *pointers[PAGE_TENANTS];
    uint64_t passed = 0;
    body.tenants = pointers;
    LIST_FOR_EACH (link, &page->view->control->tenants.all) {
        const tenant_t *tenant = CONTAINER_OF(link, tenant_t, link);
        page->steps++;
        if (passed++ < page->number || !view_sees(page->view, tenant))
            continue;
        if (body.n_tenants == PAGE_TENANTS) {
            body.next_page = passed - 1;
            break;
        }
        describe_tenant(tenant, &described[body.n_tenants]);
        pointers[body.n_tenants] = &described[body.n_tenants].tenant;
        body.n_tenants++;
        page->steps += BUDGET_KINDS;
    }
    send_page(page, &body);
}

/* ---- hosts ---- */

#define PAGE_HOSTS 16u

/* A page's number is that of its first host. Without a network there is none. */
static void answer_hosts(page_t *page)
{
    const peers_t *peers = page->view->control->peers;
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    described_host_t described[PAGE_HOSTS];
    Blinkwire__Host *pointers[PAGE_HOSTS];
    body.hosts = pointers;
    while (peers && body.n_hosts < PAGE_HOSTS &&
           peers_describe(peers, page->number + body.n_hosts, &described[body.n_hosts])) {
        pointers[body.n_hosts] = &described[body.n_hosts].host;
        body.n_hosts++;
        page->steps += PAGE_STEPS / PAGE_HOSTS;
    }
    body.next_page = body.n_hosts == PAGE_HOSTS ? page->number + PAGE_HOSTS : 0;
    send_page(page, &body);
}

/* ---- events ---- */

#define PAGE_EVENTS 32u

static void describe_event(const event_t *event, Blinkwire__Event *described)
{
    blinkwire__event__init(described);
    described->number = event->number;
    described->time_us = event->time_us;
    described->kind = (char *)(uintptr_t)event_kind_name(event->kind);
    described->level = (char *)(uintptr_t)log_level_name(event->level);
    described->is_of_user = event->uid != EVENT_OF_NOBODY;
    described->uid = described->is_of_user ? (uint32_t)event->uid : 0;
    described->comm = event->comm;
    described->subject = (char *)(uintptr_t)event->subject;
    described->text = (char *)(uintptr_t)event->text;
}

/* A page's number is that of the event before it, which is newer. */
static void answer_events(page_t *page, uint32_t most)
{
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    event_t events[PAGE_EVENTS];
    Blinkwire__Event described[PAGE_EVENTS], *pointers[PAGE_EVENTS];
    uint32_t count = events_copy(page->number, events, PAGE_EVENTS);
    const view_t *view = page->view;
    body.events = pointers;
    for (uint32_t i = 0; i < count; i++) {
        if (!view->all && events[i].uid != EVENT_OF_NOBODY && events[i].uid != (int64_t)view->tenant->uid)
            continue;
        describe_event(&events[i], &described[body.n_events]);
        pointers[body.n_events] = &described[body.n_events];
        body.n_events++;
    }
    bool is_enough = most > 0 && body.n_events >= most;
    body.next_page = count == PAGE_EVENTS && !is_enough ? events[count - 1].number : 0;
    page->steps = PAGE_STEPS;
    send_page(page, &body);
}

void query_answer(const asker_t *asker, const Blinkwire__Query *query)
{
    control_t *control = asker->view.control;
    page_t page = {.asker = asker, .view = &asker->view, .number = query->page};
    switch (query->kind) {
    case BLINKWIRE__QUERY_KIND__STATUS:
        answer_status(&page);
        return;
    case BLINKWIRE__QUERY_KIND__DEVICES:
        answer_devices(&page);
        return;
    case BLINKWIRE__QUERY_KIND__TOPOLOGY:
        if (query->comm == 0)
            answer_topology(&page, &control->topology_json);
        else
            answer_topology_of(&page, query->comm, &control->topology_json);
        return;
    case BLINKWIRE__QUERY_KIND__LINKS:
        links_query(control->links, asker, query->page);
        return;
    case BLINKWIRE__QUERY_KIND__COMMS:
        answer_comms(&page);
        return;
    case BLINKWIRE__QUERY_KIND__CLIENTS:
        answer_clients(&page);
        return;
    case BLINKWIRE__QUERY_KIND__TENANTS:
        answer_tenants(&page);
        return;
    case BLINKWIRE__QUERY_KIND__OPS:
        answer_ops(&page, query);
        return;
    case BLINKWIRE__QUERY_KIND__HOSTS:
        answer_hosts(&page);
        return;
    case BLINKWIRE__QUERY_KIND__EVENTS:
        answer_events(&page, query->events_most);
        return;
    default:
        asker_fail(asker, BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "unknown query %d", (int)query->kind));
    }
}
