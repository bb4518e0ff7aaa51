/*
 * Some daemons' worth of sessions on one loop, over real sockets of the loopback; and raw peers, which have
 * the key and say what they like.
 */
#ifndef BLINK_TEST_NET_FIXTURE_H
#define BLINK_TEST_NET_FIXTURE_H

#include "limit.h"
#include "net/session.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FIXTURE_HOSTS_MAX 16u

static inline cluster_keys_t keys_of(uint8_t first, uint8_t second)
{
    cluster_keys_t keys = {.count = second ? 2 : 1};
    memset(keys.keys[0], first, CLUSTER_KEY_BYTES);
    memset(keys.keys[1], second, CLUSTER_KEY_BYTES);
    return keys;
}

/* One daemon, and what it was told. */
typedef struct host {
    net_t *net;
    net_address_t address; /* where it listens */
    net_session_t *session;
    uint32_t opened_count, closed_count, query_count, reply_count, connected_count, failed_count, asked_count;
    bool mute; /* it gives no sign of life */
    bool leaves_at_once;
    blink_result_t closed_code, failed_code;
    char closed_text[BLINK_ERROR_TEXT_BYTES], failed_text[BLINK_ERROR_TEXT_BYTES];
    char heard[64];
    net_session_t *connected;
    net_dial_t *dial;
    struct data_host *with_data; /* of tests with data connections */
} host_t;

/* What such tests do with messages and connections; NULL: others do not. */
static blink_result_t (*hear_data_offer)(host_t *host, const Blinkpeer__DataOffer *offer);
static blink_result_t (*take_data)(host_t *host, const wire_hello_t *hello, int fd);
static blink_result_t (*hear_query)(host_t *host, const Blinkpeer__Query *query);
static blink_result_t (*hear_answer)(host_t *host, const Blinkpeer__QueryReply *answer);
static void (*lose_session)(host_t *host, blink_result_t code);

typedef struct fixture {
    uv_loop_t loop;
    uv_timer_t give_up;
    host_t hosts[FIXTURE_HOSTS_MAX];
    uint32_t host_count;
    uint32_t fd_count; /* before */
} fixture_t;

