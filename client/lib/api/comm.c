/* Communicators: joining, leaving, giving up, and what became of them. */
#include "context/comm.h"

#include "api/group.h"
#include "context/context.h"
#include "names.h"
#include "stream/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* How long the daemon's word on a failed replay may take. */
#define LOSS_WAIT_S 5

void comm_joined(blink_comm_t *comm, const Blinkwire__CommInitReply *reply)
{
    control_t *control = &comm->context->control;
    comm->member = reply->member;
    comm->device = reply->device;
    comm->on_gpu = reply->gpu_uuid.len == sizeof(comm->gpu_uuid);
    if (comm->on_gpu)
        memcpy(comm->gpu_uuid, reply->gpu_uuid.data, sizeof(comm->gpu_uuid));
    comm->next = control->comms;
    comm->link = &control->comms;
    if (comm->next)
        comm->next->link = &comm->next;
    control->comms = comm;
}

void comm_op_ended(void *queue, blink_result_t result, const char *text)
{
    blink_comm_t *comm = (blink_comm_t *)((char *)queue - offsetof(blink_comm_t, queue));
    if (result == BLINK_OK)
        return;
    pthread_mutex_lock(&comm->context->control.lock);
    if (comm->async_result == BLINK_OK) {
        comm->async_result = result;
        snprintf(comm->async_text, sizeof(comm->async_text), "%s", text);
    }
    pthread_mutex_unlock(&comm->context->control.lock);
}

void comm_lost(blink_comm_t *comms, const Blinkwire__CommLost *event)
{
    for (blink_comm_t *comm = comms; comm; comm = comm->next) {
        if (comm->member != event->member || comm->async_result != BLINK_OK)
            continue;
        uint32_t code = event->error ? event->error->code : BLINK_OK;
        bool known = code != BLINK_OK && code <= BLINK_ERR_INTERNAL;
        comm->async_result = known ? (blink_result_t)code : BLINK_ERR_INTERNAL;
        snprintf(comm->async_text, sizeof(comm->async_text), "%s", event->error ? event->error->text : "");
    }
}

blink_result_t blink_get_unique_id(blink_unique_id_t *id)
{
    if (!id)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_get_unique_id: id is NULL");
    if (getrandom(id->bytes, sizeof(id->bytes), 0) != (ssize_t)sizeof(id->bytes))
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "getrandom gave fewer than %zu bytes", sizeof(id->bytes));
    return BLINK_OK;
}

blink_result_t comm_check_config(const blink_comm_config_t *config)
{
    if (config->struct_bytes != sizeof(*config))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "config.struct_bytes is %zu, not %zu: use BLINK_COMM_CONFIG_INIT",
                          config->struct_bytes, sizeof(*config));
    if (config->device < -1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "config.device is %d, not -1 or a device",
                          config->device);
    if (!blink_algorithm_valid((uint32_t)config->algorithm))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "config.algorithm is %d, which is none",
                          (int)config->algorithm);
    return BLINK_OK;
}

