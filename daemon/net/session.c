#include "net/session.h"

#include "base/events.h"
#include "names.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A peer is asked so often within its time-out, and is dead when so many Pings in a row had no answer. */
#define TICKS_PER_TIMEOUT 5u

/* So long the peer has time to hear why a session ends. */
#define LEAVING_MS 1000u

/* ---- handles ---- */

static void on_handle_closed(net_session_t *session)
{
    net_t *net = session->net;
    if (--session->handles == 0)
        free(session);
    net_put(net);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

static void on_stream_closed(void *context)
{
    on_handle_closed(context);
}

/* It is no handshake of a stranger's any more. */
static void uncount(net_session_t *session)
{
    if (!session->counted)
        return;
    session->counted = false;
    session->net->handshake_count--;
    listen_go_on(session->net);
}

/* What is queued is sent if that takes no waiting. */
static void release(net_session_t *session)
{
    session->state = SESSION_GONE;
    list_remove(&session->link);
    list_remove(&session->of_owing);
    stream_destroy(session->stream);
    uv_close((uv_handle_t *)&session->timer, on_timer_closed);
    uncount(session);
    net_left_one(session->net);
}

/* ---- messages out ---- */

static blink_result_t send_message(net_session_t *session, const Blinkpeer__Message *message)
{
    size_t byte_count = blinkpeer__message__get_packed_size(message);
    if (byte_count > MESSAGE_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a message of %zu bytes; at most %u are allowed",
                          byte_count, MESSAGE_MOST_BYTES);
    uint8_t *bytes = malloc(byte_count + 1);
    if (!bytes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a message of %zu bytes", byte_count);
    blinkpeer__message__pack(message, bytes);
    blink_result_t result = stream_send(session->stream, bytes, byte_count);
    free(bytes);
    return result;
}

static blink_result_t send_hello(net_session_t *session)
{
    uint8_t bytes[GREETING_MOST_BYTES];
    return stream_send(session->stream, bytes, hello_pack(&session->net->hello, bytes));
}

static blink_result_t send_welcome(net_session_t *session)
{
    Blinkpeer__Welcome welcome = BLINKPEER__WELCOME__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    welcome.version = session->version;
    message.body_case = BLINKPEER__MESSAGE__BODY_WELCOME;
    message.welcome = &welcome;
    return send_message(session, &message);
}

static blink_result_t send_ping(net_session_t *session)
{
    Blinkpeer__Ping ping = BLINKPEER__PING__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    message.body_case = BLINKPEER__MESSAGE__BODY_PING;
    message.ping = &ping;
    return send_message(session, &message);
}

static blink_result_t send_pong(net_session_t *session)
{
    Blinkpeer__Pong pong = BLINKPEER__PONG__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    message.body_case = BLINKPEER__MESSAGE__BODY_PONG;
    message.pong = &pong;
    return send_message(session, &message);
}

static blink_result_t send_bye(net_session_t *session, blink_result_t code, char *text)
{
    Blinkpeer__Bye bye = BLINKPEER__BYE__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    bye.code = (uint32_t)code;
    bye.text = text;
    message.body_case = BLINKPEER__MESSAGE__BODY_BYE;
    message.bye = &bye;
    return send_message(session, &message);
}

/* ---- the end ---- */

static void on_left(uv_timer_t *timer)
{
    release(timer->data);
}

/* Say Bye and wait a little until the peer has heard it; a peer that cannot hear it is left at once. */
static void leave(net_session_t *session, blink_result_t code, char *text)
{
    bool hears = session->state >= SESSION_GREETING && send_bye(session, code, text) == BLINK_OK;
    if (session->state == SESSION_OPEN)
        session->net->open_count--;
    list_remove(&session->of_owing);
    if (!hears) {
        release(session);
        return;
    }
    session->state = SESSION_LEAVING;
    stream_finish(session->stream);
    uv_timer_start(&session->timer, on_left, LEAVING_MS, 0);
}

static void log_event(const net_session_t *session, event_kind_t kind, log_level_t level, const char *what)
{
    char address[ADDRESS_TEXT_BYTES], subject[EVENT_SUBJECT_BYTES];
    address_write(&session->address, address);
    snprintf(subject, sizeof(subject), "host %s (%s)", session->peer.host, address);
    event_log_host(kind, subject, level, "%s", what);
}

static void log_end(net_session_t *session, bool was_open, blink_result_t code, const char *why)
{
    char address[ADDRESS_TEXT_BYTES];
    address_write(&session->address, address);
    if (code == BLINK_ERR_EXISTS || (!was_open && session->dials))
        LOG_DEBUG("%s: %s", address, why); /* who dials is told, and logs it */
    else if (!was_open)
        refusals_log(&session->net->refusals, &session->address, why);
    else
        log_event(session, EVENT_HOST_GONE, code == BLINK_OK ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, why);
}

/* The code with this thread's error text. */
static void tell_end(net_session_t *session, bool was_open, blink_result_t code)
{
    net_dial_t *dial = session->dial;
    session->dial = NULL;
    if (was_open)
        session->net->handler->closed(session->net->context, session, code);
    else if (dial)
        dial_failed(dial, code);
}

/* The session ends, for the code with this thread's error text; the peer is told if it can hear that. */
static void end(net_session_t *session, blink_result_t code)
{
    bool was_open = session->state == SESSION_OPEN;
    char why[BLINK_ERROR_TEXT_BYTES];
    snprintf(why, sizeof(why), "%s", blink_error_text());
    leave(session, code, why);
    log_end(session, was_open, code, why);
    blink_error_set(code, "%s", why);
    tell_end(session, was_open, code);
}

static void on_ended(void *context, blink_result_t code)
{
    net_session_t *session = context;
    if (session->state == SESSION_LEAVING)
        release(session);
    else
        end(session, code);
}

void net_session_close(net_session_t *session, blink_result_t code)
{
    char why[BLINK_ERROR_TEXT_BYTES] = "";
    if (code != BLINK_OK)
        snprintf(why, sizeof(why), "%s", blink_error_text());
    leave(session, code, why);
}

void session_leave(net_session_t *session)
{
    char nothing[] = "";
    if (session->state < SESSION_LEAVING)
        leave(session, BLINK_OK, nothing);
}

void session_drop(net_session_t *session)
{
    char nothing[] = "";
    bool hears = session->state >= SESSION_GREETING && session->state <= SESSION_OPEN;
    if (hears)
        send_bye(session, BLINK_OK, nothing);
    release(session);
}

/* ---- signs of life ---- */

static void on_tick(uv_timer_t *timer)
{
    net_session_t *session = timer->data;
    blink_result_t result = BLINK_OK;
    if (session->silent_ticks++ >= TICKS_PER_TIMEOUT)
        result = BLINK_FAIL(BLINK_ERR_PEER_LOST, "it has given no sign of life for %g s",
                            (double)session->net->timeout_ms / 1000);
    if (result == BLINK_OK)
        result = send_ping(session);
    if (result != BLINK_OK)
        end(session, result);
}

static void on_failed(uv_timer_t *timer)
{
    net_session_t *session = timer->data;
    end(session, blink_error_set(session->failed, "%s", session->failed_text));
}

void net_session_fail(net_session_t *session, blink_result_t code)
{
    if (session->state != SESSION_OPEN || session->failed != BLINK_OK)
        return;
    session->failed = code;
    memcpy(session->failed_text, blink_error_text(), sizeof(session->failed_text));
    uv_timer_start(&session->timer, on_failed, 0, 0);
}

/* The peer would wait for what it has not been told. */
static blink_result_t end_if_unsent(net_session_t *session, blink_result_t result)
{
    if (result == BLINK_ERR_QUOTA || result == BLINK_ERR_NO_MEMORY)
        net_session_fail(session, result);
    return result;
}

blink_result_t net_session_send(net_session_t *session, const Blinkpeer__Message *message)
{
    return end_if_unsent(session, send_message(session, message));
}

static void asked(net_session_t *session)
{
    net_t *net = session->net;
    if (list_is_empty(&session->of_owing))
        list_append(&net->owing, &session->of_owing);
    if (net->asked)
        return;
    net->asked = true;
    net->handler->asked(net->context);
}

void net_answer(net_t *net)
{
    list_t *link;
    net->asked = false;
    while ((link = list_take_first(&net->owing))) {
        net_session_t *session = CONTAINER_OF(link, net_session_t, of_owing);
        (void)end_if_unsent(session, send_pong(session));
    }
}

/* ---- greetings ---- */

static void open_session(net_session_t *session)
{
    net_t *net = session->net;
    uint64_t tick_ms = net->timeout_ms / TICKS_PER_TIMEOUT;
    char what[EVENT_TEXT_BYTES];
    session->state = SESSION_OPEN;
    net->open_count++;
    uncount(session);
    stream_allow(session->stream, MESSAGE_MOST_BYTES);
    uv_timer_start(&session->timer, on_tick, tick_ms, tick_ms);
    snprintf(what, sizeof(what), "session open, blinkd %s", session->peer.daemon_version);
    log_event(session, EVENT_HOST_CAME, LOG_LEVEL_INFO, what);
    net->handler->opened(net->context, session);
    net_dial_t *dial = session->dial; /* unless it was cancelled */
    session->dial = NULL;
    if (dial && session->state == SESSION_OPEN)
        dial_connected(dial, session);
    else if (dial)
        dial_failed(dial, BLINK_FAIL(BLINK_ERR_PEER_LOST, "the session was ended as soon as it was open"));
}

static blink_result_t fail_connected(const net_session_t *session)
{
    return BLINK_FAIL(BLINK_ERR_EXISTS, "there is a session of %s and %s already", session->net->hello.host,
                      session->peer.host);
}

/* This side dialled, and has heard who is there. */
static blink_result_t offer(net_session_t *session, net_session_t *other)
{
    net_dial_t *dial = session->dial;
    if (!other) {
        session->state = SESSION_OFFERED;
        return send_hello(session);
    }
    if (other->state == SESSION_OPEN && dial) {
        session->dial = NULL;
        dial_connected(dial, other);
    }
    return fail_connected(session);
}

/* The peer dialled, and wants this session. */
static blink_result_t accept_offer(net_session_t *session, net_session_t *other)
{
    if (other && greet_is_arbiter(session))
        return fail_connected(session);
    if (other && other->state == SESSION_OPEN)
        end(other, BLINK_FAIL(BLINK_ERR_PEER_LOST, "it has lost this session, and opens another one"));
    if (session->state != SESSION_GREETING)
        return BLINK_OK; /* the owner has ended all of it */
    if (session->net->open_count >= NET_SESSIONS_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "%u sessions are open, and no more may be", NET_SESSIONS_MAX);
    BLINK_TRY(send_welcome(session));
    open_session(session);
    return BLINK_OK;
}

static blink_result_t heard_hello(net_session_t *session, const Blinkpeer__Hello *hello)
{
    net_session_t *other;
    BLINK_TRY(hello_read(hello, &session->peer));
    if (session->dial)
        BLINK_TRY(dial_check(session->dial, session));
    BLINK_TRY(greet_judge(session, &session->version, &other));
    return session->dials ? offer(session, other) : accept_offer(session, other);
}

static blink_result_t heard_welcome(net_session_t *session, const Blinkpeer__Welcome *welcome)
{
    if (welcome->version != session->version)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it chose version %u; the highest common one is %u",
                          welcome->version, session->version);
    open_session(session);
    return BLINK_OK;
}

/* ---- messages in ---- */

/* The peer ends the session, and knows why: nothing is said to it. */
static void heard_bye(net_session_t *session, const Blinkpeer__Bye *bye)
{
    bool was_open = session->state == SESSION_OPEN, known = blink_name_result_constant(bye->code);
    blink_result_t code = known ? (blink_result_t)bye->code : BLINK_ERR_PROTOCOL;
    char text[BLINK_ERROR_TEXT_BYTES];
    if (code == BLINK_OK && !was_open)
        code = BLINK_ERR_CONNECT;
    if (was_open)
        session->net->open_count--;
    release(session);
    if (!was_open)
        snprintf(text, sizeof(text), "it refused: %s", *bye->text ? bye->text : "it stops");
    else if (*bye->text)
        snprintf(text, sizeof(text), "it ended the session, saying '%s'", bye->text);
    else
        snprintf(text, sizeof(text), "its daemon was stopped");
    log_end(session, was_open, code, text);
    blink_error_set(code, "%s", text);
    tell_end(session, was_open, code);
}

static blink_result_t heard_when_open(net_session_t *session, const Blinkpeer__Message *message)
{
    switch (message->body_case) {
    case BLINKPEER__MESSAGE__BODY_PING:
        asked(session);
        return BLINK_OK;
    case BLINKPEER__MESSAGE__BODY_PONG:
        session->silent_ticks = 0;
        return BLINK_OK;
    case BLINKPEER__MESSAGE__BODY_HELLO:
    case BLINKPEER__MESSAGE__BODY_WELCOME:
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a greeting in an open session");
    default:
        return session->net->handler->message(session->net->context, session, message);
    }
}

static blink_result_t heard(net_session_t *session, const Blinkpeer__Message *message)
{
    if (message->body_case == BLINKPEER__MESSAGE__BODY_BYE) {
        heard_bye(session, message->bye);
        return BLINK_OK;
    }
    if (session->state == SESSION_OPEN)
        return heard_when_open(session, message);
    if (session->state == SESSION_GREETING && message->body_case == BLINKPEER__MESSAGE__BODY_HELLO)
        return heard_hello(session, message->hello);
    if (session->state == SESSION_OFFERED && message->body_case == BLINKPEER__MESSAGE__BODY_WELCOME)
        return heard_welcome(session, message->welcome);
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "message %u before the greetings", message->body_case);
}

