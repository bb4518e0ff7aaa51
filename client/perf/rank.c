/* The measuring side of a rank process. */
#include "rank.h"

#include "identity.h"
#include "names.h"
#include "pattern.h"
#include "report.h"

#include <string.h>
#include <time.h>

#define POISON 0xa5 /* what outputs hold before they are checked */

/* Pass a failure of the client library up with its sentence. */
#define LIBRARY_TRY(call)                                                                                    \
    do {                                                                                                     \
        blink_result_t library_result = (call);                                                              \
        if (library_result != BLINK_OK)                                                                      \
            return BLINK_FAIL(library_result, "%s", blink_last_error());                                     \
    } while (0)

typedef struct session {
    const perf_run_t *run;
    const perf_options_t *options;
    uint32_t rank;
    uint32_t row; /* of the board */
    blink_context_t *context;
    blink_comm_t *comm;
    void *send, *recv; /* max_bytes each */
    void *barrier;     /* one byte */
    perf_pattern_t pattern;
} session_t;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static blink_result_t barrier(session_t *session)
{
    blink_op_t *op;
    LIBRARY_TRY(
        blink_all_reduce(session->barrier, session->barrier, 1, BLINK_UINT8, BLINK_MAX, session->comm, &op));
    LIBRARY_TRY(blink_wait(op));
    return BLINK_OK;
}

/* ---- one size, one placement ---- */

static bool has_input(const session_t *session)
{
    return session->options->collective == BLINK_ALLREDUCE || session->rank == session->options->root;
}

static const void *input_of(const session_t *session, bool in_place)
{
    if (!has_input(session))
        return NULL;
    return in_place ? session->recv : session->send;
}

static void prepare(session_t *session, uint64_t count, bool in_place)
{
    memset(session->recv, POISON, count * session->pattern.element_bytes);
    if (has_input(session))
        perf_pattern_fill(&session->pattern, in_place ? session->recv : session->send, count);
}

static blink_result_t run_once(session_t *session, uint64_t count, bool in_place)
{
    const perf_options_t *options = session->options;
    const void *input = input_of(session, in_place);
    blink_op_t *op;
    if (options->collective == BLINK_ALLREDUCE)
        LIBRARY_TRY(blink_all_reduce(input, session->recv, count, options->datatype, options->redop,
                                     session->comm, &op));
    else
        LIBRARY_TRY(blink_broadcast(input, session->recv, count, options->datatype, (int)options->root,
                                    session->comm, &op));
    LIBRARY_TRY(blink_wait(op));
    return BLINK_OK;
}

static blink_result_t time_iterations(session_t *session, uint64_t count, bool in_place)
{
    perf_board_t *board = session->run->board;
    double *times_us = board->times_us + (size_t)session->row * board->iteration_count;
    for (uint32_t i = 0; i < session->options->warmup; i++)
        BLINK_TRY(run_once(session, count, in_place));
    for (uint32_t i = 0; i < session->options->iterations; i++) {
        BLINK_TRY(barrier(session));
        uint64_t start_ns = now_ns();
        BLINK_TRY(run_once(session, count, in_place));
        times_us[i] = (double)(now_ns() - start_ns) / 1e3;
    }
    return BLINK_OK;
}

static blink_result_t check_once(session_t *session, uint64_t count, bool in_place)
{
    perf_board_t *board = session->run->board;
    prepare(session, count, in_place);
    BLINK_TRY(run_once(session, count, in_place));
    uint64_t wrong = perf_pattern_wrong(&session->pattern, session->recv, count);
    board->wrong[session->row] = wrong;
    /* Relaxed: read by the parent after it has waited for this process. */
    atomic_fetch_add_explicit(&board->wrong_elements, wrong, memory_order_relaxed);
    return BLINK_OK;
}

/* Rank 0 takes what all ranks posted; between two barriers, so that no rank is still writing, or again. */
static blink_result_t measure(session_t *session, uint64_t count, bool in_place, perf_result_t *result)
{
    prepare(session, count, in_place);
    BLINK_TRY(time_iterations(session, count, in_place));
    if (session->options->check)
        BLINK_TRY(check_once(session, count, in_place));
    BLINK_TRY(barrier(session));
    if (session->rank == 0)
        *result = (perf_result_t){.count = count,
                                  .times = perf_board_times(session->run->board),
                                  .wrong = perf_board_wrong(session->run->board)};
    return barrier(session);
}

/* ---- all sizes ---- */

static blink_result_t measure_sizes(session_t *session)
{
    const perf_options_t *options = session->options;
    uint32_t element_bytes = session->pattern.element_bytes;
    perf_report_t report = {.options = options, .ideal_GBps = session->run->ideal_GBps};
    if (session->rank == 0)
        perf_report_header(&report);
    uint64_t bytes = options->min_bytes;
    for (;;) {
        perf_result_t results[2] = {0};
        for (int in_place = 0; in_place < 2; in_place++)
            BLINK_TRY(measure(session, bytes / element_bytes, in_place == 1, &results[in_place]));
        if (session->rank == 0)
            perf_report_size(&report, results);
        if (bytes > options->max_bytes / options->step_factor)
            break;
        bytes = bytes == 0 ? element_bytes : bytes * options->step_factor;
        if (bytes > options->max_bytes)
            break;
    }
    return session->rank == 0 ? perf_report_footer(&report) : BLINK_OK;
}

static blink_result_t join(session_t *session)
{
    const perf_options_t *options = session->options;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    config.device = (int)perf_device(options, session->rank);
    config.algorithm = options->algorithm;
    blink_result_t joined =
        blink_comm_init_rank(session->context, &session->run->id, (int)options->rank_count,
                             (int)session->rank, &config, &session->comm);
    if (options->joins)
        perf_identity_forget(options->id_file, session->rank);
    LIBRARY_TRY(joined);
    return BLINK_OK;
}

static blink_result_t run_collective(session_t *session)
{
    const perf_options_t *options = session->options;
    perf_pattern_kind_t kind = {.collective = options->collective,
                                .datatype = options->datatype,
                                .redop = options->redop,
                                .root = options->root,
                                .rank_count = options->rank_count};
    size_t bytes = options->max_bytes > 0 ? options->max_bytes : 1;
    BLINK_TRY(perf_pattern_create(&kind, session->rank, &session->pattern));
    LIBRARY_TRY(blink_mem_alloc(session->context, bytes, &session->send));
    LIBRARY_TRY(blink_mem_alloc(session->context, bytes, &session->recv));
    LIBRARY_TRY(blink_mem_alloc(session->context, 1, &session->barrier));
    BLINK_TRY(join(session));
    BLINK_TRY(measure_sizes(session));
    LIBRARY_TRY(blink_comm_destroy(session->comm));
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
        uint64_t start_ns = now_ns();
        LIBRARY_TRY(blink_nop(session->context, &op));
        LIBRARY_TRY(blink_wait(op));
        board->times_us[i] = (double)(now_ns() - start_ns) / 1e3;
    }
    perf_times_t times = perf_board_times(board);
    return perf_report_nop(session->options, &times);
}

blink_result_t perf_rank_run(const perf_run_t *run, uint32_t rank)
{
    session_t session = {
        .run = run, .options = run->options, .rank = rank, .row = run->board->row_count == 1 ? 0 : rank};
    LIBRARY_TRY(blink_open(run->socket_path, &session.context));
    blink_result_t result = run->options->nop ? run_nop(&session) : run_collective(&session);
    blink_close(session.context);
    perf_pattern_destroy(&session.pattern);
    return result;
}
