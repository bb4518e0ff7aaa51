/*
 * A worker with a program of two lanes made by hand, and runs of it, for the gpu.worker test.
 */
#ifndef WORKER_BENCH_H
#define WORKER_BENCH_H

#include "worker_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define ELEMENTS    4096u
#define BLOCK_BYTES (ELEMENTS * sizeof(float))
#define HALF_BYTES  (BLOCK_BYTES / 2)
#define CHUNK_BYTES 1024u

#define BENCH_MEMORY_BYTES 4096u

/* Two lanes of one step each: every lane has a channel with one part, half of the block. */
typedef struct program {
    lane_abi_program_t head;
    lane_abi_lane_t lanes[2];
    lane_abi_step_t steps[2];
    lane_abi_operand_t operands[4];
    lane_abi_wait_t waits[1];
    lane_abi_signal_t signals[1];
} program_t;

typedef struct binding {
    lane_abi_binding_t head;
    lane_abi_channel_t channels[2];
    lane_abi_part_t parts[2];
    lane_abi_edge_t edges[1];
} binding_t;

/* Both halves on both ranks: outputs = input 0 + input 1. */
static const program_t sum_program = {
    .head = {.independent = 1,
             .lane_count = 2,
             .step_count = 2,
             .operand_count = 4,
             .lanes_offset = offsetof(program_t, lanes),
             .steps_offset = offsetof(program_t, steps),
             .operands_offset = offsetof(program_t, operands),
             .waits_offset = offsetof(program_t, waits),
             .signals_offset = offsetof(program_t, signals)},
    .lanes = {{.channel = 0, .rank = 0, .step_count = 1},
              {.channel = 1, .rank = 1, .step_first = 1, .step_count = 1}},
    .steps = {{.part = 0, .src_count = 2, .dst_first = 2, .dst_count = 2, .completes = 1},
              {.part = 1, .src_count = 2, .dst_first = 2, .dst_count = 2, .completes = 1}},
    .operands = {{.buffer = LANE_ABI_INPUT, .rank = 0},
                 {.buffer = LANE_ABI_INPUT, .rank = 1},
                 {.buffer = LANE_ABI_OUTPUT, .rank = 0},
                 {.buffer = LANE_ABI_OUTPUT, .rank = 1}},
};

static const binding_t halves = {
    .head = {.slots = 1,
             .channel_count = 2,
             .part_count = 2,
             .edge_count = 1,
             .channels_offset = offsetof(binding_t, channels),
             .parts_offset = offsetof(binding_t, parts),
             .edges_offset = offsetof(binding_t, edges)},
    .channels = {{.chunk_bytes = CHUNK_BYTES, .chunks = HALF_BYTES / CHUNK_BYTES},
                 {.chunk_bytes = CHUNK_BYTES, .chunks = HALF_BYTES / CHUNK_BYTES}},
    .parts = {{.extent_bytes = HALF_BYTES, .siblings = 1},
              {.extent_begin = HALF_BYTES, .extent_bytes = HALF_BYTES, .siblings = 1}},
    .edges = {{.slot_bytes = CHUNK_BYTES}},
};

/* The same, but its first lane waits for a signal that nobody sends. */
static inline program_t waiting_program(void)
{
    program_t program = sum_program;
    program.head.independent = 0;
    program.head.wait_count = 1;
    program.steps[0].wait_count = 1;
    program.waits[0] = (lane_abi_wait_t){.semaphore = 0, .rank = 0, .kind = LANE_ABI_FULL};
    return program;
}

/* A worker with two GPUs, a rank's payload for each, a program and its binding on both. */
typedef struct bench {
    harness_t service;
    float *in[2], *out[2];
    uint64_t address[4]; /* of in, in, out, out */
    uint32_t program, binding, memory;
    uint64_t last_number;
} bench_t;

/* The objects are on all GPUs. */
static inline void bench_prepare(bench_t *bench, const program_t *program)
{
    const uint32_t gpus = (1u << bench->service.hello.gpu_count) - 1;
    uint64_t base, token;
    assert_string_equal(bench->service.hello.text, "");
    float *memory = harness_map_host(&bench->service, 4 * BLOCK_BYTES, &base, &token);
    for (unsigned i = 0; i < 2; i++) {
        bench->in[i] = memory + (size_t)i * ELEMENTS;
        bench->out[i] = memory + (size_t)(2 + i) * ELEMENTS;
        for (unsigned k = 0; k < ELEMENTS; k++)
            bench->in[i][k] = (float)(k * (i + 1));
    }
    for (unsigned i = 0; i < 4; i++)
        bench->address[i] = base + i * BLOCK_BYTES;
    bench->program = harness_object(&bench->service, program, sizeof(*program), gpus);
    bench->binding = harness_object(&bench->service, &halves, sizeof(halves), gpus);
    bench->memory = harness_object(&bench->service, NULL, BENCH_MEMORY_BYTES, gpus);
    bench->last_number = 0;
}

static inline void bench_open(bench_t *bench, const program_t *program, const char *const *environment)
{
    harness_start(&bench->service, (gpu_start_t){0}, environment);
    assert_int_equal(bench->service.hello.gpu_count, 2);
    bench_prepare(bench, program);
}

/* A run of both lanes on GPU 0, to be changed and submitted. */
static inline gpu_run_t *bench_run(bench_t *bench)
{
    gpu_run_t *run = harness_place(&bench->service, sizeof(*run) + 8 * sizeof(run->copies[0]));
    *run = (gpu_run_t){
        .kernel = "blink_lanes_float32_sum",
        .program = bench->program,
        .binding = bench->binding,
        .memory = bench->memory,
        .semaphores_offset = 2048,
        .launch_count = 1,
        .launches = {{.gpu = 0, .lane_first = 0, .lane_count = 2, .blocks = 2}},
        .rank_count = 2,
        .rank_gpu = {0, 1},
        .run = {.number = ++bench->last_number,
                .semaphore_base = bench->last_number * 1000,
                .epoch_base = bench->last_number * 1000,
                .wait_limit_ns = UINT64_C(60000000000),
                .divisor = 1},
    };
    for (unsigned i = 0; i < 2; i++) {
        run->ranks[i].input = bench->address[i];
        run->ranks[i].output = bench->address[2 + i];
    }
    return run;
}

/* One lane on each GPU, that wait for one another as far as the worker knows. */
static inline gpu_run_t *bench_pair_run(bench_t *bench)
{
    gpu_run_t *run = bench_run(bench);
    run->cooperative = 1;
    run->launch_count = 2;
    run->launches[0] = (gpu_launch_t){.gpu = 0, .lane_first = 0, .lane_count = 1, .blocks = 1};
    run->launches[1] = (gpu_launch_t){.gpu = 1, .lane_first = 1, .lane_count = 1, .blocks = 1};
    return run;
}

static inline ring_sqe_t run_sqe(const gpu_run_t *run)
{
    return (ring_sqe_t){.opcode = GPU_RUN, .count = sizeof(*run) + run->copy_count * sizeof(run->copies[0])};
}

static inline blink_result_t bench_do(bench_t *bench, const gpu_run_t *run)
{
    return harness_do(&bench->service, run_sqe(run), run);
}

static inline void assert_sums(const bench_t *bench)
{
    for (unsigned k = 0; k < ELEMENTS; k++) {
        assert_true(bench->out[0][k] == (float)(3 * k));
        assert_true(bench->out[1][k] == (float)(3 * k));
    }
}

static const char *const two_gpus[] = {"STANDIN_CUDA_GPUS=2", NULL};

static inline void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

#endif
