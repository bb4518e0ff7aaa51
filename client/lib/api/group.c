/* Groups. */
#include "api/group.h"

#include "context/comm.h"
#include "submit/handle.h"

#include <stdio.h>
#include <stdlib.h>

#define ENTRIES_MAX 65536u
#define PART_ROOM   16u

/* The submissions of one communicator. */
typedef struct part {
    struct part *next;
    ops_t *ops;
    ops_queue_t *queue;
    blink_op_t *op; /* reserved at the end */
    ops_run_t run;
    uint32_t capacity;
} part_t;

/* Of one thread. State without a context: the interface names none, for a group may span several. */
typedef struct group {
    uint32_t depth;
    uint32_t entries;
    part_t *parts, **end; /* in the order of their first submissions */
    part_t *recent;       /* most calls go where the one before went */
    stream_steps_t steps; /* of the calls on streams */
    bool has_plain;       /* calls that are on none */
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
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "groups nest %u deep already", group.depth);
    if (group.depth++ == 0)
        group.end = &group.parts;
    return BLINK_OK;
}

/* The part of a queue, made if there is none yet. */
static blink_result_t find_part(ops_t *ops, ops_queue_t *queue, part_t **part)
{
    part_t *found = group.recent && group.recent->queue == queue ? group.recent : group.parts;
    while (found && found->queue != queue)
        found = found->next;
    if (!found) {
        found = calloc(1, sizeof(*found));
        if (!found)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator's part of a group");
        found->ops = ops;
        found->queue = queue;
        *group.end = found;
        group.end = &found->next;
    }
    *part = group.recent = found;
    return BLINK_OK;
}

static blink_result_t make_room(part_t *part)
{
    if (part->run.count == part->capacity) {
        uint32_t capacity = part->capacity > 0 ? 2 * part->capacity : PART_ROOM;
        ring_sqe_t *sqes = realloc(part->run.sqes, capacity * sizeof(*sqes));
        if (!sqes)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u entries of a group", capacity);
        part->run.sqes = sqes;
        part->capacity = capacity;
    }
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
    part_t *part;
    BLINK_TRY(check_kind(step != NULL));
    if (group.entries == ENTRIES_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a group has at most %u entries", ENTRIES_MAX);
    BLINK_TRY(find_part(ops, queue, &part));
    if (queue == &ops->nops && part->run.count == 1)
        return BLINK_OK; /* empty operations belong to no communicator, and one ends as another */
    BLINK_TRY(make_room(part));
    if (step)
        stream_step_add(step, sqe, transfer);
    part->run.sqes[part->run.count++] = *sqe;
    group.entries++;
    if (transfer) {
        transfer->next_of_op = part->run.transfers;
        part->run.transfers = transfer;
    }
    return BLINK_OK;
}

/* What has not been submitted, for the group failed. */
static void drop_parts(void)
{
    for (part_t *part = group.parts; part; part = part->next) {
        staging_release(&part->ops->staging, part->run.transfers);
        free(part->run.sqes);
        if (part->op)
            handle_put(part->op);
    }
}

static blink_result_t reserve_parts(blink_op_t **op)
{
    blink_op_t **link = op;
    for (part_t *part = group.parts; part; part = part->next) {
        BLINK_TRY(ops_reserve(part->ops, &part->op));
        *link = part->op;
        link = &part->op->rest;
    }
    return BLINK_OK;
}

static void launch_parts(void)
{
    for (part_t *part = group.parts; part; part = part->next) {
        staging_fill(part->run.transfers);
        ops_launch(part->op, part->queue, &part->run);
        if (part->run.count == 1)
            free(part->run.sqes);
        part->op = NULL; /* as the rest, no more ours */
        part->run = (ops_run_t){0};
    }
}

/* The order is argued in stream.h. */
static blink_result_t submit_on_streams(void)
{
    blink_op_t *first = NULL;
    BLINK_TRY(reserve_parts(&first));
    if (stream_steps_stored(&group.steps)) {
        launch_parts();
        return stream_capture(&group.steps,
                              blink_wait(first)); /* the daemon only stores them, that is soon */
    }
    for (part_t *part = group.parts; part; part = part->next)
        ops_detach(part->op, comm_op_ended, part->queue);
    BLINK_TRY(stream_begin(&group.steps));
    launch_parts();
    return stream_finish(&group.steps);
}

/* Submit what was collected; the handle of all of it, NULL if there is nothing. */
static blink_result_t submit_parts(blink_op_t **op)
{
    blink_op_t *first = NULL;
    if (group.failed != BLINK_OK)
        return blink_error_set(group.failed, "%s", group.text);
    if (group.steps.count > 0 && op)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "blink_group_end: op is not NULL, but the calls are on streams");
    if (group.steps.count > 0)
        return submit_on_streams();
    if (!op && group.parts)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_group_end: op is NULL at the outermost end");
    BLINK_TRY(reserve_parts(&first));
    launch_parts();
    if (op)
        *op = first;
    return BLINK_OK;
}

blink_result_t blink_group_end(blink_op_t **op)
{
    if (op)
        *op = NULL;
    if (group.depth == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_group_end: this thread has started no group");
    if (--group.depth > 0)
        return BLINK_OK;
    blink_result_t result = submit_parts(op);
    if (result != BLINK_OK)
        drop_parts();
    for (part_t *part = group.parts, *next; part; part = next) {
        next = part->next;
        free(part);
    }
    stream_steps_release(&group.steps);
    group = (group_t){0};
    return result;
}
