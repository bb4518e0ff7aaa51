/* Streams: their threads, and who waits for them. */
#include "standin/streams/stream.h"

#include "standin/memory/memory.h"

#include <stdlib.h>

pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    pthread_cond_t progress; /* something ended, or the process is lost */
    CUstream streams;        /* all, closed ones until they are empty */
    CUstream default_streams[STANDIN_GPUS_MAX];
    uint64_t op_count;
    uint64_t stream_count; /* that there ever were */
} all = {.progress = PTHREAD_COND_INITIALIZER};

void op_keep(const op_t *op)
{
    if (op->type->keep)
        op->type->keep(op);
}

void op_drop(const op_t *op)
{
    if (op->type->drop)
        op->type->drop(op);
}

void stream_wake(void)
{
    pthread_cond_broadcast(&all.progress);
}

void stream_sleep(void)
{
    pthread_cond_wait(&all.progress, &stream_lock);
}

void stream_lose(CUcontext context, CUresult error)
{
    standin_lose(context, error);
    pthread_mutex_lock(&stream_lock);
    stream_wake();
    pthread_mutex_unlock(&stream_lock);
}

CUstream stream_open(CUcontext context)
{
    CUstream stream = calloc(1, sizeof(*stream));
    if (!stream)
        return NULL;
    stream->id = ++all.stream_count;
    stream->context = context;
    pthread_cond_init(&stream->arrived, NULL);
    stream->next = all.streams;
    all.streams = stream;
    return stream;
}

static void free_stream(CUstream stream)
{
    CUstream *link = &all.streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_cond_destroy(&stream->arrived);
    free(stream);
}

void stream_close(CUstream stream)
{
    stream->is_closed = true;
    if (stream->has_thread)
        pthread_cond_signal(&stream->arrived); /* the thread frees it */
    else
        free_stream(stream);
}

/* Of all that a stream has not done yet. UINT64_MAX: nothing. */
static uint64_t oldest_number(const struct CUstream_st *stream)
{
    return stream->running ? stream->running : stream->first ? stream->first->number : UINT64_MAX;
}

/* Whether a stream of the same queue has to do something first (STANDIN_CUDA_QUEUES). */
static bool is_held_up(const struct CUstream_st *stream)
{
    const uint32_t queues = standin_settings()->queues;
    for (CUstream s = queues ? all.streams : NULL; s; s = s->next) {
        if (s != stream && s->context == stream->context && s->id % queues == stream->id % queues &&
            oldest_number(s) < oldest_number(stream))
            return true;
    }
    return false;
}

static op_t *take_first(CUstream stream)
{
    while (!stream->first && !stream->is_closed)
        pthread_cond_wait(&stream->arrived, &stream_lock);
    while (stream->first && is_held_up(stream))
        stream_sleep();
    op_t *op = stream->first;
    if (op) {
        stream->first = op->next;
        stream->queued--;
        stream->running = op->number;
    }
    return op;
}

/* What other threads map and unmap is ordered with what streams do by words that pass through other
 * processes, which race detectors do not see: here is where they do. */
static void settle_memory(void)
{
    pthread_mutex_lock(&memory_lock);
    pthread_mutex_unlock(&memory_lock);
}

static void *run_stream(void *argument)
{
    CUstream stream = argument;
    op_t *op;
    standin_use(stream->context);
    pthread_mutex_lock(&stream_lock);
    while ((op = take_first(stream))) {
        pthread_mutex_unlock(&stream_lock);
        if (standin_health() == CUDA_SUCCESS)
            settle_memory();
        op->type->run(op);
        settle_memory();
        op_drop(op);
        free(op);
        pthread_mutex_lock(&stream_lock);
        stream->running = 0;
        stream_wake();
    }
    free_stream(stream);
    pthread_mutex_unlock(&stream_lock);
    return NULL;
}

/* Detached: a process may end while its streams are blocked. */
static CUresult start_thread(CUstream stream)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, run_stream, stream);
    pthread_attr_destroy(&attributes);
    stream->has_thread = !error;
    return error ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUstream default_stream(CUcontext context)
{
    CUstream *stream = &all.default_streams[context->ordinal];
    if (!*stream)
        *stream = stream_open(context);
    return *stream;
}

