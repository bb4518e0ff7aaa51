/* Connections that have failed are made anew while the session lives, and what the peer lacks goes again. */
#include "net/data/endpoint.h"

#include "base/clock.h"
#include "base/events.h"

#include <stdio.h>

/* Connections that fail so often within this time are not made anew any more. */
#define FAILURES_MOST 8u
#define FAILING_NS    UINT64_C(60000000000)

/* So often, and not nearly, one side tries in vain before the other one hears of it. */
#define ROUNDS_AHEAD_MOST 64u

/* So much comes over the connection for control before the peer is told, unless it is told something anyhow:
 * the peer keeps it until then. */
#define TELL_BYTES (16u << 10)

/* Where no connections come about a side tries again so often, about. */
#define TRIES_PER_S 2u

/* Entries that an ARRIVED has at most. */
#define ARRIVALS_MOST (WIRE_CONTROL_MAX_BYTES / sizeof(wire_arrived_t))

void data_endpoint_may_resume(data_endpoint_t *endpoint, bool knows_keys)
{
    endpoint->resumes = endpoint->outbox.keeps = true;
    endpoint->knows_keys = knows_keys;
}

/* ---- what has come is told ---- */

void endpoint_took(void *context, uint32_t bytes)
{
    data_endpoint_t *endpoint = context;
    endpoint->taken_bytes += bytes;
    if (endpoint->resumes && endpoint->taken_bytes - endpoint->told_bytes >= TELL_BYTES)
        endpoint_busy(endpoint);
}

void endpoint_tell_arrived(data_endpoint_t *endpoint, uint32_t flow, const flow_receiver_t *receiver)
{
    wire_arrived_t packed, *last = endpoint->arrivals.items;
    if (!endpoint->resumes)
        return;
    wire_arrived_pack(&(wire_arrived_t){flow, receiver->arrived, receiver->came}, (uint8_t *)&packed);
    if (endpoint->arrivals.count > 0 && last[endpoint->arrivals.count - 1].flow == packed.flow)
        last[endpoint->arrivals.count - 1] = packed;
    else if (!vec_push(&endpoint->arrivals, packed))
        endpoint_lose(endpoint, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to tell what has come"));
    endpoint_busy(endpoint);
}

blink_result_t endpoint_queue_arrivals(data_endpoint_t *endpoint, bool must)
{
    size_t count = endpoint->arrivals.count, at = 0;
    bool is_due = count > 0 || endpoint->taken_bytes - endpoint->told_bytes >= TELL_BYTES;
    if (!must && !(endpoint->resumes && is_due))
        return BLINK_OK;
    endpoint->arrivals.count = 0;
    do {
        size_t some = count - at < ARRIVALS_MOST ? count - at : ARRIVALS_MOST;
        wire_frame_t frame = {.type = WIRE_ARRIVED,
                              .bytes = (uint32_t)(some * sizeof(wire_arrived_t)),
                              .sequence = endpoint->round,
                              .offset = endpoint->taken_bytes};
        BLINK_TRY(endpoint_queue(endpoint, &frame, endpoint->arrivals.items + at));
        at += some;
    } while (at < count);
    endpoint->told_bytes = endpoint->taken_bytes;
    return BLINK_OK;
}

/* ---- what the peer tells ---- */

/* The peer has told all that came in earlier rounds. */
static void resume_flows(data_endpoint_t *endpoint)
{
    endpoint->resumed_round = endpoint->round;
    LIST_FOR_EACH (link, &endpoint->flows) {
        peer_flows_t *flows = CONTAINER_OF(link, peer_flows_t, of_endpoint);
        flows->calls->resume(flows);
    }
    endpoint_busy(endpoint);
}

blink_result_t endpoint_take_arrivals(data_endpoint_t *endpoint, const wire_frame_t *frame,
                                      const uint8_t *payload)
{
    if (!endpoint->resumes || frame->sequence > endpoint->round)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "an ARRIVED of round %u in round %u", frame->sequence,
                          endpoint->round);
    BLINK_TRY(outbox_taken(&endpoint->outbox, frame->offset));
    for (uint32_t at = 0; at < frame->bytes; at += sizeof(wire_arrived_t)) {
        wire_arrived_t entry;
        BLINK_TRY(wire_arrived_parse(payload + at, &entry));
        peer_flows_t *flows = endpoint_find_outgoing(endpoint, entry.flow);
        if (flows)
            BLINK_TRY(
                flows->calls->came(flows, entry.flow - flows->first_outgoing, entry.arrived, entry.came));
    }
    if (frame->sequence == endpoint->round && !endpoint_has_resumed(endpoint))
        resume_flows(endpoint);
    return BLINK_OK;
}

