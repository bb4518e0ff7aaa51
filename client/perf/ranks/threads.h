/*
 * Ranks as threads of this process, on one connection to the daemon.
 */
#ifndef PERF_THREADS_H
#define PERF_THREADS_H

#include "ranks/rank.h"

/** Run all ranks and wait for them. The first that fails says why and ends the process, since the others may
 * be waiting for it. Returns the exit status. */
int perf_threads_run(const perf_run_t *run);

#endif
