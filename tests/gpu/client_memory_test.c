/* libblinkclient and GPU memory: what is imported how, what is staged, what is refused. */
#include "client.h"

#define GRANULARITY ((size_t)2 << 20)

static void reduce(blink_comm_t *comm, const void *send, void *recv, size_t count)
{
    blink_op_t *op;
    BLINK(blink_all_reduce(send, recv, count, BLINK_UINT8, BLINK_SUM, comm, &op));
    BLINK(blink_wait(op));
}

static const fake_import_t *import(gpu_daemon_t *daemon, uint32_t number)
{
    assert_int_equal(atomic_load(&daemon->fake.import_count), number + 1);
    return &daemon->fake.imports[number];
}

static void test_a_rank_is_on_the_current_gpu(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_unique_id_t id = {{1}};
    blink_comm_t *comm;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    (void)join(daemon->context, 1, 0);
    assert_true(daemon->fake.joined.has_gpu);
    assert_memory_equal(daemon->fake.joined.gpu_uuid, daemon->uuid, 16);
    config.device = 3;
    BLINK(blink_comm_init_rank(daemon->context, &id, 1, 0, &config, &comm));
    assert_false(daemon->fake.joined.has_gpu);
    CU(cuCtxSetCurrent, NULL);
    (void)join(daemon->context, 1, 0);
    assert_false(daemon->fake.joined.has_gpu);
    CU(cuCtxSetCurrent, daemon->cuda);
    finish(daemon);
}

static void test_memory_of_the_driver_is_imported_once_by_its_handle(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, 100000);
    reduce(comm, pointer_to(memory), pointer_to(memory), 100000);
    const fake_import_t *first = import(daemon, 0);
    assert_int_equal(first->kind, BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_IPC);
    assert_int_equal(first->fd_count, 0);
    assert_int_equal(first->bytes, 100000);
    assert_memory_equal(first->gpu_uuid, daemon->uuid, 16);
    reduce(comm, pointer_to(memory + 1000), pointer_to(memory + 50000), 49000);
    (void)import(daemon, 0);
    const ring_sqe_t *sqe = fake_seen(&daemon->fake, 1);
    assert_int_equal(sqe->in_region, first->region);
    assert_int_equal(sqe->in_offset_bytes, 1000);
    assert_int_equal(sqe->out_offset_bytes, 50000);
    assert_int_equal(sqe->flags, 0);
    blink_op_t *op;
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "runs 1000 bytes past the end",
                 blink_all_reduce(pointer_to(memory + 1000), pointer_to(memory + 1000), 100000, BLINK_UINT8,
                                  BLINK_SUM, comm, &op));
    finish(daemon);
    CU(cuMemFree, memory);
}

static CUmemGenericAllocationHandle create(int types)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = (CUmemAllocationHandleType)types,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CU(cuMemCreate, &handle, GRANULARITY, &properties, 0);
    return handle;
}

static void map(CUdeviceptr address, int types)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = create(types);
    CU(cuMemMap, address, GRANULARITY, 0, handle, 0);
    CU(cuMemSetAccess, address, GRANULARITY, &access, 1);
    CU(cuMemRelease, handle);
}

static void test_mappings_side_by_side_are_imported_as_one(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr base;
    CU(cuMemAddressReserve, &base, 8 * GRANULARITY, 0, 0, 0);
    for (uint32_t i = 0; i < 4; i++)
        map(base + i * GRANULARITY, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    reduce(comm, pointer_to(base + GRANULARITY + 64), pointer_to(base + GRANULARITY + 64), 2 * GRANULARITY);
    const fake_import_t *first = import(daemon, 0);
    assert_int_equal(first->kind, BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_VMM);
    assert_int_equal(first->extent_count, 3);
    assert_int_equal(first->fd_count, 3);
    assert_int_equal(first->all_bytes, 3 * GRANULARITY);
    assert_int_equal(fake_seen(&daemon->fake, 0)->in_offset_bytes, 64);

    /* Within it: known. Beyond it: not. */
    reduce(comm, pointer_to(base + 3 * GRANULARITY), pointer_to(base + 3 * GRANULARITY), GRANULARITY);
    (void)import(daemon, 0);
    assert_int_equal(fake_seen(&daemon->fake, 1)->in_offset_bytes, 2 * GRANULARITY);
    reduce(comm, pointer_to(base), pointer_to(base), 4 * GRANULARITY);
    assert_int_equal(import(daemon, 1)->extent_count, 4);
    blink_op_t *op;
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "past the end of its memory",
                 blink_all_reduce(pointer_to(base), pointer_to(base), 5 * GRANULARITY, BLINK_UINT8, BLINK_SUM,
                                  comm, &op));

    /* One of them is replaced: what does not touch it is still known. */
    CU(cuMemUnmap, base + 2 * GRANULARITY, GRANULARITY);
    map(base + 2 * GRANULARITY, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    reduce(comm, pointer_to(base), pointer_to(base), 2 * GRANULARITY);
    (void)import(daemon, 1);
    reduce(comm, pointer_to(base), pointer_to(base), 3 * GRANULARITY);
    assert_int_equal(import(daemon, 2)->extent_count, 3);
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 0);

    /* All of them are: nobody can name the old ones any more. */
    CU(cuMemUnmap, base, 4 * GRANULARITY);
    map(base, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    reduce(comm, pointer_to(base), pointer_to(base), GRANULARITY);
    (void)import(daemon, 3);
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 3);
    finish(daemon);
}

