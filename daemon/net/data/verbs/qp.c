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

static void unpin(verbs_qp_t *qp)
{
    if (qp->region)
        (void)qp->verbs->library->dereg_mr(qp->region);
    qp->region = NULL;
    qp->rail = NULL;
}

blink_result_t verbs_place_qp(verbs_qp_t *qp, verbs_rail_t *rail)
{
    size_t bytes = memory_bytes(qp);
    if (qp->rail == rail)
        return BLINK_OK;
    unpin(qp);
    if (!qp->memory)
        qp->memory = pages_take(bytes);
    if (!qp->memory)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu bytes of messages", bytes);
    qp->region = qp->verbs->library->reg_mr(rail->domain, qp->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!qp->region)
        return BLINK_FAIL(BLINK_ERR_QUOTA,
                          VERBS_NAMED ": %zu KiB of memory cannot be pinned: %s; let the daemon lock more "
                                      "(LimitMEMLOCK= in rdma.conf, ulimit -l)",
                          verbs_name(rail), bytes >> 10, strerror(errno));
    qp->rail = rail;
    return BLINK_OK;
}

/* Memory that is to be registered with the devices of all queue pairs for moves. */
typedef struct showing {
    void *memory;
    uint64_t bytes;
    int access;              /* 0: only this side's devices read it */
    device_memory_t *device; /* NULL: it is the host's; else `memory` is not looked at, and it lies: */
    uint64_t offset;
} showing_t;

static struct ibv_mr *register_at(const verbs_rail_t *rail, const showing_t *what)
{
    const verbs_library_t *library = rail->verbs->library;
    if (!what->device)
        return library->reg_mr(rail->domain, what->memory, what->bytes, what->access);
    return library->reg_dmabuf_mr(rail->domain, what->offset, what->bytes,
                                  device_memory_address(what->device) + what->offset,
                                  device_memory_fd(what->device), what->access);
}

/* Register it with the device of a queue pair, if another one has not. Returns the key; *works becomes false
 * if it cannot be registered. */
static uint32_t show_to(verbs_qp_t *qp, verbs_shown_t *shown, const showing_t *what, bool *works)
{
    verbs_t *verbs = qp->verbs;
    struct ibv_mr **region = &shown->regions[qp->rail - verbs->rails];
    if (!*region)
        *region = register_at(qp->rail, what);
    if (*region)
        return what->access ? (*region)->rkey : (*region)->lkey;
    if (what->device)
        BLINK_FAIL(BLINK_ERR_UNSUPPORTED, VERBS_NAMED " does not register memory of a GPU: %s",
                   verbs_name(qp->rail), strerror(errno));
    else if (!verbs->said_it_cannot_pin)
        LOG_WARNING(VERBS_NAMED ": %llu KiB of memory for what %s cannot be pinned: %s; it is copied",
                    verbs_name(qp->rail), (unsigned long long)what->bytes >> 10,
                    what->access ? "comes" : "goes", strerror(errno));
    verbs->said_it_cannot_pin |= !what->device;
    *works = false;
    return 0;
}

static void end_showing(verbs_shown_t *shown)
{
    for (uint32_t i = 0; i < DATA_STREAMS_MOST; i++) {
        if (shown->regions[i])
            (void)shown->library->dereg_mr(shown->regions[i]);
        shown->regions[i] = NULL;
    }
    list_remove(&shown->link);
}

static void *show_by(transport_t *transport, const showing_t *what, data_keys_t *keys)
{
    verbs_t *verbs = verbs_of(transport);
    verbs_shown_t *shown = calloc(1, sizeof(*shown));
    bool works = true;
    if (!shown)
        return NULL;
    shown->library = verbs->library;
    list_append(&verbs->shown, &shown->link);
    for (uint32_t i = 1; i < verbs->config.stream_count && works; i++)
        keys->all[i - 1] = show_to(&verbs->qps[i], shown, what, &works);
    if (works)
        return shown;
    verbs_hide(shown);
    return NULL;
}

