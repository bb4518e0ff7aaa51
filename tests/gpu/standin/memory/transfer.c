/* Copies and fills. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include <string.h>

#define BYTES_OF_WORD 0x01010101u /* times a byte: four of it */

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
    const uint32_t value = op->fill.value;
    if (value == (value & 0xff) * BYTES_OF_WORD) {
        memset(op->fill.to, (int)(value & 0xff), op->fill.bytes);
        return;
    }
    for (size_t i = 0; i < op->fill.bytes / sizeof(value); i++)
        ((uint32_t *)op->fill.to)[i] = value;
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

/* Copies whose names say which ends are on GPUs. */
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return cuMemcpyAsync(to, from, bytes, stream);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, bytes, stream);
}

static CUresult fill_now(CUdeviceptr to, uint32_t value, size_t bytes)
{
    if (!memory_is_known(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(capture_check_unsafe());
    op_t op = {.type = &fill_type, .fill = {memory_pointer(to), bytes, value}};
    return stream_submit_and_await(NULL, &op);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char byte, size_t bytes)
{
    STANDIN_ENTER(cuMemsetD8, CONTEXT);
    return fill_now(to, byte * BYTES_OF_WORD, bytes);
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned int value, size_t count)
{
    STANDIN_ENTER(cuMemsetD32, CONTEXT);
    return to % sizeof(value) ? CUDA_ERROR_INVALID_VALUE : fill_now(to, value, count * sizeof(value));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(cuMemsetD8Async, CONTEXT);
    if (!memory_is_known(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return stream_submit(
        stream, &(op_t){.type = &fill_type, .fill = {memory_pointer(to), bytes, byte * BYTES_OF_WORD}});
}
