/*
 * Several hosts in one process: each has an engine, an executor and a data plane of its own, and they are
 * joined by socket pairs. The test's thread is the clients and the control thread of all of them. What the
 * control threads of a cluster tell one another, that a communicator has ended, it passes on at once, unless
 * the test says otherwise.
 */
#ifndef ENGINES_H
#define ENGINES_H

#include "base/guard.h"
#include "engine/engine.h"
#include "error.h"
#include "limit.h"
#include "net/data/endpoint.h"
#include "topo/network.h"
#include "unit/net/endpoints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS_MOST = 3, RANKS_MOST = 8, ENTRIES = 512, REGION = 1, MEMBERS_OF_COMM = 16, HOME = 77 };

#ifndef COMMS_MOST
#define COMMS_MOST 4
#endif

/* Each rank's memory: inputs in the first half, outputs in the second. */
#define MEMORY_BYTES ((size_t)8 << 20)
#define HALF_BYTES   (MEMORY_BYTES / 2)

typedef struct engines engines_t;

/* What a client shares with its daemon: each has a mapping of its own. */
typedef struct test_memory {
    char *client, *daemon;
    size_t bytes;
} test_memory_t;

/* A rank of all communicators, and its client. */
typedef struct test_rank {
    uint32_t host;
    engine_client_t *client;
    engine_region_t *region;
    ring_t ring; /* the client's side */
    int doorbell_fd;
    test_memory_t memory;
    _Atomic bool poisoned;
} test_rank_t;

typedef struct test_host {
    engines_t *engines;
    uint32_t number;
    settings_t settings;
    topo_t *topo;
    fabric_t *fabric;
    data_t *data;
    exec_host_t *exec;
    engine_t *engine;
    tenants_t tenants;
    tenant_t *tenant;
    data_endpoint_t *endpoints[HOSTS_MOST];
    _Atomic uint32_t begins; /* that have come and were passed on to the engine */
} test_host_t;

typedef struct test_comm test_comm_t;

/* A rank that leaves a communicator. */
typedef struct test_leave {
    engines_t *engines;
    test_comm_t *comm;
    uint32_t host;
    bool done;
} test_leave_t;

/* A communicator of all ranks. */
struct test_comm {
    uint32_t number;
    engine_comm_t *of_host[HOSTS_MOST]; /* NULL: its last rank has left */
    uint32_t members[HOSTS_MOST];       /* that have not left */
    test_leave_t leaves[RANKS_MOST];
    bool ended[HOSTS_MOST]; /* the host's engine has ended it by itself */
    char end_text[HOSTS_MOST][BLINK_ERROR_TEXT_BYTES];
};

struct engines {
    uint32_t host_count, rank_count, comm_count;
    test_host_t hosts[HOSTS_MOST];
    test_rank_t ranks[RANKS_MOST];
    test_comm_t comms[COMMS_MOST];
    bool keeps_ends;             /* what ends on a host is not passed on */
    _Atomic bool loses_left;     /* nor is LEFT, as if a host forgot to say it; */
    _Atomic bool loses_fails;    /* or FAIL */
    _Atomic bool holds_losses;   /* nor which endpoints are lost, until the test tells it */
    blink_algorithm_t algorithm; /* of communicators that are added */
    bool holds_words;            /* words about plans are not passed on, */
    struct test_word {
        uint32_t from, to; /* hosts */
        plan_word_t word;
    } held; /* and the last one stands here, without what it points to */
    uint32_t held_count;
    uint32_t asks; /* for plans, without those for their bytes, that have been passed on */
    settings_t settings;
    mailbox_t control;
    uint32_t done;
};

/* ---- what engines and data planes tell ---- */

static inline void engines_no_wake(void *context)
{
    (void)context;
}

static inline void engines_on_comm_ended(void *context, uint32_t number, blink_result_t reason,
                                         const char *text)
{
    test_host_t *host = context;
    engines_t *engines = host->engines;
    test_comm_t *comm = &engines->comms[number - 1];
    comm->ended[host->number] = true;
    snprintf(comm->end_text[host->number], BLINK_ERROR_TEXT_BYTES, "%s", text);
    for (uint32_t other = 0; !engines->keeps_ends && other < engines->host_count; other++)
        if (other != host->number && comm->of_host[other])
            engine_comm_end(comm->of_host[other], reason, text);
}

