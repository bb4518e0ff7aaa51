/* The GPUs: their names and numbers. */
#include "standin/standin.h"

#include <stdio.h>
#include <string.h>

enum { PCI_BUS_FIRST = 0x10 };

static bool is_device(CUdevice device)
{
    return device >= 0 && device < standin_settings()->gpu_count;
}

int standin_ordinal(int gpu)
{
    const standin_settings_t *settings = standin_settings();
    for (int i = 0; i < settings->gpu_count; i++) {
        if (settings->gpus[i] == gpu)
            return i;
    }
    return -1;
}

bool standin_is_peer(CUdevice ordinal, CUdevice other)
{
    const standin_settings_t *settings = standin_settings();
    return ordinal == other || (settings->peers[settings->gpus[ordinal]] >> settings->gpus[other] & 1);
}

CUresult cuDeviceGetCount(int *count)
{
    STANDIN_ENTER(cuDeviceGetCount, DRIVER);
    *count = standin_settings()->gpu_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    STANDIN_ENTER(cuDeviceGet, DRIVER);
    if (!is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

/* Write a text that must fit. */
static CUresult put_text(char *to, int bytes, const char *text)
{
    if (!to || bytes <= 0 || strlen(text) >= (size_t)bytes)
        return CUDA_ERROR_INVALID_VALUE;
    strcpy(to, text);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    STANDIN_ENTER(cuDeviceGetName, DRIVER);
    return is_device(device) ? put_text(name, bytes, "stand-in GPU (host memory)")
                             : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    STANDIN_ENTER(cuDeviceGetUuid, DRIVER);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    static const char beginning[sizeof(uuid->bytes)] =
        "stand-in GPU "; /* then zeros, the last of them the number */
    memcpy(uuid->bytes, beginning, sizeof(uuid->bytes));
    uuid->bytes[sizeof(uuid->bytes) - 1] = (char)standin_settings()->gpus[device];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    STANDIN_ENTER(cuDeviceGetPCIBusId, DRIVER);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    char id[32];
    snprintf(id, sizeof(id), "0000:%02X:00.0", (unsigned)(PCI_BUS_FIRST + standin_settings()->gpus[device]));
    return put_text(text, bytes, id);
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    STANDIN_ENTER(cuDeviceTotalMem, DRIVER);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = standin_settings()->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    STANDIN_ENTER(cuDeviceCanAccessPeer, DRIVER);
    if (!is_device(device) || !is_device(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && standin_is_peer(device, peer);
    return CUDA_SUCCESS;
}

static int attribute_value(CUdevice_attribute attribute, CUdevice device)
{
    if (attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED) /* which the headers of CUDA 12.0 do not list */
        return standin_settings()->has_mps;
#if CUDA_API_HAS_MULTICAST
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
        return standin_settings()->switch_objects > 0;
#endif
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        return STANDIN_BLOCK_THREADS_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return 1000000; /* kHz */
    /* As fast as memory of the host is, or less: what is waited for on this "GPU" takes as long as it does.
     */
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 500000; /* kHz, at both edges of which … */
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 64; /* … so many bits are moved: 8 GB/s */
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return (int)standin_settings()->multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return STANDIN_BLOCKS_PER_MULTIPROCESSOR;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return STANDIN_BLOCKS_PER_MULTIPROCESSOR * STANDIN_BLOCK_THREADS_MAX;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return standin_settings()->capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return standin_settings()->capability % 10;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return PCI_BUS_FIRST + standin_settings()->gpus[device];
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
        return standin_settings()->domains;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
        return standin_settings()->orders_writes;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        return !standin_settings()->has_no_dma_bufs;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        return standin_settings()->is_exclusive ? CU_COMPUTEMODE_EXCLUSIVE_PROCESS : CU_COMPUTEMODE_DEFAULT;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        return !standin_settings()->has_short_words;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    STANDIN_ENTER(cuDeviceGetAttribute, DRIVER);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || (int)attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute_value(attribute, device);
    return CUDA_SUCCESS;
}
