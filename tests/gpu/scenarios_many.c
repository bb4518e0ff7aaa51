/* More streams than CUDA has queues for them. */
#include "gpu_scenarios.h"

#include "limit.h"

#include <string.h>

enum { COMMS = 20, ROUNDS = 4 };

typedef struct many {
    blink_comm_t *comms[COMMS];
    CUstream streams[COMMS];
    CUdeviceptr memory[COMMS];
} many_t;

static void many_begin(const player_t *p, unsigned op_timeout_ms, many_t *many)
{
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    config.op_timeout_ms = op_timeout_ms;
    use_gpu(p);
    must(p, blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, &config, &many->comms[0]),
         "join");
    for (int i = 0; i < COMMS; i++) {
        if (i > 0)
            must(p, blink_comm_duplicate(many->comms[0], &many->comms[i]), "duplicate");
        many->streams[i] = stream_of(p);
        many->memory[i] = device_memory(p, COUNT);
        device_fill(p, many->memory[i], COUNT, p->rank + i);
    }
}

static void submit(const player_t *p, const many_t *many, int i)
{
    void *memory = as_pointer(many->memory[i]);
    must(p,
         blink_all_reduce_on(memory, memory, COUNT, BLINK_INT32, BLINK_MAX, many->comms[i], many->streams[i]),
         "all_reduce_on");
}

static void synchronize(const player_t *p, const many_t *many)
{
    for (int i = 0; i < COMMS; i++)
        cuda_must(p, cu->cuStreamSynchronize(many->streams[i]), "synchronize");
}

static void check_and_end(const player_t *p, many_t *many)
{
    synchronize(p, many);
    for (int i = 0; i < COMMS; i++)
        device_must_hold(p, many->memory[i], COUNT, p->rank_count - 1 + i, 1, "a stream of many");
    for (int i = COMMS; i-- > 0;)
        must(p, blink_comm_destroy(many->comms[i]), "destroy");
}

/* All ranks in one order: it does not matter which streams share a queue. */
void play_many_streams(const player_t *p)
{
    many_t many;
    many_begin(p, 0, &many);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COMMS; i++)
            submit(p, &many, (i * 7 + round) % COMMS);
    }
    check_and_end(p, &many);
}

/* Each rank in an order of its own, which takes a queue for each stream. */
void play_many_streams_in_any_order(const player_t *p)
{
    many_t many;
    many_begin(p, 0, &many);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COMMS; i++)
            submit(p, &many, p->rank % 2 ? COMMS - 1 - i : i);
    }
    check_and_end(p, &many);
}

/* The same without: some wait for each other, hear so and what to do, and the streams go on. */
void play_many_streams_that_time_out(const player_t *p)
{
    many_t many;
    int timed_out = 0;
    many_begin(p, limit_short_ms(), &many);
    for (int i = 0; i < COMMS; i++)
        submit(p, &many, p->rank % 2 ? COMMS - 1 - i : i);
    synchronize(p, &many);
    for (int i = 0; i < COMMS; i++) {
        blink_result_t result = BLINK_OK;
        must(p, blink_comm_async_error(many.comms[i], &result), "async_error");
        if (result == BLINK_OK)
            continue;
        timed_out++;
        if (result != BLINK_ERR_TIMEOUT || !strstr(blink_last_error(), "no stream has come to it on rank") ||
            !strstr(blink_last_error(), "CUDA_DEVICE_MAX_CONNECTIONS=32"))
            fail(p, "%s: %s", blink_result_name(result), blink_last_error());
    }
    if (timed_out == 0)
        fail(p, "nothing timed out");
    for (int i = COMMS; i-- > 0;)
        must(p, blink_comm_destroy(many.comms[i]), "destroy");
}
