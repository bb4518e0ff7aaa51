/*
 * Sessions with peers that mean ill or are broken: what they are told, what they cost, and that others are
 * not harmed.
 */
#include "net_fixture.h"
#include "unit/harness/short_memory.h"

#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>

/* More than a peer may leave unanswered. */
#define TEST_PINGS 6u

/* How long a handshake may last where a test waits for that to pass. */
#define HASTY_S (limit_s() > 60 ? 4.0 : 2.0)

static host_t *add_hasty_host(fixture_t *fixture)
{
    return add_host(fixture, "n1", keys_of(1, 0), HASTY_S, "127.0.0.1");
}

/* Others are served as ever. */
static void assert_unharmed(fixture_t *fixture, host_t *host)
{
    host_t *other = add_plain_host(fixture, "unharmed");
    uint32_t before = host->opened_count;
    dial(other, &host->address);
    RUN_UNTIL(fixture, other->connected_count == 1 && host->opened_count == before + 1);
}

static void close_by_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

/* Until the daemon has closed the connection, whatever it says before. */
static void await_end(fixture_t *fixture, int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    char bytes[512];
    ssize_t got;
    do {
        run_turns(fixture, 1);
        poll(&readable, 1, 1);
        got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (got > 0 || (got < 0 && errno == EAGAIN));
}

/* ---- strangers ---- */

static void test_garbage_is_refused(void **state)
{
    static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n",
                                          "SSH-2.0-OpenSSH_9.2\r\n",
                                          "\x16\x03\x01\xff\xff\x01",
                                          "\x15\x03\x03\x00\x02\x02\x28",
                                          "BLKD", /* the first bytes of a data connection, and other such */
                                          "BLKD\x02 2345678901234567890123456789012345678901234567890",
                                          "B12345678901234567890123456789012345678901234567890",
                                          "BLKD\x01 2345678901234567890123456789012345678901234567890"};
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        int fd = connect_from(a, 0);
        assert_true(send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL) > 0);
        shutdown(fd, SHUT_WR);
        await_end(fixture, fd);
        close(fd);
    }
    RUN_UNTIL(fixture, net_handshake_count(a->net) == 0);
    assert_unharmed(fixture, a);
}

static void test_scan_of_ten_thousand_connections_stays_bounded(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    uint32_t fd_count = count_fds();
    for (uint32_t i = 0; i < 10000; i++) {
        close_by_reset(connect_from(a, (uint8_t)(2 + i % 7)));
        run_turns(fixture, i % 3);
        assert_true(net_handshake_count(a->net) <= NET_HANDSHAKES_MAX);
        if (i % 500 == 0)
            assert_true(count_fds() <= fd_count + NET_HANDSHAKES_MAX);
    }
    RUN_UNTIL(fixture, net_handshake_count(a->net) == 0);
    assert_unharmed(fixture, a);
}

/* Many that connect and say nothing: no more than may be are taken, and they have their time; who has the key
 * is taken afterwards. */
static void test_half_open_connections_are_few_and_end(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_hasty_host(fixture);
    int fds[90];
    for (int i = 0; i < 90; i++) {
        fds[i] = connect_from(a, (uint8_t)(2 + i % 6));
        run_turns(fixture, 1);
        assert_true(net_handshake_count(a->net) <= NET_HANDSHAKES_MAX);
    }
    assert_int_equal(net_handshake_count(a->net), NET_HANDSHAKES_MAX);
    assert_unharmed(fixture, a);
    for (int i = 0; i < 90; i++)
        await_end(fixture, fds[i]);
    for (int i = 0; i < 90; i++)
        close(fds[i]);
    assert_int_equal(net_handshake_count(a->net), 0);
}

static void test_one_address_takes_few_handshakes(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    int fds[NET_HANDSHAKES_PER_ADDRESS_MAX + 4];
    for (uint32_t i = 0; i < NET_HANDSHAKES_PER_ADDRESS_MAX + 4; i++)
        fds[i] = connect_from(a, 2);
    for (uint32_t i = 0; i < 4; i++)
        await_end(fixture, fds[i]); /* the oldest give way, so that others of the address get through */
    assert_int_equal(net_handshake_count(a->net), NET_HANDSHAKES_PER_ADDRESS_MAX);
    assert_unharmed(fixture, a);
    for (uint32_t i = 0; i < NET_HANDSHAKES_PER_ADDRESS_MAX + 4; i++)
        close(fds[i]);
}

