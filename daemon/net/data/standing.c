/* Standing landings of communicators: when they are made, what peers tell of theirs, and how they end. */
#include "net/data/standing.h"

#include "plan/plan.h"

#include <stdlib.h>

static_assert(DATA_STANDING_OPS == STANDING_MOST, "one number");

blink_result_t data_standing_create(data_t *data, data_endpoint_t *const *endpoints, uint32_t host_count,
                                    void *tenant, data_standing_t **created)
{
    data_standing_t *standing = calloc(1, sizeof(*standing) + host_count * sizeof(standing->peers[0]));
    if (!standing)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the landings of %u hosts", host_count);
    standing->data = data;
    standing->tenant = tenant;
    standing->host_count = host_count;
    for (uint32_t host = 0; host < host_count; host++) {
        standing_peer_t *peer = &standing->peers[host];
        for (uint32_t i = 0; i < STANDING_MOST; i++)
            peer->told[i] = PLAN_NONE;
        peer->endpoint = endpoints[host];
        if (peer->endpoint)
            data_endpoint_get(peer->endpoint);
    }
    *created = standing;
    return BLINK_OK;
}

/* ---- what comes here ---- */

static blink_result_t open_landings(standing_peer_t *peer, uint64_t ended)
{
    if (data_endpoint_is_lost(peer->endpoint))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "host %s: the data connections are gone",
                          peer->endpoint->peer);
    return standing_open(&peer->endpoint->landings, &peer->own, STANDING_MOST, STANDING_FLOWS, STANDING_BYTES,
                         ended);
}

blink_result_t standing_make(data_standing_t *standing, uint32_t host, uint64_t ended)
{
    const data_handler_t *handler = &standing->data->config.handler;
    standing_peer_t *peer = &standing->peers[host];
    uint64_t bytes = STANDING_MOST * STANDING_BYTES;
    if (peer->is_open)
        return BLINK_OK;
    BLINK_TRY(handler->charge(handler->context, standing->tenant, bytes));
    proxy_enter(standing->data);
    blink_result_t result = open_landings(peer, ended);
    proxy_leave(standing->data);
    peer->is_open = result == BLINK_OK;
    if (result != BLINK_OK)
        handler->credit(handler->context, standing->tenant, bytes);
    return result;
}

/* Landings of ops that have ended are for later ones. */
static void advance(standing_peer_t *peer, uint64_t ended)
{
    uint64_t first = peer->own.ended;
    for (uint64_t k = first; k < ended && k < first + STANDING_MOST; k++)
        endpoint_drop(peer->endpoint, standing_landing(&peer->own, k));
    standing_advance(&peer->own, ended);
}

landing_t *standing_find(data_standing_t *standing, uint32_t host, uint64_t number, uint64_t ended)
{
    standing_peer_t *peer = &standing->peers[host];
    if (!peer->is_open)
        return NULL;
    advance(peer, ended);
    return standing_landing(&peer->own, number);
}

/* ---- what goes there ---- */

blink_result_t data_standing_heed(data_standing_t *standing, uint32_t host, uint64_t number,
                                  const data_offer_t *offer, uint64_t ended)
{
    standing_peer_t *peer = &standing->peers[host];
    if (peer->is_stopped)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it begins an op of a communicator that it has left");
    if (ended > peer->ended)
        peer->ended = ended;
    if (!offer->stands)
        return BLINK_OK;
    if (offer->first_flow > WIRE_FLOWS - STANDING_FLOWS)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a standing landing with flow numbers from %u",
                          offer->first_flow);
    peer->told[number % STANDING_MOST] = offer->first_flow;
    return BLINK_OK;
}

uint32_t standing_told(const data_standing_t *standing, uint32_t host, uint64_t number)
{
    const standing_peer_t *peer = &standing->peers[host];
    return standing_may_send(STANDING_MOST, peer->ended, number) ? peer->told[number % STANDING_MOST]
                                                                 : PLAN_NONE;
}

bool data_standing_is_told(const data_standing_t *standing, uint32_t host)
{
    const standing_peer_t *peer = &standing->peers[host];
    bool is_told = false;
    for (uint32_t i = 0; i < STANDING_MOST; i++)
        is_told |= peer->told[i] != PLAN_NONE;
    return is_told;
}

bool data_standing_is_open(const data_standing_t *standing, uint32_t host)
{
    const standing_peer_t *peer = &standing->peers[host];
    return peer->is_open && !peer->has_left;
}

void data_standing_stop(data_standing_t *standing, uint32_t host)
{
    standing_peer_t *peer = &standing->peers[host];
    peer->is_stopped = true;
    for (uint32_t i = 0; i < STANDING_MOST; i++)
        peer->told[i] = PLAN_NONE;
}

/* ---- the end ---- */

void data_standing_peer_left(data_standing_t *standing, const data_endpoint_t *endpoint)
{
    for (uint32_t host = 0; host < standing->host_count; host++) {
        if (standing->peers[host].endpoint == endpoint)
            standing->peers[host].has_left = true;
    }
}

static void retire(standing_peer_t *peer)
{
    for (uint32_t i = 0; i < STANDING_MOST; i++)
        endpoint_drop(peer->endpoint, &peer->own.landings[i]);
    standing_retire(&peer->endpoint->landings, &peer->own);
    peer->has_left |= data_endpoint_is_lost(peer->endpoint);
}

void data_standing_leave(data_standing_t *standing)
{
    const data_handler_t *handler = &standing->data->config.handler;
    uint64_t bytes = 0;
    proxy_enter(standing->data);
    for (uint32_t host = 0; host < standing->host_count; host++) {
        if (!standing->peers[host].is_open)
            continue;
        retire(&standing->peers[host]);
        bytes += STANDING_MOST * STANDING_BYTES;
    }
    proxy_leave(standing->data);
    if (bytes > 0)
        handler->credit(handler->context, standing->tenant, bytes);
}

bool data_standing_is_needed(const data_standing_t *standing)
{
    bool is_needed = false;
    for (uint32_t host = 0; host < standing->host_count; host++)
        is_needed |= data_standing_is_open(standing, host);
    return is_needed;
}

void data_standing_lose_silent(data_standing_t *standing, double silent_s)
{
    for (uint32_t host = 0; host < standing->host_count; host++) {
        if (data_standing_is_open(standing, host))
            data_endpoint_close(standing->peers[host].endpoint,
                                BLINK_FAIL(BLINK_ERR_TIMEOUT,
                                           "it has not said within %g s that it sends nothing more for a "
                                           "communicator that has ended here",
                                           silent_s));
    }
}

void data_standing_destroy(data_standing_t *standing)
{
    if (!standing)
        return;
    proxy_enter(standing->data);
    for (uint32_t host = 0; host < standing->host_count; host++) {
        standing_peer_t *peer = &standing->peers[host];
        if (peer->is_open)
            standing_close(&peer->endpoint->landings, &peer->own);
    }
    proxy_leave(standing->data);
    for (uint32_t host = 0; host < standing->host_count; host++) {
        if (standing->peers[host].endpoint)
            data_endpoint_put(standing->peers[host].endpoint);
    }
    free(standing);
}
