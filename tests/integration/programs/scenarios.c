/* The scenarios of blink-api. Each reads like a page of the manual. */
#include "api.h"

#include "limit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 5000u

/* ---- groups and transfers ---- */

/* Every rank sends before it receives, to everybody: only a group lets that end. */
static void play_exchange(const player_t *p)
{
    size_t ranks = (size_t)p->rank_count;
    int32_t *send = memory(p, ranks * COUNT), *recv = memory(p, ranks * COUNT);
    blink_op_t *op;
    fill(send, ranks * COUNT, 1000000 * p->rank);
    must(p, blink_group_start(), "group_start");
    for (size_t peer = 0; peer < ranks; peer++)
        must(p, blink_send(send + peer * COUNT, COUNT, BLINK_INT32, (int)peer, p->comm, NULL), "send");
    for (size_t peer = ranks; peer-- > 0;)
        must(p, blink_recv(recv + peer * COUNT, COUNT, BLINK_INT32, (int)peer, p->comm, NULL), "recv");
    must(p, blink_group_end(&op), "group_end");
    must_wait(p, op, "exchange");
    for (size_t peer = 0; peer < ranks; peer++)
        must_hold(p, recv + peer * COUNT, COUNT, 1000000 * (int)peer + p->rank * (int)COUNT, "block");
}

/* Collectives and transfers in one group; the ranks order the transfers differently; groups nest. */
static void play_mixed_group(const player_t *p)
{
    int next = (p->rank + 1) % p->rank_count, previous = (p->rank + p->rank_count - 1) % p->rank_count;
    int32_t *a = memory(p, COUNT), *b = memory(p, COUNT), *send = memory(p, COUNT), *recv = memory(p, COUNT);
    blink_op_t *op = NULL, *inner = NULL;
    fill(a, COUNT, p->rank);
    fill(send, COUNT, 100 * p->rank);
    if (p->rank == 0)
        fill(b, COUNT, 7);
    must(p, blink_group_start(), "group_start");
    must(p, blink_all_reduce(a, a, COUNT, BLINK_INT32, BLINK_MAX, p->comm, NULL), "all_reduce");
    must(p, blink_group_start(), "nested group_start");
    if (p->rank % 2)
        must(p, blink_send(send, COUNT, BLINK_INT32, next, p->comm, NULL), "send");
    must(p, blink_recv(recv, COUNT, BLINK_INT32, previous, p->comm, NULL), "recv");
    if (p->rank % 2 == 0)
        must(p, blink_send(send, COUNT, BLINK_INT32, next, p->comm, NULL), "send");
    must(p, blink_group_end(&inner), "nested group_end");
    if (inner)
        fail(p, "the inner group gave an op");
    must(p, blink_broadcast(b, b, COUNT, BLINK_INT32, 0, p->comm, NULL), "broadcast");
    must(p, blink_group_end(&op), "group_end");
    must_wait(p, op, "group");
    must_hold(p, a, COUNT, p->rank_count - 1, "maximum");
    must_hold(p, b, COUNT, 7, "broadcast");
    must_hold(p, recv, COUNT, 100 * previous, "received");
}

static void play_empty_group(const player_t *p)
{
    blink_op_t *op = (blink_op_t *)(uintptr_t)1;
    must(p, blink_group_start(), "group_start");
    must(p, blink_group_end(&op), "group_end");
    if (op)
        fail(p, "an empty group gave an op");
    must_fail(p, blink_group_end(&op), BLINK_ERR_INVALID_ARGUMENT, "group", "group_end without a start");
}

/* One bad call: nothing of the group is submitted, and the communicator works on. */
static void play_failed_group(const player_t *p)
{
    int32_t *buffer = memory(p, COUNT);
    blink_op_t *op = NULL;
    fill(buffer, COUNT, 1);
    must(p, blink_group_start(), "group_start");
    must(p, blink_all_reduce(buffer, buffer, COUNT, BLINK_INT32, BLINK_SUM, p->comm, NULL), "all_reduce");
    must_fail(p, blink_broadcast(buffer, buffer, COUNT, BLINK_INT32, p->rank_count, p->comm, NULL),
              BLINK_ERR_INVALID_ARGUMENT, "root", "a root that is none");
    must_fail(p, blink_group_end(&op), BLINK_ERR_INVALID_ARGUMENT, "root", "group_end");
    must_hold(p, buffer, COUNT, 1, "untouched");
    must(p, blink_all_reduce(buffer, buffer, COUNT, BLINK_INT32, BLINK_MIN, p->comm, &op), "all_reduce");
    must_wait(p, op, "all_reduce");
}

