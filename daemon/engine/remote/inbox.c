/*
 * What the data plane tells, on any thread: it is copied and posted, and the engine heeds it in its own time.
 */
#include "base/log.h"
#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may be kept for communicators that are not known yet: READY comes by another way than BEGIN. */
#define EARLY_MOST_BYTES (4u << 20)

typedef struct frame {
    mailbox_item_t item;
    list_t of_early;
    engine_t *engine;
    data_endpoint_t *endpoint; /* held */
    wire_type_t type;
    uint32_t bytes;
    uint32_t payload[]; /* words, so that numbers in it are aligned */
} frame_t;

typedef struct loss {
    mailbox_item_t item;
    engine_t *engine;
    data_endpoint_t *endpoint; /* held */
    char text[BLINK_ERROR_TEXT_BYTES];
} loss_t;

/* ---- frames ---- */

static void frame_free(frame_t *frame)
{
    data_endpoint_put(frame->endpoint);
    free(frame);
}

/* The peer lies: its connections are closed, and its communicators end by that. */
static void refuse(const frame_t *frame)
{
    data_endpoint_close(frame->endpoint, BLINK_ERR_PROTOCOL);
}

/* The word is a host's of that communicator, and came from that host. UINT32_MAX: an answer of a host that
 * does not know which one it is. */
static blink_result_t check_sender(const remote_comm_t *remote, const frame_t *frame, op_name_t *op)
{
    if (op->host == UINT32_MAX && frame->type == WIRE_FAIL)
        op->host = remote_host_of(remote, frame->endpoint);
    if (op->host >= remote->host_count || remote->endpoints[op->host] != frame->endpoint)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it speaks for host %u of communicator %u", op->host,
                          remote->comm->comm);
    uint32_t ranks = remote->comm->rank_count;
    if (op->root != OP_NAME_NONE && (op->root >= ranks || op->peer >= ranks))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a transfer from rank %u to rank %u of %u", op->root, op->peer,
                          ranks);
    return BLINK_OK;
}

/* Of a communicator that is not known: keep it, answer if it has ended. True if the frame is kept. */
static bool take_unknown(remotes_t *remotes, frame_t *frame, const op_name_t *op)
{
    const remote_ended_t *ended = remote_find_ended(remotes, op->home, op->comm);
    if (ended || frame->type == WIRE_FAIL)
        remote_answer(frame->endpoint, op, UINT32_MAX, ended ? ended->code : BLINK_ERR_PEER_LOST,
                      ended ? ended->text : "the communicator has not begun there");
    if (ended)
        return false;
    if (remotes->early_bytes + frame->bytes > EARLY_MOST_BYTES) {
        BLINK_FAIL(BLINK_ERR_QUOTA, "it begins ops of communicators that this host does not know");
        refuse(frame);
        return false;
    }
    remotes->early_bytes += frame->bytes;
    list_append(&remotes->early, &frame->of_early);
    return true;
}

/* True if the frame is kept. */
static blink_result_t take_begin(remotes_t *remotes, frame_t *frame, bool *is_kept)
{
    begin_t begin;
    BLINK_TRY(begin_parse(frame->payload, frame->bytes, &begin));
    remote_comm_t *remote = remote_find(remotes, begin.op.home, begin.op.comm);
    if (!remote) {
        *is_kept = take_unknown(remotes, frame, &begin.op);
        if (!*is_kept && begin.stands)
            remote_tell_left(frame->endpoint, begin.op.home, begin.op.comm);
        return BLINK_OK;
    }
    BLINK_TRY(check_sender(remote, frame, &begin.op));
    if (begin.rank >= remote->comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a BEGIN by rank %u of %u", begin.rank,
                          remote->comm->rank_count);
    return remote_heed_begin(remote, &begin);
}

static blink_result_t take_left(remotes_t *remotes, const frame_t *frame)
{
    left_t left;
    BLINK_TRY(left_parse(frame->payload, frame->bytes, &left));
    remotes_heed_left(remotes, frame->endpoint, &left);
    return BLINK_OK;
}

