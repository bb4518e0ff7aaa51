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
    _Atomic uint32_t holders;  /* its session, and the items that are posted */
    bool ended;                /* the session has */
    uint32_t offered, dialled; /* in so many rounds this side has sent its DataOffer, and dialled */
    mailbox_item_t of_wanted, of_broken, of_lost;
    _Atomic bool broken;      /* of_broken is posted */
    blink_result_t lost_code; /* written before of_lost is posted */
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

static uint32_t stream_count(const peer_data_t *peer)
{
    return 1 + data_endpoint_move_streams(peer->endpoint);
}

/* The tokens of a round: those of TCP's streams are the first ones, then come those of RDMA's. */
static uint32_t first_token(const peer_data_t *peer, uint32_t round, bool rdma)
{
    return (2 * round + rdma) * stream_count(peer);
}

static blink_result_t find_tokens(const peer_data_t *peer, uint32_t first, data_way_t *way)
{
    for (uint32_t stream = 0; stream < stream_count(peer); stream++)
        BLINK_TRY(net_session_token(peer->config.session, first + stream, way->tokens[stream]));
    return BLINK_OK;
}

/* The host's NIC of this place, by its first address of the family; NULL: it has none. */
static const net_interface_t *find_nic(const hello_t *hello, uint32_t place, sa_family_t family)
{
    for (uint32_t i = 0; i < hello->nic_count; i++)
        if (hello->nics[i].place == place && hello->nics[i].address.any.sa_family == family)
            return &hello->nics[i];
    return NULL;
}

/* Where both hosts have several NICs for data: the first one here is joined with the first one there, and so
 * on. Returns how many pairs there are. */
static uint32_t find_pairs(const peer_data_t *peer, sa_family_t family, data_ends_t pairs[HELLO_NICS_MAX])
{
    const hello_t *own = net_hello(peer->config.net), *other = net_session_peer(peer->config.session);
    uint32_t count = 0;
    for (uint32_t place = 1; place <= HELLO_NICS_MAX; place++) {
        const net_interface_t *here = find_nic(own, place, family), *there = find_nic(other, place, family);
        if (here && there)
            pairs[count++] = (data_ends_t){here->address, there->address};
    }
    return count;
}

/* How many connections are for moves: what both daemons find by what each has said. */
static uint32_t count_move_streams(const net_session_t *session, uint32_t pairs)
{
    if (net_session_version(session) < PEER_VERSION_NICS || pairs < DATA_MOVE_STREAMS_LEAST)
        return DATA_MOVE_STREAMS_LEAST;
    return pairs < DATA_MOVE_STREAMS_MOST ? pairs : DATA_MOVE_STREAMS_MOST;
}

/* Each connection for moves goes over a pair of NICs of its own. Where there are more pairs, it is the first
 * ones, and in each later round those from the next one on, since the former ones may have failed. */
static void find_ends(const peer_data_t *peer, const data_ends_t *pairs, uint32_t count, data_route_t *route)
{
    for (uint32_t i = 0; i < data_endpoint_move_streams(peer->endpoint) && count > 1; i++)
        route->moves[i] = pairs[(route->round % count + i) % count];
}

/* The RDMA connection for control takes the session's NICs first, and in later rounds others in turn. */
static void find_rdma_ends(const data_ends_t *pairs, uint32_t count, data_route_t *route)
{
    data_ends_t others[HELLO_NICS_MAX];
    uint32_t other_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!address_is_same_host(&route->own, &pairs[i].own) ||
            !address_is_same_host(&route->peer, &pairs[i].peer))
            others[other_count++] = pairs[i];
    uint32_t turn = route->round % (other_count + 1);
    route->rdma_ends = turn > 0 ? others[turn - 1] : (data_ends_t){route->own, route->peer};
}

/* Where connections of a round begin and end, on both hosts the same; without ports. */
static blink_result_t find_route(const peer_data_t *peer, uint32_t round, data_route_t *route)
{
    data_ends_t pairs[HELLO_NICS_MAX];
    *route = (data_route_t){.round = round,
                            .peer = *net_session_address(peer->config.session),
                            .instance = net_hello(peer->config.net)->instance};
    BLINK_TRY(net_session_own_address(peer->config.session, &route->own));
    uint32_t count = find_pairs(peer, route->own.any.sa_family, pairs);
    find_ends(peer, pairs, count, route);
    find_rdma_ends(pairs, count, route);
    return BLINK_OK;
}

