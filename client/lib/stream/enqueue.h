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

/** Have the stream do the same by several operations, one after the other: in a graph they are one node. */
CUstreamBatchMemOpParams stream_to_write(CUdeviceptr address, uint64_t value);
CUstreamBatchMemOpParams stream_to_wait(CUdeviceptr address, uint64_t least);
blink_result_t stream_batch(const stream_step_t *step, CUstreamBatchMemOpParams *operations, uint32_t count);

#endif