static void test_more_mappings_than_a_message_holds(void **state)
{
    (void)state;
    enum { MAPPINGS = 2 * 64 + 3 };
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr base;
    CU(cuMemAddressReserve, &base, MAPPINGS * GRANULARITY, 0, 0, 0);
    for (uint32_t i = 0; i < MAPPINGS; i++)
        map(base + i * GRANULARITY, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    reduce(comm, pointer_to(base), pointer_to(base), MAPPINGS * GRANULARITY);
    const fake_import_t *first = import(daemon, 0);
    assert_int_equal(first->messages, 3);
    assert_int_equal(first->extent_count, MAPPINGS);
    assert_int_equal(first->fd_count, MAPPINGS);
    assert_int_equal(first->all_bytes, MAPPINGS * GRANULARITY);
    assert_int_equal(first->following_bytes, (MAPPINGS - 64) * GRANULARITY);

    /* The last of them cannot be exported: what the daemon has of the others it gives back. */
    CU(cuMemUnmap, base, MAPPINGS * GRANULARITY);
    for (uint32_t i = 0; i < MAPPINGS; i++)
        map(base + i * GRANULARITY, i + 1 < MAPPINGS ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0);
    reduce(comm, pointer_to(base), pointer_to(base), MAPPINGS * GRANULARITY);
    assert_int_equal(fake_seen(&daemon->fake, 1)->flags, RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED);
    assert_int_equal(import(daemon, 1)->messages, 2);
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 2);
    CU(cuMemUnmap, base, MAPPINGS * GRANULARITY);
    finish(daemon);
}

/* Nobody says when it will be freed: and then it may neither be open elsewhere nor be asked about. */
static void test_pooled_memory_is_staged_without_a_promise(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUmemoryPool pool;
    CUdeviceptr memory;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CU(cuMemPoolCreate, &pool, &properties);
    CU(cuMemAllocFromPoolAsync, &memory, 5000, pool, NULL);
    reduce(comm, pointer_to(memory), pointer_to(memory), 4000);
    assert_int_equal(atomic_load(&daemon->fake.import_count), 0);
    assert_int_equal(fake_seen(&daemon->fake, 0)->flags, RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED);
    BLINK(blink_mem_promise_release(daemon->context));
    reduce(comm, pointer_to(memory), pointer_to(memory), 4000);
    (void)import(daemon, 0);
    finish(daemon);
    CU(cuMemFreeAsync, memory, NULL);
    CU(cuMemPoolDestroy, pool);
}

static void test_pooled_memory_is_imported_with_its_pool(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    BLINK(blink_mem_promise_release(daemon->context));
    CUmemoryPool pool;
    CUstream stream;
    CUdeviceptr memory;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuMemPoolCreate, &pool, &properties);
    CU(cuMemAllocFromPoolAsync, &memory, 5000, pool, stream);
    CU(cuStreamSynchronize, stream);
    reduce(comm, pointer_to(memory + 16), pointer_to(memory + 16), 4000);
    assert_int_equal(import(daemon, 0)->kind, BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_POOL);
    assert_int_equal(import(daemon, 0)->fd_count, 1);
    const uint64_t number = import(daemon, 0)->pool;
    assert_int_not_equal(number, 0);
    assert_int_equal(fake_seen(&daemon->fake, 0)->in_offset_bytes, 16);
    BLINK(blink_mem_release(daemon->context, pointer_to(memory + 4999)));
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 1);
    CU(cuMemFreeAsync, memory, stream);
    CU(cuStreamSynchronize, stream);
    CU(cuMemAllocFromPoolAsync, &memory, 5000, pool, stream);
    CU(cuStreamSynchronize, stream);
    reduce(comm, pointer_to(memory), pointer_to(memory), 4000);
    assert_int_equal(import(daemon, 1)->kind, BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_POOL);
    assert_int_equal(import(daemon, 1)->pool, number);
    CU(cuMemFreeAsync, memory, stream);
    finish(daemon);
    CU(cuStreamDestroy, stream);
    CU(cuMemPoolDestroy, pool);
}

