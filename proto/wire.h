/*
 * What goes over the data connections between two daemons: frames of 24 bytes and a payload, and what a verbs
 * immediate holds in a frame's stead. Frames are little-endian; the transport converts immediates. Nothing
 * here has state: what depends on an op, a flow or a grant is checked where that is known
 * (daemon/net/flow/landing.h, daemon/net/flow/flow.h).
 */
#ifndef BLINK_WIRE_H
#define BLINK_WIRE_H

#include "error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_FRAME_BYTES       24u
#define WIRE_MOVE_MAX_BYTES    (1u << 20)  /* payload of DATA: what one move may carry */
#define WIRE_CONTROL_MAX_BYTES (64u << 10) /* payload of every other frame */
#define WIRE_FLOW_BITS         20u
#define WIRE_FLOWS             (1u << WIRE_FLOW_BITS) /* flow numbers of an endpoint, from 0 */

typedef enum wire_type {
    WIRE_BEGIN = 1,  /* payload: what the sender's host runs */
    WIRE_DATA = 2,   /* payload: one move of a flow */
    WIRE_CREDIT = 3, /* payload: wire_credit_t entries, one for each flow that may be sent further */
    WIRE_FAIL = 4,   /* payload: which op failed and why, and how far the sender has sent */
    WIRE_LEFT = 5,   /* payload: which communicator the sender's host has left */
    /* Payload: wire_arrived_t entries, one for each flow of which something has come; of what came over the
     * connection for control `offset` tells, from the first connections of the session on. The first one of a
     * `sequence` says that connections were made anew, and all that had come before has been told: what was
     * sent and has not come goes again. */
    WIRE_ARRIVED = 6,
} wire_type_t;

/** A frame's header. What a type has no use for is 0, so that it can be given a meaning later. */
typedef struct wire_frame {
    uint32_t bytes; /* of the payload, which follows */
    uint8_t type;   /* wire_type_t */
    uint8_t flags;  /* none is defined */
    uint16_t
        place; /* DATA: which memory; 0 is the landing, i the i-th output that the receiver's BEGIN named */
    uint32_t flow; /* DATA: the receiver's number */
    /* DATA: the move's number in the flow; of a standing landing wire_standing_sequence(). ARRIVED: how often
     * connections were made anew. */
    uint32_t sequence;
    /* DATA: where in the place the payload goes, in bytes. ARRIVED: bytes of whole frames that have come over
     * the connection for control. */
    uint64_t offset;
} wire_frame_t;

static_assert(sizeof(wire_frame_t) == WIRE_FRAME_BYTES, "frame layout");
static_assert(offsetof(wire_frame_t, bytes) == 0, "frame layout");
static_assert(offsetof(wire_frame_t, type) == 4, "frame layout");
static_assert(offsetof(wire_frame_t, flags) == 5, "frame layout");
static_assert(offsetof(wire_frame_t, place) == 6, "frame layout");
static_assert(offsetof(wire_frame_t, flow) == 8, "frame layout");
static_assert(offsetof(wire_frame_t, sequence) == 12, "frame layout");
static_assert(offsetof(wire_frame_t, offset) == 16, "frame layout");

/** An entry of CREDIT: moves of the flow whose number is less than `credit` may be sent. */
typedef struct wire_credit {
    uint32_t flow;
    uint32_t credit;
} wire_credit_t;

static_assert(sizeof(wire_credit_t) == 8, "credit layout");
static_assert(offsetof(wire_credit_t, credit) == 4, "credit layout");

/** An entry of ARRIVED: moves of the flow whose number is less than `arrived` have come, and those whose bits
 * are set in `came`, counted from `arrived`. */
typedef struct wire_arrived {
    uint32_t flow;
    uint32_t arrived;
    uint64_t came;
} wire_arrived_t;

static_assert(sizeof(wire_arrived_t) == 16, "entry layout");
static_assert(offsetof(wire_arrived_t, arrived) == 4, "entry layout");
static_assert(offsetof(wire_arrived_t, came) == 8, "entry layout");

