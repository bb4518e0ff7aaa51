#include "net/data/pool.h"

#include "base/clock.h"

#include <stdlib.h>

/* Sizes go in steps of this. */
#define BLOCK_UNIT_BYTES 4096u

/* What has been free for longer goes back to the system. */
#define FREE_MOST_NS UINT64_C(10000000000)

/* A block is taken for at least half as much as it has, or for what lacks so little. */
#define SPARE_MOST_BYTES (64u << 10)

/* Before what is taken of a block, in lines of its own. */
typedef struct block {
    pool_t *pool;
    list_t link; /* of a free block */
    uint64_t bytes, since_ns;
    void *shown; /* NULL: it is not */
    data_keys_t keys;
    twin_t twin;
} block_t;

#define HEAD_BYTES 256u

static_assert(sizeof(block_t) <= HEAD_BYTES, "a head has room");

static block_t *block_of(void *memory)
{
    return (block_t *)((char *)memory - HEAD_BYTES);
}

static void *memory_of(block_t *block)
{
    return (char *)block + HEAD_BYTES;
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + BLOCK_UNIT_BYTES - 1) / BLOCK_UNIT_BYTES * BLOCK_UNIT_BYTES;
}

void pool_init(pool_t *pool, uint64_t free_most_bytes, pages_source_t pages, const pool_showing_t *showing)
{
    *pool = (pool_t){.free_most_bytes = free_most_bytes, .pages = pages};
    list_init(&pool->blocks);
    if (showing)
        pool->showing = *showing;
}

static void hide(block_t *block)
{
    if (block->shown)
        block->pool->showing.hide(block->shown);
    block->shown = NULL;
}

static void release(pool_t *pool, block_t *block)
{
    list_remove(&block->link);
    pool->free_bytes -= block->bytes;
    hide(block);
    twin_end(&block->twin);
    pool->pages.give(pool->pages.context, block, block->bytes);
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

blink_result_t pool_take(pool_t *pool, uint64_t bytes, void **memory)
{
    uint64_t whole = round_up(bytes + HEAD_BYTES);
    block_t *block = find(pool, whole);
    if (block) {
        list_remove(&block->link);
        pool->free_bytes -= block->bytes;
    } else {
        block = pool->pages.take(pool->pages.context, whole);
        if (!block)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %llu bytes of a landing",
                              (unsigned long long)bytes);
        *block = (block_t){.pool = pool, .bytes = whole};
    }
    *memory = memory_of(block);
    return BLINK_OK;
}

void pool_give(void *memory)
{
    block_t *block = block_of(memory);
    pool_t *pool = block->pool;
    block->since_ns = clock_ns();
    list_append(&pool->blocks, &block->link);
    pool->free_bytes += block->bytes;
    while (pool->free_bytes > pool->free_most_bytes)
        release(pool, LIST_FIRST(&pool->blocks, block_t, link));
}

bool pool_show(void *memory, data_keys_t *keys)
{
    block_t *block = block_of(memory);
    const pool_showing_t *showing = &block->pool->showing;
    if (block->shown && !showing->shows(block->shown))
        hide(block);
    if (!block->shown && showing->show)
        block->shown = showing->show(showing->context, memory, block->bytes - HEAD_BYTES, &block->keys);
    if (block->shown)
        *keys = block->keys;
    return block->shown;
}

const twin_t *pool_twin(void *memory, device_memory_t *device, transport_t *transport)
{
    block_t *block = block_of(memory);
    if (twin_is_in(&block->twin, device))
        return &block->twin;
    twin_end(&block->twin);
    return twin_make(&block->twin, device, block->bytes - HEAD_BYTES, transport) ? &block->twin : NULL;
}

void pool_trim(pool_t *pool, uint64_t now_ns)
{
    block_t *oldest;
    while ((oldest = LIST_FIRST(&pool->blocks, block_t, link)) && now_ns - oldest->since_ns > FREE_MOST_NS)
        release(pool, oldest);
}
