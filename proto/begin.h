/*
 * What BEGIN and FAIL carry (wire.h): one host tells another that it runs its part of an op, or that the op
 * has failed there. Numbers are little-endian, as on every machine that blinkd runs on. Nothing here has
 * state.
 */
#ifndef BLINK_BEGIN_H
#define BLINK_BEGIN_H

#include "error.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/** An op, by the same name on all hosts: the number-th collective of a communicator, or the number-th
 * transfer from `root` to `peer`, counted from 0. */
typedef struct op_name {
    uint64_t home; /* the communicator: who numbered it, and its number there */
    uint32_t comm;
    uint32_t host; /* which of the communicator's hosts says this */
    uint64_t number;
    uint32_t root, peer; /* of a transfer the source and the destination; else OP_NAME_NONE */
} op_name_t;

#define OP_NAME_NONE UINT32_MAX

static_assert(sizeof(op_name_t) == 32, "op name layout");
static_assert(offsetof(op_name_t, number) == 16, "op name layout");

/* Keys that each BEGIN has, and more that one may have. */
#define BEGIN_KEYS      2u
#define BEGIN_MORE_KEYS 6u

typedef struct begin {
    op_name_t op;
    /* What all ranks must agree on, as `rank` has submitted it. */
    uint64_t count;
    uint8_t opcode, datatype, redop;
    uint8_t stands; /* 1: what comes from the receiver lands in a standing landing; else 0 */
    uint32_t root;
    uint32_t rank;
    uint32_t slots;  /* that each edge has where the sender takes in what comes from the receiver */
    uint64_t digest; /* of the plan */
    uint64_t ended;  /* so many of the communicator's collectives have ended at the sender, the first ones */
    uint32_t first_flow, flow_count; /* where the sender takes that in */
    /* With which a NIC of the receiver's may write there by itself, over each of the queue pairs for moves;
     * and the landing's address; 0: it may not. */
    uint32_t keys[BEGIN_KEYS];
    uint64_t address;
    /* Over which connections it may, of those that were made anew: the round of wire.h. A BEGIN of the first
     * ones, or without an address, ends here unless it has more keys. */
    uint32_t round;
    uint32_t reserved;                   /* 0 */
    uint32_t more_keys[BEGIN_MORE_KEYS]; /* as far as there are such queue pairs, and no further */
} begin_t;

static_assert(sizeof(begin_t) == 128, "BEGIN layout");
static_assert(offsetof(begin_t, count) == 32, "BEGIN layout");
static_assert(offsetof(begin_t, digest) == 56, "BEGIN layout");
static_assert(offsetof(begin_t, slots) == 52, "BEGIN layout");
static_assert(offsetof(begin_t, first_flow) == 72, "BEGIN layout");
static_assert(offsetof(begin_t, keys) == 80, "BEGIN layout");
static_assert(offsetof(begin_t, address) == 88, "BEGIN layout");
static_assert(offsetof(begin_t, round) == 96, "BEGIN layout");
static_assert(offsetof(begin_t, more_keys) == 104, "BEGIN layout");

/** The bytes of one that go where so many connections are for moves, from BEGIN_KEYS on. */
static inline uint32_t begin_bytes(const begin_t *begin, uint32_t move_streams)
{
    uint32_t more_keys = move_streams - BEGIN_KEYS;
    if (more_keys == 0 && begin->round == 0)
        return (uint32_t)offsetof(begin_t, round);
    return (uint32_t)offsetof(begin_t, more_keys) + more_keys * (uint32_t)sizeof(uint32_t);
}

/** The answer to a BEGIN or a FAIL of an op that is not under way where it comes from; it is not answered in
 * turn. All that the sender's BEGIN of that op promised was sent, or an earlier FAIL has said how far;
 * without a BEGIN nothing was sent. */
#define FAIL_IS_ANSWER 1u

/** A FAIL's head; sent_count words follow, of each flow to the receiver how far it was sent, and then the
 * reason's text without NUL. */
typedef struct fail {
    op_name_t op;
    uint16_t code; /* blink_result_t */
    uint16_t flags;
    uint32_t sent_count;
} fail_t;

static_assert(sizeof(fail_t) == 40, "FAIL layout");

#define FAIL_FLOWS_MOST 8192u
#define FAIL_MOST_BYTES (sizeof(fail_t) + FAIL_FLOWS_MOST * sizeof(uint32_t) + BLINK_ERROR_TEXT_BYTES)

/** The sender's host has left the communicator, and takes nothing in any more: it asks to be told LEFT, too,
 * as soon as the receiver's sends nothing more to its standing landings. */
#define LEFT_ASKS 1u

/** What LEFT carries: the sender's host sends nothing more to the standing landings of the communicator that
 * the receiver has told it of. */
typedef struct left {
    uint64_t home;
    uint32_t comm;
    uint32_t flags;
} left_t;

static_assert(sizeof(left_t) == 16, "LEFT layout");

/** Check what came from a peer, over so many connections for moves, as far as that goes by itself; keys of
 * others become 0. Errors: PROTOCOL. */
blink_result_t begin_parse(const void *payload, uint32_t bytes, uint32_t move_streams, begin_t *begin);

blink_result_t left_parse(const void *payload, uint32_t bytes, left_t *left);

/** The same of a FAIL: *sent points into the payload, which is aligned to 4 bytes; text is copied. */
blink_result_t fail_parse(const void *payload, uint32_t bytes, fail_t *fail, const uint32_t **sent,
                          char text[BLINK_ERROR_TEXT_BYTES]);

/** Write a FAIL of at most FAIL_FLOWS_MOST flows into `payload`, which holds FAIL_MOST_BYTES. Returns its
 * bytes. */
uint32_t fail_write(const fail_t *fail, const uint32_t *sent, const char *text, void *payload);

#endif
