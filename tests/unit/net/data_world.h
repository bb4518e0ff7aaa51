/*
 * Several hosts in one process, each with a data plane and an executor of its own, over socket pairs. What an
 * engine does with ops is done by the test's thread: it begins them, tells the peers, and ends them.
 */
#ifndef DATA_WORLD_H
#define DATA_WORLD_H

#include "exec/host/exec_host.h"
#include "net/data/data.h"
#include "unit/exec/wire_buffers.h"
#include "unit/net/endpoints.h"
#include "unit/net/world_gpus.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum {
    WORLD_HOSTS_MAX = MACHINE_HOSTS_MAX,
    WORLD_FLOWS_MAX = 512,
    WORLD_OPS_MAX = 64,
    WAIT_S = 120,
    USED_AGAIN = 0xab
};

/* In a FAIL: the op has ended there, and all that it sends was sent. */
#define HAS_ENDED UINT32_MAX

typedef struct world world_t;

/* NULL: hosts are joined by socket pairs. */
static const verbs_library_t *world_verbs;

/* The tests that follow have hosts that are joined by RDMA. The second one takes how many have failed, and
 * returns that: what is left of one that failed is no fault of the fake's. */
static inline void world_begin_verbs(void)
{
    world_verbs = fake_verbs_library();
    fake_verbs_begin(1);
}

static inline int world_end_verbs(int failed)
{
    if (failed == 0)
        fake_verbs_end();
    return failed;
}

/* Endpoints may resume: what control threads do then is done by the test's thread. They know which round keys
 * are of. */
static bool world_resumes;
static bool world_knows_keys = true;

/* RDMA devices of a host, which connections of another round take in turn. */
static uint32_t world_devices = 1;

/* Hosts have memory of GPUs, in which landings may lie. */
static bool world_has_gpus;

/* Of data planes that are made from now on. */
static bool world_adaptive_routing;

/* Moves of connections that are made from now on go over so many devices of each host: fake_nic(). */
static uint32_t world_nics = 1;

typedef enum event_kind {
    EVENT_FRAME,
    EVENT_ABORTED,
    EVENT_SETTLED,
    EVENT_LOST,
    EVENT_BROKEN,
    EVENT_DONE,
} event_kind_t;

typedef struct event {
    struct event *next;
    event_kind_t kind;
    struct world_host *host;
    uint32_t peer;     /* FRAME, LOST, BROKEN: which host */
    struct part *part; /* ABORTED, SETTLED, DONE */
    blink_result_t code;
    char text[BLINK_ERROR_TEXT_BYTES];
    uint32_t type, bytes;
    uint32_t payload[];
} event_t;

/* What BEGIN and FAIL say here. */
typedef struct begin {
    uint32_t op;
    data_offer_t offer;
} begin_t;

typedef struct op op_t;

/* One host's part of an op. */
typedef struct part {
    struct world_host *host;
    op_t *op;
    lane_program_t *program;
    exec_instance_t *instance;
    data_run_t *run;
    world_wires_t wires;
    const void *inputs[RANKS_MOST];
    void *outputs[RANKS_MOST];
    uint64_t output_bytes[RANKS_MOST];
    bool begun, failed, started, done, settled, over;
    bool joined[WORLD_HOSTS_MAX];                    /* wire lanes go there or come from there */
    bool has_begun[WORLD_HOSTS_MAX];                 /* that host, by its BEGIN */
    bool has_failed[WORLD_HOSTS_MAX];                /* by its FAIL */
    bool told_fail[WORLD_HOSTS_MAX];                 /* this host's FAIL */
    data_offer_t offers[WORLD_HOSTS_MAX];            /* of BEGIN */
    uint32_t sent[WORLD_HOSTS_MAX][WORLD_FLOWS_MAX]; /* of FAIL */
    uint32_t sent_count[WORLD_HOSTS_MAX];
    blink_result_t result;
} part_t;

struct op {
    world_t *world;
    uint32_t number;
    const plan_t *plan;
    uint32_t host_of[RANKS_MOST];
    uint64_t count;
    buffers_t expected, buffers;
    part_t parts[WORLD_HOSTS_MAX];
};

