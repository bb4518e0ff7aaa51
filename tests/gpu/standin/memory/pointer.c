/* What an address means. */
#include "standin/memory/memory.h"

#include <string.h>
#include <unistd.h>

/* CUDA says of none of the data how large it is but by its type: a number of 32 bits, */
static void put_number(void *data, uint32_t value)
{
    memcpy(data, &value, sizeof(value));
}

/* or one of 64, or an address. */
static void put_wide(void *data, uint64_t value)
{
    memcpy(data, &value, sizeof(value));
}

/* A bool is a byte. */
static void put_bool(void *data, bool value)
{
    memcpy(data, &value, sizeof(value));
}

static CUresult put_attribute(const range_t *range, CUpointer_attribute attribute, CUdeviceptr address,
                              void *data)
{
    const memory_t *memory = range->memory;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put_wide(data, (uintptr_t)range->context);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_number(data, memory ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (standin_context() && !range_is_reached(standin_context()->ordinal, range))
            return CUDA_ERROR_INVALID_VALUE;
        put_wide(data, address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (memory)
            return CUDA_ERROR_INVALID_VALUE;
        put_wide(data, address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put_wide(data, standin_settings()->has_no_ids ? 0 : range->number);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_bool(data, false);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_number(data, (uint32_t)(memory ? memory_ordinal(memory) : range->context->ordinal));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put_bool(data, range->kind == RANGE_LEGACY);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put_wide(data, range->address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put_wide(data, range->bytes);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_bool(data, true);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put_wide(data, memory ? memory->header.handle_types : 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put_wide(data, memory ? (uintptr_t)memory->pool : 0);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* "querying its pointer attributes results in undefined behavior", cuMemFreeAsync() says. With the lock held.
 */
static const range_t *find_to_ask(CUdeviceptr address)
{
    if (!standin_settings()->faults || !range_is_freed((uintptr_t)address))
        return range_find((uintptr_t)address);
    standin_fault("process %d asks about memory at %#llx that cuMemFreeAsync() has freed", (int)getpid(),
                  address);
    return NULL;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    STANDIN_ENTER(cuPointerGetAttribute, HEALTH);
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    const range_t *range = find_to_ask(address);
    CUresult result = range ? put_attribute(range, attribute, address, data) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&memory_lock);
    return result;
}

/* What the call for several says where that for one fails. */
static void put_default(CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_number(data, (uint32_t)CU_DEVICE_INVALID);
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_number(data, 0);
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_bool(data, false);
        break;
    default:
        put_wide(data, 0);
    }
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr address)
{
    STANDIN_ENTER(cuPointerGetAttributes, HEALTH);
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    const range_t *range = find_to_ask(address);
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < count && result != CUDA_ERROR_NOT_SUPPORTED; i++) {
        result = range ? put_attribute(range, attributes[i], address, data[i]) : CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_ERROR_INVALID_VALUE)
            put_default(attributes[i], data[i]);
    }
    pthread_mutex_unlock(&memory_lock);
    return result == CUDA_ERROR_NOT_SUPPORTED ? result : CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    STANDIN_ENTER(cuMemGetAddressRange, CONTEXT);
    pthread_mutex_lock(&memory_lock);
    const range_t *range = range_find((uintptr_t)address);
    if (range && base)
        *base = range->address;
    if (range && bytes)
        *bytes = range->bytes;
    pthread_mutex_unlock(&memory_lock);
    return range ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