static void test_an_address_used_again_is_imported_again(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory, again;
    CU(cuMemAlloc, &memory, GRANULARITY);
    reduce(comm, pointer_to(memory), pointer_to(memory), 1);
    CU(cuMemFree, memory);
    CU(cuMemAlloc, &again, GRANULARITY);
    assert_true(memory == again); /* else it is no test */
    reduce(comm, pointer_to(again), pointer_to(again), 1);
    uint32_t first = daemon->fake.imports[0].region;
    assert_int_not_equal(import(daemon, 1)->region, first);
    assert_int_equal(fake_seen(&daemon->fake, 1)->in_region, import(daemon, 1)->region);
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 1);
    assert_int_equal(daemon->fake.deregistered[0], first);
    finish(daemon);
    CU(cuMemFree, again);
}

static void test_memory_is_given_back_before_it_is_freed(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory, other;
    CU(cuMemAlloc, &memory, GRANULARITY);
    CU(cuMemAlloc, &other, GRANULARITY);
    BLINK(blink_mem_release(daemon->context, pointer_to(memory))); /* nobody has it */
    reduce(comm, pointer_to(memory), pointer_to(other), 1);
    (void)import(daemon, 1);
    BLINK(blink_mem_release(daemon->context, pointer_to(memory + GRANULARITY - 1)));
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 1);
    assert_int_equal(daemon->fake.deregistered[0], daemon->fake.imports[0].region);
    BLINK(blink_mem_release(daemon->context, NULL)); /* nothing was freed */
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 1);
    reduce(comm, pointer_to(memory), pointer_to(other), 1);
    (void)import(daemon, 2);
    CU(cuMemFree, memory);
    BLINK(blink_mem_release(daemon->context, NULL));
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 2);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "context is NULL", blink_mem_release(NULL, &memory));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "context is NULL", blink_mem_promise_release(NULL));
    finish(daemon);
    CU(cuMemFree, other);
}

/* Nothing is called after the free. */
static void test_freed_memory_is_given_back_after_a_while(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, GRANULARITY);
    reduce(comm, pointer_to(memory), pointer_to(memory), 1);
    CU(cuMemFree, memory);
    for (unsigned i = 0; i < limit_ms() && atomic_load(&daemon->fake.deregistered_count) == 0; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 1);
    finish(daemon);
}

/* 3 pieces and a bit, from and to two places; in GPU memory the host can look here. */
static void check_staged(gpu_daemon_t *daemon, blink_comm_t *comm, uint8_t *send, uint8_t *recv)
{
    enum { COUNT = 3 * STAGING_SLOT_BYTES + 77 };
    for (size_t i = 0; i < COUNT; i++)
        send[i] = (uint8_t)(i * 7 % 251);
    memset(recv, 0, COUNT);
    reduce(comm, send, recv, COUNT);
    assert_memory_equal(send, recv, COUNT);
    uint32_t last = atomic_load(&daemon->fake.taken) - 1;
    assert_int_equal(fake_seen(&daemon->fake, last)->flags, RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED);
}

static void test_what_cannot_be_exported_is_staged(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr base;
    CU(cuMemAddressReserve, &base, 8 * GRANULARITY, 0, 0, 0);
    for (uint32_t i = 0; i < 8; i++)
        map(base + i * GRANULARITY, CU_MEM_HANDLE_TYPE_NONE);
    check_staged(daemon, comm, pointer_to(base), pointer_to(base + 4 * GRANULARITY));
    assert_int_equal(atomic_load(&daemon->fake.import_count), 0);
    CU(cuMemUnmap, base, 8 * GRANULARITY);
    finish(daemon);
}

