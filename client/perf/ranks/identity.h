/*
 * How ranks that were started by something else come to share a communicator's id.
 */
#ifndef PERF_IDENTITY_H
#define PERF_IDENTITY_H

#include "error.h"

#include "blink/blink.h"

/** An id of the daemon at this socket. Errors: those of blink_open(), SYSTEM. */
blink_result_t perf_identity_make(const char *socket_path, blink_unique_id_t *id);

/**
 * The id from BLINK_UNIQUE_ID; else rank 0 makes one and puts it into the file, which must not exist yet, and
 * the others wait for that. `file` may be NULL if there is one rank.
 * Errors: those of perf_identity_make(), INVALID_ARGUMENT (no id, nor a nonce), EXISTS (the file), TIMEOUT
 * (no file).
 */
blink_result_t perf_identity_share(const char *socket_path, const char *file, uint32_t rank,
                                   blink_unique_id_t *id);

/** Rank 0, once all ranks have joined or have failed to: remove the file. */
void perf_identity_forget(const char *file, uint32_t rank);

#endif
