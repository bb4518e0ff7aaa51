#include "engine/comm/comm.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/probe.h"
#include "engine/client/client.h"
#include "engine/client/stored.h"
#include "engine/loop.h"
#include "engine/op/op.h"
#include "engine/op/record.h"
#include "engine/op/run.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ops that a sweep looks at in one visit to its communicator. */
#define SWEPT_AT_ONCE 64u

/* Steps in a turn of the loop after which no more communicators are visited, and payload of the ops that are
 * started in them: less than a millisecond if the engine runs all of it itself. */
#define STEPS_PER_TURN 256u
#define BYTES_PER_TURN (8u << 20)

/* ---- sweeping ---- */

/* Have all ops of the communicator looked at, slice by slice, because it has ended, or a rank is leaving. */
static void sweep_begin(engine_comm_t *comm)
{
    comm->sweep = comm->ops.next;
    if (comm->op_total > 0)
        comm_attend(comm);
}

static void sweep_op(comm_op_t *op)
{
    if (comm_has_ended(op->comm))
        run_cancel(op);
    else if (op->state == OP_ENDED)
        op_serve(op); /* it may have waited for the leaving rank alone */
    else if (op_check_left(op) != BLINK_OK)
        op_failf(op, BLINK_ERR_PEER_LOST, "%s", blink_error_text());
}

static void comm_sweep(engine_comm_t *comm)
{
    uint32_t swept = 0;
    for (; comm->sweep != &comm->ops && swept < SWEPT_AT_ONCE; swept++) {
        comm_op_t *op = CONTAINER_OF(comm->sweep, comm_op_t, of_comm);
        comm->sweep = comm->sweep->next;
        sweep_op(op);
    }
    engine_count(comm->engine, swept);
    if (comm->sweep != &comm->ops)
        comm_attend(comm);
}

/* ---- ending ---- */

void comm_end(engine_comm_t *comm, comm_ender_t ender, blink_result_t reason, const char *text)
{
    if (comm->end_reason != BLINK_OK)
        return;
    comm->end_reason = reason;
    snprintf(comm->end_text, sizeof(comm->end_text), "%s", text);
    const event_of_t lost = {
        .kind = EVENT_COMM_LOST, .uid = comm->uid, .comm = comm->comm, .subject = comm->title};
    PROBE3(comm_lost, comm->comm, comm->uid, reason);
    event_log(&lost, LOG_LEVEL_INFO, "%s", text);
    record_log(comm, &lost);
    sweep_begin(comm);
    if (ender == ENDED_BY_ENGINE)
        mailbox_post(comm->engine->config.control, &comm->ended_item);
}

static void comm_ended_on_control(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, ended_item);
    const engine_config_t *config = &comm->engine->config;
    config->comm_ended(config->context, comm->comm, comm->end_reason, comm->end_text);
}

static void comm_end_run(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, end_item);
    comm_end(comm, ENDED_BY_CONTROL, comm->asked_reason, comm->asked_text);
}

void engine_comm_end(engine_comm_t *comm, blink_result_t reason, const char *text)
{
    if (comm->end_posted)
        return;
    comm->end_posted = comm->has_mail = true;
    comm->asked_reason = reason;
    snprintf(comm->asked_text, sizeof(comm->asked_text), "%s", text);
    comm->end_item.run = comm_end_run;
    mailbox_post(&comm->engine->mailbox, &comm->end_item);
}

static void comm_timeout_run(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, timeout_item);
    /* Acquire, release: pairs with the exchange in engine_comm_set_timeout(). What was asked before this
     * exchange is read below, and who asks after it posts anew. */
    atomic_exchange_explicit(&comm->timeout_posted, false, memory_order_acq_rel);
    comm->op_timeout_us = atomic_load_explicit(&comm->asked_timeout_us, memory_order_relaxed);
}

void engine_comm_set_timeout(engine_comm_t *comm, uint64_t op_timeout_us)
{
    /* Relaxed: the exchange publishes it. */
    atomic_store_explicit(&comm->asked_timeout_us, op_timeout_us, memory_order_relaxed);
    /* Acquire, release: pairs with the exchange in comm_timeout_run(). */
    if (!atomic_exchange_explicit(&comm->timeout_posted, true, memory_order_acq_rel))
        mailbox_post(&comm->engine->mailbox, &comm->timeout_item);
}

