/*
 * A network for tests, between hosts that are instances of one process. Copiers carry moves from host to host
 * in random order, with random delays, as several connections of an endpoint would.
 */
#ifndef FAKE_WIRE_H
#define FAKE_WIRE_H

#include "exec/instance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <time.h>

enum { WIRE_HOSTS_MAX = 4, WIRE_WINDOW = 64, WIRE_COPIERS = 2 };

typedef struct wire_host wire_host_t;

/* The moves of one wire lane. */
typedef struct wire_flow {
    pthread_mutex_t turn; /* of the copier that works on the flow; the rest but the atomics is under it */
    wire_host_t *from, *to;
    uint32_t from_lane, to_lane, moves;
    _Atomic uint32_t ready, credit; /* as the executors told */
    uint32_t posted, sent, arrived, told;
    uint64_t came; /* bit i: move arrived + i has come */
    struct wire_frame {
        void *data;
        uint64_t bytes;
    } frames[WIRE_WINDOW]; /* the moves under way, by sequence modulo the window */
} wire_flow_t;

struct wire_host {
    uint32_t number;
    exec_instance_t *instance; /* of the host's part of the program */
    wire_flow_t **flows;       /* by wire lane */
    void **landings;           /* by landing */
    exec_wires_t wires;        /* for the run */
    _Atomic bool aborted;      /* the executor said so */
};

typedef struct wire_net {
    wire_host_t hosts[WIRE_HOSTS_MAX];
    uint32_t host_count;
    wire_flow_t *flows;
    uint32_t flow_count;
    _Atomic bool stopped; /* nothing new leaves */
    _Atomic bool over;
    struct wire_copier {
        struct wire_net *net;
        uint64_t dice;
        pthread_t thread;
    } copiers[WIRE_COPIERS];
} wire_net_t;

static inline uint32_t wire_random(uint64_t *dice, uint32_t below)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return (uint32_t)(*dice >> 20) % below;
}

static inline uint32_t wire_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t wire_first_lane(const lane_program_t *program)
{
    return program->lane_count - program->wire_count;
}

/* ---- what the executors tell ---- */

static inline void wire_on_ready(void *context, uint32_t lane, uint32_t sequence)
{
    wire_host_t *host = context;
    wire_flow_t *flow = host->flows[lane - wire_first_lane(host->instance->program)];
    _Atomic uint32_t *told = flow->from == host ? &flow->ready : &flow->credit;
    if (atomic_exchange(told, sequence) >= sequence || sequence > flow->moves)
        fail_msg("lane %u of host %u is said to be ready up to %u", lane, host->number, sequence);
}

static inline void wire_on_aborted(void *context)
{
    wire_host_t *host = context;
    assert_false(atomic_exchange(&host->aborted, true));
}

/* ---- moves ----
 *
 * Each returns whether there was something to do. */

/* Where the slot of a move is in the landing of the other host: both ends know it without asking. */
static inline char *wire_landing_place(const wire_flow_t *flow, uint32_t sequence)
{
    const exec_instance_t *instance = flow->from->instance;
    const lane_program_t *program = instance->program;
    const lane_t *lane = &program->lanes[flow->from_lane];
    const lane_step_t *step = &program->steps[lane->step_first + sequence % lane->step_count];
    const lane_program_t *other = flow->to->instance->program;
    uint32_t landing = 0;
    while (other->landings[landing].from_host != flow->from->number ||
           other->landings[landing].to_host != flow->to->number)
        landing++;
    return (char *)flow->to->landings[landing] + lane_landing_offset(&instance->geometry, lane->channel,
                                                                     program->operands[step->dst_first].edge,
                                                                     sequence / lane->step_count);
}

static inline bool wire_may_come_early(const wire_flow_t *flow)
{
    return flow->from->instance->program->lands_in_slots;
}

static inline bool wire_post(wire_flow_t *flow)
{
    uint32_t granted = wire_may_come_early(flow) ? flow->moves : atomic_load(&flow->credit);
    if (flow->posted >= wire_least(granted, atomic_load(&flow->ready)) ||
        flow->posted >= flow->arrived + WIRE_WINDOW)
        return false;
    wire_place_t place = exec_wire_place(flow->from->instance, flow->from_lane, flow->posted);
    struct wire_frame frame = {malloc(place.bytes + 1), place.bytes};
    memcpy(frame.data, place.address, place.bytes);
    flow->frames[flow->posted++ % WIRE_WINDOW] = frame;
    return true;
}

static inline bool wire_tell_sent(wire_flow_t *flow, uint64_t *dice)
{
    if (flow->sent == flow->posted)
        return false;
    flow->sent += 1 + wire_random(dice, flow->posted - flow->sent);
    exec_wire_sent(flow->from->instance, flow->from_lane, flow->sent);
    return true;
}

