/* Messages of gatherings as peers send them: there and back, and what is refused of a peer. */
#include "control/gather/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 3u
#define HOSTS 3u

static const unique_id_t ID = {.version = UNIQUE_ID_VERSION, .port = 7, .instance = 8, .nonce = {9}};
static const terms_t TERMS = {RANKS, BLINK_ALGORITHM_RING, 5, 6, 0.004};
static const gather_join_rank_t JOINING[] = {{1, 4, 70, false}, {2, 5, 71, true}};
static const gather_seat_t SEATS[RANKS] = {{1, 0, 80}, {2, 3, 81}, {1, 1, 82}};
static const gather_ready_host_t READY_HOSTS[HOSTS] = {
    {{.name = "n0", .instance = 1, .topology = {1}}, 0},
    {{.name = "n1", .instance = 2, .port = 7, .addresses = {{10, 1}, {10, 2}}, .topology = {2}}, 30},
    {{.name = "n2", .instance = 3, .port = 8, .addresses = {{10, 3}}, .topology = {1}}, 31}};

static const gather_message_t MESSAGES[] = {
    {.kind = GATHER_JOIN,
     .id = ID,
     .uid = 1000,
     .attempt = 3,
     .terms = TERMS,
     .ranks = JOINING,
     .rank_count = 2},
    {.kind = GATHER_REFUSED, .id = ID, .attempt = 3, .ticket = 70, .code = BLINK_ERR_EXISTS, .text = "taken"},
    {.kind = GATHER_FAILED,
     .id = ID,
     .attempt = 3,
     .comm = {8, 1},
     .code = BLINK_ERR_ABORTED,
     .text = "over"},
    {.kind = GATHER_LEFT, .id = ID, .uid = 1000, .attempt = 3, .code = BLINK_ERR_PEER_LOST, .text = "gone"},
    {.kind = GATHER_READY,
     .id = ID,
     .uid = 1000,
     .comm = {8, 1},
     .terms = TERMS,
     .hosts = READY_HOSTS,
     .host_count = HOSTS,
     .seats = SEATS},
    {.kind = GATHER_ACKNOWLEDGED, .comm = {8, 1}},
    {.kind = GATHER_LOST, .comm = {8, 1}, .code = BLINK_ERR_PEER_LOST, .text = "n2 is lost"},
    {.kind = GATHER_ENDED, .comm = {8, 1}},
};

#define MESSAGE_COUNT (sizeof(MESSAGES) / sizeof(MESSAGES[0]))

/* A message on its way, which a test may spoil. */
typedef struct way {
    arena_t arena;
    gather_host_t own, from;
    Blinkpeer__Gather written;
    gather_message_t read;
} way_t;

static void send(way_t *way, gather_kind_t kind)
{
    *way = (way_t){.own = {.topology = {42}}};
    assert_int_equal(gather_write(&MESSAGES[kind], &way->own, &way->arena, &way->written), BLINK_OK);
}

/* Over bytes and back. */
static blink_result_t arrive(way_t *way)
{
    static uint8_t bytes[32768];
    size_t count = blinkpeer__gather__get_packed_size(&way->written);
    assert_true(count <= sizeof(bytes));
    blinkpeer__gather__pack(&way->written, bytes);
    Blinkpeer__Gather *unpacked = blinkpeer__gather__unpack(NULL, count, bytes);
    assert_non_null(unpacked);
    blink_result_t result = gather_read(unpacked, &way->arena, &way->from, &way->read);
    if (way->read.text)
        way->read.text = strcpy(arena_alloc(&way->arena, 1, strlen(way->read.text) + 1), way->read.text);
    blinkpeer__gather__free_unpacked(unpacked, NULL);
    return result;
}

static void assert_refused(way_t *way, const char *said)
{
    assert_int_equal(arrive(way), BLINK_ERR_PROTOCOL);
    if (!strstr(blink_error_text(), said))
        fail_msg("\"%s\" does not say \"%s\"", blink_error_text(), said);
    arena_free(&way->arena);
}

static void test_every_message_arrives_as_it_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGE_COUNT; i++) {
        const gather_message_t *sent = &MESSAGES[i];
        way_t way;
        send(&way, sent->kind);
        assert_int_equal(arrive(&way), BLINK_OK);
        const gather_message_t *read = &way.read;
        assert_int_equal(read->kind, sent->kind);
        assert_memory_equal(&read->id, &sent->id, sizeof(read->id));
        assert_int_equal(read->uid, sent->uid);
        assert_int_equal(read->attempt, sent->attempt);
        assert_int_equal(read->ticket, sent->ticket);
        assert_int_equal(read->comm.home, sent->comm.home);
        assert_int_equal(read->comm.number, sent->comm.number);
        assert_int_equal(read->code, sent->code);
        assert_string_equal(read->text, sent->text ? sent->text : "");
        assert_memory_equal(&read->terms, &sent->terms, sizeof(read->terms));
        assert_int_equal(read->rank_count, sent->rank_count);
        assert_int_equal(read->host_count, sent->host_count);
        arena_free(&way.arena);
    }
}

