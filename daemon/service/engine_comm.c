/*
 * A communicator's queue of ops: matching the ranks' submissions, running them in order, and what happens
 * when the ranks disagree, leave, die or do not come.
 */
#include "service/engine_internal.h"

#include "base/log.h"
#include "error.h"
#include "names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ops expected to take longer let their waiting clients sleep at once (DESIGN.md, "Waiting"). */
#define LONG_OP_US 200.0

/* What moving a byte of payload per rank through this machine's memory costs, for that expectation when not
 * paced. */
#define HOST_BYTES_PER_US 2000.0

/* Ops of one communicator that wait: far more than its ranks' rings hold, so it takes refused ones. */
#define COMM_OPS_MAX 512u

static void comm_advance(engine_comm_t *comm);
static bool rank_leave_if_done(comm_rank_t *rank);

static blink_collective_t op_collective(const comm_op_t *op)
{
    return op->signature.opcode == RING_OP_BROADCAST ? BLINK_BROADCAST : BLINK_ALLREDUCE;
}

static uint64_t op_bytes(const comm_op_t *op)
{
    return op->signature.count * blink_datatype_bytes(op->signature.datatype);
}

/* ---- completing ---- */

static void part_complete(engine_comm_t *comm, comm_op_t *op, uint32_t rank)
{
    op_part_t *part = &op->parts[rank];
    comm_rank_t *member = &comm->ranks[rank];
    if (!part->submitted || part->completed)
        return;
    part->completed = true;
    region_release(part->input_region);
    region_release(part->output_region);
    member->outstanding--;
    client_complete(member->client, part->user_data, op->result, op->text);
}

/* Fail an op that is not running: the ranks that submitted hear it now, the others when they come. */
static void op_fail(engine_comm_t *comm, comm_op_t *op, blink_result_t code, const char *text)
{
    if (op->result == BLINK_OK) {
        op->result = code;
        snprintf(op->text, sizeof(op->text), "%s", text);
        /* Relaxed: counters. */
        atomic_fetch_add_explicit(&comm->failed_op_count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&comm->engine->failed_op_count, 1, memory_order_relaxed);
    }
    for (uint32_t rank = 0; rank < comm->rank_count; rank++)
        part_complete(comm, op, rank);
}

static void op_failf(engine_comm_t *comm, comm_op_t *op, blink_result_t code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void op_failf(engine_comm_t *comm, comm_op_t *op, blink_result_t code, const char *format, ...)
{
    char what[BLINK_ERROR_TEXT_BYTES / 2], text[BLINK_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(text, sizeof(text), "%s %lu of communicator %u: %s", blink_name_collective(op_collective(op)),
             (unsigned long)op->sequence, comm->comm, what);
    op_fail(comm, op, code, text);
}

static void op_succeed(engine_comm_t *comm, comm_op_t *op)
{
    engine_t *engine = comm->engine;
    /* Relaxed: counters. */
    atomic_fetch_add_explicit(&comm->op_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&engine->op_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->payload_bytes, op_bytes(op), memory_order_relaxed);
    atomic_fetch_add_explicit(&engine->payload_bytes, op_bytes(op), memory_order_relaxed);
    for (uint32_t rank = 0; rank < comm->rank_count; rank++)
        part_complete(comm, op, rank);
}

static void comm_pop(engine_comm_t *comm)
{
    comm_op_t *op = comm->head;
    comm->head = op->next;
    comm->queued_count--;
    if (comm->head)
        comm->head->waiting_since_us = engine_now_us(); /* its ranks may have waited for this one */
    else
        comm->tail = NULL;
    free(op);
}

/* ---- running ---- */

static void set_long(engine_comm_t *comm, bool is_long)
{
    if (comm->run_is_long == is_long)
        return;
    comm->run_is_long = is_long;
    comm->engine->long_runs += is_long ? 1u : UINT32_MAX;
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        engine_client_t *client = comm->ranks[rank].client;
        client->long_ops += is_long ? 1u : UINT32_MAX;
        client_update_wait_policy(client);
    }
}

static double expected_us(const engine_comm_t *comm, const comm_op_t *op, const comm_instance_t *instance)
{
    double bytes = (double)op_bytes(op);
    if (comm->engine->config.pace_scale > 0)
        return bytes / (instance_rate_GBps(instance) * comm->engine->config.pace_scale * 1e3);
    return bytes * comm->rank_count / HOST_BYTES_PER_US;
}

/* A run that met pages which could not be had has moved zeros: that is a failure. */
static void op_end_run(engine_comm_t *comm, comm_op_t *op)
{
    for (uint32_t rank = 0; rank < comm->rank_count && op->result == BLINK_OK; rank++) {
        blink_result_t result = region_check(op->parts[rank].input_region);
        if (result == BLINK_OK)
            result = region_check(op->parts[rank].output_region);
        if (result != BLINK_OK)
            op_failf(comm, op, result, "rank %u: %s", rank, blink_error_text());
    }
    if (op->result == BLINK_OK)
        op_succeed(comm, op);
}

static void run_done_on_engine(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, run_done_item);
    comm->activity = COMM_IDLE;
    set_long(comm, false);
    if (comm->run_result == BLINK_OK)
        op_end_run(comm, comm->head);
    else
        op_fail(comm, comm->head, comm->run_result, comm->lost_text);
    comm_pop(comm);
    comm_advance(comm);
}

