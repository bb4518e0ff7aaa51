/* One thread of a trace, replayed. */
#ifndef PERF_REPLAY_THREAD_H
#define PERF_REPLAY_THREAD_H

#include "replay/replay.h"

/** Join the thread's communicators, wait for the others to have joined theirs, and submit its ops. Errors:
 * the library's, NO_MEMORY. */
blink_result_t perf_replay_thread(const perf_replay_t *replay, uint32_t thread);

#endif
