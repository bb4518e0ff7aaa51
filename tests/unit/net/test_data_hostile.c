/*
 * What a peer may send that lies or is broken: the endpoint is lost, its reason says what was wrong,
 * and memory of ops stays what it was. And memory of clients that is not there.
 */
#include "data_world.h"

#include "base/guard.h"
#include "base/log.h"
#include "net/data/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

/* ---- a peer that says what it likes ---- */

/* What the op has for each rank, which is one move. */
enum { COUNT = 100, MOVE_BYTES = COUNT * sizeof(float) };

typedef struct liar {
    topo_t *topo;
    plan_t *plan;
    world_t world;
    op_t *op;
    part_t *part; /* of host 0, whose peer is host 1 */
    int fds[ENDPOINT_STREAMS];
    data_offer_t offer; /* of host 0's BEGIN */
} liar_t;

static void read_all(int fd, void *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t got = recv(fd, (uint8_t *)to + at, bytes - at, 0);
        if (got <= 0)
            fail_msg("%zu of %zu bytes came: %s", at, bytes, strerror(errno));
        at += (size_t)got;
    }
}

/* Without a payload only the header is said. By one call, for the connection may be closed for the header. */
static void say(const liar_t *liar, uint32_t stream, wire_frame_t frame, const void *payload)
{
    uint8_t packed[WIRE_FRAME_BYTES + MOVE_BYTES];
    size_t bytes = payload ? frame.bytes : 0;
    assert_true(bytes <= MOVE_BYTES);
    wire_frame_pack(&frame, packed);
    if (payload)
        memcpy(packed + WIRE_FRAME_BYTES, payload, bytes);
    assert_int_equal(send(liar->fds[stream], packed, WIRE_FRAME_BYTES + bytes, MSG_NOSIGNAL),
                     WIRE_FRAME_BYTES + bytes);
}

static void read_begin(liar_t *liar)
{
    uint8_t packed[WIRE_FRAME_BYTES];
    wire_frame_t frame;
    begin_t begin;
    read_all(liar->fds[0], packed, sizeof(packed));
    assert_int_equal(wire_frame_parse(packed, &frame), BLINK_OK);
    assert_int_equal(frame.type, WIRE_BEGIN);
    assert_int_equal(frame.bytes, sizeof(begin));
    read_all(liar->fds[0], &begin, sizeof(begin));
    liar->offer = begin.offer;
}

