/*
 * A session from its first byte on: the TLS handshake, the greetings, the open session with its signs of
 * life, and the last word.
 *
 * Of two daemons the one with the lower instance is the arbiter: it lets only one session become open,
 * whoever dialled, and the first that it is asked about. It decides by its Welcome where it was dialled, and
 * by its own Hello where it dials. The other one takes what the arbiter decides, and a new session instead of
 * an old one: the arbiter makes none while the old one is open for it.
 */
#ifndef BLINK_NET_SESSION_H
#define BLINK_NET_SESSION_H

#include "net/state.h"
#include "net/stream.h"

typedef enum session_state {
    SESSION_SECURING, /* TCP and TLS */
    SESSION_GREETING, /* the peer has the key; its Hello is to come */
    SESSION_OFFERED,  /* this side dialled and has said Hello; Welcome is to come */
    SESSION_OPEN,
    SESSION_LEAVING, /* Bye is said, and the peer has yet to close the connection */
    SESSION_GONE,    /* handles close */
} session_state_t;

struct net_session {
    net_t *net;
    list_t link; /* on net->sessions */
    stream_t *stream;
    uv_timer_t timer; /* until it is open its deadline, then the next Ping, then the deadline of its end */
    uint32_t handles; /* stream and timer, as long as they are not closed */
    session_state_t state;
    net_address_t address;
    bool dials;
    bool counted;     /* in net->handshake_count */
    net_dial_t *dial; /* whose try this is; NULL: nobody's */
    hello_t peer;
    uint32_t version;
    uint32_t silent_ticks; /* Pings since the last Pong */
    blink_result_t failed; /* not BLINK_OK: it is about to end, and why */
    char failed_text[BLINK_ERROR_TEXT_BYTES];
    list_t of_owing;
    void *data;
};

/* A session on an accepted socket, or for a dial on one that connects. The socket is taken over. Errors:
 * NO_MEMORY, SYSTEM. */
blink_result_t session_accept(net_t *net, int fd, const net_address_t *address);
blink_result_t session_dial(net_t *net, int fd, const net_address_t *address, net_dial_t *dial,
                            net_session_t **session);

/* End it in good order, unless it ends already; no callback is called. */
void session_leave(net_session_t *session);

/* End it at once, with a Bye if the peer can hear it; no callback is called. */
void session_drop(net_session_t *session);

/* Which addresses count as the same: address_same_network() or address_is_same_host(). */
typedef bool session_same_t(const net_address_t *address, const net_address_t *other);

/* How many handshakes the same as the address have under way. */
uint32_t session_count_handshakes(const net_t *net, const net_address_t *address, session_same_t *same);

/* End the one of them that began first: one that means it has long been through. */
void session_drop_oldest_handshake(net_t *net, const net_address_t *address, session_same_t *same);

/* ---- greet.c ---- */

/* Judge a Hello that has come. *other is the session with the same daemon that is open, or offered by this
 * side; NULL: there is none. Errors: INVALID_ARGUMENT (it is this daemon itself; two daemons have one name),
 * PROTOCOL (no common version). */
blink_result_t greet_judge(const net_session_t *session, uint32_t *version, net_session_t **other);

/* Whether this daemon decides which session of the two becomes open. */
static inline bool greet_is_arbiter(const net_session_t *session)
{
    return session->net->hello.instance < session->peer.instance;
}

#endif
