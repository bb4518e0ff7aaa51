#include "net/data/endpoint.h"

#include "base/clock.h"
#include "base/events.h"
#include "net/data/source.h"
#include "net/data/verbs/verbs.h"

#include <stdio.h>

/* So long connections may take to be made, whatever the peers' time-out is. */
#define CONNECT_LEAST_S 5.0

/* Entries that a CREDIT has at most. */
#define CREDITS_MOST (WIRE_CONTROL_MAX_BYTES / sizeof(wire_credit_t))

/* What is free of memory that the peer's device may write to, and stays pinned for later ops. */
#define SHOWN_FREE_MOST_BYTES (16u << 20)

enum { FRAMES_OUT, FRAMES_IN, BYTES_OUT, BYTES_IN };

static void count_frame(data_endpoint_t *endpoint, uint32_t frames, uint32_t type, uint64_t bytes)
{
    atomic_fetch_add_explicit(&endpoint->counts[frames][type], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&endpoint->counts[frames + 2][type], bytes, memory_order_relaxed);
}

void endpoint_retire_transport(data_endpoint_t *endpoint)
{
    endpoint->transport->calls->close(endpoint->transport);
    sources_forget(endpoint);
    list_append(&endpoint->data->retired, &endpoint->transport->of_retired);
    endpoint->transport = NULL;
}

/* ---- what the transport tells ---- */

static void on_connected(void *context)
{
    data_endpoint_t *endpoint = context;
    endpoint->connected = true;
    endpoint->deadline_ns = 0;
    endpoint->vain_rounds = 0;
    /* Relaxed: as above. */
    atomic_store_explicit(&endpoint->by, (int)endpoint->transport->calls->by, memory_order_relaxed);
    char subject[EVENT_SUBJECT_BYTES];
    snprintf(subject, sizeof(subject), "host %s", endpoint->peer);
    event_log_host(EVENT_DATA_OPEN, subject, LOG_LEVEL_INFO, "data connections open%s",
                   endpoint->round > 0 ? " again" : "");
    endpoint_busy(endpoint);
}

peer_flows_t *endpoint_find_outgoing(const data_endpoint_t *endpoint, uint32_t number)
{
    size_t unit = number / LANDING_UNIT;
    peer_flows_t *flows = unit < endpoint->units.count ? endpoint->units.items[unit] : NULL;
    return flows && number - flows->first_outgoing < flows->outgoing_count ? flows : NULL;
}

/* A credit for flows that are nobody's comes from a peer that has not heard yet that their op has failed. */
static blink_result_t take_credits(data_endpoint_t *endpoint, const uint8_t *payload, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += sizeof(wire_credit_t)) {
        wire_credit_t credit;
        BLINK_TRY(wire_credit_parse(payload + at, &credit));
        peer_flows_t *flows = endpoint_find_outgoing(endpoint, credit.flow);
        if (flows)
            BLINK_TRY(flows->calls->credit(flows, credit.flow - flows->first_outgoing, credit.credit));
    }
    return BLINK_OK;
}

static blink_result_t on_control(void *context, const wire_frame_t *frame, const uint8_t *payload)
{
    data_endpoint_t *endpoint = context;
    const data_handler_t *handler = &endpoint->data->config.handler;
    count_frame(endpoint, FRAMES_IN, frame->type, frame->bytes);
    if (frame->type == WIRE_CREDIT)
        return take_credits(endpoint, payload, frame->bytes);
    if (frame->type == WIRE_ARRIVED)
        return endpoint_take_arrivals(endpoint, frame, payload);
    return handler->frame(handler->context, endpoint, frame, payload);
}

static blink_result_t on_claim(void *context, const wire_frame_t *frame, landing_move_t *move)
{
    data_endpoint_t *endpoint = context;
    count_frame(endpoint, FRAMES_IN, frame->type, frame->bytes);
    return landing_claim(&endpoint->landings, frame, move);
}

