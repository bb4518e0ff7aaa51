/* What devices tell: messages that have come, and that have gone. */
#include "net/data/verbs/verbs.h"

#include "base/log.h"

#include <arpa/inet.h>

/* Completions that are looked at before others have their turn. */
#define COMPLETIONS_MOST 32

/* The peer has posted so many receives of a queue pair again, as the lowest bits of `told` count them. */
static blink_result_t heed_count(verbs_qp_t *qp, uint32_t told)
{
    uint32_t posted = qp->allowed - qp->depth, more = (told - posted) & VERBS_COUNT_MASK;
    if (more > qp->used - posted)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          VERBS_NAMED ": it posts more receives than were used: %u, and %u were",
                          verbs_name(qp->verbs->qps[0].rail), more, qp->used - posted);
    qp->allowed += more;
    return BLINK_OK;
}

/* What the immediate of a message tells. */
static blink_result_t heed(verbs_t *verbs, uint32_t told)
{
    uint32_t count = verbs->config.stream_count, first = verbs_group_first(told >> VERBS_GROUP_SHIFT);
    if (first >= count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, VERBS_NAMED ": it posts receives on queue pair %u of %u",
                          verbs_name(verbs->qps[0].rail), first, count);
    BLINK_TRY(heed_count(&verbs->qps[0], told));
    for (uint32_t i = 0; i < VERBS_TOLD_MOVES && first + i < count; i++)
        BLINK_TRY(heed_count(&verbs->qps[first + i], told >> (1 + i) * VERBS_COUNT_BITS));
    return BLINK_OK;
}

/* The peer's device has written a move to where it goes. */
static blink_result_t take_write(const verbs_qp_t *qp, const struct ibv_wc *done)
{
    const verbs_t *verbs = qp->verbs;
    if (qp->number == 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, VERBS_NAMED ": a write on the queue pair for control",
                          verbs_name(qp->rail));
    return verbs->config.events->written(verbs->config.context, ntohl(done->imm_data), done->byte_len);
}

static blink_result_t take_piece(verbs_qp_t *qp, const struct ibv_wc *done)
{
    verbs_t *verbs = qp->verbs;
    uint32_t number = (uint32_t)(done->wr_id >> 8);
    bool has_immediate = done->wc_flags & IBV_WC_WITH_IMM;
    if (has_immediate != (qp->number == 0))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, VERBS_NAMED ": a message %s an immediate on queue pair %u",
                          verbs_name(qp->rail), has_immediate ? "with" : "without", qp->number);
    if (has_immediate)
        BLINK_TRY(heed(verbs, ntohl(done->imm_data)));
    return intake_take(&qp->intake, verbs_message_in(qp, number), done->byte_len);
}

static blink_result_t take_message(verbs_qp_t *qp, const struct ibv_wc *done)
{
    uint32_t number = (uint32_t)(done->wr_id >> 8);
    BLINK_TRY(done->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? take_write(qp, done) : take_piece(qp, done));
    if (qp->verbs->transport.closed)
        return BLINK_OK;
    BLINK_TRY(verbs_post_receive(qp, number));
    qp->posted++;
    return BLINK_OK;
}

/* It was posted to a queue pair that was destroyed with its connection, before another one was made in its
 * stead: what was told of it by then some devices tell all the same. */
static bool is_of_former(const verbs_qp_t *qp, const struct ibv_wc *done)
{
    return !qp->id || !qp->id->qp || qp->id->qp->qp_num != done->qp_num;
}

/* A queue pair that has failed says so of all that was posted to it, and the first failure counts; but if the
 * peer has closed the connection, or a device is gone, that is the reason. */
static blink_result_t fail_work(const verbs_qp_t *qp, const struct ibv_wc *done)
{
    verbs_t *verbs = qp->verbs;
    if (is_of_former(qp, done))
        return BLINK_OK;
    if (verbs->peer_closed)
        return verbs_closed_by_peer(verbs);
    verbs_device_take_news(qp->rail->device);
    verbs_take_channel(verbs);
    if (verbs->transport.closed || is_of_former(qp, done))
        return BLINK_OK;
    const char *what = done->wr_id & 1 ? "a receive" : "a message";
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, VERBS_NAMED ", port %u: %s failed: %s (status %d)",
                      verbs_name(qp->rail), qp->id->port_num, what, verbs->library->status_text(done->status),
                      done->status);
}

