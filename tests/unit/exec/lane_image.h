/*
 * Lane programs laid flat by the daemon, and launches of them on threads, for tests of the kernels on the
 * host. Every rank has a GPU of its own.
 */
#ifndef LANE_IMAGE_H
#define LANE_IMAGE_H

#include "exec/cuda/image.h"
#include "host_kernels.h"
#include "plan/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#define IMAGE_RANKS_MAX 8u

/* Lanes of rank r are those from lane_first[r] on. */
typedef struct lane_image {
    image_block_t program, binding;
    uint32_t lane_first[IMAGE_RANKS_MAX + 1];
} lane_image_t;

static void *image_alloc(size_t bytes)
{
    void *memory = aligned_alloc(128, (bytes + 255) / 128 * 128);
    assert_non_null(memory);
    memset(memory, 0, (bytes + 255) / 128 * 128);
    return memory;
}

static void image_init(const lane_geometry_t *geometry, lane_image_t *image)
{
    uint32_t rank_count = geometry->program->rank_count;
    uint32_t rank_gpu[IMAGE_RANKS_MAX], lane_count[IMAGE_RANKS_MAX];
    gpu_facts_t gpus[IMAGE_RANKS_MAX] = {0};
    image_slots_t slots;
    image_wires_t wires;
    cuda_reach_t reach;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        rank_gpu[rank] = rank;
        gpus[rank].peers = UINT32_MAX;
    }
    assert_int_equal(cuda_reach_init(geometry->program, gpus, rank_gpu, &reach), BLINK_OK);
    assert_int_equal(image_wires_init(geometry->program, &wires), BLINK_OK);
    assert_int_equal(image_program(geometry->program, &wires, &reach, rank_gpu, rank_count, image->lane_first,
                                   lane_count, &image->program),
                     BLINK_OK);
    image_wires_fini(&wires);
    image->lane_first[rank_count] = image->lane_first[rank_count - 1] + lane_count[rank_count - 1];
    assert_int_equal(image_binding(geometry, &reach, rank_gpu, rank_count, &slots, &image->binding),
                     BLINK_OK);
    cuda_reach_fini(&reach);
}

/* Where an edge's slots begin in its receiver's scratch. */
static uint64_t image_edge_offset(const lane_image_t *image, uint32_t edge)
{
    const char *base = image->binding.bytes;
    const lane_abi_binding_t *header = image->binding.bytes;
    const lane_abi_edge_t *edges = (const void *)(base + header->edges_offset);
    return edges[edge].scratch_offset;
}

static void image_fini(lane_image_t *image)
{
    free(image->program.bytes);
    free(image->binding.bytes);
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