static blink_result_t on_arrived(void *context, const landing_move_t *move, const wire_frame_t *frame,
                                 bool is_copied, bool whole)
{
    peer_flows_t *flows = move->landing->user;
    uint32_t arrived = landing_arrive(move);
    if (!is_copied)
        endpoint_tell_arrived(context, move->landing->first_flow + move->flow,
                              &move->landing->flows[move->flow]);
    /* At a standing landing moves may come before their op has begun. */
    return flows ? flows->calls->arrived(flows, move, frame, arrived, whole) : BLINK_OK;
}

static blink_result_t on_written(void *context, uint32_t immediate, uint32_t bytes)
{
    data_endpoint_t *endpoint = context;
    landing_move_t move;
    count_frame(endpoint, FRAMES_IN, WIRE_DATA, bytes);
    BLINK_TRY(landing_claim_immediate(&endpoint->landings, immediate, &move));
    if (!move.landing || !move.landing->is_shown)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "flow %u: a write to a landing that was not shown",
                          wire_immediate_flow(immediate));
    return on_arrived(context, &move, NULL, false, true);
}

/* Runs take turns, one move at a time. */
static bool on_next(void *context, transport_move_t *move)
{
    data_endpoint_t *endpoint = context;
    list_t *link;
    while (endpoint_has_resumed(endpoint) && (link = list_take_first(&endpoint->due))) {
        peer_flows_t *flows = CONTAINER_OF(link, peer_flows_t, of_due);
        if (!flows->calls->next(flows, move))
            continue;
        list_append(&endpoint->due, &flows->of_due);
        move->owner = flows;
        count_frame(endpoint, FRAMES_OUT, WIRE_DATA, move->frame.bytes);
        return true;
    }
    return false;
}

static void on_sent(void *context, const transport_move_t *move, bool whole)
{
    peer_flows_t *flows = move->owner;
    data_endpoint_t *endpoint = context;
    if (move->remote_address) /* relaxed: a counter */
        atomic_fetch_add_explicit(&endpoint->writes_out, 1, memory_order_relaxed);
    if (move->in_place) /* relaxed: a counter */
        atomic_fetch_add_explicit(&endpoint->in_place, 1, memory_order_relaxed);
    flows->calls->sent(flows, move, whole);
}

static void on_busy(void *context)
{
    endpoint_busy(context);
}

static void cut(data_endpoint_t *endpoint)
{
    landings_cut(&endpoint->landings);
    LIST_FOR_EACH (link, &endpoint->flows) {
        peer_flows_t *flows = CONTAINER_OF(link, peer_flows_t, of_endpoint);
        list_remove(&flows->of_due);
        flows->calls->cut(flows);
    }
}

void endpoint_lose(data_endpoint_t *endpoint, blink_result_t code)
{
    const data_handler_t *handler = &endpoint->data->config.handler;
    if (data_endpoint_is_lost(endpoint))
        return;
    snprintf(endpoint->why, sizeof(endpoint->why), "%s",
             code != BLINK_OK ? blink_error_text() : "its connections are closed");
    if (endpoint->transport)
        endpoint->transport->calls->close(endpoint->transport);
    sources_forget(endpoint);
    /* Release: pairs with data_endpoint_is_lost(), after which `why` is read. */
    atomic_store_explicit(&endpoint->lost, true, memory_order_release);
    list_remove(&endpoint->of_busy);
    list_remove(&endpoint->link);
    list_append(&endpoint->data->gone, &endpoint->link);
    endpoint->deadline_ns = 0;
    cut(endpoint);
    if (code == BLINK_OK)
        return;
    blink_error_set(code, "%s", endpoint->why);
    handler->lost(handler->context, endpoint, code);
}

static void on_lost(void *context, blink_result_t code)
{
    endpoint_fail(context, code);
}

uint64_t endpoint_connect_ns(const data_endpoint_t *endpoint)
{
    double timeout_s = endpoint->data->config.timeout_s;
    return (uint64_t)((timeout_s > CONNECT_LEAST_S ? timeout_s : CONNECT_LEAST_S) * 1e9);
}

/* ---- sending ---- */

void endpoint_want(data_endpoint_t *endpoint)
{
    const data_handler_t *handler = &endpoint->data->config.handler;
    if (endpoint->wanted)
        return;
    endpoint->wanted = true;
    if (!endpoint->connected)
        endpoint->deadline_ns = clock_ns() + endpoint_connect_ns(endpoint);
    handler->wanted(handler->context, endpoint);
}

