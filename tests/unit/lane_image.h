/*
 * Lane programs laid flat as kernels read them, and launches of them on threads, for tests of the kernels on the host. Every
 * rank has a GPU of its own.
 */
#ifndef LANE_IMAGE_H
#define LANE_IMAGE_H

#include "host_kernels.h"
#include "plan/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#define IMAGE_RANKS_MAX 8u

/* Lanes stand in the order of their ranks; those of rank r from lane_first[r] on. */
typedef struct lane_image {
    char *program, *binding;
    uint32_t lane_first[IMAGE_RANKS_MAX + 1];
} lane_image_t;

static void *image_alloc(size_t bytes)
{
    void *memory = aligned_alloc(128, (bytes + 255) / 128 * 128);
    assert_non_null(memory);
    memset(memory, 0, (bytes + 255) / 128 * 128);
    return memory;
}

/* ---- programs ---- */

static void image_put_lanes(const lane_program_t *program, lane_image_t *image, lane_abi_lane_t *lanes)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < program->rank_count; rank++) {
        image->lane_first[rank] = count;
        for (uint32_t l = 0; l < program->lane_count; l++) {
            const lane_t *lane = &program->lanes[l];
            if (lane->rank == rank)
                lanes[count++] =
                    (lane_abi_lane_t){lane->channel, lane->rank, lane->step_first, lane->step_count};
        }
    }
    image->lane_first[program->rank_count] = count;
}

static uint32_t image_waiter(const lane_program_t *program, uint32_t semaphore)
{
    for (uint32_t l = 0; l < program->lane_count; l++) {
        for (uint32_t s = 0; s < program->lanes[l].step_count; s++) {
            const lane_step_t *step = &program->steps[program->lanes[l].step_first + s];
            for (uint32_t w = 0; w < step->wait_count; w++) {
                if (program->waits[step->wait_first + w].semaphore == semaphore)
                    return program->lanes[l].rank;
            }
        }
    }
    return 0;
}

static void image_put_step(const lane_program_t *program, const lane_t *lane, const lane_step_t *step,
                           lane_abi_step_t *to, lane_abi_wait_t *waits)
{
    *to = (lane_abi_step_t){program->channels[lane->channel].part_first + step->part,
                            step->src_first,
                            step->src_count,
                            step->dst_first,
                            step->dst_count,
                            step->wait_first,
                            step->wait_count,
                            step->signal_first,
                            step->signal_count,
                            step->completes};
    for (uint32_t w = step->wait_first; w < step->wait_first + step->wait_count; w++)
        waits[w] = (lane_abi_wait_t){program->waits[w].semaphore, lane->rank, program->waits[w].kind};
}

static void image_put_program(const lane_program_t *program, lane_image_t *image)
{
    lane_abi_program_t header = {
        .protocol = program->protocol,
        .independent = program->independent,
        .lane_count = program->lane_count,
        .step_count = program->step_count,
        .operand_count = program->operand_count,
        .wait_count = program->wait_count,
        .signal_count = program->signal_count,
    };
    header.lanes_offset = sizeof(header);
    header.steps_offset = header.lanes_offset + header.lane_count * (uint32_t)sizeof(lane_abi_lane_t);
    header.operands_offset = header.steps_offset + header.step_count * (uint32_t)sizeof(lane_abi_step_t);
    header.waits_offset =
        header.operands_offset + header.operand_count * (uint32_t)sizeof(lane_abi_operand_t);
    header.signals_offset = header.waits_offset + header.wait_count * (uint32_t)sizeof(lane_abi_wait_t);
    image->program =
        image_alloc(header.signals_offset + header.signal_count * (uint32_t)sizeof(lane_abi_signal_t));
    memcpy(image->program, &header, sizeof(header));
    image_put_lanes(program, image, (lane_abi_lane_t *)(void *)(image->program + header.lanes_offset));
    lane_abi_step_t *steps = (void *)(image->program + header.steps_offset);
    lane_abi_wait_t *waits = (void *)(image->program + header.waits_offset);
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++)
            image_put_step(program, lane, &program->steps[s], &steps[s], waits);
    }
    lane_abi_operand_t *operands = (void *)(image->program + header.operands_offset);
    for (uint32_t i = 0; i < program->operand_count; i++)
        operands[i] = (lane_abi_operand_t){program->operands[i].buffer, program->operands[i].rank,
                                           program->operands[i].edge};
    lane_abi_signal_t *signals = (void *)(image->program + header.signals_offset);
    for (uint32_t i = 0; i < program->signal_count; i++)
        signals[i] = (lane_abi_signal_t){program->signals[i].semaphore,
                                         image_waiter(program, program->signals[i].semaphore),
                                         program->signals[i].dst != PLAN_NONE};
}

/* ---- bindings ---- */

