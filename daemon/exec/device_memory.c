#include "exec/device_memory.h"

#include "base/gpu_arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE_BYTES UINT64_C(4096)

struct device_memory {
    int dma_buf;
    uint64_t address;
    pthread_mutex_t mutex; /* of what follows */
    gpu_arena_t arena;
    uint32_t holders;
};

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

blink_result_t device_memory_create(int dma_buf, uint64_t address, uint64_t bytes, device_memory_t **created)
{
    device_memory_t *memory = calloc(1, sizeof(*memory));
    if (!memory || gpu_arena_init(&memory->arena, NULL, bytes) != BLINK_OK) {
        free(memory);
        close(dma_buf);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what the network writes to GPUs");
    }
    memory->dma_buf = dma_buf;
    memory->address = address;
    memory->holders = 1;
    pthread_mutex_init(&memory->mutex, NULL);
    *created = memory;
    return BLINK_OK;
}

/* Unlocks. */
static void let_go(device_memory_t *memory)
{
    bool is_last = --memory->holders == 0;
    pthread_mutex_unlock(&memory->mutex);
    if (!is_last)
        return;
    gpu_arena_fini(&memory->arena);
    pthread_mutex_destroy(&memory->mutex);
    close(memory->dma_buf);
    free(memory);
}

void device_memory_put(device_memory_t *memory)
{
    if (!memory)
        return;
    pthread_mutex_lock(&memory->mutex);
    let_go(memory);
}

bool device_memory_take(device_memory_t *memory, uint64_t bytes, uint64_t *offset)
{
    pthread_mutex_lock(&memory->mutex);
    bool taken = gpu_arena_take(&memory->arena, whole_pages(bytes), offset) == BLINK_OK;
    memory->holders += taken;
    pthread_mutex_unlock(&memory->mutex);
    return taken;
}

void device_memory_give(device_memory_t *memory, uint64_t offset, uint64_t bytes)
{
    pthread_mutex_lock(&memory->mutex);
    gpu_arena_give(&memory->arena, offset, whole_pages(bytes));
    let_go(memory);
}

int device_memory_fd(const device_memory_t *memory)
{
    return memory->dma_buf;
}

uint64_t device_memory_address(const device_memory_t *memory)
{
    return memory->address;
}
