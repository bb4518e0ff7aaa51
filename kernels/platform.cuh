/*
 * What differs between a GPU and the host, where the interpreter runs with blocks of one thread for tests:
 * barriers, votes, clock, and the accesses that others than this block may see. Everything else is written
 * once, on top of these.
 *
 * Order, on both. Whoever sees the value of a store_release() with load_acquire() sees everything that the
 * storing thread did before the store, and everything that any thread of its block did before their last
 * barrier; so do all threads of the loading block after their next barrier. The scope is the system: other
 * GPUs and processors.
 */
#ifndef BLINK_KERNELS_PLATFORM_CUH
#define BLINK_KERNELS_PLATFORM_CUH

#include "lane_abi.h"

/* 16 bytes. */
typedef struct vector_t {
    uint64_t low, high;
} vector_t;

/* A line of LL128, and what of it a thread moves: the last word of the last part is the flag. */
#define LINE_BYTES      128u
#define LINE_DATA_BYTES 120u
#define LINE_WORDS      (LINE_BYTES / 8u / LINE_THREADS)

#if defined(__CUDACC__)

#define LANE_FUNCTION static __device__ __forceinline__
#define LANE_MEMBER   __device__ __forceinline__
#define LANE_SHARED   static __shared__
#define LANE_UNROLL   _Pragma("unroll")
#define LANE_ROLL     _Pragma("unroll 1")

#define BLOCK_THREADS LANE_ABI_THREADS
#define WARP_THREADS  32u
#define LINE_THREADS  8u /* that move a line of LL128 together */

typedef struct line_part_t {
    uint64_t words[LINE_WORDS];
} line_part_t;

/* Read anew wherever it is asked for: what is computed from it would otherwise be computed before all loops,
 * for each of the ways in which a step may be moved, and fill the registers. */
