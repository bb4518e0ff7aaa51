/* Slots, where ops lie in them, and checksums over them. */
#include "memory/slots.h"

#include "check/pattern.h"
#include "library.h"

#include <stdlib.h>
#include <string.h>

#define POISON      0xa5
#define GUARD_BYTES 4096u
#define ALIGN_BYTES 4096u

static blink_result_t make_host(perf_slots_t *slots)
{
    slots->send = aligned_alloc(ALIGN_BYTES, slots->total_bytes);
    slots->recv = aligned_alloc(ALIGN_BYTES, slots->total_bytes);
    if (!slots->send || !slots->recv)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for buffers of %zu bytes", slots->total_bytes);
    return BLINK_OK;
}

static blink_result_t make_registered(perf_slots_t *slots)
{
    void *send, *recv;
    LIBRARY_TRY(blink_mem_alloc(slots->source.context, slots->total_bytes, &send));
    LIBRARY_TRY(blink_mem_alloc(slots->source.context, slots->total_bytes, &recv));
    slots->send = send;
    slots->recv = recv;
    return BLINK_OK;
}

static blink_result_t make_device(perf_slots_t *slots)
{
    const perf_memory_source_t *source = &slots->source;
    void *send, *recv;
    BLINK_TRY(make_host(slots));
    LIBRARY_TRY(blink_mem_promise_release(source->context)); /* perf_slots_release() */
    BLINK_TRY(perf_gpu_alloc(source->gpu, source->kind, slots->total_bytes, &send));
    slots->gpu_send = send;
    BLINK_TRY(perf_gpu_alloc(source->gpu, source->kind, slots->total_bytes, &recv));
    slots->gpu_recv = recv;
    return BLINK_OK;
}

static size_t slot_bytes_of(size_t bytes)
{
    return (bytes + GUARD_BYTES + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

size_t perf_slots_bytes(size_t bytes, uint32_t count)
{
    size_t total;
    return __builtin_mul_overflow(slot_bytes_of(bytes), 2 * (size_t)count, &total) ? SIZE_MAX : total;
}

blink_result_t perf_slots_create(const perf_memory_source_t *source, size_t bytes, uint32_t count,
                                 perf_slots_t *slots)
{
    static blink_result_t (*const make[])(perf_slots_t * slots) = {
        [PERF_MEMORY_REGISTERED] = make_registered,
        [PERF_MEMORY_ORDINARY] = make_host,
        [PERF_MEMORY_DEVICE] = make_device,
    };
    size_t slot_bytes = slot_bytes_of(bytes);
    *slots = (perf_slots_t){.source = *source, .slot_bytes = slot_bytes};
    if (__builtin_mul_overflow(slot_bytes, count, &slots->total_bytes))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u buffers of %zu bytes", count, bytes);
    return make[source->memory](slots);
}

void perf_slots_release(const perf_slots_t *slots)
{
    unsigned char *const areas[] = {slots->gpu_send, slots->gpu_recv};
    for (int i = 0; i < 2; i++)
        if (areas[i]) /* a daemon that is lost has none of it */
            (void)blink_mem_release(slots->source.context, areas[i]);
}

void perf_slots_destroy(perf_slots_t *slots)
{
    const perf_memory_source_t *source = &slots->source;
    if (source->memory == PERF_MEMORY_DEVICE) {
        perf_gpu_free(source->gpu, source->kind, slots->total_bytes, slots->gpu_send);
        perf_gpu_free(source->gpu, source->kind, slots->total_bytes, slots->gpu_recv);
    }
    if (source->memory != PERF_MEMORY_REGISTERED) {
        free(slots->send);
        free(slots->recv);
    }
    *slots = (perf_slots_t){0};
}

void *perf_slots_address(const perf_slots_t *slots, const unsigned char *seen)
{
    if (!seen)
        return NULL;
    bool sent = seen >= slots->send && seen < slots->send + slots->total_bytes;
    size_t at = (size_t)(seen - (sent ? slots->send : slots->recv));
    if (slots->source.memory == PERF_MEMORY_DEVICE)
        return (sent ? slots->gpu_send : slots->gpu_recv) + at;
    return (sent ? slots->send : slots->recv) + at;
}

blink_result_t perf_slots_give(const perf_slots_t *slots, const perf_place_t *place)
{
    unsigned char *const areas[] = {place->send_area, place->recv_area};
    for (int i = 0; i < 2 && slots->source.memory == PERF_MEMORY_DEVICE; i++)
        if (areas[i])
            BLINK_TRY(perf_gpu_write(slots->source.gpu, perf_slots_address(slots, areas[i]), areas[i],
                                     place->area_bytes));
    return BLINK_OK;
}

blink_result_t perf_slots_take(const perf_slots_t *slots, const perf_place_t *place)
{
    unsigned char *const areas[] = {place->send_area, place->recv_area};
    for (int i = 0; i < 2 && slots->source.memory == PERF_MEMORY_DEVICE; i++)
        if (areas[i])
            BLINK_TRY(perf_gpu_read(slots->source.gpu, areas[i], perf_slots_address(slots, areas[i]),
                                    place->area_bytes));
    return BLINK_OK;
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
