/* GPU memory that is mapped in pieces, as PyTorch's expandable segments are. */
#include "gpu_scenarios.h"

#include "frame.h"

#include "blink.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 1000, MESSAGE = 64 };

static CUmemAllocationProp properties_of(int handle_types)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = (CUmemAllocationHandleType)handle_types,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
}

static size_t granularity(const player_t *p)
{
    const CUmemAllocationProp properties = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    size_t bytes;
    cuda_must(p, cu->cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
              "granularity");
    return bytes;
}

static CUmemGenericAllocationHandle create(const player_t *p, size_t bytes, int handle_types)
{
    const CUmemAllocationProp properties = properties_of(handle_types);
    CUmemGenericAllocationHandle handle;
    cuda_must(p, cu->cuMemCreate(&handle, bytes, &properties, 0), "cuMemCreate");
    return handle;
}

/* Several allocations side by side, of which the last can be kept from being exported. */
static CUdeviceptr mapped_memory(const player_t *p, size_t pieces, size_t piece_bytes, int last_handle_types)
{
    CUmemAccessDesc access = {.location = properties_of(0).location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base;
    cuda_must(p, cu->cuMemAddressReserve(&base, pieces * piece_bytes, 0, 0, 0), "reserve");
    for (size_t i = 0; i < pieces; i++) {
        const bool is_last = i + 1 == pieces;
        CUmemGenericAllocationHandle handle = create(
            p, piece_bytes, is_last ? last_handle_types : (int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        cuda_must(p, cu->cuMemMap(base + i * piece_bytes, piece_bytes, 0, handle, 0), "cuMemMap");
        cuda_must(p, cu->cuMemRelease(handle), "cuMemRelease");
    }
    cuda_must(p, cu->cuMemSetAccess(base, pieces * piece_bytes, &access, 1), "cuMemSetAccess");
    return base;
}

void play_extents(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    const size_t piece_bytes = granularity(p);
    CUdeviceptr base = mapped_memory(p, 3, piece_bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUdeviceptr recv = device_memory(p, 2 * piece_bytes / 4);
    /* From the middle of the first to the middle of the last. */
    reduce_and_check(p, comm, base + piece_bytes / 2, recv, 2 * piece_bytes / 4, "three extents");
    reduce_and_check(p, comm, base + piece_bytes, base + piece_bytes, COUNT, "the extent in the middle");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* More than a message to the daemon has room for; and as many of which the last cannot be exported. */
void play_many_extents(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    const size_t piece_bytes = granularity(p);
    CUdeviceptr base = mapped_memory(p, MANY, piece_bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUdeviceptr last = base + (MANY - 1) * piece_bytes, border = base + MESSAGE * piece_bytes;
    must(p, blink_mem_prepare(p->context, as_pointer(base), MANY * piece_bytes), "prepare");
    reduce_and_check(p, comm, base, base, COUNT, "the first extent");
    reduce_and_check(p, comm, border - COUNT / 2 * 4, border - COUNT / 2 * 4, COUNT, "between two messages");
    reduce_and_check(p, comm, last - COUNT / 2 * 4, last - COUNT / 2 * 4, COUNT, "the last extents");
    must(p, blink_mem_release(p->context, as_pointer(last)), "release");
    cuda_must(p, cu->cuMemUnmap(base, MANY * piece_bytes), "cuMemUnmap");

    base = mapped_memory(p, MESSAGE + 1, piece_bytes, CU_MEM_HANDLE_TYPE_NONE);
    must_fail(p, blink_mem_prepare(p->context, as_pointer(base), (MESSAGE + 1) * piece_bytes),
              BLINK_ERR_UNSUPPORTED, "is staged", "prepare what cannot be exported whole");
    reduce_and_check(p, comm, base, base, COUNT, "the first extent of those");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* ---- a client that does not use the library ---- */

static uint32_t ask(const player_t *p, int connection, Blinkwire__Request *request, int fd, uint32_t *region)
{
    uint8_t bytes[512];
    frame_t frame;
    static uint64_t last_id;
    request->id = ++last_id;
    must(p,
         frame_send(connection, bytes, blinkwire__request__pack(request, bytes), fd >= 0 ? &fd : NULL,
                    fd >= 0),
         "frame_send");
    must(p, frame_receive(connection, &frame), "frame_receive");
    Blinkwire__Reply *reply = blinkwire__reply__unpack(NULL, frame.byte_count, frame.bytes);
    if (!reply || reply->id != request->id)
        fail(p, "no reply to request %lu", (unsigned long)request->id);
    const uint32_t code = reply->error ? reply->error->code : BLINK_OK;
    if (region && reply->body_case == BLINKWIRE__REPLY__BODY_MEM_REGISTER)
        *region = reply->mem_register->region;
    blinkwire__reply__free_unpacked(reply, NULL);
    frame_release(&frame);
    return code;
}

static int connect_raw(const player_t *p)
{
    int connection = -1;
    Blinkwire__Hello hello = BLINKWIRE__HELLO__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    must(p, frame_connect(getenv(BLINK_SOCKET_ENV), BLINK_DAEMON_TIMEOUT_DEFAULT, &connection), "connect");
    hello.version_min = BLINK_WIRE_VERSION_MIN;
    hello.version_max = BLINK_WIRE_VERSION_MAX;
    hello.program = (char[]){"begun-extents"};
    hello.want_ring = true;
    request.body_case = BLINKWIRE__REQUEST__BODY_HELLO;
    request.hello = &hello;
    if (ask(p, connection, &request, -1, NULL) != BLINK_OK)
        fail(p, "hello was refused");
    return connection;
}

/* A message with one extent, that begins a registration or goes on with *region. */
static void send_extent(const player_t *p, int connection, uint64_t bytes, uint64_t following_bytes,
                        uint32_t *region, uint32_t expected)
{
    CUuuid uuid;
    int fd;
    CUmemGenericAllocationHandle handle = create(p, bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    cuda_must(p, cu->cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              "export");
    cuda_must(p, cu->cuMemRelease(handle), "cuMemRelease");
    cuda_must(p, cu->cuDeviceGetUuid(&uuid, ordinal), "cuDeviceGetUuid");
    Blinkwire__GpuExtent extent = BLINKWIRE__GPU_EXTENT__INIT, *extents[1] = {&extent};
    Blinkwire__GpuMemRegister body = BLINKWIRE__GPU_MEM_REGISTER__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    extent.kind = BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_VMM;
    extent.bytes = extent.allocation_bytes = bytes;
    body.gpu_uuid = (ProtobufCBinaryData){sizeof(uuid.bytes), (uint8_t *)uuid.bytes};
    body.n_extents = 1;
    body.extents = extents;
    body.following_bytes = following_bytes;
    body.region = *region;
    request.body_case = BLINKWIRE__REQUEST__BODY_GPU_MEM_REGISTER;
    request.gpu_mem_register = &body;
    const uint32_t code = ask(p, connection, &request, fd, region);
    if (code != expected)
        fail(p, "%u bytes of region %u, %u to follow: result %u, not %u", (unsigned)bytes, *region,
             (unsigned)following_bytes, code, expected);
    close(fd);
}

static void deregister(const player_t *p, int connection, uint32_t region, uint32_t expected)
{
    Blinkwire__MemDeregister body = BLINKWIRE__MEM_DEREGISTER__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    body.region = region;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER;
    request.mem_deregister = &body;
    const uint32_t code = ask(p, connection, &request, -1, NULL);
    if (code != expected)
        fail(p, "region %u is deregistered with result %u, not %u", region, code, expected);
}

/* Registrations that are begun and not ended, or ended badly. */
void play_begun_extents(const player_t *p)
{
    use_gpu(p);
    const size_t bytes = granularity(p);
    const int connection = connect_raw(p);
    uint32_t whole = 0, begun = 0, other = 99;
    send_extent(p, connection, bytes, bytes, &whole, BLINK_OK);
    send_extent(p, connection, bytes, 0, &whole, BLINK_OK);
    send_extent(p, connection, bytes, 0, &whole, BLINK_ERR_NOT_REGISTERED);
    send_extent(p, connection, bytes, 0, &other, BLINK_ERR_NOT_REGISTERED);
    send_extent(p, connection, bytes, bytes, &begun, BLINK_OK);
    send_extent(p, connection, 2 * bytes, 0, &begun, BLINK_ERR_INVALID_ARGUMENT);
    deregister(p, connection, begun, BLINK_ERR_NOT_REGISTERED);
    other = 0;
    send_extent(p, connection, bytes, UINT64_MAX, &other, BLINK_ERR_INVALID_ARGUMENT);
    send_extent(p, connection, bytes, 8 * bytes, &other, BLINK_OK);
    deregister(p, connection, other, BLINK_OK);
    begun = 0;
    send_extent(p, connection, bytes, 8 * bytes, &begun, BLINK_OK);
    send_extent(p, connection, bytes, 0, &begun, BLINK_OK);
    close(connection);
}

/* The worker is killed while registrations wait for more messages. */
void play_lost_extents(const player_t *p)
{
    use_gpu(p);
    const size_t bytes = granularity(p);
    const int connection = connect_raw(p);
    uint32_t continued = 0, left = 0, whole = 0;
    frame_t event;
    send_extent(p, connection, bytes, bytes, &continued, BLINK_OK);
    send_extent(p, connection, bytes, bytes, &left, BLINK_OK);
    send_extent(p, connection, bytes, 0, &whole, BLINK_OK);
    printf("begun\n");
    fflush(stdout);
    must(p, frame_receive(connection, &event), "the loss of what was whole");
    frame_release(&event);
    send_extent(p, connection, bytes, 0, &continued, BLINK_ERR_SYSTEM);
    deregister(p, connection, continued, BLINK_ERR_NOT_REGISTERED);
    deregister(p, connection, left, BLINK_OK);
    close(connection);
}
