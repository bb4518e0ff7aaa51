/* Joining, leaving, and what became of communicators. */
#include "context/comm.h"

#include "base/clock.h"
#include "names.h"
#include "submit/wait.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long the daemon's word on a failed replay may take. */
#define LOSS_WAIT_NS UINT64_C(5000000000)

#define TIMEOUT_TEXT_BYTES 48

/* ---- joining ---- */

/* All ranks have joined (connection_accepted_t). */
static void joined(void *owner, const Blinkwire__Reply *reply)
{
    blink_comm_t *comm = owner;
    const Blinkwire__CommInitReply *given = reply->comm_init;
    if (reply->body_case != BLINKWIRE__REPLY__BODY_COMM_INIT)
        return;
    comm->member = comm->streams.member = given->member;
    comm->spans_hosts = given->spans_hosts;
    comm->queue.rank.comm = given->comm;
    redops_tag(&comm->redops, comm->member);
    comm->gpu.device = given->device;
    comm->gpu.is_gpu = given->gpu_uuid.len == sizeof(comm->gpu.uuid);
    if (comm->gpu.is_gpu)
        memcpy(comm->gpu.uuid, given->gpu_uuid.data, sizeof(comm->gpu.uuid));
}

/* One that is not the daemon's. */
static const char *say_timeout(const char *what, unsigned int timeout_ms, char text[TIMEOUT_TEXT_BYTES])
{
    text[0] = '\0';
    if (timeout_ms > 0)
        snprintf(text, TIMEOUT_TEXT_BYTES, ", %s time-out %.10g s", what, timeout_ms / 1e3);
    return text;
}

static void tell_joined(const blink_comm_t *comm)
{
    char op[TIMEOUT_TEXT_BYTES], init[TIMEOUT_TEXT_BYTES];
    const blink_comm_config_t config = comm_config(comm);
    debug_line(&comm->queue.rank, "joined as rank %u of %u on %s: device %u (%s), algorithm %s%s%s",
               comm->rank, comm->rank_count, comm->spans_hosts ? "several hosts" : "one host",
               comm->gpu.device, comm->gpu.is_gpu ? "GPU" : "host", blink_name_algorithm(config.algorithm),
               say_timeout("op", config.op_timeout_ms, op),
               say_timeout("init", config.init_timeout_ms, init));
}

static void ask_to_join(blink_comm_t *comm, const comm_parent_t *parent, const blink_comm_config_t *config)
{
    Blinkwire__CommInit body = BLINKWIRE__COMM_INIT__INIT;
    body.unique_id.data = comm->id.bytes;
    body.unique_id.len = sizeof(comm->id.bytes);
    body.rank_count = comm->rank_count;
    body.rank = comm->rank;
    body.device = config->device;
    body.algorithm = (uint32_t)config->algorithm;
    body.op_timeout_ms = config->op_timeout_ms;
    body.init_timeout_ms = config->init_timeout_ms;
    body.name = comm->name;
    body.parent = parent->comm ? parent->comm->member : 0;
    body.parent_ranks = (uint32_t *)(uintptr_t)parent->ranks; /* only read */
    body.n_parent_ranks = parent->ranks ? comm->rank_count : 0;
    body.of_survivors = parent->of_survivors;
    uint8_t uuid[GPU_UUID_BYTES];
    if (gpus_current_uuid(&comm->context->gpus, uuid) && config->device < 0) {
        body.gpu_uuid.data = uuid;
        body.gpu_uuid.len = sizeof(uuid);
    }
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_INIT;
    request.comm_init = &body;
    connection_ask_in_order(&comm->context->connection, &request, joined, comm, &comm->join);
}

static void link_comm(blink_comm_t *comm)
{
    pthread_mutex_lock(&comm->context->connection.lock);
    list_prepend(&comm->context->comms, &comm->of_context);
    pthread_mutex_unlock(&comm->context->connection.lock);
}

static void unlink_comm(blink_comm_t *comm)
{
    pthread_mutex_lock(&comm->context->connection.lock);
    list_remove(&comm->of_context);
    pthread_mutex_unlock(&comm->context->connection.lock);
}

