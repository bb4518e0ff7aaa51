/* Collectives in the order of streams. */
#include "gpu_scenarios.h"

#include <unistd.h>

/* Each op takes the result of the one before; nobody waits in between. */
void play_stream(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT), b = device_memory(p, COUNT);
    int32_t expected = p->rank_count;
    device_fill(p, a, COUNT, p->rank);
    must(p, blink_all_reduce_on(as_pointer(a), as_pointer(b), COUNT, BLINK_INT32, BLINK_SUM, comm, stream),
         "first");
    for (int round = 0; round < 6; round++, expected *= p->rank_count) {
        cuda_must(p, cu->cuMemcpyAsync(a, b, COUNT * sizeof(int32_t), stream), "copy");
        must(p,
             blink_all_reduce_on(as_pointer(a), as_pointer(b), COUNT, BLINK_INT32, BLINK_SUM, comm, stream),
             "all_reduce_on");
    }
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    device_must_hold(p, b, COUNT, sum_of_ranks(p) * expected / p->rank_count, expected, "stream");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* Two communicators on two streams, and one of them on both. */
void play_two_streams(const player_t *p)
{
    blink_comm_t *comm = begin(p), *other = NULL;
    CUstream first = stream_of(p), second = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT), b = device_memory(p, COUNT), c = device_memory(p, COUNT);
    must(p, blink_comm_duplicate(comm, &other), "duplicate");
    device_fill(p, a, COUNT, p->rank);
    device_fill(p, b, COUNT, 10 * p->rank);
    device_fill(p, c, COUNT, p->rank == 1 ? 77 : 0);
    for (int round = 0; round < 20; round++) {
        must(p, blink_all_reduce_on(as_pointer(a), as_pointer(a), COUNT, BLINK_INT32, BLINK_MAX, comm, first),
             "a");
        must(p,
             blink_all_reduce_on(as_pointer(b), as_pointer(b), COUNT, BLINK_INT32, BLINK_MAX, other, second),
             "b");
        must(p, blink_broadcast_on(as_pointer(c), as_pointer(c), COUNT, BLINK_INT32, 1, comm, second), "c");
    }
    cuda_must(p, cu->cuStreamSynchronize(first), "synchronize");
    cuda_must(p, cu->cuStreamSynchronize(second), "synchronize");
    device_must_hold(p, a, COUNT, p->rank_count - 1, 1, "first stream");
    device_must_hold(p, b, COUNT, 10 * (p->rank_count - 1), 1, "second stream");
    device_must_hold(p, c, COUNT, 77, 1, "both");
    must(p, blink_comm_destroy(other), "destroy");
    must(p, blink_comm_destroy(comm), "destroy");
}

void play_stream_group(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    size_t ranks = (size_t)p->rank_count;
    CUstream first = stream_of(p), second = stream_of(p);
    CUdeviceptr send = device_memory(p, ranks * COUNT), recv = device_memory(p, ranks * COUNT);
    device_fill(p, send, ranks * COUNT, 1000000 * p->rank);
    for (int round = 0; round < 5; round++) {
        must(p, blink_group_start(), "group_start");
        for (size_t peer = 0; peer < ranks; peer++) {
            size_t at = peer * COUNT * sizeof(int32_t);
            must(p, blink_send_on(as_pointer(send + at), COUNT, BLINK_INT32, (int)peer, comm, first), "send");
            must(p, blink_recv_on(as_pointer(recv + at), COUNT, BLINK_INT32, (int)peer, comm, second),
                 "recv");
        }
        must(p, blink_group_end(NULL), "group_end");
    }
    cuda_must(p, cu->cuStreamSynchronize(second), "synchronize");
    for (size_t peer = 0; peer < ranks; peer++)
        device_must_hold(p, recv + peer * COUNT * sizeof(int32_t), COUNT,
                         1000000 * (int32_t)peer + p->rank * (int32_t)COUNT, 1, "exchanged");
    cuda_must(p, cu->cuStreamSynchronize(first), "synchronize");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* Memory that has to be staged, in the order of a stream. */
void play_staged_stream(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr closed = pool_memory(p, CU_MEM_HANDLE_TYPE_NONE, LARGE), recv = device_memory(p, LARGE);
    device_fill(p, closed, LARGE, p->rank);
    for (int round = 0; round < 3; round++)
        must(p,
             blink_all_reduce_on(as_pointer(closed), as_pointer(recv), LARGE, BLINK_INT32, BLINK_SUM, comm,
                                 stream),
             "all_reduce_on");
    must(p,
         blink_all_reduce_on(as_pointer(recv), as_pointer(closed), LARGE, BLINK_INT32, BLINK_MAX, comm,
                             stream),
         "back");
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    device_must_hold(p, closed, LARGE, sum_of_ranks(p), p->rank_count, "staged on a stream");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* A rank that comes late holds the others' streams up, not their hosts. */
void play_late(const player_t *p)
{
    blink_comm_t *comm = begin(p), *other = NULL;
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT);
    uint64_t *word = NULL;
    CUdeviceptr gate;
    blink_op_t *op;
    must(p, blink_comm_duplicate(comm, &other), "duplicate");
    cuda_must(p, cu->cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP),
              "cuMemHostAlloc");
    cuda_must(p, cu->cuMemHostGetDevicePointer(&gate, word, 0), "cuMemHostGetDevicePointer");
    *word = 0;
    device_fill(p, a, COUNT, p->rank);
    if (p->rank == 0)
        cuda_must(p, cu->cuStreamWaitValue64(stream, gate, 1, CU_STREAM_WAIT_VALUE_GEQ), "wait");
    must(p, blink_all_reduce_on(as_pointer(a), as_pointer(a), COUNT, BLINK_INT32, BLINK_SUM, comm, stream),
         "late");
    usleep(200000);
    if (cu->cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
        fail(p, "the stream went on without rank 0");
    must(p, blink_barrier(other, &op), "barrier");
    must_wait(p, op, "barrier"); /* all have looked */
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    device_must_hold(p, a, COUNT, sum_of_ranks(p), p->rank_count, "late");
    must(p, blink_comm_destroy(other), "destroy");
    must(p, blink_comm_destroy(comm), "destroy");
}
