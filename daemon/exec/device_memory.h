/*
 * Memory of a GPU that devices of the network may write to: a stretch of it that its GPU worker has exported
 * as a dma-buf, of which landings take parts. Whoever has taken a part holds the stretch, also when the
 * worker has ended. Thread-safe.
 */
#ifndef BLINK_EXEC_DEVICE_MEMORY_H
#define BLINK_EXEC_DEVICE_MEMORY_H

#include "error.h"

#include <stdbool.h>

typedef struct device_memory device_memory_t;

/* With one holder. The descriptor is taken over, also on failure; `address` is where GPUs find its first
 * byte. Errors: NO_MEMORY. */
blink_result_t device_memory_create(int dma_buf, uint64_t address, uint64_t bytes, device_memory_t **memory);

/* Hold it once less; the last one closes it. NULL is ignored. */
void device_memory_put(device_memory_t *memory);

/* Take whole pages, with anything in them, and hold it. False: there is no room. */
bool device_memory_take(device_memory_t *memory, uint64_t bytes, uint64_t *offset);
/* Give as many bytes back, and hold it once less. */
void device_memory_give(device_memory_t *memory, uint64_t offset, uint64_t bytes);

int device_memory_fd(const device_memory_t *memory);
uint64_t device_memory_address(const device_memory_t *memory);

#endif
