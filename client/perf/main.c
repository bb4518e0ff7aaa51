/* blink-perf: asks the daemon what is ideal, starts ranks or is one, and leaves nothing behind. */
#include "daemon/ask.h"
#include "daemon/private.h"
#include "memory/slots.h"
#include "ranks/identity.h"
#include "ranks/processes.h"
#include "ranks/threads.h"
#include "replay/replay.h"
#include "tools/human.h"

#include <stdio.h>
#include <stdlib.h>

/* Below this most sizes take seconds. */
#define SMALL_SCALE 1e-3

static int fail(blink_result_t result)
{
    fprintf(stderr, "blink-perf: %s\n", blink_error_text());
    return result == BLINK_ERR_CONNECT ? PERF_EXIT_NO_DAEMON : PERF_EXIT_FAILED;
}

static blink_result_t check_devices(const perf_options_t *options, uint32_t device_count)
{
    for (uint32_t rank = 0; rank < options->rank_count; rank++) {
        if (perf_device(options, rank) < device_count)
            continue;
        if (options->device_count > 0)
            return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                              "--devices: there is no device %u, the daemon has %u, from 0 on",
                              perf_device(options, rank), device_count);
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                          "--ranks %u: the daemon has %u device%s, and each rank needs one: name fewer "
                          "ranks, or with --private another --topology",
                          options->rank_count, device_count, human_plural(device_count));
    }
    return BLINK_OK;
}

/* What has to be known before the ranks start. */
static blink_result_t ask_daemon(perf_options_t *options, perf_run_t *run)
{
    query_t query;
    BLINK_TRY(query_open(run->socket_path, "blink-perf", &query));
    uint32_t device_count = 0;
    blink_result_t result = perf_ask_device_count(&query, &device_count);
    if (options->rank_count == 0)
        options->rank_count = device_count;
    if (result == BLINK_OK && !options->joins)
        result = check_devices(options, device_count);
    if (result == BLINK_OK && options->root_node && !options->joins)
        result = perf_ask_root(&query, options);
    if (result == BLINK_OK && options->memory == PERF_MEMORY_DEVICE)
        result = perf_ask_gpus(&query, options, run->gpus);
    if (result == BLINK_OK)
        result = perf_ask_links(&query, &run->links);
    query_close(&query);
    BLINK_TRY(result);
    if (perf_collective_has_root(options->collective) && options->root >= options->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "root %u is not among %u ranks", options->root,
                          options->rank_count);
    return BLINK_OK;
}

/* What is ideal for ranks on several hosts this daemon does not know alone. */
static blink_result_t ask_ideal(const perf_options_t *options, perf_run_t *run)
{
    query_t query;
    if (!perf_collective_moves(options->collective) || perf_may_span_hosts(run) ||
        (options->joins && options->join_rank > 0))
        return BLINK_OK;
    BLINK_TRY(query_open(run->socket_path, "blink-perf", &query));
    blink_result_t result = perf_ask_ideal_GBps(&query, options, &run->links, &run->ideal_GBps);
    query_close(&query);
    return result;
}

static blink_result_t find_identity(const perf_options_t *options, perf_run_t *run)
{
    if (options->joins)
        return perf_identity_expect(run->socket_path, &run->id);
    return perf_identity_make(run->socket_path, &run->id);
}

/* Bytes, as the kernel estimates; 0: it does not say. */
static uint64_t memory_available(void)
{
    unsigned long kib = 0;
    char line[128];
    FILE *meminfo = fopen("/proc/meminfo", "re");
    while (meminfo && kib == 0 && fgets(line, sizeof(line), meminfo))
        sscanf(line, "MemAvailable: %lu kB", &kib);
    if (meminfo)
        fclose(meminfo);
    return (uint64_t)kib * 1024;
}

/* Memory that is not there would be found out by the machine, which ends one program or another then. */
static blink_result_t check_memory(const perf_options_t *options)
{
    char needed_text[HUMAN_BYTES], available_text[HUMAN_BYTES];
    uint32_t ranks = options->joins ? 1 : options->rank_count;
    size_t each = perf_slots_bytes(options->max_bytes, perf_op_count(options)), needed;
    uint64_t available = memory_available();
    if (!perf_collective_moves(options->collective) || available == 0)
        return BLINK_OK;
    if (__builtin_mul_overflow(each, ranks, &needed))
        needed = SIZE_MAX;
    if (needed <= available)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY,
                      "inputs and outputs of %u ranks would take %s, and this machine has %s left: name a "
                      "smaller --maxbytes, or fewer --ranks",
                      ranks, human_bytes(needed, needed_text), human_bytes(available, available_text));
}

