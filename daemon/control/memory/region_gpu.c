#include "control/memory/region_gpu.h"

#include "base/log.h"
#include "control/descriptors.h"
#include "control/gpus.h"
#include "control/memory/region.h"
#include "control/memory/region_loss.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static blink_result_t check_gpus(const client_t *client)
{
    return client->control->gpus ? BLINK_OK : BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "this daemon serves no GPUs");
}

/* ---- exported memory ---- */

static blink_result_t copy_extent(const client_t *client, const Blinkwire__GpuExtent *from, uint32_t index,
                                  gpu_extent_t *to)
{
    bool has_handle = from->kind != BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_VMM;
    if ((uint32_t)from->kind > GPU_EXTENT_IPC)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "extent %u is of the unknown kind %d", index,
                          (int)from->kind);
    if (has_handle && from->handle.len != sizeof(to->handle))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "extent %u has a handle of %zu bytes, not %zu", index,
                          from->handle.len, sizeof(to->handle));
    if (from->bytes == 0 || from->offset_bytes > from->allocation_bytes ||
        from->bytes > from->allocation_bytes - from->offset_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "extent %u: %lu bytes at offset %lu of %lu", index,
                          (unsigned long)from->bytes, (unsigned long)from->offset_bytes,
                          (unsigned long)from->allocation_bytes);
    *to = (gpu_extent_t){.kind = (uint32_t)from->kind,
                         .allocation_bytes = from->allocation_bytes,
                         .offset_bytes = from->offset_bytes,
                         .bytes = from->bytes,
                         .pool = from->pool,
                         .client = client->number};
    if (has_handle)
        memcpy(to->handle, from->handle.data, sizeof(to->handle));
    return BLINK_OK;
}

static blink_result_t make_import(const client_t *client, const Blinkwire__GpuMemRegister *message,
                                  uint32_t fd_count, gpu_request_t *import, uint64_t *bytes)
{
    uint32_t wanted_fds = 0;
    *bytes = 0;
    BLINK_TRY(check_gpus(client));
    BLINK_TRY(gpus_check(client->control->gpus));
    if (message->n_extents == 0 || message->n_extents > GPU_EXTENTS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%zu extents of GPU memory: 1 to %u are possible",
                          message->n_extents, GPU_EXTENTS_MAX);
    import->kind = GPU_IMPORT;
    import->following_bytes = message->following_bytes;
    import->extent_count = (uint32_t)message->n_extents;
    BLINK_TRY(gpus_find(client->control->gpus, message->gpu_uuid.data, message->gpu_uuid.len, &import->gpu));
    for (uint32_t i = 0; i < import->extent_count; i++) {
        BLINK_TRY(copy_extent(client, message->extents[i], i, &import->extents[i]));
        wanted_fds += import->extents[i].kind != GPU_EXTENT_IPC;
        if (import->extents[i].bytes > UINT64_MAX - *bytes)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "extent %u: more bytes than there can be", i);
        *bytes += import->extents[i].bytes;
    }
    if (wanted_fds != fd_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u descriptors came with %u extents that need one",
                          fd_count, wanted_fds);
    return BLINK_OK;
}

/* The worker has answered, and the client is still there. A failure is answered here; the region is then
 * the caller's to discard. */
static blink_result_t finish_import(region_t *region, blink_result_t result, uint64_t address)
{
    list_remove(&region->of_pending);
    if (result == BLINK_OK && region->missing_bytes > 0)
        return BLINK_OK;
    if (result == BLINK_OK)
        result = region_tell_engine(region, address);
    else if (region->message_count == 1)
        region->gpu_token = 0; /* else the worker has the extents of the messages before */
    if (result == BLINK_OK)
        region_is_answered(region, BLINK_OK, region->gpu_token);
    else
        connection_reply_error(region->client->connection, region->request, result);
    return result;
}

