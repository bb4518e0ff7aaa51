/* The GPU worker over the stand-in for the driver: memory of other processes, of which this one is the owner.
 */
#include "worker_test.h"

#include "worker_harness.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE_BYTES (UINT64_C(2) << 20) /* the granularity of VMM memory */

static const char *const two_gpus[] = {"STANDIN_CUDA_GPUS=2", NULL};

/* ---- memory of this process ---- */

static const cuda_driver_t *cu;

#define CU(call) assert_int_equal(cu->call, CUDA_SUCCESS)

static int open_driver(void **state)
{
    CUcontext context;
    (void)state;
    cu = cuda_driver_find(true);
    if (!cu || cu->cuInit(0) != CUDA_SUCCESS || cu->cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        return -1;
    return cu->cuCtxSetCurrent(context) == CUDA_SUCCESS ? 0 : -1;
}

/* VMM memory of `pages` pages, mapped here; the descriptor is for the worker. */
static unsigned char *own_vmm(uint32_t pages, int *fd)
{
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    const CUmemAccessDesc access = {.location = properties.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    CU(cuMemCreate(&handle, pages * PAGE_BYTES, &properties, 0));
    CU(cuMemExportToShareableHandle(fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemAddressReserve(&address, pages * PAGE_BYTES, 0, 0, 0));
    CU(cuMemMap(address, pages * PAGE_BYTES, 0, handle, 0));
    CU(cuMemSetAccess(address, pages * PAGE_BYTES, &access, 1));
    return (unsigned char *)(uintptr_t)address;
}

static CUmemoryPool own_pool(int *fd)
{
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemoryPool pool;
    CU(cuMemPoolCreate(&pool, &properties));
    CU(cuMemPoolExportToShareableHandle(fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return pool;
}

/* Memory of a pool that has been exported, and what the worker needs to find it there. */
static unsigned char *own_memory_of(CUmemoryPool pool, size_t bytes, gpu_extent_t *extent)
{
    CUdeviceptr address;
    CU(cuMemAllocFromPoolAsync(&address, bytes, pool, NULL));
    CU(cuCtxSynchronize());
    *extent = (gpu_extent_t){.kind = GPU_EXTENT_POOL, .allocation_bytes = bytes, .bytes = bytes};
    CU(cuMemPoolExportPointer((CUmemPoolPtrExportData *)(void *)extent->handle, address));
    return (unsigned char *)(uintptr_t)address;
}

static unsigned char *own_pooled(size_t bytes, int *fd, gpu_extent_t *extent)
{
    return own_memory_of(own_pool(fd), bytes, extent);
}

static unsigned char *own_legacy(size_t bytes, gpu_extent_t *extent)
{
    CUdeviceptr address;
    CU(cuMemAlloc(&address, bytes));
    *extent = (gpu_extent_t){.kind = GPU_EXTENT_IPC, .allocation_bytes = bytes, .bytes = bytes};
    CU(cuIpcGetMemHandle((CUipcMemHandle *)(void *)extent->handle, address));
    return (unsigned char *)(uintptr_t)address;
}

static gpu_extent_t vmm_extent(uint64_t pages)
{
    return (gpu_extent_t){
        .kind = GPU_EXTENT_VMM, .allocation_bytes = pages * PAGE_BYTES, .bytes = pages * PAGE_BYTES};
}

static gpu_reply_t import(harness_t *service, const gpu_extent_t *extents, uint32_t count, const int *fds,
                          uint32_t fd_count)
{
    gpu_request_t request = {.kind = GPU_IMPORT, .extent_count = count};
    memcpy(request.extents, extents, count * sizeof(*extents));
    return harness_ask(service, &request, fds, fd_count);
}

static uint64_t import_well(harness_t *service, const gpu_extent_t *extents, uint32_t count, const int *fds,
                            uint32_t fd_count, uint64_t *token)
{
    const gpu_reply_t reply = import(service, extents, count, fds, fd_count);
    assert_string_equal(reply.text, "");
    assert_int_equal(reply.result, BLINK_OK);
    *token = reply.token;
    return reply.address;
}

static gpu_reply_t release(harness_t *service, uint64_t token)
{
    gpu_request_t request = {.kind = GPU_RELEASE, .token = token};
    return harness_ask(service, &request, NULL, 0);
}

static void assert_refused(const gpu_reply_t reply, blink_result_t result, const char *part)
{
    harness_assert_text(reply.text, part);
    assert_int_equal(reply.result, result);
    assert_int_equal(reply.address, 0);
}

/* Released once, it is unknown. */
static void assert_released(harness_t *service, uint64_t token)
{
    assert_int_equal(release(service, token).result, BLINK_OK);
    const gpu_reply_t again = release(service, token);
    assert_int_equal(again.result, BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(again.text, "names nothing");
}

static blink_result_t copy(harness_t *service, uint64_t dst, uint64_t src, uint64_t bytes)
{
    gpu_run_t *run = harness_place(service, sizeof(*run) + sizeof(run->copies[0]));
    *run = (gpu_run_t){.copy_count = 1, .run = {.number = 1}};
    run->copies[0] = (gpu_copy_t){.dst = dst, .src = src, .bytes = bytes};
    return harness_do(service,
                      (ring_sqe_t){.opcode = GPU_RUN, .count = sizeof(*run) + sizeof(run->copies[0])}, run);
}

static void fill(unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)((i + seed) * 7 + i / 251);
}

/* ---- imports ---- */

/* From the middle of the first allocation to the middle of the last. */
static void test_vmm_extents_side_by_side(void **state)
{
    enum { EXTENTS = 3 };
    const uint64_t skipped = 4096, cut = 8192;
    harness_t service;
    unsigned char *memory[EXTENTS];
    gpu_extent_t extents[EXTENTS];
    int fds[EXTENTS];
    uint64_t token, host_token, host_address;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);
    for (uint32_t i = 0; i < EXTENTS; i++) {
        memory[i] = own_vmm(i + 1, &fds[i]);
        fill(memory[i], (i + 1) * PAGE_BYTES, i);
        extents[i] = vmm_extent(i + 1);
    }
    extents[0].offset_bytes = skipped;
    extents[0].bytes -= skipped;
    extents[EXTENTS - 1].bytes -= cut;

    const uint64_t address = import_well(&service, extents, EXTENTS, fds, EXTENTS, &token);

    const uint64_t bytes = 6 * PAGE_BYTES - skipped - cut;
    unsigned char *host = harness_map_host(&service, bytes, &host_address, &host_token);
    assert_int_equal(copy(&service, host_address, address, bytes), BLINK_OK);
    assert_memory_equal(host, memory[0] + skipped, PAGE_BYTES - skipped);
    assert_memory_equal(host + PAGE_BYTES - skipped, memory[1], 2 * PAGE_BYTES);
    assert_memory_equal(host + 3 * PAGE_BYTES - skipped, memory[2], 3 * PAGE_BYTES - cut);
    assert_released(&service, token);
    assert_released(&service, host_token);
    assert_int_equal(harness_stop(&service), 0);
}

static void test_pooled(void **state)
{
    const size_t bytes = 100000;
    harness_t service;
    gpu_extent_t extent;
    int fd;
    uint64_t token, host_token, host_address;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);
    unsigned char *memory = own_pooled(bytes, &fd, &extent);
    unsigned char *host = harness_map_host(&service, bytes, &host_address, &host_token);
    fill(host, bytes, 5);
    extent.offset_bytes = 100;
    extent.bytes = bytes - 100;

    const uint64_t address = import_well(&service, &extent, 1, &fd, 1, &token);

    assert_int_equal(copy(&service, address, host_address, bytes - 100), BLINK_OK);
    assert_memory_equal(memory + 100, host, bytes - 100);
    assert_released(&service, token);
    assert_int_equal(harness_stop(&service), 0);
}

/* It is imported for the first of its allocations, and stays until the last is released: the driver imports
 * two here, and no third one. */
static void test_a_pool_is_imported_once(void **state)
{
    enum { BYTES = 50000, ALLOCATIONS = 3 };
    static const char *const environment[] = {"STANDIN_CUDA_GPUS=1",
                                              "STANDIN_CUDA_FAIL=cuMemPoolImportFromShareableHandle:3", NULL};
    harness_t service;
    gpu_extent_t extents[ALLOCATIONS];
    unsigned char *memory[ALLOCATIONS];
    int fd;
    uint64_t tokens[ALLOCATIONS], address[ALLOCATIONS], host_token, host_address;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, environment);
    CUmemoryPool pool = own_pool(&fd);
    for (unsigned i = 0; i < ALLOCATIONS; i++) {
        memory[i] = own_memory_of(pool, BYTES, &extents[i]);
        extents[i].pool = 7;
        fill(memory[i], BYTES, i);
    }
    unsigned char *host = harness_map_host(&service, BYTES, &host_address, &host_token);

    address[0] = import_well(&service, &extents[0], 1, &fd, 1, &tokens[0]);
    address[1] = import_well(&service, &extents[1], 1, &fd, 1, &tokens[1]);
    assert_released(&service, tokens[0]);
    assert_int_equal(copy(&service, host_address, address[1], BYTES), BLINK_OK);
    assert_memory_equal(host, memory[1], BYTES);
    extents[2].client = 1; /* somebody else's pool of that number */
    address[2] = import_well(&service, &extents[2], 1, &fd, 1, &tokens[2]);
    assert_int_equal(copy(&service, host_address, address[2], BYTES), BLINK_OK);
    assert_memory_equal(host, memory[2], BYTES);

    assert_released(&service, tokens[1]);
    assert_refused(import(&service, &extents[0], 1, &fd, 1), BLINK_ERR_UNSUPPORTED,
                   "cuMemPoolImportFromShareableHandle");
    assert_released(&service, tokens[2]);
    assert_int_equal(harness_stop(&service), 0);
}

/* One handle in two regions: releasing the one leaves the other. */
static void test_ipc_handle_twice(void **state)
{
    const size_t bytes = 100000;
    harness_t service;
    gpu_extent_t extent;
    uint64_t tokens[2], host_token, host_address;
    (void)state;
    harness_start(&service, (gpu_start_t){.legacy_ipc = true}, two_gpus);
    unsigned char *memory = own_legacy(bytes, &extent);
    fill(memory, bytes, 9);
    unsigned char *host = harness_map_host(&service, bytes, &host_address, &host_token);

    const uint64_t first = import_well(&service, &extent, 1, NULL, 0, &tokens[0]);
    extent.offset_bytes = 1000;
    extent.bytes = 5000;
    const uint64_t second = import_well(&service, &extent, 1, NULL, 0, &tokens[1]);

    assert_int_equal(second, first + 1000);
    assert_released(&service, tokens[0]);
    assert_int_equal(copy(&service, host_address, second, 5000), BLINK_OK);
    assert_memory_equal(host, memory + 1000, 5000);
    assert_released(&service, tokens[1]);
    assert_int_equal(harness_stop(&service), 0);
}

/* ---- what is refused, with which words; the worker works on ---- */

static void test_ipc_where_it_is_not_accepted(void **state)
{
    harness_t service;
    gpu_extent_t extent;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);
    own_legacy(4096, &extent);

    assert_refused(import(&service, &extent, 1, NULL, 0), BLINK_ERR_PERMISSION,
                   "extent 0 of 1: a CUDA IPC handle, which this daemon does not accept");
    assert_int_equal(harness_stop(&service), 0);
}

static void test_handles_that_lead_nowhere(void **state)
{
    harness_t service;
    gpu_extent_t extent = vmm_extent(1), pooled;
    int pool_fd, foreign = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)state;
    harness_start(&service, (gpu_start_t){.legacy_ipc = true}, two_gpus);
    own_pooled(4096, &pool_fd, &pooled);

    assert_refused(import(&service, &extent, 1, &foreign, 1), BLINK_ERR_UNSUPPORTED,
                   "extent 0 of 1: the driver does not take it: cuMemImportFromShareableHandle");
    assert_refused(import(&service, &extent, 1, &pool_fd, 1), BLINK_ERR_UNSUPPORTED,
                   "extent 0 of 1: the driver does not take it: cuMemImportFromShareableHandle");
    assert_refused(import(&service, &pooled, 1, &foreign, 1), BLINK_ERR_UNSUPPORTED,
                   "cuMemPoolImportFromShareableHandle");
    memset(pooled.handle, 0xa5, sizeof(pooled.handle));
    assert_refused(import(&service, &pooled, 1, &pool_fd, 1), BLINK_ERR_UNSUPPORTED,
                   "cuMemPoolImportPointer");
    extent.kind = GPU_EXTENT_IPC;
    assert_refused(import(&service, &extent, 1, NULL, 0), BLINK_ERR_UNSUPPORTED, "cuIpcOpenMemHandle");
    assert_refused(import(&service, &extent, 1, &foreign, 1), BLINK_ERR_INVALID_ARGUMENT,
                   "1 descriptors for extents that need 0");
    close(foreign);
    assert_int_equal(harness_stop(&service), 0);
}

