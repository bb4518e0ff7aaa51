/* Groups. */
#include "api/group.h"

#include "base/vec.h"
#include "context/comm.h"
#include "environment/range.h"
#include "submit/wait.h"

#include <stdio.h>
#include <stdlib.h>

#define ENTRIES_MAX 65536u

/* The submissions of one communicator: they become one run. */
typedef struct member {
    struct member *next;
    ops_t *ops;
    ops_queue_t *queue;
    blink_op_t *op; /* reserved at the end */
    VEC(ring_sqe_t) sqes;
    staging_transfer_t *transfers; /* chained by next_of_op */
} member_t;

/* Of one thread. State without a context: the interface names none, for a group may span several. */
typedef struct group {
    uint32_t depth;
    uint32_t entries;
    member_t *members, **end; /* in the order of their first submissions */
    member_t *recent;         /* most calls go where the one before went */
    stream_steps_t steps;     /* of the calls on streams */
    bool has_plain;           /* calls that are on none */
    blink_result_t failed;
    char text[BLINK_ERROR_TEXT_BYTES]; /* of the first failure */
} group_t;

static _Thread_local group_t group;

bool group_active(void)
{
    return group.depth > 0;
}

blink_result_t group_note(blink_result_t result)
{
    if (result != BLINK_OK && group.depth > 0 && group.failed == BLINK_OK) {
        group.failed = result;
        snprintf(group.text, sizeof(group.text), "%s", blink_error_text());
    }
    return result;
}

blink_result_t group_refuse(const char *what)
{
    if (group.depth == 0)
        return BLINK_OK;
    return group_note(
        BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s waits for other ranks and cannot be in a group", what));
}

blink_result_t blink_group_start(void)
{
    if (group.depth == UINT32_MAX)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "groups nest %u deep already", group.depth);
    if (group.depth++ == 0)
        group.end = &group.members;
    return BLINK_OK;
}

/* The member of a queue, made if there is none yet. */
static blink_result_t find_member(ops_t *ops, ops_queue_t *queue, member_t **member)
{
    member_t *found = group.recent && group.recent->queue == queue ? group.recent : group.members;
    while (found && found->queue != queue)
        found = found->next;
    if (!found) {
        found = calloc(1, sizeof(*found));
        if (!found)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another communicator of a group");
        found->ops = ops;
        found->queue = queue;
        *group.end = found;
        group.end = &found->next;
    }
    *member = group.recent = found;
    return BLINK_OK;
}

stream_steps_t *group_steps(void)
{
    return &group.steps;
}

static blink_result_t check_kind(bool on_stream)
{
    group.has_plain = group.has_plain || !on_stream;
    if (group.has_plain && group.steps.count > 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "a group has calls on streams, %p for one, and calls that are on none",
                          (void *)group.steps.items[0].stream);
    return BLINK_OK;
}

blink_result_t group_add(ops_t *ops, ops_queue_t *queue, ring_sqe_t *sqe, staging_transfer_t *transfer,
                         stream_step_t *step)
{
    member_t *member;
    BLINK_TRY(check_kind(step != NULL));
    if (group.entries == ENTRIES_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a group has at most %u entries", ENTRIES_MAX);
    BLINK_TRY(find_member(ops, queue, &member));
    if (queue == &ops->nops && member->sqes.count == 1)
        return BLINK_OK; /* empty operations belong to no communicator, and one ends as another */
    if (!vec_reserve(&member->sqes, member->sqes.count + 1))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu entries of a group",
                          member->sqes.count + 1);
    if (step)
        stream_step_enter(step, sqe, transfer);
    member->sqes.items[member->sqes.count++] = *sqe;
    group.entries++;
    if (transfer) {
        transfer->next_of_op = member->transfers;
        member->transfers = transfer;
    }
    return BLINK_OK;
}

/* What has not been submitted, for the group failed. */
static void drop_members(void)
{
    for (member_t *member = group.members; member; member = member->next) {
        staging_release(&member->ops->staging, member->transfers);
        vec_free(&member->sqes);
        if (member->op)
            ops_unreserve(member->op);
    }
}

static blink_result_t reserve_members(blink_op_t **op)
{
    blink_op_t **link = op;
    for (member_t *member = group.members; member; member = member->next) {
        BLINK_TRY(ops_reserve(member->ops, &member->op));
        *link = member->op;
        link = &member->op->rest;
    }
    return BLINK_OK;
}

/* Ops, entries and transfers are no longer the group's. */
static void launch_members(void)
{
    for (member_t *member = group.members; member; member = member->next) {
        const ops_run_t run = {member->sqes.items, (uint32_t)member->sqes.count, member->transfers};
        staging_fill(member->transfers);
        ops_launch(member->op, member->queue, &run);
        if (run.count == 1)
            free(run.sqes);
        *member = (member_t){.next = member->next, .ops = member->ops, .queue = member->queue};
    }
}

/* A step that has failed has submitted an op that only the end of its communicator ends. The sentence of the
 * failure outlives this. */
static void abort_failed(void)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", blink_error_text());
    for (size_t i = 0; i < group.steps.count; i++) {
        /* If it cannot be aborted the daemon is lost, which does as well. */
        if (group.steps.items[i].failed)
            (void)comm_abort(CONTAINER_OF(group.steps.items[i].rank, blink_comm_t, streams));
    }
    blink_error_set(BLINK_ERR_SYSTEM, "%s", text);
}

/* The order is argued in step.h. */
static blink_result_t submit_on_streams(void)
{
    blink_op_t *first = NULL;
    BLINK_TRY(reserve_members(&first));
    if (stream_steps_stored(&group.steps)) {
        launch_members();
        (void)ops_await(first, UINT64_MAX); /* the daemon only stores them, that is soon */
        return stream_capture(&group.steps, ops_finish(first));
    }
    for (member_t *member = group.members; member; member = member->next)
        ops_detach(member->op, comm_op_ended, member->queue);
    BLINK_TRY(stream_begin(&group.steps));
    launch_members();
    blink_result_t result = stream_finish(&group.steps);
    if (result != BLINK_OK)
        abort_failed();
    return result;
}

/* Submit what was collected; the handle of all of it, NULL if there is nothing. */
static blink_result_t submit_members(blink_op_t **op)
{
    blink_op_t *first = NULL;
    if (group.failed != BLINK_OK)
        return blink_error_set(group.failed, "%s", group.text);
    if (group.steps.count > 0 && op)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "blink_group_end: op is not NULL, but the calls are on streams");
    if (group.steps.count > 0)
        return submit_on_streams();
    if (!op && group.members)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_group_end: op is NULL at the outermost end");
    BLINK_TRY(reserve_members(&first));
    launch_members();
    if (op)
        *op = first;
    return BLINK_OK;
}

blink_result_t group_end(blink_op_t **op)
{
    if (op)
        *op = NULL;
    if (group.depth == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_group_end: this thread has started no group");
    if (--group.depth > 0)
        return BLINK_OK;
    blink_result_t result = submit_members(op);
    if (result != BLINK_OK)
        drop_members();
    for (member_t *member = group.members, *next; member; member = next) {
        next = member->next;
        free(member);
    }
    stream_steps_release(&group.steps);
    group = (group_t){0};
    return result;
}

blink_result_t blink_group_end(blink_op_t **op)
{
    range_begin("blink_group_end");
    blink_result_t result = group_end(op);
    range_end();
    return CALL_RESULT(result);
}
