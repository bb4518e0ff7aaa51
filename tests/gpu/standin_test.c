/* The stand-in driver: memory, GPUs and what they reach, what the environment asks for. */
#include "standin/process.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 3 << 20, GRANULARITY = 2 << 20 };

static uint64_t buffer_id(CUdeviceptr address)
{
    unsigned long long id;
    CU(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    return id;
}

static void test_a_reused_address_gets_a_new_buffer_id(int socket)
{
    (void)socket;
    process_use(0);
    CUdeviceptr first, second;
    unsigned long long id;
    CU(cuMemAlloc, &first, BYTES);
    uint64_t first_id = buffer_id(first);
    CHECK(first_id == buffer_id(first + BYTES - 1));
    CU(cuMemFree, first);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, first);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFree, first);
    CU(cuMemAlloc, &second, BYTES);
    CHECK(second == first && buffer_id(second) > first_id);
}

static void test_attributes_tell_what_memory_is(int socket)
{
    (void)socket;
    CUcontext context = process_use(1), found_context;
    CUdeviceptr address, start, base;
    size_t size, base_size;
    int ordinal, type;
    bool is_legacy;
    unsigned long long handle_types;
    CU(cuMemAlloc, &address, 1000);
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES};
    void *data[] = {&found_context, &type, &ordinal, &is_legacy, &start, &size, &handle_types};
    CU(cuPointerGetAttributes, 7, attributes, data, address + 999);
    CHECK(found_context == context && type == CU_MEMORYTYPE_DEVICE && ordinal == 1 && is_legacy);
    CHECK(start == address && size == 1000 && handle_types == 0);
    CU(cuMemGetAddressRange, &base, &base_size, address + 1);
    CHECK(base == address && base_size == 1000);
    void *host;
    CU(cuMemHostAlloc, &host, 64, CU_MEMHOSTALLOC_PORTABLE);
    CU(cuPointerGetAttributes, 7, attributes, data, (CUdeviceptr)(uintptr_t)host);
    CHECK(type == CU_MEMORYTYPE_HOST && !is_legacy && size == 64);
    CU(cuMemFreeHost, host);
    CU(cuPointerGetAttributes, 7, attributes, data, (CUdeviceptr)(uintptr_t)&size);
    CHECK(type == 0 && ordinal == CU_DEVICE_INVALID && size == 0);
}

/* Behind a page that says what the memory is: nobody but tests maps a dma-buf. */
static void test_a_dma_buf_is_the_memory(int socket)
{
    (void)socket;
    CUdeviceptr address;
    int file;
    process_use(0);
    CU(cuMemAlloc, &address, BYTES);
    CU(cuMemGetHandleForAddressRange, &file, address, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    CU(cuMemsetD8, address, 7, BYTES);
    const char *seen = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 4096);
    CHECK(seen != MAP_FAILED && seen[0] == 7 && seen[BYTES - 1] == 7);
    munmap((void *)(uintptr_t)seen, BYTES);
    close(file);
    CU(cuMemFree, address);
}

static void test_host_memory_is_registered_once(int socket)
{
    (void)socket;
    process_use(0);
    size_t bytes = 3 * 4096;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CUdeviceptr address;
    CU(cuMemHostRegister, memory + 100, 5000, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    CHECK_RESULT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, memory, bytes, 0);
    CU(cuMemHostGetDevicePointer, &address, memory + 200, 0);
    CHECK(address == (CUdeviceptr)(uintptr_t)(memory + 200));
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer, &address, memory, 0);
    CU(cuMemHostUnregister, memory + 100);
    CHECK_RESULT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister, memory + 100);
    munmap(memory, bytes);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister, memory, bytes, 0);
}

static CUmemGenericAllocationHandle create_virtual(int ordinal, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = process_properties(ordinal);
    CU(cuMemCreate, &handle, bytes, &properties, 0);
    return handle;
}

