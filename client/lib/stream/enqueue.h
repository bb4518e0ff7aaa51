/* What is put on a stream. Between stream_enter() and stream_leave() its CUDA context is current. */
#ifndef CLIENT_ENQUEUE_H
#define CLIENT_ENQUEUE_H

#include "gpu/device.h"
#include "stream/step.h"

/** Make the stream's context current, and take it back. Errors: SYSTEM. */
blink_result_t stream_enter(const stream_step_t *step);
void stream_leave(const stream_step_t *step);

/** Have the stream store a value at an address, or wait until the value there is `least` or more. Errors:
 * SYSTEM. */
blink_result_t stream_write(const stream_step_t *step, CUdeviceptr address, uint64_t value);
blink_result_t stream_wait(const stream_step_t *step, CUdeviceptr address, uint64_t least);

#endif
