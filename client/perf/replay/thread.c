#include "replay/thread.h"

#include "base/clock.h"
#include "element.h"
#include "library.h"
#include "memory/slots.h"
#include "names.h"
#include "ranks/submit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/* Transfers of one communicator that a thread has submitted within so long are taken for a group: outside
 * of groups they would wait for each other, in an order that ranks need not share. */
#define GROUP_US 100u

#define NOT_IN UINT32_MAX /* a communicator in which the thread has no rank */

typedef struct player {
    const perf_replay_t *replay;
    uint32_t thread;
    blink_context_t *context;
    uint32_t *ranks; /* by communicator: this thread's, or NOT_IN */
    uint32_t *slot;  /* by communicator */
    uint32_t slot_count;
    blink_comm_t **comms;
    perf_slots_t slots;
    size_t slot_bytes;
    VEC(blink_op_t *) submitted; /* NULL: has been waited for */
    uint32_t *submission;        /* by op of the trace: index in submitted[] */
    uint32_t group;              /* the communicator of the group that is open, or NOT_IN */
    uint64_t last_ns;            /* the last submission, or the beginning */
} player_t;

/* ---- what there is to do ---- */

static bool is_own(const player_t *player, const history_event_t *event)
{
    const perf_replay_t *replay = player->replay;
    return event->order == HISTORY_COME &&
           history_thread(&replay->history, replay->trace.ops.items[event->op].comm,
                          replay->trace.arrivals.items[event->arrival].rank) == player->thread;
}

static const trace_op_t *op_of(const player_t *player, const history_event_t *event)
{
    return &player->replay->trace.ops.items[event->op];
}

