/* libblinkclient in an application whose CUDA driver it cannot use, since that is too old: memory of the
 * host is as good as ever, and memory of the driver's is refused instead of being copied from. */
#include "base/cuda_api.h"
#include "unit/client/fake_daemon.h"

#include <dlfcn.h>

static struct {
    CUdeviceptr memory;
    CUresult (*alloc)(CUdeviceptr *memory, size_t bytes);
    CUresult (*init)(unsigned int flags);
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*set)(CUcontext context);
} cuda;

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        fail_msg("%s", dlerror());
    memcpy(function, &symbol, sizeof(symbol));
}

/* As an application does that has its own use for CUDA. */
static int allocate(void **state)
{
    (void)state;
    CUcontext context;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        fail_msg("%s", dlerror());
    find(library, "cuInit", &cuda.init);
    find(library, "cuDevicePrimaryCtxRetain", &cuda.retain);
    find(library, "cuCtxSetCurrent", &cuda.set);
    find(library, "cuMemAlloc_v2", &cuda.alloc);
    assert_int_equal(cuda.init(0), CUDA_SUCCESS);
    assert_int_equal(cuda.retain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuda.set(context), CUDA_SUCCESS);
    assert_int_equal(cuda.alloc(&cuda.memory, 4096), CUDA_SUCCESS);
    return 0;
}

#define WHY                                                                                                  \
    "the driver, libcuda.so.1 of CUDA 11.7, has no cuStreamGetId: blinkd needs one of CUDA 12.0 (R525) or "  \
    "later"

static void reduce(blink_comm_t *comm, void *memory)
{
    blink_op_t *op;
    assert_int_equal(blink_all_reduce(memory, memory, 64, BLINK_UINT8, BLINK_SUM, comm, &op), BLINK_OK);
    assert_int_equal(blink_wait(op), BLINK_OK);
}

static void refuse(blink_comm_t *comm, const void *send, void *recv, const char *text)
{
    blink_op_t *op;
    assert_fails(BLINK_ERR_UNSUPPORTED, text,
                 blink_all_reduce(send, recv, 64, BLINK_UINT8, BLINK_SUM, comm, &op));
}

static void test_memory_of_the_driver_is_refused(void **state)
{
    (void)state;
    static uint8_t uuid[16] = {1};
    uint8_t plain[64] = {0};
    void *memory = (char *)(uintptr_t)cuda.memory + 64;
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        fake_t fake = {.rank_count = 1, .gpu_uuid = on_gpu ? uuid : NULL};
        blink_context_t *context = open_context(&fake);
        blink_comm_t *comm = join(context, 1, 0);
        refuse(comm, memory, plain, "send buffer 0x");
        refuse(comm, plain, memory, "is GPU memory, but " WHY);
        reduce(comm, plain);
        blink_close(context);
        fake_stop(&fake);
    }
}

static void test_calls_on_streams_say_why_not(void **state)
{
    (void)state;
    static uint8_t uuid[16] = {1};
    fake_t fake = {.rank_count = 1, .gpu_uuid = uuid};
    blink_context_t *context = open_context(&fake);
    blink_comm_t *comm = join(context, 1, 0);
    assert_fails(BLINK_ERR_UNSUPPORTED, WHY, blink_barrier_on(comm, NULL));
    blink_close(context);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_the_driver_is_refused),
        cmocka_unit_test(test_calls_on_streams_say_why_not),
    };
    return cmocka_run_group_tests(tests, allocate, NULL);
}
