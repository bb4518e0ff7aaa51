/*
 * What a client submits is hostile until it is checked; op.c trusts what it is given.
 */
#include "engine/client/submit.h"

#include "engine/client/client.h"
#include "engine/client/stored.h"
#include "engine/loop.h"
#include "engine/op/match.h"
#include "engine/op/op.h"
#include "engine/remote/remote.h"
#include "error.h"
#include "names.h"

#include <stdio.h>

/* Submissions handled in one visit, so that no client keeps the others waiting. */
#define SUBMISSIONS_PER_VISIT 16u

/* One rank's submission. The entry of the ring has been copied. */
typedef struct submission {
    comm_rank_t *rank;
    const ring_sqe_t *sqe;
    stream_ticket_t *ticket; /* of its stream; NULL: none. The op's entry takes it over */
    stored_op_t *replayed;   /* whose replay it is; NULL: none */
    /* What follows from the entry. Sums may have overflowed until check_fields() says that they have not. */
    bool moves, reduces, redop_is_known;
    op_signature_t signature;
    op_shape_t shape;
    uint64_t input_bytes, output_bytes; /* of this rank; 0: it has none */
} submission_t;

/* ---- the submission by itself ---- */

/* Whether the opcode and the other rank are such that the op can be found. */
static blink_result_t check_target(const submission_t *submission)
{
    const ring_sqe_t *sqe = submission->sqe;
    uint32_t rank_count = submission->rank->comm->rank_count;
    if (!collective_opcode_valid(sqe->opcode))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown opcode %u", sqe->opcode);
    if (collective_is_pair(collective_of_opcode(sqe->opcode)) && sqe->root >= rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s rank %u of %u ranks",
                          sqe->opcode == RING_OP_SEND ? "send to" : "receive from", sqe->root, rank_count);
    return BLINK_OK;
}

static op_signature_t signature_of(const submission_t *submission)
{
    const ring_sqe_t *sqe = submission->sqe;
    const op_shape_t *shape = &submission->shape;
    op_signature_t signature = {.opcode = sqe->opcode,
                                .datatype = submission->moves ? sqe->datatype : 0,
                                .redop = submission->reduces ? sqe->redop : BLINK_SUM,
                                .root = shape->has_root ? sqe->root : 0,
                                .count = submission->moves ? sqe->count : 0};
    if (shape->is_transfer) {
        uint32_t own = submission->rank->rank;
        bool sends = sqe->opcode == RING_OP_SEND;
        signature.opcode = RING_OP_SEND;
        signature.root = sends ? own : sqe->root;
        signature.peer = sends ? sqe->root : own;
    }
    return signature;
}

/* A transfer of a rank to itself has an entry for each end. */
static void find_bytes(submission_t *submission)
{
    const op_signature_t *signature = &submission->signature;
    op_shape_t *shape = &submission->shape;
    uint32_t own = submission->rank->rank, rank_count = submission->rank->comm->rank_count;
    uint32_t goes_to = shape->is_transfer ? signature->peer : signature->root;
    uint64_t block_bytes = signature->count * shape->element_bytes;
    shape->payload_bytes = block_bytes * collective_block_count(shape->collective, rank_count);
    if (submission->sqe->opcode != RING_OP_RECV)
        submission->input_bytes =
            block_bytes * collective_input_blocks(shape->collective, rank_count, own == signature->root);
    if (submission->sqe->opcode != RING_OP_SEND)
        submission->output_bytes =
            block_bytes * collective_output_blocks(shape->collective, rank_count, own == goes_to);
}

/* Find all that follows from an entry whose target has been checked. */
static void describe(submission_t *submission)
{
    const ring_sqe_t *sqe = submission->sqe;
    blink_collective_t collective = collective_of_opcode(sqe->opcode);
    submission->moves = collective_moves(collective);
    submission->reduces = collective_reduces(collective);
    submission->redop_is_known = !submission->reduces || blink_redop_valid(sqe->redop);
    submission->shape = (op_shape_t){.collective = collective,
                                     .is_transfer = collective_is_pair(collective),
                                     .has_root = collective_has_root(collective),
                                     .element_bytes = blink_datatype_bytes(sqe->datatype)};
    submission->signature = signature_of(submission);
    find_bytes(submission);
}