static void test_allocations_lie_side_by_side(int socket)
{
    (void)socket;
    process_use(0);
    CUmemGenericAllocationHandle first = create_virtual(0, GRANULARITY), retained;
    CUmemGenericAllocationHandle second = create_virtual(0, 2 * GRANULARITY);
    CUdeviceptr space, base;
    size_t size;
    CUmemAccessDesc access = process_access(0);
    CU(cuMemAddressReserve, &space, 4 * GRANULARITY, 0, 0, 0);
    CU(cuMemMap, space, GRANULARITY, 0, first, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemMap, space, 2 * GRANULARITY, 0, second, 0); /* taken */
    CU(cuMemMap, space + GRANULARITY, 2 * GRANULARITY, 0, second, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess, space, 4 * GRANULARITY, &access, 1); /* a hole */
    CU(cuMemSetAccess, space, 3 * GRANULARITY, &access, 1);
    CU(cuMemsetD8, space, 5, 3 * GRANULARITY); /* across the border */
    CU(cuMemGetAddressRange, &base, &size, space + GRANULARITY + 1);
    CHECK(base == space + GRANULARITY && size == 2 * GRANULARITY);
    CU(cuMemRetainAllocationHandle, &retained, (void *)(uintptr_t)(space + 1));
    CHECK(retained == first);
    CU(cuMemRelease, first);
    CU(cuMemRelease, retained);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemRelease, first);
    CU(cuMemRelease, second);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree, space, 4 * GRANULARITY); /* mapped */
    CU(cuMemUnmap, space, 3 * GRANULARITY);
    CU(cuMemAddressFree, space, 4 * GRANULARITY);
}

static void leave(int signal)
{
    (void)signal;
    _exit(0);
}

static void test_memory_without_access_faults(int socket)
{
    (void)socket;
    process_use(0);
    CUdeviceptr space;
    CU(cuMemAddressReserve, &space, GRANULARITY, 0, 0, 0);
    CU(cuMemMap, space, GRANULARITY, 0, create_virtual(0, GRANULARITY), 0);
    signal(SIGSEGV, leave);
    char read = *(volatile char *)(uintptr_t)space;
    fprintf(stderr, "read %d, where nothing may be read\n", read);
    _exit(1);
}

static void test_gpus_without_peer_access_keep_their_memory(int socket)
{
    (void)socket;
    setenv("STANDIN_CUDA_GPUS", "2", 1);
    CUcontext first = process_use(0), second = process_use(1);
    int can = 1;
    CU(cuDeviceCanAccessPeer, &can, 0, 1);
    CHECK(!can);
    CHECK_RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess, first, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_DEVICE, cuCtxEnablePeerAccess, second, 0);
    CUdeviceptr space;
    CUmemAccessDesc access = process_access(0);
    CU(cuMemAddressReserve, &space, GRANULARITY, 0, 0, 0);
    CU(cuMemMap, space, GRANULARITY, 0, create_virtual(1, GRANULARITY), 0);
    CHECK_RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuMemSetAccess, space, GRANULARITY, &access, 1);
}

static void test_peers_are_said_in_groups(int socket)
{
    (void)socket;
    static const char *const expected[] = {"1100", "1101", "0011", "0111"}; /* by GPU; all reach themselves */
    setenv("STANDIN_CUDA_GPUS", "4", 1);
    process_use(0);
    for (int gpu = 0; gpu < 4; gpu++) {
        for (int peer = 0; peer < 4; peer++) {
            int can = -1;
            CU(cuDeviceCanAccessPeer, &can, gpu, peer);
            CHECK(can == (gpu != peer && expected[gpu][peer] == '1'));
        }
    }
}

/* Have a kernel of GPU 0 add 1 to a word of another GPU; what the context says afterwards. */
static CUresult increment_from_gpu_0(CUdeviceptr word)
{
    uint64_t count = 1;
    char image[1] = {0};
    CUmodule module;
    CUfunction function;
    process_use(0);
    CU(cuModuleLoadData, &module, image);
    CU(cuModuleGetFunction, &function, module, "standin_increment");
    CHECK(process_launch(function, 1, false, NULL, (void *[]){&word, &count}) == CUDA_SUCCESS);
    return cuda->cuCtxSynchronize();
}

