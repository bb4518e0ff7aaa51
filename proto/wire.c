/* Packing and parsing of what goes over data connections. */
#include "wire.h"

#include <endian.h>
#include <string.h>

void wire_frame_pack(const wire_frame_t *frame, uint8_t packed[WIRE_FRAME_BYTES])
{
    wire_frame_t wire = {.bytes = htole32(frame->bytes),
                         .type = frame->type,
                         .flags = frame->flags,
                         .place = htole16(frame->place),
                         .flow = htole32(frame->flow),
                         .sequence = htole32(frame->sequence),
                         .offset = htole64(frame->offset)};
    memcpy(packed, &wire, sizeof(wire));
}

void wire_credit_pack(const wire_credit_t *credit, uint8_t packed[sizeof(wire_credit_t)])
{
    wire_credit_t wire = {.flow = htole32(credit->flow), .credit = htole32(credit->credit)};
    memcpy(packed, &wire, sizeof(wire));
}

void wire_arrived_pack(const wire_arrived_t *entry, uint8_t packed[sizeof(wire_arrived_t)])
{
    wire_arrived_t wire = {
        .flow = htole32(entry->flow), .arrived = htole32(entry->arrived), .came = htole64(entry->came)};
    memcpy(packed, &wire, sizeof(wire));
}

static blink_result_t check_flow(uint32_t flow)
{
    if (flow >= WIRE_FLOWS)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame names flow %u; flows have numbers less than %u", flow,
                          WIRE_FLOWS);
    return BLINK_OK;
}

static blink_result_t check_data(const wire_frame_t *frame)
{
    if (frame->bytes > WIRE_MOVE_MAX_BYTES)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a DATA frame of %u bytes is over the limit of %u",
                          frame->bytes, WIRE_MOVE_MAX_BYTES);
    if (frame->offset > UINT64_MAX - frame->bytes)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a DATA frame of %u bytes at offset %llu ends nowhere",
                          frame->bytes, (unsigned long long)frame->offset);
    return check_flow(frame->flow);
}

static blink_result_t check_control(const wire_frame_t *frame, const char *name, uint32_t unit)
{
    if (frame->bytes == 0 || frame->bytes > WIRE_CONTROL_MAX_BYTES || frame->bytes % unit != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a %s frame of %u bytes, not %u to %u in steps of %u", name,
                          frame->bytes, unit, WIRE_CONTROL_MAX_BYTES, unit);
    if (frame->place || frame->flow || frame->sequence || frame->offset)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "a %s frame with place %u, flow %u, sequence %u, offset %llu, which must be 0",
                          name, frame->place, frame->flow, frame->sequence,
                          (unsigned long long)frame->offset);
    return BLINK_OK;
}

/* Its payload may be empty. */
static blink_result_t check_arrived(const wire_frame_t *frame)
{
    if (frame->bytes > WIRE_CONTROL_MAX_BYTES || frame->bytes % sizeof(wire_arrived_t) != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "an ARRIVED frame of %u bytes, not 0 to %u in steps of %zu",
                          frame->bytes, WIRE_CONTROL_MAX_BYTES, sizeof(wire_arrived_t));
    if (frame->place || frame->flow)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "an ARRIVED frame with place %u, flow %u, which must be 0",
                          frame->place, frame->flow);
    return BLINK_OK;
}

blink_result_t wire_frame_parse(const uint8_t packed[WIRE_FRAME_BYTES], wire_frame_t *frame)
{
    wire_frame_t wire;
    memcpy(&wire, packed, sizeof(wire));
    *frame = (wire_frame_t){.bytes = le32toh(wire.bytes),
                            .type = wire.type,
                            .flags = wire.flags,
                            .place = le16toh(wire.place),
                            .flow = le32toh(wire.flow),
                            .sequence = le32toh(wire.sequence),
                            .offset = le64toh(wire.offset)};
    if (frame->flags != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame with flags %#x, of which none is defined",
                          frame->flags);
    switch (frame->type) {
    case WIRE_BEGIN:
        return check_control(frame, "BEGIN", 1);
    case WIRE_DATA:
        return check_data(frame);
    case WIRE_CREDIT:
        return check_control(frame, "CREDIT", sizeof(wire_credit_t));
    case WIRE_FAIL:
        return check_control(frame, "FAIL", 1);
    case WIRE_LEFT:
        return check_control(frame, "LEFT", 1);
    case WIRE_ARRIVED:
        return check_arrived(frame);
    default:
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "a frame of type %u, which is none of BEGIN, DATA, CREDIT, FAIL, LEFT, ARRIVED",
                          frame->type);
    }
}

blink_result_t wire_credit_parse(const uint8_t packed[sizeof(wire_credit_t)], wire_credit_t *credit)
{
    wire_credit_t wire;
    memcpy(&wire, packed, sizeof(wire));
    *credit = (wire_credit_t){.flow = le32toh(wire.flow), .credit = le32toh(wire.credit)};
    return check_flow(credit->flow);
}

blink_result_t wire_arrived_parse(const uint8_t packed[sizeof(wire_arrived_t)], wire_arrived_t *entry)
{
    wire_arrived_t wire;
    memcpy(&wire, packed, sizeof(wire));
    *entry = (wire_arrived_t){
        .flow = le32toh(wire.flow), .arrived = le32toh(wire.arrived), .came = le64toh(wire.came)};
    return check_flow(entry->flow);
}

/* ---- the first bytes of a connection ---- */

#define HELLO_VERSION 1u

void wire_hello_pack(const wire_hello_t *hello, uint8_t packed[WIRE_HELLO_BYTES])
{
    memset(packed, 0, WIRE_HELLO_BYTES);
    memcpy(packed, WIRE_HELLO_MAGIC, 4);
    packed[4] = HELLO_VERSION;
    packed[5] = (uint8_t)hello->stream;
    memcpy(packed + 8, &(uint64_t){htole64(hello->instance)}, 8);
    memcpy(packed + 16, hello->token, WIRE_TOKEN_BYTES);
}

blink_result_t wire_hello_parse(const uint8_t packed[WIRE_HELLO_BYTES], wire_hello_t *hello)
{
    uint64_t instance;
    if (memcmp(packed, WIRE_HELLO_MAGIC, 4) != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "neither a TLS handshake nor a data connection");
    if (packed[4] != HELLO_VERSION)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a data connection of version %u, not %u", packed[4],
                          HELLO_VERSION);
    if (packed[6] != 0 || packed[7] != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the first bytes of a data connection hold %u and %u, not 0",
                          packed[6], packed[7]);
    memcpy(&instance, packed + 8, 8);
    *hello = (wire_hello_t){.instance = le64toh(instance), .stream = packed[5]};
    memcpy(hello->token, packed + 16, WIRE_TOKEN_BYTES);
    return BLINK_OK;
}

bool wire_hello_shows(const wire_hello_t *hello, const uint8_t token[WIRE_TOKEN_BYTES])
{
    uint8_t difference = 0;
    for (uint32_t i = 0; i < WIRE_TOKEN_BYTES; i++)
        difference |= hello->token[i] ^ token[i];
    return difference == 0;
}
