#include "ctl/trace/predict.h"

#include "error.h"

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
        result = time(context, &request, &kind->each_us);
    free(nodes);
    return result;
}

static predict_kind_t *find_kind(const prediction_t *prediction, const trace_op_t *op)
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
        if (find_kind(prediction, op))
            continue;
        if (prediction->kinds.count == PREDICT_KINDS_MOST)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the trace has more than %u kinds of ops",
                              PREDICT_KINDS_MOST);
        BLINK_TRY(find_time(trace, defaults, time, context, &kind));
        if (!vec_push(&prediction->kinds, kind))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu kinds of ops", prediction->kinds.count);
    }
    return BLINK_OK;
}

/* ---- the order of what was recorded ---- */

/* At one microsecond: ends of ops whose ranks had come before, then ranks that come, then ends of their ops.
 */
typedef enum event_order { ORDER_END, ORDER_COME, ORDER_END_AT_ONCE } event_order_t;

typedef struct event {
    uint64_t at_us;
    event_order_t order;
    uint32_t op;
    size_t arrival; /* of ORDER_COME */
} event_t;

static int compare_events(const void *one, const void *other)
{
    const event_t *a = one, *b = other;
    if (a->at_us != b->at_us)
        return a->at_us < b->at_us ? -1 : 1;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return (a->arrival > b->arrival) - (a->arrival < b->arrival);
}

/* A moment, as recorded and as predicted. */
typedef struct moment {
    double recorded_us, predicted_us;
    bool is_there;
} moment_t;

/* What a thread did last. */
typedef struct actor {
    trace_place_t place;
    moment_t submission, end;
} actor_t;

typedef struct replay {
    const trace_t *trace;
    prediction_t *prediction;
    event_t *events;
    size_t event_count;
    VEC(actor_t) actors;
    uint32_t **actor_of; /* by communicator and rank, an index */
    double **free_us;    /* by communicator: since when the ops of a rank, then collectives, need not wait */
    double *ready_us;    /* by op: when the last rank has come */
} replay_t;

static bool make_events(replay_t *replay)
{
    const trace_t *trace = replay->trace;
    replay->events = calloc(trace->ops.count + trace->arrivals.count, sizeof(event_t));
    replay->ready_us = calloc(trace->ops.count, sizeof(double));
    if (!replay->events || !replay->ready_us)
        return false;
    for (uint32_t i = 0; i < trace->ops.count; i++) {
        const trace_op_t *op = &trace->ops.items[i];
        bool at_once = op->ended_us == op->all_came_us;
        replay->events[replay->event_count++] =
            (event_t){op->ended_us, at_once ? ORDER_END_AT_ONCE : ORDER_END, i, 0};
        for (size_t at = op->arrival_first; at < op->arrival_first + op->arrival_count; at++)
            replay->events[replay->event_count++] =
                (event_t){trace->arrivals.items[at].at_us, ORDER_COME, i, at};
    }
    qsort(replay->events, replay->event_count, sizeof(event_t), compare_events);
    return true;
}

/* A rank whose place is not known is a thread of its own. */
static bool find_actor(replay_t *replay, trace_place_t place, uint32_t *found)
{
    bool is_known = place.client != TRACE_NONE && place.device != TRACE_NONE;
    for (size_t i = 0; is_known && i < replay->actors.count; i++) {
        *found = (uint32_t)i;
        if (replay->actors.items[i].place.client == place.client &&
            replay->actors.items[i].place.device == place.device)
            return true;
    }
    *found = (uint32_t)replay->actors.count;
    return vec_push(&replay->actors, ((actor_t){.place = place}));
}

static bool make_ranks(replay_t *replay)
{
    const trace_t *trace = replay->trace;
    replay->actor_of = calloc(trace->comms.count, sizeof(*replay->actor_of));
    replay->free_us = calloc(trace->comms.count, sizeof(*replay->free_us));
    if (!replay->actor_of || !replay->free_us)
        return false;
    for (size_t i = 0; i < trace->comms.count; i++) {
        const trace_comm_t *comm = &trace->comms.items[i];
        replay->actor_of[i] = calloc(comm->rank_count, sizeof(**replay->actor_of));
        replay->free_us[i] = calloc((size_t)comm->rank_count + 1, sizeof(**replay->free_us));
        if (!replay->actor_of[i] || !replay->free_us[i])
            return false;
        for (uint32_t rank = 0; rank < comm->rank_count; rank++)
            if (!find_actor(replay, comm->places[rank], &replay->actor_of[i][rank]))
                return false;
    }
    return true;
}

