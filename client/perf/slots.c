/* Slots, where ops lie in them, and checksums over them. */
#include "slots.h"

#include "library.h"
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

#define POISON      0xa5
#define GUARD_BYTES 4096u
#define ALIGN_BYTES 4096u

blink_result_t perf_slots_create(blink_context_t *context, bool registered, size_t bytes, uint32_t count,
                                 perf_slots_t *slots)
{
    size_t slot_bytes = (bytes + GUARD_BYTES + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES, total;
    *slots = (perf_slots_t){.slot_bytes = slot_bytes, .registered = registered};
    if (__builtin_mul_overflow(slot_bytes, count, &total))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u buffers of %zu bytes", count, bytes);
    if (registered) {
        void *send, *recv;
        LIBRARY_TRY(blink_mem_alloc(context, total, &send));
        LIBRARY_TRY(blink_mem_alloc(context, total, &recv));
        slots->send = send;
        slots->recv = recv;
        return BLINK_OK;
    }
    slots->send = aligned_alloc(ALIGN_BYTES, total);
    slots->recv = aligned_alloc(ALIGN_BYTES, total);
    if (!slots->send || !slots->recv)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u buffers of %zu bytes", count, bytes);
    return BLINK_OK;
}

void perf_slots_destroy(perf_slots_t *slots)
{
    if (!slots->registered) {
        free(slots->send);
        free(slots->recv);
    }
    *slots = (perf_slots_t){0};
}

perf_place_t perf_slots_place(const perf_slots_t *slots, uint32_t index, const perf_shape_t *shape,
                              uint32_t element_bytes, bool in_place)
{
    uint64_t input_count = perf_input_count(shape), output_count = perf_output_count(shape);
    uint64_t payload_count = perf_collective_blocks(shape->collective, shape->rank_count) * shape->count;
    bool shared = in_place && input_count > 0 && output_count > 0;
    unsigned char *send = slots->send + index * slots->slot_bytes;
    unsigned char *recv = slots->recv + index * slots->slot_bytes;
    perf_place_t place = {.send = send,
                          .recv = recv,
                          .recv_bytes = output_count * element_bytes,
                          .send_area = send,
                          .recv_area = recv,
                          .area_bytes = payload_count * element_bytes + GUARD_BYTES};
    if (shared) {
        place.send = recv + perf_in_place_input(shape) * element_bytes;
        place.recv = recv + perf_in_place_output(shape) * element_bytes;
        place.send_area = NULL;
    }
    if (input_count == 0)
        place.send = NULL;
    return place;
}

void perf_place_poison(const perf_place_t *place)
{
    if (place->send_area)
        memset(place->send_area, POISON, place->area_bytes);
    memset(place->recv_area, POISON, place->area_bytes);
}

/* Order matters: moved bytes change the sum. */
static uint64_t add(uint64_t sum, const unsigned char *memory, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, memory + at, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 32; /* or the first bits of words would not reach the last of the sum */
    }
    return sum;
}

uint64_t perf_place_untouched(const perf_place_t *place)
{
    uint64_t before = (uint64_t)(place->recv - place->recv_area), after = before + place->recv_bytes;
    uint64_t sum = add(1, place->recv_area, before);
    sum = add(sum, place->recv_area + after, place->area_bytes - after);
    return place->send_area ? add(sum, place->send_area, place->area_bytes) : sum;
}

uint64_t perf_place_output(const perf_place_t *place)
{
    return perf_mix(add(1, place->recv, place->recv_bytes));
}
