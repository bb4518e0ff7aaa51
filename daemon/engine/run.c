/*
 * Ops that may start: their plans, their runs on the executor, piece by piece where clients copy, and their
 * end.
 */
#include "engine/run.h"

#include "base/clock.h"
#include "engine/client.h"
#include "engine/comm.h"
#include "engine/loop.h"
#include "engine/plans.h"
#include "engine/stream.h"
#include "error.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ops expected to take longer let their waiting clients sleep at once (ring_wait_policy_t). */
#define LONG_OP_US 200.0

/* Payload × ranks that memory moves in a direct exchange, for that expectation when not paced (25,000 to
 * 46,000 were measured). With too little, waiters of middling ops sleep, and so does the engine: 1 MiB on 4
 * ranks took 144 µs at 2,000 and takes 86. */
#define HOST_BYTES_PER_US 40000.0

/* What a communicator starts before others get their turn: about a millisecond if the engine runs all of it
 * itself. */
#define TURN_OPS   64u
#define TURN_BYTES (8u << 20)

/* Runs on GPUs that one turn ends. */
#define TURN_RUNS 64u

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

static double expected_us(const comm_op_t *op)
{
    const engine_t *engine = op->comm->engine;
    double bytes = (double)op_payload_bytes(op);
    if (engine->config.settings->pace_scale > 0)
        return bytes / (instance_rate_GBps(op->instance) * engine->config.settings->pace_scale * 1e3);
    return bytes * op->entry_count / HOST_BYTES_PER_US;
}

/* ---- pieces ---- */

static void op_cut(comm_op_t *op)
{
    bool staged = false;
    for (uint32_t i = 0; i < op->entry_count; i++)
        staged |= op->entries[i].window != NULL;
    op->piece_elements = op->signature.count;
    op->pieces = 1;
    if (!staged)
        return;
    uint64_t most = staging_piece_elements(op->signature.opcode, op->comm->rank_count,
                                           blink_datatype_bytes(op->signature.datatype));
    if (op->signature.count > most) {
        op->piece_elements = most;
        op->pieces = (op->signature.count - 1) / most + 1;
    }
}

/* Whether all streams have come to the op, and the clients have made all copies that the next piece needs. */
static bool clients_are_ready(const comm_op_t *op)
{
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        if (!stream_has_come(entry->ticket))
            return false;
        if (!entry->window)
            continue;
        /* seq_cst: pairs with the client's stores, see ring.h; what it copied is seen, and has been read. */
        if (entry->input_staged &&
            atomic_load_explicit(&entry->window->filled, memory_order_seq_cst) <= op->piece)
            return false;
        if (entry->output_staged &&
            atomic_load_explicit(&entry->window->drained, memory_order_seq_cst) + STAGING_SLOTS <= op->piece)
            return false;
    }
    return true;
}

static void op_publish_piece(comm_op_t *op)
{
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        if (!entry->window)
            continue;
        /* seq_cst: comes before the look at the client's sleepers, see ring.h. */
        atomic_store_explicit(&entry->window->done, op->piece, memory_order_seq_cst);
        if (op->piece < op->pieces && !entry->rank->client->removed)
            ring_notify(&entry->rank->client->ring);
    }
}

static void op_await(comm_op_t *op)
{
    engine_t *engine = op->comm->engine;
    op->state = OP_AWAITING;
    engine->watched += op->comm->on_gpus;
    op->next_due = NULL;
    *engine->awaiting_end = op;
    engine->awaiting_end = &op->next_due;
}

void op_stop_awaiting(comm_op_t *op)
{
    engine_t *engine = op->comm->engine;
    comm_op_t **link = &engine->awaiting;
    while (*link != op)
        link = &(*link)->next_due;
    *link = op->next_due;
    if (!op->next_due)
        engine->awaiting_end = link;
    engine->watched -= op->comm->on_gpus;
    op->state = OP_GATHERING;
}

/* ---- running ---- */

