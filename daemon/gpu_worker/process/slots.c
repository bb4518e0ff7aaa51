#include "gpu_worker/process/slots.h"

#include "gpu_worker/process/worker.h"

#include <stdlib.h>
#include <string.h>

/* From counter to counter: a cache line, so that atomics of different runs do not contend. */
#define COUNTER_BYTES 64u

static_assert(sizeof(lane_abi_control_t) == 64, "a control block has a line of its own");

static blink_result_t map_controls(worker_t *worker, uint32_t count, lane_abi_control_t **controls,
                                   CUdeviceptr *address)
{
    void *memory = NULL;
    WORKER_TRY(worker, cuMemHostAlloc, &memory, count * sizeof(lane_abi_control_t),
               CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    *controls = memory;
    WORKER_TRY(worker, cuMemHostGetDevicePointer, address, memory, 0);
    return BLINK_OK;
}

static blink_result_t make_counters(worker_t *worker, worker_gpu_t *gpu, uint32_t count,
                                    CUdeviceptr *counters)
{
    const CUstream stream = gpu->object_stream.handle;
    WORKER_TRY(worker, cuMemAllocFromPoolAsync, counters, count * COUNTER_BYTES, gpu->object_pool, stream);
    WORKER_TRY(worker, cuMemsetD8Async, *counters, 0, count * COUNTER_BYTES, stream);
    return worker_objects_changed(worker, gpu);
}

blink_result_t worker_slots_make(worker_t *worker, worker_gpu_t *gpu)
{
    const uint32_t count = worker->ring.cq_entries;
    lane_abi_control_t *controls = NULL;
    CUdeviceptr control_address = 0, counters = 0;
    BLINK_TRY(map_controls(worker, count, &controls, &control_address));
    BLINK_TRY(make_counters(worker, gpu, count, &counters));
    worker_slot_t *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u runs", count);
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = (worker_slot_t){
            .control = &controls[i],
            .control_address = control_address + i * sizeof(*controls),
            .blocks_left = counters + i * COUNTER_BYTES,
        };
        worker_slot_put(gpu, &slots[i]);
    }
    return BLINK_OK;
}

worker_slot_t *worker_slot_get(worker_gpu_t *gpu)
{
    worker_slot_t *slot = gpu->free_slots;
    gpu->free_slots = slot->next;
    memset(slot->control, 0, sizeof(*slot->control));
    return slot;
}

void worker_slot_put(worker_gpu_t *gpu, worker_slot_t *slot)
{
    slot->next = gpu->free_slots;
    gpu->free_slots = slot;
}
