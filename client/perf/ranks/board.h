/*
 * Memory shared by the ranks that one blink-perf started: every rank posts its times and what its checks
 * found, rank 0 reads them. Made before the fork. A rank started by someone else has a board of its own.
 */
#ifndef PERF_BOARD_H
#define PERF_BOARD_H

#include "error.h"

#include <stdatomic.h>
#include <stdbool.h>

/* One rank's. */
typedef struct perf_row {
    uint64_t wrong;            /* of the size under way */
    uint64_t checksum;         /* of its outputs */
    _Atomic uint64_t arrivals; /* how many barriers under check it has come to */
} perf_row_t;

/* Rows and times are plain memory but for the arrivals: rank 0 reads them between two barriers of the
 * communicator. Around those every rank calls perf_board_give() and perf_board_take(), which order the
 * accesses whatever the barrier does. */
typedef struct perf_board {
    _Atomic uint32_t failed;         /* a rank failed and has said why */
    _Atomic uint64_t wrong_elements; /* of all ranks and sizes; read after the ranks have ended */
    _Atomic uint64_t given;          /* how often ranks have handed their accesses over */
    uint32_t row_count, iteration_count;
    perf_row_t *rows;
    double *times_us; /* by row, then iteration: iteration_count for each row, not all of them in use */
    size_t bytes;     /* of the mapping */
} perf_board_t;

/** Errors: SYSTEM. */
blink_result_t perf_board_create(uint32_t row_count, uint32_t iteration_count, perf_board_t **board);
void perf_board_destroy(perf_board_t *board);

/** Median, least and 99th percentile over the iterations of the slowest row's time. */
typedef struct perf_times {
    double median_us, min_us, p99_us;
} perf_times_t;

/** Of the first `count` iterations. Overwrites the times of row 0. */
perf_times_t perf_board_times(perf_board_t *board, uint32_t count);

/** Wrong elements of all rows. */
uint64_t perf_board_wrong(const perf_board_t *board);

/** Rows whose checksum is not that of row 0. */
uint64_t perf_board_different(const perf_board_t *board);

/**
 * Before a barrier of the ranks: what this rank did to the board is done. Behind it: what all did is seen.
 */
void perf_board_give(perf_board_t *board);
void perf_board_take(const perf_board_t *board);

/** Come to a barrier that is being checked, the `number`-th; and, behind it, how many rows have not. */
void perf_board_arrive(perf_board_t *board, uint32_t row, uint64_t number);
uint64_t perf_board_missing(const perf_board_t *board, uint64_t number);

#endif
