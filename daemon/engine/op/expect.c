#include "engine/op/expect.h"

#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "plan/model.h"

/* Payload × ranks that memory moves in a direct exchange, where no links are emulated (25,000 to 46,000 were
 * measured). With too little, waiters of middling ops sleep, and so does the engine: 1 MiB on 4 ranks took
 * 144 µs at 2,000 and takes 86. */
#define HOST_BYTES_PER_US 40000.0

static double memory_us(const comm_op_t *op)
{
    return (double)op->shape.payload_bytes * op->entry_count / HOST_BYTES_PER_US;
}

double expect_us(const comm_op_t *op)
{
    double scale = op->comm->engine->config.settings->pace_scale;
    bool is_paced = scale > 0;
    if (!op->comm->on_gpus && !is_paced && !remote_crosses(op))
        return memory_us(op);
    double piece_us = plan_predicted_us(op->program, op->shape.payload_bytes / op->pieces);
    if (!op->comm->on_gpus) /* emulated links are slower, but nothing is launched */
        piece_us = (piece_us - model_launch_us(op->program->protocol)) / (is_paced ? scale : 1);
    return piece_us * (double)op->pieces;
}

bool expect_long(const comm_op_t *op)
{
    const cached_program_t *program = op->program;
    bool tells = op->comm->on_gpus && program->took_bytes <= op->shape.payload_bytes;
    return op->predicted_us > EXPECT_LONG_US || (tells && (double)program->took_us > EXPECT_LONG_US);
}
