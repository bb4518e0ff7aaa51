#include "engine/op/op.h"

#include "base/clock.h"
#include "base/counter.h"
#include "base/probe.h"
#include "engine/client/client.h"
#include "engine/loop.h"
#include "engine/op/match.h"
#include "engine/op/record.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <assert.h>
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

/* Entries of a group that become active at a time. */
#define ACTIVATED_AT_ONCE 64u

/* ---- states ---- */

#define MOVE_TO(state) (1u << (state))

bool op_may_enter(op_state_t from, op_state_t to)
{
    static const uint8_t moves[] = {
        [OP_GATHERING] = MOVE_TO(OP_DUE) | MOVE_TO(OP_ENDED),
        [OP_DUE] = MOVE_TO(OP_PLANNING) | MOVE_TO(OP_AWAITING) | MOVE_TO(OP_QUEUED) | MOVE_TO(OP_RUNNING) |
                   MOVE_TO(OP_ENDED),
        [OP_PLANNING] = MOVE_TO(OP_DUE) | MOVE_TO(OP_ENDED),
        [OP_AWAITING] = MOVE_TO(OP_QUEUED) | MOVE_TO(OP_RUNNING) | MOVE_TO(OP_AWAITING) | MOVE_TO(OP_ENDED),
        [OP_QUEUED] = MOVE_TO(OP_RUNNING) | MOVE_TO(OP_AWAITING) | MOVE_TO(OP_ENDED),
        [OP_RUNNING] = MOVE_TO(OP_QUEUED) | MOVE_TO(OP_AWAITING) | MOVE_TO(OP_ENDED),
        [OP_ENDED] = 0,
    };
    return (moves[from] & MOVE_TO(to)) != 0;
}

/* The op is kept with the client that it waits for. */
static void keep_with_client(comm_op_t *op)
{
    engine_client_t *client = op->entries[op->awaited].rank->client;
    op->awaited_client = client;
    list_append(&client->awaited, &op->of_state);
    client->awaited_count++;
    if (!op->comm->on_gpus)
        return;
    client->awaited_gpu_ops++;
    client->engine->awaited_gpu_ops++;
    client_activate(client);
}

static void take_from_client(comm_op_t *op)
{
    engine_client_t *client = op->awaited_client;
    client->awaited_count--;
    client_set_looks_owed(client, client->looks_owed);
    client->awaited_gpu_ops -= op->comm->on_gpus;
    client->engine->awaited_gpu_ops -= op->comm->on_gpus;
}

/* An op in OP_QUEUED is in its tenant's queue, and its tenant in the rotation of those that wait. */
static void queue_run(comm_op_t *op)
{
    tenant_t *tenant = op->comm->tenant;
    lender_t *lender = &op->comm->engine->cache.lender;
    list_append(&tenant->queued_runs, &op->of_state);
    if (!list_is_empty(&tenant->of_lender))
        return;
    list_append(&lender->tenants, &tenant->of_lender);
    lender->tenant_count++;
}

static void unqueue_run(const comm_op_t *op)
{
    tenant_t *tenant = op->comm->tenant;
    lender_t *lender = &op->comm->engine->cache.lender;
    lender->returned = true; /* the next one may need less */
    if (!list_is_empty(&tenant->queued_runs))
        return;
    list_remove(&tenant->of_lender);
    lender->tenant_count--;
}

/* What the op waits for in a state; OP_WAITS: for no such thing. */
static op_wait_t wait_of(op_state_t state)
{
    return state == OP_PLANNING   ? WAIT_PLAN
           : state == OP_AWAITING ? WAIT_CLIENT
           : state == OP_QUEUED   ? WAIT_SCRATCH
                                  : OP_WAITS;
}

/* Microseconds from one moment to another, for records of ops. */
static uint32_t us_between(uint64_t from_us, uint64_t to_us)
{
    uint64_t us = to_us > from_us ? to_us - from_us : 0;
    return us < RECORD_NOT_COME ? (uint32_t)us : RECORD_NOT_COME - 1;
}

static void note_wait(comm_op_t *op, op_state_t next)
{
    if (wait_of(op->state) != OP_WAITS)
        op->waited_us[wait_of(op->state)] += us_between(op->waits_since_us, clock_us());
    if (wait_of(next) != OP_WAITS)
        op->waits_since_us = clock_us();
}