/* A handle that leads somewhere, to memory of which the driver will not let the worker's GPUs use any. */
static void test_memory_that_gpus_may_not_use(void **state)
{
    static const char *const environment[] = {
        "STANDIN_CUDA_GPUS=1", "STANDIN_CUDA_FAIL=cuMemSetAccess:1,cuMemPoolSetAccess:1", NULL};
    harness_t service;
    gpu_extent_t extent = vmm_extent(1), pooled;
    int fd, pool_fd;
    (void)state;
    harness_start(&service, (gpu_start_t){0}, environment);
    own_vmm(1, &fd);
    own_pooled(4096, &pool_fd, &pooled);

    assert_refused(import(&service, &extent, 1, &fd, 1), BLINK_ERR_UNSUPPORTED,
                   "the driver does not take it: cuMemSetAccess");
    assert_refused(import(&service, &pooled, 1, &pool_fd, 1), BLINK_ERR_UNSUPPORTED,
                   "the driver does not take it: cuMemPoolSetAccess");
    assert_int_equal(harness_stop(&service), 0);
}

static void test_stale_ipc_handle(void **state)
{
    harness_t service;
    gpu_extent_t extent;
    (void)state;
    harness_start(&service, (gpu_start_t){.legacy_ipc = true}, two_gpus);
    unsigned char *memory = own_legacy(4096, &extent);
    CU(cuMemFree((CUdeviceptr)(uintptr_t)memory));

    assert_refused(import(&service, &extent, 1, NULL, 0), BLINK_ERR_UNSUPPORTED,
                   "extent 0 of 1: the driver does not take it: cuIpcOpenMemHandle");
    assert_int_equal(harness_stop(&service), 0);
}

