/* What goes: the outbox on the queue pair for control, and moves on the others, as messages or as writes. */
#include "net/data/verbs/verbs.h"

#include "base/guard.h"
#include "net/data/outbox.h"

#include <string.h>

/* An endpoint sends so much before others have their turn. */
#define SEND_MOST_BYTES (256u << 10)

/* A message takes so many small moves to the outbox at most, and counts that much at least. */
#define SMALL_MOST  16u
#define ROUND_BYTES 1024u

/* With adaptive routing what has an immediate is told after moves of more bytes, and not with their last
 * ones. */
#define TOLD_ALONE_BYTES (8u << 10)

static uint32_t least(size_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

bool verbs_has_room(const verbs_qp_t *qp, uint32_t kept)
{
    return qp->allowed - qp->used > kept && qp->sent - qp->done < qp->depth;
}

/* ---- control ---- */

static blink_result_t send_control(verbs_t *verbs)
{
    verbs_qp_t *control = &verbs->qps[0];
    outbox_t *outbox = verbs->config.outbox;
    while (outbox_waiting(outbox) > 0 && verbs_has_room(control, VERBS_RESERVE)) {
        uint32_t bytes = least(outbox_waiting(outbox), control->message_bytes);
        memcpy(verbs_message_out(control, control->sent), outbox_front(outbox), bytes);
        outbox_gone(outbox, bytes);
        BLINK_TRY(verbs_post_send(control, bytes));
    }
    return BLINK_OK;
}

/* ---- moves ---- */

/* Take the next move for this queue pair; small ones go to the outbox. *any becomes false when there is none.
 */
static void begin_move(verbs_qp_t *qp, bool *any)
{
    verbs_t *verbs = qp->verbs;
    const transport_config_t *config = &verbs->config;
    bool whole;
    for (uint32_t smalls = 0; smalls < SMALL_MOST && !verbs->transport.closed; smalls++) {
        *any = config->events->next(config->context, &qp->move);
        if (!*any)
            return;
        if (outbox_add_move(config->outbox, &qp->move, &whole)) {
            qp->move.remote_address = 0;
            qp->move.in_place = false;
            config->events->sent(config->context, &qp->move, whole);
            continue;
        }
        qp->has_move = qp->whole = true;
        qp->gone_bytes = qp->move.remote_address ? WIRE_FRAME_BYTES : 0; /* a write has no header */
        return;
    }
}

/* Copy some of the move; its header is never cut. Returns the bytes copied. */
static uint32_t add_piece(verbs_qp_t *qp, uint8_t *place, uint32_t room)
{
    const transport_config_t *config = &qp->verbs->config;
    const wire_frame_t *frame = &qp->move.frame;
    uint32_t header = 0;
    if (qp->gone_bytes == 0) {
        header = WIRE_FRAME_BYTES;
        wire_frame_pack(frame, place);
        qp->gone_bytes = header;
    }
    uint32_t at = qp->gone_bytes - WIRE_FRAME_BYTES, some = least(room - header, frame->bytes - at);
    if (some > 0 && !guard_copy(place + header, (const uint8_t *)qp->move.source + at, some)) {
        memset(place + header, 0, some);
        qp->whole = false;
    }
    qp->gone_bytes += some;
    if (qp->gone_bytes == WIRE_FRAME_BYTES + frame->bytes) {
        qp->has_move = false;
        config->events->sent(config->context, &qp->move, qp->whole);
    }
    return header + some;
}

/* Fill a message, up to a move that is written. Returns its bytes. */
static uint32_t fill(verbs_qp_t *qp, bool *any)
{
    uint8_t *message = verbs_message_out(qp, qp->sent);
    uint32_t bytes = 0;
    while (qp->message_bytes - bytes > WIRE_FRAME_BYTES && !qp->verbs->transport.closed) {
        if (!qp->has_move && *any)
            begin_move(qp, any);
        if (!qp->has_move || qp->move.remote_address)
            break;
        bytes += add_piece(qp, message + bytes, qp->message_bytes - bytes);
    }
    return bytes;
}

/* The device reads the whole move where it is. */
static verbs_piece_t lend_move(verbs_qp_t *qp)
{
    const transport_move_t *move = &qp->move;
    qp->lent[qp->lent_count++ % VERBS_MOVES_DEPTH] = (verbs_lent_t){*move, qp->sent};
    qp->has_move = false;
    return (verbs_piece_t){move->source, move->frame.bytes, move->source_keys.all[qp->number - 1], true};
}

static verbs_piece_t copy_piece(verbs_qp_t *qp)
{
    uint8_t *message = verbs_message_out(qp, qp->sent);
    uint32_t bytes = qp->untold ? 0 : add_piece(qp, message, qp->message_bytes);
    return (verbs_piece_t){message, bytes, qp->region->lkey, false};
}

/* Write the next piece of the move to where it goes. In whatever order the pieces of one queue pair are
 * placed, the receive of an immediate completes when all that was posted before it is there, and so it tells
 * of the whole move. Packets of what has an immediate take one way: with adaptive routing it has no bytes, so
 * that all of those can take many. *bytes becomes what was written. */
static blink_result_t write_piece(verbs_qp_t *qp, uint32_t *bytes)
{
    uint64_t address = qp->move.remote_address + (qp->gone_bytes - WIRE_FRAME_BYTES);
    bool told_alone =
        qp->verbs->config.adaptive_routing && qp->move.frame.bytes > TOLD_ALONE_BYTES && !qp->untold;
    const verbs_piece_t piece = qp->move.in_place && !qp->untold ? lend_move(qp) : copy_piece(qp);
    qp->untold = told_alone && !qp->has_move;
    *bytes = piece.bytes;
    if (qp->verbs->transport.closed)
        return BLINK_OK;
    return verbs_post_write(qp, &piece, address, !qp->has_move && !qp->untold);
}

/* The queue pair has begun something that it has not posted to the end. */
static bool is_busy(const verbs_qp_t *qp)
{
    return qp->has_move || qp->untold;
}

/* A queue pair that has room and a move under way, or, if there may be `any`, can begin one; another one than
 * the last if there is one. NULL: there is none. */
static verbs_qp_t *find_qp(verbs_t *verbs, bool any)
{
    uint32_t count = verbs->config.stream_count - 1;
    for (uint32_t i = 0; i < count; i++) {
        verbs_qp_t *qp = &verbs->qps[1 + (verbs->next_qp + i) % count];
        if (verbs_has_room(qp, 0) && (is_busy(qp) || any)) {
            verbs->next_qp = qp->number;
            return qp;
        }
    }
    return NULL;
}

static bool has_moves(const verbs_t *verbs)
{
    bool has = false;
    for (uint32_t i = 1; i < verbs->config.stream_count; i++)
        has |= is_busy(&verbs->qps[i]);
    return has;
}

static blink_result_t send_all(verbs_t *verbs, bool *more)
{
    bool any = true;
    verbs_qp_t *qp;
    BLINK_TRY(send_control(verbs));
    for (uint32_t sent = 0; sent < SEND_MOST_BYTES && (qp = find_qp(verbs, any));) {
        uint32_t bytes = qp->untold ? 0 : fill(qp, &any);
        if (verbs->transport.closed)
            return BLINK_OK;
        BLINK_TRY(send_control(verbs));
        if (bytes > 0)
            BLINK_TRY(verbs_post_send(qp, bytes));
        else if (is_busy(qp))
            BLINK_TRY(write_piece(qp, &bytes));
        sent += bytes + ROUND_BYTES;
    }
    *more = find_qp(verbs, any);
    verbs->waits_for_room = outbox_waiting(verbs->config.outbox) > 0 || (!*more && (any || has_moves(verbs)));
    return BLINK_OK;
}

bool verbs_send(transport_t *transport)
{
    verbs_t *verbs = verbs_of(transport);
    bool more = verbs_take_completions(verbs), more_moves = false;
    if (transport->closed || transport->connected < verbs->config.stream_count)
        return more;
    blink_result_t result = send_all(verbs, &more_moves);
    if (result != BLINK_OK)
        verbs_lose(verbs, result);
    return (more || more_moves) && !transport->closed;
}