/* One of the moves under way comes. */
static inline bool wire_deliver(wire_flow_t *flow, uint64_t *dice)
{
    if (flow->arrived == flow->posted)
        return false;
    uint32_t ahead = wire_random(dice, flow->posted - flow->arrived), sequence = flow->arrived + ahead;
    if (flow->came >> ahead & 1)
        return false;
    struct wire_frame frame = flow->frames[sequence % WIRE_WINDOW];
    char *address = NULL;
    if (atomic_load(&flow->credit) > sequence) {
        wire_place_t to = exec_wire_place(flow->to->instance, flow->to_lane, sequence);
        assert_int_equal(to.bytes, frame.bytes);
        address = to.address;
    }
    if (wire_may_come_early(flow)) {
        assert_true(!address || address == wire_landing_place(flow, sequence));
        address = wire_landing_place(flow, sequence);
    }
    memcpy(address, frame.data, frame.bytes);
    free(frame.data);
    for (flow->came |= (uint64_t)1 << ahead; flow->came & 1; flow->came >>= 1)
        flow->arrived++;
    return true;
}

static inline bool wire_tell_arrived(wire_flow_t *flow, uint64_t *dice)
{
    uint32_t may = wire_least(flow->arrived, atomic_load(&flow->credit));
    exec_instance_t *instance = flow->to->instance;
    if (flow->told >= may)
        return false;
    flow->told += 1 + wire_random(dice, may - flow->told);
    exec_task_t *woken = exec_wire_arrived(instance, flow->to_lane, flow->told);
    void (*const ways[])(exec_instance_t *, exec_task_t *) = {exec_wire_run, exec_wire_run_some,
                                                              exec_wire_queue};
    if (woken)
        ways[wire_random(dice, 3)](instance, woken);
    return true;
}

static inline bool wire_work(wire_net_t *net, wire_flow_t *flow, uint64_t *dice)
{
    switch (wire_random(dice, 4)) {
    case 0:
        return !atomic_load(&net->stopped) && wire_post(flow);
    case 1:
        return wire_tell_sent(flow, dice);
    case 2:
        return wire_deliver(flow, dice);
    default:
        return wire_tell_arrived(flow, dice);
    }
}

static inline void wire_sleep(long us)
{
    struct timespec span = {.tv_nsec = us * 1000};
    nanosleep(&span, NULL);
}

/* Do a few things for some flow. Returns whether there was anything to do. */
static inline bool wire_serve(wire_net_t *net, wire_flow_t *flow, uint64_t *dice)
{
    bool served = false;
    if (pthread_mutex_trylock(&flow->turn) != 0)
        return false;
    for (uint32_t works = 1 + wire_random(dice, 12); works > 0; works--)
        served |= wire_work(net, flow, dice);
    pthread_mutex_unlock(&flow->turn);
    return served;
}

static inline void *wire_copier(void *argument)
{
    struct wire_copier *copier = argument;
    wire_net_t *net = copier->net;
    uint32_t in_vain = 0;
    while (!atomic_load(&net->over)) {
        wire_flow_t *flow = &net->flows[wire_random(&copier->dice, net->flow_count)];
        in_vain = wire_serve(net, flow, &copier->dice) ? 0 : in_vain + 1;
        if (in_vain > net->flow_count || wire_random(&copier->dice, 64) == 0)
            wire_sleep(20);
    }
    return NULL;
}

/* ---- the network ---- */

/* The lane of the receiver's program that is the sender's: both count the lanes of their landing alike. */
static inline void wire_join(wire_net_t *net, uint32_t from, const lane_landing_t *landing)
{
    wire_host_t *sender = &net->hosts[from], *receiver = &net->hosts[landing->to_host];
    const lane_program_t *ours = sender->instance->program, *theirs = receiver->instance->program;
    const lane_landing_t *other = theirs->landings;
    while (other->from_host != landing->from_host || other->to_host != landing->to_host)
        other++;
    assert_int_equal(other->lane_count, landing->lane_count);
    for (uint32_t i = 0; i < landing->lane_count; i++) {
        wire_flow_t *flow = &net->flows[net->flow_count++];
        *flow = (wire_flow_t){.from = sender,
                              .to = receiver,
                              .from_lane = landing->lane_first + i,
                              .to_lane = other->lane_first + i};
        pthread_mutex_init(&flow->turn, NULL);
        sender->flows[flow->from_lane - wire_first_lane(ours)] = flow;
        receiver->flows[flow->to_lane - wire_first_lane(theirs)] = flow;
    }
}