static void test_less_memory_than_was_said(void **state)
{
    harness_t service;
    gpu_extent_t vmm = vmm_extent(2), pooled, legacy;
    int vmm_fd, pool_fd;
    (void)state;
    harness_start(&service, (gpu_start_t){.legacy_ipc = true}, two_gpus);
    own_vmm(1, &vmm_fd);
    own_pooled(65536, &pool_fd, &pooled);
    own_legacy(65536, &legacy);
    pooled.allocation_bytes = legacy.allocation_bytes = UINT64_C(1) << 32;

    assert_refused(import(&service, &vmm, 1, &vmm_fd, 1), BLINK_ERR_UNSUPPORTED,
                   "extent 0 of 1: the driver does not take it: cuMemMap");
    vmm.allocation_bytes = vmm.bytes = 4096;
    assert_refused(import(&service, &vmm, 1, &vmm_fd, 1), BLINK_ERR_INVALID_ARGUMENT,
                   "extent 0 of 1: no allocation has 4096 bytes: a page is 2097152");
    assert_refused(import(&service, &pooled, 1, &pool_fd, 1), BLINK_ERR_INVALID_ARGUMENT,
                   "bytes, not the 4294967296 that were said");
    assert_refused(import(&service, &legacy, 1, NULL, 0), BLINK_ERR_INVALID_ARGUMENT,
                   "bytes, not the 4294967296 that were said");
    pooled.allocation_bytes++; /* which the driver is not asked about */
    assert_refused(
        import(&service, &pooled, 1, &pool_fd, 1), BLINK_ERR_UNSUPPORTED,
        "extent 0 of 1: an allocation of 4294967297 bytes in a pool: 4294967296 are opened at most");
    assert_int_equal(harness_stop(&service), 0);
}

