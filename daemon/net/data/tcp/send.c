/* What goes over the streams: control frames and small moves, copied, on the first one, and batches of moves
 * from where they lie on the others. */
#include "net/data/tcp/tcp.h"

#include "net/data/outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* An endpoint sends so much before others have their turn. */
#define SEND_MOST_BYTES (256u << 10)

/* So much each of its rounds counts at least. */
#define ROUND_BYTES 1024u

/* A batch is sent once it has so much. */
#define BATCH_ENOUGH_BYTES (256u << 10)

/* Where a page is not there, so much at a time is tried. */
#define PIECE_BYTES 4096u
static const uint8_t zeros[PIECE_BYTES];

/* ---- the control stream ---- */

/* Put a small move behind the control frames. False: it does not fit there. */
static bool queue_small(const tcp_t *tcp, transport_move_t *move)
{
    bool whole;
    if (!outbox_add_move(tcp->config.outbox, move, &whole))
        return false;
    tcp->config.events->sent(tcp->config.context, move, whole);
    return true;
}

static blink_result_t flush_bytes(tcp_stream_t *stream, bool *full)
{
    outbox_t *outbox = stream->tcp->config.outbox;
    *full = false;
    while (outbox_waiting(outbox) > 0) {
        ssize_t sent =
            send(stream->fd, outbox_front(outbox), outbox_waiting(outbox), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        *full = sent < 0 && errno == EAGAIN;
        if (sent < 0)
            return *full ? BLINK_OK : tcp_fail_errno(stream);
        outbox_gone(outbox, (size_t)sent);
    }
    return BLINK_OK;
}

/* ---- batches of moves ---- */

static uint64_t frame_bytes(const tcp_batch_t *batch, uint32_t i)
{
    return WIRE_FRAME_BYTES + (uint64_t)batch->moves[i].frame.bytes;
}

/* What of a frame is left to be sent, `gone` bytes of it having gone. Returns how many pieces these are. */
static int add_pieces(const tcp_batch_t *batch, uint32_t i, uint64_t gone, struct iovec *pieces)
{
    int count = 0;
    uint64_t of_payload = gone > WIRE_FRAME_BYTES ? gone - WIRE_FRAME_BYTES : 0;
    if (gone < WIRE_FRAME_BYTES)
        pieces[count++] =
            (struct iovec){(uint8_t *)(uintptr_t)batch->headers[i] + gone, WIRE_FRAME_BYTES - gone};
    if (of_payload < batch->moves[i].frame.bytes)
        pieces[count++] = (struct iovec){(uint8_t *)(uintptr_t)batch->moves[i].source + of_payload,
                                         batch->moves[i].frame.bytes - of_payload};
    return count;
}

/* All that is left of the batch; or, with care, one piece that ends with its page. */
static int next_pieces(const tcp_batch_t *batch, struct iovec pieces[2 * TCP_BATCH_MOVES])
{
    int count = add_pieces(batch, batch->first, batch->gone_bytes, pieces);
    if (batch->careful) {
        size_t to_page_end = PIECE_BYTES - (uintptr_t)pieces[0].iov_base % PIECE_BYTES;
        if (pieces[0].iov_len > to_page_end)
            pieces[0].iov_len = to_page_end;
        return 1;
    }
    for (uint32_t i = batch->first + 1; i < batch->count; i++)
        count += add_pieces(batch, i, 0, pieces + count);
    return count;
}

/* So many bytes have gone: tell of the moves that are through. */
static void count_gone(tcp_stream_t *stream, uint64_t bytes)
{
    const transport_config_t *config = &stream->tcp->config;
    tcp_batch_t *batch = stream->batch;
    batch->gone_bytes += bytes;
    while (batch->first < batch->count && batch->gone_bytes >= frame_bytes(batch, batch->first)) {
        batch->gone_bytes -= frame_bytes(batch, batch->first);
        config->events->sent(config->context, &batch->moves[batch->first++], batch->whole);
        batch->whole = true;
    }
    if (batch->first == batch->count) {
        batch->count = batch->first = 0;
        batch->bytes = batch->gone_bytes = 0;
        batch->careful = false;
    }
}

static ssize_t send_pieces(const tcp_stream_t *stream, struct iovec *pieces, int count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    return sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static blink_result_t flush_batch(tcp_stream_t *stream, bool *full)
{
    tcp_batch_t *batch = stream->batch;
    struct iovec pieces[2 * TCP_BATCH_MOVES];
    *full = false;
    while (batch->count > 0) {
        int count = next_pieces(batch, pieces);
        ssize_t sent = send_pieces(stream, pieces, count);
        if (sent < 0 && errno == EFAULT && batch->careful) {
            pieces[0].iov_base = (uint8_t *)(uintptr_t)zeros;
            batch->whole = false;
            sent = send_pieces(stream, pieces, 1);
        } else if (sent < 0 && errno == EFAULT) {
            batch->careful = true;
            continue;
        }
        if (sent < 0 && errno == EINTR)
            continue;
        *full = sent < 0 && errno == EAGAIN;
        if (sent < 0)
            return *full ? BLINK_OK : tcp_fail_errno(stream);
        count_gone(stream, (uint64_t)sent);
    }
    return BLINK_OK;
}

blink_result_t tcp_flush(tcp_stream_t *stream, bool *full)
{
    return stream->number == 0 ? flush_bytes(stream, full) : flush_batch(stream, full);
}

/* ---- sending ---- */

/* A stream that can take moves, another one than the last if there is one; NULL: there is none. */
static tcp_stream_t *find_idle(tcp_t *tcp)
{
    uint32_t count = tcp->config.stream_count - 1;
    for (uint32_t i = 0; i < count; i++) {
        tcp_stream_t *stream = &tcp->streams[1 + (tcp->next_stream + i) % count];
        if (stream->fd >= 0 && !stream->connecting && stream->batch->count == 0) {
            tcp->next_stream = stream->number;
            return stream;
        }
    }
    return NULL;
}

/* Fill an empty batch; small moves go to the control stream. Returns whether there may be more moves. */
static bool fill_batch(tcp_t *tcp, tcp_batch_t *batch)
{
    transport_move_t move;
    batch->whole = true;
    for (uint32_t smalls = 0;
         smalls < TCP_BATCH_MOVES && batch->count < TCP_BATCH_MOVES && batch->bytes < BATCH_ENOUGH_BYTES;) {
        if (!tcp->config.events->next(tcp->config.context, &move))
            return false;
        if (queue_small(tcp, &move)) {
            smalls++;
            continue;
        }
        wire_frame_pack(&move.frame, batch->headers[batch->count]);
        batch->bytes += WIRE_FRAME_BYTES + move.frame.bytes;
        batch->moves[batch->count++] = move;
    }
    return true;
}

static blink_result_t flush_control(tcp_t *tcp)
{
    tcp_stream_t *control = &tcp->streams[0];
    bool full;
    if (control->fd < 0 || control->connecting)
        return BLINK_OK;
    BLINK_TRY(flush_bytes(control, &full));
    tcp_watch(control);
    return BLINK_OK;
}

/* What waits on the streams of moves from before. */
static blink_result_t flush_batches(tcp_t *tcp)
{
    for (uint32_t i = 1; i < tcp->config.stream_count; i++) {
        bool full;
        if (tcp->streams[i].fd < 0 || tcp->streams[i].connecting)
            continue;
        BLINK_TRY(flush_batch(&tcp->streams[i], &full));
        tcp_watch(&tcp->streams[i]);
    }
    return BLINK_OK;
}

static blink_result_t send_all(tcp_t *tcp, bool *more)
{
    tcp_stream_t *idle;
    BLINK_TRY(flush_batches(tcp));
    *more = true;
    for (uint64_t sent = 0; *more && sent < SEND_MOST_BYTES && (idle = find_idle(tcp));) {
        bool full;
        *more = fill_batch(tcp, idle->batch);
        sent += idle->batch->bytes + ROUND_BYTES;
        BLINK_TRY(flush_control(tcp));
        BLINK_TRY(flush_batch(idle, &full));
        tcp_watch(idle);
    }
    /* Without an idle stream epoll tells when to go on. */
    *more = *more && find_idle(tcp);
    return flush_control(tcp);
}

bool tcp_send(transport_t *transport)
{
    tcp_t *tcp = tcp_of(transport);
    bool more = false;
    blink_result_t result = transport->closed ? BLINK_OK : send_all(tcp, &more);
    if (result != BLINK_OK)
        tcp->config.events->lost(tcp->config.context, result);
    return more && !transport->closed;
}
