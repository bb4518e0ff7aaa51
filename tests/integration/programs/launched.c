/* The step of blink-rank that joins as the launcher says. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

static outcome_t tell(const session_t *session, int index, int local_rank)
{
    outcome_t outcome = {.wrong = session->comm_rank[index] != session->rank};
    int device = -1;
    blink_comm_device(session->comms[index], &device);
    snprintf(outcome.text, sizeof(outcome.text), "%d of %d, local %d, device %d", session->comm_rank[index],
             session->comm_size[index], local_rank, device);
    return outcome;
}

outcome_t step_launched(session_t *session, const char *argument)
{
    int index = session->comm_count, local_rank = -1;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    config.init_timeout_ms = (unsigned)strtoul(argument, NULL, 10);
    if (index == COMMS_MAX)
        return outcome_bad("too many communicators");
    outcome_t outcome = outcome_of(blink_launched(&session->rank, NULL, &local_rank));
    if (outcome.result == BLINK_OK)
        outcome = outcome_of(blink_comm_init_launched(session->context, &config, &session->comms[index]));
    if (outcome.result != BLINK_OK)
        return outcome;
    blink_comm_rank(session->comms[index], &session->comm_rank[index]);
    blink_comm_size(session->comms[index], &session->comm_size[index]);
    session->comm_index = session->comm_count++;
    return tell(session, index, local_rank);
}