/* A large group: more entries than the rings have. */
static void play_large_group(const player_t *p)
{
    enum { TRANSFERS = 5000 };
    int other = p->rank ^ 1;
    int32_t *send = memory(p, TRANSFERS), *recv = memory(p, TRANSFERS);
    blink_op_t *op;
    fill(send, TRANSFERS, 10000 * p->rank);
    must(p, blink_group_start(), "group_start");
    for (int i = 0; i < TRANSFERS && other < p->rank_count; i++) {
        must(p, blink_send(send + i, 1, BLINK_INT32, other, p->comm, NULL), "send");
        must(p, blink_recv(recv + i, 1, BLINK_INT32, other, p->comm, NULL), "recv");
    }
    must(p, blink_group_end(&op), "group_end");
    must_wait(p, op, "group");
    must_hold(p, recv, TRANSFERS, 10000 * other, "received");
}

/* Without a group two ranks that both send first wait for each other: the op timeout ends that, by name. */
static void play_crossed_sends(const player_t *p)
{
    int32_t *buffer = memory(p, 2);
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    blink_comm_t *comm;
    blink_op_t *first, *second;
    config.op_timeout_ms = limit_short_ms();
    must(p, blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, &config, &comm), "join");
    must(p, blink_send(buffer, 1, BLINK_INT32, 1 - p->rank, comm, &first), "send");
    must(p, blink_recv(buffer + 1, 1, BLINK_INT32, 1 - p->rank, comm, &second), "recv");
    must_fail(p, blink_wait(first), BLINK_ERR_TIMEOUT, "earlier ops", "crossed send");
    must_fail(p, blink_wait(second), BLINK_ERR_TIMEOUT, "transfer", "crossed recv");
    must(p, blink_comm_destroy(comm), "destroy");
}

static void play_mismatched_transfer(const player_t *p)
{
    int32_t *buffer = memory(p, 8);
    blink_op_t *op;
    if (p->rank == 0)
        must(p, blink_send(buffer, 8, BLINK_INT32, 1, p->comm, &op), "send");
    else
        must(p, blink_recv(buffer, 7, BLINK_INT32, 0, p->comm, &op), "recv");
    must_fail(p, blink_wait(op), BLINK_ERR_MISMATCH, "count 8", "send of 8, receive of 7");
    must(p, blink_barrier(p->comm, &op), "barrier");
    must_wait(p, op, "the communicator works on");
}

/* ---- order and completion ---- */

/* A chain in which each op needs what the one before it wrote. */
static void play_order(const player_t *p)
{
    enum { STEPS = 200 };
    int32_t *value = memory(p, 1);
    blink_op_t *ops[STEPS];
    *value = 1;
    for (int i = 0; i < STEPS; i++) {
        if (i % 20 == 19)
            must(p, blink_barrier(p->comm, &ops[i]), "barrier");
        else if (i % 2)
            must(p, blink_all_reduce(value, value, 1, BLINK_INT32, BLINK_MAX, p->comm, &ops[i]), "maximum");
        else
            must(p, blink_all_reduce(value, value, 1, BLINK_INT32, BLINK_SUM, p->comm, &ops[i]), "sum");
    }
    uint32_t expected = 1;
    for (int i = 0; i < STEPS; i++) {
        must_wait(p, ops[i], "op");
        if (i % 2 == 0)
            expected *= (uint32_t)p->rank_count;
    }
    if ((uint32_t)*value != expected)
        fail(p, "the chain gave %d, not %u", *value, expected);
}

static void play_wait_any(const player_t *p)
{
    enum { OPS = 20 };
    int32_t *values = memory(p, OPS);
    blink_op_t *ops[OPS];
    bool seen[OPS] = {false};
    fill(values, OPS, 1);
    for (int i = 0; i < OPS; i++)
        must(p, blink_all_reduce(values + i, values + i, 1, BLINK_INT32, BLINK_MAX, p->comm, &ops[i]),
             "all_reduce");
    for (int i = 0; i < OPS; i++) {
        ptrdiff_t index = -2;
        must(p, blink_wait_any(ops, OPS, &index), "wait_any");
        if (index < 0 || index >= OPS || seen[index] || ops[index])
            fail(p, "wait_any gave %td", index);
        seen[index] = true;
    }
    ptrdiff_t index = 0;
    must(p, blink_wait_any(ops, OPS, &index), "wait_any of none");
    if (index != -1)
        fail(p, "wait_any of none gave %td", index);
}