/* Where one rank's buffers are for the piece, and how far its blocks are apart. */
static void place_entry(const comm_op_t *op, const op_entry_t *entry, uint32_t rank, uint64_t piece_count)
{
    engine_t *engine = op->comm->engine;
    uint64_t element_bytes = blink_datatype_bytes(op->signature.datatype);
    uint64_t whole_bytes = op->signature.count * element_bytes, piece_bytes = piece_count * element_bytes;
    uint64_t offset = op->piece * op->piece_elements * element_bytes;
    uint64_t slot = op->piece % STAGING_SLOTS * STAGING_SLOT_BYTES;
    engine->run.scalars[rank] = entry->scalar;
    if (entry->input) {
        engine->run.inputs[rank] = (const char *)entry->input + (entry->input_staged ? slot : offset);
        engine->run.input_strides[rank] = entry->input_staged ? piece_bytes : whole_bytes;
    }
    if (entry->output) {
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

/* True if the piece's run has ended already. */
static bool start_piece(comm_op_t *op, exec_end_t *end)
{
    engine_t *engine = op->comm->engine;
    const op_signature_t *signature = &op->signature;
    uint64_t left = signature->count - op->piece * op->piece_elements;
    uint64_t piece_count = left < op->piece_elements ? left : op->piece_elements;
    bool for_pair = plan_is_for_pair(op);
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
                      .datatype = (blink_datatype_t)signature->datatype,
                      .redop = (blink_redop_t)signature->redop,
                      .scalars = signature->redop == BLINK_PRE_MUL_SUM ? engine->run.scalars : NULL,
                      .comm_link_bytes = op->comm->link_bytes,
                      .done = run_done,
                      .context = op};
    return exec_start(op->instance->exec, &run, end);
}

void op_release_instance(comm_op_t *op)
{
    op->state = OP_GATHERING;
    set_long(op, false);
    plan_return_instance(op->comm->engine, op->instance);
    op->instance = NULL;
}

/* A run that met pages which could not be had has moved zeros: that is a failure. */
static void op_end(comm_op_t *op)
{
    plan_note_use(op, op->instance);
    op_release_instance(op);
    for (uint32_t i = 0; i < op->entry_count; i++) {
        blink_result_t result = region_check(op->entries[i].input_region);
        if (result == BLINK_OK)
            result = region_check(op->entries[i].output_region);
        if (result != BLINK_OK) {
            char text[BLINK_ERROR_TEXT_BYTES / 2];
            snprintf(text, sizeof(text), "%s", blink_error_text());
            op_failf(op, result, "rank %u: %s", op->entries[i].rank->rank, text);
            return;
        }
    }
    op_succeed(op);
}

/* True if that was the last one: the op is over. */
static bool op_end_piece(comm_op_t *op, const exec_end_t *end)
{
    op->piece++;
    op->since_us = end->ended_ns / 1000;
    op_publish_piece(op);
    if (op->piece < op->pieces)
        return false;
    op_end(op);
    return true;
}

/* Run piece after piece for as long as that takes no waiting, up to what the slots hold: how many copies
 * there are is the client's word. */
static void op_proceed(comm_op_t *op)
{
    if (op->signature.count == 0) { /* it moves nothing, but its streams have come */
        op_succeed(op);
        return;
    }
    for (uint32_t turn = 0;; turn++) {
        exec_end_t end;
        if (turn == STAGING_SLOTS || !clients_are_ready(op)) {
            op_await(op);
            return;
        }
        if (!start_piece(op, &end)) {
            op->state = OP_RUNNING;
            return;
        }
        if (end.result != BLINK_OK) {
            op_release_instance(op);
            op_fail(op, end.result, blink_error_text());
            return;
        }
        if (op_end_piece(op, &end))
            return;
    }
}

static void op_run_ended(comm_op_t *op, const exec_end_t *end, const char *text)
{
    engine_comm_t *comm = op->comm;
    op->state = OP_GATHERING;
    if (end->result != BLINK_OK || (comm->lost != BLINK_OK && op->piece + 1 < op->pieces)) {
        op_release_instance(op);
        if (comm->lost != BLINK_OK)
            op_fail(op, comm->lost, comm->lost_text);
        else
            op_failf(op, end->result, "%s", text);
    } else if (!op_end_piece(op, end)) {
        op_proceed(op);
    }
    comm_advance(comm);
}

/* The run ended on a thread of the executor's, which has posted so. */
static void run_ended_elsewhere(mailbox_item_t *item)
{
    comm_op_t *op = CONTAINER_OF(item, comm_op_t, run_end_item);
    exec_end_t end = op->run_end;
    char *text = op->run_text;
    op->run_text = NULL;
    op_run_ended(op, &end, text ? text : "its run failed");
    free(text);
}

bool engine_poll_runs(engine_t *engine)
{
    exec_end_t end;
    uint32_t ended = 0;
    while (engine->config.cuda && ended < TURN_RUNS && exec_poll(exec_of_cuda(engine->config.cuda), &end)) {
        op_run_ended(end.context, &end, blink_error_text());
        ended++;
    }
    return ended > 0;
}

static void op_run(comm_op_t *op, comm_instance_t *instance)
{
    op->instance = instance;
    op->run_end_item.run = run_ended_elsewhere;
    set_long(op, expected_us(op) > LONG_OP_US);
    op_proceed(op);
}

/* A transfer to oneself cannot be checked before both ends are there. */
static blink_result_t check_own_transfer(const comm_op_t *op)
{
    if (!op_is_transfer(op) || op->signature.root != op->signature.peer)
        return BLINK_OK;
    uint64_t bytes = op->signature.count * blink_datatype_bytes(op->signature.datatype);
    uintptr_t in = (uintptr_t)op->entries[0].input, out = (uintptr_t)op->entries[1].output;
    bool is_staged = op->entries[0].input_staged || op->entries[1].output_staged;
    if (is_staged || in == out || in + bytes <= out || out + bytes <= in)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u sends to itself between buffers that overlap",
                      op->signature.root);
}

