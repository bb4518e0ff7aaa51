/*
 * A daemon for one run: on host devices, with a socket in a temporary directory. Whoever starts it stops it.
 */
#ifndef PERF_PRIVATE_H
#define PERF_PRIVATE_H

#include "ranks/processes.h"

typedef struct perf_private {
    pid_t pid;       /* 0: not running */
    char *directory; /* NULL: none */
    char *socket_path;
    char *log_path;
} perf_private_t;

/** Start blinkd (found beside this program or on PATH) and wait until it answers. Give `daemon` to
 * perf_private_stop() also after a failure. Errors: SYSTEM (also: it ended; its log is on stderr),
 * ABORTED (asked to end), TIMEOUT, NO_MEMORY. */
blink_result_t perf_private_start(const perf_options_t *options, perf_signals_t *signals,
                                  perf_private_t *daemon);

/** End it and remove the directory. Errors: SYSTEM (it did not end by itself, or not well; its log is on
 * stderr). */
blink_result_t perf_private_stop(perf_private_t *daemon, perf_signals_t *signals);

#endif
