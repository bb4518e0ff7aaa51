/* Words that streams write and wait for. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include <time.h>

enum { SPINS = 200, NAP_NS = 20000, BATCH_MOST = 255 };

/* Acquire, and release below: what was written before a word is seen after it, also by other processes. */
static uint64_t find(const op_t *op)
{
    return op->word.is_short ? __atomic_load_n((const uint32_t *)op->word.at, __ATOMIC_ACQUIRE)
                             : __atomic_load_n((const uint64_t *)op->word.at, __ATOMIC_ACQUIRE);
}

static bool is_met(const op_t *op)
{
    const uint64_t found = find(op), value = op->word.value;
    const uint64_t all = op->word.is_short ? UINT32_MAX : UINT64_MAX;
    switch (op->word.flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(found | value) & all) != 0;
    default: /* GEQ, also where it wraps */
        return op->word.is_short ? (int32_t)(found - value) >= 0 : (int64_t)(found - value) >= 0;
    }
}

static void wait_for_word(const op_t *op)
{
    const struct timespec nap = {0, NAP_NS};
    for (unsigned i = 0; !is_met(op) && standin_health() == CUDA_SUCCESS; i++) {
        if (i >= SPINS)
            nanosleep(&nap, NULL);
    }
}

static void write_word(const op_t *op)
{
    if (op->word.is_short)
        __atomic_store_n((uint32_t *)op->word.at, (uint32_t)op->word.value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)op->word.at, op->word.value, __ATOMIC_RELEASE);
}

static const op_type_t write_type = {.run = write_word};
static const op_type_t wait_type = {.run = wait_for_word};

static CUresult submit(CUstream stream, const op_type_t *type, CUdeviceptr address, uint64_t value,
                       unsigned flags, size_t bytes)
{
    if (address % bytes || !memory_is_known(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const bool is_short = bytes == sizeof(uint32_t);
    return stream_submit(stream,
                         &(op_t){.type = type, .word = {memory_pointer(address), value, flags, is_short}});
}

static CUresult submit_write(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
                             size_t bytes)
{
    if (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_INVALID_VALUE;
    return submit(stream, &write_type, address, value, flags, bytes);
}

static CUresult submit_wait(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
                            size_t bytes)
{
    if (flags > CU_STREAM_WAIT_VALUE_NOR)
        return CUDA_ERROR_INVALID_VALUE; /* there is nothing to flush, and no GPU said that it can */
    return submit(stream, &wait_type, address, value, flags, bytes);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    STANDIN_ENTER(cuStreamWriteValue32, CONTEXT);
    return submit_write(stream, address, value, flags, sizeof(value));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    STANDIN_ENTER(cuStreamWriteValue64, CONTEXT);
    if (standin_settings()->has_short_words)
        return CUDA_ERROR_NOT_SUPPORTED;
    return submit_write(stream, address, value, flags, sizeof(value));
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    STANDIN_ENTER(cuStreamWaitValue32, CONTEXT);
    return submit_wait(stream, address, value, flags, sizeof(value));
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    STANDIN_ENTER(cuStreamWaitValue64, CONTEXT);
    if (standin_settings()->has_short_words)
        return CUDA_ERROR_NOT_SUPPORTED;
    return submit_wait(stream, address, value, flags, sizeof(value));
}

static bool is_long(const CUstreamBatchMemOpParams *asked)
{
    return asked->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ||
           asked->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static CUresult submit_operation(CUstream stream, const CUstreamBatchMemOpParams *asked)
{
    const bool is_short = !is_long(asked);
    const size_t bytes = is_short ? sizeof(uint32_t) : sizeof(uint64_t);
    switch (asked->operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return submit_write(stream, asked->writeValue.address,
                            is_short ? asked->writeValue.value : asked->writeValue.value64,
                            asked->writeValue.flags, bytes);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return submit_wait(stream, asked->waitValue.address,
                           is_short ? asked->waitValue.value : asked->waitValue.value64,
                           asked->waitValue.flags, bytes);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
                            unsigned int flags)
{
    STANDIN_ENTER(cuStreamBatchMemOp, CONTEXT);
    if (count == 0 || count > BATCH_MOST || !operations || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (standin_settings()->has_short_words && is_long(&operations[i]))
            return CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; i < count; i++)
        STANDIN_TRY(submit_operation(stream, &operations[i]));
    return CUDA_SUCCESS;
}
