/*
 * What all ranks must agree on in an op.
 */
#ifndef BLINK_ENGINE_SIGNATURE_H
#define BLINK_ENGINE_SIGNATURE_H

#include "error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct op_signature {
    uint8_t opcode; /* SEND for both ends of a transfer */
    uint8_t datatype;
    uint8_t redop;
    uint32_t root; /* of a transfer: the source */
    uint32_t peer; /* of a transfer: the destination */
    uint64_t count;
} op_signature_t;

#define OP_UNMATCHED_BYTES 96

bool op_signature_equals(const op_signature_t *a, const op_signature_t *b);

/* Two ranks disagree, who are called `first` ("rank 0") and `second`. Errors: MISMATCH, which names both and
 * what each gave. */
blink_result_t op_signature_fail(const char *first_rank, const op_signature_t *first, const char *second_rank,
                                 const op_signature_t *second);

/* Of a transfer one end has not come, the source's or the destination's: "rank 1 receives from rank 0, and no
 * send came from rank 0". Returns `text`. */
const char *op_signature_tell_unmatched(uint32_t source, uint32_t destination, bool lacks_source,
                                        char text[OP_UNMATCHED_BYTES]);

#endif
