/*
 * The end of a run, to wait for.
 */
#ifndef EXEC_OUTCOME_H
#define EXEC_OUTCOME_H

#include "exec/host/exec_host.h"

#include <pthread.h>
#include <time.h>

typedef struct outcome {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t done;
    blink_result_t result;
    uint64_t ns; /* of the last run */
} outcome_t;

static void outcome_init(outcome_t *outcome)
{
    *outcome = (outcome_t){.result = BLINK_ERR_INTERNAL};
    pthread_mutex_init(&outcome->mutex, NULL);
    pthread_cond_init(&outcome->changed, NULL);
}

static void outcome_fini(outcome_t *outcome)
{
    pthread_cond_destroy(&outcome->changed);
    pthread_mutex_destroy(&outcome->mutex);
}

static void on_done(void *context, blink_result_t result)
{
    outcome_t *outcome = context;
    pthread_mutex_lock(&outcome->mutex);
    outcome->done++;
    outcome->result = result;
    pthread_cond_broadcast(&outcome->changed);
    pthread_mutex_unlock(&outcome->mutex);
}

static void on_end(const exec_end_t *end)
{
    outcome_t *outcome = end->context;
    outcome->ns = end->ns;
    on_done(outcome, end->result);
}

/* Start a run; one that has ended inside is told so as any other. */
static bool start_run(exec_instance_t *instance, const exec_run_t *run)
{
    exec_end_t end;
    bool ended = exec_start(instance, run, &end);
    if (ended)
        run->done(&end);
    return ended;
}

static blink_result_t wait_done(outcome_t *outcome, uint32_t times)
{
    pthread_mutex_lock(&outcome->mutex);
    while (outcome->done < times)
        pthread_cond_wait(&outcome->changed, &outcome->mutex);
    blink_result_t result = outcome->result;
    pthread_mutex_unlock(&outcome->mutex);
    return result;
}

#endif