void endpoint_busy(data_endpoint_t *endpoint)
{
    if (list_is_empty(&endpoint->of_busy) && !data_endpoint_is_lost(endpoint))
        list_append(&endpoint->data->busy, &endpoint->of_busy);
}

void endpoint_grant(data_endpoint_t *endpoint, uint32_t flow, uint32_t credit)
{
    wire_credit_t packed;
    wire_credit_pack(&(wire_credit_t){flow, credit}, (uint8_t *)&packed);
    if (!vec_push(&endpoint->credits, packed))
        endpoint_lose(endpoint, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a credit"));
    else
        endpoint_busy(endpoint);
}

blink_result_t endpoint_queue(data_endpoint_t *endpoint, const wire_frame_t *frame, const void *payload)
{
    count_frame(endpoint, FRAMES_OUT, frame->type, frame->bytes);
    return outbox_add(&endpoint->outbox, frame, payload);
}

/* Credits go before whatever else is queued later, and so do arrivals: their flows may soon be another op's.
 */
static blink_result_t queue_credits(data_endpoint_t *endpoint)
{
    size_t count = endpoint->credits.count;
    endpoint->credits.count = 0;
    for (size_t at = 0; at < count; at += CREDITS_MOST) {
        size_t some = count - at < CREDITS_MOST ? count - at : CREDITS_MOST;
        wire_frame_t frame = {.type = WIRE_CREDIT, .bytes = (uint32_t)(some * sizeof(wire_credit_t))};
        BLINK_TRY(endpoint_queue(endpoint, &frame, endpoint->credits.items + at));
    }
    return BLINK_OK;
}

blink_result_t endpoint_queue_news(data_endpoint_t *endpoint)
{
    BLINK_TRY(queue_credits(endpoint));
    return endpoint_queue_arrivals(endpoint, false);
}

bool endpoint_serve(data_endpoint_t *endpoint)
{
    blink_result_t result = data_endpoint_is_lost(endpoint) ? BLINK_OK : endpoint_queue_news(endpoint);
    if (result != BLINK_OK)
        endpoint_lose(endpoint, result);
    return endpoint->transport && endpoint->transport->calls->send(endpoint->transport);
}

static blink_result_t queue_frame(data_endpoint_t *endpoint, wire_type_t type, const void *payload,
                                  uint32_t bytes)
{
    if (data_endpoint_is_lost(endpoint))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "host %s: the data connections are gone", endpoint->peer);
    endpoint_want(endpoint);
    BLINK_TRY(endpoint_queue_news(endpoint));
    return endpoint_queue(endpoint, &(wire_frame_t){.type = (uint8_t)type, .bytes = bytes}, payload);
}

blink_result_t data_send(data_endpoint_t *endpoint, wire_type_t type, const void *payload, uint32_t bytes)
{
    data_t *data = endpoint->data;
    proxy_enter(data);
    blink_result_t result = queue_frame(endpoint, type, payload, bytes);
    if (result == BLINK_OK)
        endpoint_busy(endpoint);
    else
        endpoint_lose(endpoint, result);
    proxy_leave(data);
    return result;
}

/* ---- flows ---- */

void endpoint_add_flows(data_endpoint_t *endpoint, peer_flows_t *flows, const peer_flows_calls_t *calls)
{
    flows->calls = calls;
    flows->endpoint = endpoint;
    list_append(&endpoint->flows, &flows->of_endpoint);
    if (data_endpoint_is_lost(endpoint))
        calls->cut(flows);
    else
        endpoint_want(endpoint);
}

void endpoint_remove_flows(peer_flows_t *flows)
{
    endpoint_forget_numbers(flows);
    list_remove(&flows->of_due);
    list_remove(&flows->of_endpoint);
}

static size_t units_of(uint32_t flow_count)
{
    return (flow_count + LANDING_UNIT - 1) / LANDING_UNIT;
}