/* The descriptor is readable once an op has completed. */
static void play_poll(const player_t *p)
{
    int32_t *value = memory(p, 1);
    blink_op_t *op;
    bool done = false;
    struct pollfd ready = {.events = POLLIN};
    must(p, blink_poll_fd(p->context, &ready.fd), "poll_fd");
    must(p, blink_all_reduce(value, value, 1, BLINK_INT32, BLINK_SUM, p->comm, &op), "all_reduce");
    while (!done) {
        uint64_t raised;
        if (poll(&ready, 1, 10000) != 1)
            fail(p, "poll: nothing within 10 s");
        if (read(ready.fd, &raised, sizeof(raised)) != (ssize_t)sizeof(raised))
            fail(p, "the event cannot be read");
        must(p, blink_test(op, &done), "test");
    }
}

/* ---- memory ---- */

static void all_reduce_and_check(const player_t *p, int32_t *send, int32_t *recv, size_t count)
{
    blink_op_t *op;
    for (size_t i = 0; i < count; i++)
        send[i] = (int32_t)(i % 1000) + p->rank;
    must(p, blink_all_reduce(send, recv, count, BLINK_INT32, BLINK_SUM, p->comm, &op), "all_reduce");
    must_wait(p, op, "all_reduce");
    int32_t ranks = p->rank_count;
    for (size_t i = 0; i < count; i++) {
        int32_t expected = ranks * (int32_t)(i % 1000) + ranks * (ranks - 1) / 2;
        if (recv[i] != expected)
            fail(p, "element %zu of %zu is %d, not %d", i, count, recv[i], expected);
    }
}

/* Ordinary memory, in one piece and in many, in place or not, beside ranks whose memory is registered. */
static void play_malloc(const player_t *p)
{
    static const size_t counts[] = {1, 1000, 262144, 262145, 3000001};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t bytes = counts[i] * sizeof(int32_t);
        bool ordinary = (p->rank + (int)i) % 3 != 0;
        int32_t *send = ordinary ? malloc(bytes) : memory(p, counts[i]);
        int32_t *recv = p->rank % 2 ? malloc(bytes) : memory(p, counts[i]);
        all_reduce_and_check(p, send, recv, counts[i]);
        all_reduce_and_check(p, recv, recv, counts[i]);
        if (ordinary)
            free(send);
        if (p->rank % 2)
            free(recv);
    }
}

/* Blocks per rank travel in pieces too; nobody waits while they do but the library's own thread. */
static void play_malloc_all_gather(const player_t *p)
{
    size_t count = 700001, ranks = (size_t)p->rank_count;
    int32_t *send = malloc(count * sizeof(*send)), *recv = malloc(ranks * count * sizeof(*recv));
    blink_op_t *op;
    bool done = false;
    fill(send, count, 1000000 * p->rank);
    memset(recv, 0xa5, ranks * count * sizeof(*recv));
    must(p, blink_all_gather(send, recv, count, BLINK_INT32, p->comm, &op), "all_gather");
    while (!done) {
        usleep(20000);
        must(p, blink_test(op, &done), "test");
    }
    for (size_t rank = 0; rank < ranks; rank++)
        must_hold(p, recv + rank * count, count, 1000000 * (int)rank, "block");
    free(send);
    free(recv);
}

/* ---- communicators ---- */

