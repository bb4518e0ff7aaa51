/* Communicators: joining, leaving, giving up, and what became of them. */
#include "context/comm.h"

#include "api/config.h"
#include "api/group.h"
#include "submit/wait.h"

#include <string.h>
#include <sys/random.h>

static_assert(sizeof(blink_unique_id_t) == UNIQUE_ID_BYTES, "the library's name for the same bytes");

blink_result_t blink_get_unique_id(blink_context_t *context, blink_unique_id_t *id)
{
    if (!context || !id)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_get_unique_id: %s is NULL",
                         context ? "id" : "context");
    unique_id_t made = context->home;
    if (getrandom(made.nonce, sizeof(made.nonce), 0) != (ssize_t)sizeof(made.nonce))
        return CALL_FAIL(BLINK_ERR_SYSTEM, "getrandom gave fewer than %zu bytes", sizeof(made.nonce));
    memcpy(id->bytes, &made, sizeof(made));
    return BLINK_OK;
}

static blink_result_t check_join(int rank_count, int rank)
{
    if (rank_count < 1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank count %d is not positive", rank_count);
    if (rank < 0 || rank >= rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %d is not among %d ranks", rank, rank_count);
    return BLINK_OK;
}

static blink_result_t begin(const char *call, blink_context_t *context, const blink_unique_id_t *id,
                            int rank_count, int rank, const blink_comm_config_t *config, blink_comm_t **comm)
{
    blink_comm_config_t chosen;
    if (!context || !id || !comm)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: %s is NULL", call,
                          !context ? "context"
                          : !id    ? "id"
                                   : "comm");
    BLINK_TRY(check_join(rank_count, rank));
    BLINK_TRY(config_take(config, &chosen));
    return comm_join(context, &(comm_parent_t){0}, id, (uint32_t)rank_count, (uint32_t)rank, &chosen, comm);
}

blink_result_t blink_comm_init_begin(blink_context_t *context, const blink_unique_id_t *id, int rank_count,
                                     int rank, const blink_comm_config_t *config, blink_comm_t **comm)
{
    return CALL_RESULT(begin(__func__, context, id, rank_count, rank, config, comm));
}

blink_result_t blink_comm_init_wait(blink_comm_t *comm, unsigned int timeout_ms, bool *ready)
{
    if (!comm || !ready)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_init_wait: %s is NULL",
                         comm ? "ready" : "comm");
    return CALL_RESULT(comm_await_ready(comm, timeout_ms, ready));
}

blink_result_t blink_comm_init_rank(blink_context_t *context, const blink_unique_id_t *id, int rank_count,
                                    int rank, const blink_comm_config_t *config, blink_comm_t **comm)
{
    blink_comm_t *joining;
    CALL_TRY(begin(__func__, context, id, rank_count, rank, config, comm ? &joining : NULL));
    return CALL_RESULT(comm_finish_joining(joining, comm));
}

blink_result_t blink_comm_destroy(blink_comm_t *comm)
{
    return comm ? CALL_RESULT(comm_destroy(comm)) : BLINK_OK;
}

blink_result_t blink_comm_finalize(blink_comm_t *comm)
{
    if (!comm)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_finalize: comm is NULL");
    CALL_TRY(group_refuse("blink_comm_finalize"));
    CALL_TRY(comm_check_ready(comm, "blink_comm_finalize"));
    /* Release: pairs with the load in comm_phase(). */
    atomic_store_explicit(&comm->phase, COMM_FINALIZED, memory_order_release);
    ops_await_idle(&comm->context->ops, &comm->queue);
    return CALL_RESULT(comm_state(comm));
}

blink_result_t blink_comm_abort(blink_comm_t *comm)
{
    if (!comm)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_abort: comm is NULL");
    return CALL_RESULT(comm_abort(comm));
}

blink_result_t blink_comm_async_error(blink_comm_t *comm, blink_result_t *result)
{
    if (!comm || !result)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_async_error: %s is NULL",
                         comm ? "result" : "comm");
    *result = comm_state(comm);
    return BLINK_OK;
}

blink_result_t blink_comm_set_timeout(blink_comm_t *comm, unsigned int op_timeout_ms)
{
    if (!comm)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_set_timeout: comm is NULL");
    CALL_TRY(comm_check_ready(comm, "blink_comm_set_timeout"));
    return CALL_RESULT(comm_set_timeout(comm, op_timeout_ms));
}

static blink_result_t tell(const blink_comm_t *comm, uint32_t value, int *out)
{
    if (!comm || !out)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s is NULL",
                          comm ? "the place for the answer" : "comm");
    *out = (int)value;
    return BLINK_OK;
}

blink_result_t blink_comm_rank(const blink_comm_t *comm, int *rank)
{
    return CALL_RESULT(tell(comm, comm ? comm->rank : 0, rank));
}

blink_result_t blink_comm_size(const blink_comm_t *comm, int *rank_count)
{
    return CALL_RESULT(tell(comm, comm ? comm->rank_count : 0, rank_count));
}

blink_result_t blink_comm_device(const blink_comm_t *comm, int *device)
{
    if (comm)
        CALL_TRY(comm_check_ready(comm, "blink_comm_device"));
    return CALL_RESULT(tell(comm, comm ? comm->gpu.device : 0, device));
}
