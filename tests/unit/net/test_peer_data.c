/*
 * How data connections come about beside a session: who offers, who dials, which tokens open them, and what
 * becomes of them when the session ends. Real sockets of the loopback, one loop for the control threads of
 * all daemons, and each daemon's proxy.
 */
#include "net_fixture.h"

#include "control/peers/data.h"

#include <stdatomic.h>

/* A daemon's data plane, and what was told. */
typedef struct data_host {
    fixture_t *fixture;
    host_t *host;
    data_t *data;
    peer_data_t *peer;
    mailbox_t mailbox;
    uv_async_t wake;
    _Atomic uint32_t frame_count, broken_count, lost_count;
    uint32_t end_count; /* sessions that were to be ended */
    blink_result_t data_code;
    char end_text[BLINK_ERROR_TEXT_BYTES];
} data_host_t;

static data_host_t daemons[2];

/* ---- what a daemon hears ---- */

static void on_wanted(void *context, data_endpoint_t *endpoint)
{
    (void)context;
    peer_data_wanted(endpoint);
}

static void on_broken(void *context, data_endpoint_t *endpoint)
{
    data_host_t *own = context;
    atomic_fetch_add(&own->broken_count, 1);
    peer_data_broken(endpoint);
}

static blink_result_t on_engine_frame(void *context, data_endpoint_t *endpoint, const wire_frame_t *frame,
                                      const uint8_t *payload)
{
    data_host_t *own = context;
    (void)endpoint;
    if (frame->bytes != 5 || memcmp(payload, "hello", 5) != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "no greeting");
    atomic_fetch_add(&own->frame_count, 1);
    uv_async_send(&own->wake);
    return BLINK_OK;
}

static void on_data_lost(void *context, data_endpoint_t *endpoint, blink_result_t code)
{
    data_host_t *own = context;
    atomic_fetch_add(&own->lost_count, 1);
    peer_data_lost(endpoint, code);
}

/* The session ends at either side, and with it what is left of its data connections. */
static void end_peer(data_host_t *own, blink_result_t code)
{
    peer_data_t *peer = own->peer;
    own->peer = NULL;
    if (peer)
        peer_data_end(peer, code);
}

static void on_peer_lost(void *context, blink_result_t code)
{
    data_host_t *own = context;
    own->end_count++;
    snprintf(own->end_text, sizeof(own->end_text), "%s", blink_error_text());
    net_session_close(own->host->session, code);
    own->host->session = NULL;
    end_peer(own, code);
}

static void on_session_lost(host_t *host, blink_result_t code)
{
    end_peer(host->with_data, code == BLINK_OK ? BLINK_ERR_PEER_LOST : code);
}

static blink_result_t hear(host_t *host, const Blinkpeer__DataOffer *offer)
{
    return peer_data_heard(host->with_data->peer, offer);
}

static blink_result_t take(host_t *host, const wire_hello_t *hello, int fd)
{
    data_host_t *own = host->with_data;
    own->data_code = peer_data_accept(own->peer, hello, fd);
    return own->data_code;
}

/* ---- daemons ---- */

static void wake(void *context)
{
    data_host_t *own = context;
    uv_async_send(&own->wake);
}

static void on_wake(uv_async_t *async)
{
    data_host_t *own = async->data;
    mailbox_run(&own->mailbox);
}

static data_host_t *add_daemon(fixture_t *fixture, uint32_t number)
{
    data_host_t *own = &daemons[number];
    *own = (data_host_t){.fixture = fixture};
    own->host = add_plain_host(fixture, number == 0 ? "n1" : "n2");
    own->host->with_data = own;
    mailbox_init(&own->mailbox, wake, own);
    assert_int_equal(uv_async_init(&fixture->loop, &own->wake, on_wake), 0);
    own->wake.data = own;
    const data_config_t config = {.timeout_s = 60,
                                  .handler = {.wanted = on_wanted,
                                              .broken = on_broken,
                                              .frame = on_engine_frame,
                                              .lost = on_data_lost,
                                              .context = own}};
    assert_int_equal(data_create(&config, &own->data), BLINK_OK);
    return own;
}

