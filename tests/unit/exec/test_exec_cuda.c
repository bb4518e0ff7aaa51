/* The way to the GPU worker and back, with the test for a worker. */
#include "exec/cuda/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES     8u
#define ARENA_BYTES 4096u

static exec_cuda_t *start(ring_t *worker)
{
    const exec_cuda_config_t config = {0};
    exec_cuda_t *exec;
    gpu_channel_t channel = {.doorbell_fd = eventfd(0, EFD_NONBLOCK), .event_fd = ring_create_event()};
    assert_int_equal(ring_create(ENTRIES, ENTRIES, worker, &channel.ring_fd), BLINK_OK);
    channel.arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    channel.arena_bytes = ARENA_BYTES;
    assert_int_equal(exec_cuda_create(&config, &exec), BLINK_OK);
    assert_int_equal(exec_cuda_attach(exec, &channel), BLINK_OK);
    return exec;
}

static void stop(exec_cuda_t *exec, ring_t *worker)
{
    exec_cuda_destroy(exec);
    ring_unmap(worker);
}

static void send_entries(exec_cuda_t *exec, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cuda_request_t *request;
        assert_int_equal(cuda_request_make(exec, GPU_FREE, 0, &request), BLINK_OK);
        cuda_request_send(exec, request);
    }
}

/* As the worker's run thread does; how many that were. */
static uint32_t take_all(ring_t *worker, uint64_t user_data[ENTRIES])
{
    ring_sqe_t sqe;
    uint32_t count = 0;
    while (ring_take(worker, &sqe))
        user_data[count++] = sqe.user_data;
    return count;
}

/* A worker that has completed as many entries as there is room to complete takes no more, and sleeps: there
 * must be none that it sleeps over once the service has reaped. */
static void test_more_entries_than_completions(void **state)
{
    (void)state;
    ring_t worker;
    exec_cuda_t *exec = start(&worker);
    uint64_t user_data[ENTRIES], rings;
    exec_end_t end;
    uint32_t taken = 0, count;
    send_entries(exec, ENTRIES);
    count = take_all(&worker, user_data);
    send_entries(exec, ENTRIES); /* while these are under way */
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < count; i++)
            ring_complete(&worker, user_data[i], BLINK_OK, NULL);
        taken += count;
        assert_int_equal(take_all(&worker, user_data), 0);
        ring_set_engine_sleeping(&worker, true);
        assert_false(exec_poll(exec_of_cuda(exec), &end)); /* none of them is a run */
        ring_set_engine_sleeping(&worker, false);
        count = take_all(&worker, user_data);
        if (count > 0)
            assert_int_equal(read(exec->channel.doorbell_fd, &rings, sizeof(rings)), sizeof(rings));
    }
    assert_int_equal(taken, 2 * ENTRIES);
    assert_true(list_is_empty(&exec->requests));
    stop(exec, &worker);
}

/* What waits to be sent, or to run, must not fail for want of room that others have only for a while. */
static void test_more_bytes_than_the_arena_has(void **state)
{
    (void)state;
    ring_t worker;
    exec_cuda_t *exec = start(&worker);
    uint64_t user_data[ENTRIES];
    cuda_request_t *request;
    exec_end_t end;
    for (uint32_t i = 0; i < 2 * ENTRIES; i++) {
        assert_int_equal(cuda_request_make(exec, GPU_FREE, ARENA_BYTES / 3, &request), BLINK_OK);
        cuda_request_send(exec, request);
    }
    while (!list_is_empty(&exec->requests)) {
        uint32_t count = take_all(&worker, user_data);
        assert_in_range(count, 1, 3);
        for (uint32_t i = 0; i < count; i++)
            ring_complete(&worker, user_data[i], BLINK_OK, NULL);
        exec_poll(exec_of_cuda(exec), &end);
    }
    assert_int_equal(cuda_request_make(exec, GPU_FREE, ARENA_BYTES + 1, &request), BLINK_ERR_NO_MEMORY);
    stop(exec, &worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_entries_than_completions),
        cmocka_unit_test(test_more_bytes_than_the_arena_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