/* On a worker thread, or inside exec_start(). */
static void run_done(void *context, blink_result_t result)
{
    engine_comm_t *comm = context;
    comm->run_result = result;
    mailbox_post(&comm->engine->mailbox, &comm->run_done_item);
}

static void op_run(engine_comm_t *comm, comm_op_t *op, comm_instance_t *instance)
{
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        comm->inputs[rank] = op->parts[rank].input;
        comm->outputs[rank] = op->parts[rank].output;
    }
    exec_run_t run = {.inputs = comm->inputs,
                      .outputs = comm->outputs,
                      .count = op->signature.count,
                      .datatype = (blink_datatype_t)op->signature.datatype,
                      .redop = (blink_redop_t)op->signature.redop,
                      .done = run_done,
                      .context = comm};
    comm->activity = COMM_RUNNING;
    comm->running = instance;
    set_long(comm, expected_us(comm, op, instance) > LONG_OP_US);
    blink_result_t result = exec_start(instance->exec, &run);
    if (result != BLINK_OK) {
        comm->activity = COMM_IDLE;
        set_long(comm, false);
        op_fail(comm, op, result, blink_error_text());
    }
}

static void op_start(engine_comm_t *comm, comm_op_t *op)
{
    comm_instance_t *instance = NULL;
    if (op->signature.count == 0) {
        op_succeed(comm, op);
        return;
    }
    uint32_t root = op_collective(op) == BLINK_BROADCAST ? op->signature.root : PLAN_NONE;
    blink_result_t result = comm_find_instance(comm, op_collective(op), root, &instance);
    if (result != BLINK_OK)
        op_fail(comm, op, result, blink_error_text());
    else if (instance)
        op_run(comm, op, instance);
    else
        comm->activity = COMM_PLANNING;
}

/* Whether no rank's submission can still come. */
static bool op_is_settled(const engine_comm_t *comm, const comm_op_t *op)
{
    for (uint32_t rank = 0; rank < comm->rank_count && op->submitted_count < comm->rank_count; rank++) {
        if (!op->parts[rank].submitted && !comm->ranks[rank].leaving)
            return false;
    }
    return true;
}

/* Serve the oldest ops for as long as that takes no waiting, then let leavers go. The last of these takes the
 * communicator along: callers do not touch it afterwards. */
static void comm_advance(engine_comm_t *comm)
{
    while (comm->activity == COMM_IDLE && comm->head) {
        comm_op_t *op = comm->head;
        if (comm->lost == BLINK_OK && !op_is_settled(comm, op))
            break;
        if (op->result == BLINK_OK && comm->lost == BLINK_OK)
            op_start(comm, op);
        if (comm->activity == COMM_IDLE)
            comm_pop(comm);
    }
    uint32_t rank_count = comm->rank_count;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        if (rank_leave_if_done(&comm->ranks[rank]))
            break;
    }
}

