/*
 * Streams: each a queue of operations and, once it has any, a thread that runs them in order. Operations are
 * values: a capture stores them, a graph's launch queues copies.
 */
#ifndef STANDIN_STREAM_H
#define STANDIN_STREAM_H

#include "standin/standin.h"

#include <pthread.h>

/** Guards all streams, events, captures, graphs and user objects. Never held while an operation runs or is
 * dropped. */
extern pthread_mutex_t stream_lock;

/** A point in a stream, that others wait for. */
typedef struct marker {
    unsigned references; /* under stream_lock, as all of it */
    bool reached;
    uint64_t reached_ns;
} marker_t;

typedef struct launch launch_t; /* launch.c */
typedef struct op op_t;

typedef struct op_type {
    void (*run)(const op_t *op);
    void (*keep)(const op_t *op); /* a copy has been made; NULL: it holds nothing */
    void (*drop)(const op_t *op); /* has run, or never will; NULL: it holds nothing */
    bool is_launch;
} op_type_t;

struct op {
    const op_type_t *type;
    op_t *next;
    uint64_t number; /* of all that were queued in this process: grows */
    union {
        struct {
            void *to;
            const void *from;
            size_t bytes;
        } copy;
        struct {
            void *to;
            size_t bytes;
            uint32_t value; /* a byte four times, unless bytes and address are multiples of 4 */
        } fill;
        struct {
            void *at; /* 64 bits; is_short: 32 */
            uint64_t value;
            unsigned flags;
            bool is_short;
        } word;
        struct {
            CUhostFn function;
            void *argument;
        } host;
        marker_t *marker;
        launch_t *launch;
        struct {
            CUdeviceptr address;
            uint64_t number; /* of the range */
        } memory;
        CUgraphExec exec;
    };
};

struct capture;

struct CUstream_st {
    CUstream next;
    uint64_t id; /* no other stream's, ever */
    CUcontext context;
    op_t *first, *last;
    uint32_t queued;  /* from first to last */
    uint64_t running; /* the number of the operation that runs; 0: none */
    pthread_cond_t arrived;
    bool has_thread, is_closed;
    struct capture *capture; /* NULL: none. What follows is the capture's */
    unsigned lane;
    bool is_joined; /* another stream of the capture waits for all that this one did */
};

/* All with stream_lock held. */
/** NULL and CUDA's names for default streams mean the current context's, which is made if need be. */
CUresult stream_find(CUstream handle, CUstream *stream);
/** Takes the operation over, also where it fails; what it holds is dropped later by stream_drop(), so that
 * this can be called under the lock. Not for streams that are captured. */
CUresult stream_push(CUstream stream, const op_t *op);
/** NULL: no memory. */
CUstream stream_open(CUcontext context);
/** What was queued still runs. */
void stream_close(CUstream stream);
/** Wake all who wait for markers, streams or the end of the process. */
void stream_wake(void);
/** Wait for a change that stream_wake() tells of. Releases the lock meanwhile. */
void stream_sleep(void);

/* All without it. */
/** Queue, or add to the stream's capture. Takes over what the operation holds, also where it fails. */
CUresult stream_submit(CUstream handle, const op_t *op);
/** false too where the handle is none. */
bool stream_is_captured(CUstream handle);
/** The stream that a handle means. A captured one is refused, and its capture invalid. */
CUresult stream_find_uncaptured(CUstream handle, CUstream *stream);
/** Wait for all that was queued so far: to a stream, or (NULL) to all of a context, or (NULL) to all. */
CUresult stream_await(CUcontext context, CUstream stream);
/** Queue and wait. */
CUresult stream_submit_and_await(CUstream handle, const op_t *op);
/** Lose the context, or the process: whoever waits returns. */
void stream_lose(CUcontext context, CUresult error);
void op_keep(const op_t *op);
void op_drop(const op_t *op);

/* Room on a GPU's multiprocessors, for blocks, of which it holds so many at most (room.c). */
/** Wait for it; at once if nobody counts. */
void room_take(CUdevice ordinal, uint32_t blocks, uint32_t most);
void room_give(CUdevice ordinal, uint32_t blocks);

struct lane_abi_run;
/** Whether the lanes of a run touch only what their GPU reaches (reach.c); else stderr says what not. */
bool reach_holds_run(CUdevice ordinal, const struct lane_abi_run *run);

/* Markers; with stream_lock held. */
marker_t *marker_create(void); /* with one reference; NULL: no memory */
marker_t *marker_get(marker_t *marker);
void marker_put(marker_t *marker);      /* NULL: nothing */
op_t marker_reach_op(marker_t *marker); /* takes a reference over */
op_t marker_await_op(marker_t *marker); /* takes a reference over */

/* Captures (capture.c). */
/** A call that may wait for streams, or needs the default one: it ends captures as CUDA's does. Without
 * stream_lock. */
CUresult capture_check_unsafe(void);
/** Add an operation to a stream's capture. With stream_lock held; drops nothing. */
CUresult capture_append(CUstream stream, const op_t *op);
/** Refuse a call on a stream that is captured: the capture is invalid. With stream_lock held. */
CUresult capture_refuse(CUstream stream);
/** cuEventRecord() and cuStreamWaitEvent() where a capture is involved. With stream_lock held. */
CUresult capture_record(CUstream stream, CUevent event);
CUresult capture_await(CUstream stream, CUevent event);

struct CUevent_st {
    CUevent next;
    CUcontext context;
    unsigned flags;
    marker_t *marker; /* where it was last recorded; NULL: never */
    /* Recorded by a capture, if that has a number: */
    uint64_t capture_number;
    CUstream capture_stream;
    unsigned capture_marker;
};

#endif
