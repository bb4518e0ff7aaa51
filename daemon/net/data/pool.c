#include "net/data/pool.h"

#include "base/clock.h"
#include "base/pages.h"

#include <stdlib.h>

/* Sizes go in steps of this. */
#define BLOCK_UNIT_BYTES 4096u

/* What is free beyond this goes back to the system at once, and beyond that time later. */
#define FREE_MOST_BYTES (64u << 20)
#define FREE_MOST_NS    UINT64_C(10000000000)

/* A block is taken for at least half as much as it has, or for what lacks so little. */
#define SPARE_MOST_BYTES (64u << 10)

/* In a free block. */
typedef struct block {
    list_t link;
    uint64_t bytes, since_ns;
} block_t;

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + BLOCK_UNIT_BYTES - 1) / BLOCK_UNIT_BYTES * BLOCK_UNIT_BYTES;
}

void pool_init(pool_t *pool)
{
    list_init(&pool->blocks);
    pool->free_bytes = 0;
}

static void release(pool_t *pool, block_t *block)
{
    list_remove(&block->link);
    pool->free_bytes -= block->bytes;
    pages_give(block, block->bytes);
}

void pool_fini(pool_t *pool)
{
    block_t *block;
    while ((block = LIST_FIRST(&pool->blocks, block_t, link)))
        release(pool, block);
}

/* A free block that suits, the one given back last first: the caches may still have it. */
static block_t *find(pool_t *pool, uint64_t bytes)
{
    for (list_t *link = pool->blocks.previous; link != &pool->blocks; link = link->previous) {
        block_t *block = CONTAINER_OF(link, block_t, link);
        if (block->bytes >= bytes && block->bytes <= 2 * bytes + SPARE_MOST_BYTES)
            return block;
    }
    return NULL;
}

/* The size of a block stands before what is taken of it, in a line of its own. */
#define HEAD_BYTES 128u

static blink_result_t take(void *context, uint64_t bytes, void **memory)
{
    pool_t *pool = context;
    uint64_t whole = round_up(bytes + HEAD_BYTES);
    block_t *block = find(pool, whole);
    if (block) {
        list_remove(&block->link);
        pool->free_bytes -= block->bytes;
    } else {
        block = pages_take(whole);
        if (!block)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %llu bytes of a landing",
                              (unsigned long long)bytes);
        block->bytes = whole;
    }
    *memory = (char *)block + HEAD_BYTES;
    return BLINK_OK;
}

static void give(void *context, void *memory, uint64_t bytes)
{
    pool_t *pool = context;
    block_t *block = (block_t *)((char *)memory - HEAD_BYTES);
    (void)bytes;
    block->since_ns = clock_ns();
    list_append(&pool->blocks, &block->link);
    pool->free_bytes += block->bytes;
    while (pool->free_bytes > FREE_MOST_BYTES)
        release(pool, LIST_FIRST(&pool->blocks, block_t, link));
}

landing_memory_t pool_memory(pool_t *pool)
{
    return (landing_memory_t){.take = take, .give = give, .context = pool};
}

bool pool_trim(pool_t *pool, uint64_t now_ns)
{
    block_t *oldest;
    while ((oldest = LIST_FIRST(&pool->blocks, block_t, link)) && now_ns - oldest->since_ns > FREE_MOST_NS)
        release(pool, oldest);
    return oldest;
}
