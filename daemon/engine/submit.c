/*
 * From a submission to its place in an op: what is hostile until checked, and how the ranks' submissions find
 * one another. op.c trusts what it is given.
 */
#include "engine/submit.h"

#include "collective.h"
#include "engine/client.h"
#include "engine/comm.h"
#include "engine/loop.h"
#include "engine/match.h"
#include "engine/op.h"
#include "engine/replay.h"
#include "engine/run.h"
#include "error.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the submission by itself ---- */

static bool is_transfer(const ring_sqe_t *sqe)
{
    return collective_is_pair(collective_of_opcode(sqe->opcode));
}

/* Whether the opcode and the other rank are such that the op can be found. */
static blink_result_t check_target(const engine_comm_t *comm, const ring_sqe_t *sqe)
{
    if (!collective_opcode_valid(sqe->opcode))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown opcode %u", sqe->opcode);
    if (is_transfer(sqe) && sqe->root >= comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s rank %u of %u ranks",
                          sqe->opcode == RING_OP_SEND ? "send to" : "receive from", sqe->root,
                          comm->rank_count);
    return BLINK_OK;
}

static blink_result_t check_fields(const engine_comm_t *comm, const ring_sqe_t *sqe)
{
    blink_collective_t collective = collective_of_opcode(sqe->opcode);
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    if (sqe->flags & ~(RING_SQE_MORE | RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED | RING_SQE_STREAM))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown flags 0x%x in the submission", sqe->flags);
    if (sqe->window != 0 && !(sqe->flags & (RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED | RING_SQE_STREAM)))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "window %u, but nothing is staged or on a stream",
                          sqe->window);
    if (!collective_moves(collective))
        return BLINK_OK;
    if (element_bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown datatype %u", sqe->datatype);
    if (collective_reduces(collective) && !blink_redop_valid(sqe->redop))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown reduction operator %u", sqe->redop);
    if (collective_has_root(collective) && sqe->root >= comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "root %u of %u ranks", sqe->root, comm->rank_count);
    /* Payloads of all with all are counted too. */
    if (sqe->count > UINT64_MAX / element_bytes / comm->rank_count / comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "count %lu of %u-byte elements overflows",
                          (unsigned long)sqe->count, element_bytes);
    return BLINK_OK;
}

static op_signature_t signature_of(const comm_rank_t *rank, const ring_sqe_t *sqe)
{
    blink_collective_t collective = collective_of_opcode(sqe->opcode);
    bool moves = collective_moves(collective);
    op_signature_t signature = {.opcode = sqe->opcode,
                                .datatype = moves ? sqe->datatype : 0,
                                .redop = collective_reduces(collective) ? sqe->redop : BLINK_SUM,
                                .root = collective_has_root(collective) ? sqe->root : 0,
                                .count = moves ? sqe->count : 0};
    if (is_transfer(sqe)) {
        bool sends = sqe->opcode == RING_OP_SEND;
        signature.opcode = RING_OP_SEND;
        signature.root = sends ? rank->rank : sqe->root;
        signature.peer = sends ? sqe->root : rank->rank;
    }
    return signature;
}

/* ---- buffers ---- */

/* One operand of a submission. */
typedef struct operand {
    uint32_t region;
    uint64_t offset_bytes;
    uint64_t elements;
    bool staged;
} operand_t;

/* Bytes of the slots in which a staged operand passes. */
static uint64_t staged_bytes(const engine_comm_t *comm, const ring_sqe_t *sqe, uint64_t elements)
{
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    uint64_t piece = staging_piece_elements(sqe->opcode, comm->rank_count, element_bytes);
    return sqe->count <= piece ? elements * element_bytes : STAGING_SLOTS * STAGING_SLOT_BYTES;
}

static blink_result_t use_operand(const comm_rank_t *rank, const ring_sqe_t *sqe, const operand_t *operand,
                                  engine_region_t **held, void **address)
{
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    engine_region_t *region = client_find_region(rank->client, operand->region);
    if (!region)
        return BLINK_FAIL(BLINK_ERR_NOT_REGISTERED, "region %u is not registered", operand->region);
    if (operand->staged && region->kind != ENGINE_REGION_STAGING)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "region %u is no staging region", operand->region);
    if (operand->staged && operand->offset_bytes < STAGING_HEADER_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "staging slots at offset %lu lie among the windows",
                          (unsigned long)operand->offset_bytes);
    uint64_t bytes = operand->staged ? staged_bytes(rank->comm, sqe, operand->elements)
                                     : operand->elements * element_bytes;
    region_range_t range = {operand->offset_bytes, bytes, element_bytes, rank->comm->on_gpus};
    BLINK_TRY(region_use(region, &range, address));
    *held = region;
    return BLINK_OK;
}

