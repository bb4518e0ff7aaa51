/*
 * The transport over RDMA: what goes by it, how connections come about, and what each fault of devices and
 * connections leads to. With RDMA that is in memory.
 */
#include "endpoints.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_S = 60, LONG_BYTES = 40000 };

/* One daemon's side. Its device has the daemon's number. */
typedef struct side {
    data_t *data;
    data_endpoint_t *endpoint;
    _Atomic uint32_t heard, broken, lost;
    blink_result_t code;
    char text[BLINK_ERROR_TEXT_BYTES];
} side_t;

static side_t sides[2];

static void on_wanted(void *context, data_endpoint_t *endpoint)
{
    (void)context;
    (void)endpoint;
}

static bool resumes;

/* Nobody makes other connections. */
static void on_broken(void *context, data_endpoint_t *endpoint)
{
    side_t *side = context;
    (void)endpoint;
    atomic_fetch_add(&side->broken, 1);
}

/* Frames have their number at both ends. */
static blink_result_t on_frame(void *context, data_endpoint_t *endpoint, const wire_frame_t *frame,
                               const uint8_t *payload)
{
    side_t *side = context;
    uint32_t number = atomic_load(&side->heard), first, last;
    (void)endpoint;
    memcpy(&first, payload, sizeof(first));
    memcpy(&last, payload + frame->bytes - sizeof(last), sizeof(last));
    if (first != number || last != number)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "frame %u to %u came as number %u", first, last, number);
    atomic_fetch_add(&side->heard, 1);
    return BLINK_OK;
}

static void on_lost(void *context, data_endpoint_t *endpoint, blink_result_t code)
{
    side_t *side = context;
    (void)endpoint;
    side->code = code;
    snprintf(side->text, sizeof(side->text), "%s", blink_error_text());
    atomic_fetch_add(&side->lost, 1);
}

static void make_side(uint32_t number, settings_transport_t transport)
{
    side_t *side = &sides[number];
    const data_config_t config = {
        .transport = transport,
        .verbs = transport == SETTINGS_TCP ? NULL : fake_verbs_library(),
        .timeout_s = 5,
        .handler = {
            .wanted = on_wanted, .broken = on_broken, .frame = on_frame, .lost = on_lost, .context = side}};
    *side = (side_t){0};
    assert_int_equal(data_create(&config, &side->data), BLINK_OK);
    assert_int_equal(data_endpoint_create(side->data, number == 0 ? "n1" : "n0", NULL, &side->endpoint),
                     BLINK_OK);
    if (resumes)
        data_endpoint_may_resume(side->endpoint, true);
}

static void begin_by(settings_transport_t dials, settings_transport_t waits)
{
    fake_verbs_begin(3);
    make_side(0, dials);
    make_side(1, waits);
}

static void begin(void)
{
    begin_by(SETTINGS_RDMA, SETTINGS_RDMA);
}

static void end(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        data_endpoint_close(sides[i].endpoint, BLINK_OK);
        data_endpoint_put(sides[i].endpoint);
        data_destroy(sides[i].data);
    }
    fake_verbs_end();
}

static void join(void)
{
    join_endpoints_by_verbs(sides[0].endpoint, 0, sides[1].endpoint, 1);
}

/* Until the counter has come so far; WAIT_S is for a machine that is very busy. */
static void wait_for(const _Atomic uint32_t *counter, uint32_t count, const char *what)
{
    time_t since = time(NULL);
    while (atomic_load(counter) < count) {
        usleep(200);
        if (time(NULL) - since > WAIT_S)
            fail_msg("%s: %u of %u; n0 has lost '%s', n1 '%s'", what, atomic_load(counter), count,
                     sides[0].text, sides[1].text);
    }
}

