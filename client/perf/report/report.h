/*
 * What blink-perf prints: nccl-tests' table with two more numbers, or JSON lines.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "options/options.h"
#include "ranks/board.h"

/* One size in one placement. */
typedef struct perf_result {
    bool measured;
    blink_datatype_t datatype;
    blink_redop_t redop; /* means nothing where nothing is reduced */
    uint64_t count;
    perf_times_t times;
    uint32_t iterations;
    uint64_t wrong;
} perf_result_t;

typedef struct perf_report {
    const perf_options_t *options;
    const char *gpu_name;  /* of device memory; NULL: none is used */
    double pace_scale;     /* what links have of their capacity; 0: they are not paced */
    double ideal_GBps;     /* 0: not known */
    double busbw_sum_GBps; /* of all results printed so far */
    uint32_t result_count;
    uint64_t wrong;
} perf_report_t;

void perf_report_header(const perf_report_t *report);

/** results[0] is out of place, results[1] in place. */
void perf_report_size(perf_report_t *report, const perf_result_t results[2]);

/** What comes last. Errors: SYSTEM (standard output could not be written). */
blink_result_t perf_report_footer(const perf_report_t *report);

/** The empty operation. Errors: as perf_report_footer(). */
blink_result_t perf_report_nop(const perf_options_t *options, const perf_times_t *times);

#endif