void *verbs_show(transport_t *transport, void *memory, uint64_t bytes, data_keys_t *keys)
{
    return show_by(transport,
                   &(showing_t){.memory = memory,
                                .bytes = bytes,
                                .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
                   keys);
}

void *verbs_pin(transport_t *transport, void *memory, uint64_t bytes, data_keys_t *keys)
{
    return show_by(transport, &(showing_t){.memory = memory, .bytes = bytes}, keys);
}

void *verbs_show_device(verbs_t *verbs, device_memory_t *memory, uint64_t offset, uint64_t bytes,
                        data_keys_t *keys)
{
    return show_by(&verbs->transport,
                   &(showing_t){.bytes = bytes,
                                .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                .device = memory,
                                .offset = offset},
                   keys);
}

void verbs_hide(void *shown)
{
    end_showing(shown);
    free(shown);
}

bool verbs_shows(const void *shown)
{
    return !list_is_empty(&((const verbs_shown_t *)shown)->link);
}

static void hide_all(verbs_t *verbs)
{
    verbs_shown_t *shown;
    while ((shown = LIST_FIRST(&verbs->shown, verbs_shown_t, link)))
        end_showing(shown);
}

/* ---- the device ---- */

static blink_result_t fail_call(const verbs_rail_t *rail, const char *what, int error)
{
    return BLINK_FAIL(BLINK_ERR_SYSTEM, VERBS_NAMED ": %s: %s", verbs_name(rail), what, strerror(error));
}

/* Of every queue pair all that can be under way at once. */
static int queue_entries(const verbs_t *verbs)
{
    return (int)(2 * (VERBS_CONTROL_DEPTH + (verbs->config.stream_count - 1) * VERBS_MOVES_DEPTH));
}

static blink_result_t open_queue(verbs_rail_t *rail)
{
    const verbs_library_t *library = rail->verbs->library;
    rail->completions = library->create_comp_channel(rail->device->context);
    if (!rail->completions)
        return fail_call(rail, "no channel for completions", errno);
    int fd = rail->completions->fd, flags = fcntl(fd, F_GETFL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &rail->of_completions};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        epoll_ctl(rail->verbs->config.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return fail_call(rail, "watch completions", errno);
    rail->queue =
        library->create_cq(rail->device->context, queue_entries(rail->verbs), rail, rail->completions, 0);
    if (!rail->queue)
        return fail_call(rail, "no queue of completions", errno);
    int error = ibv_req_notify_cq(rail->queue, 0);
    return error ? fail_call(rail, "watch completions", error) : BLINK_OK;
}

static void close_rail(verbs_rail_t *rail)
{
    const verbs_library_t *library = rail->verbs->library;
    list_remove(&rail->of_device);
    if (rail->queue)
        (void)library->destroy_cq(rail->queue);
    /* A process that was forked a moment ago may have it, too, and then epoll would still tell of it. */
    if (rail->completions)
        (void)epoll_ctl(rail->verbs->config.epoll_fd, EPOLL_CTL_DEL, rail->completions->fd, NULL);
    if (rail->completions)
        (void)library->destroy_comp_channel(rail->completions);
    if (rail->domain)
        (void)library->dealloc_pd(rail->domain);
    verbs_device_put(rail->device);
    rail->domain = NULL;
    rail->queue = NULL;
    rail->completions = NULL;
    rail->device = NULL;
}

static blink_result_t fill_rail(verbs_rail_t *rail, struct ibv_context *context)
{
    list_append(&rail->device->users, &rail->of_device);
    rail->domain = rail->verbs->library->alloc_pd(context);
    if (!rail->domain)
        return fail_call(rail, "no protection domain", errno);
    return open_queue(rail);
}

verbs_rail_t *verbs_find_rail(verbs_t *verbs, const struct ibv_context *context)
{
    for (uint32_t i = 0; i < verbs->rail_count; i++)
        if (verbs->rails[i].device->context == context)
            return &verbs->rails[i];
    return NULL;
}

blink_result_t verbs_open_rail(verbs_t *verbs, struct ibv_context *context, verbs_rail_t **found)
{
    verbs_rail_t *rail = *found = verbs_find_rail(verbs, context);
    if (rail)
        return BLINK_OK;
    if (verbs->rail_count == verbs->config.stream_count)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "connections to one host go by more than %u RDMA devices",
                          verbs->config.stream_count);
    rail = *found = &verbs->rails[verbs->rail_count];
    BLINK_TRY(verbs_device_get(verbs->config.verbs, context, &rail->device));
    blink_result_t result = fill_rail(rail, context);
    if (result != BLINK_OK)
        close_rail(rail);
    else
        verbs->rail_count++;
    return result;
}

static void destroy_qp(verbs_qp_t *qp)
{
    const verbs_library_t *library = qp->verbs->library;
    if (!qp->id)
        return;
    if (qp->connected)
        (void)library->disconnect(qp->id);
    qp->connected = false;
    if (qp->id->qp)
        library->destroy_qp(qp->id);
}

void verbs_drop_connection(verbs_qp_t *qp)
{
    destroy_qp(qp);
    if (qp->id)
        (void)qp->verbs->library->destroy_id(qp->id);
    qp->id = NULL;
}

void verbs_close_rails(verbs_t *verbs)
{
    for (uint32_t i = 0; i < verbs->config.stream_count; i++)
        destroy_qp(&verbs->qps[i]);
    for (uint32_t i = 0; i < verbs->config.stream_count; i++)
        unpin(&verbs->qps[i]);
    hide_all(verbs);
    while (verbs->rail_count > 0)
        close_rail(&verbs->rails[--verbs->rail_count]);
    for (uint32_t i = 0; i < verbs->config.stream_count; i++)
        verbs_drop_connection(&verbs->qps[i]);
}

blink_result_t verbs_make_qp(verbs_qp_t *qp)
{
    verbs_t *verbs = qp->verbs;
    verbs_rail_t *rail;
    BLINK_TRY(verbs_open_rail(verbs, qp->id->verbs, &rail));
    BLINK_TRY(verbs_place_qp(qp, rail));
    struct ibv_qp_init_attr attributes = {.send_cq = rail->queue,
                                          .recv_cq = rail->queue,
                                          .qp_type = IBV_QPT_RC,
                                          .cap = {.max_send_wr = qp->depth,
                                                  .max_recv_wr = qp->depth,
                                                  .max_send_sge = 1,
                                                  .max_recv_sge = 1,
                                                  .max_inline_data = INLINE_BYTES}};
    if (verbs->library->create_qp(qp->id, rail->domain, &attributes) != 0)
        return fail_call(rail, "no queue pair", errno);
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
    return error ? fail_call(qp->rail, "a receive cannot be posted", error) : BLINK_OK;
}

/* The group of queue pairs for moves with the one of which most is to be told. */
static uint32_t choose_group(const verbs_t *verbs)
{
    uint32_t chosen = 1;
    for (uint32_t i = 2; i < verbs->config.stream_count; i++)
        if (verbs_untold(&verbs->qps[i]) > verbs_untold(&verbs->qps[chosen]))
            chosen = i;
    return (chosen - 1) / VERBS_TOLD_MOVES;
}

static uint32_t tell_of(verbs_qp_t *qp, uint32_t place)
{
    qp->told = qp->posted;
    return (qp->told & VERBS_COUNT_MASK) << place * VERBS_COUNT_BITS;
}

/* What the immediate of a control message tells, and the peer knows from then on. */
static uint32_t tell(verbs_t *verbs)
{
    uint32_t group = choose_group(verbs), first = verbs_group_first(group);
    uint32_t told = group << VERBS_GROUP_SHIFT | tell_of(&verbs->qps[0], 0);
    for (uint32_t i = 0; i < VERBS_TOLD_MOVES && first + i < verbs->config.stream_count; i++)
        told |= tell_of(&verbs->qps[first + i], 1 + i);
    return told;
}

static blink_result_t post(verbs_qp_t *qp, struct ibv_send_wr *work, const verbs_piece_t *piece)
{
    struct ibv_sge memory = {.addr = (uintptr_t)piece->memory, .length = piece->bytes, .lkey = piece->key};
    struct ibv_send_wr *bad;
    work->wr_id = work_of(qp, qp->sent, false);
    work->sg_list = &memory;
    work->num_sge = piece->bytes > 0;
    /* The device tells of every fourth part of the messages that may be under way. */
    if (piece->in_place || qp->sent % (qp->depth / 4) == 0)
        work->send_flags |= IBV_SEND_SIGNALED;
    if (piece->bytes > 0 && piece->bytes <= qp->inline_bytes)
        work->send_flags |= IBV_SEND_INLINE;
    int error = ibv_post_send(qp->id->qp, work, &bad);
    if (error)
        return fail_call(qp->rail, "a message cannot be sent", error);
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
    const verbs_piece_t piece = {verbs_message_out(qp, qp->sent), bytes, qp->region->lkey, false};
    return post(qp, &work, &piece);
}

blink_result_t verbs_post_write(verbs_qp_t *qp, const verbs_piece_t *piece, uint64_t address, bool tells)
{
    const wire_frame_t *frame = &qp->move.frame;
    struct ibv_send_wr work = {
        .opcode = tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = address, .rkey = qp->move.remote_keys.all[qp->number - 1]}};
    if (tells)
        work.imm_data = htonl(wire_immediate(frame->flow, frame->sequence));
    return post(qp, &work, piece);
}
