#include "exec/cuda/wire_memory.h"

#include "base/gpu_arena.h"
#include "gpu_worker/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES UINT64_C(4096)

struct wire_memory {
    int fd;
    char *base;
    pthread_mutex_t mutex; /* of the arena */
    gpu_arena_t arena;
};

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static blink_result_t map(wire_memory_t *memory)
{
    memory->fd = memfd_create("blink-gpu-wires", MFD_CLOEXEC);
    if (memory->fd < 0 || ftruncate(memory->fd, GPU_WIRE_BYTES) != 0)
        return BLINK_FAIL_ERRNO("make the memory that the network and GPUs share");
    void *base =
        mmap(NULL, GPU_WIRE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory->fd, 0);
    if (base == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map the memory that the network and GPUs share");
    memory->base = base;
    pages_keep_from_dumps(base, GPU_WIRE_BYTES);
    return gpu_arena_init(&memory->arena, base, GPU_WIRE_BYTES);
}

blink_result_t wire_memory_create(wire_memory_t **created)
{
    wire_memory_t *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what the network and GPUs share");
    pthread_mutex_init(&memory->mutex, NULL);
    blink_result_t result = map(memory);
    if (result != BLINK_OK) {
        wire_memory_destroy(memory);
        return result;
    }
    *created = memory;
    return BLINK_OK;
}

void wire_memory_destroy(wire_memory_t *memory)
{
    if (!memory)
        return;
    gpu_arena_fini(&memory->arena);
    if (memory->base)
        munmap(memory->base, GPU_WIRE_BYTES);
    if (memory->fd >= 0)
        close(memory->fd);
    pthread_mutex_destroy(&memory->mutex);
    free(memory);
}

int wire_memory_fd(const wire_memory_t *memory)
{
    return memory->fd;
}

void *wire_memory_take(wire_memory_t *memory, uint64_t bytes)
{
    uint64_t offset;
    pthread_mutex_lock(&memory->mutex);
    blink_result_t result = gpu_arena_take(&memory->arena, whole_pages(bytes), &offset);
    pthread_mutex_unlock(&memory->mutex);
    return result == BLINK_OK ? memory->base + offset : NULL;
}

void wire_memory_give(wire_memory_t *memory, void *address, uint64_t bytes)
{
    pthread_mutex_lock(&memory->mutex);
    gpu_arena_give(&memory->arena, wire_memory_offset(memory, address), whole_pages(bytes));
    pthread_mutex_unlock(&memory->mutex);
}

uint64_t wire_memory_offset(const wire_memory_t *memory, const void *address)
{
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)memory->base);
    return offset < GPU_WIRE_BYTES ? offset : UINT64_MAX;
}

static void *take_pages(void *context, size_t bytes)
{
    return wire_memory_take(context, bytes);
}

static void give_pages(void *context, void *pages, size_t bytes)
{
    wire_memory_give(context, pages, bytes);
}

pages_source_t wire_memory_pages(wire_memory_t *memory)
{
    return (pages_source_t){take_pages, give_pages, memory};
}
