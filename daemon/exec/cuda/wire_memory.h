/*
 * Host memory that the network and GPUs share: landings, send slots, and the semaphores of wires. One stretch
 * of address space for the life of the daemon, which every GPU worker maps; the worker pins a segment of it
 * before the first run that uses the segment. Thread-safe.
 */
#ifndef BLINK_EXEC_CUDA_WIRE_MEMORY_H
#define BLINK_EXEC_CUDA_WIRE_MEMORY_H

#include "base/pages.h"
#include "error.h"

typedef struct wire_memory wire_memory_t;

/* Errors: NO_MEMORY, SYSTEM. */
blink_result_t wire_memory_create(wire_memory_t **memory);

/* All has been given back. NULL is ignored. */
void wire_memory_destroy(wire_memory_t *memory);

/* For workers: the memfd, of GPU_WIRE_BYTES. */
int wire_memory_fd(const wire_memory_t *memory);

/* Whole pages, with anything in them. NULL: there is no more. */
void *wire_memory_take(wire_memory_t *memory, uint64_t bytes);
void wire_memory_give(wire_memory_t *memory, void *address, uint64_t bytes);

/* Where in the stretch it is; UINT64_MAX: not in it. */
uint64_t wire_memory_offset(const wire_memory_t *memory, const void *address);

/* The memory for what takes pages. */
pages_source_t wire_memory_pages(wire_memory_t *memory);

#endif