/* ---- rounds ---- */

/* What was being taken in will not arrive, and what was shown is not any more; what has come out of order is
 * told. To standing landings all comes over the connection for control. */
static void fence_landings(data_endpoint_t *endpoint)
{
    const landings_t *landings = &endpoint->landings;
    for (size_t i = 0; i < landings->units.count; i++) {
        landing_t *landing = landings->units.items[i];
        if (!landing || (i > 0 && landings->units.items[i - 1] == landing))
            continue;
        landing_fence(landing);
        for (uint32_t f = 0; f < landing->flow_count && !landing->standing; f++)
            if (landing->flows[f].came)
                endpoint_tell_arrived(endpoint, landing->first_flow + f, &landing->flows[f]);
    }
}

static blink_result_t queue_all(data_endpoint_t *endpoint, uint32_t round)
{
    BLINK_TRY(endpoint_queue_news(endpoint));
    endpoint->round = round;
    return endpoint_queue_arrivals(endpoint, true);
}

/* Other connections are to be made; those that there are fail. */
static void begin_round(data_endpoint_t *endpoint, uint32_t round)
{
    const data_handler_t *handler = &endpoint->data->config.handler;
    if (endpoint->transport)
        endpoint_retire_transport(endpoint);
    endpoint->connected = endpoint->retries = false;
    endpoint->fall_back = NULL;
    endpoint->fall_back_ns = 0;
    if (endpoint->deadline_ns == 0)
        endpoint->deadline_ns = clock_ns() + endpoint_connect_ns(endpoint);
    fence_landings(endpoint);
    outbox_hold(&endpoint->outbox);
    endpoint->fenced_bytes = endpoint->taken_bytes;
    blink_result_t result = data_endpoint_is_lost(endpoint) ? BLINK_OK : queue_all(endpoint, round);
    if (result != BLINK_OK)
        endpoint_lose(endpoint, result);
    if (!data_endpoint_is_lost(endpoint))
        handler->broken(handler->context, endpoint);
}

/* Whether connections that fail now have failed too often. */
static bool fails_too_often(data_endpoint_t *endpoint)
{
    uint64_t now_ns = clock_ns();
    if (now_ns - endpoint->failing_ns > FAILING_NS) {
        endpoint->failing_ns = now_ns;
        endpoint->failures = 0;
    }
    return ++endpoint->failures > FAILURES_MOST;
}

/* Connections that were there have failed, says this thread's error text. */
static void break_connections(data_endpoint_t *endpoint, uint32_t round, blink_result_t code)
{
    snprintf(endpoint->why, sizeof(endpoint->why), "%s", blink_error_text());
    if (fails_too_often(endpoint)) {
        endpoint_lose(endpoint,
                      BLINK_FAIL(code, "%s; data connections have failed %u times within %u s", endpoint->why,
                                 endpoint->failures, (unsigned)(FAILING_NS / 1000000000)));
        return;
    }
    char subject[EVENT_SUBJECT_BYTES];
    snprintf(subject, sizeof(subject), "host %s", endpoint->peer);
    event_log_host(EVENT_DATA_LOST, subject, LOG_LEVEL_WARNING,
                   "data connections have failed, and are made again: %s", endpoint->why);
    begin_round(endpoint, round);
}

/* Whether other connections may do what these did not: a peer that lies goes on lying. */
static bool may_help(const data_endpoint_t *endpoint, blink_result_t code)
{
    return endpoint->resumes && (endpoint->connected || endpoint->round > 0) && code != BLINK_ERR_PROTOCOL &&
           code != BLINK_ERR_NO_MEMORY;
}

