/*
 * A communicator as a whole: how it begins, how its ranks leave, and how it is given up when one of them
 * dies, aborts or does not come. Its ops are in op.c.
 */
#include "engine/comm.h"

#include "base/log.h"
#include "collective.h"
#include "engine/client.h"
#include "engine/gpu_worker.h"
#include "engine/loop.h"
#include "engine/op.h"
#include "engine/plans.h"
#include "engine/rank.h"
#include "engine/replay.h"
#include "engine/run.h"
#include "engine/stream.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void comm_enlist(engine_comm_t *comm)
{
    engine_t *engine = comm->engine;
    comm->next_busy = engine->busy_comms;
    comm->previous_busy = &engine->busy_comms;
    if (comm->next_busy)
        comm->next_busy->previous_busy = &comm->next_busy;
    engine->busy_comms = comm;
}

void comm_delist(engine_comm_t *comm)
{
    *comm->previous_busy = comm->next_busy;
    if (comm->next_busy)
        comm->next_busy->previous_busy = comm->previous_busy;
}

/* ---- giving up ---- */

/* Fail an op of a lost communicator, if that is possible at once: what runs, is planned or is due ends by
 * itself. */
static void op_give_up(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    if (op->state == OP_RUNNING) {
        exec_abort(op->instance->exec, comm->lost);
        return;
    }
    if (op->state == OP_AWAITING) {
        op_stop_awaiting(op);
        if (op->instance)
            op_release_instance(op);
    }
    op_fail(op, comm->lost, comm->lost_text);
}

void comm_give_up(engine_comm_t *comm, blink_result_t code, const char *text)
{
    if (comm->lost != BLINK_OK)
        return;
    comm->lost = code;
    snprintf(comm->lost_text, sizeof(comm->lost_text), "%s", text);
    LOG_INFO("communicator %u: %s", comm->comm, text);
    comm_op_t *next;
    for (comm_op_t *op = comm->ops; op; op = next) {
        next = op->next;
        op_give_up(op);
    }
}

void comm_lose(engine_comm_t *comm, blink_result_t code, const char *text)
{
    comm_give_up(comm, code, text);
    mailbox_post(comm->engine->config.control, &comm->lost_item);
}

static void comm_lost_on_control(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, lost_item);
    const engine_config_t *config = &comm->engine->config;
    config->comm_lost(config->context, comm->comm, comm->lost, comm->lost_text);
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

/* ---- timeouts ---- */

/* What the op waits for, by rank: "1, 3 and 5 more", as far as they fit. */
static void name_ranks(const comm_op_t *op, bool (*is_missing)(const op_entry_t *), char *text, size_t bytes)
{
    size_t used = 0;
    uint32_t unnamed = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < op->entry_count; i++) {
        if (!is_missing(&op->entries[i]))
            continue;
        if (used + 24 < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? ", " : "",
                                     op->entries[i].rank->rank);
        else
            unnamed++;
    }
    if (unnamed > 0)
        snprintf(text + used, bytes - used, " and %u more", unnamed);
}

static bool is_not_submitted(const op_entry_t *entry)
{
    return !entry->batch;
}

static bool is_not_active(const op_entry_t *entry)
{
    return !entry->batch->active;
}

static bool stream_is_missing(const op_entry_t *entry)
{
    return !stream_has_come(entry->ticket);
}

static bool op_awaits_streams(const comm_op_t *op)
{
    uint32_t i = 0;
    while (i < op->entry_count && !stream_is_missing(&op->entries[i]))
        i++;
    return i < op->entry_count;
}

static void op_time_out(comm_op_t *op)
{
    engine_comm_t *comm = op->comm;
    char missing[64], text[BLINK_ERROR_TEXT_BYTES];
    const char *why = "the copies of staged memory did not come";
    if (op->submitted_count < op->entry_count) {
        why = "no submission from rank ";
        name_ranks(op, is_not_submitted, missing, sizeof(missing));
    } else if (op->active_count < op->entry_count) {
        why = "held up by earlier ops or an unfinished group of rank ";
        name_ranks(op, is_not_active, missing, sizeof(missing));
    } else if (op_awaits_streams(op)) {
        why = "no stream has come to it on rank ";
        name_ranks(op, stream_is_missing, missing, sizeof(missing));
    } else {
        missing[0] = '\0';
    }
    snprintf(text, sizeof(text), "%s %lu of communicator %u: %s%s within %g s",
             collective_op_name(op->signature.opcode), (unsigned long)op->sequence, comm->comm, why, missing,
             (double)comm->op_timeout_us / 1e6);
    comm_lose(comm, BLINK_ERR_TIMEOUT, text);
    comm_advance(comm);
}