static void test_memory_of_another_gpu(void **state)
{
    harness_t service;
    gpu_request_t request = {.kind = GPU_IMPORT, .gpu = 1, .extent_count = 1};
    int fd;
    (void)state;
    harness_start(&service, (gpu_start_t){.legacy_ipc = true}, two_gpus);

    own_vmm(1, &fd);
    request.extents[0] = vmm_extent(1);
    assert_refused(harness_ask(&service, &request, &fd, 1), BLINK_ERR_INVALID_ARGUMENT,
                   "extent 0 of 1: the memory is on GPU 0, not on 1");
    own_legacy(4096, &request.extents[0]);
    assert_refused(harness_ask(&service, &request, NULL, 0), BLINK_ERR_INVALID_ARGUMENT,
                   "extent 0 of 1: the memory is on GPU 0, not on 1");
    request.gpu = 2;
    assert_refused(harness_ask(&service, &request, NULL, 0), BLINK_ERR_INVALID_ARGUMENT,
                   "GPU 2: there are 2");
    assert_int_equal(harness_stop(&service), 0);
}

/* This process's GPU 0 is the worker's GPU 1, and the properties of its memory say 0 there, too. */
static void test_memory_of_a_gpu_that_has_another_number_here(void **state)
{
    harness_t service;
    gpu_request_t request = {.kind = GPU_IMPORT, .gpu = 1, .extent_count = 1, .extents = {vmm_extent(1)}};
    int fd;
    (void)state;
    harness_start(&service, (gpu_start_t){.legacy_ipc = true},
                  (const char *const[]){"STANDIN_CUDA_GPUS=2", "CUDA_VISIBLE_DEVICES=1,0",
                                        "STANDIN_CUDA_ORDINALS=1", NULL});

    own_vmm(1, &fd);
    assert_int_equal(harness_ask(&service, &request, &fd, 1).result, BLINK_OK);
    request.gpu = 0;
    request.token = 0;
    assert_refused(harness_ask(&service, &request, &fd, 1), BLINK_ERR_INVALID_ARGUMENT,
                   "extent 0 of 1: the memory is on GPU 1, not on 0");
    assert_int_equal(harness_stop(&service), 0);
}

