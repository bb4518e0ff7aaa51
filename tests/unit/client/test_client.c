/* libblinkclient against a fake daemon: opening and closing, ops, threads that share a context, the daemon's
 * death, and every check that the library makes by itself. */
#include "fake_daemon.h"

#include <fcntl.h>
#include <sys/mman.h>

#define THREADS         4u
#define NOPS_PER_THREAD 5000u
#define CLOSE_LINGER_US 50000u
#define REGION_BYTES    8192u
#define NOP_WINDOW_MAX  20u

/* ---- opening and closing ---- */

static void test_open_without_a_daemon_names_the_path(void **state)
{
    (void)state;
    blink_context_t *context;
    assert_fails(BLINK_ERR_CONNECT, "/nowhere/sock", blink_open("/nowhere/sock", &context));
    setenv(BLINK_SOCKET_ENV, "/elsewhere/sock", 1);
    assert_fails(BLINK_ERR_CONNECT, "/elsewhere/sock", blink_open(NULL, &context));
    unsetenv(BLINK_SOCKET_ENV);
}

static void test_versions_that_do_not_meet_are_named(void **state)
{
    (void)state;
    blink_context_t *context;
    fake_t refusing = {0}, confused = {.answer_version = 7};
    fake_start(&refusing);
    assert_fails(BLINK_ERR_PROTOCOL, "client speaks versions 1 to 1, daemon 2 to 3",
                 blink_open(refusing.path, &context));
    fake_stop(&refusing);
    fake_start(&confused);
    assert_fails(BLINK_ERR_PROTOCOL, "version 7, this library speaks 2 to 2",
                 blink_open(confused.path, &context));
    fake_stop(&confused);
}

static void test_close_waits_until_the_daemon_has_let_go(void **state)
{
    (void)state;
    fake_t fake = {.linger_us = CLOSE_LINGER_US};
    blink_context_t *context = open_context(&fake);
    void *memory;
    assert_int_equal(blink_mem_alloc(context, REGION_BYTES, &memory), BLINK_OK);
    join(context, 1, 0); /* left for blink_close() */
    blink_close(context);
    assert_true(atomic_load(&fake.gone));
    fake_stop(&fake);
}

/* ---- ops ---- */

static void *submit_nops(void *argument)
{
    blink_context_t *context = argument;
    blink_op_t *ops[NOP_WINDOW_MAX];
    uint32_t failed = 0;
    for (uint32_t sent = 0, window = 1; sent < NOPS_PER_THREAD; sent += window) {
        window = 1 + (window * 7 + 3) % NOP_WINDOW_MAX;
        for (uint32_t i = 0; i < window; i++)
            failed += blink_nop(context, &ops[i]) != BLINK_OK;
        for (uint32_t i = window; i-- > 0;)
            failed += blink_wait(ops[i]) != BLINK_OK;
    }
    return failed > 0 ? argument : NULL;
}

static void share_context(ring_wait_policy_t policy)
{
    fake_t fake = {0};
    blink_context_t *context = open_context(&fake);
    pthread_t threads[THREADS];
    void *failed;
    ring_set_wait_policy(&fake.ring, policy);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_nops, context), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(fake.completed >= THREADS * NOPS_PER_THREAD);
    blink_close(context);
    fake_stop(&fake);
}

static void test_four_threads_share_a_context_asleep(void **state)
{
    (void)state;
    share_context(RING_WAIT_SLEEP);
}

static void test_four_threads_share_a_context_yielding(void **state)
{
    (void)state;
    share_context(RING_WAIT_YIELD);
}

static void test_four_threads_share_a_context_spinning(void **state)
{
    (void)state;
    share_context(RING_WAIT_SPIN);
}

static void test_more_ops_than_the_ring_holds_all_complete(void **state)
{
    (void)state;
    enum { OPS = 1000 };
    fake_t fake = {.idle = true};
    blink_context_t *context = open_context(&fake);
    blink_op_t *ops[OPS];
    for (int i = 0; i < OPS; i++)
        assert_int_equal(blink_nop(context, &ops[i]), BLINK_OK);
    atomic_store(&fake.idle, false);
    for (int i = OPS; i-- > 0;)
        assert_int_equal(blink_wait(ops[i]), BLINK_OK);
    assert_int_equal(fake.completed, OPS);
    blink_close(context);
    fake_stop(&fake);
}

static void test_parked_ops_move_on_without_any_call(void **state)
{
    (void)state;
    enum { OPS = 100 };
    fake_t fake = {.idle = true};
    blink_context_t *context = open_context(&fake);
    blink_op_t *op;
    for (int i = 0; i < OPS; i++)
        assert_int_equal(blink_nop(context, &op), BLINK_OK);
    atomic_store(&fake.idle, false);
    while (atomic_load(&fake.completed) < OPS)
        usleep(1000); /* the alarm ends it if they do not */
    blink_close(context);
    fake_stop(&fake);
}

