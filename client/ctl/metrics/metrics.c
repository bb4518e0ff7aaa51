/* blinkctl metrics: what the daemon counts, for Prometheus and its like. */
#include "ctl/ctl.h"

#include "base/command_line.h"
#include "base/value.h"
#include "ctl/host.h"
#include "ctl/metrics/families.h"
#include "ctl/metrics/http.h"
#include "tools/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_DEFAULT 64u
#define MOST_MAX     10000u

typedef struct metrics_options {
    ctl_options_t *common;
    uint64_t most;
    bool is_openmetrics, http;
} metrics_options_t;

enum { KEY_OPENMETRICS = 2000, KEY_MOST, KEY_HTTP };

static error_t parse_metrics(int key, char *argument, struct argp_state *state)
{
    metrics_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case KEY_OPENMETRICS:
        options->is_openmetrics = true;
        return 0;
    case KEY_HTTP:
        options->http = true;
        return 0;
    case KEY_MOST:
        if (!value_parse_number(argument, MOST_MAX, &options->most))
            argp_error(state, "--most %s: a number up to %u", argument, MOST_MAX);
        return 0;
    case ARGP_KEY_END:
        if (options->common->json)
            argp_error(state,
                       "metrics have no JSON; `blinkctl status --json` and its like have what they show");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- asking ---- */

enum { STATUS, DEVICES, LINKS, COMMS, CLIENTS, TENANTS, HOSTS, QUESTIONS };

static const Blinkwire__QueryKind kinds[QUESTIONS] = {
    [STATUS] = BLINKWIRE__QUERY_KIND__STATUS,   [DEVICES] = BLINKWIRE__QUERY_KIND__DEVICES,
    [LINKS] = BLINKWIRE__QUERY_KIND__LINKS,     [COMMS] = BLINKWIRE__QUERY_KIND__COMMS,
    [CLIENTS] = BLINKWIRE__QUERY_KIND__CLIENTS, [TENANTS] = BLINKWIRE__QUERY_KIND__TENANTS,
    [HOSTS] = BLINKWIRE__QUERY_KIND__HOSTS,
};

static void free_replies(Blinkwire__Reply *replies[QUESTIONS])
{
    for (size_t i = 0; i < QUESTIONS && replies[i]; i++)
        blinkwire__reply__free_unpacked(replies[i], NULL);
}

/* Ask for everything on one connection. The replies are the caller's, also those before one that failed. */
static blink_result_t ask_all(const ctl_options_t *options, Blinkwire__Reply *replies[QUESTIONS])
{
    query_t query;
    BLINK_TRY(query_open(query_socket_path(options->socket_path), "blinkctl", &query));
    blink_result_t result = BLINK_OK;
    for (size_t i = 0; i < QUESTIONS && result == BLINK_OK; i++) {
        const Blinkwire__Query question = ctl_question(options, kinds[i]);
        result = host_result(options, query_ask_for(&query, &question, &replies[i]));
    }
    query_close(&query);
    if (result == BLINK_OK && !replies[STATUS]->query->status)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon answered without a status");
    return result;
}

static blink_result_t write_metrics(const metrics_options_t *options, FILE *out, bool is_openmetrics)
{
    Blinkwire__Reply *replies[QUESTIONS] = {NULL};
    exposition_t exposition = {.out = out, .is_openmetrics = is_openmetrics};
    blink_result_t result = ask_all(options->common, replies);
    if (result == BLINK_OK) {
        const answers_t answers = {.status = replies[STATUS]->query->status,
                                   .devices = replies[DEVICES]->query,
                                   .links = replies[LINKS]->query,
                                   .comms = replies[COMMS]->query,
                                   .clients = replies[CLIENTS]->query,
                                   .tenants = replies[TENANTS]->query,
                                   .hosts = replies[HOSTS]->query};
        result = families_write(&exposition, &answers, options->most);
    }
    free_replies(replies);
    return result;
}

static blink_result_t render(void *context, bool is_openmetrics, char **text, size_t *bytes)
{
    FILE *out = open_memstream(text, bytes);
    if (!out)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for metrics");
    blink_result_t result = write_metrics(context, out, is_openmetrics);
    if (fclose(out) != 0 && result == BLINK_OK)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for metrics");
    if (result != BLINK_OK)
        free(*text);
    return result;
}

blink_result_t ctl_metrics(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"openmetrics", KEY_OPENMETRICS, NULL, 0,
         "Print OpenMetrics, instead of the text format that textfile collectors read", 0},
        {"most", KEY_MOST, "COUNT", 0,
         "Show so many communicators, tenants and other hosts at most, of each (default: 64)", 0},
        {"http", KEY_HTTP, NULL, 0,
         "Answer one HTTP request on the socket that is standard input, as blinkd-metrics.socket hands it in",
         0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = own,
                                     .parser = parse_metrics,
                                     .doc = "Print what the daemon counts as metrics, for Prometheus and its "
                                            "like. docs/observe.md lists them.",
                                     .children = children};
    metrics_options_t options = {.common = common, .most = MOST_DEFAULT};
    command_line_parse(&argp, argc, argv, 0, &options);
    if (host_is_all(common))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "metrics are of one host: name it, or ask on each");
    return options.http ? http_answer(STDIN_FILENO, render, &options)
                        : write_metrics(&options, stdout, options.is_openmetrics);
}
