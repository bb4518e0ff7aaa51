/* Communicators of ranks that a launcher has started. */
#include "api/config.h"
#include "context/comm.h"
#include "launch/seed.h"

/* How long ranks wait for the seed, if the configuration does not say. */
#define SEED_WAIT_MS 60000u

blink_result_t blink_launched(int *rank, int *rank_count, int *local_rank)
{
    launch_t launch;
    CALL_TRY(launch_find_place(&launch));
    if (rank)
        *rank = (int)launch.rank;
    if (rank_count)
        *rank_count = (int)launch.rank_count;
    if (local_rank)
        *local_rank = launch.local_rank;
    return BLINK_OK;
}

/* Whoever has chosen a GPU in CUDA has chosen; else the ranks of a host take its devices in their order. */
static int choose_device(blink_context_t *context, const launch_t *launch, const blink_comm_config_t *config)
{
    uint8_t uuid[GPU_UUID_BYTES];
    bool is_chosen = config->device >= 0 || gpus_current_uuid(&context->gpus, uuid);
    bool is_there = launch->local_rank >= 0 && (uint32_t)launch->local_rank < context->device_count;
    return is_chosen || !is_there ? config->device : launch->local_rank;
}

blink_result_t blink_comm_init_launched(blink_context_t *context, const blink_comm_config_t *config,
                                        blink_comm_t **comm)
{
    blink_comm_config_t chosen;
    launch_t launch;
    blink_unique_id_t id;
    if (!context || !comm)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_init_launched: %s is NULL",
                         context ? "comm" : "context");
    CALL_TRY(config_take(config, &chosen));
    CALL_TRY(launch_find(&launch));
    CALL_TRY(
        seed_next(context, &launch, chosen.init_timeout_ms > 0 ? chosen.init_timeout_ms : SEED_WAIT_MS, &id));
    chosen.device = choose_device(context, &launch, &chosen);
    blink_result_t result =
        comm_create(context, &(comm_parent_t){0}, &id, launch.rank_count, launch.rank, &chosen, comm);
    seed_settled(&launch);
    return CALL_RESULT(result);
}
