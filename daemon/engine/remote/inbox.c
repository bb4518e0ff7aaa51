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

/* Words that are heeded in one turn of the engine of those that came early, and communicators and words that
 * are looked at because a host is lost. */
#define EARLY_PER_TURN 64u
#define LOOKS_PER_TURN 64u

typedef struct frame {
    mailbox_item_t item;
    early_word_t early;
    engine_t *engine;
    data_endpoint_t *endpoint; /* held, and charged with the frame */
    wire_type_t type;
    bool was_early; /* it has been kept for its communicator, and is not again */
    uint32_t bytes;
    uint32_t payload[]; /* words, so that numbers in it are aligned */
} frame_t;

typedef struct loss {
    mailbox_item_t item;
    list_t link; /* remotes_t.losses */
    engine_t *engine;
    data_endpoint_t *endpoint; /* held */
    bool is_begun;
    size_t words, comms, left; /* that are still to be looked at: of each there were so many when it began */
} loss_t;

/* ---- frames ---- */

static size_t frame_bytes(const frame_t *frame)
{
    return sizeof(*frame) + frame->bytes;
}

static void frame_free(frame_t *frame)
{
    data_endpoint_credit(frame->endpoint, frame_bytes(frame));
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

static void heed_early(early_word_t *word);
static void drop_early(early_word_t *word);

/* For when its communicator is known. True if there is memory for that. */
static bool keep_frame(remotes_t *remotes, frame_t *frame, const op_name_t *op)
{
    frame->was_early = true;
    frame->early = (early_word_t){.endpoint = frame->endpoint, .heed = heed_early, .drop = drop_early};
    bool is_kept = early_keep(&remotes->early, op->home, op->comm, &frame->early) == BLINK_OK;
    if (!is_kept)
        refuse(frame);
    return is_kept;
}

/* The communicator that is spoken of, unless earlier words about it are still to be heeded. */
static remote_comm_t *find_comm(const remotes_t *remotes, const frame_t *frame, const op_name_t *op)
{
    bool waits = !frame->was_early && early_waits(&remotes->early, op->home, op->comm);
    return waits ? NULL : remote_find(remotes, op->home, op->comm);
}

/* Keep it, or answer if the communicator has ended. `asks`: it is to be answered, if only for not being
 * known. True if the frame is kept. */
static bool take_unknown(remotes_t *remotes, frame_t *frame, const op_name_t *op, bool asks)
{
    const remote_ended_t *ended = remote_find_ended(remotes, op->home, op->comm);
    bool is_to_come = !ended && !frame->was_early;
    if (is_to_come && (!asks || remote_find(remotes, op->home, op->comm)))
        return keep_frame(remotes, frame, op);
    remote_answer(frame->endpoint, op, UINT32_MAX, ended ? ended->code : BLINK_ERR_PEER_LOST,
                  ended ? ended->text : "the communicator has not begun there");
    return is_to_come && keep_frame(remotes, frame, op);
}

/* True if the frame is kept. */
static blink_result_t take_begin(remotes_t *remotes, frame_t *frame, bool *is_kept)
{
    begin_t begin;
    BLINK_TRY(begin_parse(frame->payload, frame->bytes, data_endpoint_move_streams(frame->endpoint), &begin));
    remote_comm_t *remote = find_comm(remotes, frame, &begin.op);
    if (!remote) {
        *is_kept = take_unknown(remotes, frame, &begin.op, false);
        if (!*is_kept && begin.stands)
            remote_tell_left(frame->endpoint, begin.op.home, begin.op.comm, 0);
        return BLINK_OK;
    }
    BLINK_TRY(check_sender(remote, frame, &begin.op));
    if (begin.rank >= remote->comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a BEGIN by rank %u of %u", begin.rank,
                          remote->comm->rank_count);
    return remote_heed_begin(remote, &begin);
}

/* LEFT comes behind the BEGINs that tell of landings, and so it is heeded behind them. */
static blink_result_t take_left(remotes_t *remotes, frame_t *frame, bool *is_kept)
{
    left_t left;
    BLINK_TRY(left_parse(frame->payload, frame->bytes, &left));
    const op_name_t name = {.home = left.home, .comm = left.comm};
    *is_kept = !frame->was_early && early_waits(&remotes->early, left.home, left.comm) &&
               keep_frame(remotes, frame, &name);
    if (!*is_kept)
        remotes_heed_left(remotes, frame->endpoint, &left);
    return BLINK_OK;
}

static blink_result_t take_fail(remotes_t *remotes, frame_t *frame, bool *is_kept)
{
    fail_t fail;
    const uint32_t *sent;
    char text[BLINK_ERROR_TEXT_BYTES];
    BLINK_TRY(fail_parse(frame->payload, frame->bytes, &fail, &sent, text));
    remote_comm_t *remote = find_comm(remotes, frame, &fail.op);
    bool is_over = fail.flags & FAIL_IS_ANSWER && !remote_find(remotes, fail.op.home, fail.op.comm);
    if (is_over)
        return BLINK_OK; /* it answers a word of a communicator that has ended here */
    if (!remote) {
        *is_kept = take_unknown(remotes, frame, &fail.op, true);
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
                                                       : take_left(remotes, frame, &is_kept);
    engine_count(frame->engine, 1);
    if (result != BLINK_OK)
        refuse(frame);
    if (!is_kept)
        frame_free(frame);
}

static void take_posted_frame(mailbox_item_t *item)
{
    take_frame(CONTAINER_OF(item, frame_t, item));
}

static void heed_early(early_word_t *word)
{
    take_frame(CONTAINER_OF(word, frame_t, early));
}

static void drop_early(early_word_t *word)
{
    frame_free(CONTAINER_OF(word, frame_t, early));
}

blink_result_t engine_data_frame(engine_t *engine, data_endpoint_t *endpoint, const wire_frame_t *wire,
                                 const uint8_t *payload)
{
    if (wire->type != WIRE_BEGIN && wire->type != WIRE_FAIL && wire->type != WIRE_LEFT)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame of type %u", wire->type);
    BLINK_TRY(data_endpoint_charge(endpoint, sizeof(frame_t) + wire->bytes));
    frame_t *frame = malloc(sizeof(*frame) + wire->bytes);
    if (!frame) {
        data_endpoint_credit(endpoint, sizeof(*frame) + wire->bytes);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a frame of %u bytes", wire->bytes);
    }
    *frame = (frame_t){.item.run = take_posted_frame,
                       .engine = engine,
                       .endpoint = endpoint,
                       .type = (wire_type_t)wire->type,
                       .bytes = wire->bytes};
    memcpy(frame->payload, payload, wire->bytes);
    data_endpoint_get(endpoint);
    mailbox_post(&engine->mailbox, &frame->item);
    return BLINK_OK;
}

/* ---- endpoints that are lost ---- */

/* The first of a list, which goes to its end; NULL: all have been looked at. */
static list_t *look_at_next(list_t *list, size_t *unseen)
{
    list_t *link = *unseen > 0 ? list_take_first(list) : NULL;
    if (!link)
        return NULL;
    list_append(list, link);
    (*unseen)--;
    return link;
}

/* Look at one thing that the host may have a part in. False: all have been. Those that come into being
 * meanwhile see for themselves that the endpoint is lost. */
static bool lose_next(remotes_t *remotes, loss_t *loss)
{
    list_t *link;
    if ((link = look_at_next(&remotes->all, &loss->comms))) {
        const remote_comm_t *remote = CONTAINER_OF(link, remote_comm_t, of_all);
        uint32_t host = remote_host_of(remote, loss->endpoint);
        if (host != UINT32_MAX)
            remote_lose_host(remote, host);
    } else if ((link = look_at_next(&remotes->left, &loss->left))) {
        remote_left_lost(CONTAINER_OF(link, remote_left_t, link), loss->endpoint);
    } else if (loss->words > 0) {
        /* A new session's endpoint is another one: nobody would ask for what came by this one. */
        early_check_next(&remotes->early, loss->endpoint);
        loss->words--;
    } else {
        return false;
    }
    return true;
}

static void begin_loss(const remotes_t *remotes, loss_t *loss)
{
    loss->is_begun = true;
    loss->comms = remotes->comms.count;
    loss->left = remotes->left_count;
    loss->words = remotes->early.count;
}

static uint32_t lose_some(remotes_t *remotes)
{
    loss_t *loss = LIST_FIRST(&remotes->losses, loss_t, link);
    uint32_t looks = 0;
    if (!loss)
        return 0;
    if (!loss->is_begun)
        begin_loss(remotes, loss);
    while (looks < LOOKS_PER_TURN && lose_next(remotes, loss))
        looks++;
    if (looks == LOOKS_PER_TURN)
        return looks;
    list_remove(&loss->link);
    data_endpoint_put(loss->endpoint);
    free(loss);
    return looks + 1;
}

static void take_posted_loss(mailbox_item_t *item)
{
    loss_t *loss = CONTAINER_OF(item, loss_t, item);
    engine_t *engine = loss->engine;
    list_append(&engine->remotes.losses, &loss->link);
    /* At once, so that this is the reason, and not what other hosts say of the same loss. */
    engine_count(engine, lose_some(&engine->remotes));
}

void engine_data_lost(engine_t *engine, data_endpoint_t *endpoint)
{
    loss_t *loss = malloc(sizeof(*loss));
    if (!loss) { /* the session ends too, and its communicators by that */
        LOG_WARNING("no memory to tell of a lost host: %s", data_endpoint_why(endpoint));
        return;
    }
    *loss = (loss_t){.item.run = take_posted_loss, .engine = engine, .endpoint = endpoint};
    list_init(&loss->link);
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
    early_ripen(&remotes->early, forgotten->ended.home, forgotten->ended.number);
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

void remotes_fini(remotes_t *remotes)
{
    list_t *link;
    while ((link = list_take_first(&remotes->losses))) {
        loss_t *loss = CONTAINER_OF(link, loss_t, link);
        data_endpoint_put(loss->endpoint);
        free(loss);
    }
    early_fini(&remotes->early);
    remotes_forget_ended(remotes);
    LIST_FOR_EACH (left, &remotes->left) {
        data_standing_destroy(CONTAINER_OF(left, remote_left_t, link)->standing);
        free(CONTAINER_OF(left, remote_left_t, link));
    }
    table_fini(&remotes->comms);
}

/* ---- what is due ---- */

bool remotes_have_work(const remotes_t *remotes)
{
    return !list_is_empty(&remotes->early.ripe) || !list_is_empty(&remotes->losses);
}

bool remotes_work(engine_t *engine)
{
    remotes_t *remotes = &engine->remotes;
    uint32_t looks = lose_some(remotes);
    engine_count(engine, looks);
    return early_heed_some(&remotes->early, EARLY_PER_TURN) + looks > 0;
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
