/* One rank of a communicator at a fake daemon, and what its calls submit. */
#ifndef SCENE_H
#define SCENE_H

#include "fake_daemon.h"

#define REGION_BYTES 8192u
#define RANKS        4
#define RANK         1

typedef struct scene {
    fake_t fake;
    blink_context_t *context;
    blink_comm_t *comm; /* rank RANK of RANKS */
    float *memory;      /* of REGION_BYTES, registered */
    blink_op_t *op;
} scene_t;

static void begin(scene_t *scene)
{
    void *memory;
    scene->context = open_context(&scene->fake);
    scene->comm = join(scene->context, RANKS, RANK);
    assert_int_equal(blink_mem_alloc(scene->context, REGION_BYTES, &memory), BLINK_OK);
    scene->memory = memory;
}

static void finish(scene_t *scene)
{
    blink_close(scene->context);
    fake_stop(&scene->fake);
}

/* The last submission. */
static const ring_sqe_t *seen(scene_t *scene)
{
    return fake_seen(&scene->fake, scene->fake.taken - 1);
}

static const ring_sqe_t *submitted(scene_t *scene, blink_result_t result)
{
    if (result != BLINK_OK)
        fail_msg("%s", blink_last_error());
    assert_int_equal(blink_wait(scene->op), BLINK_OK);
    return seen(scene);
}

#endif
