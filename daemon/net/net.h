/*
 * What a daemon has to do with the other daemons of its cluster: where it listens, whom it dials, and the
 * sessions that are open. A session is one TLS connection of two daemons that have shown each other the
 * cluster key and said hello; there is never more than one with the same daemon.
 *
 * All state hangs off a net_t, which belongs to the thread of its loop; nothing blocks. Every callback runs
 * from within the loop.
 */
#ifndef BLINK_NET_NET_H
#define BLINK_NET_NET_H

#include "net/message.h"
#include "net/tls.h"
#include "wire.h"

#include <uv.h>

typedef struct net net_t;
typedef struct net_session net_session_t;

/* Handshakes under way that others began: in all, and by one address, or by one IPv6 network of 64 bits in
 * which this machine is not, and which it does not dial. */
#define NET_HANDSHAKES_MAX             64u
#define NET_HANDSHAKES_PER_ADDRESS_MAX 16u

/* Sessions that are open at a time. */
#define NET_SESSIONS_MAX 2048u

/* A handshake has as long as the peers' time-out, but at least and at most so long. The kernel sends what was
 * lost of its first packets again after one second. */
#define NET_HANDSHAKE_LEAST_MS 2000u
#define NET_HANDSHAKE_MOST_MS  5000u

/* How long a peer may give no sign of life. */
#define NET_TIMEOUT_DEFAULT_S 5.0
#define NET_TIMEOUT_LEAST_S   0.5

/* How long a host is dialled whom ranks wait for: the peers' time-out, but at least two handshakes. */
static inline uint64_t net_reach_ms(double timeout_s)
{
    uint64_t timeout_ms = (uint64_t)(timeout_s * 1e3);
    return timeout_ms > 2 * NET_HANDSHAKE_LEAST_MS ? timeout_ms : 2 * NET_HANDSHAKE_LEAST_MS;
}

typedef struct net_handler {
    /* A session is open: messages may be sent, and will come. */
    void (*opened)(void *context, net_session_t *session);
    /* A message has come, other than those that sessions answer by themselves; it is valid during the call.
     * An error ends the session with this thread's error text. */
    blink_result_t (*message)(void *context, net_session_t *session, const Blinkpeer__Message *message);
    /* An open session has ended, by itself or by the peer: the code with this thread's error text, which
     * calls the peer "it". OK: the peer's daemon was stopped. The session is no more after the call. */
    void (*closed)(void *context, net_session_t *session, blink_result_t code);
    /* Somebody has dialled a data connection, and shows a token: net_session_has_token(). The socket, which
     * is non-blocking, is handed over, also on failure. An error is logged as a refusal. NULL: all are
     * refused.
     */
    blink_result_t (*data)(void *context, const wire_hello_t *hello, int fd);
    /* A peer asks for a sign of life: net_answer() is to be called once all threads of the daemon have shown
     * that they turn. Not called again before that. */
    void (*asked)(void *context);
} net_handler_t;

typedef struct net_config {
    uv_loop_t *loop;
    const char *cluster; /* its name, and below what this daemon is called: name_check() */
    const char *host;
    const cluster_keys_t *keys; /* copied as far as it is needed; may be wiped afterwards */
    double timeout_s;           /* NET_TIMEOUT_LEAST_S or more */
    uint32_t nic_count;         /* what peers are told of; at most HELLO_NICS_MAX */
    const net_interface_t *nics;
    const net_handler_t *handler;
    void *context;
} net_config_t;

/* Errors: INVALID_ARGUMENT (a name or the time-out, and what would be right), NO_MEMORY, SYSTEM. */
blink_result_t net_create(const net_config_t *config, net_t **net);

/* Say Bye to all, and end: no callback is called any more, and no session or dial may be used. Memory and
 * sockets are given back from within the loop, which must be run until its handles are closed. NULL is
 * ignored. */
void net_destroy(net_t *net);

/* Say Bye to all, and neither dial nor listen any more: no callback of the handler's is called any more, and
 * no session or dial may be used. `left` is called once, in this call or from within the loop, when all have
 * closed their sessions, or have had a second to do so. net_destroy() in that call or later. */