static void on_frame(void *context, const uint8_t *bytes, size_t byte_count)
{
    net_session_t *session = context;
    const Blinkpeer__Message *message;
    arena_t arena = {0};
    blink_result_t result = message_parse(bytes, byte_count, &arena, &message);
    if (result == BLINK_OK)
        result = heard(session, message);
    if (result != BLINK_OK && session->state < SESSION_LEAVING)
        end(session, result);
    arena_free(&arena);
}

/* ---- the beginning ---- */

static void on_secured(void *context)
{
    net_session_t *session = context;
    session->state = SESSION_GREETING;
    blink_result_t result = session->dials ? BLINK_OK : send_hello(session);
    if (result != BLINK_OK)
        end(session, result);
}

static blink_result_t hand_over(net_t *net, const uint8_t bytes[WIRE_HELLO_BYTES], int fd)
{
    wire_hello_t hello;
    blink_result_t result = wire_hello_parse(bytes, &hello);
    if (result == BLINK_OK && !net->handler->data)
        result = BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "a data connection, of which there are none here");
    if (result == BLINK_OK)
        return net->handler->data(net->context, &hello, fd);
    close(fd);
    return result;
}

/* It is a data connection, and no session. */
static void on_hello(void *context, const uint8_t bytes[WIRE_HELLO_BYTES])
{
    net_session_t *session = context;
    net_t *net = session->net;
    net_address_t address = session->address;
    uint8_t hello[WIRE_HELLO_BYTES];
    memcpy(hello, bytes, sizeof(hello));
    int fd = stream_take_socket(session->stream);
    release(session);
    if (hand_over(net, hello, fd) != BLINK_OK)
        refusals_log(&net->refusals, &address, blink_error_text());
}

