/*
 * A third platform for the interpreter of lanes, in the place of kernels/platform.cuh: blocks of two threads
 * that are one warp, and the memory of views.h. It does what the platform of GPUs does, operation by
 * operation; lines of LL128 are shorter.
 */
#ifndef BLINK_KERNELS_PLATFORM_CUH
#define BLINK_KERNELS_PLATFORM_CUH

#include "lane_abi.h"
#include "views.h"

#include <stdlib.h>

typedef struct vector_t {
    uint64_t low, high;
} vector_t;

#define LINE_BYTES      (8u * VIEWS_LINE_WORDS)
#define LINE_DATA_BYTES (LINE_BYTES - 8u)
#define LINE_WORDS      (LINE_BYTES / 8u / LINE_THREADS)

#define LANE_FUNCTION static inline
#define LANE_MEMBER   inline
#define LANE_SHARED   static /* views.c puts each block's in its place */
#define LANE_UNROLL
#define LANE_ROLL

#define BLOCK_THREADS 2u
#define WARP_THREADS  2u
#define LINE_THREADS  2u

/* So little is shared in a block that it can be a part of each state. */
#undef LANE_ABI_OPERANDS_MAX
#define LANE_ABI_OPERANDS_MAX 3u

/* A look at the abort word follows every second look in vain; views_pause() relies on that. */
#define POLLS_FIRST 1u
#define POLLS_MOST  2u

typedef struct line_part_t {
    uint64_t words[LINE_WORDS];
} line_part_t;

/* The flag that says that what this step waits for has arrived. */
static uint64_t awaited_epoch(void);

LANE_FUNCTION uint32_t thread_index(void)
{
    return views_thread();
}

LANE_FUNCTION void block_barrier(void)
{
    views_meet("block", false);
}

LANE_FUNCTION bool block_any(bool mine)
{
    return views_meet("block vote", mine);
}

LANE_FUNCTION bool warp_any(bool mine)
{
    return views_meet("warp vote", mine);
}

LANE_FUNCTION void warp_barrier(void)
{
    views_meet("warp", false);
}

LANE_FUNCTION uint64_t clock_ns(void)
{
    return 1;
}

LANE_FUNCTION void poll_pause(bool waits_long)
{
    views_pause(!waits_long);
}

LANE_FUNCTION uint64_t load_acquire(uint64_t address)
{
    return views_load_acquire(address);
}

LANE_FUNCTION void store_release(uint64_t address, uint64_t value)
{
    views_store_release(address, value);
}

LANE_FUNCTION uint32_t load_flag(const uint32_t *flag)
{
    return (uint32_t)views_load((uint64_t)flag);
}

LANE_FUNCTION void store_flag(uint32_t *flag, uint32_t value)
{
    views_store((uint64_t)flag, value);
}

/* atomicInc() begins anew at `count`; here each scenario ends with one launch. */
LANE_FUNCTION bool count_down(uint32_t *counter, uint32_t count)
{
    return views_count((uint64_t)counter) == count - 1;
}

LANE_FUNCTION vector_t load_vector(uint64_t address)
{
    return vector_t{views_load_weak(address), views_load_weak(address + 8)};
}

LANE_FUNCTION void store_vector(uint64_t address, vector_t value)
{
    views_store_weak(address, value.low);
    views_store_weak(address + 8, value.high);
}

/* Each rank's place, by the address of all of them. The scenarios have places of 8 bytes. */
template <class unit_t> LANE_FUNCTION unit_t load_place(uint64_t)
{
    abort();
}

template <> uint64_t load_place<uint64_t>(uint64_t address)
{
    return views_load_alias(address);
}

template <class unit_t> LANE_FUNCTION void store_place(uint64_t, unit_t)
{
    abort();
}

LANE_FUNCTION void store_place(uint64_t address, uint64_t unit)
{
    views_store_alias(address, unit);
}

LANE_FUNCTION void fence_aliases(void)
{
    views_fence_aliases();
}

LANE_FUNCTION uint64_t load_word(uint64_t address, uint32_t bytes)
{
    if (address % 8 != 0 || (bytes != 0 && bytes != 8))
        abort(); /* the scenarios have whole words */
    return bytes == 0 ? 0 : views_load_weak(address);
}

/* Two accesses: nobody promises that they are one. */
LANE_FUNCTION vector_t load_flagged(uint64_t address)
{
    vector_t value = {views_load(address), views_load(address + 8)};
    uint32_t epoch = (uint32_t)awaited_epoch();
    if (value.low >> 32 == epoch && value.high >> 32 == epoch) {
        views_use(address);
        views_use(address + 8);
    }
    return value;
}

LANE_FUNCTION void store_flagged(uint64_t address, vector_t value)
{
    views_store(address, value.low);
    views_store(address + 8, value.high);
}

LANE_FUNCTION line_part_t load_line(uint64_t address)
{
    line_part_t part;
    uint64_t share = thread_index() % LINE_THREADS, bytes = sizeof(part.words);
    views_load_line(address - share * bytes, (uint32_t)share, part.words, awaited_epoch());
    return part;
}

LANE_FUNCTION void store_line(uint64_t address, const line_part_t &part)
{
    uint64_t share = thread_index() % LINE_THREADS, bytes = sizeof(part.words);
    views_store_line(address - share * bytes, (uint32_t)share, part.words);
}

#endif
