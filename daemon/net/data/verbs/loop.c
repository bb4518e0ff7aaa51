/* The queue pair that is joined with itself, and memory of GPUs that is reached by it. */
#include "net/data/verbs/loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/pages.h"
#include "net/data/verbs/verbs.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* What is written goes through so much memory of the host. */
#define BOUNCE_BYTES (64u << 10)

/* So much is read to flush what was written. */
#define FLUSH_BYTES 8u

/* The device acknowledges its own messages within microseconds, or the queue pair fails: after 7 tries of
 * 67 ms. */
#define TIMEOUT     14
#define RETRIES     7
#define WAIT_MOST_S 5.0
#define POLLS_MOST  64u

struct verbs_loop {
    list_t link; /* verbs_devices_t.loops */
    verbs_devices_t *devices;
    struct ibv_context *context; /* which librdmacm keeps open */
    const verbs_library_t *library;
    uint32_t holders; /* under the mutex of all loops */
    struct ibv_pd *domain;
    struct ibv_cq *queue;
    struct ibv_qp *qp;
    uint8_t *bounce;
    struct ibv_mr *region; /* of `bounce` */
};

/* ---- making ---- */

static blink_result_t fail_call(const verbs_loop_t *loop, const char *what, int error)
{
    return BLINK_FAIL(BLINK_ERR_SYSTEM, VERBS_NAMED ": %s: %s", loop->context->device->name, what,
                      strerror(error));
}

/* The way to itself: over the port, and by the address, of a connection of librdmacm's. */
static blink_result_t find_way(const verbs_loop_t *loop, struct ibv_qp *connected, struct ibv_qp_attr *way)
{
    struct ibv_qp_init_attr made_with;
    struct ibv_port_attr port = {0};
    int error = loop->library->query_qp(
        connected, way, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_PORT | IBV_QP_PKEY_INDEX, &made_with);
    if (error)
        return fail_call(loop, "a connection does not tell its way", error);
    struct ibv_ah_attr *to = &way->ah_attr;
    /* The call fills less than the struct has, which grew later: what is asked for is in its first part. */
    error = loop->library->query_port(loop->context, way->port_num, (struct _compat_ibv_port_attr *)&port);
    if (!error && to->is_global)
        error = loop->library->query_gid(loop->context, way->port_num, to->grh.sgid_index, &to->grh.dgid);
    to->dlid = port.lid;
    to->port_num = way->port_num;
    return error ? fail_call(loop, "a port does not tell its address", error) : BLINK_OK;
}

