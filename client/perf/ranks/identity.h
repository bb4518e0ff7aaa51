/*
 * How ranks that were started by something else come to share a communicator's id.
 */
#ifndef PERF_IDENTITY_H
#define PERF_IDENTITY_H

#include "error.h"

#include "blink/blink.h"

/**
 * The id from BLINK_UNIQUE_ID; else rank 0 makes one and puts it into the file, which must not exist yet, and
 * the others wait for that. `file` may be NULL if there is one rank.
 * Errors: INVALID_ARGUMENT (not 32 hexadecimal digits), EXISTS (the file), TIMEOUT (no file), SYSTEM.
 */
blink_result_t perf_identity_share(const char *file, uint32_t rank, blink_unique_id_t *id);

/** Rank 0, once all ranks have joined or have failed to: remove the file. */
void perf_identity_forget(const char *file, uint32_t rank);

#endif
