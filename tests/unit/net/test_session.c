/*
 * Sessions of daemons that mean well: how they meet, what they say, and how they part.
 */
#include "net_fixture.h"

static void send_query(net_session_t *session, uint64_t id)
{
    Blinkpeer__Query query = BLINKPEER__QUERY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    query.id = id;
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY;
    message.query = &query;
    assert_int_equal(net_session_send(session, &message), BLINK_OK);
}

/* ---- meeting ---- */

static void assert_met(const host_t *host, const char *name)
{
    const hello_t *peer = net_session_peer(host->session);
    assert_int_equal(host->opened_count, 1);
    assert_int_equal(net_session_count(host->net), 1);
    assert_int_equal(net_handshake_count(host->net), 0);
    assert_string_equal(peer->host, name);
    assert_string_equal(peer->daemon_version, BLINK_VERSION);
    assert_int_equal(net_session_version(host->session), PEER_VERSION_MAX);
}

static void meet_at(fixture_t *fixture, const char *address)
{
    host_t *a = add_host(fixture, "n1", keys_of(1, 0), 20, address);
    host_t *b = add_host(fixture, "n2", keys_of(1, 0), 20, address);
    meet(fixture, a, b);
    RUN_UNTIL(fixture, a->connected_count == 1);
    assert_ptr_equal(a->connected, a->session);
    assert_met(a, "n2");
    assert_met(b, "n1");
}

static void test_two_daemons_meet_over_ipv4(void **state)
{
    meet_at(*state, "127.0.0.1");
}

static void test_two_daemons_meet_over_ipv6(void **state)
{
    meet_at(*state, "::1");
}

static void test_listening_everywhere_takes_ipv4_as_ipv4(void **state)
{
    fixture_t *fixture = *state;
    char text[ADDRESS_TEXT_BYTES];
    host_t *a = add_plain_host(fixture, "n1");
    host_t *b = add_host(fixture, "n2", keys_of(1, 0), 20, "*");
    net_address_t address;
    assert_int_equal(address_parse("127.0.0.1", ntohs(b->address.v6.sin6_port), &address), BLINK_OK);
    dial(a, &address);
    RUN_UNTIL(fixture, a->session && b->session);
    address_write_host(net_session_address(b->session), text);
    assert_string_equal(text, "127.0.0.1");
}

static void test_nics_are_told(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    char text[ADDRESS_TEXT_BYTES];
    hello_t *told = &a->net->hello;
    strcpy(told->nics[0].name, "eth0");
    strcpy(told->nics[1].name, "ib0");
    assert_int_equal(address_parse("192.0.2.7", 1, &told->nics[0].address), BLINK_OK);
    assert_int_equal(address_parse("2001:db8::7", 1, &told->nics[1].address), BLINK_OK);
    told->nic_count = 2;
    meet(fixture, a, b);
    const hello_t *peer = net_session_peer(b->session);
    assert_int_equal(peer->nic_count, 2);
    assert_string_equal(peer->nics[0].name, "eth0");
    address_write_host(&peer->nics[1].address, text);
    assert_string_equal(text, "2001:db8::7");
}

static void test_queries_are_answered(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    meet(fixture, a, b);
    send_query(a->session, 1);
    RUN_UNTIL(fixture, a->reply_count == 1);
    assert_string_equal(a->heard, "two GPUs");
    send_query(b->session, 1);
    RUN_UNTIL(fixture, b->reply_count == 1);
}

static void test_long_messages_arrive_whole(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    char *text = calloc(1, 1000001);
    memset(text, 'x', 1000000);
    meet(fixture, a, b);
    for (int i = 0; i < 8; i++)
        send_reply(a->session, 1, text);
    RUN_UNTIL(fixture, b->reply_count == 8);
    assert_int_equal(b->heard[0], 'x');
    free(text);
}

static void test_message_that_is_too_long_is_refused_to_its_sender(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    Blinkpeer__QueryReply reply = BLINKPEER__QUERY_REPLY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    reply.reply = (ProtobufCBinaryData){MESSAGE_MOST_BYTES, calloc(1, MESSAGE_MOST_BYTES)};
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY_REPLY;
    message.query_reply = &reply;
    meet(fixture, a, b);
    assert_int_equal(net_session_send(a->session, &message), BLINK_ERR_INVALID_ARGUMENT);
    free(reply.reply.data);
    send_query(a->session, 1);
    RUN_UNTIL(fixture, a->reply_count == 1);
}

