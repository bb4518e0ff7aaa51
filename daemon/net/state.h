/*
 * What the files of this room share: the state of a net_t, and the calls between listening, dialling and
 * sessions.
 */
#ifndef BLINK_NET_STATE_H
#define BLINK_NET_STATE_H

#include "base/list.h"
#include "net/net.h"
#include "net/refusals.h"

#include <stdlib.h>

struct net {
    uv_loop_t *loop;
    const net_handler_t *handler;
    void *context;
    tls_context_t *tls;
    hello_t hello; /* this daemon's */
    uint64_t timeout_ms;
    uint64_t handshake_ms; /* that a handshake may take */
    uint32_t holds;        /* handles that are not closed yet, and the owner; the last one frees the memory */
    list_t listeners, dials;
    list_t sessions; /* all: handshakes, open ones, and those that wait for the peer to hear the Bye */
    uint32_t open_count;
    uint32_t handshake_count; /* that others began */
    list_t owing;             /* sessions whose peers wait for a sign of life */
    bool asked;               /* the owner has been, and has not answered */
    uint32_t steps;           /* that streams may still have in this turn of the loop */
    uv_prepare_t turn;        /* gives them */
    uv_timer_t accept_again;
    refusals_t refusals;
    bool is_leaving;
    void (*left)(void *context); /* NULL: it has been called, or nobody leaves yet */
};

/* A handle less. */
static inline void net_put(net_t *net)
{
    if (--net->holds > 0)
        return;
    tls_context_destroy(net->tls);
    free(net);
}

/* A session less: it may have been the last that is waited for. */
static inline void net_left_one(net_t *net)
{
    void (*left)(void *context) = net->left;
    if (!left || !list_is_empty(&net->sessions))
        return;
    net->left = NULL;
    left(net->context);
}

/* ---- listen.c ---- */

void listen_init(net_t *net);
void listen_end(net_t *net);

/* There may be room for handshakes again. */
void listen_go_on(net_t *net);

/* ---- dial.c ---- */

/* The dial's try has led to a session; or it has failed, with the code and this thread's error text. EXISTS:
 * to be tried again, for another session with the same daemon is being made. The session is not the dial's
 * any more. */
void dial_connected(net_dial_t *dial, net_session_t *session);
void dial_failed(net_dial_t *dial, blink_result_t code);

/* Whether the dial is for who is at the other end, whose Hello has come. Errors: PEER_LOST (another daemon is
 * there now), PERMISSION (the daemon does not name the address). */
blink_result_t dial_check(const net_dial_t *dial, const net_session_t *session);

/* Whether one of them is for this address. */
bool dials_are_for(const net_t *net, const net_address_t *address);

void dials_end(net_t *net);

#endif