void endpoint_fail(data_endpoint_t *endpoint, blink_result_t code)
{
    void (*fall_back)(data_endpoint_t *) = endpoint->connected ? NULL : endpoint->fall_back;
    if (data_endpoint_is_lost(endpoint))
        return;
    if (fall_back) {
        endpoint->fall_back = NULL;
        fall_back(endpoint);
        return;
    }
    if (!may_help(endpoint, code)) {
        endpoint_lose(endpoint, code);
        return;
    }
    if (endpoint->connected) {
        break_connections(endpoint, endpoint->round + 1, code);
        return;
    }
    LOG_INFO("host %s: data connections are not made yet: %s", endpoint->peer, blink_error_text());
    endpoint->retries = true;
    if (endpoint->transport)
        endpoint_retire_transport(endpoint);
}

static void check_attempt(data_endpoint_t *endpoint, uint64_t now_ns)
{
    if (endpoint->retries)
        begin_round(endpoint, endpoint->round + 1);
    else if (endpoint->fall_back_ns > 0 && now_ns > endpoint->fall_back_ns && !endpoint->connected)
        endpoint_fail(endpoint, blink_error_set(BLINK_ERR_TIMEOUT, "the peer does not answer"));
}

void endpoint_check_deadline(data_endpoint_t *endpoint, uint64_t now_ns)
{
    unsigned connect_s = (unsigned)(endpoint_connect_ns(endpoint) / 1000000000);
    if (endpoint->fall_back || endpoint->round > 0)
        check_attempt(endpoint, now_ns);
    if (endpoint->deadline_ns == 0 || now_ns < endpoint->deadline_ns)
        return;
    if (endpoint->round > 0)
        endpoint_lose(endpoint,
                      BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s; data connections were not made again within %u s",
                                 endpoint->why, connect_s));
    else
        endpoint_lose(endpoint,
                      BLINK_FAIL(BLINK_ERR_TIMEOUT, "%u of %u data connections were made within %u s",
                                 endpoint->transport ? endpoint->transport->connected : 0,
                                 endpoint->stream_count, connect_s));
}

/* ---- for the owner ---- */

/* As many rounds in vain as two sides may come to within the time for connections, and as many again. */
static uint32_t vain_rounds_most(const data_endpoint_t *endpoint)
{
    uint64_t connect_s = endpoint_connect_ns(endpoint) / 1000000000;
    return ROUNDS_AHEAD_MOST + 4 * TRIES_PER_S * (uint32_t)connect_s;
}

/* The peer is in a round that comes next. */
static blink_result_t follow(data_endpoint_t *endpoint, uint32_t round)
{
    if (!endpoint->resumes || round - endpoint->round > ROUNDS_AHEAD_MOST)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "data connections of round %u after those of round %u", round,
                          endpoint->round);
    if (endpoint->connected) {
        break_connections(endpoint, round,
                          BLINK_FAIL(BLINK_ERR_PEER_LOST, "its data connections have failed"));
        return BLINK_OK;
    }
    if (++endpoint->vain_rounds > vain_rounds_most(endpoint))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it has begun %u rounds of data connections without making one",
                          endpoint->vain_rounds);
    begin_round(endpoint, round);
    return BLINK_OK;
}

blink_result_t data_endpoint_fence(data_endpoint_t *endpoint, uint32_t round, data_fence_t *fence)
{
    blink_result_t result = BLINK_OK;
    proxy_enter(endpoint->data);
    if (data_endpoint_is_lost(endpoint))
        result = BLINK_FAIL(BLINK_ERR_PEER_LOST, "the data connections are gone");
    else if (round > endpoint->round)
        result = follow(endpoint, round);
    *fence = (data_fence_t){endpoint->round, endpoint->fenced_bytes};
    proxy_leave(endpoint->data);
    return result;
}

blink_result_t data_endpoint_resume(data_endpoint_t *endpoint, const data_fence_t *peer)
{
    blink_result_t result = BLINK_OK;
    proxy_enter(endpoint->data);
    if (peer->round == endpoint->round && endpoint->outbox.waits && !data_endpoint_is_lost(endpoint)) {
        result = outbox_resume(&endpoint->outbox, peer->taken_bytes);
        endpoint_busy(endpoint);
    }
    proxy_leave(endpoint->data);
    return result;
}
