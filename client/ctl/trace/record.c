/* blinkctl record: follows communicators and writes the ops that end to a trace. */
#include "ctl/ctl.h"
#include "tools/trace.h"

#include "base/clock.h"
#include "base/command_line.h"
#include "names.h"
#include "tools/arguments.h"
#include "tools/human.h"
#include "tools/query.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Between two looks: in between a communicator may end as many ops as the daemon remembers. */
#define LOOK_NS 50000000

#define US_PER_S 1e6

#define SECONDS_LEAST 0.05

#define NOT_THERE UINT32_MAX /* a device, or a rank's time, of the protocol */

typedef struct record_options {
    ctl_options_t *common;
    const char *path;
    uint32_t comm;  /* 0: all */
    double seconds; /* 0: until a signal */
} record_options_t;

/* A communicator whose ops are written. */
typedef struct followed {
    uint32_t comm;
    bool is_there;
    uint64_t since; /* so many of its ops had ended when the daemon was last asked */
} followed_t;

typedef struct recorder {
    const record_options_t *options;
    query_t query;
    FILE *out;
    VEC(followed_t) comms;
    bool has_looked; /* once: what is new now begins now */
    bool failed;     /* there was no memory for a line */
    uint64_t comm_count, op_count, missed_count;
    uint64_t gone_count; /* communicators that have ended between two looks */
} recorder_t;

/* ---- lines ---- */

/* Takes the reference. */
static void put(recorder_t *recorder, json_t *line)
{
    if (!line || json_dumpf(line, recorder->out, JSON_COMPACT) != 0)
        recorder->failed = true;
    putc('\n', recorder->out);
    json_decref(line);
}

static json_t *numbers_json(const uint32_t *numbers, size_t count, uint32_t none)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, numbers[i] == none ? json_null() : json_integer(numbers[i]));
    return list;
}