/* One move comes from host 1, and lands in a slot. */
static void liar_init(liar_t *liar)
{
    *liar = (liar_t){.topo = hand_hosts(machines[0].devices, 2)};
    liar->plan = make_plan(liar->topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    world_init(&liar->world, liar->topo, 2, false);
    for (uint32_t s = 0; s < ENDPOINT_STREAMS; s++) {
        struct timeval limit = {.tv_sec = WAIT_S};
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
        assert_int_equal(data_endpoint_accept(liar->world.hosts[0].endpoints[1], 0, s, pair[0]), BLINK_OK);
        liar->fds[s] = pair[1];
    }
    liar->op = op_create(&liar->world, liar->plan, COUNT, true, NULL);
    liar->part = &liar->op->parts[0];
    begin_part(liar->part);
    read_begin(liar);
    assert_int_equal(liar->offer.flow_count, 1);
}

static void liar_fini(liar_t *liar)
{
    for (uint32_t s = 0; s < ENDPOINT_STREAMS; s++)
        close(liar->fds[s]);
    ops_destroy(&liar->world);
    world_fini(&liar->world);
    plan_destroy(liar->plan);
    topo_destroy(liar->topo);
}

static bool host_0_has_lost(const world_t *world)
{
    return world->hosts[0].lost[1];
}

/* The lie is found out: the endpoint is lost for this reason, and the op ends. */
static void assert_found_out(liar_t *liar, const char *reason)
{
    world_host_t *host = &liar->world.hosts[0];
    world_wait(&liar->world, host_0_has_lost, "nobody has found the lie out");
    assert_int_equal(host->lost_code, BLINK_ERR_PROTOCOL);
    if (!strstr(host->lost_text, reason))
        fail_msg("'%s' is said where '%s' should be", host->lost_text, reason);
    world_wait(&liar->world, all_are_over, "the op has not ended");
    assert_true(liar->part->failed);
    assert_untouched(liar->op);
    liar_fini(liar);
}

static wire_frame_t honest_move(const liar_t *liar)
{
    return (wire_frame_t){.type = WIRE_DATA, .bytes = MOVE_BYTES, .flow = liar->offer.first_flow};
}

/* ---- moves ---- */

static const float numbers[COUNT];

static void test_a_move_of_no_flow(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    wire_frame_t frame = honest_move(&liar);
    frame.flow += 77;
    say(&liar, 1, frame, numbers);
    assert_found_out(&liar, "no op has this number");
}

static void test_a_move_that_was_not_granted(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    wire_frame_t frame = honest_move(&liar);
    frame.sequence = 5;
    say(&liar, 2, frame, numbers);
    assert_found_out(&liar, "move 5 was not granted");
}

static void test_a_move_that_comes_twice(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    say(&liar, 1, honest_move(&liar), numbers);
    say(&liar, 1, honest_move(&liar), numbers);
    assert_found_out(&liar, "move 0 comes a second time");
}

static void test_a_move_beyond_its_landing(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    wire_frame_t frame = honest_move(&liar);
    frame.offset = UINT64_C(1) << 40;
    say(&liar, 0, frame, numbers);
    assert_found_out(&liar, "at offset 1099511627776 of place 0");
}

static void test_a_move_to_an_output_that_is_none(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    wire_frame_t frame = honest_move(&liar);
    frame.place = 7;
    say(&liar, 1, frame, numbers);
    assert_found_out(&liar, "place 7");
}

static void test_a_move_of_another_length(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    wire_frame_t frame = honest_move(&liar);
    frame.bytes = 8;
    say(&liar, 1, frame, numbers);
    assert_found_out(&liar, "which are not its 400 bytes");
}

static void test_a_move_too_long(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    wire_frame_t frame = honest_move(&liar);
    frame.bytes = 64u << 20;
    say(&liar, 1, frame, NULL);
    assert_found_out(&liar, "67108864");
}

/* ---- control ---- */

static void test_control_frames_do_not_come_over_other_streams(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    say(&liar, 1, (wire_frame_t){.type = WIRE_CREDIT, .bytes = 8}, numbers);
    assert_found_out(&liar, "on a connection for moves");
}

static void test_a_frame_of_no_type(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    say(&liar, 0, (wire_frame_t){.type = 99, .bytes = 8}, numbers);
    assert_found_out(&liar, "type 99");
}

static void test_what_the_engine_refuses_closes_the_endpoint(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    say(&liar, 0, (wire_frame_t){.type = WIRE_LEFT, .bytes = 8}, numbers);
    assert_found_out(&liar, "a frame that this engine does not know");
}

static void say_begin(const liar_t *liar, data_offer_t offer)
{
    begin_t begin = {liar->op->number, offer};
    say(liar, 0, (wire_frame_t){.type = WIRE_BEGIN, .bytes = sizeof(begin)}, &begin);
}

static data_offer_t honest_offer(const liar_t *liar)
{
    return (data_offer_t){.first_flow = 2 * 64u, .flow_count = 1, .slots = liar->offer.slots};
}

static void test_offers_that_contradict_the_program(void **state)
{
    (void)state;
    for (uint32_t lie = 0; lie < 4; lie++) {
        static const char *const reasons[] = {"it takes 2 flows of an op that has 1", "it has 0 slots",
                                              "are none", "it has 4294967295 slots"};
        liar_t liar;
        liar_init(&liar);
        data_offer_t offer = honest_offer(&liar);
        offer.flow_count += lie == 0;
        offer.slots = lie == 1 ? 0 : lie == 3 ? UINT32_MAX : offer.slots;
        offer.first_flow += lie == 2;
        say_begin(&liar, offer);
        assert_found_out(&liar, reasons[lie]);
    }
}

static bool host_0_has_sent(const world_t *world)
{
    data_counts_t counts;
    data_endpoint_count(world->hosts[0].endpoints[1], &counts);
    return counts.frames_out[WIRE_DATA] > 0;
}

/* A FAIL that leaves flows out says that nothing was sent by them, and their moves would be written to memory
 * that is another op's. */
static void test_a_failure_of_more_flows_than_a_fail_tells_of(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    const world_host_t *host = &liar.world.hosts[0];
    say_begin(&liar, honest_offer(&liar));
    say(&liar, 1, honest_move(&liar), numbers);
    world_wait(&liar.world, host_0_has_sent, "nothing is sent");
    assert_int_equal(data_run_stop(liar.part->run, 1, NULL, 0), 0);
    world_wait(&liar.world, host_0_has_lost, "the peer would not wait for what comes");
    assert_non_null(strstr(host->lost_text, "an op has failed that has sent 1 flows there"));
    world_wait(&liar.world, all_are_over, "the op has not ended");
    liar_fini(&liar);
}

static void test_a_second_begin(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    say_begin(&liar, honest_offer(&liar));
    say_begin(&liar, honest_offer(&liar));
    assert_found_out(&liar, "a second BEGIN");
}

static void test_a_credit_beyond_the_op(void **state)
{
    liar_t liar;
    wire_credit_t credit;
    (void)state;
    liar_init(&liar);
    data_offer_t offer = honest_offer(&liar);
    say_begin(&liar, offer);
    while (!liar.part->has_begun[1])
        (void)world_step(&liar.world, 100);
    /* The op has been agreed to, and waits for the move from host 1: its own is still to be sent. */
    wire_credit_pack(&(wire_credit_t){offer.first_flow, 1000}, (uint8_t *)&credit);
    say(&liar, 0, (wire_frame_t){.type = WIRE_CREDIT, .bytes = sizeof(credit)}, &credit);
    assert_found_out(&liar, "a credit of 1000 for a flow of 1 moves");
}

static void test_a_fail_that_says_too_much_was_sent(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    uint32_t payload[3] = {liar.op->number, 1, 1000};
    say(&liar, 0, (wire_frame_t){.type = WIRE_FAIL, .bytes = sizeof(payload)}, payload);
    assert_found_out(&liar, "1000 moves are said to be sent");
}

/* It goes in the middle of a move. */
static void test_a_peer_that_goes(void **state)
{
    liar_t liar;
    (void)state;
    liar_init(&liar);
    wire_frame_t frame = honest_move(&liar);
    say(&liar, 1, frame, NULL);
    assert_int_equal(send(liar.fds[1], numbers, 100, MSG_NOSIGNAL), 100); /* what was said is right so far */
    shutdown(liar.fds[1], SHUT_RDWR);
    world_wait(&liar.world, host_0_has_lost, "nobody has noticed");
    assert_int_equal(liar.world.hosts[0].lost_code, BLINK_ERR_PEER_LOST);
    world_wait(&liar.world, all_are_over, "the op has not ended");
    assert_untouched(liar.op);
    liar_fini(&liar);
}

/* What waits for a peer is bounded. */
static void test_a_peer_that_does_not_read(void **state)
{
    static uint8_t payload[WIRE_CONTROL_MAX_BYTES];
    liar_t liar;
    (void)state;
    liar_init(&liar);
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < 1000 && result == BLINK_OK; i++)
        result = data_send(liar.world.hosts[0].endpoints[1], WIRE_FAIL, payload, sizeof(payload));
    assert_int_equal(result, BLINK_ERR_QUOTA);
    world_wait(&liar.world, host_0_has_lost, "nobody has noticed");
    assert_non_null(strstr(liar.world.hosts[0].lost_text, "it does not read: "));
    world_wait(&liar.world, all_are_over, "the op has not ended");
    assert_int_equal(data_send(liar.world.hosts[0].endpoints[1], WIRE_FAIL, payload, 1), BLINK_ERR_PEER_LOST);
    liar_fini(&liar);
}

