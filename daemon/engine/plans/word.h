/*
 * What daemons say to each other about plans (PlanAsk and Plan in proto/peer.proto). The engine knows what
 * the words mean, and the control thread brings them over the session with the host.
 *
 * One host plans for all (plan_key_host()); the others ask it for what they need. An ask is answered once the
 * plan is there, with the number of its bytes, or with why there is none. Then the asker asks for the bytes,
 * piece by piece and one plan after the other, so that what waits for a host that does not read is bounded.
 */
#ifndef BLINK_ENGINE_WORD_H
#define BLINK_ENGINE_WORD_H

#include "blink/types.h"

#include <stdbool.h>
#include <stdint.h>

/* The most bytes of a plan in one word. */
#define PLAN_PIECE_BYTES (256u << 10)

typedef struct plan_word {
    bool is_answer;
    uint64_t number; /* of the ask, by its asker */
    /* An ask: the communicator by whose tenant's turn the plan is made, and what of it the plan is for. */
    uint64_t home;
    uint32_t comm;
    uint64_t key; /* plan_key_t's digest, by which both see that they mean the same */
    uint32_t collective, root, peer, size_class;
    bool scales_inputs, lands_in_slots;
    bool wants_bytes; /* a piece, from `offset` on; else an answer when the plan is there */
    /* An answer: the code with its text, or the number of bytes, or a piece of them. */
    uint32_t code; /* of blink_result_t */
    const char *text;
    uint32_t total_bytes;
    uint32_t offset; /* of both */
    const uint8_t *piece;
    uint32_t piece_bytes;
} plan_word_t;

#endif
