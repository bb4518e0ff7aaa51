#include "ctl/trace/schedule.h"

#include "error.h"
#include "tools/history.h"

#include <stdlib.h>

#define LABEL_BYTES 16

/* Labels of the op of this number in the trace: bN of its submission, tN when it may begin, eN of its end,
 * and those of what it does begin with oN. */
typedef struct labels {
    char prefix[LABEL_BYTES], begin[LABEL_BYTES], end[LABEL_BYTES];
} labels_t;

typedef struct writer {
    const trace_t *trace;
    const prediction_t *prediction;
    FILE *out;
    history_t history;
    const schedule_t **schedules; /* by op, of its kind; NULL: it moves nothing */
    uint32_t *tag_first;          /* by op */
    uint32_t **devices;           /* by communicator: of its ranks */
    uint32_t device_count;
    /* Of the device that is written: the last op that a thread submitted, and of those of a rank, which is
     * history.by_rank's, the last collective and the last transfer from it. TRACE_NONE: there is none. */
    uint32_t *of_thread, *collective, *transfer;
} writer_t;

void schedule_free(schedule_t *schedule)
{
    if (!schedule)
        return;
    goal_destroy(schedule->goal);
    lane_geometry_fini(&schedule->geometry);
    lane_program_destroy(schedule->program);
    free(schedule);
}

/* ---- what is known before ---- */

/* Ranks that take part in an op. */
static uint32_t rank_count_of(const trace_t *trace, const trace_op_t *op)
{
    if (collective_is_pair(op->collective))
        return op->root == op->peer ? 1 : 2;
    return trace->comms.items[op->comm].rank_count;
}

static blink_result_t find_devices(writer_t *writer, uint32_t comm)
{
    const trace_comm_t *of = &writer->trace->comms.items[comm];
    uint32_t *devices = writer->devices[comm] = calloc(of->rank_count + 1, sizeof(*devices));
    if (!devices)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", of->rank_count);
    for (uint32_t i = 0; i < of->rank_count; i++) {
        devices[i] = of->places[i].device;
        if (devices[i] == TRACE_NONE)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "the trace does not say where rank %u of communicator %u is: it was on another "
                              "host, and schedules are of one host's communicators",
                              i, of->number);
        if (devices[i] >= writer->device_count)
            writer->device_count = devices[i] + 1;
    }
    return BLINK_OK;
}

static blink_result_t number_tags(writer_t *writer)
{
    const trace_t *trace = writer->trace;
    uint64_t tags = 0;
    for (uint32_t i = 0; i < trace->ops.count; i++) {
        const trace_op_t *op = &trace->ops.items[i];
        const schedule_t *schedule = predict_kind(writer->prediction, op)->schedule;
        uint32_t ranks = rank_count_of(trace, op);
        if (op->arrival_count < ranks)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "the trace does not say when all ranks of communicator %u came to its ops: the "
                              "daemon remembers it of 64, and they are %u",
                              trace->comms.items[op->comm].number, ranks);
        writer->schedules[i] = schedule;
        writer->tag_first[i] = (uint32_t)tags;
        tags += schedule ? goal_tag_count(schedule->goal) : 2ull * trace->comms.items[op->comm].rank_count;
        if (tags > UINT32_MAX)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the trace has more chunks than the %u tags of GOAL",
                              UINT32_MAX);
    }
    return BLINK_OK;
}

static blink_result_t writer_init(writer_t *writer)
{
    const trace_t *trace = writer->trace;
    BLINK_TRY(history_make(trace, &writer->history));
    size_t ranks = writer->history.first[trace->comms.count];
    writer->schedules = calloc(trace->ops.count, sizeof(*writer->schedules));
    writer->tag_first = calloc(trace->ops.count, sizeof(uint32_t));
    writer->devices = calloc(trace->comms.count, sizeof(*writer->devices));
    writer->of_thread = calloc(writer->history.thread_count, sizeof(uint32_t));
    writer->collective = calloc(ranks, sizeof(uint32_t));
    writer->transfer = calloc(ranks, sizeof(uint32_t));
    if (!writer->schedules || !writer->tag_first || !writer->devices || !writer->of_thread ||
        !writer->collective || !writer->transfer)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a schedule of %zu ops", trace->ops.count);
    for (uint32_t i = 0; i < trace->comms.count; i++)
        BLINK_TRY(find_devices(writer, i));
    return number_tags(writer);
}

static void writer_fini(writer_t *writer)
{
    for (size_t i = 0; writer->devices && i < writer->trace->comms.count; i++)
        free(writer->devices[i]);
    free(writer->devices);
    free(writer->schedules);
    free(writer->tag_first);
    free(writer->of_thread);
    free(writer->collective);
    free(writer->transfer);
    history_free(&writer->history);
}

/* ---- one rank's part of one op ---- */

static void make_labels(uint32_t op, labels_t *labels)
{
    snprintf(labels->prefix, LABEL_BYTES, "o%u", op);
    snprintf(labels->begin, LABEL_BYTES, "t%u", op);
    snprintf(labels->end, LABEL_BYTES, "e%u", op);
}

