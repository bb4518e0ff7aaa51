/* libblinkclient and a driver that, asked to lock memory, waits for all streams (STANDIN_CUDA_LOCK): what ops
 * need of that is there before any stream waits. */
#include "client.h"

#include "limit.h"

enum { BYTES = 4096 };

/* Rank 0's stream waits for what comes later. Rank 1, of the same process, puts its first ops on a stream,
 * from memory that is used in place and from memory that is staged, and does not wait for rank 0. */
static void test_first_ops_while_another_stream_waits(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUstream waiting, stream;
    CUdeviceptr memory;
    uint64_t *word;
    static uint8_t plain[BYTES];
    CU(cuMemHostAlloc, (void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP);
    CU(cuStreamCreate, &waiting, CU_STREAM_NON_BLOCKING);
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuMemAlloc, &memory, BYTES);
    CU(cuStreamWaitValue64, waiting, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ);

    alarm(limit_s()); /* for the driver waits for ever */
    BLINK(blink_all_reduce_on(pointer_to(memory), pointer_to(memory), BYTES, BLINK_UINT8, BLINK_SUM, comm,
                              stream));
    BLINK(blink_all_reduce_on(plain, plain, BYTES, BLINK_UINT8, BLINK_SUM, comm, stream));
    CU(cuStreamSynchronize, stream);
    assert_int_equal(cu->cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    alarm(0);

    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CU(cuStreamSynchronize, waiting);
    finish(daemon);
    CU(cuStreamDestroy, waiting);
    CU(cuStreamDestroy, stream);
    CU(cuMemFree, memory);
    CU(cuMemFreeHost, word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_ops_while_another_stream_waits),
    };
    return cmocka_run_group_tests(tests, find_driver, NULL);
}
