/* The buffers of a call whose blocks differ in length: alltoallv and its like. */
#ifndef CLIENT_BLOCKS_H
#define CLIENT_BLOCKS_H

#include "blink/blink.h"

/** Blocks of one buffer: block i has counts[i] elements from base + offsets[i] on. Offsets are in elements.
 */
typedef struct blocks {
    const char *what; /* "send" or "recv" */
    const void *base;
    uint32_t block_count; /* 0: this rank has no such buffer */
    const size_t *counts, *offsets;
} blocks_t;

/** Where a block begins, and NULL if it is empty. The blocks have been checked. */
const void *blocks_at(const blocks_t *blocks, uint32_t index, blink_datatype_t datatype);

/**
 * Whether a block that is sent and one that is received are the same memory, which is how they stand in
 * place.
 */
bool blocks_coincide(const blocks_t *send, uint32_t sent, const blocks_t *recv, uint32_t received,
                     blink_datatype_t datatype);

/** Check the arrays, and that every block lies in the address space, aligned. `name` is the function's.
 * Errors: INVALID_ARGUMENT. */
blink_result_t blocks_check(const char *name, const blocks_t *blocks, blink_datatype_t datatype);

/**
 * Nothing that is written may be read, or written twice. The blocks have been checked.
 * @param in_place  the block of `send` that is not looked at, for it stands in place; send->block_count:
 * none. Errors: INVALID_ARGUMENT, NO_MEMORY.
 */
blink_result_t blocks_check_overlap(const blocks_t *send, const blocks_t *recv, uint32_t in_place,
                                    blink_datatype_t datatype);

#endif
