/* The shared board and the statistics over it. */
#include "ranks/board.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

blink_result_t perf_board_create(uint32_t row_count, uint32_t iteration_count, perf_board_t **result)
{
    size_t times_bytes = (size_t)row_count * iteration_count * sizeof(double);
    size_t bytes = sizeof(perf_board_t) + row_count * sizeof(perf_row_t) + times_bytes;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return BLINK_FAIL_ERRNO("mmap %zu bytes for the times", bytes);
    perf_board_t *board = memory;
    board->row_count = row_count;
    board->iteration_count = iteration_count;
    board->rows = (perf_row_t *)(board + 1);
    board->times_us = (double *)(board->rows + row_count);
    board->bytes = bytes;
    *result = board;
    return BLINK_OK;
}

void perf_board_destroy(perf_board_t *board)
{
    if (board)
        munmap(board, board->bytes);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

perf_times_t perf_board_times(perf_board_t *board, uint32_t count)
{
    double *slowest = board->times_us;
    for (uint32_t row = 1; row < board->row_count; row++)
        for (uint32_t i = 0; i < count; i++) {
            double time_us = board->times_us[(size_t)row * board->iteration_count + i];
            slowest[i] = time_us > slowest[i] ? time_us : slowest[i];
        }
    qsort(slowest, count, sizeof(*slowest), compare);
    uint32_t p99 = (uint32_t)(((uint64_t)count * 99 + 99) / 100) - 1; /* nearest rank */
    return (perf_times_t){.median_us = (slowest[(count - 1) / 2] + slowest[count / 2]) / 2,
                          .min_us = slowest[0],
                          .p99_us = slowest[p99]};
}

uint64_t perf_board_wrong(const perf_board_t *board)
{
    uint64_t wrong = 0;
    for (uint32_t row = 0; row < board->row_count; row++)
        wrong += board->rows[row].wrong;
    return wrong;
}

uint64_t perf_board_different(const perf_board_t *board)
{
    uint64_t different = 0;
    for (uint32_t row = 1; row < board->row_count; row++)
        different += board->rows[row].checksum != board->rows[0].checksum;
    return different;
}

/*
 * Release, and the acquire that pairs with all ranks' additions: each of them continues the release sequence.
 */
void perf_board_give(perf_board_t *board)
{
    atomic_fetch_add_explicit(&board->given, 1, memory_order_release);
}

void perf_board_take(const perf_board_t *board)
{
    (void)atomic_load_explicit(&board->given, memory_order_acquire);
}

/* Release and acquire: the order that the barrier itself should give is what is being checked. */
void perf_board_arrive(perf_board_t *board, uint32_t row, uint64_t number)
{
    atomic_store_explicit(&board->rows[row].arrivals, number, memory_order_release);
}

uint64_t perf_board_missing(const perf_board_t *board, uint64_t number)
{
    uint64_t missing = 0;
    for (uint32_t row = 0; row < board->row_count; row++)
        missing += atomic_load_explicit(&board->rows[row].arrivals, memory_order_acquire) < number;
    return missing;
}