void comm_planned(engine_comm_t *comm, blink_result_t result, const char *text, comm_instance_t *instance)
{
    comm->activity = COMM_IDLE;
    if (comm->lost == BLINK_OK) {
        if (result == BLINK_OK)
            op_run(comm, comm->head, instance);
        else
            op_fail(comm, comm->head, result, text);
        if (comm->activity == COMM_IDLE)
            comm_pop(comm);
    }
    comm_advance(comm);
}

/* ---- giving up ---- */

/* The first reason wins. Completes what is not running; comm_advance() must follow. */
static void comm_give_up(engine_comm_t *comm, blink_result_t code, const char *text)
{
    if (comm->lost != BLINK_OK)
        return;
    comm->lost = code;
    snprintf(comm->lost_text, sizeof(comm->lost_text), "%s", text);
    LOG_INFO("communicator %u: %s", comm->comm, text);
    if (comm->activity == COMM_RUNNING)
        exec_abort(comm->running->exec, code);
    comm_op_t *first = comm->activity == COMM_RUNNING ? comm->head->next : comm->head;
    for (comm_op_t *op = first; op; op = op->next)
        op_fail(comm, op, code, text);
}

/* The same, when nobody but the engine knows: the control thread hears of it. */
static void comm_lose(engine_comm_t *comm, blink_result_t code, const char *text)
{
    comm_give_up(comm, code, text);
    mailbox_post(comm->engine->config.control, &comm->lost_item);
}

/* ---- submitting ---- */

