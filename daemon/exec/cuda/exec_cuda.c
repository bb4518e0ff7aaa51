/*
 * Completions that come from the worker, and workers that come and go.
 */
#include "exec/cuda/exec_cuda.h"

#include "base/clock.h"
#include "base/log.h"
#include "error.h"
#include "exec/cuda/grant.h"
#include "exec/cuda/run.h"
#include "plan/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what plans may take ---- */

void exec_cuda_limit_plan(const exec_cuda_t *exec, const uint32_t *nodes, uint32_t count,
                          plan_request_t *request)
{
    const exec_cuda_config_t *config = &exec->config;
    uint32_t ranks[GPU_MAX] = {0};
    request->block_GBps = INFINITY;
    request->blocks_most = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        ranks[config->gpu_of_node[nodes[i]]]++;
    for (uint32_t gpu = 0; gpu < config->gpu_count; gpu++) {
        if (ranks[gpu] == 0)
            continue;
        const gpu_facts_t *facts = &config->gpus[gpu];
        uint32_t each = facts->resident_blocks / ranks[gpu];
        request->block_GBps = fmin(request->block_GBps, model_block_GBps(facts->capability));
        request->blocks_most = each < request->blocks_most ? each : request->blocks_most;
    }
    request->blocks_most = request->blocks_most > 0 ? request->blocks_most : 1;
}

/* As kernels/switch.cuh has them. */
static bool switches_combine(blink_datatype_t datatype, blink_redop_t redop, bool exactly)
{
    bool adds = redop == BLINK_SUM || redop == BLINK_AVG || redop == BLINK_PRE_MUL_SUM;
    switch (datatype) {
    case BLINK_FLOAT16:
    case BLINK_BFLOAT16:
    case BLINK_FLOAT32:
    case BLINK_FLOAT64:
        return adds && !exactly;
    case BLINK_INT32:
    case BLINK_UINT32:
    case BLINK_INT64:
    case BLINK_UINT64:
        return adds || redop == BLINK_MIN || redop == BLINK_MAX;
    default:
        return false;
    }
}

bool exec_cuda_switches_narrowly(blink_datatype_t datatype)
{
    return datatype == BLINK_INT32 || datatype == BLINK_UINT32;
}

bool exec_cuda_may_switch(const exec_cuda_t *exec, const uint32_t *nodes, uint32_t count,
                          blink_datatype_t datatype, blink_redop_t redop, bool exactly)
{
    const exec_cuda_config_t *config = &exec->config;
    uint32_t gpus = 0;
    if (switch_pause_holds(&exec->switch_pause, clock_us()) || !switches_combine(datatype, redop, exactly))
        return false;
    for (uint32_t i = 0; i < count; i++)
        gpus |= 1u << config->gpu_of_node[nodes[i]];
    bool may = (uint32_t)__builtin_popcount(gpus) == count; /* no two ranks on a GPU */
    for (uint32_t left = gpus; left && may; left &= left - 1) {
        const gpu_facts_t *facts = &config->gpus[__builtin_ctz(left)];
        may = facts->has_switch && (facts->peers & gpus) == gpus;
    }
    return may;
}

/* ---- completions ---- */

static bool has_object(const cuda_instance_t *instance, uint32_t object)
{
    for (uint32_t i = 0; i < CUDA_BINDINGS; i++)
        if (instance->bindings[i].object == object)
            return true;
    return instance->program_object == object || instance->memory.object == object ||
           instance->host_memory.object == object;
}

/* Tell the instance whose object could not be made, unless it is gone already. */
static void note_failed_object(exec_cuda_t *exec, uint32_t object, blink_result_t result, const char *text)
{
    LIST_FOR_EACH (link, &exec->instances) {
        cuda_instance_t *instance = CONTAINER_OF(link, cuda_instance_t, link);
        if (!has_object(instance, object))
            continue;
        instance->failed = result;
        snprintf(instance->failed_text, sizeof(instance->failed_text), "%s", text);
    }
}

/* The object is there, and no switch reaches it. */
static void note_lacking_switch(exec_cuda_t *exec, const ring_sqe_t *sqe, const char *text)
{
    const uint64_t now_us = clock_us();
    const bool is_news = !switch_pause_holds(&exec->switch_pause, now_us);
    switch_pause_begin(&exec->switch_pause, now_us, sqe->root, sqe->count);
    if (is_news)
        LOG_WARNING("GPUs 0x%x: no switch reduces and copies, other plans are made for the next %" PRIu64
                    " s: %s",
                    sqe->root, exec->switch_pause.us / 1000000, text);
    LIST_FOR_EACH (link, &exec->instances) {
        cuda_instance_t *instance = CONTAINER_OF(link, cuda_instance_t, link);
        instance->memory.lacks_switch |= instance->memory.object == sqe->member;
    }
}