void comm_free(blink_comm_t *comm)
{
    if (comm_phase(comm) == COMM_JOINING)
        (void)connection_await(&comm->context->connection, &comm->join); /* not sent, or closed: at once */
    stream_rank_fini(&comm->streams);
    redops_fini(&comm->redops);
    pthread_mutex_destroy(&comm->graphs_lock);
    pthread_mutex_destroy(&comm->join_lock);
    free(comm);
}

/* A communicator that was never ready. */
static void discard(blink_comm_t *comm)
{
    (void)ops_queue_remove(&comm->context->ops, &comm->queue); /* nothing was submitted: it is idle */
    unlink_comm(comm);
    comm_free(comm);
}

/* The first failure is the communicator's own. */
static void note_failure(blink_comm_t *comm, blink_result_t result, const char *text)
{
    pthread_mutex_lock(&comm->context->connection.lock);
    if (comm->async_result == BLINK_OK) {
        comm->async_result = result;
        snprintf(comm->async_text, sizeof(comm->async_text), "%s", text);
    }
    pthread_mutex_unlock(&comm->context->connection.lock);
}

/* While streams wait for ranks that are threads of this process, CUDA may hold up who locks memory until
 * those streams go on. So it is locked here, before any op. */
static void prepare_gpu(blink_comm_t *comm)
{
    gpu_visit_t visit;
    gpu_t *gpu = rank_gpu_find(&comm->gpu);
    if (!gpu || gpu_enter(gpu, &visit) != BLINK_OK)
        return;
    stream_rank_prepare(&comm->streams, gpu);
    staging_prepare(&comm->context->ops.staging, gpu);
    gpu_leave(&visit);
}

/* Wait for the daemon's answer and take it in, if no other thread has. */
static void end_joining(blink_comm_t *comm)
{
    pthread_mutex_lock(&comm->join_lock);
    if (comm_phase(comm) == COMM_JOINING) {
        blink_result_t result = connection_await(&comm->context->connection, &comm->join);
        if (result == BLINK_OK && comm->member == 0)
            result =
                BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon let rank %u join but gave no handle", comm->rank);
        if (result == BLINK_OK)
            prepare_gpu(comm);
        else
            note_failure(comm, result, blink_error_text());
        /* Release: pairs with the load in comm_phase(). */
        atomic_store_explicit(&comm->phase, result == BLINK_OK ? COMM_READY : COMM_FAILED,
                              memory_order_release);
        if (result == BLINK_OK && debug_informs())
            tell_joined(comm);
    }
    pthread_mutex_unlock(&comm->join_lock);
}

blink_result_t comm_join(blink_context_t *context, const comm_parent_t *parent, const blink_unique_id_t *id,
                         uint32_t rank_count, uint32_t rank, const blink_comm_config_t *config,
                         blink_comm_t **comm)
{
    blink_comm_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator");
    created->context = context;
    atomic_init(&created->phase, COMM_JOINING);
    created->rank = rank;
    created->rank_count = rank_count;
    created->id = *id;
    snprintf(created->name, sizeof(created->name), "%s", config->name ? config->name : "");
    created->algorithm = config->algorithm;
    atomic_init(&created->op_timeout_ms, config->op_timeout_ms);
    created->init_timeout_ms = config->init_timeout_ms;
    created->gpu.gpus = &context->gpus;
    created->gpu.rank = rank;
    list_init(&created->of_context);
    pthread_mutex_init(&created->join_lock, NULL);
    pthread_mutex_init(&created->graphs_lock, NULL);
    redops_init(&created->redops);
    stream_rank_init(&created->streams, &context->streams, &created->gpu);
    ops_queue_add(&context->ops, &created->queue);
    created->queue.rank = (debug_rank_t){.rank = rank, .comm_name = created->name};
    link_comm(created);
    ask_to_join(created, parent, config);
    blink_result_t result = created->join.sent;
    if (result == BLINK_OK) {
        *comm = created;
        return BLINK_OK;
    }
    discard(created);
    return result;
}