static blink_result_t join_with_itself(const verbs_loop_t *loop, struct ibv_qp *connected)
{
    struct ibv_qp_attr way = {0};
    BLINK_TRY(find_way(loop, connected, &way));
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = way.pkey_index,
                             .port_num = way.port_num,
                             .qp_access_flags =
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    int error = loop->library->modify_qp(
        loop->qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                              .ah_attr = way.ah_attr,
                              .path_mtu = way.path_mtu,
                              .dest_qp_num = loop->qp->qp_num,
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12};
    if (!error)
        error =
            loop->library->modify_qp(loop->qp, &to,
                                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .timeout = TIMEOUT,
                              .retry_cnt = RETRIES,
                              .rnr_retry = RETRIES,
                              .max_rd_atomic = 1};
    if (!error)
        error = loop->library->modify_qp(loop->qp, &to,
                                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    return error ? fail_call(loop, "no queue pair can be joined with itself", error) : BLINK_OK;
}

static blink_result_t make(verbs_loop_t *loop, struct ibv_qp *connected)
{
    const verbs_library_t *library = loop->library;
    loop->bounce = pages_take(BOUNCE_BYTES);
    if (!loop->bounce)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what goes to GPUs");
    if (!(loop->domain = library->alloc_pd(loop->context)))
        return fail_call(loop, "no protection domain", errno);
    if (!(loop->region = library->reg_mr(loop->domain, loop->bounce, BOUNCE_BYTES, IBV_ACCESS_LOCAL_WRITE)))
        return fail_call(loop, "memory cannot be pinned", errno);
    if (!(loop->queue = library->create_cq(loop->context, 4, loop, NULL, 0)))
        return fail_call(loop, "no queue of completions", errno);
    struct ibv_qp_init_attr attributes = {
        .send_cq = loop->queue,
        .recv_cq = loop->queue,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    if (!(loop->qp = library->create_own_qp(loop->domain, &attributes)))
        return fail_call(loop, "no queue pair", errno);
    return join_with_itself(loop, connected);
}

static void end(verbs_loop_t *loop)
{
    const verbs_library_t *library = loop->library;
    list_remove(&loop->link);
    if (loop->qp)
        (void)library->destroy_own_qp(loop->qp);
    if (loop->queue)
        (void)library->destroy_cq(loop->queue);
    if (loop->region)
        (void)library->dereg_mr(loop->region);
    if (loop->domain)
        (void)library->dealloc_pd(loop->domain);
    pages_give(loop->bounce, BOUNCE_BYTES);
    free(loop);
}

void verbs_loop_put(verbs_loop_t *loop)
{
    verbs_devices_t *devices = loop->devices;
    pthread_mutex_lock(&devices->loops_mutex);
    if (--loop->holders == 0)
        end(loop);
    pthread_mutex_unlock(&devices->loops_mutex);
}

static verbs_loop_t *find(const verbs_devices_t *devices, const struct ibv_context *context)
{
    LIST_FOR_EACH (link, &devices->loops) {
        verbs_loop_t *loop = CONTAINER_OF(link, verbs_loop_t, link);
        if (loop->context == context)
            return loop;
    }
    return NULL;
}

static blink_result_t find_or_make(verbs_devices_t *devices, struct ibv_qp *connected, verbs_loop_t **found)
{
    verbs_loop_t *loop = find(devices, connected->context);
    if (loop) {
        loop->holders++;
        *found = loop;
        return BLINK_OK;
    }
    loop = calloc(1, sizeof(*loop));
    if (!loop)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what goes to GPUs");
    *loop = (verbs_loop_t){
        .devices = devices, .context = connected->context, .library = devices->library, .holders = 1};
    list_append(&devices->loops, &loop->link);
    blink_result_t result = make(loop, connected);
    if (result != BLINK_OK)
        end(loop);
    else
        *found = loop;
    return result;
}

blink_result_t verbs_loop_get(verbs_devices_t *devices, struct ibv_qp *connected, verbs_loop_t **loop)
{
    pthread_mutex_lock(&devices->loops_mutex);
    blink_result_t result = find_or_make(devices, connected, loop);
    pthread_mutex_unlock(&devices->loops_mutex);
    return result;
}

/* ---- what goes ---- */

struct ibv_mr *verbs_loop_register(verbs_loop_t *loop, device_memory_t *memory, uint64_t offset,
                                   uint64_t bytes)
{
    struct ibv_mr *region = loop->library->reg_dmabuf_mr(
        loop->domain, offset, bytes, device_memory_address(memory) + offset, device_memory_fd(memory),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!region)
        (void)fail_call(loop, "memory of a GPU is not registered", errno);
    return region;
}

static blink_result_t post(const verbs_loop_t *loop, enum ibv_wr_opcode opcode, uint32_t bytes,
                           const struct ibv_mr *region, uint64_t address)
{
    struct ibv_sge memory = {.addr = (uintptr_t)loop->bounce, .length = bytes, .lkey = loop->region->lkey};
    struct ibv_send_wr work = {.sg_list = &memory,
                               .num_sge = 1,
                               .opcode = opcode,
                               .send_flags = opcode == IBV_WR_RDMA_READ ? IBV_SEND_SIGNALED : 0,
                               .wr.rdma = {.remote_addr = address, .rkey = region->rkey}};
    struct ibv_send_wr *bad;
    int error = ibv_post_send(loop->qp, &work, &bad);
    return error ? fail_call(loop, "memory of a GPU cannot be reached", error) : BLINK_OK;
}

/* Until the read is done, or something has failed. */
static blink_result_t await(const verbs_loop_t *loop)
{
    const uint64_t until_ns = clock_ns() + (uint64_t)(WAIT_MOST_S * 1e9);
    struct ibv_wc done;
    int count;
    /* A device takes a few microseconds, a virtual one needs the core. */
    for (uint32_t polls = 1; (count = ibv_poll_cq(loop->queue, 1, &done)) == 0; polls++) {
        if (polls % POLLS_MOST > 0)
            continue;
        if (clock_ns() > until_ns)
            break;
        sched_yield();
    }
    if (count == 1 && done.status == IBV_WC_SUCCESS)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_SYSTEM, VERBS_NAMED ": memory of a GPU was not reached: %s",
                      loop->context->device->name,
                      count == 1 ? loop->library->status_text(done.status) : "the device says nothing");
}

blink_result_t verbs_loop_flush(verbs_loop_t *loop, const struct ibv_mr *region, uint64_t address)
{
    BLINK_TRY(post(loop, IBV_WR_RDMA_READ, FLUSH_BYTES, region, address));
    return await(loop);
}

blink_result_t verbs_loop_write(verbs_loop_t *loop, const struct ibv_mr *region, uint64_t address,
                                uint64_t offset, const void *source, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes;) {
        uint32_t some = bytes - at < BOUNCE_BYTES ? bytes - at : BOUNCE_BYTES;
        memcpy(loop->bounce, (const uint8_t *)source + at, some);
        BLINK_TRY(post(loop, IBV_WR_RDMA_WRITE, some, region, address + offset + at));
        BLINK_TRY(verbs_loop_flush(loop, region, address));
        at += some;
    }
    return BLINK_OK;
}

