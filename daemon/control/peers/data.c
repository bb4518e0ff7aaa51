#include "control/peers/data.h"

#include "base/list.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct peer_data {
    peer_data_config_t config;
    data_endpoint_t *endpoint;
    _Atomic uint32_t holders; /* its session, and the items that are posted */
    bool ended;               /* the session has */
    bool offered;             /* this side has sent its DataOffer */
    bool dialled;
    mailbox_item_t of_wanted, of_lost;
    blink_result_t lost_code; /* written before of_lost is posted */
    char lost_text[BLINK_ERROR_TEXT_BYTES];
};

static void put(peer_data_t *peer)
{
    /* Acquire and release: the last one frees what the others have written. */
    if (atomic_fetch_sub_explicit(&peer->holders, 1, memory_order_acq_rel) > 1)
        return;
    data_endpoint_put(peer->endpoint);
    free(peer);
}

/* Whether this side dials. */
static bool dials(const peer_data_t *peer)
{
    return net_hello(peer->config.net)->instance < net_session_peer(peer->config.session)->instance;
}

/* The tokens of TCP's streams are the first ones, then come those of RDMA's. */
static blink_result_t find_tokens(const peer_data_t *peer, uint8_t first, data_way_t *way)
{
    for (uint8_t stream = 0; stream < DATA_STREAMS; stream++)
        BLINK_TRY(net_session_token(peer->config.session, first + stream, way->tokens[stream]));
    return BLINK_OK;
}

/* Wait for the peer to dial, and say where. */
static blink_result_t listen_for(const peer_data_t *peer, Blinkpeer__DataOffer *data_offer)
{
    net_session_t *session = peer->config.session;
    net_address_t own;
    data_way_t rdma;
    BLINK_TRY(net_session_own_address(session, &own));
    BLINK_TRY(find_tokens(peer, DATA_STREAMS, &rdma));
    BLINK_TRY(data_endpoint_listen(peer->endpoint, &own, net_session_peer(session)->instance, &rdma));
    data_offer->rdma_port = rdma.port;
    data_offer->port = data_takes_tcp(peer->config.data) ? peer->config.port : 0;
    return BLINK_OK;
}

static blink_result_t offer(peer_data_t *peer)
{
    Blinkpeer__DataOffer data_offer = BLINKPEER__DATA_OFFER__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    if (peer->offered)
        return BLINK_OK;
    peer->offered = true;
    if (!dials(peer))
        BLINK_TRY(listen_for(peer, &data_offer));
    message.body_case = BLINKPEER__MESSAGE__BODY_DATA_OFFER;
    message.data_offer = &data_offer;
    return net_session_send(peer->config.session, &message);
}

/* ---- what the data plane tells ---- */

static void on_wanted(mailbox_item_t *item)
{
    peer_data_t *peer = CONTAINER_OF(item, peer_data_t, of_wanted);
    blink_result_t result = peer->ended ? BLINK_OK : offer(peer);
    if (result != BLINK_OK)
        data_endpoint_close(peer->endpoint, result);
    put(peer);
}

static void on_lost(mailbox_item_t *item)
{
    peer_data_t *peer = CONTAINER_OF(item, peer_data_t, of_lost);
    if (!peer->ended) {
        blink_error_set(peer->lost_code, "%s", peer->lost_text);
        peer->config.lost(peer->config.context, peer->lost_code);
    }
    put(peer);
}

static void post(peer_data_t *peer, mailbox_item_t *item)
{
    atomic_fetch_add_explicit(&peer->holders, 1, memory_order_relaxed);
    mailbox_post(peer->config.control, item);
}

void peer_data_wanted(data_endpoint_t *endpoint)
{
    peer_data_t *peer = data_endpoint_owner(endpoint);
    post(peer, &peer->of_wanted);
}

void peer_data_lost(data_endpoint_t *endpoint, blink_result_t code)
{
    peer_data_t *peer = data_endpoint_owner(endpoint);
    peer->lost_code = code;
    snprintf(peer->lost_text, sizeof(peer->lost_text), "%s", blink_error_text());
    post(peer, &peer->of_lost);
}

/* ---- for the session ---- */