/* The other ranks send the first one a byte, and it answers all when all have. */
static void write_meeting(const writer_t *writer, uint32_t op, uint32_t rank, const labels_t *labels)
{
    const trace_op_t *of = &writer->trace->ops.items[op];
    const uint32_t *devices = writer->devices[of->comm];
    uint32_t ranks = writer->trace->comms.items[of->comm].rank_count, tag = writer->tag_first[op];
    uint32_t from = rank == 0 ? 1 : rank, to = rank == 0 ? ranks : rank + 1;
    for (uint32_t i = from; i < to; i++) {
        uint32_t other = devices[rank == 0 ? i : 0], asks = tag + 2 * i, answers = asks + 1;
        fprintf(writer->out, "%sr%u: recv 1b from %u tag %u\n", labels->prefix, i, other,
                rank == 0 ? asks : answers);
        fprintf(writer->out, "%ss%u: send 1b to %u tag %u cpu %u nic %u\n", labels->prefix, i, other,
                rank == 0 ? answers : asks, GOAL_OTHER_CPU, GOAL_OTHER_CPU);
    }
    for (uint32_t i = from; i < to; i++) {
        fprintf(writer->out, "%ss%u requires %s\n", labels->prefix, i, labels->begin);
        for (uint32_t j = from; rank == 0 && j < to; j++)
            fprintf(writer->out, "%ss%u requires %sr%u\n", labels->prefix, i, labels->prefix, j);
        fprintf(writer->out, "%s requires %s%c%u\n", labels->end, labels->prefix, rank == 0 ? 's' : 'r', i);
    }
}

/* What takes the time that it took, and what waits for it. */
static void write_op(const writer_t *writer, uint32_t op, uint32_t rank)
{
    const trace_op_t *of = &writer->trace->ops.items[op];
    const schedule_t *schedule = writer->schedules[op];
    labels_t labels;
    make_labels(op, &labels);
    uint64_t took_us = schedule ? 0 : of->ended_us - of->all_came_us;
    fprintf(writer->out, "%s: calc %lu\n", labels.end, (unsigned long)(1000 * took_us));
    fprintf(writer->out, "%s requires %s\n", labels.end, labels.begin);
    if (schedule) {
        const goal_place_t place = {.prefix = labels.prefix,
                                    .ranks = writer->devices[of->comm],
                                    .tag_first = writer->tag_first[op],
                                    .begin = labels.begin,
                                    .end = labels.end};
        goal_write_rank(schedule->goal, &place, rank, writer->out);
    } else if (!collective_is_pair(of->collective)) {
        write_meeting(writer, op, rank, &labels);
    }
}

static void require_end(const writer_t *writer, char kind, uint32_t op, uint32_t needed)
{
    if (needed != TRACE_NONE)
        fprintf(writer->out, "%c%u requires e%u\n", kind, op, needed);
}

static void write_submission(writer_t *writer, const history_event_t *event, uint32_t rank)
{
    const trace_op_t *op = &writer->trace->ops.items[event->op];
    size_t of_rank = writer->history.first[op->comm] + rank;
    uint32_t *before = &writer->of_thread[writer->history.by_rank[of_rank]];
    bool is_pair = collective_is_pair(op->collective);
    uint32_t *queue = is_pair ? &writer->transfer[of_rank] : &writer->collective[of_rank];
    fprintf(writer->out, "b%u: calc %lu cpu %u\nt%u: calc 0\n", event->op,
            (unsigned long)(1000 * event->gap_us), GOAL_OTHER_CPU, event->op);
    if (*before != TRACE_NONE)
        fprintf(writer->out, "b%u requires b%u\n", event->op, *before);
    require_end(writer, 'b', event->op, event->after);
    fprintf(writer->out, "t%u requires b%u\n", event->op, event->op);
    require_end(writer, 't', event->op, *queue);
    write_op(writer, event->op, rank);
    *before = event->op;
    if (!is_pair || op->root == rank)
        *queue = event->op;
}

/* ---- all ---- */

static void write_device(writer_t *writer, uint32_t device)
{
    const trace_t *trace = writer->trace;
    const history_t *history = &writer->history;
    for (uint32_t i = 0; i < history->thread_count; i++)
        writer->of_thread[i] = TRACE_NONE;
    for (size_t i = 0; i < history->first[trace->comms.count]; i++)
        writer->collective[i] = writer->transfer[i] = TRACE_NONE;
    fprintf(writer->out, "rank %u {\n", device);
    for (size_t i = 0; i < history->event_count; i++) {
        const history_event_t *event = &history->events[i];
        if (event->order != HISTORY_COME)
            continue;
        uint32_t rank = trace->arrivals.items[event->arrival].rank;
        if (writer->devices[trace->ops.items[event->op].comm][rank] == device)
            write_submission(writer, event, rank);
    }
    fputs("}\n", writer->out);
}

blink_result_t schedule_write(const trace_t *trace, const prediction_t *prediction, FILE *out)
{
    writer_t writer = {.trace = trace, .prediction = prediction, .out = out};
    blink_result_t result = writer_init(&writer);
    if (result == BLINK_OK)
        fprintf(out, "num_ranks %u\n", writer.device_count);
    for (uint32_t i = 0; result == BLINK_OK && i < writer.device_count; i++)
        write_device(&writer, i);
    writer_fini(&writer);
    return result;
}
