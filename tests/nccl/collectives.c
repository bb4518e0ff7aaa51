/* Results of collectives, of groups and of operators. */
#include "player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- elements of any type ---- */

static void put(void *values, size_t i, blink_datatype_t type, int64_t value)
{
    switch (type) {
    case BLINK_UINT8:
        ((uint8_t *)values)[i] = (uint8_t)value;
        return;
    case BLINK_FLOAT32:
        ((float *)values)[i] = (float)value;
        return;
    default:
        ((int32_t *)values)[i] = (int32_t)value;
    }
}

/* What rank `rank` gives as its element i. */
static int64_t given(int rank, size_t i)
{
    return rank + 1 + (int64_t)(i % 3);
}

static int64_t combined(int rank_count, size_t i, blink_redop_t redop)
{
    int64_t value = given(0, i);
    for (int rank = 1; rank < rank_count; rank++) {
        int64_t other = given(rank, i);
        value = redop == BLINK_PROD  ? value * other
                : redop == BLINK_MAX ? (value > other ? value : other)
                : redop == BLINK_MIN ? (value < other ? value : other)
                                     : value + other;
    }
    return value;
}

/* The average of four ranks is exact in floats. */
static void put_combined(void *values, size_t i, blink_datatype_t type, blink_redop_t redop, int rank_count,
                         size_t element)
{
    int64_t value = combined(rank_count, element, redop);
    if (redop == BLINK_AVG && type == BLINK_FLOAT32)
        ((float *)values)[i] = (float)value / (float)rank_count;
    else
        put(values, i, type, redop == BLINK_AVG ? value / rank_count : value);
}

/* Two buffers of a block for each rank, on the GPU, and what the second is to hold. */
typedef struct round {
    player_t *p;
    blink_datatype_t type;
    size_t bytes; /* of a block */
    char *send, *recv, *expected, *found;
    char what[64];
} round_t;

/* `send` has this rank's elements in every block, one after the other. */
static void begin(round_t *r)
{
    size_t blocks = (size_t)r->p->rank_count;
    for (size_t i = 0; i < blocks * COUNT; i++)
        put(r->found, i, r->type, given(r->p->rank, i));
    write_to(r->p, r->send, r->found, blocks * r->bytes);
}

static void check(round_t *r, const char *what, const char *memory, size_t bytes)
{
    synchronize(r->p);
    read_from(r->p, r->found, memory, bytes);
    if (memcmp(r->found, r->expected, bytes) != 0)
        fail(r->p, "%s of type %d: a wrong result", what, (int)r->type);
}

static void reductions(round_t *r, blink_redop_t redop)
{
    player_t *p = r->p;
    size_t rank = (size_t)p->rank;
    for (size_t i = 0; i < COUNT; i++)
        put_combined(r->expected, i, r->type, redop, p->rank_count, i);
    begin(r);
    must(p, ncclAllReduce(r->send, r->recv, COUNT, r->type, redop, p->comm, p->stream), "ncclAllReduce");
    check(r, "ncclAllReduce", r->recv, r->bytes);
    must(p, ncclReduce(r->send, r->recv, COUNT, r->type, redop, 1, p->comm, p->stream), "ncclReduce");
    check(r, "ncclReduce", r->recv, p->rank == 1 ? r->bytes : 0);
    must(p, ncclAllReduce(r->send, r->send, COUNT, r->type, redop, p->comm, p->stream), "in place");
    check(r, "ncclAllReduce in place", r->send, r->bytes);
    begin(r);
    for (size_t i = 0; i < COUNT; i++)
        put_combined(r->expected, i, r->type, redop, p->rank_count, rank * COUNT + i);
    must(p, ncclReduceScatter(r->send, r->recv, COUNT, r->type, redop, p->comm, p->stream),
         "ncclReduceScatter");
    check(r, "ncclReduceScatter", r->recv, r->bytes);
    must(p, ncclReduceScatter(r->send, r->send + rank * r->bytes, COUNT, r->type, redop, p->comm, p->stream),
         "ncclReduceScatter in place");
    check(r, "ncclReduceScatter in place", r->send + rank * r->bytes, r->bytes);
}

/* Block b of what is expected: the first block of rank b, or this rank's block of it. */
static void expect_blocks(round_t *r, size_t first)
{
    for (size_t i = 0; i < (size_t)r->p->rank_count * COUNT; i++)
        put(r->expected, i, r->type, given((int)(i / COUNT), first + i % COUNT));
}

