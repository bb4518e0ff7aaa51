/* How applications free GPU memory that the daemon has open: with a word or without. */
#include "gpu_scenarios.h"

#include "limit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define MEBIBYTE ((size_t)1 << 20)

enum { RELEASERS = 4 };

/* A word before each free. */
void play_released(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    for (int round = 0; round < 5; round++) {
        CUdeviceptr a = device_memory(p, COUNT);
        reduce_and_check(p, comm, a, a, COUNT, "all_reduce");
        must(p, blink_mem_release(p->context, as_pointer(a + 100)), "release");
        reduce_and_check(p, comm, a, a, COUNT, "after a release");
        must(p, blink_mem_release(p->context, as_pointer(a)), "release");
        cuda_must(p, cu->cuMemFree(a), "cuMemFree");
    }
    must(p, blink_comm_destroy(comm), "destroy");
}

typedef struct release {
    const player_t *player;
    CUdeviceptr address;
    _Atomic uint32_t *done;
} release_t;

static void *release(void *argument)
{
    const release_t *own = argument;
    must(own->player, blink_mem_release(own->player->context, as_pointer(own->address)), "release");
    atomic_fetch_add(own->done, 1);
    return NULL;
}

/* Several threads say the word at once, and the memory is freed as soon as one of them may go on. */
void play_released_by_several(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    for (int round = 0; round < 5; round++) {
        CUdeviceptr a = device_memory(p, COUNT);
        _Atomic uint32_t done = 0;
        release_t own = {p, a, &done};
        pthread_t threads[RELEASERS];
        reduce_and_check(p, comm, a, a, COUNT, "all_reduce");
        for (int i = 0; i < RELEASERS; i++)
            pthread_create(&threads[i], NULL, release, &own);
        while (atomic_load(&done) == 0)
            sched_yield();
        cuda_must(p, cu->cuMemFree(a), "cuMemFree");
        for (int i = 0; i < RELEASERS; i++)
            pthread_join(threads[i], NULL);
    }
    must(p, blink_comm_destroy(comm), "destroy");
}

#define BYTES (COUNT * sizeof(int32_t))

static CUdeviceptr beside_in_pool(const player_t *p, CUdeviceptr memory)
{
    CUmemoryPool pool;
    CUdeviceptr beside;
    cuda_must(p, cu->cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory),
              "cuPointerGetAttribute");
    cuda_must(p, cu->cuMemAllocFromPoolAsync(&beside, BYTES, pool, NULL), "cuMemAllocFromPoolAsync");
    cuda_must(p, cu->cuStreamSynchronize(NULL), "cuStreamSynchronize");
    return beside;
}

/* Memory of a pool, some of it staged, some in place; what is left is freed after the end of the context. */
void play_pools_promised(const player_t *player)
{
    player_t own = *player;
    const player_t *p = &own;
    const CUmemAllocationHandleType shared = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    must(p, blink_open(NULL, &own.context), "open");
    blink_comm_t *comm = begin(p);
    CUdeviceptr staged = pool_memory(p, shared, COUNT), other = device_memory(p, COUNT);
    reduce_and_check(p, comm, staged, staged, COUNT, "without a promise");
    cuda_must(p, cu->cuMemFreeAsync(staged, NULL), "cuMemFreeAsync");
    reduce_and_check(p, comm, other, other, COUNT, "which looks for what was freed");
    must(p, blink_mem_promise_release(p->context), "promise");
    for (int round = 0; round < 5; round++) {
        CUdeviceptr a = pool_memory(p, shared, COUNT);
        reduce_and_check(p, comm, a, a, COUNT, "in place");
        must(p, blink_mem_release(p->context, as_pointer(a)), "release");
        cuda_must(p, cu->cuMemFreeAsync(a, NULL), "cuMemFreeAsync");
    }
    CUdeviceptr last = pool_memory(p, shared, COUNT), beside = beside_in_pool(p, last);
    must(p, blink_mem_prepare(p->context, as_pointer(last), BYTES), "prepare");
    must(p, blink_mem_prepare(p->context, as_pointer(beside), BYTES), "prepare what is in its pool, too");
    reduce_and_check(p, comm, last, beside, COUNT, "the last");
    blink_close(p->context);
    cuda_must(p, cu->cuMemFreeAsync(last, NULL), "cuMemFreeAsync");
    cuda_must(p, cu->cuMemFreeAsync(beside, NULL), "cuMemFreeAsync");
    cuda_must(p, cu->cuStreamSynchronize(NULL), "synchronize");
    cuda_must(p, cu->cuMemFree(other), "cuMemFree");
}

/* Nothing is called after the free; the memory comes back all the same. */
void play_freed_without_a_word(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    size_t free_bytes = 0, before, total;
    CUdeviceptr a = device_memory(p, 8 * MEBIBYTE);
    reduce_and_check(p, comm, a, a, COUNT, "all_reduce");
    cuda_must(p, cu->cuMemGetInfo(&before, &total), "cuMemGetInfo");
    cuda_must(p, cu->cuMemFree(a), "cuMemFree");
    for (unsigned i = 0; i < limit_ms() / 10 && free_bytes <= before; i++, usleep(10000))
        cuda_must(p, cu->cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo");
    if (free_bytes <= before)
        fail(p, "%zu bytes are free, as were before the free", free_bytes);
    must(p, blink_comm_destroy(comm), "destroy");
}

/* Of 64 MiB 40 are freed and allocated again; who is out of memory has what was freed given back. */
void play_out_of_memory(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    for (int round = 0; round < 3; round++) {
        CUdeviceptr a = 0;
        CUresult result = cu->cuMemAlloc(&a, 40 * MEBIBYTE);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            must(p, blink_mem_release(p->context, NULL), "release");
            result = cu->cuMemAlloc(&a, 40 * MEBIBYTE);
        }
        cuda_must(p, result, "cuMemAlloc");
        reduce_and_check(p, comm, a, a, COUNT, "all_reduce");
        cuda_must(p, cu->cuMemFree(a), "cuMemFree");
    }
    must(p, blink_comm_destroy(comm), "destroy");
}