static void on_deadline(uv_timer_t *timer)
{
    net_session_t *session = timer->data;
    end(session,
        BLINK_FAIL(BLINK_ERR_TIMEOUT, "no handshake within %g s", (double)session->net->handshake_ms / 1000));
}

static blink_result_t start_session(net_session_t *session, int fd)
{
    static const stream_handler_t handler = {
        .secured = on_secured, .frame = on_frame, .hello = on_hello, .ended = on_ended};
    net_t *net = session->net;
    const stream_config_t config = {.loop = net->loop,
                                    .tls = net->tls,
                                    .fd = fd,
                                    .dials = session->dials,
                                    .steps = &net->steps,
                                    .frame_most_bytes = GREETING_MOST_BYTES,
                                    .handler = &handler,
                                    .context = session,
                                    .closed = on_stream_closed};
    BLINK_TRY(stream_create(&config, &session->stream));
    uv_timer_init(net->loop, &session->timer);
    session->timer.data = session;
    session->handles = 2;
    net->holds += 2;
    uv_timer_start(&session->timer, on_deadline, net->handshake_ms, 0);
    list_append(&net->sessions, &session->link);
    return BLINK_OK;
}

static blink_result_t create_session(net_t *net, int fd, const net_address_t *address, net_dial_t *dial,
                                     net_session_t **created)
{
    net_session_t *session = calloc(1, sizeof(*session));
    if (!session) {
        close(fd);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a session");
    }
    *session = (net_session_t){.net = net, .address = *address, .dials = dial, .dial = dial};
    list_init(&session->of_owing);
    blink_result_t result = start_session(session, fd);
    if (result != BLINK_OK)
        free(session);
    else
        *created = session;
    return result;
}