static void say(uint32_t from, uint32_t number, uint32_t bytes)
{
    static uint8_t payload[LONG_BYTES];
    memcpy(payload, &number, sizeof(number));
    memcpy(payload + bytes - sizeof(number), &number, sizeof(number));
    if (data_send(sides[from].endpoint, WIRE_BEGIN, payload, bytes) != BLINK_OK)
        fail_msg("frame %u: %s; n0 has lost '%s', n1 '%s'", number, blink_error_text(), sides[0].text,
                 sides[1].text);
}

/* A frame in each direction. */
static void greet(void)
{
    for (uint32_t i = 0; i < 2; i++)
        say(i, 0, 4);
    for (uint32_t i = 0; i < 2; i++)
        wait_for(&sides[i].heard, 1, "frames that came");
}

/* This side has lost its endpoint, and says so in one sentence. */
static void assert_lost(uint32_t number, blink_result_t code, const char *why)
{
    side_t *side = &sides[number];
    wait_for(&side->lost, 1, "endpoints that are lost");
    assert_string_equal(side->text, why);
    assert_int_equal(side->code, code);
    assert_int_equal(data_send(side->endpoint, WIRE_BEGIN, "", 0), BLINK_ERR_PEER_LOST);
}

static void assert_lost_by(uint32_t number, const char *why)
{
    assert_lost(number, BLINK_ERR_PEER_LOST, why);
}

/* ---- what goes ---- */

/* Many more than receives are posted for; both ways, and neither side waits for the other. */
static void test_frames_go_in_order_and_never_find_no_receive(void **state)
{
    enum { FRAMES = 2000 };
    (void)state;
    begin();
    join();
    for (uint32_t i = 0; i < FRAMES; i++)
        for (uint32_t from = 0; from < 2; from++)
            say(from, i, i % 50 == 0 ? LONG_BYTES : 8 + i % 700);
    for (uint32_t i = 0; i < 2; i++)
        wait_for(&sides[i].heard, FRAMES, "frames that came");
    end();
}

/* The first side says nothing but which receives it has posted again. */
static void test_one_side_alone_may_talk(void **state)
{
    enum { FRAMES = 2000 }; /* less than may wait */
    (void)state;
    begin();
    join();
    for (uint32_t i = 0; i < FRAMES; i++)
        say(1, i, 3000);
    wait_for(&sides[0].heard, FRAMES, "frames that came");
    end();
}

static void test_what_is_said_before_there_are_connections_comes(void **state)
{
    (void)state;
    begin();
    say(0, 0, LONG_BYTES);
    say(1, 0, 8);
    join();
    for (uint32_t i = 0; i < 2; i++)
        wait_for(&sides[i].heard, 1, "frames that came");
    end();
}

/* ---- how connections come about ---- */

static void test_a_port_opens_to_the_right_token_alone(void **state)
{
    (void)state;
    begin();
    data_route_t route = fake_route(0, 1, 0), back = fake_route_back(&route);
    assert_int_equal(data_endpoint_listen(sides[1].endpoint, &back, route.instance, &route.rdma), BLINK_OK);
    for (uint32_t i = 0; i < ENDPOINT_STREAMS; i++)
        route.rdma.tokens[i][5] ^= 1;
    data_endpoint_dial(sides[0].endpoint, &route);
    wait_for(&sides[0].lost, 1, "endpoints that are lost");
    assert_non_null(strstr(sides[0].text, "RDMA device fake0: the peer takes no connection"));
    assert_int_equal(sides[1].lost, 0);
    end();
}

static void test_nobody_waits_there(void **state)
{
    (void)state;
    begin();
    data_route_t route = fake_route(0, 1, 4711);
    data_endpoint_dial(sides[0].endpoint, &route);
    assert_lost_by(0,
                   "RDMA device fake0: the peer takes no connection: the other side gives no reason; 0 of 3 "
                   "connections were made");
    end();
}

static void dial_with(fake_faults_t faults)
{
    data_route_t route = fake_route(0, 1, 0), back = fake_route_back(&route);
    begin();
    assert_int_equal(data_endpoint_listen(sides[1].endpoint, &back, route.instance, &route.rdma), BLINK_OK);
    fake_verbs_set(faults);
    data_endpoint_dial(sides[0].endpoint, &route);
}

