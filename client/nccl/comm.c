/* Communicators: handles, ids and options. */
#include "comm.h"

#include "home.h"

#include "unique_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NCCL's ops wait for ever: as long as can be told. Ranks may come late, but one that never comes is noticed.
 */
#define OP_TIMEOUT_MS   4000000000u
#define INIT_TIMEOUT_MS 600000u

/* How often who frees a communicator looks whether other threads have come out of their calls, which an abort
 * has ended. */
#define LOOK_US 100

/* ---- options ---- */

/* Whether a program's struct has the field. */
#define HAS(config, field) ((config)->struct_bytes >= offsetof(abi_config_t, field) + sizeof((config)->field))

/* A name is for people: what they could not read is left out of it. */
static void take_name(const char *given, nccl_options_t *options)
{
    size_t used = 0;
    for (; *given && used + 1 < sizeof(options->name); given++)
        options->name[used++] = *given > ' ' && *given < 0x7f ? *given : '_';
    options->name[used] = '\0';
    options->config.name = used > 0 ? options->name : NULL;
}

abi_result_t nccl_options_take(const abi_config_t *config, nccl_options_t *options)
{
    const char *limit = secure_getenv("BLINK_TIMEOUT");
    *options = (nccl_options_t){.config = BLINK_COMM_CONFIG_INIT, .is_blocking = true};
    options->config.op_timeout_ms = limit && *limit ? 0 : OP_TIMEOUT_MS; /* 0: what it says */
    options->config.init_timeout_ms = INIT_TIMEOUT_MS;
    if (!config)
        return ABI_SUCCESS;
    if (config->magic != ABI_MAGIC || !HAS(config, blocking))
        return nccl_fail(ABI_INVALID_ARGUMENT,
                         "the ncclConfig_t has not been initialised with NCCL_CONFIG_INITIALIZER");
    if (config->blocking != ABI_UNDEFINED && config->blocking != 0 && config->blocking != 1)
        return nccl_fail(ABI_INVALID_ARGUMENT, "blocking of the ncclConfig_t is %d, and neither 0 nor 1",
                         config->blocking);
    options->is_blocking = config->blocking != 0;
    if (HAS(config, comm_name) && config->comm_name)
        take_name(config->comm_name, options);
    return ABI_SUCCESS;
}

abi_result_t nccl_options_inherit(const nccl_comm_t *parent, const abi_config_t *config,
                                  nccl_options_t *options)
{
    NCCL_TRY(nccl_options_take(config, options));
    if (!config || config->blocking == ABI_UNDEFINED)
        options->is_blocking = parent->is_blocking;
    return ABI_SUCCESS;
}

/* ---- ids ---- */

static const char id_mark[16] = "blinkd nccl id 1";

abi_result_t nccl_id_read(const abi_unique_id_t *id, blink_unique_id_t *inner)
{
    if (memcmp(id->bytes, id_mark, sizeof(id_mark)) != 0)
        return nccl_fail(
            ABI_INVALID_ARGUMENT,
            "the ncclUniqueId is none of blinkd's libnccl.so.2: all ranks have to be run with it");
    memcpy(inner->bytes, id->bytes + sizeof(id_mark), sizeof(inner->bytes));
    return ABI_SUCCESS;
}

void nccl_id_write(const blink_unique_id_t *inner, abi_unique_id_t *id)
{
    *id = (abi_unique_id_t){0};
    memcpy(id->bytes, id_mark, sizeof(id_mark));
    memcpy(id->bytes + sizeof(id_mark), inner->bytes, sizeof(inner->bytes));
}

/* The finalizer of SplitMix64. */
static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

void nccl_id_derive(const blink_unique_id_t *from, nccl_line_t kind, uint64_t first, uint64_t second,
                    blink_unique_id_t *id)
{
    uint64_t halves[2], numbers = mix(mix(mix(kind + 1) ^ first) ^ second);
    *id = *from;
    memcpy(halves, id->bytes + UNIQUE_ID_HOME_BYTES, sizeof(halves));
    halves[0] = mix(halves[0] ^ numbers);
    halves[1] = mix(halves[1] ^ mix(numbers) ^ halves[0]);
    memcpy(id->bytes + UNIQUE_ID_HOME_BYTES, halves, sizeof(halves));
}

/* ---- handles ---- */

