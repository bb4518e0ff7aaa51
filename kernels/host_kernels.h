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

#ifdef __cplusplus
}
#endif
#endif