/* ---- memory that is not there ---- */

enum { PAGE_BYTES = 4096 };

/* Guarded memory whose last page is not there. */
typedef struct holey {
    uint8_t *base;
    size_t bytes;
    uint32_t range;
} holey_t;

static void holey_init(holey_t *holey, size_t bytes)
{
    int fd = memfd_create("holey", MFD_CLOEXEC);
    holey->bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(holey->bytes - PAGE_BYTES)), 0);
    holey->base = mmap(NULL, holey->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(holey->base, MAP_FAILED);
    assert_int_equal(guard_add(holey->base, holey->bytes, &holey->range), BLINK_OK);
    close(fd);
}

static void holey_fini(const holey_t *holey)
{
    guard_remove(holey->range);
    munmap(holey->base, holey->bytes);
}

/* Rank 1's input or output is such memory. The op fails on both hosts, and the next one succeeds. */
static void check_holey_op(world_t *world, const plan_t *plan, uint64_t count, bool is_output)
{
    holey_t holey;
    holey_init(&holey, count * sizeof(float));
    op_t *op = op_create(world, plan, count, false, NULL);
    /* The memory ends where its last page does. */
    void *place = holey.base + holey.bytes - count * sizeof(float) / PAGE_BYTES * PAGE_BYTES;
    if (count * sizeof(float) < PAGE_BYTES)
        place = holey.base + holey.bytes - PAGE_BYTES;
    if (is_output)
        op->parts[1].outputs[1] = place;
    else
        op->parts[1].inputs[1] = place;
    begin_everywhere(op);
    world_wait(world, all_are_over, "an op whose memory is not there has not ended");
    assert_int_equal(op->parts[1].result, BLINK_ERR_SYSTEM);
    assert_true(op->parts[0].failed || op->parts[0].result == BLINK_OK);
    op_t *next = op_create(world, plan, count, false, NULL);
    begin_everywhere(next);
    world_wait(world, all_are_over, "the op after that has not ended");
    assert_right(next);
    assert_false(world->hosts[0].lost[1] || world->hosts[1].lost[0]);
    ops_destroy(world);
    holey_fini(&holey);
}

