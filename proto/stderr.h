/*
 * Lines on stderr of libraries in other people's programs. A program whose stderr is a pipe that nobody reads
 * any more loses the lines, and is not ended by SIGPIPE for them.
 */
#ifndef BLINK_STDERR_H
#define BLINK_STDERR_H

#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

/** Write a line, in one piece. Thread-safe. */
static inline void stderr_write(const char *line, size_t bytes)
{
    sigset_t pipe, pending, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    /* A signal of the program's own that waits is not to be taken: then ours is one with it. */
    sigpending(&pending);
    if (pthread_sigmask(SIG_BLOCK, &pipe, &before) != 0)
        return;
    if (write(STDERR_FILENO, line, bytes) < 0 && !sigismember(&pending, SIGPIPE))
        (void)sigtimedwait(&pipe, NULL, &(struct timespec){0});
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif
