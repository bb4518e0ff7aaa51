#include "gpu_worker/process/slots.h"

#include "gpu_worker/process/worker.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_SLOTS 64u
/* From counter to counter: a cache line, so that atomics of different runs do not contend. */
#define SLAB_STEP_BYTES 64u

static_assert(sizeof(lane_abi_control_t) == 64, "a control block has a line of its own");

static blink_result_t map_controls(worker_t *worker, lane_abi_control_t **controls, CUdeviceptr *address)
{
    void *memory = NULL;
    const size_t bytes = SLAB_SLOTS * sizeof(lane_abi_control_t);
    WORKER_TRY(worker, cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    *controls = memory;
    WORKER_TRY(worker, cuMemHostGetDevicePointer, address, memory, 0);
    return BLINK_OK;
}

static blink_result_t make_counters(worker_t *worker, worker_gpu_t *gpu, CUdeviceptr *counters)
{
    const CUstream stream = gpu->object_stream.handle;
    WORKER_TRY(worker, cuMemAllocFromPoolAsync, counters, SLAB_SLOTS * SLAB_STEP_BYTES, gpu->object_pool,
               stream);
    WORKER_TRY(worker, cuMemsetD8Async, *counters, 0, SLAB_SLOTS * SLAB_STEP_BYTES, stream);
    return worker_objects_changed(worker, gpu);
}

/* Slabs are never given back: the ring bounds what can be under way. */
static blink_result_t grow_slots(worker_t *worker, worker_gpu_t *gpu)
{
    lane_abi_control_t *controls = NULL;
    CUdeviceptr control_address = 0, counters = 0;
    worker_slot_t *slots = calloc(SLAB_SLOTS, sizeof(*slots));
    if (!slots)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u runs", SLAB_SLOTS);
    blink_result_t result = worker_select(worker, gpu);
    if (result == BLINK_OK)
        result = map_controls(worker, &controls, &control_address);
    if (result == BLINK_OK)
        result = make_counters(worker, gpu, &counters);
    if (result != BLINK_OK)
        goto fail;
    for (uint32_t i = 0; i < SLAB_SLOTS; i++) {
        slots[i] = (worker_slot_t){
            .control = &controls[i],
            .control_address = control_address + i * sizeof(*controls),
            .blocks_left = counters + i * SLAB_STEP_BYTES,
        };
        worker_slot_put(gpu, &slots[i]);
    }
    return BLINK_OK;
fail:
    if (controls)
        worker->cu->cuMemFreeHost(controls);
    free(slots);
    return result;
}

blink_result_t worker_slot_get(worker_t *worker, worker_gpu_t *gpu, worker_slot_t **slot)
{
    if (!gpu->free_slots)
        BLINK_TRY(grow_slots(worker, gpu));
    *slot = gpu->free_slots;
    gpu->free_slots = (*slot)->next;
    memset((*slot)->control, 0, sizeof(*(*slot)->control));
    return BLINK_OK;
}

void worker_slot_put(worker_gpu_t *gpu, worker_slot_t *slot)
{
    slot->next = gpu->free_slots;
    gpu->free_slots = slot;
}