static void test_no_device_reaches_the_peer(void **state)
{
    (void)state;
    dial_with((fake_faults_t){.no_address = ENODEV});
    assert_lost_by(0, "RDMA device (none yet): no device reaches the peer's address: No such device; 0 of 3 "
                      "connections were made");
    end();
}

static void test_there_is_no_route(void **state)
{
    (void)state;
    dial_with((fake_faults_t){.no_route = ETIMEDOUT});
    assert_lost_by(0,
                   "RDMA device fake0: no route to the peer: Connection timed out; 0 of 3 connections were "
                   "made");
    end();
}

static void test_memory_cannot_be_pinned(void **state)
{
    (void)state;
    dial_with((fake_faults_t){.no_memory = true});
    assert_lost(
        0, BLINK_ERR_QUOTA,
        "RDMA device fake0: 512 KiB of memory cannot be pinned: Cannot allocate memory; let the daemon "
        "lock more (LimitMEMLOCK= in rdma.conf, ulimit -l)");
    end();
}

static void test_no_queue_pair_can_be_made(void **state)
{
    (void)state;
    dial_with((fake_faults_t){.no_qp = true});
    assert_lost(0, BLINK_ERR_SYSTEM, "RDMA device fake0: no queue pair: Cannot allocate memory");
    end();
}

static void test_a_device_without_immediates(void **state)
{
    (void)state;
    begin();
    data_route_t route = fake_route(0, 1, 0), back = fake_route_back(&route);
    fake_verbs_set((fake_faults_t){.is_iwarp = true});
    assert_int_equal(data_endpoint_listen(sides[1].endpoint, &back, route.instance, &route.rdma),
                     BLINK_ERR_UNSUPPORTED);
    assert_non_null(strstr(blink_error_text(), "RDMA device fake1 is no InfiniBand and no RoCE device"));
    end();
}

static void test_no_device_has_the_address_at_which_to_wait(void **state)
{
    (void)state;
    begin();
    data_route_t route = fake_route(0, 1, 0), back = fake_route_back(&route);
    fake_verbs_set((fake_faults_t){.no_device = true});
    assert_int_equal(data_endpoint_listen(sides[1].endpoint, &back, route.instance, &route.rdma),
                     BLINK_ERR_UNSUPPORTED);
    assert_string_equal(blink_error_text(), "no RDMA device has the address 127.0.0.3");
    end();
}

/* ---- several NICs ---- */

/* Each side has so many, which have faults: at one side when it begins to wait, at the other one when it
 * dials. */
static void join_by(uint32_t nics, fake_faults_t at_listen, fake_faults_t at_dial)
{
    data_route_t route = fake_route(0, 1, 0);
    add_nics(&route, 0, 1, nics);
    data_route_t back = fake_route_back(&route);
    begin();
    for (uint32_t i = 0; i < 2; i++)
        data_endpoint_set_move_streams(sides[i].endpoint, nics);
    fake_verbs_set(at_listen);
    assert_int_equal(data_endpoint_listen(sides[1].endpoint, &back, route.instance, &route.rdma), BLINK_OK);
    fake_verbs_set(at_dial);
    data_endpoint_dial(sides[0].endpoint, &route);
    greet();
}

/* Then a port of the NICs that have this number concerns nobody. */
static void assert_left_out(uint32_t nic, uint32_t nics)
{
    for (uint32_t i = 0; i < 2; i++)
        fake_verbs_tell(fake_nic(i, nic, nics), IBV_EVENT_PORT_ERR);
    for (uint32_t i = 0; i < 2; i++)
        say(i, 1, 4);
    for (uint32_t i = 0; i < 2; i++)
        wait_for(&sides[i].heard, 2, "frames that came");
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(sides[i].lost, 0);
    end();
}