/* The addresses are reserved with the first request; the others go on where the one before ended. */
static void test_vmm_extents_of_several_requests(void **state)
{
    enum { EXTENTS = 3 };
    const uint64_t bytes = EXTENTS * PAGE_BYTES;
    harness_t service;
    unsigned char *memory[EXTENTS];
    int fds[EXTENTS];
    uint64_t host_token, host_address;
    gpu_request_t request = {.kind = GPU_IMPORT,
                             .extent_count = 1,
                             .following_bytes = bytes - PAGE_BYTES,
                             .extents = {vmm_extent(1)}};
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);
    for (uint32_t i = 0; i < EXTENTS; i++) {
        memory[i] = own_vmm(1, &fds[i]);
        fill(memory[i], PAGE_BYTES, i);
    }
    const gpu_reply_t first = harness_ask(&service, &request, &fds[0], 1);
    assert_int_equal(first.result, BLINK_OK);

    request.kind = GPU_IMPORT_MORE;
    for (uint32_t i = 1; i < EXTENTS; i++) {
        request.gpu = 1; /* another one than before */
        request.following_bytes = bytes - (i + 1) * PAGE_BYTES;
        assert_refused(harness_ask(&service, &request, &fds[i], 1), BLINK_ERR_INVALID_ARGUMENT,
                       "do not go on");
        request.gpu = 0;
        request.following_bytes += PAGE_BYTES; /* more than there is room for */
        assert_refused(harness_ask(&service, &request, &fds[i], 1), BLINK_ERR_INVALID_ARGUMENT,
                       "do not go on");
        request.following_bytes -= PAGE_BYTES;
        request.extents[0].bytes -= 4096;
        assert_refused(harness_ask(&service, &request, &fds[i], 1), BLINK_ERR_UNSUPPORTED,
                       "it ends 4096 bytes before its allocation");
        request.extents[0].bytes += 4096;
        const gpu_reply_t next = harness_ask(&service, &request, &fds[i], 1);
        assert_int_equal(next.result, BLINK_OK);
        assert_int_equal(next.address, first.address);
    }

    unsigned char *host = harness_map_host(&service, bytes, &host_address, &host_token);
    assert_int_equal(copy(&service, host_address, first.address, bytes), BLINK_OK);
    for (uint32_t i = 0; i < EXTENTS; i++)
        assert_memory_equal(host + i * PAGE_BYTES, memory[i], PAGE_BYTES);
    assert_released(&service, first.token);
    assert_int_equal(harness_stop(&service), 0);
}