blink_result_t endpoint_number_flows(peer_flows_t *flows, uint32_t first, uint32_t count)
{
    data_endpoint_t *endpoint = flows->endpoint;
    size_t unit = first / LANDING_UNIT, unit_count = units_of(count);
    if (first % LANDING_UNIT != 0 || first >= WIRE_FLOWS || count > WIRE_FLOWS - first)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "flow numbers %u to %u are none", first, first + count - 1);
    if (!vec_reserve(&endpoint->units, unit + unit_count))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for flow numbers");
    while (endpoint->units.count < unit + unit_count)
        endpoint->units.items[endpoint->units.count++] = NULL;
    for (size_t i = unit; i < unit + unit_count; i++) {
        if (endpoint->units.items[i])
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "flow %zu is another op's already", i * LANDING_UNIT);
    }
    for (size_t i = unit; i < unit + unit_count; i++)
        endpoint->units.items[i] = flows;
    flows->first_outgoing = first;
    flows->outgoing_count = count;
    return BLINK_OK;
}

void endpoint_forget_numbers(peer_flows_t *flows)
{
    size_t unit = flows->first_outgoing / LANDING_UNIT;
    for (size_t i = unit; i < unit + units_of(flows->outgoing_count); i++)
        flows->endpoint->units.items[i] = NULL;
    flows->outgoing_count = 0;
}

void endpoint_drop(data_endpoint_t *endpoint, landing_t *landing)
{
    if (landing_is_settled(landing))
        return;
    if (endpoint->transport)
        endpoint->transport->calls->drop(endpoint->transport, landing);
    landing_cut(landing);
}

void endpoint_flows_due(peer_flows_t *flows)
{
    if (list_is_empty(&flows->of_due))
        list_append(&flows->endpoint->due, &flows->of_due);
    endpoint_busy(flows->endpoint);
}

/* ---- memory of landings ---- */

static void *show(void *context, void *memory, uint64_t bytes, data_keys_t *keys)
{
    const data_endpoint_t *endpoint = context;
    return endpoint->connected && endpoint_tells_keys(endpoint) && endpoint->transport->calls->show
               ? endpoint->transport->calls->show(endpoint->transport, memory, bytes, keys)
               : NULL;
}

/* Where a device may write there is memory of the endpoint's own, which never takes in what another peer
 * sends; else that of all. */
static blink_result_t take_memory(void *context, uint64_t bytes, void **memory)
{
    data_endpoint_t *endpoint = context;
    bool own = endpoint->connected && endpoint_tells_keys(endpoint) && endpoint->transport->calls->show;
    return pool_take(own ? &endpoint->pool : &endpoint->data->pool, bytes, memory);
}

static void give_memory(void *context, void *memory, uint64_t bytes)
{
    (void)context;
    (void)bytes;
    pool_give(memory);
}

/* ---- for the owner ---- */

const transport_events_t endpoint_events = {.connected = on_connected,
                                            .control = on_control,
                                            .claim = on_claim,
                                            .arrived = on_arrived,
                                            .took = endpoint_took,
                                            .written = on_written,
                                            .next = on_next,
                                            .sent = on_sent,
                                            .lost = on_lost,
                                            .busy = on_busy};

blink_result_t data_endpoint_create(data_t *data, const char *peer, void *owner, data_endpoint_t **created)
{
    data_endpoint_t *endpoint = calloc(1, sizeof(*endpoint));
    if (!endpoint)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for data connections");
    /* The caller's hold, and the data plane's until the endpoint is lost. */
    atomic_init(&endpoint->holders, 2);
    endpoint->data = data;
    endpoint->owner = owner;
    endpoint->stream_count = 1 + DATA_MOVE_STREAMS_LEAST;
    snprintf(endpoint->peer, sizeof(endpoint->peer), "%s", peer);
    landings_init(&endpoint->landings, WIRE_FLOWS,
                  (landing_memory_t){.take = take_memory, .give = give_memory, .context = endpoint});
    pool_init(&endpoint->pool, SHOWN_FREE_MOST_BYTES, endpoint->data->config.landings,
              &(pool_showing_t){show, verbs_transport.hide, verbs_transport.shows, endpoint});
    list_init(&endpoint->of_busy);
    list_init(&endpoint->sources);
    list_init(&endpoint->flows);
    list_init(&endpoint->due);
    proxy_enter(data);
    list_append(&data->endpoints, &endpoint->link);
    proxy_leave(data);
    *created = endpoint;
    return BLINK_OK;
}