/* Two, an odd number and as many as there may be. */
static const uint32_t nic_counts[] = {2, 3, DATA_MOVE_STREAMS_MOST};
enum { NIC_COUNTS = sizeof(nic_counts) / sizeof(*nic_counts) };

static void assert_port_loses(uint32_t nic, uint32_t nics)
{
    char why[BLINK_ERROR_TEXT_BYTES];
    snprintf(why, sizeof(why), "RDMA device fake%u, port 1: the port is down", fake_nic(0, nic, nics));
    join_by(nics, (fake_faults_t){0}, (fake_faults_t){0});
    fake_verbs_tell(fake_nic(0, nic, nics), IBV_EVENT_PORT_ERR);
    assert_lost_by(0, why);
    assert_lost_by(1, "RDMA device fake1: the peer closed a data connection");
    end();
}

static void test_every_nic_is_used_and_a_loss(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NIC_COUNTS; i++)
        for (uint32_t nic = 0; nic < nic_counts[i]; nic++)
            assert_port_loses(nic, nic_counts[i]);
}

static void test_the_last_nic_is_none_where_it_is_dialled(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NIC_COUNTS; i++) {
        uint32_t nics = nic_counts[i], last = nics - 1;
        join_by(nics, (fake_faults_t){.no_devices = 1u << fake_nic(1, last, nics)}, (fake_faults_t){0});
        assert_left_out(last, nics);
    }
}

static void test_the_last_nic_is_none_where_it_dials(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NIC_COUNTS; i++) {
        uint32_t nics = nic_counts[i], last = nics - 1;
        join_by(nics, (fake_faults_t){0}, (fake_faults_t){.no_devices = 1u << fake_nic(0, last, nics)});
        assert_left_out(last, nics);
    }
}

/* A cable that is out, or a network that lets no RoCE through. */
static void test_nobody_answers_at_a_nic(void **state)
{
    enum { NICS = DATA_MOVE_STREAMS_MOST };
    (void)state;
    join_by(NICS, (fake_faults_t){0}, (fake_faults_t){.silent = 1u << fake_nic(1, NICS - 1, NICS)});
    assert_left_out(NICS - 1, NICS);
}

/* ---- which transport ---- */

static void test_rdma_is_asked_for_and_the_peer_has_none(void **state)
{
    (void)state;
    begin_by(SETTINGS_RDMA, SETTINGS_TCP);
    data_route_t route = fake_route(0, 1, 0);
    route.tcp.port = 4711;
    data_endpoint_dial(sides[0].endpoint, &route);
    assert_lost(
        0, BLINK_ERR_UNSUPPORTED,
        "it takes no data connections by RDMA, and [network] transport is rdma here; set auto, or see "
        "that RDMA works there");
    end();
}

static void test_the_peer_asks_for_rdma_and_there_is_none(void **state)
{
    (void)state;
    begin_by(SETTINGS_TCP, SETTINGS_RDMA);
    data_route_t route = fake_route(0, 1, 4711);
    data_endpoint_dial(sides[0].endpoint, &route);
    assert_lost(0, BLINK_ERR_UNSUPPORTED,
                "it takes data connections by RDMA alone, and there is none here; set [network] transport = "
                "auto there, or see that RDMA works here");
    end();
}

static void test_who_uses_rdma_alone_takes_no_sockets(void **state)
{
    int fds[2];
    (void)state;
    begin();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_false(data_takes_tcp(sides[1].data));
    assert_int_equal(data_endpoint_accept(sides[1].endpoint, 0, 0, fds[0]), BLINK_ERR_UNSUPPORTED);
    close(fds[1]);
    end();
}

/* A socket that listens at the address of the second device, which is one of the loopback's; and its port. */
static int listen_by_tcp(uint16_t *port)
{
    net_address_t address = fake_address(1);
    socklen_t bytes = sizeof(address.v4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, &address.any, bytes), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, &address.any, &bytes), 0);
    *port = ntohs(address.v4.sin_port);
    return fd;
}