static void test_extents_that_do_not_adjoin(void **state)
{
    harness_t service;
    gpu_extent_t extents[2] = {vmm_extent(1), vmm_extent(1)};
    int fds[2];
    (void)state;
    harness_start(&service, (gpu_start_t){.legacy_ipc = true}, two_gpus);
    own_vmm(1, &fds[0]);
    own_vmm(1, &fds[1]);

    extents[1].offset_bytes = 4096;
    extents[1].bytes -= 4096;
    assert_refused(import(&service, extents, 2, fds, 2), BLINK_ERR_UNSUPPORTED,
                   "extent 1 of 2: it begins 4096 bytes into its allocation");
    extents[1] = vmm_extent(1);
    extents[0].bytes -= 4096;
    assert_refused(import(&service, extents, 2, fds, 2), BLINK_ERR_UNSUPPORTED,
                   "extent 0 of 2: it ends 4096 bytes before its allocation");
    extents[0].bytes = 2 * PAGE_BYTES;
    assert_refused(import(&service, extents, 2, fds, 2), BLINK_ERR_INVALID_ARGUMENT,
                   "extent 0 of 2: 4194304 bytes at 0 of an allocation of 2097152");
    extents[0] = vmm_extent(1);
    extents[1].kind = GPU_EXTENT_IPC;
    assert_refused(import(&service, extents, 2, fds, 1), BLINK_ERR_UNSUPPORTED,
                   "extent 1 of 2: only VMM memory can be mapped beside other memory");
    assert_int_equal(harness_stop(&service), 0);
}

static void test_host_memory_that_is_too_small(void **state)
{
    harness_t service;
    gpu_request_t request = {.kind = GPU_MAP_HOST, .bytes = 8192};
    const int fd = memfd_create("small", MFD_CLOEXEC);
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);

    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_refused(harness_ask(&service, &request, &fd, 1), BLINK_ERR_INVALID_ARGUMENT,
                   "8192 bytes at 0 of a file of 4096");
    close(fd);
    assert_int_equal(harness_stop(&service), 0);
}

/* A page that the worker added would be charged to the daemon's cgroup. */
static void test_holes_in_host_memory_are_not_filled(void **state)
{
    harness_t service;
    struct stat status;
    gpu_request_t request = {.kind = GPU_MAP_HOST, .bytes = 8192, .token = 7, .keep_holes = true};
    const int fd = memfd_create("half", MFD_CLOEXEC);
    (void)state;
    harness_start(&service, (gpu_start_t){0}, two_gpus);

    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_int_equal(posix_fallocate(fd, 0, 4096), 0);
    assert_int_not_equal(harness_ask(&service, &request, &fd, 1).result, BLINK_OK);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_blocks * 512, 4096);
    assert_int_equal(posix_fallocate(fd, 4096, 4096), 0);
    assert_int_equal(harness_ask(&service, &request, &fd, 1).result, BLINK_OK);
    close(fd);
    assert_int_equal(harness_stop(&service), 0);
}

