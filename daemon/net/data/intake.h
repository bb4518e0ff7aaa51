/*
 * What comes over one connection: bytes in their order, of which frames are made. The payload of a move goes
 * straight to its place. For transports, which may read the rest of such a payload to its place themselves.
 */
#ifndef BLINK_DATA_INTAKE_H
#define BLINK_DATA_INTAKE_H

#include "net/data/transport.h"

typedef struct intake {
    const transport_t *transport;
    const transport_config_t *config;
    bool takes_control; /* frames that are no moves are allowed */
    uint8_t header[WIRE_FRAME_BYTES];
    uint32_t header_bytes; /* of it that have come; all: the payload is coming */
    wire_frame_t frame;
    uint32_t left_bytes; /* of the payload */
    landing_move_t move;
    bool whole;       /* its place takes it, and no page of that was missing */
    uint8_t *payload; /* of a control frame that comes in pieces */
} intake_t;

/* The transport and its configuration are borrowed. */
void intake_init(intake_t *intake, const transport_t *transport, const transport_config_t *config,
                 bool takes_control);
void intake_free(intake_t *intake);

/* Take in bytes, unless the transport is closed meanwhile. Errors: PROTOCOL, NO_MEMORY, and as the events. */
blink_result_t intake_take(intake_t *intake, const uint8_t *bytes, size_t count);

/* How much is left of the payload of a move, and where that goes; NULL: nowhere. */
uint32_t intake_left(const intake_t *intake, uint8_t **place);

/* So much of it has been read there, or is to be dropped. Errors: as the events. */
blink_result_t intake_placed(intake_t *intake, uint32_t bytes);

/* A page of the place is not there: what is left goes nowhere. */
void intake_drop(intake_t *intake);

/* If a move to this landing is being taken in, what is left of it goes nowhere, and nobody hears of it. */
void intake_forget(intake_t *intake, const landing_t *landing);

#endif
