/* The windows, for the files that enqueue (stream.c, stream_pieces.c, stream_capture.c). */
#ifndef CLIENT_STREAM_INTERNAL_H
#define CLIENT_STREAM_INTERNAL_H

#include "gpu/gpu_internal.h"
#include "stream/stream.h"

#define STREAM_WINDOWS_BYTES (64u << 10)
#define STREAM_WINDOWS       (STREAM_WINDOWS_BYTES / (uint32_t)sizeof(ring_window_t))

typedef enum window_use {
    WINDOW_FRESH,
    WINDOW_COUNTS, /* eager ops */
    WINDOW_STORES, /* has a stored op, or is being given up by one */
    WINDOW_STORED, /* had one, and may have another */
    WINDOW_SPOILT, /* its stream may be ahead: never used again */
} window_use_t;

struct stream_window {
    streams_t *streams;
    stream_window_t *next; /* of its communicator; this and the next three under streams.lock */
    blink_comm_t *comm;
    uint64_t stream_id;
    uint32_t pins; /* steps that use it */
    uint32_t index;
    _Atomic uint32_t use; /* window_use_t; written under streams.lock */
    pthread_mutex_t lock; /* stream.h, "Threads" */
    uint64_t number;      /* of the last op; under the lock, or streams.lock while there are no pins */
    ring_window_t *words;
    CUdeviceptr address; /* of the words, for streams */
    CUcontext context;   /* the stream's; constant while it is pinned */
    uint32_t member;     /* of a stored op; under streams.lock, and constant until it is forgotten */
    bool let_go;         /* of a stored op, once the daemon was lost; the watcher's */
};

/** A stored op, as long as graphs hold it. */
typedef struct stream_stored {
    struct stream_stored *next;
    struct stream_keeper *keeper;
    stream_window_t *window;
} stream_stored_t;

/** What outlives the context if graphs do. */
typedef struct stream_keeper {
    pthread_mutex_t lock;
    streams_t *streams;        /* NULL once the context is closed; this and the next two under the lock */
    stream_stored_t *released; /* by their graphs */
    uint32_t references;       /* the context's, and the stored ops' */
} stream_keeper_t;

struct streams {
    blink_context_t *context;
    gpu_t *pinned_by;
    pthread_mutex_t lock; /* for the windows; taken last */
    ring_window_t *words;
    stream_keeper_t *keeper;
    uint32_t cursor;       /* where the search for a window to take away goes on; under the lock */
    _Atomic uint32_t used; /* windows that are not fresh are before it; written under the lock */
    stream_window_t windows[STREAM_WINDOWS];
};

/** The windows, made if there are none yet. Visiting. Errors: those of StagingCreate, SYSTEM, NO_MEMORY. */
blink_result_t streams_get(gpu_t *gpu, blink_context_t *context, streams_t **streams);

/** The windows; NULL if there are none yet. */
streams_t *streams_of(blink_context_t *context);

/** A window for one stored op. Errors: QUOTA. */
blink_result_t streams_take_stored(streams_t *streams, uint32_t member, stream_window_t **window);
void streams_give_stored(stream_window_t *window);

/** Make the stream's context current, and take it back. Errors: SYSTEM. */
blink_result_t stream_enter(const stream_step_t *step);
void stream_leave(const stream_step_t *step);

/** Enqueue, between these two. Errors: SYSTEM. */
blink_result_t stream_write(const stream_step_t *step, CUdeviceptr address, uint64_t value);
blink_result_t stream_wait(const stream_step_t *step, CUdeviceptr address, uint64_t least);

/** Enqueue the first pieces of staged ops, and then all that remains. Failures are noted in the steps;
 * `result` keeps the first. */
void stream_enqueue_pieces(stream_steps_t *steps, blink_result_t *result);

/** Note a failure in a step that has been submitted. */
void stream_step_fail(stream_step_t *step, blink_result_t failure, blink_result_t *result);

/** NULL if memory ran out. The context's share in it ends with stream_keeper_close(). */
stream_keeper_t *stream_keeper_create(streams_t *streams);
void stream_keeper_close(stream_keeper_t *keeper);

#endif
