/*
 * Fuzzes a session: what a peer says that has the cluster key, byte by byte through TLS. The first byte of
 * the input says whether a good Hello comes before the rest. Whatever is said, the session ends when the peer
 * has gone, and nothing of it is left.
 */
#include "net/session.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURNS_MOST 1000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct daemon {
    uv_loop_t loop;
    net_t *net;
    tls_context_t *tls; /* the peers' */
} daemon_t;

typedef struct peer {
    daemon_t *daemon;
    int fd;
    tls_t *tls;
} peer_t;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: %s: %s\n", what, blink_error_text());
    abort();
}

/* ---- the daemon ---- */

static void on_opened(void *context, net_session_t *session)
{
    (void)context;
    must(*net_session_peer(session)->host, "the peer has a name");
}

static blink_result_t on_message(void *context, net_session_t *session, const Blinkpeer__Message *message)
{
    const Blinkwire__Query *query;
    const Blinkwire__Reply *reply;
    arena_t arena = {0};
    blink_result_t result = BLINK_OK;
    (void)context;
    (void)session;
    must(message->body_case != BLINKPEER__MESSAGE__BODY__NOT_SET, "a message is something");
    if (message->body_case == BLINKPEER__MESSAGE__BODY_QUERY)
        result = message_parse_query(&message->query->request, &arena, &query);
    if (message->body_case == BLINKPEER__MESSAGE__BODY_QUERY_REPLY)
        result = message_parse_reply(&message->query_reply->reply, &arena, &reply);
    arena_free(&arena);
    return result;
}

static void on_closed(void *context, net_session_t *session, blink_result_t code)
{
    (void)context;
    (void)session;
    (void)code;
    must(*blink_error_text(), "the end has a reason");
}

static void on_asked(void *context)
{
    const daemon_t *daemon = context;
    net_answer(daemon->net);
}

static daemon_t *start(void)
{
    static const net_handler_t handler = {
        .opened = on_opened, .message = on_message, .closed = on_closed, .asked = on_asked};
    static daemon_t daemon;
    const cluster_keys_t keys = {.count = 1};
    const net_config_t config = {.loop = &daemon.loop,
                                 .cluster = "fuzz",
                                 .host = "n1",
                                 .keys = &keys,
                                 .timeout_s = 3600,
                                 .handler = &handler,
                                 .context = &daemon};
    log_init(LOG_LEVEL_ERROR, false);
    must(uv_loop_init(&daemon.loop) == 0, "loop");
    must(net_create(&config, &daemon.net) == BLINK_OK, "daemon");
    must(tls_context_create("fuzz", &keys, &daemon.tls) == BLINK_OK, "peer");
    return &daemon;
}

/* ---- a peer ---- */

static void exchange(peer_t *peer)
{
    uint8_t received[16384];
    const void *cipher;
    size_t byte_count = tls_pending(peer->tls, &cipher);
    ssize_t sent = send(peer->fd, cipher, byte_count, MSG_NOSIGNAL | MSG_DONTWAIT), got;
    if (sent > 0)
        tls_sent(peer->tls, (size_t)sent);
    uv_run(&peer->daemon->loop, UV_RUN_NOWAIT);
    while ((got = recv(peer->fd, received, sizeof(received), MSG_DONTWAIT)) > 0)
        tls_feed(peer->tls, received, (size_t)got);
}

static void say(peer_t *peer, const void *bytes, size_t byte_count)
{
    if (byte_count > 0)
        must(tls_write(peer->tls, bytes, byte_count) == BLINK_OK, "write");
    for (uint32_t i = 0; i < 4; i++)
        exchange(peer);
}

static void say_hello(peer_t *peer)
{
    const hello_t hello = {.version_min = PEER_VERSION_MIN,
                           .version_max = PEER_VERSION_MAX,
                           .daemon_version = "0",
                           .host = "peer",
                           .instance = 1};
    uint8_t frame[4 + GREETING_MOST_BYTES] = {0};
    size_t byte_count = hello_pack(&hello, frame + 4);
    frame[0] = (uint8_t)byte_count;
    say(peer, frame, 4 + byte_count);
    must(net_session_count(peer->daemon->net) == 1, "a good Hello opens the session");
}

static peer_t meet(daemon_t *daemon)
{
    peer_t peer = {.daemon = daemon};
    net_address_t address;
    int fds[2];
    bool done = false;
    must(address_parse("127.0.0.1", 1, &address) == BLINK_OK, "address");
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0, "sockets");
    must(session_accept(daemon->net, fds[0], &address) == BLINK_OK, "session");
    must(tls_create(daemon->tls, true, &peer.tls) == BLINK_OK, "TLS");
    peer.fd = fds[1];
    while (!done) {
        must(tls_handshake(peer.tls, &done) == BLINK_OK, "handshake");
        exchange(&peer);
    }
    return peer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static daemon_t *daemon;
    if (bytes < 1)
        return 0;
    if (!daemon)
        daemon = start();
    peer_t peer = meet(daemon);
    if (data[0] & 1)
        say_hello(&peer);
    say(&peer, data + 1, bytes - 1);
    tls_destroy(peer.tls);
    close(peer.fd);
    for (uint32_t i = 0; i < TURNS_MOST && !list_is_empty(&daemon->net->sessions); i++)
        uv_run(&daemon->loop, UV_RUN_NOWAIT);
    must(list_is_empty(&daemon->net->sessions), "the session ends with its peer");
    must(net_session_count(daemon->net) + net_handshake_count(daemon->net) == 0,
         "nothing is counted any more");
    uv_run(&daemon->loop, UV_RUN_NOWAIT);
    return 0;
}
