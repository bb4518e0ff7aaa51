/*
 * Ops, the entries that ranks have in them, and the batches in which ranks submit them: how they come to be,
 * how they are completed, and when they are forgotten.
 */
#include "engine/op.h"

#include "base/clock.h"
#include "collective.h"
#include "engine/client.h"
#include "engine/loop.h"
#include "engine/match.h"
#include "engine/rank.h"
#include "engine/run.h"
#include "engine/stream.h"
#include "error.h"
#include "names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Live ops of a communicator, so that a rank far ahead of the others meets a limit. They come in groups, of
 * as many as the library lets a group have, and of several for every pair of ranks where all exchange with
 * all. */
#define COMM_OPS_MAX          65536u
#define COMM_OPS_MAX_PER_PAIR 2u

/* Live ops that one client began, in all its communicators: up to about a kilobyte each. */
#define CLIENT_OPS_MAX 131072u

/* ---- sizes ---- */

uint64_t op_input_elements(const engine_comm_t *comm, const op_signature_t *signature, uint32_t rank)
{
    blink_collective_t collective = collective_of_opcode(signature->opcode);
    return signature->count * collective_input_blocks(collective, comm->rank_count, rank == signature->root);
}

uint64_t op_output_elements(const engine_comm_t *comm, const op_signature_t *signature, uint32_t rank)
{
    blink_collective_t collective = collective_of_opcode(signature->opcode);
    uint32_t root = collective_is_pair(collective) ? signature->peer : signature->root;
    return signature->count * collective_output_blocks(collective, comm->rank_count, rank == root);
}

uint64_t op_payload_bytes(const comm_op_t *op)
{
    const op_signature_t *signature = &op->signature;
    blink_collective_t collective = collective_of_opcode(signature->opcode);
    uint64_t blocks = collective_block_count(collective, op->comm->rank_count);
    return signature->count * blocks * blink_datatype_bytes(signature->datatype);
}

bool op_is_transfer(const comm_op_t *op)
{
    return collective_is_pair(collective_of_opcode(op->signature.opcode));
}

/* ---- making ---- */

static comm_op_t *op_alloc(engine_comm_t *comm, uint32_t entry_count)
{
    size_t bytes = sizeof(comm_op_t) + entry_count * sizeof(op_entry_t);
    comm_op_t *op = NULL;
    if (entry_count == comm->rank_count && comm->spare_op) {
        op = comm->spare_op;
        comm->spare_op = NULL;
        memset(op, 0, bytes);
    } else {
        op = calloc(1, bytes);
    }
    if (op)
        op->entry_count = entry_count;
    return op;
}

static void op_append(engine_comm_t *comm, comm_op_t *op)
{
    if (!comm->ops)
        comm_enlist(comm);
    op->previous_next = comm->ops_end;
    *comm->ops_end = op;
    comm->ops_end = &op->next;
    comm->op_total++;
}

static blink_result_t check_total(const engine_comm_t *comm, uint32_t rank)
{
    uint32_t limit = COMM_OPS_MAX + COMM_OPS_MAX_PER_PAIR * comm->rank_count * comm->rank_count;
    if (comm->ranks[rank].client->begun_ops >= CLIENT_OPS_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "this client has begun %u ops that are not complete",
                          CLIENT_OPS_MAX);
    if (comm->op_total >= limit)
        return BLINK_FAIL(BLINK_ERR_QUOTA,
                          "communicator %u: %u ops are not complete, as many as there may be", comm->comm,
                          comm->op_total);
    return BLINK_OK;
}

blink_result_t op_create(engine_comm_t *comm, const op_signature_t *signature, uint32_t rank,
                         comm_op_t **created)
{
    bool is_transfer = collective_is_pair(collective_of_opcode(signature->opcode));
    BLINK_TRY(check_total(comm, rank));
    comm_op_t *op = op_alloc(comm, is_transfer ? 2 : comm->rank_count);
    if (!op)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another op");
    op->comm = comm;
    op->sequence = comm->next_sequence++;
    op->signature = *signature;
    op->first_rank = rank;
    op->since_us = clock_us();
    for (uint32_t i = 0; i < op->entry_count; i++) {
        uint32_t of = !is_transfer ? i : i == 0 ? signature->root : signature->peer;
        op->entries[i].op = op;
        op->entries[i].rank = &comm->ranks[of];
    }
    op_append(comm, op);
    comm->ranks[rank].client->begun_ops++;
    *created = op;
    return BLINK_OK;
}

op_entry_t *op_entry_of(comm_op_t *op, uint32_t rank, bool receives)
{
    return &op->entries[!op_is_transfer(op) ? rank : receives ? 1 : 0];
}

void op_add_entry(op_entry_t *entry, op_batch_t *batch)
{
    entry->batch = batch;
    entry->next = batch->entries;
    entry->previous_next = &batch->entries;
    if (entry->next)
        entry->next->previous_next = &entry->next;
    batch->entries = entry;
    batch->unfinished++;
    entry->op->submitted_count++;
}

/* ---- ending ---- */

/* Only a batch that is not active has its entries in a list. */
static void entry_unlink(const op_entry_t *entry)
{
    if (!entry->previous_next)
        return;
    *entry->previous_next = entry->next;
    if (entry->next)
        entry->next->previous_next = entry->previous_next;
}