static void begin(data_host_t *own)
{
    const peer_data_config_t config = {.data = own->data,
                                       .net = own->host->net,
                                       .session = own->host->session,
                                       .control = &own->mailbox,
                                       .port = address_port(&own->host->address),
                                       .lost = on_peer_lost,
                                       .context = own};
    assert_int_equal(peer_data_begin(&config, &own->peer), BLINK_OK);
}

static uint32_t nic_count; /* that each daemon names, at addresses of the loopback */

static void name_nics(hello_t *hello)
{
    for (uint32_t i = 0; i < nic_count; i++) {
        net_interface_t *nic = &hello->nics[hello->nic_count++];
        *nic = (net_interface_t){.name = "lo", .place = 1 + i};
        nic->address.v4.sin_family = AF_INET;
        nic->address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
    }
}

/* Two daemons with a session of this version; the first is the one that will dial. */
static void meet_by_version(fixture_t *fixture, uint32_t version)
{
    take_data = take;
    hear_data_offer = hear;
    lose_session = on_session_lost;
    for (uint32_t i = 0; i < 2; i++) {
        hello_t *hello = &add_daemon(fixture, i)->host->net->hello;
        hello->version_max = version;
        name_nics(hello);
    }
    if (net_hello(daemons[0].host->net)->instance > net_hello(daemons[1].host->net)->instance) {
        data_host_t *lower = &daemons[1], *higher = &daemons[0];
        uint64_t instance = lower->host->net->hello.instance;
        lower->host->net->hello.instance = higher->host->net->hello.instance;
        higher->host->net->hello.instance = instance;
    }
    meet(fixture, daemons[1].host, daemons[0].host);
    for (uint32_t i = 0; i < 2; i++)
        begin(&daemons[i]);
}

static void meet_for_data(fixture_t *fixture)
{
    meet_by_version(fixture, PEER_VERSION_MAX);
}

static void end_daemon(data_host_t *own)
{
    end_peer(own, BLINK_OK);
    mailbox_run(&own->mailbox);
    data_destroy(own->data);
    uv_close((uv_handle_t *)&own->wake, NULL);
}

static int data_fixture_destroy(void **state)
{
    for (uint32_t i = 0; i < 2; i++)
        end_daemon(&daemons[i]);
    return fixture_destroy(state);
}

static void greet(const data_host_t *own)
{
    assert_int_equal(data_send(peer_data_endpoint(own->peer), WIRE_BEGIN, "hello", 5), BLINK_OK);
}

static bool is_connected(const data_host_t *own)
{
    return data_endpoint_by(peer_data_endpoint(own->peer)) != DATA_BY_NONE;
}

/* A frame may come before all connections are there, and what fails then is not made anew. Of the last one
 * nobody tells this thread. */
static void await_connected(fixture_t *fixture)
{
    for (unsigned ms = 0; !is_connected(&daemons[0]) || !is_connected(&daemons[1]); ms++) {
        assert_true(ms < limit_ms());
        run_for_ms(fixture, 1);
    }
}

/* ---- tests ---- */

static void test_frames_come_once_connections_are_made(void **state)
{
    fixture_t *fixture = *state;
    meet_for_data(fixture);
    greet(&daemons[0]);
    RUN_UNTIL(fixture, daemons[1].frame_count == 1);
    greet(&daemons[1]);
    RUN_UNTIL(fixture, daemons[0].frame_count == 1);
    assert_int_equal(daemons[0].lost_count + daemons[1].lost_count, 0);
}

/* The one that listens asks by its offer to be dialled. */
static void test_either_daemon_may_begin(void **state)
{
    fixture_t *fixture = *state;
    meet_for_data(fixture);
    greet(&daemons[1]);
    greet(&daemons[1]);
    RUN_UNTIL(fixture, daemons[0].frame_count == 2);
}

static void test_both_daemons_may_begin_at_once(void **state)
{
    fixture_t *fixture = *state;
    meet_for_data(fixture);
    greet(&daemons[0]);
    greet(&daemons[1]);
    RUN_UNTIL(fixture, daemons[0].frame_count == 1 && daemons[1].frame_count == 1);
}