static blink_result_t put_header(recorder_t *recorder)
{
    char host[256] = "";
    Blinkwire__Reply *reply;
    gethostname(host, sizeof(host) - 1);
    BLINK_TRY(query_ask(&recorder->query, BLINKWIRE__QUERY_KIND__STATUS, &reply));
    const Blinkwire__StatusReply *status = reply->query->status;
    put(recorder, json_pack("{s:s, s:o, s:o, s:f}", "schema", TRACE_SCHEMA, "host", ctl_json_text(host),
                            "topology", ctl_json_text(status ? status->topology : ""), "pace_scale",
                            status ? status->pace_scale : 0.0));
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

static void put_comm(recorder_t *recorder, const Blinkwire__Comm *comm)
{
    recorder->comm_count++;
    put(recorder, json_pack("{s:I, s:o, s:o, s:o}", "comm", (json_int_t)comm->comm, "name",
                            ctl_json_text_or_null(comm->name), "devices",
                            numbers_json(comm->devices, comm->n_devices, NOT_THERE), "clients",
                            numbers_json(comm->clients, comm->n_clients, 0)));
}

static json_t *rank_json(bool has, uint32_t rank)
{
    return has ? json_integer(rank) : json_null();
}

static void put_op(recorder_t *recorder, uint32_t comm, const Blinkwire__Op *op)
{
    bool is_pair = strcmp(op->collective, trace_collective_name(BLINK_SENDRECV)) == 0;
    blink_collective_t collective;
    bool has_root =
        is_pair || (blink_parse_collective(op->collective, &collective) && collective_has_root(collective));
    recorder->op_count++;
    put(recorder,
        json_pack("{s:I, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:s, s:I, s:I, s:o, s:o}", "comm",
                  (json_int_t)comm, "op", (json_int_t)op->op, "collective", ctl_json_text(op->collective),
                  "bytes", (json_int_t)op->bytes, "datatype", ctl_json_text(op->datatype), "redop",
                  ctl_json_text_or_null(op->redop), "root", rank_json(has_root, op->root), "peer",
                  rank_json(is_pair, op->peer), "result", blink_name_result(op->result), "began_us",
                  (json_int_t)op->began_us, "ended_us", (json_int_t)op->ended_us, "ranks",
                  numbers_json(op->ranks, op->n_ranks, NOT_THERE), "came_us",
                  numbers_json(op->came_us, op->n_came_us, NOT_THERE)));
}

/* ---- looks ---- */

/* The answer's ops go from the newest that has ended to the oldest. */
static void put_ops(recorder_t *recorder, followed_t *followed, const Blinkwire__QueryReply *answer)
{
    uint64_t written = recorder->op_count;
    for (size_t i = answer->n_ops; i > 0 && recorder->op_count < TRACE_OPS_MOST; i--)
        if (answer->ops[i - 1]->ended_us > 0)
            put_op(recorder, followed->comm, answer->ops[i - 1]);
    written = recorder->op_count - written;
    if (answer->ended_op_count > followed->since)
        recorder->missed_count += answer->ended_op_count - followed->since - written;
    followed->since = answer->ended_op_count;
}

/* A communicator may be gone since it was listed. */
static blink_result_t look_at_comm(recorder_t *recorder, followed_t *followed)
{
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    Blinkwire__Reply *reply;
    question.kind = BLINKWIRE__QUERY_KIND__OPS;
    question.comm = followed->comm;
    question.ops_since = followed->since;
    blink_result_t result = query_ask_for(&recorder->query, &question, &reply);
    if (result == BLINK_ERR_NOT_FOUND)
        return BLINK_OK;
    BLINK_TRY(result);
    put_ops(recorder, followed, reply->query);
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

static followed_t *find_followed(const recorder_t *recorder, uint32_t comm)
{
    for (size_t i = 0; i < recorder->comms.count; i++)
        if (recorder->comms.items[i].comm == comm)
            return &recorder->comms.items[i];
    return NULL;
}

static bool is_whole(const Blinkwire__Comm *comm)
{
    return strcmp(comm->state, "joining") != 0 && strcmp(comm->state, "meeting") != 0;
}

static blink_result_t follow(recorder_t *recorder, const Blinkwire__Comm *comm)
{
    followed_t *known = find_followed(recorder, comm->comm);
    followed_t fresh = {comm->comm, true, recorder->has_looked ? 0 : UINT64_MAX};
    if (known)
        known->is_there = true;
    if (known || !is_whole(comm) || (recorder->options->comm > 0 && recorder->options->comm != comm->comm))
        return BLINK_OK;
    if (!vec_push(&recorder->comms, fresh))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to follow communicator %u", comm->comm);
    put_comm(recorder, comm);
    return BLINK_OK;
}

static void forget_gone(recorder_t *recorder)
{
    size_t kept = 0;
    for (size_t i = 0; i < recorder->comms.count; i++)
        if (recorder->comms.items[i].is_there)
            recorder->comms.items[kept++] = recorder->comms.items[i];
    recorder->gone_count += recorder->comms.count - kept;
    recorder->comms.count = kept;
}

static blink_result_t look(recorder_t *recorder)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(query_ask(&recorder->query, BLINKWIRE__QUERY_KIND__COMMS, &reply));
    blink_result_t result = BLINK_OK;
    for (size_t i = 0; i < recorder->comms.count; i++)
        recorder->comms.items[i].is_there = false;
    for (size_t i = 0; result == BLINK_OK && i < reply->query->n_comms; i++)
        result = follow(recorder, reply->query->comms[i]);
    blinkwire__reply__free_unpacked(reply, NULL);
    forget_gone(recorder);
    for (size_t i = 0; result == BLINK_OK && i < recorder->comms.count; i++)
        result = look_at_comm(recorder, &recorder->comms.items[i]);
    recorder->has_looked = true;
    BLINK_TRY(result);
    if (recorder->failed)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a line of %s", recorder->options->path);
    return fflush(recorder->out) == 0 ? BLINK_OK : BLINK_FAIL_ERRNO("write %s", recorder->options->path);
}

/* ---- all ---- */

/* Before the file is written, which may be there already. */
static blink_result_t require_comm(recorder_t *recorder)
{
    uint32_t comm = recorder->options->comm;
    Blinkwire__Reply *reply;
    bool found = comm == 0;
    BLINK_TRY(query_ask(&recorder->query, BLINKWIRE__QUERY_KIND__COMMS, &reply));
    for (size_t i = 0; i < reply->query->n_comms; i++)
        found = found || (reply->query->comms[i]->comm == comm && is_whole(reply->query->comms[i]));
    blinkwire__reply__free_unpacked(reply, NULL);
    return found ? BLINK_OK
                 : BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                              "no communicator %u whose ranks have all joined; blinkctl comms lists them",
                              comm);
}

