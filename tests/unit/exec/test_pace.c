/* Virtual finish times, with given times only: no test here looks at a clock. */
#include "exec/host/pace.h"

#include "error.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* gpu0 -> plx -> gpu1 and gpu2 -> plx: 1 GB/s into the switch, 2 GB/s out of it, 1 µs each. */
static topo_node_t nodes[] = {{.id = "gpu0", .kind = TOPO_DEVICE},
                              {.id = "plx", .kind = TOPO_SWITCH},
                              {.id = "gpu1", .kind = TOPO_DEVICE},
                              {.id = "gpu2", .kind = TOPO_DEVICE}};
static topo_link_t links[] = {{.from = 0, .to = 1, .GBps = 1.0, .unit_GBps = 1.0, .latency_us = 1.0},
                              {.from = 1, .to = 2, .GBps = 2.0, .unit_GBps = 2.0, .latency_us = 1.0},
                              {.from = 3, .to = 1, .GBps = 1.0, .unit_GBps = 1.0, .latency_us = 1.0}};
static const topo_t topo = {.node_count = 4, .link_count = 3, .gpu_count = 3, .nodes = nodes, .links = links};

static const uint32_t from_gpu0[] = {0, 1};
static const uint32_t from_gpu2[] = {2, 1};
static const pace_path_t out_of_gpu0 = {from_gpu0, 1, NULL};

static pace_flows_t *tenant, *communicator; /* of the pacer that is being tested */

static pace_t *make_pace_for(const topo_t *of, double scale)
{
    pace_t *pace = NULL;
    assert_int_equal(pace_create(of, scale, &pace), BLINK_OK);
    assert_int_equal(pace_flows_create(pace, NULL, 1, &tenant), BLINK_OK);
    assert_int_equal(pace_flows_create(pace, tenant, 1, &communicator), BLINK_OK);
    return pace;
}

static pace_t *make_pace(double scale)
{
    return make_pace_for(&topo, scale);
}

static void drop_pace(pace_t *pace)
{
    pace_flows_destroy(communicator);
    pace_flows_destroy(tenant);
    pace_destroy(pace);
}

/* Book for the only communicator of the only tenant. */
static pace_slot_t book(pace_t *pace, const uint32_t *path, uint32_t link_count, uint64_t bytes,
                        uint64_t ready_ns)
{
    return pace_book(pace, communicator, &(pace_path_t){path, link_count, NULL}, bytes, ready_ns);
}

static void test_transfer_lasts_as_long_as_the_slowest_link(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_slot_t slot = book(pace, from_gpu0, 2, 1000, 5000);
    assert_int_equal(slot.sent_ns, 6000);
    assert_int_equal(slot.arrived_ns, 8000);
    drop_pace(pace);
}

static void test_scale_slows_capacity_and_latency_alike(void **state)
{
    (void)state;
    pace_t *pace = make_pace(0.5);
    assert_true(pace_scale(pace) == 0.5);
    pace_slot_t slot = book(pace, from_gpu0, 2, 1000, 5000);
    assert_int_equal(slot.sent_ns, 7000);
    assert_int_equal(slot.arrived_ns, 11000);
    drop_pace(pace);
}

static void test_second_transfer_queues_behind_the_first(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    book(pace, from_gpu0, 2, 1000, 5000);
    assert_int_equal(book(pace, from_gpu0, 2, 1000, 5000).sent_ns, 7000);
    assert_int_equal(book(pace, from_gpu0, 2, 1000, 9000).sent_ns, 10000);
    drop_pace(pace);
}

static void test_busy_link_holds_up_only_what_crosses_it(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    book(pace, from_gpu0, 2, 1000, 5000);
    /* gpu2 -> plx is idle, plx -> gpu1 is taken for 500 ns of the 1000 that gpu0 -> plx needs. */
    assert_int_equal(book(pace, from_gpu2, 2, 1000, 5000).sent_ns, 6000);
    assert_int_equal(book(pace, from_gpu2 + 1, 1, 1000, 5000).sent_ns, 6500);
    drop_pace(pace);
}