/* Join hosts whose instances are there; a run begins with wire_net_reset(). */
static inline void wire_net_init(wire_net_t *net)
{
    uint32_t lanes = 0;
    for (uint32_t h = 0; h < net->host_count; h++) {
        wire_host_t *host = &net->hosts[h];
        const lane_program_t *program = host->instance->program;
        host->number = h;
        host->flows = calloc(program->wire_count + 1u, sizeof(wire_flow_t *));
        host->landings = calloc(program->landing_count + 1u, sizeof(void *));
        host->wires = (exec_wires_t){wire_on_ready, wire_on_aborted, host, host->landings, NULL};
        lanes += program->wire_count;
    }
    net->flows = calloc(lanes + 1u, sizeof(*net->flows));
    for (uint32_t h = 0; h < net->host_count; h++) {
        const lane_program_t *program = net->hosts[h].instance->program;
        for (uint32_t i = 0; i < program->landing_count; i++)
            if (program->landings[i].from_host == h)
                wire_join(net, h, &program->landings[i]);
    }
    assert_int_equal(2 * net->flow_count, lanes);
}

static inline void wire_drop_moves(wire_flow_t *flow)
{
    for (uint32_t i = 0; flow->arrived + i < flow->posted; i++)
        if (!(flow->came >> i & 1))
            free(flow->frames[(flow->arrived + i) % WIRE_WINDOW].data);
}

static inline void wire_net_fini(wire_net_t *net)
{
    for (uint32_t i = 0; i < net->flow_count; i++)
        pthread_mutex_destroy(&net->flows[i].turn);
    for (uint32_t h = 0; h < net->host_count; h++) {
        for (uint32_t i = 0; i < net->hosts[h].instance->program->landing_count; i++)
            free(net->hosts[h].landings[i]);
        free(net->hosts[h].landings);
        free(net->hosts[h].flows);
    }
    free(net->flows);
}

/* All instances are bound to the payload of the next run, and idle. */
static inline void wire_net_reset(wire_net_t *net, uint64_t seed)
{
    for (uint32_t h = 0; h < net->host_count; h++) {
        wire_host_t *host = &net->hosts[h];
        host->aborted = false;
        for (uint32_t i = 0; i < host->instance->program->landing_count; i++) {
            free(host->landings[i]);
            host->landings[i] = NULL;
            if (host->instance->program->landings[i].to_host == h)
                host->landings[i] =
                    aligned_alloc(LANE_LANDING_ALIGNMENT,
                                  host->instance->geometry.landing_bytes[i] + LANE_LANDING_ALIGNMENT);
        }
    }
    for (uint32_t i = 0; i < net->flow_count; i++) {
        wire_flow_t *flow = &net->flows[i];
        flow->moves = exec_wire_moves(flow->from->instance, flow->from_lane);
        assert_int_equal(flow->moves, exec_wire_moves(flow->to->instance, flow->to_lane));
        flow->ready = flow->credit = 0;
        flow->posted = flow->sent = flow->arrived = flow->told = 0;
        flow->came = 0;
    }
    net->stopped = net->over = false;
    for (uint32_t i = 0; i < WIRE_COPIERS; i++)
        net->copiers[i] = (struct wire_copier){.net = net, .dice = seed * 2654435761u + i + 1};
}

/* Without flows there is nothing to carry. */
static inline void wire_net_start(wire_net_t *net)
{
    for (uint32_t i = 0; i < WIRE_COPIERS && net->flow_count > 0; i++)
        assert_int_equal(pthread_create(&net->copiers[i].thread, NULL, wire_copier, &net->copiers[i]), 0);
}

static inline void wire_net_stop(wire_net_t *net)
{
    net->over = true;
    for (uint32_t i = 0; i < WIRE_COPIERS && net->flow_count > 0; i++)
        pthread_join(net->copiers[i].thread, NULL);
}

/* Whether a host's executor waits for more of one of its lanes. */
static inline bool wire_host_is_open(const wire_net_t *net, const wire_host_t *host)
{
    for (uint32_t i = 0; i < net->flow_count; i++) {
        const wire_flow_t *flow = &net->flows[i];
        if ((flow->from == host && flow->sent < flow->moves) ||
            (flow->to == host && flow->told < flow->moves))
            return true;
    }
    return false;
}

/* After an abort of all hosts: end what is under way and settle those that have begun. */
static inline void wire_net_settle(wire_net_t *net, const bool *begun)
{
    wire_net_stop(net);
    for (uint32_t i = 0; i < net->flow_count; i++)
        wire_drop_moves(&net->flows[i]);
    for (uint32_t h = 0; h < net->host_count; h++)
        if (begun[h] && wire_host_is_open(net, &net->hosts[h])) {
            assert_true(net->hosts[h].aborted);
            exec_wire_settled(net->hosts[h].instance);
        }
}

#endif
