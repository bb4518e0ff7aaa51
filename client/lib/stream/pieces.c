/* One piece after the other. */
#include "stream/pieces.h"

#include "stream/enqueue.h"

#include <stdlib.h>
#include <string.h>

/* ---- one piece ---- */

typedef struct host_copy {
    staging_piece_t piece;
    bool into_slot;
} host_copy_t;

/* On a thread of the driver, in the stream's order. */
static void CUDA_CB copy_on_host(void *argument)
{
    host_copy_t *copy = argument;
    for (uint32_t block = 0; block < copy->piece.blocks; block++) {
        char *user = copy->piece.user + block * copy->piece.stride_bytes;
        char *slot = copy->piece.slot + block * copy->piece.bytes;
        memcpy(copy->into_slot ? slot : user, copy->into_slot ? user : slot, copy->piece.bytes);
    }
    free(copy);
}

/* A driver's copy from host memory to host memory would make the calling thread wait for the stream. */
static blink_result_t enqueue_host_copy(const stream_step_t *step, const staging_piece_t *piece,
                                        bool into_slot)
{
    const cuda_driver_t *driver = step->gpu->driver;
    host_copy_t *copy = malloc(sizeof(*copy));
    if (!copy)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a piece of a staged op");
    *copy = (host_copy_t){*piece, into_slot};
    CUresult result = driver->cuLaunchHostFunc(step->stream, copy_on_host, copy);
    if (result == CUDA_SUCCESS)
        return BLINK_OK;
    free(copy);
    return cuda_driver_fail(driver, "cuLaunchHostFunc", result);
}

static blink_result_t enqueue_copy(const stream_step_t *step, const staging_transfer_t *transfer,
                                   const staging_side_t *side, uint64_t piece, bool into_slot)
{
    staging_piece_t copied = staging_piece(transfer, side, piece);
    if (!side->on_device)
        return enqueue_host_copy(step, &copied, into_slot);
    for (uint32_t block = 0; block < copied.blocks; block++) {
        CUdeviceptr user = (CUdeviceptr)(uintptr_t)(copied.user + block * copied.stride_bytes);
        CUdeviceptr slot = (CUdeviceptr)(uintptr_t)(copied.slot + block * copied.bytes);
        CUDA_DRIVER_TRY(step->gpu->driver, cuMemcpyAsync, into_slot ? slot : user, into_slot ? user : slot,
                        copied.bytes, step->stream);
    }
    return BLINK_OK;
}

static blink_result_t fill(const stream_step_t *step, const staging_transfer_t *transfer, uint64_t piece)
{
    if (!transfer->in.user || piece >= transfer->pieces)
        return BLINK_OK;
    BLINK_TRY(enqueue_copy(step, transfer, &transfer->in, piece, true));
    return stream_write(step, transfer->window_address + offsetof(staging_words_t, filled), piece + 1);
}

/* Wait until the piece has run and copy what it gave. The last `drained` is stored in any case: it ends the
 * transfer. */
static blink_result_t drain(const stream_step_t *step, const staging_transfer_t *transfer, uint64_t piece)
{
    BLINK_TRY(stream_wait(step, transfer->window_address + offsetof(staging_words_t, done), piece + 1));
    if (transfer->out.user)
        BLINK_TRY(enqueue_copy(step, transfer, &transfer->out, piece, false));
    else if (piece + 1 < transfer->pieces)
        return BLINK_OK;
    return stream_write(step, transfer->window_address + offsetof(staging_words_t, drained), piece + 1);
}

/* ---- all of them ---- */

static blink_result_t fill_first(const stream_step_t *step)
{
    for (const staging_transfer_t *transfer = step->transfers; transfer;
         transfer = transfer->next_on_stream) {
        for (uint64_t piece = 0; piece < STAGING_SLOTS; piece++)
            BLINK_TRY(fill(step, transfer, piece));
    }
    return BLINK_OK;
}

/* The piece of every op, and the one that its slot is then free for. An op whose last `drained` has been
 * enqueued is not looked at any more: its window may be another's at once. */
static blink_result_t take_round(stream_step_t *step, uint64_t piece)
{
    staging_transfer_t **link = &step->transfers;
    while (*link) {
        staging_transfer_t *transfer = *link, *next = transfer->next_on_stream;
        bool is_last = piece + 1 == transfer->pieces;
        BLINK_TRY(drain(step, transfer, piece));
        if (is_last) {
            *link = next;
            continue;
        }
        BLINK_TRY(fill(step, transfer, piece + STAGING_SLOTS));
        link = &transfer->next_on_stream;
    }
    return BLINK_OK;
}

/* Every staged op of the step ends without the copies that are missing. */
static void abandon(stream_step_t *step, staging_t *staging)
{
    for (staging_transfer_t *transfer = step->transfers; transfer; transfer = transfer->next_on_stream)
        staging_abandon(staging, transfer);
    step->transfers = NULL;
}

/* The first pieces, or a round of all. */
static blink_result_t enqueue(stream_step_t *step, bool is_first, uint64_t piece)
{
    blink_result_t result = stream_enter(step);
    if (result == BLINK_OK) {
        result = is_first ? fill_first(step) : take_round(step, piece);
        stream_leave(step);
    }
    if (result != BLINK_OK) {
        abandon(step, &step->rank->streams->ops->staging);
        step->failed = true;
    }
    return result;
}

blink_result_t stream_enqueue_pieces(stream_steps_t *steps)
{
    blink_result_t result = BLINK_OK;
    bool is_first = true, more = true;
    for (uint64_t piece = 0; more; piece += !is_first, is_first = false) {
        more = false;
        for (size_t i = 0; i < steps->count; i++) {
            stream_step_t *step = &steps->items[i];
            blink_result_t enqueued = step->transfers ? enqueue(step, is_first, piece) : BLINK_OK;
            if (result == BLINK_OK)
                result = enqueued;
            more = more || step->transfers;
        }
    }
    return result;
}