static void test_late_booking_of_an_idle_link_costs_nothing(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    book(pace, from_gpu0, 2, 1000, 5000);
    book(pace, from_gpu0, 2, 1000, 6000);
    assert_int_equal(book(pace, from_gpu0, 2, 1000, 6000).sent_ns, 8000);
    drop_pace(pace);
}

static void test_backplane_of_a_switch_is_shared(void **state)
{
    (void)state;
    topo_node_t limited[] = {nodes[0], nodes[1], nodes[2], nodes[3]};
    limited[1].total_GBps = 0.25;
    topo_t shared = topo;
    shared.nodes = limited;
    pace_t *pace = make_pace_for(&shared, 1.0);
    assert_int_equal(book(pace, from_gpu0, 2, 1000, 5000).sent_ns, 9000);
    assert_int_equal(book(pace, from_gpu2, 2, 1000, 5000).sent_ns, 13000);
    drop_pace(pace);
}

/* A path from gpu0 to another host's device, and one from there to gpu1: only what is of this host counts. */
static void test_links_of_other_hosts_are_booked_there(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    const uint32_t leaving[] = {5, 6, 7}, coming[] = {7, 8, 9};
    const uint32_t own[] = {[5] = 0, [6] = TOPO_NONE, [7] = TOPO_NONE, [8] = TOPO_NONE, [9] = 1};
    pace_slot_t left = pace_book(pace, communicator, &(pace_path_t){leaving, 3, own}, 1000, 5000);
    assert_int_equal(left.sent_ns, 6000);
    assert_int_equal(left.arrived_ns, 7000);
    pace_slot_t came = pace_book(pace, communicator, &(pace_path_t){coming, 3, own}, 1000, 5000);
    assert_int_equal(came.sent_ns, 5500);
    assert_int_equal(came.arrived_ns, 6500);
    assert_int_equal(pace_alone_ns(pace, &(pace_path_t){leaving, 3, own}, 1000), 1000);
    assert_int_equal(pace_alone_ns(pace, &(pace_path_t){coming, 3, own}, 1000), 500);
    const uint32_t elsewhere[] = {6};
    pace_slot_t passed = pace_book(pace, communicator, &(pace_path_t){elsewhere, 1, own}, 1000, 5000);
    assert_int_equal(passed.arrived_ns, 5000);
    drop_pace(pace);
}

static void test_empty_transfer_still_takes_the_latency(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_slot_t slot = book(pace, from_gpu0, 2, 0, 5000);
    assert_int_equal(slot.sent_ns, 5000);
    assert_int_equal(slot.arrived_ns, 7000);
    drop_pace(pace);
}

/* ---- shares ---- */

#define CHUNK_BYTES 1000u

/* Communicators of a tenant that book chunk after chunk, so many at a time, on gpu0 -> plx. */
typedef struct user {
    uint32_t weight, communicators, ahead;
    uint64_t from_ns, until_ns; /* when it has something to send */
    pace_flows_t *tenant, *flows[64];
    uint64_t ready_ns[64][4]; /* when its next chunk may be booked */
    uint64_t bytes;           /* that were through by the end of the time */
    uint64_t booked_bytes;
    uint64_t longest_ns; /* that a chunk took */
} user_t;

static void user_init(const pace_t *pace, user_t *user)
{
    assert_int_equal(pace_flows_create(pace, NULL, user->weight, &user->tenant), BLINK_OK);
    for (uint32_t c = 0; c < user->communicators; c++) {
        assert_int_equal(pace_flows_create(pace, user->tenant, 1, &user->flows[c]), BLINK_OK);
        for (uint32_t i = 0; i < user->ahead; i++)
            user->ready_ns[c][i] = user->from_ns;
    }
}