/* It grants as much as is wanted, and never tells what it has taken in. */
static void test_a_peer_that_tells_nothing_has_a_bound_of_copies(void **state)
{
    static const uint8_t source[1024];
    outbox_t outbox = {.keeps = true};
    bool whole;
    uint32_t copies = 0;
    (void)state;
    for (transport_move_t move;; copies++) {
        move = (transport_move_t){.frame = {.type = WIRE_DATA, .bytes = sizeof(source)}, .source = source};
        if (!outbox_add_move(&outbox, &move, &whole))
            break;
        assert_true(whole && copies <= DATA_UNSENT_MOST_BYTES / sizeof(source));
        outbox_gone(&outbox, WIRE_FRAME_BYTES + sizeof(source));
    }
    assert_in_range(outbox.bytes.count, DATA_UNSENT_MOST_BYTES / 2, DATA_UNSENT_MOST_BYTES);
    outbox_free(&outbox);
}

static void test_memory_that_is_not_there_fails_its_op(void **state)
{
    static const uint64_t counts[] = {100, 3 * PAGE_BYTES, 50 * PAGE_BYTES};
    topo_t *topo = hand_hosts(machines[0].devices, 2);
    plan_t *plan = make_plan(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    world_t world;
    (void)state;
    assert_int_equal(guard_install(), BLINK_OK);
    world_init(&world, topo, 2, true);
    for (uint32_t i = 0; i < 6; i++)
        check_holey_op(&world, plan, counts[i / 2], i % 2);
    world_fini(&world);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_move_of_no_flow),
        cmocka_unit_test(test_a_move_that_was_not_granted),
        cmocka_unit_test(test_a_move_that_comes_twice),
        cmocka_unit_test(test_a_move_beyond_its_landing),
        cmocka_unit_test(test_a_move_to_an_output_that_is_none),
        cmocka_unit_test(test_a_move_of_another_length),
        cmocka_unit_test(test_a_move_too_long),
        cmocka_unit_test(test_control_frames_do_not_come_over_other_streams),
        cmocka_unit_test(test_a_frame_of_no_type),
        cmocka_unit_test(test_what_the_engine_refuses_closes_the_endpoint),
        cmocka_unit_test(test_offers_that_contradict_the_program),
        cmocka_unit_test(test_a_failure_of_more_flows_than_a_fail_tells_of),
        cmocka_unit_test(test_a_second_begin),
        cmocka_unit_test(test_a_credit_beyond_the_op),
        cmocka_unit_test(test_a_fail_that_says_too_much_was_sent),
        cmocka_unit_test(test_a_peer_that_goes),
        cmocka_unit_test(test_a_peer_that_does_not_read),
        cmocka_unit_test(test_a_peer_that_tells_nothing_has_a_bound_of_copies),
        cmocka_unit_test(test_memory_that_is_not_there_fails_its_op),
    };
    log_init(LOG_LEVEL_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