void op_enter(comm_op_t *op, op_state_t state)
{
    engine_comm_t *comm = op->comm;
    assert(op_may_enter(op->state, state));
    list_remove(&op->of_state);
    note_wait(op, state);
    if (op->state == OP_AWAITING)
        take_from_client(op);
    else if (op->state == OP_QUEUED)
        unqueue_run(op);
    op->state = state;
    if (state == OP_DUE) {
        list_append(&comm->due, &op->of_state);
        comm_attend(comm);
    } else if (state == OP_PLANNING) {
        list_append(&op->program->waiting, &op->of_state);
    } else if (state == OP_RUNNING) {
        PROBE4(op_started, comm->comm, op->sequence, op->signature.opcode, op->shape.payload_bytes);
        list_append(&comm->running, &op->of_state);
    } else if (state == OP_AWAITING) {
        keep_with_client(op);
    } else if (state == OP_QUEUED) {
        queue_run(op);
    }
}

/* ---- from its first submission until it is due ---- */

static size_t op_bytes(uint32_t entry_count)
{
    return sizeof(comm_op_t) + entry_count * sizeof(op_entry_t);
}

static void memory_free(const engine_comm_t *comm, comm_op_t *op)
{
    account_credit(&comm->tenant->account, BUDGET_OP_BYTES, op_bytes(op->entry_count));
    free(op);
}

static blink_result_t op_alloc(engine_comm_t *comm, uint32_t entry_count, comm_op_t **allocated)
{
    size_t bytes = op_bytes(entry_count);
    comm_op_t *op = comm->spare_op;
    if (op && entry_count == comm->member_count) {
        comm->spare_op = NULL;
        memset(op, 0, bytes);
    } else {
        BLINK_TRY(account_charge(&comm->tenant->account, BUDGET_OP_BYTES, bytes));
        op = calloc(1, bytes);
        if (!op) {
            account_credit(&comm->tenant->account, BUDGET_OP_BYTES, bytes);
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another op");
        }
    }
    op->entry_count = entry_count;
    *allocated = op;
    return BLINK_OK;
}

static blink_result_t check_total(const comm_rank_t *rank)
{
    const engine_comm_t *comm = rank->comm;
    uint32_t limit = COMM_OPS_MAX + COMM_OPS_MAX_PER_PAIR * comm->rank_count * comm->rank_count;
    if (rank->client->begun_ops >= CLIENT_OPS_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "this client has begun %u ops that are not complete",
                          CLIENT_OPS_MAX);
    if (comm->op_total >= limit)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "%s: %u ops are not complete, as many as there may be",
                          comm->title, comm->op_total);
    return BLINK_OK;
}

/* The ends of a transfer that are on this host: the source, then the destination. */
static uint32_t transfer_ends(const engine_comm_t *comm, const op_signature_t *signature,
                              comm_rank_t *ends[2])
{
    const uint32_t ranks[] = {signature->root, signature->peer};
    uint32_t count = 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (comm->member_of[ranks[i]] != COMM_ELSEWHERE)
            ends[count++] = &comm->members[comm->member_of[ranks[i]]];
    }
    return count;
}

static void op_init(comm_op_t *op, engine_comm_t *comm, const op_signature_t *signature,
                    const op_shape_t *shape)
{
    op->comm = comm;
    op->state = OP_GATHERING;
    op->sequence = ++comm->last_sequence;
    op->signature = *signature;
    op->shape = *shape;
    op->for_pair = shape->is_transfer && comm->fabric->one_class;
    op->since_us = op->began_us = clock_us();
    list_init(&op->of_state);
    list_init(&op->of_bucket);
    list_init(&op->of_pair);
    comm_rank_t *ends[2];
    if (shape->is_transfer)
        transfer_ends(comm, signature, ends);
    for (uint32_t i = 0; i < op->entry_count; i++) {
        op_entry_t *entry = &op->entries[i];
        entry->op = op;
        entry->rank = shape->is_transfer ? ends[i] : &comm->members[i];
        list_init(&entry->of_batch);
    }
}

/* Relaxed: a number that tools show. */
static void tell_oldest(engine_comm_t *comm, uint64_t since_us)
{
    atomic_store_explicit(&comm->awaited_since_us, since_us, memory_order_relaxed);
}