static void user_fini(user_t *user)
{
    for (uint32_t c = 0; c < user->communicators; c++)
        pace_flows_destroy(user->flows[c]);
    pace_flows_destroy(user->tenant);
}

/* The chunk that may be booked first, of all users. */
static uint64_t *next_chunk(user_t *users, uint32_t count, user_t **of, uint32_t *communicator_of)
{
    uint64_t *next = NULL;
    for (uint32_t u = 0; u < count; u++) {
        for (uint32_t c = 0; c < users[u].communicators; c++) {
            for (uint32_t i = 0; i < users[u].ahead; i++) {
                uint64_t *ready_ns = &users[u].ready_ns[c][i];
                if (*ready_ns >= users[u].until_ns || (next && *ready_ns >= *next))
                    continue;
                next = ready_ns;
                *of = &users[u];
                *communicator_of = c;
            }
        }
    }
    return next;
}

/* Let the users book until nobody has anything left to send before end_ns. Returns when the link is idle. */
static uint64_t share_link(user_t *users, uint32_t count, uint64_t end_ns)
{
    pace_t *pace = NULL;
    user_t *of;
    uint32_t c;
    uint64_t *ready_ns, idle_ns = 0;
    assert_int_equal(pace_create(&topo, 1.0, &pace), BLINK_OK);
    for (uint32_t u = 0; u < count; u++)
        user_init(pace, &users[u]);
    while ((ready_ns = next_chunk(users, count, &of, &c)) && *ready_ns < end_ns) {
        uint64_t sent_ns = pace_book(pace, of->flows[c], &out_of_gpu0, CHUNK_BYTES, *ready_ns).sent_ns;
        of->bytes += sent_ns <= end_ns ? CHUNK_BYTES : 0;
        of->booked_bytes += CHUNK_BYTES;
        of->longest_ns = sent_ns - *ready_ns > of->longest_ns ? sent_ns - *ready_ns : of->longest_ns;
        idle_ns = sent_ns > idle_ns ? sent_ns : idle_ns;
        *ready_ns = sent_ns;
    }
    for (uint32_t u = 0; u < count; u++)
        user_fini(&users[u]);
    pace_destroy(pace);
    return idle_ns;
}

/* Of a link that carries a byte in each nanosecond. */
static void assert_share(const user_t *user, uint64_t end_ns, double share)
{
    double got = (double)user->bytes / (double)end_ns;
    if (fabs(got / share - 1) > 0.05)
        fail_msg("a share of %g instead of %g", got, share);
}

#define SHARED_NS 10000000u

static void test_tenants_share_a_link_by_their_weights(void **state)
{
    (void)state;
    const uint32_t communicators[][2] = {{1, 1}, {1, 64}, {64, 1}, {8, 8}};
    for (size_t i = 0; i < sizeof(communicators) / sizeof(communicators[0]); i++) {
        user_t users[] = {
            {.weight = 3, .communicators = communicators[i][0], .ahead = 4, .until_ns = SHARED_NS},
            {.weight = 1, .communicators = communicators[i][1], .ahead = 2, .until_ns = SHARED_NS}};
        share_link(users, 2, SHARED_NS);
        assert_share(&users[0], SHARED_NS, 0.75);
        assert_share(&users[1], SHARED_NS, 0.25);
    }
}

static void test_three_tenants_never_get_more_than_the_link_has(void **state)
{
    (void)state;
    user_t users[] = {{.weight = 2, .communicators = 20, .ahead = 4, .until_ns = SHARED_NS},
                      {.weight = 1, .communicators = 20, .ahead = 4, .until_ns = SHARED_NS},
                      {.weight = 1, .communicators = 1, .ahead = 2, .until_ns = SHARED_NS}};
    uint64_t idle_ns = share_link(users, 3, SHARED_NS);
    assert_share(&users[0], SHARED_NS, 0.5);
    assert_share(&users[1], SHARED_NS, 0.25);
    assert_share(&users[2], SHARED_NS, 0.25);
    assert_true(users[0].booked_bytes + users[1].booked_bytes + users[2].booked_bytes <= idle_ns);
}