static inline void engines_on_plan_word(void *context, data_endpoint_t *endpoint, const plan_word_t *word)
{
    const test_host_t *from = context;
    engines_t *engines = from->engines;
    uint32_t to = 0;
    while (from->endpoints[to] != endpoint)
        to++;
    if (engines->holds_words) {
        engines->held = (struct test_word){from->number, to, *word};
        engines->held_count++;
        return;
    }
    engines->asks += !word->is_answer && !word->wants_bytes;
    assert_int_equal(
        engine_plan_word(engines->hosts[to].engine, engines->hosts[to].endpoints[from->number], word),
        BLINK_OK);
}

static inline void engines_on_wanted(void *context, data_endpoint_t *endpoint)
{
    (void)context;
    (void)endpoint;
}

static inline blink_result_t engines_on_frame(void *context, data_endpoint_t *endpoint,
                                              const wire_frame_t *frame, const uint8_t *payload)
{
    test_host_t *host = context;
    if ((frame->type == WIRE_LEFT && atomic_load(&host->engines->loses_left)) ||
        (frame->type == WIRE_FAIL && atomic_load(&host->engines->loses_fails)))
        return BLINK_OK;
    blink_result_t result = engine_data_frame(host->engine, endpoint, frame, payload);
    if (frame->type == WIRE_BEGIN)
        atomic_fetch_add(&host->begins, 1);
    return result;
}

static inline void engines_on_aborted(void *context, void *run, blink_result_t code)
{
    engine_data_aborted(((test_host_t *)context)->engine, run, code);
}

static inline void engines_on_settled(void *context, void *run)
{
    engine_data_settled(((test_host_t *)context)->engine, run);
}

static inline void engines_on_lost(void *context, data_endpoint_t *endpoint, blink_result_t code)
{
    test_host_t *host = context;
    (void)code;
    if (!atomic_load(&host->engines->holds_losses))
        engine_data_lost(host->engine, endpoint);
}

static inline blink_result_t engines_on_charge(void *context, void *tenant, uint64_t bytes)
{
    (void)context;
    engine_data_charge(tenant, bytes);
    return BLINK_OK;
}

static inline void engines_on_credit(void *context, void *tenant, uint64_t bytes)
{
    (void)context;
    engine_data_credit(tenant, bytes);
}

/* What is done on the control threads. */
static inline void engines_pump(engines_t *engines)
{
    if (!mailbox_run(&engines->control))
        usleep(20);
}

static inline void engines_count_done(void *context)
{
    (*(uint32_t *)context)++;
}

static inline engine_done_t engines_done(engines_t *engines)
{
    return (engine_done_t){engines_count_done, &engines->done};
}

static inline void engines_await_done(engines_t *engines, uint32_t count)
{
    while (engines->done < count)
        engines_pump(engines);
    engines->done = 0;
}

/* All engines have got through what they were told before. */
static inline void engines_beat(engines_t *engines)
{
    for (uint32_t h = 0; h < engines->host_count; h++) {
        engine_heartbeat(engines->hosts[h].engine, engines_done(engines));
        engines_await_done(engines, 1);
    }
}

/* What a host keeps of the words that have come by an endpoint. */
static inline bool engines_keep(const data_endpoint_t *endpoint)
{
    return atomic_load(&endpoint->kept_bytes) > 0;
}

/* They have all been heeded or dropped, some in each turn. */
static inline void engines_await_heeded(engines_t *engines, const data_endpoint_t *endpoint)
{
    while (engines_keep(endpoint))
        engines_pump(engines);
}

/* ---- hosts ---- */

static inline void engines_build_node(topo_builder_t *builder, const char *id, topo_node_kind_t kind)
{
    topo_node_t node = {.id = (char *)(uintptr_t)id, .host = "n0", .kind = kind};
    assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
}

