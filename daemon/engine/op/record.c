#include "engine/op/record.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ops that have not ended, of those that are told. */
#define LIVE_MOST      32u
#define LOOKED_AT_MOST 256u

/* Of a list of ranks in the log. */
#define RANKS_TEXT_BYTES 128

/* ---- making records ---- */

static op_doing_t doing_of(const comm_op_t *op)
{
    static const op_doing_t doing[] = {
        [OP_GATHERING] = DOING_GATHERING, [OP_DUE] = DOING_GATHERING,  [OP_PLANNING] = DOING_PLAN,
        [OP_AWAITING] = DOING_CLIENT,     [OP_QUEUED] = DOING_SCRATCH, [OP_RUNNING] = DOING_RUN,
        [OP_ENDED] = DOING_ENDED,
    };
    return doing[op->state];
}

/* Entries of ranks that have come, or of those that have not, as far as there is room. */
static void add_arrivals(const comm_op_t *op, bool of_those_that_came, op_record_t *record)
{
    uint32_t most = record_ranks(op->comm->member_count);
    for (uint32_t i = 0; i < op->entry_count && record->arrival_count < most; i++) {
        const op_entry_t *entry = &op->entries[i];
        bool came = entry->batch != NULL;
        if (came == of_those_that_came)
            record->arrivals[record->arrival_count++] =
                (op_arrival_t){entry->rank->rank, came ? entry->came_us : RECORD_NOT_COME};
    }
}

static void fill(const comm_op_t *op, uint64_t ended_us, op_record_t *record)
{
    *record = (op_record_t){.sequence = op->sequence,
                            .payload_bytes = op->shape.payload_bytes,
                            .began_us = op->began_us,
                            .ended_us = ended_us,
                            .run_us = op->measured_ns / 1000,
                            .result = op->result,
                            .doing = doing_of(op),
                            .root = op->signature.root,
                            .peer = op->signature.peer,
                            .datatype = op->signature.datatype,
                            .redop = op->signature.redop,
                            .opcode = op->signature.opcode};
    memcpy(record->waited_us, op->waited_us, sizeof(record->waited_us));
    add_arrivals(op, false, record);
    add_arrivals(op, true, record);
}

void record_ended(const comm_op_t *op)
{
    op_record_t *record = history_add(&op->comm->history);
    engine_count(op->comm->engine, op->entry_count / ENTRIES_PER_STEP);
    if (record)
        fill(op, op->ended_us, record);
}

/* ---- telling tools ---- */

static op_record_t *next_place(engine_records_t *told)
{
    return (op_record_t *)(void *)(told->records + told->count++ * told->stride);
}

/* From the newest to the oldest, between the numbers that are asked for. */
static void tell_ended(const history_t *history, engine_records_t *told)
{
    uint64_t number = told->before > 0 && told->before < history->total ? told->before : history->total;
    const op_record_t *record = NULL;
    while (told->count < ENGINE_RECORDS && number > told->since &&
           (record = history_get(history, number - 1))) {
        memcpy(next_place(told), record, told->stride);
        number--;
    }
    told->next = number > told->since && record ? number : 0;
}

static void tell_live(const engine_comm_t *comm, engine_records_t *told)
{
    uint32_t looked = 0;
    LIST_FOR_EACH (link, &comm->ops) {
        const comm_op_t *op = CONTAINER_OF(link, comm_op_t, of_comm);
        if (told->count == LIVE_MOST || ++looked > LOOKED_AT_MOST)
            break;
        if (op->state != OP_ENDED)
            fill(op, 0, next_place(told));
    }
}

static void told_on_control(mailbox_item_t *item)
{
    engine_records_t *told = CONTAINER_OF(item, engine_records_t, item);
    told->done.call(told->done.context);
}

