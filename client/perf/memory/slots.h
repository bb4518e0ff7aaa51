/*
 * The buffers of a rank: one slot, of an input and an output, for each op that is under way at a time. Behind
 * every buffer is a guard, so that bytes which an op must not write stand around every output.
 *
 * Inputs are made, and outputs looked at, in memory of the host. What ops work on is that memory, or a GPU's,
 * to and from which it is copied.
 */
#ifndef PERF_SLOTS_H
#define PERF_SLOTS_H

#include "check/facts.h"
#include "memory/gpu.h"

#include "error.h"

#include "blink/blink.h"

/* What slots are made of. */
typedef struct perf_memory_source {
    perf_memory_t memory;
    blink_context_t *context; /* of registered memory */
    perf_gpu_t *gpu;          /* of device memory */
    perf_gpu_memory_t kind;   /* likewise */
} perf_memory_source_t;

typedef struct perf_slots {
    perf_memory_source_t source;
    unsigned char *send, *recv;         /* in the host's memory */
    unsigned char *gpu_send, *gpu_recv; /* of device memory: what ops work on */
    size_t slot_bytes, total_bytes;
} perf_slots_t;

/** Bytes of the inputs and outputs of `count` slots for payloads of up to `bytes`; SIZE_MAX if they are more.
 */
size_t perf_slots_bytes(size_t bytes, uint32_t count);

/** Slots for payloads of up to `bytes`. Errors: NO_MEMORY, and those of blink_mem_alloc() and
 * perf_gpu_alloc(); what there is must be destroyed then, too. Registered memory is freed by blink_close(),
 * the other kinds by perf_slots_destroy(), after that, or after perf_slots_release() where the context stays.
 */
blink_result_t perf_slots_create(const perf_memory_source_t *source, size_t bytes, uint32_t count,
                                 perf_slots_t *slots);
void perf_slots_release(const perf_slots_t *slots);
void perf_slots_destroy(perf_slots_t *slots);

/* The buffers of one op, as the host sees them. */
typedef struct perf_place {
    unsigned char *send;                  /* NULL: this rank has no input */
    unsigned char *recv;                  /* where it has no output, too: nothing may arrive there */
    uint64_t recv_bytes;                  /* of the output */
    unsigned char *send_area, *recv_area; /* with guards; send_area is NULL in place */
    uint64_t area_bytes;
} perf_place_t;

perf_place_t perf_slots_place(const perf_slots_t *slots, uint32_t index, const perf_shape_t *shape,
                              uint32_t element_bytes, bool in_place);

/** Where an op finds what the host sees there; NULL stays NULL. */
void *perf_slots_address(const perf_slots_t *slots, const unsigned char *seen);

/** Hand what the host has written to both areas over to ops, and fetch what ops have made of them. */
blink_result_t perf_slots_give(const perf_slots_t *slots, const perf_place_t *place);
blink_result_t perf_slots_take(const perf_slots_t *slots, const perf_place_t *place);

/** Fill both areas with what no op gives. */
void perf_place_poison(const perf_place_t *place);

/** A checksum of everything but the output: it must be the same after the op. */
uint64_t perf_place_untouched(const perf_place_t *place);

/** A checksum of the output. */
uint64_t perf_place_output(const perf_place_t *place);

#endif