void data_endpoint_set_move_streams(data_endpoint_t *endpoint, uint32_t count)
{
    endpoint->stream_count = 1 + count;
}

uint32_t data_endpoint_move_streams(const data_endpoint_t *endpoint)
{
    return endpoint->stream_count - 1;
}

void data_endpoint_get(data_endpoint_t *endpoint)
{
    atomic_fetch_add_explicit(&endpoint->holders, 1, memory_order_relaxed);
}

void data_endpoint_put(data_endpoint_t *endpoint)
{
    /* Acquire and release: whatever others did to it happens before the last one frees it. */
    if (atomic_fetch_sub_explicit(&endpoint->holders, 1, memory_order_acq_rel) > 1)
        return;
    pool_fini(&endpoint->pool);
    if (endpoint->transport)
        endpoint->transport->calls->destroy(endpoint->transport);
    outbox_free(&endpoint->outbox);
    landings_destroy(&endpoint->landings);
    vec_free(&endpoint->units);
    vec_free(&endpoint->credits);
    vec_free(&endpoint->arrivals);
    free(endpoint);
}

void endpoint_let_go(data_endpoint_t *endpoint)
{
    list_remove(&endpoint->link);
    data_endpoint_put(endpoint);
}

void *data_endpoint_owner(const data_endpoint_t *endpoint)
{
    return endpoint->owner;
}

const char *data_endpoint_peer(const data_endpoint_t *endpoint)
{
    return endpoint->peer;
}

data_by_t data_endpoint_by(const data_endpoint_t *endpoint)
{
    /* Relaxed: a word by itself. */
    return (data_by_t)atomic_load_explicit(&endpoint->by, memory_order_relaxed);
}

bool data_endpoint_is_lost(const data_endpoint_t *endpoint)
{
    /* Acquire: as said where it is stored. */
    return atomic_load_explicit(&endpoint->lost, memory_order_acquire);
}

const char *data_endpoint_why(const data_endpoint_t *endpoint)
{
    return endpoint->why;
}

void data_endpoint_close(data_endpoint_t *endpoint, blink_result_t code)
{
    char why[BLINK_ERROR_TEXT_BYTES];
    snprintf(why, sizeof(why), "%s", blink_error_text());
    proxy_enter(endpoint->data);
    blink_error_set(code, "%s", why);
    endpoint_lose(endpoint, code);
    proxy_leave(endpoint->data);
}

blink_result_t data_endpoint_charge(data_endpoint_t *endpoint, size_t bytes)
{
    /* Relaxed: a bound, which orders nothing. */
    if (atomic_fetch_add_explicit(&endpoint->kept_bytes, bytes, memory_order_relaxed) + bytes <=
        DATA_KEPT_MOST_BYTES)
        return BLINK_OK;
    data_endpoint_credit(endpoint, bytes);
    return BLINK_FAIL(
        BLINK_ERR_QUOTA,
        "more than %u MiB of its words wait, or are of communicators that this host does not know",
        DATA_KEPT_MOST_BYTES >> 20);
}

void data_endpoint_credit(data_endpoint_t *endpoint, size_t bytes)
{
    atomic_fetch_sub_explicit(&endpoint->kept_bytes, bytes, memory_order_relaxed); /* as above */
}

void data_endpoint_count(const data_endpoint_t *endpoint, data_counts_t *counts)
{
    uint64_t(*all[])[8] = {&counts->frames_out, &counts->frames_in, &counts->bytes_out, &counts->bytes_in};
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t type = 0; type < 8; type++)
            (*all[i])[type] = atomic_load_explicit(&endpoint->counts[i][type], memory_order_relaxed);
    }
    counts->waited = atomic_load_explicit(&endpoint->waited, memory_order_relaxed);
    counts->in_place = atomic_load_explicit(&endpoint->in_place, memory_order_relaxed);
    counts->writes_out = atomic_load_explicit(&endpoint->writes_out, memory_order_relaxed);
}