/* How a communicator that is not ready has failed. */
static blink_result_t failure_to_join(blink_comm_t *comm)
{
    pthread_mutex_lock(&comm->context->connection.lock);
    blink_result_t result = blink_error_set(comm->async_result, "%s", comm->async_text);
    pthread_mutex_unlock(&comm->context->connection.lock);
    return result;
}

blink_result_t comm_await_ready(blink_comm_t *comm, unsigned int timeout_ms, bool *ready)
{
    *ready = false;
    if (comm_phase(comm) == COMM_JOINING) {
        struct timespec deadline = clock_in_ns(timeout_ms * UINT64_C(1000000));
        if (!connection_await_until(&comm->context->connection, &comm->join,
                                    timeout_ms == UINT_MAX ? NULL : &deadline))
            return BLINK_OK;
        end_joining(comm);
    }
    if (comm_phase(comm) == COMM_FAILED)
        return failure_to_join(comm);
    *ready = true;
    return BLINK_OK;
}

blink_result_t comm_finish_joining(blink_comm_t *joining, blink_comm_t **comm)
{
    bool ready;
    blink_result_t result = comm_await_ready(joining, UINT_MAX, &ready);
    if (result == BLINK_OK)
        *comm = joining;
    else
        discard(joining);
    return result;
}

blink_result_t comm_create(blink_context_t *context, const comm_parent_t *parent, const blink_unique_id_t *id,
                           uint32_t rank_count, uint32_t rank, const blink_comm_config_t *config,
                           blink_comm_t **comm)
{
    blink_comm_t *joining;
    BLINK_TRY(comm_join(context, parent, id, rank_count, rank, config, &joining));
    return comm_finish_joining(joining, comm);
}

blink_result_t comm_check_ready(const blink_comm_t *comm, const char *call)
{
    comm_phase_t phase = comm_phase(comm);
    if (phase == COMM_JOINING)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s: rank %u is still joining: blink_comm_init_wait() says when all have joined",
                          call, comm->rank);
    if (phase == COMM_FAILED)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s: rank %u has failed to join: its handle can only be destroyed", call,
                          comm->rank);
    return BLINK_OK;
}

blink_comm_config_t comm_config(const blink_comm_t *comm)
{
    return (blink_comm_config_t){.struct_bytes = sizeof(blink_comm_config_t),
                                 .device = (int)comm->gpu.device,
                                 .algorithm = comm->algorithm,
                                 /* Relaxed: a number by itself, as its store is. */
                                 .op_timeout_ms =
                                     atomic_load_explicit(&comm->op_timeout_ms, memory_order_relaxed),
                                 .init_timeout_ms = comm->init_timeout_ms,
                                 .name = comm->name};
}

/* ---- for graphs ---- */

/* The ranks gather at the same home. A nonce of which some bits are flipped is no easier to guess. */
static blink_unique_id_t id_for_graphs(const blink_comm_t *comm)
{
    blink_unique_id_t id = comm->id;
    for (size_t i = UNIQUE_ID_HOME_BYTES; i < sizeof(id.bytes); i++)
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
        const blink_comm_config_t config = comm_config(comm);
        result = comm_create(comm->context, &(comm_parent_t){.comm = comm}, &id, comm->rank_count, comm->rank,
                             &config, graphs);
        if (result == BLINK_OK)
            atomic_store_explicit(&comm->graphs, *graphs, memory_order_release);
    }
    pthread_mutex_unlock(&comm->graphs_lock);
    return result;
}

/* ---- time-outs ---- */

blink_result_t comm_set_timeout(blink_comm_t *comm, unsigned int op_timeout_ms)
{
    Blinkwire__CommTimeout body = BLINKWIRE__COMM_TIMEOUT__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    blink_comm_t *graphs = graphs_of(comm);
    if (graphs)
        BLINK_TRY(comm_set_timeout(graphs, op_timeout_ms));
    body.member = comm->member;
    body.op_timeout_ms = op_timeout_ms;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_TIMEOUT;
    request.comm_timeout = &body;
    BLINK_TRY(connection_call(&comm->context->connection, &request, NULL, 0, NULL));
    atomic_store_explicit(&comm->op_timeout_ms, op_timeout_ms, memory_order_relaxed);
    return BLINK_OK;
}

