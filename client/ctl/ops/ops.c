/* blinkctl ops: the last ops of a communicator: who came when, what they waited for, how they ended. */
#include "ctl/ops/ops.h"

#include "base/command_line.h"
#include "ctl/host.h"
#include "names.h"
#include "tools/arguments.h"
#include "tools/human.h"
#include "tools/table.h"

#include <stdlib.h>
#include <string.h>

#define US_PER_S  1e6
#define US_PER_MS 1e3

typedef struct ops_options {
    ctl_options_t *common;
    uint32_t comm; /* 0: not given */
    bool chrome;
    uint64_t last; /* so many are shown; 0: all */
} ops_options_t;

enum { KEY_FORMAT = 2000, KEY_LAST, KEY_COMM };

static void take_comm(struct argp_state *state, ops_options_t *options, const char *option, const char *text)
{
    if (options->comm > 0)
        argp_error(state, "%s: one communicator at a time", text);
    options->comm = argument_comm(state, option, text);
}

static error_t parse_ops(int key, char *argument, struct argp_state *state)
{
    ops_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case KEY_FORMAT:
        if (strcmp(argument, "text") != 0 && strcmp(argument, "chrome") != 0)
            argp_error(state, "--format %s: text or chrome; --json prints JSON", argument);
        options->chrome = strcmp(argument, "chrome") == 0;
        return 0;
    case KEY_LAST:
        options->last = argument_number(state, "--last", argument, 1, UINT32_MAX);
        return 0;
    case ARGP_KEY_ARG:
        take_comm(state, options, "ops", argument);
        return 0;
    case KEY_COMM:
        take_comm(state, options, "--comm", argument);
        return 0;
    case ARGP_KEY_END:
        if (options->comm == 0)
            argp_error(state, "of which communicator? `blinkctl comms` lists them");
        if (options->chrome && options->common->json)
            argp_error(state, "--format chrome is JSON of its own: leave out --json");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

size_t ops_last(const Blinkwire__Op *op)
{
    size_t last = op->n_ranks;
    for (size_t i = 0; i < op->n_ranks && i < op->n_came_us; i++) {
        if (last == op->n_ranks || op->came_us[i] > op->came_us[last])
            last = i;
    }
    return last;
}

/* ---- text ---- */

/* "rank 2, 1.500 ms", after the first one; "rank 2 is missing". */
static void last_cell(table_t *table, const Blinkwire__Op *op)
{
    size_t last = ops_last(op);
    if (last == op->n_ranks)
        table_cell(table, "-");
    else if (op->came_us[last] == OPS_NOT_COME)
        table_cell(table, "rank %u is missing", op->ranks[last]);
    else
        table_cell(table, "rank %u, %.3f ms", op->ranks[last], op->came_us[last] / US_PER_MS);
}

static void ms_cell(table_t *table, uint64_t us)
{
    if (us > 0)
        table_cell(table, "%.3f", (double)us / US_PER_MS);
    else
        table_cell(table, "-");
}

static const char *state_of(const Blinkwire__Op *op)
{
    if (!ops_has_ended(op))
        return op->doing;
    return op->result == BLINK_OK ? "ok" : blink_name_result(op->result);
}

static void op_row(const ops_t *ops, const Blinkwire__Op *op, table_t *table)
{
    char text[HUMAN_BYTES];
    table_cell(table, "%lu", (unsigned long)op->op);
    table_cell(table, "%s", op->collective);
    table_cell(table, "%s", human_bytes(op->bytes, text));
    table_cell(table, "%.3f", (double)(ops->now_us - op->began_us) / US_PER_S);
    table_cell(table, "%s", state_of(op));
    last_cell(table, op);
    ms_cell(table, op->plan_us);
    ms_cell(table, op->client_us);
    ms_cell(table, op->scratch_us);
    ms_cell(table, op->run_us);
    ms_cell(table, ops_end_us(ops, op) - op->began_us);
}

static blink_result_t print_text(const ops_t *ops)
{
    static const char *const headers[] = {"op",      "collective",   "payload", "s ago",
                                          "state",   "last to come", "ms plan", "copies",
                                          "scratch", "running",      "in all"};
    table_t *table = table_create("rlrrllrrrrr", headers);
    for (size_t i = 0; i < ops->count; i++)
        op_row(ops, ops->ops[i], table);
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

/* ---- JSON ---- */

static json_t *arrivals_json(const Blinkwire__Op *op)
{
    json_t *arrivals = json_array();
    for (size_t i = 0; i < op->n_ranks && i < op->n_came_us; i++) {
        bool came = op->came_us[i] != OPS_NOT_COME;
        json_array_append_new(arrivals, json_pack("{s:I, s:o}", "rank", (json_int_t)op->ranks[i], "came_us",
                                                  came ? json_integer(op->came_us[i]) : json_null()));
    }
    return arrivals;
}

static json_t *op_json(const Blinkwire__Op *op)
{
    return json_pack("{s:I, s:o, s:I, s:o, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:o}", "op", (json_int_t)op->op,
                     "collective", ctl_json_text(op->collective), "bytes", (json_int_t)op->bytes, "doing",
                     ctl_json_text(op->doing), "result",
                     ops_has_ended(op) ? json_string(blink_name_result(op->result)) : json_null(), "began_us",
                     (json_int_t)op->began_us, "ended_us",
                     ops_has_ended(op) ? json_integer((json_int_t)op->ended_us) : json_null(), "run_us",
                     (json_int_t)op->run_us, "plan_us", (json_int_t)op->plan_us, "client_us",
                     (json_int_t)op->client_us, "scratch_us", (json_int_t)op->scratch_us, "ranks",
                     arrivals_json(op));
}

static blink_result_t print_json(const ops_t *ops)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ops->count; i++)
        json_array_append_new(list, op_json(ops->ops[i]));
    return ctl_print_json(json_pack("{s:s, s:I, s:I, s:o}", "schema", "blink-ops/1", "comm",
                                    (json_int_t)ops->comm, "now_us", (json_int_t)ops->now_us, "ops", list),
                          JSON_INDENT(2));
}

