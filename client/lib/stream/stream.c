/* Windows, and what is enqueued for eager ops. Why in this order: stream.h. */
#include "stream/stream_internal.h"

#include "context/comm.h"
#include "context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEPS_FIRST_ROOM 4u
#define CONTEXTS_MAX     64u /* of CUDA, that streams_settle() waits for */

/* ---- the region ---- */

static blink_result_t make_streams(gpu_t *gpu, blink_context_t *context, streams_t *streams)
{
    void *base;
    uint32_t region; /* nothing names it: there is one */
    BLINK_TRY(staging_map(context, STREAM_WINDOWS_BYTES, false, true, &base, &region));
    uint64_t address = 0;
    blink_result_t result = gpu_pin(gpu, base, STREAM_WINDOWS_BYTES, &address);
    if (result == BLINK_OK && !(streams->keeper = stream_keeper_create(streams))) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the windows of streams");
        gpu_unpin(gpu, base);
    }
    if (result != BLINK_OK) {
        munmap(base, STREAM_WINDOWS_BYTES);
        return result;
    }
    streams->context = context;
    streams->pinned_by = gpu;
    streams->words = base;
    pthread_mutex_init(&streams->lock, NULL);
    for (uint32_t i = 0; i < STREAM_WINDOWS; i++) {
        stream_window_t *window = &streams->windows[i];
        window->streams = streams;
        window->index = i;
        window->words = streams->words + i;
        window->address = address + i * sizeof(ring_window_t);
        pthread_mutex_init(&window->lock, NULL);
    }
    return BLINK_OK;
}

streams_t *streams_of(blink_context_t *context)
{
    /* Acquire: pairs with the store in streams_get(). */
    return atomic_load_explicit(&context->streams, memory_order_acquire);
}

blink_result_t streams_get(gpu_t *gpu, blink_context_t *context, streams_t **streams)
{
    *streams = streams_of(context);
    if (*streams)
        return BLINK_OK;
    gpus_t *gpus = gpus_find(context);
    blink_result_t result = BLINK_OK;
    pthread_mutex_lock(&gpus->lock);
    *streams = streams_of(context);
    if (!*streams) {
        *streams = calloc(1, sizeof(**streams));
        result = *streams ? make_streams(gpu, context, *streams)
                          : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the windows of streams");
        if (result != BLINK_OK) {
            free(*streams);
        } else {
            uint64_t one = 1;
            /* Release: pairs with the load in streams_of(). */
            atomic_store_explicit(&context->streams, *streams, memory_order_release);
            /* The daemon may have been lost meanwhile: then the watcher is to know that there are streams
             * now. */
            (void)!write(context->ops.pump_fd, &one, sizeof(one));
        }
    }
    pthread_mutex_unlock(&gpus->lock);
    return result;
}

void streams_fini(blink_context_t *context)
{
    streams_t *streams = streams_of(context);
    if (!streams)
        return;
    stream_keeper_close(streams->keeper);
    gpu_unpin(streams->pinned_by, streams->words);
    munmap(streams->words, STREAM_WINDOWS_BYTES);
    for (uint32_t i = 0; i < STREAM_WINDOWS; i++)
        pthread_mutex_destroy(&streams->windows[i].lock);
    pthread_mutex_destroy(&streams->lock);
    free(streams);
}

/* ---- windows ---- */

/* Relaxed: others only compare it, or look again. Under streams.lock. */
static window_use_t use_of(const stream_window_t *window)
{
    return (window_use_t)atomic_load_explicit(&window->use, memory_order_relaxed);
}

static void set_use(stream_window_t *window, window_use_t use)
{
    atomic_store_explicit(&window->use, use, memory_order_relaxed);
}

/* Under streams.lock. */
static stream_window_t *take_fresh(streams_t *streams, window_use_t use)
{
    uint32_t used = atomic_load_explicit(&streams->used, memory_order_relaxed);
    if (used == STREAM_WINDOWS)
        return NULL;
    set_use(&streams->windows[used], use);
    /* Release: pairs with the load in streams_let_go(). */
    atomic_store_explicit(&streams->used, used + 1, memory_order_release);
    return &streams->windows[used];
}

