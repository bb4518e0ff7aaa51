/*
 * Fuzzes headers of data connections: what is accepted is within the limits that receivers rely on and packs
 * as it came. Several stand one behind the other, and the payloads of CREDIT and ARRIVED are read too.
 */
#include "wire.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_frame(const wire_frame_t *frame, const uint8_t packed[WIRE_FRAME_BYTES])
{
    uint8_t again[WIRE_FRAME_BYTES];
    wire_frame_pack(frame, again);
    require(memcmp(again, packed, sizeof(again)) == 0);
    require(frame->flow < WIRE_FLOWS);
    if (frame->type != WIRE_ARRIVED) /* whose offset is a count of what has come */
        require(frame->offset + frame->bytes >= frame->offset);
    require(frame->bytes <= (frame->type == WIRE_DATA ? WIRE_MOVE_MAX_BYTES : WIRE_CONTROL_MAX_BYTES));
}

static void check_credits(const uint8_t *payload, size_t bytes)
{
    uint8_t again[sizeof(wire_credit_t)];
    for (size_t at = 0; at + sizeof(again) <= bytes; at += sizeof(again)) {
        wire_credit_t credit;
        if (wire_credit_parse(payload + at, &credit) != BLINK_OK)
            continue;
        wire_credit_pack(&credit, again);
        require(credit.flow < WIRE_FLOWS && memcmp(again, payload + at, sizeof(again)) == 0);
    }
}

static void check_arrivals(const uint8_t *payload, size_t bytes)
{
    uint8_t again[sizeof(wire_arrived_t)];
    for (size_t at = 0; at + sizeof(again) <= bytes; at += sizeof(again)) {
        wire_arrived_t entry;
        if (wire_arrived_parse(payload + at, &entry) != BLINK_OK)
            continue;
        wire_arrived_pack(&entry, again);
        require(entry.flow < WIRE_FLOWS && memcmp(again, payload + at, sizeof(again)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t at = 0;
    wire_frame_t frame;
    while (at + WIRE_FRAME_BYTES <= bytes && wire_frame_parse(data + at, &frame) == BLINK_OK) {
        check_frame(&frame, data + at);
        at += WIRE_FRAME_BYTES;
        size_t payload = frame.bytes < bytes - at ? frame.bytes : bytes - at;
        if (frame.type == WIRE_CREDIT)
            check_credits(data + at, payload);
        if (frame.type == WIRE_ARRIVED)
            check_arrivals(data + at, payload);
        at += payload;
    }
    return 0;
}