/* Wait for the peer to dial, and say where. */
static blink_result_t listen_for(const peer_data_t *peer, uint32_t round, Blinkpeer__DataOffer *data_offer)
{
    uint64_t instance = net_session_peer(peer->config.session)->instance;
    data_route_t route;
    data_way_t rdma = {0};
    BLINK_TRY(find_route(peer, round, &route));
    BLINK_TRY(find_tokens(peer, first_token(peer, round, true), &rdma));
    BLINK_TRY(data_endpoint_listen(peer->endpoint, &route, instance, &rdma));
    data_offer->rdma_port = rdma.port;
    data_offer->port = data_takes_tcp(peer->config.data) ? peer->config.port : 0;
    return BLINK_OK;
}

/* Once in a round. */
static blink_result_t offer(peer_data_t *peer, const data_fence_t *fence)
{
    Blinkpeer__DataOffer data_offer = BLINKPEER__DATA_OFFER__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    if (peer->offered > fence->round)
        return BLINK_OK;
    peer->offered = fence->round + 1;
    data_offer.round = fence->round;
    data_offer.taken_bytes = fence->taken_bytes;
    if (!dials(peer))
        BLINK_TRY(listen_for(peer, fence->round, &data_offer));
    message.body_case = BLINKPEER__MESSAGE__BODY_DATA_OFFER;
    message.data_offer = &data_offer;
    return net_session_send(peer->config.session, &message);
}

/* ---- what the data plane tells ---- */

/* The peer is to hear in which round this side is. */
static void offer_now(peer_data_t *peer)
{
    data_fence_t fence;
    blink_result_t result = peer->ended ? BLINK_OK : data_endpoint_fence(peer->endpoint, 0, &fence);
    if (result == BLINK_OK && !peer->ended)
        result = offer(peer, &fence);
    if (result != BLINK_OK)
        data_endpoint_close(peer->endpoint, result);
    put(peer);
}

static void on_wanted(mailbox_item_t *item)
{
    offer_now(CONTAINER_OF(item, peer_data_t, of_wanted));
}

static void on_broken(mailbox_item_t *item)
{
    peer_data_t *peer = CONTAINER_OF(item, peer_data_t, of_broken);
    /* seq_cst: as said in peer_data_broken(). */
    atomic_store_explicit(&peer->broken, false, memory_order_seq_cst);
    offer_now(peer);
}

