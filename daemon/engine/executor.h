/*
 * Which executor runs a program, and the GPU worker.
 */
#ifndef BLINK_ENGINE_EXECUTOR_H
#define BLINK_ENGINE_EXECUTOR_H

#include "engine/plans.h"

/* Errors: as exec_instance_create() and cuda_instance_create(). */
blink_result_t instance_create(engine_t *engine, const lane_program_t *program, const uint32_t *nodes,
                               comm_instance_t *instance);

void instance_destroy(comm_instance_t *instance);

blink_result_t instance_start(comm_instance_t *instance, const exec_run_t *run, bool *ended);

void instance_abort(comm_instance_t *instance, blink_result_t reason);

/* As cuda_instance_transport(). */
const char *instance_transport(const comm_instance_t *instance);

/* Whether a topology node is a device on a GPU. */
bool engine_node_is_gpu(const engine_t *engine, uint32_t node);

/* Whether these devices are on GPUs that cannot reach each other's memory. Thread-safe. */
bool engine_nodes_need_host(const engine_t *engine, const uint32_t *nodes, uint32_t rank_count);

/* Look after the GPU worker; true if it had something. */
bool engine_poll_gpus(engine_t *engine);

#endif
