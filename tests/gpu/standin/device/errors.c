/* What errors are called, and what they mean. */
#include "standin/standin.h"

#define ERRORS(X)                                                                                            \
    X(CUDA_SUCCESS, "no error")                                                                              \
    X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                          \
    X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                             \
    X(CUDA_ERROR_NOT_INITIALIZED, "not initialised in this process")                                         \
    X(CUDA_ERROR_NO_DEVICE, "no GPU")                                                                        \
    X(CUDA_ERROR_INVALID_DEVICE, "no such GPU")                                                              \
    X(CUDA_ERROR_INVALID_CONTEXT, "no context, or one that does not fit")                                    \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "these GPUs do not reach each other")                              \
    X(CUDA_ERROR_INVALID_HANDLE, "invalid handle")                                                           \
    X(CUDA_ERROR_ILLEGAL_STATE, "not in this state")                                                         \
    X(CUDA_ERROR_NOT_FOUND, "not found")                                                                     \
    X(CUDA_ERROR_NOT_READY, "not ready")                                                                     \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, "illegal address")                                                         \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                              \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is gone")                                                \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "already registered")                                       \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "not registered")                                               \
    X(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed")                                                           \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many threads")                                                \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "more blocks than fit at once")                               \
    X(CUDA_ERROR_NOT_SUPPORTED, "not supported")                                                             \
    X(CUDA_ERROR_OPERATING_SYSTEM, "the operating system refused")                                           \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not while a stream is being captured")                         \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier error ended the capture")                           \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, "would merge two captures")                                           \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "another stream began the capture")                               \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream was forked and not joined")                              \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a captured stream cannot wait for what is not captured")         \
    X(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded by a capture")                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture")                            \
    X(CUDA_ERROR_UNKNOWN, "unknown error")

typedef struct error_text {
    CUresult error;
    const char *name, *text;
} error_text_t;

#define ENTRY(error, text) {error, #error, text},
static const error_text_t errors[] = {ERRORS(ENTRY)};

static const error_text_t *find_error(CUresult error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            return &errors[i];
    }
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    const error_text_t *found = find_error(error);
    *name = found ? found->name : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    const error_text_t *found = find_error(error);
    *text = found ? found->text : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
