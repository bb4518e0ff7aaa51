/*
 * One rank: joins the communicator, measures every type, operator, size and placement, and checks what
 * arrived. Rank 0 prints.
 */
#ifndef PERF_RANK_H
#define PERF_RANK_H

#include "daemon/ask.h"
#include "memory/gpu_choice.h"
#include "options/options.h"
#include "ranks/board.h"

#include "blink/blink.h"

typedef struct perf_run {
    const perf_options_t *options;
    const char *socket_path;
    perf_links_t links;                     /* of the daemon */
    double ideal_GBps;                      /* known to rank 0 */
    perf_gpu_choice_t gpus[PERF_RANKS_MAX]; /* by rank, for device memory */
    blink_unique_id_t id;                   /* of ranks that were started one by one: one like theirs */
    blink_context_t *context;               /* that ranks of one process share; NULL: each opens its own */
    perf_board_t *board;
} perf_run_t;

/** Whether ranks may be on other hosts: they were started one by one, and gather under the id of a daemon
 * that listens for other hosts. */
bool perf_may_span_hosts(const perf_run_t *run);

/** Run the measurement as this rank (nop: as the only one). Wrong elements are no failure here: they are
 * added to the board. The sentence of a failure is in blink_error_text(). */
blink_result_t perf_rank_run(const perf_run_t *run, uint32_t rank);

/** The same; prints why the rank failed, unless another has said so before, and returns the exit status. */
int perf_rank_status(const perf_run_t *run, uint32_t rank);

#endif