static void on_lost(mailbox_item_t *item)
{
    peer_data_t *peer = CONTAINER_OF(item, peer_data_t, of_lost);
    if (!peer->ended) {
        blink_error_set(peer->lost_code, "%s", data_endpoint_why(peer->endpoint));
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

void peer_data_broken(data_endpoint_t *endpoint)
{
    peer_data_t *peer = data_endpoint_owner(endpoint);
    /* seq_cst: on_broken() clears the mark before it asks which round it is. */
    if (!atomic_exchange_explicit(&peer->broken, true, memory_order_seq_cst))
        post(peer, &peer->of_broken);
}

void peer_data_lost(data_endpoint_t *endpoint, blink_result_t code)
{
    peer_data_t *peer = data_endpoint_owner(endpoint);
    peer->lost_code = code;
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
    peer->of_broken.run = on_broken;
    peer->of_lost.run = on_lost;
    atomic_init(&peer->holders, 1);
    blink_result_t result =
        data_endpoint_create(config->data, net_session_peer(config->session)->host, peer, &peer->endpoint);
    if (result != BLINK_OK) {
        free(peer);
        return result;
    }
    uint32_t version = net_session_version(config->session);
    if (version >= PEER_VERSION_RESUMES)
        data_endpoint_may_resume(peer->endpoint, version >= PEER_VERSION_KEYS);
    data_ends_t pairs[HELLO_NICS_MAX];
    sa_family_t family = net_session_address(config->session)->any.sa_family;
    data_endpoint_set_move_streams(peer->endpoint,
                                   count_move_streams(config->session, find_pairs(peer, family, pairs)));
    *created = peer;
    return BLINK_OK;
}

void peer_data_leave(peer_data_t *peer)
{
    peer->ended = true;
}

void peer_data_end(peer_data_t *peer, blink_result_t code)
{
    peer->ended = true;
    data_endpoint_close(peer->endpoint, code);
    put(peer);
}

uint32_t peer_data_find_ends(const peer_data_t *peer, data_ends_t ends[DATA_MOVE_STREAMS_MOST])
{
    data_route_t route;
    if (find_route(peer, 0, &route) != BLINK_OK)
        return 0;
    memcpy(ends, route.moves, sizeof(route.moves));
    if (ends[0].own.any.sa_family != AF_UNSPEC)
        return data_endpoint_move_streams(peer->endpoint);
    ends[0] = (data_ends_t){route.own, route.peer};
    return 1;
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
    if (peer->ended)
        return;
    if (net_session_send(peer->config.session, message) != BLINK_OK)
        LOG_WARNING("host %s is not told something: %s", data_endpoint_peer(endpoint), blink_error_text());
}

/* The peer listens, at its address of the session by TCP. */
static blink_result_t dial(peer_data_t *peer, const Blinkpeer__DataOffer *data_offer)
{
    data_route_t route;
    BLINK_TRY(find_route(peer, data_offer->round, &route));
    route.tcp.port = (uint16_t)data_offer->port;
    route.rdma.port = (uint16_t)data_offer->rdma_port;
    BLINK_TRY(find_tokens(peer, first_token(peer, route.round, false), &route.tcp));
    BLINK_TRY(find_tokens(peer, first_token(peer, route.round, true), &route.rdma));
    peer->dialled = route.round + 1;
    data_endpoint_dial(peer->endpoint, &route);
    return BLINK_OK;
}

/* Both sides are to be in one round, and have closed the connections of those before. What concerns a round
 * that is over here is late: the peer hears of a later one. */
static blink_result_t follow(peer_data_t *peer, const Blinkpeer__DataOffer *data_offer)
{
    const data_fence_t there = {data_offer->round, data_offer->taken_bytes};
    data_fence_t here;
    blink_result_t result = data_endpoint_fence(peer->endpoint, there.round, &here);
    if (result != BLINK_OK || here.round > there.round)
        return result == BLINK_ERR_PEER_LOST ? BLINK_OK : result; /* it is told as such */
    if (there.round > 0)
        BLINK_TRY(data_endpoint_resume(peer->endpoint, &there));
    if (there.round > 0 || !dials(peer))
        BLINK_TRY(offer(peer, &here));
    return dials(peer) ? dial(peer, data_offer) : BLINK_OK;
}

blink_result_t peer_data_heard(peer_data_t *peer, const Blinkpeer__DataOffer *data_offer)
{
    bool again = data_offer->round < peer->dialled, nowhere = data_offer->port + data_offer->rdma_port == 0;
    if (dials(peer) && ((nowhere && data_offer->round == 0) || data_offer->port > UINT16_MAX ||
                        data_offer->rdma_port > UINT16_MAX || again))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a DataOffer of ports %u and %u%s", data_offer->port,
                          data_offer->rdma_port, again ? ", the second one" : "");
    return follow(peer, data_offer);
}

blink_result_t peer_data_accept(peer_data_t *peer, const wire_hello_t *hello, int fd)
{
    data_fence_t fence;
    blink_result_t result = data_endpoint_fence(peer->endpoint, 0, &fence);
    if (result == BLINK_OK && (dials(peer) || hello->stream >= stream_count(peer)))
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "host %s: data connection %u is not to be dialled there",
                            data_endpoint_peer(peer->endpoint), hello->stream);
    else if (result == BLINK_OK &&
             !net_session_has_token(peer->config.session,
                                    first_token(peer, fence.round, false) + hello->stream, hello))
        result = BLINK_FAIL(BLINK_ERR_PERMISSION, "a data connection without the token of its session");
    if (result == BLINK_OK)
        return data_endpoint_accept(peer->endpoint, fence.round, hello->stream, fd);
    close(fd);
    return result;
}
