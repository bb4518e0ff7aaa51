/*
 * The way to the worker and back: entries, grants, and what happens when the worker is gone. See exec_cuda.h.
 */
#include "exec/cuda/exec_cuda_internal.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- entries ---- */

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
        arena_give(&exec->arena, request->sqe.in_offset_bytes, request->bytes);
    free(request);
}

static void ring_the_doorbell(const exec_cuda_t *exec)
{
    uint64_t one = 1;
    if (write(exec->channel.doorbell_fd, &one, sizeof(one)) < 0)
        LOG_DEBUG("the doorbell of the GPU worker is full"); /* then it rings already */
}

/* False if it has to wait for room in the arena, until others are completed. */
static bool move_to_arena(exec_cuda_t *exec, cuda_request_t *request)
{
    if (request->bytes == 0 || request->in_arena)
        return true;
    if (arena_take(&exec->arena, request->bytes, &request->sqe.in_offset_bytes) != BLINK_OK)
        return false;
    request->in_arena = true;
    memcpy(exec->arena.base + request->sqe.in_offset_bytes, request->room, request->bytes);
    return true;
}

/* No more than can be completed: what lies in the ring beyond that the worker may sleep over (ring_submit()).
 */
static void send_unsent(exec_cuda_t *exec)
{
    bool sent = false;
    LIST_FOR_EACH(link, &exec->unsent)
    {
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
    send_unsent(exec);
}

/* ---- grants ---- */

bool cuda_grant(exec_cuda_t *exec, const cuda_instance_t *instance)
{
    for (uint32_t gpu = 0; gpu < exec->config.gpu_count; gpu++) {
        if (exec->granted_blocks[gpu] + instance->blocks[gpu] > exec->config.gpus[gpu].resident_blocks)
            return false;
    }
    for (uint32_t gpu = 0; gpu < exec->config.gpu_count; gpu++)
        exec->granted_blocks[gpu] += instance->blocks[gpu];
    return true;
}

static void give_grant_back(exec_cuda_t *exec, cuda_instance_t *instance)
{
    if (!instance->granted)
        return;
    instance->granted = false;
    for (uint32_t gpu = 0; gpu < exec->config.gpu_count; gpu++)
        exec->granted_blocks[gpu] -= instance->blocks[gpu];
}

static void launch_waiting(exec_cuda_t *exec)
{
    LIST_FOR_EACH(link, &exec->waiting)
    {
        cuda_instance_t *instance = CONTAINER_OF(link, cuda_instance_t, queued);
        if (!cuda_grant(exec, instance))
            return;
        list_remove(link);
        instance->granted = true;
        cuda_instance_launch(instance);
    }
}

/* ---- completions ---- */

/* Whose object could not be made; it may be gone already. */
static void note_failed_object(exec_cuda_t *exec, uint32_t object, blink_result_t result, const char *text)
{
    LIST_FOR_EACH(link, &exec->instances)
    {
        cuda_instance_t *instance = CONTAINER_OF(link, cuda_instance_t, link);
        if (instance->program_object != object && instance->binding_object != object &&
            instance->memory_object != object)
            continue;
        instance->failed = result;
        snprintf(instance->failed_text, sizeof(instance->failed_text), "%s", text);
    }
}

static void on_completion(exec_cuda_t *exec, const ring_cqe_t *cqe)
{
    cuda_request_t *request = (cuda_request_t *)(uintptr_t)cqe->user_data;
    cuda_instance_t *instance = request->instance;
    blink_result_t result = (blink_result_t)cqe->result;
    if (instance) {
        give_grant_back(exec, instance);
        instance->request = NULL;
    } else if (request->object && result != BLINK_OK) {
        note_failed_object(exec, request->object, result, cqe->text);
    }
    cuda_request_free(exec, request);
    if (instance)
        cuda_instance_end(instance, result, cqe->text);
}

/* Go through what the worker has completed; start what that makes way for. */
static void advance(exec_cuda_t *exec)
{
    ring_cqe_t cqe;
    while (ring_reap(&exec->ring, &cqe)) {
        exec->unreaped--;
        on_completion(exec, &cqe);
    }
    send_unsent(exec);
    launch_waiting(exec);
}

static bool cuda_poll(exec_t *base, exec_end_t *end)
{
    exec_cuda_t *exec = (exec_cuda_t *)base;
    if (exec->attached && list_is_empty(&exec->ended))
        advance(exec);
    const list_t *ended = list_take_first(&exec->ended);
    if (!ended)
        return false;
    const cuda_instance_t *instance = CONTAINER_OF(ended, cuda_instance_t, queued);
    *end = instance->end;
    if (end->result != BLINK_OK)
        end->result = BLINK_FAIL(end->result, "%s", instance->end_text);
    return true;
}

bool exec_cuda_has_news(exec_cuda_t *exec)
{
    return !list_is_empty(&exec->ended) || (exec->attached && ring_has_completion(&exec->ring));
}

int exec_cuda_event_fd(const exec_cuda_t *exec)
{
    return exec->attached ? exec->channel.event_fd : -1;
}

/* ---- workers that come and go ---- */

blink_result_t exec_cuda_attach(exec_cuda_t *exec, const gpu_channel_t *channel)
{
    exec->channel = *channel;
    blink_result_t result = arena_init(&exec->arena, channel->arena, channel->arena_bytes);
    if (result == BLINK_OK)
        result = ring_attach(channel->ring_fd, &exec->ring);
    if (result != BLINK_OK) {
        arena_fini(&exec->arena);
        gpu_channel_close(&exec->channel);
        return result;
    }
    exec->attached = true;
    exec->unreaped = 0;
    exec->generation++;
    ring_want_event(&exec->ring);
    return BLINK_OK;
}

static void end_run(cuda_instance_t *instance, const char *text)
{
    give_grant_back(instance->exec, instance);
    instance->request = NULL;
    cuda_instance_end(instance, BLINK_ERR_SYSTEM, text);
}

/* A worker that is gone completes nothing any more: all requests are forgotten, and the runs among them, and
 * those that still wait for their grant, have failed. */
static void end_runs(exec_cuda_t *exec, const char *text)
{
    LIST_FOR_EACH(link, &exec->requests)
    {
        cuda_request_t *request = CONTAINER_OF(link, cuda_request_t, link);
        cuda_instance_t *instance = request->instance;
        cuda_request_free(exec, request);
        if (!instance)
            continue;
        list_remove(&instance->queued);
        end_run(instance, text);
    }
}

void exec_cuda_detach(exec_cuda_t *exec, const char *text)
{
    if (!exec->attached)
        return;
    exec->attached = false; /* so that nothing is sent from here on */
    snprintf(exec->lost_text, sizeof(exec->lost_text), "%s", text);
    end_runs(exec, text);
    arena_fini(&exec->arena);
    ring_unmap(&exec->ring);
    gpu_channel_close(&exec->channel);
}

static bool needs_flags(const exec_t *exec, const uint32_t *nodes, uint32_t rank_count)
{
    return cuda_needs_host((const exec_cuda_t *)exec, nodes, rank_count);
}

static const exec_calls_t cuda_calls = {.create = cuda_instance_create,
                                        .destroy = cuda_instance_destroy,
                                        .start = cuda_instance_start,
                                        .abort = cuda_instance_abort,
                                        .poll = cuda_poll,
                                        .transport = cuda_instance_transport,
                                        .needs_flags = needs_flags};

blink_result_t exec_cuda_create(const exec_cuda_config_t *config, exec_cuda_t **exec)
{
    exec_cuda_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the executor of GPUs");
    created->base = (exec_t){&cuda_calls, config->link_bytes};
    created->config = *config;
    list_init(&created->requests);
    list_init(&created->unsent);
    list_init(&created->instances);
    list_init(&created->waiting);
    list_init(&created->ended);
    snprintf(created->lost_text, sizeof(created->lost_text), "the GPU worker has not started");
    *exec = created;
    return BLINK_OK;
}

exec_t *exec_of_cuda(exec_cuda_t *exec)
{
    return &exec->base;
}

void exec_cuda_destroy(exec_cuda_t *exec)
{
    if (!exec)
        return;
    exec_cuda_detach(exec, "the daemon ends");
    free(exec);
}