static nccl_comm_t *create(blink_context_t *context, const nccl_gpu_t *gpu, const blink_unique_id_t *line,
                           const nccl_options_t *options)
{
    nccl_comm_t *comm = calloc(1, sizeof(*comm));
    if (!comm) {
        (void)nccl_fail(ABI_SYSTEM_ERROR, "no memory for a communicator");
        return NULL;
    }
    comm->context = context;
    comm->gpu = *gpu;
    comm->line = *line;
    comm->is_blocking = options->is_blocking;
    pthread_mutex_init(&comm->lock, NULL);
    return comm;
}

/* Without the communicator of libblinkclient. */
static void release(nccl_comm_t *comm)
{
    nccl_home_put(comm->context);
    nccl_gpu_release(&comm->gpu);
    nccl_redops_fini(&comm->redops);
    free(comm->shrunk);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

static abi_result_t join(nccl_comm_t *comm, const blink_unique_id_t *id, const nccl_options_t *options)
{
    bool entered;
    NCCL_TRY(nccl_gpu_enter(&comm->gpu, &entered));
    blink_result_t result =
        blink_comm_init_begin(comm->context, id, comm->rank_count, comm->rank, &options->config, &comm->comm);
    nccl_gpu_leave(entered);
    return nccl_result(result);
}

abi_result_t nccl_comm_begin(const blink_unique_id_t *id, int rank_count, int rank,
                             const nccl_options_t *options, const nccl_gpu_t *gpu, nccl_comm_t **comm)
{
    blink_context_t *context;
    abi_result_t result = nccl_home_get(&context);
    if (result != ABI_SUCCESS) {
        nccl_gpu_release(gpu);
        return result;
    }
    nccl_comm_t *made = create(context, gpu, id, options);
    if (!made) {
        nccl_home_put(context);
        nccl_gpu_release(gpu);
        return ABI_SYSTEM_ERROR;
    }
    made->rank = rank;
    made->rank_count = rank_count;
    result = join(made, id, options);
    if (result == ABI_SUCCESS)
        *comm = made;
    else
        release(made);
    return result;
}

abi_result_t nccl_comm_wrap(const nccl_comm_t *parent, blink_comm_t *inner, const blink_unique_id_t *line,
                            const nccl_options_t *options, nccl_comm_t **comm)
{
    nccl_gpu_t gpu;
    nccl_comm_t *made = NULL;
    blink_context_t *context = NULL;
    if (nccl_gpu_again(&parent->gpu, &gpu) != ABI_SUCCESS)
        goto destroy;
    if (nccl_home_get(&context) != ABI_SUCCESS)
        goto release_gpu;
    made = create(context, &gpu, line, options);
    if (!made)
        goto put_home;
    made->comm = inner;
    (void)blink_comm_rank(inner, &made->rank); /* neither can fail for a communicator that is ready */
    (void)blink_comm_size(inner, &made->rank_count);
    *comm = made;
    return ABI_SUCCESS;
put_home:
    nccl_home_put(context);
release_gpu:
    nccl_gpu_release(&gpu);
destroy:
    (void)blink_comm_destroy(inner);
    return ABI_SYSTEM_ERROR;
}

static abi_result_t await_ready(nccl_comm_t *comm)
{
    bool ready;
    return nccl_result(blink_comm_init_wait(comm->comm, UINT_MAX, &ready));
}

abi_result_t nccl_comm_await(nccl_comm_t *comm)
{
    abi_result_t result = await_ready(comm);
    bool frees = result != ABI_SUCCESS && !atomic_exchange(&comm->is_leaving, true);
    nccl_comm_leave(comm);
    if (!frees)
        return result;
    nccl_comm_await_calls(comm);
    (void)nccl_comm_discard(comm); /* nothing is left of it to fail with */
    return result;
}

abi_result_t nccl_comm_discard(nccl_comm_t *comm)
{
    blink_result_t result = blink_comm_destroy(comm->comm);
    /* A lost daemon needs no leaving. */
    abi_result_t told = result == BLINK_ERR_DAEMON_LOST ? ABI_SUCCESS : nccl_result(result);
    release(comm);
    return told;
}

/* ---- calls ---- */

abi_result_t nccl_comm_enter_any_time(nccl_comm_t *comm, const char *call)
{
    if (!comm)
        return nccl_fail(ABI_INVALID_ARGUMENT, "%s: comm is NULL", call);
    /* Sequentially consistent, as in nccl_comm_close(): of a call and an abort one sees the other. */
    nccl_comm_enter_again(comm);
    if (!atomic_load(&comm->is_leaving))
        return ABI_SUCCESS;
    nccl_comm_leave(comm);
    return nccl_fail(ABI_INVALID_USAGE, "%s: the communicator is being aborted or destroyed", call);
}

abi_result_t nccl_comm_enter(nccl_comm_t *comm, const char *call)
{
    NCCL_TRY(nccl_comm_enter_any_time(comm, call));
    abi_result_t result = nccl_comm_check_idle(comm, call);
    if (result != ABI_SUCCESS)
        nccl_comm_leave(comm);
    return result;
}

void nccl_comm_enter_again(nccl_comm_t *comm)
{
    atomic_fetch_add(&comm->users, 1);
}

void nccl_comm_leave(nccl_comm_t *comm)
{
    atomic_fetch_sub(&comm->users, 1);
}

abi_result_t nccl_comm_close(nccl_comm_t *comm, const char *call)
{
    if (atomic_exchange(&comm->is_leaving, true))
        return nccl_fail(ABI_INVALID_USAGE, "%s: the communicator is being aborted or destroyed", call);
    return ABI_SUCCESS;
}

void nccl_comm_await_calls(nccl_comm_t *comm)
{
    while (atomic_load(&comm->users) > 0)
        (void)usleep(LOOK_US);
}

/* ---- calls that go on after they have returned ---- */

void nccl_comm_go_on(nccl_comm_t *comm)
{
    atomic_fetch_add(&comm->backgrounds, 1);
}

void nccl_comm_end(nccl_comm_t *comm, abi_result_t outcome)
{
    pthread_mutex_lock(&comm->lock);
    comm->outcome = outcome;
    snprintf(comm->outcome_text, sizeof(comm->outcome_text), "%s", nccl_sentence());
    pthread_mutex_unlock(&comm->lock);
    atomic_fetch_sub(&comm->backgrounds, 1);
}

abi_result_t nccl_comm_check_idle(nccl_comm_t *comm, const char *call)
{
    if (atomic_load(&comm->backgrounds) == 0)
        return ABI_SUCCESS;
    return nccl_fail(ABI_INVALID_ARGUMENT,
                     "%s: another call with the communicator, which does not block, goes on: "
                     "ncclCommGetAsyncError() says when it has ended",
                     call);
}

abi_result_t nccl_comm_outcome(nccl_comm_t *comm)
{
    if (atomic_load(&comm->backgrounds) > 0)
        return ABI_IN_PROGRESS;
    pthread_mutex_lock(&comm->lock);
    abi_result_t outcome = comm->outcome;
    if (outcome != ABI_SUCCESS)
        (void)nccl_fail(outcome, "%s", comm->outcome_text);
    pthread_mutex_unlock(&comm->lock);
    return outcome;
}

/* ---- communicators that are being made of others ---- */

static void add_child(nccl_comm_t *parent, nccl_comm_t *child)
{
    pthread_mutex_lock(&parent->lock);
    child->next_of_parent = parent->joining;
    parent->joining = child;
    pthread_mutex_unlock(&parent->lock);
}

static void remove_child(nccl_comm_t *parent, nccl_comm_t *child)
{
    pthread_mutex_lock(&parent->lock);
    nccl_comm_t **link = &parent->joining;
    while (*link != child)
        link = &(*link)->next_of_parent;
    *link = child->next_of_parent;
    pthread_mutex_unlock(&parent->lock);
}

/* Who aborts the parent finds the child, or is found here: it closes the parent first. */
abi_result_t nccl_comm_await_child(nccl_comm_t *parent, nccl_comm_t *child)
{
    add_child(parent, child);
    if (atomic_load(&parent->is_leaving))
        (void)blink_comm_abort(child->comm);
    abi_result_t result = await_ready(child);
    remove_child(parent, child);
    if (result != ABI_SUCCESS)
        (void)nccl_comm_discard(child);
    return result;
}

void nccl_comm_abort_children(nccl_comm_t *comm)
{
    pthread_mutex_lock(&comm->lock);
    for (nccl_comm_t *child = comm->joining; child; child = child->next_of_parent)
        (void)blink_comm_abort(child->comm);
    pthread_mutex_unlock(&comm->lock);
}