static blink_result_t check_fields(const submission_t *submission)
{
    const ring_sqe_t *sqe = submission->sqe;
    uint32_t element_bytes = submission->shape.element_bytes, rank_count = submission->rank->comm->rank_count;
    if (sqe->flags & ~(RING_SQE_MORE | RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED | RING_SQE_STREAM))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown flags 0x%x in the submission", sqe->flags);
    if (sqe->window != 0 && !(sqe->flags & (RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED | RING_SQE_STREAM)))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "window %u, but nothing is staged or on a stream",
                          sqe->window);
    if (!submission->moves)
        return BLINK_OK;
    if (element_bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown datatype %u", sqe->datatype);
    if (!submission->redop_is_known)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown reduction operator %u", sqe->redop);
    if (submission->shape.has_root && sqe->root >= rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "root %u of %u ranks", sqe->root, rank_count);
    /* Payloads of all with all are counted too. */
    if (sqe->count > UINT64_MAX / element_bytes / rank_count / rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "count %lu of %u-byte elements overflows",
                          (unsigned long)sqe->count, element_bytes);
    return BLINK_OK;
}

/* ---- buffers ---- */

/* Bytes of the slots in which a staged operand passes. */
static uint64_t staged_bytes(const submission_t *submission, uint64_t bytes)
{
    const engine_comm_t *comm = submission->rank->comm;
    uint64_t piece =
        staging_piece_elements(submission->sqe->opcode, comm->rank_count, submission->shape.element_bytes);
    if (comm->remote)
        return bytes;
    return submission->signature.count <= piece ? bytes : STAGING_SLOTS * STAGING_SLOT_BYTES;
}

static blink_result_t hold_input(const submission_t *submission, op_entry_t *entry)
{
    const ring_sqe_t *sqe = submission->sqe;
    bool staged = (sqe->flags & RING_SQE_IN_STAGED) != 0;
    region_range_t range = {.region = sqe->in_region,
                            .offset_bytes = sqe->in_offset_bytes,
                            .bytes =
                                staged ? staged_bytes(submission, entry->input_bytes) : entry->input_bytes,
                            .alignment = submission->shape.element_bytes,
                            .staged = staged,
                            .for_gpus = submission->rank->comm->on_gpus};
    void *address;
    BLINK_TRY(region_hold(submission->rank->client, &range, &entry->input_region, &address));
    entry->input = address;
    entry->input_staged = staged;
    return BLINK_OK;
}

static blink_result_t hold_output(const submission_t *submission, op_entry_t *entry)
{
    const ring_sqe_t *sqe = submission->sqe;
    bool staged = (sqe->flags & RING_SQE_OUT_STAGED) != 0;
    region_range_t range = {.region = sqe->out_region,
                            .offset_bytes = sqe->out_offset_bytes,
                            .bytes =
                                staged ? staged_bytes(submission, entry->output_bytes) : entry->output_bytes,
                            .alignment = submission->shape.element_bytes,
                            .staged = staged,
                            .for_gpus = submission->rank->comm->on_gpus};
    BLINK_TRY(region_hold(submission->rank->client, &range, &entry->output_region, &entry->output));
    entry->output_staged = staged;
    return BLINK_OK;
}

static blink_result_t use_window(const submission_t *submission, op_entry_t *entry)
{
    const ring_sqe_t *sqe = submission->sqe;
    const engine_region_t *region = entry->input_staged ? entry->input_region : entry->output_region;
    if (entry->input_staged && entry->output_staged && entry->input_region != entry->output_region)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "input staged in region %u, output in region %u",
                          sqe->in_region, sqe->out_region);
    if (sqe->window >= STAGING_WINDOWS)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "window %u of %u", sqe->window, STAGING_WINDOWS);
    entry->window = &region_window(region, sqe->window)->staging;
    entry->op->has_windows = true;
    return BLINK_OK;
}

