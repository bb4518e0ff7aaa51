/*
 * Which GPU a rank's memory is on: that of its device, unless --gpus says otherwise.
 */
#ifndef PERF_GPU_CHOICE_H
#define PERF_GPU_CHOICE_H

#include "options/options.h"

#include "error.h"

#include "blink.pb-c.h"

#define PERF_GPU_UUID_BYTES 16u

typedef struct perf_gpu_choice {
    int ordinal; /* CUDA's, in the rank's process; -1: the GPU with this UUID */
    unsigned char uuid[PERF_GPU_UUID_BYTES];
} perf_gpu_choice_t;

/** The device of a rank, within the daemon's answer. Errors: NOT_FOUND. */
blink_result_t perf_find_device(const Blinkwire__QueryReply *query, const perf_options_t *options,
                                uint32_t rank, const Blinkwire__Device **device);

/** For every rank, from the daemon's answer about its devices. Errors: UNSUPPORTED (a rank's device is in
 * host memory), NOT_FOUND (there is no such device), PROTOCOL (the daemon's UUID is none). */
blink_result_t perf_choose_gpus(const Blinkwire__QueryReply *query, const perf_options_t *options,
                                perf_gpu_choice_t *choices);

#endif