/* Devices that share a memory, and a NIC. */
static inline topo_t *engines_host_topo(uint32_t devices)
{
    static const topo_nic_t nic = {"eth0", 5};
    topo_builder_t *builder = NULL;
    topo_t *local = NULL, *topo = NULL;
    assert_int_equal(topo_build_create("host", "test", &builder), BLINK_OK);
    engines_build_node(builder, "memory", TOPO_SWITCH);
    for (uint32_t i = 0; i < devices; i++) {
        char id[32];
        snprintf(id, sizeof(id), "host%u", i);
        engines_build_node(builder, id, TOPO_DEVICE);
        assert_int_equal(topo_build_link(builder, id, "memory", TOPO_SHM, 20, 1, 0.1, true), BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &local), BLINK_OK);
    topo_build_destroy(builder);
    if (topo_add_network(local, &nic, 1, NULL, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    topo_destroy(local);
    return topo;
}

static inline void engines_start_host(test_host_t *host)
{
    engines_t *engines = host->engines;
    const data_config_t data = {.timeout_s = 60,
                                .handler = {.wanted = engines_on_wanted,
                                            .frame = engines_on_frame,
                                            .aborted = engines_on_aborted,
                                            .settled = engines_on_settled,
                                            .lost = engines_on_lost,
                                            .charge = engines_on_charge,
                                            .credit = engines_on_credit,
                                            .context = host}};
    const exec_host_config_t exec = {.workers = 1};
    assert_int_equal(data_create(&data, &host->data), BLINK_OK);
    assert_int_equal(exec_host_create(&exec, &host->exec), BLINK_OK);
    const engine_config_t config = {.settings = &host->settings,
                                    .exec = host->exec,
                                    .topo = host->topo,
                                    .local = host->topo,
                                    .data = host->data,
                                    .cores = 2,
                                    .control = &engines->control,
                                    .comm_ended = engines_on_comm_ended,
                                    .tell_plan = engines_on_plan_word,
                                    .context = host};
    assert_int_equal(engine_create(&config, &host->engine), BLINK_OK);
    tenants_init(&host->tenants, engines->settings.limits);
    host->tenant = tenant_get(&host->tenants, 0, "");
    assert_non_null(host->tenant);
}

static inline void engines_join_hosts(engines_t *engines)
{
    static const char *const names[HOSTS_MOST] = {"n0", "n1", "n2"};
    topo_host_t hosts[HOSTS_MOST];
    for (uint32_t h = 0; h < engines->host_count; h++)
        hosts[h] = (topo_host_t){names[h], engines->hosts[h].topo};
    for (uint32_t h = 0; h < engines->host_count; h++) {
        test_host_t *host = &engines->hosts[h];
        if (fabric_create_joined(hosts, engines->host_count, h, &host->fabric) != BLINK_OK)
            fail_msg("%s", blink_error_text());
        for (uint32_t p = 0; p < h; p++) {
            test_host_t *peer = &engines->hosts[p];
            assert_int_equal(data_endpoint_create(host->data, names[p], NULL, &host->endpoints[p]), BLINK_OK);
            assert_int_equal(data_endpoint_create(peer->data, names[h], NULL, &peer->endpoints[h]), BLINK_OK);
            join_endpoints(host->endpoints[p], peer->endpoints[h]);
        }
    }
}

static inline test_memory_t engines_map(size_t bytes)
{
    test_memory_t memory = {.bytes = bytes};
    int fd = memfd_create("memory", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    memory.client = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    memory.daemon = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(memory.client, MAP_FAILED);
    assert_ptr_not_equal(memory.daemon, MAP_FAILED);
    close(fd);
    return memory;
}

static inline void engines_unmap(const test_memory_t *memory)
{
    munmap(memory->client, memory->bytes);
    munmap(memory->daemon, memory->bytes);
}

static inline void engines_add_rank(engines_t *engines, uint32_t host)
{
    test_rank_t *rank = &engines->ranks[engines->rank_count++];
    test_host_t *of = &engines->hosts[host];
    int memfd;
    rank->host = host;
    rank->memory = engines_map(MEMORY_BYTES);
    engine_client_config_t client = {.client = engines->rank_count,
                                     .tenant = of->tenant,
                                     .doorbell_fd = eventfd(0, EFD_NONBLOCK),
                                     .completion_fd = ring_create_event()};
    rank->doorbell_fd = client.doorbell_fd;
    assert_int_equal(ring_create(ENTRIES, ENTRIES, &client.ring, &memfd), BLINK_OK);
    assert_int_equal(ring_attach(memfd, &rank->ring), BLINK_OK);
    close(memfd);
    assert_int_equal(engine_client_add(of->engine, &client, &rank->client), BLINK_OK);
    const engine_region_config_t region = {
        .region = REGION, .base = rank->memory.daemon, .bytes = MEMORY_BYTES, .poisoned = &rank->poisoned};
    assert_int_equal(engine_region_add(rank->client, &region, &rank->region), BLINK_OK);
}

/* Hosts with so many ranks each. */
static inline void engines_init(engines_t *engines, const uint32_t *ranks, uint32_t host_count)
{
    memset(engines, 0, sizeof(*engines));
    alarm(2 * limit_s()); /* a hang is a failure */
    assert_int_equal(guard_install(), BLINK_OK);
    engines->host_count = host_count;
    engines->settings =
        (settings_t){.limits = {[BUDGET_OP_BYTES] = {64u << 20, 64u << 20},
                                [BUDGET_SCRATCH_BYTES] = {(uint64_t)1 << 30, (uint64_t)1 << 30}},
                     .idle_scratch_bytes = 256u << 20,
                     .idle_scratch_s = 30,
                     .cached_plan_bytes = 64u << 20,
                     .cached_plan_s = 600,
                     .plan_seconds = 5,
                     .run_timeout_s = 2 * limit_s(),
                     .network_timeout_s = limit_s()};
    mailbox_init(&engines->control, engines_no_wake, NULL);
    for (uint32_t h = 0; h < host_count; h++) {
        engines->hosts[h] = (test_host_t){.engines = engines, .number = h, .settings = engines->settings};
        engines->hosts[h].topo = engines_host_topo(ranks[h]);
        engines_start_host(&engines->hosts[h]);
    }
    engines_join_hosts(engines);
    for (uint32_t h = 0; h < host_count; h++)
        for (uint32_t i = 0; i < ranks[h]; i++)
            engines_add_rank(engines, h);
}

/* ---- communicators ---- */

/* One host's side of a communicator. */
static inline void comm_add_on(engines_t *engines, test_comm_t *comm, uint32_t h, uint64_t op_timeout_us)
{
    test_host_t *host = &engines->hosts[h];
    engine_member_t members[RANKS_MOST];
    uint32_t nodes[RANKS_MOST], host_of_rank[RANKS_MOST], count = 0;
    for (uint32_t r = 0; r < engines->rank_count; r++) {
        host_of_rank[r] = engines->ranks[r].host;
        nodes[r] = host->fabric->topo->gpus[r];
        if (host_of_rank[r] == h)
            members[count++] =
                (engine_member_t){engines->ranks[r].client, comm->number * MEMBERS_OF_COMM + r, r};
    }
    static const char *const versions[HOSTS_MOST] = {"1.0", "1.1", "1.2"};
    const engine_remote_config_t remote = {.home = HOME,
                                           .number = comm->number,
                                           .host_of_rank = host_of_rank,
                                           .endpoints = host->endpoints,
                                           .versions = versions};
    const engine_comm_config_t config = {.comm = comm->number,
                                         .title = "a communicator",
                                         .tenant = host->tenant,
                                         .rank_count = engines->rank_count,
                                         .member_count = count,
                                         .members = members,
                                         .fabric = host->fabric,
                                         .nodes = nodes,
                                         .remote = &remote,
                                         .algorithm = engines->algorithm,
                                         .op_timeout_us = op_timeout_us};
    if (engine_comm_add(host->engine, &config, &comm->of_host[h]) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    comm->members[h] = count;
}

static inline test_comm_t *comm_number(engines_t *engines)
{
    test_comm_t *comm = &engines->comms[engines->comm_count++];
    *comm = (test_comm_t){.number = engines->comm_count};
    return comm;
}

static inline test_comm_t *comm_add(engines_t *engines, uint64_t op_timeout_us)
{
    test_comm_t *comm = comm_number(engines);
    for (uint32_t h = 0; h < engines->host_count; h++)
        comm_add_on(engines, comm, h, op_timeout_us);
    engines_beat(engines);
    return comm;
}

/* A time-out that no test comes to. */
static inline uint64_t long_us(void)
{
    return (uint64_t)4 * limit_ms() * 1000;
}

static inline void engines_on_left(void *context)
{
    test_leave_t *leave = context;
    leave->done = true;
    if (--leave->comm->members[leave->host] > 0)
        return;
    history_t lost_ops = engine_comm_take_lost_ops(leave->comm->of_host[leave->host]);
    history_free(&lost_ops);
    engine_comm_free(leave->comm->of_host[leave->host]);
    leave->comm->of_host[leave->host] = NULL;
}

static inline void rank_begin_to_leave(engines_t *engines, test_comm_t *comm, uint32_t r, bool lost)
{
    char text[64];
    snprintf(text, sizeof(text), "rank %u is gone", r);
    test_leave_t *leave = &comm->leaves[r];
    *leave = (test_leave_t){.engines = engines, .comm = comm, .host = engines->ranks[r].host};
    engine_comm_leave(comm->of_host[leave->host], r, lost, text, (engine_done_t){engines_on_left, leave});
}

static inline void rank_leave(engines_t *engines, test_comm_t *comm, uint32_t r, bool lost)
{
    rank_begin_to_leave(engines, comm, r, lost);
    while (!comm->leaves[r].done)
        engines_pump(engines);
}

static inline void engines_fini(engines_t *engines)
{
    for (uint32_t c = 0; c < engines->comm_count; c++)
        for (uint32_t r = 0; r < engines->rank_count; r++)
            if (!engines->comms[c].leaves[r].done)
                rank_leave(engines, &engines->comms[c], r, false);
    for (uint32_t r = 0; r < engines->rank_count; r++) {
        engine_client_remove(engines->ranks[r].client, engines_done(engines));
        engines_await_done(engines, 1);
        ring_unmap(&engines->ranks[r].ring);
        engines_unmap(&engines->ranks[r].memory);
    }
    for (uint32_t h = 0; h < engines->host_count; h++)
        for (uint32_t p = 0; p < engines->host_count; p++)
            if (p != h)
                data_endpoint_close(engines->hosts[h].endpoints[p], BLINK_OK);
    for (uint32_t h = 0; h < engines->host_count; h++)
        engine_stop(engines->hosts[h].engine);
    engines->holds_words = true;
    mailbox_run(&engines->control);
    for (uint32_t h = 0; h < engines->host_count; h++) {
        test_host_t *host = &engines->hosts[h];
        exec_host_destroy(host->exec);
        engine_destroy(host->engine);
        for (uint32_t p = 0; p < engines->host_count; p++)
            if (p != h)
                data_endpoint_put(host->endpoints[p]);
        data_destroy(host->data);
        assert_int_equal(account_used(&host->tenant->account, BUDGET_OP_BYTES), 0);
        tenant_put(host->tenant);
        fabric_put(host->fabric);
        topo_destroy(host->topo);
    }
    alarm(0);
}

/* ---- submissions ---- */

static inline void rank_submit(test_rank_t *rank, const ring_sqe_t *sqe)
{
    assert_true(ring_submit(&rank->ring, sqe));
    if (ring_needs_doorbell(&rank->ring))
        assert_int_equal(eventfd_write(rank->doorbell_fd, 1), 0);
}

/* The rank's next completion. */
static inline ring_cqe_t rank_await(engines_t *engines, uint32_t r)
{
    ring_cqe_t cqe;
    while (!ring_reap(&engines->ranks[r].ring, &cqe))
        engines_pump(engines);
    return cqe;
}

#endif