static void reply_registered(region_t *region)
{
    Blinkwire__MemRegisterReply body = BLINKWIRE__MEM_REGISTER_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    body.region = region->number;
    body.gpu = region->gpu_token != 0;
    if (body.gpu)
        region_tell_losses(region->client); /* first: the client forgets what it has when it hears of one */
    reply.id = region->request;
    reply.body_case = BLINKWIRE__REPLY__BODY_MEM_REGISTER;
    reply.mem_register = &body;
    connection_send(region->client->connection, &reply, NULL, 0);
}

static void settle_import(region_t *region, blink_result_t result, uint64_t address,
                          void (*reply)(region_t *region))
{
    if (!region->client)
        region_free(region);
    else if (finish_import(region, result, address) != BLINK_OK)
        region_discard(region);
    else
        reply(region);
}

static void on_imported(void *context, blink_result_t result, uint64_t address)
{
    settle_import(context, result, address, reply_registered);
}

static blink_result_t begin_import(region_t *region, gpu_request_t *import, const int *fds, uint32_t fd_count,
                                   void (*on_answer)(void *, blink_result_t, uint64_t))
{
    BLINK_TRY(gpus_import(region->control->gpus, import, fds, fd_count, (gpu_answer_t){on_answer, region}));
    region->gpu_token = import->token;
    list_append(&region->client->pending_regions, &region->of_pending);
    return BLINK_OK;
}

/* The region whose extents go on with this message; NULL: the message is a first one. */
static blink_result_t find_begun(const client_t *client, uint32_t number, region_t **region)
{
    *region = NULL;
    if (number == 0)
        return BLINK_OK;
    region_t *found = region_numbered(client, number);
    if (!found || found->missing_bytes == 0 || region_is_pending(found))
        return BLINK_FAIL(BLINK_ERR_NOT_REGISTERED, "region %u does not wait for extents of GPU memory",
                          number);
    *region = found;
    return BLINK_OK;
}

static blink_result_t import_first(client_t *client, gpu_request_t *import, uint64_t bytes, const int *fds,
                                   uint32_t fd_count, region_t **region)
{
    if (import->following_bytes > UINT64_MAX - bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%lu bytes are to follow: more than there can be",
                          (unsigned long)import->following_bytes);
    BLINK_TRY(region_create(client, bytes + import->following_bytes, 0, ENGINE_REGION_CLIENT, region));
    (*region)->missing_bytes = import->following_bytes;
    return begin_import(*region, import, fds, fd_count, on_imported);
}

static blink_result_t import_more(region_t *region, gpu_request_t *import, uint64_t bytes, const int *fds,
                                  uint32_t fd_count)
{
    if (bytes > region->missing_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%lu bytes of extents: region %u lacks only %lu",
                          (unsigned long)bytes, region->number, (unsigned long)region->missing_bytes);
    BLINK_TRY(region_count_message(region));
    region->missing_bytes -= bytes;
    import->kind = GPU_IMPORT_MORE;
    import->token = region->gpu_token;
    import->following_bytes = region->missing_bytes;
    BLINK_TRY(
        gpus_import_more(region->control->gpus, import, fds, fd_count, (gpu_answer_t){on_imported, region}));
    list_append(&region->client->pending_regions, &region->of_pending);
    return BLINK_OK;
}

void region_register_gpu(client_t *client, uint64_t request, const Blinkwire__GpuMemRegister *message,
                         const int *fds, uint32_t fd_count)
{
    region_t *region;
    uint64_t bytes;
    gpu_request_t *import = calloc(1, sizeof(*import));
    blink_result_t result = find_begun(client, message->region, &region);
    if (result == BLINK_OK)
        result = import ? make_import(client, message, fd_count, import, &bytes)
                        : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an import");
    if (result == BLINK_OK)
        result = region ? import_more(region, import, bytes, fds, fd_count)
                        : import_first(client, import, bytes, fds, fd_count, &region);
    if (result == BLINK_OK) {
        region->request = request;
    } else {
        connection_reply_error(client->connection, request, result);
        if (region)
            region_discard(region);
    }
    free(import);
}

