/*
 * Words about plans to other hosts, and plans as bytes that are sent piece by piece.
 */
#ifndef BLINK_ENGINE_TELL_H
#define BLINK_ENGINE_TELL_H

#include "engine/engine.h"

/* A plan as bytes. Does not change, and is counted: those who send pieces of it may be later than those who
 * keep it. */
typedef struct plan_shipped {
    _Atomic uint32_t users;
    uint32_t byte_count;
    uint8_t *bytes;
} plan_shipped_t;

/* Takes the bytes over, also on failure. NULL: no memory. */
plan_shipped_t *plan_shipped_create(uint8_t *bytes, size_t byte_count);

/* Use it once more, and once less. Thread-safe. NULL is ignored by the second. */
plan_shipped_t *plan_shipped_get(plan_shipped_t *shipped);
void plan_shipped_put(plan_shipped_t *shipped);

/* Say this to the host that the endpoint leads to; the word is copied, but for its piece, which is of
 * `shipped` (else NULL). Whether the host is lost is told by another way. Errors: QUOTA (too many words
 * wait), NO_MEMORY. */
blink_result_t plan_tell(engine_t *engine, data_endpoint_t *endpoint, const plan_word_t *word,
                         plan_shipped_t *shipped);

#endif
