/* Copies and fills. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include <string.h>

static bool is_word(const void *address)
{
    return (uintptr_t)address % sizeof(uint64_t) == 0;
}

/* One word arrives as a whole, for a stream may be waiting for it. */
static void copy(const op_t *op)
{
    if (op->copy.bytes == sizeof(uint64_t) && is_word(op->copy.to) && is_word(op->copy.from)) {
        uint64_t word = __atomic_load_n((const uint64_t *)op->copy.from, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint64_t *)op->copy.to, word, __ATOMIC_RELEASE);
        return;
    }
    memmove(op->copy.to, op->copy.from, op->copy.bytes);
}

static void fill(const op_t *op)
{
    memset(op->fill.to, op->fill.byte, op->fill.bytes);
}

static const op_type_t copy_type = {.run = copy};
static const op_type_t fill_type = {.run = fill};

static op_t copy_op(void *to, const void *from, size_t bytes)
{
    return (op_t){.type = &copy_type, .copy = {to, from, bytes}};
}

/* On the default stream, until it is done. */
static CUresult copy_now(void *to, const void *from, size_t bytes)
{
    if (!bytes)
        return CUDA_SUCCESS;
    if (!to || !from)
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(capture_check_unsafe());
    op_t op = copy_op(to, from, bytes);
    return stream_submit_and_await(NULL, &op);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    STANDIN_ENTER(cuMemcpy, CONTEXT);
    return copy_now(memory_pointer(to), memory_pointer(from), bytes);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    STANDIN_ENTER(cuMemcpyHtoD, CONTEXT);
    return memory_is_known(to, bytes) ? copy_now(memory_pointer(to), from, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    STANDIN_ENTER(cuMemcpyDtoH, CONTEXT);
    return memory_is_known(from, bytes) ? copy_now(to, memory_pointer(from), bytes)
                                        : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    STANDIN_ENTER(cuMemcpyAsync, CONTEXT);
    if (bytes && (!to || !from))
        return CUDA_ERROR_INVALID_VALUE;
    op_t op = copy_op(memory_pointer(to), memory_pointer(from), bytes);
    /* The caller may use memory that CUDA does not know as soon as this returns. */
    bool both_are_known = memory_is_known(to, bytes) && memory_is_known(from, bytes);
    if (!both_are_known && !stream_is_captured(handle))
        return stream_submit_and_await(handle, &op);
    return stream_submit(handle, &op);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char byte, size_t bytes)
{
    STANDIN_ENTER(cuMemsetD8, CONTEXT);
    if (!memory_is_known(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(capture_check_unsafe());
    op_t op = {.type = &fill_type, .fill = {memory_pointer(to), bytes, byte}};
    return stream_submit_and_await(NULL, &op);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(cuMemsetD8Async, CONTEXT);
    if (!memory_is_known(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return stream_submit(stream, &(op_t){.type = &fill_type, .fill = {memory_pointer(to), bytes, byte}});
}