/* It will not finish what it submitted: nobody waits for that. */
void comm_rank_gone(comm_rank_t *rank)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    if (!rank->leaving || rank->outstanding == 0)
        return;
    snprintf(text, sizeof(text), "rank %u disconnected before its ops had ended", rank->rank);
    comm_end(rank->comm, ENDED_BY_ENGINE, BLINK_ERR_PEER_LOST, text);
}

/* ---- joining and leaving ---- */

static void comm_free(engine_comm_t *comm)
{
    remote_comm_destroy(comm->remote);
    exec_share_destroy(comm->share);
    plan_uses_free(&comm->plan_uses);
    history_free(&comm->history);
    history_free(&comm->lost_ops);
    free(comm->transfers);
    free(comm->nodes);
    free(comm->member_of);
    free(comm->members);
    free(comm->link_bytes);
    fabric_put(comm->fabric);
    free(comm);
}

static void comm_add_run(mailbox_item_t *item)
{
    engine_comm_t *comm = CONTAINER_OF(item, engine_comm_t, add_item);
    if (comm->on_gpus)
        list_append(&comm->engine->gpu_comms, &comm->of_gpus);
    comm->gpu_worker = comm->engine->lost_gpu_workers;
    for (uint32_t i = 0; i < comm->member_count; i++)
        client_add_membership(comm->members[i].client, &comm->members[i]);
    if (comm->remote)
        remote_comm_enter(comm->remote);
}

static void init_member(engine_comm_t *comm, uint32_t number, const engine_member_t *member)
{
    comm_rank_t *rank = &comm->members[number];
    comm->member_of[member->rank] = number;
    rank->comm = comm;
    rank->client = member->client;
    rank->member = member->member;
    rank->rank = member->rank;
    list_init(&rank->of_client);
    list_init(&rank->batches);
    list_init(&rank->stored);
}

static void init_lists(engine_comm_t *comm)
{
    list_init(&comm->of_busy);
    list_init(&comm->of_gpus);
    list_init(&comm->ops);
    list_init(&comm->due);
    list_init(&comm->running);
    list_init(&comm->activating);
    comm->sweep = &comm->ops;
}