/* Slots overlap nothing: input and output of a staged op are under way at once. */
static blink_result_t check_slots(const submission_t *submission, const op_entry_t *entry)
{
    uintptr_t in = (uintptr_t)entry->input, out = (uintptr_t)entry->output;
    uint64_t in_bytes =
        entry->input_staged ? staged_bytes(submission, entry->input_bytes) : entry->input_bytes;
    uint64_t out_bytes =
        entry->output_staged ? staged_bytes(submission, entry->output_bytes) : entry->output_bytes;
    if (!in || !out || in + in_bytes <= out || out + out_bytes <= in)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "input of %lu bytes and output of %lu bytes overlap in the slots of a staged op",
                      (unsigned long)in_bytes, (unsigned long)out_bytes);
}

/* Buffers may overlap only as they do in place: the smaller one is this rank's block of the larger one. */
static blink_result_t check_overlap(const submission_t *submission, const op_entry_t *entry)
{
    if (entry->input_staged || entry->output_staged)
        return check_slots(submission, entry);
    uint64_t in_bytes = entry->input_bytes, out_bytes = entry->output_bytes;
    uintptr_t in = (uintptr_t)entry->input, out = (uintptr_t)entry->output;
    if (!in || !out || in + in_bytes <= out || out + out_bytes <= in)
        return BLINK_OK;
    uint64_t block_bytes = submission->signature.count * submission->shape.element_bytes;
    uint64_t block = in_bytes == out_bytes ? 0 : submission->rank->rank * block_bytes;
    if (collective_has_in_place(submission->shape.collective) &&
        (in_bytes > out_bytes ? out - in : in - out) == block)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "input of %lu bytes and output of %lu bytes overlap, and not as they may in place",
                      (unsigned long)in_bytes, (unsigned long)out_bytes);
}

static blink_result_t hold_buffers(const submission_t *submission, op_entry_t *entry)
{
    entry->scalar = submission->sqe->scalar;
    entry->input_bytes = submission->input_bytes;
    entry->output_bytes = submission->output_bytes;
    if (entry->input_bytes > 0)
        BLINK_TRY(hold_input(submission, entry));
    if (entry->output_bytes > 0)
        BLINK_TRY(hold_output(submission, entry));
    if (entry->input_staged || entry->output_staged)
        BLINK_TRY(use_window(submission, entry));
    return check_overlap(submission, entry);
}

/* ---- finding the op ---- */

/* The next collective of the rank, which is a new one if no other rank has come to it. */
static blink_result_t find_collective(const submission_t *submission, comm_op_t **found)
{
    comm_rank_t *rank = submission->rank;
    engine_comm_t *comm = rank->comm;
    comm_op_t *op = rank->next_collective;
    if (!op) {
        BLINK_TRY(op_create(rank, &submission->signature, &submission->shape, &op));
        if (comm->last_collective)
            comm->last_collective->next_collective = op;
        comm->last_collective = op;
        for (uint32_t other = 0; other < comm->member_count; other++) {
            if (!comm->members[other].next_collective)
                comm->members[other].next_collective = op;
        }
    }
    rank->next_collective = op->next_collective;
    *found = op;
    return BLINK_OK;
}

/* The oldest transfer of the pair that lacks this end, or a new one. */
static blink_result_t find_transfer(const submission_t *submission, comm_op_t **found)
{
    const op_signature_t *signature = &submission->signature;
    comm_rank_t *rank = submission->rank;
    BLINK_TRY(match_take(rank->comm, signature, submission->sqe->opcode == RING_OP_RECV, found));
    if (*found)
        return BLINK_OK;
    BLINK_TRY(op_create(rank, signature, &submission->shape, found));
    match_keep(*found);
    return BLINK_OK;
}

