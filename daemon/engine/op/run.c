#include "engine/op/run.h"

#include "base/clock.h"
#include "base/guard.h"
#include "engine/client/client.h"
#include "engine/loop.h"
#include "engine/op/await.h"
#include "engine/op/expect.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs on GPUs that the engine ends in one visit. */
#define QUANTUM_RUNS 64u

/* Tenants of which a queued run is looked at in one turn. */
#define QUANTUM_QUEUED 16u

/* ---- expectations ---- */

static void set_long(comm_op_t *op, bool is_long)
{
    if (op->is_long == is_long)
        return;
    op->is_long = is_long;
    op->comm->engine->long_runs += is_long ? 1u : UINT32_MAX;
    for (uint32_t i = 0; i < op->entry_count; i++) {
        engine_client_t *client = op->entries[i].rank->client;
        client->long_ops += is_long ? 1u : UINT32_MAX;
        client_update_wait_policy(client);
    }
}

static void note_use(const comm_op_t *op)
{
    plan_ran_t ran = {.opcode = op->signature.opcode,
                      .algorithm = op->program->algorithm,
                      .protocol = op->program->protocol,
                      .transport = exec_transport(op->instance->exec),
                      .plan = op->program->plan_digest,
                      .bytes = op->shape.payload_bytes,
                      .measured_ns = op->measured_pieces == op->pieces ? op->measured_ns : 0,
                      .predicted_us = op->predicted_us};
    plan_uses_note(&op->comm->plan_uses, &ran);
}

/* ---- pieces ---- */

/* Elements of a block that the op's runs have. */
static uint64_t run_count(const comm_op_t *op)
{
    return remote_is_barrier(op) ? 1 : op->signature.count;
}

static uint32_t run_element_bytes(const comm_op_t *op)
{
    return remote_is_barrier(op) ? 1 : op->shape.element_bytes;
}

/* Pieces are as many on all ranks; across hosts nobody knows who is staged, so there are none. */
static void op_cut(comm_op_t *op)
{
    op->piece_elements = run_count(op);
    op->pieces = 1;
    if (!op->has_windows || op->remote)
        return;
    uint64_t most =
        staging_piece_elements(op->signature.opcode, op->comm->rank_count, op->shape.element_bytes);
    if (op->signature.count > most) {
        op->piece_elements = most;
        op->pieces = (op->signature.count - 1) / most + 1;
    }
}

static void op_publish_piece(comm_op_t *op)
{
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        if (!entry->window)
            continue;
        /* seq_cst: comes before the look at the client's sleepers, see ring.h. */
        guard_store(&entry->window->done, op->piece);
        if (op->piece < op->pieces && !entry->rank->client->removed)
            ring_notify(&entry->rank->client->ring);
    }
}

/* ---- running ---- */

/* Where one rank's buffers are for the piece, and how far its blocks are apart. */
static void place_entry(const comm_op_t *op, const op_entry_t *entry, uint32_t rank, uint64_t piece_count)
{
    engine_t *engine = op->comm->engine;
    uint64_t whole_bytes = op->signature.count * op->shape.element_bytes;
    uint64_t piece_bytes = piece_count * op->shape.element_bytes;
    uint64_t offset = op->piece * op->piece_elements * op->shape.element_bytes;
    uint64_t slot = op->piece % STAGING_SLOTS * STAGING_SLOT_BYTES;
    engine->run.scalars[rank] = entry->scalar;
    if (entry->input) {
        engine->run.inputs[rank] = (const char *)entry->input + (entry->input_staged ? slot : offset);
        engine->run.input_strides[rank] = entry->input_staged ? piece_bytes : whole_bytes;
    }
    if (remote_is_barrier(op) && !op->comm->on_gpus) {
        engine->run.inputs[rank] = remote_barrier_bytes(op, entry);
        engine->run.outputs[rank] = remote_barrier_bytes(op, entry) + 1;
        engine->run.output_bytes[rank] = 1;
    }
    if (entry->output) {
        engine->run.output_bytes[rank] = entry->output_bytes;
        engine->run.outputs[rank] = (char *)entry->output + (entry->output_staged ? slot : offset);
        engine->run.output_strides[rank] = entry->output_staged ? piece_bytes : whole_bytes;
    }
}

