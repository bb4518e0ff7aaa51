#include "ctl/metrics/exposition.h"

#include "ctl/ctl.h"

/* Digits of a number: counters are exact up to 2^53, as they are in Prometheus. */
#define VALUE_FORMAT "%.16g"

static const char *suffix(const metric_t *metric)
{
    return metric->is_counter ? "_total" : "";
}

void exposition_metric(exposition_t *exposition, const metric_t *metric)
{
    const char *end = exposition->is_openmetrics ? "" : suffix(metric);
    fprintf(exposition->out, "# HELP %s%s %s\n", metric->name, end, metric->help);
    fprintf(exposition->out, "# TYPE %s%s %s\n", metric->name, end, metric->is_counter ? "counter" : "gauge");
}

static void put_value(FILE *out, const char *value)
{
    for (const char *at = value; *at; at++) {
        if (*at == '\n')
            fputs("\\n", out);
        else if (*at == '\\' || *at == '"')
            fprintf(out, "\\%c", *at);
        else
            fputc(*at, out);
    }
}

static void put_label(FILE *out, char before, const label_t *label)
{
    json_t *text = ctl_json_text(label->value); /* which is UTF-8; NULL: no memory */
    fprintf(out, "%c%s=\"", before, label->name);
    put_value(out, text ? json_string_value(text) : "");
    fputc('"', out);
    json_decref(text);
}

void exposition_sample(exposition_t *exposition, const metric_t *metric, const label_t *labels,
                       size_t label_count, double value)
{
    char before = '{';
    fprintf(exposition->out, "%s%s", metric->name, suffix(metric));
    for (size_t i = 0; i < label_count; i++) {
        if (!*labels[i].value)
            continue;
        put_label(exposition->out, before, &labels[i]);
        before = ',';
    }
    fprintf(exposition->out, "%s " VALUE_FORMAT "\n", before == ',' ? "}" : "", value);
}

void exposition_end(exposition_t *exposition)
{
    if (exposition->is_openmetrics)
        fputs("# EOF\n", exposition->out);
}
