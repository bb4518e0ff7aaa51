/*
 * The kernels compiled for the host, from the same source (lanes.cu): for tests without a GPU. A block has
 * one thread.
 */
#ifndef BLINK_HOST_KERNELS_H
#define BLINK_HOST_KERNELS_H

#include "lane_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Run one block on the calling thread. The blocks of a launch run at the same time, each on a thread of its
 * own. */
typedef void host_kernel_t(const lane_abi_run_t *run, uint32_t block, uint32_t block_count);

/* By its name in the fatbin; NULL if there is none. Thread-safe. */
host_kernel_t *host_kernel_find(const char *name);

/* Where the memory is that a switch reaches at this address, in the order of the GPUs; returns how many
 * places there are, of at most LANE_ABI_RANKS_MAX. Set by whoever has such memory, before the first run that
 * uses it.
 */
extern uint32_t (*host_switch_places)(uint64_t address, uint64_t *places);

#ifdef __cplusplus
}
#endif
#endif