/* On a thread of the executor's. */
static void run_done(const exec_end_t *end)
{
    comm_op_t *op = end->context;
    op->run_end = *end;
    op->run_text =
        end->result != BLINK_OK ? strdup(blink_error_text()) : NULL; /* without memory the code must do */
    mailbox_post(&op->comm->engine->mailbox, &op->run_end_item);
}

/* Elements of a block that the next piece has. */
static uint64_t next_piece_elements(const comm_op_t *op)
{
    uint64_t left = run_count(op) - op->piece * op->piece_elements;
    return left < op->piece_elements ? left : op->piece_elements;
}

/* An op of several hosts: nothing more is to be done here, unless the op has not begun at all. */
static bool start_crossing(comm_op_t *op, exec_run_t *run, exec_end_t *end)
{
    blink_result_t result = remote_begin(op, run->outputs, op->comm->engine->run.output_bytes, &run->wires);
    *end = (exec_end_t){.context = op, .result = result};
    if (result != BLINK_OK)
        return true;
    bool has_ended = exec_start(op->instance->exec, run, end);
    remote_started(op, has_ended ? end : NULL);
    return false;
}

/* True if the piece's run has ended already. */
static bool start_piece(comm_op_t *op, exec_end_t *end)
{
    engine_t *engine = op->comm->engine;
    const op_signature_t *signature = &op->signature;
    uint64_t piece_count = next_piece_elements(op);
    bool for_pair = op->for_pair;
    uint32_t ranks = for_pair ? 2 : op->comm->rank_count;
    memset(engine->run.inputs, 0, ranks * sizeof(engine->run.inputs[0]));
    memset(engine->run.outputs, 0, ranks * sizeof(engine->run.outputs[0]));
    for (uint32_t i = 0; i < op->entry_count; i++) {
        uint32_t in_pair = signature->root == signature->peer ? 0 : i;
        place_entry(op, &op->entries[i], for_pair ? in_pair : op->entries[i].rank->rank, piece_count);
    }
    exec_run_t run = {.inputs = engine->run.inputs,
                      .outputs = engine->run.outputs,
                      .input_strides = op->pieces > 1 ? engine->run.input_strides : NULL,
                      .output_strides = op->pieces > 1 ? engine->run.output_strides : NULL,
                      .count = piece_count,
                      .datatype = remote_is_barrier(op) ? BLINK_UINT8 : (blink_datatype_t)signature->datatype,
                      .redop = (blink_redop_t)signature->redop,
                      .scalars = signature->redop == BLINK_PRE_MUL_SUM ? engine->run.scalars : NULL,
                      .comm_link_bytes = op->comm->link_bytes,
                      .own_link = op->comm->fabric->own_link,
                      .sent_link = op->comm->fabric->sent_link,
                      .share = op->comm->share,
                      .starter_is_busy = engine->active_tenants.next != engine->active_tenants.previous,
                      .done = run_done,
                      .context = op};
    return remote_crosses(op) ? start_crossing(op, &run, end) : exec_start(op->instance->exec, &run, end);
}

/* The op ends: give back what it was lent. */
static void op_release(comm_op_t *op)
{
    set_long(op, false);
    plan_release(op);
}

static blink_result_t check_entry_memory(const op_entry_t *entry)
{
    if (entry->input_region)
        BLINK_TRY(region_check(entry->input_region));
    return entry->output_region && entry->output_region != entry->input_region
               ? region_check(entry->output_region)
               : BLINK_OK;
}

/* Fails if memory of the op is not what it was: a run that came to a page which is not there was left.
 * Errors: SYSTEM, which names the rank. */
static blink_result_t check_memory(const comm_op_t *op)
{
    char text[BLINK_ERROR_TEXT_BYTES / 2];
    uint32_t i = 0;
    while (i < op->entry_count && check_entry_memory(&op->entries[i]) == BLINK_OK)
        i++;
    if (i == op->entry_count)
        return BLINK_OK;
    snprintf(text, sizeof(text), "%s", blink_error_text());
    return BLINK_FAIL(BLINK_ERR_SYSTEM, "rank %u: %s", op->entries[i].rank->rank, text);
}