static void on_completion(exec_cuda_t *exec, const ring_cqe_t *cqe)
{
    cuda_request_t *request = (cuda_request_t *)(uintptr_t)cqe->user_data;
    cuda_instance_t *instance = request->instance;
    blink_result_t result = (blink_result_t)cqe->result;
    bool wants_switch = request->sqe.opcode == GPU_ALLOC && request->sqe.flags == GPU_ALLOC_SWITCH;
    if (wants_switch && result == BLINK_OK)
        switch_pause_note_success(&exec->switch_pause, clock_us(), request->sqe.root, request->sqe.count);
    if (wants_switch && result == BLINK_ERR_UNSUPPORTED)
        note_lacking_switch(exec, &request->sqe, cqe->text);
    else if (!instance && request->object && result != BLINK_OK)
        note_failed_object(exec, request->object, result, cqe->text);
    cuda_request_free(exec, request);
    if (!instance)
        return;
    bool is_well = result == BLINK_OK && instance->failed == BLINK_OK && instance->abort_reason == BLINK_OK;
    if (is_well && instance->wires.wires && !cuda_wires_lanes_ended(&instance->wires))
        cuda_instance_left(instance);
    else
        cuda_instance_end(instance, result, cqe->text);
}

/* What lanes on GPUs and the network have done for one another. */
static void look_at_wires(exec_cuda_t *exec)
{
    LIST_FOR_EACH (link, &exec->wired)
        cuda_instance_look(CONTAINER_OF(link, cuda_instance_t, wires.link));
}