static void dial_data(const data_host_t *to, wire_hello_t hello, int *fd)
{
    uint8_t packed[WIRE_HELLO_BYTES];
    wire_hello_pack(&hello, packed);
    *fd = connect_from(to->host, 0);
    assert_int_equal(send(*fd, packed, sizeof(packed), MSG_NOSIGNAL), sizeof(packed));
}

static wire_hello_t hello_for(const data_host_t *from, uint32_t stream)
{
    wire_hello_t hello = {.instance = net_hello(from->host->net)->instance, .stream = stream};
    assert_int_equal(net_session_token(from->host->session, (uint8_t)stream, hello.token), BLINK_OK);
    return hello;
}

/* The daemon closes the connection, and says so. */
static void assert_refused(fixture_t *fixture, data_host_t *by, wire_hello_t hello, blink_result_t code)
{
    int fd;
    char byte;
    by->data_code = BLINK_OK;
    dial_data(by, hello, &fd);
    RUN_UNTIL(fixture, by->data_code != BLINK_OK);
    assert_int_equal(by->data_code, code);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

static void test_tokens_are_the_sessions_and_good_once(void **state)
{
    fixture_t *fixture = *state;
    meet_for_data(fixture);
    wire_hello_t hello = hello_for(&daemons[0], 1), other = hello_for(&daemons[0], 2), forged = hello;
    assert_memory_not_equal(hello.token, other.token, sizeof(hello.token));
    forged.token[31] ^= 1;
    assert_refused(fixture, &daemons[1], forged, BLINK_ERR_PERMISSION);
    other.stream = 1;
    assert_refused(fixture, &daemons[1], other, BLINK_ERR_PERMISSION);
    forged = hello;
    forged.stream = 1 + DATA_MOVE_STREAMS_LEAST;
    assert_refused(fixture, &daemons[1], forged, BLINK_ERR_PROTOCOL);
    greet(&daemons[0]);
    RUN_UNTIL(fixture, daemons[1].frame_count == 1);
    assert_refused(fixture, &daemons[1], hello, BLINK_ERR_EXISTS);
    /* Who dials is not dialled. */
    assert_refused(fixture, &daemons[0], hello_for(&daemons[1], 1), BLINK_ERR_PROTOCOL);
    greet(&daemons[0]);
    RUN_UNTIL(fixture, daemons[1].frame_count == 2);
}

static void test_the_end_of_the_session_loses_the_connections(void **state)
{
    fixture_t *fixture = *state;
    meet_for_data(fixture);
    greet(&daemons[0]);
    RUN_UNTIL(fixture, daemons[1].frame_count == 1);
    await_connected(fixture);
    BLINK_FAIL(BLINK_ERR_PEER_LOST, "no sign of life");
    net_session_close(daemons[0].host->session, BLINK_ERR_PEER_LOST);
    end_peer(&daemons[0], BLINK_ERR_PEER_LOST);
    assert_int_equal(daemons[0].lost_count, 1);
    RUN_UNTIL(fixture, daemons[1].lost_count == 1);
    assert_non_null(strstr(daemons[1].host->closed_text, "no sign of life"));
    assert_int_equal(daemons[0].end_count + daemons[1].end_count, 0);
}

static void test_a_peer_that_lies_is_named(void **state)
{
    fixture_t *fixture = *state;
    meet_for_data(fixture);
    assert_int_equal(data_send(peer_data_endpoint(daemons[0].peer), WIRE_BEGIN, "nonsense", 8), BLINK_OK);
    RUN_UNTIL(fixture, daemons[1].end_count == 1);
    assert_string_equal(daemons[1].end_text, "no greeting");
    RUN_UNTIL(fixture, daemons[0].lost_count == 1);
}

/* ---- connections that fail ---- */

static int highest_socket(void)
{
    int fd = dup(0);
    close(fd);
    return fd - 1;
}

/* Two daemons that have greeted each other. Returns the first of their data connections' descriptors:
 * whatever socket was made before is none. */
static int greet_both(fixture_t *fixture, uint32_t version)
{
    meet_by_version(fixture, version);
    int first = highest_socket() + 1;
    greet(&daemons[0]);
    greet(&daemons[1]);
    RUN_UNTIL(fixture, daemons[0].frame_count == 1 && daemons[1].frame_count == 1);
    await_connected(fixture);
    return first;
}

/* Of the connections that are there at most so many fail. */
static void cut(int first, uint32_t most)
{
    for (int fd = first; most > 0 && fd < first + 64; fd++)
        most -= shutdown(fd, SHUT_RDWR) == 0;
}

static void greet_again(fixture_t *fixture, uint32_t number)
{
    greet(&daemons[0]);
    greet(&daemons[1]);
    RUN_UNTIL(fixture, daemons[0].frame_count == number && daemons[1].frame_count == number);
    assert_int_equal(daemons[0].lost_count + daemons[1].lost_count, 0);
}

static void test_connections_that_fail_are_made_anew(void **state)
{
    fixture_t *fixture = *state;
    int first = greet_both(fixture, PEER_VERSION_MAX);
    for (uint32_t times = 1; times <= 5; times++) {
        uint32_t before = daemons[0].broken_count + daemons[1].broken_count;
        cut(first, times == 1 ? 1 : 6);
        RUN_UNTIL(fixture, daemons[0].broken_count + daemons[1].broken_count > before);
        greet_again(fixture, 1 + times);
    }
}

static void test_what_is_said_meanwhile_comes_once(void **state)
{
    enum { FRAMES = 3000 };
    fixture_t *fixture = *state;
    int first = greet_both(fixture, PEER_VERSION_MAX);
    for (uint32_t i = 0; i < FRAMES; i++) {
        greet(&daemons[0]);
        greet(&daemons[1]);
        if (i % 1000 == 500)
            cut(first, 6);
        if (i % 100 == 0)
            run_turns(fixture, 1);
    }
    RUN_UNTIL(fixture, daemons[0].frame_count > FRAMES && daemons[1].frame_count > FRAMES);
    greet_again(fixture, FRAMES + 2);
}

static void test_tokens_are_good_for_one_round(void **state)
{
    fixture_t *fixture = *state;
    int first = greet_both(fixture, PEER_VERSION_MAX);
    wire_hello_t hello = hello_for(&daemons[0], 1);
    cut(first, 6);
    RUN_UNTIL(fixture, daemons[0].broken_count > 0 && daemons[1].broken_count > 0);
    greet_again(fixture, 2);
    assert_refused(fixture, &daemons[1], hello, BLINK_ERR_PERMISSION);
    greet_again(fixture, 3);
}

/* Two daemons with so many NICs have so many connections for moves. */
static void check_nics(fixture_t *fixture, uint32_t version, uint32_t nics, uint32_t move_streams)
{
    data_ends_t ends[DATA_MOVE_STREAMS_MOST];
    nic_count = nics;
    int first = greet_both(fixture, version);
    nic_count = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const peer_data_t *peer = daemons[i].peer;
        assert_int_equal(data_endpoint_move_streams(peer_data_endpoint(peer)), move_streams);
        assert_int_equal(peer_data_find_ends(peer, ends), nics > 1 ? move_streams : 1);
    }
    uint32_t before = daemons[0].broken_count + daemons[1].broken_count;
    cut(first, 2);
    RUN_UNTIL(fixture, daemons[0].broken_count + daemons[1].broken_count > before);
    greet_again(fixture, 2);
}