typedef struct world_host {
    world_t *world;
    uint32_t number;
    data_t *data;
    exec_host_t *exec;
    world_gpu_t gpu;
    data_endpoint_t *endpoints[WORLD_HOSTS_MAX];
    bool lost[WORLD_HOSTS_MAX];
    /* Of connections to hosts with higher numbers. */
    uint32_t rounds[WORLD_HOSTS_MAX];
    int wires[WORLD_HOSTS_MAX][ENDPOINT_STREAMS];
    blink_result_t lost_code;
    char lost_text[BLINK_ERROR_TEXT_BYTES];
    _Atomic int64_t charged_bytes;
    _Atomic uint32_t wanted;
} world_host_t;

struct world {
    const topo_t *topo;
    uint32_t host_count;
    world_host_t hosts[WORLD_HOSTS_MAX];
    uint32_t op_count, op_serial;
    op_t *ops[WORLD_OPS_MAX];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    event_t *first, **last;
    uint64_t dice;
};

static inline uint32_t world_random(uint64_t *dice, uint32_t below)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return (uint32_t)(*dice >> 20) % below;
}

/* ---- events ---- */

static inline event_t *make_event(event_kind_t kind, world_host_t *host, uint32_t bytes)
{
    event_t *event = calloc(1, sizeof(*event) + bytes + 4);
    *event = (event_t){.kind = kind, .host = host, .bytes = bytes};
    return event;
}

static inline void post_event(event_t *event)
{
    world_t *world = event->host->world;
    pthread_mutex_lock(&world->mutex);
    *world->last = event;
    world->last = &event->next;
    pthread_cond_signal(&world->changed);
    pthread_mutex_unlock(&world->mutex);
}

static inline uint32_t peer_number(data_endpoint_t *endpoint)
{
    return (uint32_t)(uintptr_t)data_endpoint_owner(endpoint);
}

static inline void on_wanted(void *context, data_endpoint_t *endpoint)
{
    world_host_t *host = context;
    (void)endpoint;
    atomic_fetch_add(&host->wanted, 1);
}

static inline blink_result_t on_frame(void *context, data_endpoint_t *endpoint, const wire_frame_t *frame,
                                      const uint8_t *payload)
{
    if (frame->bytes > sizeof(uint32_t) * (WORLD_FLOWS_MAX + 2) || frame->type == WIRE_LEFT)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame that this engine does not know");
    event_t *event = make_event(EVENT_FRAME, context, frame->bytes);
    event->peer = peer_number(endpoint);
    event->type = frame->type;
    memcpy(event->payload, payload, frame->bytes);
    post_event(event);
    return BLINK_OK;
}

static inline void post_part(event_kind_t kind, part_t *part, blink_result_t code)
{
    event_t *event = make_event(kind, part->host, 0);
    event->part = part;
    event->code = code;
    snprintf(event->text, sizeof(event->text), "%s", code == BLINK_OK ? "" : blink_error_text());
    post_event(event);
}

static inline void on_run_aborted(void *context, void *run_context, blink_result_t code)
{
    (void)context;
    post_part(EVENT_ABORTED, run_context, code);
}

static inline void on_settled(void *context, void *run_context)
{
    (void)context;
    post_part(EVENT_SETTLED, run_context, BLINK_OK);
}

static inline void on_lost(void *context, data_endpoint_t *endpoint, blink_result_t code)
{
    event_t *event = make_event(EVENT_LOST, context, 0);
    event->peer = peer_number(endpoint);
    event->code = code;
    snprintf(event->text, sizeof(event->text), "%s", blink_error_text());
    post_event(event);
}

static inline void on_broken(void *context, data_endpoint_t *endpoint)
{
    event_t *event = make_event(EVENT_BROKEN, context, 0);
    event->peer = peer_number(endpoint);
    post_event(event);
}