/* What the control thread does with a connection. */
static void accept_by_tcp(int listener, bool rejects)
{
    uint8_t packed[WIRE_HELLO_BYTES];
    wire_hello_t hello;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(recv(fd, packed, sizeof(packed), MSG_WAITALL), sizeof(packed));
    assert_int_equal(wire_hello_parse(packed, &hello), BLINK_OK);
    for (time_t since = time(NULL); rejects && fake_verbs_unheard() > 0 && time(NULL) - since < WAIT_S;)
        usleep(200);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(data_endpoint_accept(sides[1].endpoint, 0, hello.stream, fd), BLINK_OK);
}

/* Both ask for RDMA where it works. It has faults when one side begins to wait, or when the other one dials:
 * TCP connections come, and what was said before goes by them. */
static void fall_back(fake_faults_t at_listen, fake_faults_t at_dial, bool is_offered)
{
    begin_by(SETTINGS_AUTO, SETTINGS_AUTO);
    data_route_t route = fake_route(0, 1, 0), back = fake_route_back(&route);
    int listener = listen_by_tcp(&route.tcp.port);
    for (uint32_t i = 0; i < 2; i++)
        say(i, 0, 100);
    fake_verbs_set(at_listen);
    assert_int_equal(data_endpoint_listen(sides[1].endpoint, &back, route.instance, &route.rdma), BLINK_OK);
    assert_int_equal(route.rdma.port != 0, is_offered);
    fake_verbs_set(at_dial);
    data_endpoint_dial(sides[0].endpoint, &route);
    for (uint32_t i = 0; i < ENDPOINT_STREAMS; i++)
        accept_by_tcp(listener, at_dial.no_end);
    for (uint32_t i = 0; i < 2; i++)
        wait_for(&sides[i].heard, 1, "frames that came");
    assert_int_equal(fake_verbs_carried(), 0);
    close(listener);
    end();
}

static void test_auto_takes_tcp_where_no_device_has_the_address(void **state)
{
    (void)state;
    fall_back((fake_faults_t){.no_device = true}, (fake_faults_t){0}, false);
}

static void test_auto_takes_tcp_where_memory_cannot_be_pinned(void **state)
{
    (void)state;
    fall_back((fake_faults_t){.no_memory = true}, (fake_faults_t){0}, false);
    fall_back((fake_faults_t){0}, (fake_faults_t){.no_memory = true}, true);
}

static void test_auto_takes_tcp_where_who_dials_has_no_device(void **state)
{
    (void)state;
    fall_back((fake_faults_t){0}, (fake_faults_t){.no_address = ENODEV}, true);
    fall_back((fake_faults_t){0}, (fake_faults_t){.no_qp = true}, true);
}

/* As behind a firewall that lets no RoCE through. */
static void test_auto_takes_tcp_where_nobody_answers(void **state)
{
    (void)state;
    fall_back((fake_faults_t){0}, (fake_faults_t){.no_answer = true}, true);
}

/* The side that waits hears that the other one has given up, and TCP connections come later. */
static void test_auto_takes_tcp_where_connections_are_not_through(void **state)
{
    (void)state;
    fall_back((fake_faults_t){0}, (fake_faults_t){.no_end = true}, true);
}

static void test_auto_takes_rdma_where_both_can(void **state)
{
    (void)state;
    begin_by(SETTINGS_AUTO, SETTINGS_AUTO);
    join();
    greet();
    assert_true(fake_verbs_carried() > 0);
    end();
}

/* ---- what fails ---- */

static void begin_and_greet(void)
{
    begin();
    join();
    greet();
}

static void test_the_peer_closes(void **state)
{
    (void)state;
    begin_and_greet();
    data_endpoint_close(sides[0].endpoint, BLINK_OK);
    assert_lost_by(1, "RDMA device fake1: the peer closed a data connection");
    end();
}