static void test_each_pair_of_nics_has_a_connection(void **state)
{
    check_nics(*state, PEER_VERSION_MAX, 3, 3);
}

static void test_pairs_of_nics_beyond_the_most_have_none(void **state)
{
    check_nics(*state, PEER_VERSION_MAX, DATA_MOVE_STREAMS_MOST + 1, DATA_MOVE_STREAMS_MOST);
}

static void test_one_nic_has_as_many_connections_as_ever(void **state)
{
    check_nics(*state, PEER_VERSION_MAX, 1, DATA_MOVE_STREAMS_LEAST);
}

static void test_an_older_daemon_knows_of_two(void **state)
{
    check_nics(*state, PEER_VERSION_NICS - 1, 3, DATA_MOVE_STREAMS_LEAST);
}

/* It would not know what to do then. */
static void test_an_older_daemon_is_lost_with_its_connections(void **state)
{
    fixture_t *fixture = *state;
    int first = greet_both(fixture, PEER_VERSION_RESUMES - 1);
    cut(first, 6);
    RUN_UNTIL(fixture, daemons[0].lost_count == 1 && daemons[1].lost_count == 1);
    assert_int_equal(daemons[0].broken_count + daemons[1].broken_count, 0);
}

static void assert_offer_refused(fixture_t *fixture, uint32_t version, uint32_t round, uint64_t taken_bytes)
{
    Blinkpeer__DataOffer offer = BLINKPEER__DATA_OFFER__INIT;
    (void)greet_both(fixture, version);
    offer.round = round;
    offer.taken_bytes = taken_bytes;
    assert_int_equal(peer_data_heard(daemons[1].peer, &offer), BLINK_ERR_PROTOCOL);
}