/* Under streams.lock. */
static void unlink_window(stream_window_t *window)
{
    if (!window->comm)
        return;
    stream_window_t **link = &window->comm->windows;
    while (*link != window)
        link = &(*link)->next;
    *link = window->next;
    window->comm = NULL;
}

/* Whether nothing of it is to come. Under streams.lock. */
static bool is_idle(const stream_window_t *window)
{
    /* Acquire: what the daemon and the stream did for these ops comes before whatever the window is used for
     * next. */
    return window->pins == 0 && use_of(window) == WINDOW_COUNTS &&
           atomic_load_explicit(&window->words->done, memory_order_acquire) >= window->number &&
           atomic_load_explicit(&window->words->filled, memory_order_acquire) >= window->number;
}

/* Under streams.lock. */
static stream_window_t *take_idle(streams_t *streams)
{
    for (uint32_t i = 0; i < STREAM_WINDOWS; i++) {
        stream_window_t *window = &streams->windows[streams->cursor++ % STREAM_WINDOWS];
        if (is_idle(window)) {
            unlink_window(window);
            return window;
        }
    }
    return NULL;
}

/* Under streams.lock. */
static stream_window_t *find_window(const blink_comm_t *comm, uint64_t stream_id)
{
    stream_window_t *window = comm->windows;
    while (window && window->stream_id != stream_id)
        window = window->next;
    return window;
}

static blink_result_t no_window(void)
{
    return BLINK_FAIL(BLINK_ERR_QUOTA, "all %u windows of streams are in use", STREAM_WINDOWS);
}

/* The stream's context, which must be of the rank's GPU. */
static blink_result_t check_stream(const blink_comm_t *comm, const gpu_t *gpu, CUstream stream,
                                   CUcontext *context)
{
    const cuda_driver_t *driver = gpu->driver;
    CUdevice device;
    CUDA_DRIVER_TRY(driver, cuStreamGetCtx, stream, context);
    CUDA_DRIVER_TRY(driver, cuCtxPushCurrent, *context);
    CUresult result = driver->cuCtxGetDevice(&device);
    (void)driver->cuCtxPopCurrent(&(CUcontext){NULL});
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, "cuCtxGetDevice", result);
    if (device == gpu->device)
        return BLINK_OK;
    char theirs[GPU_UUID_TEXT_BYTES], own[GPU_UUID_TEXT_BYTES];
    gpu_device_text(driver, device, theirs);
    gpu_uuid_text(gpu->uuid, own);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "stream %p is of %s, but rank %u is on %s", (void *)stream,
                      theirs, comm->rank, own);
}

/* The window of an eager step. */
static blink_result_t pin_window(streams_t *streams, stream_step_t *step)
{
    blink_comm_t *comm = step->comm;
    CUcontext context;
    pthread_mutex_lock(&streams->lock);
    stream_window_t *window = find_window(comm, step->stream_id);
    if (window)
        window->pins++;
    pthread_mutex_unlock(&streams->lock);
    step->window = window;
    if (window)
        return BLINK_OK;
    BLINK_TRY(check_stream(comm, step->gpu, step->stream, &context));
    pthread_mutex_lock(&streams->lock);
    window = find_window(comm, step->stream_id); /* another thread may have come first */
    if (!window) {
        window = take_fresh(streams, WINDOW_COUNTS);
        window = window ? window : take_idle(streams);
        if (window) {
            window->stream_id = step->stream_id;
            window->context = context;
            window->comm = comm;
            window->next = comm->windows;
            comm->windows = window;
        }
    }
    if (window)
        window->pins++;
    pthread_mutex_unlock(&streams->lock);
    step->window = window;
    return window ? BLINK_OK : no_window();
}

blink_result_t streams_take_stored(streams_t *streams, uint32_t member, stream_window_t **window)
{
    pthread_mutex_lock(&streams->lock);
    uint32_t used = atomic_load_explicit(&streams->used, memory_order_relaxed);
    stream_window_t *found = take_fresh(streams, WINDOW_STORES);
    for (uint32_t i = 0; i < used && !found; i++) {
        if (use_of(&streams->windows[i]) == WINDOW_STORED)
            found = &streams->windows[i];
    }
    if (found) {
        /* Relaxed: published with the submission. */
        atomic_store_explicit(&found->words->filled, 0, memory_order_relaxed);
        atomic_store_explicit(&found->words->done, 0, memory_order_relaxed);
        atomic_store_explicit(&found->words->drained, 0, memory_order_relaxed);
        found->member = member;
        set_use(found, WINDOW_STORES);
    }
    pthread_mutex_unlock(&streams->lock);
    *window = found;
    return found ? BLINK_OK : no_window();
}