/* ---- memory of the host ---- */

/* Whether or not GPUs can reach the region, host devices can use it. */
static void finish_host(region_t *region, uint64_t gpu_address)
{
    blink_result_t result = region_tell_engine(region, gpu_address);
    if (result == BLINK_OK) {
        reply_registered(region);
        return;
    }
    connection_reply_error(region->client->connection, region->request, result);
    region_discard(region);
}

static void on_host_mapped(void *context, blink_result_t result, uint64_t address)
{
    region_t *region = context;
    if (!region->client) {
        region_free(region);
        return;
    }
    list_remove(&region->of_pending);
    if (result != BLINK_OK) {
        LOG_INFO("client %u: GPUs cannot reach region %u: %s", region->client->number, region->number,
                 blink_error_text());
        address = 0;
    }
    region_is_answered(region, result, region->gpu_token);
    finish_host(region, address);
}

static blink_result_t let_gpus_map(region_t *region, int fd)
{
    gpu_request_t map = region_map_request(region);
    region->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* for a worker that may come later */
    if (region->fd < 0)
        return descriptors_fail("keep the descriptor of a region");
    return begin_import(region, &map, &region->fd, 1, on_host_mapped);
}

void region_register_host(client_t *client, uint64_t request, const Blinkwire__MemRegister *message, int fd)
{
    region_t *region;
    blink_result_t result = region_register(client, fd, message->offset_bytes, message->bytes, &region);
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        return;
    }
    region->request = request;
    if (!message->gpu || !client->control->gpus || let_gpus_map(region, fd) != BLINK_OK)
        finish_host(region, 0);
}

/* ---- staging ---- */

/* For the client. A descriptor that the GPU worker may need again is kept. */
static int staging_fd(region_t *region)
{
    int fd = region->fd;
    if (region->gpu_token != 0)
        return fcntl(fd, F_DUPFD_CLOEXEC, 0);
    region->fd = -1;
    return fd;
}

static void reply_staging(region_t *region)
{
    int fd = staging_fd(region);
    if (fd < 0) {
        connection_reply_error(region->client->connection, region->request,
                               descriptors_fail("the descriptor of a staging region"));
        region_remove_silently(region);
        return;
    }
    Blinkwire__StagingCreateReply body = BLINKWIRE__STAGING_CREATE_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    body.region = region->number;
    reply.id = region->request;
    reply.body_case = BLINKWIRE__REPLY__BODY_STAGING_CREATE;
    reply.staging_create = &body;
    connection_send(region->client->connection, &reply, &fd, 1);
}

/* The descriptor stays, for a worker that may come later. */
static void on_mapped(void *context, blink_result_t result, uint64_t address)
{
    settle_import(context, result, address, reply_staging);
}

static blink_result_t stage(region_t *region, bool gpu)
{
    if (gpu) {
        gpu_request_t map = region_map_request(region);
        return begin_import(region, &map, &region->fd, 1, on_mapped);
    }
    BLINK_TRY(region_tell_engine(region, 0));
    reply_staging(region);
    return BLINK_OK;
}

void region_stage(client_t *client, uint64_t request, const Blinkwire__StagingCreate *message)
{
    region_t *region = NULL;
    engine_region_kind_t kind = message->windows ? ENGINE_REGION_WINDOWS : ENGINE_REGION_STAGING;
    bool gpu = message->gpu && !message->windows;
    blink_result_t result = message->gpu || message->windows ? check_gpus(client) : BLINK_OK;
    if (result == BLINK_OK)
        result = region_create_staging(client, message->bytes, gpu, kind, &region);
    if (result == BLINK_OK) {
        region->request = request;
        result = stage(region, gpu);
    }
    if (result != BLINK_OK) {
        connection_reply_error(client->connection, request, result);
        if (region)
            region_discard(region);
    }
}
