/*
 * What the commands of blinkctl share. A command parses its own words, prints to stdout and returns how it
 * went; main() prints the sentence of a failure and turns it into the exit status.
 */
#ifndef BLINK_CTL_H
#define BLINK_CTL_H

#include "error.h"

#include "blink.pb-c.h"

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>

typedef struct ctl_options {
    const char *socket_path; /* NULL: the environment's or the default */
    bool json;
    const char *host; /* whose daemon is asked; NULL: this host's */
    bool asks;        /* the command asks a daemon: --host is allowed */
} ctl_options_t;

/* argv[0] is "blinkctl COMMAND", for messages. */
typedef blink_result_t ctl_run_t(int argc, char **argv, ctl_options_t *options);

ctl_run_t ctl_status, ctl_version;                                     /* show.c */
ctl_run_t ctl_devices, ctl_comms, ctl_clients, ctl_tenants, ctl_nodes; /* list/lists.c */
ctl_run_t ctl_events;                                                  /* list/events.c */
ctl_run_t ctl_links;                                                   /* list/links.c */
ctl_run_t ctl_key;                                                     /* key.c */
ctl_run_t ctl_topology;                                                /* topology.c */
ctl_run_t ctl_plan;                                                    /* plan.c */
ctl_run_t ctl_explain;                                                 /* explain.c */
ctl_run_t ctl_simulate;                                                /* simulate.c */
ctl_run_t ctl_top;                                                     /* top/top.c */
ctl_run_t ctl_web;                                                     /* web/web.c */
ctl_run_t ctl_metrics;                                                 /* metrics/metrics.c */
ctl_run_t ctl_ras;                                                     /* ras/ras.c */
ctl_run_t ctl_ops;                                                     /* ops/ops.c */
ctl_run_t ctl_record;                                                  /* trace/record.c */

/** --socket, --json and --host, which every command takes: a child for its argp. Input: ctl_options_t. */
extern const struct argp ctl_common_argp;

/** Parse a command that has no arguments of its own. Exits on bad usage and after --help, as argp does. */
void ctl_parse_plain(int argc, char **argv, const char *doc, ctl_options_t *options);

/** What to ask, of the host that the options name. */
Blinkwire__Query ctl_question(const ctl_options_t *options, Blinkwire__QueryKind kind);

/** Ask the daemon one thing. The reply is the caller's. */
blink_result_t ctl_ask_for(const ctl_options_t *options, const Blinkwire__Query *question,
                           Blinkwire__Reply **reply);
blink_result_t ctl_ask(const ctl_options_t *options, Blinkwire__QueryKind kind, Blinkwire__Reply **reply);

/** A JSON string of text that another program wrote and that may not be UTF-8. */
json_t *ctl_json_text(const char *text);

/* The same, or null where there is none. */
json_t *ctl_json_text_or_null(const char *text);

/** Print a JSON value with json_dumpf() flags and a newline; takes the reference. NULL is out of memory. */
blink_result_t ctl_print_json(json_t *value, size_t flags);

#endif
