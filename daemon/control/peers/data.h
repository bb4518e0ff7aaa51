/*
 * The data connections to a host, as the control thread sees them: one endpoint (net/data/data.h) for each
 * open session. Its connections are made once somebody uses it, and anew where they fail. Where that cannot
 * be the session ends, and a new session has a new endpoint.
 */
#ifndef BLINK_CONTROL_PEERS_DATA_H
#define BLINK_CONTROL_PEERS_DATA_H

#include "base/mailbox.h"
#include "net/data/data.h"
#include "net/net.h"

typedef struct peer_data peer_data_t;

typedef struct peer_data_config {
    data_t *data;
    net_t *net;
    net_session_t *session;
    mailbox_t *control; /* of the control thread */
    uint16_t port;      /* at which this daemon listens */
    /* On the control thread: the connections are gone, and the session is to be ended with the code and this
     * thread's error text. Not after peer_data_end(). */
    void (*lost)(void *context, blink_result_t code);
    void *context;
} peer_data_config_t;

/* The session is open. Errors: NO_MEMORY. */
blink_result_t peer_data_begin(const peer_data_config_t *config, peer_data_t **peer);

/* The session ends because this daemon stops: its connections stay until peer_data_end(), and `lost` is
 * called no more. */
void peer_data_leave(peer_data_t *peer);

/* The session has ended, for the code with this thread's error text: its endpoint is lost. */
void peer_data_end(peer_data_t *peer, blink_result_t code);

/* Between which NICs moves are to go as long as these work. Returns how many pairs there are. */
uint32_t peer_data_find_ends(const peer_data_t *peer, data_ends_t ends[DATA_MOVE_STREAMS_MOST]);

/* Borrowed: who keeps it holds it. */
data_endpoint_t *peer_data_endpoint(const peer_data_t *peer);

/* The peer's DataOffer. Errors: PROTOCOL. */
blink_result_t peer_data_heard(peer_data_t *peer, const Blinkpeer__DataOffer *offer);

/* The peer has dialled a data connection: the socket is taken over, also on failure. Errors: PERMISSION (a
 * token that is not this session's), PROTOCOL (the peer does not dial), and as data_endpoint_accept(). */
blink_result_t peer_data_accept(peer_data_t *peer, const wire_hello_t *hello, int fd);

/* Send this to the host that the endpoint leads to, unless its session has ended. On the control thread; the
 * endpoint is held. If it fails the session ends. */
void peer_data_say(const data_endpoint_t *endpoint, const Blinkpeer__Message *message);

/* ---- for data_handler_t, by whoever has the proxy's turn ---- */

void peer_data_wanted(data_endpoint_t *endpoint);
void peer_data_broken(data_endpoint_t *endpoint);
void peer_data_lost(data_endpoint_t *endpoint, blink_result_t code);

#endif
