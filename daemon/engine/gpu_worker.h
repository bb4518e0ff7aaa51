/*
 * Which devices are on GPUs, whose runs the GPU worker makes.
 */
#ifndef BLINK_ENGINE_GPU_WORKER_H
#define BLINK_ENGINE_GPU_WORKER_H

#include "engine/engine.h"

/* Whether a topology node is a device on a GPU. */
bool engine_node_is_gpu(const engine_t *engine, uint32_t node);

/* The executor for devices on this node. Thread-safe. */
exec_t *engine_exec(const engine_t *engine, uint32_t node);

#endif