static blink_result_t prepare(perf_options_t *options, perf_run_t *run)
{
    BLINK_TRY(ask_daemon(options, run));
    BLINK_TRY(check_memory(options));
    BLINK_TRY(perf_board_create(options->joins ? 1 : options->rank_count, options->iterations, &run->board));
    BLINK_TRY(find_identity(options, run));
    return ask_ideal(options, run);
}

static int run_process(const void *context, uint32_t number)
{
    const perf_run_t *run = context;
    return run->options->threads ? perf_threads_run(run) : perf_rank_status(run, number);
}

static int measure(perf_options_t *options, const char *socket_path, perf_signals_t *signals)
{
    perf_run_t run = {.options = options, .socket_path = socket_path};
    blink_result_t result = prepare(options, &run);
    int status;
    if (result != BLINK_OK)
        status = fail(result);
    else if (options->joins)
        status = perf_rank_status(&run, options->join_rank);
    else
        status = perf_processes_run(options->threads ? 1 : options->rank_count, run_process, &run, signals);
    /* Relaxed: the ranks have been waited for. */
    uint64_t wrong = run.board ? atomic_load_explicit(&run.board->wrong_elements, memory_order_relaxed) : 0;
    if (status == EXIT_SUCCESS && wrong > 0) {
        fprintf(stderr, "blink-perf: %lu elements are wrong\n", (unsigned long)wrong);
        status = PERF_EXIT_FAILED;
    }
    perf_board_destroy(run.board);
    return status;
}

/* A scale that nobody has named is known now. */
static blink_result_t warn_of_scale(const perf_options_t *options, const char *socket_path)
{
    query_t query;
    perf_links_t links;
    if (!options->paced || options->pace_scale)
        return BLINK_OK;
    BLINK_TRY(query_open(socket_path, "blink-perf", &query));
    blink_result_t result = perf_ask_links(&query, &links);
    query_close(&query);
    BLINK_TRY(result);
    if (links.pace_scale > 0 && links.pace_scale < SMALL_SCALE)
        fprintf(stderr,
                "blink-perf: links are paced at %g of their capacity, which is what this machine keeps up "
                "with now, so that ops take %.0f times as long as on the real links: try again when the "
                "machine is idle, name a smaller --topology, or name a scale, such as --pace=%g\n",
                links.pace_scale, 1 / links.pace_scale, SMALL_SCALE);
    return BLINK_OK;
}

/* `replay`: instead of measuring; NULL: none. */
static int work(perf_options_t *options, perf_replay_t *replay, const char *socket_path,
                perf_signals_t *signals)
{
    return replay ? perf_replay_run(replay, socket_path, signals) : measure(options, socket_path, signals);
}

static int work_privately(perf_options_t *options, perf_replay_t *replay, perf_signals_t *signals)
{
    perf_private_t daemon;
    blink_result_t started = perf_private_start(options, signals, &daemon);
    if (started == BLINK_OK)
        started = warn_of_scale(options, daemon.socket_path);
    int status;
    if (started == BLINK_OK)
        status = work(options, replay, daemon.socket_path, signals);
    else
        status = signals->caught != 0 ? PERF_EXIT_FAILED : fail(started);
    blink_result_t stopped = perf_private_stop(&daemon, signals);
    if (stopped == BLINK_OK)
        return status;
    int stop_status = fail(stopped);
    return status != EXIT_SUCCESS ? status : stop_status;
}

static int work_somewhere(perf_options_t *options, perf_replay_t *replay, perf_signals_t *signals)
{
    return options->private_daemon ? work_privately(options, replay, signals)
                                   : work(options, replay, query_socket_path(options->socket_path), signals);
}

static int replay(perf_options_t *options, perf_signals_t *signals)
{
    perf_replay_t replay;
    blink_result_t result = perf_replay_open(options, &replay);
    int status = result == BLINK_OK ? work_somewhere(options, &replay, signals) : fail(result);
    perf_replay_close(&replay);
    return status;
}

int main(int argc, char **argv)
{
    perf_options_t options;
    perf_parse_options(argc, argv, &options);
    if (options.joins)
        return measure(&options, query_socket_path(options.socket_path), NULL);

    perf_signals_t signals;
    perf_signals_block(&signals);
    int status = options.replay ? replay(&options, &signals) : work_somewhere(&options, NULL, &signals);
    sigprocmask(SIG_SETMASK, &signals.before, NULL);
    if (signals.caught != 0) {
        fflush(NULL);
        raise(signals.caught); /* end as who sent it expects */
    }
    return status;
}
