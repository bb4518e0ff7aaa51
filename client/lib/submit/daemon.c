/* Looking at the daemon's process from outside. */
#include "submit/daemon.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SYSTEMD_PID 1

pid_t daemon_pid(int socket_fd, pid_t said)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return 0;
    return peer.pid == SYSTEMD_PID ? said : peer.pid;
}

/* The letter of proc(5): 'T' of a stopped process; 0 if there is none, or it may not be seen. */
static char process_state(pid_t pid)
{
    char path[32], stat[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t got = fread(stat, 1, sizeof(stat) - 1, file);
    fclose(file);
    stat[got] = '\0';
    const char *name_end = strrchr(stat, ')'); /* the name before it may hold anything */
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

void daemon_loss(pid_t pid, double silent_s, char text[BLINK_ERROR_TEXT_BYTES])
{
    char who[32] = "the daemon", how_long[48] = "";
    char state = pid > 0 ? process_state(pid) : 0;
    if (pid > 0)
        snprintf(who, sizeof(who), "the daemon (pid %d)", (int)pid);
    if (silent_s > 0)
        snprintf(how_long, sizeof(how_long), " has not answered for %g s", silent_s);
    if (state == 'T' || state == 't')
        snprintf(text, BLINK_ERROR_TEXT_BYTES, "%s is stopped%s%s", who, silent_s > 0 ? " and" : "",
                 how_long);
    else if (silent_s > 0)
        snprintf(text, BLINK_ERROR_TEXT_BYTES, "%s%s", who, how_long);
    else
        snprintf(text, BLINK_ERROR_TEXT_BYTES, "%s has ended or closed the connection", who);
}
