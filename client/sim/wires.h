/*
 * What bytes pass on their way, each a clock that serves one chunk after the other: the reader of every
 * rank's device, on GPUs the block of every lane, every link, every limited backplane. And which of them a
 * path leads over. Times in, times out; sim.c knows when.
 */
#ifndef BLINK_SIM_WIRES_H
#define BLINK_SIM_WIRES_H

#include "sim.h"

typedef struct wires_clock {
    double us_per_byte;
    double idle_us; /* busy until then */
    double busy_us; /* in all */
    uint64_t bytes;
} wires_clock_t;

typedef struct wires_path {
    uint32_t stage_first, stage_count; /* run in stages */
    double latency_us;                 /* from the end of the last stage until the chunk shows */
} wires_path_t;

typedef struct wires {
    wires_clock_t *links;   /* per topology link, then one per node */
    wires_clock_t *readers; /* per rank */
    wires_clock_t *blocks;  /* per lane; NULL where these may be as fast as they like */
    wires_path_t *paths;    /* per path of the program */
    uint32_t *stages;       /* indices into links */
} wires_t;

typedef struct wires_time {
    double start_us, finish_us;
} wires_time_t;

/* wires_fini() also after failure. Errors: NO_MEMORY. */
blink_result_t wires_init(wires_t *wires, const topo_t *topo, const lane_program_t *program,
                          double reduce_GBps);
void wires_fini(wires_t *wires);

/* Serve `bytes` that come at at_us, of which the last does not leave before floor_us. */
wires_time_t wires_serve(wires_clock_t *clock, uint64_t bytes, double at_us, double floor_us);

#endif
