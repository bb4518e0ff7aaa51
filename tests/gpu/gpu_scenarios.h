/* What the scenarios of blink-gpu-api share. */
#ifndef TESTS_GPU_SCENARIOS_H
#define TESTS_GPU_SCENARIOS_H

#include "api.h"
#include "base/cuda_driver.h"

#define COUNT 5000u
#define LARGE (3u << 20) /* elements: several pieces of staging */

extern const cuda_driver_t *cu;
extern int ordinal; /* of the rank's GPU */

void cuda_must(const player_t *p, CUresult result, const char *what);

/** Make the rank's GPU current; and join the communicator of all ranks. */
void use_gpu(const player_t *p);
blink_comm_t *begin(const player_t *p);

CUdeviceptr device_memory(const player_t *p, size_t count);
CUdeviceptr pool_memory(const player_t *p, CUmemAllocationHandleType type, size_t count);
void *as_pointer(CUdeviceptr memory);
CUstream stream_of(const player_t *p);
void device_fill(const player_t *p, CUdeviceptr memory, size_t count, int32_t first);
void device_must_hold(const player_t *p, CUdeviceptr memory, size_t count, int32_t first, int32_t step,
                      const char *what);

/** What an AllReduce makes of device_fill()'s first numbers, if each rank's is its own number. */
int32_t sum_of_ranks(const player_t *p);

/** AllReduce what device_fill() wrote there. */
void reduce_and_check(const player_t *p, blink_comm_t *comm, CUdeviceptr send, CUdeviceptr recv, size_t count,
                      const char *what);

/** Until the communicator has failed. */
void await_error(const player_t *p, blink_comm_t *comm, blink_result_t expected, const char *text);

/* scenarios_extents.c */
void play_extents(const player_t *p);
void play_many_extents(const player_t *p);
void play_begun_extents(const player_t *p);
void play_lost_extents(const player_t *p);

/* scenarios_streams.c */
void play_stream(const player_t *p);
void play_two_streams(const player_t *p);
void play_stream_group(const player_t *p);
void play_staged_stream(const player_t *p);
void play_late(const player_t *p);

/* scenarios_strangers.c */
void play_legacy_taken(const player_t *p);
void play_legacy_refused(const player_t *p);

/* scenarios_many.c */
void play_many_streams(const player_t *p);
void play_many_streams_in_any_order(const player_t *p);
void play_many_streams_that_time_out(const player_t *p);

/* scenarios_free.c */
void play_released(const player_t *p);
void play_released_by_several(const player_t *p);
void play_pools_promised(const player_t *p);
void play_freed_without_a_word(const player_t *p);
void play_out_of_memory(const player_t *p);

#endif