blink_result_t peer_data_begin(const peer_data_config_t *config, peer_data_t **created)
{
    peer_data_t *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for data connections");
    peer->config = *config;
    peer->of_wanted.run = on_wanted;
    peer->of_lost.run = on_lost;
    atomic_init(&peer->holders, 1);
    blink_result_t result =
        data_endpoint_create(config->data, net_session_peer(config->session)->host, peer, &peer->endpoint);
    if (result != BLINK_OK)
        free(peer);
    else
        *created = peer;
    return result;
}

void peer_data_end(peer_data_t *peer, blink_result_t code)
{
    peer->ended = true;
    data_endpoint_close(peer->endpoint, code);
    put(peer);
}

data_endpoint_t *peer_data_endpoint(const peer_data_t *peer)
{
    return peer->endpoint;
}

void peer_data_say(const data_endpoint_t *endpoint, const Blinkpeer__Message *message)
{
    if (data_endpoint_is_lost(endpoint))
        return; /* its owner may be gone: peer_data_end() */
    const peer_data_t *peer = data_endpoint_owner(endpoint);
    if (net_session_send(peer->config.session, message) != BLINK_OK)
        LOG_WARNING("host %s is not told something: %s", data_endpoint_peer(endpoint), blink_error_text());
}

/* The host's NIC of this place, by its first address of the family; NULL: it has none. */
static const net_interface_t *find_nic(const hello_t *hello, uint32_t place, sa_family_t family)
{
    for (uint32_t i = 0; i < hello->nic_count; i++)
        if (hello->nics[i].place == place && hello->nics[i].address.any.sa_family == family)
            return &hello->nics[i];
    return NULL;
}

/* Where both hosts have several NICs for data, connections for moves take turns in them: the first one here
 * is joined with the first one there, and so on. */
static void find_ends(const peer_data_t *peer, data_route_t *route)
{
    const hello_t *own = net_hello(peer->config.net), *other = net_session_peer(peer->config.session);
    data_ends_t ends[DATA_STREAMS - 1];
    uint32_t count = 0;
    for (uint32_t place = 1; place <= HELLO_NICS_MAX && count < DATA_STREAMS - 1; place++) {
        const net_interface_t *here = find_nic(own, place, route->own.any.sa_family);
        const net_interface_t *there = find_nic(other, place, route->own.any.sa_family);
        if (here && there)
            ends[count++] = (data_ends_t){here->address, there->address};
    }
    for (uint32_t i = 0; i < DATA_STREAMS - 1 && count > 1; i++)
        route->moves[i] = ends[i % count];
}

/* The peer listens at its address of the session, but for the port. */
static blink_result_t dial(peer_data_t *peer, const Blinkpeer__DataOffer *data_offer)
{
    net_session_t *session = peer->config.session;
    data_route_t route = {.peer = *net_session_address(session),
                          .instance = net_hello(peer->config.net)->instance,
                          .tcp.port = (uint16_t)data_offer->port,
                          .rdma.port = (uint16_t)data_offer->rdma_port};
    BLINK_TRY(net_session_own_address(session, &route.own));
    find_ends(peer, &route);
    BLINK_TRY(find_tokens(peer, 0, &route.tcp));
    BLINK_TRY(find_tokens(peer, DATA_STREAMS, &route.rdma));
    peer->dialled = true;
    data_endpoint_dial(peer->endpoint, &route);
    return BLINK_OK;
}

blink_result_t peer_data_heard(peer_data_t *peer, const Blinkpeer__DataOffer *data_offer)
{
    if (!dials(peer))
        return offer(peer);
    if ((data_offer->port == 0 && data_offer->rdma_port == 0) || data_offer->port > UINT16_MAX ||
        data_offer->rdma_port > UINT16_MAX || peer->dialled)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a DataOffer of ports %u and %u%s", data_offer->port,
                          data_offer->rdma_port, peer->dialled ? ", the second one" : "");
    return dial(peer, data_offer);
}

blink_result_t peer_data_accept(peer_data_t *peer, const wire_hello_t *hello, int fd)
{
    blink_result_t result = BLINK_OK;
    if (dials(peer) || hello->stream >= DATA_STREAMS)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "host %s: data connection %u is not to be dialled there",
                            data_endpoint_peer(peer->endpoint), hello->stream);
    else if (!net_session_has_token(peer->config.session, hello))
        result = BLINK_FAIL(BLINK_ERR_PERMISSION, "a data connection without the token of its session");
    if (result == BLINK_OK)
        return data_endpoint_accept(peer->endpoint, hello->stream, fd);
    close(fd);
    return result;
}
