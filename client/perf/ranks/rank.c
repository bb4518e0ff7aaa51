/* The measuring side of a rank. */
#include "ranks/rank.h"

#include "base/clock.h"
#include "check/check.h"
#include "element.h"
#include "library.h"
#include "memory/slots.h"
#include "names.h"
#include "ranks/schedule.h"
#include "ranks/work.h"
#include "report/report.h"
#include "unique_id.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LATE_NS 2000000 /* by which the last rank comes to a barrier that is being checked */

typedef struct session {
    const perf_run_t *run;
    const perf_options_t *options;
    uint32_t rank;
    uint32_t row; /* of the board */
    blink_context_t *context;
    perf_gpu_t *gpu; /* NULL: none is used */
    perf_slots_t slots;
    perf_work_t work;
    blink_redop_t *redops; /* by communicator */
    perf_place_t *places; /* by communicator, then place in its group, as the calls: what their buffers are */
    size_t *lengths;      /* of all calls */

    /* What is being measured: the same on all ranks at the same time. */
    blink_datatype_t datatype;
    blink_redop_t redop;
    double *values; /* of the datatype, see perf_reference_values() */
    perf_shape_t shape;
    uint64_t bytes;           /* the size that was asked for, which whole blocks may not fill */
    perf_schedule_t schedule; /* of rank 0 */
    uint64_t seed;            /* of the inputs; another for every run that is checked */
} session_t;

static blink_result_t barrier(session_t *session)
{
    blink_op_t *op;
    LIBRARY_TRY(blink_barrier(session->work.comms[0], &op));
    LIBRARY_TRY(blink_wait(op));
    return BLINK_OK;
}

/* A barrier that hands the board over. */
static blink_result_t meet(session_t *session)
{
    perf_board_give(session->run->board);
    BLINK_TRY(barrier(session));
    perf_board_take(session->run->board);
    return BLINK_OK;
}

/* ---- one size, one placement ---- */

static perf_pattern_t pattern_of(const session_t *session, uint32_t call)
{
    return perf_pattern_make(session->datatype, perf_collective_reduces(session->shape.collective),
                             session->redop, session->shape.rank_count, session->seed + call);
}

/* Inputs, poisoned outputs, and the calls on them: the same calls for the same shape and placement. */
static blink_result_t prepare(session_t *session, bool in_place)
{
    const perf_options_t *options = session->options;
    session->seed += perf_op_count(options);
    perf_call_lengths(&session->shape, session->lengths);
    for (uint32_t i = 0; i < perf_op_count(options); i++) {
        uint32_t comm = i / options->group_count;
        perf_call_t *call = &session->work.calls[i];
        *call = (perf_call_t){.shape = session->shape,
                              .datatype = session->datatype,
                              .redop = session->redops[comm],
                              .comm = session->work.comms[comm],
                              .lengths = session->lengths};
        if (!perf_collective_moves(session->shape.collective))
            continue;
        perf_place_t *place = &session->places[i];
        perf_pattern_t pattern = pattern_of(session, i);
        *place = perf_slots_place(&session->slots, i, &session->shape, pattern.element_bytes, in_place);
        perf_place_poison(place);
        if (place->send)
            perf_pattern_fill(&pattern, session->rank, 0, perf_input_count(&session->shape), place->send);
        BLINK_TRY(perf_slots_give(&session->slots, place));
        call->send = perf_slots_address(&session->slots, place->send);
        call->recv = perf_slots_address(&session->slots, place->recv);
    }
    return BLINK_OK;
}

static blink_result_t time_iteration(session_t *session, double *time_us)
{
    BLINK_TRY(barrier(session));
    uint64_t start_ns = clock_ns();
    BLINK_TRY(perf_work_run(&session->work));
    *time_us = (double)(clock_ns() - start_ns) / 1e3;
    return BLINK_OK;
}

/* How many iterations there are to be after a first one. With seconds to keep to rank 0 says so to all. */
static blink_result_t agree_on_iterations(session_t *session, double first_us, uint32_t *count)
{
    blink_op_t *op;
    *count = session->options->iterations;
    if (session->rank == 0)
        *count = perf_schedule_iterations(&session->schedule, session->bytes,
                                          perf_unit_bytes(session->options, session->datatype), first_us);
    if (!(session->options->seconds > 0))
        return BLINK_OK;
    LIBRARY_TRY(blink_broadcast(count, count, 1, BLINK_UINT32, 0, session->work.comms[0], &op));
    LIBRARY_TRY(blink_wait(op));
    return BLINK_OK;
}

