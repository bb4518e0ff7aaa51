/* A GPU in the driver's types, for the files that call the driver. Visits are gpu.h's. */
#ifndef CLIENT_GPU_DEVICE_H
#define CLIENT_GPU_DEVICE_H

#include "gpu/gpu.h"

#include "base/cuda_driver.h"

#define GPU_UUID_TEXT_BYTES 41u /* "GPU-" and 36 characters */

struct gpu {
    struct gpu *next;
    const cuda_driver_t *driver;
    uint8_t uuid[GPU_UUID_BYTES];
    CUdevice device;
    CUcontext primary; /* retained */
    CUstream copies;   /* waits for no other */
};

void gpu_uuid_text(const uint8_t uuid[GPU_UUID_BYTES], char text[GPU_UUID_TEXT_BYTES]);

/** The UUID of a device, as text; "?" if the driver does not say. */
void gpu_device_text(const cuda_driver_t *driver, CUdevice device, char text[GPU_UUID_TEXT_BYTES]);

#endif
