/*
 * Metrics as text, in OpenMetrics 1.0 or in the older text format of Prometheus, which is what textfile
 * collectors read. The two differ in how the lines that describe a counter call it, and in the last line.
 */
#ifndef CTL_EXPOSITION_H
#define CTL_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct metric {
    const char *name; /* of a counter without "_total" */
    const char *help;
    bool is_counter; /* else a gauge */
} metric_t;

/* A label whose value is empty is left out. */
typedef struct label {
    const char *name, *value;
} label_t;

typedef struct exposition {
    FILE *out;
    bool is_openmetrics;
} exposition_t;

/** Describe a metric; its samples follow. */
void exposition_metric(exposition_t *exposition, const metric_t *metric);

/** One sample of the metric that was described last. Values of labels may be any bytes: what is no UTF-8
 * becomes '?'. */
void exposition_sample(exposition_t *exposition, const metric_t *metric, const label_t *labels,
                       size_t label_count, double value);

/** The end of all metrics. */
void exposition_end(exposition_t *exposition);

#endif
