#include "exec/cuda/grant.h"

#include "base/clock.h"

/* Runs that have no space and are passed in one look: with more of them in front, a GPU that others use as
 * well may stand idle until it is their turn. */
#define PASSED_MAX 32u

/* Whether the GPUs have what the run waits for. */
static bool has_space(const exec_cuda_t *exec, const cuda_instance_t *run)
{
    bool is_full = false;
    for (uint32_t gpu = 0; gpu < exec->config.gpu_count; gpu++) {
        const cuda_granted_t *granted = &exec->granted[gpu];
        if (!(run->gpu_mask & 1u << gpu))
            continue;
        if (granted->blocks + run->resident[gpu] > exec->config.gpus[gpu].resident_blocks)
            return false;
        is_full |= granted->runs >= GRANT_RUNS && granted->bytes >= GRANT_BYTES;
    }
    return !is_full || run->share->tenant->granted == 0;
}

static void count(exec_cuda_t *exec, const cuda_instance_t *run, bool is_granted)
{
    const uint32_t one = is_granted ? 1 : UINT32_MAX;
    run->share->tenant->granted += one;
    for (uint32_t gpu = 0; gpu < exec->config.gpu_count; gpu++) {
        cuda_granted_t *granted = &exec->granted[gpu];
        if (!(run->gpu_mask & 1u << gpu))
            continue;
        granted->runs += one;
        granted->blocks += is_granted ? run->resident[gpu] : 0 - run->resident[gpu];
        granted->bytes += is_granted ? run->cost_bytes[gpu] : 0 - run->cost_bytes[gpu];
    }
}

static void leave(cuda_instance_t *run)
{
    list_remove(&run->queued);
    if (list_is_empty(&run->share->due))
        exec_turns_leave(run->share);
}

static void grant(exec_cuda_t *exec, cuda_instance_t *run)
{
    uint64_t bytes = 0;
    for (uint32_t gpu = 0; gpu < exec->config.gpu_count; gpu++)
        bytes += run->gpu_mask & 1u << gpu ? run->cost_bytes[gpu] : 0;
    leave(run);
    count(exec, run, true);
    exec_turns_charge(&exec->turns, run->share, bytes);
    run->stage = CUDA_RUN_GRANTED;
    const uint64_t now_ns = clock_ns();
    if (run->base.turn_us == EXEC_TURN_AWAITED) { /* else its lanes have left, and go on */
        run->base.turn_us = now_ns / 1000;
        run->base.started_ns = run->base.started_ns > 0 ? now_ns : 0;
    }
    cuda_request_send(exec, run->request);
}

/* Shares that were passed stand where they stood before. */
static void enter_again(exec_cuda_t *exec, const list_t *passed)
{
    while (!list_is_empty(passed)) {
        exec_share_t *share = CONTAINER_OF(passed->previous, exec_share_t, turn.of_round);
        list_remove(&share->turn.of_round);
        exec_turns_enter(&exec->turns, share);
    }
}

void grant_waiting(exec_cuda_t *exec)
{
    const uint32_t all = (uint32_t)((1ull << exec->config.gpu_count) - 1);
    uint32_t kept = 0; /* GPUs of runs that have been passed */
    uint32_t passed_count = 0;
    exec_share_t *share;
    list_t passed; /* exec_share_t.turn.of_round */
    list_init(&passed);
    while (kept != all && passed_count < PASSED_MAX && (share = exec_turns_next(&exec->turns))) {
        cuda_instance_t *run = CONTAINER_OF(share->due.next, cuda_instance_t, queued);
        if (!(run->gpu_mask & kept) && has_space(exec, run)) {
            grant(exec, run);
            continue;
        }
        kept |= run->gpu_mask;
        exec_turns_leave(share);
        list_append(&passed, &share->turn.of_round);
        passed_count++;
    }
    enter_again(exec, &passed);
}

void grant_ask(cuda_instance_t *instance)
{
    exec_cuda_t *exec = instance->exec;
    instance->share = exec_instance_share(&instance->base);
    if (instance->stage == CUDA_RUN_NONE)
        instance->base.turn_us = EXEC_TURN_AWAITED;
    instance->stage = CUDA_RUN_WAITS;
    list_append(&instance->share->due, &instance->queued);
    exec_turns_enter(&exec->turns, instance->share);
    grant_waiting(exec);
}

void grant_return(cuda_instance_t *instance)
{
    if (instance->stage == CUDA_RUN_WAITS)
        leave(instance);
    else if (instance->stage == CUDA_RUN_GRANTED)
        count(instance->exec, instance, false);
    instance->stage = CUDA_RUN_NONE;
}
