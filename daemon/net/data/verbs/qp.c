/* Queue pairs, their memory, and what is posted to them. */
#include "net/data/verbs/verbs.h"

#include "base/log.h"
#include "base/pages.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* Messages up to this many bytes go with their work request, if the device has so much room there. */
#define INLINE_BYTES 192u

/* Of every queue pair all that can be under way at once. */
#define QUEUE_ENTRIES (2 * (VERBS_CONTROL_DEPTH + (DATA_STREAMS - 1) * VERBS_MOVES_DEPTH))

/* ---- memory ---- */

static size_t memory_bytes(const verbs_qp_t *qp)
{
    return 2 * (size_t)qp->depth * qp->message_bytes;
}

uint8_t *verbs_message_out(const verbs_qp_t *qp, uint32_t number)
{
    return qp->memory + (size_t)(number % qp->depth) * qp->message_bytes;
}

uint8_t *verbs_message_in(const verbs_qp_t *qp, uint32_t number)
{
    return verbs_message_out(qp, number) + (size_t)qp->depth * qp->message_bytes;
}

static blink_result_t pin(verbs_qp_t *qp)
{
    const verbs_t *verbs = qp->verbs;
    size_t bytes = memory_bytes(qp);
    qp->memory = pages_take(bytes);
    if (!qp->memory)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu bytes of messages", bytes);
    qp->region = verbs->library->reg_mr(verbs->domain, qp->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!qp->region)
        return BLINK_FAIL(BLINK_ERR_QUOTA,
                          VERBS_NAMED ": %zu KiB of memory cannot be pinned: %s; let the daemon lock more "
                                      "(LimitMEMLOCK= in rdma.conf, ulimit -l)",
                          verbs_name(verbs), bytes >> 10, strerror(errno));
    return BLINK_OK;
}

void *verbs_show(transport_t *transport, void *memory, uint64_t bytes, uint32_t *key)
{
    verbs_t *verbs = verbs_of(transport);
    verbs_shown_t *shown = malloc(sizeof(*shown));
    if (!shown)
        return NULL;
    shown->region = verbs->library->reg_mr(verbs->domain, memory, bytes,
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!shown->region) {
        if (!verbs->said_it_cannot_pin)
            LOG_WARNING(VERBS_NAMED ": %llu KiB of memory for what comes cannot be pinned: %s; it is copied",
                        verbs_name(verbs), (unsigned long long)bytes >> 10, strerror(errno));
        verbs->said_it_cannot_pin = true;
        free(shown);
        return NULL;
    }
    *key = shown->region->rkey;
    list_append(&verbs->shown, &shown->link);
    return shown;
}

static void end_showing(const verbs_t *verbs, verbs_shown_t *shown)
{
    if (shown->region)
        (void)verbs->library->dereg_mr(shown->region);
    shown->region = NULL;
    list_remove(&shown->link);
}

void verbs_hide(transport_t *transport, void *shown)
{
    end_showing(verbs_of(transport), shown);
    free(shown);
}

static void hide_all(verbs_t *verbs)
{
    verbs_shown_t *shown;
    while ((shown = LIST_FIRST(&verbs->shown, verbs_shown_t, link)))
        end_showing(verbs, shown);
}

/* ---- the device ---- */

static blink_result_t fail_call(const verbs_t *verbs, const char *what, int error)
{
    return BLINK_FAIL(BLINK_ERR_SYSTEM, VERBS_NAMED ": %s: %s", verbs_name(verbs), what, strerror(error));
}

