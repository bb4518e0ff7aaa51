/*
 * What `blinkctl simulate` has found out, between the sweep (simulate.c) and the ways to show it: table, CSV
 * and JSON (simulate_report.c), plot (simulate_svg.c).
 */
#ifndef CTL_SIMULATE_H
#define CTL_SIMULATE_H

#include "sim/sim.h"

#include <stdio.h>

/** One size with one algorithm. */
typedef struct simulate_point {
    blink_algorithm_t algorithm; /* that planned; never AUTO */
    blink_protocol_t protocol;
    uint64_t bytes; /* payload, whole blocks */
    uint64_t chunk_bytes;
    uint32_t slots;
    double plan_GBps; /* the plan's rate */
    double algbw_GBps, busbw_GBps;
    sim_result_t result;
} simulate_point_t;

/** All of a sweep: a curve per algorithm asked for, each with the same number of sizes. */
typedef struct simulation {
    const topo_t *topo;
    const plan_request_t *request;
    const blink_algorithm_t *algorithms; /* per curve, as asked for */
    uint32_t curve_count, size_count;
    simulate_point_t *points; /* curve by curve */
} simulation_t;

/** A point of a curve. */
static inline const simulate_point_t *simulation_at(const simulation_t *simulation, uint32_t curve,
                                                    uint32_t size)
{
    return &simulation->points[(size_t)curve * simulation->size_count + size];
}

/** The share of the run during which a link was busy. */
static inline double simulate_busy_share(const simulate_point_t *point, uint32_t link)
{
    return point->result.links[link].busy_us / point->result.time_us;
}

/** Print to stdout. Errors: NO_MEMORY. */
blink_result_t simulate_print_table(const simulation_t *simulation);
blink_result_t simulate_print_json(const simulation_t *simulation);
void simulate_print_csv(const simulation_t *simulation);

/**
 * Draw bus bandwidth and time over size, a curve per algorithm. What fails in `out` stays there: ferror().
 */
void simulate_draw(const simulation_t *simulation, FILE *out);

#endif