static blink_result_t check_submission(const engine_comm_t *comm, const ring_sqe_t *sqe)
{
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    if (sqe->opcode != RING_OP_ALLREDUCE && sqe->opcode != RING_OP_BROADCAST)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown opcode %u", sqe->opcode);
    if (sqe->flags != 0 || sqe->reserved != 0 || sqe->reserved2 != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reserved fields of the submission are not 0");
    if (element_bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown datatype %u", sqe->datatype);
    if (sqe->opcode == RING_OP_ALLREDUCE && !blink_redop_valid(sqe->redop))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown reduction operator %u", sqe->redop);
    if (sqe->opcode == RING_OP_BROADCAST && sqe->root >= comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "root %u of %u ranks", sqe->root, comm->rank_count);
    if (sqe->count > UINT64_MAX / element_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "count %lu of %u-byte elements overflows",
                          (unsigned long)sqe->count, element_bytes);
    return BLINK_OK;
}

static blink_result_t use_buffers(const comm_rank_t *rank, const ring_sqe_t *sqe, op_part_t *part)
{
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    uint64_t bytes = sqe->count * element_bytes;
    void *input = NULL;
    if (sqe->count == 0)
        return BLINK_OK;
    BLINK_TRY(client_use_memory(rank->client, sqe->out_region, sqe->out_offset_bytes, bytes, element_bytes,
                                &part->output_region, &part->output));
    if (sqe->opcode == RING_OP_BROADCAST && rank->rank != sqe->root)
        return BLINK_OK;
    BLINK_TRY(client_use_memory(rank->client, sqe->in_region, sqe->in_offset_bytes, bytes, element_bytes,
                                &part->input_region, &input));
    part->input = input;
    uint64_t apart = (uint64_t)llabs((char *)part->output - (char *)input);
    if (apart != 0 && apart < bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "input and output overlap by %lu of %lu bytes",
                          (unsigned long)(bytes - apart), (unsigned long)bytes);
    return BLINK_OK;
}

static op_signature_t signature_of(const ring_sqe_t *sqe)
{
    bool reduces = sqe->opcode == RING_OP_ALLREDUCE;
    return (op_signature_t){.opcode = sqe->opcode,
                            .datatype = sqe->datatype,
                            .redop = reduces ? sqe->redop : 0,
                            .root = reduces ? 0 : sqe->root,
                            .count = sqe->count};
}

/* Fail the op if this rank's signature differs from the first one's; the text names both ranks and both
 * values. */
static void check_agreement(engine_comm_t *comm, comm_op_t *op, uint32_t rank, const op_signature_t *own)
{
    const op_signature_t *first = &op->signature;
    uint32_t other = op->first_rank;
    if (own->opcode != first->opcode)
        op_failf(comm, op, BLINK_ERR_MISMATCH, "rank %u submitted %s, rank %u submitted %s", other,
                 first->opcode == RING_OP_BROADCAST ? "broadcast" : "allreduce", rank,
                 own->opcode == RING_OP_BROADCAST ? "broadcast" : "allreduce");
    else if (own->count != first->count)
        op_failf(comm, op, BLINK_ERR_MISMATCH, "rank %u gave count %lu, rank %u gave count %lu", other,
                 (unsigned long)first->count, rank, (unsigned long)own->count);
    else if (own->datatype != first->datatype)
        op_failf(comm, op, BLINK_ERR_MISMATCH, "rank %u gave type %s, rank %u gave type %s", other,
                 blink_name_datatype(first->datatype), rank, blink_name_datatype(own->datatype));
    else if (own->redop != first->redop)
        op_failf(comm, op, BLINK_ERR_MISMATCH, "rank %u gave operator %s, rank %u gave operator %s", other,
                 blink_name_redop(first->redop), rank, blink_name_redop(own->redop));
    else if (own->root != first->root)
        op_failf(comm, op, BLINK_ERR_MISMATCH, "rank %u gave root %u, rank %u gave root %u", other,
                 first->root, rank, own->root);
}

/* The op this rank's next submission belongs to. Errors: QUOTA (too far ahead of the others), NO_MEMORY. */
static blink_result_t next_op(comm_rank_t *rank, const ring_sqe_t *sqe, comm_op_t **next)
{
    engine_comm_t *comm = rank->comm;
    comm_op_t *op = rank->next_op;
    if (!op) {
        if (comm->queued_count == COMM_OPS_MAX)
            return BLINK_FAIL(BLINK_ERR_QUOTA, "communicator %u: rank %u is %u ops ahead of the slowest",
                              comm->comm, rank->rank, COMM_OPS_MAX);
        op = calloc(1, sizeof(*op) + comm->rank_count * sizeof(op->parts[0]));
        if (!op)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another op");
        op->sequence = comm->next_sequence++;
        op->signature = signature_of(sqe);
        op->first_rank = rank->rank;
        op->waiting_since_us = engine_now_us();
        comm->queued_count++;
        if (comm->tail)
            comm->tail->next = op;
        else
            comm->head = op;
        comm->tail = op;
        for (uint32_t other = 0; other < comm->rank_count; other++) {
            if (!comm->ranks[other].next_op)
                comm->ranks[other].next_op = op;
        }
    }
    rank->next_op = op->next;
    *next = op;
    return BLINK_OK;
}

static void op_fail_if_left(engine_comm_t *comm, comm_op_t *op)
{
    for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
        if (comm->ranks[rank].leaving && !op->parts[rank].submitted)
            op_failf(comm, op, BLINK_ERR_PEER_LOST, "rank %u has left the communicator", rank);
    }
}

void comm_submit(comm_rank_t *rank, const ring_sqe_t *sqe)
{
    engine_comm_t *comm = rank->comm;
    if (comm->lost != BLINK_OK) {
        client_complete(rank->client, sqe->user_data, comm->lost, comm->lost_text);
        return;
    }
    comm_op_t *op;
    blink_result_t result = next_op(rank, sqe, &op);
    if (result != BLINK_OK) {
        comm_lose(comm, result, blink_error_text());
        client_complete(rank->client, sqe->user_data, comm->lost, comm->lost_text);
        comm_advance(comm);
        return;
    }
    op_signature_t signature = signature_of(sqe);
    op_part_t *part = &op->parts[rank->rank];
    part->submitted = true;
    part->user_data = sqe->user_data;
    op->submitted_count++;
    rank->outstanding++;
    result = check_submission(comm, sqe);
    if (result == BLINK_OK)
        result = use_buffers(rank, sqe, part);
    if (result != BLINK_OK) {
        char text[BLINK_ERROR_TEXT_BYTES / 2];
        snprintf(text, sizeof(text), "%s", blink_error_text());
        op_failf(comm, op, result, "rank %u: %s", rank->rank, text);
    }
    check_agreement(comm, op, rank->rank, &signature);
    op_fail_if_left(comm, op);
    if (op->result != BLINK_OK)
        part_complete(comm, op, rank->rank);
    /* A failed op may have been the last one of a rank that leaves. */
    if (op == comm->head || op->result != BLINK_OK)
        comm_advance(comm);
}

/* ---- time-outs and aborts ---- */

static void comm_lost_on_control(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, lost_item);
    const engine_config_t *config = &comm->engine->config;
    config->comm_lost(config->context, comm->comm, comm->lost, comm->lost_text);
}

