/* The stand-in notes what CUDA leaves undefined (STANDIN_CUDA_FAULTS). */
#include "standin/process.h"

enum { BYTES = 1 << 20 };

static char faults[] = "/tmp/standin-faults-XXXXXX";

/* How many lines there are. */
static int count_faults(void)
{
    FILE *file = fopen(faults, "r");
    int lines = 0;
    for (int c; file && (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

static size_t free_bytes(void)
{
    size_t bytes, total;
    CU(cuMemGetInfo, &bytes, &total);
    return bytes;
}

/* Memory that the opener has open. */
static CUdeviceptr hand_over(int socket)
{
    CUipcMemHandle handle;
    CUdeviceptr address;
    CU(cuMemAlloc, &address, BYTES);
    CU(cuMemsetD8, address, 7, BYTES);
    CU(cuIpcGetMemHandle, &handle, address);
    process_send(socket, &handle, sizeof(handle), -1);
    process_meet(socket);
    return address;
}

static void check_seen(int socket, uint64_t expected)
{
    uint64_t word;
    process_receive(socket, &word, sizeof(word));
    CHECK(word == expected);
}

/* Opens what it is given, says what it sees there after each time that the giver says something. */
static void open_legacy(int socket)
{
    process_use(0);
    CUipcMemHandle handle;
    CUdeviceptr address;
    process_receive(socket, &handle, sizeof(handle));
    CU(cuIpcOpenMemHandle, &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    process_meet(socket);
    process_meet(socket);
    uint64_t word = process_word(address);
    process_send(socket, &word, sizeof(word), -1);
    CU(cuIpcCloseMemHandle, address);
    process_meet(socket);
    process_meet(socket);
}

static void test_memory_that_is_freed_under_an_import(int socket)
{
    (void)socket;
    process_t opener = process_start(open_legacy);
    process_use(0);
    size_t all = free_bytes();
    CU(cuMemFree, hand_over(opener.socket));
    CHECK(count_faults() == 1);
    CHECK(free_bytes() < all); /* it is open elsewhere */
    process_meet(opener.socket);
    check_seen(opener.socket, UINT64_C(0xdbdbdbdbdbdbdbdb));
    process_meet(opener.socket);
    CHECK(free_bytes() == all);
    process_meet(opener.socket);
    CHECK(process_end(opener) == 0);
}

static void test_memory_that_is_freed_when_nobody_has_it(int socket)
{
    (void)socket;
    process_t opener = process_start(open_legacy);
    process_use(0);
    CUdeviceptr address = hand_over(opener.socket);
    process_meet(opener.socket);
    check_seen(opener.socket, UINT64_C(0x0707070707070707));
    process_meet(opener.socket);
    CU(cuMemFree, address);
    CHECK(count_faults() == 0);
    process_meet(opener.socket);
    CHECK(process_end(opener) == 0);
}

static void test_an_attribute_of_memory_that_a_stream_frees(int socket)
{
    (void)socket;
    process_use(0);
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr address, again;
    unsigned long long id;
    CU(cuMemPoolCreate, &pool, &properties);
    CU(cuMemAllocFromPoolAsync, &address, BYTES, pool, NULL);
    CU(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    CU(cuMemFreeAsync, address, NULL);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                 address);
    CHECK(count_faults() == 1);
    CU(cuStreamSynchronize, NULL);
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                 address);
    CHECK(count_faults() == 2);
    CU(cuMemAllocFromPoolAsync, &again, BYTES, pool, NULL);
    CHECK(again == address); /* else it is no test */
    CU(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    CHECK(count_faults() == 2);
}

int main(void)
{
    static const process_test_t tests[] = {
        {"memory that is freed under an import", test_memory_that_is_freed_under_an_import, NULL},
        {"memory that is freed when nobody has it", test_memory_that_is_freed_when_nobody_has_it, NULL},
        {"an attribute of memory that a stream frees", test_an_attribute_of_memory_that_a_stream_frees, NULL},
    };
    int failures = 0, file = mkstemp(faults);
    CHECK(file >= 0);
    setenv("STANDIN_CUDA_FAULTS", faults, 1);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        CHECK(!ftruncate(file, 0));
        failures += process_run_all(&tests[i], 1);
    }
    close(file);
    unlink(faults);
    return failures;
}
