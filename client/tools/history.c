#include "tools/history.h"

/* What a thread did last. */
typedef struct thread {
    trace_place_t place;
    uint64_t submitted_us, ended_us; /* the first event's time until it has submitted; 0: nothing has ended */
    uint32_t ended;                  /* an op */
} thread_t;

typedef struct maker {
    const trace_t *trace;
    history_t *history;
    VEC(thread_t) threads;
} maker_t;

static int compare_events(const void *one, const void *other)
{
    const history_event_t *a = one, *b = other;
    if (a->at_us != b->at_us)
        return a->at_us < b->at_us ? -1 : 1;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return (a->arrival > b->arrival) - (a->arrival < b->arrival);
}

static bool make_events(const trace_t *trace, history_t *history)
{
    history->events = calloc(trace->ops.count + trace->arrivals.count, sizeof(history_event_t));
    if (!history->events)
        return false;
    for (uint32_t i = 0; i < trace->ops.count; i++) {
        const trace_op_t *op = &trace->ops.items[i];
        bool at_once = op->ended_us == op->all_came_us;
        history->events[history->event_count++] = (history_event_t){
            .at_us = op->ended_us, .order = at_once ? HISTORY_END_AT_ONCE : HISTORY_END, .op = i};
        for (size_t at = op->arrival_first; at < op->arrival_first + op->arrival_count; at++)
            history->events[history->event_count++] = (history_event_t){
                .at_us = trace->arrivals.items[at].at_us, .order = HISTORY_COME, .op = i, .arrival = at};
    }
    qsort(history->events, history->event_count, sizeof(history_event_t), compare_events);
    return true;
}

/* A rank whose place is not known is a thread of its own. */
static bool find_thread(maker_t *maker, trace_place_t place, uint32_t *found)
{
    bool is_known = place.client != TRACE_NONE && place.device != TRACE_NONE;
    for (size_t i = 0; is_known && i < maker->threads.count; i++) {
        *found = (uint32_t)i;
        if (maker->threads.items[i].place.client == place.client &&
            maker->threads.items[i].place.device == place.device)
            return true;
    }
    *found = (uint32_t)maker->threads.count;
    return vec_push(&maker->threads,
                    ((thread_t){.place = place, .submitted_us = maker->history->events[0].at_us}));
}

static bool find_threads(maker_t *maker)
{
    const trace_t *trace = maker->trace;
    history_t *history = maker->history;
    history->first = calloc(trace->comms.count + 1, sizeof(*history->first));
    if (!history->first)
        return false;
    for (size_t i = 0; i < trace->comms.count; i++)
        history->first[i + 1] = history->first[i] + trace->comms.items[i].rank_count;
    history->by_rank = calloc(history->first[trace->comms.count], sizeof(*history->by_rank));
    if (!history->by_rank)
        return false;
    for (size_t i = 0; i < trace->comms.count; i++)
        for (uint32_t rank = 0; rank < trace->comms.items[i].rank_count; rank++)
            if (!find_thread(maker, trace->comms.items[i].places[rank],
                             &history->by_rank[history->first[i] + rank]))
                return false;
    history->thread_count = (uint32_t)maker->threads.count;
    return true;
}

uint32_t history_thread(const history_t *history, uint32_t comm, uint32_t rank)
{
    return history->by_rank[history->first[comm] + rank];
}

static thread_t *thread_of(maker_t *maker, const trace_op_t *op, size_t arrival)
{
    uint32_t rank = maker->trace->arrivals.items[arrival].rank;
    return &maker->threads.items[history_thread(maker->history, op->comm, rank)];
}

/* Of the two moments before a submission the later one is what it follows. */
static void come(maker_t *maker, history_event_t *event)
{
    thread_t *thread = thread_of(maker, &maker->trace->ops.items[event->op], event->arrival);
    bool has_waited = thread->ended_us > 0 && thread->ended_us >= thread->submitted_us;
    event->after = has_waited ? thread->ended : TRACE_NONE;
    event->gap_us = event->at_us - (has_waited ? thread->ended_us : thread->submitted_us);
    thread->submitted_us = event->at_us;
}

static void end(maker_t *maker, const history_event_t *event)
{
    const trace_op_t *op = &maker->trace->ops.items[event->op];
    for (size_t at = op->arrival_first; at < op->arrival_first + op->arrival_count; at++) {
        thread_t *thread = thread_of(maker, op, at);
        thread->ended_us = op->ended_us;
        thread->ended = event->op;
    }
}

blink_result_t history_make(const trace_t *trace, history_t *history)
{
    maker_t maker = {.trace = trace, .history = history};
    *history = (history_t){0};
    if (trace->ops.count == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the trace has no op that succeeded");
    bool has_memory = make_events(trace, history) && find_threads(&maker);
    for (size_t i = 0; has_memory && i < history->event_count; i++) {
        if (history->events[i].order == HISTORY_COME)
            come(&maker, &history->events[i]);
        else
            end(&maker, &history->events[i]);
    }
    vec_free(&maker.threads);
    return has_memory ? BLINK_OK
                      : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to follow %zu ops", trace->ops.count);
}

void history_free(history_t *history)
{
    free(history->events);
    free(history->first);
    free(history->by_rank);
    *history = (history_t){0};
}
