/*
 * The steps of blink-rank for those that tell it over standard input what to do: a round is the life of one
 * communicator, and a process does many.
 */
#include "steps.h"

#include "unique_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BYTES 128u

/* The same numbers for all ranks of a round. */
static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* One collective, or several that are under way at once. */
static outcome_t random_op(session_t *session, int rank_count, uint64_t *state)
{
    static const char *const counts[] = {"1", "7", "1000", "4096", "65536", "300000"};
    static const char *const types[] = {"int8", "int32", "uint64", "float32", "float64"};
    static const char *const redops[] = {"sum", "prod", "max", "min"};
    char step[STEP_BYTES];
    const char *count = counts[next_random(state) % 6], *type = types[next_random(state) % 5];
    uint32_t kind = next_random(state) % 4, choice = next_random(state);
    if (kind == 0)
        snprintf(step, sizeof(step), "broadcast:%s:%s:%u", count, type, choice % (uint32_t)rank_count);
    else
        snprintf(step, sizeof(step), "allreduce:%s:%s:%s%s", count, type, redops[choice % 4],
                 choice & 16 ? ":inplace" : "");
    if (kind < 3)
        return session_do(session, step);
    char submit[STEP_BYTES + 8];
    outcome_t outcome = {0};
    snprintf(submit, sizeof(submit), "submit:%s", step);
    for (int i = 0; i < 4 && outcome.result == BLINK_OK; i++)
        outcome = session_do(session, submit);
    outcome_t waited = session_do(session, "wait");
    return outcome.result != BLINK_OK ? outcome : waited;
}

static void free_failed(session_t *session)
{
    while (session->failed_count > 0)
        blink_mem_free(session->context, session->failed[--session->failed_count].memory);
}

static outcome_t random_ops(session_t *session, int rank_count, long count, uint64_t state)
{
    outcome_t total = {0};
    for (long i = 0; i < count && total.result == BLINK_OK; i++) {
        outcome_t outcome = random_op(session, rank_count, &state);
        outcome.wrong += total.wrong;
        total = outcome;
    }
    return total;
}

outcome_t step_round(session_t *session, const char *argument)
{
    char hex[UNIQUE_ID_TEXT_BYTES], last[16];
    int rank_count, rank, device;
    long ops;
    unsigned long seed;
    if (sscanf(argument, "%128[0-9a-f]:%d:%d:%d:%ld:%lu:%15s", hex, &rank_count, &rank, &device, &ops, &seed,
               last) != 7)
        return outcome_bad("round needs HEX:RANKS:RANK:DEVICE:OPS:SEED:LAST");
    if (!session_join(session, hex, rank_count, rank, device, BLINK_ALGORITHM_AUTO, 0))
        return (outcome_t){0}; /* the step "init" has told */
    outcome_t outcome = random_ops(session, rank_count, ops, seed);
    if (strcmp(last, "exit") == 0)
        exit(0);
    if (strcmp(last, "abort") == 0)
        blink_comm_abort(session->comms[session->comm_index]);
    outcome_t destroyed = outcome_of(blink_comm_destroy(session->comms[session->comm_index]));
    session->comm_count--;
    free_failed(session);
    return outcome.result != BLINK_OK || outcome.wrong > 0 ? outcome : destroyed;
}

/* A failure that the daemon has told of, or told this process of. */
static bool is_loss(blink_result_t result)
{
    return result == BLINK_ERR_PEER_LOST || result == BLINK_ERR_ABORTED;
}

outcome_t step_shrink(session_t *session, const char *argument)
{
    int index = session->comm_count, old = session->comm_index;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    config.init_timeout_ms = (unsigned)strtoul(argument, NULL, 10);
    if (index == COMMS_MAX)
        return outcome_bad("too many communicators");
    outcome_t outcome = outcome_of(blink_comm_shrink(
        session->comms[old], config.init_timeout_ms ? &config : NULL, &session->comms[index]));
    if (outcome.result != BLINK_OK)
        return outcome;
    blink_comm_rank(session->comms[index], &session->comm_rank[index]);
    blink_comm_size(session->comms[index], &session->comm_size[index]);
    session->comm_index = index;
    session->comm_count++;
    snprintf(outcome.text, sizeof(outcome.text), "%d of %d", session->comm_rank[index],
             session->comm_size[index]);
    return outcome;
}

outcome_t step_outlive(session_t *session, const char *argument)
{
    char *step;
    int size = (int)strtol(argument, &step, 10);
    outcome_t outcome = {0};
    if (*step != ':')
        return outcome_bad("outlive needs SIZE:JOB");
    while (outcome.wrong == 0 && (outcome.result == BLINK_OK || is_loss(outcome.result)) &&
           session->comm_size[session->comm_index] > size) {
        outcome = session_do(session, step + 1);
        if (is_loss(outcome.result)) {
            free_failed(session);
            outcome = step_shrink(session, "");
        }
    }
    if (outcome.result == BLINK_OK && outcome.wrong == 0)
        outcome = session_do(session, step + 1);
    return outcome;
}

outcome_t step_script(session_t *session, const char *argument)
{
    char line[256];
    (void)argument;
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        session_step(session, line);
    }
    return (outcome_t){0};
}
