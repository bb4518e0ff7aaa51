/*
 * One HTTP request for metrics, answered on the socket that systemd has accepted and handed in as standard
 * input. Whatever is at the other end, that takes seconds at most.
 */
#ifndef CTL_HTTP_H
#define CTL_HTTP_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

/* Make the text, in one of the two formats of exposition.h; it is the caller's to free. */
typedef blink_result_t http_render_t(void *context, bool is_openmetrics, char **text, size_t *bytes);

/** Read a request from the socket and answer it: GET or HEAD of /metrics by `render`, whose failure is told
 * as status 503, and anything else by a sentence. OK if an answer was sent, whatever it is. Errors:
 * INVALID_ARGUMENT (no socket), TIMEOUT, SYSTEM (the other end has gone). */
blink_result_t http_answer(int socket_fd, http_render_t *render, void *context);

#endif