/* A transfer is an allreduce's buffers, of which one is used. */
static perf_shape_t shape_of(const player_t *player, const trace_op_t *op)
{
    const trace_comm_t *comm = &player->replay->trace.comms.items[op->comm];
    bool is_pair = collective_is_pair(op->collective);
    perf_shape_t shape = {.collective = is_pair ? PERF_ALLREDUCE : (perf_collective_t)op->collective,
                          .rank_count = comm->rank_count,
                          .rank = player->ranks[op->comm],
                          .root = op->root};
    uint64_t block =
        (uint64_t)blink_datatype_bytes(op->datatype) *
        (collective_moves(op->collective) ? perf_collective_blocks(shape.collective, shape.rank_count) : 1);
    shape.count = (op->bytes + block - 1) / block;
    return shape;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* The communicators with ops that it has a rank in. */
static void find_ranks(player_t *player)
{
    const perf_replay_t *replay = player->replay;
    for (uint32_t i = 0; i < replay->trace.comms.count; i++) {
        const trace_comm_t *comm = &replay->trace.comms.items[i];
        player->ranks[i] = NOT_IN;
        for (uint32_t rank = 0; comm->op_count > 0 && rank < comm->rank_count; rank++)
            if (history_thread(&replay->history, i, rank) == player->thread) {
                player->ranks[i] = rank;
                player->slot[i] = player->slot_count++;
            }
    }
}

/* The largest buffer of its ops. */
static void find_bytes(player_t *player)
{
    const perf_replay_t *replay = player->replay;
    for (size_t i = 0; i < replay->history.event_count; i++) {
        const trace_op_t *op = op_of(player, &replay->history.events[i]);
        if (!is_own(player, &replay->history.events[i]) || !collective_moves(op->collective))
            continue;
        perf_shape_t shape = shape_of(player, op);
        uint64_t count = larger(perf_input_count(&shape), perf_output_count(&shape));
        player->slot_bytes = larger(player->slot_bytes, count * blink_datatype_bytes(op->datatype));
    }
}

/* ---- communicators and memory ---- */

/* All threads join in the same order. */
static blink_result_t join(player_t *player)
{
    const perf_replay_t *replay = player->replay;
    for (uint32_t i = 0; i < replay->trace.comms.count; i++) {
        const trace_comm_t *comm = &replay->trace.comms.items[i];
        blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
        if (player->ranks[i] == NOT_IN)
            continue;
        config.device = (int)comm->places[player->ranks[i]].device;
        config.algorithm = replay->options->algorithm;
        LIBRARY_TRY(blink_comm_init_rank(player->context, &replay->ids[i], (int)comm->rank_count,
                                         (int)player->ranks[i], &config, &player->comms[i]));
    }
    return BLINK_OK;
}

static blink_result_t make(player_t *player)
{
    const trace_t *trace = &player->replay->trace;
    player->ranks = malloc(trace->comms.count * sizeof(*player->ranks));
    player->slot = calloc(trace->comms.count, sizeof(*player->slot));
    player->comms = calloc(trace->comms.count, sizeof(*player->comms));
    player->submission = calloc(trace->ops.count, sizeof(*player->submission));
    if (!player->ranks || !player->slot || !player->comms || !player->submission)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to replay %zu ops", trace->ops.count);
    find_ranks(player);
    find_bytes(player);
    if (player->slot_bytes == 0)
        return BLINK_OK;
    perf_memory_source_t source = {.memory = player->replay->options->memory, .context = player->context};
    return perf_slots_create(&source, player->slot_bytes, player->slot_count, &player->slots);
}

/* ---- waiting ---- */

static blink_result_t wait_for(player_t *player, size_t submission)
{
    blink_op_t *op = player->submitted.items[submission];
    player->submitted.items[submission] = NULL;
    if (op)
        LIBRARY_TRY(blink_wait(op));
    return BLINK_OK;
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {(time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

/* Until this submission's time has come. */
static blink_result_t await(player_t *player, const history_event_t *event)
{
    uint64_t after_ns = player->last_ns;
    if (event->after != TRACE_NONE && player->submitted.items[player->submission[event->after]]) {
        BLINK_TRY(wait_for(player, player->submission[event->after]));
        after_ns = clock_ns();
    }
    if (!player->replay->options->no_gaps)
        sleep_until(after_ns + event->gap_us * 1000);
    return BLINK_OK;
}

/* ---- submitting ---- */

/* A failure of a call in a group is the group's: blink_group_end() returns it. */
static blink_result_t transfer(player_t *player, const history_event_t *event, const perf_call_t *call)
{
    const trace_op_t *op = op_of(player, event);
    bool sends = event->arrival == op->arrival_first; /* the source comes first */
    if (player->group == NOT_IN)
        LIBRARY_TRY(blink_group_start());
    player->group = op->comm;
    if (sends)
        blink_send(call->send, call->shape.count, call->datatype, (int)op->peer, call->comm, NULL);
    else
        blink_recv(call->recv, call->shape.count, call->datatype, (int)op->root, call->comm, NULL);
    return BLINK_OK;
}

static blink_result_t keep(player_t *player, blink_op_t *op)
{
    return vec_push(&player->submitted, op) ? BLINK_OK
                                            : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an op");
}

static blink_result_t end_group(player_t *player)
{
    blink_op_t *op;
    if (player->group == NOT_IN)
        return BLINK_OK;
    player->group = NOT_IN;
    LIBRARY_TRY(blink_group_end(&op));
    return keep(player, op);
}

static blink_result_t submit(player_t *player, const history_event_t *event)
{
    const trace_op_t *op = op_of(player, event);
    perf_call_t call = {
        .shape = shape_of(player, op),
        .datatype = op->datatype,
        .redop = op->redop == BLINK_PRE_MUL_SUM ? BLINK_SUM : op->redop, /* its factor is not in the trace */
        .comm = player->comms[op->comm]};
    player->submission[event->op] = (uint32_t)player->submitted.count;
    if (collective_moves(op->collective)) {
        perf_place_t place = perf_slots_place(&player->slots, player->slot[op->comm], &call.shape,
                                              blink_datatype_bytes(op->datatype), false);
        call.send = place.send;
        call.recv = place.recv;
    }
    if (collective_is_pair(op->collective))
        return transfer(player, event, &call);
    blink_op_t *submitted;
    BLINK_TRY(perf_submit(&call, 1, &(perf_way_t){.op = &submitted}));
    return keep(player, submitted);
}

static bool joins_group(const player_t *player, const history_event_t *event)
{
    const trace_op_t *op = op_of(player, event);
    return player->group == op->comm && collective_is_pair(op->collective) && event->after == TRACE_NONE &&
           event->gap_us <= GROUP_US;
}

static blink_result_t play(player_t *player)
{
    const history_t *history = &player->replay->history;
    for (size_t i = 0; i < history->event_count; i++) {
        const history_event_t *event = &history->events[i];
        if (!is_own(player, event))
            continue;
        if (!joins_group(player, event)) {
            BLINK_TRY(end_group(player));
            BLINK_TRY(await(player, event));
        }
        player->last_ns = clock_ns();
        BLINK_TRY(submit(player, event));
    }
    BLINK_TRY(end_group(player));
    for (size_t i = 0; i < player->submitted.count; i++)
        BLINK_TRY(wait_for(player, i));
    return BLINK_OK;
}

static void leave(player_t *player)
{
    for (uint32_t i = 0; player->comms && i < player->replay->trace.comms.count; i++)
        if (player->comms[i])
            blink_comm_destroy(player->comms[i]);
}

static blink_result_t run(player_t *player)
{
    perf_replay_board_t *board = player->replay->board;
    LIBRARY_TRY(blink_open(player->replay->socket_path, &player->context));
    BLINK_TRY(make(player));
    BLINK_TRY(join(player));
    pthread_barrier_wait(&board->together);
    board->times[player->thread].began_ns = player->last_ns = clock_ns();
    BLINK_TRY(play(player));
    board->times[player->thread].ended_ns = clock_ns();
    pthread_barrier_wait(&board->together); /* nobody's time is that of another one's leaving */
    return BLINK_OK;
}

blink_result_t perf_replay_thread(const perf_replay_t *replay, uint32_t thread)
{
    player_t player = {.replay = replay, .thread = thread, .group = NOT_IN};
    prctl(PR_SET_TIMERSLACK, 1ul); /* ns: gaps are to last as long as they did */
    blink_result_t result = run(&player);
    leave(&player);
    blink_close(player.context);
    perf_slots_destroy(&player.slots);
    vec_free(&player.submitted);
    free(player.submission);
    free(player.comms);
    free(player.slot);
    free(player.ranks);
    return result;
}