static blink_result_t time_iterations(session_t *session, uint32_t *count)
{
    perf_board_t *board = session->run->board;
    double *times_us = board->times_us + (size_t)session->row * board->iteration_count;
    for (uint32_t i = 0; i < session->options->warmup; i++)
        BLINK_TRY(perf_work_run(&session->work));
    BLINK_TRY(time_iteration(session, times_us));
    BLINK_TRY(agree_on_iterations(session, times_us[0], count));
    for (uint32_t i = 1; i < *count; i++)
        BLINK_TRY(time_iteration(session, &times_us[i]));
    return BLINK_OK;
}

/* ---- checks ---- */

/* Its elements, and one for memory that was not its to write. */
static uint64_t wrong_of(const session_t *session, uint32_t call, uint64_t untouched)
{
    const perf_place_t *place = &session->places[call];
    perf_pattern_t pattern = pattern_of(session, call);
    perf_reference_t reference = perf_reference_make(&pattern, session->redop, session->values);
    return perf_check_output(&reference, &session->shape, place->recv) +
           (perf_place_untouched(place) != untouched);
}

/* untouched[]: by call, the checksum of what it must not write. */
static blink_result_t run_on_new_inputs(session_t *session, bool in_place, uint64_t *untouched)
{
    uint32_t count = perf_op_count(session->options);
    BLINK_TRY(prepare(session, in_place));
    for (uint32_t i = 0; i < count; i++)
        untouched[i] = perf_place_untouched(&session->places[i]);
    BLINK_TRY(perf_work_run(&session->work));
    for (uint32_t i = 0; i < count; i++)
        BLINK_TRY(perf_slots_take(&session->slots, &session->places[i]));
    return BLINK_OK;
}

static blink_result_t check_data(session_t *session, bool in_place, perf_row_t *row)
{
    uint32_t count = perf_op_count(session->options);
    uint64_t *untouched = calloc(count, sizeof(*untouched));
    if (!untouched)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u checksums", count);
    blink_result_t result = run_on_new_inputs(session, in_place, untouched);
    row->wrong = 0;
    row->checksum = 0;
    for (uint32_t i = 0; i < count && result == BLINK_OK; i++) {
        row->wrong += wrong_of(session, i, untouched[i]);
        row->checksum = perf_mix(row->checksum + perf_place_output(&session->places[i]));
    }
    free(untouched);
    return result;
}

/* Nobody may be through before the last one has come. */
static blink_result_t check_barrier(session_t *session, perf_row_t *row)
{
    perf_board_t *board = session->run->board;
    uint64_t number = ++session->seed;
    if (session->rank == session->options->rank_count - 1)
        nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    perf_board_arrive(board, session->row, number);
    BLINK_TRY(perf_work_run(&session->work));
    row->wrong = perf_board_missing(board, number);
    return BLINK_OK;
}

static blink_result_t check_once(session_t *session, bool in_place)
{
    perf_board_t *board = session->run->board;
    perf_row_t *row = &board->rows[session->row];
    if (perf_collective_moves(session->shape.collective))
        BLINK_TRY(check_data(session, in_place, row));
    else
        BLINK_TRY(check_barrier(session, row));
    /* Relaxed: read by the parent after it has waited for this process. */
    atomic_fetch_add_explicit(&board->wrong_elements, row->wrong, memory_order_relaxed);
    return BLINK_OK;
}

/* What all ranks found, and how many of them have something else than rank 0. */
static uint64_t collect_wrong(session_t *session)
{
    perf_board_t *board = session->run->board;
    uint64_t different = 0;
    if (!session->options->check)
        return 0;
    if (perf_collective_same_everywhere(session->shape.collective))
        different = perf_board_different(board);
    atomic_fetch_add_explicit(&board->wrong_elements, different, memory_order_relaxed);
    return perf_board_wrong(board) + different;
}

/* Rank 0 takes what all ranks posted; between two barriers, so that no rank is still writing, or again. */
static blink_result_t measure(session_t *session, bool in_place, perf_result_t *result)
{
    uint32_t count;
    BLINK_TRY(prepare(session, in_place));
    BLINK_TRY(perf_work_begin(&session->work));
    BLINK_TRY(time_iterations(session, &count));
    if (session->options->check)
        BLINK_TRY(check_once(session, in_place));
    perf_work_end(&session->work);
    BLINK_TRY(meet(session));
    if (session->rank == 0)
        *result = (perf_result_t){.measured = true,
                                  .datatype = session->datatype,
                                  .redop = session->redop,
                                  .count = session->shape.count,
                                  .times = perf_board_times(session->run->board, count),
                                  .iterations = count,
                                  .wrong = collect_wrong(session)};
    return meet(session);
}

