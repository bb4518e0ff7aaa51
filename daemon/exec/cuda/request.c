#include "exec/cuda/request.h"

#include "base/log.h"
#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

blink_result_t cuda_request_make(exec_cuda_t *exec, uint8_t opcode, uint64_t arena_bytes,
                                 cuda_request_t **made)
{
    if (arena_bytes > exec->arena.bytes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "%llu bytes for the GPU worker: %llu are shared with it",
                          (unsigned long long)arena_bytes, (unsigned long long)exec->arena.bytes);
    cuda_request_t *request = malloc(sizeof(*request) + arena_bytes);
    if (!request)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a message to the GPU worker");
    *request = (cuda_request_t){.bytes = arena_bytes};
    request->sqe = (ring_sqe_t){.opcode = opcode, .count = arena_bytes, .user_data = (uintptr_t)request};
    list_append(&exec->requests, &request->link);
    list_init(&request->unsent);
    *made = request;
    return BLINK_OK;
}

void cuda_request_free(exec_cuda_t *exec, cuda_request_t *request)
{
    list_remove(&request->link);
    list_remove(&request->unsent);
    if (request->in_arena)
        gpu_arena_give(&exec->arena, request->sqe.in_offset_bytes, request->bytes);
    free(request);
}

static void ring_the_doorbell(const exec_cuda_t *exec)
{
    uint64_t one = 1;
    if (write(exec->channel.doorbell_fd, &one, sizeof(one)) < 0)
        LOG_DEBUG("the doorbell of the GPU worker is full"); /* then it rings already */
}

/* False if the request has to wait for space in the arena until others are completed. */
static bool move_to_arena(exec_cuda_t *exec, cuda_request_t *request)
{
    if (request->bytes == 0 || request->in_arena)
        return true;
    if (gpu_arena_take(&exec->arena, request->bytes, &request->sqe.in_offset_bytes) != BLINK_OK)
        return false;
    request->in_arena = true;
    memcpy(exec->arena.base + request->sqe.in_offset_bytes, request->data, request->bytes);
    return true;
}

/* Never more than can be completed: the worker may sleep over what else lies in the ring (ring_submit()). */
void cuda_requests_flush(exec_cuda_t *exec)
{
    bool sent = false;
    LIST_FOR_EACH (link, &exec->unsent) {
        cuda_request_t *request = CONTAINER_OF(link, cuda_request_t, unsent);
        if (exec->unreaped == exec->ring.cq_entries || !move_to_arena(exec, request) ||
            !ring_submit(&exec->ring, &request->sqe))
            break;
        exec->unreaped++;
        list_remove(link);
        sent = true;
    }
    if (sent && ring_needs_doorbell(&exec->ring))
        ring_the_doorbell(exec);
}

void cuda_request_send(exec_cuda_t *exec, cuda_request_t *request)
{
    list_append(&exec->unsent, &request->unsent);
    cuda_requests_flush(exec);
}

void cuda_wake(exec_cuda_t *exec)
{
    pthread_mutex_lock(&exec->event_mutex);
    if (exec->channel.event_fd >= 0)
        ring_raise_event(exec->channel.event_fd);
    pthread_mutex_unlock(&exec->event_mutex);
}