static blink_result_t use_window(const ring_sqe_t *sqe, op_entry_t *entry)
{
    const engine_region_t *region = entry->input_staged ? entry->input_region : entry->output_region;
    if (entry->input_staged && entry->output_staged && entry->input_region != entry->output_region)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "input staged in region %u, output in region %u",
                          sqe->in_region, sqe->out_region);
    if (sqe->window >= STAGING_WINDOWS)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "window %u of %u", sqe->window, STAGING_WINDOWS);
    entry->window = &region_window(region, sqe->window)->staging;
    return BLINK_OK;
}

/* Buffers may overlap only as they do in place: the smaller one is this rank's block of the larger one. */
static blink_result_t check_overlap(const comm_rank_t *rank, const op_signature_t *signature,
                                    const op_entry_t *entry)
{
    uint32_t element_bytes = blink_datatype_bytes(signature->datatype);
    uint64_t in_bytes = op_input_elements(rank->comm, signature, rank->rank) * element_bytes;
    uint64_t out_bytes = op_output_elements(rank->comm, signature, rank->rank) * element_bytes;
    uintptr_t in = (uintptr_t)entry->input, out = (uintptr_t)entry->output;
    if (!in || !out || entry->input_staged || entry->output_staged || in + in_bytes <= out ||
        out + out_bytes <= in)
        return BLINK_OK;
    uint64_t block = in_bytes == out_bytes ? 0 : rank->rank * signature->count * element_bytes;
    if (collective_has_in_place(collective_of_opcode(signature->opcode)) &&
        (in_bytes > out_bytes ? out - in : in - out) == block)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "input of %lu bytes and output of %lu bytes overlap, and not as they may in place",
                      (unsigned long)in_bytes, (unsigned long)out_bytes);
}

static blink_result_t use_buffers(const comm_rank_t *rank, const ring_sqe_t *sqe,
                                  const op_signature_t *signature, op_entry_t *entry)
{
    /* A transfer of a rank to itself has an entry for each end. */
    bool reads = sqe->opcode != RING_OP_RECV, writes = sqe->opcode != RING_OP_SEND;
    operand_t in = {sqe->in_region, sqe->in_offset_bytes, 0, (sqe->flags & RING_SQE_IN_STAGED) != 0};
    operand_t out = {sqe->out_region, sqe->out_offset_bytes, 0, (sqe->flags & RING_SQE_OUT_STAGED) != 0};
    in.elements = reads ? op_input_elements(rank->comm, signature, rank->rank) : 0;
    out.elements = writes ? op_output_elements(rank->comm, signature, rank->rank) : 0;
    entry->scalar = sqe->scalar;
    void *address = NULL;
    if (in.elements > 0) {
        BLINK_TRY(use_operand(rank, sqe, &in, &entry->input_region, &address));
        entry->input = address;
        entry->input_staged = in.staged;
    }
    if (out.elements > 0) {
        BLINK_TRY(use_operand(rank, sqe, &out, &entry->output_region, &entry->output));
        entry->output_staged = out.staged;
    }
    if (entry->input_staged || entry->output_staged)
        BLINK_TRY(use_window(sqe, entry));
    return check_overlap(rank, signature, entry);
}

/* ---- finding the op ---- */

static blink_result_t find_collective(comm_rank_t *rank, const op_signature_t *signature, comm_op_t **found)
{
    engine_comm_t *comm = rank->comm;
    comm_op_t *op = rank->next_collective;
    if (!op) {
        BLINK_TRY(op_create(comm, signature, rank->rank, &op));
        if (comm->last_collective)
            comm->last_collective->next_match = op;
        comm->last_collective = op;
        for (uint32_t other = 0; other < comm->rank_count; other++) {
            if (!comm->ranks[other].next_collective)
                comm->ranks[other].next_collective = op;
        }
    }
    rank->next_collective = op->next_match;
    *found = op;
    return BLINK_OK;
}

/* The oldest transfer of the pair that lacks this end, or a new one. */
static blink_result_t find_transfer(const comm_rank_t *rank, const op_signature_t *signature, bool receives,
                                    comm_op_t **found)
{
    engine_comm_t *comm = rank->comm;
    if (!comm->transfers)
        comm->transfers = calloc(TRANSFER_BUCKETS, sizeof(comm_op_t *));
    if (!comm->transfers)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for transfers");
    comm_op_t **first = transfer_find(comm, signature->root, signature->peer);
    if (*first && !op_entry_of(*first, rank->rank, receives)->batch) {
        *found = *first;
        transfer_pop(first);
        return BLINK_OK;
    }
    BLINK_TRY(op_create(comm, signature, rank->rank, found));
    transfer_append(first, *found);
    return BLINK_OK;
}

/* ---- agreement ---- */