static void test_an_older_daemon_knows_no_rounds(void **state)
{
    assert_offer_refused(*state, PEER_VERSION_RESUMES - 1, 1, 0);
}

static void test_a_round_that_cannot_come_is_refused(void **state)
{
    assert_offer_refused(*state, PEER_VERSION_MAX, UINT32_MAX, 0);
}

static void test_more_than_was_sent_cannot_have_come(void **state)
{
    assert_offer_refused(*state, PEER_VERSION_MAX, 1, 1000);
    assert_non_null(strstr(blink_error_text(), "it says that 1000 bytes of control have come, and "));
}

/* Nobody listens at the port any more. */
static void test_connections_that_cannot_be_made_are_lost(void **state)
{
    fixture_t *fixture = *state;
    meet_for_data(fixture);
    Blinkpeer__DataOffer offer = BLINKPEER__DATA_OFFER__INIT;
    int closed = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    net_address_t address;
    socklen_t bytes = sizeof(address);
    assert_int_equal(address_parse("127.0.0.1", 1, &address), BLINK_OK);
    address.v4.sin_port = 0;
    /* Bound, and not listening: nobody else gets the port meanwhile. */
    assert_int_equal(bind(closed, &address.any, address_bytes(&address)), 0);
    assert_int_equal(getsockname(closed, &address.any, &bytes), 0);
    offer.port = address_port(&address);
    assert_int_equal(peer_data_heard(daemons[0].peer, &offer), BLINK_OK);
    RUN_UNTIL(fixture, daemons[0].end_count == 1);
    assert_non_null(strstr(daemons[0].end_text, "no data connection: Connection refused"));
    close(closed);
}

#define DATA_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_create, data_fixture_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_frames_come_once_connections_are_made),
        DATA_TEST(test_either_daemon_may_begin),
        DATA_TEST(test_both_daemons_may_begin_at_once),
        DATA_TEST(test_tokens_are_the_sessions_and_good_once),
        DATA_TEST(test_the_end_of_the_session_loses_the_connections),
        DATA_TEST(test_a_peer_that_lies_is_named),
        DATA_TEST(test_connections_that_cannot_be_made_are_lost),
        DATA_TEST(test_connections_that_fail_are_made_anew),
        DATA_TEST(test_what_is_said_meanwhile_comes_once),
        DATA_TEST(test_tokens_are_good_for_one_round),
        DATA_TEST(test_an_older_daemon_is_lost_with_its_connections),
        DATA_TEST(test_each_pair_of_nics_has_a_connection),
        DATA_TEST(test_pairs_of_nics_beyond_the_most_have_none),
        DATA_TEST(test_one_nic_has_as_many_connections_as_ever),
        DATA_TEST(test_an_older_daemon_knows_of_two),
        DATA_TEST(test_an_older_daemon_knows_no_rounds),
        DATA_TEST(test_a_round_that_cannot_come_is_refused),
        DATA_TEST(test_more_than_was_sent_cannot_have_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