static inline blink_result_t on_charge(void *context, void *tenant, uint64_t bytes)
{
    world_host_t *host = context;
    assert_ptr_equal(tenant, host);
    atomic_fetch_add(&host->charged_bytes, (int64_t)bytes);
    return BLINK_OK;
}

static inline void on_credit(void *context, void *tenant, uint64_t bytes)
{
    world_host_t *host = context;
    (void)tenant;
    atomic_fetch_sub(&host->charged_bytes, (int64_t)bytes);
}

static inline void on_run_done(const exec_end_t *end)
{
    part_t *part = end->context;
    post_part(EVENT_DONE, part, end->result);
}

/* ---- ops ---- */

static inline void send_begin(part_t *part, uint32_t peer)
{
    begin_t begin = {part->op->number, data_run_offer(part->run, peer)};
    (void)data_send(part->host->endpoints[peer], WIRE_BEGIN, &begin, sizeof(begin));
}

static inline void send_fail(part_t *part, uint32_t peer)
{
    uint32_t payload[WORLD_FLOWS_MAX + 2] = {part->op->number}, count = 0;
    if (part->told_fail[peer])
        return;
    part->told_fail[peer] = true;
    if (part->run)
        count = data_run_stop(part->run, peer, payload + 2, WORLD_FLOWS_MAX);
    payload[1] = part->over && !part->failed ? HAS_ENDED : count;
    (void)data_send(part->host->endpoints[peer], WIRE_FAIL, payload, (count + 2) * sizeof(*payload));
}

static inline void fail_part(part_t *part, blink_result_t code)
{
    if (part->failed || part->over || !part->begun)
        return;
    part->failed = true;
    part->result = code;
    if (part->started && !part->done)
        exec_abort(part->instance, code);
    for (uint32_t peer = 0; peer < part->host->world->host_count; peer++)
        if (part->joined[peer])
            send_fail(part, peer);
    data_run_settle(part->run);
}

static inline void heed_begin(part_t *part, uint32_t peer)
{
    if (part->over || data_run_agree(part->run, peer, &part->offers[peer]) == BLINK_OK)
        return;
    fail_part(part, BLINK_ERR_PROTOCOL);
}

static inline void heed_fail(part_t *part, uint32_t peer)
{
    if (!part->over)
        (void)data_run_fail(part->run, peer, part->sent_count[peer] == HAS_ENDED ? NULL : part->sent[peer],
                            part->sent_count[peer]);
    fail_part(part, BLINK_ERR_PEER_LOST);
}

static inline void start_executor(part_t *part)
{
    exec_end_t end;
    exec_run_t run = {.inputs = part->inputs,
                      .outputs = part->outputs,
                      .count = part->op->count,
                      .datatype = BLINK_FLOAT32,
                      .redop = BLINK_SUM,
                      .done = on_run_done,
                      .context = part};
    run.wires = data_run_start(part->run);
    if (world_has_gpus)
        run.wires = world_gpu_wires(&part->wires, part->program, run.wires);
    part->started = true;
    if (exec_start(part->instance, &run, &end))
        on_run_done(&end);
}

static inline void begin_part(part_t *part)
{
    world_host_t *host = part->host;
    const data_run_config_t config = {.instance = part->instance,
                                      .endpoints = host->endpoints,
                                      .outputs = part->outputs,
                                      .output_bytes = part->output_bytes,
                                      .tenant = host,
                                      .context = part,
                                      .is_crowded = host == host->world->hosts};
    bool fails = false;
    for (uint32_t peer = 0; peer < host->world->host_count; peer++)
        fails |= part->joined[peer] && (part->has_failed[peer] || host->lost[peer]);
    blink_result_t result = fails ? BLINK_ERR_PEER_LOST : data_run_create(host->data, &config, &part->run);
    part->begun = true;
    if (result != BLINK_OK) {
        part->failed = part->over = true;
        part->result = BLINK_ERR_PEER_LOST;
        for (uint32_t peer = 0; peer < host->world->host_count; peer++)
            if (part->joined[peer])
                send_fail(part, peer);
        return;
    }
    data_soon(host->data);
    for (uint32_t peer = 0; peer < host->world->host_count; peer++)
        if (part->joined[peer])
            send_begin(part, peer);
    start_executor(part);
    for (uint32_t peer = 0; peer < host->world->host_count; peer++)
        if (part->has_begun[peer])
            heed_begin(part, peer);
    data_turn(host->data);
}