/* ---- agreement ---- */

/* Whether this rank's signature is the first one's; the text names both ranks and both values. */
static blink_result_t check_agreement(const submission_t *submission, const comm_op_t *op)
{
    char first[32], own[32];
    if (op_signature_equals(&op->signature, &submission->signature))
        return BLINK_OK;
    snprintf(first, sizeof(first), "rank %u", op->first_rank);
    snprintf(own, sizeof(own), "rank %u", submission->rank->rank);
    return op_signature_fail(first, &op->signature, own, &submission->signature);
}

/* ---- submitting ---- */

/* Why a submission of a stream has no ticket. */
static blink_result_t fail_without_ticket(const submission_t *submission)
{
    BLINK_TRY(stream_check(submission->rank->client, submission->sqe));
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an op on a stream");
}

static blink_result_t check_entry(const submission_t *submission, op_entry_t *entry)
{
    char text[BLINK_ERROR_TEXT_BYTES / 2];
    const engine_comm_t *comm = submission->rank->comm;
    blink_result_t result = check_fields(submission);
    if (result == BLINK_OK && submission->sqe->flags & RING_SQE_STREAM && !entry->ticket)
        result = fail_without_ticket(submission);
    if (result == BLINK_OK && submission->signature.count > 0)
        result = hold_buffers(submission, entry);
    if (result != BLINK_OK) {
        snprintf(text, sizeof(text), "%s", blink_error_text());
        return BLINK_FAIL(result, "rank %u: %s", submission->rank->rank, text);
    }
    BLINK_TRY(check_agreement(submission, entry->op));
    bool some_left = comm->leaving_count > 0 || comm->left_count > 0;
    return some_left ? op_check_left(entry->op) : BLINK_OK;
}

/* The reason is this thread's error text. */
static void fail_with_reason(comm_op_t *op, blink_result_t result)
{
    char text[BLINK_ERROR_TEXT_BYTES / 2];
    snprintf(text, sizeof(text), "%s", blink_error_text());
    op_failf(op, result, "%s", text);
}

/* Give the submission its entry of an op. A submission at fault fails that op, for all ranks. Errors: QUOTA,
 * NO_MEMORY, by which the ranks would lose count of one another. */
static blink_result_t join_op(submission_t *submission, op_batch_t *batch)
{
    comm_op_t *op;
    blink_result_t result = check_target(submission);
    if (result != BLINK_OK) {
        batch_fail(submission->rank, batch, result, blink_error_text());
        return BLINK_OK;
    }
    describe(submission);
    BLINK_TRY(submission->shape.is_transfer ? find_transfer(submission, &op)
                                            : find_collective(submission, &op));
    op_entry_t *entry = op_entry_of(op, submission->rank->rank, submission->sqe->opcode == RING_OP_RECV);
    op_add_entry(entry, batch);
    entry->ticket = submission->ticket;
    op->has_tickets |= entry->ticket != NULL;
    submission->ticket = NULL;
    result = check_entry(submission, entry);
    if (op->state == OP_ENDED)
        op_serve(op);
    else if (result != BLINK_OK)
        fail_with_reason(op, result);
    else if ((result = remote_op_check(op)) != BLINK_OK)
        op_fail(op, result, blink_error_text());
    return BLINK_OK;
}

/* The communicator has ended, and so has what this rank has begun. */
static void refuse(const submission_t *submission)
{
    comm_rank_t *rank = submission->rank;
    const engine_comm_t *comm = rank->comm;
    ops_activate(rank_drop_open_batch(rank));
    if (submission->sqe->flags & RING_SQE_MORE)
        return;
    if (submission->replayed)
        stored_replay_ended(submission->replayed, comm->end_reason, comm->end_text);
    else
        client_complete(rank->client, submission->sqe->user_data, comm->end_reason, comm->end_text);
}

