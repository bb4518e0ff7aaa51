#include "net/data/intake.h"

#include "base/guard.h"

#include <stdlib.h>
#include <string.h>

void intake_init(intake_t *intake, const transport_t *transport, const transport_config_t *config,
                 bool takes_control)
{
    *intake = (intake_t){.transport = transport, .config = config, .takes_control = takes_control};
}

void intake_free(intake_t *intake)
{
    free(intake->payload);
}

static bool is_move(const intake_t *intake)
{
    return intake->frame.type == WIRE_DATA;
}

/* The payload is there. */
static blink_result_t end_frame(intake_t *intake, const uint8_t *payload)
{
    const transport_config_t *config = intake->config;
    intake->header_bytes = intake->left_bytes = 0;
    if (intake->takes_control)
        config->events->took(config->context, WIRE_FRAME_BYTES + intake->frame.bytes);
    if (!is_move(intake))
        return config->events->control(config->context, &intake->frame, payload);
    if (!intake->move.landing)
        return BLINK_OK;
    return config->events->arrived(config->context, &intake->move, &intake->frame, intake->takes_control,
                                   intake->whole);
}

/* The header is there. */
static blink_result_t begin_frame(intake_t *intake)
{
    const transport_config_t *config = intake->config;
    BLINK_TRY(wire_frame_parse(intake->header, &intake->frame));
    intake->left_bytes = intake->frame.bytes;
    if (is_move(intake)) {
        BLINK_TRY(config->events->claim(config->context, &intake->frame, &intake->move));
        intake->whole = intake->move.landing;
    } else if (!intake->takes_control) {
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame of type %u on a connection for moves",
                          intake->frame.type);
    }
    return intake->left_bytes == 0 ? end_frame(intake, intake->header) : BLINK_OK;
}

uint32_t intake_left(const intake_t *intake, uint8_t **place)
{
    *place = NULL;
    if (intake->left_bytes == 0 || !is_move(intake))
        return 0;
    if (intake->whole)
        *place = (uint8_t *)intake->move.address + (intake->frame.bytes - intake->left_bytes);
    return intake->left_bytes;
}

blink_result_t intake_placed(intake_t *intake, uint32_t bytes)
{
    intake->left_bytes -= bytes;
    return intake->left_bytes == 0 ? end_frame(intake, NULL) : BLINK_OK;
}

void intake_drop(intake_t *intake)
{
    intake->whole = false;
}

void intake_forget(intake_t *intake, const landing_t *landing)
{
    if (intake->left_bytes == 0 || !is_move(intake) || intake->move.landing != landing)
        return;
    intake->move.landing = NULL;
    intake_drop(intake);
}

/* A part of a control frame's payload; a whole one need not be copied. */
static blink_result_t take_control(intake_t *intake, const uint8_t *bytes, uint32_t count)
{
    uint32_t have = intake->frame.bytes - intake->left_bytes;
    if (count == intake->frame.bytes)
        return end_frame(intake, bytes);
    if (!intake->payload)
        intake->payload = malloc(WIRE_CONTROL_MAX_BYTES);
    if (!intake->payload)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a frame of %u bytes", intake->frame.bytes);
    memcpy(intake->payload + have, bytes, count);
    intake->left_bytes -= count;
    return intake->left_bytes == 0 ? end_frame(intake, intake->payload) : BLINK_OK;
}

static blink_result_t take_payload(intake_t *intake, const uint8_t *bytes, uint32_t count)
{
    uint8_t *place;
    if (!is_move(intake))
        return take_control(intake, bytes, count);
    (void)intake_left(intake, &place);
    if (place && !guard_copy(place, bytes, count))
        intake_drop(intake);
    return intake_placed(intake, count);
}

static uint32_t least(size_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

blink_result_t intake_take(intake_t *intake, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count && !intake->transport->closed;) {
        bool in_payload = intake->header_bytes == WIRE_FRAME_BYTES;
        uint32_t some =
            least(count - at, in_payload ? intake->left_bytes : WIRE_FRAME_BYTES - intake->header_bytes);
        const uint8_t *from = bytes + at;
        at += some;
        if (in_payload) {
            BLINK_TRY(take_payload(intake, from, some));
            continue;
        }
        memcpy(intake->header + intake->header_bytes, from, some);
        intake->header_bytes += some;
        if (intake->header_bytes == WIRE_FRAME_BYTES)
            BLINK_TRY(begin_frame(intake));
    }
    return BLINK_OK;
}