static void play_split(const player_t *p)
{
    blink_comm_t *half, *copy, *none;
    blink_op_t *op;
    int rank, size, halves = p->rank_count / 2 + (p->rank % 2 == 0 && p->rank_count % 2);
    int32_t value[2] = {p->rank, 0};
    /* Odd and even ranks, in reverse order. */
    must(p, blink_comm_split(p->comm, p->rank % 2, -p->rank, NULL, &half), "split");
    must(p, blink_comm_rank(half, &rank), "rank");
    must(p, blink_comm_size(half, &size), "size");
    if (size != halves || rank != halves - 1 - p->rank / 2)
        fail(p, "rank %d of %d in its half of %d", rank, size, halves);
    must(p, blink_all_reduce(value, value + 1, 1, BLINK_INT32, BLINK_MIN, half, &op), "all_reduce");
    must_wait(p, op, "all_reduce in a half");
    if (value[1] != p->rank % 2)
        fail(p, "the least rank of the half is %d", value[1]);
    must(p, blink_comm_duplicate(p->comm, &copy), "duplicate");
    must(p, blink_comm_rank(copy, &rank), "rank");
    if (rank != p->rank)
        fail(p, "rank %d in the duplicate", rank);
    must(p, blink_comm_split(p->comm, p->rank == 0 ? 5 : BLINK_SPLIT_NO_COLOR, 0, NULL, &none),
         "split off one");
    if ((none != NULL) != (p->rank == 0))
        fail(p, "no colour gave a communicator, or a colour none");
    must(p, blink_comm_destroy(none), "destroy");
    must(p, blink_comm_destroy(half), "destroy");
    must(p, blink_comm_destroy(copy), "destroy");
}

static void play_finalize(const player_t *p)
{
    enum { OPS = 50 };
    int32_t *value = memory(p, OPS);
    blink_op_t *ops[OPS], *late;
    fill(value, OPS, 1);
    for (int i = 0; i < OPS; i++)
        must(p, blink_all_reduce(value + i, value + i, 1, BLINK_INT32, BLINK_MAX, p->comm, &ops[i]),
             "all_reduce");
    must(p, blink_comm_finalize(p->comm), "finalize");
    for (int i = 0; i < OPS; i++) {
        bool done = false;
        must(p, blink_test(ops[i], &done), "test");
        if (!done)
            fail(p, "op %d is not complete after finalize", i);
    }
    must_fail(p, blink_barrier(p->comm, &late), BLINK_ERR_INVALID_ARGUMENT, "finaliz",
              "an op after finalize");
}

/* Communicators used at once, submitted in a different order by every rank, never wait for one another. */
static void play_many_comms(const player_t *p)
{
    enum { COMMS = 40, ROUNDS = 5 };
    int32_t *value = memory(p, COMMS);
    blink_comm_t *comms[COMMS];
    blink_op_t *ops[COMMS];
    for (int i = 0; i < COMMS; i++)
        must(p, blink_comm_duplicate(p->comm, &comms[i]), "duplicate");
    for (int round = 0; round < ROUNDS; round++) {
        fill(value, COMMS, round);
        for (int i = 0; i < COMMS; i++) {
            int at = p->rank % 2 ? COMMS - 1 - i : (i + 7 * p->rank) % COMMS;
            must(p, blink_all_reduce(value + at, value + at, 1, BLINK_INT32, BLINK_MAX, comms[at], &ops[at]),
                 "all_reduce");
        }
        for (int i = 0; i < COMMS; i++)
            must_wait(p, ops[i], "all_reduce");
        must_hold(p, value, COMMS, round, "values");
    }
    for (int i = 0; i < COMMS; i++)
        must(p, blink_comm_destroy(comms[i]), "destroy");
}

/* The weights of Σ w·x are each rank's own. */
static void play_pre_mul_sum(const player_t *p)
{
    float *buffer = (float *)(void *)memory(p, COUNT), weight = 0.5f * (float)(p->rank + 1), expected = 0;
    blink_redop_t redop;
    blink_op_t *op;
    for (size_t i = 0; i < COUNT; i++)
        buffer[i] = 2.0f;
    must(p, blink_redop_create_pre_mul_sum(p->comm, &weight, BLINK_FLOAT32, &redop), "create");
    must(p, blink_all_reduce(buffer, buffer, COUNT, BLINK_FLOAT32, redop, p->comm, &op), "all_reduce");
    must(p, blink_redop_destroy(p->comm, redop), "destroy");
    must_wait(p, op, "all_reduce");
    for (int rank = 0; rank < p->rank_count; rank++)
        expected += 2.0f * 0.5f * (float)(rank + 1);
    if (buffer[0] != expected || buffer[COUNT - 1] != expected)
        fail(p, "the weighted sum is %g, not %g", (double)buffer[0], (double)expected);
    must_fail(p, blink_all_reduce(buffer, buffer, COUNT, BLINK_FLOAT32, redop, p->comm, &op),
              BLINK_ERR_INVALID_ARGUMENT, "operator", "an operator that is gone");
    must_fail(p, blink_all_reduce(buffer, buffer, COUNT, BLINK_FLOAT32, BLINK_PRE_MUL_SUM, p->comm, &op),
              BLINK_ERR_INVALID_ARGUMENT, "operator", "the bare enumerator");
}