/** Write a header, or an entry, as it goes over the wire. They must be such as the parser accepts. */
void wire_frame_pack(const wire_frame_t *frame, uint8_t packed[WIRE_FRAME_BYTES]);
void wire_credit_pack(const wire_credit_t *credit, uint8_t packed[sizeof(wire_credit_t)]);
void wire_arrived_pack(const wire_arrived_t *entry, uint8_t packed[sizeof(wire_arrived_t)]);

/** Read a header and check whatever can be checked by itself: type, flags, the payload's length for the type,
 * the flow's number, that offset and length do not overflow, and that unused fields are 0. Errors: PROTOCOL.
 */
blink_result_t wire_frame_parse(const uint8_t packed[WIRE_FRAME_BYTES], wire_frame_t *frame);

/** Errors: PROTOCOL (the flow's number). */
blink_result_t wire_credit_parse(const uint8_t packed[sizeof(wire_credit_t)], wire_credit_t *credit);
blink_result_t wire_arrived_parse(const uint8_t packed[sizeof(wire_arrived_t)], wire_arrived_t *entry);

/* ---- the first bytes of a connection ---- */

#define WIRE_HELLO_BYTES 48u
#define WIRE_TOKEN_BYTES 32u

/* What a TLS handshake does not begin with. */
#define WIRE_HELLO_MAGIC "BLKD"

/** Who has dialled, and for which of the streams. On the wire: the magic, a byte each of version (1) and
 * stream, two of 0, the instance (little-endian), the token. */
typedef struct wire_hello {
    uint64_t instance; /* of the daemon that dials */
    uint32_t stream;
    uint8_t token[WIRE_TOKEN_BYTES];
} wire_hello_t;

void wire_hello_pack(const wire_hello_t *hello, uint8_t packed[WIRE_HELLO_BYTES]);

/** Errors: PROTOCOL (magic, version, or a byte that must be 0). */
blink_result_t wire_hello_parse(const uint8_t packed[WIRE_HELLO_BYTES], wire_hello_t *hello);

/** Whether the hello has this token. How long this takes says nothing about where they differ. */
bool wire_hello_shows(const wire_hello_t *hello, const uint8_t token[WIRE_TOKEN_BYTES]);

/* ---- what stands for the header on verbs ---- */

#define WIRE_SEQUENCE_BITS 12u
#define WIRE_SEQUENCE_MASK ((1u << WIRE_SEQUENCE_BITS) - 1)

static_assert(WIRE_FLOW_BITS + WIRE_SEQUENCE_BITS == 32, "flow and sequence fill the immediate");

/** The immediate in host byte order: the flow's number above the low bits of the sequence. */
static inline uint32_t wire_immediate(uint32_t flow, uint32_t sequence)
{
    return flow << WIRE_SEQUENCE_BITS | (sequence & WIRE_SEQUENCE_MASK);
}

static inline uint32_t wire_immediate_flow(uint32_t immediate)
{
    return immediate >> WIRE_SEQUENCE_BITS;
}

/** The whole sequence that an immediate stands for: of those with its low bits the one nearest to `from`,
 * which is the number of the first move that has not come. Right for whatever a sender may send, which is at
 * most 64 further. */
static inline uint32_t wire_immediate_sequence(uint32_t immediate, uint32_t from)
{
    uint32_t half = 1u << (WIRE_SEQUENCE_BITS - 1);
    return from - half + ((immediate - from + half) & WIRE_SEQUENCE_MASK);
}

/* ---- standing landings ---- */

/* A flow has no more moves there, so that the immediate keeps some bits that tell which op they are of. */
#define WIRE_STANDING_MOVES_LOG2 6u
#define WIRE_STANDING_MOVES      (1u << WIRE_STANDING_MOVES_LOG2)

/** The sequence of a move in a standing landing that is used for the `round`-th time, both counted from 0. It
 * keeps the low 26 bits of the round, and an immediate the low 6. */
static inline uint32_t wire_standing_sequence(uint64_t round, uint32_t move)
{
    return (uint32_t)round << WIRE_STANDING_MOVES_LOG2 | move;
}

#endif
