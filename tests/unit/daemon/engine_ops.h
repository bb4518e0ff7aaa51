/*
 * Ops of all ranks of the engines in one process: what ranks give, submit and find.
 */
#ifndef ENGINE_OPS_H
#define ENGINE_OPS_H

#include "collective.h"
#include "engines.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct shape {
    const char *name;
    uint32_t ranks[HOSTS_MOST], hosts;
} shapes[] = {
    {"2x1", {1, 1}, 2}, {"2x2", {2, 2}, 2}, {"3x1", {1, 1, 1}, 3}, {"hosts of 3, 1 and 2", {3, 1, 2}, 3}};

/* What all ranks submit, as far as they agree. */
typedef struct test_op {
    uint8_t opcode; /* of a transfer SEND */
    uint32_t root;  /* of a transfer the source, */
    uint32_t peer;  /* and its destination */
    uint64_t count;
    bool in_place;
    uint64_t offset_bytes; /* of what it takes and gives, in both halves */
    uint8_t redop;
} test_op_t;

/* ---- what is in memory ---- */

/* Small whole numbers, so that sums are exact in any order. */
static inline float given(uint32_t rank, uint64_t element)
{
    return (float)((rank + 1) * (element % 97 + 1) + element % 5);
}

static inline bool is_at(const test_op_t *op, uint32_t rank, bool output)
{
    return rank == (op->opcode == RING_OP_SEND && output ? op->peer : op->root);
}

static inline uint32_t blocks_of(const engines_t *engines, const test_op_t *op, uint32_t rank, bool output)
{
    blink_collective_t collective = collective_of_opcode(op->opcode);
    return output ? collective_output_blocks(collective, engines->rank_count, is_at(op, rank, output))
                  : collective_input_blocks(collective, engines->rank_count, is_at(op, rank, output));
}

/* In place the smaller buffer is the rank's block of the larger one. */
static inline uint64_t offset_of(const engines_t *engines, const test_op_t *op, uint32_t rank, bool output)
{
    uint32_t in = blocks_of(engines, op, rank, false), out = blocks_of(engines, op, rank, true);
    uint64_t own = rank * op->count * sizeof(float);
    if (!op->in_place)
        return op->offset_bytes + (output ? HALF_BYTES : 0);
    return output ? (out < in ? own : 0) : in < out ? own : 0;
}

static inline void fill(engines_t *engines, const test_op_t *op)
{
    for (uint32_t r = 0; r < engines->rank_count; r++) {
        char *client = engines->ranks[r].memory.client;
        float *memory = (float *)(void *)(client + op->offset_bytes);
        /* All that the op may touch, and one element more. */
        size_t touched = op->count * engines->rank_count + 1;
        for (size_t i = 0; i < touched && i < HALF_BYTES / sizeof(float); i++)
            memory[i] = memory[HALF_BYTES / sizeof(float) + i] = -1;
        float *input = (float *)(void *)(client + offset_of(engines, op, r, false));
        for (uint64_t i = 0; i < blocks_of(engines, op, r, false) * op->count; i++)
            input[i] = given(r, i);
    }
}

static inline float sum_of(const engines_t *engines, uint64_t element)
{
    float sum = 0;
    for (uint32_t r = 0; r < engines->rank_count; r++)
        sum += given(r, element);
    return sum;
}

/* An element of a block of a rank's output. */
static inline float expected(const engines_t *engines, const test_op_t *op, uint32_t rank, uint32_t block,
                             uint64_t i)
{
    switch (op->opcode) {
    case RING_OP_ALLREDUCE:
    case RING_OP_REDUCE:
        return sum_of(engines, i);
    case RING_OP_REDUCESCATTER:
        return sum_of(engines, rank * op->count + i);
    case RING_OP_ALLGATHER:
    case RING_OP_GATHER:
        return given(block, i);
    case RING_OP_SCATTER:
        return given(op->root, rank * op->count + i);
    case RING_OP_ALLTOALL:
        return given(block, rank * op->count + i);
    default:
        return given(op->root, i);
    }
}