/* Each rank asks for another timeout. */
static void play_timeouts_differ(const player_t *p)
{
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    blink_comm_t *comm;
    config.op_timeout_ms = 1000 + (unsigned)p->rank;
    blink_result_t result = blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, &config, &comm);
    if (result != BLINK_ERR_MISMATCH && result != BLINK_ERR_TIMEOUT)
        fail(p, "%s: %s", blink_result_name(result), blink_last_error());
    if (result == BLINK_ERR_MISMATCH && !strstr(blink_last_error(), "ms"))
        fail(p, "%s", blink_last_error());
}

/* ---- bad arguments ---- */

static void play_bad_arguments(const player_t *p)
{
    int32_t *buffer = memory(p, 1000), bad_enum = 77;
    char *bytes = (char *)buffer;
    size_t huge = SIZE_MAX / 4, ranks = (size_t)p->rank_count;
    blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    blink_op_t *op;
    must_fail(p, blink_all_reduce(buffer, buffer, 1, (blink_datatype_t)bad_enum, BLINK_SUM, p->comm, &op),
              invalid, "77", "a datatype that is none");
    must_fail(p, blink_all_reduce(buffer, buffer, 1, BLINK_INT32, (blink_redop_t)bad_enum, p->comm, &op),
              invalid, "77", "an operator that is none");
    must_fail(p, blink_reduce(buffer, buffer, 1, BLINK_INT32, BLINK_SUM, -1, p->comm, &op), invalid, "-1",
              "root");
    must_fail(p, blink_send(buffer, 1, BLINK_INT32, p->rank_count, p->comm, &op), invalid, "peer", "peer");
    must_fail(p, blink_comm_shrink(p->comm, NULL, NULL), invalid, "shrunk is NULL", "no place for a handle");
    must_fail(p, blink_all_gather(bytes + 1, buffer, 1, BLINK_INT32, p->comm, &op), invalid, "align",
              "alignment");
    must_fail(p, blink_all_gather(buffer, buffer, huge, BLINK_INT64, p->comm, &op), invalid,
              "memory can hold", "overflow of the count");
    must_fail(p, blink_all_gather(buffer, buffer, SIZE_MAX / ranks / 4 + 1, BLINK_INT32, p->comm, &op),
              invalid, "memory can hold", "overflow by the ranks");
    must_fail(p, blink_all_reduce(buffer, buffer + 1, 10, BLINK_INT32, BLINK_SUM, p->comm, &op), invalid,
              "overlap", "overlap");
    must_fail(p, blink_all_to_all(buffer, buffer, 10, BLINK_INT32, p->comm, &op), invalid, "overlap",
              "in place");
    must_fail(p, blink_reduce_scatter(buffer, buffer + 1, 10, BLINK_INT32, BLINK_SUM, p->comm, &op), invalid,
              "overlap", "not the block of the rank");
    must_fail(p, blink_all_reduce(NULL, buffer, 10, BLINK_INT32, BLINK_SUM, p->comm, &op), invalid, "NULL",
              "NULL");
    must_fail(p, blink_all_reduce(buffer, buffer + 900, 200, BLINK_INT32, BLINK_SUM, p->comm, &op),
              BLINK_ERR_OUT_OF_RANGE, "past the end", "past its region");
    must(p, blink_all_reduce(buffer, buffer, 10, BLINK_INT32, BLINK_SUM, p->comm, &op), "all_reduce");
    must_wait(p, op, "the communicator works on");
}

/* The ranks call different things: each hears of both. */
static void play_different_collectives(const player_t *p)
{
    int32_t *buffer = memory(p, (size_t)p->rank_count * 8);
    blink_op_t *op;
    if (p->rank == 1)
        must(p, blink_all_gather(buffer + 8, buffer, 8, BLINK_INT32, p->comm, &op), "all_gather");
    else
        must(p, blink_all_reduce(buffer, buffer, 8, BLINK_INT32, BLINK_SUM, p->comm, &op), "all_reduce");
    must_fail(p, blink_wait(op), BLINK_ERR_MISMATCH, "allgather", "allgather and allreduce");
    must(p, blink_barrier(p->comm, &op), "barrier");
    must_wait(p, op, "the communicator works on");
}

