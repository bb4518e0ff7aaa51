/* libblinkclient and a driver that gives memory no ids (STANDIN_CUDA_NO_IDS). */
#include "client.h"

enum { BYTES = 1 << 20 };

/* An import of it would be taken for one of whatever is at that address later. */
static void test_memory_without_an_id_is_staged(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, BYTES);
    for (int i = 0; i < 2; i++) {
        blink_op_t *op;
        BLINK(blink_all_reduce(pointer_to(memory), pointer_to(memory), BYTES, BLINK_UINT8, BLINK_SUM, comm,
                               &op));
        BLINK(blink_wait(op));
        assert_int_equal(fake_seen(&daemon->fake, (uint32_t)i)->flags,
                         RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED);
    }
    assert_int_equal(atomic_load(&daemon->fake.import_count), 0);
    finish(daemon);
    CU(cuMemFree, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_without_an_id_is_staged),
    };
    return cmocka_run_group_tests(tests, find_driver, NULL);
}