/* One thread drives both ranks, one after the other, far past what the ring holds. */
static void test_ranks_that_share_a_context_do_not_starve_one_another(void **state)
{
    (void)state;
    enum { OPS = 200 };
    fake_t fake = {.pair_members = 2};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comms[2] = {join(context, 2, 0), join(context, 2, 1)};
    blink_op_t *ops[2][OPS];
    for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < OPS; i++)
            assert_int_equal(
                blink_all_reduce(NULL, NULL, 0, BLINK_INT32, BLINK_SUM, comms[rank], &ops[rank][i]),
                BLINK_OK);
    }
    for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < OPS; i++)
            assert_int_equal(blink_wait(ops[rank][i]), BLINK_OK);
        assert_int_equal(blink_comm_destroy(comms[rank]), BLINK_OK);
    }
    assert_int_equal(fake.completed, 2 * OPS);
    blink_close(context);
    fake_stop(&fake);
}

static void test_a_failed_op_tells_its_sentence(void **state)
{
    (void)state;
    fake_t fake = {.fail_with = BLINK_ERR_MISMATCH, .fail_text = "rank 0 has count 4, rank 3 count 5"};
    blink_context_t *context = open_context(&fake);
    blink_op_t *op;
    bool done = false;
    blink_result_t result = BLINK_OK;
    assert_int_equal(blink_nop(context, &op), BLINK_OK);
    assert_fails(BLINK_ERR_MISMATCH, "rank 0 has count 4, rank 3 count 5", blink_wait(op));
    assert_int_equal(blink_nop(context, &op), BLINK_OK);
    while (!done)
        result = blink_test(op, &done);
    assert_int_equal(result, BLINK_ERR_MISMATCH);
    blink_close(context);
    fake_stop(&fake);
}

static void test_poll_fd_becomes_readable(void **state)
{
    (void)state;
    fake_t fake = {0};
    blink_context_t *context = open_context(&fake);
    blink_op_t *op;
    int fd;
    bool done = false;
    uint64_t count;
    assert_int_equal(blink_poll_fd(context, &fd), BLINK_OK);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 0), 0);
    assert_int_equal(blink_nop(context, &op), BLINK_OK);
    assert_int_equal(poll(&readable, 1, -1), 1);
    assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
    assert_int_equal(blink_test(op, &done), BLINK_OK);
    assert_true(done);
    blink_close(context);
    fake_stop(&fake);
}

/* ---- the daemon dies ---- */

typedef struct waiter {
    pthread_t thread;
    blink_context_t *context;
    blink_result_t result;
} waiter_t;

static void *wait_for_one(void *argument)
{
    waiter_t *waiter = argument;
    blink_op_t *op;
    waiter->result = blink_nop(waiter->context, &op);
    if (waiter->result == BLINK_OK)
        waiter->result = blink_wait(op);
    return NULL;
}

static void daemon_dies_under(ring_wait_policy_t policy, uint32_t before_us)
{
    fake_t fake = {.idle = true};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, 1, 0);
    waiter_t waiters[2 * RING_ENTRIES]; /* more than the ring holds: some ops are parked */
    void *memory;
    blink_op_t *op;
    blink_result_t async = BLINK_OK;
    ring_set_wait_policy(&fake.ring, policy);
    assert_int_equal(blink_mem_alloc(context, REGION_BYTES, &memory), BLINK_OK);
    assert_int_equal(blink_all_reduce(NULL, NULL, 0, BLINK_INT8, BLINK_SUM, comm, &op), BLINK_OK);
    for (uint32_t i = 0; i < 2 * RING_ENTRIES; i++) {
        waiters[i].context = context;
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_one, &waiters[i]), 0);
    }
    usleep(before_us);
    fake_stop(&fake);
    for (uint32_t i = 0; i < 2 * RING_ENTRIES; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].result, BLINK_ERR_DAEMON_LOST);
    }
    assert_int_equal(blink_wait(op), BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_nop(context, &op), BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_comm_async_error(comm, &async), BLINK_OK);
    assert_int_equal(async, BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_comm_destroy(comm), BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_mem_free(context, memory), BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_mem_free(context, memory), BLINK_ERR_NOT_REGISTERED);
    blink_close(context);
}

static void test_daemon_death_ends_every_waiter(void **state)
{
    (void)state;
    static const ring_wait_policy_t policies[] = {RING_WAIT_SLEEP, RING_WAIT_YIELD, RING_WAIT_SPIN};
    for (uint32_t i = 0; i < 3; i++) {
        daemon_dies_under(policies[i], 20000);
        for (uint32_t before_us = 0; before_us < 400; before_us += 40)
            daemon_dies_under(policies[i], before_us);
    }
}

