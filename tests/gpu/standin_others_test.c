/* Calls of the stand-in that blinkd makes nowhere: programs of others do. They are not in blinkd's table, so
 * this is linked with the stand-in. */
#include "standin/process.h"

static void test_streams_have_priorities(int socket)
{
    int least = 1, greatest = 1;
    CUstream stream;
    (void)socket;
    process_load();
    CU(cuInit, 0);
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_ERROR_INVALID_CONTEXT);
    process_use(0);
    CHECK(cuCtxGetStreamPriorityRange(&least, NULL) == CUDA_SUCCESS && least == 0);
    CHECK(cuCtxGetStreamPriorityRange(NULL, &greatest) == CUDA_SUCCESS && greatest < 0);
    CHECK(cuStreamCreateWithPriority(NULL, CU_STREAM_NON_BLOCKING, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamCreateWithPriority(&stream, 2, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 1) == CUDA_SUCCESS);
    CU(cuStreamSynchronize, stream);
    CU(cuStreamDestroy, stream);
}

static void test_a_device_has_a_pool_that_stays_its_own(int socket)
{
    CUmemoryPool pool, again, other;
    CUdeviceptr address;
    CUmemPoolPtrExportData pointer;
    int file;
    (void)socket;
    process_use(0);
    CHECK(cuDeviceGetMemPool(NULL, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuDeviceGetMemPool(&pool, 2) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceGetMemPool(&pool, 0) == CUDA_SUCCESS);
    CHECK(cuDeviceGetMemPool(&again, 0) == CUDA_SUCCESS && again == pool);
    CHECK(cuDeviceGetMemPool(&other, 1) == CUDA_SUCCESS && other != pool);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy, pool);
    CU(cuMemAllocFromPoolAsync, &address, 100, pool, NULL);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer, &pointer, address);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle, &file, pool,
                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    CU(cuMemFreeAsync, address, NULL);
}

static void test_a_pool_remembers_its_threshold(int socket)
{
    CUmemoryPool pool, none = NULL;
    uint64_t bytes = 1;
    (void)socket;
    process_use(0);
    CHECK(cuDeviceGetMemPool(&pool, 0) == CUDA_SUCCESS);
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes) == CUDA_SUCCESS && !bytes);
    bytes = UINT64_MAX;
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes) == CUDA_SUCCESS);
    bytes = 0;
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes) == CUDA_SUCCESS);
    CHECK(bytes == UINT64_MAX);
    CHECK(cuMemPoolGetAttribute(none, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)0, &bytes) == CUDA_ERROR_INVALID_VALUE);
}

#define TEST(name, environment)                                                                              \
    {                                                                                                        \
#name, name, environment                                                                             \
    }

int main(void)
{
    static const process_test_t tests[] = {
        TEST(test_streams_have_priorities, NULL),
        TEST(test_a_device_has_a_pool_that_stays_its_own, "STANDIN_CUDA_GPUS=2"),
        TEST(test_a_pool_remembers_its_threshold, NULL),
    };
    return process_run_all(tests, sizeof(tests) / sizeof(tests[0]));
}