/* Memory of a part whose op has failed is used for something else from now on. */
static inline void use_again(part_t *part)
{
    for (uint32_t rank = 0; rank < part->op->plan->rank_count; rank++)
        if (part->op->host_of[rank] == part->host->number)
            memset(part->op->buffers.memory[rank], USED_AGAIN, part->op->buffers.elements * sizeof(float));
}

static inline void end_part(part_t *part)
{
    if (part->over || !part->settled || (part->started && !part->done))
        return;
    part->over = true;
    data_run_destroy(part->run);
    part->run = NULL;
    world_gpu_wires_free(&part->wires);
    if (part->failed)
        use_again(part);
}

/* ---- what happens ---- */

static inline op_t *find_op(const world_t *world, uint32_t number)
{
    for (uint32_t i = 0; i < world->op_count; i++)
        if (world->ops[i]->number == number)
            return world->ops[i];
    return NULL;
}

static inline void take_frame(const event_t *event)
{
    world_t *world = event->host->world;
    uint32_t peer = event->peer;
    op_t *op = find_op(world, event->payload[0]);
    if (!op)
        return; /* the op is long over everywhere */
    part_t *part = &op->parts[event->host->number];
    if (event->type == WIRE_BEGIN) {
        memcpy(&part->offers[peer], (const uint8_t *)event->payload + offsetof(begin_t, offer),
               sizeof(data_offer_t));
        part->has_begun[peer] = true;
        if (part->begun)
            heed_begin(part, peer);
        return;
    }
    part->sent_count[peer] = event->payload[1];
    memcpy(part->sent[peer], &event->payload[2], event->bytes - 2 * sizeof(uint32_t));
    part->has_failed[peer] = true;
    if (part->begun)
        heed_fail(part, peer);
    send_fail(part, peer);
}

static inline void take_lost(const event_t *event)
{
    world_host_t *host = event->host;
    host->lost[event->peer] = true;
    host->lost_code = event->code;
    memcpy(host->lost_text, event->text, sizeof(host->lost_text));
    for (uint32_t i = 0; i < host->world->op_count; i++) {
        part_t *part = &host->world->ops[i]->parts[host->number];
        if (part->joined[event->peer])
            fail_part(part, BLINK_ERR_PEER_LOST);
    }
}

static inline void join_hosts_in_round(world_t *world, uint32_t low, uint32_t high, uint32_t round)
{
    data_endpoint_t *a = world->hosts[low].endpoints[high], *b = world->hosts[high].endpoints[low];
    bool second = round % world_devices > 0;
    if (world_verbs)
        join_round_by_verbs(a, second ? fake_second(low) : low, b, second ? fake_second(high) : high, round,
                            world_nics);
    else
        join_round(a, b, round, world_resumes ? world->hosts[low].wires[high] : NULL);
}

/* Both sides close what they have, hear how far the other one is, and are joined anew, once in a round. */
static inline void take_broken(const event_t *event)
{
    world_t *world = event->host->world;
    uint32_t low = event->host->number, high = event->peer;
    if (low > high) {
        low = event->peer;
        high = event->host->number;
    }
    data_endpoint_t *a = world->hosts[low].endpoints[high], *b = world->hosts[high].endpoints[low];
    data_fence_t at_a, at_b;
    bool both = data_endpoint_fence(a, 0, &at_a) == BLINK_OK && data_endpoint_fence(b, 0, &at_b) == BLINK_OK;
    both = both && data_endpoint_fence(a, at_b.round, &at_a) == BLINK_OK &&
           data_endpoint_fence(b, at_a.round, &at_b) == BLINK_OK;
    if (!both || at_a.round != at_b.round || at_a.round <= world->hosts[low].rounds[high])
        return; /* one side is lost, or is in a later round by now, of which it has told */
    world->hosts[low].rounds[high] = at_a.round;
    assert_int_equal(data_endpoint_resume(a, &at_b), BLINK_OK);
    assert_int_equal(data_endpoint_resume(b, &at_a), BLINK_OK);
    join_hosts_in_round(world, low, high, at_a.round);
}

