/*
 * The other end of a socket that systemd has accepted and handed in: whatever it does, each call takes no
 * longer than the limit allows.
 */
#ifndef CTL_CONNECTION_H
#define CTL_CONNECTION_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct connection {
    int fd;
    uint64_t deadline_ns;
} connection_t;

/** Whether the descriptor is a socket. The sentence of a failure names the option that wants it and the unit
 * that hands it in, and says what is done `without` the option. Errors: INVALID_ARGUMENT. */
blink_result_t connection_check(int fd, const char *option, const char *unit, const char *without);

/** From now on so many milliseconds are left for all calls together. */
void connection_limit(connection_t *connection, uint64_t ms);

/** Wait for bytes and take at most so many; *count is 0 if the other end has closed. Errors: TIMEOUT,
 * SYSTEM. */
blink_result_t connection_receive(const connection_t *connection, char *bytes, size_t most, size_t *count);

/** Send all of the bytes. Errors: TIMEOUT, SYSTEM (the other end has gone). */
blink_result_t connection_send(const connection_t *connection, const char *bytes, size_t count);

#endif
