/*
 * Which sizes are measured, and how often each: as many iterations as were asked for, or as many as the
 * seconds for all sizes leave. Kept on rank 0, whose word the others follow.
 */
#ifndef PERF_SCHEDULE_H
#define PERF_SCHEDULE_H

#include "options/options.h"

typedef struct perf_schedule {
    const perf_options_t *options;
    uint64_t start_ns;
    uint32_t left; /* measurements that have not begun: of one size in one placement, type and operator */
    bool has_said; /* that the run is long */
} perf_schedule_t;

/** Of the blocks of a size, see perf_collective_blocks(). */
uint64_t perf_unit_bytes(const perf_options_t *options, blink_datatype_t datatype);

/** Go on to the next size; false, and *bytes untouched, behind the last one. */
bool perf_next_size(const perf_options_t *options, uint64_t unit_bytes, uint64_t *bytes);

/** The clock begins to run. */
perf_schedule_t perf_schedule_begin(const perf_options_t *options);

/** A measurement has begun, and its first iteration took so long: how many iterations it is to have, that one
 * included. Says on standard error, once, that the run is about to take long. */
uint32_t perf_schedule_iterations(perf_schedule_t *schedule, uint64_t bytes, uint64_t unit_bytes,
                                  double first_us);

#endif