/* Tell of the moves that were read where they were, as far as the device has done with them. */
static void return_lent(verbs_qp_t *qp)
{
    const transport_config_t *config = &qp->verbs->config;
    while (qp->returned_count != qp->lent_count && !qp->verbs->transport.closed) {
        const verbs_lent_t *lent = &qp->lent[qp->returned_count % VERBS_MOVES_DEPTH];
        if ((int32_t)(qp->done - lent->number) <= 0)
            return;
        qp->returned_count++;
        config->events->sent(config->context, &lent->move, true);
    }
}

static blink_result_t take_completion(verbs_t *verbs, const struct ibv_wc *done)
{
    verbs_qp_t *qp = &verbs->qps[done->wr_id >> 1 & 0x7f];
    if (done->status != IBV_WC_SUCCESS)
        return fail_work(qp, done);
    if (done->wr_id & 1)
        return take_message(qp, done);
    qp->done = (uint32_t)(done->wr_id >> 8) + 1;
    return_lent(qp);
    return BLINK_OK;
}

/* Whether it is worth a message to tell which receives were posted again. */
static bool is_due(const verbs_qp_t *qp)
{
    return verbs_untold(qp) >= qp->depth / 4;
}

static bool any_is_due(const verbs_t *verbs)
{
    uint32_t i = 1;
    while (i < verbs->config.stream_count && !is_due(&verbs->qps[i]))
        i++;
    return i < verbs->config.stream_count;
}

/* Each message tells of one group, so it takes some. */
static blink_result_t tell_posted(verbs_t *verbs)
{
    verbs_qp_t *control = &verbs->qps[0];
    while (is_due(control) ? verbs_has_room(control, 0) : any_is_due(verbs) && verbs_has_room(control, 1))
        BLINK_TRY(verbs_post_send(control, 0));
    return BLINK_OK;
}

/* *more becomes true if some may be left. */
static blink_result_t take_completions(verbs_rail_t *rail, bool *more)
{
    verbs_t *verbs = rail->verbs;
    struct ibv_wc done;
    for (int i = 0; i < COMPLETIONS_MOST && !verbs->transport.closed; i++) {
        int count = ibv_poll_cq(rail->queue, 1, &done);
        if (count < 0)
            return BLINK_FAIL(BLINK_ERR_SYSTEM, VERBS_NAMED ": the queue of completions has failed",
                              verbs_name(rail));
        if (count == 0)
            return BLINK_OK;
        BLINK_TRY(take_completion(verbs, &done));
    }
    *more = true;
    return BLINK_OK;
}

bool verbs_take_completions(verbs_t *verbs)
{
    bool more = false;
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < verbs->rail_count && result == BLINK_OK; i++)
        result = take_completions(&verbs->rails[i], &more);
    if (result == BLINK_OK && !verbs->transport.closed)
        result = tell_posted(verbs);
    if (result != BLINK_OK)
        verbs_lose(verbs, result);
    return more && !verbs->transport.closed;
}

/* The device is asked to tell of the next completion before those are looked at that are there. */
static blink_result_t take_event(verbs_rail_t *rail)
{
    const verbs_library_t *library = rail->verbs->library;
    struct ibv_cq *queue;
    void *context;
    if (library->get_cq_event(rail->completions, &queue, &context) != 0)
        return BLINK_OK;
    library->ack_cq_events(queue, 1);
    int error = ibv_req_notify_cq(queue, 0);
    if (error)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, VERBS_NAMED ": watch completions: %s", verbs_name(rail),
                          strerror(error));
    return BLINK_OK;
}

void verbs_on_completions(transport_source_t *source, uint32_t events)
{
    verbs_rail_t *rail = CONTAINER_OF(source, verbs_rail_t, of_completions);
    verbs_t *verbs = rail->verbs;
    (void)events;
    if (verbs->transport.closed || !rail->queue)
        return;
    blink_result_t result = take_event(rail);
    if (result != BLINK_OK)
        verbs_lose(verbs, result);
    else if (verbs_take_completions(verbs) || verbs->waits_for_room)
        verbs->config.events->busy(verbs->config.context);
}