void streams_give_stored(stream_window_t *window)
{
    pthread_mutex_lock(&window->streams->lock);
    set_use(window, WINDOW_STORED);
    pthread_mutex_unlock(&window->streams->lock);
}

blink_result_t streams_replay_error(blink_comm_t *comm)
{
    streams_t *streams = streams_of(comm->context);
    uint64_t failed = BLINK_OK;
    if (!streams)
        return BLINK_OK;
    pthread_mutex_lock(&streams->lock);
    uint32_t used = atomic_load_explicit(&streams->used, memory_order_relaxed);
    for (uint32_t i = 0; i < used && failed == BLINK_OK; i++) {
        const stream_window_t *window = &streams->windows[i];
        /* Acquire: the daemon stored it before the stream went on. */
        if (use_of(window) == WINDOW_STORES && window->member == comm->member)
            failed = atomic_load_explicit(&window->words->drained, memory_order_acquire);
    }
    pthread_mutex_unlock(&streams->lock);
    return failed <= BLINK_ERR_INTERNAL ? (blink_result_t)failed : BLINK_ERR_INTERNAL;
}

void streams_leave(blink_comm_t *comm)
{
    streams_t *streams = streams_of(comm->context);
    if (!streams)
        return;
    pthread_mutex_lock(&streams->lock);
    while (comm->windows)
        unlink_window(comm->windows);
    pthread_mutex_unlock(&streams->lock);
}

/* ---- the daemon is lost ---- */

bool streams_let_go(blink_context_t *context)
{
    streams_t *streams = streams_of(context);
    if (!streams)
        return false;
    /* Acquire: pairs with the store in take_fresh(). */
    uint32_t used = atomic_load_explicit(&streams->used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        ring_window_t *words = streams->windows[i].words;
        window_use_t use = use_of(&streams->windows[i]);
        /* seq_cst, all of these: as the daemon would, see ring.h. */
        if (use == WINDOW_COUNTS || use == WINDOW_SPOILT)
            atomic_store_explicit(&words->done, STAGING_LET_GO, memory_order_seq_cst);
        /* Once in any case: the daemon may have taken `filled` back and ended before `done`. */
        if (use == WINDOW_STORES && (!streams->windows[i].let_go ||
                                     atomic_load_explicit(&words->filled, memory_order_seq_cst) == 1)) {
            streams->windows[i].let_go = true;
            atomic_store_explicit(&words->filled, 0, memory_order_seq_cst);
            atomic_store_explicit(&words->done, 1, memory_order_seq_cst);
        }
    }
    return true;
}

static void synchronise(const cuda_driver_t *driver, CUcontext context)
{
    if (driver->cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return; /* destroyed, and its streams with it */
    (void)driver->cuCtxSynchronize();
    (void)driver->cuCtxPopCurrent(&(CUcontext){NULL});
}

void streams_settle(blink_context_t *context)
{
    streams_t *streams = streams_of(context);
    gpu_visit_t visit;
    CUcontext seen[CONTEXTS_MAX];
    uint32_t count = 0;
    if (!streams || gpu_enter(streams->pinned_by, &visit) != BLINK_OK)
        return;
    uint32_t used =
        atomic_load_explicit(&streams->used, memory_order_relaxed); /* no thread changes it any more */
    for (uint32_t i = 0; i < used; i++) {
        uint32_t known = 0;
        while (known < count && seen[known] != streams->windows[i].context)
            known++;
        if (known < count || count == CONTEXTS_MAX)
            continue;
        seen[count++] = streams->windows[i].context;
        synchronise(streams->pinned_by->driver, streams->windows[i].context);
    }
    gpu_leave(&visit);
}

/* ---- steps ---- */

static blink_result_t grow(stream_steps_t *steps)
{
    if (steps->count < steps->capacity)
        return BLINK_OK;
    uint32_t capacity = steps->capacity > 0 ? 2 * steps->capacity : STEPS_FIRST_ROOM;
    stream_step_t *items = realloc(steps->items, capacity * sizeof(*items));
    if (!items)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a group on %u streams", capacity);
    steps->items = items;
    steps->capacity = capacity;
    return BLINK_OK;
}

static blink_result_t look_at_stream(const gpu_t *gpu, stream_step_t *step)
{
    unsigned long long id;
    CUstreamCaptureStatus status;
    CUDA_DRIVER_TRY(gpu->driver, cuStreamGetId, step->stream, &id);
    CUDA_DRIVER_TRY(gpu->driver, cuStreamIsCapturing, step->stream, &status);
    if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the capture of stream %p has become invalid",
                          (void *)step->stream);
    step->stream_id = id;
    step->stored = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return BLINK_OK;
}