/* ---- versions ---- */

static void set_versions(host_t *host, uint32_t least, uint32_t most)
{
    host->net->hello.version_min = least;
    host->net->hello.version_max = most;
}

static void test_highest_common_version_is_taken(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    set_versions(a, 1, 7);
    set_versions(b, 3, 9);
    meet(fixture, a, b);
    assert_int_equal(net_session_version(a->session), 7);
    assert_int_equal(net_session_version(b->session), 7);
}

static void test_versions_that_do_not_meet_are_named(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    set_versions(b, 6, 9);
    dial(a, &b->address);
    RUN_UNTIL(fixture, a->failed_count == 1);
    assert_int_equal(a->failed_code, BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(a->failed_text, "n1 speaks 1 to 5"));
    assert_non_null(strstr(a->failed_text, "n2 6 to 9"));
    assert_int_equal(a->opened_count + b->opened_count, 0);
}

/* ---- keys ---- */

static void test_wrong_key_opens_nothing(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_host(fixture, "n1", keys_of(1, 0), 20, "127.0.0.1");
    host_t *b = add_host(fixture, "n2", keys_of(2, 0), 20, "127.0.0.1");
    dial(a, &b->address);
    RUN_UNTIL(fixture, a->failed_count == 1);
    assert_int_equal(a->failed_code, BLINK_ERR_PERMISSION);
    assert_int_equal(a->opened_count + b->opened_count, 0);
}

/* The steps of docs/network.md: at each of them everybody meets everybody, whoever is a step ahead. */
static void test_keys_are_changed_without_a_moment_apart(void **state)
{
    static const uint8_t steps[][2] = {{1, 0}, {1, 2}, {2, 1}, {2, 0}};
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    for (int i = 0; i < 6; i++) {
        host_t *from = i % 2 ? b : a, *to = i % 2 ? a : b;
        cluster_keys_t ahead = keys_of(steps[i / 2 + 1][0], steps[i / 2 + 1][1]);
        cluster_keys_t behind = keys_of(steps[i / 2][0], steps[i / 2][1]);
        net_set_keys(from->net, &ahead);
        net_set_keys(to->net, &behind);
        meet(fixture, from, to);
        net_session_close(from->session, BLINK_OK);
        from->session = NULL;
        RUN_UNTIL(fixture, !to->session);
    }
}

static void test_open_session_survives_a_change_of_keys(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    cluster_keys_t other = keys_of(9, 0);
    meet(fixture, a, b);
    net_set_keys(a->net, &other);
    send_query(a->session, 1);
    RUN_UNTIL(fixture, a->reply_count == 1);
}

/* ---- who is who ---- */

static void test_own_address_is_refused(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    dial(a, &a->address);
    RUN_UNTIL(fixture, a->failed_count == 1);
    assert_int_equal(a->failed_code, BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(a->failed_text, "'n1' itself"));
    assert_int_equal(a->opened_count, 0);
}

static void test_two_of_one_name_do_not_meet(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n1");
    dial(a, &b->address);
    RUN_UNTIL(fixture, a->failed_count == 1);
    assert_non_null(strstr(a->failed_text, "two daemons are named 'n1'"));
    assert_int_equal(a->opened_count + b->opened_count, 0);
}

static void test_second_of_a_name_is_refused_and_harms_nobody(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    host_t *second = add_plain_host(fixture, "n2");
    meet(fixture, a, b);
    dial(second, &a->address);
    RUN_UNTIL(fixture, second->failed_count == 1);
    assert_int_equal(second->failed_code, BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(second->failed_text, "two daemons are named 'n2'"));
    send_query(a->session, 1);
    RUN_UNTIL(fixture, a->reply_count == 1);
    assert_int_equal(a->closed_count, 0);
}

/* ---- one session only ---- */

static void test_both_that_dial_at_once_have_one_session(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    for (uint32_t i = 1; i <= 50; i++) {
        dial(a, &b->address);
        run_turns(fixture, i % 12);
        dial(b, &a->address);
        RUN_UNTIL(fixture, a->connected_count == i && b->connected_count == i);
        RUN_UNTIL(fixture, net_handshake_count(a->net) + net_handshake_count(b->net) == 0);
        assert_int_equal(net_session_count(a->net), 1);
        assert_int_equal(net_session_count(b->net), 1);
        assert_int_equal(a->opened_count, i);
        assert_int_equal(b->opened_count, i);
        net_session_close(a->session, BLINK_OK);
        a->session = NULL;
        RUN_UNTIL(fixture, !b->session);
    }
}