static CUdeviceptr word_of(int gpu, CUcontext *context)
{
    CUdeviceptr word;
    *context = process_use(gpu);
    CU(cuMemAlloc, &word, sizeof(uint64_t));
    return word;
}

static void test_kernels_fault_at_memory_of_no_peer(int socket)
{
    (void)socket;
    CUcontext context;
    setenv("STANDIN_CUDA_GPUS", "3", 1);
    CUdeviceptr far = word_of(2, &context), near = word_of(1, &context);
    process_use(0);
    CU(cuCtxEnablePeerAccess, context, 0);
    CHECK(increment_from_gpu_0(near) == CUDA_SUCCESS && process_word(near) == 1);
    CHECK(increment_from_gpu_0(far) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_kernels_need_peer_access_that_is_enabled(int socket)
{
    (void)socket;
    CUcontext context;
    CUdeviceptr word = word_of(1, &context);
    CHECK(increment_from_gpu_0(word) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Peer access is not what counts there. */
static void test_kernels_need_access_to_pools(int socket)
{
    (void)socket;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    const CUmemAccessDesc access = process_access(0);
    CUmemoryPool pool;
    CUdeviceptr word, found = 0;
    CUcontext owner = process_use(1);
    CU(cuMemPoolCreate, &pool, &properties);
    CU(cuMemAllocFromPoolAsync, &word, sizeof(uint64_t), pool, NULL);
    CU(cuStreamSynchronize, NULL);
    process_use(0);
    CU(cuCtxEnablePeerAccess, owner, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                 word);
    CU(cuMemPoolSetAccess, pool, &access, 1);
    CU(cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, word);
    CHECK(found == word);
    CHECK(increment_from_gpu_0(word) == CUDA_SUCCESS && process_word(word) == 1);
}

/* The driver takes them through host memory by itself. */
static void test_copies_need_no_peer_access(int socket)
{
    (void)socket;
    CUcontext context;
    uint64_t value = 7;
    setenv("STANDIN_CUDA_GPUS", "2", 1);
    CUdeviceptr from = word_of(0, &context), to = word_of(1, &context);
    CU(cuMemcpyHtoD, from, &value, sizeof(value));
    CU(cuMemcpy, to, from, sizeof(value));
    CHECK(process_word(to) == 7);
}

static void test_memory_ends(int socket)
{
    (void)socket;
    process_use(0);
    CUdeviceptr first, second;
    size_t free_bytes, total;
    CU(cuMemAlloc, &first, 3 << 20);
    CHECK_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc, &second, 2 << 20);
    CU(cuMemGetInfo, &free_bytes, &total);
    CHECK(free_bytes == 1 << 20 && total == 4 << 20);
    CU(cuMemFree, first);
    CU(cuMemAlloc, &second, 4 << 20);
}

static void send_uuid_of_gpu_2(int socket)
{
    CUuuid uuid;
    setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
    process_use(0);
    CU(cuDeviceGetUuid, &uuid, 0);
    process_send(socket, &uuid, sizeof(uuid), -1);
}

static void test_ordinals_differ_and_uuids_match(int socket)
{
    (void)socket;
    process_t other = process_start(send_uuid_of_gpu_2);
    CUuuid theirs, ours;
    process_receive(other.socket, &theirs, sizeof(theirs));
    CHECK(process_end(other) == 0);
    process_use(0);
    int count;
    char name[64], pci[32];
    CU(cuDeviceGetCount, &count);
    CHECK(count == 4);
    CU(cuDeviceGetUuid, &ours, 2);
    CHECK(!memcmp(&ours, &theirs, sizeof(ours)));
    CU(cuDeviceGetUuid, &ours, 1);
    CHECK(memcmp(&ours, &theirs, sizeof(ours)));
    CU(cuDeviceGetName, name, sizeof(name), 3);
    CHECK(!strcmp(name, "stand-in GPU (host memory)"));
    CU(cuDeviceGetPCIBusId, pci, sizeof(pci), 3);
    CHECK(!strcmp(pci, "0000:13:00.0"));
}

static void test_a_machine_without_gpus(int socket)
{
    (void)socket;
    process_load();
    int count = -1;
    CUdevice device;
    CU(cuInit, 0);
    CU(cuDeviceGetCount, &count);
    CHECK(count == 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, 0);
}

static void use_inherited(int socket)
{
    (void)socket;
    int count;
    CHECK_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount, &count);
}

static void test_calls_need_a_driver_and_a_context(int socket)
{
    (void)socket;
    process_load();
    int count;
    CUdeviceptr address;
    CUcontext context;
    CHECK_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount, &count);
    CU(cuInit, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc, &address, 1);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize, NULL); /* retained, not current */
    CU(cuCtxPushCurrent, context);
    CU(cuMemAlloc, &address, 1);
    CU(cuCtxPopCurrent, NULL);
    CHECK_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuMemFree, address);
    CHECK(process_end(process_start(use_inherited)) == 0);
}