uint64_t comms_check_timeouts(engine_t *engine, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    engine_comm_t *next;
    for (engine_comm_t *comm = engine->busy_comms; comm; comm = next) {
        next = comm->next_busy;
        comm_op_t *op = comm->ops;
        if (comm->lost != BLINK_OK || (op->state != OP_GATHERING && op->state != OP_AWAITING))
            continue;
        uint64_t since_us = op->since_us > comm->oldest_since_us ? op->since_us : comm->oldest_since_us;
        uint64_t deadline_us = since_us + comm->op_timeout_us;
        if (now_us >= deadline_us)
            op_time_out(op);
        else if (deadline_us < next_us)
            next_us = deadline_us;
    }
    return next_us;
}

/* ---- joining and leaving ---- */

static void comm_free(engine_comm_t *comm)
{
    comm_free_plan_uses(comm);
    free(comm->spare_op);
    free(comm->transfers);
    free(comm->nodes);
    free(comm->ranks);
    free(comm->link_bytes);
    free(comm);
}

static void comm_add_run(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, add_item);
    engine_t *engine = comm->engine;
    if (comm->on_gpus) {
        comm->next_on_gpus = engine->gpu_comms;
        comm->previous_on_gpus = &engine->gpu_comms;
        if (comm->next_on_gpus)
            comm->next_on_gpus->previous_on_gpus = &comm->next_on_gpus;
        engine->gpu_comms = comm;
    }
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
    created->op_timeout_us = config->op_timeout_us;
    created->ops_end = &created->ops;
    created->due_end = &created->due;
    created->nodes = calloc(ranks, sizeof(*created->nodes));
    created->ranks = calloc(ranks, sizeof(*created->ranks));
    created->link_bytes = calloc(engine->config.topo->link_count + 1, sizeof(*created->link_bytes));
    created->lost_item.run = comm_lost_on_control;
    created->add_item.run = comm_add_run;
    if (!created->nodes || !created->ranks || !created->link_bytes) {
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
    created->on_gpus = engine_node_is_gpu(engine, created->nodes[0]);
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

/* The last one also waits for plans that are being made, and for the communicator's turn. */
bool rank_leave_if_done(comm_rank_t *rank)
{
    engine_comm_t *comm = rank->comm;
    engine_client_t *client = rank->client;
    if (!rank->leaving || rank->left || rank->outstanding > 0)
        return false;
    bool last = comm->left_count + 1 == comm->rank_count;
    if (last && (comm->ops || comm->is_due))
        return false;
    ops_forget_client(comm, rank->rank);
    stream_forget_rank(rank);
    if (last && comm->on_gpus) {
        *comm->previous_on_gpus = comm->next_on_gpus;
        if (comm->next_on_gpus)
            comm->next_on_gpus->previous_on_gpus = comm->previous_on_gpus;
    }
    rank->left = true;
    comm->left_count++;
    comm->leaving_count--;
    client_remove_membership(client, rank);
    rank->last = last;
    rank->item.run = rank_left_on_control;
    mailbox_post(client->engine->config.control, &rank->item);
    client_free_if_done(client);
    return last;
}

/* Fail what this rank has not submitted and will not. */
static void fail_without(engine_comm_t *comm)
{
    comm_op_t *next;
    for (comm_op_t *op = comm->ops; op && comm->lost == BLINK_OK; op = next) {
        next = op->next;
        if (op->result == BLINK_OK && op_check_left(op) != BLINK_OK)
            op_failf(op, BLINK_ERR_PEER_LOST, "%s", blink_error_text());
        else
            op_free_if_done(op); /* one that had failed before waits for this rank no more */
    }
}

static void rank_leave_now(mailbox_item_t *item)
{
    comm_rank_t *rank = CONTAINER_OF(item, comm_rank_t, item);
    engine_comm_t *comm = rank->comm;
    rank->leaving = true;
    comm->leaving_count++;
    if (rank->lost)
        comm_give_up(comm, BLINK_ERR_PEER_LOST, rank->text);
    else if (rank_in_group(rank))
        comm_give_up(comm, BLINK_ERR_PEER_LOST, "a rank left in the middle of a group");
    rank_drop_open_batch(rank);
    fail_without(comm);
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
                                 atomic_load_explicit(&comm->payload_bytes, memory_order_relaxed),
                                 atomic_load_explicit(&comm->direct_bytes, memory_order_relaxed),
                                 atomic_load_explicit(&comm->staged_bytes, memory_order_relaxed)};
}

const _Atomic uint64_t *engine_comm_link_bytes(const engine_comm_t *comm)
{
    return comm->link_bytes;
}