/* What a newer program gives, and an older one: whose struct ends where the first version's did, and what is
 * behind it is not its own. */
typedef struct newer_config {
    blink_comm_config_t known;
    uint64_t unknown[4];
} newer_config_t;

static void join_by(const player_t *p, const blink_comm_config_t *config, const char *what)
{
    blink_comm_t *comm;
    blink_op_t *op;
    must(p, blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, config, &comm), what);
    must(p, blink_barrier(comm, &op), what);
    must_wait(p, op, what);
    must(p, blink_comm_destroy(comm), what);
}

static void play_older_and_newer_configs(const player_t *p)
{
    newer_config_t newer = {.known = BLINK_COMM_CONFIG_INIT};
    blink_comm_config_t older;
    blink_comm_t *comm;
    newer.known.struct_bytes = sizeof(newer);
    newer.known.device = p->rank;
    newer.unknown[3] = UINT64_C(7) << 56;
    must_fail(p, blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, &newer.known, &comm),
              BLINK_ERR_UNSUPPORTED, "is 7", "a newer program that asks for more than there is");
    newer.unknown[3] = 0;
    join_by(p, &newer.known, "a newer program");
    memset(&older, 0xff, sizeof(older));
    memcpy(&older, &newer.known, 24);
    older.struct_bytes = 24;
    join_by(p, &older, "an older program");
    older.struct_bytes = 16;
    must_fail(p, blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, &older, &comm),
              BLINK_ERR_INVALID_ARGUMENT, "struct_bytes is 16", "a struct that never was");
}

/* What failed first in the order of the caller is what is told, and nothing is left to be waited for. */
static void play_wait_all(const player_t *p)
{
    const size_t count = 64;
    int32_t *buffer = memory(p, count);
    blink_op_t *ops[4] = {NULL};
    must(p, blink_wait_all(ops, 4), "nothing to wait for");
    must(p, blink_wait_all(NULL, 0), "no ops");
    for (int i = 0; i < 4; i += 2)
        must(p, blink_all_reduce(buffer, buffer, count, BLINK_INT32, BLINK_SUM, p->comm, &ops[i]), "submit");
    must(p, blink_wait_all(ops, 4), "wait_all");
    for (int i = 0; i < 3; i++) {
        size_t own = i == 0 ? count : count - (size_t)p->rank; /* the ranks disagree on all but the first */
        must(p, blink_all_reduce(buffer, buffer, own - (i == 2), BLINK_INT32, BLINK_SUM, p->comm, &ops[i]),
             "submit");
    }
    must_fail(p, blink_wait_all(ops, 4), BLINK_ERR_MISMATCH, " 64", "the first failure");
    for (int i = 0; i < 4; i++) {
        if (ops[i])
            fail(p, "op %d is left", i);
    }
}

/* Rank 1 comes to no op until rank 0 has heard so, which is a time-out that it sets while it waits. */
static void play_set_timeout(const player_t *p)
{
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    blink_comm_t *comm, *split, *other;
    blink_op_t *op;
    config.op_timeout_ms = 1000 * 1000;
    must(p, blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, &config, &comm), "join");
    must(p, blink_comm_duplicate(comm, &other), "duplicate");
    must(p, blink_comm_set_timeout(comm, 2 * 1000 * 1000), "longer");
    must(p, blink_comm_split(comm, 0, p->rank, NULL, &split), "the ranks agree on what is inherited");
    if (p->rank == 0) {
        must(p, blink_barrier(comm, &op), "barrier");
        must_fail(p, blink_wait_for(&op, 1), BLINK_ERR_TIMEOUT, "not ended within 1 ms", "wait_for");
        must(p, blink_comm_set_timeout(comm, 20), "shorter");
        must_fail(p, blink_wait(op), BLINK_ERR_TIMEOUT, "no submission from rank 1 within 0.02 s", "barrier");
    }
    must(p, blink_barrier(other, &op), "barrier of another communicator");
    must_wait(p, op, "barrier of another communicator");
    must(p, blink_comm_set_timeout(split, 0), "the daemon's own");
    must(p, blink_barrier(split, &op), "barrier of the split one");
    must_wait(p, op, "barrier of the split one");
    must(p, blink_comm_destroy(split), "destroy");
    must(p, blink_comm_destroy(other), "destroy");
    must(p, blink_comm_destroy(comm), "destroy");
    must_fail(p, blink_comm_set_timeout(NULL, 1), BLINK_ERR_INVALID_ARGUMENT, "comm is NULL", "NULL");
}

