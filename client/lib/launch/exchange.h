/*
 * Handing a text from rank 0 to the other ranks of a launch, once in the life of a process: by a file, by the
 * store of torchrun's agent, by PMI-1 and by PMIx.
 */
#ifndef CLIENT_EXCHANGE_H
#define CLIENT_EXCHANGE_H

#include "launch/launch.h"
#include "unique_id.h"

/** Rank 0 gives the text, the others receive it, at the latest at the deadline of clock_ns(). Blocks. Errors:
 * TIMEOUT (rank 0 gives nothing), EXISTS (a file), CONNECT, PROTOCOL, SYSTEM, UNSUPPORTED, INVALID_ARGUMENT;
 * the sentence names file, address or descriptor. */
typedef blink_result_t exchange_t(const launch_t *launch, uint64_t deadline_ns,
                                  char text[UNIQUE_ID_TEXT_BYTES]);

exchange_t exchange_by_file, exchange_by_store, exchange_by_pmi, exchange_by_pmix;

/** All ranks have the text, or one has failed: what rank 0 has left where others may find it goes. */
void exchange_forget_file(const launch_t *launch);
void exchange_forget_store(const launch_t *launch);

/* ---- for those that talk over a descriptor ---- */

/** Wait until poll() has one of these events. Errors: TIMEOUT, SYSTEM; as the next two. */
blink_result_t exchange_await(int fd, short events, uint64_t deadline_ns, const char *whom);

/** Send all of it, or receive as much. Errors: TIMEOUT, PROTOCOL (the other end has closed), SYSTEM; the
 * sentences name `whom`. */
blink_result_t exchange_send(int fd, const void *bytes, size_t byte_count, uint64_t deadline_ns,
                             const char *whom);
blink_result_t exchange_receive(int fd, void *bytes, size_t byte_count, uint64_t deadline_ns,
                                const char *whom);

#endif
