#include "replay/replay.h"

#include "ranks/identity.h"
#include "replay/thread.h"
#include "tools/human.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SCHEMA "blink-replay/1"

#define US_PER_S 1e6

/* ---- whether it can be ---- */

static blink_result_t check_comm(const trace_comm_t *comm, uint32_t *device_count)
{
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        const trace_place_t *place = &comm->places[i];
        if (place->device == TRACE_NONE || place->client == TRACE_NONE)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "the trace does not say where rank %u of communicator %u was, as on another "
                              "host; the ops of one host can be replayed",
                              i, comm->number);
        for (uint32_t j = 0; j < i; j++)
            if (comm->places[j].device == place->device && comm->places[j].client == place->client)
                return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                                  "ranks %u and %u of communicator %u were of one process and on one device, "
                                  "so that the trace does not tell which of their ops waited for which",
                                  j, i, comm->number);
        if (*device_count <= place->device)
            *device_count = place->device + 1;
    }
    return BLINK_OK;
}

/* Every rank comes to a collective once, and the source before the destination to a transfer. `came` has an
 * element per rank, none of which is `mark`. */
static blink_result_t check_op(const trace_t *trace, const trace_op_t *op, size_t mark, size_t *came)
{
    const trace_comm_t *comm = &trace->comms.items[op->comm];
    const trace_arrival_t *arrivals = &trace->arrivals.items[op->arrival_first];
    bool is_pair = collective_is_pair(op->collective);
    uint32_t rank_count = is_pair ? 2 : comm->rank_count;
    if (op->arrival_count != rank_count)
        return BLINK_FAIL(
            BLINK_ERR_UNSUPPORTED,
            "the trace has %u of %u ranks of an op of communicator %u: blinkctl record writes 64 of "
            "an op at most",
            op->arrival_count, rank_count, comm->number);
    bool is_right = !is_pair || (arrivals[0].rank == op->root && arrivals[1].rank == op->peer);
    for (uint32_t i = 0; !is_pair && i < rank_count; i++) {
        is_right = is_right && came[arrivals[i].rank] != mark;
        came[arrivals[i].rank] = mark;
    }
    return is_right ? BLINK_OK
                    : BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                                 "\"ranks\" of an op of communicator %u are not each rank once, or of a "
                                 "transfer its \"root\" and then its \"peer\"",
                                 comm->number);
}

static blink_result_t check_ops(const trace_t *trace)
{
    uint32_t most = 0;
    for (size_t i = 0; i < trace->comms.count; i++)
        most = trace->comms.items[i].rank_count > most ? trace->comms.items[i].rank_count : most;
    size_t *came = calloc(most + 1u, sizeof(*came));
    if (!came)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", most);
    blink_result_t result = BLINK_OK;
    for (size_t i = 0; result == BLINK_OK && i < trace->ops.count; i++)
        result = check_op(trace, &trace->ops.items[i], i + 1, came);
    free(came);
    return result;
}

static blink_result_t check(perf_options_t *options, const perf_replay_t *replay)
{
    const trace_t *trace = &replay->trace;
    uint32_t device_count = 0;
    for (size_t i = 0; i < trace->comms.count; i++)
        BLINK_TRY(check_comm(&trace->comms.items[i], &device_count));
    BLINK_TRY(check_ops(trace));
    if (replay->history.thread_count > PERF_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the trace is of %u threads: at most %u can be replayed",
                          replay->history.thread_count, PERF_RANKS_MAX);
    options->rank_count = device_count;
    return BLINK_OK;
}

