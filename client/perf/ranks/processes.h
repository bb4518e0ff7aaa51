/*
 * The processes that blink-perf starts, and the signals it waits for meanwhile. Signals stay blocked and are
 * taken by perf_signals_wait(), so that whatever was started is always ended by the one who started it.
 */
#ifndef PERF_PROCESSES_H
#define PERF_PROCESSES_H

#include "ranks/rank.h"

#include <signal.h>
#include <sys/types.h>

typedef struct perf_signals {
    sigset_t watched; /* SIGCHLD, and those that ask to end */
    sigset_t before;  /* the mask to give to children */
    int caught;       /* the one that asked to end; 0: none */
} perf_signals_t;

void perf_signals_block(perf_signals_t *signals);

/** Wait until a child has ended, somebody asks to end, or the time is up (-1: never). */
void perf_signals_wait(perf_signals_t *signals, int timeout_ms);

/** Fork. In the child: the former mask, SIGTERM as it is by default, and `death_signal` if this process ends
 * first. Errors: SYSTEM. */
blink_result_t perf_fork(const perf_signals_t *signals, int death_signal, pid_t *pid);

/** What a process does; returns its exit status. */
typedef int perf_process_t(const void *context, uint32_t number);

/** Start `count` processes, PERF_RANKS_MAX at most, and wait for them. If one fails the others are ended.
 * Returns the exit status for this process; reasons have been printed. */
int perf_processes_run(uint32_t count, perf_process_t *process, const void *context, perf_signals_t *signals);

#endif