static void test_the_calls_asked_for_fail(int socket)
{
    (void)socket;
    process_use(0);
    CUdeviceptr address;
    CUstream stream;
    CU(cuMemAlloc, &address, 1);
    CHECK_RESULT(CUDA_ERROR_UNKNOWN, cuMemAlloc, &address, 1);
    CU(cuMemAlloc, &address, 1);
    CHECK_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuStreamCreate, &stream, 0);
    const char *text;
    CU(cuGetErrorName, CUDA_ERROR_UNKNOWN, &text);
    CHECK(!strcmp(text, "CUDA_ERROR_UNKNOWN"));
    CHECK(cuda_driver_fail(cuda, "cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY) == BLINK_ERR_NO_MEMORY);
}

#define TEST(name, environment)                                                                              \
    {                                                                                                        \
#name, name, environment                                                                             \
    }

int main(void)
{
    static const process_test_t tests[] = {
        TEST(test_a_reused_address_gets_a_new_buffer_id, NULL),
        TEST(test_attributes_tell_what_memory_is, "STANDIN_CUDA_GPUS=2"),
        TEST(test_a_dma_buf_is_the_memory, NULL),
        TEST(test_host_memory_is_registered_once, NULL),
        TEST(test_allocations_lie_side_by_side, NULL),
        TEST(test_memory_without_access_faults, NULL),
        TEST(test_gpus_without_peer_access_keep_their_memory, "STANDIN_CUDA_PEERS="),
        TEST(test_peers_are_said_in_groups, "STANDIN_CUDA_PEERS=0+1,2+3,1+3"),
        TEST(test_kernels_fault_at_memory_of_no_peer, "STANDIN_CUDA_PEERS=0+1"),
        TEST(test_kernels_need_peer_access_that_is_enabled, "STANDIN_CUDA_GPUS=2"),
        TEST(test_kernels_need_access_to_pools, "STANDIN_CUDA_GPUS=2"),
        TEST(test_copies_need_no_peer_access, "STANDIN_CUDA_PEERS="),
        TEST(test_memory_ends, "STANDIN_CUDA_MEMORY=4194304"),
        TEST(test_ordinals_differ_and_uuids_match, "STANDIN_CUDA_GPUS=4"),
        TEST(test_a_machine_without_gpus, "STANDIN_CUDA_GPUS=0"),
        TEST(test_calls_need_a_driver_and_a_context, NULL),
        TEST(test_the_calls_asked_for_fail, "STANDIN_CUDA_FAIL=cuMemAlloc:2,cuStreamCreate:1:2"),
    };
    return process_run_all(tests, sizeof(tests) / sizeof(tests[0]));
}