/* ---- memory ---- */

static void test_buffers_are_checked_at_submission(void **state)
{
    (void)state;
    fake_t fake = {0};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, 2, 0);
    blink_op_t *op;
    void *memory;
    assert_int_equal(blink_mem_alloc(context, REGION_BYTES, &memory), BLINK_OK);
    float *floats = memory;
    char *bytes = memory;
    const size_t count = REGION_BYTES / sizeof(float);
    const blink_datatype_t f32 = BLINK_FLOAT32;
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "of 8192 bytes runs 4 bytes past the end",
                 blink_all_reduce(floats + 1, floats + 1, count, f32, BLINK_SUM, comm, &op));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "not aligned to its elements of 4 bytes",
                 blink_all_reduce(bytes + 2, bytes + 2, 1, f32, BLINK_SUM, comm, &op));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "overlap without being equal",
                 blink_all_reduce(floats, floats + 1, 2, f32, BLINK_SUM, comm, &op));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "more than memory can hold",
                 blink_all_reduce(floats, floats, SIZE_MAX / 2, f32, BLINK_SUM, comm, &op));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "datatype 12 is none",
                 blink_all_reduce(floats, floats, 1, (blink_datatype_t)12, BLINK_SUM, comm, &op));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "operator 9 is none",
                 blink_all_reduce(floats, floats, 1, f32, (blink_redop_t)9, comm, &op));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "root 2 is not among 2 ranks",
                 blink_broadcast(floats, floats, 1, f32, 2, comm, &op));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "recv buffer is NULL",
                 blink_broadcast(NULL, NULL, 1, f32, 1, comm, &op));

    assert_int_equal(blink_broadcast(NULL, floats, count, f32, 1, comm, &op), BLINK_OK); /* not the root */
    assert_int_equal(blink_wait(op), BLINK_OK);
    assert_int_equal(blink_all_reduce(floats, floats + count / 2, count / 2, f32, BLINK_MAX, comm, &op),
                     BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    assert_int_equal(blink_all_reduce(NULL, NULL, 0, f32, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    blink_close(context);
    fake_stop(&fake);
}

static int memfd_of(size_t bytes, int seals)
{
    int fd = memfd_create("test-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void test_own_memory_is_checked_and_registered(void **state)
{
    (void)state;
    fake_t fake = {0};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, 1, 0);
    blink_op_t *op;
    int unsealed = memfd_of(REGION_BYTES, F_SEAL_GROW), sealed = memfd_of(REGION_BYTES, F_SEAL_SHRINK);
    int read_only = memfd_of(REGION_BYTES, F_SEAL_SHRINK | F_SEAL_WRITE);
    int plain = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char *memory = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sealed, 0);
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    assert_fails(invalid, "not a memfd", blink_mem_register(context, memory, REGION_BYTES, plain, 0));
    assert_fails(invalid, "F_SEAL_SHRINK", blink_mem_register(context, memory, REGION_BYTES, unsealed, 0));
    assert_fails(invalid, "against writing", blink_mem_register(context, memory, REGION_BYTES, read_only, 0));
    assert_fails(invalid, "pass the end", blink_mem_register(context, memory, REGION_BYTES + 1, sealed, 0));
    assert_fails(invalid, "multiples of a page", blink_mem_register(context, memory, 8, sealed, 8));

    assert_int_equal(blink_mem_register(context, memory, REGION_BYTES, sealed, 0), BLINK_OK);
    assert_fails(BLINK_ERR_EXISTS, "overlaps",
                 blink_mem_register(context, memory + 4096, 4096, sealed, 4096));
    assert_fails(BLINK_ERR_NOT_REGISTERED, "no allocated memory", blink_mem_free(context, memory));
    assert_int_equal(blink_all_reduce(memory, memory, REGION_BYTES, BLINK_INT8, BLINK_SUM, comm, &op),
                     BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
    assert_int_equal(blink_mem_deregister(context, memory), BLINK_OK);
    assert_fails(BLINK_ERR_NOT_REGISTERED, "no registered memory", blink_mem_deregister(context, memory));
    blink_close(context);
    fake_stop(&fake);
    munmap(memory, REGION_BYTES);
    close(unsealed), close(sealed), close(read_only), close(plain);
}

/* ---- communicators ---- */

static void test_joining_checks_its_arguments(void **state)
{
    (void)state;
    fake_t fake = {0};
    blink_context_t *context = open_context(&fake);
    blink_unique_id_t id, other;
    blink_comm_t *comm;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    int rank, size, device;
    assert_int_equal(blink_get_unique_id(context, &id), BLINK_OK);
    assert_int_equal(blink_get_unique_id(context, &other), BLINK_OK);
    assert_memory_equal(&id, &FAKE_HOME, UNIQUE_ID_HOME_BYTES);
    assert_memory_equal(&other, &FAKE_HOME, UNIQUE_ID_HOME_BYTES);
    assert_memory_not_equal(id.bytes + UNIQUE_ID_HOME_BYTES, other.bytes + UNIQUE_ID_HOME_BYTES, 16);
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    assert_fails(invalid, "context is NULL", blink_get_unique_id(NULL, &id));
    assert_fails(invalid, "id is NULL", blink_get_unique_id(context, NULL));
    assert_fails(invalid, "rank count 0", blink_comm_init_rank(context, &id, 0, 0, NULL, &comm));
    assert_fails(invalid, "rank 2 is not among 2 ranks",
                 blink_comm_init_rank(context, &id, 2, 2, NULL, &comm));
    config.device = 3;
    assert_int_equal(blink_comm_init_rank(context, &id, 2, 1, &config, &comm), BLINK_OK);
    assert_int_equal(blink_comm_rank(comm, &rank), BLINK_OK);
    assert_int_equal(blink_comm_size(comm, &size), BLINK_OK);
    assert_int_equal(blink_comm_device(comm, &device), BLINK_OK);
    assert_int_equal(rank, 1);
    assert_int_equal(size, 2);
    assert_int_equal(device, 3);
    config.struct_bytes = 4;
    assert_fails(invalid, "struct_bytes is 4", blink_comm_init_rank(context, &id, 2, 1, &config, &comm));
    blink_close(context);
    fake_stop(&fake);
}

static void test_an_abort_shows_as_async_error(void **state)
{
    (void)state;
    fake_t fake = {0};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, 2, 0), *other = join(context, 2, 1);
    blink_result_t async;
    assert_int_equal(blink_comm_async_error(comm, &async), BLINK_OK);
    assert_int_equal(async, BLINK_OK);
    assert_int_equal(blink_comm_abort(comm), BLINK_OK);
    assert_int_equal(blink_comm_async_error(comm, &async), BLINK_OK);
    assert_int_equal(async, BLINK_ERR_ABORTED);
    assert_string_equal(blink_last_error(), "rank 1 aborted");
    assert_int_equal(blink_comm_async_error(other, &async), BLINK_OK);
    assert_int_equal(async, BLINK_OK);
    assert_int_equal(blink_comm_destroy(comm), BLINK_OK);
    blink_close(context);
    fake_stop(&fake);
}

static void test_ten_thousand_communicators_live_in_one_context(void **state)
{
    (void)state;
    enum { COMMS = 10000 };
    fake_t fake = {0};
    blink_context_t *context = open_context(&fake);
    static blink_comm_t *comms[COMMS];
    static blink_op_t *ops[COMMS];
    for (int i = 0; i < COMMS; i++)
        comms[i] = join(context, 1, 0);
    for (int i = 0; i < COMMS; i++)
        assert_int_equal(blink_barrier(comms[i], &ops[i]), BLINK_OK);
    for (int i = COMMS; i-- > 0;)
        assert_int_equal(blink_wait(ops[i]), BLINK_OK);
    assert_int_equal(fake.completed, COMMS);
    for (int i = 0; i < COMMS; i += 2)
        assert_int_equal(blink_comm_destroy(comms[i]), BLINK_OK);
    blink_close(context);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_without_a_daemon_names_the_path),
        cmocka_unit_test(test_versions_that_do_not_meet_are_named),
        cmocka_unit_test(test_close_waits_until_the_daemon_has_let_go),
        cmocka_unit_test(test_four_threads_share_a_context_asleep),
        cmocka_unit_test(test_four_threads_share_a_context_yielding),
        cmocka_unit_test(test_four_threads_share_a_context_spinning),
        cmocka_unit_test(test_more_ops_than_the_ring_holds_all_complete),
        cmocka_unit_test(test_parked_ops_move_on_without_any_call),
        cmocka_unit_test(test_ranks_that_share_a_context_do_not_starve_one_another),
        cmocka_unit_test(test_a_failed_op_tells_its_sentence),
        cmocka_unit_test(test_poll_fd_becomes_readable),
        cmocka_unit_test(test_daemon_death_ends_every_waiter),
        cmocka_unit_test(test_buffers_are_checked_at_submission),
        cmocka_unit_test(test_own_memory_is_checked_and_registered),
        cmocka_unit_test(test_joining_checks_its_arguments),
        cmocka_unit_test(test_an_abort_shows_as_async_error),
        cmocka_unit_test(test_ten_thousand_communicators_live_in_one_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