/* ---- what is refused because a context is lost ---- */

/* A call about memory is the first to tell. The worker says so, unless it has ended by then. */
static void assert_ends(harness_t *service, const gpu_extent_t *extent, const int *fds, uint32_t fd_count)
{
    gpu_reply_t reply;
    gpu_request_t request = {.kind = GPU_IMPORT, .token = 1, .extent_count = 1, .extents = {*extent}};
    harness_send(service, &request, fds, fd_count);
    if (harness_hear(service, &reply)) {
        harness_assert_text(reply.text, "the GPU worker lost its context: ");
        harness_assert_text(reply.text, "CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_int_equal(reply.result, BLINK_ERR_SYSTEM);
    }
    assert_int_equal(harness_await_end(service), 1);
}

static void test_a_lost_context_is_no_word_on_the_memory(void **state)
{
    static const char *const calls[][2] = {
        {"STANDIN_CUDA_FAIL=cuMemImportFromShareableHandle:1:700"},
        {"STANDIN_CUDA_FAIL=cuMemSetAccess:1:700"},
        {"STANDIN_CUDA_FAIL=cuMemPoolImportFromShareableHandle:1:700"},
        {"STANDIN_CUDA_FAIL=cuIpcOpenMemHandle:1:700"},
        {"STANDIN_CUDA_FAIL=cuMemGetAddressRange:1:700"},
    };
    gpu_extent_t extents[] = {vmm_extent(1), vmm_extent(1), {0}, {0}, {0}};
    int fds[2];
    (void)state;
    own_vmm(1, &fds[0]);
    own_pooled(4096, &fds[1], &extents[2]);
    own_legacy(4096, &extents[3]);
    extents[4] = extents[3];
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const int *fd = extents[i].kind == GPU_EXTENT_IPC ? NULL : &fds[extents[i].kind == GPU_EXTENT_POOL];
        harness_t service;
        harness_start(&service, (gpu_start_t){.legacy_ipc = true}, calls[i]);
        assert_ends(&service, &extents[i], fd, fd != NULL);
    }
}

/* Of two GPUs the one that is asked whether it reaches the other's memory. */
static void test_a_lost_context_of_a_peer(void **state)
{
    static const char *const environment[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_LOST_ALONE=1",
                                              "STANDIN_CUDA_FAIL=cuPointerGetAttribute:2:700", NULL};
    harness_t service;
    gpu_extent_t extent;
    (void)state;
    own_legacy(4096, &extent);
    harness_start(&service, (gpu_start_t){.legacy_ipc = true}, environment);
    assert_ends(&service, &extent, NULL, 0);
}

int worker_memory_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vmm_extents_side_by_side),
        cmocka_unit_test(test_vmm_extents_of_several_requests),
        cmocka_unit_test(test_pooled),
        cmocka_unit_test(test_a_pool_is_imported_once),
        cmocka_unit_test(test_ipc_handle_twice),
        cmocka_unit_test(test_ipc_where_it_is_not_accepted),
        cmocka_unit_test(test_handles_that_lead_nowhere),
        cmocka_unit_test(test_memory_that_gpus_may_not_use),
        cmocka_unit_test(test_stale_ipc_handle),
        cmocka_unit_test(test_less_memory_than_was_said),
        cmocka_unit_test(test_memory_of_another_gpu),
        cmocka_unit_test(test_memory_of_a_gpu_that_has_another_number_here),
        cmocka_unit_test(test_extents_that_do_not_adjoin),
        cmocka_unit_test(test_host_memory_that_is_too_small),
        cmocka_unit_test(test_holes_in_host_memory_are_not_filled),
        cmocka_unit_test(test_a_lost_context_is_no_word_on_the_memory),
        cmocka_unit_test(test_a_lost_context_of_a_peer),
    };
    return cmocka_run_group_tests_name("worker: memory", tests, open_driver, NULL);
}
