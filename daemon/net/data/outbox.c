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
    return outbox->bytes.count - outbox->gone_bytes;
}

void outbox_gone(outbox_t *outbox, size_t bytes)
{
    outbox->gone_bytes += bytes;
}

/* Room for a frame behind what waits; NULL: no memory. */
static uint8_t *reserve(outbox_t *outbox, size_t bytes)
{
    if (outbox->gone_bytes == outbox->bytes.count)
        outbox->gone_bytes = outbox->bytes.count = 0;
    if (outbox->gone_bytes > 0 && outbox->bytes.count + bytes > outbox->bytes.capacity) {
        memmove(outbox->bytes.items, outbox_front(outbox), outbox_waiting(outbox));
        outbox->bytes.count -= outbox->gone_bytes;
        outbox->gone_bytes = 0;
    }
    if (!vec_reserve(&outbox->bytes, outbox->bytes.count + bytes))
        return NULL;
    return outbox->bytes.items + outbox->bytes.count;
}

blink_result_t outbox_add(outbox_t *outbox, wire_type_t type, const void *payload, uint32_t bytes)
{
    if (outbox_waiting(outbox) + WIRE_FRAME_BYTES + bytes > DATA_UNSENT_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "it does not read: %zu bytes wait for it, and at most %u may",
                          outbox_waiting(outbox), DATA_UNSENT_MOST_BYTES);
    uint8_t *place = reserve(outbox, WIRE_FRAME_BYTES + bytes);
    if (!place)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a frame of %u bytes", bytes);
    wire_frame_pack(&(wire_frame_t){.type = (uint8_t)type, .bytes = bytes}, place);
    memcpy(place + WIRE_FRAME_BYTES, payload, bytes);
    outbox->bytes.count += WIRE_FRAME_BYTES + bytes;
    return BLINK_OK;
}

bool outbox_add_move(outbox_t *outbox, const transport_move_t *move, bool *whole)
{
    uint32_t bytes = move->frame.bytes;
    if (!move->in_order && (bytes > SMALL_BYTES || outbox_waiting(outbox) > SMALL_ENOUGH_BYTES))
        return false;
    uint8_t *place = reserve(outbox, WIRE_FRAME_BYTES + bytes);
    if (!place)
        return false;
    wire_frame_pack(&move->frame, place);
    *whole = bytes == 0 || guard_copy(place + WIRE_FRAME_BYTES, move->source, bytes);
    if (!*whole)
        memset(place + WIRE_FRAME_BYTES, 0, bytes);
    outbox->bytes.count += WIRE_FRAME_BYTES + bytes;
    return true;
}