static inline void take_event(const event_t *event)
{
    part_t *part = event->part;
    switch (event->kind) {
    case EVENT_FRAME:
        take_frame(event);
        return;
    case EVENT_LOST:
        take_lost(event);
        return;
    case EVENT_BROKEN:
        take_broken(event);
        return;
    case EVENT_ABORTED:
        fail_part(part, event->code);
        return;
    case EVENT_SETTLED:
        assert_false(part->settled);
        part->settled = true;
        break;
    case EVENT_DONE:
        assert_false(part->done);
        part->done = true;
        data_run_ended(part->run);
        if (event->code != BLINK_OK)
            fail_part(part, event->code);
        else if (!part->failed)
            data_run_settle(part->run);
        break;
    }
    end_part(part);
}

/* The next thing that happens is taken, or else some time passes. */
static inline bool world_step(world_t *world, long wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += wait_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&world->mutex);
    while (!world->first && pthread_cond_timedwait(&world->changed, &world->mutex, &until) == 0)
        ;
    event_t *event = world->first;
    if (event) {
        world->first = event->next;
        if (!world->first)
            world->last = &world->first;
    }
    pthread_mutex_unlock(&world->mutex);
    if (!event)
        return false;
    take_event(event);
    free(event);
    return true;
}

static inline bool all_are_over(const world_t *world)
{
    for (uint32_t i = 0; i < world->op_count; i++)
        for (uint32_t h = 0; h < world->host_count; h++)
            if (world->ops[i]->parts[h].begun && !world->ops[i]->parts[h].over)
                return false;
    return true;
}

static inline void say_state(const world_t *world)
{
    for (uint32_t i = 0; i < world->op_count; i++)
        for (uint32_t h = 0; h < world->host_count; h++) {
            const part_t *part = &world->ops[i]->parts[h];
            print_message("op %u, host %u: begun %d, failed %d, done %d, settled %d, over %d, lost %s\n",
                          world->ops[i]->number, h, part->begun, part->failed, part->done, part->settled,
                          part->over, part->host->lost_text);
        }
}

/* Until a condition is fulfilled; WAIT_S is for a machine that is very busy. */
static inline void world_wait(world_t *world, bool (*is_over)(const world_t *world), const char *what)
{
    time_t begin = time(NULL);
    while (!is_over(world)) {
        (void)world_step(world, 100);
        if (time(NULL) - begin <= WAIT_S)
            continue;
        say_state(world);
        fail_msg("after %d s: %s", WAIT_S, what);
    }
}

/* ---- hosts ---- */

static inline void join_hosts(world_t *world, uint32_t a, uint32_t b, bool joined)
{
    uint32_t hosts[2] = {a, b};
    for (uint32_t i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%u", hosts[1 - i]);
        assert_int_equal(data_endpoint_create(world->hosts[hosts[i]].data, name,
                                              (void *)(uintptr_t)hosts[1 - i],
                                              &world->hosts[hosts[i]].endpoints[hosts[1 - i]]),
                         BLINK_OK);
        if (world_resumes)
            data_endpoint_may_resume(world->hosts[hosts[i]].endpoints[hosts[1 - i]], world_knows_keys);
        if (world_nics > 1)
            data_endpoint_set_move_streams(world->hosts[hosts[i]].endpoints[hosts[1 - i]], world_nics);
    }
    if (joined)
        join_hosts_in_round(world, a, b, 0);
}

