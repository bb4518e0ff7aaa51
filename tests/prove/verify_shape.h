/*
 * The static half of lane_verify(): what can be said of a lane program without running it. Checks every index
 * and rule of plan/lane/lane.h that one look at the pools decides, and notes who stands at the ends of
 * semaphores and edges.
 */
#ifndef BLINK_VERIFY_SHAPE_H
#define BLINK_VERIFY_SHAPE_H

#include "plan/lane/lane.h"

/* The one step that signals, or the one that waits for, a semaphore. */
typedef struct verify_end {
    uint32_t lane; /* PLAN_NONE: nobody does */
    uint32_t step; /* in the program */
    uint32_t kind; /* of a waiter: lane_wait_kind_t */
} verify_end_t;

typedef struct verify_edge {
    uint32_t channel; /* of its writer; PLAN_NONE: nobody writes it */
    uint32_t rank;    /* whose memory the slots are */
    uint32_t buffer;  /* lane_buffer_t */
    uint32_t ordinal; /* among the edges of its channel */
} verify_edge_t;

typedef struct verify_shape {
    verify_end_t *writers, *waiters; /* per semaphore */
    verify_edge_t *edges;            /* per edge with scratch, then per landing edge */
    uint32_t *channel_edges;         /* per channel: how many edges it has */
} verify_shape_t;

/* Check and note. Channels must not share steps, semaphores or edges, so each can be run on its own. A
 * semaphore may lack an end here; see verify_shape_check_ends(). On failure shape is empty. Errors: INTERNAL,
 * NO_MEMORY. */
blink_result_t verify_shape_init(const lane_program_t *program, verify_shape_t *shape);
void verify_shape_fini(verify_shape_t *shape);

/* Every semaphore has a writer and a waiter, which agree on what it announces. Apart from the rest because a
 * run explains better what a missing or wrong one breaks. Errors: INTERNAL. */
blink_result_t verify_shape_check_ends(const lane_program_t *program, verify_shape_t *shape);

/* Which of verify_shape_t's edges an operand names; it must be one in slots. */
uint32_t verify_edge_of(const lane_program_t *program, const lane_operand_t *operand);

/* "up" or "down". */
const char *verify_phase_name(uint32_t phase);

#endif
