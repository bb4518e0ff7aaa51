/* Making GPU memory into what another process can import, in the words of blink.proto (GpuExtent). */
#ifndef CLIENT_GPU_EXPORT_H
#define CLIENT_GPU_EXPORT_H

#include "gpu/pointer.h"

#include "blink.pb-c.h"

#define GPU_EXTENTS_MAX 64u /* of one message: FRAME_FDS_MAX */

/** Extents as they are sent. Points into itself: not to be copied. */
typedef struct gpu_export {
    Blinkwire__GpuExtent extents[GPU_EXTENTS_MAX];
    Blinkwire__GpuExtent *list[GPU_EXTENTS_MAX];
    uint32_t count;
    int fds[GPU_EXTENTS_MAX];
    uint32_t fd_count;
    uint8_t handle[64]; /* of the only extent, if it is no mapping */
} gpu_export_t;

/**
 * Export memory of GPU_EXTENTS_MAX extents at most, by the first way that works: descriptors of what is
 * mapped, the descriptor of a pool, a CUDA IPC handle. Visiting the GPU.
 * @param made  gpu_export_release() it if it was possible.
 */
bool gpu_export(gpu_t *gpu, const gpu_extent_t *extents, uint32_t count, gpu_export_t *made);

/** Close the descriptors. */
void gpu_export_release(gpu_export_t *made);

#endif