static inline void world_init(world_t *world, const topo_t *topo, uint32_t host_count, bool joined)
{
    *world = (world_t){.topo = topo, .host_count = host_count, .dice = 1};
    world->last = &world->first;
    pthread_mutex_init(&world->mutex, NULL);
    pthread_cond_init(&world->changed, NULL);
    for (uint32_t h = 0; h < host_count; h++) {
        world_host_t *host = &world->hosts[h];
        *host = (world_host_t){.world = world, .number = h};
        const data_config_t config = {.transport = world_verbs ? SETTINGS_RDMA : SETTINGS_TCP,
                                      .verbs = world_verbs,
                                      .adaptive_routing = world_adaptive_routing,
                                      .timeout_s = 60,
                                      .handler = {.wanted = on_wanted,
                                                  .broken = on_broken,
                                                  .frame = on_frame,
                                                  .aborted = on_run_aborted,
                                                  .settled = on_settled,
                                                  .lost = on_lost,
                                                  .charge = on_charge,
                                                  .credit = on_credit,
                                                  .context = host}};
        exec_host_config_t exec_config = {.workers = 1 + h % 2};
        assert_int_equal(data_create(&config, &host->data), BLINK_OK);
        assert_int_equal(exec_host_create(&exec_config, &host->exec), BLINK_OK);
        if (world_has_gpus)
            world_gpu_begin(&host->gpu, exec_of_host(host->exec));
    }
    for (uint32_t a = 0; a < host_count; a++)
        for (uint32_t b = a + 1; b < host_count; b++)
            join_hosts(world, a, b, joined);
}

static inline void world_fini(world_t *world)
{
    for (uint32_t h = 0; h < world->host_count; h++) {
        for (uint32_t p = 0; p < world->host_count; p++) {
            data_endpoint_t *endpoint = world->hosts[h].endpoints[p];
            if (!endpoint)
                continue;
            data_endpoint_close(endpoint, BLINK_OK);
            data_endpoint_put(endpoint);
            for (uint32_t s = 0; s < ENDPOINT_STREAMS; s++)
                if (world->hosts[h].wires[p][s] > 0)
                    close(world->hosts[h].wires[p][s]);
        }
    }
    for (uint32_t h = 0; h < world->host_count; h++) {
        data_destroy(world->hosts[h].data);
        if (world_has_gpus)
            world_gpu_unmake(world->hosts[h].gpu.memory, world->hosts[h].gpu.mapped);
        exec_host_destroy(world->hosts[h].exec);
        assert_int_equal(world->hosts[h].charged_bytes, 0);
    }
    while (world->first) {
        event_t *event = world->first;
        world->first = event->next;
        free(event);
    }
    pthread_cond_destroy(&world->changed);
    pthread_mutex_destroy(&world->mutex);
}

/* ---- an op ---- */

