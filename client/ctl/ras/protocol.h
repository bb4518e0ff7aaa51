/*
 * One conversation in the line protocol of NCCL's RAS, as NCCL 2.30 speaks it: greetings and settings, each
 * answered by a line, then a question that is answered by a report and the end of the connection.
 */
#ifndef CTL_RAS_PROTOCOL_H
#define CTL_RAS_PROTOCOL_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

/* Make the report; it is the caller's to free. */
typedef blink_result_t ras_render_t(void *context, bool json, bool verbose, char **text, size_t *bytes);

/** Talk on the socket that systemd has accepted, until the report is sent, the other end has gone, or its
 * time is over. A failure of `render` is told as a line that begins with ERROR. Errors: INVALID_ARGUMENT (no
 * socket, or lines that are too long or too many), TIMEOUT, SYSTEM. */
blink_result_t ras_answer(int socket_fd, ras_render_t *render, void *context);

#endif
