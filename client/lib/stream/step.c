/* Steps, and what is enqueued for eager ops. Why in this order: step.h. */
#include "stream/step.h"

#include "stream/enqueue.h"
#include "stream/pieces.h"
#include "stream/window.h"

/* ---- finding and adding ---- */

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
    for (size_t i = 0; i < steps->count; i++) {
        stream_step_t *step = &steps->items[i];
        if (step->stored != wanted->stored)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                              "of a group's streams %p is being captured and %p is not",
                              (void *)(step->stored ? step : wanted)->stream,
                              (void *)(step->stored ? wanted : step)->stream);
        if (step->rank != wanted->rank)
            continue;
        if (step->stream_id == wanted->stream_id)
            *found = step;
        else if (step->stored)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "a group of rank %u is on two streams, %p and %p, that are being captured",
                              wanted->rank->gpu->rank, (void *)step->stream, (void *)wanted->stream);
    }
    return BLINK_OK;
}

blink_result_t stream_step_find(stream_steps_t *steps, stream_rank_t *rank, gpu_t *gpu, blink_stream_t stream,
                                stream_step_t *fresh, stream_step_t **step)
{
    stream_table_t *table;
    CUcontext context;
    *fresh = (stream_step_t){.rank = rank, .gpu = gpu, .stream = stream};
    BLINK_TRY(stream_table_get(rank->streams, gpu, &table));
    BLINK_TRY(look_at_stream(gpu, fresh));
    BLINK_TRY(find_step(steps, fresh, step));
    /*
     * A step that is added for a capture first waits for the other ranks: not for a stream that is no good.
     */
    if (!*step && fresh->stored)
        BLINK_TRY(window_check_stream(rank, gpu, stream, &context));
    return BLINK_OK;
}

blink_result_t stream_step_add(stream_steps_t *steps, const stream_step_t *fresh, uint32_t member,
                               stream_step_t **step)
{
    stream_rank_t *rank = fresh->rank;
    stream_table_t *table = stream_table(rank->streams);
    CUcontext context;
    stream_window_t *window;
    if (!vec_reserve(steps, steps->count + 1))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a group on %zu streams", steps->count + 1);
    if (fresh->stored) {
        BLINK_TRY(window_check_stream(rank, fresh->gpu, fresh->stream, &context));
        BLINK_TRY(window_take_stored(table, member, context, &window));
    } else {
        BLINK_TRY(window_pin(table, rank, fresh->gpu, fresh->stream, fresh->stream_id, &window));
    }
    *step = &steps->items[steps->count++];
    **step = *fresh;
    (*step)->window = window;
    return BLINK_OK;
}

void stream_step_enter(stream_step_t *step, ring_sqe_t *sqe, staging_transfer_t *transfer)
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
    for (size_t i = 0; i < steps->count; i++) {
        stream_window_t *window = steps->items[i].window;
        if (!window)
            continue; /* a graph's */
        if (steps->items[i].stored)
            window_give_stored(window);
        else
            window_unpin(window);
    }
    vec_free(steps);
}

/* ---- enqueuing ---- */

static int by_window(const void *left, const void *right)
{
    const stream_step_t *a = left, *b = right;
    return a->window->index < b->window->index ? -1 : a->window->index > b->window->index;
}

static void unlock_windows(stream_steps_t *steps)
{
    for (size_t i = 0; i < steps->count; i++)
        pthread_mutex_unlock(&steps->items[i].window->lock);
}

/* Have the stream say that it has come to the step's ops. Under the window's lock. */
static blink_result_t announce(const stream_step_t *step)
{
    if (step->entries == 0)
        return BLINK_OK;
    BLINK_TRY(stream_enter(step));
    blink_result_t result =
        stream_write(step, step->window->address + offsetof(stream_words_t, reached), step->number);
    stream_leave(step);
    return result;
}

/* Nothing is submitted: windows whose streams may already count it are of no more use. */
static void take_back(stream_steps_t *steps, size_t announced)
{
    for (size_t i = 0; i < steps->count; i++) {
        stream_step_t *step = &steps->items[i];
        if (step->entries > 0 && i < announced)
            window_spoil(step->window);
        else
            step->window->number -= step->entries;
    }
    unlock_windows(steps);
}

blink_result_t stream_begin(stream_steps_t *steps)
{
    if (steps->count > 1)
        qsort(steps->items, steps->count, sizeof(*steps->items), by_window);
    for (size_t i = 0; i < steps->count; i++) {
        stream_window_t *window = steps->items[i].window;
        pthread_mutex_lock(&window->lock);
        window->number += steps->items[i].entries;
        steps->items[i].number = window->number;
    }
    for (size_t i = 0; i < steps->count; i++) {
        blink_result_t result = announce(&steps->items[i]);
        if (result != BLINK_OK) {
            take_back(steps, i + 1);
            return result;
        }
    }
    return BLINK_OK;
}

/* Have the stream wait for the step's ops. */
static blink_result_t await(const stream_step_t *step)
{
    BLINK_TRY(stream_enter(step));
    blink_result_t result =
        stream_wait(step, step->window->address + offsetof(stream_words_t, ended), step->number);
    stream_leave(step);
    return result;
}

blink_result_t stream_finish(stream_steps_t *steps)
{
    unlock_windows(steps);
    blink_result_t result = stream_enqueue_pieces(steps);
    for (size_t i = 0; i < steps->count; i++) {
        stream_step_t *step = &steps->items[i];
        blink_result_t awaited = step->entries > 0 ? await(step) : BLINK_OK;
        step->failed = step->failed || awaited != BLINK_OK;
        if (result == BLINK_OK)
            result = awaited;
    }
    return result;
}
