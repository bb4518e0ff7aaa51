/*
 * The HTTP server of `blinkctl web`, by libmicrohttpd: a page, and what it shows.
 */
#ifndef BLINK_WEB_SERVER_H
#define BLINK_WEB_SERVER_H

#include "ctl/web/answers.h"

#define SERVER_KEY_BYTES 33

typedef struct server server_t;

/** Serve on a listening socket, which the server then owns, from a thread of its own until server_stop().
 * Where the socket is TCP, paths begin with the key, which only whoever may read it knows: others on the
 * machine can connect, too. Empty: without. Errors: SYSTEM. */
blink_result_t server_start(const ctl_options_t *options, int listener, const char *key, server_t **server);
void server_stop(server_t *server);

#endif