static void test_what_the_daemon_refuses_is_staged_and_not_offered_again(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, 16 << 20);
    daemon->fake.refuse_imports = BLINK_ERR_PERMISSION;
    check_staged(daemon, comm, pointer_to(memory), pointer_to(memory + (8 << 20)));
    check_staged(daemon, comm, pointer_to(memory + 5), pointer_to(memory + (8 << 20)));
    assert_int_equal(atomic_load(&daemon->fake.refused_count), 1);
    CUdeviceptr other;
    blink_op_t *op;
    CU(cuMemAlloc, &other, 64);
    daemon->fake.refuse_imports = BLINK_ERR_QUOTA;
    assert_fails(
        BLINK_ERR_QUOTA, "not this memory",
        blink_all_reduce(pointer_to(other), pointer_to(other), 1, BLINK_UINT8, BLINK_SUM, comm, &op));
    daemon->fake.refuse_imports = BLINK_OK;
    reduce(comm, pointer_to(other), pointer_to(other), 1);
    (void)import(daemon, 0);
    finish(daemon);
    CU(cuMemFree, memory);
    CU(cuMemFree, other);
}

static void test_host_memory_is_staged_where_gpus_reach_it(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    void *registered;
    uint8_t *plain = calloc(1, 8 << 20);
    BLINK(blink_mem_alloc(daemon->context, 4 << 20, &registered));
    check_staged(daemon, comm, registered, plain);
    check_staged(daemon, comm, plain, registered);
    blink_op_t *op;
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "past the end",
                 blink_all_reduce(registered, registered, 5 << 20, BLINK_UINT8, BLINK_SUM, comm, &op));
    finish(daemon);
    free(plain);
}

static void test_memory_of_another_gpu_is_refused(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUcontext other;
    CUdeviceptr memory;
    blink_op_t *op;
    CU(cuDevicePrimaryCtxRetain, &other, 1);
    CU(cuCtxPushCurrent, other);
    CU(cuMemAlloc, &memory, 64);
    CU(cuCtxPopCurrent, &other);
    assert_fails(
        BLINK_ERR_INVALID_ARGUMENT, "but rank 0 is on GPU-",
        blink_all_reduce(pointer_to(memory), pointer_to(memory), 1, BLINK_UINT8, BLINK_SUM, comm, &op));
    finish(daemon);
}

static void test_gpu_memory_is_refused_where_devices_are_the_hosts(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    daemon->fake.gpu_uuid = NULL;
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory;
    blink_op_t *op;
    uint8_t plain[8] = {0};
    CU(cuMemAlloc, &memory, 64);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "is GPU memory, but the communicator is on host devices",
                 blink_all_reduce(plain, pointer_to(memory), 8, BLINK_UINT8, BLINK_SUM, comm, &op));
    reduce(comm, plain, plain, 8);
    assert_fails(BLINK_ERR_UNSUPPORTED, "is not a GPU", blink_barrier_on(comm, NULL));
    finish(daemon);
    CU(cuMemFree, memory);
}

static void test_after_a_reset_memory_is_imported_again(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory;
    Blinkwire__Reply event = BLINKWIRE__REPLY__INIT;
    Blinkwire__GpuReset reset = BLINKWIRE__GPU_RESET__INIT;
    blink_device_count(daemon->context, &(int){0});
    event.body_case = BLINKWIRE__REPLY__BODY_GPU_RESET;
    event.gpu_reset = &reset;
    CU(cuMemAlloc, &memory, 64);
    reduce(comm, pointer_to(memory), pointer_to(memory), 64);
    (void)import(daemon, 0);
    fake_send(&daemon->fake, &event, NULL, 0);
    while (atomic_load(&daemon->fake.import_count) == 1)
        reduce(comm, pointer_to(memory), pointer_to(memory), 64);
    (void)import(daemon, 1);
    finish(daemon);
    CU(cuMemFree, memory);
}

/* ---- before it is used ---- */