static void tell(mailbox_item_t *item)
{
    engine_records_t *told = CONTAINER_OF(item, engine_records_t, item);
    const engine_comm_t *comm = told->comm;
    told->now_us = clock_us();
    told->op_total = comm->op_total;
    told->ended_total = comm->history.total;
    if (told->before == 0)
        tell_live(comm, told);
    tell_ended(&comm->history, told);
    engine_count(comm->engine, told->count);
    item->run = told_on_control;
    mailbox_post(comm->engine->config.control, item);
}

static engine_records_t *records_alloc(size_t stride, uint64_t since, uint64_t before)
{
    engine_records_t *told = calloc(1, sizeof(*told) + ENGINE_RECORDS * stride);
    if (!told) {
        BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ops of a communicator", ENGINE_RECORDS);
        return NULL;
    }
    told->since = since;
    told->before = before;
    told->stride = stride;
    return told;
}

blink_result_t engine_records_create(engine_comm_t *comm, uint64_t since, uint64_t before, engine_done_t done,
                                     engine_records_t **created)
{
    engine_records_t *told = records_alloc(record_bytes(record_ranks(comm->member_count)), since, before);
    if (!told)
        return BLINK_ERR_NO_MEMORY;
    told->comm = comm;
    told->done = done;
    told->item.run = tell;
    *created = told;
    return BLINK_OK;
}

blink_result_t engine_records_of_lost(const history_t *ops, uint64_t since, uint64_t before,
                                      engine_records_t **created)
{
    engine_records_t *told = records_alloc(ops->stride, since, before);
    if (!told)
        return BLINK_ERR_NO_MEMORY;
    told->now_us = clock_us();
    told->ended_total = ops->total;
    tell_ended(ops, told);
    *created = told;
    return BLINK_OK;
}

void engine_records_ask(engine_records_t *records)
{
    records->comm->has_mail = true;
    mailbox_post(&records->comm->engine->mailbox, &records->item);
}

/* ---- the log ---- */

/* The ranks that have not come to an op, "1, 3", as far as they fit. */
static void name_missing(const comm_op_t *op, char text[RANKS_TEXT_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < op->entry_count && used < RANKS_TEXT_BYTES; i++) {
        if (!op->entries[i].batch)
            used += (size_t)snprintf(text + used, RANKS_TEXT_BYTES - used, "%s%u", used ? ", " : "",
                                     op->entries[i].rank->rank);
    }
}

static void log_oldest(const comm_op_t *op, const event_of_t *lost)
{
    static const char *const doing[] = {
        [DOING_ENDED] = "has ended",           [DOING_GATHERING] = "waits for ops before it",
        [DOING_PLAN] = "waits for its plan",   [DOING_CLIENT] = "waits for copies or streams",
        [DOING_SCRATCH] = "waits for scratch", [DOING_RUN] = "runs",
    };
    char missing[RANKS_TEXT_BYTES], rest[RANKS_TEXT_BYTES + 32];
    name_missing(op, missing);
    snprintf(rest, sizeof(rest), "%s%s", *missing ? "lacks rank " : doing[doing_of(op)], missing);
    event_log(
        lost, LOG_LEVEL_INFO,
        "its oldest op is %s %lu of %lu bytes, begun %.6g s ago, to which %u of %u ranks here have come: "
        "it %s",
        collective_op_name(op->signature.opcode), (unsigned long)op->sequence,
        (unsigned long)op->shape.payload_bytes, (double)(clock_us() - op->began_us) / 1e6,
        op->submitted_count, op->entry_count, rest);
}

void record_log(const engine_comm_t *comm, const event_of_t *lost)
{
    const history_t *history = &comm->history;
    const comm_op_t *oldest = LIST_FIRST(&comm->ops, comm_op_t, of_comm);
    const op_record_t *last = history->total > 0 ? history_get(history, history->total - 1) : NULL;
    if (oldest)
        log_oldest(oldest, lost);
    if (last)
        event_log(lost, LOG_LEVEL_INFO, "its last op to end was %s %lu of %lu bytes, %.6g s ago",
                  collective_op_name(last->opcode), (unsigned long)last->sequence,
                  (unsigned long)last->payload_bytes, (double)(clock_us() - last->ended_us) / 1e6);
}
