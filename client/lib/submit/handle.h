/*
 * The handles of one context's ops: chunks that stay until the context is closed, so that a number in a
 * completion can be looked up without a lock, and the lists of free ones.
 */
#ifndef CLIENT_HANDLE_H
#define CLIENT_HANDLE_H

#include "submit/op.h"

#define HANDLES_CHUNK_OPS  256u
#define HANDLES_CHUNKS_MAX 4096u

typedef struct handles {
    struct ops *ops;               /* whose they are */
    blink_op_t *free;              /* under submit_lock */
    _Atomic(blink_op_t *) freed;   /* pushed by any thread, taken whole under submit_lock */
    _Atomic(blink_op_t *) *chunks; /* HANDLES_CHUNKS_MAX; written under submit_lock */
    uint32_t chunk_count;          /* under submit_lock */
} handles_t;

/** Errors: NO_MEMORY; handles_fini() in any case. */
blink_result_t handles_init(handles_t *handles, struct ops *ops);
void handles_fini(handles_t *handles);

/** Under submit_lock. NULL, with the sentence recorded, if memory ran out. */
blink_op_t *handle_get(handles_t *handles);

/** By any thread, without locks. */
void handle_put(handles_t *handles, blink_op_t *op);

/** The handle with this index, in use or not; NULL if there is none (yet). By any thread. */
blink_op_t *handle_at(handles_t *handles, uint32_t index);

#endif