static void test_what_a_tenant_does_not_use_is_given_away(void **state)
{
    (void)state;
    user_t users[] = {{.weight = 3, .communicators = 1, .ahead = 2, .until_ns = SHARED_NS / 2},
                      {.weight = 1, .communicators = 4, .ahead = 4, .until_ns = SHARED_NS}};
    share_link(users, 2, SHARED_NS);
    assert_share(&users[0], SHARED_NS, 0.375);
    assert_share(&users[1], SHARED_NS, 0.625);
}

/* The bursts of one tenant are not for nothing: who has booked ahead at the full rate is put off by them. */
static void test_a_link_catches_up_with_what_was_booked_before_a_burst(void **state)
{
    (void)state;
    user_t users[] = {{.weight = 1, .communicators = 64, .ahead = 4, .until_ns = SHARED_NS},
                      {.weight = 1, .communicators = 1, .ahead = 1, .from_ns = 5000000, .until_ns = 5010000}};
    uint64_t idle_ns = share_link(users, 2, SHARED_NS);
    assert_true(users[1].longest_ns <= 2 * CHUNK_BYTES);
    assert_true(users[0].booked_bytes + users[1].booked_bytes <= idle_ns + idle_ns / 100);
}

static void test_communicators_of_a_tenant_share_equally(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_flows_t *other;
    assert_int_equal(pace_flows_create(pace, tenant, 1, &other), BLINK_OK);
    for (uint32_t i = 0; i < 10; i++)
        book(pace, from_gpu0, 1, CHUNK_BYTES, 0);
    assert_int_equal(pace_book(pace, other, &out_of_gpu0, CHUNK_BYTES, 0).sent_ns, 2 * CHUNK_BYTES);
    assert_int_equal(book(pace, from_gpu0, 1, CHUNK_BYTES, 0).sent_ns, 12 * CHUNK_BYTES);
    pace_flows_destroy(other);
    drop_pace(pace);
}

static void test_scale_must_be_positive(void **state)
{
    (void)state;
    const double bad[] = {0.0, -1.0, NAN, INFINITY};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pace_t *pace = NULL;
        assert_int_equal(pace_create(&topo, bad[i], &pace), BLINK_ERR_INVALID_ARGUMENT);
        assert_null(pace);
        assert_non_null(strstr(blink_error_text(), "scale"));
    }
}

static void test_default_scale_has_one_significant_digit(void **state)
{
    (void)state;
    double scale = pace_default_scale(&topo, 1);
    assert_true(scale > 0.0);
    double digit = scale / pow(10.0, floor(log10(scale * 1.000001)));
    assert_true(fabs(digit - round(digit)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfer_lasts_as_long_as_the_slowest_link),
        cmocka_unit_test(test_scale_slows_capacity_and_latency_alike),
        cmocka_unit_test(test_second_transfer_queues_behind_the_first),
        cmocka_unit_test(test_busy_link_holds_up_only_what_crosses_it),
        cmocka_unit_test(test_late_booking_of_an_idle_link_costs_nothing),
        cmocka_unit_test(test_backplane_of_a_switch_is_shared),
        cmocka_unit_test(test_links_of_other_hosts_are_booked_there),
        cmocka_unit_test(test_empty_transfer_still_takes_the_latency),
        cmocka_unit_test(test_tenants_share_a_link_by_their_weights),
        cmocka_unit_test(test_three_tenants_never_get_more_than_the_link_has),
        cmocka_unit_test(test_what_a_tenant_does_not_use_is_given_away),
        cmocka_unit_test(test_a_link_catches_up_with_what_was_booked_before_a_burst),
        cmocka_unit_test(test_communicators_of_a_tenant_share_equally),
        cmocka_unit_test(test_scale_must_be_positive),
        cmocka_unit_test(test_default_scale_has_one_significant_digit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
