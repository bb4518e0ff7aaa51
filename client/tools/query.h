/*
 * Asking the daemon from a tool: connect, say hello without rings, ask, disconnect. Shared by blinkctl and
 * blink-perf. A connection is for one thread at a time.
 */
#ifndef BLINK_QUERY_H
#define BLINK_QUERY_H

#include "error.h"

#include "blink.pb-c.h"

typedef struct query {
    int socket_fd;
    uint64_t last_id;
    uint64_t answer_bytes; /* of the answer under way */
    char daemon_version[32];
} query_t;

/** The socket to use: `given`, or if that is NULL the environment variable BLINK_SOCKET, or the default.
 * Borrowed. */
const char *query_socket_path(const char *given);

/** Connect and say hello as `program`. query_close() it after success. Errors: CONNECT, PROTOCOL,
 * DAEMON_LOST, TIMEOUT (the daemon does not answer), SYSTEM, or what the daemon says. */
blink_result_t query_open(const char *socket_path, const char *program, query_t *query);
void query_close(query_t *query);

/** Ask one thing, of this host's daemon or, through it, of the host that the question names, page by page;
 * the question's own page is not heeded. (*reply)->query is set; the reply is the caller's:
 * blinkwire__reply__free_unpacked(). Same errors, after which *reply is NULL. */
blink_result_t query_ask_for(query_t *query, const Blinkwire__Query *question, Blinkwire__Reply **reply);
blink_result_t query_ask(query_t *query, Blinkwire__QueryKind kind, Blinkwire__Reply **reply);

/** query_open(), query_ask_for(), query_close(). */
blink_result_t query_once(const char *socket_path, const char *program, const Blinkwire__Query *question,
                          Blinkwire__Reply **reply);

#endif