/* ---- all ---- */

static int compare_ops(const void *left, const void *right)
{
    const Blinkwire__Op *one = *(Blinkwire__Op *const *)left, *other = *(Blinkwire__Op *const *)right;
    int order = (int)!ops_has_ended(one) - (int)!ops_has_ended(other);
    return order ? order : (one->ended_us > other->ended_us) - (one->ended_us < other->ended_us);
}

static blink_result_t show_ops(const ctl_options_t *common, void *context)
{
    const ops_options_t *options = context;
    Blinkwire__Query question = ctl_question(common, BLINKWIRE__QUERY_KIND__OPS);
    Blinkwire__Reply *reply;
    question.comm = options->comm;
    BLINK_TRY(ctl_ask_for(common, &question, &reply));
    Blinkwire__QueryReply *answer = reply->query;
    if (answer->n_ops > 0)
        qsort(answer->ops, answer->n_ops, sizeof(answer->ops[0]), compare_ops);
    size_t skipped = options->last > 0 && options->last < answer->n_ops ? answer->n_ops - options->last : 0;
    const ops_t ops = {.comm = options->comm,
                       .now_us = answer->now_us,
                       .count = answer->n_ops - skipped,
                       .ops = answer->ops + skipped};
    blink_result_t result = options->chrome ? ops_print_chrome(&ops)
                            : common->json  ? print_json(&ops)
                                            : print_text(&ops);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

blink_result_t ctl_ops(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"format", KEY_FORMAT, "FORMAT", 0,
         "text (default), or chrome: the Trace Event Format, which Perfetto and Chrome show", 0},
        {"comm", KEY_COMM, "N", 0, "The same as COMM", 0},
        {"last", KEY_LAST, "COUNT", 0, "Show the last so many (default: all that the daemon remembers)", 0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = own,
        .parser = parse_ops,
        .args_doc = "COMM",
        .doc =
            "Show the last 1024 ops of communicator COMM, and those under way, or what is kept of one that "
            "was "
            "lost: which rank of this host came "
            "last and how late, how long they waited for their plan, for copies of staged memory or "
            "streams, and for scratch, how long they ran, and how long all of it took since the first rank "
            "came.",
        .children = children};
    ops_options_t options = {.common = common};
    command_line_parse(&argp, argc, argv, 0, &options);
    if (host_is_all(common))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "each host has numbers of its own for communicators: name one host");
    return show_ops(common, &options);
}
