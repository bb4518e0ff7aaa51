/* The stand-in driver: memory that processes share, by each of CUDA's three ways. */
#include "standin/process.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum { BYTES = 3 << 20, GRANULARITY = 2 << 20, NOBODY = 65534 };

/* Three ways to give memory to another process, each with its own export and import. */
typedef struct way {
    const char *name;
    CUdeviceptr (*give)(int socket); /* allocate, and send what the other needs */
    CUdeviceptr (*take)(int socket);
} way_t;

static CUdeviceptr give_legacy(int socket)
{
    CUdeviceptr address;
    CUipcMemHandle handle;
    CU(cuMemAlloc, &address, BYTES);
    CU(cuIpcGetMemHandle, &handle, address);
    process_send(socket, &handle, sizeof(handle), -1);
    return address;
}

static CUdeviceptr take_legacy(int socket)
{
    CUipcMemHandle handle;
    CUdeviceptr address, again;
    process_receive(socket, &handle, sizeof(handle));
    CU(cuIpcOpenMemHandle, &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CU(cuIpcOpenMemHandle, &again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CHECK(again == address);
    CU(cuIpcCloseMemHandle, again);
    return address;
}

/* Map memory at new addresses, and let go of the handle. */
static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes)
{
    CUdeviceptr address;
    CUmemAccessDesc access = process_access(0);
    CU(cuMemAddressReserve, &address, bytes, 0, 0, 0);
    CU(cuMemMap, address, bytes, 0, handle, 0);
    CU(cuMemSetAccess, address, bytes, &access, 1);
    CU(cuMemRelease, handle);
    return address;
}

static CUdeviceptr give_virtual(int socket)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = process_properties(0);
    int file;
    CU(cuMemCreate, &handle, 2 * GRANULARITY, &properties, 0);
    CU(cuMemExportToShareableHandle, &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    process_send(socket, "", 1, file);
    close(file);
    return map(handle, 2 * GRANULARITY);
}

static CUdeviceptr take_virtual(int socket)
{
    char byte;
    int file = process_receive(socket, &byte, 1);
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties;
    CU(cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)file,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(file);
    CU(cuMemGetAllocationPropertiesFromHandle, &properties, handle);
    CHECK(properties.location.id == 0);
    return map(handle, 2 * GRANULARITY);
}

static CUdeviceptr give_pooled(int socket)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr before, address;
    CUmemPoolPtrExportData pointer;
    int file;
    CU(cuMemPoolCreate, &pool, &properties);
    CU(cuMemAllocFromPoolAsync, &before, 100, pool, NULL);
    CU(cuMemAllocFromPoolAsync, &address, BYTES, pool, NULL);
    CU(cuMemPoolExportToShareableHandle, &file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    CU(cuMemPoolExportPointer, &pointer, address);
    process_send(socket, &pointer, sizeof(pointer), file);
    close(file);
    CU(cuMemFreeAsync, before, NULL);
    CU(cuStreamSynchronize, NULL);
    return address;
}

static CUdeviceptr take_pooled(int socket)
{
    CUmemPoolPtrExportData pointer;
    CUmemoryPool pool, found;
    CUdeviceptr address;
    int file = process_receive(socket, &pointer, sizeof(pointer));
    CU(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)file,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    close(file);
    CU(cuMemPoolImportPointer, &address, pool, &pointer);
    CU(cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address);
    CHECK(found == pool);
    return address;
}

static const way_t ways[] = {{"legacy", give_legacy, take_legacy},
                             {"virtual", give_virtual, take_virtual},
                             {"pooled", give_pooled, take_pooled}};
static const way_t *way; /* of this process and its children */

static void fill(CUdeviceptr address, unsigned char byte)
{
    CU(cuMemsetD8, address, byte, BYTES);
}

static void check_filled(CUdeviceptr address, unsigned char byte)
{
    unsigned char *copy = malloc(BYTES);
    CHECK(copy);
    CU(cuMemcpyDtoH, copy, address, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        CHECK(copy[i] == byte);
    free(copy);
}

static void give(int socket)
{
    process_use(0);
    CUdeviceptr address = way->give(socket);
    fill(address, 1);
    process_meet(socket); /* 1: written here */
    process_meet(socket); /* 2: written there */
    check_filled(address, 2);
    process_meet(socket);
    pause(); /* until killed */
}

static void share(const way_t *by)
{
    way = by;
    process_t giver = process_start(give);
    process_use(0);
    CUdeviceptr address = way->take(giver.socket);
    process_meet(giver.socket);
    check_filled(address, 1);
    fill(address, 2);
    process_meet(giver.socket);
    process_meet(giver.socket);
    kill(giver.pid, SIGKILL);
    CHECK(WIFSIGNALED(process_end(giver)));
    check_filled(address, 2);
}

static void test_legacy_sharing_outlives_a_killed_exporter(int socket)
{
    (void)socket;
    share(&ways[0]);
}

static void test_virtual_sharing_outlives_a_killed_exporter(int socket)
{
    (void)socket;
    share(&ways[1]);
}

static void test_pooled_sharing_outlives_a_killed_exporter(int socket)
{
    (void)socket;
    share(&ways[2]);
}

/* Sends a handle, frees its memory, and allocates another that gets the same file number. */
static void give_stale(int socket)
{
    process_use(0);
    CUdeviceptr address = give_legacy(socket);
    CU(cuMemFree, address);
    CU(cuMemAlloc, &address, BYTES);
    process_meet(socket);
    process_meet(socket);
}

static void test_stale_handles_are_refused(int socket)
{
    (void)socket;
    process_t giver = process_start(give_stale);
    process_use(0);
    CUipcMemHandle handle;
    CUdeviceptr address;
    process_receive(giver.socket, &handle, sizeof(handle));
    process_meet(giver.socket);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle, &address, handle,
                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    process_meet(giver.socket);
    CHECK(process_end(giver) == 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle, &address, handle,
                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    memset(&handle, 7, sizeof(handle));
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle, &address, handle,
                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CU(cuMemAlloc, &address, BYTES);
    CU(cuIpcGetMemHandle, &handle, address);
    CHECK_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle, &address, handle,
                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS); /* its own */
}

static void give_stale_pooled(int socket)
{
    process_use(0);
    CUdeviceptr address = give_pooled(socket);
    CU(cuMemFreeAsync, address, NULL);
    CU(cuStreamSynchronize, NULL);
    process_meet(socket);
}

static void test_stale_pool_pointers_are_refused(int socket)
{
    (void)socket;
    process_t giver = process_start(give_stale_pooled);
    process_use(0);
    CUmemPoolPtrExportData pointer;
    CUmemoryPool pool;
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    void *file = (void *)(intptr_t)process_receive(giver.socket, &pointer, sizeof(pointer));
    process_meet(giver.socket);
    CU(cuMemPoolImportFromShareableHandle, &pool, file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer, &address, pool, &pointer);
    /* A pool's file is none of virtual memory. */
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle, &handle, file,
                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CHECK(process_end(giver) == 0);
}

/* ---- strangers: whoever may not be root cannot make any ---- */

typedef enum stranger { OTHER_USER, OTHER_NETWORK, OTHER_PROCESSES } stranger_t;

static stranger_t stranger; /* who gives */

static void become_stranger(void)
{
    switch (stranger) {
    case OTHER_USER:
        CHECK(!setgid(NOBODY) && !setuid(NOBODY));
        return;
    case OTHER_NETWORK:
        CHECK(!unshare(CLONE_NEWNET));
        return;
    case OTHER_PROCESSES:
        CHECK(!unshare(CLONE_NEWPID));
        return;
    }
}

static void give_as_is(int socket)
{
    process_use(0);
    fill(way->give(socket), 1);
    process_meet(socket); /* 1: written here */
    process_meet(socket); /* 2: seen there */
}

/* A process is in a new PID namespace once it is another's child. */
static void give_as_stranger(int socket)
{
    become_stranger();
    if (stranger != OTHER_PROCESSES) {
        give_as_is(socket);
        return;
    }
    const pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        give_as_is(socket);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    _exit(0); /* the kernel allows no thread here any more, and LeakSanitizer looks with one */
}

/* Legacy handles may be refused; descriptors are nobody's. */
static void take_from(stranger_t who, CUresult expected)
{
    enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
    process_t givers[WAYS];
    CUipcMemHandle handle;
    CUdeviceptr address;
    stranger = who;
    for (int i = 0; i < WAYS; i++) {
        way = &ways[i];
        givers[i] = process_start(give_as_stranger);
    }
    process_use(0);
    process_receive(givers[0].socket, &handle, sizeof(handle));
    process_meet(givers[0].socket);
    CHECK_RESULT(expected, cuIpcOpenMemHandle, &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    process_meet(givers[0].socket);
    for (int i = 1; i < WAYS; i++) {
        address = ways[i].take(givers[i].socket);
        process_meet(givers[i].socket);
        check_filled(address, 1);
        process_meet(givers[i].socket);
    }
    for (int i = 0; i < WAYS; i++)
        CHECK(process_end(givers[i]) == 0);
}

static void test_handles_know_no_users(int socket)
{
    (void)socket;
    take_from(OTHER_USER, CUDA_SUCCESS);
}

static void test_handles_know_no_networks(int socket)
{
    (void)socket;
    take_from(OTHER_NETWORK, CUDA_SUCCESS);
}

static void test_handles_of_other_users_are_refused(int socket)
{
    (void)socket;
    take_from(OTHER_USER, CUDA_ERROR_INVALID_CONTEXT);
}

static void test_handles_of_other_networks_are_refused(int socket)
{
    (void)socket;
    take_from(OTHER_NETWORK, CUDA_ERROR_INVALID_CONTEXT);
}

static void test_handles_of_other_pid_namespaces_are_refused(int socket)
{
    (void)socket;
    take_from(OTHER_PROCESSES, CUDA_ERROR_INVALID_CONTEXT);
}

#define TEST(name, environment)                                                                              \
    {                                                                                                        \
#name, name, environment                                                                             \
    }

int main(void)
{
    static const process_test_t tests[] = {
        TEST(test_legacy_sharing_outlives_a_killed_exporter, NULL),
        TEST(test_virtual_sharing_outlives_a_killed_exporter, NULL),
        TEST(test_pooled_sharing_outlives_a_killed_exporter, NULL),
        TEST(test_stale_handles_are_refused, NULL),
        TEST(test_stale_pool_pointers_are_refused, NULL),
    };
    static const process_test_t strangers[] = {
        TEST(test_handles_know_no_users, "STANDIN_CUDA_STRANGERS=network"),
        TEST(test_handles_know_no_networks, "STANDIN_CUDA_STRANGERS=user"),
        TEST(test_handles_of_other_users_are_refused, "STANDIN_CUDA_STRANGERS=user"),
        TEST(test_handles_of_other_networks_are_refused, "STANDIN_CUDA_STRANGERS=network"),
        TEST(test_handles_of_other_pid_namespaces_are_refused, NULL),
    };
    int failures = process_run_all(tests, sizeof(tests) / sizeof(tests[0]));
    if (geteuid() == 0)
        failures += process_run_all(strangers, sizeof(strangers) / sizeof(strangers[0]));
    else
        printf("skip   tests with strangers: they take root\n");
    return failures;
}