static blink_result_t check_join(int rank_count, int rank, const blink_comm_config_t *config)
{
    if (rank_count < 1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank count %d is not positive", rank_count);
    if (rank < 0 || rank >= rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %d is not among %d ranks", rank, rank_count);
    return comm_check_config(config);
}

static blink_result_t join(blink_comm_t *comm, const blink_unique_id_t *id, const blink_comm_config_t *config)
{
    Blinkwire__CommInit body = BLINKWIRE__COMM_INIT__INIT;
    body.unique_id.data = (uint8_t *)id->bytes;
    body.unique_id.len = sizeof(id->bytes);
    body.rank_count = comm->rank_count;
    body.rank = comm->rank;
    body.device = config->device;
    body.algorithm = (uint32_t)config->algorithm;
    body.op_timeout_ms = config->op_timeout_ms;
    uint8_t uuid[GPU_UUID_BYTES];
    if (gpus_current_uuid(comm->context, uuid) && config->device < 0) {
        body.gpu_uuid.data = uuid;
        body.gpu_uuid.len = sizeof(uuid);
    }
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_INIT;
    request.comm_init = &body;
    BLINK_TRY(control_call(comm->context, &request, NULL, 0, comm, NULL));
    if (comm->member == 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon let rank %u join but gave no handle", comm->rank);
    return BLINK_OK;
}

static void unlink_comm(blink_comm_t *comm)
{
    control_t *control = &comm->context->control;
    pthread_mutex_lock(&control->lock);
    if (comm->link) {
        *comm->link = comm->next;
        if (comm->next)
            comm->next->link = comm->link;
    }
    pthread_mutex_unlock(&control->lock);
}

void comm_free(blink_comm_t *comm)
{
    streams_leave(comm);
    redops_fini(&comm->redops);
    pthread_mutex_destroy(&comm->graphs_lock);
    free(comm);
}

blink_result_t blink_comm_init_rank(blink_context_t *context, const blink_unique_id_t *id, int rank_count,
                                    int rank, const blink_comm_config_t *config, blink_comm_t **comm)
{
    const blink_comm_config_t defaults = BLINK_COMM_CONFIG_INIT;
    if (!context || !id || !comm)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_init_rank: %s is NULL",
                          !context ? "context"
                          : !id    ? "id"
                                   : "comm");
    if (!config)
        config = &defaults;
    BLINK_TRY(check_join(rank_count, rank, config));
    blink_comm_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator");
    created->context = context;
    created->rank = (uint32_t)rank;
    created->rank_count = (uint32_t)rank_count;
    created->id = *id;
    pthread_mutex_init(&created->graphs_lock, NULL);
    created->algorithm = config->algorithm;
    created->op_timeout_ms = config->op_timeout_ms;
    redops_init(&created->redops);
    ops_queue_add(&context->ops);
    blink_result_t result = join(created, id, config);
    if (result != BLINK_OK)
        goto remove_queue;
    *comm = created;
    return BLINK_OK;
remove_queue:
    unlink_comm(created);
    (void)ops_queue_remove(&context->ops, &created->queue); /* nothing was submitted: it is idle */
    comm_free(created);
    return result;
}

/* Ids are not to be guessed, and a part of one that is flipped is no easier to guess. */
static blink_unique_id_t id_for_graphs(const blink_comm_t *comm)
{
    blink_unique_id_t id = comm->id;
    for (size_t i = 0; i < sizeof(id.bytes); i++)
        id.bytes[i] ^= 0x47;
    return id;
}

/* Acquire: pairs with the store in comm_for_graphs(). */
static blink_comm_t *graphs_of(blink_comm_t *comm)
{
    return atomic_load_explicit(&comm->graphs, memory_order_acquire);
}

blink_result_t comm_for_graphs(blink_comm_t *comm, blink_comm_t **graphs)
{
    blink_result_t result = BLINK_OK;
    pthread_mutex_lock(&comm->graphs_lock);
    *graphs = graphs_of(comm);
    if (!*graphs) {
        blink_unique_id_t id = id_for_graphs(comm);
        blink_comm_config_t config = {sizeof(config), (int)comm->device, comm->algorithm,
                                      comm->op_timeout_ms};
        result =
            blink_comm_init_rank(comm->context, &id, (int)comm->rank_count, (int)comm->rank, &config, graphs);
        if (result == BLINK_OK)
            atomic_store_explicit(&comm->graphs, *graphs, memory_order_release);
    }
    pthread_mutex_unlock(&comm->graphs_lock);
    return result;
}

static blink_result_t send_about(blink_comm_t *comm, Blinkwire__Request__BodyCase what)
{
    Blinkwire__CommDestroy destroy = BLINKWIRE__COMM_DESTROY__INIT;
    Blinkwire__CommAbort give_up = BLINKWIRE__COMM_ABORT__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    destroy.member = give_up.member = comm->member;
    request.body_case = what;
    if (what == BLINKWIRE__REQUEST__BODY_COMM_DESTROY)
        request.comm_destroy = &destroy;
    else
        request.comm_abort = &give_up;
    return control_call(comm->context, &request, NULL, 0, NULL, NULL);
}

blink_result_t blink_comm_destroy(blink_comm_t *comm)
{
    if (!comm)
        return BLINK_OK;
    ops_t *ops = &comm->context->ops;
    (void)blink_comm_destroy(graphs_of(comm)); /* what it may say of the daemon is said again below */
    atomic_store_explicit(&comm->graphs, NULL, memory_order_relaxed); /* nobody uses it any more */
    /* The daemon hears of it before the ops have ended: it then also ends those that wait for a rank which
     * leaves. */
    ops_drain(ops, &comm->queue);
    blink_result_t result = send_about(comm, BLINKWIRE__REQUEST__BODY_COMM_DESTROY);
    ops_await_idle(ops, &comm->queue);
    /* Another thread may have submitted meanwhile, which it must not. Completions could then still name the
     * queue: the communicator stays until blink_close(). */
    if (!ops_queue_remove(ops, &comm->queue))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u was given ops while it was destroyed",
                          comm->rank);
    unlink_comm(comm);
    comm_free(comm);
    return result;
}

blink_result_t blink_comm_finalize(blink_comm_t *comm)
{
    blink_result_t met = BLINK_OK;
    if (!comm)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_finalize: comm is NULL");
    BLINK_TRY(group_refuse("blink_comm_finalize"));
    /* Release: pairs with the load at submission. */
    atomic_store_explicit(&comm->finalized, true, memory_order_release);
    ops_await_idle(&comm->context->ops, &comm->queue);
    BLINK_TRY(blink_comm_async_error(comm, &met));
    return met;
}

blink_result_t blink_comm_abort(blink_comm_t *comm)
{
    if (!comm)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_abort: comm is NULL");
    blink_comm_t *graphs = graphs_of(comm);
    if (graphs)
        BLINK_TRY(send_about(graphs, BLINKWIRE__REQUEST__BODY_COMM_ABORT));
    return send_about(comm, BLINKWIRE__REQUEST__BODY_COMM_ABORT);
}

/* A replay has failed, of which the daemon tells more: until then. Under control.lock. */
static void await_loss(blink_comm_t *comm, blink_result_t replayed)
{
    control_t *control = &comm->context->control;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += LOSS_WAIT_S;
    while (comm->async_result == BLINK_OK && !control->lost) {
        if (pthread_cond_timedwait(&control->changed, &control->lock, &deadline) != ETIMEDOUT)
            continue;
        comm->async_result = replayed;
        snprintf(comm->async_text, sizeof(comm->async_text), "a replayed op failed");
    }
}

blink_result_t blink_comm_async_error(blink_comm_t *comm, blink_result_t *result)
{
    if (!comm || !result)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_async_error: %s is NULL",
                          comm ? "result" : "comm");
    control_t *control = &comm->context->control;
    if (comm->on_gpu)
        ops_progress(&comm->context->ops,
                     true); /* nobody else may be looking for the ends of a stream's ops */
    blink_result_t replayed = comm->on_gpu ? streams_replay_error(comm) : BLINK_OK;
    pthread_mutex_lock(&control->lock);
    if (replayed != BLINK_OK)
        await_loss(comm, replayed);
    *result = comm->async_result;
    if (*result != BLINK_OK)
        blink_error_set(*result, "%s", comm->async_text);
    else if (control->lost)
        *result = BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "the connection to the daemon is closed");
    pthread_mutex_unlock(&control->lock);
    blink_comm_t *graphs = graphs_of(comm);
    return *result == BLINK_OK && graphs ? blink_comm_async_error(graphs, result) : BLINK_OK;
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
    return tell(comm, comm ? comm->rank : 0, rank);
}

blink_result_t blink_comm_size(const blink_comm_t *comm, int *rank_count)
{
    return tell(comm, comm ? comm->rank_count : 0, rank_count);
}

blink_result_t blink_comm_device(const blink_comm_t *comm, int *device)
{
    return tell(comm, comm ? comm->device : 0, device);
}