static inline uint32_t count_fds(void)
{
    uint32_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* ---- what a daemon hears ---- */

static inline void on_opened(void *context, net_session_t *session)
{
    host_t *host = context;
    host->opened_count++;
    host->session = session;
    net_session_set_data(session, host);
    if (host->leaves_at_once)
        net_session_close(session, BLINK_OK);
}

static inline void on_closed(void *context, net_session_t *session, blink_result_t code)
{
    host_t *host = context;
    assert_ptr_equal(net_session_data(session), host);
    host->closed_count++;
    host->closed_code = code;
    snprintf(host->closed_text, sizeof(host->closed_text), "%s", blink_error_text());
    if (lose_session)
        lose_session(host, code);
    if (host->session == session)
        host->session = NULL;
}

static inline void send_reply(net_session_t *session, uint64_t id, char *text)
{
    Blinkpeer__QueryReply reply = BLINKPEER__QUERY_REPLY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    reply.id = id;
    reply.reply = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY_REPLY;
    message.query_reply = &reply;
    net_session_send(session, &message);
}

static inline blink_result_t on_message(void *context, net_session_t *session,
                                        const Blinkpeer__Message *message)
{
    host_t *host = context;
    char answer[] = "two GPUs";
    if (message->body_case == BLINKPEER__MESSAGE__BODY_DATA_OFFER)
        return hear_data_offer(host, message->data_offer);
    if (message->body_case == BLINKPEER__MESSAGE__BODY_QUERY && hear_query)
        return hear_query(host, message->query);
    if (message->body_case == BLINKPEER__MESSAGE__BODY_QUERY_REPLY && hear_answer)
        return hear_answer(host, message->query_reply);
    if (message->body_case == BLINKPEER__MESSAGE__BODY_QUERY) {
        host->query_count++;
        if (message->query->id == 0)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a query without a number");
        send_reply(session, message->query->id, answer);
    } else {
        const ProtobufCBinaryData *reply = &message->query_reply->reply;
        host->reply_count++;
        snprintf(host->heard, sizeof(host->heard), "%.*s", (int)reply->len, (const char *)reply->data);
    }
    return BLINK_OK;
}

static inline blink_result_t on_data(void *context, const wire_hello_t *hello, int fd)
{
    return take_data(context, hello, fd);
}

static inline void on_asked(void *context)
{
    host_t *host = context;
    host->asked_count++;
    if (!host->mute)
        net_answer(host->net);
}

static inline void on_connected(void *context, net_session_t *session)
{
    host_t *host = context;
    host->connected_count++;
    host->connected = session;
}

static inline void on_failed(void *context, blink_result_t code)
{
    host_t *host = context;
    host->failed_count++;
    host->failed_code = code;
    snprintf(host->failed_text, sizeof(host->failed_text), "%s", blink_error_text());
}

/* ---- the loop ---- */

static inline void on_give_up(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("nothing came of it");
}

/* What libuv opens once per process is open before descriptors are counted. */
static inline void warm_up(uv_loop_t *loop)
{
    assert_int_equal(uv_loop_init(loop), 0);
    assert_int_equal(uv_loop_close(loop), 0);
}

static inline int fixture_create(void **state)
{
    static fixture_t fixture;
    warm_up(&fixture.loop);
    fixture = (fixture_t){.fd_count = count_fds()};
    log_init(LOG_LEVEL_ERROR, false);
    assert_int_equal(uv_loop_init(&fixture.loop), 0);
    uv_timer_init(&fixture.loop, &fixture.give_up);
    *state = &fixture;
    return 0;
}

/* All descriptors are closed, and, as the sanitizer says, all memory is free. */
static inline int fixture_destroy(void **state)
{
    fixture_t *fixture = *state;
    for (uint32_t i = 0; i < fixture->host_count; i++)
        net_destroy(fixture->hosts[i].net);
    uv_close((uv_handle_t *)&fixture->give_up, NULL);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    assert_int_equal(count_fds(), fixture->fd_count);
    return 0;
}

/* Turn the loop until the condition holds. */
#define RUN_UNTIL(fixture, condition)                                                                        \
    do {                                                                                                     \
        uv_timer_start(&(fixture)->give_up, on_give_up, limit_ms(), 0);                                      \
        while (!(condition))                                                                                 \
            uv_run(&(fixture)->loop, UV_RUN_ONCE);                                                           \
        uv_timer_stop(&(fixture)->give_up);                                                                  \
    } while (0)

/* Turn the loop so often, without waiting. */
static inline void run_turns(fixture_t *fixture, uint32_t count)
{
    while (count-- > 0)
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

static inline void on_time(uv_timer_t *timer)
{
    timer->data = NULL;
}

static inline void run_for_ms(fixture_t *fixture, uint64_t ms)
{
    uv_timer_t timer = {.data = &timer};
    uv_timer_init(&fixture->loop, &timer);
    timer.data = &timer;
    uv_timer_start(&timer, on_time, ms, 0);
    while (timer.data)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

/* ---- daemons ---- */

static const net_handler_t handler_without_data = {
    .opened = on_opened, .message = on_message, .closed = on_closed, .asked = on_asked};
static const net_handler_t handler_with_data = {
    .opened = on_opened, .message = on_message, .closed = on_closed, .data = on_data, .asked = on_asked};

/* A daemon that listens at a port of the address's. */
static inline host_t *add_host(fixture_t *fixture, const char *name, cluster_keys_t keys, double timeout_s,
                               const char *address)
{
    const net_handler_t *handler = take_data ? &handler_with_data : &handler_without_data;
    host_t *host = &fixture->hosts[fixture->host_count];
    assert_true(fixture->host_count < FIXTURE_HOSTS_MAX);
    const net_config_t config = {.loop = &fixture->loop,
                                 .cluster = "test",
                                 .host = name,
                                 .keys = &keys,
                                 .timeout_s = timeout_s,
                                 .handler = handler,
                                 .context = host};
    assert_int_equal(net_create(&config, &host->net), BLINK_OK);
    fixture->host_count++;
    assert_int_equal(address_parse(address, 1, &host->address), BLINK_OK);
    host->address.v4.sin_port = 0;
    assert_int_equal(net_listen(host->net, &host->address), BLINK_OK);
    return host;
}

/* Its time-outs play no part, however busy the machine is. */
static inline host_t *add_plain_host(fixture_t *fixture, const char *name)
{
    host_t *host = add_host(fixture, name, keys_of(1, 0), limit_s(), "127.0.0.1");
    host->net->handshake_ms = limit_ms();
    return host;
}

static inline void dial(host_t *from, const net_address_t *address)
{
    const net_dial_config_t config = {.address_count = 1,
                                      .addresses = address,
                                      .connected = on_connected,
                                      .failed = on_failed,
                                      .context = from};
    assert_int_equal(net_dial(from->net, &config, &from->dial), BLINK_OK);
}

/* Two daemons with a session. */
static inline void meet(fixture_t *fixture, host_t *from, host_t *to)
{
    dial(from, &to->address);
    RUN_UNTIL(fixture, from->session && to->session);
}

/* ---- raw peers ---- */

typedef struct raw {
    fixture_t *fixture;
    int fd;
    tls_context_t *context;
    tls_t *tls;
    uint8_t input[32u << 10];
    size_t input_bytes;
    bool ended; /* the daemon has closed the connection */
} raw_t;

/* A socket from an address of the loopback to the daemon's; the address 127.0.0.NUMBER, or any for 0. */
static inline int connect_from(const host_t *host, uint8_t number)
{
    int fd = socket(host->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u + number)};
    assert_true(fd >= 0);
    if (number > 0)
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, &host->address.any, address_bytes(&host->address)), 0);
    return fd;
}