/* Find a step like this one; whether one can be added if there is none. */
static blink_result_t find_step(const stream_steps_t *steps, const stream_step_t *wanted,
                                stream_step_t **found)
{
    *found = NULL;
    for (uint32_t i = 0; i < steps->count; i++) {
        stream_step_t *step = &steps->items[i];
        if (step->stored != wanted->stored)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                              "of a group's streams %p is being captured and %p is not",
                              (void *)(step->stored ? step : wanted)->stream,
                              (void *)(step->stored ? wanted : step)->stream);
        if (step->comm != wanted->comm)
            continue;
        if (step->stream_id == wanted->stream_id)
            *found = step;
        else if (step->stored)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "a group of rank %u is on two streams, %p and %p, that are being captured",
                              wanted->comm->rank, (void *)step->stream, (void *)wanted->stream);
    }
    return BLINK_OK;
}

blink_result_t stream_step(stream_steps_t *steps, blink_comm_t *comm, gpu_t *gpu, blink_stream_t stream,
                           stream_step_t **step)
{
    streams_t *streams;
    stream_step_t fresh = {.comm = comm, .gpu = gpu, .stream = stream};
    BLINK_TRY(streams_get(gpu, comm->context, &streams));
    BLINK_TRY(look_at_stream(gpu, &fresh));
    BLINK_TRY(find_step(steps, &fresh, step));
    if (*step)
        return BLINK_OK;
    BLINK_TRY(grow(steps));
    if (fresh.stored) {
        CUcontext context;
        blink_comm_t *graphs;
        BLINK_TRY(check_stream(comm, gpu, stream, &context));
        BLINK_TRY(comm_for_graphs(comm, &graphs));
        BLINK_TRY(streams_take_stored(streams, graphs->member, &fresh.window));
        fresh.window->context = context;
    } else {
        BLINK_TRY(pin_window(streams, &fresh));
    }
    *step = &steps->items[steps->count++];
    **step = fresh;
    return BLINK_OK;
}

void stream_step_add(stream_step_t *step, ring_sqe_t *sqe, staging_transfer_t *transfer)
{
    if (transfer) {
        transfer->next_on_stream = step->transfers;
        step->transfers = transfer;
        return;
    }
    sqe->flags |= RING_SQE_STREAM;
    if (step->stored) {
        sqe->flags |= RING_SQE_STORED;
        sqe->member = step->window->member;
    }
    sqe->window = step->window->index;
    step->entries++;
}

bool stream_steps_stored(const stream_steps_t *steps)
{
    return steps->count > 0 && steps->items[0].stored;
}

void stream_steps_release(stream_steps_t *steps)
{
    for (uint32_t i = 0; i < steps->count; i++) {
        stream_window_t *window = steps->items[i].window;
        if (!window)
            continue; /* a graph's */
        if (steps->items[i].stored) {
            streams_give_stored(window);
            continue;
        }
        pthread_mutex_lock(&window->streams->lock);
        window->pins--;
        pthread_mutex_unlock(&window->streams->lock);
    }
    free(steps->items);
    *steps = (stream_steps_t){0};
}

/* ---- enqueuing ---- */

blink_result_t stream_enter(const stream_step_t *step)
{
    CUDA_DRIVER_TRY(step->gpu->driver, cuCtxPushCurrent, step->window->context);
    return BLINK_OK;
}

void stream_leave(const stream_step_t *step)
{
    (void)step->gpu->driver->cuCtxPopCurrent(&(CUcontext){NULL});
}