/* The first bytes of a handshake with the key. */
static void begin_handshake(int fd)
{
    cluster_keys_t keys = keys_of(1, 0);
    tls_context_t *context;
    tls_t *tls;
    bool done;
    const void *hello;
    assert_int_equal(tls_context_create("test", &keys, &context), BLINK_OK);
    assert_int_equal(tls_create(context, true, &tls), BLINK_OK);
    assert_int_equal(tls_handshake(tls, &done), BLINK_OK);
    size_t hello_bytes = tls_pending(tls, &hello);
    assert_int_equal(send(fd, hello, hello_bytes, MSG_NOSIGNAL), hello_bytes);
    tls_destroy(tls);
    tls_context_destroy(context);
}

static void test_handshake_that_stops_in_the_middle_ends(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_hasty_host(fixture);
    int fd = connect_from(a, 0);
    begin_handshake(fd);
    RUN_UNTIL(fixture, net_handshake_count(a->net) == 1);
    RUN_UNTIL(fixture, net_handshake_count(a->net) == 0);
    close(fd);
    assert_unharmed(fixture, a);
}

/* A first message of TLS may be 128 KiB long; what comes of it is kept until it is whole. */
static void test_endless_first_message_is_cut_off(void **state)
{
    static const uint8_t record[5 + 1024] = {0x16, 3, 1, 4, 0, 1, 1, 0xf0, 0};
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    uint32_t record_count = 0;
    int fd = connect_from(a, 0);
    RUN_UNTIL(fixture, net_handshake_count(a->net) == 1);
    while (net_handshake_count(a->net) == 1) {
        assert_true(record_count++ < 16);
        send(fd, record, sizeof(record), MSG_NOSIGNAL);
        run_turns(fixture, 2);
    }
    close(fd);
    assert_unharmed(fixture, a);
}

static uint32_t count_answered(const int *fds, uint32_t fd_count)
{
    uint32_t count = 0;
    char byte;
    for (uint32_t i = 0; i < fd_count; i++)
        count += recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    return count;
}

static void test_turn_goes_on_with_few_handshakes(void **state)
{
    enum { PEERS = 40, PER_TURN = 8 };
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    int fds[PEERS];
    for (int i = 0; i < PEERS; i++)
        fds[i] = connect_from(a, (uint8_t)(2 + i % 3));
    RUN_UNTIL(fixture, net_handshake_count(a->net) == PEERS);
    for (int i = 0; i < PEERS; i++)
        begin_handshake(fds[i]);
    for (uint32_t answered = 0; answered < PEERS;) {
        run_turns(fixture, 1);
        uint32_t count = count_answered(fds, PEERS);
        assert_in_range(count, answered,
                        answered + 2 * PER_TURN); /* what one turn makes, the next one sends */
        answered = count;
    }
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
}

/* By what malloc() says; a sanitizer's malloc() says nothing, and finds what is not freed. */
static void test_refused_handshakes_leave_no_memory(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    size_t before = 0;
    for (uint32_t i = 0; i < 400; i++) {
        int fd = connect_from(a, 0);
        if (i % 2)
            assert_true(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) > 0);
        run_turns(fixture, 2);
        close_by_reset(fd);
        RUN_UNTIL(fixture, net_handshake_count(a->net) == 0);
        run_turns(fixture, 2);
        if (i == 100)
            before = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks <= before + (64u << 10));
}