static blink_result_t submit(submission_t *submission)
{
    const ring_sqe_t *sqe = submission->sqe;
    op_batch_t *batch;
    BLINK_TRY(rank_open_batch(submission->rank, &batch));
    batch->replayed = submission->replayed;
    BLINK_TRY(join_op(submission, batch));
    if (!(sqe->flags & RING_SQE_MORE))
        ops_activate(rank_commit(submission->rank, batch, sqe->user_data));
    return BLINK_OK;
}

/* Its completion follows, now or later, unless it has RING_SQE_MORE. */
static void submit_or_refuse(submission_t *submission)
{
    engine_comm_t *comm = submission->rank->comm;
    blink_result_t result = comm_has_ended(comm) ? comm->end_reason : submit(submission);
    if (result == BLINK_OK)
        return;
    if (comm->end_reason == BLINK_OK)
        comm_end(comm, ENDED_BY_ENGINE, result, blink_error_text());
    refuse(submission);
}

void submit_stored(comm_rank_t *rank, const ring_sqe_t *sqe, stored_op_t *stored)
{
    submission_t submission = {.rank = rank, .sqe = sqe, .replayed = stored};
    submit_or_refuse(&submission);
}

/* ---- from the ring ---- */

/* Of a submission that no communicator sees. */
static void complete(engine_client_t *client, const ring_sqe_t *sqe, blink_result_t result)
{
    if (!(sqe->flags & RING_SQE_MORE)) /* else the last entry of the group hears why */
        client_complete(client, sqe->user_data, result, result != BLINK_OK ? blink_error_text() : NULL);
}

static void take_forget(engine_client_t *client, const ring_sqe_t *sqe)
{
    bool later;
    blink_result_t result = stored_forget(client, sqe, &later);
    if (!later)
        complete(client, sqe, result);
}

static void take_for_member(engine_client_t *client, const ring_sqe_t *sqe)
{
    comm_rank_t *rank = client_find_membership(client, sqe->member);
    submission_t submission = {.rank = rank, .sqe = sqe};
    bool is_member = rank && !rank->leaving;
    blink_result_t result = BLINK_OK;
    if (is_member && stored_takes(client, rank, sqe)) {
        complete(client, sqe, stored_keep(client, rank, sqe));
        return;
    }
    /* A submission without a ticket is refused where its op is found, so that all ranks hear. */
    if (sqe->flags & RING_SQE_STREAM && !(sqe->flags & RING_SQE_STORED))
        result = stream_begin(client, sqe, &submission.ticket);
    if (is_member)
        submit_or_refuse(&submission);
    else
        complete(client, sqe,
                 result != BLINK_OK ? result
                                    : BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                                                 "this client has no communicator handle %u", sqe->member));
    if (submission.ticket) /* no op has taken it */
        stream_end(submission.ticket);
}

static void take(engine_client_t *client, const ring_sqe_t *sqe)
{
    if (sqe->opcode == RING_OP_NOP)
        complete(client, sqe, BLINK_OK);
    else if (sqe->opcode == RING_OP_FORGET)
        take_forget(client, sqe);
    else
        take_for_member(client, sqe);
}

bool submit_poll(engine_client_t *client)
{
    ring_sqe_t taken[SUBMISSIONS_PER_VISIT];
    uint32_t count = 0, owed = 0;
    while (count < SUBMISSIONS_PER_VISIT && ring_take(&client->ring, &taken[count]))
        owed += !(taken[count++].flags & RING_SQE_MORE);
    if (count == 0)
        return false;
    engine_count(client->engine, count);
    client_owe(client, owed);
    /* Control posts regions and communicators before it tells the client of them, so they are in the mailbox
     * by now. */
    mailbox_run(&client->engine->mailbox);
    for (uint32_t i = 0; i < count; i++)
        take(client, &taken[i]);
    return true;
}
