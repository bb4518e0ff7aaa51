/*
 * Ids of communicators. Ranks that something else has started leave that to the library.
 */
#ifndef PERF_IDENTITY_H
#define PERF_IDENTITY_H

#include "error.h"

#include "blink/blink.h"

/** An id of the daemon at this socket. Errors: those of blink_open(), SYSTEM. */
blink_result_t perf_identity_make(const char *socket_path, blink_unique_id_t *id);

/** An id like the one that ranks which something else has started gather under: BLINK_UNIQUE_ID, or one of
 * this rank's daemon. Errors: the same; INVALID_ARGUMENT (BLINK_UNIQUE_ID is none). */
blink_result_t perf_identity_expect(const char *socket_path, blink_unique_id_t *id);

#endif