static blink_result_t measure_size(session_t *session, uint64_t bytes, uint64_t count, perf_report_t *report)
{
    perf_result_t results[2] = {0};
    session->bytes = bytes;
    session->shape = (perf_shape_t){.collective = session->options->collective,
                                    .rank_count = session->options->rank_count,
                                    .rank = session->rank,
                                    .root = session->options->root,
                                    .count = count};
    for (int in_place = 0; in_place < 2; in_place++)
        if (session->options->placements[in_place])
            BLINK_TRY(measure(session, in_place == 1, &results[in_place]));
    if (session->rank == 0)
        perf_report_size(report, results);
    return BLINK_OK;
}

/* ---- all sizes, types and operators ---- */

static blink_result_t measure_sizes(session_t *session, perf_report_t *report)
{
    const perf_options_t *options = session->options;
    uint64_t unit_bytes = perf_unit_bytes(options, session->datatype), bytes = options->min_bytes;
    if (!perf_collective_moves(options->collective))
        return measure_size(session, 0, 0, report);
    do
        BLINK_TRY(measure_size(session, bytes, bytes / unit_bytes, report));
    while (perf_next_size(options, unit_bytes, &bytes));
    return BLINK_OK;
}

/* PRE_MUL_SUM has an operator of its own for every communicator. */
static blink_result_t measure_redop(session_t *session, blink_redop_t redop, perf_report_t *report)
{
    uint32_t count = session->options->comm_count;
    unsigned char scalar[sizeof(double)];
    session->redop = redop;
    for (uint32_t i = 0; i < count; i++)
        session->redops[i] = redop;
    if (redop != BLINK_PRE_MUL_SUM)
        return measure_sizes(session, report);
    element_store(session->datatype, perf_pattern_scalar(session->datatype, session->rank), scalar);
    for (uint32_t i = 0; i < count; i++)
        LIBRARY_TRY(blink_redop_create_pre_mul_sum(session->work.comms[i], scalar, session->datatype,
                                                   &session->redops[i]));
    BLINK_TRY(measure_sizes(session, report));
    for (uint32_t i = 0; i < count; i++)
        LIBRARY_TRY(blink_redop_destroy(session->work.comms[i], session->redops[i]));
    return BLINK_OK;
}

static blink_result_t measure_datatype(session_t *session, blink_datatype_t datatype, perf_report_t *report)
{
    session->datatype = datatype;
    BLINK_TRY(perf_reference_values(datatype, &session->values));
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < session->options->redop_count && result == BLINK_OK; i++)
        result = measure_redop(session, session->options->redops[i], report);
    free(session->values);
    return result;
}

static blink_result_t measure_all(session_t *session)
{
    const perf_options_t *options = session->options;
    perf_report_t report = {.options = options,
                            .pace_scale = session->run->links.pace_scale,
                            .ideal_GBps = session->run->ideal_GBps,
                            .gpu_name = session->gpu ? perf_gpu_name(session->gpu) : NULL};
    session->schedule = perf_schedule_begin(options);
    if (session->rank == 0)
        perf_report_header(&report);
    for (uint32_t i = 0; i < options->datatype_count; i++)
        BLINK_TRY(measure_datatype(session, options->datatypes[i], &report));
    return session->rank == 0 ? perf_report_footer(&report) : BLINK_OK;
}

/* ---- communicators and memory ---- */

bool perf_may_span_hosts(const perf_run_t *run)
{
    unique_id_t id;
    memcpy(&id, &run->id, sizeof(id));
    return run->options->joins && id.port != 0;
}

/* Ranks that something else has started leave it to library and daemon, which know who else is on this host.
 */
static int device_of(const session_t *session)
{
    const perf_options_t *options = session->options;
    return options->device_count == 0 && options->joins ? -1 : (int)perf_device(options, session->rank);
}

static blink_result_t join(session_t *session)
{
    const perf_options_t *options = session->options;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    config.device = device_of(session);
    config.algorithm = options->algorithm;
    if (options->joins)
        LIBRARY_TRY(blink_comm_init_launched(session->context, &config, &session->work.comms[0]));
    else
        LIBRARY_TRY(blink_comm_init_rank(session->context, &session->run->id, (int)options->rank_count,
                                         (int)session->rank, &config, &session->work.comms[0]));
    for (uint32_t i = 1; i < options->comm_count; i++)
        LIBRARY_TRY(blink_comm_duplicate(session->work.comms[0], &session->work.comms[i]));
    return BLINK_OK;
}

