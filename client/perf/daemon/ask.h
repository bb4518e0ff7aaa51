/*
 * What blink-perf asks the daemon before the ranks start: its devices, their GPUs, and by its topology the
 * ideal bus bandwidth that measurements are compared with.
 */
#ifndef PERF_ASK_H
#define PERF_ASK_H

#include "memory/gpu_choice.h"
#include "options/options.h"
#include "tools/query.h"

/* How fast the daemon's links are. Those of host devices that are not paced are as fast as memory is. */
typedef struct perf_links {
    double pace_scale; /* what they have of their capacity; 0: they are not paced */
    bool are_gpus;
} perf_links_t;

/** Devices the daemon offers. Errors: those of query_ask(). */
blink_result_t perf_ask_device_count(query_t *query, uint32_t *count);

/** The rank whose device is options->root_node becomes the root. Errors: NOT_FOUND (no rank's device is),
 * those of query_ask(). */
blink_result_t perf_ask_root(query_t *query, perf_options_t *options);

/** The GPU of each rank, see perf_choose_gpus(). Errors: its, and those of query_ask(). */
blink_result_t perf_ask_gpus(query_t *query, const perf_options_t *options, perf_gpu_choice_t *choices);

/** Errors: those of query_ask(). */
blink_result_t perf_ask_links(query_t *query, perf_links_t *links);

/** Ideal bus bandwidth in GB/s of the ranks' devices, as emulated if the daemon paces its links; 0 for one
 * rank, and where it is not known: on host devices whose links are not paced. Errors: those of query_ask()
 * and tools_ideal_GBps(); NOT_FOUND (no such device). */
blink_result_t perf_ask_ideal_GBps(query_t *query, const perf_options_t *options, const perf_links_t *links,
                                   double *ideal_GBps);

#endif