/* What lane_span() gives for all chunks together, as the extent is not told. */
static lane_abi_part_t image_part(const lane_geometry_t *geometry, uint32_t channel, uint32_t part)
{
    const lane_program_t *program = geometry->program;
    uint32_t first = program->channels[channel].part_first;
    const lane_part_t *from = &program->parts[first + part];
    lane_abi_part_t to = {.in_block = from->in_block,
                          .out_block = from->out_block,
                          .ordinal = from->ordinal,
                          .siblings = from->siblings};
    to.extent_begin = UINT64_MAX;
    for (uint32_t p = 0; p < program->channels[channel].part_count; p++) {
        if (program->parts[first + p].block != from->block)
            continue;
        for (uint32_t chunk = 0; chunk < geometry->channels[channel].chunks; chunk++) {
            lane_span_t span = lane_span(geometry, channel, p, chunk);
            if (span.bytes > 0 && span.offset_bytes < to.extent_begin)
                to.extent_begin = span.offset_bytes;
            to.extent_bytes += span.bytes;
        }
    }
    return to;
}

static void image_put_binding(const lane_geometry_t *geometry, lane_image_t *image)
{
    const lane_program_t *program = geometry->program;
    lane_abi_binding_t header = {.slots = geometry->slots,
                                 .channel_count = program->channel_count,
                                 .part_count = program->part_count,
                                 .edge_count = program->edge_count};
    header.channels_offset = sizeof(header);
    header.parts_offset =
        header.channels_offset + header.channel_count * (uint32_t)sizeof(lane_abi_channel_t);
    header.edges_offset = header.parts_offset + header.part_count * (uint32_t)sizeof(lane_abi_part_t);
    image->binding =
        image_alloc(header.edges_offset + header.edge_count * (uint32_t)sizeof(lane_abi_edge_t));
    memcpy(image->binding, &header, sizeof(header));
    lane_abi_channel_t *channels = (void *)(image->binding + header.channels_offset);
    lane_abi_part_t *parts = (void *)(image->binding + header.parts_offset);
    lane_abi_edge_t *edges = (void *)(image->binding + header.edges_offset);
    for (uint32_t c = 0; c < program->channel_count; c++) {
        const lane_channel_t *channel = &program->channels[c];
        const struct lane_cut *cut = &geometry->channels[c];
        channels[c] = (lane_abi_channel_t){.chunk_bytes = cut->chunk_bytes, .chunks = cut->chunks};
        for (uint32_t p = 0; p < channel->part_count; p++)
            parts[channel->part_first + p] = image_part(geometry, c, p);
        for (uint32_t e = channel->edge_first; e < channel->edge_first + channel->edge_count; e++)
            edges[e] = (lane_abi_edge_t){lane_scratch_offset(geometry, c, e, 0), cut->slot_bytes};
    }
}

static void image_init(const lane_geometry_t *geometry, lane_image_t *image)
{
    *image = (lane_image_t){0};
    image_put_program(geometry->program, image);
    image_put_binding(geometry, image);
}

static void image_fini(lane_image_t *image)
{
    free(image->program);
    free(image->binding);
}

/* ---- launches ---- */

/* A kernel's run on one GPU. */
typedef struct launch {
    lane_abi_control_t control;
    lane_abi_run_t run;
    host_kernel_t *kernel;
    uint32_t blocks_left, block_count;
    pthread_t *threads;
    struct launch_block {
        const struct launch *launch;
        uint32_t block;
    } * blocks;
} launch_t;

static void *launch_thread(void *argument)
{
    const struct launch_block *block = argument;
    block->launch->kernel(&block->launch->run, block->block, block->launch->block_count);
    return NULL;
}

/* run, kernel and block_count are set. */
static void launch_begin(launch_t *launch)
{
    launch->run.control = (uint64_t)(uintptr_t)&launch->control;
    launch->run.blocks_left = (uint64_t)(uintptr_t)&launch->blocks_left;
    launch->threads = calloc(launch->block_count, sizeof(*launch->threads));
    launch->blocks = calloc(launch->block_count, sizeof(*launch->blocks));
    for (uint32_t b = 0; b < launch->block_count; b++) {
        launch->blocks[b] = (struct launch_block){launch, b};
        assert_int_equal(pthread_create(&launch->threads[b], NULL, launch_thread, &launch->blocks[b]), 0);
    }
}

/* The run has ended as its contract says; whether a wait met its deadline. */
static bool launch_end(launch_t *launch)
{
    for (uint32_t b = 0; b < launch->block_count; b++)
        pthread_join(launch->threads[b], NULL);
    assert_int_equal(launch->control.finished, launch->run.number);
    assert_int_equal(launch->blocks_left, 0);
    free(launch->threads);
    free(launch->blocks);
    return launch->control.failed != 0;
}

#endif
