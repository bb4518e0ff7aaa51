/*
 * The payload of an allreduce over the fixture's ranks, what it shall become, and an abort from another
 * thread.
 */
#ifndef EXEC_PAYLOAD_H
#define EXEC_PAYLOAD_H

#include "exec_fixture.h"

/* The payload of one run: inputs filled by sample(), outputs cleared. */
typedef struct payload {
    size_t bytes;
    void *inputs[RANKS];
    void *outputs[RANKS];
    bool in_place;
    uint64_t scalars[RANKS];
    outcome_t outcome;
    exec_run_t run;
} payload_t;

/* Exact in every type, and so are its sums and products over four ranks. */
static int sample(uint32_t rank, size_t i)
{
    return (int)((i + rank) % 3) + 1;
}

static double scalar_of(uint32_t rank)
{
    return rank + 2;
}

static void store(blink_datatype_t datatype, void *array, size_t i, double value)
{
    switch (datatype) {
    case BLINK_INT8:
    case BLINK_UINT8:
        ((uint8_t *)array)[i] = (uint8_t)value;
        break;
    case BLINK_INT32:
    case BLINK_UINT32:
        ((uint32_t *)array)[i] = (uint32_t)value;
        break;
    case BLINK_INT64:
    case BLINK_UINT64:
        ((uint64_t *)array)[i] = (uint64_t)value;
        break;
    case BLINK_FLOAT32:
        ((float *)array)[i] = (float)value;
        break;
    case BLINK_FLOAT64:
        ((double *)array)[i] = value;
        break;
    default:
        fail_msg("no samples of datatype %d", (int)datatype);
    }
}

static double combine(blink_redop_t redop, double x, double y)
{
    switch (redop) {
    case BLINK_PROD:
        return x * y;
    case BLINK_MAX:
        return x > y ? x : y;
    case BLINK_MIN:
        return x < y ? x : y;
    case BLINK_SUM:
    case BLINK_AVG:
    case BLINK_PRE_MUL_SUM:
        break;
    }
    return x + y;
}

/* Element i of the result. */
static double reduced(blink_redop_t redop, size_t i)
{
    double value = 0.0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        double term = sample(rank, i) * (redop == BLINK_PRE_MUL_SUM ? scalar_of(rank) : 1.0);
        value = rank == 0 ? term : combine(redop, value, term);
    }
    return redop == BLINK_AVG ? value / RANKS : value;
}

static void payload_init(payload_t *payload, uint64_t count, blink_datatype_t datatype, blink_redop_t redop,
                         bool in_place)
{
    memset(payload, 0, sizeof(*payload));
    payload->bytes = count * blink_datatype_bytes(datatype);
    payload->in_place = in_place;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        payload->inputs[rank] = calloc(1, payload->bytes + 1);
        payload->outputs[rank] = in_place ? payload->inputs[rank] : calloc(1, payload->bytes + 1);
        for (size_t i = 0; i < count; i++)
            store(datatype, payload->inputs[rank], i, sample(rank, i));
        store(datatype, &payload->scalars[rank], 0, scalar_of(rank));
    }
    outcome_init(&payload->outcome);
    payload->run = (exec_run_t){.inputs = (const void *const *)payload->inputs,
                                .outputs = payload->outputs,
                                .count = count,
                                .datatype = datatype,
                                .redop = redop,
                                .scalars = redop == BLINK_PRE_MUL_SUM ? payload->scalars : NULL,
                                .done = on_end,
                                .context = &payload->outcome};
}

static void payload_fini(payload_t *payload)
{
    outcome_fini(&payload->outcome);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(payload->inputs[rank]);
        if (!payload->in_place)
            free(payload->outputs[rank]);
    }
}

static void assert_reduced(const payload_t *payload)
{
    void *expected = calloc(1, payload->bytes + 1);
    for (size_t i = 0; i < payload->run.count; i++)
        store(payload->run.datatype, expected, i, reduced(payload->run.redop, i));
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(payload->outputs[rank], expected, payload->bytes + 1);
    free(expected);
}

/* ---- aborts ---- */

static void sleep_us(long us)
{
    struct timespec span = {.tv_nsec = us * 1000};
    nanosleep(&span, NULL);
}

typedef struct aborter {
    exec_instance_t *instance;
    long after_us;
} aborter_t;

static void *abort_from_thread(void *argument)
{
    const aborter_t *aborter = argument;
    sleep_us(aborter->after_us);
    exec_abort(aborter->instance, BLINK_ERR_PEER_LOST);
    exec_abort(aborter->instance, BLINK_ERR_TIMEOUT);
    return NULL;
}

/* How a run of run_and_abort() may end. An abort that comes before the run has begun meets none: then the
 * second one may be the first that meets it. */
static bool is_end_of_aborted_run(blink_result_t result)
{
    return result == BLINK_OK || result == BLINK_ERR_PEER_LOST || result == BLINK_ERR_TIMEOUT;
}

/* Run, abort from another thread after a while, and return what `done` was told. */
static blink_result_t run_and_abort(exec_instance_t *instance, payload_t *payload, long after_us)
{
    aborter_t aborter = {instance, after_us};
    pthread_t thread;
    uint32_t before = payload->outcome.done;
    assert_int_equal(pthread_create(&thread, NULL, abort_from_thread, &aborter), 0);
    start_run(instance, &payload->run);
    blink_result_t result = wait_done(&payload->outcome, before + 1);
    pthread_join(thread, NULL);
    assert_int_equal(payload->outcome.done, before + 1);
    return result;
}

#endif