static void op_start(comm_op_t *op)
{
    comm_instance_t *instance = NULL;
    op_cut(op);
    if (op->signature.count == 0) {
        if (clients_are_ready(op))
            op_succeed(op);
        else
            op_await(op);
        return;
    }
    blink_result_t result = check_own_transfer(op);
    if (result == BLINK_OK)
        result = plan_find_instance(op, &instance);
    if (result != BLINK_OK)
        op_fail(op, result, blink_error_text());
    else if (instance)
        op_run(op, instance);
    else
        op->state = OP_PLANNING;
}

void op_make_due(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    op->state = OP_DUE;
    op->next_due = NULL;
    *comm->due_end = op;
    comm->due_end = &op->next_due;
}

static void comm_put_due(engine_comm_t *comm)
{
    engine_t *engine = comm->engine;
    if (comm->is_due)
        return;
    comm->is_due = true;
    comm->next_due = NULL;
    *engine->due_comms_end = comm;
    engine->due_comms_end = &comm->next_due;
}

bool engine_serve_due(engine_t *engine)
{
    engine_comm_t *comm = engine->due_comms;
    if (!comm)
        return false;
    engine->due_comms = comm->next_due;
    if (!engine->due_comms)
        engine->due_comms_end = &engine->due_comms;
    comm->is_due = false;
    comm_advance(comm);
    return true;
}

void comm_advance(engine_comm_t *comm)
{
    uint64_t started_bytes = 0;
    for (uint32_t started = 0; comm->due; started++) {
        if (started == TURN_OPS || started_bytes >= TURN_BYTES) {
            comm_put_due(comm); /* which has ops, so it stays until its turn comes */
            break;
        }
        comm_op_t *op = comm->due;
        started_bytes += op_payload_bytes(op) * op->entry_count;
        comm->due = op->next_due;
        if (!comm->due)
            comm->due_end = &comm->due;
        op->state = OP_GATHERING;
        if (op->result == BLINK_OK)
            op_start(op);
        else
            op_free_if_done(op);
    }
    uint32_t rank_count = comm->leaving_count > 0 ? comm->rank_count : 0;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        if (rank_leave_if_done(&comm->ranks[rank]))
            break;
    }
}

void op_planned(comm_op_t *op, blink_result_t result, const char *text, comm_instance_t *instance)
{
    engine_comm_t *comm = op->comm;
    op->state = OP_GATHERING;
    op->since_us = clock_us();
    if (op->result != BLINK_OK) {
        if (instance)
            plan_return_instance(comm->engine, instance);
        op_free_if_done(op);
    } else if (result == BLINK_OK) {
        op_run(op, instance);
    } else {
        op_fail(op, result, text);
    }
    comm_advance(comm);
}

/* ---- ops whose clients copy, or whose streams have not come ---- */

static comm_op_t *find_ready(engine_t *engine)
{
    comm_op_t *op = engine->awaiting;
    while (op && !clients_are_ready(op))
        op = op->next_due;
    return op;
}

bool engine_has_awaited(engine_t *engine)
{
    return find_ready(engine) != NULL;
}

bool engine_poll_awaiting(engine_t *engine)
{
    comm_op_t *op = find_ready(engine);
    if (!op)
        return false;
    engine_comm_t *comm = op->comm;
    op_stop_awaiting(op);
    op_proceed(op);
    comm_advance(comm);
    return true;
}