static void op_time_out(engine_comm_t *comm, const comm_op_t *op)
{
    char missing[64] = "";
    size_t used = 0;
    for (uint32_t rank = 0; rank < comm->rank_count && used < sizeof(missing) - 16; rank++) {
        if (!op->parts[rank].submitted)
            used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s%u", used ? ", " : "", rank);
    }
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s %lu of communicator %u: no submission from rank %s within %g s",
             blink_name_collective(op_collective(op)), (unsigned long)op->sequence, comm->comm, missing,
             (double)comm->engine->config.op_timeout_us / 1e6);
    comm_lose(comm, BLINK_ERR_TIMEOUT, text);
    comm_advance(comm);
}

uint64_t comms_check_timeouts(engine_t *engine, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    engine_comm_t *next;
    for (engine_comm_t *comm = engine->comms; comm; comm = next) {
        next = comm->next;
        const comm_op_t *op = comm->head;
        if (!op || comm->activity != COMM_IDLE || comm->lost != BLINK_OK)
            continue;
        uint64_t deadline_us = op->waiting_since_us + engine->config.op_timeout_us;
        if (now_us >= deadline_us)
            op_time_out(comm, op);
        else if (deadline_us < next_us)
            next_us = deadline_us;
    }
    return next_us;
}

static void comm_abort_run(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, abort_item);
    comm_give_up(comm, comm->abort_code, comm->abort_text);
    comm_advance(comm);
}

void engine_comm_abort(engine_comm_t *comm, blink_result_t code, const char *text)
{
    if (comm->abort_posted)
        return;
    comm->abort_posted = true;
    comm->abort_code = code;
    snprintf(comm->abort_text, sizeof(comm->abort_text), "%s", text);
    comm->abort_item.run = comm_abort_run;
    mailbox_post(&comm->engine->mailbox, &comm->abort_item);
}

/* ---- joining and leaving ---- */

static void comm_free(engine_comm_t *comm)
{
    while (comm->head)
        comm_pop(comm);
    free(comm->nodes);
    free(comm->ranks);
    free(comm->inputs);
    free(comm->outputs);
    free(comm->link_bytes);
    free(comm);
}

static void comm_add_run(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, add_item);
    engine_t *engine = comm->engine;
    comm->next = engine->comms;
    engine->comms = comm;
    for (uint32_t rank = 0; rank < comm->rank_count; rank++)
        client_add_membership(comm->ranks[rank].client, &comm->ranks[rank]);
}

blink_result_t engine_comm_add(engine_t *engine, const engine_comm_config_t *config, engine_comm_t **comm)
{
    uint32_t ranks = config->rank_count;
    engine_comm_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for communicator %u", config->comm);
    created->engine = engine;
    created->comm = config->comm;
    created->rank_count = ranks;
    created->algorithm = config->algorithm;
    created->nodes = calloc(ranks, sizeof(*created->nodes));
    created->ranks = calloc(ranks, sizeof(*created->ranks));
    created->inputs = calloc(ranks, sizeof(*created->inputs));
    created->outputs = calloc(ranks, sizeof(*created->outputs));
    created->link_bytes = calloc(engine->config.topo->link_count + 1, sizeof(*created->link_bytes));
    created->run_done_item.run = run_done_on_engine;
    created->lost_item.run = comm_lost_on_control;
    created->add_item.run = comm_add_run;
    if (!created->nodes || !created->ranks || !created->inputs || !created->outputs || !created->link_bytes) {
        comm_free(created);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for communicator %u of %u ranks", config->comm,
                          ranks);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const engine_member_t *member = &config->members[rank];
        created->nodes[rank] = member->node;
        created->ranks[rank].comm = created;
        created->ranks[rank].client = member->client;
        created->ranks[rank].member = member->member;
        created->ranks[rank].rank = rank;
    }
    mailbox_post(&engine->mailbox, &created->add_item);
    *comm = created;
    return BLINK_OK;
}