/* Whether this rank's signature is the first one's; the text names both ranks and both values. */
static blink_result_t check_agreement(const comm_op_t *op, uint32_t rank, const op_signature_t *own)
{
    const op_signature_t *first = &op->signature;
    uint32_t other = op->first_rank;
    if (own->opcode != first->opcode)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "rank %u submitted %s, rank %u submitted %s", other,
                          collective_op_name(first->opcode), rank, collective_op_name(own->opcode));
    if (own->count != first->count)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "rank %u gave count %lu, rank %u gave count %lu", other,
                          (unsigned long)first->count, rank, (unsigned long)own->count);
    if (own->datatype != first->datatype)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "rank %u gave type %s, rank %u gave type %s", other,
                          blink_name_datatype(first->datatype), rank, blink_name_datatype(own->datatype));
    if (own->redop != first->redop)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "rank %u gave operator %s, rank %u gave operator %s", other,
                          blink_name_redop(first->redop), rank, blink_name_redop(own->redop));
    if (own->root != first->root)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "rank %u gave root %u, rank %u gave root %u", other,
                          first->root, rank, own->root);
    return BLINK_OK;
}

/* ---- submitting ---- */

/* Why a submission of a stream has no turn. */
static blink_result_t check_turn(const comm_rank_t *rank, const ring_sqe_t *sqe)
{
    BLINK_TRY(stream_check(rank->client, sqe));
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an op on a stream");
}

static blink_result_t check_entry(comm_rank_t *rank, const ring_sqe_t *sqe, const op_signature_t *signature,
                                  op_entry_t *entry)
{
    char text[BLINK_ERROR_TEXT_BYTES / 2];
    blink_result_t result = check_fields(rank->comm, sqe);
    if (result == BLINK_OK && sqe->flags & RING_SQE_STREAM && !entry->ticket)
        result = check_turn(rank, sqe);
    if (result == BLINK_OK && signature->count > 0)
        result = use_buffers(rank, sqe, signature, entry);
    if (result != BLINK_OK) {
        snprintf(text, sizeof(text), "%s", blink_error_text());
        return BLINK_FAIL(result, "rank %u: %s", rank->rank, text);
    }
    BLINK_TRY(check_agreement(entry->op, rank->rank, signature));
    return op_check_left(entry->op);
}

/* Find the submission's entry of an op. A submission at fault fails that op, for all ranks. Errors: QUOTA,
 * NO_MEMORY, by which the ranks would lose count of one another. */
static blink_result_t submit_one(comm_rank_t *rank, const ring_sqe_t *sqe, submission_t *how,
                                 op_batch_t *batch)
{
    blink_result_t result = check_target(rank->comm, sqe);
    if (result != BLINK_OK) {
        batch_fail(batch, result, blink_error_text());
        return BLINK_OK;
    }
    comm_op_t *op;
    op_signature_t signature = signature_of(rank, sqe);
    bool receives = sqe->opcode == RING_OP_RECV;
    if (is_transfer(sqe))
        BLINK_TRY(find_transfer(rank, &signature, receives, &op));
    else
        BLINK_TRY(find_collective(rank, &signature, &op));
    op_entry_t *entry = op_entry_of(op, rank->rank, receives);
    op_add_entry(entry, batch);
    entry->ticket = how->ticket;
    how->ticket = NULL;
    result = check_entry(rank, sqe, &signature, entry);
    if (op->result != BLINK_OK) {
        op_serve(op);
    } else if (result != BLINK_OK) {
        char text[BLINK_ERROR_TEXT_BYTES / 2];
        snprintf(text, sizeof(text), "%s", blink_error_text());
        op_failf(op, result, "%s", text);
    }
    return BLINK_OK;
}

/* The communicator is lost: so is what this rank has begun. */
static void refuse(comm_rank_t *rank, const ring_sqe_t *sqe, const submission_t *how)
{
    rank_drop_open_batch(rank);
    if (sqe->flags & RING_SQE_MORE)
        return;
    if (how->replayed)
        stream_replay_ended(how->replayed, rank->comm->lost, rank->comm->lost_text);
    else
        client_complete(rank->client, sqe->user_data, rank->comm->lost, rank->comm->lost_text);
}

void comm_submit(comm_rank_t *rank, const ring_sqe_t *sqe, submission_t *how)
{
    engine_comm_t *comm = rank->comm;
    if (comm->lost == BLINK_OK) {
        op_batch_t *batch = rank_open_batch(rank);
        blink_result_t result = batch ? submit_one(rank, sqe, how, batch)
                                      : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another op");
        if (batch)
            batch->replayed = how->replayed;
        if (result == BLINK_OK && !(sqe->flags & RING_SQE_MORE))
            batch_commit(rank, batch, sqe->user_data);
        if (result != BLINK_OK) {
            comm_lose(comm, result, blink_error_text());
            refuse(rank, sqe, how);
        }
    } else {
        refuse(rank, sqe, how);
    }
    comm_advance(comm);
}