/* ---- memory of GPUs that is reached ---- */

/* By one of the devices on which moves come. */
typedef struct by_device {
    verbs_loop_t *loop;
    struct ibv_mr *region;
} by_device_t;

typedef struct reach {
    void *shown; /* to the peer */
    uint64_t address;
    verbs_devices_t *devices;
    by_device_t by[DATA_MOVE_STREAMS_MOST];
    uint32_t count;
} reach_t;

static blink_result_t add_device(reach_t *reach, const verbs_qp_t *qp, device_memory_t *memory,
                                 uint64_t offset, uint64_t bytes)
{
    by_device_t *by = &reach->by[reach->count];
    BLINK_TRY(verbs_loop_get(qp->verbs->config.verbs, qp->id->qp, &by->loop));
    for (uint32_t i = 0; i < reach->count; i++) {
        if (reach->by[i].loop == by->loop) {
            verbs_loop_put(by->loop);
            return BLINK_OK;
        }
    }
    reach->count++;
    by->region = verbs_loop_register(by->loop, memory, offset, bytes);
    return by->region ? BLINK_OK : BLINK_ERR_SYSTEM;
}

static blink_result_t make_reach(reach_t *reach, verbs_t *verbs, device_memory_t *memory, uint64_t offset,
                                 uint64_t bytes, data_keys_t *keys)
{
    if (!verbs->library->reg_dmabuf_mr)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "rdma-core has no ibv_reg_dmabuf_mr(): it is older than 34");
    reach->shown = verbs_show_device(verbs, memory, offset, bytes, keys);
    if (!reach->shown)
        return BLINK_ERR_UNSUPPORTED;
    for (uint32_t i = 1; i < verbs->config.stream_count; i++)
        BLINK_TRY(add_device(reach, &verbs->qps[i], memory, offset, bytes));
    return BLINK_OK;
}

void *verbs_reach(transport_t *transport, device_memory_t *memory, uint64_t offset, uint64_t bytes,
                  data_keys_t *keys)
{
    verbs_t *verbs = verbs_of(transport);
    bool cannot = verbs->cannot_reach || verbs->config.verbs->loop_failed;
    reach_t *reach = cannot ? NULL : calloc(1, sizeof(*reach));
    if (!reach)
        return NULL;
    reach->devices = verbs->config.verbs;
    reach->address = device_memory_address(memory) + offset;
    if (make_reach(reach, verbs, memory, offset, bytes, keys) == BLINK_OK)
        return reach;
    verbs->cannot_reach = true;
    LOG_WARNING("[network] gpu_direct: %s; what comes lands in host memory", blink_error_text());
    verbs_unreach(reach);
    return NULL;
}

void verbs_unreach(void *unreached)
{
    reach_t *reach = unreached;
    for (uint32_t i = 0; i < reach->count; i++) {
        if (reach->by[i].region)
            (void)reach->devices->library->dereg_mr(reach->by[i].region);
        verbs_loop_put(reach->by[i].loop);
    }
    if (reach->shown)
        verbs_hide(reach->shown);
    free(reach);
}

bool verbs_reaches(const void *reached)
{
    const reach_t *reach = reached;
    return !reach->devices->loop_failed && verbs_shows(reach->shown);
}

static blink_result_t settle(const reach_t *reach, uint64_t offset, const void *source, uint32_t bytes)
{
    if (source)
        return verbs_loop_write(reach->by[0].loop, reach->by[0].region, reach->address, offset, source,
                                bytes);
    for (uint32_t i = 0; i < reach->count; i++)
        BLINK_TRY(verbs_loop_flush(reach->by[i].loop, reach->by[i].region, reach->address));
    return BLINK_OK;
}

blink_result_t verbs_settle(void *reached, uint64_t offset, const void *source, uint32_t bytes)
{
    const reach_t *reach = reached;
    if (reach->devices->loop_failed)
        return BLINK_FAIL(BLINK_ERR_SYSTEM,
                          "memory of a GPU is not reached any more: a device has failed to");
    blink_result_t result = settle(reach, offset, source, bytes);
    if (result != BLINK_OK && !reach->devices->loop_failed)
        LOG_WARNING("[network] gpu_direct: %s; from now on what comes lands in host memory",
                    blink_error_text());
    reach->devices->loop_failed |= result != BLINK_OK;
    return result;
}