static blink_result_t comm_alloc(engine_t *engine, const engine_comm_config_t *config,
                                 engine_comm_t **allocated)
{
    uint32_t ranks = config->rank_count;
    engine_comm_t *comm = calloc(1, sizeof(*comm));
    if (!comm)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %s", config->title);
    comm->nodes = calloc(ranks, sizeof(*comm->nodes));
    comm->member_of = calloc(ranks, sizeof(*comm->member_of));
    comm->members = calloc(config->member_count, sizeof(*comm->members));
    comm->link_bytes = calloc(engine->config.topo->link_count + 1, sizeof(*comm->link_bytes));
    *allocated = comm;
    if (!comm->nodes || !comm->member_of || !comm->members || !comm->link_bytes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %s of %u ranks", config->title, ranks);
    return BLINK_OK;
}

static void comm_init(engine_comm_t *comm, engine_t *engine, const engine_comm_config_t *config)
{
    comm->engine = engine;
    comm->comm = config->comm;
    snprintf(comm->title, sizeof(comm->title), "%s", config->title);
    comm->tenant = config->tenant;
    comm->uid = config->tenant->uid;
    comm->plan_uses.account = &config->tenant->account;
    history_init(&comm->history, &config->tenant->account, config->member_count);
    comm->rank_count = config->rank_count;
    comm->member_count = config->member_count;
    comm->algorithm = config->algorithm;
    comm->op_timeout_us = config->op_timeout_us;
    comm->fabric = fabric_get(config->fabric ? config->fabric : engine->local);
    comm->ended_item.run = comm_ended_on_control;
    comm->add_item.run = comm_add_run;
    comm->timeout_item.run = comm_timeout_run;
    init_lists(comm);
    fair_share_init(&comm->turn, 1, TURN_QUANTUM_BYTES);
    memcpy(comm->nodes, config->nodes, comm->rank_count * sizeof(*comm->nodes));
    for (uint32_t rank = 0; rank < comm->rank_count; rank++)
        comm->member_of[rank] = COMM_ELSEWHERE;
    for (uint32_t i = 0; i < comm->member_count; i++)
        init_member(comm, i, &config->members[i]);
    comm->on_gpus = engine_is_on_gpus(engine, comm->fabric, comm->nodes, comm->rank_count);
}

blink_result_t engine_comm_add(engine_t *engine, const engine_comm_config_t *config, engine_comm_t **comm)
{
    engine_comm_t *created = NULL;
    blink_result_t result = comm_alloc(engine, config, &created);
    if (result == BLINK_OK) {
        comm_init(created, engine, config);
        result = config->remote ? remote_comm_create(created, config->remote, &created->remote) : BLINK_OK;
    }
    if (result == BLINK_OK) {
        result = exec_share_create(engine_exec(engine, created->fabric, created->nodes, created->rank_count),
                                   config->tenant, config->tenant->weight, &created->share);
    }
    if (result != BLINK_OK) {
        if (created)
            comm_free(created);
        return result;
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
    rank->done.call(rank->done.context);
}

void engine_comm_free(engine_comm_t *comm)
{
    if (!comm->has_mail) {
        comm_free(comm);
        return;
    }
    /* That may still be in the engine's mailbox: this comes after it. */
    comm->add_item.run = comm_free_on_engine;
    mailbox_post(&comm->engine->mailbox, &comm->add_item);
}

history_t engine_comm_take_lost_ops(engine_comm_t *comm)
{
    history_t taken = comm->lost_ops;
    comm->lost_ops = (history_t){0};
    return taken;
}

/* For the control thread: who still asks the engine about a lost communicator hears of no ops any more. */
static void set_lost_ops_aside(engine_comm_t *comm)
{
    if (comm->end_reason == BLINK_OK)
        return;
    history_trim(&comm->history);
    comm->lost_ops = comm->history;
    comm->history = (history_t){0};
}

/* True if the rank was the last one. That one also waits for the communicator's ops. */
static bool rank_leave_if_done(comm_rank_t *rank)
{
    engine_comm_t *comm = rank->comm;
    if (!rank->leaving || rank->left || rank->outstanding > 0)
        return false;
    rank->last = comm->left_count + 1 == comm->member_count;
    if (rank->last && !list_is_empty(&comm->ops))
        return false;
    if (!stored_forget_some(rank) || (rank->last && comm->remote && !remote_forget_some(comm->remote))) {
        comm_attend(comm);
        return false;
    }
    ops_forget_client(rank);
    if (rank->last) {
        if (comm->remote) {
            remote_comm_leave(comm->remote);
            plan_asks_leave(comm);
        }
        list_remove(&comm->of_gpus);
        comm_attend_no_more(comm);
        op_free_spare(comm);
        plan_uses_credit(&comm->plan_uses);
        history_credit(&comm->history);
        set_lost_ops_aside(comm);
    }
    bool last = rank->last; /* from the post on the rank is the control thread's */
    rank->left = true;
    comm->left_count++;
    comm->leaving_count--;
    client_remove_membership(rank->client, rank);
    rank->item.run = rank_left_on_control;
    mailbox_post(comm->engine->config.control, &rank->item);
    return last;
}

/* Let ranks of this host go that are leaving and have nothing under way. With the last rank the communicator
 * goes too: the control thread now frees it, and the caller does not touch it any more. */
static void comm_let_go(engine_comm_t *comm)
{
    for (uint32_t i = 0; comm->leaving_count > 0 && i < comm->member_count; i++) {
        if (rank_leave_if_done(&comm->members[i]))
            return;
    }
}

/* ---- turns ---- */

static uint64_t comm_cost_of_next(const engine_comm_t *comm)
{
    const comm_op_t *op = LIST_FIRST(&comm->due, comm_op_t, of_state);
    uint64_t bytes = op ? op->shape.payload_bytes * op->entry_count : 0;
    return bytes > TURN_LEAST_BYTES ? bytes : TURN_LEAST_BYTES;
}

/* The communicator may be gone afterwards. */
static void comm_serve(engine_comm_t *comm)
{
    ops_activate_more(comm);
    if (comm->sweep != &comm->ops)
        comm_sweep(comm);
    if (comm->remote && !remote_sweep(comm->remote))
        comm_attend(comm);
    if (!comm_has_ended(comm)) {
        run_next_due(comm);
        if (!list_is_empty(&comm->due))
            comm_attend(comm);
    }
    if (comm->leaving_count > 0)
        comm_let_go(comm);
}

bool comms_serve(engine_t *engine)
{
    uint64_t served_bytes = 0;
    uint32_t before = engine->turn_steps;
    fair_share_t *turn;
    while (engine->turn_steps - before < STEPS_PER_TURN && served_bytes < BYTES_PER_TURN &&
           (turn = fair_next(&engine->due_tenants))) {
        tenant_t *tenant = CONTAINER_OF(turn, tenant_t, turn);
        engine_comm_t *comm = CONTAINER_OF(fair_next(&tenant->due_comms), engine_comm_t, turn);
        uint64_t cost = comm_cost_of_next(comm);
        comm_attend_no_more(comm); /* unless it has more to do after this */
        fair_charge(&tenant->due_comms, &comm->turn, cost);
        fair_charge(&engine->due_tenants, &tenant->turn, cost);
        comm_serve(comm);
        served_bytes += cost;
        engine_count(engine, 4);
    }
    return served_bytes > 0;
}

static void rank_leave_now(mailbox_item_t *item)
{
    comm_rank_t *rank = CONTAINER_OF(item, comm_rank_t, item);
    engine_comm_t *comm = rank->comm;
    rank->leaving = true;
    comm->leaving_count++;
    comm_attend(comm);
    if (rank->lost)
        comm_end(comm, ENDED_BY_CONTROL, BLINK_ERR_PEER_LOST, rank->text);
    else if (rank_in_group(rank))
        comm_end(comm, ENDED_BY_ENGINE, BLINK_ERR_PEER_LOST, "a rank left in the middle of a group");
    ops_activate(rank_drop_open_batch(rank));
    if (comm->end_reason == BLINK_OK)
        sweep_begin(comm);
    if (comm->remote)
        remote_rank_leaves(comm->remote);
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
    comm_rank_t *leaver = &comm->members[comm->member_of[rank]];
    leaver->lost = lost;
    leaver->done = done;
    snprintf(leaver->text, sizeof(leaver->text), "%s", text ? text : "");
    leaver->item.run = rank_leave_run;
    mailbox_post(&comm->engine->mailbox, &leaver->item);
}

const char *engine_comm_network(const engine_comm_t *comm)
{
    return comm->remote ? remote_network(comm->remote) : "";
}

engine_comm_stats_t engine_comm_stats(const engine_comm_t *comm)
{
    /* Relaxed: counters, each right by itself. */
    uint64_t since_us = atomic_load_explicit(&comm->awaited_since_us, memory_order_relaxed);
    return (engine_comm_stats_t){atomic_load_explicit(&comm->op_count, memory_order_relaxed),
                                 atomic_load_explicit(&comm->failed_op_count, memory_order_relaxed),
                                 atomic_load_explicit(&comm->payload_bytes, memory_order_relaxed),
                                 atomic_load_explicit(&comm->direct_bytes, memory_order_relaxed),
                                 atomic_load_explicit(&comm->staged_bytes, memory_order_relaxed),
                                 since_us > 0 ? clock_us() - since_us : 0};
}

const fabric_t *engine_comm_fabric(const engine_comm_t *comm)
{
    return comm->fabric;
}

const plan_use_t *engine_comm_plan_uses(const engine_comm_t *comm)
{
    return plan_uses_first(&comm->plan_uses);
}

const _Atomic uint64_t *engine_comm_link_bytes(const engine_comm_t *comm)
{
    return comm->link_bytes;
}