static blink_result_t make_board(perf_replay_t *replay)
{
    pthread_barrierattr_t shared;
    void *memory =
        mmap(NULL, sizeof(*replay->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return BLINK_FAIL_ERRNO("mmap %zu bytes for the times", sizeof(*replay->board));
    replay->board = memory;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&replay->board->together, &shared, replay->history.thread_count);
    pthread_barrierattr_destroy(&shared);
    return BLINK_OK;
}

blink_result_t perf_replay_open(perf_options_t *options, perf_replay_t *replay)
{
    *replay = (perf_replay_t){.options = options};
    BLINK_TRY(trace_read(options->replay, &replay->trace));
    BLINK_TRY(history_make(&replay->trace, &replay->history));
    BLINK_TRY(check(options, replay));
    return make_board(replay);
}

void perf_replay_close(perf_replay_t *replay)
{
    if (replay->board)
        munmap(replay->board, sizeof(*replay->board));
    free(replay->ids);
    history_free(&replay->history);
    trace_free(&replay->trace);
}

/* ---- what came of it ---- */

static int print(const perf_replay_t *replay)
{
    const trace_t *trace = &replay->trace;
    const history_t *history = &replay->history;
    uint64_t began_ns = UINT64_MAX, ended_ns = 0;
    for (uint32_t i = 0; i < history->thread_count; i++) {
        const perf_replay_time_t *time = &replay->board->times[i];
        began_ns = time->began_ns < began_ns ? time->began_ns : began_ns;
        ended_ns = time->ended_ns > ended_ns ? time->ended_ns : ended_ns;
    }
    double recorded_us = (double)(history->events[history->event_count - 1].at_us - history->events[0].at_us);
    double replayed_us = (double)(ended_ns - began_ns) / 1e3;
    if (!replay->options->json) {
        if (replay->links.pace_scale > 0)
            printf("links are paced at %g of their capacity\n", replay->links.pace_scale);
        printf("%zu op%s of %u thread%s, from the first submission to the last end: recorded %.6g s on %s, "
               "replayed %.6g s, ratio %.3f\n",
               trace->ops.count, human_plural(trace->ops.count), history->thread_count,
               human_plural(history->thread_count), recorded_us / US_PER_S, trace->topology,
               replayed_us / US_PER_S, recorded_us > 0 ? replayed_us / recorded_us : 1.0);
        return EXIT_SUCCESS;
    }
    json_t *line =
        json_pack("{s:s, s:s, s:f, s:i, s:i, s:f, s:f, s:I, s:I, s:b}", "schema", SCHEMA, "topology",
                  trace->topology, "pace_scale", replay->links.pace_scale, "ops", (int)trace->ops.count,
                  "threads", (int)history->thread_count, "recorded_us", recorded_us, "replayed_us",
                  replayed_us, "failed", (json_int_t)trace->failed_count, "missed",
                  (json_int_t)trace->missed_count, "cut", (int)trace->is_cut);
    bool written = line && json_dumpf(line, stdout, JSON_COMPACT) == 0;
    putchar('\n');
    json_decref(line);
    return written ? EXIT_SUCCESS : PERF_EXIT_FAILED;
}

/* ---- all ---- */

static int run_thread(const void *context, uint32_t thread)
{
    const perf_replay_t *replay = context;
    blink_result_t result = perf_replay_thread(replay, thread);
    if (result == BLINK_OK)
        return EXIT_SUCCESS;
    /* Relaxed: only which comes first matters; the others fail because of it. */
    if (atomic_exchange_explicit(&replay->board->failed, 1, memory_order_relaxed) == 0)
        fprintf(stderr, "blink-perf: thread %u of the trace: %s\n", thread, blink_error_text());
    return result == BLINK_ERR_CONNECT ? PERF_EXIT_NO_DAEMON : PERF_EXIT_FAILED;
}

static blink_result_t ask_daemon(perf_replay_t *replay)
{
    query_t query;
    uint32_t count = 0;
    BLINK_TRY(query_open(replay->socket_path, "blink-perf", &query));
    blink_result_t result = perf_ask_device_count(&query, &count);
    if (result == BLINK_OK)
        result = perf_ask_links(&query, &replay->links);
    query_close(&query);
    BLINK_TRY(result);
    if (replay->options->rank_count <= count)
        return BLINK_OK;
    return BLINK_FAIL(
        BLINK_ERR_NOT_FOUND,
        "the trace is of %u devices and the daemon has %u: replay it on a larger machine, or on "
        "one that --private --topology names",
        replay->options->rank_count, count);
}

static blink_result_t make_ids(perf_replay_t *replay)
{
    replay->ids = calloc(replay->trace.comms.count, sizeof(*replay->ids));
    if (!replay->ids)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu communicators", replay->trace.comms.count);
    for (size_t i = 0; i < replay->trace.comms.count; i++)
        BLINK_TRY(perf_identity_make(replay->socket_path, &replay->ids[i]));
    return BLINK_OK;
}

int perf_replay_run(perf_replay_t *replay, const char *socket_path, perf_signals_t *signals)
{
    replay->socket_path = socket_path;
    blink_result_t result = ask_daemon(replay);
    if (result == BLINK_OK)
        result = make_ids(replay);
    if (result != BLINK_OK) {
        fprintf(stderr, "blink-perf: %s\n", blink_error_text());
        return result == BLINK_ERR_CONNECT ? PERF_EXIT_NO_DAEMON : PERF_EXIT_FAILED;
    }
    trace_note_lacks("blink-perf", replay->options->replay, &replay->trace);
    int status = perf_processes_run(replay->history.thread_count, run_thread, replay, signals);
    return status == EXIT_SUCCESS ? print(replay) : status;
}
