/* The three ways through an iteration. */
#include "ranks/work.h"

#include "library.h"

#include <stdlib.h>

blink_result_t perf_work_create(const perf_options_t *options, perf_gpu_t *gpu, perf_work_t *work)
{
    uint32_t count = options->comm_count;
    *work = (perf_work_t){.order = options->order,
                          .comm_count = count,
                          .group_count = options->group_count,
                          .gpu = gpu,
                          .comms = calloc(count, sizeof(blink_comm_t *)),
                          .calls = calloc(perf_op_count(options), sizeof(perf_call_t)),
                          .ops = calloc(count, sizeof(blink_op_t *)),
                          .streams = calloc(count, sizeof(blink_stream_t)),
                          .graphs = calloc(count, sizeof(perf_graph_t *))};
    if (!work->comms || !work->calls || !work->ops || !work->streams || !work->graphs)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ops", perf_op_count(options));
    for (uint32_t i = 0; i < count && work->order != PERF_ORDER_HOST; i++)
        BLINK_TRY(perf_stream_create(gpu, &work->streams[i]));
    return BLINK_OK;
}

void perf_work_destroy(perf_work_t *work)
{
    if (work->graphs)
        perf_work_end(work);
    for (uint32_t i = 0; i < work->comm_count && work->streams; i++)
        perf_stream_destroy(work->gpu, work->streams[i]);
    free(work->graphs);
    free(work->streams);
    free(work->ops);
    free(work->calls);
    free(work->comms);
    *work = (perf_work_t){0};
}

static blink_result_t submit(perf_work_t *work, uint32_t comm)
{
    perf_way_t way = {.op = &work->ops[comm]};
    if (work->order != PERF_ORDER_HOST)
        way = (perf_way_t){.on_stream = true, .stream = work->streams[comm]};
    return perf_submit(&work->calls[(size_t)comm * work->group_count], work->group_count, &way);
}

static blink_result_t record(perf_work_t *work, uint32_t comm)
{
    BLINK_TRY(perf_graph_begin(work->gpu, work->streams[comm]));
    BLINK_TRY(submit(work, comm));
    return perf_graph_end(work->gpu, work->streams[comm], &work->graphs[comm]);
}

blink_result_t perf_work_begin(perf_work_t *work)
{
    for (uint32_t i = 0; i < work->comm_count && work->order == PERF_ORDER_GRAPH; i++)
        BLINK_TRY(record(work, i));
    return BLINK_OK;
}

void perf_work_end(perf_work_t *work)
{
    for (uint32_t i = 0; i < work->comm_count; i++) {
        if (work->graphs[i])
            perf_graph_destroy(work->gpu, work->graphs[i]);
        work->graphs[i] = NULL;
    }
}

/* A stream goes on past an op that failed. */
static blink_result_t wait_for_stream(perf_work_t *work, uint32_t comm)
{
    blink_result_t failure;
    BLINK_TRY(perf_stream_wait(work->gpu, work->streams[comm]));
    LIBRARY_TRY(blink_comm_async_error(work->comms[comm], &failure));
    LIBRARY_TRY(failure);
    return BLINK_OK;
}

blink_result_t perf_work_run(perf_work_t *work)
{
    for (uint32_t i = 0; i < work->comm_count; i++)
        BLINK_TRY(work->order == PERF_ORDER_GRAPH
                      ? perf_graph_launch(work->gpu, work->graphs[i], work->streams[i])
                      : submit(work, i));
    for (uint32_t i = 0; i < work->comm_count; i++) {
        if (work->order == PERF_ORDER_HOST)
            LIBRARY_TRY(blink_wait(work->ops[i]));
        else
            BLINK_TRY(wait_for_stream(work, i));
    }
    return BLINK_OK;
}
