/* The daemon's process, as far as a client can see it. */
#ifndef CLIENT_DAEMON_H
#define CLIENT_DAEMON_H

#include "error.h"

#include <sys/types.h>

/** The process at the other end of the socket; where systemd has made the socket, the one that the daemon
 * says it is (0: it has said nothing yet). 0: the process is in a pid namespace that is not seen from here.
 */
pid_t daemon_pid(int socket_fd, pid_t said);

/** A sentence on why the daemon is lost: it is stopped, it has not answered for so long, or (0) it has ended
 * or closed the connection. */
void daemon_loss(pid_t pid, double silent_s, char text[BLINK_ERROR_TEXT_BYTES]);

#endif