static void test_prepared_memory_is_imported_before_it_is_used(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    CUdeviceptr memory;
    CU(cuMemAlloc, &memory, 100000);
    CU(cuCtxSetCurrent, NULL);
    BLINK(blink_mem_prepare(daemon->context, pointer_to(memory + 100), 10));
    CU(cuCtxSetCurrent, daemon->cuda);
    assert_int_equal(import(daemon, 0)->bytes, 100000);
    assert_memory_equal(import(daemon, 0)->gpu_uuid, daemon->uuid, 16);
    BLINK(blink_mem_prepare(daemon->context, pointer_to(memory), 100000));
    blink_comm_t *comm = join(daemon->context, 1, 0);
    reduce(comm, pointer_to(memory), pointer_to(memory + 50000), 50000);
    assert_int_equal(fake_seen(&daemon->fake, 0)->out_region, import(daemon, 0)->region);
    assert_fails(BLINK_ERR_OUT_OF_RANGE, "runs 1 bytes past the end",
                 blink_mem_prepare(daemon->context, pointer_to(memory), 100001));
    BLINK(blink_mem_release(daemon->context, pointer_to(memory)));
    assert_int_equal(atomic_load(&daemon->fake.deregistered_count), 1);
    finish(daemon);
    CU(cuMemFree, memory);
}

static void test_what_will_be_staged_is_told_before_it_is_used(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    CUdeviceptr base, pooled;
    CUmemoryPool pool;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    uint8_t plain[64];
    void *registered;
    CU(cuMemAddressReserve, &base, GRANULARITY, 0, 0, 0);
    map(base, CU_MEM_HANDLE_TYPE_NONE);
    CU(cuMemPoolCreate, &pool, &properties);
    CU(cuMemAllocFromPoolAsync, &pooled, 64, pool, NULL);
    BLINK(blink_mem_alloc(daemon->context, 64, &registered));
    const struct {
        const void *address;
        const char *sentence;
    } staged[] = {{pointer_to(base), "shareable as a descriptor and"},
                  {pointer_to(pooled), "blink_mem_promise_release() has to come first"},
                  {plain, "ordinary memory of the host"},
                  {registered, "they do not reach this memory of the host"}};
    for (size_t i = 0; i < sizeof(staged) / sizeof(staged[0]); i++)
        assert_fails(BLINK_ERR_UNSUPPORTED, staged[i].sentence,
                     blink_mem_prepare(daemon->context, staged[i].address, 64));
    assert_int_equal(atomic_load(&daemon->fake.import_count), 0);
    finish(daemon);
    CU(cuMemUnmap, base, GRANULARITY);
    CU(cuMemFreeAsync, pooled, NULL);
    CU(cuMemPoolDestroy, pool);
}

static void test_memory_is_imported_while_a_stream_is_captured(void **state)
{
    (void)state;
    gpu_daemon_t *daemon = start(NULL);
    blink_comm_t *comm = join(daemon->context, 1, 0);
    CUdeviceptr memory;
    CUstream stream;
    CUgraph graph;
    CU(cuMemAlloc, &memory, 64);
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    reduce(comm, pointer_to(memory), pointer_to(memory), 64);
    uint8_t plain[64];
    reduce(comm, plain, pointer_to(memory), 64);
    CU(cuStreamEndCapture, stream, &graph); /* it is still valid */
    CU(cuGraphDestroy, graph);
    finish(daemon);
    CU(cuStreamDestroy, stream);
    CU(cuMemFree, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_is_on_the_current_gpu),
        cmocka_unit_test(test_memory_of_the_driver_is_imported_once_by_its_handle),
        cmocka_unit_test(test_mappings_side_by_side_are_imported_as_one),
        cmocka_unit_test(test_more_mappings_than_a_message_holds),
        cmocka_unit_test(test_pooled_memory_is_staged_without_a_promise),
        cmocka_unit_test(test_pooled_memory_is_imported_with_its_pool),
        cmocka_unit_test(test_memory_is_given_back_before_it_is_freed),
        cmocka_unit_test(test_freed_memory_is_given_back_after_a_while),
        cmocka_unit_test(test_an_address_used_again_is_imported_again),
        cmocka_unit_test(test_what_cannot_be_exported_is_staged),
        cmocka_unit_test(test_what_the_daemon_refuses_is_staged_and_not_offered_again),
        cmocka_unit_test(test_host_memory_is_staged_where_gpus_reach_it),
        cmocka_unit_test(test_memory_of_another_gpu_is_refused),
        cmocka_unit_test(test_prepared_memory_is_imported_before_it_is_used),
        cmocka_unit_test(test_what_will_be_staged_is_told_before_it_is_used),
        cmocka_unit_test(test_gpu_memory_is_refused_where_devices_are_the_hosts),
        cmocka_unit_test(test_after_a_reset_memory_is_imported_again),
        cmocka_unit_test(test_memory_is_imported_while_a_stream_is_captured),
    };
    return cmocka_run_group_tests(tests, find_driver, NULL);
}
