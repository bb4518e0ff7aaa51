#include "control/comms/ops.h"

#include "collective.h"
#include "names.h"

#include <stdlib.h>

/* A question that the engine has. */
typedef struct pending {
    list_t link; /* on control->ops_asked */
    asker_t asker;
    bool is_forgotten;
    engine_records_t *records;
} pending_t;

/* What a page says of its ops. */
typedef struct described_ops {
    Blinkwire__Op ops[ENGINE_RECORDS], *pointers[ENGINE_RECORDS];
    uint32_t ranks[ENGINE_RECORDS][HISTORY_RANKS], came_us[ENGINE_RECORDS][HISTORY_RANKS];
} described_ops_t;

static void pending_free(pending_t *pending)
{
    list_remove(&pending->link);
    free(pending->records);
    free(pending);
}

static void describe(const op_record_t *record, uint32_t ranks[HISTORY_RANKS],
                     uint32_t came_us[HISTORY_RANKS], Blinkwire__Op *op)
{
    static const char *const doing[] = {
        [DOING_ENDED] = "ended",   [DOING_GATHERING] = "gathering", [DOING_PLAN] = "plan",
        [DOING_CLIENT] = "client", [DOING_SCRATCH] = "scratch",     [DOING_RUN] = "run",
    };
    blinkwire__op__init(op);
    op->op = record->sequence;
    op->collective = (char *)(uintptr_t)collective_op_name(record->opcode);
    op->bytes = record->payload_bytes;
    op->doing = (char *)(uintptr_t)doing[record->doing];
    op->result = record->result;
    op->began_us = record->began_us;
    op->ended_us = record->ended_us;
    op->run_us = record->run_us;
    op->plan_us = record->waited_us[WAIT_PLAN];
    op->client_us = record->waited_us[WAIT_CLIENT];
    op->scratch_us = record->waited_us[WAIT_SCRATCH];
    for (uint32_t i = 0; i < record->arrival_count; i++) {
        ranks[i] = record->arrivals[i].rank;
        came_us[i] = record->arrivals[i].came_us;
    }
    blink_collective_t collective = collective_of_opcode(record->opcode);
    op->datatype = (char *)(uintptr_t)blink_name_datatype(record->datatype);
    if (collective_reduces(collective))
        op->redop = (char *)(uintptr_t)blink_name_redop(record->redop);
    op->root = record->root;
    op->peer = record->peer;
    op->ranks = ranks;
    op->came_us = came_us;
    op->n_ranks = op->n_came_us = record->arrival_count;
}

static void fill_answer(const asker_t *asker, const engine_records_t *records, described_ops_t *described)
{
    Blinkwire__QueryReply body = BLINKWIRE__QUERY_REPLY__INIT;
    body.ops = described->pointers;
    for (uint32_t i = 0; i < records->count; i++) {
        describe(engine_record(records, i), described->ranks[i], described->came_us[i], &described->ops[i]);
        body.ops[body.n_ops++] = &described->ops[i];
    }
    body.now_us = records->now_us;
    body.live_op_count = records->op_total;
    body.ended_op_count = records->ended_total;
    body.next_page = records->next;
    turns_count(&asker->view.control->turns, 1 + records->count);
    asker_answer(asker, &body);
}

static void answer(const asker_t *asker, const engine_records_t *records)
{
    described_ops_t *described = malloc(sizeof(*described));
    if (described)
        fill_answer(asker, records, described);
    else
        asker_fail(asker, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an answer"));
    free(described);
}

static void on_told(void *context)
{
    pending_t *pending = context;
    if (!pending->is_forgotten)
        answer(&pending->asker, pending->records);
    pending_free(pending);
}

void ops_query(const asker_t *asker, const roster_t *roster, uint64_t since, uint64_t page)
{
    pending_t *pending = calloc(1, sizeof(*pending));
    if (!pending) {
        asker_fail(asker, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a question"));
        return;
    }
    list_init(&pending->link);
    pending->asker = *asker;
    blink_result_t result = engine_records_create(roster->engine, since, page,
                                                  (engine_done_t){on_told, pending}, &pending->records);
    if (result != BLINK_OK) {
        pending_free(pending);
        asker_fail(asker, result);
        return;
    }
    list_append(&roster->control->ops_asked, &pending->link);
    asker->calls->hold(asker->context);
    engine_records_ask(pending->records);
}

void ops_query_lost(const asker_t *asker, const history_t *lost, uint64_t since, uint64_t page)
{
    engine_records_t *records;
    blink_result_t result = engine_records_of_lost(lost, since, page, &records);
    if (result != BLINK_OK) {
        asker_fail(asker, result);
        return;
    }
    answer(asker, records);
    free(records);
}

void ops_forget(control_t *control, const void *context)
{
    LIST_FOR_EACH (link, &control->ops_asked) {
        pending_t *pending = CONTAINER_OF(link, pending_t, link);
        if (pending->asker.context == context)
            pending->is_forgotten = true;
    }
}

void ops_free(control_t *control)
{
    LIST_FOR_EACH (link, &control->ops_asked)
        pending_free(CONTAINER_OF(link, pending_t, link));
}