blink_result_t op_create(comm_rank_t *rank, const op_signature_t *signature, const op_shape_t *shape,
                         comm_op_t **created)
{
    engine_comm_t *comm = rank->comm;
    BLINK_TRY(check_total(rank));
    comm_op_t *op;
    comm_rank_t *ends[2];
    uint32_t entry_count = shape->is_transfer ? transfer_ends(comm, signature, ends) : comm->member_count;
    BLINK_TRY(op_alloc(comm, entry_count, &op));
    engine_count(comm->engine, op->entry_count / ENTRIES_PER_STEP);
    op_init(op, comm, signature, shape);
    op->first_rank = rank->rank;
    op->beginner = rank;
    blink_result_t result = comm->remote ? remote_op_create(op) : BLINK_OK;
    if (result != BLINK_OK) {
        memory_free(comm, op);
        return result;
    }
    if (list_is_empty(&comm->ops)) {
        list_append(&comm->engine->busy_comms, &comm->of_busy);
        tell_oldest(comm, op->since_us);
    }
    list_append(&comm->ops, &op->of_comm);
    comm->op_total++;
    rank->client->begun_ops++;
    rank->begun_ops++;
    *created = op;
    return BLINK_OK;
}

/* The loop has looked at the clock in this turn, which is near enough and costs nothing. */
void op_add_entry(op_entry_t *entry, op_batch_t *batch)
{
    comm_op_t *op = entry->op;
    entry->batch = batch;
    batch_add(batch, &entry->of_batch);
    entry->came_us = us_between(op->began_us, op->comm->engine->now_us);
    PROBE4(op_submitted, op->comm->comm, op->sequence, entry->rank->rank, op->signature.opcode);
    op->submitted_count++;
}

void ops_activate(op_batch_t *batch)
{
    list_t *link;
    engine_comm_t *comm = NULL;
    uint32_t activated = 0;
    while (batch && activated < ACTIVATED_AT_ONCE && (link = list_take_first(&batch->entries))) {
        comm_op_t *op = CONTAINER_OF(link, op_entry_t, of_batch)->op;
        comm = op->comm;
        activated++;
        list_append(&batch->active_entries, link);
        if (++op->active_count == op->entry_count && op->state == OP_GATHERING && !remote_holds(op))
            op_enter(op, OP_DUE);
    }
    if (!comm)
        return;
    engine_count(comm->engine, activated);
    if (list_is_empty(&batch->entries))
        return;
    list_append(&comm->activating, &batch->of_activating);
    comm_attend(comm);
}

void ops_activate_more(engine_comm_t *comm)
{
    list_t *link = list_take_first(&comm->activating);
    if (link)
        ops_activate(CONTAINER_OF(link, op_batch_t, of_activating));
    if (!list_is_empty(&comm->activating))
        comm_attend(comm);
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

void ops_forget_client(comm_rank_t *rank)
{
    rank->client->begun_ops -= rank->begun_ops;
    rank->begun_ops = 0;
}

/* ---- its end ---- */

static void entry_complete(op_entry_t *entry)
{
    comm_op_t *op = entry->op;
    if (!entry->batch || entry->completed)
        return;
    entry->completed = true;
    op->completed_count++;
    region_release(entry->input_region);
    region_release(entry->output_region);
    list_remove(&entry->of_batch);
    ops_activate(rank_entry_completed(entry->rank, entry->batch, op->result, op->text));
    if (entry->ticket)
        stream_end(entry->ticket); /* last: who has synchronised with the stream finds the completion */
}

/* Nobody's submission can still come. */
static bool op_is_settled(const comm_op_t *op)
{
    if (op->completed_count == op->entry_count)
        return true;
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        bool will_not_come = !entry->batch && (entry->rank->leaving || op->comm->end_reason != BLINK_OK);
        if (!entry->completed && !will_not_come)
            return false;
    }
    return true;
}

void op_free_spare(engine_comm_t *comm)
{
    if (comm->spare_op)
        memory_free(comm, comm->spare_op);
    comm->spare_op = NULL;
}

/* Spare ops stay charged, and are kept only while that leaves half of the budget to ops that live. */
static bool is_kept_as_spare(const engine_comm_t *comm, const comm_op_t *op)
{
    const account_t *account = &comm->tenant->account;
    return op->entry_count == comm->member_count && !comm->spare_op &&
           account_has_left(account, BUDGET_OP_BYTES, account_used(account, BUDGET_OP_BYTES));
}