/* ---- leaving ---- */

static blink_result_t send_about(blink_comm_t *comm, Blinkwire__Request__BodyCase what)
{
    Blinkwire__CommDestroy destroy = BLINKWIRE__COMM_DESTROY__INIT;
    Blinkwire__CommAbort abort_ = BLINKWIRE__COMM_ABORT__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    destroy.member = abort_.member = comm->member;
    request.body_case = what;
    if (what == BLINKWIRE__REQUEST__BODY_COMM_DESTROY)
        request.comm_destroy = &destroy;
    else
        request.comm_abort = &abort_;
    return connection_call(&comm->context->connection, &request, NULL, 0, NULL);
}

/* Have the joining of all ranks fail, unless they have joined by now: the phase says. Errors: what the daemon
 * answers; NO_MEMORY, SYSTEM (the daemon does not know: the rank is still joining). */
static blink_result_t give_up(blink_comm_t *comm)
{
    Blinkwire__CommGiveUp body = BLINKWIRE__COMM_GIVE_UP__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    body.request = comm->join.id;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_GIVE_UP;
    request.comm_give_up = &body;
    blink_result_t result = connection_call(&comm->context->connection, &request, NULL, 0, NULL);
    /* The daemon has answered the CommInit by now, or, if it stops, is about to; a lost one never will. */
    if (result == BLINK_OK || result == BLINK_ERR_DAEMON_LOST)
        end_joining(comm);
    if (result == BLINK_OK && comm_phase(comm) == COMM_FAILED && debug_informs())
        debug_line(&comm->queue.rank, "gave up as rank %u of %u", comm->rank, comm->rank_count);
    return result;
}

/* A communicator that has been ready. */
static blink_result_t leave(blink_comm_t *comm)
{
    ops_t *ops = &comm->context->ops;
    blink_comm_t *graphs = graphs_of(comm);
    if (graphs)
        (void)comm_destroy(graphs); /* what it may say of the daemon is said again below */
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
    if (debug_informs())
        debug_line(&comm->queue.rank, "left");
    unlink_comm(comm);
    comm_free(comm);
    return result;
}

static void count_aborting(blink_comm_t *comm, int more)
{
    connection_t *connection = &comm->context->connection;
    pthread_mutex_lock(&connection->lock);
    comm->aborting += more;
    pthread_cond_broadcast(&connection->changed);
    pthread_mutex_unlock(&connection->lock);
}

/* Until no thread aborts any more: who heard that the communicator is aborted may be here first. */
static void await_aborting(blink_comm_t *comm)
{
    connection_t *connection = &comm->context->connection;
    pthread_mutex_lock(&connection->lock);
    while (comm->aborting > 0)
        pthread_cond_wait(&connection->changed, &connection->lock);
    pthread_mutex_unlock(&connection->lock);
}

blink_result_t comm_destroy(blink_comm_t *comm)
{
    /* If all have joined by now, then nobody has been told here: the others hear of it at once, too. */
    blink_result_t result = comm_phase(comm) == COMM_JOINING ? comm_abort(comm) : BLINK_OK;
    await_aborting(comm);
    if (comm_phase(comm) == COMM_JOINING)
        return result;
    if (comm_phase(comm) != COMM_FAILED)
        return leave(comm);
    discard(comm);
    return result;
}

/* Counted: the handle is not freed before. */
static blink_result_t abort_counted(blink_comm_t *comm)
{
    if (comm_phase(comm) == COMM_JOINING)
        BLINK_TRY(give_up(comm));
    if (comm_phase(comm) == COMM_FAILED)
        return BLINK_OK;
    blink_comm_t *graphs = graphs_of(comm);
    if (graphs)
        BLINK_TRY(send_about(graphs, BLINKWIRE__REQUEST__BODY_COMM_ABORT));
    BLINK_TRY(send_about(comm, BLINKWIRE__REQUEST__BODY_COMM_ABORT));
    if (debug_informs())
        debug_line(&comm->queue.rank, "aborted");
    return BLINK_OK;
}