static void test_without_descriptors_it_waits_and_goes_on(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    struct rlimit limit, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int fd = connect_from(a, 0);
    low = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    run_turns(fixture, 20);
    assert_int_equal(net_handshake_count(a->net), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    RUN_UNTIL(fixture, net_handshake_count(a->net) == 1);
    close(fd);
    RUN_UNTIL(fixture, net_handshake_count(a->net) == 0);
}

/* ---- peers that have the key ---- */

static void assert_told(raw_t *raw, blink_result_t code, const char *words)
{
    char text[BLINK_ERROR_TEXT_BYTES] = "";
    assert_int_equal(raw_expect(raw, BLINKPEER__MESSAGE__BODY_BYE, text), code);
    if (!strstr(text, words))
        fail_msg("'%s' does not say '%s'", text, words);
    assert_null(raw_receive(raw));
}

static void test_bad_hellos_are_named(void **state)
{
    static const struct {
        hello_t hello;
        const char *words;
    } bad[] = {
        {{.version_min = 0, .version_max = 1, .daemon_version = "1", .host = "n2", .instance = 1},
         "versions 0"},
        {{.version_min = 2, .version_max = 1, .daemon_version = "1", .host = "n2", .instance = 1}, "2 to 1"},
        {{.version_min = PEER_VERSION_MAX + 1,
          .version_max = PEER_VERSION_MAX + 2,
          .daemon_version = "1",
          .host = "n2",
          .instance = 1},
         "no common"},
        {{.version_min = 1, .version_max = 1, .daemon_version = "1", .host = "n2", .instance = 0},
         "instance 0"},
        {{.version_min = 1, .version_max = 1, .daemon_version = "1", .host = "", .instance = 1}, "host name"},
        {{.version_min = 1, .version_max = 1, .daemon_version = "1", .host = "a\nb", .instance = 1},
         "host name"},
        {{.version_min = 1, .version_max = 1, .daemon_version = "%s ", .host = "n2", .instance = 1},
         "version"},
        {{.version_min = 1,
          .version_max = 1,
          .daemon_version = "1",
          .host = "n2",
          .instance = 1,
          .nic_count = 1},
         "NIC 0"},
    };
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        raw_t *raw = raw_create(fixture, a);
        raw_expect(raw, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
        raw_say_hello(raw, bad[i].hello);
        assert_told(raw, BLINK_ERR_PROTOCOL, bad[i].words);
        raw_destroy(raw);
    }
    assert_int_equal(a->opened_count, 0);
    assert_unharmed(fixture, a);
}

static void test_message_before_the_greetings_ends_the_session(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    Blinkpeer__Ping ping = BLINKPEER__PING__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    message.body_case = BLINKPEER__MESSAGE__BODY_PING;
    message.ping = &ping;
    raw_t *raw = raw_create(fixture, a);
    raw_expect(raw, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
    raw_send(raw, &message);
    assert_told(raw, BLINK_ERR_PROTOCOL, "before the greetings");
    raw_destroy(raw);
}

static void test_second_hello_ends_the_session(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    raw_t *raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    raw_say_hello(raw, raw_hello("raw", 7));
    assert_told(raw, BLINK_ERR_PROTOCOL, "a greeting in an open session");
    assert_int_equal(a->closed_code, BLINK_ERR_PROTOCOL);
    raw_destroy(raw);
}

static void test_frames_that_are_no_messages_end_the_session(void **state)
{
    static const struct {
        const char *bytes, *words;
        uint32_t byte_count;
    } bad[] = {{"", "0 bytes", 0}, {"\xff\xff\xff\xff", "no message", 4}, {"\x7a\x00", "a kind", 2}};
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        raw_t *raw = raw_create(fixture, a);
        raw_open(raw, "raw", 7);
        raw_send_frame(raw, bad[i].bytes, bad[i].byte_count);
        assert_told(raw, BLINK_ERR_PROTOCOL, bad[i].words);
        raw_destroy(raw);
    }
    assert_int_equal(a->closed_count, 3);
    assert_unharmed(fixture, a);
}

static void test_oversize_frame_is_refused_by_its_length(void **state)
{
    static const uint8_t greeting[] = {0x01, 0x20, 0, 0}, message[] = {0x01, 0, 0x10, 0};
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    raw_t *raw = raw_create(fixture, a);
    raw_expect(raw, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
    raw_send_bytes(raw, greeting, sizeof(greeting));
    assert_told(raw, BLINK_ERR_PROTOCOL, "a message of 8193 bytes; at most 8192");
    raw_destroy(raw);
    raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    raw_send_bytes(raw, message, sizeof(message));
    assert_told(raw, BLINK_ERR_PROTOCOL, "a message of 1048577 bytes; at most 1048576");
    assert_int_equal(a->closed_code, BLINK_ERR_PROTOCOL);
    raw_destroy(raw);
}

static void test_truncated_frame_is_named(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    raw_t *raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    raw_send_bytes(raw, "\x0a\x00\x00\x00half", 8);
    shutdown(raw->fd, SHUT_WR);
    RUN_UNTIL(fixture, a->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(a->closed_text, "within a message: 4 bytes of 10 came"));
    raw_destroy(raw);
}

static void test_changed_bytes_end_the_session(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    raw_t *raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    assert_int_equal(send(raw->fd, "\x17\x03\x03\x00\x14 this is not sealed ", 25, MSG_NOSIGNAL), 25);
    RUN_UNTIL(fixture, a->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_PROTOCOL);
    raw_destroy(raw);
    assert_unharmed(fixture, a);
}

static void test_peer_that_vanishes_is_lost(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    raw_t *raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    raw_destroy(raw);
    RUN_UNTIL(fixture, a->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_PEER_LOST);
    assert_non_null(strstr(a->closed_text, "it closed the connection without saying why"));
}

static void test_peer_that_never_reads_is_given_up(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    char *text = calloc(1, 100001);
    uint32_t sent_count = 0;
    Blinkpeer__QueryReply reply = BLINKPEER__QUERY_REPLY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    reply.reply = (ProtobufCBinaryData){100000, (uint8_t *)text};
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY_REPLY;
    message.query_reply = &reply;
    raw_t *raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    while (net_session_send(a->session, &message) == BLINK_OK) {
        sent_count++;
        run_turns(fixture, 1);
    }
    assert_true(sent_count >= STREAM_UNSENT_MOST_BYTES / 100100);
    assert_int_equal(a->closed_count, 0); /* not from within the call */
    RUN_UNTIL(fixture, a->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_QUOTA);
    assert_non_null(strstr(a->closed_text, "does not read"));
    raw_destroy(raw);
    free(text);
    assert_unharmed(fixture, a);
}

/* Whoever sent it counts on it that the peer hears it, or is gone. */
static void test_a_message_for_which_there_is_no_memory_ends_the_session(void **state)
{
    fixture_t *fixture = *state;
    for (uint32_t nth = 1; nth <= 2; nth++) {
        host_t *a = add_plain_host(fixture, nth == 1 ? "n1" : "n2");
        Blinkpeer__Topology topology = BLINKPEER__TOPOLOGY__INIT;
        Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
        message.body_case = BLINKPEER__MESSAGE__BODY_TOPOLOGY;
        message.topology = &topology;
        raw_t *raw = raw_create(fixture, a);
        raw_open(raw, "raw", 7);
        short_memory_begin(pthread_self(), nth);
        assert_int_equal(net_session_send(a->session, &message), BLINK_ERR_NO_MEMORY);
        assert_true(short_memory_end());
        assert_int_equal(a->closed_count, 0); /* not from within the call */
        RUN_UNTIL(fixture, a->closed_count == 1);
        assert_int_equal(a->closed_code, BLINK_ERR_NO_MEMORY);
        raw_destroy(raw);
    }
}

static void test_last_words_are_printable(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    Blinkpeer__Bye bye = BLINKPEER__BYE__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    bye.code = 4711;
    bye.text = "so\nlong\x1b[2J";
    message.body_case = BLINKPEER__MESSAGE__BODY_BYE;
    message.bye = &bye;
    raw_t *raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    raw_send(raw, &message);
    RUN_UNTIL(fixture, a->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(a->closed_text, "so?long?[2J"));
    raw_destroy(raw);
}

static void test_key_without_a_hello_is_not_enough(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_hasty_host(fixture);
    char text[64];
    snprintf(text, sizeof(text), "no handshake within %g s", HASTY_S);
    raw_t *raw = raw_create(fixture, a);
    raw_expect(raw, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
    assert_told(raw, BLINK_ERR_TIMEOUT, text);
    assert_int_equal(a->opened_count, 0);
    raw_destroy(raw);
}

static void test_sessions_have_a_limit(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    a->net->open_count = NET_SESSIONS_MAX;
    raw_t *raw = raw_create(fixture, a);
    raw_expect(raw, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
    raw_say_hello(raw, raw_hello("raw", 7));
    assert_told(raw, BLINK_ERR_QUOTA, "2048 sessions are open");
    a->net->open_count = 0;
    raw_destroy(raw);
    assert_unharmed(fixture, a);
}

/* ---- signs of life ---- */

static void test_peer_without_a_sign_of_life_is_dead(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_host(fixture, "n1", keys_of(1, 0), 0.5, "127.0.0.1");
    host_t *b = add_host(fixture, "n2", keys_of(1, 0), 0.5, "127.0.0.1");
    a->net->handshake_ms = b->net->handshake_ms = limit_ms();
    meet(fixture, a, b);
    RUN_UNTIL(fixture, a->asked_count >= 2 * TEST_PINGS && b->asked_count >= 2 * TEST_PINGS);
    assert_int_equal(a->closed_count + b->closed_count, 0);
    b->mute = true;
    RUN_UNTIL(fixture, a->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_PEER_LOST);
    assert_string_equal(a->closed_text, "it has given no sign of life for 0.5 s");
    RUN_UNTIL(fixture, b->closed_count == 1);
}

/* The daemon itself stood still, or the machine slept: no peer is blamed for it. */
static void test_standing_still_oneself_kills_nobody(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_host(fixture, "n1", keys_of(1, 0), 0.5, "127.0.0.1");
    host_t *b = add_host(fixture, "n2", keys_of(1, 0), 0.5, "127.0.0.1");
    a->net->handshake_ms = b->net->handshake_ms = limit_ms();
    meet(fixture, a, b);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t asked_count = a->asked_count;
        usleep(1500000);
        RUN_UNTIL(fixture, a->asked_count >= asked_count + TEST_PINGS);
    }
    assert_int_equal(a->closed_count + b->closed_count, 0);
}

static void test_many_pings_are_one_question(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    Blinkpeer__Ping ping = BLINKPEER__PING__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    message.body_case = BLINKPEER__MESSAGE__BODY_PING;
    message.ping = &ping;
    a->mute = true;
    raw_t *raw = raw_create(fixture, a);
    raw_open(raw, "raw", 7);
    for (int i = 0; i < 1000; i++)
        raw_send(raw, &message);
    RUN_UNTIL(fixture, a->asked_count == 1);
    net_answer(a->net);
    raw_expect(raw, BLINKPEER__MESSAGE__BODY_PONG, NULL);
    assert_int_equal(a->asked_count, 1);
    raw_send(raw, &message);
    RUN_UNTIL(fixture, a->asked_count == 2);
    raw_destroy(raw);
    RUN_UNTIL(fixture, a->closed_count == 1);
    net_answer(a->net); /* nobody waits for it any more */
}

/* ---- sessions that one side has lost ---- */

/* Instances are random: 1 is lower than the daemon's, and the greatest number is higher. */
static void test_arbiter_that_comes_again_replaces_its_session(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    raw_t *old = raw_create(fixture, a);
    raw_open(old, "raw", 1);
    raw_t *new = raw_create(fixture, a);
    raw_open(new, "raw", 1);
    assert_told(old, BLINK_ERR_PEER_LOST, "opens another one");
    assert_int_equal(a->opened_count, 2);
    assert_int_equal(a->closed_count, 1);
    assert_int_equal(net_session_count(a->net), 1);
    raw_destroy(old);
    raw_destroy(new);
}

static void test_arbiter_keeps_the_session_that_it_has(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    raw_t *old = raw_create(fixture, a);
    raw_open(old, "raw", UINT64_MAX);
    raw_t *new = raw_create(fixture, a);
    raw_expect(new, BLINKPEER__MESSAGE__BODY_HELLO, NULL);
    raw_say_hello(new, raw_hello("raw", UINT64_MAX));
    assert_told(new, BLINK_ERR_EXISTS, "already");
    assert_int_equal(a->opened_count, 1);
    assert_int_equal(a->closed_count, 0);
    raw_destroy(old);
    raw_destroy(new);
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_create, fixture_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SESSION_TEST(test_garbage_is_refused),
        SESSION_TEST(test_scan_of_ten_thousand_connections_stays_bounded),
        SESSION_TEST(test_half_open_connections_are_few_and_end),
        SESSION_TEST(test_one_address_takes_few_handshakes),
        SESSION_TEST(test_handshake_that_stops_in_the_middle_ends),
        SESSION_TEST(test_endless_first_message_is_cut_off),
        SESSION_TEST(test_turn_goes_on_with_few_handshakes),
        SESSION_TEST(test_refused_handshakes_leave_no_memory),
        SESSION_TEST(test_without_descriptors_it_waits_and_goes_on),
        SESSION_TEST(test_bad_hellos_are_named),
        SESSION_TEST(test_message_before_the_greetings_ends_the_session),
        SESSION_TEST(test_second_hello_ends_the_session),
        SESSION_TEST(test_frames_that_are_no_messages_end_the_session),
        SESSION_TEST(test_oversize_frame_is_refused_by_its_length),
        SESSION_TEST(test_truncated_frame_is_named),
        SESSION_TEST(test_changed_bytes_end_the_session),
        SESSION_TEST(test_peer_that_vanishes_is_lost),
        SESSION_TEST(test_peer_that_never_reads_is_given_up),
        SESSION_TEST(test_a_message_for_which_there_is_no_memory_ends_the_session),
        SESSION_TEST(test_last_words_are_printable),
        SESSION_TEST(test_key_without_a_hello_is_not_enough),
        SESSION_TEST(test_sessions_have_a_limit),
        SESSION_TEST(test_peer_without_a_sign_of_life_is_dead),
        SESSION_TEST(test_standing_still_oneself_kills_nobody),
        SESSION_TEST(test_many_pings_are_one_question),
        SESSION_TEST(test_arbiter_that_comes_again_replaces_its_session),
        SESSION_TEST(test_arbiter_keeps_the_session_that_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
