#include "ctl/trace/predict.h"

#include "ctl/trace/schedule.h"
#include "error.h"
#include "tools/history.h"

#include <math.h>

/* ---- kinds of ops ---- */

static bool is_of_kind(const predict_kind_t *kind, const trace_op_t *op)
{
    return kind->comm == op->comm && kind->collective == op->collective && kind->root == op->root &&
           kind->peer == op->peer && kind->bytes == op->bytes;
}

/* The nodes of a communicator's ranks, which the caller frees. */
static blink_result_t find_nodes(const trace_comm_t *comm, const plan_request_t *defaults, uint32_t **nodes)
{
    if (comm->rank_count > PLAN_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "communicator %u of the trace has more than %u ranks",
                          comm->number, PLAN_RANKS_MAX);
    *nodes = calloc(comm->rank_count, sizeof(**nodes));
    if (!*nodes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", comm->rank_count);
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        uint32_t device = comm->places[i].device;
        if (device == TRACE_NONE)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "the trace does not say where rank %u of communicator %u is: it was on another "
                              "host, and one host's communicators are predicted",
                              i, comm->number);
        if (device >= defaults->rank_count)
            return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                              "rank %u of communicator %u was on device %u, and there are %u: name a larger "
                              "topology, or more devices with --ranks",
                              i, comm->number, device, defaults->rank_count);
        (*nodes)[i] = defaults->rank_node[device];
    }
    return BLINK_OK;
}

static blink_result_t find_time(const trace_t *trace, const plan_request_t *defaults, predict_time_t *time,
                                void *context, predict_kind_t *kind)
{
    const trace_comm_t *comm = &trace->comms.items[kind->comm];
    plan_request_t request = *defaults;
    uint32_t *nodes = NULL;
    kind->each_us = -1;
    if (kind->bytes == 0 || comm->rank_count == 1 || !collective_moves(kind->collective))
        return BLINK_OK;
    request.collective = kind->collective;
    request.root = kind->root;
    request.peer = kind->peer;
    request.bytes = kind->bytes;
    request.rank_count = comm->rank_count;
    blink_result_t result = find_nodes(comm, defaults, &nodes);
    request.rank_node = nodes;
    if (result == BLINK_OK)
        result = time(context, &request, kind);
    free(nodes);
    return result;
}

predict_kind_t *predict_kind(const prediction_t *prediction, const trace_op_t *op)
{
    for (size_t i = prediction->kinds.count; i > 0; i--)
        if (is_of_kind(&prediction->kinds.items[i - 1], op))
            return &prediction->kinds.items[i - 1];
    return NULL;
}

static blink_result_t find_kinds(const trace_t *trace, const plan_request_t *defaults, predict_time_t *time,
                                 void *context, prediction_t *prediction)
{
    for (size_t i = 0; i < trace->ops.count; i++) {
        const trace_op_t *op = &trace->ops.items[i];
        predict_kind_t kind = {.comm = op->comm,
                               .collective = op->collective,
                               .root = op->root,
                               .peer = op->peer,
                               .bytes = op->bytes};
        if (predict_kind(prediction, op))
            continue;
        if (prediction->kinds.count == PREDICT_KINDS_MOST)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the trace has more than %u kinds of ops",
                              PREDICT_KINDS_MOST);
        blink_result_t result = find_time(trace, defaults, time, context, &kind);
        if (result == BLINK_OK && !vec_push(&prediction->kinds, kind))
            result =
                BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu kinds of ops", prediction->kinds.count);
        if (result != BLINK_OK) {
            schedule_free(kind.schedule);
            return result;
        }
    }
    return BLINK_OK;
}

/* ---- predicting one event after the other ---- */

typedef struct replay {
    const trace_t *trace;
    prediction_t *prediction;
    history_t history;
    double *submitted_us; /* by thread: its last submission */
    double *ready_us;     /* by op: when the last rank has come */
    double *ended_us;     /* by op */
    double **free_us;     /* by communicator: since when the ops of a rank, then collectives, need not wait */
} replay_t;

