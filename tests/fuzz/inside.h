/*
 * A whole daemon in the fuzzer's process, with workers, engine and control thread, so that what it does is
 * seen by coverage and sanitizers; and raw connections to it.
 */
#ifndef FUZZ_INSIDE_H
#define FUZZ_INSIDE_H

#include "blink.pb-c.h"

#include <stdbool.h>

/** A fresh connection to the daemon, which the first call starts. */
int inside_connect(void);

/** Send a request, with a descriptor unless fd is -1, and return its reply; the caller frees the reply.
 * Descriptors that come with it go to fds, which has `fd_count` places; NULL if the daemon has ended the
 * connection. */
Blinkwire__Reply *inside_ask(int connection, const Blinkwire__Request *request, int fd, int *fds,
                             uint32_t fd_count);

/** Say hello: the reply, the caller's to free; NULL if the daemon has ended the connection. With want_ring
 * the ring, the doorbell and the event go to fds. */
Blinkwire__Reply *inside_hello(int connection, bool want_ring, int fds[3]);

/** Wait until the daemon has ended the connection, and close this end. */
void inside_leave(int connection);

/** A sealed memfd. */
int inside_memory(size_t bytes);

#endif