static inline void check_rank(const engines_t *engines, const test_op_t *op, uint32_t rank)
{
    const float *output = (const float *)(const void *)(engines->ranks[rank].memory.client +
                                                        offset_of(engines, op, rank, true));
    uint32_t blocks = blocks_of(engines, op, rank, true);
    for (uint32_t block = 0; block < blocks; block++)
        for (uint64_t i = 0; i < op->count; i++)
            if (output[block * op->count + i] != expected(engines, op, rank, block, i))
                fail_msg("opcode %u of %llu elements: rank %u has %g at %llu of block %u, not %g", op->opcode,
                         (unsigned long long)op->count, rank, (double)output[block * op->count + i],
                         (unsigned long long)i, block, (double)expected(engines, op, rank, block, i));
    if (!op->in_place && blocks * op->count * sizeof(float) < HALF_BYTES)
        assert_true(output[blocks * op->count] == -1);
}

/* ---- submissions ---- */

static inline ring_sqe_t sqe_of(const engines_t *engines, const test_comm_t *comm, const test_op_t *op,
                                uint32_t rank)
{
    return (ring_sqe_t){.opcode = op->opcode,
                        .datatype = BLINK_FLOAT32,
                        .redop = op->redop,
                        .member = comm->number * MEMBERS_OF_COMM + rank,
                        .root = op->root,
                        .in_region = REGION,
                        .out_region = REGION,
                        .count = op->count,
                        .in_offset_bytes = offset_of(engines, op, rank, false),
                        .out_offset_bytes = offset_of(engines, op, rank, true),
                        .user_data = comm->number};
}

static inline void submit(engines_t *engines, const test_comm_t *comm, const test_op_t *op, uint32_t rank)
{
    ring_sqe_t sqe = sqe_of(engines, comm, op, rank);
    if (op->opcode == RING_OP_SEND) {
        sqe.opcode = rank == op->root ? RING_OP_SEND : RING_OP_RECV;
        sqe.root = rank == op->root ? op->peer : op->root;
    }
    rank_submit(&engines->ranks[rank], &sqe);
}

static inline bool takes_part(const test_op_t *op, uint32_t rank)
{
    return op->opcode != RING_OP_SEND || rank == op->root || rank == op->peer;
}

static inline void assert_ok(const ring_cqe_t *cqe)
{
    if (cqe->result != BLINK_OK)
        fail_msg("%s", cqe->text);
}

/* All ranks submit it, and find what they should. */
static inline void run(engines_t *engines, const test_comm_t *comm, const test_op_t *op)
{
    fill(engines, op);
    for (uint32_t r = 0; r < engines->rank_count; r++)
        if (takes_part(op, r))
            submit(engines, comm, op, r);
    for (uint32_t r = 0; r < engines->rank_count; r++) {
        if (!takes_part(op, r))
            continue;
        ring_cqe_t cqe = rank_await(engines, r);
        assert_ok(&cqe);
        check_rank(engines, op, r);
    }
}

static const test_op_t small = {.opcode = RING_OP_ALLREDUCE, .count = 100};

static inline void run_many(engines_t *engines, const test_comm_t *comm, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        run(engines, comm, &small);
}

/* The next completion of every rank from this one on says that, and has these words in its text. */
static inline void assert_fail_from(engines_t *engines, uint32_t first, blink_result_t code, const char *word,
                                    const char *other)
{
    for (uint32_t r = first; r < engines->rank_count; r++) {
        ring_cqe_t cqe = rank_await(engines, r);
        if (cqe.result != (uint32_t)code || !strstr(cqe.text, word) || !strstr(cqe.text, other))
            fail_msg("rank %u: %u, \"%s\"; not %u with \"%s\" and \"%s\"", r, cqe.result, cqe.text, code,
                     word, other);
    }
}

static inline void assert_all_fail(engines_t *engines, blink_result_t code, const char *word,
                                   const char *other)
{
    assert_fail_from(engines, 0, code, word, other);
}

#endif
