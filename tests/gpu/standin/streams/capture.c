/* Capturing streams into graphs. */
#include "standin/streams/graph.h"

#include <stdlib.h>

typedef struct capture {
    struct capture *next;
    uint64_t number;
    pthread_t thread; /* that began it */
    CUstreamCaptureMode mode;
    bool is_invalid;
    CUgraph graph;
    CUstream streams[GRAPH_LANES_MAX]; /* by lane */
} capture_t;

static struct {
    capture_t *captures;
    uint64_t count; /* that there ever were */
} all;              /* under stream_lock */

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Whether this thread's unsafe calls end a capture. */
static bool is_harmed(const capture_t *capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (pthread_equal(capture->thread, pthread_self()))
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_check_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&stream_lock);
    for (capture_t *capture = all.captures; capture; capture = capture->next) {
        if (is_harmed(capture)) {
            capture->is_invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&stream_lock);
    return result;
}

CUresult capture_refuse(CUstream stream)
{
    stream->capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult append(CUstream stream, const graph_node_t *node)
{
    if (stream->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return graph_append(stream->capture->graph, node);
}

CUresult capture_append(CUstream stream, const op_t *op)
{
    stream->is_joined = false;
    return append(stream, &(graph_node_t){.kind = GRAPH_OP, .lane = stream->lane, .op = *op});
}

CUresult capture_record(CUstream stream, CUevent event)
{
    capture_t *capture = stream->capture;
    unsigned marker = capture->graph->body.marker_count;
    STANDIN_TRY(append(stream, &(graph_node_t){GRAPH_REACH, .lane = stream->lane, .marker = marker}));
    capture->graph->body.marker_count++;
    event->capture_number = capture->number;
    event->capture_stream = stream;
    event->capture_marker = marker;
    return CUDA_SUCCESS;
}

static capture_t *find_capture(uint64_t number)
{
    capture_t *capture = all.captures;
    while (capture && capture->number != number)
        capture = capture->next;
    return capture;
}

/* A stream that is not captured waits for one that is: it belongs to that capture from now on. */
static CUresult join(CUstream stream, capture_t *capture)
{
    graph_body_t *body = &capture->graph->body;
    if (body->lane_count == GRAPH_LANES_MAX)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream->capture = capture;
    stream->lane = body->lane_count;
    stream->is_joined = false;
    capture->streams[body->lane_count] = stream;
    body->lanes[body->lane_count++] = stream->context;
    return CUDA_SUCCESS;
}

CUresult capture_await(CUstream stream, CUevent event)
{
    if (!event->capture_number && !event->marker)
        return CUDA_SUCCESS; /* never recorded */
    if (!event->capture_number) {
        stream->capture->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    capture_t *capture = find_capture(event->capture_number);
    if (!capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (stream->capture && stream->capture != capture) {
        stream->capture->is_invalid = capture->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream->capture)
        STANDIN_TRY(join(stream, capture));
    if (event->capture_stream != stream)
        event->capture_stream->is_joined = true;
    stream->is_joined = false;
    return append(stream,
                  &(graph_node_t){GRAPH_AWAIT, .lane = stream->lane, .marker = event->capture_marker});
}

/* With stream_lock held. */
static CUresult begin(CUstream stream, CUcontext context, CUstreamCaptureMode mode)
{
    capture_t *capture = calloc(1, sizeof(*capture));
    CUgraph graph = graph_create(context);
    if (!capture || !graph) {
        free(capture);
        free(graph);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (capture_t){.number = ++all.count, .thread = pthread_self(), .mode = mode, .graph = graph};
    capture->streams[0] = stream;
    capture->next = all.captures;
    all.captures = capture;
    stream->capture = capture;
    stream->lane = 0;
    return CUDA_SUCCESS;
}

static bool is_default(CUstream handle)
{
    return !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
    STANDIN_ENTER(cuStreamBeginCapture, CONTEXT);
    if (is_default(handle))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = stream->capture ? CUDA_ERROR_ILLEGAL_STATE : begin(stream, stream->context, mode);
    pthread_mutex_unlock(&stream_lock);
    return result;
}

/* Whether a capture may end at a stream, by this thread. */
static CUresult check_end(CUstream stream)
{
    const capture_t *capture = stream->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream != capture->streams[0])
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return CUDA_SUCCESS;
}

/* Set the streams free, and say what became of the capture. The graph remains. */
static CUresult end(capture_t *capture)
{
    bool is_joined = true;
    for (unsigned i = 0; i < capture->graph->body.lane_count; i++) {
        is_joined &= i == 0 || capture->streams[i]->is_joined;
        capture->streams[i]->capture = NULL;
    }
    capture_t **link = &all.captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    if (capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return is_joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    STANDIN_ENTER(cuStreamEndCapture, CONTEXT);
    CUstream stream;
    *graph = NULL;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = check_end(stream);
    capture_t *capture = result == CUDA_SUCCESS ? stream->capture : NULL;
    if (capture)
        result = end(capture);
    pthread_mutex_unlock(&stream_lock);
    if (capture && result == CUDA_SUCCESS)
        *graph = capture->graph;
    else if (capture)
        graph_destroy(capture->graph);
    free(capture);
    return result;
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    STANDIN_ENTER(cuStreamIsCapturing, CONTEXT);
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS)
        *status = status_of(stream);
    pthread_mutex_unlock(&stream_lock);
    return result;
}

/* Of nodes it tells nothing: there is no call here that takes one. */
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *number,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *dependency_count)
{
    STANDIN_ENTER(cuStreamGetCaptureInfo, CONTEXT);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    if (dependencies)
        *dependencies = NULL;
    if (dependency_count)
        *dependency_count = 0;
    CUstream stream;
    pthread_mutex_lock(&stream_lock);
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS) {
        *status = status_of(stream);
        if (number && stream->capture)
            *number = stream->capture->number;
        if (graph && stream->capture)
            *graph = stream->capture->graph;
    }
    pthread_mutex_unlock(&stream_lock);
    return result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    STANDIN_ENTER(cuThreadExchangeStreamCaptureMode, DRIVER);
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
