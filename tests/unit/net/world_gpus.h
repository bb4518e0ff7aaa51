/*
 * Memory of a GPU for each host of a data_world.h, in which landings may lie. A memfd stands for the dma-buf,
 * and the host's executor for the GPU: it reads landings there, where nothing is to be seen before it is
 * flushed (fake_verbs.h).
 */
#ifndef WORLD_GPUS_H
#define WORLD_GPUS_H

#include "exec/instance.h"
#include "net/data/data.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORLD_GPU_BYTES (UINT64_C(64) << 20)

typedef struct world_gpu {
    exec_calls_t calls;
    exec_wire_calls_t wire;
    const exec_calls_t *original;
    device_memory_t *memory; /* NULL: it has none */
    char *mapped;
    bool ordered;
} world_gpu_t;

/* What the executor is told of landings instead of what data_run_start() has said. */
typedef struct world_wires {
    exec_wires_t wires;
    const exec_wires_t *told;
} world_wires_t;

static inline world_gpu_t *world_gpu_of(const exec_instance_t *instance)
{
    return CONTAINER_OF(instance->exec->calls, world_gpu_t, calls);
}

static inline device_memory_t *world_gpu_device(const exec_instance_t *instance, bool *ordered)
{
    *ordered = world_gpu_of(instance)->ordered;
    return world_gpu_of(instance)->memory;
}

/* The network is told of places in the host's memory, as it is beside GPUs. */
static inline wire_place_t world_gpu_place(const exec_instance_t *instance, uint32_t lane, uint32_t sequence)
{
    wire_place_t place = world_gpu_of(instance)->original->wire->place(instance, lane, sequence);
    const world_wires_t *wires = (const world_wires_t *)instance->run.wires;
    if (place.buffer == LANE_LANDING)
        place.address = (char *)wires->told->landings[place.landing] +
                        ((char *)place.address - (char *)wires->wires.landings[place.landing]);
    return place;
}

/* Memory of a GPU, as a worker exports it, and where it is mapped. */
static inline char *world_gpu_make(device_memory_t **memory)
{
    int file = memfd_create("gpu", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)WORLD_GPU_BYTES), 0);
    void *mapped = mmap(NULL, WORLD_GPU_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(mapped != MAP_FAILED);
    assert_int_equal(device_memory_create(file, (uintptr_t)mapped, WORLD_GPU_BYTES, memory), BLINK_OK);
    return mapped;
}

/* All of it has been given back. */
static inline void world_gpu_unmake(device_memory_t *memory, char *mapped)
{
    uint64_t offset;
    assert_true(device_memory_take(memory, WORLD_GPU_BYTES, &offset));
    device_memory_give(memory, offset, WORLD_GPU_BYTES);
    device_memory_put(memory);
    munmap(mapped, WORLD_GPU_BYTES);
}

static inline void world_gpu_begin(world_gpu_t *gpu, exec_t *exec)
{
    *gpu = (world_gpu_t){.calls = *exec->calls, .wire = *exec->calls->wire, .original = exec->calls};
    gpu->mapped = world_gpu_make(&gpu->memory);
    gpu->wire.device = world_gpu_device;
    gpu->wire.place = world_gpu_place;
    gpu->calls.wire = &gpu->wire;
    exec->calls = &gpu->calls;
}

static inline const exec_wires_t *world_gpu_wires(world_wires_t *wires, const lane_program_t *program,
                                                  const exec_wires_t *told)
{
    void **landings = calloc(program->landing_count + 1, sizeof(*landings));
    assert_non_null(landings);
    for (uint32_t i = 0; i < program->landing_count; i++)
        landings[i] =
            told->device_landings[i] ? (void *)(uintptr_t)told->device_landings[i] : told->landings[i];
    *wires = (world_wires_t){.wires = *told, .told = told};
    wires->wires.landings = landings;
    return &wires->wires;
}

static inline void world_gpu_wires_free(world_wires_t *wires)
{
    free((void *)(uintptr_t)wires->wires.landings);
    *wires = (world_wires_t){0};
}

#endif
