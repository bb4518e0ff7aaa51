/* Markers, and the events that are made of them. */
#include "standin/streams/stream.h"

#include <stdlib.h>
#include <time.h>

static CUevent events; /* all; under stream_lock */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

marker_t *marker_create(void)
{
    marker_t *marker = calloc(1, sizeof(*marker));
    if (marker)
        marker->references = 1;
    return marker;
}

marker_t *marker_get(marker_t *marker)
{
    marker->references++;
    return marker;
}

void marker_put(marker_t *marker)
{
    if (marker && --marker->references == 0)
        free(marker);
}

static void drop_marker(const op_t *op)
{
    pthread_mutex_lock(&stream_lock);
    marker_put(op->marker);
    pthread_mutex_unlock(&stream_lock);
}

static void reach(const op_t *op)
{
    pthread_mutex_lock(&stream_lock);
    op->marker->reached_ns = now_ns();
    op->marker->reached = true;
    stream_wake();
    pthread_mutex_unlock(&stream_lock);
}

static void await(const op_t *op)
{
    pthread_mutex_lock(&stream_lock);
    while (!op->marker->reached && standin_health() == CUDA_SUCCESS)
        stream_sleep();
    pthread_mutex_unlock(&stream_lock);
}

/* Captures and graphs have nodes of their own for these: never copied. */
static const op_type_t reach_type = {.run = reach, .drop = drop_marker};
static const op_type_t await_type = {.run = await, .drop = drop_marker};

op_t marker_reach_op(marker_t *marker)
{
    return (op_t){.type = &reach_type, .marker = marker};
}

op_t marker_await_op(marker_t *marker)
{
    return (op_t){.type = &await_type, .marker = marker};
}

/* The link that holds an event, or the NULL at the end. */
static CUevent *find_link(CUevent event)
{
    CUevent *link = &events;
    while (*link && *link != event)
        link = &(*link)->next;
    return link;
}

static bool is_event(CUevent event)
{
    return event && *find_link(event);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    STANDIN_ENTER(cuEventCreate, CONTEXT);
    if (!event || flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE; /* those between processes too */
    CUevent made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->context = standin_context();
    made->flags = flags;
    pthread_mutex_lock(&stream_lock);
    made->next = events;
    events = made;
    pthread_mutex_unlock(&stream_lock);
    *event = made;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    STANDIN_ENTER(cuEventDestroy, HEALTH);
    pthread_mutex_lock(&stream_lock);
    bool is_one = is_event(event);
    if (is_one) {
        *find_link(event) = event->next;
        marker_put(event->marker);
        free(event);
    }
    pthread_mutex_unlock(&stream_lock);
    return is_one ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Queue the reaching of a new marker, the event's from now on. */
static CUresult record(CUevent event, CUstream stream)
{
    marker_t *marker = marker_create();
    if (!marker)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op_t op = marker_reach_op(marker_get(marker));
    CUresult result = stream_push(stream, &op);
    if (result != CUDA_SUCCESS) {
        marker_put(marker);
        marker_put(marker);
        return result;
    }
    marker_put(event->marker);
    event->marker = marker;
    event->capture_number = 0;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    STANDIN_ENTER(cuEventRecord, CONTEXT);
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = is_event(event) ? stream_find(handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && stream->context != event->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        result = stream->capture ? capture_record(stream, event) : record(event, stream);
    pthread_mutex_unlock(&stream_lock);
    return result;
}

static CUresult wait_for(CUstream stream, CUevent event)
{
    if (!event->marker)
        return CUDA_SUCCESS; /* never recorded */
    op_t op = marker_await_op(marker_get(event->marker));
    CUresult result = stream_push(stream, &op);
    if (result != CUDA_SUCCESS)
        marker_put(event->marker);
    return result;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    STANDIN_ENTER(cuStreamWaitEvent, CONTEXT);
    if (flags)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = is_event(event) ? stream_find(handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        result =
            stream->capture || event->capture_number ? capture_await(stream, event) : wait_for(stream, event);
    pthread_mutex_unlock(&stream_lock);
    return result;
}

/* Whether what was recorded has happened; with stream_lock held. */
static CUresult query(CUevent event)
{
    if (!is_event(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture_number)
        return CUDA_ERROR_CAPTURED_EVENT;
    return !event->marker || event->marker->reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventQuery(CUevent event)
{
    STANDIN_ENTER(cuEventQuery, HEALTH);
    pthread_mutex_lock(&stream_lock);
    CUresult result = query(event);
    pthread_mutex_unlock(&stream_lock);
    return result;
}

/* With stream_lock held. */
static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
    CUresult started = query(start), ended = query(end);
    if (started != CUDA_SUCCESS)
        return started;
    if (ended != CUDA_SUCCESS)
        return ended;
    if (!start->marker || !end->marker || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((double)(int64_t)(end->marker->reached_ns - start->marker->reached_ns) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    STANDIN_ENTER(cuEventElapsedTime, HEALTH);
    pthread_mutex_lock(&stream_lock);
    CUresult result = elapsed(milliseconds, start, end);
    pthread_mutex_unlock(&stream_lock);
    return result;
}