static void op_free(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    bool is_oldest = comm->ops.next == &op->of_comm;
    if (is_oldest)
        /* Of the next one: its ranks may have waited for this one. */
        comm->oldest_since_us = op->result == BLINK_OK ? op->ended_us : clock_us();
    if (comm->sweep == &op->of_comm)
        comm->sweep = op->of_comm.next;
    list_remove(&op->of_comm);
    comm->op_total--;
    if (list_is_empty(&comm->ops))
        list_remove(&comm->of_busy);
    if (is_oldest)
        tell_oldest(comm, list_is_empty(&comm->ops) ? 0 : comm->oldest_since_us);
    if (comm->leaving_count > 0)
        comm_attend(comm);
    comm_rank_t *beginner = op->beginner;
    if (!beginner->left) {
        beginner->client->begun_ops--;
        beginner->begun_ops--;
    }
    if (comm->last_collective == op)
        comm->last_collective = NULL;
    if (op->shape.is_transfer)
        match_forget(op);
    account_free_text(&comm->tenant->account, BUDGET_OP_BYTES, op->text);
    if (is_kept_as_spare(comm, op))
        comm->spare_op = op;
    else
        memory_free(comm, op);
}

void op_serve(comm_op_t *op)
{
    engine_count(op->comm->engine, op->entry_count / ENTRIES_PER_STEP);
    for (uint32_t i = 0; i < op->entry_count; i++)
        entry_complete(&op->entries[i]);
    if (op_is_settled(op))
        op_free(op);
}

/* User memory that the op used, by how the daemon reached it. */
static void count_memory(const comm_op_t *op)
{
    uint64_t direct = 0, staged = 0;
    for (uint32_t i = 0; i < op->entry_count; i++) {
        const op_entry_t *entry = &op->entries[i];
        *(entry->input_staged ? &staged : &direct) += entry->input_bytes;
        *(entry->output_staged ? &staged : &direct) += entry->output_bytes;
    }
    /* Relaxed: counters. */
    atomic_fetch_add_explicit(&op->comm->direct_bytes, direct, memory_order_relaxed);
    if (staged > 0)
        atomic_fetch_add_explicit(&op->comm->staged_bytes, staged, memory_order_relaxed);
}

/* What is counted of a communicator, of its tenant and of all. */
static void count(_Atomic uint64_t *of_comm, _Atomic uint64_t *of_tenant, _Atomic uint64_t *of_all,
                  uint64_t amount)
{
    counter_add(of_comm, amount);
    counter_add(of_tenant, amount);
    counter_add(of_all, amount);
}

static void op_end(comm_op_t *op, blink_result_t result)
{
    op_enter(op, OP_ENDED);
    op->result = result;
    op->ended_us = clock_us();
    record_ended(op);
    PROBE6(op_ended, op->comm->comm, op->sequence, op->signature.opcode, op->shape.payload_bytes, op->result,
           op->ended_us - op->began_us);
}

void op_succeed(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    op_end(op, BLINK_OK);
    remote_op_end(op, BLINK_OK, NULL);
    count_memory(op);
    count(&comm->op_count, &comm->tenant->op_count, &comm->engine->op_count, 1);
    count(&comm->payload_bytes, &comm->tenant->payload_bytes, &comm->engine->payload_bytes,
          op->shape.payload_bytes);
    op_serve(op);
}

void op_fail(comm_op_t *op, blink_result_t code, const char *text)
{
    engine_comm_t *comm = op->comm;
    if (op->state != OP_ENDED) {
        op_end(op, code);
        /* Without memory or budget the code must do. */
        op->text = account_copy_text(&comm->tenant->account, BUDGET_OP_BYTES, text);
        remote_op_end(op, code, text); /* which frees the text if it is the remote side's */
        count(&comm->failed_op_count, &comm->tenant->failed_op_count, &comm->engine->failed_op_count, 1);
    }
    op_serve(op);
}

/* Text that is too long is cut. */
static void tell(const comm_op_t *op, char text[BLINK_ERROR_TEXT_BYTES], const char *format,
                 va_list arguments)
{
    size_t used = (size_t)snprintf(text, BLINK_ERROR_TEXT_BYTES,
                                   "%s %lu of %s: ", collective_op_name(op->signature.opcode),
                                   (unsigned long)op->sequence, op->comm->title);
    if (used < BLINK_ERROR_TEXT_BYTES)
        vsnprintf(text + used, BLINK_ERROR_TEXT_BYTES - used, format, arguments);
}

void op_failf(comm_op_t *op, blink_result_t code, const char *format, ...)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    tell(op, text, format, arguments);
    va_end(arguments);
    op_fail(op, code, text);
}

void op_tell(const comm_op_t *op, char text[BLINK_ERROR_TEXT_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(op, text, format, arguments);
    va_end(arguments);
}
