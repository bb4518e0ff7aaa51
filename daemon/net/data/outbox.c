#include "net/data/outbox.h"

#include "base/guard.h"
#include "net/data/data.h"

/* Moves up to this size go with control frames: with the BEGIN before them they leave at once. */
#define SMALL_BYTES 1024u

/* Small moves go there while no more than this waits. */
#define SMALL_ENOUGH_BYTES (64u << 10)

void outbox_free(outbox_t *outbox)
{
    vec_free(&outbox->bytes);
}

const uint8_t *outbox_front(const outbox_t *outbox)
{
    return outbox->bytes.items + outbox->gone_bytes;
}

size_t outbox_waiting(const outbox_t *outbox)
{
    return outbox->waits ? 0 : outbox->bytes.count - outbox->gone_bytes;
}

void outbox_gone(outbox_t *outbox, size_t bytes)
{
    outbox->gone_bytes += bytes;
    if (!outbox->keeps)
        outbox->taken_bytes = outbox->gone_bytes;
}

blink_result_t outbox_taken(outbox_t *outbox, uint64_t bytes)
{
    if (bytes <= outbox->position)
        return BLINK_OK;
    if (bytes - outbox->position > outbox->gone_bytes - outbox->taken_bytes)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it says that %llu bytes of control have come, and %llu went",
                          (unsigned long long)bytes,
                          (unsigned long long)(outbox->position + outbox->gone_bytes - outbox->taken_bytes));
    outbox->taken_bytes += (size_t)(bytes - outbox->position);
    outbox->position = bytes;
    return BLINK_OK;
}

void outbox_hold(outbox_t *outbox)
{
    outbox->waits = true;
}

blink_result_t outbox_resume(outbox_t *outbox, uint64_t bytes)
{
    BLINK_TRY(outbox_taken(outbox, bytes));
    outbox->gone_bytes = outbox->taken_bytes;
    outbox->waits = false;
    return BLINK_OK;
}

/* What waits, and what is kept. */
static size_t needed_bytes(const outbox_t *outbox)
{
    return outbox->bytes.count - outbox->taken_bytes;
}

/* Room for a frame behind what waits; NULL: no memory. */
static uint8_t *reserve(outbox_t *outbox, size_t bytes)
{
    size_t taken = outbox->taken_bytes, left = needed_bytes(outbox);
    bool is_full = outbox->bytes.count + bytes > outbox->bytes.capacity;
    /* No more is moved than has been given up, however little at a time the peer says that it has taken in.
     */
    if (taken > 0 && (left == 0 || (is_full && taken >= left))) {
        memmove(outbox->bytes.items, outbox->bytes.items + taken, left);
        outbox->bytes.count = left;
        outbox->gone_bytes -= taken;
        outbox->taken_bytes = 0;
    }
    if (!vec_reserve(&outbox->bytes, outbox->bytes.count + bytes))
        return NULL;
    return outbox->bytes.items + outbox->bytes.count;
}

blink_result_t outbox_add(outbox_t *outbox, const wire_frame_t *frame, const void *payload)
{
    size_t needed = needed_bytes(outbox);
    if (needed + WIRE_FRAME_BYTES + frame->bytes > DATA_UNSENT_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "it does not read: %zu bytes wait for it, and at most %u may",
                          needed, DATA_UNSENT_MOST_BYTES);
    uint8_t *place = reserve(outbox, WIRE_FRAME_BYTES + frame->bytes);
    if (!place)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a frame of %u bytes", frame->bytes);
    wire_frame_pack(frame, place);
    if (frame->bytes > 0)
        memcpy(place + WIRE_FRAME_BYTES, payload, frame->bytes);
    outbox->bytes.count += WIRE_FRAME_BYTES + frame->bytes;
    return BLINK_OK;
}

bool outbox_add_move(outbox_t *outbox, transport_move_t *move, bool *whole)
{
    uint32_t bytes = move->frame.bytes;
    /* A peer that never tells what it has taken in has as much kept for it as control frames may take. */
    bool has_room = outbox_waiting(outbox) <= SMALL_ENOUGH_BYTES &&
                    needed_bytes(outbox) + WIRE_FRAME_BYTES + bytes <= DATA_UNSENT_MOST_BYTES;
    if (!move->in_order && (bytes > SMALL_BYTES || !has_room))
        return false;
    uint8_t *place = reserve(outbox, WIRE_FRAME_BYTES + bytes);
    if (!place)
        return false;
    wire_frame_pack(&move->frame, place);
    *whole = bytes == 0 || guard_copy(place + WIRE_FRAME_BYTES, move->source, bytes);
    if (!*whole)
        memset(place + WIRE_FRAME_BYTES, 0, bytes);
    move->is_copied = true;
    outbox->bytes.count += WIRE_FRAME_BYTES + bytes;
    return true;
}