static void replay_free(replay_t *replay)
{
    for (size_t i = 0; i < replay->trace->comms.count; i++) {
        if (replay->actor_of)
            free(replay->actor_of[i]);
        if (replay->free_us)
            free(replay->free_us[i]);
    }
    free(replay->actor_of);
    free(replay->free_us);
    free(replay->ready_us);
    free(replay->events);
    vec_free(&replay->actors);
}

/* ---- predicting one event after the other ---- */

static actor_t *actor_at(const replay_t *replay, const trace_op_t *op, size_t arrival)
{
    uint32_t rank = replay->trace->arrivals.items[arrival].rank;
    return &replay->actors.items[replay->actor_of[op->comm][rank]];
}

/* Of the two moments before a submission the later one, as recorded, is what it follows. */
static void come(replay_t *replay, const event_t *event)
{
    actor_t *actor = actor_at(replay, &replay->trace->ops.items[event->op], event->arrival);
    const moment_t begin = {.recorded_us = (double)replay->events[0].at_us}, *after = &begin;
    moment_t *submission = &actor->submission;
    double at_us = (double)event->at_us;
    if (submission->is_there)
        after = submission;
    if (actor->end.is_there && actor->end.recorded_us >= after->recorded_us)
        after = &actor->end;
    double predicted_us = after->predicted_us + (at_us - after->recorded_us);
    if (predicted_us < submission->predicted_us)
        predicted_us = submission->predicted_us;
    *submission = (moment_t){at_us, predicted_us, true};
    if (replay->ready_us[event->op] < predicted_us)
        replay->ready_us[event->op] = predicted_us;
}

static void end(replay_t *replay, const event_t *event)
{
    const trace_op_t *op = &replay->trace->ops.items[event->op];
    predict_kind_t *kind = find_kind(replay->prediction, op);
    uint32_t queue =
        collective_is_pair(op->collective) ? op->root : replay->trace->comms.items[op->comm].rank_count;
    double *free_us = &replay->free_us[op->comm][queue];
    double took_us = (double)(op->ended_us - op->all_came_us);
    double start_us = replay->ready_us[event->op] > *free_us ? replay->ready_us[event->op] : *free_us;
    double end_us = start_us + (kind->each_us < 0 ? took_us : kind->each_us);
    *free_us = end_us;
    for (size_t i = op->arrival_first; i < op->arrival_first + op->arrival_count; i++)
        actor_at(replay, op, i)->end = (moment_t){(double)op->ended_us, end_us, true};
    kind->op_count++;
    kind->recorded_us += took_us;
    kind->predicted_us += end_us - replay->ready_us[event->op];
    if (replay->prediction->predicted_us < end_us)
        replay->prediction->predicted_us = end_us;
}

static void follow_events(replay_t *replay)
{
    for (size_t i = 0; i < replay->event_count; i++) {
        if (replay->events[i].order == ORDER_COME)
            come(replay, &replay->events[i]);
        else
            end(replay, &replay->events[i]);
    }
    replay->prediction->recorded_us =
        (double)(replay->events[replay->event_count - 1].at_us - replay->events[0].at_us);
}

blink_result_t predict(const trace_t *trace, const plan_request_t *defaults, predict_time_t *time,
                       void *context, prediction_t *prediction)
{
    replay_t replay = {.trace = trace, .prediction = prediction};
    *prediction = (prediction_t){0};
    if (trace->ops.count == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the trace has no op that succeeded");
    BLINK_TRY(find_kinds(trace, defaults, time, context, prediction));
    bool has_memory = make_events(&replay) && make_ranks(&replay);
    if (has_memory)
        follow_events(&replay);
    replay_free(&replay);
    return has_memory ? BLINK_OK
                      : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to follow %zu ops", trace->ops.count);
}

void prediction_free(prediction_t *prediction)
{
    vec_free(&prediction->kinds);
}