static void entry_complete(op_entry_t *entry)
{
    op_batch_t *batch = entry->batch;
    const comm_op_t *op = entry->op;
    stream_ticket_t *ticket = entry->ticket;
    if (!batch || entry->completed)
        return;
    entry->completed = true;
    entry->op->completed_count++;
    region_release(entry->input_region);
    region_release(entry->output_region);
    entry_unlink(entry);
    batch->unfinished--;
    if (op->result != BLINK_OK)
        batch_fail(batch, op->result, op->text);
    batch_end_if_done(entry->rank, batch);
    stream_end(ticket); /* last: who has synchronised with the stream finds the completion */
}

/* Nobody's submission can still come. */
static bool op_is_settled(const comm_op_t *op)
{
    if (op->completed_count == op->entry_count)
        return true;
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        bool will_not_come = !entry->batch && (entry->rank->leaving || op->comm->lost != BLINK_OK);
        if (!entry->completed && !will_not_come)
            return false;
    }
    return true;
}

/* From the transfers of its pair: the oldest in the usual cases. */
static void op_unlink_transfer(comm_op_t *op)
{
    comm_op_t **first = transfer_find(op->comm, op->signature.root, op->signature.peer);
    if (!*first)
        return;
    if (*first == op) {
        transfer_pop(first);
        return;
    }
    comm_op_t *before = *first;
    while (before->next_of_pair && before->next_of_pair != op)
        before = before->next_of_pair;
    if (!before->next_of_pair)
        return;
    before->next_of_pair = op->next_of_pair;
    if ((*first)->last_of_pair == op)
        (*first)->last_of_pair = before;
}

static void op_free(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    if (comm->ops == op)
        comm->oldest_since_us = clock_us(); /* of the next one: its ranks may have waited for this one */
    *op->previous_next = op->next;
    if (op->next)
        op->next->previous_next = op->previous_next;
    else
        comm->ops_end = op->previous_next;
    comm->op_total--;
    if (!comm->ops)
        comm_delist(comm);
    if (!comm->ranks[op->first_rank].left)
        comm->ranks[op->first_rank].client->begun_ops--;
    if (comm->last_collective == op)
        comm->last_collective = NULL;
    if (op_is_transfer(op) && op->submitted_count < op->entry_count)
        op_unlink_transfer(op);
    free(op->text);
    if (op->entry_count == comm->rank_count && !comm->spare_op)
        comm->spare_op = op;
    else
        free(op);
}

void ops_forget_client(engine_comm_t *comm, uint32_t rank)
{
    for (comm_op_t *op = comm->ops; op; op = op->next)
        comm->ranks[rank].client->begun_ops -= op->first_rank == rank;
}

bool op_free_if_done(comm_op_t *op)
{
    if (op->state != OP_GATHERING || !op_is_settled(op))
        return false;
    op_free(op);
    return true;
}

void op_serve(comm_op_t *op)
{
    for (uint32_t i = 0; i < op->entry_count; i++)
        entry_complete(&op->entries[i]);
    op_free_if_done(op);
}

void op_fail(comm_op_t *op, blink_result_t code, const char *text)
{
    if (op->result == BLINK_OK) {
        op->result = code;
        op->text = strdup(text);
        /* Relaxed: counters. */
        atomic_fetch_add_explicit(&op->comm->failed_op_count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&op->comm->engine->failed_op_count, 1, memory_order_relaxed);
    }
    op_serve(op);
}

void op_failf(comm_op_t *op, blink_result_t code, const char *format, ...)
{
    char what[BLINK_ERROR_TEXT_BYTES / 2], text[BLINK_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(text, sizeof(text), "%s %lu of communicator %u: %s", collective_op_name(op->signature.opcode),
             (unsigned long)op->sequence, op->comm->comm, what);
    op_fail(op, code, text);
}

/* User memory that the op used, by how the daemon reached it. */
static void count_memory(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    uint64_t element_bytes = blink_datatype_bytes(op->signature.datatype), direct = 0, staged = 0;
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        uint32_t rank = entry->rank->rank;
        uint64_t in = entry->input ? op_input_elements(comm, &op->signature, rank) * element_bytes : 0;
        uint64_t out = entry->output ? op_output_elements(comm, &op->signature, rank) * element_bytes : 0;
        *(entry->input_staged ? &staged : &direct) += in;
        *(entry->output_staged ? &staged : &direct) += out;
    }
    /* Relaxed: counters. */
    atomic_fetch_add_explicit(&comm->direct_bytes, direct, memory_order_relaxed);
    if (staged > 0)
        atomic_fetch_add_explicit(&comm->staged_bytes, staged, memory_order_relaxed);
}

void op_succeed(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    uint64_t bytes = op_payload_bytes(op);
    count_memory(op);
    /* Relaxed: counters. */
    atomic_fetch_add_explicit(&comm->op_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->engine->op_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->payload_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->engine->payload_bytes, bytes, memory_order_relaxed);
    op_serve(op);
}

blink_result_t op_check_left(const comm_op_t *op)
{
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        if (entry->rank->leaving && !entry->batch)
            return BLINK_FAIL(BLINK_ERR_PEER_LOST, "rank %u has left the communicator", entry->rank->rank);
    }
    return BLINK_OK;
}