/* The op's run failed, for this reason unless it was for its memory. text: NULL: nobody knows. */
static void op_run_failed(comm_op_t *op, blink_result_t result, const char *text)
{
    char reason[BLINK_ERROR_TEXT_BYTES];
    snprintf(reason, sizeof(reason), "%s", text ? text : "its run failed");
    op_release(op);
    if (check_memory(op) != BLINK_OK)
        op_failf(op, BLINK_ERR_SYSTEM, "%s", blink_error_text());
    else
        op_failf(op, result, "%s", reason);
}

/* The op's last piece has run. */
static void op_ran(comm_op_t *op)
{
    set_long(op, false);
    note_use(op);
    plan_release(op);
    if (check_memory(op) == BLINK_OK)
        op_succeed(op);
    else
        op_failf(op, BLINK_ERR_SYSTEM, "%s", blink_error_text());
}

/* True if that was the last one: the op has ended. */
static bool op_end_piece(comm_op_t *op, const exec_end_t *end)
{
    op->piece++;
    op->measured_pieces += end->ns > 0;
    op->measured_ns += end->ns;
    if (op->has_windows)
        op_publish_piece(op);
    if (op->piece < op->pieces) {
        op->since_us = clock_us();
        lend_back(op);
        return false;
    }
    op_ran(op);
    return true;
}

/* Run a piece. True if the op needs no more of the engine now: its run goes on elsewhere, or it has ended. */
static bool op_run_piece(comm_op_t *op)
{
    exec_end_t end;
    if (check_memory(op) != BLINK_OK) {
        op_run_failed(op, BLINK_ERR_SYSTEM, NULL);
        return true;
    }
    if (op->state != OP_RUNNING)
        op_enter(op, OP_RUNNING);
    if (!start_piece(op, &end)) {
        op->since_us = clock_us();
        return true;
    }
    if (end.result == BLINK_OK)
        return op_end_piece(op, &end);
    op_run_failed(op, end.result, blink_error_text());
    return true;
}

/* True if the op has been lent what its next piece takes. Else it waits for that, or has failed. */
static bool op_borrow(comm_op_t *op)
{
    blink_result_t result = lend(op, next_piece_elements(op) * run_element_bytes(op));
    if (result == BLINK_OK)
        return op->state != OP_QUEUED || op->instance;
    op_release(op);
    op_fail(op, result, blink_error_text());
    return false;
}

/* Run piece after piece for as long as that takes no waiting, up to what the slots hold: how many copies
 * there are is the client's word. */
void run_proceed(comm_op_t *op)
{
    uint32_t missing = 0;
    for (uint32_t ran = 0; ran < STAGING_SLOTS; ran++) {
        missing = await_find(op);
        if (missing < op->entry_count)
            break;
        if (run_count(op) == 0) { /* it moves nothing, but its streams have come */
            op_succeed(op);
            return;
        }
        if (!op_borrow(op) || op_run_piece(op))
            return;
    }
    op->awaited = missing < op->entry_count ? missing : 0;
    op_enter(op, OP_AWAITING);
}

/* text: why the run failed, if it has; NULL: nobody knows. */
static void op_run_ended(comm_op_t *op, const exec_end_t *end, const char *text)
{
    engine_comm_t *comm = op->comm;
    if (remote_crosses(op)) {
        remote_run_ended(op, end, text);
        return;
    }
    bool comm_ended = comm_has_ended(comm);
    if (end->result == BLINK_OK && !(comm_ended && op->piece + 1 < op->pieces)) {
        op->program->took_us = (clock_us() - op->since_us) * op->pieces;
        op->program->took_bytes = op->shape.payload_bytes;
        if (!op_end_piece(op, end))
            run_proceed(op);
        return;
    }
    if (!comm_ended) {
        op_run_failed(op, end->result, text);
        return;
    }
    op_release(op);
    op_fail(op, comm->end_reason, comm->end_text);
}

