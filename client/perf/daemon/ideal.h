/*
 * What the daemon's topology allows: the ideal bus bandwidth that measurements are compared with (the method
 * is told in --help).
 */
#ifndef PERF_IDEAL_H
#define PERF_IDEAL_H

#include "memory/gpu_choice.h"
#include "options/options.h"
#include "tools/query.h"

/** Devices the daemon offers. Errors: those of query_ask(). */
blink_result_t perf_ask_device_count(query_t *query, uint32_t *count);

/** The GPU of each rank, see perf_choose_gpus(). Errors: its, and those of query_ask(). */
blink_result_t perf_ask_gpus(query_t *query, const perf_options_t *options, perf_gpu_choice_t *choices);

/** Ideal bus bandwidth in GB/s for options->rank_count ranks; 0 if their devices have no links, or for one
 * rank. Errors: those of query_ask(); NOT_FOUND (no such device), PROTOCOL (a topology that cannot be read),
 * NO_MEMORY. */
blink_result_t perf_ask_ideal_GBps(query_t *query, const perf_options_t *options, double *ideal_GBps);

#endif