static blink_result_t open_queue(verbs_t *verbs)
{
    const verbs_library_t *library = verbs->library;
    verbs->completions = library->create_comp_channel(verbs->device->context);
    if (!verbs->completions)
        return fail_call(verbs, "no channel for completions", errno);
    int fd = verbs->completions->fd, flags = fcntl(fd, F_GETFL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->of_completions};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        epoll_ctl(verbs->config.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return fail_call(verbs, "watch completions", errno);
    verbs->queue =
        library->create_cq(verbs->device->context, (int)QUEUE_ENTRIES, verbs, verbs->completions, 0);
    if (!verbs->queue)
        return fail_call(verbs, "no queue of completions", errno);
    int error = ibv_req_notify_cq(verbs->queue, 0);
    return error ? fail_call(verbs, "watch completions", error) : BLINK_OK;
}

blink_result_t verbs_open(verbs_t *verbs, struct ibv_context *context, uint32_t port)
{
    BLINK_TRY(verbs_device_get(verbs->config.verbs, context, &verbs->device));
    verbs->port = port;
    list_append(&verbs->device->users, &verbs->of_device);
    verbs->domain = verbs->library->alloc_pd(context);
    if (!verbs->domain)
        return fail_call(verbs, "no protection domain", errno);
    BLINK_TRY(open_queue(verbs));
    for (uint32_t i = 0; i < DATA_STREAMS; i++)
        BLINK_TRY(pin(&verbs->qps[i]));
    return BLINK_OK;
}

static void close_qp(const verbs_t *verbs, verbs_qp_t *qp)
{
    if (!qp->id)
        return;
    if (qp->connected)
        (void)verbs->library->disconnect(qp->id);
    if (qp->id->qp)
        verbs->library->destroy_qp(qp->id);
}

void verbs_close_device(verbs_t *verbs)
{
    const verbs_library_t *library = verbs->library;
    list_remove(&verbs->of_device);
    for (uint32_t i = 0; i < DATA_STREAMS; i++)
        close_qp(verbs, &verbs->qps[i]);
    if (verbs->queue)
        (void)library->destroy_cq(verbs->queue);
    if (verbs->completions)
        (void)library->destroy_comp_channel(verbs->completions);
    for (uint32_t i = 0; i < DATA_STREAMS; i++) {
        if (verbs->qps[i].region)
            (void)library->dereg_mr(verbs->qps[i].region);
        verbs->qps[i].region = NULL;
    }
    hide_all(verbs);
    if (verbs->domain)
        (void)library->dealloc_pd(verbs->domain);
    if (verbs->device)
        verbs_device_put(verbs->device);
    verbs->domain = NULL;
    verbs->queue = NULL;
    verbs->completions = NULL;
    verbs->device = NULL;
}

blink_result_t verbs_make_qp(verbs_qp_t *qp)
{
    const verbs_t *verbs = qp->verbs;
    struct ibv_qp_init_attr attributes = {.send_cq = verbs->queue,
                                          .recv_cq = verbs->queue,
                                          .qp_type = IBV_QPT_RC,
                                          .cap = {.max_send_wr = qp->depth,
                                                  .max_recv_wr = qp->depth,
                                                  .max_send_sge = 1,
                                                  .max_recv_sge = 1,
                                                  .max_inline_data = INLINE_BYTES}};
    if (verbs->library->create_qp(qp->id, verbs->domain, &attributes) != 0)
        return fail_call(verbs, "no queue pair", errno);
    qp->inline_bytes = attributes.cap.max_inline_data;
    for (uint32_t i = 0; i < qp->depth; i++)
        BLINK_TRY(verbs_post_receive(qp, i));
    return BLINK_OK;
}

/* ---- posting ---- */

/* The number of a message, its queue pair, and whether it comes. */
static uint64_t work_of(const verbs_qp_t *qp, uint32_t number, bool comes)
{
    return (uint64_t)number << 8 | qp->number << 1 | comes;
}

blink_result_t verbs_post_receive(verbs_qp_t *qp, uint32_t number)
{
    struct ibv_sge piece = {.addr = (uintptr_t)verbs_message_in(qp, number),
                            .length = qp->message_bytes,
                            .lkey = qp->region->lkey};
    struct ibv_recv_wr work = {.wr_id = work_of(qp, number, true), .sg_list = &piece, .num_sge = 1}, *bad;
    int error = ibv_post_recv(qp->id->qp, &work, &bad);
    return error ? fail_call(qp->verbs, "a receive cannot be posted", error) : BLINK_OK;
}

/* What the immediate of a control message tells, and the peer knows from then on. */
static uint32_t tell(verbs_t *verbs)
{
    uint32_t told = 0;
    for (uint32_t i = 0; i < DATA_STREAMS; i++) {
        verbs_qp_t *qp = &verbs->qps[i];
        qp->told = qp->posted;
        told |= (qp->told & VERBS_COUNT_MASK) << i * VERBS_COUNT_BITS;
    }
    return told;
}

static blink_result_t post(verbs_qp_t *qp, struct ibv_send_wr *work, uint32_t bytes)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)verbs_message_out(qp, qp->sent), .length = bytes, .lkey = qp->region->lkey};
    struct ibv_send_wr *bad;
    work->wr_id = work_of(qp, qp->sent, false);
    work->sg_list = &piece;
    work->num_sge = bytes > 0;
    /* The device tells of every fourth part of the messages that may be under way. */
    if (qp->sent % (qp->depth / 4) == 0)
        work->send_flags |= IBV_SEND_SIGNALED;
    if (bytes > 0 && bytes <= qp->inline_bytes)
        work->send_flags |= IBV_SEND_INLINE;
    int error = ibv_post_send(qp->id->qp, work, &bad);
    if (error)
        return fail_call(qp->verbs, "a message cannot be sent", error);
    qp->sent++;
    qp->used += work->opcode != IBV_WR_RDMA_WRITE;
    return BLINK_OK;
}

blink_result_t verbs_post_send(verbs_qp_t *qp, uint32_t bytes)
{
    struct ibv_send_wr work = {.opcode = IBV_WR_SEND};
    if (qp->number == 0) {
        work.opcode = IBV_WR_SEND_WITH_IMM;
        work.imm_data = htonl(tell(qp->verbs));
    }
    return post(qp, &work, bytes);
}

blink_result_t verbs_post_write(verbs_qp_t *qp, uint32_t bytes, uint64_t address, bool last)
{
    const wire_frame_t *frame = &qp->move.frame;
    struct ibv_send_wr work = {.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                               .wr.rdma = {.remote_addr = address, .rkey = qp->move.remote_key}};
    if (last)
        work.imm_data = htonl(wire_immediate(frame->flow, frame->sequence));
    return post(qp, &work, bytes);
}