static void moves(round_t *r)
{
    player_t *p = r->p;
    size_t rank = (size_t)p->rank, all = (size_t)p->rank_count * r->bytes;
    begin(r);
    expect_blocks(r, 0);
    must(p, ncclAllGather(r->send, r->recv, COUNT, r->type, p->comm, p->stream), "ncclAllGather");
    check(r, "ncclAllGather", r->recv, all);
    must(p, ncclGather(r->send, r->recv, COUNT, r->type, 0, p->comm, p->stream), "ncclGather");
    check(r, "ncclGather", r->recv, p->rank == 0 ? all : 0);
    expect_blocks(r, rank * COUNT);
    must(p, ncclAlltoAll(r->send, r->recv, COUNT, r->type, p->comm, p->stream), "ncclAlltoAll");
    check(r, "ncclAlltoAll", r->recv, all);
    for (size_t i = 0; i < COUNT; i++)
        put(r->expected, i, r->type, given(2, rank * COUNT + i));
    must(p, ncclScatter(r->send, r->recv, COUNT, r->type, 2, p->comm, p->stream), "ncclScatter");
    check(r, "ncclScatter", r->recv, r->bytes);
    for (size_t i = 0; i < COUNT; i++)
        put(r->expected, i, r->type, given(3, i));
    must(p, ncclBroadcast(r->send, r->recv, COUNT, r->type, 3, p->comm, p->stream), "ncclBroadcast");
    check(r, "ncclBroadcast", r->recv, r->bytes);
    must(p, ncclBcast(r->send, COUNT, r->type, 3, p->comm, p->stream), "ncclBcast");
    check(r, "ncclBcast", r->send, r->bytes);
}

/* Every operator and every move of one type, and some of others. */
void play_collectives(player_t *p)
{
    static const blink_datatype_t types[] = {BLINK_INT32, BLINK_FLOAT32, BLINK_UINT8};
    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
        bool all_of_them = types[t] == BLINK_INT32;
        size_t bytes = COUNT * blink_datatype_bytes(types[t]), all = (size_t)p->rank_count * bytes;
        round_t r = {.p = p,
                     .type = types[t],
                     .bytes = bytes,
                     .send = device_memory(p, all),
                     .recv = device_memory(p, all),
                     .expected = malloc(all),
                     .found = malloc(all)};
        for (int redop = BLINK_SUM; all_of_them && redop < BLINK_AVG; redop++)
            reductions(&r, (blink_redop_t)redop);
        if (types[t] != BLINK_UINT8)
            reductions(&r, BLINK_AVG);
        if (types[t] != BLINK_FLOAT32)
            moves(&r);
        free_memory(p, r.send);
        free_memory(p, r.recv);
        free(r.expected);
        free(r.found);
    }
}

/* ---- groups ---- */

static void must_hold(const player_t *p, const void *memory, size_t count, int32_t expected, const char *what)
{
    int32_t values[COUNT];
    synchronize(p);
    read_from(p, values, memory, count * sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        if (values[i] != expected)
            fail(p, "%s: element %zu is %d, not %d", what, i, values[i], expected);
    }
}

