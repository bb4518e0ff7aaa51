/*
 * The data of blink-rank: values that depend on rank and index, what a collective must make of them, and the
 * comparison. Values repeat with a prime period, so that a chunk in the wrong place shows, and checking costs
 * one memcmp.
 */
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD 1009u

/* Exact in every type: sums of 64 ranks stay below 2^24, products are powers of two; int8 wraps in both. */
static int64_t whole_value(const job_t *job, int rank, size_t index)
{
    size_t i = index % PERIOD;
    if (job->collective == BLINK_ALLREDUCE && job->redop == BLINK_PROD)
        return (int64_t)(1 + (i + (size_t)rank) % 2);
    return (int64_t)((i * 31 + (size_t)rank * 17) % 101);
}

static double rough_value(int rank, size_t index)
{
    return sin((double)(index % PERIOD) + 1.0 + 1000.0 * rank) + 1.5;
}

static double combine_real(blink_redop_t redop, double a, double b)
{
    return redop == BLINK_SUM    ? a + b
           : redop == BLINK_PROD ? a * b
           : redop == BLINK_MAX  ? fmax(a, b)
                                 : fmin(a, b);
}

static int64_t combine_whole(blink_redop_t redop, int64_t a, int64_t b)
{
    return redop == BLINK_SUM    ? a + b
           : redop == BLINK_PROD ? a * b
           : redop == BLINK_MAX  ? (a > b ? a : b)
                                 : (a < b ? a : b);
}

static int64_t expected_whole(const job_t *job, int rank_count, size_t index)
{
    if (job->collective == BLINK_BROADCAST)
        return whole_value(job, job->root, index);
    int64_t value = whole_value(job, 0, index);
    for (int rank = 1; rank < rank_count; rank++)
        value = combine_whole(job->redop, value, whole_value(job, rank, index));
    return value;
}

static double expected_rough(const job_t *job, int rank_count, size_t index)
{
    if (job->collective == BLINK_BROADCAST)
        return rough_value(job->root, index);
    double value = rough_value(0, index);
    for (int rank = 1; rank < rank_count; rank++)
        value = combine_real(job->redop, value, rough_value(rank, index));
    return value;
}

/* Integers wrap as the types do: little-endian, the low bytes. */
static void store_whole(blink_datatype_t datatype, int64_t value, char *at)
{
    float single = (float)value;
    double real = (double)value;
    const void *from = datatype == BLINK_FLOAT32   ? (const void *)&single
                       : datatype == BLINK_FLOAT64 ? (const void *)&real
                                                   : (const void *)&value;
    memcpy(at, from, blink_datatype_bytes(datatype));
}

static void store_rough(blink_datatype_t datatype, double value, char *at)
{
    float single = (float)value;
    memcpy(at, datatype == BLINK_FLOAT32 ? (const void *)&single : (const void *)&value,
           blink_datatype_bytes(datatype));
}

static double load_rough(blink_datatype_t datatype, const char *at)
{
    float single;
    double real;
    memcpy(&single, at, sizeof(single));
    if (datatype == BLINK_FLOAT32)
        return single;
    memcpy(&real, at, sizeof(real));
    return real;
}

size_t job_bytes(const job_t *job)
{
    return job->count * blink_datatype_bytes(job->datatype);
}

/* Fill the rest of the buffer with what its first period holds. */
static void repeat_period(const job_t *job, char *buffer)
{
    size_t total = job_bytes(job), period = PERIOD * blink_datatype_bytes(job->datatype);
    for (size_t at = period; at < total; at += period)
        memcpy(buffer + at, buffer, total - at < period ? total - at : period);
}

void pattern_fill(const job_t *job, int rank, void *buffer)
{
    char *bytes = buffer;
    size_t element = blink_datatype_bytes(job->datatype);
    for (size_t i = 0; i < job->count && i < PERIOD; i++) {
        if (job->rough)
            store_rough(job->datatype, rough_value(rank, i), bytes + i * element);
        else
            store_whole(job->datatype, whole_value(job, rank, i), bytes + i * element);
    }
    repeat_period(job, bytes);
}

static size_t wrong_rough(const job_t *job, int rank_count, const char *received)
{
    size_t wrong = 0, element = blink_datatype_bytes(job->datatype);
    double expected[PERIOD], tolerance = job->datatype == BLINK_FLOAT32 ? 1e-5 : 1e-13;
    for (size_t i = 0; i < PERIOD; i++)
        expected[i] = expected_rough(job, rank_count, i);
    for (size_t i = 0; i < job->count; i++) {
        double want = expected[i % PERIOD], got = load_rough(job->datatype, received + i * element);
        wrong += !(fabs(got - want) <= tolerance * fabs(want));
    }
    return wrong;
}

static size_t wrong_whole(const job_t *job, int rank_count, const char *received)
{
    char expected[PERIOD * 8];
    size_t element = blink_datatype_bytes(job->datatype), wrong = 0;
    for (size_t i = 0; i < PERIOD; i++)
        store_whole(job->datatype, expected_whole(job, rank_count, i), expected + i * element);
    for (size_t start = 0; start < job->count; start += PERIOD) {
        size_t length = job->count - start < PERIOD ? job->count - start : PERIOD;
        if (memcmp(received + start * element, expected, length * element) == 0)
            continue;
        for (size_t i = 0; i < length; i++)
            wrong += memcmp(received + (start + i) * element, expected + i * element, element) != 0;
    }
    return wrong;
}

size_t pattern_wrong(const job_t *job, int rank_count, const void *received)
{
    return job->rough ? wrong_rough(job, rank_count, received) : wrong_whole(job, rank_count, received);
}

uint64_t pattern_digest(const void *bytes, size_t byte_count)
{
    uint64_t digest = 14695981039346656037u;
    for (size_t i = 0; i < byte_count; i++)
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return digest;
}

bool job_parse(const char *text, job_t *job)
{
    char collective[16], datatype[16], last[16], flags[32] = "";
    if (sscanf(text, "%15[^:]:%zu:%15[^:]:%15[^:]:%31s", collective, &job->count, datatype, last, flags) <
            4 ||
        !blink_parse_collective(collective, &job->collective) ||
        !blink_parse_datatype(datatype, &job->datatype))
        return false;
    job->in_place = strstr(flags, "inplace") != NULL;
    job->rough = strstr(flags, "rough") != NULL;
    job->root = 0;
    job->redop = BLINK_SUM;
    if (job->collective == BLINK_ALLREDUCE)
        return blink_parse_redop(last, &job->redop);
    job->root = (int)strtol(last, NULL, 10);
    return true;
}