static blink_result_t take_fail(remotes_t *remotes, frame_t *frame, bool *is_kept)
{
    fail_t fail;
    const uint32_t *sent;
    char text[BLINK_ERROR_TEXT_BYTES];
    BLINK_TRY(fail_parse(frame->payload, frame->bytes, &fail, &sent, text));
    remote_comm_t *remote = remote_find(remotes, fail.op.home, fail.op.comm);
    if (!remote) {
        *is_kept = take_unknown(remotes, frame, &fail.op);
        return BLINK_OK;
    }
    BLINK_TRY(check_sender(remote, frame, &fail.op));
    remote_heed_fail(remote, &fail, sent, text);
    return BLINK_OK;
}

static void take_frame(frame_t *frame)
{
    remotes_t *remotes = &frame->engine->remotes;
    bool is_kept = false;
    blink_result_t result = frame->type == WIRE_BEGIN  ? take_begin(remotes, frame, &is_kept)
                            : frame->type == WIRE_FAIL ? take_fail(remotes, frame, &is_kept)
                                                       : take_left(remotes, frame);
    engine_count(frame->engine, 1);
    if (result != BLINK_OK)
        refuse(frame);
    if (!is_kept)
        frame_free(frame);
}

static void take_posted_frame(mailbox_item_t *item)
{
    frame_t *frame = CONTAINER_OF(item, frame_t, item);
    /* Relaxed: a bound, which orders nothing. */
    atomic_fetch_sub_explicit(&frame->engine->remotes.inbox_bytes, frame->bytes, memory_order_relaxed);
    take_frame(frame);
}

blink_result_t engine_data_frame(engine_t *engine, data_endpoint_t *endpoint, const wire_frame_t *wire,
                                 const uint8_t *payload)
{
    remotes_t *remotes = &engine->remotes;
    if (wire->type != WIRE_BEGIN && wire->type != WIRE_FAIL && wire->type != WIRE_LEFT)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame of type %u", wire->type);
    if (atomic_load_explicit(&remotes->inbox_bytes, memory_order_relaxed) > REMOTE_INBOX_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "more than %u MiB of its words wait",
                          REMOTE_INBOX_MOST_BYTES >> 20);
    frame_t *frame = malloc(sizeof(*frame) + wire->bytes);
    if (!frame)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a frame of %u bytes", wire->bytes);
    *frame = (frame_t){.item.run = take_posted_frame,
                       .engine = engine,
                       .endpoint = endpoint,
                       .type = (wire_type_t)wire->type,
                       .bytes = wire->bytes};
    list_init(&frame->of_early);
    memcpy(frame->payload, payload, wire->bytes);
    data_endpoint_get(endpoint);
    atomic_fetch_add_explicit(&remotes->inbox_bytes, wire->bytes, memory_order_relaxed);
    mailbox_post(&engine->mailbox, &frame->item);
    return BLINK_OK;
}

/* ---- endpoints that are lost ---- */

/* A new session's endpoint is another one: nobody would ask for what came by this one. */
static void drop_early(remotes_t *remotes, const data_endpoint_t *endpoint)
{
    LIST_FOR_EACH (link, &remotes->early) {
        frame_t *frame = CONTAINER_OF(link, frame_t, of_early);
        if (frame->endpoint != endpoint)
            continue;
        remotes->early_bytes -= frame->bytes;
        list_remove(&frame->of_early);
        frame_free(frame);
    }
}

static void take_posted_loss(mailbox_item_t *item)
{
    loss_t *loss = CONTAINER_OF(item, loss_t, item);
    drop_early(&loss->engine->remotes, loss->endpoint);
    remotes_forget_left(&loss->engine->remotes, loss->endpoint);
    LIST_FOR_EACH (link, &loss->engine->remotes.all) {
        const remote_comm_t *remote = CONTAINER_OF(link, remote_comm_t, of_all);
        uint32_t host = remote_host_of(remote, loss->endpoint);
        char name[BLINK_ERROR_TEXT_BYTES / 2], text[2 * BLINK_ERROR_TEXT_BYTES];
        if (host == UINT32_MAX)
            continue;
        remote_name_host(remote, host, name, sizeof(name));
        snprintf(text, sizeof(text), "%s, is lost: %s", name, loss->text);
        text[BLINK_ERROR_TEXT_BYTES - 1] = '\0';
        remote_end(remote, BLINK_ERR_PEER_LOST, text);
    }
    data_endpoint_put(loss->endpoint);
    free(loss);
}

