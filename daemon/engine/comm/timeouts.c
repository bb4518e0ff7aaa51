#include "engine/comm/timeouts.h"

#include "engine/client/stream.h"
#include "engine/comm/comm.h"
#include "engine/loop.h"
#include "engine/op/op.h"
#include "engine/plans/plans.h"
#include "engine/remote/remote.h"

#include <math.h>
#include <stdio.h>

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
    return entry->ticket && !stream_has_come(entry->ticket);
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
    char missing[BLINK_ERROR_TEXT_BYTES / 3], text[BLINK_ERROR_TEXT_BYTES], unmatched[OP_UNMATCHED_BYTES];
    const char *why = "the copies of staged memory did not come", *advice = "";
    if (op->state == OP_PLANNING) {
        const char *host = plan_awaited_from(op);
        why = host ? "no plan came from " : "no plan was made";
        snprintf(missing, sizeof(missing), "%s", host ? host : "");
    } else if (op->shape.is_transfer && op->submitted_count < op->entry_count) {
        why = op_signature_tell_unmatched(op->signature.root, op->signature.peer, !op->entries[0].batch,
                                          unmatched);
        missing[0] = '\0';
    } else if (op->submitted_count < op->entry_count) {
        why = "no submission from rank ";
        name_ranks(op, is_not_submitted, missing, sizeof(missing));
    } else if (op->active_count < op->entry_count) {
        why = "held up by earlier ops or an unfinished group of rank ";
        name_ranks(op, is_not_active, missing, sizeof(missing));
    } else if (op_awaits_streams(op)) {
        why = "no stream has come to it on rank ";
        advice = "; use one order on all ranks or CUDA_DEVICE_MAX_CONNECTIONS=32";
        name_ranks(op, stream_is_missing, missing, sizeof(missing) / 2); /* for the advice */
    } else {
        missing[0] = '\0';
    }
    op_tell(op, text, "%s%s within %g s%s", why, missing, (double)comm->op_timeout_us / 1e6, advice);
    comm_end(op->comm, ENDED_BY_ENGINE, BLINK_ERR_TIMEOUT, text);
}

static double run_limit_us(const comm_op_t *op)
{
    const settings_t *settings = op->comm->engine->config.settings;
    return fmax(settings->run_timeout_s * 1e6, settings->run_timeout_factor * op->predicted_us);
}

/* Since when the op's run has had all that it needs; UINT64_MAX: it waits for its turn at the devices. */
static uint64_t run_since_us(const comm_op_t *op)
{
    uint64_t turn_us = exec_turn_us(op->instance->exec);
    return turn_us > op->since_us ? turn_us : op->since_us;
}

/* Other hosts do not come to an op that this one runs: they name the ranks that lack there, unless they have
 * no more time than that. */
static void op_miss_hosts(comm_op_t *op)
{
    char missing[BLINK_ERROR_TEXT_BYTES / 2], text[BLINK_ERROR_TEXT_BYTES];
    remote_name_missing(op, missing, sizeof(missing));
    op_tell(op, text, "%s, did not come to it within %g s", missing,
            (double)(op->comm->op_timeout_us + REMOTE_GRACE_US) / 1e6);
    comm_end(op->comm, ENDED_BY_ENGINE, BLINK_ERR_TIMEOUT, text);
}

/* Ranks of other hosts hear it, too, and not by themselves on whose devices it ran. */
static void op_run_out(comm_op_t *op, uint64_t now_us)
{
    const remote_comm_t *remote = op->comm->remote;
    char host[BLINK_ERROR_TEXT_BYTES / 3] = "", text[BLINK_ERROR_TEXT_BYTES];
    if (remote)
        remote_name_host(remote, remote->own_host, host, sizeof(host));
    op_tell(op, text, "%s%s%sit has run for %.3g s, and %.3g s were predicted", remote ? "on " : "", host,
            remote ? ", " : "", (double)(now_us - run_since_us(op)) / 1e6, op->predicted_us / 1e6);
    comm_end(op->comm, ENDED_BY_ENGINE, BLINK_ERR_TIMEOUT, text);
}

static bool op_waits_for_hosts(const comm_op_t *op)
{
    return op->state == OP_RUNNING && remote_waits_since_us(op) != UINT64_MAX;
}

/* Whether nothing of the op goes on unless its clients do something. */
static bool op_waits_for_clients(const comm_op_t *op)
{
    return op->state == OP_GATHERING || op->state == OP_AWAITING || op->state == OP_ENDED;
}

/* When an op has taken too long that is the oldest of its communicator, or runs; UINT64_MAX: it is the
 * engine's turn to do something.
 */
static uint64_t op_deadline_us(const comm_op_t *op)
{
    const engine_comm_t *comm = op->comm;
    if (op_waits_for_hosts(op))
        return remote_waits_since_us(op) + comm->op_timeout_us + REMOTE_GRACE_US;
    if (op->state == OP_RUNNING) {
        uint64_t since_us = run_since_us(op);
        return since_us == EXEC_TURN_AWAITED ? UINT64_MAX : since_us + (uint64_t)run_limit_us(op);
    }
    if (!op_waits_for_clients(op) && op->state != OP_PLANNING)
        return UINT64_MAX;
    return (op->since_us > comm->oldest_since_us ? op->since_us : comm->oldest_since_us) +
           comm->op_timeout_us;
}

/* End the op's communicator if the op has taken too long. Returns when it will have. */
static uint64_t op_check_deadline(comm_op_t *op, uint64_t now_us)
{
    uint64_t deadline_us = op_deadline_us(op);
    if (now_us < deadline_us)
        return deadline_us;
    if (op_waits_for_hosts(op))
        op_miss_hosts(op);
    else if (op->state == OP_RUNNING)
        op_run_out(op, now_us);
    else
        op_time_out(op);
    return UINT64_MAX;
}

/* The oldest op may wait for scratch that a later one has: so every run has its limit, one after the other.
 */
static uint64_t comm_check_deadlines(engine_comm_t *comm, uint64_t now_us)
{
    comm_op_t *running = LIST_FIRST(&comm->running, comm_op_t, of_state);
    uint64_t next_us = op_check_deadline(LIST_FIRST(&comm->ops, comm_op_t, of_comm), now_us);
    if (!running || comm->end_reason != BLINK_OK)
        return next_us;
    uint64_t run_us = op_check_deadline(running, now_us);
    return run_us < next_us ? run_us : next_us;
}

uint64_t comms_check_timeouts(engine_t *engine, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    LIST_FOR_EACH (link, &engine->busy_comms) {
        engine_comm_t *comm = CONTAINER_OF(link, engine_comm_t, of_busy);
        uint64_t deadline_us = comm->end_reason == BLINK_OK ? comm_check_deadlines(comm, now_us) : UINT64_MAX;
        if (deadline_us < next_us)
            next_us = deadline_us;
    }
    return next_us;
}