static void comm_free_on_engine(mailbox_item_t *item)
{
    comm_free(CONTAINER_OF(item, engine_comm_t, add_item));
}

static void rank_left_on_control(mailbox_item_t *item)
{
    comm_rank_t *rank = CONTAINER_OF(item, comm_rank_t, item);
    engine_comm_t *comm = rank->comm;
    engine_done_t done = rank->done;
    if (rank->last && comm->abort_posted) {
        /* The abort may still be in the engine's mailbox: this comes after it. */
        comm->add_item.run = comm_free_on_engine;
        mailbox_post(&comm->engine->mailbox, &comm->add_item);
    } else if (rank->last) {
        comm_free(comm);
    }
    done.call(done.context);
}

static void comm_unlist(engine_comm_t *comm)
{
    engine_comm_t **link = &comm->engine->comms;
    while (*link != comm)
        link = &(*link)->next;
    *link = comm->next;
}

/* A rank has left when none of its ops is under way; the last one also waits for a plan that is being made.
 * True if it was the last: the control thread now frees the communicator. */
static bool rank_leave_if_done(comm_rank_t *rank)
{
    engine_comm_t *comm = rank->comm;
    engine_client_t *client = rank->client;
    if (!rank->leaving || rank->left || rank->outstanding > 0)
        return false;
    bool last = comm->left_count + 1 == comm->rank_count;
    if (last && comm->activity != COMM_IDLE)
        return false;
    rank->left = true;
    comm->left_count++;
    client_remove_membership(client, rank);
    if (last) {
        rank->last = true;
        comm_unlist(comm);
        comm_free_instances(comm);
    }
    rank->item.run = rank_left_on_control;
    mailbox_post(client->engine->config.control, &rank->item);
    client_free_if_done(client);
    return last;
}

static void rank_leave_now(mailbox_item_t *item)
{
    comm_rank_t *rank = CONTAINER_OF(item, comm_rank_t, item);
    engine_comm_t *comm = rank->comm;
    rank->leaving = true;
    if (rank->lost)
        comm_give_up(comm, BLINK_ERR_PEER_LOST, rank->text);
    for (comm_op_t *op = comm->head; op && comm->lost == BLINK_OK; op = op->next)
        op_fail_if_left(comm, op);
    comm_advance(comm);
}

static void rank_leave_run(mailbox_item_t *item)
{
    comm_rank_t *rank = CONTAINER_OF(item, comm_rank_t, item);
    if (rank->lost)
        rank_leave_now(item);
    else
        client_defer(rank->client, item, rank_leave_now);
}

void engine_comm_leave(engine_comm_t *comm, uint32_t rank, bool lost, const char *text, engine_done_t done)
{
    comm_rank_t *leaver = &comm->ranks[rank];
    leaver->lost = lost;
    leaver->done = done;
    snprintf(leaver->text, sizeof(leaver->text), "%s", text ? text : "");
    leaver->item.run = rank_leave_run;
    mailbox_post(&comm->engine->mailbox, &leaver->item);
}

engine_comm_stats_t engine_comm_stats(const engine_comm_t *comm)
{
    /* Relaxed: counters, each right by itself. */
    return (engine_comm_stats_t){atomic_load_explicit(&comm->op_count, memory_order_relaxed),
                                 atomic_load_explicit(&comm->failed_op_count, memory_order_relaxed),
                                 atomic_load_explicit(&comm->payload_bytes, memory_order_relaxed)};
}

const _Atomic uint64_t *engine_comm_link_bytes(const engine_comm_t *comm)
{
    return comm->link_bytes;
}
