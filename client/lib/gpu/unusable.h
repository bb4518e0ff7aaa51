/*
 * A CUDA driver that the application uses and this library cannot: it is too old, or the library was built
 * without CUDA. What such a driver allocated is not to be taken for memory of the host, for the first copy
 * from there would be a segmentation fault.
 */
#ifndef CLIENT_GPU_UNUSABLE_H
#define CLIENT_GPU_UNUSABLE_H

#include "gpu/gpu.h"

/** The library has found no driver that it can use: note whether the application has loaded one. */
void gpus_note_unusable(gpus_t *gpus);

/** Refuse a pointer that a driver which is of no use says is a GPU's. Errors: UNSUPPORTED (names the pointer,
 * and says why the driver is of no use). */
blink_result_t gpus_refuse_unusable(gpus_t *gpus, const char *what, const void *pointer);

#endif