static void test_dialling_a_known_daemon_finds_the_session(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    meet(fixture, a, b);
    dial(a, &b->address);
    RUN_UNTIL(fixture, a->connected_count == 2);
    assert_ptr_equal(a->connected, a->session);
    dial(b, &a->address);
    RUN_UNTIL(fixture, b->connected_count == 1);
    assert_ptr_equal(b->connected, b->session);
    assert_int_equal(a->opened_count + b->opened_count, 2);
    assert_int_equal(a->closed_count + b->closed_count, 0);
}

static void test_two_dials_of_one_daemon_share_a_session(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    dial(a, &b->address);
    dial(a, &b->address);
    RUN_UNTIL(fixture, a->connected_count == 2);
    assert_int_equal(a->opened_count, 1);
    assert_int_equal(b->opened_count, 1);
}

/* One daemon of the random test below, and what it has done. */
typedef struct actor {
    host_t *host;
    uint32_t dial_count, close_count;
} actor_t;

static void act(actor_t *actor, const actor_t *other, uint32_t what)
{
    host_t *host = actor->host;
    if (what < 2 && actor->dial_count - host->connected_count < 3) {
        dial(host, &other->host->address);
        actor->dial_count++;
    } else if (what == 2 && host->session) {
        net_session_close(host->session, BLINK_OK);
        host->session = NULL;
        actor->close_count++;
    }
}

static void assert_at_most_one_session(const actor_t *actor)
{
    const host_t *host = actor->host;
    uint32_t open_count = host->opened_count - host->closed_count - actor->close_count;
    assert_true(open_count <= 1);
    assert_int_equal(net_session_count(host->net), open_count);
    assert_int_equal(host->session != NULL, open_count);
}