LANE_FUNCTION uint32_t thread_index(void)
{
    uint32_t index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

/* All threads wait for each other. */
LANE_FUNCTION void block_barrier(void)
{
    __syncthreads();
}

/* All threads wait for each other, and learn whether `mine` is true in any of them. */
LANE_FUNCTION bool block_any(bool mine)
{
    return __syncthreads_or(mine) != 0;
}

LANE_FUNCTION bool warp_any(bool mine)
{
    return __any_sync(0xffffffffu, mine) != 0;
}

/* From here the threads of a warp issue what they store as one instruction. */
LANE_FUNCTION void warp_barrier(void)
{
    __syncwarp();
}

LANE_FUNCTION uint64_t clock_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Polls before the first look at the clock and at the host's memory, and between two of them in the end: from
 * tens of microseconds to a few milliseconds. All warps of the GPU may be waiting, and each look crosses the
 * bus. */
#define POLLS_FIRST 64u
#define POLLS_MOST  4096u

/* Between two looks at what has not arrived yet. A thread that slept would find it later. */
LANE_FUNCTION void poll_pause(bool waits_long)
{
    (void)waits_long;
}

/* Before Volta there are no acquire and release: a fence beside a volatile access, which caches of the
 * multiprocessor do not answer, does the same. */
LANE_FUNCTION uint64_t load_acquire(uint64_t address)
{
    uint64_t value;
#if __CUDA_ARCH__ >= 700
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
#else
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    __threadfence_system();
#endif
    return value;
}

LANE_FUNCTION void store_release(uint64_t address, uint64_t value)
{
#if __CUDA_ARCH__ >= 700
    asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
#else
    __threadfence_system();
    asm volatile("st.volatile.global.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
#endif
}

/* A word that the host shares and that orders nothing. */
LANE_FUNCTION uint32_t load_flag(const uint32_t *flag)
{
    return *(const volatile uint32_t *)flag;
}

LANE_FUNCTION void store_flag(uint32_t *flag, uint32_t value)
{
    *(volatile uint32_t *)flag = value;
}

/* One of `count` blocks ends: true for the last, after which the counter is 0 again. All that any block did
 * is done before what the last one does then: a fence and an atomic operation on either side. */
LANE_FUNCTION bool count_down(uint32_t *counter, uint32_t count)
{
    __threadfence_system();
    bool last = atomicInc(counter, count - 1) == count - 1;
    __threadfence_system();
    return last;
}

/*
 * Payload and slots. Loads are volatile: other multiprocessors and GPUs write while the kernel runs, the
 * first-level cache must not answer, and the compiler may neither repeat nor reorder them. So are stores to
 * slots with flags; others are made visible by what announces them. Words of 8 bytes are single accesses;
 * that the 128 bytes which the threads of a warp access at once stay whole is more than CUDA promises, and
 * LL128, which needs it, is used only where the planner knows that links and GPUs keep it.
 */
LANE_FUNCTION vector_t load_vector(uint64_t address)
{
    vector_t value;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(value.low), "=l"(value.high)
                 : "l"(address));
    return value;
}

LANE_FUNCTION void store_vector(uint64_t address, vector_t value)
{
    asm volatile("st.global.v2.u64 [%0], {%1, %2};" : : "l"(address), "l"(value.low), "l"(value.high));
}

/* Up to 8 bytes that lie anywhere, into the lower end of a word: out of the one or two aligned words that
 * hold them. Memory is there to the end of a word wherever it is to its beginning. */
LANE_FUNCTION uint64_t load_word(uint64_t address, uint32_t bytes)
{
    const volatile uint64_t *words = (const volatile uint64_t *)(address & ~UINT64_C(7));
    uint32_t before = (uint32_t)address & 7;
    uint64_t word = bytes > 0 ? words[0] : 0;
    if (before == 0)
        return word;
    uint64_t rest = before + bytes > 8 ? words[1] : 0;
    return word >> (8 * before) | rest << (64 - 8 * before);
}

LANE_FUNCTION vector_t load_flagged(uint64_t address)
{
    return load_vector(address);
}

LANE_FUNCTION void store_flagged(uint64_t address, vector_t value)
{
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"(address), "l"(value.low), "l"(value.high));
}

LANE_FUNCTION line_part_t load_line(uint64_t address)
{
    vector_t value = load_vector(address);
    return line_part_t{{value.low, value.high}};
}

LANE_FUNCTION void store_line(uint64_t address, const line_part_t &part)
{
    store_flagged(address, vector_t{part.words[0], part.words[1]});
}

/* Between accesses of one place by two addresses: a full fence of the system. Where there are no switches
 * nothing comes here. */
LANE_FUNCTION void fence_aliases(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.alias;" : : : "memory");
#endif
}

#else

#include <sched.h>
#include <string.h>
#include <time.h>

#define LANE_FUNCTION static inline
#define LANE_MEMBER   inline
#define LANE_SHARED   static thread_local /* a block is a thread */
#define LANE_UNROLL
#define LANE_ROLL

#define BLOCK_THREADS 1u
#define WARP_THREADS  1u
#define LINE_THREADS  1u

typedef struct line_part_t {
    uint64_t words[LINE_WORDS];
} line_part_t;

LANE_FUNCTION uint32_t thread_index(void)
{
    return 0;
}

LANE_FUNCTION void block_barrier(void) {}

LANE_FUNCTION bool block_any(bool mine)
{
    return mine;
}

LANE_FUNCTION bool warp_any(bool mine)
{
    return mine;
}

LANE_FUNCTION void warp_barrier(void) {}

LANE_FUNCTION uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* As above, but where cores are crowded a poll lasts until all others have had their turn: a lane that is to
 * leave would keep its place for seconds. The last ones last tens of milliseconds. */
#define POLLS_FIRST 1u
#define POLLS_MOST  256u

/* There are more blocks than processors. Blocks that only yielded would in a long wait leave no time to
 * anybody but each other: some kernels let threads that yield starve the rest of the machine. */
LANE_FUNCTION void poll_pause(bool waits_long)
{
    const struct timespec nap = {0, 100000};
    if (waits_long)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

LANE_FUNCTION uint64_t load_acquire(uint64_t address)
{
    return __atomic_load_n((const uint64_t *)address, __ATOMIC_ACQUIRE);
}

LANE_FUNCTION void store_release(uint64_t address, uint64_t value)
{
    __atomic_store_n((uint64_t *)address, value, __ATOMIC_RELEASE);
}

LANE_FUNCTION uint32_t load_flag(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

LANE_FUNCTION void store_flag(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELAXED);
}

LANE_FUNCTION bool count_down(uint32_t *counter, uint32_t count)
{
    if (__atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL) != count - 1)
        return false;
    __atomic_store_n(counter, 0, __ATOMIC_RELAXED);
    return true;
}

LANE_FUNCTION vector_t load_vector(uint64_t address)
{
    return *(const vector_t *)address;
}

LANE_FUNCTION void store_vector(uint64_t address, vector_t value)
{
    *(vector_t *)address = value;
}

LANE_FUNCTION uint64_t load_word(uint64_t address, uint32_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, (const void *)address, bytes);
    return word;
}

/* Two words of LL. Acquire and release although data and flag are one access: whoever sees a store may
 * overwrite, in place, what the storing thread read before it. */
LANE_FUNCTION vector_t load_flagged(uint64_t address)
{
    return vector_t{load_acquire(address), load_acquire(address + 8)};
}

LANE_FUNCTION void store_flagged(uint64_t address, vector_t value)
{
    store_release(address, value.low);
    store_release(address + 8, value.high);
}

/* A whole line: the flag is read first and written last. */
LANE_FUNCTION line_part_t load_line(uint64_t address)
{
    line_part_t part;
    part.words[LINE_WORDS - 1] = load_acquire(address + LINE_DATA_BYTES);
    for (uint32_t i = 0; i < LINE_WORDS - 1; i++)
        part.words[i] = __atomic_load_n((const uint64_t *)(address + 8 * i), __ATOMIC_RELAXED);
    return part;
}

LANE_FUNCTION void store_line(uint64_t address, const line_part_t &part)
{
    for (uint32_t i = 0; i < LINE_WORDS - 1; i++)
        __atomic_store_n((uint64_t *)(address + 8 * i), part.words[i], __ATOMIC_RELAXED);
    store_release(address + LINE_DATA_BYTES, part.words[LINE_WORDS - 1]);
}

/* One of the places that a switch reaches at once. */
template <class unit_t> LANE_FUNCTION unit_t load_place(uint64_t address)
{
    return *(const unit_t *)address;
}

template <class unit_t> LANE_FUNCTION void store_place(uint64_t address, unit_t unit)
{
    *(unit_t *)address = unit;
}

LANE_FUNCTION void fence_aliases(void) {}

#endif

#endif