blink_result_t session_dial(net_t *net, int fd, const net_address_t *address, net_dial_t *dial,
                            net_session_t **session)
{
    return create_session(net, fd, address, dial, session);
}

blink_result_t session_accept(net_t *net, int fd, const net_address_t *address)
{
    net_session_t *session;
    BLINK_TRY(create_session(net, fd, address, NULL, &session));
    session->counted = true;
    net->handshake_count++;
    return BLINK_OK;
}

uint32_t session_count_handshakes(const net_t *net, const net_address_t *address, session_same_t *same)
{
    uint32_t count = 0;
    LIST_FOR_EACH (link, &net->sessions) {
        const net_session_t *session = CONTAINER_OF(link, net_session_t, link);
        count += session->counted && same(&session->address, address);
    }
    return count;
}

void session_drop_oldest_handshake(net_t *net, const net_address_t *address, session_same_t *same)
{
    LIST_FOR_EACH (link, &net->sessions) {
        net_session_t *session = CONTAINER_OF(link, net_session_t, link);
        if (!session->counted || !same(&session->address, address))
            continue;
        session_drop(session);
        return;
    }
}

/* ---- what owners ask ---- */

const hello_t *net_session_peer(const net_session_t *session)
{
    return &session->peer;
}

const net_address_t *net_session_address(const net_session_t *session)
{
    return &session->address;
}

blink_result_t net_session_own_address(const net_session_t *session, net_address_t *address)
{
    return stream_own_address(session->stream, address);
}

uint32_t net_session_version(const net_session_t *session)
{
    return session->version;
}

static_assert(WIRE_TOKEN_BYTES == TLS_SECRET_BYTES, "a token is what TLS derives");

blink_result_t net_session_token(net_session_t *session, uint32_t number, uint8_t token[WIRE_TOKEN_BYTES])
{
    return stream_export(session->stream, number, token);
}

bool net_session_has_token(net_session_t *session, uint32_t number, const wire_hello_t *hello)
{
    uint8_t token[WIRE_TOKEN_BYTES];
    return net_session_token(session, number, token) == BLINK_OK && wire_hello_shows(hello, token);
}

void net_session_set_data(net_session_t *session, void *data)
{
    session->data = data;
}

void *net_session_data(const net_session_t *session)
{
    return session->data;
}