/* Rank 1 comes to no transfer: it is the one that is named, whichever end is missing. */
static void play_unmatched_transfers(const player_t *p)
{
    static const char *const said[] = {"rank 0 sends to rank 1, and no receive came from rank 1 within ",
                                       "rank 0 receives from rank 1, and no send came from rank 1 within "};
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    blink_comm_t *comms[2];
    blink_op_t *op;
    int32_t *buffer = memory(p, 1);
    config.op_timeout_ms = limit_short_ms();
    for (int i = 0; i < 2; i++)
        must(p, blink_comm_split(p->comm, 0, p->rank, &config, &comms[i]), "split");
    for (int i = 0; i < 2 && p->rank == 0; i++) {
        must(p,
             i == 0 ? blink_send(buffer, 1, BLINK_INT32, 1, comms[i], &op)
                    : blink_recv(buffer, 1, BLINK_INT32, 1, comms[i], &op),
             "transfer");
        must_fail(p, blink_wait(op), BLINK_ERR_TIMEOUT, said[i], "transfer");
    }
    must(p, blink_barrier(p->comm, &op), "barrier");
    must_wait(p, op, "barrier");
    for (int i = 0; i < 2; i++)
        must(p, blink_comm_destroy(comms[i]), "destroy");
}

static void play_versions(const player_t *p)
{
    static const uint32_t element_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 0};
    const char *daemon;
    char header[32];
    snprintf(header, sizeof(header), "%d.%d.%d", BLINK_VERSION_MAJOR, BLINK_VERSION_MINOR,
             BLINK_VERSION_PATCH);
    must(p, blink_daemon_version(p->context, &daemon), "daemon_version");
    if (strcmp(daemon, header) != 0 || strcmp(blink_version(), header) != 0)
        fail(p, "header %s, library %s, daemon %s", header, blink_version(), daemon);
    if (blink_version_number() != BLINK_VERSION_NUMBER)
        fail(p, "header %d, library %d", BLINK_VERSION_NUMBER, blink_version_number());
    for (uint32_t i = 0; i < sizeof(element_bytes) / sizeof(element_bytes[0]); i++) {
        if (blink_datatype_bytes(i) != element_bytes[i])
            fail(p, "datatype %u has %u bytes", i, blink_datatype_bytes(i));
    }
}

static const scenario_t scenarios[] = {
    {"exchange", play_exchange, true},
    {"mixed-group", play_mixed_group, true},
    {"empty-group", play_empty_group, true},
    {"failed-group", play_failed_group, true},
    {"large-group", play_large_group, true},
    {"crossed-sends", play_crossed_sends, false},
    {"mismatched-transfer", play_mismatched_transfer, true},
    {"all-to-all-v", play_all_to_all_v, true},
    {"uneven-blocks", play_uneven_blocks, true},
    {"uneven-blocks-in-a-group", play_uneven_blocks_in_a_group, true},
    {"uneven-blocks-that-disagree", play_uneven_blocks_that_disagree, true},
    {"order", play_order, true},
    {"wait-any", play_wait_any, true},
    {"poll", play_poll, true},
    {"malloc", play_malloc, true},
    {"malloc-all-gather", play_malloc_all_gather, true},
    {"split", play_split, true},
    {"finalize", play_finalize, true},
    {"many-comms", play_many_comms, true},
    {"pre-mul-sum", play_pre_mul_sum, true},
    {"timeouts-differ", play_timeouts_differ, false},
    {"bad-arguments", play_bad_arguments, true},
    {"different-collectives", play_different_collectives, true},
    {"older-and-newer-configs", play_older_and_newer_configs, false},
    {"wait-all", play_wait_all, true},
    {"versions", play_versions, false},
    {"set-timeout", play_set_timeout, false},
    {"unmatched-transfers", play_unmatched_transfers, true},
};

const scenario_t *scenario_find(const char *name)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    }
    return NULL;
}