static inline void part_init(op_t *op, uint32_t h, const lane_hosts_t *hosts, uint32_t slots)
{
    part_t *part = &op->parts[h];
    exec_need_t need;
    *part = (part_t){.host = &op->world->hosts[h], .op = op};
    if (lane_compile(op->world->topo, op->plan, hosts, &part->program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    assert_int_equal(lane_program_keep(part->program, h), BLINK_OK);
    assert_int_equal(
        exec_instance_create(exec_of_host(part->host->exec), part->program, NULL, &part->instance), BLINK_OK);
    exec_limit_slots(part->instance, slots);
    assert_int_equal(exec_bind(part->instance, op->count * sizeof(float), &need), BLINK_OK);
    for (uint32_t i = 0; i < part->program->landing_count; i++) {
        const lane_landing_t *landing = &part->program->landings[i];
        part->joined[landing->from_host == h ? landing->to_host : landing->from_host] = true;
    }
    for (uint32_t rank = 0; rank < op->plan->rank_count; rank++) {
        bool here = op->host_of[rank] == h;
        part->inputs[rank] = here ? op->buffers.inputs[rank] : NULL;
        part->outputs[rank] = here ? op->buffers.outputs[rank] : NULL;
        part->output_bytes[rank] = blocks_of(op->plan, rank, true) * op->count * sizeof(float);
    }
}

enum { ALONE_RUNS = -1000 };

static inline void on_alone_done(const exec_end_t *end)
{
    atomic_store((_Atomic int *)end->context, (int)end->result);
}

/* What one host that runs the plan alone leaves in every rank's memory. */
static inline void run_alone(op_t *op)
{
    lane_program_t *program = NULL;
    exec_instance_t *instance = NULL;
    exec_need_t need;
    exec_end_t end;
    _Atomic int result = ALONE_RUNS;
    exec_run_t run = {.inputs = op->expected.inputs,
                      .outputs = op->expected.outputs,
                      .count = op->count,
                      .datatype = BLINK_FLOAT32,
                      .redop = BLINK_SUM,
                      .done = on_alone_done,
                      .context = &result};
    assert_int_equal(lane_compile(op->world->topo, op->plan, NULL, &program), BLINK_OK);
    assert_int_equal(exec_instance_create(exec_of_host(op->world->hosts[0].exec), program, NULL, &instance),
                     BLINK_OK);
    assert_int_equal(exec_bind(instance, op->count * sizeof(float), &need), BLINK_OK);
    if (exec_start(instance, &run, &end))
        on_alone_done(&end);
    while (atomic_load(&result) == ALONE_RUNS)
        usleep(100);
    assert_int_equal(result, BLINK_OK);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
}

static inline op_t *op_create(world_t *world, const plan_t *plan, uint64_t count, bool lands_in_slots,
                              const uint32_t slots[WORLD_HOSTS_MAX])
{
    op_t *op = calloc(1, sizeof(*op));
    *op = (op_t){.world = world, .number = world->op_serial++, .plan = plan, .count = count};
    hand_number_hosts(world->topo, plan, op->host_of);
    buffers_init(&op->expected, plan, count, false);
    buffers_init(&op->buffers, plan, count, false);
    run_alone(op);
    const lane_hosts_t hosts = {op->host_of, lands_in_slots, false, false};
    for (uint32_t h = 0; h < world->host_count; h++)
        part_init(op, h, &hosts, slots ? slots[h] : 0);
    world->ops[world->op_count++] = op;
    return op;
}

/* Hosts begin in any order. */
static inline void begin_everywhere(op_t *op)
{
    world_t *world = op->world;
    uint32_t first = world_random(&world->dice, world->host_count);
    for (uint32_t i = 0; i < world->host_count; i++)
        begin_part(&op->parts[(first + i) % world->host_count]);
}

static inline void ops_destroy(world_t *world)
{
    for (uint32_t i = 0; i < world->op_count; i++) {
        op_t *op = world->ops[i];
        for (uint32_t h = 0; h < world->host_count; h++) {
            exec_instance_destroy(op->parts[h].instance);
            lane_program_destroy(op->parts[h].program);
        }
        buffers_fini(&op->buffers);
        buffers_fini(&op->expected);
        free(op);
    }
    world->op_count = 0;
}

static inline void assert_right(const op_t *op)
{
    for (uint32_t h = 0; h < op->world->host_count; h++)
        assert_int_equal(op->parts[h].result, BLINK_OK);
    for (uint32_t rank = 0; rank < op->plan->rank_count; rank++)
        if (memcmp(op->buffers.memory[rank], op->expected.memory[rank],
                   op->buffers.elements * sizeof(float)) != 0)
            fail_msg("collective %u, %llu elements: rank %u differs", op->plan->collective,
                     (unsigned long long)op->count, rank);
}

/* Nothing was written to memory of parts that have failed after they were over. */
static inline void assert_untouched(const op_t *op)
{
    for (uint32_t rank = 0; rank < op->plan->rank_count; rank++) {
        const part_t *part = &op->parts[op->host_of[rank]];
        const uint8_t *memory = (const uint8_t *)op->buffers.memory[rank];
        if (part->run != NULL || !part->failed || !part->settled)
            continue;
        assert_int_equal(memory[0], USED_AGAIN); /* and every byte equals the one before */
        assert_memory_equal(memory, memory + 1, op->buffers.elements * sizeof(float) - 1);
    }
}

#endif