static void fill(const player_t *p, void *memory, int32_t value)
{
    int32_t values[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        values[i] = value;
    write_to(p, memory, values, sizeof(values));
}

/* A ring, which only a group keeps from waiting for itself, with collectives in it. */
static void exchange(player_t *p, void *send, void *recv, void *sum)
{
    int next = (p->rank + 1) % p->rank_count, before = (p->rank + p->rank_count - 1) % p->rank_count;
    fill(p, send, p->rank);
    fill(p, sum, 1);
    must(p, ncclGroupStart(), "ncclGroupStart");
    must(p, ncclSend(send, COUNT, BLINK_INT32, next, p->comm, p->stream), "ncclSend");
    must(p, ncclGroupStart(), "an inner ncclGroupStart");
    must(p, ncclRecv(recv, COUNT, BLINK_INT32, before, p->comm, p->stream), "ncclRecv");
    must(p, ncclGroupEnd(), "an inner ncclGroupEnd");
    must(p, ncclAllReduce(sum, sum, COUNT, BLINK_INT32, BLINK_SUM, p->comm, p->stream), "in a group");
    must(p, ncclGroupEnd(), "ncclGroupEnd");
    must_hold(p, recv, COUNT, before, "a ring");
    must_hold(p, sum, COUNT, p->rank_count, "a sum in a group");
}

void play_groups(player_t *p)
{
    void *send = device_memory(p, COUNT * 4), *recv = device_memory(p, COUNT * 4),
         *sum = device_memory(p, COUNT * 4);
    exchange(p, send, recv, sum);
    must(p, ncclGroupStart(), "ncclGroupStart");
    must(p, ncclAllReduce(sum, sum, COUNT, BLINK_INT32, BLINK_SUM, p->comm, p->stream), "in a group");
    must_fail(p, ncclAllReduce(sum, sum, COUNT, BLINK_INT32, BLINK_SUM, NULL, p->stream),
              ABI_INVALID_ARGUMENT, "comm is NULL", "without a communicator");
    must_fail(p, ncclGroupEnd(), ABI_INVALID_ARGUMENT, "comm is NULL", "a group that has failed");
    must_hold(p, sum, COUNT, p->rank_count, "what a group that failed has left alone");
    must(p, ncclGroupStart(), "ncclGroupStart");
    must_fail(p, ncclBroadcast(sum, sum, COUNT, BLINK_INT32, 99, p->comm, p->stream), ABI_INVALID_ARGUMENT,
              "99", "a root that is none");
    must_fail(p, ncclGroupEnd(), ABI_INVALID_ARGUMENT, "99", "a group that has failed");
    must_fail(p, ncclGroupEnd(), ABI_INVALID_USAGE, "no group", "an end too many");
    must(p, ncclGroupStart(), "ncclGroupStart");
    must(p, ncclGroupEnd(), "an empty group");
    exchange(p, send, recv, sum);
    free_memory(p, send);
    free_memory(p, recv);
    free_memory(p, sum);
}

/* ---- operators ---- */

static void scaled(player_t *p, void *memory, blink_redop_t redop, int32_t expected, const char *what)
{
    fill(p, memory, 1);
    must(p, ncclAllReduce(memory, memory, COUNT, BLINK_INT32, redop, p->comm, p->stream), what);
    must_hold(p, memory, COUNT, expected, what);
}

/* The scalar is read when a collective comes to it, and a group keeps what was read. */
static void on_the_gpu(player_t *p, void *memory, void *scalar, int32_t sum)
{
    blink_redop_t redop;
    int32_t value = p->rank + 1;
    write_to(p, scalar, &value, sizeof(value));
    must(p, ncclRedOpCreatePreMulSum(&redop, scalar, BLINK_INT32, ABI_SCALAR_DEVICE, p->comm), "create");
    scaled(p, memory, redop, sum, "a scalar on the GPU");
    value *= 2;
    write_to(p, scalar, &value, sizeof(value));
    fill(p, memory, 1);
    must(p, ncclGroupStart(), "ncclGroupStart");
    must(p, ncclAllReduce(memory, memory, COUNT, BLINK_INT32, redop, p->comm, p->stream), "in a group");
    must(p, ncclGroupEnd(), "ncclGroupEnd");
    must_hold(p, memory, COUNT, 2 * sum, "another scalar on the GPU");
    must(p, ncclRedOpDestroy(redop, p->comm), "destroy");
    must_fail(p, ncclAllReduce(memory, memory, COUNT, BLINK_INT32, redop, p->comm, p->stream),
              ABI_INVALID_ARGUMENT, "operator", "an operator that was destroyed");
}

void play_operators(player_t *p)
{
    void *memory = device_memory(p, COUNT * 4), *scalar = device_memory(p, sizeof(int32_t));
    int32_t value = p->rank + 1, sum = p->rank_count * (p->rank_count + 1) / 2;
    blink_redop_t redop;
    must(p, ncclRedOpCreatePreMulSum(&redop, &value, BLINK_INT32, ABI_SCALAR_HOST, p->comm), "create");
    value = 99;
    scaled(p, memory, redop, sum, "a scalar of the host");
    must(p, ncclRedOpDestroy(redop, p->comm), "destroy");
    on_the_gpu(p, memory, scalar, sum);
    must_fail(p, ncclRedOpCreatePreMulSum(&redop, scalar, BLINK_INT32, (abi_residence_t)7, p->comm),
              ABI_INVALID_ARGUMENT, "residence 7", "a residence that is none");
    free_memory(p, memory);
    free_memory(p, scalar);
}