blink_result_t comm_abort(blink_comm_t *comm)
{
    count_aborting(comm, 1);
    blink_result_t result = abort_counted(comm);
    count_aborting(comm, -1);
    return result;
}

/* ---- what became of it ---- */

void comm_op_ended(void *queue, blink_result_t result, const char *text)
{
    blink_comm_t *comm = CONTAINER_OF((ops_queue_t *)queue, blink_comm_t, queue);
    if (result != BLINK_OK)
        note_failure(comm, result, text);
}

/* Under connection.lock. */
static void note_loss(blink_comm_t *comm, const Blinkwire__CommLost *event)
{
    if (comm->member != event->member || comm->async_result != BLINK_OK)
        return;
    uint32_t code = event->error ? event->error->code : BLINK_OK;
    bool known = code != BLINK_OK && code <= BLINK_ERR_INTERNAL;
    comm->async_result = known ? (blink_result_t)code : BLINK_ERR_INTERNAL;
    snprintf(comm->async_text, sizeof(comm->async_text), "%s", event->error ? event->error->text : "");
    if (debug_informs())
        debug_line(&comm->queue.rank, "is of no more use: %s: %s",
                   blink_name_result_constant(comm->async_result), comm->async_text);
}

void comms_lost(blink_context_t *context, const Blinkwire__CommLost *event)
{
    pthread_mutex_lock(&context->connection.lock);
    LIST_FOR_EACH (link, &context->comms)
        note_loss(CONTAINER_OF(link, blink_comm_t, of_context), event);
    pthread_cond_broadcast(&context->connection.changed);
    pthread_mutex_unlock(&context->connection.lock);
}

bool comms_have_graphs(blink_context_t *context)
{
    bool found = false;
    pthread_mutex_lock(&context->connection.lock);
    LIST_FOR_EACH (link, &context->comms)
        found = found || graphs_of(CONTAINER_OF(link, blink_comm_t, of_context));
    pthread_mutex_unlock(&context->connection.lock);
    return found;
}

/* A replay has failed, of which the daemon tells more: until then. Under connection.lock. */
static void await_loss(blink_comm_t *comm, blink_result_t replayed)
{
    connection_t *connection = &comm->context->connection;
    struct timespec deadline = clock_in_ns(LOSS_WAIT_NS);
    while (comm->async_result == BLINK_OK && !connection->lost) {
        if (pthread_cond_timedwait(&connection->changed, &connection->lock, &deadline) != ETIMEDOUT)
            continue;
        comm->async_result = replayed;
        snprintf(comm->async_text, sizeof(comm->async_text), "a replayed op failed");
    }
}

blink_result_t comm_state(blink_comm_t *comm)
{
    connection_t *connection = &comm->context->connection;
    bool ready;
    BLINK_TRY(comm_await_ready(comm, 0, &ready));
    if (!ready)
        return BLINK_OK;
    if (comm->gpu.is_gpu)
        ops_progress(&comm->context->ops,
                     true); /* nobody else may be looking for the ends of a stream's ops */
    blink_result_t replayed = comm->gpu.is_gpu ? stream_rank_replay_error(&comm->streams) : BLINK_OK;
    pthread_mutex_lock(&connection->lock);
    if (replayed != BLINK_OK)
        await_loss(comm, replayed);
    blink_result_t state = comm->async_result;
    if (state != BLINK_OK)
        blink_error_set(state, "%s", comm->async_text);
    else if (connection->lost)
        state = connection_lost_error(connection);
    pthread_mutex_unlock(&connection->lock);
    blink_comm_t *graphs = graphs_of(comm);
    return state == BLINK_OK && graphs ? comm_state(graphs) : state;
}