/* The run ended on a thread of the executor's, which has posted so. */
static void run_ended_elsewhere(mailbox_item_t *item)
{
    comm_op_t *op = CONTAINER_OF(item, comm_op_t, run_end_item);
    exec_end_t end = op->run_end;
    char *text = op->run_text;
    op->run_text = NULL;
    op_run_ended(op, &end, text);
    free(text);
}

void run_fail_as(comm_op_t *op, blink_result_t code, const char *text)
{
    op_release(op);
    op_fail(op, code, text);
}

void run_fail(comm_op_t *op, blink_result_t code, const char *reason)
{
    op_release(op);
    op_failf(op, code, "%s", reason);
}

void run_due(comm_op_t *op)
{
    op_enter(op, OP_DUE);
}

void run_over(comm_op_t *op, const exec_end_t *end, const char *text)
{
    if (text)
        run_fail_as(op, end->result, text);
    else
        (void)op_end_piece(op, end);
}

bool run_poll_ended(engine_t *engine)
{
    exec_end_t end;
    uint32_t ended = 0;
    while (engine->config.cuda && ended < QUANTUM_RUNS &&
           exec_poll(exec_of_cuda(engine->config.cuda), &end)) {
        op_run_ended(end.context, &end, end.result != BLINK_OK ? blink_error_text() : NULL);
        ended++;
    }
    return ended > 0;
}

/* ---- starting ---- */

/* A transfer to oneself cannot be checked before both ends are there. */
static blink_result_t check_own_transfer(const comm_op_t *op)
{
    if (!op->shape.is_transfer || op->signature.root != op->signature.peer)
        return BLINK_OK;
    uint64_t bytes = op->shape.payload_bytes;
    uintptr_t in = (uintptr_t)op->entries[0].input, out = (uintptr_t)op->entries[1].output;
    bool is_staged = op->entries[0].input_staged || op->entries[1].output_staged;
    if (is_staged || in == out || in + bytes <= out || out + bytes <= in)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u sends to itself between buffers that overlap",
                      op->signature.root);
}

static void op_start(comm_op_t *op)
{
    op_cut(op);
    if (run_count(op) > 0) {
        blink_result_t result = check_own_transfer(op);
        if (result == BLINK_OK)
            result = plan_find(op);
        if (result != BLINK_OK) {
            op_fail(op, result, blink_error_text());
            return;
        }
        if (op->state == OP_PLANNING)
            return; /* it is due again when its plan has come */
        op->run_end_item.run = run_ended_elsewhere;
        op->predicted_us = expect_us(op);
        set_long(op, expect_long(op));
    }
    run_proceed(op);
}

void run_next_due(engine_comm_t *comm)
{
    comm_op_t *op = LIST_FIRST(&comm->due, comm_op_t, of_state);
    if (op)
        op_start(op);
}

/* ---- ops that wait for scratch ---- */

bool run_serve_queued(engine_t *engine)
{
    lender_t *lender = &engine->cache.lender;
    if (!lend_has_news(lender))
        return false;
    uint32_t turns = lender->tenant_count < QUANTUM_QUEUED ? lender->tenant_count : QUANTUM_QUEUED;
    lender->returned = turns < lender->tenant_count; /* and again with every op that leaves its queue */
    for (; turns > 0 && lender->tenant_count > 0; turns--) {
        comm_op_t *op = lend_next(lender);
        if (comm_has_ended(op->comm))
            run_cancel(op);
        else
            run_proceed(op);
        engine_count(engine, 4);
    }
    return true;
}

/* ---- cancelling ---- */

void run_cancel(comm_op_t *op)
{
    const engine_comm_t *comm = op->comm;
    if (op->state == OP_RUNNING && remote_crosses(op)) {
        remote_cancel(op, comm->end_reason, comm->end_text);
        return;
    }
    if (op->state == OP_RUNNING) {
        exec_abort(op->instance->exec, comm->end_reason);
        return;
    }
    op_release(op);
    op_fail(op, comm->end_reason, comm->end_text);
}