static void test_random_dials_and_ends_never_make_two_sessions(void **state)
{
    fixture_t *fixture = *state;
    actor_t actors[2] = {{.host = add_plain_host(fixture, "n1")}, {.host = add_plain_host(fixture, "n2")}};
    uint64_t random = 1;
    for (uint32_t i = 0; i < 3000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        act(&actors[random >> 40 & 1], &actors[~random >> 40 & 1], (uint32_t)(random >> 41 & 3));
        run_turns(fixture, random >> 50 & 3);
        assert_at_most_one_session(&actors[0]);
        assert_at_most_one_session(&actors[1]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const host_t *host = actors[i].host;
        RUN_UNTIL(fixture, host->connected_count == actors[i].dial_count);
    }
    RUN_UNTIL(fixture,
              net_handshake_count(actors[0].host->net) + net_handshake_count(actors[1].host->net) == 0);
    RUN_UNTIL(fixture, net_session_count(actors[0].host->net) == net_session_count(actors[1].host->net));
}

static bool have_all_met(const fixture_t *fixture)
{
    bool met = true;
    for (uint32_t i = 0; i < FIXTURE_HOSTS_MAX; i++)
        met = met && fixture->hosts[i].connected_count == FIXTURE_HOSTS_MAX - 1;
    return met;
}

static void test_sixteen_that_all_dial_each_other_have_one_session_each(void **state)
{
    fixture_t *fixture = *state;
    char name[16];
    for (uint32_t i = 0; i < FIXTURE_HOSTS_MAX; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        add_plain_host(fixture, name);
    }
    for (uint32_t i = 0; i < FIXTURE_HOSTS_MAX * FIXTURE_HOSTS_MAX; i++) {
        uint32_t mixed = i * 53 % (FIXTURE_HOSTS_MAX * FIXTURE_HOSTS_MAX);
        uint32_t from = mixed / FIXTURE_HOSTS_MAX, to = mixed % FIXTURE_HOSTS_MAX;
        if (from != to)
            dial(&fixture->hosts[from], &fixture->hosts[to].address);
        run_turns(fixture, i % 3);
    }
    RUN_UNTIL(fixture, have_all_met(fixture));
    for (uint32_t i = 0; i < FIXTURE_HOSTS_MAX; i++) {
        assert_int_equal(net_session_count(fixture->hosts[i].net), FIXTURE_HOSTS_MAX - 1);
        assert_int_equal(fixture->hosts[i].opened_count, FIXTURE_HOSTS_MAX - 1);
        assert_int_equal(fixture->hosts[i].closed_count, 0);
    }
}

/* ---- dialling ---- */

static void test_dial_goes_on_until_somebody_listens(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *gone = add_plain_host(fixture, "n2");
    net_address_t address = gone->address;
    net_destroy(gone->net);
    fixture->host_count--;
    run_turns(fixture, 3);
    dial(a, &address);
    RUN_UNTIL(fixture, a->failed_count == 2);
    assert_int_equal(a->failed_code, BLINK_ERR_CONNECT);
    assert_non_null(strstr(a->failed_text, "Connection refused"));
    host_t *b = add_plain_host(fixture, "n2");
    assert_int_equal(net_listen(b->net, &address), BLINK_OK);
    RUN_UNTIL(fixture, a->connected_count == 1);
}

static void test_other_addresses_are_tried(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    net_address_t addresses[3] = {b->address, b->address, b->address};
    addresses[0].v4.sin_port = htons(1); /* nobody listens there */
    addresses[1].v4.sin_addr.s_addr = htonl(0xffffffff);
    const net_dial_config_t config = {.address_count = 3,
                                      .addresses = addresses,
                                      .connected = on_connected,
                                      .failed = on_failed,
                                      .context = a};
    assert_int_equal(net_dial(a->net, &config, &a->dial), BLINK_OK);
    RUN_UNTIL(fixture, a->connected_count == 1);
    assert_int_equal(a->failed_count, 0);
}

static void test_cancelled_dial_is_never_heard_of(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    for (uint32_t turns = 0; turns < 12; turns++) {
        dial(a, &b->address);
        run_turns(fixture, turns);
        if (a->connected_count > 0)
            break;
        net_dial_cancel(a->dial);
    }
    RUN_UNTIL(fixture, net_handshake_count(b->net) == 0);
    assert_int_equal(a->opened_count, a->connected_count);
}

static void test_dial_outlives_an_owner_that_ends_its_session_at_once(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    a->leaves_at_once = true;
    dial(a, &b->address);
    RUN_UNTIL(fixture, a->failed_count == 2);
    assert_int_equal(a->connected_count, 0);
    a->leaves_at_once = false;
    RUN_UNTIL(fixture, a->connected_count == 1);
}

/* ---- parting ---- */

static void test_orderly_end_is_told_as_one(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    meet(fixture, a, b);
    net_session_close(a->session, BLINK_OK);
    RUN_UNTIL(fixture, b->closed_count == 1);
    assert_int_equal(b->closed_code, BLINK_OK);
    assert_int_equal(a->closed_count, 0);
    assert_int_equal(net_session_count(a->net) + net_session_count(b->net), 0);
}

static void test_reason_of_the_end_is_told(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    meet(fixture, a, b);
    send_query(a->session, 0); /* b finds that wrong */
    RUN_UNTIL(fixture, a->closed_count == 1 && b->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_PROTOCOL);
    assert_int_equal(b->closed_code, BLINK_ERR_PROTOCOL);
    assert_string_equal(a->closed_text, "it ended the session, saying 'a query without a number'");
    assert_string_equal(b->closed_text, "a query without a number");
}

/* The first reason counts, and both sides hear it. */
static void test_session_that_cannot_say_something_ends_later(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    meet(fixture, a, b);
    net_session_fail(a->session, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for READY"));
    net_session_fail(a->session, BLINK_FAIL(BLINK_ERR_INTERNAL, "another reason"));
    assert_int_equal(a->closed_count, 0); /* not from within the call */
    RUN_UNTIL(fixture, a->closed_count == 1 && b->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_ERR_NO_MEMORY);
    assert_int_equal(b->closed_code, BLINK_ERR_NO_MEMORY);
    assert_non_null(strstr(a->closed_text, "no memory for READY"));
    assert_non_null(strstr(b->closed_text, "no memory for READY"));
}

static void test_daemon_that_stops_says_bye(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
    meet(fixture, a, b);
    net_destroy(b->net);
    fixture->host_count--;
    RUN_UNTIL(fixture, a->closed_count == 1);
    assert_int_equal(a->closed_code, BLINK_OK);
    assert_int_equal(b->closed_count, 0);
}

static void test_destroyed_amid_everything_leaves_nothing(void **state)
{
    fixture_t *fixture = *state;
    for (uint32_t turns = 0; turns < 16; turns++) {
        host_t *a = add_plain_host(fixture, "n1"), *b = add_plain_host(fixture, "n2");
        dial(a, &b->address);
        dial(b, &a->address);
        dial(a, &a->address);
        run_turns(fixture, turns);
        net_destroy(a->net);
        run_turns(fixture, turns);
        net_destroy(b->net);
        fixture->host_count = 0;
        memset(fixture->hosts, 0, sizeof(fixture->hosts));
        run_turns(fixture, 4);
    }
}

/* ---- where to listen ---- */

static void test_bad_places_to_listen_are_named(void **state)
{
    fixture_t *fixture = *state;
    host_t *a = add_plain_host(fixture, "n1");
    net_address_t address = a->address;
    assert_int_equal(net_listen(a->net, &address), BLINK_ERR_EXISTS);
    assert_non_null(strstr(blink_error_text(), "127.0.0.1:"));
    assert_int_equal(address_parse("192.0.2.1", 24655, &address), BLINK_OK);
    assert_int_equal(net_listen(a->net, &address), BLINK_ERR_NOT_FOUND);
    assert_non_null(strstr(blink_error_text(), "192.0.2.1:24655"));
}

static void test_bad_names_and_time_outs_are_refused(void **state)
{
    fixture_t *fixture = *state;
    cluster_keys_t keys = keys_of(1, 0);
    net_config_t config = {
        .loop = &fixture->loop, .cluster = "c", .host = "n 1", .keys = &keys, .timeout_s = 5};
    net_t *net;
    assert_int_equal(net_create(&config, &net), BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(blink_error_text(), "'n 1'"));
    config.host = "n1";
    config.cluster = "";
    assert_int_equal(net_create(&config, &net), BLINK_ERR_INVALID_ARGUMENT);
    config.cluster = "c";
    config.timeout_s = 0.4;
    assert_int_equal(net_create(&config, &net), BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(blink_error_text(), "timeout_s of 0.4:"));
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_create, fixture_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SESSION_TEST(test_two_daemons_meet_over_ipv4),
        SESSION_TEST(test_two_daemons_meet_over_ipv6),
        SESSION_TEST(test_listening_everywhere_takes_ipv4_as_ipv4),
        SESSION_TEST(test_nics_are_told),
        SESSION_TEST(test_queries_are_answered),
        SESSION_TEST(test_long_messages_arrive_whole),
        SESSION_TEST(test_message_that_is_too_long_is_refused_to_its_sender),
        SESSION_TEST(test_highest_common_version_is_taken),
        SESSION_TEST(test_versions_that_do_not_meet_are_named),
        SESSION_TEST(test_wrong_key_opens_nothing),
        SESSION_TEST(test_keys_are_changed_without_a_moment_apart),
        SESSION_TEST(test_open_session_survives_a_change_of_keys),
        SESSION_TEST(test_own_address_is_refused),
        SESSION_TEST(test_two_of_one_name_do_not_meet),
        SESSION_TEST(test_second_of_a_name_is_refused_and_harms_nobody),
        SESSION_TEST(test_both_that_dial_at_once_have_one_session),
        SESSION_TEST(test_dialling_a_known_daemon_finds_the_session),
        SESSION_TEST(test_two_dials_of_one_daemon_share_a_session),
        SESSION_TEST(test_random_dials_and_ends_never_make_two_sessions),
        SESSION_TEST(test_sixteen_that_all_dial_each_other_have_one_session_each),
        SESSION_TEST(test_dial_goes_on_until_somebody_listens),
        SESSION_TEST(test_other_addresses_are_tried),
        SESSION_TEST(test_cancelled_dial_is_never_heard_of),
        SESSION_TEST(test_dial_outlives_an_owner_that_ends_its_session_at_once),
        SESSION_TEST(test_orderly_end_is_told_as_one),
        SESSION_TEST(test_reason_of_the_end_is_told),
        SESSION_TEST(test_session_that_cannot_say_something_ends_later),
        SESSION_TEST(test_daemon_that_stops_says_bye),
        SESSION_TEST(test_destroyed_amid_everything_leaves_nothing),
        SESSION_TEST(test_bad_places_to_listen_are_named),
        SESSION_TEST(test_bad_names_and_time_outs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