CUresult stream_find(CUstream handle, CUstream *stream)
{
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        *stream = default_stream(standin_context());
        return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUstream found = all.streams;
    while (found && found != handle)
        found = found->next;
    *stream = found;
    return found && !found->is_closed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult stream_push(CUstream stream, const op_t *op)
{
    if (!stream->has_thread)
        STANDIN_TRY(start_thread(stream));
    op_t *copy = malloc(sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = *op;
    copy->next = NULL;
    copy->number = ++all.op_count;
    if (stream->first)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    stream->queued++;
    pthread_cond_signal(&stream->arrived);
    return CUDA_SUCCESS;
}

/* The stream, once it has room for an operation. With the lock held. */
static CUresult find_with_room(CUstream handle, CUstream *stream)
{
    const uint32_t depth = standin_settings()->depth;
    CUresult result = stream_find(handle, stream);
    while (result == CUDA_SUCCESS && depth > 0 && (*stream)->queued >= depth && !(*stream)->capture) {
        if ((result = standin_health_of((*stream)->context)) != CUDA_SUCCESS)
            return result;
        stream_sleep();
        result = stream_find(handle, stream);
    }
    return result;
}

CUresult stream_submit(CUstream handle, const op_t *op)
{
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = find_with_room(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = stream->capture ? capture_append(stream, op) : stream_push(stream, op);
    pthread_mutex_unlock(&stream_lock);
    if (result != CUDA_SUCCESS)
        op_drop(op);
    return result;
}

bool stream_is_captured(CUstream handle)
{
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    bool is_captured = stream_find(handle, &stream) == CUDA_SUCCESS && stream->capture;
    pthread_mutex_unlock(&stream_lock);
    return is_captured;
}

/* Whether something of a stream, or of any of a context, or of any at all (NULL both), is left that was
 * queued no later than `last`. */
static bool is_behind(CUcontext context, CUstream stream, uint64_t last)
{
    for (CUstream s = all.streams; s; s = s->next) {
        if (stream ? s != stream : context && s->context != context)
            continue;
        if (oldest_number(s) <= last)
            return true;
    }
    return false;
}

CUresult stream_await(CUcontext context, CUstream stream)
{
    pthread_mutex_lock(&stream_lock);
    uint64_t last = all.op_count;
    if (stream)
        context = stream->context;
    while (standin_health_of(context) == CUDA_SUCCESS && is_behind(context, stream, last))
        stream_sleep();
    CUresult health = standin_health_of(context);
    pthread_mutex_unlock(&stream_lock);
    return health;
}

CUresult stream_find_uncaptured(CUstream handle, CUstream *stream)
{
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, stream);
    if (result == CUDA_SUCCESS && (*stream)->capture)
        result = capture_refuse(*stream);
    pthread_mutex_unlock(&stream_lock);
    return result;
}

CUresult stream_submit_and_await(CUstream handle, const op_t *op)
{
    CUstream stream;
    CUresult result = stream_find_uncaptured(handle, &stream);
    if (result != CUDA_SUCCESS) {
        op_drop(op);
        return result;
    }
    STANDIN_TRY(stream_submit(stream, op));
    return stream_await(NULL, stream);
}

static CUresult create(CUstream *stream, unsigned int flags)
{
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&stream_lock);
    *stream = stream_open(standin_context());
    pthread_mutex_unlock(&stream_lock);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    STANDIN_ENTER(cuStreamCreate, CONTEXT);
    return create(stream, flags);
}

/* Streams run when the machine lets them, whatever their priority. None is wrong: what is out of range means
 * its nearer end. */
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    STANDIN_ENTER(cuStreamCreateWithPriority, CONTEXT);
    (void)priority;
    return create(stream, flags);
}

CUresult cuStreamDestroy(CUstream handle)
{
    STANDIN_ENTER(cuStreamDestroy, CONTEXT);
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && stream == default_stream(stream->context))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && stream->capture)
        result = capture_refuse(stream);
    if (result == CUDA_SUCCESS)
        stream_close(stream);
    pthread_mutex_unlock(&stream_lock);
    return result;
}

CUresult cuStreamQuery(CUstream handle)
{
    STANDIN_ENTER(cuStreamQuery, CONTEXT);
    CUstream stream;
    STANDIN_TRY(stream_find_uncaptured(handle, &stream));
    pthread_mutex_lock(&stream_lock);
    bool is_idle = !is_behind(NULL, stream, all.op_count);
    CUresult health = standin_health_of(stream->context);
    pthread_mutex_unlock(&stream_lock);
    STANDIN_TRY(health);
    return is_idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    STANDIN_ENTER(cuStreamSynchronize, CONTEXT);
    CUstream stream;
    STANDIN_TRY(stream_find_uncaptured(handle, &stream));
    return stream_await(NULL, stream);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    STANDIN_ENTER(cuStreamGetId, CONTEXT);
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS)
        *id = stream->id;
    pthread_mutex_unlock(&stream_lock);
    return result;
}

static void call_host(const op_t *op)
{
    op->host.function(op->host.argument);
}

static const op_type_t host_type = {.run = call_host};

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
    STANDIN_ENTER(cuLaunchHostFunc, CONTEXT);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_submit(handle, &(op_t){.type = &host_type, .host = {function, argument}});
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    STANDIN_ENTER(cuStreamGetCtx, CONTEXT);
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS)
        *context = stream->context;
    pthread_mutex_unlock(&stream_lock);
    return result;
}