static void test_a_message_is_not_acknowledged(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_fail_message(0, IBV_WC_RETRY_EXC_ERR);
    say(0, 1, 4);
    assert_lost_by(
        0, "RDMA device fake0, port 1: a message failed: transport retry counter exceeded (status 12)");
    assert_lost_by(1, "RDMA device fake1: the peer closed a data connection");
    end();
}

static void test_a_receive_is_not_posted_in_time(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_fail_message(1, IBV_WC_RNR_RETRY_EXC_ERR);
    say(1, 1, 4);
    assert_lost_by(1, "RDMA device fake1, port 1: a message failed: some error (status 13)");
    end();
}

static void test_a_queue_pair_fails(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_flush(1);
    assert_lost_by(1, "RDMA device fake1, port 1: a receive failed: Work Request Flushed Error (status 5)");
    assert_lost_by(0, "RDMA device fake0: the peer closed a data connection");
    end();
}

static void test_the_port_goes_down(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_tell(0, IBV_EVENT_PORT_ERR);
    assert_lost_by(0, "RDMA device fake0, port 1: the port is down");
    assert_lost_by(1, "RDMA device fake1: the peer closed a data connection");
    end();
}

static void test_the_device_fails(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_tell(1, IBV_EVENT_DEVICE_FATAL);
    assert_lost_by(1, "RDMA device fake1, port 1: the device has failed");
    end();
}

static void test_the_device_is_removed(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_tell_connections(1, RDMA_CM_EVENT_DEVICE_REMOVAL);
    assert_lost_by(1, "RDMA device fake1 was removed");
    end();
}

static void test_the_address_moves(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_tell_connections(0, RDMA_CM_EVENT_ADDR_CHANGE);
    assert_lost_by(0, "RDMA device fake0: its address is another device's now");
    end();
}

