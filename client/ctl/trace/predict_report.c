#include "ctl/trace/predict_report.h"

#include "ctl/ctl.h"
#include "tools/human.h"
#include "tools/table.h"

#include <stdio.h>

#define US_PER_S 1e6

/* ---- text ---- */

static void number_cell(table_t *table, double value)
{
    char text[HUMAN_BYTES];
    table_cell(table, "%s", human_number(value, text));
}

static void ratio_cell(table_t *table, double predicted, double recorded)
{
    if (recorded > 0)
        table_cell(table, "%.3f", predicted / recorded);
    else
        table_cell(table, "-");
}

static void add_kind(table_t *table, const trace_t *trace, const predict_kind_t *kind)
{
    char text[HUMAN_BYTES];
    double count = (double)kind->op_count;
    table_cell(table, "%u", trace->comms.items[kind->comm].number);
    table_cell(table, "%s", trace_collective_name(kind->collective));
    if (collective_is_pair(kind->collective))
        table_cell(table, "%u to %u", kind->root, kind->peer);
    else if (collective_has_root(kind->collective))
        table_cell(table, "%u", kind->root);
    else
        table_cell(table, "-");
    table_cell(table, "%s", human_bytes(kind->bytes, text));
    table_cell(table, "%lu", (unsigned long)kind->op_count);
    number_cell(table, kind->recorded_us / count);
    number_cell(table, kind->predicted_us / count);
    ratio_cell(table, kind->predicted_us, kind->recorded_us);
}

blink_result_t predict_print_table(const trace_t *trace, const prediction_t *prediction, const char *topology)
{
    static const char *const headers[] = {"comm", "collective",  "root",         "payload",
                                          "ops",  "recorded us", "predicted us", "ratio"};
    table_t *table = table_create("rllrrnnn", headers);
    for (size_t i = 0; i < prediction->kinds.count; i++)
        add_kind(table, trace, &prediction->kinds.items[i]);
    printf("Mean of an op since its last rank came, as recorded and on %s:\n\n", topology);
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    printf("\nFrom the first submission to the last end: recorded %.6g s, predicted %.6g s, ratio %.3f\n",
           prediction->recorded_us / US_PER_S, prediction->predicted_us / US_PER_S,
           prediction->recorded_us > 0 ? prediction->predicted_us / prediction->recorded_us : 1.0);
    return result;
}

/* ---- JSON ---- */

static json_t *kind_json(const trace_t *trace, const predict_kind_t *kind)
{
    bool has_root = collective_has_root(kind->collective), is_pair = collective_is_pair(kind->collective);
    return json_pack(
        "{s:I, s:s, s:o, s:o, s:I, s:I, s:f, s:f}", "comm", (json_int_t)trace->comms.items[kind->comm].number,
        "collective", trace_collective_name(kind->collective), "root",
        has_root ? json_integer(kind->root) : json_null(), "peer",
        is_pair ? json_integer(kind->peer) : json_null(), "bytes", (json_int_t)kind->bytes, "ops",
        (json_int_t)kind->op_count, "recorded_us", kind->recorded_us, "predicted_us", kind->predicted_us);
}

blink_result_t predict_print_json(const trace_t *trace, const prediction_t *prediction, const char *topology)
{
    json_t *kinds = json_array();
    for (size_t i = 0; i < prediction->kinds.count; i++)
        json_array_append_new(kinds, kind_json(trace, &prediction->kinds.items[i]));
    return ctl_print_json(
        json_pack("{s:s, s:o, s:f, s:f, s:I, s:I, s:b, s:o}", "schema", "blink-prediction/1", "topology",
                  ctl_json_text(topology), "recorded_us", prediction->recorded_us, "predicted_us",
                  prediction->predicted_us, "failed", (json_int_t)trace->failed_count, "missed",
                  (json_int_t)trace->missed_count, "cut", (int)trace->is_cut, "kinds", kinds),
        JSON_INDENT(2));
}