static blink_result_t make_lists(session_t *session)
{
    const perf_options_t *options = session->options;
    uint32_t op_count = perf_op_count(options);
    session->redops = calloc(options->comm_count, sizeof(*session->redops));
    session->places = calloc(op_count, sizeof(*session->places));
    session->lengths = calloc(4 * (size_t)options->rank_count, sizeof(*session->lengths));
    if (!session->redops || !session->places || !session->lengths)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ops", op_count);
    return perf_work_create(options, session->gpu, &session->work);
}

static void free_lists(session_t *session)
{
    free(session->lengths);
    free(session->places);
    free(session->redops);
}

static blink_result_t make_slots(session_t *session)
{
    const perf_options_t *options = session->options;
    perf_memory_source_t source = {.memory = options->memory,
                                   .context = session->context,
                                   .gpu = session->gpu,
                                   .kind = options->gpu_memory};
    return perf_slots_create(&source, options->max_bytes, perf_op_count(options), &session->slots);
}

static blink_result_t run_collective(session_t *session)
{
    const perf_options_t *options = session->options;
    if (options->memory == PERF_MEMORY_DEVICE)
        BLINK_TRY(perf_gpu_open(&session->run->gpus[session->rank], &session->gpu));
    BLINK_TRY(make_lists(session));
    if (perf_collective_moves(options->collective))
        BLINK_TRY(make_slots(session));
    BLINK_TRY(join(session));
    BLINK_TRY(measure_all(session));
    for (uint32_t i = 0; i < options->comm_count; i++)
        LIBRARY_TRY(blink_comm_destroy(session->work.comms[i]));
    return BLINK_OK;
}

/* ---- the empty operation ---- */

static blink_result_t run_nop(session_t *session)
{
    perf_board_t *board = session->run->board;
    blink_op_t *op;
    for (uint32_t i = 0; i < session->options->warmup; i++) {
        LIBRARY_TRY(blink_nop(session->context, &op));
        LIBRARY_TRY(blink_wait(op));
    }
    for (uint32_t i = 0; i < session->options->iterations; i++) {
        uint64_t start_ns = clock_ns();
        LIBRARY_TRY(blink_nop(session->context, &op));
        LIBRARY_TRY(blink_wait(op));
        board->times_us[i] = (double)(clock_ns() - start_ns) / 1e3;
    }
    perf_times_t times = perf_board_times(board, session->options->iterations);
    return perf_report_nop(session->options, &times);
}

blink_result_t perf_rank_run(const perf_run_t *run, uint32_t rank)
{
    session_t session = {.run = run,
                         .options = run->options,
                         .rank = rank,
                         .row = run->board->row_count == 1 ? 0 : rank,
                         .context = run->context};
    if (!run->context)
        LIBRARY_TRY(blink_open(run->socket_path, &session.context));
    blink_result_t result =
        run->options->collective == PERF_NOP ? run_nop(&session) : run_collective(&session);
    perf_work_destroy(&session.work); /* graphs hold ops of the context */
    if (!run->context)
        blink_close(session.context); /* before the memory goes that ops might still use */
    else
        perf_slots_release(&session.slots);
    perf_slots_destroy(&session.slots);
    perf_gpu_close(session.gpu);
    free_lists(&session);
    return result;
}

/* Whether who read what is printed has gone: SIGPIPE has ended or will end the rank that prints, and nobody
 * is to hear of it from the others. */
static bool reader_has_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* What the daemon says of a rank begins with its name already. */
static void print_failure(const perf_run_t *run, uint32_t rank)
{
    char name[32];
    const char *text = blink_error_text();
    int length = snprintf(name, sizeof(name), "rank %u ", rank);
    if (run->options->collective == PERF_NOP || strncmp(text, name, (size_t)length) == 0)
        fprintf(stderr, "blink-perf: %s\n", text);
    else
        fprintf(stderr, "blink-perf: rank %u: %s\n", rank, text);
}

int perf_rank_status(const perf_run_t *run, uint32_t rank)
{
    blink_result_t result = perf_rank_run(run, rank);
    if (result == BLINK_OK)
        return EXIT_SUCCESS;
    /* Relaxed: only which rank comes first matters; the others fail because of it. */
    if (atomic_exchange_explicit(&run->board->failed, 1, memory_order_relaxed) == 0 && !reader_has_gone())
        print_failure(run, rank);
    return result == BLINK_ERR_CONNECT ? PERF_EXIT_NO_DAEMON : PERF_EXIT_FAILED;
}
