/* Words that streams write and wait for. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include <time.h>

enum { SPINS = 200, NAP_NS = 20000 };

static bool is_met(const op_t *op)
{
    /* Acquire, and release below: what was written before a word is seen after it, also by other processes.
     */
    uint64_t found = __atomic_load_n(op->word.at, __ATOMIC_ACQUIRE);
    switch (op->word.flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == op->word.value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & op->word.value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return ~(found | op->word.value) != 0;
    default:
        return (int64_t)(found - op->word.value) >= 0; /* GEQ, also where it wraps */
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
    __atomic_store_n(op->word.at, op->word.value, __ATOMIC_RELEASE);
}

static const op_type_t write_type = {.run = write_word};
static const op_type_t wait_type = {.run = wait_for_word};

static CUresult submit(CUstream stream, const op_type_t *type, CUdeviceptr address, uint64_t value,
                       unsigned flags)
{
    if (address % sizeof(uint64_t) || !memory_is_known(address, sizeof(uint64_t)))
        return CUDA_ERROR_INVALID_VALUE;
    return stream_submit(stream, &(op_t){.type = type, .word = {memory_pointer(address), value, flags}});
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    STANDIN_ENTER(cuStreamWriteValue64, CONTEXT);
    if (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_INVALID_VALUE;
    return submit(stream, &write_type, address, value, flags);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    STANDIN_ENTER(cuStreamWaitValue64, CONTEXT);
    if (flags > CU_STREAM_WAIT_VALUE_NOR)
        return CUDA_ERROR_INVALID_VALUE; /* there is nothing to flush, and no GPU said that it can */
    return submit(stream, &wait_type, address, value, flags);
}