void net_leave(net_t *net, void (*left)(void *context));

/* Accept sessions at an address, which receives the port that the kernel chose if it is 0. May be called for
 * several addresses. An IPv6 address that is :: takes IPv4 as well. Errors: EXISTS (the port is taken),
 * NOT_FOUND (this machine has no such address), SYSTEM; all name the address. */
blink_result_t net_listen(net_t *net, net_address_t *address);

/* Tell peers from now on where this daemon is to be dialled: as the home of its ids is. */
void net_tell_home(net_t *net, const unique_id_t *home);

/* New sessions use these keys; those that are open go on. True if they are other keys than before. */
bool net_set_keys(net_t *net, const cluster_keys_t *keys);

/* As tls_context_key_name(). */
const char *net_key_name(const net_t *net, uint32_t number);

/* All threads turn: peers that asked are answered. */
void net_answer(net_t *net);

/* What this daemon says of itself. */
const hello_t *net_hello(const net_t *net);

/* How many sessions are open, and how many handshakes that others began are under way. */
uint32_t net_session_count(const net_t *net);
uint32_t net_handshake_count(const net_t *net);

/* ---- sessions ---- */

/* Queue a message. Errors: QUOTA (the peer does not read), NO_MEMORY: the session ends as by
 * net_session_fail(); INVALID_ARGUMENT (longer than MESSAGE_MOST_BYTES), PEER_LOST. */
blink_result_t net_session_send(net_session_t *session, const Blinkpeer__Message *message);

/* What the peer waits for cannot be sent: an open session ends later, from within the loop, with this code
 * and this thread's error text. The first reason counts. */
void net_session_fail(net_session_t *session, blink_result_t code);

/* End an open session; the peer hears the code with this thread's error text, or OK: an orderly end. `closed`
 * is not called. */
void net_session_close(net_session_t *session, blink_result_t code);

/* Who is at the other end; valid as long as the session. */
const hello_t *net_session_peer(const net_session_t *session);
const net_address_t *net_session_address(const net_session_t *session);

/* This side's own address in it. Errors: SYSTEM. */
blink_result_t net_session_own_address(const net_session_t *session, net_address_t *address);
uint32_t net_session_version(const net_session_t *session);

/* What a data connection that belongs to the session is opened with: by each number another token, the same
 * at both ends. Errors: SYSTEM. */
blink_result_t net_session_token(net_session_t *session, uint32_t number, uint8_t token[WIRE_TOKEN_BYTES]);

/* Whether the hello has the session's token of this number. */
bool net_session_has_token(net_session_t *session, uint32_t number, const wire_hello_t *hello);

/* A pointer of the owner's; NULL at first. */
void net_session_set_data(net_session_t *session, void *data);
void *net_session_data(const net_session_t *session);

/* ---- dialling ---- */

typedef struct net_dial net_dial_t;

typedef struct net_dial_config {
    uint32_t address_count; /* 1 to ADDRESSES_MAX, of one host */
    const net_address_t *addresses;
    uint64_t instance; /* not 0: only this daemon is wanted */
    /* A daemon is wanted only if its Hello names the address that was dialled. Who has got the address from a
     * user could otherwise be led to a relay of the user's. */
    bool is_users;
    /* There is a session, made just now or before. The dial is no more. */
    void (*connected)(void *context, net_session_t *session);
    /* All addresses have been tried in vain: the code with this thread's error text, which is about the last
     * address. They are tried again after a pause, unless net_dial_cancel() is called, which may be done
     * here. */
    void (*failed)(void *context, blink_result_t code);
    void *context;
} net_dial_config_t;

/* Try the addresses in turn until there is a session, with pauses from 50 ms to 5 s in between. The callbacks
 * are called later, from within the loop. Errors: NO_MEMORY, SYSTEM. */
blink_result_t net_dial(net_t *net, const net_dial_config_t *config, net_dial_t **dial);

/* Give up: no callback is called any more. */
void net_dial_cancel(net_dial_t *dial);

#endif