static void test_a_join_tells_its_ranks_and_the_topology(void **state)
{
    (void)state;
    way_t way;
    send(&way, GATHER_JOIN);
    assert_int_equal(arrive(&way), BLINK_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(way.read.ranks[i].rank, JOINING[i].rank);
        assert_int_equal(way.read.ranks[i].device, JOINING[i].device);
        assert_int_equal(way.read.ranks[i].ticket, JOINING[i].ticket);
        assert_int_equal(way.read.ranks[i].on_gpu, JOINING[i].on_gpu);
    }
    assert_memory_equal(way.from.topology, way.own.topology, GATHER_DIGEST_BYTES);
    arena_free(&way.arena);
}

static void test_ready_tells_hosts_and_each_topology_once(void **state)
{
    (void)state;
    way_t way;
    send(&way, GATHER_READY);
    assert_int_equal(way.written.n_topologies, 2);
    assert_int_equal(arrive(&way), BLINK_OK);
    assert_memory_equal(way.read.seats, SEATS, sizeof(SEATS));
    for (size_t i = 0; i < HOSTS; i++) {
        const gather_host_t *host = &way.read.hosts[i].host, *sent = &READY_HOSTS[i].host;
        assert_string_equal(host->name, sent->name);
        assert_int_equal(host->instance, sent->instance);
        assert_int_equal(host->port, sent->port);
        assert_memory_equal(host->addresses, sent->addresses, sizeof(host->addresses));
        assert_memory_equal(host->topology, sent->topology, sizeof(host->topology));
        assert_int_equal(way.read.hosts[i].attempt, READY_HOSTS[i].attempt);
    }
    arena_free(&way.arena);
}

static void test_what_no_daemon_sends_is_refused(void **state)
{
    (void)state;
    way_t way;
    static uint32_t many[2000];
    static protobuf_c_boolean many_kinds[2000];
#define REFUSED(kind_, said, ...) (send(&way, kind_), __VA_ARGS__, assert_refused(&way, said))
    REFUSED(GATHER_ENDED, "of kind 0", way.written.kind = 0);
    REFUSED(GATHER_ENDED, "of kind 9", way.written.kind = 9);
    REFUSED(GATHER_ENDED, "ENDED of no communicator", way.written.comm_number = 0);
    REFUSED(GATHER_LOST, "LOST of no communicator", way.written.comm_home = 0);
    REFUSED(GATHER_LOST, "LOST without a reason", way.written.code = 0);
    REFUSED(GATHER_FAILED, "FAILED without a reason", way.written.code = 1000);
    REFUSED(GATHER_FAILED, "FAILED without an attempt", way.written.attempt = 0);
    REFUSED(GATHER_JOIN, "a JOIN with a communicator id of 63 bytes", way.written.id.len = 63);
    REFUSED(GATHER_JOIN, "of no ranks", way.written.n_ranks = 0);
    REFUSED(GATHER_JOIN, "too many", way.written.n_ranks = 2000, way.written.ranks = many,
            way.written.n_devices = 2000, way.written.devices = many, way.written.n_tickets = 2000,
            way.written.tickets = many, way.written.n_on_gpu = 2000, way.written.on_gpu = many_kinds);
    REFUSED(GATHER_JOIN, "lack a device", way.written.n_devices = 1);
    REFUSED(GATHER_JOIN, "lack a device, a ticket", way.written.n_tickets = 1);
    REFUSED(GATHER_JOIN, "or a kind", way.written.n_on_gpu = 0);
    REFUSED(GATHER_JOIN, "topology", way.written.n_topologies = 0);
    REFUSED(GATHER_JOIN, "topology", way.written.topologies[0].len = 31);
    REFUSED(GATHER_READY, "that cannot be", way.written.rank_count = 0);
    REFUSED(GATHER_READY, "that cannot be", way.written.rank_count = 1u << 30);
    REFUSED(GATHER_READY, "that cannot be", way.written.algorithm = 99);
    REFUSED(GATHER_READY, "where every rank is", way.written.n_rank_hosts = 2);
    REFUSED(GATHER_READY, "where every rank is", way.written.n_tickets = 0);
    REFUSED(GATHER_READY, "with a rank on no host", way.written.rank_hosts[1] = HOSTS);
    REFUSED(GATHER_READY, "of no hosts", way.written.n_hosts = 0);
    REFUSED(GATHER_READY, "more than ranks", way.written.rank_count = 1);
    REFUSED(GATHER_READY, "a host that cannot be", way.written.hosts[1]->instance = 0);
    REFUSED(GATHER_READY, "a host that cannot be", way.written.hosts[1]->port = 65536);
    REFUSED(GATHER_READY, "cannot be called so", way.written.hosts[1]->name = (char[]){""});
    REFUSED(GATHER_READY, "cannot be called so", way.written.hosts[1]->name = (char[]){"n1\nn2"});
    REFUSED(GATHER_READY, "cannot be called so", way.written.hosts[1]->name = (char[]){"/etc/passwd"});
    REFUSED(GATHER_READY, "cannot be called so",
            way.written.hosts[1]->name =
                (char[]){"a-name-that-is-much-longer-than-any-that-a-daemon-may-be-given-by-its-owner"});
    REFUSED(GATHER_READY, "an address that is none", way.written.hosts[1]->addresses[1].len = 4);
    REFUSED(GATHER_READY, "topology", way.written.hosts[2]->topology = 2);
#undef REFUSED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_message_arrives_as_it_was),
        cmocka_unit_test(test_a_join_tells_its_ranks_and_the_topology),
        cmocka_unit_test(test_ready_tells_hosts_and_each_topology_once),
        cmocka_unit_test(test_what_no_daemon_sends_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
