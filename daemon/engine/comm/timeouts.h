/*
 * Ops that take too long: that wait for a rank, a stream or a plan which does not come, or that run on and
 * on.
 */
#ifndef BLINK_ENGINE_TIMEOUTS_H
#define BLINK_ENGINE_TIMEOUTS_H

#include "engine/engine.h"

/* End communicators whose oldest op waits too long for a rank or a plan, or of whose ops in a run the first
 * runs for too long. Returns when to look again (µs), or UINT64_MAX. */
uint64_t comms_check_timeouts(engine_t *engine, uint64_t now_us);

#endif
