/*
 * The windows of streams (windows.h, "Streams" and "Graphs").
 *
 * The context has one region of windows, made when it is first needed. A pair of communicator and stream gets
 * a window and keeps it while there are others to be had; then it may lose it to another pair while nothing
 * that was enqueued is to come: all its ops have ended, and the stream has stored the last number. A window
 * that has had a stored op serves stored ops only, for it counts nothing.
 *
 * The daemon is lost. The watcher stores what streams wait for in all windows, every millisecond until the
 * context is closed: so it also reaches the streams that are told to wait later, and graphs that are
 * replayed.
 */
#ifndef CLIENT_WINDOW_H
#define CLIENT_WINDOW_H

#include "gpu/device.h"
#include "stream/streams.h"
#include "windows.h"

#define STREAM_WINDOWS_BYTES (64u << 10)
#define STREAM_WINDOWS       (STREAM_WINDOWS_BYTES / (uint32_t)sizeof(window_t))

typedef enum window_use {
    WINDOW_FRESH,
    WINDOW_COUNTS, /* eager ops */
    WINDOW_STORES, /* has a stored op, or the daemon is forgetting it */
    WINDOW_STORED, /* had one, and may have another */
    WINDOW_SPOILT, /* its stream may be ahead: never used again */
} window_use_t;

typedef struct stream_window {
    struct stream_table *table;
    list_t of_rank; /* this and the next two under the table's lock */
    uint64_t stream_id;
    uint32_t pins; /* steps that use it */
    uint32_t index;
    _Atomic uint32_t use; /* window_use_t; written under the table's lock */
    pthread_mutex_t lock; /* step.h, "Threads" */
    uint64_t number;      /* of the last op; under the lock, or the table's while there are no pins */
    window_t *words;
    CUdeviceptr address; /* of the words, for streams */
    CUcontext context;   /* the stream's; constant while it is pinned */
    uint32_t member;     /* of a stored op; under the table's lock, and constant until it is forgotten */
    bool let_go;         /* of a stored op, once the daemon was lost; the watcher's */
} stream_window_t;

typedef struct stream_table {
    streams_t *streams;
    gpu_t *pinned_by;
    pthread_mutex_t lock; /* for the windows; taken last */
    window_t *words;
    struct stream_keeper *keeper;
    uint32_t cursor;       /* where the search for a window to take away goes on; under the lock */
    _Atomic uint32_t used; /* windows that are not fresh are before it; written under the lock */
    stream_window_t windows[STREAM_WINDOWS];
} stream_table_t;

/** The windows; NULL if there are none yet. */
stream_table_t *stream_table(const streams_t *streams);

/** The windows, made if there are none yet. Visiting. Errors: those of staging_region_map(), SYSTEM,
 * NO_MEMORY. */
blink_result_t stream_table_get(streams_t *streams, gpu_t *gpu, stream_table_t **table);

/** The CUDA context of a stream, which must be of the rank's GPU. Errors: INVALID_ARGUMENT (names both GPUs),
 * SYSTEM. */
blink_result_t window_check_stream(const stream_rank_t *rank, const gpu_t *gpu, CUstream stream,
                                   CUcontext *context);

/** Pin the window of a rank and a stream for eager ops. Errors: those of window_check_stream(), QUOTA. */
blink_result_t window_pin(stream_table_t *table, stream_rank_t *rank, const gpu_t *gpu, CUstream stream,
                          uint64_t stream_id, stream_window_t **window);
void window_unpin(stream_window_t *window);

/** The pinned window's stream may have counted what does not exist: it is of no more use. */
void window_spoil(stream_window_t *window);

/** A window for one stored op. Errors: QUOTA. */
blink_result_t window_take_stored(stream_table_t *table, uint32_t member, CUcontext context,
                                  stream_window_t **window);
void window_give_stored(stream_window_t *window);

#endif