static void test_other_news_of_a_device_end_nothing(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_tell(0, IBV_EVENT_GID_CHANGE);
    fake_verbs_tell(1, IBV_EVENT_PORT_ACTIVE);
    fake_verbs_tell_connections(0, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    for (uint32_t i = 0; i < 2; i++)
        say(i, 1, 4);
    for (uint32_t i = 0; i < 2; i++)
        wait_for(&sides[i].heard, 2, "frames that came");
    end();
}

/* ---- connections that are to be made anew ---- */

static void test_connections_that_are_not_made_anew_in_time(void **state)
{
    (void)state;
    resumes = true;
    begin_and_greet();
    fake_verbs_flush(1);
    assert_lost_by(1, "RDMA device fake1, port 1: a receive failed: Work Request Flushed Error (status 5); "
                      "data connections were not made again within 5 s");
    assert_true(sides[1].broken > 0);
    resumes = false;
    end();
}

/* A side tries a NIC that is of no use, in vain and without haste, until it is told of another round. */
static void test_attempts_that_fail_are_made_again(void **state)
{
    (void)state;
    resumes = true;
    begin_and_greet();
    fake_verbs_flush(0);
    wait_for(&sides[0].broken, 1, "connections that have failed");
    data_route_t route = fake_route(0, 1, 4711);
    route.round = 1;
    data_endpoint_dial(sides[0].endpoint, &route);
    wait_for(&sides[0].broken, 2, "attempts that have failed");
    data_fence_t fence;
    assert_int_equal(data_endpoint_fence(sides[0].endpoint, 0, &fence), BLINK_OK);
    assert_true(fence.round >= 2);
    assert_int_equal(sides[0].lost, 0);
    resumes = false;
    end();
}

/* ---- a peer that lies ---- */

static void test_a_peer_posts_more_receives_than_were_used(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_say(0, true, 100);
    wait_for(&sides[0].lost, 1, "endpoints that are lost");
    assert_int_equal(sides[0].code, BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(sides[0].text, "RDMA device fake0: it posts more receives than were used: "));
    end();
}

static void test_a_peer_posts_receives_of_no_queue_pair(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_say(0, true, 1u << 30);
    assert_lost(0, BLINK_ERR_PROTOCOL, "RDMA device fake0: it posts receives on queue pair 3 of 3");
    end();
}

static void test_a_message_without_an_immediate(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_say(0, false, 0);
    assert_lost(0, BLINK_ERR_PROTOCOL, "RDMA device fake0: a message without an immediate on queue pair 0");
    end();
}

static void test_a_write_to_nobodys_landing(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_say_written(0, false, wire_immediate(7, 0));
    assert_lost(0, BLINK_ERR_PROTOCOL, "flow 7: no op has this number");
    end();
}

static void test_a_write_on_the_queue_pair_for_control(void **state)
{
    (void)state;
    begin_and_greet();
    fake_verbs_say_written(0, true, 0);
    assert_lost(0, BLINK_ERR_PROTOCOL, "RDMA device fake0: a write on the queue pair for control");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_go_in_order_and_never_find_no_receive),
        cmocka_unit_test(test_one_side_alone_may_talk),
        cmocka_unit_test(test_what_is_said_before_there_are_connections_comes),
        cmocka_unit_test(test_a_port_opens_to_the_right_token_alone),
        cmocka_unit_test(test_nobody_waits_there),
        cmocka_unit_test(test_no_device_reaches_the_peer),
        cmocka_unit_test(test_there_is_no_route),
        cmocka_unit_test(test_memory_cannot_be_pinned),
        cmocka_unit_test(test_no_queue_pair_can_be_made),
        cmocka_unit_test(test_a_device_without_immediates),
        cmocka_unit_test(test_no_device_has_the_address_at_which_to_wait),
        cmocka_unit_test(test_every_nic_is_used_and_a_loss),
        cmocka_unit_test(test_the_last_nic_is_none_where_it_is_dialled),
        cmocka_unit_test(test_the_last_nic_is_none_where_it_dials),
        cmocka_unit_test(test_nobody_answers_at_a_nic),
        cmocka_unit_test(test_rdma_is_asked_for_and_the_peer_has_none),
        cmocka_unit_test(test_the_peer_asks_for_rdma_and_there_is_none),
        cmocka_unit_test(test_who_uses_rdma_alone_takes_no_sockets),
        cmocka_unit_test(test_auto_takes_tcp_where_no_device_has_the_address),
        cmocka_unit_test(test_auto_takes_tcp_where_memory_cannot_be_pinned),
        cmocka_unit_test(test_auto_takes_tcp_where_who_dials_has_no_device),
        cmocka_unit_test(test_auto_takes_tcp_where_nobody_answers),
        cmocka_unit_test(test_auto_takes_tcp_where_connections_are_not_through),
        cmocka_unit_test(test_auto_takes_rdma_where_both_can),
        cmocka_unit_test(test_the_peer_closes),
        cmocka_unit_test(test_a_message_is_not_acknowledged),
        cmocka_unit_test(test_a_receive_is_not_posted_in_time),
        cmocka_unit_test(test_a_queue_pair_fails),
        cmocka_unit_test(test_the_port_goes_down),
        cmocka_unit_test(test_the_device_fails),
        cmocka_unit_test(test_the_device_is_removed),
        cmocka_unit_test(test_the_address_moves),
        cmocka_unit_test(test_other_news_of_a_device_end_nothing),
        cmocka_unit_test(test_connections_that_are_not_made_anew_in_time),
        cmocka_unit_test(test_attempts_that_fail_are_made_again),
        cmocka_unit_test(test_a_peer_posts_more_receives_than_were_used),
        cmocka_unit_test(test_a_peer_posts_receives_of_no_queue_pair),
        cmocka_unit_test(test_a_message_without_an_immediate),
        cmocka_unit_test(test_a_write_to_nobodys_landing),
        cmocka_unit_test(test_a_write_on_the_queue_pair_for_control),
    };
    log_init(LOG_LEVEL_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