void engine_data_lost(engine_t *engine, data_endpoint_t *endpoint, const char *why)
{
    loss_t *loss = malloc(sizeof(*loss));
    if (!loss) { /* the session ends too, and its communicators by that */
        LOG_WARNING("no memory to tell of a lost host: %s", why);
        return;
    }
    *loss = (loss_t){.item.run = take_posted_loss, .engine = engine, .endpoint = endpoint};
    snprintf(loss->text, sizeof(loss->text), "%s", why);
    data_endpoint_get(endpoint);
    mailbox_post(&engine->mailbox, &loss->item);
}

/* ---- communicators that are known at last, or never will be ---- */

typedef struct forgotten {
    mailbox_item_t item;
    engine_t *engine;
    remote_ended_t ended;
} forgotten_t;

static void take_posted_forgotten(mailbox_item_t *item)
{
    forgotten_t *forgotten = CONTAINER_OF(item, forgotten_t, item);
    remotes_t *remotes = &forgotten->engine->remotes;
    remotes_remember_ended(remotes, &forgotten->ended);
    remotes_take_early(forgotten->engine);
    free(forgotten);
}

void engine_comm_forget(engine_t *engine, uint64_t home, uint32_t number)
{
    forgotten_t *forgotten = malloc(sizeof(*forgotten));
    if (!forgotten) { /* peers that have begun ops of it hear of its end by another way */
        LOG_WARNING("no memory to forget a communicator");
        return;
    }
    *forgotten = (forgotten_t){.item.run = take_posted_forgotten,
                               .engine = engine,
                               .ended = {.home = home, .number = number, .code = BLINK_ERR_PEER_LOST}};
    snprintf(forgotten->ended.text, sizeof(forgotten->ended.text),
             "the communicator has not come about on a host");
    mailbox_post(&engine->mailbox, &forgotten->item);
}

void remotes_take_early(engine_t *engine)
{
    remotes_t *remotes = &engine->remotes;
    list_t frames;
    list_init(&frames);
    list_splice(&frames, &remotes->early);
    list_t *link;
    remotes->early_bytes = 0; /* what is of others is kept again */
    while ((link = list_take_first(&frames)))
        take_frame(CONTAINER_OF(link, frame_t, of_early));
    remotes->calls.comms_changed(engine);
}

void remotes_fini(remotes_t *remotes)
{
    list_t *link;
    while ((link = list_take_first(&remotes->early)))
        frame_free(CONTAINER_OF(link, frame_t, of_early));
    remotes_forget_ended(remotes);
    LIST_FOR_EACH (left, &remotes->left) {
        data_standing_destroy(CONTAINER_OF(left, remote_left_t, link)->standing);
        free(CONTAINER_OF(left, remote_left_t, link));
    }
    table_fini(&remotes->comms);
}

/* ---- taking in ---- */

bool remotes_poll(engine_t *engine)
{
    return engine->remotes.watches && data_poll(engine->config.data);
}

void remotes_rest(engine_t *engine)
{
    if (engine->remotes.watches)
        data_watch(engine->config.data, false);
    engine->remotes.watches = false;
}

/* ---- memory of landings ---- */

void engine_data_charge(void *tenant, uint64_t bytes)
{
    account_add(&((tenant_t *)tenant)->account, BUDGET_SCRATCH_BYTES, bytes);
}

void engine_data_credit(void *tenant, uint64_t bytes)
{
    account_credit(&((tenant_t *)tenant)->account, BUDGET_SCRATCH_BYTES, bytes);
}
