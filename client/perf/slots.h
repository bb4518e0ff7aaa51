/*
 * The buffers of a rank: one slot, of an input and an output, for each op that is under way at a time. Behind every buffer is
 * a guard, so that bytes which an op must not write stand around every output.
 */
#ifndef PERF_SLOTS_H
#define PERF_SLOTS_H

#include "facts.h"

#include "error.h"

#include "blink/blink.h"

typedef struct perf_slots {
    unsigned char *send, *recv;
    size_t slot_bytes;
    bool registered;
} perf_slots_t;

/** Slots for payloads of up to `bytes`: of the daemon's memory, or of ordinary memory. Errors: NO_MEMORY, and those of
 * blink_mem_alloc(). The daemon's is freed by blink_close(), the other by perf_slots_destroy(), after that. */
blink_result_t perf_slots_create(blink_context_t *context, bool registered, size_t bytes, uint32_t count,
                                 perf_slots_t *slots);
void perf_slots_destroy(perf_slots_t *slots);

/* The buffers of one op. */
typedef struct perf_place {
    unsigned char *send;                  /* NULL: this rank has no input */
    unsigned char *recv;                  /* where it has no output, too: nothing may arrive there */
    uint64_t recv_bytes;                  /* of the output */
    unsigned char *send_area, *recv_area; /* with guards; send_area is NULL in place */
    uint64_t area_bytes;
} perf_place_t;

perf_place_t perf_slots_place(const perf_slots_t *slots, uint32_t index, const perf_shape_t *shape,
                              uint32_t element_bytes, bool in_place);

/** Fill both areas with what no op gives. */
void perf_place_poison(const perf_place_t *place);

/** A checksum of everything but the output: it must be the same after the op. */
uint64_t perf_place_untouched(const perf_place_t *place);

/** A checksum of the output. */
uint64_t perf_place_output(const perf_place_t *place);

#endif
