/*
 * The ops of a trace once more: each thread that was recorded is a process here, which submits what that
 * thread did, when it did (tools/history.h), on memory of its own.
 */
#ifndef PERF_REPLAY_H
#define PERF_REPLAY_H

#include "daemon/ask.h"
#include "options/options.h"
#include "ranks/processes.h"
#include "tools/history.h"

#include <pthread.h>

/* When a thread began and ended, by the clock of the machine. */
typedef struct perf_replay_time {
    uint64_t began_ns, ended_ns;
} perf_replay_time_t;

/* Shared by all processes. */
typedef struct perf_replay_board {
    pthread_barrier_t together; /* of all: once they have joined their communicators, and at the end */
    _Atomic uint32_t failed;    /* a process failed and has said why */
    perf_replay_time_t times[PERF_RANKS_MAX];
} perf_replay_board_t;

typedef struct perf_replay {
    const perf_options_t *options;
    const char *socket_path;
    perf_links_t links; /* of the daemon */
    trace_t trace;
    history_t history;
    blink_unique_id_t *ids; /* by communicator */
    perf_replay_board_t *board;
} perf_replay_t;

/** Read options->replay and see whether it can be replayed. Sets options->rank_count to the number of devices
 * it needs, for a private daemon. perf_replay_close() also after a failure. Errors: those of trace_read() and
 * history_make(); INVALID_ARGUMENT (an op whose ranks are not each one once), UNSUPPORTED (ops of several
 * hosts, two ranks of a communicator in one thread, ops without some of their ranks, too many threads),
 * SYSTEM. */
blink_result_t perf_replay_open(perf_options_t *options, perf_replay_t *replay);
void perf_replay_close(perf_replay_t *replay);

/** Replay, and print how long it took beside what was recorded. Returns the exit status; reasons have been
 * printed. */
int perf_replay_run(perf_replay_t *replay, const char *socket_path, perf_signals_t *signals);

#endif
