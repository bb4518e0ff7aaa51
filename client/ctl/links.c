/* blinkctl links: what every directed link is doing, once or over and over. */
#include "ctl.h"

#include "host.h"
#include "tools/human.h"
#include "tools/query.h"
#include "tools/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR_CHARACTERS    10
#define WATCH_S           1.0
#define WATCH_MIN_S       0.05
#define CLEAR_SCREEN      "\033[H\033[2J\033[3J"
#define NANOSECONDS_PER_S 1e9

typedef struct links_options {
    ctl_options_t *common;
    double watch_s; /* 0: show once */
} links_options_t;

static error_t parse_links(int key, char *argument, struct argp_state *state)
{
    links_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case 'w': {
        char *end = NULL;
        options->watch_s = argument ? strtod(argument, &end) : WATCH_S;
        if (argument &&
            (end == argument || *end || !(options->watch_s >= WATCH_MIN_S) || options->watch_s > 86400))
            argp_error(state, "--watch=%s: seconds from %g to 86400", argument, WATCH_MIN_S);
        return 0;
    }
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "1,3": the communicators that used a link. */
static const char *communicators(const Blinkwire__Link *link, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < link->n_uses && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", i ? "," : "", link->uses[i]->comm);
    return text[0] ? text : "-";
}

static void link_row(table_t *table, const Blinkwire__Link *link)
{
    char number[HUMAN_BYTES], comms[128];
    table_cell(table, "%s", link->from);
    table_cell(table, "%s", link->to);
    table_cell(table, "%s", link->kind);
    table_cell(table, "%s", human_number(link->capacity_gbps, number));
    table_cell(table, "%s", human_number(link->now_gbps, number));
    table_cell(table, "%.0f%%", 100 * link->utilization);
    table_cell(table, "%s", human_bar(link->utilization, BAR_CHARACTERS, number));
    table_cell(table, "%s", human_bytes(link->bytes, number));
    table_cell(table, "%s", communicators(link, comms, sizeof(comms)));
}

static blink_result_t print_table(const Blinkwire__QueryReply *query)
{
    static const char *const headers[] = {"from", "to", "kind",  "GB/s max", "GB/s now",
                                          "used", "",   "moved", "comms"};
    printf("%zu directed links, rates over the last %.2g s\n", query->n_links, query->window_s);
    table_t *table = table_create("lllrrrlrl", headers);
    for (size_t i = 0; i < query->n_links; i++)
        link_row(table, query->links[i]);
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

static json_t *link_json(const Blinkwire__Link *link)
{
    json_t *uses = json_array();
    for (size_t i = 0; i < link->n_uses; i++)
        json_array_append_new(uses, json_pack("{s:I, s:I}", "comm", (json_int_t)link->uses[i]->comm, "bytes",
                                              (json_int_t)link->uses[i]->bytes));
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:f, s:I, s:o}", "from", ctl_json_text(link->from), "to",
                     ctl_json_text(link->to), "kind", ctl_json_text(link->kind), "capacity_GBps",
                     link->capacity_gbps, "now_GBps", link->now_gbps, "utilization", link->utilization,
                     "bytes", (json_int_t)link->bytes, "uses", uses);
}

static blink_result_t print_json(const Blinkwire__QueryReply *query, bool one_line)
{
    json_t *links = json_array();
    for (size_t i = 0; i < query->n_links; i++)
        json_array_append_new(links, link_json(query->links[i]));
    return ctl_print_json(json_pack("{s:f, s:o}", "window_s", query->window_s, "links", links),
                          one_line ? JSON_COMPACT : JSON_INDENT(2));
}

typedef struct links_view {
    query_t query;
    bool watch;
} links_view_t;

static blink_result_t show_once(const ctl_options_t *options, void *context)
{
    links_view_t *view = context;
    const Blinkwire__Query question = ctl_question(options, BLINKWIRE__QUERY_KIND__LINKS);
    Blinkwire__Reply *reply;
    BLINK_TRY(host_result(options, query_ask_for(&view->query, &question, &reply)));
    if (view->watch && !options->json && isatty(STDOUT_FILENO))
        fputs(CLEAR_SCREEN, stdout);
    blink_result_t result = options->json ? print_json(reply->query, view->watch) : print_table(reply->query);
    blinkwire__reply__free_unpacked(reply, NULL);
    if (view->watch && !options->json && !isatty(STDOUT_FILENO))
        putchar('\n');
    return result;
}

static blink_result_t watch(links_view_t *view, const links_options_t *options)
{
    double whole_s = floor(options->watch_s);
    struct timespec pause = {(time_t)whole_s, (long)((options->watch_s - whole_s) * NANOSECONDS_PER_S)};
    for (;;) {
        BLINK_TRY(show_once(options->common, view));
        if (fflush(stdout) != 0)
            return BLINK_OK; /* main() reports it */
        nanosleep(&pause, NULL);
    }
}

blink_result_t ctl_links(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL,
         "Show again every SECONDS (default 1) until interrupted; with --json one line each time", 0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = own,
                                     .parser = parse_links,
                                     .doc = "Show what every directed link is doing: GB/s it can move (as "
                                            "emulated) and moves now, bytes since the daemon started, and "
                                            "the live communicators that used it.",
                                     .children = children};
    links_options_t options = {.common = common};
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    links_view_t view = {.watch = options.watch_s > 0};
    if (view.watch && host_is_all(common))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "--watch shows one host: name it");
    BLINK_TRY(query_open(query_socket_path(common->socket_path), "blinkctl", &view.query));
    blink_result_t result = view.watch ? watch(&view, &options) : host_each(common, show_once, &view);
    query_close(&view.query);
    return result;
}