blink_result_t stream_write(const stream_step_t *step, CUdeviceptr address, uint64_t value)
{
    CUDA_DRIVER_TRY(step->gpu->driver, cuStreamWriteValue64, step->stream, address, value,
                    CU_STREAM_WRITE_VALUE_DEFAULT);
    return BLINK_OK;
}

blink_result_t stream_wait(const stream_step_t *step, CUdeviceptr address, uint64_t least)
{
    CUDA_DRIVER_TRY(step->gpu->driver, cuStreamWaitValue64, step->stream, address, least,
                    CU_STREAM_WAIT_VALUE_GEQ);
    return BLINK_OK;
}

static int by_window(const void *left, const void *right)
{
    const stream_step_t *a = left, *b = right;
    return a->window->index < b->window->index ? -1 : a->window->index > b->window->index;
}

static void unlock_windows(stream_steps_t *steps)
{
    for (uint32_t i = 0; i < steps->count; i++)
        pthread_mutex_unlock(&steps->items[i].window->lock);
}

/* Have the stream say that it has come to the step's ops. Under the window's lock. */
static blink_result_t announce(const stream_step_t *step)
{
    if (step->entries == 0)
        return BLINK_OK;
    BLINK_TRY(stream_enter(step));
    blink_result_t result =
        stream_write(step, step->window->address + offsetof(ring_window_t, filled), step->number);
    stream_leave(step);
    return result;
}

/* Nothing is submitted: windows whose streams may already count it are of no more use. */
static void take_back(stream_steps_t *steps, uint32_t announced)
{
    for (uint32_t i = 0; i < steps->count; i++) {
        stream_step_t *step = &steps->items[i];
        if (step->entries > 0 && i < announced) {
            pthread_mutex_lock(&step->window->streams->lock);
            set_use(step->window, WINDOW_SPOILT);
            unlink_window(step->window);
            pthread_mutex_unlock(&step->window->streams->lock);
        } else {
            step->window->number -= step->entries;
        }
    }
    unlock_windows(steps);
}

blink_result_t stream_begin(stream_steps_t *steps)
{
    if (steps->count > 1)
        qsort(steps->items, steps->count, sizeof(*steps->items), by_window);
    for (uint32_t i = 0; i < steps->count; i++) {
        stream_window_t *window = steps->items[i].window;
        pthread_mutex_lock(&window->lock);
        window->number += steps->items[i].entries;
        steps->items[i].number = window->number;
    }
    for (uint32_t i = 0; i < steps->count; i++) {
        blink_result_t result = announce(&steps->items[i]);
        if (result != BLINK_OK) {
            take_back(steps, i + 1);
            return result;
        }
    }
    return BLINK_OK;
}

void stream_step_fail(stream_step_t *step, blink_result_t failure, blink_result_t *result)
{
    step->failed = true;
    if (*result == BLINK_OK)
        *result = failure;
}

/* Have the stream wait for the step's ops. */
static blink_result_t await(const stream_step_t *step)
{
    BLINK_TRY(stream_enter(step));
    blink_result_t result =
        stream_wait(step, step->window->address + offsetof(ring_window_t, done), step->number);
    stream_leave(step);
    return result;
}

/* The sentence of the failure outlives this. */
static void abort_failed(const stream_steps_t *steps)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", blink_error_text());
    for (uint32_t i = 0; i < steps->count; i++) {
        if (steps->items[i].failed)
            (void)blink_comm_abort(
                steps->items[i].comm); /* if it fails the daemon is lost, which does as well */
    }
    blink_error_set(BLINK_ERR_SYSTEM, "%s", text);
}

blink_result_t stream_finish(stream_steps_t *steps)
{
    blink_result_t result = BLINK_OK;
    unlock_windows(steps);
    stream_enqueue_pieces(steps, &result);
    for (uint32_t i = 0; i < steps->count; i++) {
        stream_step_t *step = &steps->items[i];
        blink_result_t awaited = step->entries > 0 ? await(step) : BLINK_OK;
        if (awaited != BLINK_OK)
            stream_step_fail(step, awaited, &result);
    }
    if (result != BLINK_OK)
        abort_failed(steps);
    return result;
}
