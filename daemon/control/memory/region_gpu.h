/*
 * Registrations that may involve GPUs: they wait for the GPU worker, which comes and goes.
 */
#ifndef BLINK_CONTROL_REGION_GPU_H
#define BLINK_CONTROL_REGION_GPU_H

#include "blink.pb-c.h"
#include "control/clients/client.h"

/* Serve the requests; they are answered now or later, failures too. Descriptors stay the caller's. */
void region_register_host(client_t *client, uint64_t request, const Blinkwire__MemRegister *message, int fd);
void region_register_gpu(client_t *client, uint64_t request, const Blinkwire__GpuMemRegister *message,
                         const int *fds, uint32_t fd_count);
void region_stage(client_t *client, uint64_t request, const Blinkwire__StagingCreate *message);

#endif
