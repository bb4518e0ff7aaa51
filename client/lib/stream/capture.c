/* Ops that become part of graphs: stored in the daemon, run by each replay, forgotten when no graph holds
 * them. */
#include "stream/enqueue.h"
#include "stream/keeper.h"
#include "stream/window.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- forgetting ---- */

static void forgotten(void *window, blink_result_t result, const char *text)
{
    (void)result; /* what the daemon could not forget it does not have */
    (void)text;
    window_give_stored(window);
}

/* If memory has run out, or the daemon is lost, the window is not used again. */
static void forget(stream_window_t *window)
{
    ops_t *ops = window->table->streams->ops;
    ring_sqe_t sqe = {.opcode = RING_OP_FORGET, .member = window->member, .window = window->index};
    blink_op_t *op;
    if (ops_reserve(ops, &op) != BLINK_OK)
        return;
    ops_detach(op, forgotten, window);
    ops_launch(op, &ops->nops, &(ops_run_t){.sqes = &sqe, .count = 1});
}

void streams_pump(streams_t *streams)
{
    stream_table_t *table = stream_table(streams);
    if (!table)
        return;
    for (stream_stored_t *stored = keeper_take_released(table->keeper), *next; stored; stored = next) {
        next = stored->next;
        forget(stored->window);
        free(stored);
    }
}

/* ---- capture ---- */

/* The last graph that held the op is gone. */
static void CUDA_CB release(void *stored)
{
    keeper_release(stored);
}

/* From here on the window is the graph's. */
static blink_result_t hold(const stream_step_t *step, stream_stored_t *stored)
{
    const cuda_driver_t *driver = step->gpu->driver;
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;
    CUuserObject object;
    CUDA_DRIVER_TRY(driver, cuStreamGetCaptureInfo_v2, step->stream, &status, NULL, &graph, NULL, NULL);
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the capture of stream %p ended meanwhile",
                          (void *)step->stream);
    CUDA_DRIVER_TRY(driver, cuUserObjectCreate, &object, stored, release, 1,
                    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    /* If it cannot be retained nothing calls release(); the object, of a few bytes, is the driver's then. */
    CUDA_DRIVER_TRY(driver, cuGraphRetainUserObject, graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    return BLINK_OK;
}

static blink_result_t give_to_graph(stream_step_t *step)
{
    stream_stored_t *stored = keeper_add(step->window->table->keeper, step->window);
    if (!stored)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a captured op");
    blink_result_t result = hold(step, stored);
    if (result != BLINK_OK)
        keeper_drop(stored);
    return result;
}

/* The stream's half of a replay (windows.h, "Graphs"), or a part of it, as one node of the graph. */
static blink_result_t enqueue(const stream_step_t *step, bool requests, bool waits)
{
    CUdeviceptr window = step->window->address, ended = window + offsetof(graph_words_t, ended);
    CUstreamBatchMemOpParams operations[3];
    uint32_t count = 0;
    if (requests)
        operations[count++] = stream_to_write(window + offsetof(graph_words_t, requested), 1);
    if (waits) {
        operations[count++] = stream_to_wait(ended, 1);
        operations[count++] = stream_to_write(ended, 0);
    }
    BLINK_TRY(stream_enter(step));
    blink_result_t result = stream_batch(step, operations, count);
    stream_leave(step);
    return result;
}

/* Several steps say that they have come, and only then does any of them wait. */
static blink_result_t enqueue_steps(const stream_steps_t *steps)
{
    const bool is_alone = steps->count == 1;
    for (size_t i = 0; i < steps->count; i++)
        BLINK_TRY(enqueue(&steps->items[i], true, is_alone));
    for (size_t i = 0; i < steps->count && !is_alone; i++)
        BLINK_TRY(enqueue(&steps->items[i], false, true));
    return BLINK_OK;
}

static void forget_steps(stream_steps_t *steps)
{
    char text[BLINK_ERROR_TEXT_BYTES]; /* outlives what may fail here */
    snprintf(text, sizeof(text), "%s", blink_error_text());
    for (size_t i = 0; i < steps->count; i++) {
        if (steps->items[i].window)
            forget(steps->items[i].window);
        steps->items[i].window = NULL;
    }
    blink_error_set(BLINK_ERR_SYSTEM, "%s", text);
}

blink_result_t stream_capture(stream_steps_t *steps, blink_result_t stored)
{
    blink_result_t result = stored;
    size_t held = 0;
    for (; held < steps->count && result == BLINK_OK; held++) {
        result = give_to_graph(&steps->items[held]);
        if (result != BLINK_OK)
            break;
    }
    if (result == BLINK_OK)
        result = enqueue_steps(steps);
    for (size_t i = 0; i < held; i++)
        steps->items[i].window = NULL;
    if (result != BLINK_OK)
        forget_steps(steps);
    return result;
}