static bool is_done(const recorder_t *recorder, uint64_t begun_us)
{
    const record_options_t *options = recorder->options;
    return recorder->op_count == TRACE_OPS_MOST || (options->comm > 0 && recorder->comms.count == 0) ||
           (options->seconds > 0 && (double)(clock_us() - begun_us) >= options->seconds * US_PER_S);
}

static blink_result_t record(recorder_t *recorder)
{
    static const struct timespec pause = {0, LOOK_NS};
    uint64_t begun_us = clock_us();
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    BLINK_TRY(put_header(recorder));
    BLINK_TRY(look(recorder));
    while (!is_done(recorder, begun_us) && sigtimedwait(&ends, NULL, &pause) < 0)
        BLINK_TRY(look(recorder));
    return look(recorder);
}

static void put_end(recorder_t *recorder)
{
    put(recorder, json_pack("{s:I, s:I}", "ops", (json_int_t)recorder->op_count, "missed",
                            (json_int_t)recorder->missed_count));
}

static void say(const recorder_t *recorder)
{
    printf("%lu op%s of %lu communicator%s are in %s\n", (unsigned long)recorder->op_count,
           human_plural(recorder->op_count), (unsigned long)recorder->comm_count,
           human_plural(recorder->comm_count), recorder->options->path);
    if (recorder->missed_count > 0)
        printf("%lu more op%s ended unseen: more ended between two looks than the daemon remembers\n",
               (unsigned long)recorder->missed_count, human_plural(recorder->missed_count));
    if (recorder->gone_count > 0)
        printf("%lu communicator%s ended meanwhile: what was done there after the last look is not\n",
               (unsigned long)recorder->gone_count, human_plural(recorder->gone_count));
    if (recorder->op_count == TRACE_OPS_MOST)
        printf("a trace has no more: what followed is not recorded\n");
}

/* What was recorded before a failure stays, with its end. */
static blink_result_t record_to_file(recorder_t *recorder)
{
    const char *path = recorder->options->path;
    BLINK_TRY(require_comm(recorder));
    recorder->out = fopen(path, "we");
    if (!recorder->out)
        return BLINK_FAIL_ERRNO("write %s", path);
    blink_result_t result = record(recorder);
    put_end(recorder);
    vec_free(&recorder->comms);
    bool failed = ferror(recorder->out);
    if ((fclose(recorder->out) != 0 || failed) && result == BLINK_OK)
        result = BLINK_FAIL_ERRNO("write %s", path);
    say(recorder);
    return result;
}

enum { KEY_COMM = 2000, KEY_SECONDS };

static error_t parse_record(int key, char *argument, struct argp_state *state)
{
    record_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case 'o':
        options->path = argument;
        return 0;
    case KEY_COMM:
        options->comm = argument_comm(state, "--comm", argument);
        return 0;
    case KEY_SECONDS:
        options->seconds = argument_seconds(state, "--seconds", argument, SECONDS_LEAST);
        return 0;
    case ARGP_KEY_END:
        if (!options->path)
            argp_error(state, "to which file? name it: --output FILE");
        if (options->common->host)
            argp_error(state, "--host %s: ops are recorded on their host: run blinkctl record there",
                       options->common->host);
        if (options->common->json)
            argp_error(state, "the trace is JSON, and its file is named by --output: leave out --json");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

blink_result_t ctl_record(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"output", 'o', "FILE", 0, "Write the trace to this file", 0},
        {"comm", KEY_COMM, "COMM", 0,
         "Record this communicator alone, until it is destroyed (default: all that may be seen)", 0},
        {"seconds", KEY_SECONDS, "SECONDS", 0, "End after so long (default: with Ctrl-C)", 0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = own,
        .parser = parse_record,
        .doc =
            "Write the ops of running jobs that end from now on to a trace: what each is, how large, which "
            "rank of this host came when, and when it ended. The file is a blink-trace/1, which `blinkctl "
            "simulate --trace` reads.",
        .children = children};
    record_options_t options = {.common = common};
    command_line_parse(&argp, argc, argv, 0, &options);
    recorder_t recorder = {.options = &options};
    BLINK_TRY(query_open(query_socket_path(common->socket_path), "blinkctl", &recorder.query));
    blink_result_t result = record_to_file(&recorder);
    query_close(&recorder.query);
    return result;
}
