/* The steps of blink-rank that join without waiting. */
#include "steps.h"

#include "unique_id.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

outcome_t step_begin(session_t *session, const char *argument)
{
    char hex[UNIQUE_ID_TEXT_BYTES];
    int rank_count, rank, index = session->comm_count;
    unique_id_t parsed;
    blink_unique_id_t id;
    if (sscanf(argument, "%128[0-9a-f]:%d:%d", hex, &rank_count, &rank) != 3 || index == COMMS_MAX ||
        unique_id_parse(hex, "the id", &parsed) != BLINK_OK)
        return outcome_bad("begin needs HEX:RANKS:RANK");
    memcpy(&id, &parsed, sizeof(id));
    outcome_t outcome = outcome_of(
        blink_comm_init_begin(session->context, &id, rank_count, rank, NULL, &session->comms[index]));
    if (outcome.result != BLINK_OK)
        return outcome;
    session->comm_rank[index] = rank;
    session->comm_size[index] = rank_count;
    session->comm_index = session->comm_count++;
    return outcome;
}

outcome_t step_ready(session_t *session, const char *argument)
{
    bool ready;
    outcome_t outcome = outcome_of(
        blink_comm_init_wait(session->comms[session->comm_index],
                             *argument ? (unsigned)strtoul(argument, NULL, 10) : UINT_MAX, &ready));
    outcome.wrong = outcome.result != BLINK_OK && ready;
    if (outcome.result == BLINK_OK)
        snprintf(outcome.text, sizeof(outcome.text), "%s", ready ? "ready" : "still joining");
    return outcome;
}

typedef struct waiter {
    blink_comm_t *comm;
    outcome_t outcome;
} waiter_t;

static void *await_ready(void *argument)
{
    waiter_t *waiter = argument;
    bool ready;
    waiter->outcome = outcome_of(blink_comm_init_wait(waiter->comm, UINT_MAX, &ready));
    return NULL;
}

outcome_t step_abort_awaited(session_t *session, const char *argument)
{
    waiter_t waiter = {.comm = session->comms[session->comm_index]};
    pthread_t thread;
    (void)argument;
    if (pthread_create(&thread, NULL, await_ready, &waiter) != 0)
        return outcome_bad("no thread");
    outcome_t aborted = outcome_of(blink_comm_abort(waiter.comm));
    pthread_join(thread, NULL);
    return aborted.result == BLINK_OK ? waiter.outcome : aborted;
}