/* Bytes to and fro. */
static inline void raw_exchange(raw_t *raw)
{
    uint8_t bytes[4096];
    const void *cipher;
    ssize_t got;
    size_t cipher_bytes;
    while ((cipher_bytes = tls_pending(raw->tls, &cipher)) > 0) {
        ssize_t sent = send(raw->fd, cipher, cipher_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            break;
        tls_sent(raw->tls, (size_t)sent);
    }
    uv_run(&raw->fixture->loop, UV_RUN_NOWAIT);
    while ((got = recv(raw->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        tls_feed(raw->tls, bytes, (size_t)got);
    raw->ended = raw->ended || got == 0 || (got < 0 && errno != EAGAIN);
}

/* A peer that has the key. */
static inline raw_t *raw_create(fixture_t *fixture, const host_t *host)
{
    raw_t *raw = calloc(1, sizeof(*raw));
    cluster_keys_t keys = keys_of(1, 0);
    bool done = false;
    *raw = (raw_t){.fixture = fixture, .fd = connect_from(host, 0)};
    assert_int_equal(tls_context_create("test", &keys, &raw->context), BLINK_OK);
    assert_int_equal(tls_create(raw->context, true, &raw->tls), BLINK_OK);
    while (!done) {
        assert_int_equal(tls_handshake(raw->tls, &done), BLINK_OK);
        raw_exchange(raw);
    }
    return raw;
}

static inline void raw_destroy(raw_t *raw)
{
    tls_destroy(raw->tls);
    tls_context_destroy(raw->context);
    close(raw->fd);
    free(raw);
}

static inline void raw_send_bytes(raw_t *raw, const void *bytes, size_t byte_count)
{
    assert_int_equal(tls_write(raw->tls, bytes, byte_count), BLINK_OK);
    raw_exchange(raw);
}

static inline void raw_send_frame(raw_t *raw, const void *bytes, uint32_t byte_count)
{
    uint8_t frame[4 + GREETING_MOST_BYTES];
    memcpy(frame, &byte_count, 4);
    memcpy(frame + 4, bytes, byte_count);
    raw_send_bytes(raw, frame, 4 + byte_count);
}

static inline void raw_send(raw_t *raw, const Blinkpeer__Message *message)
{
    uint8_t bytes[GREETING_MOST_BYTES];
    raw_send_frame(raw, bytes, (uint32_t)blinkpeer__message__pack(message, bytes));
}

static inline hello_t raw_hello(const char *name, uint64_t instance)
{
    hello_t hello = {.version_min = PEER_VERSION_MIN,
                     .version_max = PEER_VERSION_MAX,
                     .daemon_version = "0.0",
                     .instance = instance};
    snprintf(hello.host, sizeof(hello.host), "%s", name);
    return hello;
}

static inline void raw_say_hello(raw_t *raw, hello_t hello)
{
    uint8_t bytes[GREETING_MOST_BYTES];
    raw_send_frame(raw, bytes, (uint32_t)hello_pack(&hello, bytes));
}

/* The next message, to be freed; NULL: the daemon has closed the connection. */
static inline Blinkpeer__Message *raw_receive(raw_t *raw)
{
    for (;;) {
        size_t got;
        uint32_t byte_count;
        assert_int_equal(
            tls_read(raw->tls, raw->input + raw->input_bytes, sizeof(raw->input) - raw->input_bytes, &got),
            BLINK_OK);
        raw->input_bytes += got;
        memcpy(&byte_count, raw->input, 4);
        if (raw->input_bytes >= 4 && raw->input_bytes >= 4 + byte_count) {
            Blinkpeer__Message *message = blinkpeer__message__unpack(NULL, byte_count, raw->input + 4);
            assert_non_null(message);
            raw->input_bytes -= 4 + byte_count;
            memmove(raw->input, raw->input + 4 + byte_count, raw->input_bytes);
            return message;
        }
        if (raw->ended && got == 0)
            return NULL;
        raw_exchange(raw);
    }
}

/* The next message other than Ping is of this kind. Its code, if it is a Bye; the text stays in *text. */
static inline uint32_t raw_expect(raw_t *raw, Blinkpeer__Message__BodyCase kind,
                                  char text[BLINK_ERROR_TEXT_BYTES])
{
    Blinkpeer__Message *message = raw_receive(raw);
    while (message && message->body_case == BLINKPEER__MESSAGE__BODY_PING) {
        blinkpeer__message__free_unpacked(message, NULL);
        message = raw_receive(raw);
    }
    assert_non_null(message);
    assert_int_equal(message->body_case, kind);
    uint32_t code = kind == BLINKPEER__MESSAGE__BODY_BYE ? message->bye->code : 0;
    if (kind == BLINKPEER__MESSAGE__BODY_BYE && text)
        snprintf(text, BLINK_ERROR_TEXT_BYTES, "%s", message->bye->text);
    blinkpeer__message__free_unpacked(message, NULL);
    return code;
}

/* Until the session is open. */
static inline void raw_open(raw_t *raw, const char *name, uint64_t instance)
{
    raw_expect(raw, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
    raw_say_hello(raw, raw_hello(name, instance));
    raw_expect(raw, BLINKPEER__MESSAGE__BODY_WELCOME, NULL);
}

#endif