/* Handle what the worker has completed, and start what may run now. */
static void advance(exec_cuda_t *exec)
{
    ring_cqe_t cqe;
    while (ring_reap(&exec->ring, &cqe)) {
        exec->unreaped--;
        on_completion(exec, &cqe);
    }
    look_at_wires(exec);
    cuda_requests_flush(exec);
    grant_waiting(exec);
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

/* The event tells of wires, too, but who has listened to it once is not told again. */
static bool wires_have_news(const exec_cuda_t *exec)
{
    LIST_FOR_EACH (link, &exec->wired)
        if (cuda_instance_has_news(CONTAINER_OF(link, cuda_instance_t, wires.link)))
            return true;
    return false;
}

bool exec_cuda_has_news(exec_cuda_t *exec)
{
    return !list_is_empty(&exec->ended) ||
           (exec->attached && (ring_has_completion(&exec->ring) || wires_have_news(exec)));
}

int exec_cuda_event_fd(const exec_cuda_t *exec)
{
    return exec->attached ? exec->channel.event_fd : -1;
}

/* ---- workers that come and go ---- */

static blink_result_t take_exports(exec_cuda_t *exec)
{
    gpu_channel_t *channel = &exec->channel;
    for (uint32_t gpu = 0; gpu < GPU_MAX; gpu++) {
        uint64_t address = channel->exported_address[gpu];
        channel->exported_address[gpu] = 0; /* the descriptor goes over */
        if (address)
            BLINK_TRY(device_memory_create(channel->exported_fd[gpu], address, GPU_EXPORT_BYTES,
                                           &exec->exported[gpu]));
    }
    return BLINK_OK;
}

static void close_channel(exec_cuda_t *exec)
{
    for (uint32_t gpu = 0; gpu < GPU_MAX; gpu++) {
        device_memory_put(exec->exported[gpu]);
        exec->exported[gpu] = NULL;
    }
    pthread_mutex_lock(&exec->event_mutex);
    gpu_channel_close(&exec->channel);
    pthread_mutex_unlock(&exec->event_mutex);
}

blink_result_t exec_cuda_attach(exec_cuda_t *exec, const gpu_channel_t *channel)
{
    pthread_mutex_lock(&exec->event_mutex);
    exec->channel = *channel;
    pthread_mutex_unlock(&exec->event_mutex);
    blink_result_t result = gpu_arena_init(&exec->arena, channel->arena, channel->arena_bytes);
    if (result == BLINK_OK)
        result = take_exports(exec);
    if (result == BLINK_OK)
        result = ring_attach(channel->ring_fd, &exec->ring);
    if (result != BLINK_OK) {
        gpu_arena_fini(&exec->arena);
        close_channel(exec);
        return result;
    }
    exec->attached = true;
    exec->switch_pause = (switch_pause_t){0};
    exec->unreaped = 0;
    exec->generation++;
    ring_want_event(&exec->ring);
    return BLINK_OK;
}

/* A worker that is gone completes nothing any more: all requests are forgotten, and the runs among them, and
 * those that still wait for their grant, have failed. */
static void end_runs(exec_cuda_t *exec, const char *text)
{
    LIST_FOR_EACH (link, &exec->requests) {
        cuda_request_t *request = CONTAINER_OF(link, cuda_request_t, link);
        cuda_instance_t *instance = request->instance;
        cuda_request_free(exec, request);
        if (!instance)
            continue;
        cuda_instance_end(instance, BLINK_ERR_SYSTEM, text);
    }
    LIST_FOR_EACH (link, &exec->wired) /* those that are left wait for the network */
        cuda_instance_end(CONTAINER_OF(link, cuda_instance_t, wires.link), BLINK_ERR_SYSTEM, text);
}

void exec_cuda_detach(exec_cuda_t *exec, const char *text)
{
    if (!exec->attached)
        return;
    exec->attached = false; /* so that nothing is sent from here on */
    snprintf(exec->lost_text, sizeof(exec->lost_text), "%s", text);
    end_runs(exec, text);
    gpu_arena_fini(&exec->arena);
    ring_unmap(&exec->ring);
    close_channel(exec);
}

uint64_t exec_cuda_aborting_since_us(const exec_cuda_t *exec)
{
    const cuda_instance_t *first = LIST_FIRST(&exec->aborted, cuda_instance_t, queued);
    return first ? first->aborted_us : UINT64_MAX;
}

/* ---- shares ---- */

static blink_result_t cuda_share_create(exec_t *base, const void *tenant, uint32_t weight,
                                        exec_share_t **share)
{
    exec_cuda_t *exec = (exec_cuda_t *)base;
    exec_share_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a share of the GPUs");
    created->exec = base;
    pthread_mutex_lock(&exec->tenants_mutex);
    blink_result_t result = exec_turns_add_share(&exec->turns, tenant, weight, created);
    pthread_mutex_unlock(&exec->tenants_mutex);
    if (result == BLINK_OK)
        *share = created;
    else
        free(created);
    return result;
}

static void cuda_share_destroy(exec_share_t *share)
{
    exec_cuda_t *exec = (exec_cuda_t *)share->exec;
    pthread_mutex_lock(&exec->tenants_mutex);
    exec_tenant_t *tenant = exec_turns_remove_share(share);
    pthread_mutex_unlock(&exec->tenants_mutex);
    free(tenant);
    free(share);
}

/* ---- the executor ---- */

static bool wire_memory(const exec_instance_t *instance, void **memory, uint64_t *bytes)
{
    return cuda_wires_memory(&((const cuda_instance_t *)instance)->wires, memory, bytes);
}

static device_memory_t *wire_device(const exec_instance_t *instance, bool *ordered)
{
    return cuda_instance_device((const cuda_instance_t *)instance, ordered);
}

static wire_place_t wire_place(const exec_instance_t *instance, uint32_t lane, uint32_t sequence)
{
    return cuda_wires_place(&((const cuda_instance_t *)instance)->wires, lane, sequence);
}

static void wire_sent(exec_instance_t *instance, uint32_t lane, uint32_t sequence)
{
    cuda_wires_finish(&((cuda_instance_t *)instance)->wires, lane, sequence);
}

static exec_task_t *wire_arrived(exec_instance_t *instance, uint32_t lane, uint32_t sequence)
{
    cuda_wires_finish(&((cuda_instance_t *)instance)->wires, lane, sequence);
    return NULL;
}

static void wire_settled(exec_instance_t *instance)
{
    cuda_wires_settle(&((cuda_instance_t *)instance)->wires);
}

/* No lane is the network's to run: wire_arrived() returns none. */
static const exec_wire_calls_t cuda_wire_calls = {.memory = wire_memory,
                                                  .device = wire_device,
                                                  .place = wire_place,
                                                  .sent = wire_sent,
                                                  .arrived = wire_arrived,
                                                  .settled = wire_settled};

static const exec_calls_t cuda_calls = {.create = cuda_instance_create,
                                        .destroy = cuda_instance_destroy,
                                        .bind = cuda_instance_bind,
                                        .start = cuda_instance_start,
                                        .abort = cuda_instance_abort,
                                        .poll = cuda_poll,
                                        .transport = cuda_instance_transport,
                                        .share_create = cuda_share_create,
                                        .share_destroy = cuda_share_destroy,
                                        .wire = &cuda_wire_calls};

blink_result_t exec_cuda_create(const exec_cuda_config_t *config, exec_cuda_t **exec)
{
    exec_cuda_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the executor of GPUs");
    created->base = (exec_t){.calls = &cuda_calls, .link_bytes = config->link_bytes};
    created->config = *config;
    list_init(&created->requests);
    list_init(&created->unsent);
    list_init(&created->instances);
    list_init(&created->aborted);
    list_init(&created->ended);
    list_init(&created->wired);
    created->channel = GPU_CHANNEL_NONE;
    pthread_mutex_init(&created->event_mutex, NULL);
    exec_turns_init(&created->turns, GRANT_QUANTUM_BYTES);
    pthread_mutex_init(&created->tenants_mutex, NULL);
    snprintf(created->lost_text, sizeof(created->lost_text), "the GPU worker has not started");
    if (exec_share_create(&created->base, NULL, 1, &created->base.own_share) != BLINK_OK) {
        exec_cuda_destroy(created);
        return BLINK_ERR_NO_MEMORY;
    }
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
    exec_share_destroy(exec->base.own_share);
    pthread_mutex_destroy(&exec->event_mutex);
    pthread_mutex_destroy(&exec->tenants_mutex);
    free(exec);
}