static bool replay_make(replay_t *replay)
{
    const trace_t *trace = replay->trace;
    replay->submitted_us = calloc(replay->history.thread_count, sizeof(double));
    replay->ready_us = calloc(trace->ops.count, sizeof(double));
    replay->ended_us = calloc(trace->ops.count, sizeof(double));
    replay->free_us = calloc(trace->comms.count, sizeof(*replay->free_us));
    if (!replay->submitted_us || !replay->ready_us || !replay->ended_us || !replay->free_us)
        return false;
    for (size_t i = 0; i < trace->comms.count; i++) {
        replay->free_us[i] = calloc((size_t)trace->comms.items[i].rank_count + 1, sizeof(double));
        if (!replay->free_us[i])
            return false;
    }
    return true;
}

static void replay_free(replay_t *replay)
{
    for (size_t i = 0; replay->free_us && i < replay->trace->comms.count; i++)
        free(replay->free_us[i]);
    free(replay->free_us);
    free(replay->ended_us);
    free(replay->ready_us);
    free(replay->submitted_us);
    history_free(&replay->history);
}

static void come(replay_t *replay, const history_event_t *event)
{
    uint32_t rank = replay->trace->arrivals.items[event->arrival].rank;
    uint32_t thread = history_thread(&replay->history, replay->trace->ops.items[event->op].comm, rank);
    double *submitted_us = &replay->submitted_us[thread];
    double after_us = event->after == TRACE_NONE ? *submitted_us : replay->ended_us[event->after];
    *submitted_us = fmax(after_us + (double)event->gap_us, *submitted_us);
    replay->ready_us[event->op] = fmax(replay->ready_us[event->op], *submitted_us);
}

static void end(replay_t *replay, const history_event_t *event)
{
    const trace_op_t *op = &replay->trace->ops.items[event->op];
    predict_kind_t *kind = predict_kind(replay->prediction, op);
    uint32_t queue =
        collective_is_pair(op->collective) ? op->root : replay->trace->comms.items[op->comm].rank_count;
    double *free_us = &replay->free_us[op->comm][queue];
    double took_us = (double)(op->ended_us - op->all_came_us);
    double start_us = fmax(replay->ready_us[event->op], *free_us);
    double end_us = start_us + (kind->each_us < 0 ? took_us : kind->each_us);
    *free_us = replay->ended_us[event->op] = end_us;
    kind->op_count++;
    kind->recorded_us += took_us;
    kind->predicted_us += end_us - replay->ready_us[event->op];
    replay->prediction->predicted_us = fmax(replay->prediction->predicted_us, end_us);
}

static void follow_events(replay_t *replay)
{
    const history_event_t *events = replay->history.events;
    for (size_t i = 0; i < replay->history.event_count; i++) {
        if (events[i].order == HISTORY_COME)
            come(replay, &events[i]);
        else
            end(replay, &events[i]);
    }
    replay->prediction->recorded_us =
        (double)(events[replay->history.event_count - 1].at_us - events[0].at_us);
}

blink_result_t predict(const trace_t *trace, const plan_request_t *defaults, predict_time_t *time,
                       void *context, prediction_t *prediction)
{
    replay_t replay = {.trace = trace, .prediction = prediction};
    *prediction = (prediction_t){0};
    blink_result_t result = history_make(trace, &replay.history);
    if (result == BLINK_OK)
        result = find_kinds(trace, defaults, time, context, prediction);
    if (result == BLINK_OK && !replay_make(&replay))
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to follow %zu ops", trace->ops.count);
    if (result == BLINK_OK)
        follow_events(&replay);
    replay_free(&replay);
    return result;
}

void prediction_free(prediction_t *prediction)
{
    for (size_t i = 0; i < prediction->kinds.count; i++)
        schedule_free(prediction->kinds.items[i].schedule);
    vec_free(&prediction->kinds);
}
