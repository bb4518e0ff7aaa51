/*
 * Runs of instances, which wait for their grant, are sent, and end.
 */
#ifndef BLINK_EXEC_CUDA_RUN_H
#define BLINK_EXEC_CUDA_RUN_H

#include "exec/cuda/instance.h"

/* The executor's side of exec_calls_t. */
blink_result_t cuda_instance_start(exec_instance_t *instance, uint64_t block_bytes, bool *under_way);
void cuda_instance_abort(exec_instance_t *instance, blink_result_t reason);
const char *cuda_instance_transport(const exec_instance_t *instance);

/* The request of a run has been completed well, and freed, but lanes have left that have not ended. */
void cuda_instance_left(cuda_instance_t *instance);

/* Of an instance with wires: tell the network what is new, and go on with a run that waited for it; and
 * whether there is any of that to do. */
void cuda_instance_look(cuda_instance_t *instance);
bool cuda_instance_has_news(cuda_instance_t *instance);

/* The run is over on the GPUs: exec_poll() will tell so. Its request has been freed. */
void cuda_instance_end(cuda_instance_t *instance, blink_result_t result, const char *text);

#endif
